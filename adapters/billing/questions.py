"""Put questions to the loaded bill: its dimensions, extent, tallies, rates and frames."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import astuple, dataclass, field, fields
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from threading import Lock
from typing import Any

import duckdb
import numpy as np

from adapters.billing.attribution import candidates
from adapters.billing.database import literal, naive, sql
from bot.errors import WrongInput, nearest
from bot.model.codec import by_key
from bot.model.fleet import Market
from bot.model.frame import Frame
from bot.model.labels import Labels
from bot.model.money import cents
from bot.model.price import AccountRates, Basis, Price
from bot.model.reading import BILLED_METRIC, SPEND_METRIC
from bot.model.spend import Filter, Folded, Money, Spend, Tally
from bot.model.window import Window
from bot.ports.work import most_rows, refuse_rows

_COLUMNS = (
    "account",
    "region",
    "zone",
    "service",
    "usage_type",
    "operation",
    "instance_type",
    "purchase",
    "line",
    "resource",
    "cluster",
    "namespace",
    "pod",
    "team",
    "project",
    "currency",
)
_EXPRESSIONS = {
    **{column: f"thing.{column}" for column in _COLUMNS},
    "family": r"regexp_replace(thing.instance_type, '\.[^.]*$', '')",
    "commitment": "parse_filename(thing.commitment)",
    "commitment_ends": "coalesce(strftime(thing.lapses, '%Y-%m-%d'), '')",
    "day": "strftime(piece.day, '%Y-%m-%d')",
    "month": "strftime(piece.day, '%Y-%m')",
    "hour": "strftime(piece.hour, '%Y-%m-%dT%H:00:00Z')",
}
_TIMES = {
    "day": ("piece.day", "%Y-%m-%d"),
    "month": ("date_trunc('month', piece.day)", "%Y-%m"),
    "hour": ("piece.hour", "%Y-%m-%dT%H:00:00Z"),
}
DIMENSIONS: tuple[str, ...] = tuple(sorted(_EXPRESSIONS))
TAG = "tag:"


def canonical(dimension: str) -> str:
    """Return a typed dimension's name; raise `WrongInput` with the nearest for an unknown one."""
    if dimension.startswith(TAG):
        return TAG + dimension.removeprefix(TAG).strip()
    word = dimension.strip().lower().replace("-", "_")
    if word not in _EXPRESSIONS:
        near = nearest(word, [*DIMENSIONS, "tag:NAME"], most=30)
        raise WrongInput(f"'{dimension}' is not a dimension of the bill{near}.")
    return word


def written(dimension: str, value: Any) -> str:
    """Return a key's text as it came from the database."""
    return f"{value:{_TIMES[dimension][1]}}" if dimension in _TIMES else str(value)


@dataclass
class QueryParts:
    """Collect the parts of one query.

    The SQL of its dimensions, its tags, and its values as parameters.
    """

    values: dict[str, object] = field(default_factory=dict)
    used: set[str] = field(default_factory=set)
    _tags: dict[str, str] = field(default_factory=dict)

    def expression(self, dimension: str) -> str:
        """Return SQL for one dimension; raise `WrongInput` with the nearest for an unknown one."""
        word = canonical(dimension)
        if not word.startswith(TAG):
            self.used.add(word)
            return _EXPRESSIONS[word]
        if not (tag := word.removeprefix(TAG)):
            raise WrongInput("'tag:' names no tag; write tag:NAME, for example tag:team.")
        return f"coalesce(tags.{self._tags.setdefault(tag, f'tag_{len(self._tags)}')}, '')"

    def key(self, dimension: str) -> str:
        """Return SQL to group by.

        Times as they are stored, which `written` turns into text once a group.
        """
        expression = self.expression(dimension)
        return _TIMES[dimension][0] if dimension in _TIMES else expression

    def tags(self) -> str:
        """Return SQL that joins every tag asked for, by one pass over the tags.

        A join each took seconds for some hundred.
        """
        picks = []
        for tag, alias in self._tags.items():
            names = f"[{', '.join(map(literal, candidates(tag)))}]"
            first = f"arg_min(value, list_position({names}, plain))"
            picks.append(f"{first} FILTER (WHERE list_contains({names}, plain)) AS {alias}")
        return sql("piece_tags", values=", ".join(picks)) if picks else ""

    def names_one(self) -> bool:
        """Return whether things of one kind must stay apart: a resource or a tag is asked for."""
        return not self.used.isdisjoint(_APART) or bool(self._tags)

    def where(self, filters: Sequence[Filter]) -> str:
        """Return SQL that keeps the rows every filter keeps."""
        conditions = ["TRUE"]
        for condition in filters:
            value = f"v{len(self.values)}"
            self.values[value] = list(condition.values)
            inside = f"list_contains(${value}::VARCHAR[], {self.expression(condition.dimension)})"
            conditions.append(f"NOT {inside}" if condition.negated else inside)
        return " AND ".join(conditions)


