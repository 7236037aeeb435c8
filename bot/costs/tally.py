"""Compare, rank and share the rows of a tally, at any time; S3 by bucket.

And derive who owns a pod, and guess the owner of cost that carries no team: a hint for a person,
never a charge to a team.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, time, timedelta
from decimal import Decimal
from functools import cached_property
from typing import Protocol

from bot.errors import TrnbotError, WrongInput
from bot.model.money import summed_apart
from bot.model.price import AccountRates
from bot.model.reading import Reading
from bot.model.spend import Filter, Folded, Money, Spend, Tally
from bot.model.window import DAY, EVER, NO_TIME, WEEK, Window, midnight, month_of, parse_instant
from bot.ports import Billing, Ports

SETTLE = timedelta(days=2)
"""AWS rewrites the newest days of a bill.

Figures younger than this behind its end are not compared.
"""


@dataclass(frozen=True)
class Change:
    """State the same measure over two spans of one length."""

    part: Window
    before: Window
    now: Decimal
    then: Decimal

    @property
    def ratio(self) -> Decimal | None:
        """Return the growth (0.12 = 12 % more), None when there was nothing before."""
        return (self.now - self.then) / self.then if self.then > 0 else None


@dataclass(frozen=True)
class Unknown:
    """Name a value that a filter asks for and no charge has, beside the values that there are."""

    dimension: str
    value: str
    known: Sequence[str]


def settled_until(billed_through: datetime) -> datetime:
    """Return the last midnight before which the bill has come to rest."""
    return midnight(billed_through - SETTLE)


def settled_by(tally: Tally, at: datetime) -> datetime | None:
    """Return the midnight before which a tally has come to rest at `at`, None for no bill.

    Of a bill as it stood, what came late is in it already.
    """
    if tally.billed_through is None:
        return None
    if tally.seen:
        return midnight(tally.seen)
    return settled_until(min(tally.billed_through, at))


def billed_part(days: Tally) -> Window:
    """Return the window of a tally by day from the first day on after which none is missing.

    Days that stand alone before it are no beginning: monthly fees are dated at the month's first.
    """
    held = {row.key["day"] for row in days.rows}
    start = parse_instant(max(held)) if held else days.window.start
    while f"{start - DAY:%Y-%m-%d}" in held:
        start -= DAY
    return replace(days.window, start=max(days.window.start, start))


def days_held(days: Tally) -> tuple[int, int]:
    """Return how many days of a tally by day the bill holds, and how many it could by now."""
    end = min(days.window.end, days.billed_through or days.window.start)
    if end <= days.window.start:
        return 0, 0
    return len({row.key["day"] for row in days.rows}), len(
        list(replace(days.window, end=end).days())
    )


def comparable(window: Window, billed_through: datetime | None) -> tuple[Window, Window] | None:
    """Return the settled part of the window and as long a part of the one before.

    None when less than a day is settled.
    """
    if billed_through is None:
        return None
    previous, end = window.previous(), window.end
    if end > billed_through - SETTLE:
        end = min(end, settled_until(billed_through))
    length = min(end - window.start, previous.length)
    if length < min(DAY, window.length) or not length:
        return None
    return (
        Window(window.start, window.start + length),
        Window(previous.start, previous.start + length),
    )


def row_ratios(now: Tally, then: Tally, rows: Iterable[Spend]) -> Iterator[Decimal | None]:
    """Yield the growth of each row between two spans of one length, None for no cost before."""
    current, previous = (
        {tuple(row.key.values()): row.money.amortised for row in tally.rows}
        for tally in (now, then)
    )
    for row in rows:
        key = tuple(row.key[name] for name in now.by)
        new, old = current.get(key, Decimal(0)), previous.get(key, Decimal(0))
        # What was billed at no cost before as well, such as a credit, is not new.
        unchanged = Decimal(0) if key in previous and new == old else None
        yield (new - old) / old if old > 0 else unchanged


def until(days: Tally, part: Window, by: Sequence[str]) -> Tally | None:
    """Return the first whole days of a tally by day and `by`, which begin where it does.

    None where it cannot tell them.
    """
    if (
        days.by != ("day", *by)
        or days.folded
        or part.start != days.window.start
        or part.end.time() != time(0)
    ):
        return None
    ahead = f"{part.end:%Y-%m-%d}"
    rows: dict[tuple[str, ...], Spend] = {}
    for row in (row for row in days.rows if row.key["day"] < ahead):
        key = {name: row.key[name] for name in by}
        before = rows.get(tuple(key.values()))
        money = before.money + row.money if before else row.money
        rows[tuple(key.values())] = replace(row, key=key, money=money)
    total = sum((row.money for row in rows.values()), Money())
    return replace(days, window=part, by=tuple(by), rows=tuple(rows.values()), total=total)


def top(
    rows: Sequence[Spend], most: int, beyond: Folded | None = None
) -> tuple[tuple[Spend, ...], Money, int]:
    """Return the first `most` rows, the sum of the others and how many those are.

    What lies `beyond` all of them is one of the others. One row over is never folded alone.
    """
    if len(rows) <= most + 1 and not beyond:
        return tuple(rows), Money(), 0
    money = sum((row.money for row in rows[most:]), beyond.money if beyond else Money())
    return tuple(rows[:most]), money, len(rows) - most + (beyond.count if beyond else 0)


def page_filters(tally: Tally) -> list[Filter]:
    """Return a condition that keeps the rows of a page and few others, none where all are there."""
    if not tally.folded:
        return []
    values = {name: tuple(dict.fromkeys(row.key[name] for row in tally.rows)) for name in tally.by}
    widest = max(values, key=lambda name: len(values[name]))
    return [Filter(widest, values[widest])]


class Tallies(Protocol):
    """Ask the bill for sums, pods split or not."""

    def tally(
        self,
        window: Window,
        by: Sequence[str],
        where: Sequence[Filter] = (),
        most: int | None = None,
    ) -> Tally:
        """Sum the rows of a window by dimensions, those beyond `most` in one."""
        ...


def known_rows(
    bill: Tallies,
    window: Window,
    by: Sequence[str],
    where: Sequence[Filter] = (),
    fault: type[TrnbotError] | tuple[type[TrnbotError], ...] = WrongInput,
) -> tuple[Spend, ...]:
    """Return the rows of a window, none where the bill cannot tell them by these dimensions.

    `fault` is how it says so: by default that it has no such dimension.
    """
    try:
        return bill.tally(window, by, where).rows
    except fault:
        return ()


BEYOND = "\0"
"""The value that rows beyond a page share in the one dimension that was folded: no charge has it."""


def over_steps(
    bill: Tallies, tally: Tally, by: Sequence[str], where: Sequence[Filter], most: int
) -> Tally:
    """Return a tally by time, and by the dimension that follows it in `by`, if any.

    Where `tally` of the same rows was folded, the `most` dearest values stand apart and all others
    are one, `BEYOND`.
    """
    step, *groups = by
    if not tally.folded or not groups:
        return bill.tally(tally.window, by, where)

    (group,) = groups
    dearest = bill.tally(tally.window, groups, where, most)
    if not dearest.folded:
        return bill.tally(tally.window, by, where)
    largest = Filter(group, tuple(row.key[group] for row in dearest.rows))
    apart = bill.tally(tally.window, by, [*where, largest])
    whole = bill.tally(tally.window, [step], where)

    beyond = {row.key[step]: row.money for row in whole.rows}
    for row in apart.rows:
        beyond[row.key[step]] += -row.money
    others = (
        replace(row, key={**row.key, group: BEYOND}, money=beyond[row.key[step]])
        for row in whole.rows
    )
    return replace(apart, rows=(*apart.rows, *others), total=whole.total, folded=tally.folded)


def share(part: Decimal, whole: Decimal) -> Decimal | None:
    """Return part / whole, None where the whole is not positive."""
    return part / whole if whole > 0 else None


Ask = Callable[[Window, Sequence[str], Sequence[Filter]], Tally]
_TIMES = {"hour", "day", "month"}
_TAG = "tag:"


def unknown_value(ask: Ask, ever: Ask, tally: Tally, where: Sequence[Filter]) -> Unknown | None:
    """Return the first value of a filter that no charge has, the answer being `tally`.

    None where each has some.

    More is asked only for values that the answer does not show: `ask` within its window, then the
    whole bill by `ever`.
    """
    currency = [condition for condition in where if condition.dimension == "currency"]
    for condition in where:
        name, values = condition.dimension, {value for value in condition.values if value}
        # What the answer shows needs no asking.
        if name.strip().lower() in _TIMES or (
            tally.rows and not condition.negated and len(condition.values) == 1
        ):
            continue
        for bill, window in ((ask, tally.window), (ever, EVER)):
            if values:
                condition_on = Filter(name, tuple(sorted(values)))
                values -= _values(bill(window, (name,), [condition_on, *currency]))
        if values:
            charged = _values(ask(tally.window, (name,), currency))
            charged |= _values(ever(EVER, (name,), currency))
            return Unknown(name, min(values), sorted(charged - {""}))
    return None


def unknown_tag(ever: Ask, tally: Tally) -> str:
    """Return the first tag that an answer is grouped by and no charge carries, "" for none."""
    tags = [
        name
        for name in tally.by
        if name.startswith(_TAG) and tally.rows and not any(row.key[name] for row in tally.rows)
    ]
    return next(
        (name.removeprefix(_TAG) for name in tags if not _values(ever(EVER, (name,), ())) - {""}),
        "",
    )


def _values(tally: Tally) -> set[str]:
    return {value for row in tally.rows for value in row.key.values()}


def untagged(tally: Tally, dimension: str) -> Money:
    """Return the money of the rows that have no value in this dimension."""
    return sum((row.money for row in tally.rows if row.key.get(dimension) == ""), Money())


INVOICED = timedelta(days=5)
"""How long after a month's end its invoice is taken to have been made.

