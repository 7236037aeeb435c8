"""Draw a day of the fleet as a heat map.

A row a cluster, a cell an hour, stronger where the cores did more.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta

import numpy as np

from bot.cards.card import Chart, ChartKind, Series
from bot.cards.lines import quote
from bot.model.frame import Floats, Frame

_DAY, _HOUR = timedelta(hours=24), timedelta(hours=1)
_ROWS = 12


def fleet_heat(frame: Frame | None, names: Sequence[str], label: str = "cluster") -> Chart | None:
    """Return the last 24 hours of the mean utilization of up to 12 clusters, or nodes, in percent.

    None where nothing was read.

    `frame` is that of the nodes; GPU nodes count by their GPUs. An hour is a whole one of UTC, the
    last up to now.
    """
    if frame is None:
        return None
    cut = frame.last(_DAY)
    hours = _hours([end - cut.step for end in cut.times()])
    starts = sorted(set(hours))
    values = _utilization(cut)
    rows = {name: _row(values[_of(cut, name, label)], hours, starts) for name in names[:_ROWS]}
    rows = {name: row for name, row in rows.items() if any(value is not None for value in row)}
    if not rows:
        return None
    series = tuple(
        Series(name or "(no cluster)", row, line=f"fleet {quote(name)}" if name else "")
        for name, row in rows.items()
    )
    few = f", the {_ROWS} least used nodes" if label == "instance" and len(names) > _ROWS else ""
    title = f"Utilization by hour{few}: the stronger, the busier"
    return Chart(ChartKind.HEAT, title, "%", series, tuple(starts), summary=_summary(rows))


def _utilization(frame: Frame) -> Floats:
    cores, gpus = frame.of("neuroncore_utilization_ratio"), frame.of("gpu_utilization_ratio")
    return np.where(np.isnan(cores), gpus, cores)


def _hours(times: Sequence[datetime]) -> list[datetime]:
    return [at.astimezone(UTC).replace(minute=0, second=0, microsecond=0) for at in times]


def _of(frame: Frame, name: str, label: str) -> list[int]:
    return [i for i, thing in enumerate(frame.things) if getattr(thing, label) == name]


def _row(
    values: Floats, hours: Sequence[datetime], starts: Sequence[datetime]
) -> tuple[float | None, ...]:
    """Return the mean of each hour in percent, None where no node was read."""
    column = np.array([starts.index(hour) for hour in hours])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        means = (
            [float(np.nanmean(values[:, column == i])) for i in range(len(starts))]
            if len(values)
            else []
        )
    return tuple(None if np.isnan(mean) else round(mean * 100, 1) for mean in means)


def _summary(rows: Mapping[str, Sequence[float | None]]) -> str:
    """Say the newest of each row, the least used first."""
    newest = [
        (values[-1], name)
        for name, row in rows.items()
        if (values := [value for value in row if value is not None])
    ]
    shares = ", ".join(
        f"{name or '(no cluster)'} {value:.0f} %" for value, name in sorted(newest)[:6]
    )
    return f"Utilization in the last hour: {shares}."
