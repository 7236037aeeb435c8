"""Hold the SVG of which pictures are made, as `tests/cards/drawn` holds that of pages."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest

from adapters.charts import png
from adapters.charts.svg import Canvas, svg
from bot.cards.card import Chart, ChartKind, Series, Tone
from bot.model.window import Window
from tests import goldens
from tests.charts.test_scored import TIMES

STEPS = TIMES[:7]
LEVEL = (90.0, None, 88.0, 30.0, None, 20.0, 35.0)
LINE = Chart(ChartKind.LINE, "Utilization of " + "llama " * 12, "%", (Series("a", LEVEL),), STEPS)
DAYS = tuple(f"day {n}" for n in range(3))
STACK = tuple(Series(f"a team with a long name {n}" if n else "", (1.0, -2.0, float(n)), Tone.GOOD if n == 1 else None) for n in range(10))  # fmt: skip
CHARTS = {
    "an incident": replace(LINE, band=(85.0, 95.0), shaded=Window(STEPS[2], STEPS[4])),
    "an incident still to come": replace(LINE, shaded=Window(TIMES[20], TIMES[30])),
    "beside its usual band": replace(LINE, band=(36.0, 44.0)),
    "under a band at the top": replace(LINE, band=(97.0, 99.0), series=(Series("a", (90.0,) * 7),)),
    "two lines, no title": replace(LINE, title="", series=(*LINE.series, Series("b\x00", LEVEL[::-1]))),
    "bars": Chart(ChartKind.BAR, "Cost", "$", STACK[:1], categories=(*DAYS, ""), partial=(2,)),
    "bars of ten colours": Chart(ChartKind.BAR, "Cost", "$", STACK, categories=DAYS),
    "bars that cancel out": Chart(ChartKind.BAR, "Cost", "$", (Series("a", (4.0, 1.0)), Series("b", (-4.0, 1.0))), categories=DAYS[:2]),
    "heat": Chart(ChartKind.HEAT, "Use", "%", STACK[:2], [STEPS[0] + timedelta(hours=4) * n for n in range(6)]),
    "flow": Chart(ChartKind.FLOW, "Goodput", "$", STACK[8:], categories=DAYS[:2]),
    "nothing": replace(LINE, series=(), times=()),
}  # fmt: skip
PAGES = {
    "a flow of ten on a page": replace(CHARTS["flow"], series=STACK),
    "many readings on a page": replace(LINE, series=(Series("a", tuple(map(float, range(245)))),),
                                       times=tuple(STEPS[0] + timedelta(minutes=n) for n in range(245))),
}  # fmt: skip
RISING = np.arange(50.0)
GAPS = np.where(RISING % 9 == 0, np.nan, RISING)
SCORED = {
    "one metric": (RISING, [20, 21], [(TIMES[3], TIMES[9])]),
    "one level": (np.full(50, 4.0), [], []),
    "gaps alone": (np.full(50, np.inf), [], []),
    "two metrics": (np.array([GAPS, -RISING]).T, [], []),
    "ten metrics": (np.array([GAPS, -RISING, np.zeros(50), *[RISING * n for n in range(7)]]).T, [0], []),
}  # fmt: skip


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return what is handed to the drawer of PNG, each part on its line."""
    lines: list[str] = []

    def take(svg_string: str, style_sheet: str, zoom: float, **fonts: object) -> bytes:
        assert fonts["skip_system_fonts"]
        pages = svg_string.replace("><", ">\n<"), f"x{zoom} of {len(style_sheet)} letters of style"
        lines.extend([*pages, *(x for x in style_sheet.splitlines() if x.startswith(".paper"))])
        return b""

    monkeypatch.setattr(png, "svg_to_bytes", take)
    return lines


def test_pictures_are_drawn_as_they_were_last_looked_at(drawn: list[str]) -> None:
    for name, chart in CHARTS.items():
        drawn.append(f"== {name}")
        png.draw(chart, dark=name == "bars")
    for name, chart in PAGES.items():
        drawn += [f"== {name}", *str(svg(chart, Canvas())).replace("><", ">\n<").split("\n")]
    for name, (values, flagged, truth) in SCORED.items():
        drawn.append(f"== {name}")
        times = TIMES if name != "one level" else [x + timedelta(days=40) * n for n, x in enumerate(TIMES)]  # fmt: skip
        flags = np.isin(np.arange(50), flagged)
        png.draw_scored("a & b", png.ScoredPlot(times, values, RISING / 50, flags), 0.6, truth)
    goldens.check(Path(__file__).parent / "goldens" / "pictures.txt", "\n".join([*drawn, ""]))
