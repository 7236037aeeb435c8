"""Join an alert's timeline with the messages of this console."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from adapters.web.messages import PageMessage
from bot.cards.card import Card


@dataclass(frozen=True)
class Moment:
    """Hold one line of an alert's story; `message` is the id of the message that said it."""

    at: datetime
    kind: str
    words: str
    by: str = ""
    message: str = ""


def story(timeline: Card, messages: Sequence[PageMessage]) -> list[Moment]:
    """Return the story of an alert, the oldest first.

    This console's messages about it in place of the log's words.
    """
    told = [Moment(**event) for event in timeline.data.get("events", ())]
    here = list(_here(messages))
    told = [
        moment
        for moment in told
        if moment.kind != "said" or not here or " to web:" not in moment.words
    ]
    return sorted([*told, *here], key=lambda moment: moment.at)


def _here(messages: Sequence[PageMessage]) -> Iterator[Moment]:
    for message in messages:
        yield Moment(message.at, "said", "Sent to this console", "trnbot", message.id)
        for reply in message.replies:
            yield Moment(reply.at, "said", reply.card.title, "trnbot", message.id)
