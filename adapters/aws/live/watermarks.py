"""Remember for each series up to where it was read, so that no point is asked for twice and none is lost."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from adapters.aws.catalogue import Catalogue, Target, standard
from adapters.aws.points import Ints, Series

LATE_SECONDS = 900
"""How late a point may come and still be picked up by itself."""
_MINUTE = 60
_RIPE_SECONDS = 540
"""Age of a hole at the last answer from which the next request asks for it: that one ends about `LATE_SECONDS` after it."""


@dataclass
class Mark:
    """Hold how far one series was read; seconds since the epoch, 0 for never."""

    since: int
    """Nothing before is wanted."""
    asked: int = 0
    """All before was asked for and answered."""
    newest: int = 0
    """The newest point that was read."""
    hole: int = 0
    """The first missing minute, to be asked for once more."""

    @property
    def start(self) -> int:
        """Return where the next request begins: what nobody answered, what may come late, and a hole once more."""
        seen = self.newest + _MINUTE if self.newest else self.since
        start = max(seen, self.asked - LATE_SECONDS)
        return min(start, self.hole) if self._due() else start

    def answered(self, end: int, times: Ints) -> None:
        """Take note of an answer with all points from `start` to `end`."""
        if self._due():
            self.hole = 0
        self.hole = self.hole or _first_missing(self.newest, times, end - LATE_SECONDS)
        self.asked = max(self.asked, end)
        self.newest = max([self.newest, *times[-1:].tolist()])

    def _due(self) -> bool:
        """Tell whether the hole is old enough: it is asked for once, and may come late until then."""
        return bool(self.hole) and self.asked - self.hole >= _RIPE_SECONDS


def _first_missing(newest: int, times: Ints, floor: int) -> int:
    """Return the first minute from `floor` on without a point in a series of minutes, 0 where none is missing."""
    known = np.append(newest, times[times > newest]) if newest else times
    gaps = np.flatnonzero((np.diff(known) > _MINUTE) & (known[1:] - _MINUTE >= floor))
    if not len(gaps) or np.diff(known).min() != _MINUTE:
        return 0
    return max(int(known[gaps[0]]) + _MINUTE, floor)


@dataclass
class Book:
    """Number every series ever met and keep its mark; `active` ones are asked for."""

    series: list[Series] = field(default_factory=list)
    marks: list[Mark] = field(default_factory=list)
    active: set[int] = field(default_factory=set)
    catalogue: Catalogue = field(default_factory=standard)
    _numbers: dict[Series, int] = field(default_factory=dict)

    def enter(self, found: Iterable[Series], since: int) -> list[int]:
        """Number what is new, to be read from `since` on, and return those numbers."""
        new = []
        for series in sorted(found):
            if series not in self._numbers:
                self._numbers[series] = len(self.series)
                new.append(len(self.series))
                self.series.append(series)
                self.marks.append(Mark(since))
        return new

    def targets(self, series: Series) -> tuple[Target, ...]:
        """Return what a series means here."""
        return self.catalogue.targets(series.namespace, series.metric, series.names)

    def number(self, series: Series) -> int:
        """Return the number of a series that was entered."""
        return self._numbers[series]
