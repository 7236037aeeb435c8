"""Say what could not be read of a fleet, and how old the rest is."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from bot.cards.card import Block, Card, Tone, When, quiet, text
from bot.model.counts import counted
from bot.model.policy import Policy
from bot.model.reading import Reading
from bot.watch.learning import learning

_MOST_GAPS = 3
_OLD = timedelta(minutes=1)
"""How much older than the question a reading may be without a word."""


def with_age(card: Card, reading: Reading, at: datetime, policy: Policy) -> Card:
    """Say of when the reading is where it is older than the question, and how much history is known while that is little.

    AWS may be asked for minutes, and nobody waits for it.
    """
    if said := learning(reading, policy):
        card = replace(
            card, blocks=(*card.blocks, quiet(said)), data={**card.data, "learning": said}
        )
    if at - reading.now < _OLD:
        return card
    age = quiet("AWS is being read; this is as of ", When(reading.now), ".")
    return replace(card, blocks=(*card.blocks, age), data={**card.data, "read_at": reading.now})


def no_nodes(reading: Reading) -> Card:
    """Say that no node runs, or that nobody could be asked: an unread fleet is no empty one."""
    if reading.gaps:
        return Card(
            "It is not known which nodes run",
            Tone.WARNING,
            unread(reading),
            {"nodes": [], "gaps": gaps(reading)},
        )
    return Card(
        "No node is running",
        Tone.INFO,
        (text("The source lists no running instance at this time."),),
        {"nodes": []},
    )


def unread(reading: Reading) -> tuple[Block, ...]:
    """Name what could not be read, before the nodes that could be are listed."""
    more = len(reading.gaps) - _MOST_GAPS
    rest = (quiet(f"And {counted(more, 'more gap')}; 'doctor' lists them."),) if more > 0 else ()
    return (*(text(f"Not read this time: {gap}") for gap in reading.gaps[:_MOST_GAPS]), *rest)


def gaps(reading: Reading) -> list[str]:
    """Return the sentences of what could not be read."""
    return [str(gap) for gap in reading.gaps]
