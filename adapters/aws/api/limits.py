"""Know the service's own limits of a call, and keep calls below those a second.

The facts are rows of `limits.csv`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from threading import Lock

from adapters.aws.api.calls import Place
from adapters.aws.api.operations import rows_of

_RECENT_SECONDS = 3 * 3600
_OURS = 0.75
"""Share of a quota that the bot takes.

Dashboards and exporters of the same account and region have the rest.
"""


@cache
def limit_of(service: str, operation: str, limit: str) -> int:
    """Return one limit of an operation."""
    rows = rows_of("limits.csv")
    return next(
        int(x["most"])
        for x in rows
        if (x["service"], x["operation"], x["limit"]) == (service, operation, limit)
    )


@dataclass
class DatapointPace:
    """Spread the points asked of GetMetricData over time.

    CloudWatch counts all that a range could hold.
    """

    stopwatch: Callable[[], float]
    pause: Callable[[float], None]
    _free: dict[tuple[str, str], float] = field(default_factory=lambda: defaultdict(float))
    """When the next call of an account and region may be made, by the stopwatch."""
    _lock: Lock = field(default_factory=Lock)

    def wait(self, place: Place, points: int, age: float, deadline: float) -> bool:
        """Wait until so many points may be asked for, the oldest of that age.

        Return False where that is after the deadline.
        """
        tier = "recent" if age <= _RECENT_SECONDS else "older"
        rate = limit_of("cloudwatch", "get_metric_data", f"{tier}_datapoints_per_second") * _OURS
        at = (place.account, place.region)
        with self._lock:
            now = self.stopwatch()
            begin = max(now, self._free[at])
            if begin >= deadline:
                return False
            self._free[at] = begin + points / rate
        if begin > now:
            self.pause(begin - now)
        return True