Until then AWS may rewrite each of its rows.
"""

_HOUR = timedelta(hours=1)
"""What a bill that is up to date may reach beyond the time of the question.

A row names its whole hour.
"""


@dataclass(frozen=True)
class BilledBy:
    """Implement `Billing` over another one as of `at`, where that holds hours still to come then.

    A charge counts once its hour lies `lag` back. A bill that reaches no farther than `at` is shown
    as it is.
    """

    billing: Billing
    at: datetime
    lag: timedelta

    def tally(
        self,
        window: Window,
        by: Sequence[str],
        where: Sequence[Filter] = (),
        most: int | None = None,
    ) -> Tally:
        """Sum the rows of the window that had been billed, those beyond `most` in one.

        What was not final at the time is an estimate.
        """
        through = self._through
        if through is None:
            return self.billing.tally(window, by, where, most)
        billed = Window(min(window.start, through), min(window.end, through))
        tally = self.billing.tally(billed, by, where, most)
        rows, folded = tally.rows, tally.folded

        # A row was an estimate where it has a charge in the days that AWS could still rewrite.
        rewritten = min(through - SETTLE, month_of(self.at - INVOICED).start)
        start, end = max(tally.window.start, rewritten), min(tally.window.end, through)
        if start < end:
            late = {tuple(row.key.values()) for row in rows}
            late_beyond = folded.count if folded else 0
            if start > tally.window.start:
                span, page = Window(start, end), page_filters(tally)
                unsettled = self.billing.tally(span, by, [*where, *page])
                late &= {tuple(row.key.values()) for row in unsettled.rows}
                if folded:
                    first = self.billing.tally(span, by, where, 1)
                    count = len(first.rows) + (first.folded.count if first.folded else 0)
                    late_beyond = count - len(late)
            rows = tuple(
                replace(row, estimated=True) if tuple(row.key.values()) in late else row
                for row in rows
            )
            if folded:
                has_estimated = folded.has_estimated or late_beyond > 0
                has_final = folded.has_final and late_beyond < folded.count
                folded = replace(folded, has_estimated=has_estimated, has_final=has_final)
        return replace(
            tally, window=window, rows=rows, billed_through=through, seen=through, folded=folded
        )

    def deltas(self, now: datetime, days: int) -> Reading:
        """Return the daily spend seen at `now`, which says itself what that is."""
        return self.billing.deltas(now, days)

    def rates(self, now: datetime) -> AccountRates:
        """Return the account's own rates seen at `now`."""
        return self.billing.rates(now)

    def problems(self) -> Sequence[str]:
        """Return the bill's own problems."""
        return self.billing.problems()

    @cached_property
    def _through(self) -> datetime | None:
        """Return the hour before which all was billed.

        None where the bill reaches no farther than the time of the question.
        """
        through = self.billing.tally(NO_TIME, ()).billed_through
        return self.at - self.lag if through is not None and through > self.at + _HOUR else None


