"""Hold activities, messages and references: the part of the Bot Framework's protocol that is used.

Whichever SDK carries an activity, the transport knows these records alone. They are read from a
body, and from one the line that a person typed or pressed, who they are, and the thread.

Source: "Bot Framework -- Activity", github.com/microsoft/Agents,
specs/activity/protocol-activity.md; read 2026-11-22.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from adapters.chat.teams.elements import LINE_MOST, OURS, pressed_line
from bot.errors import WrongInput, refuse

CARD = "application/vnd.microsoft.card.adaptive"
"""The type of a card, attached or answered; of a sentence that answers, `MESSAGE`."""
MESSAGE = "application/vnd.microsoft.activity.message"
TARGETED = "isTargeted"
"""The mark of a message that one person alone sees, on the way in and out: of its recipient."""
_TENANT = "tenantID"
"""As every version stores it, after botbuilder's spelling; Teams spells it `tenantId`."""


def split_thread(conversation: str) -> tuple[str, str]:
    """Return a conversation's id and the thread's first message, "" outside a thread."""
    base, _, message = conversation.partition(";messageid=")
    return base, message


@dataclass(frozen=True)
class Account:
    """Name a person or the bot; `entra` is their object id in Microsoft Entra."""

    id: str = ""
    name: str = ""
    entra: str = ""
    role: str = ""

    @staticmethod
    def of(document: Mapping[str, Any]) -> Account:
        """Return the account of a document, of Teams or stored."""
        return Account(*(text_of(document, name) for name in ("id", "name", "aadObjectId", "role")))

    def document(self) -> dict[str, Any]:
        """Return it as Teams writes it."""
        return _known(
            {"id": self.id, "name": self.name, "aadObjectId": self.entra, "role": self.role}
        )


@dataclass(frozen=True)
class Place:
    """Name a conversation: a personal chat, a group chat or a channel.

    A thread of a channel is part of its id.
    """

    id: str
    kind: str = ""
    """`personal`, `groupChat` or `channel`, "" where Teams does not say."""
    tenant: str = ""
    name: str = ""
    is_group: bool | None = None

    @staticmethod
    def of(document: Mapping[str, Any]) -> Place:
        """Return the conversation of a document, of Teams or stored."""
        is_group = document.get("isGroup")
        return Place(
            text_of(document, "id"),
            text_of(document, "conversationType"),
            text_of(document, _TENANT) or text_of(document, "tenantId"),
            text_of(document, "name"),
            is_group if isinstance(is_group, bool) else None,
        )

    def document(self, tenant: str = "tenantId") -> dict[str, Any]:
        """Return it as Teams writes it; `tenant` spells the tenant's name."""
        place = {"isGroup": self.is_group, "conversationType": self.kind, "id": self.id}
        return _known(place | {"name": self.name, tenant: self.tenant})


@dataclass(frozen=True)
class Reference:
    """Hold all that it takes to speak in a conversation later."""

    conversation: Place
    service_url: str
    bot: Account = Account()
    user: Account = Account()
    channel_id: str = ""
    locale: str = ""

    def document(self) -> dict[str, Any]:
        """Return it as every version since 0.1.0 stores it: as botbuilder wrote it."""
        return _known(
            {
                "user": self.user.document(),
                "bot": self.bot.document(),
                "conversation": self.conversation.document(_TENANT),
                "channelId": self.channel_id,
                "locale": self.locale,
                "serviceUrl": self.service_url,
            }
        )

    @staticmethod
    def of(document: Mapping[str, Any]) -> Reference:
        """Return the reference of a stored document."""
        return Reference(
            Place.of(mapping_of(document, "conversation")),
            text_of(document, "serviceUrl"),
            Account.of(mapping_of(document, "bot")),
            Account.of(mapping_of(document, "user")),
            text_of(document, "channelId"),
            text_of(document, "locale"),
        )


