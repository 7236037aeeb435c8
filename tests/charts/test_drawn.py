"""Charts at the edges of what is drawn, as the console, a picture and a terminal were last seen to draw them.

`make goldens` writes them anew; look at the diff, and at the picture.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from adapters.charts.svg import Canvas, svg
from adapters.terminal.render import render
from bot.cards.card import Card, Chart, ChartKind, Series, Tone
from bot.model.window import Window
from tests.cards.test_goldens import compare

GOLDENS = Path(__file__).with_name("goldens")
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


@pytest.mark.parametrize("name", CHARTS)
def test_a_chart_is_drawn_as_it_was_last_seen(name: str) -> None:
    chart, place = CHARTS[name], name.replace(" ", "_")
    pressed = Canvas(address=lambda line: f"/ask?line={line}")
    picture = Canvas(width=600, height=200, times=4, categories=5, pointed=False)
    drawn = "\n".join(
        str(svg(chart, canvas)).replace("><", ">\n<") for canvas in (pressed, picture)
    )
    compare(f"{drawn}\n", GOLDENS / f"{place}.svg.txt")
    compare(render(Card("t", blocks=(chart,)), 70), GOLDENS / f"{place}.txt")
