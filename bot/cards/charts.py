"""Cut the chart of an alert out of its frames; scale and label axes alike on every surface."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from bot.cards.card import Chart, ChartKind, Series
from bot.cards.words import figures
from bot.model.alert import Alert
from bot.model.anomaly import Anomaly
from bot.model.labels import Labels
from bot.model.window import Window, day

if TYPE_CHECKING:
    from bot.model.frame import Frame

_STEPS = tuple(
    timedelta(minutes=m)
    for m in (5, 10, 15, 30, 60, 120, 180, 360, 720, 1440, 2880, 10080, 20160, 43200)
)
_PREFIXES = ((1e9, "B"), (1e6, "M"), (1e3, "k"))


def extent(chart: Chart) -> tuple[float, float]:
    """Return the lowest and highest value to show.

    Zero is always in view, percentages end at 100 where they fit.
    """
    rows = [
        [value if value is not None and is_reading(value) else 0.0 for value in series.values]
        for series in chart.series
    ]
    heights = [value for row in rows for value in row]
    if chart.kind is not ChartKind.LINE and len(rows) > 1:  # bars stand on one another
        columns = list(zip(*rows, strict=False))
        heights = [sum(value for value in column if value > 0) for column in columns]
        heights += [sum(value for value in column if value < 0) for column in columns]

    values = [0.0, *heights, *(chart.band or ())]
    low, high = min(values), max(values)
    if chart.unit == "%" and high <= 100:
        return low, 100.0

    return (low, high) if high > low else (low, low + 1.0)


def marks(chart: Chart) -> tuple[float, ...]:
    """Return the value axis's ticks: round, and whole where the chart counts things."""
    return ticks(*extent(chart), least=1.0 if counts(chart) else 0.0)


def counts(chart: Chart) -> bool:
    """Return whether a chart counts things: it has no unit, and every reading is whole."""
    values = (value for series in chart.series for value in series.values)
    return not chart.unit and all(
        float(value).is_integer() for value in values if value is not None and is_reading(value)
    )


def flows(chart: Chart) -> list[list[float]]:
    """Return the amounts that flow from each category to each series, (n_categories, n_series), 0 or more."""
    return [
        [
            max(0.0, value)
            if i < len(series.values) and (value := series.values[i]) and math.isfinite(value)
            else 0.0
            for series in chart.series
        ]
        for i in range(len(chart.categories))
    ]


def named(chart: Chart) -> bool:
    """Return whether a chart's colours need their names beside it.

    Several of them, or one that has a meaning.
    """
    return len(chart.series) > 1 or any(series.tone for series in chart.series)


def ticks(low: float, high: float, most: int = 5, least: float = 0.0) -> tuple[float, ...]:
    """Return up to `most` round values that enclose `low` and `high`.

    Their step is 1, 2, 2.5 or 5 times a power of ten, and no smaller than `least`, itself such a
    step, or 0.
    """
    power = 10.0 ** math.floor(math.log10(max((high - low) / max(1, most - 1), least)))
    for size in (1, 2, 2.5, 5, 10, 20):
        step = size * power
        # A value that rounding puts a hair beside a tick is on it.
        first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
        if last - first < most:
            return tuple(i * step for i in range(first, last + 1))

    return (low, high)


