"""Count calls and their costs by UTC day, classify failures, and log each change of state once."""

from __future__ import annotations

import fcntl
import logging
import re
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future, wait
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from decimal import Decimal
from enum import StrEnum
from pathlib import Path
from threading import Lock, Thread
from typing import TypeVar

import orjson
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    CredentialRetrievalError,
    NoCredentialsError,
    PartialCredentialsError,
    RefreshWithMFAUnsupportedError,
    SSOError,
    TokenRetrievalError,
    UnknownCredentialError,
)

from adapters.aws.api.operations import (
    ACTING,
    DETAIL_RANK,
    FREE,
    Operation,
    call_price,
    declared_as,
    operations,
    stops_at,
)
from adapters.aws.files import write_whole
from bot.model.codec import decode, encode
from bot.model.price import CallUse, SelfCost
from bot.ports import Clock

log = logging.getLogger("trnbot.aws")


class CallState(StrEnum):
    """Name how a call ended."""

    WELL = "well"
    DENIED = "denied"
    EXPIRED = "without valid credentials"
    THROTTLED = "throttled"
    BROKEN = "broken"
    SLOW = "slow"


_UNKNOWN_KEYS = (
    "InvalidClientTokenId",
    "UnrecognizedClient",
    "InvalidAccessKeyId",
    "AuthFailure",
    "SignatureDoesNotMatch",
)
_STATES = {
    CallState.WELL: ("DataUnavailable", "DryRunOperation"),
    CallState.DENIED: (
        "AccessDenied",
        "KMS.",
        "UnauthorizedOperation",
        "OptInRequired",
        "SubscriptionRequired",
    ),
    CallState.EXPIRED: ("ExpiredToken", "RequestExpired", *_UNKNOWN_KEYS),
    CallState.THROTTLED: (
        "Throttl",
        "RequestLimitExceeded",
        "TooManyRequests",
        "SlowDown",
        "PriorRequestNotComplete",
    ),
}
_PASSING = {CallState.THROTTLED, CallState.BROKEN, CallState.SLOW}
_SETTLED = timedelta(minutes=1)
_PASSED = timedelta(hours=1)
"""Within so long a passing trouble has passed: even what is polled once an hour is asked again."""
_ASKED = timedelta(hours=25)
"""What is needed is asked again within so long: some answers serve for a day."""
_UNPROVEN = (
    NoCredentialsError,
    PartialCredentialsError,
    CredentialRetrievalError,
    TokenRetrievalError,
    UnknownCredentialError,
    RefreshWithMFAUnsupportedError,
    SSOError,
)
"""What botocore raises where no credentials can be had, without a word of AWS.

A login that ended, a provider that fails.
"""
FAILURES = (BotoCoreError, ClientError, OSError)
"""What a call may raise.

Their texts may carry addresses, ids and tokens, so only codes and class names are passed on.
"""


def state_of(error: Exception) -> CallState:
    """Return the kind of failure that an error is."""
    if isinstance(error, _UNPROVEN):
        return CallState.EXPIRED
    code = code_of(error)
    return next(
        (state for state, codes in _STATES.items() if code.startswith(codes)), CallState.BROKEN
    )


def code_of(error: Exception) -> str:
    """Return AWS's error code, or the class of the failure."""
    if isinstance(error, ClientError):
        return str(error.response.get("Error", {}).get("Code", "")) or type(error).__name__
    return type(error).__name__


_REFUSED = re.compile(r"not authorized to perform: ([a-z0-9-]+:\w+)")
"""How AWS's errors name the action that a policy does not allow: not always that of the call."""


def refused_in(text: str) -> str:
    """Return the action that AWS says is not allowed, where the bot's policy has it; "" for none.

    S3 names kms:Decrypt of a sealed object, Athena what it does in the caller's name.
    """
    match = _REFUSED.search(text)
    return match[1] if match and declared_as(match[1]) else ""