_APART = ("resource", "commitment", "commitment_ends")
_NO_CENTS = cents(Decimal(0))
_BY_POD = {"namespace", "pod"}


@dataclass(frozen=True)
class BillExtent:
    """State the extent of the loaded files.

    Read once a loading, as each small query takes as long as a sum.
    """

    billed_through: datetime | None
    settled: datetime | None
    """What is used later is an estimate, as is what has no invoice in the newest month."""
    newest_month: date | None
    currency: str
    sources: tuple[str, ...]
    pods: bool
    """Whether split rows were loaded."""
    hourly: bool
    """Whether every charge begins at a whole hour."""


NO_EXTENT = BillExtent(None, None, None, "USD", (), pods=False, hourly=False)


def extent_of(db: duckdb.DuckDBPyConnection) -> BillExtent:
    """Read how far the loaded files reach."""
    ((through, settled, month, currency, hourly),) = db.execute(
        "SELECT billed_through, settled, newest_month, currency, hourly FROM extent"
    ).fetchall()
    forms = db.execute("SELECT DISTINCT form FROM file WHERE form IS NOT NULL ORDER BY form")
    sources = tuple(form for (form,) in forms.fetchall())
    splits = db.execute("SELECT 1 FROM split LIMIT 1").fetchall()
    return BillExtent(through, settled, month, currency or "USD", sources, bool(splits), hourly)


@dataclass(frozen=True)
class TallyQuestion:
    """Ask for sums of a window; those beyond the first `most` in one, None for every row."""

    window: Window
    by: tuple[str, ...] = ()
    where: tuple[Filter, ...] = ()
    most: int | None = None


def ask(db: duckdb.DuckDBPyConnection, extent: BillExtent, question: TallyQuestion) -> Tally:
    """Return the tally.

    Raise `WrongInput` for an unknown dimension or mixed currencies, and `OverBudget` where the line
    that asks may not have so many rows.
    """
    parts = QueryParts()
    window, by = question.window, tuple(canonical(name) for name in question.by)
    keys = "".join(f"{parts.key(name)} AS key_{n}, " for n, name in enumerate(by))
    filters = parts.where(question.where)
    broad = not parts.names_one() and not (extent.pods and parts.used & _BY_POD)
    pieces, values = _pieces(window, extent, parts, broad=broad)
    # Rows of one thing stay apart by time only where they must.
    rows = f"({pieces})" if parts.used & _TIMES.keys() else sql("piece_sums", pieces=pieces)
    things = "broad_thing" if broad else "thing"
    query = sql("tally", keys=keys, pieces=rows, things=things, tags=parts.tags(), filters=filters)

    most = most_rows() if question.most is None else question.most
    page = "" if most is None else f"\nLIMIT {most + 1}"
    if question.most is not None:
        # The newest times first, then the dearest: the order of a page is that of its reader.
        times = [f"key_{n} DESC" for n, name in enumerate(by) if name in _TIMES]
        keyed = (f"key_{n}" for n in range(len(by)))
        page = f"\nORDER BY {', '.join([*times, 'amortised DESC', 'net DESC', *keyed])}{page}"
    parameters = {**parts.values, **values}

    # Both questions ask the same tables, whoever brings them up to date meanwhile.
    db.begin()
    groups, totals = db.execute(query + page, parameters).fetchall(), None
    if most is not None and len(groups) > most:
        if question.most is None:
            raise refuse_rows(most)
        groups.pop()
        totals = db.execute(sql("totals", tally=query), parameters).fetchone()
    db.commit()
    return _tally(extent, question, by, groups, totals)