@dataclass(frozen=True)
class Activity:
    """Hold one request of Teams: a message, a press, an installation."""

    type: str
    conversation: Place
    sender: Account
    recipient: Account
    id: str = ""
    channel_id: str = ""
    service_url: str = ""
    locale: str = ""
    text: str = ""
    name: str = ""
    """Of an invoke: which one."""
    action: str = ""
    """Of an installation: `add` or `remove`."""
    reply_to: str = ""
    value: Any = None
    """Of a press or a form: its data."""
    mentions: frozenset[str] = frozenset()
    """The texts by which it mentions the bot itself."""
    people: tuple[tuple[str, str], ...] = ()
    """The texts by which it mentions others, each with the id of the person."""
    members_added: frozenset[str] = frozenset()
    members_removed: frozenset[str] = frozenset()
    channel_type: str = ""
    """`standard`, `private` or `shared`, "" where Teams does not say."""
    tenants: frozenset[str] = frozenset()
    """The tenants that the body names: the conversation's, the channel's and the sender's."""
    targeted: bool = False
    """Whether only its sender sees it, as with a slash command."""

    @property
    def reference(self) -> Reference:
        """Return where it was said, without the thread."""
        place = replace(self.conversation, id=split_thread(self.conversation.id)[0])
        return Reference(
            place, self.service_url, self.recipient, self.sender, self.channel_id, self.locale
        )

    def document(self) -> dict[str, Any]:
        """Return the part that an SDK's turn takes, as Teams writes it.

        Nobody's words and data are in it.
        """
        return _known(
            {
                "type": self.type,
                "id": self.id,
                "name": self.name,
                "from": self.sender.document(),
                "recipient": self.recipient.document(),
                "conversation": self.conversation.document(),
                "channelId": self.channel_id,
                "serviceUrl": self.service_url,
            }
        )


@dataclass(frozen=True)
class Message:
    """Hold one thing to say: a card, or the sign of typing where there is none."""

    summary: str = ""
    card: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Delivery:
    """Address a message.

    To a conversation, in it to a thread or in the place of a message, to everybody or one person.
    """

    message: Message
    reference: Reference
    conversation: str
    """The id with the thread, as the service takes it."""
    reply_to: str = ""
    replaces: str = ""
    targeted: bool = False

    def document(self) -> dict[str, Any]:
        """Return the activity as Teams takes it."""
        reference, card = self.reference, self.message.card
        place = reference.conversation
        return _known(
            {
                "type": "message" if card else "typing",
                "summary": self.message.summary,
                "attachments": [{"contentType": CARD, "content": card}] if card else None,
                "from": reference.bot.document(),
                "recipient": reference.user.document()
                | ({TARGETED: True} if self.targeted else {}),
                "conversation": Place(self.conversation, place.kind, place.tenant).document(),
                "channelId": reference.channel_id,
                "locale": reference.locale,
                "serviceUrl": reference.service_url,
                "id": self.replaces,
                "replyToId": self.reply_to,
            }
        )


@dataclass(frozen=True)
class InvokeAnswer:
    """Hold the answer to a press: the status and the body of the response to its request."""

    status: int
    body: object = None


Handle = Callable[[Activity], Awaitable[InvokeAnswer | None]]
"""Obey an activity; answer a press."""


def text_of(document: Mapping[str, Any], name: str) -> str:
    """Return a text of a document, "" where it has none; raise `TypeError` for another thing."""
    value = document.get(name)
    if value is None:
        return ""
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise TypeError(f"{name} is not text")
    return str(value)


def mapping_of(document: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Return a part of a document, an empty one where it has none.

    Raise `TypeError` for another thing.
    """
    value = document.get(name)
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise TypeError(f"{name} is not an object")
    return value


def _known(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return a document without its empty parts."""
    return {name: value for name, value in document.items() if value not in ("", None, {})}


TEXT_MOST = 20_000
"""Characters of a message that are read, markup and all; a line has `LINE_MOST`."""
_ENTITIES_MOST = 50
_DEEP = 32
_ID = re.compile(r"[\w:.@-]{1,200}")
_CHANNEL = re.compile(r"[\w.-]*")
_TAG = re.compile(r"</?at\b[^<>]*>", re.IGNORECASE)
_MARKUP = re.compile(r"<(/?)(p|div|br|span|strong|em|b|i|code|pre)\b[^<>]*>", re.IGNORECASE)
_DIGITS = re.compile(r"&#x?[0-9a-f]{9,}+;?", re.IGNORECASE)


def parse_activity(body: bytes) -> Activity:
    """Return the activity of a body; raise `WrongInput` for anything else."""
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):  # the decoder stops at a thousand levels
        raise WrongInput("The body is not JSON.") from None
    if _is_deeper(document, _DEEP):
        raise WrongInput(f"The body is nested more than {_DEEP} deep.")
    try:
        activity = _activity(document)
    except (TypeError, AttributeError):  # of a part that is a list, a number, a text
        raise WrongInput("The body is not an activity.") from None

    # It must be one that can be answered and remembered.
    answerable = activity.type and activity.reference.conversation.id and activity.recipient.id
    refuse(
        (not answerable, "The activity lacks its type, conversation or recipient."),
        (not activity.sender.id, "The activity names no sender."),
        (not _CHANNEL.fullmatch(activity.channel_id), "The activity's channelId is not a name."),
    )
    documents = [activity.document(), activity.reference.document()]
    try:
        json.dumps(documents, ensure_ascii=False).encode()
    except UnicodeEncodeError:  # neither an SDK nor a database takes it
        raise WrongInput("A name or an id of the activity holds half a character.") from None
    return activity


