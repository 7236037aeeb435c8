"""A picture is shown while it shows all that matters: each part of a chart by itself, at its edge."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from adapters.chat.slack.pictures import Picture, Pictures, digest
from bot.cards.card import Chart, ChartKind, Series, Tone
from bot.model.window import Window
from tests.cases import in_one_run

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
TIMES = tuple(NOON + n * 10 * MINUTE for n in range(13))
VALUES = (80.0, 90.0, 100.0, 50.0, 60.0, 70.0, 80.0, 90.0, 95.0, 100.0, 90.0, None, 80.0)
CHART = Chart(
    ChartKind.LINE,
    "Utilization",
    "%",
    (Series("a", VALUES),),
    TIMES,
    band=(85.0, 95.0),
    shaded=Window(NOON + 30 * MINUTE, NOON + 60 * MINUTE),
    summary="s",
)
BARS = Chart(ChartKind.BAR, "Cost", "$", (Series("a", (1.0,)),), categories=("x",))


def later(minutes: int, *values: float | None, chart: Chart = CHART) -> Chart:
    """Return the chart as it is so much later, its window moved, with newer readings."""
    step = timedelta(minutes=minutes / len(values))
    times = tuple(TIMES[-1] + (n + 1) * step for n in range(len(values)))
    series = tuple(replace(x, values=(*x.values[len(values) :], *values)) for x in chart.series)
    return replace(chart, times=(*TIMES[len(values) :], *times), series=series)


@in_one_run
@pytest.mark.parametrize(
    ("chart", "shown"),
    [
        (CHART, True),
        # A quarter of the axis may have passed since, and a reading have strayed by a tenth of 50.
        (later(10, 80.0), True),
        (later(10, 85.0), True),
        (later(10, 75.0), True),
        (later(10, 85.1), False),
        (later(10, 74.9), False),
        (later(10, None), True),
        (later(33, 80.0, 80.0), True),
        (later(34, 80.0, 80.0), False),
        (replace(later(10, 80.0), title="x"), False),
        (replace(later(10, 80.0), unit="s"), False),
        (replace(later(10, 80.0), summary="x"), True),
        (replace(later(10, 80.0), band=(85.1, 95.2)), True),
        (replace(later(10, 80.0), band=(84.0, 95.0)), False),
        (replace(later(10, 80.0), band=None), False),
        (replace(later(10, 80.0), shaded=Window(NOON + 30 * MINUTE, NOON + 99 * MINUTE)), True),
        (replace(later(10, 80.0), shaded=Window(NOON + 31 * MINUTE, NOON + 60 * MINUTE)), False),
        (replace(later(10, 80.0), shaded=None), False),
        (replace(CHART, series=(replace(CHART.series[0], name="b"),)), False),
        (replace(CHART, series=(replace(CHART.series[0], tone=Tone.GOOD),)), False),
        (replace(CHART, kind=ChartKind.HEAT), False),
    ],
)
def test_a_picture_shows_a_chart_until_something_that_matters_changed(
    chart: Chart, shown: bool
) -> None:
    assert Picture.of(CHART, "F1").shows(chart) is shown


def test_a_picture_of_bars_shows_that_chart_alone() -> None:
    picture = Picture.of(BARS, "F1")
    assert (picture.frame, picture.until, picture.last) == ("", None, ())
    assert picture.shows(BARS)
    assert not picture.shows(replace(BARS, summary="x"))


def test_a_series_without_a_reading_is_news_once_it_has_one() -> None:
    silent = replace(CHART, series=(Series("a", (None,) * 13), Series("b", VALUES)))
    picture = Picture.of(silent, "F1")
    assert picture.last == (None, 80.0)
    assert not picture.shows(later(10, 80.0, chart=silent))


def test_what_is_shown_no_more_is_dropped_once_and_old_documents_are_read() -> None:
    first, second = Picture.of(CHART, "F1"), Picture.of(BARS, "F2")
    pictures = Pictures((first, second), ("F0", "F1"))
    after = pictures.after([second])
    assert (after.shown, after.dropped) == ((second,), ("F0", "F1"))
    assert after.after([first]).dropped == ("F0", "F2")
    assert pictures.find(CHART) is first
    assert pictures.find(replace(CHART, title="x")) is None
    old: dict[str, Any] = {digest(BARS): "F9"}
    assert Pictures.read(old).find(BARS) == Picture("F9", digest(BARS))
