"""Answer why something is expensive at all: its cost a day by part, against its use and its work."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal

import numpy as np

from bot.answers.cost.title import refuse_unknown
from bot.answers.runs.costed import Costed, costed_runs
from bot.cards import alert_words
from bot.cards.card import Block, Button, Buttons, Card, Tone, When, compose, quiet, text
from bot.cards.columns import NUMBER, SHARE, USD, Column, Columns, datum
from bot.cards.lines import cost_line, filter_line, window_line
from bot.cards.words import amount_of, in_period
from bot.costs.allocation import Allocation
from bot.costs.tally import billed_part
from bot.errors import TrnbotError
from bot.model.alert import Alert
from bot.model.causes import About
from bot.model.labels import NAMES
from bot.model.money import cents, usd
from bot.model.reading import Reading, utilization_of
from bot.model.spend import Filter, Tally
from bot.model.window import NO_TIME, Window
from bot.ports import Ports

_DAY, _HOUR = timedelta(days=1), timedelta(hours=1)
_MOST, _MOST_ALERTS, _MOST_RUNS = 8, 4, 3
_PARTS = ("cluster", "instance_type", "purchase", "line", "service")


@dataclass(frozen=True)
class Part:
    """State one part of a cost: nodes of a cluster by way of buying, else a line of the bill."""

    name: str
    amortised: Decimal
    per_day: Decimal
    share: Decimal
    hours: float = 0.0
    nodes: float = 0.0
    """How many ran at a time, in the mean."""

    @property
    def rate(self) -> Decimal | None:
        """Return USD of a node-hour, None of what has no hours."""
        return self.amortised / Decimal(str(self.hours)) if self.hours else None

    @property
    def words(self) -> str:
        """Name it with its number of nodes."""
        return f"{self.nodes:,.0f} x {self.name}" if self.nodes >= 1 else self.name


@dataclass(frozen=True)
class CostLevel:
    """Hold what a cost is at, and what it is made of; None where nobody can tell."""

    tally: Tally
    """Of the billed part of the window, without a grouping."""
    parts: Sequence[Part]
    everything: Decimal
    """Amortised cost of the whole account in that time."""
    filters: tuple[Filter, ...]
    alerts: Sequence[Alert] | None
    used: float | None
    """Mean utilization of its nodes over the last day that was read."""
    runs: Sequence[Costed]

    @property
    def per_day(self) -> Decimal:
        """Return amortised USD a billed day."""
        return cents(self.tally.total.amortised / Decimal(str(self.tally.window.length / _DAY)))

    @property
    def rate(self) -> Decimal | None:
        """Return USD of a node-hour of all its nodes."""
        nodes = [part for part in self.parts if part.hours]
        hours = Decimal(str(sum(part.hours for part in nodes)))
        return sum((x.amortised for x in nodes), Decimal(0)) / hours if hours else None

    @property
    def share(self) -> Decimal | None:
        """Return its share of all that the account spent, None where that is nothing."""
        return self.tally.total.amortised / self.everything if self.everything > 0 else None

    @property
    def usd_per_used_hour(self) -> Decimal | None:
        """Return USD of an hour of full work, None where next to no work was seen."""
        if self.rate is None or self.used is None or self.used < 0.01:
            return None
        return self.rate / Decimal(str(self.used))


def level_of(
    ports: Ports, at: datetime, window: Window, where: tuple[Filter, ...]
) -> CostLevel | None:
    """Return the level of a cost, None where nothing of the window is billed; may block."""
    billing = Allocation(ports, at)
    through = billing.tally(NO_TIME, ()).billed_through
    if through is None or min(through, at, window.end) - window.start < _HOUR:
        return None
    span = Window(window.start, min(through, at, window.end))
    span = billed_part(billing.tally(span, ("day",)))
    total, whole = billing.tally(span, (), where), billing.tally(span, ())
    refuse_unknown(billing, ports.world.billing, total, where)

    days = Decimal(str(span.length / _DAY))
    sums: defaultdict[str, tuple[Decimal, float]] = defaultdict(lambda: (Decimal(0), 0.0))
    for row in billing.tally(span, _PARTS, where).rows:
        key, is_node = row.key, bool(row.hours and row.key["instance_type"])
        label = key["instance_type"] if is_node else key["line"] or key["service"]
        if key["line"] == "commitment":
            label = "commitments that nothing used"
        name = f"{label}, {key['purchase']}" if is_node else label
        # Of one cluster each part is its own.
        if key["cluster"] and not any(x.dimension == "cluster" for x in where):
            name += f" · {key['cluster']}"
        amortised, hours = sums[name]
        sums[name] = amortised + row.money.amortised, hours + (row.hours if is_node else 0)
    parts = [
        Part(
            name,
            amortised,
            cents(amortised / days),
            amortised / total.total.amortised if total.total.amortised else Decimal(0),
            hours,
            hours / (span.length / _HOUR),
        )
        for name, (amortised, hours) in sums.items()
        if amortised
    ]

    alerts, runs = None, []
    with suppress(TrnbotError):
        speaking = (alert for alert in ports.stores.alerts.load(at).alerts if alert.speaking)
        alerts = concerned(speaking, where)
    clusters = {
        name for x in where if x.dimension == "cluster" and not x.negated for name in x.values
    }
    if clusters and billing.reading:
        with suppress(TrnbotError):
            runs = [x for x in costed_runs(ports, at) if x.cost.run.labels.cluster in clusters]

    return CostLevel(
        total,
        sorted(parts, key=lambda part: (-part.amortised, part.name)),
        whole.total.amortised,
        where,
        alerts,
        _used(billing.reading, where) if billing.reading else None,
        runs,
    )


def _used(reading: Reading, where: Sequence[Filter]) -> float | None:
    """Return the mean utilization of the nodes that the filters keep, over the last day."""
    frame = reading.frame("node")
    if frame is None or any(x.dimension not in NAMES for x in where):
        return None
    chosen = [all(x.keeps(key) for x in where) for key in map(dict, frame.things)]
    day = frame.last(_DAY).pick(np.array(chosen, dtype=bool))
    values = utilization_of(day)

    return None if np.isnan(values).all() else float(np.nanmean(values))


PARTS = Columns[Part](
    Column("part", lambda x: x.words, key="part"),
    Column(
        "node-hours",
        lambda x: f"{x.hours:,.0f}" if x.hours else "",
        NUMBER,
    ),
    Column(
        "an hour",
        lambda x: x.rate,
        USD,
        "usd_per_hour",
        "amortised cost of the part / its metered hours",
    ),
    Column(
        "a day",
        lambda x: x.per_day,
        USD,
        "usd_per_day",
        "amortised cost of the part / billed days",
        total=True,
    ),
    Column("share", lambda x: x.share, SHARE, "share_ratio", "of the amortised cost asked about"),
    datum("hours", lambda x: x.hours, "instance-hours that were metered"),
    datum("amortised_usd", lambda x: x.amortised, "amortised cost of the part's lines of the bill"),
)
LEVEL_FIGURES = {
    **PARTS.sources("parts"),
    "level/amortised_usd": "amortised cost of the billed part of the window",
    "level/usd_per_day": "amortised cost of the billed part of the window / its days",
    "level/share_ratio": "of the amortised cost of the whole account in that time",
    "level/used_ratio": "mean utilization of its nodes over the last day that was read",
    "level/usd_per_hour": "amortised cost of its nodes / their metered hours",
    "level/usd_per_used_hour": "USD of a node-hour / mean utilization",
    "open/usd_per_day": "waste an hour of the open alert x 24",
    "runs/usd_per_billion_tokens": "cost of the run / tokens gained, x 1,000,000,000",
    "runs/usd_per_epoch": "cost of the run's finished epochs / their number",
}
"""How the amounts of a level are made."""


def level_card(level: CostLevel) -> Card:
    """Draw the level of a cost: the open jumps first, then its parts, its use and its work."""
    tally, window = level.tally, window_line(level.tally.window)
    typed = "".join(f" {filter_line(condition)}" for condition in level.filters)
    total = f"{amount_of(tally.total.amortised, tally)} {in_period(tally.window)}, amortised"
    if level.filters and level.share is not None:
        total += f": {SHARE.write(level.share)} of all that was spent"

    return Card(
        _title(level),
        Tone.INFO,
        compose(
            text(f"{total}."),
            _alerts(level.alerts),
            _use(level),
            PARTS.table(level.parts, most=_MOST, total="a day"),
            tally.billed_through is not None
            and quiet("Billed through ", When(tally.billed_through)),
            Buttons(
                (
                    Button("Why it changed", f"why cost {window}{typed}"),
                    Button("By day", cost_line(window, ("day",), level.filters)),
                    *([Button("Alerts", "alerts")] if level.alerts else []),
                )
            ),
        ),
        {
            "window": {"start": tally.window.start, "end": tally.window.end},
            "currency": tally.currency,
            "level": {
                "amortised_usd": tally.total.amortised,
                "usd_per_day": level.per_day,
                "share_ratio": level.share,
                "used_ratio": level.used,
                "usd_per_hour": level.rate,
                "usd_per_used_hour": level.usd_per_used_hour,
            },
            "parts": PARTS.data(level.parts),
            "open": [{"id": x.id, "usd_per_day": _per_day(x)} for x in level.alerts or ()],
            "runs": [
                {
                    "run": x.name,
                    "usd_per_billion_tokens": x.cost.usd_per_billion_tokens,
                    "usd_per_epoch": x.cost.usd_per_epoch,
                }
                for x in level.runs
            ],
            "filters": [str(condition) for condition in level.filters],
        },
    )


def _title(level: CostLevel) -> str:
    names = ", ".join(
        f"{'all but ' if x.negated else ''}{', '.join(filter(None, x.values)) or f'no {x.dimension}'}"
        for x in level.filters
    )
    amount = f"{amount_of(level.per_day, level.tally)} a day"
    jumps = [x for x in level.alerts or () if x.cause.facts.about is About.MONEY]
    parts = (
        f"{names} costs {amount}" if names else f"{amount} is spent",
        f"an open jump adds {usd(_per_day(jumps[0]))} a day: {alert_words.where(jumps[0])}"
        if jumps
        else "",
        f"most is {level.parts[0].words}" if level.parts else "",
    )

    return "; ".join(filter(None, parts))


def concerned(alerts: Iterable[Alert], where: Sequence[Filter]) -> list[Alert]:
    """Return the alerts that the conditions of a bill keep, the dearest first.

    What an alert's labels do not say fits no value; of a bill's other dimensions alerts know
    nothing.
    """
    kept = (
        alert
        for alert in alerts
        if all(x.keeps(dict(alert.anomaly.labels)) for x in where if x.dimension in NAMES)
    )
    return sorted(kept, key=alert_words.worth, reverse=True)


def _per_day(alert: Alert) -> Decimal:
    return alert.usd_per_hour * 24


def _alerts(alerts: Sequence[Alert] | None) -> Iterator[Block]:
    """Name what is open now, the dearest first."""
    if alerts is None:
        yield quiet("Which alerts are open is not known: nothing of the fleet was read.")
    for alert in (alerts or ())[:_MOST_ALERTS]:
        cost = f"{usd(_per_day(alert))} a day" if alert.waste else "no price is known"
        yield text(
            f"Open: {alert.cause.facts.words}, {alert_words.where(alert)}, {cost}, since ",
            When(alert.anomaly.window.start),
            ".",
        )
    if alerts and len(alerts) > _MOST_ALERTS:
        yield quiet(f"and {len(alerts) - _MOST_ALERTS} more open alerts")


def _use(level: CostLevel) -> Iterator[Block]:
    """Hold the cost against the use of its nodes, and against what was made of it."""
    if level.used is not None and level.rate is not None:
        whose = "Its" if level.filters else "All"
        words = f"{whose} nodes were used {SHARE.write(level.used)} over the last day"
        if (hour := level.usd_per_used_hour) is not None:
            words += f": at {usd(level.rate)} an hour, an hour of full work costs {usd(hour)}"
        yield text(f"{words}.")
    for run in level.runs[:_MOST_RUNS]:
        units = {
            "a billion tokens": run.cost.usd_per_billion_tokens,
            "an epoch": run.cost.usd_per_epoch,
        }
        costs = [f"{usd(amount)} {unit}" for unit, amount in units.items() if amount is not None]
        if costs:
            yield text(f"{run.name} costs {' and '.join(costs)}.")
