"""Ask Cost Explorer for the bill and for AWS's outlook on it, within a day's calls."""

from __future__ import annotations

import re
import shutil
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from threading import RLock
from typing import Any
from urllib.parse import quote, unquote

import orjson

from adapters.aws.api.calls import Calls, NoData
from adapters.aws.api.operations import Place, price_of
from adapters.aws.api.responses import (
    ANSWER_NAME,
    MALFORMED,
    STAMP,
    json_of,
    read_stamp,
)
from adapters.aws.files import write_whole
from bot.errors import Unavailable

_KEPT_SETS = 2
"""The newest set of answers and the one before it, which a reader may still hold open."""


class CapReached(Unavailable):
    """Report that no more priced calls are made today."""


@dataclass
class ExplorerAnswers:
    """Ask Cost Explorer at most `most_calls` times a UTC day.

    Keep its answers under `folder`/api.
    """

    calls: Calls
    folder: Path
    place: Place
    most_calls: int
    lock: RLock = field(default_factory=RLock)

    def ask(self, operation: str, **given: Any) -> list[Mapping[str, Any]]:
        """Return every page of one answer.

        Raise `CapReached` when the day's calls are used, `Unavailable` otherwise.
        """
        if self.left() <= 0:
            raise CapReached(
                f"Today's {self.most_calls} calls to Cost Explorer are used"
                " (TRNBOT_AWS_EXPLORER_CALLS)."
            )
        try:
            return list(self.calls.pages(self.place, "ce", operation, **given))
        finally:
            self.calls.meter.save()

    def left(self) -> int:
        """Return how many calls of today are left."""
        used = self.calls.meter.today().units.items()
        return self.most_calls - sum(units for name, units in used if name.startswith("ce:"))

    def put(
        self,
        operation: str,
        at: datetime,
        answers: Mapping[str, Sequence[Mapping[str, Any]]],
        first: str = "",
    ) -> None:
        """Write a set of answers of one time, each by its subject; the one called `first` last.

        Without it none counts.
        """
        folder = self.of(operation)
        for about in sorted(answers, key=lambda name: name == first):
            name = f"{at:{STAMP}}.{about}.json" if about else f"{at:{STAMP}}.json"
            write_whole(folder / name, json_of(answers[about]) + b"\n")

        # Sets that are older than the last ones of the same kind are dropped.
        files = list(self._named(folder))
        times = sorted({name[1] for name in files if (name[2] or "") == first})
        for file in files:
            if _is_part(file[2] or "", first) and file[1] in times[:-_KEPT_SETS]:
                (folder / file[0]).unlink(missing_ok=True)

    def newest(self, operation: str, about: str = "") -> datetime | None:
        """Return the time of the newest answer about a subject."""
        times = [name[1] for name in self._named(self.of(operation)) if (name[2] or "") == about]
        return read_stamp(max(times)) if times else None

    def of(self, operation: str) -> Path:
        """Return the folder of an operation's answers."""
        return self.folder / "api" / "ce" / operation / "us-east-1"

    def copy_to(self, folder: Path, until: datetime | None = None) -> int:
        """Copy every kept answer into a recording; return how many.

        An answer given after `until`, its end, counts from then.
        """
        files = [
            path
            for path in (self.folder / "api").rglob("*.json")
            if ANSWER_NAME.fullmatch(path.name)
        ]
        for path in files:
            time, dot, about = path.name.partition(".")
            time = min(time, f"{until:{STAMP}}") if until else time
            target = folder / path.relative_to(self.folder).with_name(time + dot + about)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)
        return len(files)

    def pages_of(self, operation: str, at: datetime, first: str) -> int:
        """Return how many pages the answers of a set have."""
        return sum(
            len(orjson.loads(path.read_bytes()))
            for path in self.of(operation).glob(f"{at:{STAMP}}.*.json")
            if _is_part(path.name.partition(".")[2].removesuffix(".json"), first)
        )

    def _named(self, folder: Path) -> Iterator[re.Match[str]]:
        return filter(
            None, (ANSWER_NAME.fullmatch(path.name) for path in sorted(folder.glob("*.json")))
        )


def _is_part(subject: str, first: str) -> bool:
    """Return whether an answer is of the set of `first`: a tag stands alone, all others together."""
    return subject == first if first.startswith(_TAG) else not subject.startswith(_TAG)