def _pieces(
    window: Window, extent: BillExtent, parts: QueryParts, *, broad: bool
) -> tuple[str, dict[str, object]]:
    """Cut the window into whole days (rolled up) and the remainders at its ends (detail)."""
    start, end = naive(window.start), naive(window.end)
    first = start if start == _midnight(start) else _midnight(start) + _DAY
    last = _midnight(end)
    by_pod = extent.pods and bool(parts.used & _BY_POD)
    days = "piece_broad" if broad else "piece_rollup"
    spans = [("piece_detail", start, end)]
    if "hour" not in parts.used and not by_pod and first < last:
        cut = [("piece_detail", start, first), (days, first, last), ("piece_detail", last, end)]
        spans = [span for span in cut if span[1] < span[2]]
    detail = {"detail": "pod_detail" if by_pod else "detail", "thing": "thing", "hour": ""}
    if broad:
        detail |= {"detail": "detail JOIN broad_of USING (thing)", "thing": "broad"}
    if "hour" in parts.used:
        detail["hour"] = "date_trunc('hour', started) AS hour,"
    selects: list[str] = []
    values: dict[str, object] = {}
    for n, (name, low, high) in enumerate(spans):
        kind = "TIMESTAMP" if name == "piece_detail" else "DATE"
        selects.append(sql(name, start=f"$a{n}::{kind}", end=f"$b{n}::{kind}", **detail))
        values |= {f"a{n}": low, f"b{n}": high}
        if name != "piece_broad":
            values |= {"settled": extent.settled, "newest": extent.newest_month}
    return "\nUNION ALL ".join(selects), values


_AMOUNTS = len(fields(Money))


def _tally(
    extent: BillExtent,
    question: TallyQuestion,
    by: tuple[str, ...],
    groups: Sequence[tuple[Any, ...]],
    totals: tuple[Any, ...] | None,
) -> Tally:
    """Return the tally of groups as `tally.sql` makes them, which have totals if they are a page.

    A group is its keys, currency, amounts, hours and whether it is an estimate.
    """
    n = len(by)

    # Amounts of two currencies have no sum.
    currencies = sorted({row[n] for row in groups}.union(totals[-1] if totals else ()))
    if len(currencies) > 1:
        raise WrongInput(
            f"The bill holds {' and '.join(currencies)}, which cannot be added; "
            f"ask again with currency={currencies[-1]}."
        )

    # A value that comes again is written as text once.
    texts = [
        {value: written(name, value) for value in {row[place] for row in groups}}
        for place, name in enumerate(by)
    ]
    rows = []
    for row in groups:
        key = {name: texts[place][row[place]] for place, name in enumerate(by)}
        money = _neat(*row[n + 1 : n + 1 + _AMOUNTS])
        hours, estimated = row[n + 1 + _AMOUNTS : n + 3 + _AMOUNTS]
        rows.append(Spend(key, money, bool(estimated), hours=hours or 0.0))
    rows.sort(key=lambda row: (-row.money.net, tuple(row.key.values())))

    total = sum((row.money for row in rows), Money())
    folded = None
    if totals:
        count, *amounts, estimates, _ = totals
        n_beyond, n_estimated = count - len(rows), estimates - sum(row.estimated for row in rows)
        beyond = _neat(*astuple(Money(*amounts) + -total))
        folded = Folded(n_beyond, beyond, n_estimated > 0, n_beyond > n_estimated)
        total += beyond
    through = extent.billed_through and extent.billed_through.replace(tzinfo=UTC)
    currency = (currencies or [extent.currency])[0]
    return Tally(
        question.window,
        by,
        tuple(rows),
        _neat(*astuple(total)),
        currency,
        through,
        extent.sources,
        folded=folded,
    )


