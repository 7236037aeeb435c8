"""Hold the metrics of many like things on one time grid, as whole-fleet arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from functools import cached_property

import numpy as np
import numpy.typing as npt

from bot.model.labels import Labels
from bot.model.window import Window

Floats = npt.NDArray[np.float32]
Doubles = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]
Indices = npt.NDArray[np.intp]


def runs_of(state: Mask) -> tuple[Indices, Indices, Indices]:
    """Return the row, first step and step after the last of each run of `state`, (n, n_steps)."""
    edge = np.zeros((len(state), 1), dtype=np.int8)
    change = np.diff(np.concatenate([edge, state.astype(np.int8), edge], axis=1), axis=1)
    row, begin = np.nonzero(change == 1)
    return row, begin, np.nonzero(change == -1)[1]


@dataclass(frozen=True)
class Frame:
    """Hold `values` of shape (n_things, n_steps, n_metrics), float32, nan = no reading.

    Step i holds what became visible in `(start + i * step, start + (i + 1) * step]`, so a frame
    that ends at a tick knows nothing of later. A level that is reported less often than a step
    stands until its next report is due.
    """

    kind: str
    things: tuple[Labels, ...]
    start: datetime
    step: timedelta
    metrics: tuple[str, ...]
    values: Floats

    def __post_init__(self) -> None:
        """Refuse a shape that the names do not fit."""
        if self.values.shape[0] != len(self.things) or self.values.shape[2] != len(self.metrics):
            raise ValueError(
                f"{self.kind}: values {self.values.shape} do not fit the things and metrics named"
            )

    @cached_property
    def _column(self) -> dict[str, int]:
        return {name: i for i, name in enumerate(self.metrics)}

    @property
    def n_steps(self) -> int:
        """Return the number of time steps."""
        return int(self.values.shape[1])

    @property
    def end(self) -> datetime:
        """Return the end of the last step: the tick this frame was cut for."""
        return self.start + self.n_steps * self.step

    @property
    def window(self) -> Window:
        """Return the span from the first step's start to the last step's end."""
        return Window(self.start, self.end)

    def has(self, metric: str) -> bool:
        """Return whether the metric is a column of the frame."""
        return metric in self._column

    def of(self, metric: str) -> Floats:
        """Return one metric, shape (n_things, n_steps); all nan where the frame lacks it."""
        if metric not in self._column:
            return np.full((len(self.things), self.n_steps), np.nan, dtype=np.float32)
        return self.values[:, :, self._column[metric]]

    def steps(self, length: timedelta) -> int:
        """Return the number of steps that cover `length`, at least one."""
        return max(1, -(-length // self.step))

    def last(self, length: timedelta) -> Frame:
        """Return the newest part that covers `length` (all of it when shorter), as a view."""
        return self._cut(max(0, self.n_steps - self.steps(length)), self.n_steps)

    def until(self, end: datetime) -> Frame:
        """Return the part that was visible at `end`, as a view."""
        return self._cut(0, min(self.n_steps, max(0, (end - self.start) // self.step)))

    def since(self, start: datetime) -> Frame:
        """Return the steps that begin at or after `start`, as a view."""
        n = min(self.n_steps, max(0, -((self.start - start) // self.step)))
        return self._cut(n, self.n_steps)

    def thinned(self, first: int, stride: int) -> Frame:
        """Return every so many steps, from the first on, as a view."""
        return self._cut(first, self.n_steps, stride)

    def _cut(self, first: int, last: int, stride: int = 1) -> Frame:
        start, step = self.start + first * self.step, self.step * stride
        values = self.values[:, first:last:stride]
        return Frame(self.kind, self.things, start, step, self.metrics, values)

    def pick(self, rows: Sequence[int] | npt.NDArray[np.intp] | Mask | slice) -> Frame:
        """Return only the things at `rows`: indices or a mask, or a slice, which is a view."""
        chosen = _chosen(rows)
        if isinstance(chosen, slice):
            things = self.things[chosen]
        else:
            things = tuple(self.things[i] for i in chosen)
        return replace(self, things=things, values=self.values[chosen])

    def times(self) -> list[datetime]:
        """Return the end of each step."""
        return [self.start + (i + 1) * self.step for i in range(self.n_steps)]


class FramePart(Frame):
    """Be some of a frame's things.

    Their values are copied once they are asked for, of the steps and the metric asked for alone.
    """

    _frame: Frame
    _rows: Indices

    def __init__(self, frame: Frame, rows: Sequence[int] | Indices) -> None:
        indices = np.asarray(rows, dtype=np.intp)
        things = tuple(frame.things[i] for i in indices)
        vars(self).update(vars(frame) | {"things": things, "_frame": frame, "_rows": indices})
        vars(self).pop("values", None)

    @cached_property
    def values(self) -> Floats:
        """Return the values of these things."""
        return np.asarray(self._frame.values[self._rows])

    @property
    def n_steps(self) -> int:
        """Return the number of time steps."""
        return self._frame.n_steps

    def of(self, metric: str) -> Floats:
        """Return one metric, shape (n_things, n_steps); all nan where the frame lacks it."""
        if metric not in self._column or "values" in vars(self):
            return super().of(metric)
        return np.asarray(self._frame.of(metric)[self._rows])

    def _cut(self, first: int, last: int, stride: int = 1) -> Frame:
        part, cut = copy(self), self._frame._cut(first, last, stride)
        vars(part).pop("values", None)
        vars(part).update(_frame=cut, start=cut.start, step=cut.step)
        return part

    def pick(self, rows: Sequence[int] | npt.NDArray[np.intp] | Mask | slice) -> Frame:
        """Return only the things at `rows`: indices, a mask or a slice."""
        return FramePart(self._frame, self._rows[_chosen(rows)])


def _chosen(rows: Sequence[int] | npt.NDArray[np.intp] | Mask | slice) -> Indices | slice:
    """Return rows as indices, a slice as it is."""
    if isinstance(rows, slice):
        return rows
    indices = np.asarray(rows)
    return np.flatnonzero(indices) if indices.dtype == bool else indices.astype(np.intp)


class MetricsSurface(StrEnum):
    """Name where an account's NeuronCore metrics are read."""

    AUTO = "auto"
    """Of each node where it reports.

    By GetMetricData first, as that is read without asking anything more.
    """
    CLOUDWATCH = "cloudwatch"
    """By GetMetricData: the classic namespace of Container Insights."""
    PROMQL = "promql"
    """By PromQL: CloudWatch's OTel store, or a Prometheus server."""


