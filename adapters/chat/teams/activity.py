"""Hold activities, messages and references.

The part of the Bot Framework's protocol that is used here.

Whichever SDK carries an activity, the rest of the adapter knows these records alone. Source: "Bot
Framework -- Activity", github.com/microsoft/Agents, specs/activity/protocol-activity.md; read
2026-11-22.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

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
        named, kind, name = (text_of(document, key) for key in ("id", "conversationType", "name"))
        tenant = text_of(document, _TENANT) or text_of(document, "tenantId")
        is_group = document.get("isGroup")
        return Place(named, kind, tenant, name, is_group if isinstance(is_group, bool) else None)

    def document(self, tenant: str = "tenantId") -> dict[str, Any]:
        """Return it as Teams writes it; `tenant` spells the tenant's name."""
        made = {
            "isGroup": self.is_group,
            "conversationType": self.kind,
            "id": self.id,
            "name": self.name,
        }
        return _known(made | {tenant: self.tenant})


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
        accounts = {
            "user": self.user.document(),
            "bot": self.bot.document(),
            "conversation": self.conversation.document(_TENANT),
        }
        return _known(
            accounts
            | {"channelId": self.channel_id, "locale": self.locale, "serviceUrl": self.service_url}
        )

    @staticmethod
    def of(document: Mapping[str, Any]) -> Reference:
        """Return the reference of a stored document."""
        place = Place.of(mapping_of(document, "conversation"))
        bot, user = (Account.of(mapping_of(document, name)) for name in ("bot", "user"))
        service_url, channel_id, locale = (
            text_of(document, name) for name in ("serviceUrl", "channelId", "locale")
        )
        return Reference(place, service_url, bot, user, channel_id, locale)


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
        accounts = {"from": self.sender.document(), "recipient": self.recipient.document()}
        place = {
            "conversation": self.conversation.document(),
            "channelId": self.channel_id,
            "serviceUrl": self.service_url,
        }
        return _known({"type": self.type, "id": self.id, "name": self.name} | accounts | place)


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
        there, card = self.reference, self.message.card
        place = Place(self.conversation, there.conversation.kind, there.conversation.tenant)
        recipient = there.user.document() | ({TARGETED: True} if self.targeted else {})
        accounts = {
            "from": there.bot.document(),
            "recipient": recipient,
            "conversation": place.document(),
        }
        said = {
            "summary": self.message.summary,
            "attachments": [{"contentType": CARD, "content": card}] if card else None,
        }
        where = {
            "channelId": there.channel_id,
            "locale": there.locale,
            "serviceUrl": there.service_url,
        }
        under = {"id": self.replaces, "replyToId": self.reply_to}
        return _known({"type": "message" if card else "typing"} | said | accounts | where | under)


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
        raise TypeError(f"{name} is no text")
    return str(value)


def mapping_of(document: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Return a part of a document, an empty one where it has none.

    Raise `TypeError` for another thing.
    """
    value = document.get(name)
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise TypeError(f"{name} is no object")
    return value


def _known(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return a document without its empty parts."""
    return {name: value for name, value in document.items() if value not in ("", None, {})}
