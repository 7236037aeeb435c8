"""Read AWS's own outlook on the bill: forecast, commitments, anomalies."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

from adapters.aws.api.responses import (
    Pages,
    RecordedResponses,
    ResponseInfo,
    Translated,
    members,
)
from adapters.aws.files import Problems
from bot.model.labels import Labels
from bot.model.spend import Commitment, CommitmentPlan, Finding, Forecast
from bot.model.window import Window

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
        self._names: list[str] | None = None
        self._troubles: Sequence[str] = ()
        self._problems = Problems()
        self._responses = RecordedResponses(folder / "api", self._problems)

    def forecast(self, now: datetime) -> Forecast | None:
        """Return the newest forecast of the month that `now` is in."""
        newest = self._newest("get_cost_forecast", forecast, now)
        return newest if newest and newest.window.start <= now < newest.window.end else None

    def commitments(self, now: datetime) -> Sequence[Commitment]:
        """Return how Savings Plans and reservations were used, day by day."""
        plans = self._newest("get_savings_plans_utilization", utilization, now) or ()
        covered = self._newest("get_savings_plans_coverage", coverage, now) or {}
        return (
            *(replace(x, coverage=covered.get(x.day)) for x in plans),
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
        if self._due():
            # The folder is read again where its files have changed.
            self._troubles = self._refresh(now)
            names = sorted(path.name for path in self._folder.glob("api/ce/*/*/*.json"))
            if names != self._names:
                self._problems, self._names = Problems(), names
                self._responses = RecordedResponses(self._folder / "api", self._problems)

        fresh = [
            (at, answer)
            for history in self._responses.histories("ce", operation, translate)
            for at, answer in history
            if now - _STALE < at <= now
        ]
        return max(fresh, key=lambda entry: entry[0])[1] if fresh else None


def forecast(pages: Pages, answer: ResponseInfo) -> Forecast:
    """Translate GetCostForecast.

    The spans of one answer follow each other, so their means add up, and their bounds at worst.
    """
    spans = members(pages, "ForecastResultsByTime")
    window = Window(
        _midnight(min(x["TimePeriod"]["Start"] for x in spans)),
        _midnight(max(x["TimePeriod"]["End"] for x in spans)),
    )
    amounts = ("MeanValue", "PredictionIntervalLowerBound", "PredictionIntervalUpperBound")
    mean, low, high = (sum((Decimal(x[name]) for x in spans), Decimal(0)) for name in amounts)
    return Forecast(window, mean, low, high, answer.at)


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
    return {
        _day(x): _usd(x["Coverage"], "CoveragePercentage") / 100
        for x in members(pages, "SavingsPlansCoverages")
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
    first, last = x["AnomalyStartDate"], x.get("AnomalyEndDate") or x["AnomalyStartDate"]

    # The root cause that contributes most stands first.
    causes = sorted(
        x.get("RootCauses") or [{"Service": x.get("DimensionValue", "")}],
        key=lambda cause: -float(cause.get("Impact", {}).get("Contribution", 0)),
    )
    impact = {"TotalActualSpend": 0, "TotalExpectedSpend": 0} | x["Impact"]
    return Finding(
        id=str(x["AnomalyId"]),
        first=_midnight(first).date(),
        last=_midnight(last).date(),
        impact=_usd({"TotalImpact": impact["MaxImpact"]} | impact, "TotalImpact"),
        actual=_usd(impact, "TotalActualSpend"),
        expected=_usd(impact, "TotalExpectedSpend"),
        causes=tuple(
            Labels(
                account=str(cause.get("LinkedAccount", "")),
                service=services.get(str(cause.get("Service", "")), str(cause.get("Service", ""))),
                region=str(cause.get("Region", "")),
                usage_type=str(cause.get("UsageType", "")),
            )
            for cause in causes
        ),
        dismissed=x.get("Feedback") in ("NO", "PLANNED_ACTIVITY"),
    )


def _day(x: Mapping[str, Any]) -> date:
    return _midnight(x["TimePeriod"]["Start"]).date()


def _usd(of: Mapping[str, Any], name: str) -> Decimal:
    return Decimal(str(of[name]))


def _midnight(text: object) -> datetime:
    return datetime.fromisoformat(str(text)[:10]).replace(tzinfo=UTC)
