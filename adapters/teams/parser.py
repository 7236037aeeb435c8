"""Read an activity from a body, and from it the line that a person typed or pressed, who they are, and the thread."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from botbuilder.schema import Activity

from adapters.teams.client import TARGETED, split_thread
from adapters.teams.conversations import Conversation
from adapters.teams.forms import LINE_MOST, pressed_line
from bot.errors import WrongInput
from bot.model.request import Belonging, Request, User

TENANTS = "tenants"
"""The mark under which an activity carries the tenants that its body names."""
TEXT_MOST = 20_000
"""Characters of a message that are read, markup and all; a line has `LINE_MOST`."""
_ENTITIES_MOST = 50
_DEEP = 32
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
        activity = Activity().deserialize(document)
        activity.additional_properties = {TARGETED: document["recipient"].get(TARGETED), TENANTS: tenants_of(document)}
    except Exception:  # msrest raises whatever a wrong type trips it into
        raise WrongInput("The body is no activity.") from None
    if not (activity.type and activity.conversation and activity.conversation.id and activity.recipient):
        raise WrongInput("The activity lacks its type, conversation or recipient.")
    if not (activity.from_property and activity.from_property.id):
        raise WrongInput("The activity names no sender.")
    activity.conversation.tenant_id = next(iter(sorted(activity.additional_properties[TENANTS])), None)
    return activity


def tenants_of(body: Mapping[str, Any]) -> frozenset[str]:
    """Return the tenants that an activity names: its conversation's, its channel's and its sender's."""
    data = body.get("channelData")
    tenant = data.get("tenant") if isinstance(data, Mapping) else None
    places = ((tenant, "id"), (body.get("conversation"), "tenantId"), (body.get("from"), "tenantId"))
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


def request_of(activity: Activity, line: str, conversation: Conversation, belonging: Belonging, at: datetime) -> Request:
    """Return the request of a person."""
    person = activity.from_property
    user = User(f"teams:{person.id}", (person.name or "")[:100])
    return Request(line, user, at, "teams", belonging, f"teams:{conversation.id}", thread_of(activity))


def thread_of(activity: Activity) -> str:
    """Return the message under which the activity was said, "" for none."""
    return split_thread(activity.conversation.id)[1] or (activity.reply_to_id or "")


def parse_line(activity: Activity) -> str:
    """Return the line of a message: a submitted form or button, or its words without the bot's name; `help` for none."""
    return pressed_line(activity.value) or words_of(activity)[:LINE_MOST] or "help"


def words_of(activity: Activity) -> str:
    """Return a message's words as typed: the bot's mention and Teams' markup taken off, other names kept."""
    text = str(activity.text or "")[:TEXT_MOST]
    for mention in _own_mentions(activity):
        text = text.replace(mention, " ")
    text = html.unescape(_DIGITS.sub(" ", _MARKUP.sub(" ", _TAG.sub("", text))))
    return " ".join(text.replace("\u200b", "").split())


def action_of(value: object) -> Mapping[str, Any]:
    """Return the data of a pressed `Action.Execute`, empty when it is none of ours."""
    action = value.get("action") if isinstance(value, Mapping) else None
    data = action.get("data") if isinstance(action, Mapping) else None
    return data if isinstance(data, Mapping) else {}


def _own_mentions(activity: Activity) -> set[str]:
    """Return the texts by which the message mentions the bot itself."""
    mentions = set()
    for entity in (activity.entities or [])[:_ENTITIES_MOST]:
        properties = entity.additional_properties or {}
        mentioned = properties.get("mentioned")
        if isinstance(mentioned, Mapping) and mentioned.get("id") == activity.recipient.id:
            mentions.add(str(properties.get("text") or f"<at>{mentioned.get('name')}</at>"))
    return mentions
