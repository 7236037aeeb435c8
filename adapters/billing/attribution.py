"""Attribute a charge: to an owner and a line by its tags, and what is prepaid to its hours."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple, dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from functools import cache
from typing import Any

import duckdb

from adapters.billing.database import literal, naive, sql
from adapters.billing.exports import ExportForm
from bot.model.codec import table
from bot.model.fleet import Market, Reservation
from bot.model.labels import CLUSTER_TAGS
from bot.model.money import usd
from bot.model.window import calendar_day

BillTagNames = Mapping[str, Sequence[str]]

DEFAULT_NAMES: BillTagNames = {
    "team": ("team",),
    "project": ("project",),
    "cluster": CLUSTER_TAGS,
    "namespace": ("aws:eks:namespace", "eks:namespace", "namespace"),
}
_COMPILE_TAGS = ("activity", "stage", "purpose", "workload")
_PREFIX = re.compile(r"^(?:resource_?tags[/_:])?user[:_]", re.IGNORECASE)
_KUBERNETES = re.compile(r"kubernetes[._]io[/_]cluster[/_](.+)$", re.IGNORECASE)


def plain(key: str) -> str:
    """Return a tag's key without AWS's `user:` prefix, case and punctuation.

    `user_team`, `user:Team` -> `team`.
    """
    return re.sub(r"[^a-z0-9]", "", _PREFIX.sub("", key.strip()).lower())


def candidates(key: str) -> tuple[str, ...]:
    """Return the plain keys that a typed tag name may mean, the most literal first."""
    return tuple(dict.fromkeys((re.sub(r"[^a-z0-9]", "", key.lower()), plain(key))))


@dataclass(frozen=True)
class TagSet:
    """Hold one combination of tags, and the owner it names."""

    pairs: tuple[tuple[str, str], ...]
    cluster: str
    namespace: str
    team: str
    project: str
    compiles: bool


def read_tags(words: str, names: BillTagNames) -> TagSet:
    """Read the JSON text of one tag set; raise `ValueError` when it is no object."""
    document = json.loads(words)
    if not isinstance(document, dict):
        raise ValueError("not an object")
    tags = {
        str(key): str(value) for key, value in document.items() if value not in (None, "", "NULL")
    }
    pairs: dict[str, str] = {}
    for key, value in tags.items():
        pairs.setdefault(plain(key), value)

    owner = {}
    for word, usual in DEFAULT_NAMES.items():
        keys = [key for name in names.get(word, usual) for key in candidates(name)]
        owner[word] = next((pairs[key] for key in keys if pairs.get(key)), "")
    # Keys such as `kubernetes.io/cluster/NAME` hold the name; the value is `owned` or `shared`.
    kubernetes = (match[1] for key in tags if (match := _KUBERNETES.search(key)))
    owner["cluster"] = owner["cluster"] or next(kubernetes, "")
    compiles = any("compil" in pairs.get(key, "").lower() for key in _COMPILE_TAGS)
    return TagSet(tuple(pairs.items()), **owner, compiles=compiles)


COMPILE = "compile"
OTHER = "other"


@cache
def line_case() -> str:
    """Return the SQL expression of the line, over the columns of the stage `s` and the tag set `t`.

    The first rule wins.
    """
    # FOCUS charges the empty places of a Capacity Block themselves; of a CUR they are its fee's.
    whens = [
        "WHEN s.purchase = 'capacity-block' AND holds_instance(s.usage_type) THEN 'commitment'"
    ]
    for rule in table("adapters.billing", "lines.csv"):
        service, usage = (
            [f"regexp_matches(s.{column}, {literal(rule[column])})"] if rule[column] else []
            for column in ("service", "usage_type")
        )
        condition = " AND ".join([*service, *usage])
        if rule["description"]:
            description = literal(rule["description"])
            described = f"regexp_matches(coalesce(s.description, ''), {description}, 'i')"
            alone = " AND ".join([*service, "s.usage_type = ''", described])
            condition = f"(({condition}) OR ({alone}))"
        line = literal(rule["line"])
        if rule["line"] == "EC2":  # hours spent on compiling are a line of their own
            line = f"CASE WHEN t.compiles THEN {literal(COMPILE)} ELSE {line} END"
        whens.append(f"WHEN {condition} THEN {line}")
    return f"CASE {' '.join(whens)} ELSE {literal(OTHER)} END"


_DAY = timedelta(days=1)
_AFTER = timedelta(days=190)
"""A Capacity Block begins at most eight weeks after it is bought, and lasts half a year at most."""


@dataclass(frozen=True)
class _Fee:
    """State a fee of the bill.

    USD `net` of cash and `amortised` as the export has it, for `units` instance-hours.
    """

    thing: int
    month: Any
    started: datetime
    ended: datetime
    net: Decimal
    amortised: Decimal
    units: float | None
    reservation: str | None
    currency: str
    region: str
    instance_type: str
    form: str
    monthly: bool
    charged: Decimal | None
    begins: datetime | None
    """From when on hours of the bill carry its reservation."""
    ends: datetime | None
    instances: float | None
    is_over: bool | None
    """Whether none did in the newest day."""

    @property
    def words(self) -> str:
        """Read as `the fee of $411,964.42 on Oct 13, 2026 for the Capacity Block cr-0ab`."""
        name = " ".join(filter(None, ("Capacity Block", self.reservation or self.instance_type)))
        return f"The fee of {usd(self.net)} on {calendar_day(self.started)} for the {name}"


def amortise(
    db: duckdb.DuckDBPyConnection, blocks: Callable[[], Sequence[Reservation]]
) -> list[str]:
    """Spread every fee whose hours are known; return a sentence for each whose are not.

    `blocks` are asked for only where there is a fee.
    """
    if not db.execute("SELECT 1 FROM fee LIMIT 1").fetchall():
        return []
    bought, problems = blocks(), []
    db.execute(
        "CREATE OR REPLACE TEMP TABLE prepaid (thing UBIGINT, month DATE, started TIMESTAMP, "
        "ended TIMESTAMP, currency VARCHAR, usd DECIMAL(38, 15), amortised DECIMAL(38, 15), "
        "reservation VARCHAR, region VARCHAR, instance_type VARCHAR, "
        "begins TIMESTAMP, ends TIMESTAMP, instances DOUBLE)"
    )
    fees = [_Fee(*row) for row in db.execute(sql("prepaid")).fetchall()]
    for fee in fees:
        # FOCUS demands that an export charges the hours themselves; the fee has no effective cost.
        spread_already = not fee.amortised and bool(fee.charged)
        if spread_already or not (fee.amortised or fee.charged is not None):
            continue
        span = None
        why = "Cost Explorer names neither its hours nor its instances."
        if fee.form != ExportForm.EXPLORER:
            span = _span(fee, bought, fees)
            why = (
                "neither its line nor a capacity reservation that was read says which hours it "
                "buys."
            )
        if span is None:
            problems.append(f"{fee.words} is counted on its day, in amortised cost too: {why}")
            continue
        cost = (fee.amortised or fee.net, fee.amortised)
        row = [fee.thing, fee.month, fee.started, fee.ended, fee.currency, *cost, *astuple(span)]
        db.execute(f"INSERT INTO prepaid VALUES ({', '.join('?' * len(row))})", row)  # noqa: S608
    db.execute(sql("amortise"))
    return problems


def date_commitments(
    db: duckdb.DuckDBPyConnection, ends: Callable[[], Mapping[str, datetime]]
) -> None:
    """Date the ends of commitments of which no row says it: FOCUS has no column for it."""
    undated = "FROM thing WHERE commitment <> '' GROUP BY commitment HAVING count(lapses) = 0"
    names = [name for (name,) in db.execute(f"SELECT commitment {undated}").fetchall()]
    dates = ends() if names else {}
    for name in dates.keys() & set(names):
        db.execute("UPDATE thing SET lapses = $2 WHERE commitment = $1", [name, naive(dates[name])])


def _used_span(fee: _Fee) -> _Span | None:
    """Return the hours that carry the fee's reservation, whole days as blocks are sold.

    None while they go on and the line does not say how many it bought.
    """
    if fee.begins is None or fee.ends is None or not fee.instances:
        return None
    length = fee.ends - fee.begins
    if fee.units and fee.units > fee.instances:
        length = timedelta(hours=fee.units / fee.instances)
    elif not fee.is_over:
        return None
    length = max(_DAY, round(length / _DAY) * _DAY)
    place = (fee.reservation, fee.region, fee.instance_type)
    return _Span(*place, fee.begins, fee.begins + length, fee.instances)


@dataclass(frozen=True)
class _Span:
    """State the hours that a fee buys.

    Of which reservation and place, and of how many instances (None: not known).
    """

    reservation: str | None
    region: str
    instance_type: str
    begins: datetime
    ends: datetime
    instances: float | None


def _span(fee: _Fee, blocks: Sequence[Reservation], fees: Sequence[_Fee]) -> _Span | None:
    """Return the hours of the one Capacity Block that the fee may have bought, else its line's.

    That is the one it names, else one of its type that was not bought later, and began before any
    later fee: a block that ended is told by nobody, and its fee is not another's.
    """
    place = (fee.instance_type, fee.region)
    later = [
        x.started
        for x in fees
        if x.started > fee.started and not x.reservation and (x.instance_type, x.region) == place
    ]
    candidates = []
    for block in blocks:
        if block.market is not Market.CAPACITY_BLOCK or block.ends_at is None:
            continue
        labels, begins, ends = block.labels, naive(block.starts_at), naive(block.ends_at)
        alike = (labels.instance_type, labels.region) == place
        soon = fee.started - _DAY < begins < min([fee.started + _AFTER, *later])
        if block.bought_at:
            soon = soon and naive(block.bought_at) < fee.started + _DAY
        if labels.resource == fee.reservation or (not fee.reservation and alike and soon):
            region = labels.region or fee.region
            instance_type = labels.instance_type or fee.instance_type
            candidates.append(
                _Span(labels.resource, region, instance_type, begins, ends, float(block.total))
            )
    if len(candidates) == 1:
        return candidates[0]

    if fee.ended - fee.started <= _DAY or fee.monthly:
        return _used_span(fee)
    hours = (fee.ended - fee.started) / timedelta(hours=1)
    instances = fee.units / hours if fee.units and fee.units >= hours else None
    return _Span(fee.reservation, fee.region, fee.instance_type, fee.started, fee.ended, instances)
