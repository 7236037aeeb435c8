"""Charts, tables and words at the edges of what is drawn, as each surface and a picture were last seen to draw them.

`make goldens` writes them anew; look at the diff, and at the picture.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from adapters.charts.svg import Canvas, svg
from adapters.chat.slack.render import chart_block, table_block
from adapters.terminal.render import render
from bot.cards.card import (
    Align,
    Attachment,
    Button,
    Buttons,
    ButtonStyle,
    Card,
    Chart,
    ChartKind,
    Code,
    Facts,
    Heading,
    Link,
    Mention,
    Series,
    Strong,
    Style,
    Table,
    Text,
    Tone,
    When,
    folded,
)
from bot.model.window import Window
from tests.cards.test_goldens import PAGES, compare, laid_out, slack, teams

FOLDER = Path(__file__).with_name("drawn")
NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)
TIMES = tuple(NOON + n * 10 * MINUTE for n in range(13))
LEVEL = (90.0, 91.5, None, 88.0, None, 30.0, 22.0, 20.0, 21.0, 35.0, 80.0, 90.0, None)
NAN = float("nan")


def line(*series: Series, **more: object) -> Chart:
    return Chart(ChartKind.LINE, "Utilization", "%", series, TIMES, summary="Last 90 %.", **more)


CHARTS = {
    # The incident begins and ends with a reading, and has gaps and a lone reading within.
    "incident": line(
        Series("a", LEVEL), band=(85.0, 95.0), shaded=Window(TIMES[5], TIMES[9])
    ),
    "goes on": line(Series("a", LEVEL), band=(5.0, 30.0), shaded=Window(TIMES[9], TIMES[-1] + HOUR)),
    "just begun": line(Series("a", LEVEL), shaded=Window(TIMES[11], TIMES[12])),
    "long ago": line(Series("a", LEVEL), shaded=Window(NOON - 2 * HOUR, NOON - HOUR)),
    "several": line(
        Series("llama-70b-pretraining", LEVEL),
        Series("b", (*LEVEL[:-3], 36.0, 90.5, 91.0), Tone.CRITICAL),
        Series("none", (None,) * 13),
    ),
    "bars": Chart(
        ChartKind.BAR,
        "Cost",
        "$",
        (Series("search", (12.0, 0.0, None, 3.5, NAN), line="cost team=search"), Series("", (8.0, -4.0, 2.0))),
        categories=("Nov 18", "Nov 19", "", "a name that is far too long for it", "e"),
        lines=("cost 18", "", "cost 20"),
        partial=(1, 3),
        timed=True,
        summary="s",
    ),
    "many bars": Chart(
        ChartKind.BAR,
        "Nodes",
        "",
        (Series("a", tuple(float(1200 * n) for n in range(27))),),
        categories=tuple(f"day {n}" for n in range(27)),
        summary="s",
    ),
    "a dozen bars": Chart(
        ChartKind.BAR,
        "Cost",
        "$/h",
        (Series("a", tuple(float(1234 * n) for n in range(12))),),
        categories=tuple(f"c{n}" for n in range(12)),
        timed=True,
        summary="s",
    ),
    "ten colours": Chart(
        ChartKind.BAR,
        "Cost",
        "$",
        tuple(Series(f"team {n}", (1.0, float(n))) for n in range(10)),
        categories=("a", "b"),
        summary="s",
    ),
    "heat": Chart(
        ChartKind.HEAT,
        "Utilization",
        "%",
        (
            Series("llama", (0.0, 19.9, 20.0, 59.0, 60.0, 100.0, None), line="fleet llama"),
            Series("a very long name of a cluster", (None,) * 7),
        ),
        tuple(NOON + n * HOUR for n in range(7)),
        summary="s",
    ),
    "flow": Chart(
        ChartKind.FLOW,
        "Goodput",
        "$",
        (Series("productive", (70.0, 20.0, 0.0), Tone.GOOD), Series("idle", (5.0, 0.0, 4.0)), Series("lost", (0.5,))),
        categories=("llama", "", "vision"),
        summary="s",
    ),
    "nothing": Chart(ChartKind.LINE, "x", "", (Series("a", ()),), summary="No reading."),
}  # fmt: skip


LETTERS = "a cell whose words need more than the width of a phone, and of a terminal, too"
TABLES = {
    "numbers": Table(
        (
            Heading("team"),
            Heading("$", Align.RIGHT),
            Heading("share", Align.RIGHT),
            Heading("since"),
        ),
        (
            ("search", "$1,234.50", "62 %", "Nov 20"),
            ("", "-$3", "–", ""),
            ("*bold* <b> | _i_ @here https://x.example", "12", "1 %", "Nov 1"),
        ),
        ("all", "$1,243.50", "", ""),
        "a caption",
        "and 2 more teams",
    ),
    "wide": Table(
        tuple(Heading(f"column {n}", Align.RIGHT if n % 2 else Align.LEFT) for n in range(8)),
        ((LETTERS, "1", "b", "2", "c", "3", "d", "4"), ("a", "b")),
    ),
    "long": folded(
        Table(
            (Heading("node"), Heading("idle", Align.RIGHT)),
            tuple((f"i-{n:04}", f"{n} h") for n in range(130)),
            lines=tuple(f"fleet i-{n:04}" for n in range(130)),
        ),
        12,
        "and 118 more nodes",
    ),
    "one column": Table((Heading("words"),), ((LETTERS,), ("b",), ("c",))),
    "no row": Table((Heading("a"), Heading("b")), ()),
}
BLOCKS = {
    "words": (
        Text(("Lead ", Strong("strong*"), Code("co`de")), Style.LEAD),
        Text(("quiet ", When(NOON), Link("out", "https://x.example/?a=1&b=(2)")), Style.QUIET),
        Text((Mention("slack:U1", "Dana"), Mention("teams:29:1", "Kim"), Link("bad", "javascript:x"))),
        Text((f"{LETTERS} " * 60,)),
        Facts((("owner", "dana <d@x.example>"), (LETTERS, LETTERS), ("empty", ""))),
    ),
    "presses": (
        Buttons((Button("Ack", "ack a1", ButtonStyle.PRIMARY), Button("Stop", "act stop x", ButtonStyle.DANGER, confirm="Sure?"))),
        Buttons(tuple(Button(f"{n}", f"why a{n}") for n in range(30))),
        Buttons((Button("x" * 90, "fleet"), Button("far", "x" * 5_000))),
        Attachment("trnbot-cost.csv", "cost 7d", "a,b"),
    ),
}  # fmt: skip


def looked(name: str, card: Card) -> None:
    """Compare a card on every surface, wide and narrow, with how it was last looked at."""
    place = FOLDER / name.replace(" ", "_")
    lines = "\n".join(render(card, width) for width in (40, 70))
    compare(lines, place.with_suffix(".txt"))
    compare(f"{PAGES.card(card)}\n".replace("><", ">\n<"), place.with_suffix(".html"))
    native = [
        chart_block(block) if isinstance(block, Chart) else table_block(block)
        for block in card.blocks
        if isinstance(block, Chart | Table)
    ]
    for surface, drawn in (
        ("slack", json.loads(slack(card)) | {"native": native}),
        ("teams", json.loads(teams(card))),
    ):
        compare(f"{laid_out(drawn)}\n", place.with_suffix(f".{surface}.json"))


@pytest.mark.parametrize("name", CHARTS)
def test_a_chart_is_drawn_as_it_was_last_looked_at(name: str) -> None:
    looked(name, Card("t", blocks=(CHARTS[name],)))
    picture = Canvas(width=600, height=200, times=4, categories=5, pointed=False)
    drawn = str(svg(CHARTS[name], picture)).replace("><", ">\n<")
    compare(f"{drawn}\n", FOLDER / f"{name.replace(' ', '_')}.svg")


@pytest.mark.parametrize("name", [*TABLES, *BLOCKS])
def test_a_table_and_words_are_drawn_as_they_were_last_looked_at(name: str) -> None:
    looked(name, Card("t", Tone.WARNING, BLOCKS.get(name) or (TABLES[name],)))