def time_ticks(start: datetime, end: datetime, most: int = 7) -> tuple[tuple[datetime, str], ...]:
    """Return up to `most` round UTC instants within, each with its label.

    The clock time, or the day at midnight.
    """
    step = next((s for s in _STEPS if (end - start) / s <= most - 1), _STEPS[-1])
    origin = datetime(2001, 1, 1, tzinfo=UTC)
    # Ticks are multiples of the step since a fixed midnight, so that two charts share theirs.
    tick = origin + -((origin - start) // step) * step
    instants: list[tuple[datetime, str]] = []
    while tick <= end and len(instants) < most:
        midnight = tick.hour == tick.minute == 0
        instants.append((tick, day(tick) if midnight else f"{tick:%H:%M}"))
        tick += step

    return tuple(instants)


def figure(value: float, unit: str) -> str:
    """Write a value with its unit as people say it: `20 %`, `$1,083`, `$1,083/h`, `3.2 GB/s`."""
    sign, size = ("-" if value < 0 else ""), abs(value)
    if unit.startswith("$"):
        size = round(size, 2)  # as money is: of $2.499 both are $2.50
        return f"{sign}${size:,.{2 if size < 10 and size != int(size) else 0}f}{unit[1:]}"
    digits = 0 if size >= 100 or size == int(size) else (1 if size >= 1 else 2)
    return f"{sign}{size:,.{digits}f} {unit}".rstrip()


def span(low: float, high: float, unit: str) -> str:
    """Write a range with its unit once: `85-95 %`, `$3-5/h`, `$0.00-0.33`."""
    if unit.startswith("$"):
        digits = 2 if high < 10 and (low % 1 or high % 1) else 0
        return f"${low:,.{digits}f}-{high:,.{digits}f}{unit[1:]}"
    return f"{figures(low)}-{figures(high)} {unit}".rstrip()


def tick_labels(marks: Sequence[float], unit: str) -> tuple[str, ...]:
    """Label each tick: signs (`$`, `%`) on every one, a unit in words on the highest alone."""
    return tuple(
        tick_label(mark, unit if _is_sign(unit) or mark == marks[-1] else "") for mark in marks
    )


def amount(value: float, unit: str) -> str:
    """Write a value where the axis already says its unit: a unit in words is left out."""
    return figure(value, unit if _is_sign(unit) else "")


def brief(value: float, unit: str) -> str:
    """Write an amount over a narrow bar, to three digits, without a unit in words.

    `$34.6k`, `$396/h`.
    """
    if abs(value) < 1000:
        return amount(value, unit)
    return tick_label(float(f"{value:.3g}"), unit if _is_sign(unit) else "")


def shade(value: float | None) -> int | None:
    """Return how dark the cell of a percentage is, 0 to 4; None without a reading."""
    return min(4, max(0, int(value // 20))) if value is not None and is_reading(value) else None


def tick_label(value: float, unit: str) -> str:
    """Write a tick's value shortly: `$12k`, `1.5M`, `40 %`."""
    sign, size = ("-" if value < 0 else ""), abs(value)
    scaled = (f"{size / factor:.4g}{letter}" for factor, letter in _PREFIXES if size >= factor)
    short = next(scaled, f"{size:.10g}")
    if unit.startswith("$"):
        return f"{sign}${short}{unit[1:]}"
    return f"{sign}{short} {unit}".rstrip()


def shorten(label: str, most: int) -> str:
    """Return `label`, its middle left out where it is longer than `most` characters."""
    if len(label) <= most:
        return label
    tail = max(1, (most - 1) // 3)
    return f"{label[: most - 1 - tail]}…{label[-tail:]}"


def thinned(count: int, most: int) -> int:
    """Return the stride at which at most `most` of `count` labels are shown."""
    return max(1, -(-count // max(1, most)))


def newest(values: Iterable[float | None]) -> tuple[int, float] | None:
    """Return index and value of the last reading, None where there is none."""
    readings = [(i, value) for i, value in enumerate(values) if is_reading(value)]
    return (readings[-1][0], readings[-1][1] or 0.0) if readings else None


def is_reading(value: float | None) -> bool:
    """Return whether a value is a reading and no gap: neither None nor nan."""
    return value is not None and not math.isnan(value)


def _is_sign(unit: str) -> bool:
    return unit.startswith("$") or unit == "%"


_SHOWN = timedelta(hours=6)
_UNITS: Mapping[str, tuple[str, float]] = {
    "ratio": ("%", 100.0),
    "bytes_per_second": ("GB/s", 1e-9),
    "bytes": ("GiB", 2.0**-30),
    "seconds": ("s", 1.0),
    "count": ("", 1.0),
    "usd": ("$", 1.0),
}


def alert_chart(alert: Alert, frames: Mapping[str, Frame]) -> Chart | None:
    """Return the alert's metric over six hours, with its usual band and the incident.

    It is the mean over things, of money the sum; 35 days for a daily frame. None when the frame is
    not there or holds no reading of the metric.
    """
    import numpy as np  # whoever draws text alone need not wait for it

    anomaly = alert.anomaly
    frame = frames.get(anomaly.kind)
    if frame is None or not anomaly.metric or not frame.has(anomaly.metric):
        return None
    if alert.firing:
        # The curve ends with the instant of the dollars beside it, whenever it is drawn.
        frame = frame.until(alert.seen)
        if not frame.n_steps:
            return None

    # The onset is shown with an hour before it, of two days at most.
    length = max(
        _SHOWN, min(timedelta(days=2), frame.end - anomaly.window.start + timedelta(hours=1))
    )
    cut = frame.last(timedelta(days=35) if frame.step >= timedelta(days=1) else length)
    rows = [i for i, thing in enumerate(cut.things) if belongs(thing, anomaly)]
    readings, money = cut.of(anomaly.metric)[rows], anomaly.kind.startswith("spend")
    if not np.isfinite(readings).any():
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        combined = np.nansum(readings, axis=0) if money else np.nanmean(readings, axis=0)

    unit, scale = unit_of(anomaly.metric)
    values = np.where(np.isnan(readings).all(axis=0), np.nan, combined)
    points = tuple(None if np.isnan(v) else round(float(v) * scale, 3) for v in values)
    # The usual is shown only where it is of what the chart shows: a share of the memory is no
    # number of bytes.
    measured = anomaly.unit.partition(" ")[0].lower()
    band: tuple[float, float] | None = None
    is_shown = anomaly.metric.endswith({"%": "_ratio"}.get(measured, f"_{measured}"))
    if is_shown and anomaly.usual and anomaly.usual[1] > 0:
        lowest, highest = (float(f"{end * scale:.3g}") for end in anomaly.usual)
        band = (round(lowest), round(highest)) if lowest >= 10 else (lowest, highest)

    period = {"spend": " a day", "spend_hour": " an hour"}.get(anomaly.kind, "")
    name = title = name_of(anomaly.metric) + period
    if len(rows) > 1 and not money:
        title = f"{name}, mean of {len(rows)} {anomaly.kind.replace('_', ' ')}s"
    # The last sight ends it, as the words beside it say: the alert is closed later.
    start, end = anomaly.window.start, min(alert.ended or cut.end, cut.end)
    shaded = Window(start, end) if start < end else None
    rounded = [round(v) if v >= 10 else v for v in points if v is not None]
    last, low, high = (figure(v, unit) for v in (rounded[-1], min(rounded), max(rounded)))
    usual = f", usually {span(*band, unit)}" if band else ""

    return Chart(
        kind=ChartKind.LINE,
        title=title,
        unit=unit,
        series=(Series(name, points),),
        times=tuple(cut.times()),
        band=band,
        shaded=shaded,
        summary=f"Last {last}{usual}; between {low} and {high} in the time shown.",
    )


def unit_of(metric: str) -> tuple[str, float]:
    """Return the unit a chart shows a metric in, and the factor from its base unit."""
    # The longest first: bytes a second end in seconds, too.
    endings = sorted(_UNITS, key=len, reverse=True)
    return next((_UNITS[ending] for ending in endings if metric.endswith(ending)), ("", 1.0))


def belongs(thing: Labels, anomaly: Anomaly) -> bool:
    """Return whether a row of a frame is one of the anomaly's things.

    Where it names none: whether it is within its labels.
    """
    if not anomaly.things:
        return anomaly.labels.selects(thing)

    return (
        thing.instance in anomaly.things
        or thing.resource in anomaly.things
        or (anomaly.kind in {"run", "spend", "spend_hour", "pod"} and anomaly.scope.selects(thing))
    )


def name_of(metric: str) -> str:
    """Return the name of a metric as a chart's title has it."""
    names = {
        "neuroncore_utilization_ratio": "NeuronCore utilization",
        "spend_amortised_usd": "Amortised cost",
        "gpu_utilization_ratio": "GPU utilization",
        "host_cpu_utilization_ratio": "Host CPU",
        "neuron_hardware_ecc_events_count": "ECC events",
    }
    plain = metric
    for ending in ("_ratio", "_bytes_per_second", "_bytes", "_seconds", "_count", "_usd"):
        plain = plain.removesuffix(ending)

    return names.get(metric, plain.replace("_", " ").capitalize())
