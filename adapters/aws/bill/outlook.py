"""Read AWS's own outlook on the bill: forecast, commitments, anomalies."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, TypeVar

from adapters.aws.api.responses import (
    Pages,
    RecordedResponses,
    ResponseInfo,
    members,
)
from adapters.aws.files import Problems
from bot.model.labels import Labels
from bot.model.spend import Commitment, CommitmentPlan, Finding, Forecast
from bot.model.window import Window

Translated = TypeVar("Translated")


_STALE = timedelta(days=3)
"""After so long an answer no longer says how things stand."""


class RecordedOutlook:
    """Implement `bot.ports.Outlook` over a folder with `api/ce`.

    `refresh` brings it up to date before it is read.

    `due` tells whether to look at the folder again.
    """

    def __init__(
        self,
        folder: Path,
        services: Mapping[str, str],
        refresh: Callable[[datetime], Sequence[str]] = lambda _: (),
        due: Callable[[], bool] = lambda: True,
    ) -> None:
        self._folder, self._services, self._refresh, self._due = folder, services, refresh, due
        self._names: list[str] = []
        self._responses: RecordedResponses | None = None

        self._troubles: Sequence[str] = ()
        self._problems = Problems()

    def forecast(self, now: datetime) -> Forecast | None:
        """Return the newest forecast of the month that `now` is in."""
        newest = self._newest("get_cost_forecast", forecast, now)
        return newest if newest and newest.window.start <= now < newest.window.end else None

    def commitments(self, now: datetime) -> Sequence[Commitment]:
        """Return how Savings Plans and reservations were used, day by day."""
        plans = self._newest("get_savings_plans_utilization", utilization, now) or ()
        covered = self._newest("get_savings_plans_coverage", coverage, now) or {}
        savings_plans = [
            Commitment(x.plan, x.day, x.committed, x.unused, covered.get(x.day)) for x in plans
        ]
        return (
            *savings_plans,
            *(self._newest("get_reservation_utilization", reservations, now) or ()),
        )

    def findings(self, now: datetime) -> Sequence[Finding]:
        """Return the anomalies that AWS Cost Anomaly Detection had found."""
        return (
            self._newest("get_anomalies", lambda pages, _: anomalies(pages, self._services), now)
            or ()
        )

    def problems(self) -> Sequence[str]:
        """Return a sentence for each answer that is missing or cannot be read."""
        return (*self._troubles, *self._problems.sentences())

    def _newest(
        self, operation: str, translate: Callable[[Pages, ResponseInfo], Translated], now: datetime
    ) -> Translated | None:
        if self._responses is None or self._due():
            # The folder is read again where its files have changed.
            self._troubles = self._refresh(now)
            names = sorted(path.name for path in self._folder.glob("api/ce/*/*/*.json"))
            if self._responses is None or names != self._names:
                self._problems, self._names = Problems(), names
                self._responses = RecordedResponses(self._folder / "api", self._problems)

        histories = self._responses.histories("ce", operation, translate)
        entries = (entry for history in histories for entry in history)
        fresh = [entry for entry in entries if now - _STALE < entry[0] <= now]
        return max(fresh, key=lambda entry: entry[0])[1] if fresh else None


def forecast(pages: Pages, answer: ResponseInfo) -> Forecast:
    """Translate GetCostForecast.

    The spans of one answer follow each other, so their means add up, and their bounds at worst.
    """
    spans = members(pages, "ForecastResultsByTime")
    start = min(x["TimePeriod"]["Start"] for x in spans)
    end = max(x["TimePeriod"]["End"] for x in spans)
    amounts = ("MeanValue", "PredictionIntervalLowerBound", "PredictionIntervalUpperBound")
    mean, low, high = (sum((Decimal(x[name]) for x in spans), Decimal(0)) for name in amounts)
    return Forecast(Window(_midnight(start), _midnight(end)), mean, low, high, answer.at)


def utilization(pages: Pages, _: ResponseInfo) -> tuple[Commitment, ...]:
    """Translate GetSavingsPlansUtilization by day."""
    return tuple(
        Commitment(
            CommitmentPlan.SAVINGS_PLANS,
            _day(x),
            _usd(x["Utilization"], "TotalCommitment"),
            _usd(x["Utilization"], "UnusedCommitment"),
        )
        for x in members(pages, "SavingsPlansUtilizationsByTime")
    )


def coverage(pages: Pages, _: ResponseInfo) -> dict[date, Decimal]:
    """Translate GetSavingsPlansCoverage: the covered share of each day's usage."""
    days = members(pages, "SavingsPlansCoverages")
    return {
        _day(x): Decimal(str(x["Coverage"]["CoveragePercentage"])) / 100
        for x in days
        if x.get("Coverage")
    }


def reservations(pages: Pages, _: ResponseInfo) -> tuple[Commitment, ...]:
    """Translate GetReservationUtilization by day; days without a reservation are left out."""
    translated = (
        Commitment(
            CommitmentPlan.RESERVATIONS,
            _day(x),
            _usd(x["Total"], "TotalAmortizedFee"),
            _usd(x["Total"], "RICostForUnusedHours"),
        )
        for x in members(pages, "UtilizationsByTime")
    )
    return tuple(x for x in translated if x.committed)


def anomalies(pages: Pages, services: Mapping[str, str]) -> tuple[Finding, ...]:
    """Translate GetAnomalies: its amounts are numbers, its services have their display names."""
    return tuple(_finding(x, services) for x in members(pages, "Anomalies"))


def _finding(x: Mapping[str, Any], services: Mapping[str, str]) -> Finding:
    first = date.fromisoformat(str(x["AnomalyStartDate"])[:10])
    last = date.fromisoformat(str(x.get("AnomalyEndDate") or x["AnomalyStartDate"])[:10])

    # The root cause that contributes most stands first.
    causes = sorted(
        x.get("RootCauses") or [{"Service": x.get("DimensionValue", "")}],
        key=lambda cause: -float(cause.get("Impact", {}).get("Contribution", 0)),
    )
    labels = tuple(
        Labels(
            account=str(cause.get("LinkedAccount", "")),
            service=services.get(str(cause.get("Service", "")), str(cause.get("Service", ""))),
            region=str(cause.get("Region", "")),
            usage_type=str(cause.get("UsageType", "")),
        )
        for cause in causes
    )
    impact = x["Impact"]
    total = impact.get("TotalImpact", impact["MaxImpact"])
    amounts = (total, impact.get("TotalActualSpend", 0), impact.get("TotalExpectedSpend", 0))
    total, actual, usual = (Decimal(str(amount)) for amount in amounts)
    dismissed = x.get("Feedback") in ("NO", "PLANNED_ACTIVITY")
    return Finding(str(x["AnomalyId"]), first, last, total, actual, usual, labels, dismissed)


def _day(x: Mapping[str, Any]) -> date:
    return date.fromisoformat(str(x["TimePeriod"]["Start"])[:10])


def _usd(of: Mapping[str, Any], name: str) -> Decimal:
    return Decimal(str(of[name]))


def _midnight(text: str) -> datetime:
    return datetime.fromisoformat(text[:10]).replace(tzinfo=UTC)
