"""Every part of a card as a terminal draws it, narrow and wide, and as Markdown: it looks as it was last looked at."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from adapters.terminal.render import ProgressBar, as_markdown, render
from bot.cards.card import (
    Align,
    Attachment,
    Button,
    Buttons,
    Card,
    Chart,
    ChartKind,
    Code,
    Facts,
    Field,
    Form,
    Heading,
    Link,
    Mention,
    Series,
    Strong,
    Style,
    Table,
    Text,
    Tone,
)
from bot.model.window import Window
from tests.goldens import check

GOLDENS = Path(__file__).with_name("goldens")
NOON, MINUTES = datetime(2026, 11, 20, 12, tzinfo=UTC), timedelta(minutes=5)
TIMES = tuple(NOON + n * MINUTES for n in range(24))
WAVE = tuple(float(n % 7 * 15) for n in range(24))
USD = tuple(float(n) for n in range(1, 25))
LEFT, RIGHT = (
    Window(NOON + MINUTES, NOON + 3 * MINUTES),
    Window(NOON + 18 * MINUTES, NOON + 40 * MINUTES),
)
HEADINGS = (Heading("team"), Heading("what it does all day"), Heading("$/month", Align.RIGHT))
ROWS = (
    ("research", "trains one model after the other, and compiles each of them anew", "$157,250.11"),
    ("音声", "serves", "-$57,000.40"),
)


def line(*series: Series, **more: object) -> Chart:
    return Chart(ChartKind.LINE, "Use", "%", series, TIMES, summary="It waves.", **more)  # type: ignore[arg-type]


def bars(values: tuple[float | None, ...], **more: object) -> Chart:
    names = tuple(f"day {n}" for n in range(len(values)))
    return Chart(ChartKind.BAR, "Cost", "$", (Series("all", values),), categories=names, **more)  # type: ignore[arg-type]


PARTS = {
    "text": Text(
        (
            "plain ",
            Strong("strong"),
            " ",
            Code("code"),
            " ",
            Link("here", "https://x.example/a"),
            "\x1b[31m\nred",
        )
    ),
    "a link that is its own words": Text((Link("https://x.example", "https://x.example"),)),
    "a lead": Text(("what matters",), Style.LEAD),
    "a note": Text(("what matters less",), Style.QUIET),
    "points": Text(("• a point that is longer than thirty columns are wide",)),
    "facts": Facts(
        (
            ("a name", "a value"),
            ("a name that is far too long to stand whole", "a value " * 9),
            ("none", ""),
        )
    ),
    "a table": Table(HEADINGS, ROWS, ("total", "", "$100,249.71"), "a caption", "3 more rows"),
    "a table of names": Table(
        HEADINGS, (("ads", "llama-3.1-8b-instruct answers in us-east-2 and eu-west-1", "$1.00"),)
    ),
    "a table of numbers": Table(
        (Heading("a", Align.RIGHT), Heading("b", Align.RIGHT)), (("1" * 20, "2" * 20),)
    ),
    "a table without rows": Table(HEADINGS, ()),
    "a line": line(Series("one", WAVE)),
    "a line with gaps": line(Series("one", (None, *WAVE[1:5], float("nan"), *WAVE[6:23], None))),
    "two lines": line(Series("one", WAVE), Series("a name that is too long", WAVE[::-1])),
    "a line without a reading": line(Series("one", (None,) * 24)),
    "an incident at the left": line(Series("one", WAVE), shaded=LEFT, band=(10.0, 80.0)),
    "an incident at the right": line(Series("one", WAVE), shaded=RIGHT),
    "a line without times": replace(line(Series("one", ())), times=()),
    "a heat map": Chart(
        ChartKind.HEAT,
        "Use",
        "%",
        (Series("tiny", (None, 0.0, 30.0, 60.0, 100.0)), Series("other", (None,) * 5)),
        TIMES[:5],
    ),
    "a wide heat map": Chart(ChartKind.HEAT, "Use", "%", (Series("tiny", WAVE),), TIMES),
    "a heat map without times": Chart(ChartKind.HEAT, "Use", "%", (Series("tiny", ()),), ()),
    "bars": bars((5.0, -10.0, None, 0.0)),
    "bars of nothing": bars((None, 0.0)),
    "twenty-four bars": bars(USD),
    "twenty-four days": bars(USD, timed=True),
    "sums of series": Chart(
        ChartKind.BAR,
        "Cost",
        "$",
        (Series("a", (1.0, 2.0)), Series("b", (3.0, None))),
        categories=("x", ""),
    ),
    "a flow": Chart(
        ChartKind.FLOW,
        "Flow",
        "$",
        (Series("used", (60.0, 5.0)), Series("idle", (30.0, 5.0)), Series("none", (0.0, 0.0))),
        categories=("a", ""),
    ),
    "buttons": Buttons(
        (
            Button("Why", "why a1"),
            Button(
                "A button with a long name", "cost 2026-11-01..2026-11-20 by team where=everything"
            ),
        )
    ),
    "a form": Form(
        "Snooze",
        "snooze a1",
        (
            Field(
                "length",
                "For how long",
                value="2h",
                options=(("1h", "an hour"), ("2h", "two")),
                hint="30d at most",
                required=True,
            ),
            Field("reason", "Why"),
        ),
    ),
    "a file": Attachment("rows.csv", "a,b\n", "cost 7d"),
}


def drawn(width: int) -> Iterator[str]:
    for name, part in PARTS.items():
        yield f"== {name}"
        yield render(
            Card("A title that is longer than thirty columns", Tone.WARNING, (part,)), width
        )


def test_each_part_is_drawn_at_each_width() -> None:
    for width in (30, 60, 100):
        check(GOLDENS / f"drawn-{width}.txt", "\n".join(drawn(width)))


def test_colour_stands_around_each_line() -> None:
    parts = tuple(
        PARTS[name]
        for name in ("text", "a lead", "a note", "facts", "a table", "buttons", "a form")
    )
    coloured = [
        render(
            Card(
                "Over two lines at thirty columns",
                tone,
                parts if tone is Tone.INFO else (),
                mentions=(Mention("u1", "dana"),),
            ),
            30,
            True,
        )
        for tone in Tone
    ]
    check(GOLDENS / "colours.txt", "\n".join(coloured).replace("\x1b", "ESC"))


def test_points_of_a_list_stand_close() -> None:
    blocks = (Text(("before",)), *(Text((f"• {n}",)) for n in range(3)), Text(("after",)))
    assert render(Card("List", blocks=blocks), 60).splitlines()[2:] == [
        "before", "", "• 0", "• 1", "• 2", "", "after",
    ]  # fmt: skip


def test_markdown_neither_formats_nor_links_what_texts_hold() -> None:
    hostile = Text(("*a* [b](https://x.example) @all `c` <b> | www.x.example ~d~ $e$",))
    parts = (*PARTS.values(), hostile, Table(HEADINGS, (("a|b", "<i>", "$1"),)))
    check(GOLDENS / "markdown.txt", as_markdown(Card("A *title* @here", Tone.CRITICAL, parts)))


class Screen:
    """A stream that somebody watches."""

    def __init__(self, watched: bool = True) -> None:
        self.written, self._watched = list[str](), watched

    def isatty(self) -> bool:
        return self._watched

    def write(self, text: str) -> None:
        self.written.append(text)

    def flush(self) -> None:
        """Do nothing."""


def test_progress_is_drawn_late_rarely_and_taken_away() -> None:
    screen, seconds = Screen(), [0.0]
    bar = ProgressBar(screen, lambda: seconds[0])  # type: ignore[arg-type]
    for at, done in ((1.9, 1), (2.0, 2), (2.1, 3), (2.3, 5), (9.0, 10)):
        seconds[0] = at
        bar("Reading", done, 10)
    seconds[0] = 20.0
    bar("Asking", 0, 0)
    bar.close()
    assert screen.written == [
        "\rReading [=====                       ] 20 %, 2 s",
        "\rReading [==============              ] 50 %, 2 s",
        "\rReading [============================] 100 %, 9 s",
        "\rAsking, 20 s".ljust(50),
        "\r" + " " * 12,
        "\r",
    ]
    unwatched = Screen(watched=False)
    bar = ProgressBar(unwatched, lambda: seconds[0])  # type: ignore[arg-type]
    for at, what, done, of in (
        (49.9, "Reading", 1, 10),
        (51.0, "Reading", 3, 10),
        (70.0, "Reading", 9, 10),
        (81.0, "Asking", 0, 0),
    ):
        seconds[0] = at
        bar(what, done, of)
    bar.close()
    assert unwatched.written == ["Reading: 30 %, 31 s so far\n", "Asking: 61 s so far\n"]