def refused_by(error: Exception) -> str:
    """Return the action that an error of AWS names, "" for none."""
    if not isinstance(error, ClientError):
        return ""
    return refused_in(str(error.response.get("Error", {}).get("Message", "")))


def credentials_remedy(code: str) -> str:
    """Return what to do about credentials: there are none, AWS does not know them, or they ended."""
    if code.startswith(("NoCredentials", "PartialCredentials")):
        return (
            "none are set: give AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, AWS_PROFILE,"
            " or a role to the machine, task or pod"
        )
    if code.startswith(_UNKNOWN_KEYS):
        return "AWS does not know these keys: give those of a user or role that exists"
    return "renew the credentials"


@dataclass(frozen=True)
class Standing:
    """State how a part stands: what was asked, where, and how it ended."""

    declared: Operation
    where: str
    state: CallState
    code: str = ""
    refused: str = ""
    """The action that AWS named where it refused another than the call's own."""

    @property
    def allowed(self) -> tuple[str, ...]:
        """Return the actions that would have to be allowed."""
        return (self.refused,) if self.refused else self.declared.allowed

    @property
    def problem(self) -> str:
        """Return a sentence that names the failed call, its place, and the remedy."""
        declared = self.declared
        again = "within the hour" if declared.optional else "at the next tick"

        # A sealed bucket is denied by its key, which AWS's error does not say.
        sealed = (
            ", and kms:Decrypt of the key where the bucket is sealed with SSE-KMS"
            if declared.action == "s3:GetObject" and not self.refused
            else ""
        )
        actions = " and ".join(self.allowed) or "the bot there"
        remedy = {
            CallState.DENIED: f"allow {actions} ({self.declared.policy}) to {declared.why}{sealed}",
            CallState.EXPIRED: credentials_remedy(self.code),
            CallState.THROTTLED: f"it is read again {again}",
        }.get(
            self.state,
            "nothing was changed" if declared.policy == ACTING else f"it is tried again {again}",
        )
        return f"{declared.title} in {self.where} is {self.state} ({self.code}); {remedy}."


@dataclass
class CallStates:
    """Remember how each part (place and operation) stands.

    A change is logged, its repetition is not.

    Throttled, broken and slow are one trouble that passes by itself: going from one to the other is
    no news. A part has recovered when it answers and has not failed for a minute: of several calls
    of a tick some may fail.
    """

    clock: Clock
    _failed: dict[tuple[str, str], datetime] = field(default_factory=dict)
    _since: dict[tuple[str, str], datetime] = field(default_factory=dict)
    _now: dict[tuple[str, str], Standing] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)

    def set(self, standing: Standing) -> None:
        """Take note of how a call ended."""
        declared, where, state = standing.declared, standing.where, standing.state
        key, now, well = (declared.action, where), self.clock(), state is CallState.WELL
        with self._lock:
            before = self._now[key].state if key in self._now else CallState.WELL
            if well and key in self._failed and now - self._failed[key] < _SETTLED:
                return
            self._now[key] = standing
            if well:
                self._since.pop(key, None)
            else:
                self._failed[key] = now
                self._since.setdefault(key, now)

        # Only a change is worth a line of the log.
        if state is before or {state, before} <= _PASSING:
            return
        if well:
            log.info("%s in %s has recovered (it was %s).", declared.title, where, before)
        else:
            log.warning("%s", standing.problem)

    def failing(self) -> tuple[Standing, ...]:
        """Return every part that does not stand well."""
        with self._lock:
            parts = sorted(self._now.items())
        return tuple(part for _, part in parts if part.state is not CallState.WELL)

    def troubles(self) -> tuple[str, ...]:
        """Return the sentence of every part that does not stand well."""
        return tuple(part.problem for part in self.failing())

    def lacking(self) -> tuple[str, ...]:
        """Return the sentence of every part that does not pass by itself.

        Refused calls, and those that have failed for an hour. What nobody has asked for a day is
        needed no more.
        """
        now = self.clock()
        with self._lock:
            return tuple(
                part.problem
                for key, part in sorted(self._now.items())
                if part.state is not CallState.WELL
                and now - self._failed[key] < _ASKED
                and (part.state not in _PASSING or now - self._since[key] > _PASSED)
            )


