"""Each card as a message of Slack and of Teams, side by side in outline, as it was last read.

Slack has all that it may have: its own tables and charts, and pictures of others. `make goldens` writes the golden anew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from adapters.chat.slack.forms import Origin, answer_view
from adapters.chat.slack.render import Around, chart_places, message, view_blocks
from adapters.chat.teams.render import ALERT_BYTES, ANSWER_BYTES, render, weigh
from bot.cards.card import (
    Button,
    Buttons,
    Card,
    Chart,
    ChartKind,
    Form,
    Series,
    Table,
    Tone,
    detail,
    text,
)
from tests.cards.samples import SAMPLES
from tests.cards.test_drawn import CHARTS, TABLES
from tests.cards.test_goldens import compare
from tests.surfaces.outline import of_blocks, of_card, of_view, side_by_side

GOLDEN = Path(__file__).with_name("goldens") / "cards.txt"


def bars(name: str) -> Chart:
    return Chart(ChartKind.BAR, name, "$", (Series("a", (1.0, 2.0)),), categories=("x", "y"), summary=f"{name} rose.")  # fmt: skip


LARGE = range(9_000, 45_000, 3_000)
"""Bytes of larger and larger pictures."""
PARAGRAPH = "A paragraph of words, all of which have to be read. " * 12
EDGES: Mapping[str, Callable[[], Card]] = {
    "three charts of bars": lambda: Card("t", blocks=(bars("one"), bars("two"), bars("three"))),
    "two tables": lambda: Card("t", blocks=(TABLES["numbers"], TABLES["long"], TABLES["numbers"])),
    "charts and words without end": lambda: Card(
        "t", blocks=(*(text(PARAGRAPH) for _ in range(30)), *CHARTS.values(), bars("last"))
    ),
    "more blocks than a message holds": lambda: Card(
        "t", Tone.OVER, tuple(text(f"line {n}") for n in range(70))
    ),
    "a table without end": lambda: Card(
        "t", blocks=(replace(TABLES["long"], rows=tuple((f"i-{n}", PARAGRAPH[:200]) for n in range(400)), every=()),)
    ),
    "a first paragraph without end": lambda: Card("t", blocks=(text(PARAGRAPH * 60), text("after"))),
    "details, and buttons of which none is drawn": lambda: Card(
        "t", blocks=(text("a"), detail("b"), Buttons((Button("Why", "why a1"),)), Buttons((Button("far", "x" * 5_000),)))
    ),
    "details alone": lambda: Card("t", blocks=(text("a"), detail("b"))),
    "a title without end": lambda: Card("word " * 90, Tone.CRITICAL, (text("a"),)),
    "no title": lambda: Card("", Tone.GOOD),
    "nothing but a table that is empty": lambda: Card("t", blocks=(Table((), ()),)),
}  # fmt: skip


def lines_of(name: str, card: Card) -> Iterator[str]:
    images = {place: f"F{place}" for place in chart_places(card, native=True)}
    around = Around("key", "LINE", images, native=True)
    drawn = message(card, around)
    yield f"## {name}"
    yield f"notified: {drawn.text[:200]!r}"
    alert = card.title.startswith("FIRING")
    pictured = render(card, lambda _: b"p" * 9_000, budget=ALERT_BYTES if alert else ANSWER_BYTES, stands=alert)  # fmt: skip
    outline = of_blocks(drawn.blocks)
    yield from (line[:110] for line in side_by_side(outline, of_card(pictured)))

    # What a message without Slack's own parts and pictures has instead, and a window.
    alone = [line for line in of_blocks(message(card).blocks) if line not in outline]
    yield from (f"  S in words: {line[:100]}" for line in alone)
    if any(card.each(Form)) or card.primary:
        shown = [x for x in of_view(answer_view(card, Origin("C1", "1.1"))) if x not in (*outline, *alone)]  # fmt: skip
        yield from (f"  S in a window: {line[:100]}" for line in shown)
    pictures = str(pictured).count("'Image'")
    yield f"  {len(drawn.blocks)} blocks, {len(view_blocks(card))} in a window, {weigh(pictured) // 1_000} kB with {pictures} pictures"
    if pictures > 1:
        fit = [str(render(card, lambda _, size=size: b"p" * size)).count("'Image'") for size in LARGE]  # fmt: skip
        yield f"  of large pictures {fit} fit"


def test_each_card_is_the_message_that_was_last_read() -> None:
    cards = {**SAMPLES, **EDGES}
    written = [line for name, make in cards.items() for line in lines_of(name, make())]
    compare("\n".join(written) + "\n", GOLDEN)