HOURS_KEPT = timedelta(hours=8)
"""Cost Explorer's own figures change up to three times a day.

AWS Cost Management user guide, 2026-11.
"""
_AGAIN = timedelta(hours=1)
_TOP, _TAG = "accounts", "tag="
_OPERATION = "get_cost_and_usage"
_SETS_A_DAY = 3
AnswerPages = list[Mapping[str, Any]]


@dataclass
class Explorer:
    """Keep Cost Explorer's view of the bill.

    Asked again after eight hours, never past the day's calls.
    """

    answers: ExplorerAnswers
    _failures: dict[str, tuple[datetime, str]] = field(default_factory=dict)
    _pages: dict[tuple[str, datetime], int] = field(default_factory=dict)

    def keep_fresh(self, view: str = "") -> str:
        """Bring one view up to date where that is due.

        Return its age and its cost, or why there is none.
        """
        with self.answers.lock:
            first, now = view or _TOP, self.answers.calls.clock()
            failed = self._failures.get(first)
            if self.due(first) and (failed is None or now - failed[0] >= _AGAIN):
                try:
                    answers = self._asked(view, now)
                except Unavailable as error:
                    self._failures[first] = (now, str(error))
                except MALFORMED as error:
                    unread = "Cost Explorer gave an answer that cannot be read"
                    self._failures[first] = (now, f"{unread} ({type(error).__name__}).")
                else:
                    self._failures.pop(first, None)
                    self.answers.put(_OPERATION, now, answers, first)

            newest = self.answers.newest(_OPERATION, first)
            why = self._failures.get(first, (now, ""))[1]
            if newest is None:
                return why
            # A set of answers does not change: its pages are counted once.
            if (first, newest) not in self._pages:
                self._pages[first, newest] = self.answers.pages_of(_OPERATION, newest, first)
            calls, age = self._pages[first, newest], (now - newest).total_seconds() / 3600

            begin, usd = _period(newest)["Start"], price_of("ce", _OPERATION, calls)
            state = f"Cost Explorer from {begin} on, asked {age:.0f} h ago in {calls} calls (${usd:.2f})"
            return f"{state}; {why.rstrip('.')}" if why else state

    def due(self, view: str = _TOP) -> int:
        """Return how many calls bringing a view up to date takes at most, 0 where it is fresh."""
        newest = self.answers.newest(_OPERATION, view)
        if newest is not None and self.answers.calls.clock() - newest < HOURS_KEPT:
            return 0
        return max(1, min(self.answers.left(), self.answers.most_calls // _SETS_A_DAY))

    def _asked(self, view: str, now: datetime) -> dict[str, AnswerPages]:
        """Ask for a tag, or for accounts, their regions, and the parts of the dearest of these.

        Those are services and usage types.
        """
        kind = _grouped("RECORD_TYPE")
        if view:
            tag = _grouped(unquote(view.removeprefix(_TAG)), "TAG")
            return {view: self._ask(now, [tag, kind])}
        allowed = self.due() or 1
        answers = {_TOP: self._ask(now, [_grouped("LINKED_ACCOUNT"), kind])}

        # Where the day's calls do not reach, the dearest come first.
        accounts = _dearest(_sums(answers[_TOP], 1))
        for (account,) in accounts[: max(0, allowed - 1)]:
            answers[_about(account)] = self._ask(
                now, [_grouped("REGION"), kind], LINKED_ACCOUNT=account
            )

        parts = {
            (account, *keys): usd
            for (account,) in accounts
            for keys, usd in _sums(answers.get(_about(account), []), 2).items()
        }
        for account, region, record_type in _dearest(parts)[: max(0, allowed - len(answers))]:
            try:
                answers[_about(account, region, record_type)] = self._ask(
                    now,
                    [_grouped("SERVICE"), _grouped("USAGE_TYPE")],
                    LINKED_ACCOUNT=account,
                    REGION=region,
                    RECORD_TYPE=record_type,
                )
            except Unavailable as error:
                # What was known is finer than what this would leave.
                if not isinstance(error, CapReached) and self.answers.newest(_OPERATION, _TOP):
                    raise
                break
        return answers

    def _ask(self, now: datetime, keys: Sequence[Mapping[str, str]], **only: str) -> AnswerPages:
        parameters: dict[str, Any] = {
            "TimePeriod": _period(now),
            "Granularity": "DAILY",
            "Metrics": ["UnblendedCost", "AmortizedCost", "NetUnblendedCost", "UsageQuantity"],
            "GroupBy": list(keys),
        }
        filters = [{"Dimensions": {"Key": key, "Values": [value]}} for key, value in only.items()]
        if filters:
            parameters["Filter"] = filters[0] if len(filters) == 1 else {"And": filters}
        try:
            return self.answers.ask(_OPERATION, **parameters)
        except NoData:
            return [{"GroupDefinitions": list(keys), "ResultsByTime": []}]


def _period(now: datetime) -> dict[str, str]:
    """Return the whole days from the first of the month before the last, today left out.

    It has only begun.
    """
    month = now.replace(day=1)
    for _ in range(2):
        month = (month - timedelta(days=1)).replace(day=1)
    return {"Start": f"{month:%Y-%m-%d}", "End": f"{now:%Y-%m-%d}"}


def _grouped(key: str, by: str = "DIMENSION") -> dict[str, str]:
    return {"Type": by, "Key": key}


def _about(*parts: str) -> str:
    """Return the name of an answer that is filtered by these parts: no dot, no slash within one."""
    return ".".join(quote(part, safe="").replace(".", "%2E") for part in parts)


def _sums(pages: AnswerPages, keys: int) -> dict[tuple[str, ...], Decimal]:
    """Return the amounts, without their signs, that moved under the first keys of each group."""
    sums: dict[tuple[str, ...], Decimal] = defaultdict(Decimal)
    groups = (x for page in pages for span in page["ResultsByTime"] for x in span.get("Groups", ()))
    for group in groups:
        usd = Decimal(group["Metrics"]["UnblendedCost"]["Amount"])
        sums[tuple(group["Keys"])[:keys]] += abs(usd)
    return sums


def _dearest(sums: Mapping[tuple[str, ...], Decimal]) -> list[tuple[str, ...]]:
    return sorted(sums, key=lambda names: (-sums[names], names))


_OUTLOOK_EVERY, _OUTLOOK_AGAIN = timedelta(hours=23), timedelta(hours=2)
_DAYS = 14
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
        # Whole days, ends exclusive.
        today, first = now.date(), now.date() - timedelta(days=_DAYS)
        month = (today.replace(day=1) + timedelta(days=32)).replace(day=1)
        past = {"TimePeriod": {"Start": str(first), "End": str(today)}, "Granularity": "DAILY"}
        requests: dict[str, dict[str, Any]] = {
            "get_cost_forecast": {
                "TimePeriod": {"Start": str(today), "End": str(month)},
                "Granularity": "MONTHLY",
                "Metric": "AMORTIZED_COST",
                "PredictionIntervalLevel": 80,
                "Filter": {
                    "Not": {
                        "Dimensions": {"Key": "RECORD_TYPE", "Values": ["Credit", "Refund", "Tax"]}
                    }
                },
            },
            "get_savings_plans_utilization": past,
            "get_savings_plans_coverage": past,
            "get_reservation_utilization": past,
            "get_anomalies": {"DateInterval": {"StartDate": str(first), "EndDate": str(today)}},
        }
        with self.answers.lock:
            for operation, parameters in requests.items():
                tried = self._tried.get(operation, now - _OUTLOOK_AGAIN)
                if not self._fresh(operation, now) and now - tried >= _OUTLOOK_AGAIN:
                    self._tried[operation] = now
                    self._ask(operation, parameters, now)
            return tuple(self._troubles.values())

    def due(self, now: datetime) -> int:
        """Return how many calls bringing the answers up to date takes, 0 where all are fresh."""
        return sum(not self._fresh(name, now) for name in ("get_cost_forecast", *_EMPTY))

    def _fresh(self, operation: str, now: datetime) -> bool:
        newest = self.answers.newest(operation)
        return newest is not None and now - newest < _OUTLOOK_EVERY

    def _ask(self, operation: str, parameters: Mapping[str, Any], now: datetime) -> None:
        self._troubles.pop(operation, None)
        try:
            self.answers.put(operation, now, {"": self.answers.ask(operation, **parameters)})
        except NoData:
            if operation in _EMPTY:
                self.answers.put(operation, now, {"": [_EMPTY[operation]]})
        except Unavailable as error:
            self._troubles[operation] = str(error)