Returned = TypeVar("Returned")


class TimedOut(Exception):
    """Report that no answer came in time."""


def with_timeout(ask: Callable[[], Returned], seconds: float) -> Returned:
    """Return or raise as `ask` does; raise `TimedOut` where it has done neither after `seconds`."""
    outcome: Future[Returned] = Future()

    def run() -> None:
        try:
            outcome.set_result(ask())
        except BaseException as error:
            outcome.set_exception(error)

    # Not a pool: the interpreter waits for a pool's threads before it ends, and a dead connection
    # would hold it up.
    Thread(target=run, name="aws", daemon=True).start()
    if not wait([outcome], timeout=max(0.0, seconds)).done:
        raise TimedOut
    return outcome.result()


KEPT_DAYS = 40
_DAY = timedelta(days=1)
_ENOUGH = timedelta(minutes=30)
"""How long ticks must be seen before their pace is told."""
_COUNTED = ("calls", "units", "failed", "stopped")


@dataclass
class CallCounts:
    """Count the calls of one day, by operation as IAM writes it."""

    calls: Counter[str] = field(default_factory=Counter)
    units: Counter[str] = field(default_factory=Counter)
    failed: Counter[str] = field(default_factory=Counter)
    stopped: Counter[str] = field(default_factory=Counter)
    retries: int = 0
    throttled: int = 0
    usd: Decimal = Decimal(0)

    def add(self, other: CallCounts) -> None:
        """Add another day's counts to these."""
        for name in _COUNTED:
            getattr(self, name).update(getattr(other, name))
        self.retries += other.retries
        self.throttled += other.throttled
        self.usd += other.usd


