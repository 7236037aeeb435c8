"""Read from an activity the line that a person typed or pressed, who they are, and the thread."""

from __future__ import annotations

import html
import re
from collections.abc import Mapping
from typing import Any

from botbuilder.schema import Activity

from adapters.teams.client import split_thread
from adapters.teams.conversations import Conversation
from adapters.teams.forms import LINE_MOST, pressed_line
from bot.model.request import LOCAL, Request, User
from bot.ports import Clock

_TAG = re.compile(r"</?at\b[^>]*>", re.IGNORECASE)
_MARKUP = re.compile(r"<(/?)(p|div|br|span|strong|em|b|i|code|pre)\b[^>]*>", re.IGNORECASE)


def request_of(activity: Activity, line: str, conversation: Conversation, clock: Clock) -> Request:
    """Return the request of a person."""
    person = activity.from_property
    user = User(f"teams:{person.id}", (person.name or "")[:100])
    return Request(line, user, clock(), "teams", LOCAL, f"teams:{conversation.id}", thread_of(activity))


def thread_of(activity: Activity) -> str:
    """Return the message under which the activity was said, "" for none."""
    return split_thread(activity.conversation.id)[1] or (activity.reply_to_id or "")


def parse_line(activity: Activity) -> str:
    """Return the line of a message: a submitted form or button, or its words without the bot's name; `help` for none."""
    return pressed_line(activity.value) or words_of(activity)[:LINE_MOST] or "help"


def words_of(activity: Activity) -> str:
    """Return a message's words as typed: the bot's mention and Teams' markup taken off, other names kept."""
    text = str(activity.text or "")
    for mention in _own_mentions(activity):
        text = text.replace(mention, " ")
    text = html.unescape(_MARKUP.sub(" ", _TAG.sub("", text)))
    return " ".join(text.replace("\u200b", "").split())


def action_of(value: object) -> Mapping[str, Any]:
    """Return the data of a pressed `Action.Execute`, empty when it is none of ours."""
    action = value.get("action") if isinstance(value, Mapping) else None
    data = action.get("data") if isinstance(action, Mapping) else None
    return data if isinstance(data, Mapping) else {}


def _own_mentions(activity: Activity) -> list[str]:
    """Return the texts by which the message mentions the bot itself."""
    mentions = []
    for entity in activity.entities or []:
        properties = entity.additional_properties or {}
        mentioned = properties.get("mentioned")
        if isinstance(mentioned, Mapping) and mentioned.get("id") == activity.recipient.id:
            mentions.append(str(properties.get("text") or f"<at>{mentioned.get('name')}</at>"))
    return mentions