def as_of(ports: Ports, at: datetime) -> Ports:
    """Return the ports with the bill as it stood at `at`."""
    world = ports.world
    return replace(
        ports, world=replace(world, billing=BilledBy(world.billing, at, world.billing_lag))
    )


KEPT, REQUESTS = "S3", "S3-requests"
"""The lines of the bill that a bucket's cost stands in."""


@dataclass(frozen=True)
class Bucket:
    """State what one bucket cost, amortised: keeping its bytes, and requests.

    `name` is "" where the bill names none.
    """

    name: str
    kept: Decimal
    requests: Decimal

    @property
    def total(self) -> Decimal:
        """Return both together."""
        return self.kept + self.requests


@dataclass(frozen=True)
class Buckets:
    """Hold the buckets of a settled week of the bill, the dearest first."""

    week: Window
    buckets: tuple[Bucket, ...]

    @property
    def total(self) -> Bucket:
        """Return the sum of them all."""
        return Bucket(
            "",
            sum((bucket.kept for bucket in self.buckets), Decimal(0)),
            sum((bucket.requests for bucket in self.buckets), Decimal(0)),
        )


def buckets_of(billing: Billing, at: datetime, cluster: str = "") -> Buckets | None:
    """Return what each bucket cost in the last settled week; None where the bill does not tell.

    May block.
    """
    where = [Filter("line", (KEPT, REQUESTS))]
    if cluster:
        where.append(Filter("cluster", (cluster,)))
    try:
        settled = settled_by(billing.tally(NO_TIME, ()), at)
        if settled is None:
            return None
        week = Window(settled - WEEK, settled)
        rows = billing.tally(week, ("resource", "line"), where).rows
    except TrnbotError:
        return None

    costs = summed_apart(
        (row.key["resource"].rpartition(":")[2], row.key["line"], row.money.amortised)
        for row in rows
    )
    buckets = (
        Bucket(name, lines.get(KEPT, Decimal(0)), lines.get(REQUESTS, Decimal(0)))
        for name, lines in costs.items()
        if any(lines.values())
    )
    return Buckets(week, tuple(sorted(buckets, key=lambda bucket: (-bucket.total, bucket.name))))