class UsageMeter:
    """Keep the counts of the last days."""

    def __init__(
        self, clock: Clock, budget: Decimal | None = None, file: Path | None = None
    ) -> None:
        self.budget, self.days = budget, dict[str, CallCounts]()
        self._clock, self._file = clock, file
        self._unsaved: dict[str, CallCounts] = {}
        self._lock = Lock()
        self._spent = Decimal(0)
        self._ticks: list[tuple[datetime, Decimal]] = []
        """When this process's ticks ended within the last day, and what it had spent by then."""
        self.save()

    def today(self) -> CallCounts:
        """Return the count of this UTC day."""
        return self.days.setdefault(self._day(), CallCounts())

    def leaves(self, rank: int) -> bool:
        """Return whether the day's budget leaves room for operations of a rank; 0 never stops."""
        return (
            self.budget is None or not rank or self.today().usd * 100 < self.budget * stops_at(rank)
        )

    def count(self, used: CallCounts) -> None:
        """Add counts to those of this day."""
        with self._lock:
            self.today().add(used)
            self._spent += used.usd
            self._unsaved.setdefault(self._day(), CallCounts()).add(used)

            # Nobody asks how many calls were made longer ago.
            for day in sorted(self.days)[:-KEPT_DAYS]:
                del self.days[day]

    def save(self) -> None:
        """Note that a tick's calls are made.

        Add the new counts to the file, where there is one, and take in other processes'.
        """
        now = self._clock()
        if self._spent:
            self._ticks = [(at, usd) for at, usd in self._ticks if now - at <= _DAY]
            self._ticks.append((now, self._spent))
        if self._file is None:
            return

        with self._lock:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            with self._file.with_suffix(".lock").open("w") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                # Counts are an estimate: a file that is missing or broken is not worth a crash.
                try:
                    days = {
                        str(day): decode(CallCounts, document)
                        for day, document in orjson.loads(self._file.read_bytes()).items()
                    }
                except (OSError, ValueError, TypeError, AttributeError, ArithmeticError):
                    days = {}

                for day, used in self._unsaved.items():
                    days.setdefault(day, CallCounts()).add(used)
                days = {day: days[day] for day in sorted(days)[-KEPT_DAYS:]}
                document = orjson.dumps({day: encode(used) for day, used in days.items()})
                write_whole(self._file, document)
            self.days, self._unsaved = days, {}

    def month_usd(self) -> Decimal:
        """Return USD a month (730 hours) at the pace of steady ticks.

        It is that of the last whole day on record, else that of this process since its first tick,
        else today so far as if it were a day's: what a start asks once is no pace.
        """
        today = self._clock().replace(hour=0, minute=0, second=0, microsecond=0)
        yesterday, before = (f"{today - n * _DAY:%Y-%m-%d}" for n in (1, 2))
        # It ran as yesterday began, so yesterday is whole.
        if yesterday in self.days and before in self.days:
            return self.days[yesterday].usd * 730 / 24

        if self._ticks:
            (first, spent_first), (last, spent_last) = self._ticks[0], self._ticks[-1]
            if last - first >= _ENOUGH and spent_last != spent_first:
                hours = Decimal((last - first).total_seconds()) / 3600
                return (spent_last - spent_first) / hours * 730
        return self.today().usd * 730 / 24

    def bill(self) -> SelfCost:
        """Return the costs of this day and of a month at its pace."""
        used, declared = self.today(), operations().values()
        uses = []
        for name in sorted({*used.calls, *used.units, *used.failed, *used.stopped}):
            # What is no longer declared was counted by an older version.
            operation = next((x for x in declared if x.action == name), None)
            price = call_price(operation.service, operation.operation) if operation else FREE
            uses.append(
                CallUse(
                    operation=name,
                    unit=price.unit,
                    usd=price.usd * used.units[name],
                    price_usd=price.usd,
                    source=price.source,
                    asof=price.asof,
                    **{kind: getattr(used, kind)[name] for kind in _COUNTED},
                )
            )

        ranks = sorted({x.optional for x in declared if x.optional}, reverse=True)
        stopped = [
            (DETAIL_RANK, ["a closer look at one node"]),
            *((rank, sorted(x.action for x in declared if x.optional == rank)) for rank in ranks),
        ]
        return SelfCost(
            day=self._clock().date(),
            uses=tuple(uses),
            usd=used.usd,
            month_usd=self.month_usd(),
            budget_usd=self.budget,
            retries=used.retries,
            throttled=used.throttled,
            days=tuple(
                (date.fromisoformat(day), usage.usd) for day, usage in sorted(self.days.items())
            ),
            stops=tuple((stops_at(rank), tuple(names)) for rank, names in stopped),
        )

    def _day(self) -> str:
        return f"{self._clock():%Y-%m-%d}"


_COLUMNS = {
    "calls": "AWS calls of this UTC day.",
    "units": "What is billed of them: requests, or metrics requested.",
    "usd": "USD they cost.",
    "failed": "AWS calls without an answer.",
    "stopped": "AWS calls that the budget stopped.",
}


def exposition(bill: SelfCost) -> str:
    """Return the bot's own bill in Prometheus's text format."""
    gauges: dict[tuple[str, str], dict[str, object]] = {
        ("usd_month", "USD a month at this pace."): {"": f"{bill.month_usd:.4f}"},
        ("budget_usd_day", "Budget of a day, 0 where none is set."): {"": bill.budget_usd or 0},
        ("retries_today", "Attempts that AWS made the bot repeat."): {"": bill.retries},
        ("throttled_today", "Calls given up for throttling."): {"": bill.throttled},
    }
    for column, meaning in _COLUMNS.items():
        gauges[f"{column}_today", meaning] = {
            f'{{operation="{x.operation}"}}': getattr(x, column) for x in bill.uses
        }
    lines = []
    for (gauge, meaning), samples in gauges.items():
        name = f"trnbot_aws_{gauge}"
        lines += [f"# HELP {name} {meaning}", f"# TYPE {name} gauge"]
        lines += [f"{name}{labels} {value}" for labels, value in samples.items()]
    return "\n".join(lines) + "\n"
