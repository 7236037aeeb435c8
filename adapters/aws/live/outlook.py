"""Ask once a day what AWS itself says of the bill; an account without commitments or history has nothing to tell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from adapters.aws.live.answers import Answers
from adapters.aws.live.calls import Nothing
from bot.errors import Unavailable

_DAILY, _AGAIN = timedelta(hours=23), timedelta(hours=2)
_DAYS = 14
_NOT_USAGE = {"Not": {"Dimensions": {"Key": "RECORD_TYPE", "Values": ["Credit", "Refund", "Tax"]}}}
_EMPTY: Mapping[str, Mapping[str, Any]] = {
    "get_savings_plans_utilization": {"SavingsPlansUtilizationsByTime": []},
    "get_savings_plans_coverage": {"SavingsPlansCoverages": []},
    "get_reservation_utilization": {"UtilizationsByTime": []},
    "get_anomalies": {"Anomalies": []},
}
"""What stands for "there is none"; a forecast that AWS cannot make leaves no answer."""


@dataclass
class OutlookAsker:
    """Keep the answers fresh in the folder that they are read from."""

    answers: Answers
    _tried: dict[str, datetime] = field(default_factory=dict)
    _troubles: dict[str, str] = field(default_factory=dict)

    def refresh(self, now: datetime) -> Sequence[str]:
        """Ask what is due; return a sentence for each answer that could not be had."""
        with self.answers.lock:
            for operation, given in _asked(now).items():
                newest = self.answers.newest(operation)
                fresh = newest is not None and now - newest < _DAILY
                if fresh or now - self._tried.get(operation, datetime.min.replace(tzinfo=now.tzinfo)) < _AGAIN:
                    continue
                self._tried[operation] = now
                self._ask(operation, given, now)
            return tuple(self._troubles.values())

    def _ask(self, operation: str, given: Mapping[str, Any], now: datetime) -> None:
        self._troubles.pop(operation, None)
        try:
            self.answers.put(operation, now, {"": self.answers.ask(operation, **given)})
        except Nothing:
            if operation in _EMPTY:
                self.answers.put(operation, now, {"": [_EMPTY[operation]]})
        except Unavailable as error:
            self._troubles[operation] = str(error)


def _asked(now: datetime) -> dict[str, dict[str, Any]]:
    """Return what each operation is given: whole days, ends exclusive."""
    today, first = now.date(), now.date() - timedelta(days=_DAYS)
    month = (today.replace(day=1) + timedelta(days=32)).replace(day=1)
    past = {"TimePeriod": {"Start": str(first), "End": str(today)}, "Granularity": "DAILY"}
    rest = {"TimePeriod": {"Start": str(today), "End": str(month)}, "Granularity": "MONTHLY"}
    return {
        "get_cost_forecast": {**rest, "Metric": "AMORTIZED_COST", "PredictionIntervalLevel": 80, "Filter": _NOT_USAGE},
        "get_savings_plans_utilization": past,
        "get_savings_plans_coverage": past,
        "get_reservation_utilization": past,
        "get_anomalies": {"DateInterval": {"StartDate": str(first), "EndDate": str(today)}},
    }