def _neat(*amounts: Decimal | int) -> Money:
    """Drop the zeros that the database's fixed scale adds, at least the cents left."""
    return Money(*(neat(Decimal(amount)) for amount in amounts))


def neat(amount: Decimal) -> Decimal:
    """Return the amount without trailing zeros beyond the cents; exact."""
    if not amount:
        return _NO_CENTS
    whole = cents(amount)
    return whole if whole == amount else amount.normalize()


def _midnight(at: datetime) -> datetime:
    return at.replace(hour=0, minute=0, second=0, microsecond=0)


_MARKETS = {market.value for market in Market}


def rates(db: duckdb.DuckDBPyConnection, midnight: datetime) -> AccountRates:
    """Return amortised USD over instance-hours of the 7 days before `midnight`.

    Nothing for types without hours.
    """
    until = naive(midnight)
    rated = db.execute(sql("rates"), {"start": until - _WEEK, "seen": until}).fetchall()
    used = [row for row in rated if row[2] in _MARKETS and not row[10]]
    empty = [row for row in rated if row[2] in _MARKETS and row[10]]
    by_cluster, by_instance, unused = (
        {
            name: tuple(_rates_of(named, whose))
            for name, named in by_key((row[column], row) for row in rows if row[column]).items()
        }
        for rows, column, whose in (
            (used, 3, "of the cluster"),
            (used, 4, "of its own"),
            (empty, 4, "unused"),
        )
    )
    return AccountRates(tuple(_rates_of(used, "")), by_cluster, by_instance, unused)


def _rates_of(rows: Iterable[tuple[Any, ...]], whose: str) -> Iterator[Price]:
    """Yield the rate of each type, region and market over some rows."""
    groups = by_key((row[:3], (*row[5:10], row[11])) for row in rows)
    for (kind, region, market), group in groups.items():
        costs, hours, ended, forms, months, lapses = zip(*group, strict=True)
        total = sum(hours)
        form = max(filter(None, forms), default="prepaid fees")
        source = f"{form} of {max(months):%Y-%m}, {total:,.0f} instance-hours"
        yield Price(
            instance_type=kind,
            usd_per_hour=(sum(costs) / Decimal(repr(total))).quantize(Decimal("0.000001")),
            market=Market(market),
            basis=Basis.BILLED,
            region=region,
            asof=(max(ended) - timedelta(microseconds=1)).date(),
            source=f"{source} {whose}".strip(),
            hours=total,
            lapses=max((end.date() for end in lapses if end), default=None),
        )


_DAY, _HOUR, _WEEK = timedelta(days=1), timedelta(hours=1), timedelta(days=7)
_NAMES = ("account", "service", "region", "usage_type", "cluster", "team", "project")
_LINE = 4
"""How many of the names make a line of the bill."""
_MONDAY = datetime(2024, 1, 1, tzinfo=UTC)
_BEFORE = timedelta(days=30)
_LEAST_USD = 1.0
"""A thing that cost less within the hours' span is left to the days.

The long tail is most of a large bill's things.
"""


