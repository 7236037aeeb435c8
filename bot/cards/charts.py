"""Cut the chart of an alert out of the frames that showed it."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from datetime import timedelta

import numpy as np

from bot.cards.axis import figure, span
from bot.cards.card import Chart, ChartKind, Series
from bot.model.alert import Alert
from bot.model.anomaly import Anomaly
from bot.model.frame import Floats, Frame
from bot.model.labels import Labels
from bot.model.window import Window

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
    """Return the alert's metric over six hours (35 days for a daily frame), mean over things (money: sum), usual band, incident.

    None when the frame is not there or holds no reading of the metric.
    """
    anomaly = alert.anomaly
    frame = frames.get(anomaly.kind)
    if frame is None or not anomaly.metric or not frame.has(anomaly.metric):
        return None
    cut = frame.last(
        timedelta(days=35) if frame.step >= timedelta(days=1) else max(_SHOWN, _since(alert, frame))
    )
    rows = [i for i, thing in enumerate(cut.things) if belongs(thing, anomaly)]
    money = anomaly.kind.startswith("spend")
    values = (_sum if money else _mean)(cut.of(anomaly.metric)[rows]) if rows else np.empty(0)
    if not np.isfinite(values).any():
        return None
    unit, scale = unit_of(anomaly.metric)
    band = _band(anomaly.usual, scale) if _same_quantity(anomaly) else None
    name = name_of(anomaly.metric) + {"spend": " a day", "spend_hour": " an hour"}.get(
        anomaly.kind, ""
    )
    shown = tuple(None if np.isnan(v) else round(float(v) * scale, 3) for v in values)
    return Chart(
        kind=ChartKind.LINE,
        title=f"{name}, mean of {len(rows)} {anomaly.kind.replace('_', ' ')}s"
        if len(rows) > 1 and not money
        else name,
        unit=unit,
        series=(Series(name, shown),),
        times=tuple(cut.times()),
        band=band,
        shaded=Window(alert.anomaly.window.start, min(alert.closed or cut.end, cut.end))
        if _within(alert, cut)
        else None,
        summary=_summary(shown, unit, band),
    )


def unit_of(metric: str) -> tuple[str, float]:
    """Return the unit a chart shows a metric in, and the factor from its base unit."""
    for ending in sorted(_UNITS, key=len, reverse=True):
        if metric.endswith(ending):
            return _UNITS[ending]
    return "", 1.0


def _same_quantity(anomaly: Anomaly) -> bool:
    """Return whether the usual of an anomaly is of what its chart shows.

    A share of the memory is no number of bytes.
    """
    unit = anomaly.unit.partition(" ")[0].lower()
    return anomaly.metric.endswith({"%": "_ratio"}.get(unit, f"_{unit}"))


def belongs(thing: Labels, anomaly: Anomaly) -> bool:
    """Return whether a row of a frame is one of the anomaly's things (or, where it names none, within its labels)."""
    if not anomaly.things:
        return anomaly.labels.selects(thing)
    return (
        thing.instance in anomaly.things
        or thing.resource in anomaly.things
        or _whole(thing, anomaly)
    )


def _whole(thing: Labels, anomaly: Anomaly) -> bool:
    """Return whether an anomaly of a run or of the bill is about this row."""
    return anomaly.kind in {"run", "spend", "spend_hour", "pod"} and anomaly.scope.selects(thing)


def _since(alert: Alert, frame: Frame) -> timedelta:
    """Return a span that shows the onset with an hour before it, two days at most."""
    return min(timedelta(days=2), frame.end - alert.anomaly.window.start + timedelta(hours=1))


def _within(alert: Alert, frame: Frame) -> bool:
    return alert.anomaly.window.start < frame.end


def _mean(values: Floats) -> Floats:
    """Return the mean over things, nan where none has a reading."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        mean: Floats = np.nanmean(values, axis=0)
    return mean


def _sum(values: Floats) -> Floats:
    """Return the sum over things, nan where none has a reading."""
    return np.asarray(
        np.where(np.isnan(values).all(axis=0), np.nan, np.nansum(values, axis=0)), dtype=np.float32
    )


def name_of(metric: str) -> str:
    """Return the name of a metric as a chart's title has it."""
    names = {
        "neuroncore_utilization_ratio": "NeuronCore utilization",
        "spend_amortised_usd": "Amortised cost",
        "gpu_utilization_ratio": "GPU utilization",
        "host_cpu_utilization_ratio": "Host CPU",
    }
    plain = metric
    for ending in ("_ratio", "_bytes_per_second", "_bytes", "_seconds", "_count", "_usd"):
        plain = plain.removesuffix(ending)
    return names.get(metric, plain.replace("_", " ").capitalize())


def _band(usual: tuple[float, float] | None, scale: float) -> tuple[float, float] | None:
    """Return the usual range in the chart's unit, to three digits."""
    if usual is None or usual[1] <= 0:
        return None
    low, high = (float(f"{end * scale:.3g}") for end in usual)
    return (round(low), round(high)) if low >= 10 else (low, high)


def _summary(shown: tuple[float | None, ...], unit: str, band: tuple[float, float] | None) -> str:
    readings = [v for v in shown if v is not None]
    last, low, high = (
        figure(_whole_of(v), unit) for v in (readings[-1], min(readings), max(readings))
    )
    usual = f", usually {span(*band, unit)}" if band else ""
    return f"Last {last}{usual}; between {low} and {high} in the time shown."


def _whole_of(value: float) -> float:
    return round(value) if value >= 10 else value
