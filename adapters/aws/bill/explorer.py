"""Ask Cost Explorer for the bill, from the whole down to its parts, and once a day for AWS's own outlook on it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any
from urllib.parse import quote, unquote

import orjson

from adapters.aws.api.calls import NoData
from adapters.aws.api.operations import price_of
from adapters.aws.api.responses import MALFORMED, STAMP
from adapters.aws.bill.answers import CapReached, ExplorerAnswers
from bot.errors import Unavailable

HOURS_KEPT = timedelta(hours=8)
"""Cost Explorer's own figures change up to three times a day (AWS Cost Management user guide, 2026-11)."""
_AGAIN = timedelta(hours=1)
_TOP, _TAG = "accounts", "tag="
_OPERATION = "get_cost_and_usage"
_METRICS = ["UnblendedCost", "AmortizedCost", "NetUnblendedCost", "UsageQuantity"]
_SETS_A_DAY = 3
AnswerPages = list[Mapping[str, Any]]
AnswersByPart = dict[str, AnswerPages]


@dataclass
class Explorer:
    """Keep Cost Explorer's view of the bill.

    Asked again after eight hours, never past the day's calls.
    """

    answers: ExplorerAnswers
    _failures: dict[str, tuple[datetime, str]] = field(default_factory=dict)
    _asked: dict[tuple[str, datetime], int] = field(default_factory=dict)

    def keep_fresh(self, view: str = "") -> str:
        """Bring one view up to date where that is due.

        Return its age and its cost, or why there is none.
        """
        with self.answers.lock:
            first, now = view or _TOP, self.answers.calls.clock()
            newest = self.answers.newest(_OPERATION, first)
            failed = self._failures.get(first)
            due = newest is None or now - newest >= HOURS_KEPT
            if due and (failed is None or now - failed[0] >= _AGAIN):
                self._refresh(view, now)
            return self._summary(first, now)

    def _refresh(self, view: str, now: datetime) -> None:
        first = view or _TOP
        try:
            answers = self._tagged(view, now) if view else self._whole(now)
        except Unavailable as error:
            self._failures[first] = (now, str(error))
        except MALFORMED as error:
            self._failures[first] = (
                now,
                f"Cost Explorer gave an answer that cannot be read ({type(error).__name__}).",
            )
        else:
            self._failures.pop(first, None)
            self.answers.put(_OPERATION, now, answers, first)

    def _tagged(self, view: str, now: datetime) -> AnswersByPart:
        tag = {"Type": "TAG", "Key": unquote(view.removeprefix(_TAG))}
        return {view: self._ask(now, [tag, _dimension("RECORD_TYPE")])}

    def _whole(self, now: datetime) -> AnswersByPart:
        """Ask for accounts, then each account's regions, then services and usage types of the dearest parts first."""
        allowed = max(1, min(self.answers.left(), self.answers.most_calls // _SETS_A_DAY))
        answers = {_TOP: self._ask(now, [_dimension("LINKED_ACCOUNT"), _dimension("RECORD_TYPE")])}
        accounts = _dearest(_sums(answers[_TOP], 1))
        for (account,) in accounts[: max(0, allowed - 1)]:
            keys = [_dimension("REGION"), _dimension("RECORD_TYPE")]
            answers[_about(account)] = self._ask(now, keys, LINKED_ACCOUNT=account)
        parts = {
            (account, *keys): usd
            for (account,) in accounts
            for keys, usd in _sums(answers.get(_about(account), []), 2).items()
        }
        for account, region, kind in _dearest(parts)[: max(0, allowed - len(answers))]:
            keys = [_dimension("SERVICE"), _dimension("USAGE_TYPE")]
            try:
                about = {"LINKED_ACCOUNT": account, "REGION": region, "RECORD_TYPE": kind}
                answers[_about(account, region, kind)] = self._ask(now, keys, **about)
            except Unavailable as error:
                if not isinstance(error, CapReached) and self.answers.newest(_OPERATION, _TOP):
                    raise  # what was known is finer than what this would leave
                break
        return answers

    def _ask(self, now: datetime, keys: Sequence[Mapping[str, str]], **only: str) -> AnswerPages:
        given: dict[str, Any] = {
            "TimePeriod": _period(now),
            "Granularity": "DAILY",
            "Metrics": _METRICS,
            "GroupBy": list(keys),
        }
        wanted = [{"Dimensions": {"Key": key, "Values": [value]}} for key, value in only.items()]
        if wanted:
            given["Filter"] = wanted[0] if len(wanted) == 1 else {"And": wanted}
        try:
            return self.answers.ask(_OPERATION, **given)
        except NoData:
            return [{"GroupDefinitions": list(keys), "ResultsByTime": []}]

    def _summary(self, first: str, now: datetime) -> str:
        """Return the age and the cost of the answers, or why there are none."""
        newest = self.answers.newest(_OPERATION, first)
        why = self._failures.get(first, (now, ""))[1]
        if newest is None:
            return why
        calls = self._calls_of(first, newest)
        usd = price_of("ce", _OPERATION, calls)
        age = (now - newest).total_seconds() / 3600
        state = f"Cost Explorer from {_period(newest)['Start']} on, asked {age:.0f} h ago in {calls} calls (${usd:.2f})"
        return f"{state}; {why.rstrip('.')}" if why else state

    def _calls_of(self, first: str, at: datetime) -> int:
        """Return how many pages a set of answers took."""
        if (first, at) not in self._asked:
            files = self.answers.of(_OPERATION).glob(f"{at:{STAMP}}.*.json")
            named = [(path, path.name.partition(".")[2].removesuffix(".json")) for path in files]
            mine = [
                path
                for path, name in named
                if (name == first if first.startswith(_TAG) else not name.startswith(_TAG))
            ]
            self._asked = {
                (first, at): sum(len(orjson.loads(path.read_bytes())) for path in mine)
            } | self._asked
        return self._asked[first, at]


def _period(now: datetime) -> dict[str, str]:
    """Return the whole days from the first of the month before the last, today left out.

    It has only begun.
    """
    month = now.replace(day=1)
    for _ in range(2):
        month = (month - timedelta(days=1)).replace(day=1)
    return {"Start": f"{month:%Y-%m-%d}", "End": f"{now:%Y-%m-%d}"}


def _dimension(key: str) -> dict[str, str]:
    return {"Type": "DIMENSION", "Key": key}


def _about(*parts: str) -> str:
    """Return the name of an answer that is filtered by these parts: no dot, no slash within one."""
    return ".".join(quote(part, safe="").replace(".", "%2E") for part in parts)


def _sums(pages: AnswerPages, keys: int) -> dict[tuple[str, ...], Decimal]:
    """Return the amounts, without their signs, that moved under the first keys of each group."""
    sums: dict[tuple[str, ...], Decimal] = {}
    for page in pages:
        for names, usd in _groups(page):
            sums[names[:keys]] = sums.get(names[:keys], Decimal(0)) + abs(usd)
    return sums


def _groups(page: Mapping[str, Any]) -> Iterator[tuple[tuple[str, ...], Decimal]]:
    for span in page["ResultsByTime"]:
        for group in span.get("Groups", ()):
            yield tuple(group["Keys"]), Decimal(group["Metrics"]["UnblendedCost"]["Amount"])


def _dearest(sums: Mapping[tuple[str, ...], Decimal]) -> list[tuple[str, ...]]:
    return sorted(sums, key=lambda names: (-sums[names], names))


_OUTLOOK_EVERY, _OUTLOOK_AGAIN = timedelta(hours=23), timedelta(hours=2)
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
class OutlookPoller:
    """Keep the answers fresh in the folder that they are read from."""

    answers: ExplorerAnswers
    _tried: dict[str, datetime] = field(default_factory=dict)
    _troubles: dict[str, str] = field(default_factory=dict)

    def refresh(self, now: datetime) -> Sequence[str]:
        """Poll the answers that are due; return a sentence for each one that is missing."""
        with self.answers.lock:
            for operation, given in _outlook_requests(now).items():
                newest = self.answers.newest(operation)
                fresh = newest is not None and now - newest < _OUTLOOK_EVERY
                if (
                    fresh
                    or now - self._tried.get(operation, datetime.min.replace(tzinfo=now.tzinfo))
                    < _OUTLOOK_AGAIN
                ):
                    continue
                self._tried[operation] = now
                self._ask(operation, given, now)
            return tuple(self._troubles.values())

    def _ask(self, operation: str, given: Mapping[str, Any], now: datetime) -> None:
        self._troubles.pop(operation, None)
        try:
            self.answers.put(operation, now, {"": self.answers.ask(operation, **given)})
        except NoData:
            if operation in _EMPTY:
                self.answers.put(operation, now, {"": [_EMPTY[operation]]})
        except Unavailable as error:
            self._troubles[operation] = str(error)


def _outlook_requests(now: datetime) -> dict[str, dict[str, Any]]:
    """Return the arguments of each operation: whole days, ends exclusive."""
    today, first = now.date(), now.date() - timedelta(days=_DAYS)
    month = (today.replace(day=1) + timedelta(days=32)).replace(day=1)
    past = {"TimePeriod": {"Start": str(first), "End": str(today)}, "Granularity": "DAILY"}
    rest = {"TimePeriod": {"Start": str(today), "End": str(month)}, "Granularity": "MONTHLY"}
    return {
        "get_cost_forecast": {
            **rest,
            "Metric": "AMORTIZED_COST",
            "PredictionIntervalLevel": 80,
            "Filter": _NOT_USAGE,
        },
        "get_savings_plans_utilization": past,
        "get_savings_plans_coverage": past,
        "get_reservation_utilization": past,
        "get_anomalies": {"DateInterval": {"StartDate": str(first), "EndDate": str(today)}},
    }