UNITS: Mapping[str, Mapping[str, float]] = {
    "ratio": {"percent": 0.01, "ratio": 1.0},
    "bytes": {"bytes": 1.0, "kib": 2.0**10, "mib": 2.0**20, "gib": 2.0**30},
    "seconds": {"seconds": 1.0, "milliseconds": 1e-3, "microseconds": 1e-6},
    "count": {"count": 1.0},
    "second": {"bytes": 1.0, "kib": 2.0**10, "mib": 2.0**20},
    "flops": {"flops": 1.0, "gflops": 1e9, "tflops": 1e12},
}
"""Units that a metric may come in with their factors, by the last word of its name here."""


@dataclass(frozen=True)
class Meaning:
    """State that `name` in CloudWatch is `metric` of `NODE_METRICS`, in a declared unit."""

    name: str
    metric: str
    unit: str

    @property
    def scale(self) -> float:
        """Return the factor of a value."""
        return UNITS[self.metric.rpartition("_")[2]][self.unit]


@dataclass(frozen=True)
class OwnNames:
    """Hold a namespace, its metrics' meanings, and the dimensions of instance and core."""

    namespace: str
    meanings: tuple[Meaning, ...]
    instance: str
    core: str


class FrameLookup(Mapping[str, Frame]):
    """Build each frame when it is first asked for."""

    def __init__(self, kinds: tuple[str, ...], build: Callable[[str], Frame]) -> None:
        self._kinds, self._build = kinds, build
        self._built: dict[str, Frame] = {}

    def __getitem__(self, kind: str) -> Frame:
        """Build the frame, or return the one built before."""
        if kind not in self._built:
            if kind not in self._kinds:
                raise KeyError(kind)
            self._built[kind] = self._build(kind)
        return self._built[kind]

    def __iter__(self) -> Iterator[str]:
        """Name the kinds without building any."""
        return iter(self._kinds)

    def __len__(self) -> int:
        """Count the kinds."""
        return len(self._kinds)
