"""Tell whether the picture of a chart still shows what matters of it, so that it need not be drawn and uploaded again."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from bot.cards.card import Chart
from bot.model.codec import decode

_MOVED = 0.25
"""The share of its time axis by which a picture may lie back."""
_STRAYED = 0.1
"""The share of its range by which newer readings may differ from the last that it shows."""


@dataclass(frozen=True)
class Picture:
    """Hold an uploaded picture: its file, and what it shows of its chart."""

    file: str
    digest: str
    frame: str = ""
    """Fingerprint of all but the readings.

    "" of what is no line over time, whose picture shows its digest alone.
    """
    until: datetime | None = None
    last: tuple[float | None, ...] = ()
    """The last reading of each series."""
    span: float = 0.0
    """From the lowest to the highest value that it shows."""

    @staticmethod
    def of(chart: Chart, file: str) -> Picture:
        """Return the picture of a chart that was uploaded as a file."""
        picture = Picture(file, digest(chart))
        if not chart.times:
            return picture
        last = tuple(_last(series.values) for series in chart.series)
        return replace(
            picture, frame=_frame(chart), until=chart.times[-1], last=last, span=_span(chart)
        )

    def shows(self, chart: Chart) -> bool:
        """Return whether it shows all that matters of a chart.

        No later reading strays, and not too much time has passed.
        """
        if self.digest == digest(chart):
            return True
        if not (self.frame and self.until and chart.times) or self.frame != _frame(chart):
            return False
        moved, axis = chart.times[-1] - self.until, chart.times[-1] - chart.times[0]
        return moved <= _MOVED * axis and all(
            _is_near(value, last, self.span * _STRAYED)
            for series, last in zip(chart.series, self.last, strict=False)
            for at, value in zip(chart.times, series.values, strict=False)
            if at > self.until
        )


@dataclass(frozen=True)
class Pictures:
    """Hold the pictures of one message.

    Those that it is to show, and the files that it shows no more, still to be deleted.
    """

    shown: tuple[Picture, ...] = ()
    dropped: tuple[str, ...] = ()

    @staticmethod
    def read(document: Mapping[str, Any]) -> Pictures:
        """Return the pictures of a stored document.

        Earlier versions kept files by the chart's digest alone.
        """
        if "shown" in document:
            return decode(Pictures, document)
        return Pictures(tuple(Picture(str(file), digest) for digest, file in document.items()))

    def find(self, chart: Chart) -> Picture | None:
        """Return the picture that shows a chart, None where there is none."""
        return next((one for one in self.shown if one.shows(chart)), None)

    def after(self, shown: Sequence[Picture]) -> Pictures:
        """Return the pictures of the message once it shows these."""
        files = {one.file for one in shown}
        left = (*self.dropped, *(one.file for one in self.shown))
        return Pictures(
            tuple(shown), tuple(dict.fromkeys(file for file in left if file not in files))
        )


def digest(chart: Chart) -> str:
    """Return a fingerprint that changes when the chart does."""
    return _hashed(chart)


def _frame(chart: Chart) -> str:
    """Return a fingerprint of what a line chart shows beside its readings.

    Its summary stands in words beside the picture.
    """
    names = tuple((series.name, series.tone) for series in chart.series)
    begun = chart.shaded.start if chart.shaded else None
    band = tuple(f"{end:.2g}" for end in chart.band or ())
    return _hashed((chart.kind, chart.title, chart.unit, names, begun, band))


def _hashed(value: object) -> str:
    return hashlib.sha256(repr(value).encode(errors="replace")).hexdigest()[:32]


def _last(values: Sequence[float | None]) -> float | None:
    return next((value for value in reversed(values) if _is_reading(value)), None)


def _span(chart: Chart) -> float:
    values = [
        value
        for series in chart.series
        for value in series.values
        if value is not None and math.isfinite(value)
    ]
    values += chart.band or ()
    return max(values) - min(values) if values else 0.0


def _is_near(value: float | None, last: float | None, most: float) -> bool:
    """Return whether a reading is as the last one was; a missing one is no news."""
    return value is None or (last is not None and abs(value - last) <= most)


def _is_reading(value: float | None) -> bool:
    return value is not None and math.isfinite(value)
