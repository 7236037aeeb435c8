"""Estimate how much longer an alert goes on, by how long those of its cause lasted."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from decimal import Decimal

from bot.model.alert import Alert
from bot.model.causes import Cause
from bot.model.projection import COVERAGE

_HOUR = timedelta(hours=1)


@dataclass(frozen=True)
class HoursLeft:
    """State how many more hours an alert goes on: at least, in the mean, and at most."""

    low: Decimal
    mean: Decimal
    high: Decimal


@dataclass(frozen=True)
class Lengths:
    """Hold how long alerts lasted, or have lasted so far, by their cause."""

    hours: Mapping[Cause, Sequence[tuple[float, bool]]] = field(default_factory=dict)
    """Hours of each alert, and whether it has ended."""

    @classmethod
    def of(cls, alerts: Iterable[Alert]) -> Lengths:
        """Return the lengths of some alerts."""
        hours: defaultdict[Cause, list[tuple[float, bool]]] = defaultdict(list)
        for alert in alerts:
            hours[alert.cause].append((_hours_of(alert), bool(alert.closed)))
        return cls(hours)

    def left(self, alert: Alert, most: Decimal) -> HoursLeft:
        """Return how many more hours an open alert goes on, `most` at most.

        An alert that lasted longer than this one has tells how much longer; one that is still open
        tells that it was no shorter. Beside them stands the usual length of the cause, as one alert
        that went on for so long and for as long again as this one has lasted: what has outlived the
        usual is no longer usual. The chance to end is the same in every hour, and known as well as
        there are alerts that tell of it (a Lomax distribution).
        """
        age = _hours_of(alert)
        known = self.hours.get(alert.cause, ())
        longer = [(hours - age, ended) for hours, ended in known if hours > age]
        usual = alert.cause.facts.lasts / _HOUR + age
        scale = usual + sum(hours for hours, _ in longer)
        # As many as have ended, the usual, and the one that is asked about.
        shape = 2 + sum(ended for _, ended in longer)

        def quantile(share: float) -> float:
            return scale * (math.pow(1 - share, -1 / shape) - 1)

        end, tail = float(most), (1 - COVERAGE) / 2
        mean = scale / (shape - 1) * (1 - (1 + end / scale) ** (1 - shape))
        low, high = min(quantile(tail), mean), min(quantile(1 - tail), end)
        return HoursLeft(*(Decimal(str(round(hours, 6))) for hours in (low, mean, high)))


def _hours_of(alert: Alert) -> float:
    return (alert.seen - alert.anomaly.window.start) / _HOUR