def spend_frame(db: duckdb.DuckDBPyConnection, midnight: datetime, days: int) -> Frame | None:
    """Return the frame of the `days` before `midnight`, or None when it holds no row.

    nan: the bill has no row at all that day, or this line has one whose end is not seen yet. 0:
    others have, this has none.
    """
    first = midnight - days * _DAY
    n = len(_NAMES)
    rows = db.execute(sql("deltas"), {"first": naive(first), "seen": naive(midnight)}).fetchall()
    seen = [row for row in rows if not row[n + 3]]
    things = {key: i for i, key in enumerate(dict.fromkeys(row[:n] for row in seen))}
    if not things:
        return None
    values = np.full((len(things), days, 2), np.nan, dtype=np.float32)
    values[:, sorted({row[n] for row in seen})] = 0
    for row in rows:
        if row[:n] in things:
            values[things[row[:n]], row[n]] = float(row[n + 1]), float(row[n + 2])

    # A day of a line whose end is not seen yet is no day of it at all.
    lines = by_key((key[:_LINE], i) for key, i in things.items())
    for row in rows:
        if row[n + 3] and row[:_LINE] in lines:
            values[lines[row[:_LINE]], row[n]] = np.nan
    return Frame("spend", _labels(things), first, _DAY, (SPEND_METRIC, BILLED_METRIC), values)


def hours_of_week(at: datetime) -> datetime:
    """Return the Monday that `hours` is asked for.

    One reading of the tables serves every hour of its week.
    """
    return at - (at - _MONDAY) % _WEEK


def hours_frame(db: duckdb.DuckDBPyConnection, monday: datetime) -> Frame | None:
    """Return the frame of 30 days before a Monday and the week after it, later hours and all.

    None when nothing is hourly.
    """
    first, until = monday - _BEFORE, monday + _WEEK
    rows = db.execute(
        sql("hours"), {"first": naive(first), "until": naive(until), "least": _LEAST_USD}
    ).fetchall()
    if not rows:
        return None
    n = len(_NAMES)
    values = np.zeros((len(rows), (until - first) // _HOUR, 1), dtype=np.float32)
    for i, row in enumerate(rows):
        values[i, row[n], 0] = row[n + 1]
    values[:, (values == 0).all(axis=(0, 2))] = np.nan
    return Frame(
        "spend_hour", _labels(row[:n] for row in rows), first, _HOUR, (SPEND_METRIC,), values
    )


def _labels(keys: Iterable[tuple[str, ...]]) -> tuple[Labels, ...]:
    return tuple(Labels(**dict(zip(_NAMES, key, strict=True))) for key in keys)


MOST_ROWS = 50_000
"""Of all tallies that are kept, some 40 MB: those that suggestions ask for at each press, by node
and hour, are among them. The one that was asked for longest ago goes first."""


class KeptTallies:
    """Keep the tallies of one loading of the tables; any thread may ask.

    Other tables are a matter of another one.
    """

    def __init__(self, most: int = MOST_ROWS) -> None:
        self._most = most
        self._rows = 0
        self._kept: OrderedDict[TallyQuestion, Tally] = OrderedDict()
        self._lock = Lock()

    def get(self, question: TallyQuestion) -> Tally | None:
        """Return the kept tally of a question, else None.

        Raise `OverBudget` where the line may not have so many rows.
        """
        with self._lock:
            tally = self._kept.get(question)
            if tally is None:
                return None
            self._kept.move_to_end(question)
        most = most_rows()
        if most is not None and len(tally.rows) > most:
            raise refuse_rows(most)
        return tally

    def keep(self, question: TallyQuestion, tally: Tally) -> None:
        """Keep the tally of a question, unless it alone is too large."""
        size = len(tally.rows) + 1
        with self._lock:
            if size > self._most or question in self._kept:
                return
            self._kept[question] = tally
            self._rows += size
            while self._rows > self._most:
                self._rows -= len(self._kept.popitem(last=False)[1].rows) + 1


def whole_hours(window: Window) -> Window:
    """Return the window of whole hours that holds the same whole hours' beginnings."""
    return Window(_begun(window.start), _begun(window.end))


def _begun(time: datetime) -> datetime:
    """Return the first whole hour at or after a time."""
    hour = time.replace(minute=0, second=0, microsecond=0)
    return hour if hour == time else hour + _HOUR