def _activity(body: Mapping[str, Any]) -> Activity:
    """Return the activity of a document; raise `TypeError` or `AttributeError` for others."""
    tenants, recipient = tenants_of(body), mapping_of(body, "recipient")
    bot = Account.of(recipient)

    # The texts by which a message mentions somebody, each with whom.
    listed = body.get("entities")
    entities = listed[:_ENTITIES_MOST] if isinstance(listed, list) else []
    mentions = [
        (
            str(entity.get("text") or f"<at>{mentioned.get('name')}</at>"),
            str(mentioned.get("id") or ""),
        )
        for entity in entities
        if isinstance(mentioned := _part_of(entity, "mentioned"), Mapping)
    ]

    return Activity(
        text_of(body, "type"),
        replace(Place.of(mapping_of(body, "conversation")), tenant=min(tenants, default="")),
        Account.of(mapping_of(body, "from")),
        bot,
        id=text_of(body, "id"),
        channel_id=text_of(body, "channelId"),
        service_url=text_of(body, "serviceUrl"),
        locale=text_of(body, "locale"),
        text=text_of(body, "text"),
        name=text_of(body, "name"),
        action=text_of(body, "action"),
        reply_to=text_of(body, "replyToId"),
        value=body.get("value"),
        mentions=frozenset(text for text, person in mentions if person == bot.id),
        people=tuple(
            (text, person)
            for text, person in mentions
            if person != bot.id and _ID.fullmatch(person)
        ),
        members_added=_members(body.get("membersAdded")),
        members_removed=_members(body.get("membersRemoved")),
        channel_type=str(_part_of(body, "channelData", "channel", "type") or "").lower(),
        tenants=tenants,
        targeted=recipient.get(TARGETED) is True,
    )


def _members(listed: object) -> frozenset[str]:
    members = listed if isinstance(listed, list) else ()
    return frozenset(text_of(member, "id") for member in members)


def _part_of(document: Any, *names: str) -> Any:
    """Return what lies under these names, None where something else stands in the way."""
    for name in names:
        document = document.get(name) if isinstance(document, Mapping) else None
    return document


def tenants_of(body: Mapping[str, Any]) -> frozenset[str]:
    """Return the tenants that an activity names.

    Its conversation's, its channel's and its sender's.
    """
    paths = ("channelData", "tenant", "id"), ("conversation", "tenantId"), ("from", "tenantId")
    ids = (_part_of(body, *path) for path in paths)
    return frozenset(str(tenant) for tenant in ids if tenant)


def _is_deeper(document: object, most: int) -> bool:
    """Return whether a document is nested deeper, without recursion."""
    level: list[Any] = [document]
    for _ in range(most + 1):
        parents = [parent for parent in level if isinstance(parent, dict | list)]
        level = [
            child
            for parent in parents
            for child in (parent.values() if isinstance(parent, dict) else parent)
        ]
        if not level:
            return False
    return True


def thread_of(activity: Activity) -> str:
    """Return the message under which the activity was said, "" for none."""
    return split_thread(activity.conversation.id)[1] or activity.reply_to


def parse_line(activity: Activity) -> str:
    """Return the line of a message.

    A submitted form or button, or its words without the bot's name; `help` for none.
    """
    return pressed_line(activity.value) or words_of(activity)[:LINE_MOST] or "help"


def words_of(activity: Activity) -> str:
    """Return a message's words as typed.

    The bot's mention and Teams' markup taken off, others as addresses of people.
    """
    text = activity.text[:TEXT_MOST]
    for mention in activity.mentions:
        text = text.replace(mention, " ")
    for mention, person in activity.people:
        text = text.replace(mention, f" {OURS}{person} ")
    text = html.unescape(_DIGITS.sub(" ", _MARKUP.sub(" ", _TAG.sub("", text))))
    return " ".join(text.replace("\u200b", "").split())


def action_of(value: object) -> Mapping[str, Any]:
    """Return the data of a pressed `Action.Execute`, empty when it is none of ours."""
    data = _part_of(value, "action", "data")
    return data if isinstance(data, Mapping) else {}
