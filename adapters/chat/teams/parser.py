"""Read an activity from a body, and from it the line that a person typed or pressed, who they are, and the thread."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from adapters.chat.teams.activity import (
    TARGETED,
    Account,
    Activity,
    Place,
    mapping_of,
    split_thread,
    text_of,
)
from adapters.chat.teams.conversations import Conversation
from adapters.chat.teams.elements import LINE_MOST, OURS, pressed_line
from bot.errors import WrongInput
from bot.model.request import Belonging, Request, User

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
        raise WrongInput("The body is no JSON.") from None
    if _is_deeper(document, _DEEP):
        raise WrongInput(f"The body is nested more than {_DEEP} deep.")
    try:
        activity = _activity(document)
    except (TypeError, AttributeError):  # of a part that is a list, a number, a text
        raise WrongInput("The body is no activity.") from None
    _check(activity)
    return activity


def _check(activity: Activity) -> None:
    """Raise `WrongInput` for an activity that cannot be answered or remembered."""
    if not (activity.type and activity.reference.conversation.id and activity.recipient.id):
        raise WrongInput("The activity lacks its type, conversation or recipient.")
    if not activity.sender.id:
        raise WrongInput("The activity names no sender.")
    if not _CHANNEL.fullmatch(activity.channel_id):
        raise WrongInput("The activity's channelId is no name.")
    try:
        json.dumps(
            [activity.document(), activity.reference.document()], ensure_ascii=False
        ).encode()
    except UnicodeEncodeError:  # neither an SDK nor a database takes it
        raise WrongInput("A name or an id of the activity holds half a character.") from None


def _activity(body: Mapping[str, Any]) -> Activity:
    """Return the activity of a document; raise `TypeError` or `AttributeError` for anything else."""
    tenants, recipient = tenants_of(body), mapping_of(body, "recipient")
    bot = Account.of(recipient)
    mentioned = _mentions(body.get("entities"))
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
        mentions=frozenset(text for text, person in mentioned if person == bot.id),
        people=tuple(
            (text, person)
            for text, person in mentioned
            if person != bot.id and _ID.fullmatch(person)
        ),
        members_added=_members(body.get("membersAdded")),
        members_removed=_members(body.get("membersRemoved")),
        channel_type=_channel_type(body.get("channelData")),
        tenants=tenants,
        targeted=recipient.get(TARGETED) is True,
    )


def _members(listed: object) -> frozenset[str]:
    return (
        frozenset(text_of(member, "id") for member in listed)
        if isinstance(listed, list)
        else frozenset()
    )


def _channel_type(data: object) -> str:
    channel = data.get("channel") if isinstance(data, Mapping) else None
    return str(channel.get("type") or "").lower() if isinstance(channel, Mapping) else ""


def _mentions(entities: object) -> list[tuple[str, str]]:
    """Return the texts by which a message mentions somebody, each with whom."""
    mentions = []
    for entity in entities[:_ENTITIES_MOST] if isinstance(entities, list) else []:
        mentioned = entity.get("mentioned") if isinstance(entity, Mapping) else None
        if isinstance(mentioned, Mapping):
            mentions.append(
                (
                    str(entity.get("text") or f"<at>{mentioned.get('name')}</at>"),
                    str(mentioned.get("id") or ""),
                )
            )
    return mentions


def tenants_of(body: Mapping[str, Any]) -> frozenset[str]:
    """Return the tenants that an activity names.

    Its conversation's, its channel's and its sender's.
    """
    data = body.get("channelData")
    tenant = data.get("tenant") if isinstance(data, Mapping) else None
    places = (
        (tenant, "id"),
        (body.get("conversation"), "tenantId"),
        (body.get("from"), "tenantId"),
    )
    named = [place.get(key) for place, key in places if isinstance(place, Mapping)]
    return frozenset(str(name) for name in named if name)


def _is_deeper(document: object, most: int) -> bool:
    """Return whether a document is nested deeper, without recursion."""
    level: list[object] = [document]
    for _ in range(most + 1):
        level = [child for parent in level for child in _children(parent)]
        if not level:
            return False
    return True


def _children(parent: object) -> Iterable[object]:
    if isinstance(parent, dict):
        return parent.values()
    return parent if isinstance(parent, list) else ()


def request_of(
    activity: Activity, line: str, conversation: Conversation, belonging: Belonging, at: datetime
) -> Request:
    """Return the request of a person."""
    user = User(f"teams:{activity.sender.id}", activity.sender.name[:100])
    return Request(
        line, user, at, "teams", belonging, f"teams:{conversation.id}", thread_of(activity)
    )


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
    action = value.get("action") if isinstance(value, Mapping) else None
    data = action.get("data") if isinstance(action, Mapping) else None
    return data if isinstance(data, Mapping) else {}
