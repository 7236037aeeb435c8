"""Answer with changes that would save money, and remember how people decided about them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from decimal import Decimal
from enum import StrEnum

import numpy as np

from bot.answers.cost.commitments import burn_down, commitments_of, credits_left
from bot.answers.cost.goodput import goodput_within
from bot.answers.cost.storage import MOST_OF_A_WEEK, unused_of
from bot.answers.fleet.card import NodeRow
from bot.answers.fleet.command import look_over
from bot.answers.fleet.compiling import ledger_within
from bot.answers.plan.capacity import room, use_of
from bot.answers.plan.comparison import Migration
from bot.answers.plan.migrate import suggested as moves_of
from bot.answers.plan.spot import SpotJob, offer, zones
from bot.cards.card import (
    Block,
    Button,
    Buttons,
    Card,
    Facts,
    Strong,
    Text,
    Tone,
    compose,
    quiet,
    text,
)
from bot.cards.columns import DAY, USD, Column, Columns, datum
from bot.cards.lines import quote
from bot.cards.words import about, period
from bot.costs import capacity, storage
from bot.costs import suggestions as weigh
from bot.costs.node_time import GoodputClass
from bot.costs.nowcast import lapsing_of
from bot.costs.pricing import HOURS_A_MONTH, Offers, Pricing
from bot.costs.suggestions import Suggestion, SuggestionKind
from bot.errors import TrnbotError, WrongInput, nearest
from bot.grammar.registry import Needs, Topic, arg, command
from bot.model.codec import by_key
from bot.model.fleet import Instance, Market, is_neuron
from bot.model.money import cents, counted, usd
from bot.model.reading import AT_LIMIT, BEYOND, Reading, throughput_of
from bot.model.request import Request
from bot.model.spend import Filter
from bot.model.window import Window, midnight
from bot.ports import Documents, Ports

WEEKLY = 3
"""Suggestions that are shown unasked in a week."""
_LOOKED = timedelta(days=14)
_LISTED = 8
_MOST = 500


class Verdict(StrEnum):
    """Name the decisions about a suggestion."""

    DECLINED = "declined"
    DONE = "done"


@dataclass(frozen=True)
class SuggestionVerdict:
    """State a person's decision about a suggestion, and the saving that it promised then."""

    verdict: Verdict
    todo: str
    usd_per_month: Decimal
    at: datetime
    by: str
    by_name: str
    note: str = ""


VERDICTS = Documents("suggestions", SuggestionVerdict)


@dataclass(frozen=True)
class Shortlist:
    """Hold the dearest suggestions as they were weighed last, for pages that may not wait."""

    at: datetime
    suggestions: tuple[Suggestion, ...]


_SHORTLISTS = Documents("suggestions.weighed", Shortlist)
_NEWEST = "newest"
_WEIGHED_EVERY = timedelta(days=1)


@dataclass(frozen=True)
class Suggestions:
    """Hold the suggestions of now, the dearest first, and the decisions about them and earlier ones."""

    suggestions: Sequence[Suggestion]
    verdicts: Mapping[str, SuggestionVerdict]

    @property
    def open(self) -> list[Suggestion]:
        """Return those that nobody decided about yet."""
        return [suggestion for suggestion in self.suggestions if suggestion.id not in self.verdicts]

    def saved(self, name: str) -> Decimal:
        """Return USD a month that a change saved: its promise less the saving that is left."""
        remaining = sum((x.usd_per_month for x in self.suggestions if x.id == name), Decimal(0))
        return self.verdicts[name].usd_per_month - remaining


def suggestions_of(ports: Ports, now: datetime) -> Suggestions:
    """Weigh every kind of suggestion; an unreadable source suggests nothing. May block."""
    verdicts = dict(VERDICTS.newest(ports.stores.documents, _MOST))
    weighed: list[Suggestion] = []
    with suppress(TrnbotError):
        rows, reading = look_over(ports, now)
        pricing = Pricing(ports).at(now)
        with suppress(TrnbotError):
            weighed += _moves(ports, rows, reading)
        for weigh_kind in _KINDS:
            with suppress(TrnbotError):
                weighed += weigh_kind(ports, reading, pricing)
    least = ports.policy.usd("advice.least_usd_per_month")
    worth = [suggestion for suggestion in weighed if suggestion.usd_per_month >= least]
    worth.sort(key=lambda suggestion: (-suggestion.usd_per_month, suggestion.id))
    if ports.world.actions is None:
        worth = [replace(suggestion, act="") for suggestion in worth]
    return Suggestions(worth, verdicts)


def weigh_daily(ports: Ports, now: datetime) -> None:
    """Weigh once a day for those who look; may block."""
    documents = ports.stores.documents
    known = _SHORTLISTS.get(documents, _NEWEST)
    if known is None or not timedelta() <= now - known.at < _WEIGHED_EVERY:
        listed = suggestions_of(ports, now).open[:_LISTED]
        _SHORTLISTS.put(documents, _NEWEST, Shortlist(now, tuple(listed)))


def shortlisted(ports: Ports, now: datetime) -> list[Suggestion]:
    """Return the three dearest of the last day that nobody decided about since."""
    documents = ports.stores.documents
    known = _SHORTLISTS.get(documents, _NEWEST)
    if known is None or not timedelta() <= now - known.at <= 2 * _WEIGHED_EVERY:
        return []
    verdicts = VERDICTS.keys(documents, _MOST)
    return [x for x in known.suggestions if x.id not in verdicts][:WEEKLY]


def _moves(ports: Ports, rows: Sequence[NodeRow], reading: Reading) -> Iterator[Suggestion]:
    for move in moves_of(ports, rows, reading):
        suggestion = _move(move, reading)
        if suggestion and suggestion.low_usd > 0:
            yield suggestion


def _move(move: Migration, reading: Reading) -> Suggestion | None:
    """Weigh a move to another type, bought as today's nodes are where it is sold so."""
    standing, moves = move.standing, move.moves()
    market = standing.price.market if standing.price else None
    option = next((x for x in moves if x.price.market is market), next(iter(moves), None))
    if option is None:
        return None
    today = standing.usd_per_hour * HOURS_A_MONTH
    worst, middle, best = (
        cents(today * (1 - Decimal(str(share))))
        for share in (option.worst, option.middle, option.best)
    )
    return Suggestion(
        SuggestionKind.MOVE,
        standing.cluster,
        f"Move {standing.cluster} to {move.to.name}: {move.verdict.headline}",
        middle,
        worst,
        best,
        Window(reading.now - timedelta(days=1), reading.now),
        f"the speed-up is as its sources state it, and hours are bought as {option.price.market}",
        f"migrate {quote(standing.cluster)}",
        (
            ("today's nodes, a month", usd(today, digits=2)),
            ("cost of the same work there, middle", f"{option.middle:.1%}"),
            ("slowest and fastest source", f"{option.worst:.1%} to {option.best:.1%}"),
        ),
    )


def _commitments(ports: Ports, reading: Reading, pricing: Pricing) -> Iterator[Suggestion]:
    running = {
        node.labels.instance_type
        for node in reading.inventory.instances.values()
        if node.running and node.market is Market.ON_DEMAND and is_neuron(node.labels.instance_type)
    }
    for name in running:
        with suppress(TrnbotError):
            offered = commitments_of(ports, (name, 1), Offers(pricing), reading.now, "")
            if suggestion := capacity.commitment(offered):
                yield suggestion


def _priced(reading: Reading, pricing: Pricing) -> Iterator[tuple[int, Instance, Decimal]]:
    """Return the row of each node whose metrics are read, the node, and the USD of its hour."""
    frame = reading.frame("node")
    for row, thing in enumerate(frame.things if frame else ()):
        node = reading.inventory.instances.get(thing.instance)
        price = pricing.instance(node) if node else None
        if node and price:
            yield row, node, price.usd_per_hour


def _schedules(ports: Ports, reading: Reading, pricing: Pricing) -> Iterator[Suggestion]:
    frame = reading.frame("node")
    paid = by_key(
        (frame.things[row].cluster, (row, price))
        for row, node, price in _priced(reading, pricing)
        if frame and node.market is Market.ON_DEMAND and frame.things[row].cluster
    )
    for cluster, nodes in paid.items():
        assert frame
        rows, prices = zip(*nodes, strict=True)
        limit = ports.policy.at(frame.things[rows[0]]).number("idle.below")
        if suggestion := weigh.schedule(cluster, frame.pick(np.array(rows)), limit, prices):
            yield suggestion


def _alerted(ports: Ports, reading: Reading) -> set[str]:
    """Return the things of open alerts: of what an alert tells nothing is suggested."""
    alerts = ports.stores.alerts.load(reading.now).alerts
    return {thing for alert in alerts if alert.speaking for thing in alert.anomaly.things}


def _storage(ports: Ports, reading: Reading, pricing: Pricing) -> Iterator[Suggestion]:
    """Suggest to delete storage too small for an alert, once it has lain for days."""
    alerted = _alerted(ports, reading)
    unused = [
        x
        for x in unused_of(reading, pricing)
        if x.thing.labels.resource not in alerted
        and x.since <= reading.now - ports.policy.duration("orphaned_storage.for")
    ]
    if unused:
        amounts = [(x.thing.labels.resource, x.usd_per_month) for x in unused]
        yield storage.unused_storage(amounts, min(x.since for x in unused), reading.now)


def _losses(ports: Ports, reading: Reading, _: Pricing) -> Iterator[Suggestion]:
    """Weigh compiles of known work, by the ledger, and by goodput each job's restarts."""
    window = Window(reading.now - _LOOKED, reading.now)
    goodput = goodput_within(ports, reading, window, ("job",))
    reach = goodput.read
    if reach is None:
        return
    jobs = [
        weigh.checkpoints(
            row.key["job"],
            row.of(GoodputClass.LOST),
            row.of(GoodputClass.CHECKPOINT_EVALUATION),
            reach,
        )
        for row in goodput.rows
        if row.key["job"]
    ]
    again = sum((x.again_usd for x in ledger_within(ports, reading, window)), Decimal(0))
    compiles = weigh.cache(again, reach)
    yield from filter(None, (compiles, *jobs))


def _renewals(ports: Ports, reading: Reading, pricing: Pricing) -> Iterator[Suggestion]:
    yield from capacity.renewals(lapsing_of(pricing).items(), reading.now)


def _room(ports: Ports, reading: Reading, pricing: Pricing) -> Iterator[Suggestion]:
    """Suggest to fill empty places of a reservation with nodes of its type and zone."""
    alerted = _alerted(ports, reading)
    nodes = list(reading.inventory.instances.values())
    for reservation in reading.inventory.reservations:
        place = reservation.labels
        if not (reservation.active and reservation.available) or place.resource in alerted:
            continue
        prices = sorted(
            price.usd_per_hour
            for node in nodes
            if node.running and not node.reservation and node.market is Market.ON_DEMAND
            if (node.labels.instance_type, node.labels.zone) == (place.instance_type, place.zone)
            if (price := pricing.instance(node))
        )[::-1][: reservation.available]
        if prices:
            total = sum(prices, Decimal(0))
            yield capacity.reserved_room(
                place.instance_type, place.zone, len(prices), total, reading.now
            )


def _volumes(ports: Ports, reading: Reading, pricing: Pricing) -> Iterator[Suggestion]:
    """Suggest gp3 for volumes of gp2, at the list prices of both."""
    sizes = Counter[str]()
    for volume in reading.inventory.volumes:
        if volume.volume_type == "gp2":
            sizes[volume.labels.region] += volume.size_gib
    older, newer = (
        sum(
            (
                price.usd_per_hour * HOURS_A_MONTH
                for region, gib in sizes.items()
                if (price := pricing.listed_storage(kind, gib, region))
            ),
            Decimal(0),
        )
        for kind in ("ebs:gp2", "ebs:gp3")
    )
    if newer and (x := storage.newer_volumes(sizes.total(), older, newer, reading.now)):
        yield x


_COPIES = re.compile(r"SnapshotUsage|BackupUsage")
"""Usage types of copies: nothing works on them, so growth alone says that none expires."""


def _growth(ports: Ports, reading: Reading, _: Pricing) -> Iterator[Suggestion]:
    """Suggest to let copies and logs expire that cost more each week."""
    end = _settled(reading)
    weeks: dict[str, list[Decimal]] = {}
    # Whole weeks alone: a day more or less would look like growth.
    for n in range(storage.GROWTH_WEEKS, 0, -1):
        start = end - n * timedelta(days=7)
        window = Window(start, start + timedelta(days=7))
        for row in ports.world.billing.tally(window, ("service", "usage_type")).rows:
            usage = row.key["usage_type"]
            logs = row.key["service"] == "AmazonCloudWatch" and "TimedStorage" in usage
            if logs or _COPIES.search(usage):
                weeks.setdefault(usage, []).append(row.money.amortised)
    for usage, amounts in weeks.items():
        if suggestion := storage.only_grows(usage, amounts, end):
            yield suggestion


def _quotas(ports: Ports, reading: Reading, pricing: Pricing) -> Iterator[Suggestion]:
    """Hold the room of each quota against what node groups want and how nodes grew."""
    inventory, ages = reading.inventory, (_LOOKED, _LOOKED / 2, timedelta())
    for limit in inventory.quotas:
        fits = room(use_of(limit, inventory), inventory.types, "")
        if fits is None:
            continue
        name, free = fits
        nodes = [
            node
            for node in inventory.instances.values()
            if node.labels.instance_type == name and node.market is limit.market
            if limit.labels.selects(node.labels) and (node.running or node.ended_at)
        ]
        then, before, now = (
            sum(
                node.launched_at <= at and (node.ended_at is None or node.ended_at > at)
                for node in nodes
            )
            for at in (reading.now - age for age in ages)
        )

        # Not every node tells its group, so a cluster's groups are held against its nodes.
        planned = 0
        for cluster in inventory.eks:
            members = [
                node
                for node in inventory.instances.values()
                if node.labels.cluster == cluster.name and node.labels.instance_type == name
                if limit.labels.selects(node.labels) and not node.ended_at
            ]
            markets = {node.market for node in members} or {Market.ON_DEMAND}
            if markets == {limit.market} and limit.labels.selects(cluster.labels):
                desired = sum(x.desired for x in cluster.node_groups if name in x.instance_types)
                planned += max(0, desired - len(members))
        place = limit.labels.region or "one region"
        demand = capacity.Demand(limit.name, name, place, free, planned, (then, before, now))
        price = pricing.mean(node for node in nodes if node.running)
        if price and (x := capacity.quota(demand, price.usd_per_hour, reading.now)):
            yield x


def _refused(ports: Ports, reading: Reading, pricing: Pricing) -> Iterator[Suggestion]:
    """Set launches that were refused beside those that were had, and nodes that waited."""
    frame, since, alerted = reading.frame("node"), reading.now - _LOOKED, _alerted(ports, reading)
    if frame is None:
        return
    frame = frame.since(since)
    priced = list(_priced(reading, pricing))
    asked = by_key(
        ((x.labels.instance_type, x.labels.region), x)
        for x in reading.refusals or ()
        if x.at >= since and x.labels.instance_type
    )
    for (name, region), refusals in asked.items():
        launches = [
            (node.labels.zone or region, node.launched_at)
            for node in reading.inventory.instances.values()
            if (node.labels.instance_type, node.labels.region) == (name, region)
            if node.launched_at >= since
        ]
        waiting = [
            (row, price)
            for row, node, price in priced
            if (node.labels.instance_type, node.labels.region) == (name, region)
            if node.id not in alerted
        ]
        if waiting:
            rows, prices = zip(*waiting, strict=True)
            limit = ports.policy.at(frame.things[rows[0]]).number("idle.below")
            nodes = frame.pick(np.array(rows))
            if x := capacity.elsewhere(refusals, launches, nodes, limit, prices):
                yield x


def _credits(ports: Ports, reading: Reading, _: Pricing) -> Iterator[Suggestion]:
    """Say when credits end whose balance an admin has set: AWS tells it to no program."""
    left = credits_left(ports, reading.now)
    if left is None:
        return
    end = _settled(reading)
    rows = ports.world.billing.tally(Window(end - _LOOKED, end), ("day",)).rows
    daily = {date.fromisoformat(row.key["day"]): row.money.credits for row in rows}
    burn = burn_down(daily, end.date(), left)
    if burn and burn.gone_on:
        paid = {day: -amount for day, amount in daily.items()}
        if x := capacity.credits_end(paid, burn.gone_on, reading.now):
            yield x


def _pools(ports: Ports, reading: Reading, _: Pricing) -> Iterator[Suggestion]:
    """Weigh the zones of each cluster's spot nodes: price, reclaims, and requests refused.

    Another region alone where fewer are reclaimed, by its band of the Spot Advisor.
    """
    window, market = Window(reading.now - _LOOKED, reading.now), ports.world.prices
    refused = Counter(
        (x.labels.instance_type, x.labels.zone)
        for x in reading.refusals or ()
        if x.spot and x.at in window
    )
    places = Counter(
        (node.labels.cluster, node.labels.instance_type, node.labels.zone)
        for node in reading.inventory.instances.values()
        if node.running and node.market is Market.SPOT and node.labels.zone
    )
    for (cluster, name, zone), nodes in places.items():
        job = SpotJob(nodes, Decimal(HOURS_A_MONTH))
        bands = market.interruptions(name, reading.now)
        offers = [
            offer(x, job, bands, (), None, Decimal(0))
            for x in zones(market.spot_history(name, reading.now), window)
        ]
        stay = next((x for x in offers if x.zone.zone == zone), None)
        lost = stay.lost_share if stay else None
        candidates = [
            x
            for x in offers
            if stay and x is not stay and not refused[name, x.zone.zone]
            if x.zone.region == stay.zone.region
            or (lost and x.lost_share is not None and x.lost_share < lost)
        ]
        if stay and candidates:
            move = min(candidates, key=lambda x: (x.expected, x.zone.zone))
            costs = [
                capacity.PoolCost(
                    x.zone.zone,
                    x.expected,
                    replace(x, compute=cents(x.zone.p95 * nodes * job.hours)).expected,
                    refused[name, x.zone.zone],
                )
                for x in (stay, move)
            ]
            if suggestion := capacity.pool((cluster, name), costs, window):
                yield suggestion


def _starts(ports: Ports, reading: Reading, pricing: Pricing) -> Iterator[Suggestion]:
    """Time each launch until its node's first reading of cores, and each warm pool that was kept."""
    frame, window = reading.frame("node"), Window(reading.now - _LOOKED, reading.now)
    if frame is not None:
        read = ~np.isnan(frame.of("neuroncore_utilization_ratio"))
        starts = by_key(
            (node.labels.cluster, (max(seen - node.launched_at, timedelta()), price))
            for row, node, price in _priced(reading, pricing)
            if node.launched_at in window and node.launched_at >= frame.start and read[row].any()
            if (seen := frame.start + int(read[row].argmax()) * frame.step)
            if seen - node.launched_at <= _START and node.labels.cluster != node.labels.job
        )
        for cluster, timed in starts.items():
            if x := weigh.warm_pool(cluster, timed, frame.step, window):
                yield x

    pools = [
        (node.labels.job, node.kept_warm, price.usd_per_hour)
        for node in reading.inventory.instances.values()
        if node.kept_warm and node.ended_at and node.ended_at in window
        if (price := pricing.instance(node))
    ]
    if suggestion := weigh.kept_warm(pools, window):
        yield suggestion


def _notebooks(ports: Ports, reading: Reading, _: Pricing) -> Iterator[Suggestion]:
    """Look for notebooks of SageMaker that the bill names in every hour."""
    end = _settled(reading)
    window = Window(end - _LOOKED, end)
    of_sagemaker = [Filter("service", ("AmazonSageMaker",))]
    rows = ports.world.billing.tally(window, ("resource", "hour"), of_sagemaker).rows
    billed = by_key(
        (row.key["resource"], row.money.amortised)
        for row in rows
        if _NOTEBOOK.search(row.key["resource"]) and row.money.amortised > 0
    )
    for resource, hours in billed.items():
        if x := weigh.notebook(resource, hours, window):
            yield x


def _file_systems(ports: Ports, reading: Reading, pricing: Pricing) -> Iterator[Suggestion]:
    """Hold the throughput of file systems against their use, and against nodes that starve."""
    frame, alerted = reading.frame("file_system"), _alerted(ports, reading)
    for system in reading.inventory.file_systems:
        load = throughput_of(system, frame, _LOOKED / 2)
        # What nobody uses is to go, not to get less.
        if load is None or not load.peak or load.looked < MOST_OF_A_WEEK:
            continue
        if system.labels.resource in alerted:
            continue
        window, region = Window(reading.now - _LOOKED, reading.now), system.labels.region
        tiers = {
            tier: cents(price.usd_per_hour * HOURS_A_MONTH)
            for tier in system.tiers
            if (price := pricing.listed_storage(f"fsx:{tier}", system.storage_gib, region))
        }
        if AT_LIMIT <= load.peak_share < BEYOND:
            rows = goodput_within(ports, reading, window, ("cluster",)).rows
            starved = sum(
                (
                    row.of(GoodputClass.STARVED)
                    for row in rows
                    if row.key["cluster"] == system.labels.cluster
                ),
                Decimal(0),
            )
            found = storage.more_throughput(load, tiers, starved, window)
        else:
            found = storage.less_throughput(
                load, tiers, Window(window.end - load.looked, window.end)
            )
        if found:
            yield found


_START = timedelta(hours=1)
"""What takes longer until its first reading was no start, but a node without an agent."""
_NOTEBOOK = re.compile(r":(notebook-instance|app)/")
"""ARNs of notebook instances, and of apps of SageMaker Studio."""


def _settled(reading: Reading) -> datetime:
    """Return the end of the days whose bill does not change any more."""
    return midnight(reading.now) - timedelta(days=2)


_KINDS = (
    _commitments,
    _schedules,
    _storage,
    _losses,
    _renewals,
    _room,
    _volumes,
    _growth,
    _quotas,
    _refused,
    _credits,
    _pools,
    _starts,
    _notebooks,
    _file_systems,
)
"""Each weighs one kind of change, or two that rest on the same readings."""


COLUMNS = Columns[Suggestion](
    datum("id", lambda x: x.id),
    datum("kind", lambda x: x.kind.value),
    datum("subject", lambda x: x.subject),
    datum("todo", lambda x: x.todo),
    datum(
        "usd_per_month",
        lambda x: x.usd_per_month,
        "as its steps have it: suggestions show ID lists them",
    ),
    datum("low_usd", lambda x: x.low_usd, "the low end, as its steps have it"),
    datum("high_usd", lambda x: x.high_usd, "the high end, as its steps have it"),
    datum("window", lambda x: x.window),
    datum("saves", lambda x: x.kind.saves),
    datum("holds_if", lambda x: x.holds_if),
    datum("line", lambda x: x.line),
)
_DECIDED = Columns[tuple[str, SuggestionVerdict, Decimal]](
    datum("id", lambda x: x[0]),
    Column("decision", lambda x: x[1].verdict.value, key="verdict"),
    Column("what", lambda x: x[1].todo),
    Column("by", lambda x: x[1].by_name or x[1].by),
    datum("by", lambda x: x[1].by),
    Column("on", lambda x: x[1].at, DAY, "at"),
    Column(
        "promised $/month",
        lambda x: x[1].usd_per_month,
        USD,
        "usd_per_month",
        "its promise when it was decided about",
    ),
    Column(
        "saved $/month",
        lambda x: x[2] if x[1].verdict is Verdict.DONE else None,
        USD,
        "saved_usd_per_month",
        "what it promised - what the same suggestion would still save",
    ),
    Column("why", lambda x: x[1].note, key="note", missing=""),
)


def suggestion_words(suggestion: Suggestion) -> Text:
    """Say a suggestion in one line, dollars first."""
    amount = f"{about(suggestion.usd_per_month)} a month"
    return text(Strong(amount), f" ({_range(suggestion)}): {suggestion.todo}.")


def _range(suggestion: Suggestion) -> str:
    low, high = about(suggestion.low_usd), about(suggestion.high_usd)
    basis = "estimated" if suggestion.kind.saves else "at stake, estimated"
    return f"{low} to {high}, {basis}" if low != high else basis


def _buttons(suggestion: Suggestion) -> Buttons:
    name = suggestion.id
    return Buttons(
        (
            *([Button("Do it…", suggestion.act)] if suggestion.act else []),
            Button("Calculate", f"suggestions show {name}"),
            Button("Try", suggestion.line),
            Button("Done", f"suggestions done {name}"),
            Button("Not again", f"suggestions decline {name}"),
        )
    )


def shortlist_blocks(suggestions: Sequence[Suggestion]) -> list[Block]:
    """Draw a quiet line for each; none where there are none."""
    lines: list[Block] = [quiet(*suggestion_words(x).spans) for x in suggestions]
    return [*lines, Buttons((Button("Suggestions", "suggestions"),))] if lines else []


def suggestions_card(seen: Suggestions) -> Card:
    """List open suggestions with their buttons, and below them the decisions about others."""
    saving = [suggestion for suggestion in seen.open if suggestion.kind.saves]
    total = sum((suggestion.usd_per_month for suggestion in saving), Decimal(0))
    decided = [(name, verdict, seen.saved(name)) for name, verdict in seen.verdicts.items()]
    listed: list[Block] = []
    for suggestion in seen.open[:_LISTED]:
        listed += [suggestion_words(suggestion), _buttons(suggestion)]
    if len(seen.open) > _LISTED:
        listed.append(quiet(f"And {len(seen.open) - _LISTED} that save less."))
    blocks = compose(
        listed or text("Nothing that is known here would save enough to be worth a change."),
        _DECIDED.table(decided, most=10, caption="Decided before") if decided else None,
        quiet(
            "Estimates, from list or billed prices; never part of an alert. 'Not again' dismisses"
            " one for good; 'Done' compares its promise with what could still be saved."
        ),
    )
    title = "No suggestion"
    if seen.open:
        low = sum((suggestion.low_usd for suggestion in saving), Decimal(0))
        span = f"{about(low)} to {about(total)}" if about(low) != about(total) else about(total)
        title = counted(len(seen.open), "suggestion")
        if saving:
            title += f": about {span} a month in all"
    data = {
        "suggestions": COLUMNS.data(seen.open),
        "usd_per_month": total,
        "decided": _DECIDED.data(decided),
    }
    return Card(title, Tone.INFO, blocks, data)


def weekly_card(seen: Suggestions) -> Card | None:
    """List what is suggested unasked: the dearest of the week; None where nothing is."""
    listed = seen.open[:WEEKLY]
    if not listed:
        return None
    return suggestions_card(Suggestions(listed, {}))


def suggestion_card(suggestion: Suggestion) -> Card:
    """Draw every step from readings to dollars a month."""
    blocks = compose(
        text(f"{suggestion.todo}."),
        Facts((*suggestion.steps, ("a month", usd(suggestion.usd_per_month, digits=2)))),
        text(f"True if {suggestion.holds_if}."),
        quiet(f"Seen in {period(suggestion.window)}; {_range(suggestion)}."),
        _buttons(suggestion),
    )
    title = f"{suggestion.kind.value.capitalize()}: {usd(suggestion.usd_per_month)} a month"
    data = {"suggestion": {**COLUMNS.record(suggestion), "steps": dict(suggestion.steps)}}
    return Card(title, Tone.INFO, blocks, data)


@command(
    "suggestions",
    "Changes that would save money, the largest saving first.",
    needs=Needs.METRICS | Needs.STATE | Needs.DETECTOR,
    may=Needs.BILL,
    topic=Topic.PLANS,
    examples=("suggestions",),
    rows=("suggestions",),
    figures={
        **COLUMNS.sources("suggestions"),
        "usd_per_month": "sum over what is listed and saves; what is at stake is not added",
        **_DECIDED.sources("decided"),
    },
)
def suggestions(ports: Ports, request: Request) -> Card:
    """Weigh all kinds, and leave out those that people decided about."""
    return suggestions_card(suggestions_of(ports, request.at))


@command(
    "suggestions show",
    "One suggestion, with its arithmetic and its assumptions.",
    needs=Needs.METRICS | Needs.STATE | Needs.DETECTOR,
    may=Needs.BILL,
    topic=Topic.PLANS,
    examples=("suggestions show s1234abcd",),
    figures=COLUMNS.sources("suggestion"),
    hidden=True,
)
def suggestions_show(
    ports: Ports, request: Request, name: str = arg(None, "the suggestion's id")
) -> Card:
    """Show one by its id."""
    return suggestion_card(_named(ports, request, name))


def _named(ports: Ports, request: Request, name: str) -> Suggestion:
    """Return a suggestion by its id, or raise `WrongInput`."""
    by_id = {x.id: x for x in suggestions_of(ports, request.at).suggestions}
    if name not in by_id:
        hint = nearest(name, by_id, most=5, otherwise="'suggestions' lists them")
        raise WrongInput(f"There is no suggestion '{name}' now{hint}.")
    return by_id[name]


def _decide(ports: Ports, request: Request, name: str, verdict: Verdict, note: str) -> Card:
    """Keep a person's decision about a suggestion; the newest one holds."""
    suggestion, who = _named(ports, request, name), request.user
    decision = SuggestionVerdict(
        verdict,
        suggestion.todo,
        suggestion.usd_per_month,
        request.at,
        who.id,
        who.name,
        note,
    )
    VERDICTS.put(ports.stores.documents, name, decision)
    later = "It is not suggested again."
    if verdict is Verdict.DONE:
        later = (
            f"It promised {usd(suggestion.usd_per_month)} a month; 'suggestions' compares that with"
            " what could still be saved."
        )
    blocks = (
        text(f"{suggestion.todo}."),
        quiet(later),
        Buttons((Button("Undo", f"suggestions reopen {name}"),)),
    )
    title = f"{verdict.value.capitalize()} by {who.name or who.id}"
    data = {"id": name, "verdict": verdict.value, "usd_per_month": suggestion.usd_per_month}
    return Card(title, Tone.GOOD, blocks, data, public=True)


@command(
    "suggestions decline",
    "Dismiss a suggestion for good, with a reason.",
    needs=Needs.METRICS | Needs.STATE | Needs.DETECTOR,
    may=Needs.BILL,
    topic=Topic.PLANS,
    examples=("suggestions decline s1234abcd we move to trn2 in May",),
    hidden=True,
    changes=True,
)
def suggestions_decline(
    ports: Ports,
    request: Request,
    name: str = arg(None, "the suggestion's id"),
    reason: str = arg("", "why not", rest=True),
) -> Card:
    """Keep that it is not wanted."""
    return _decide(ports, request, name, Verdict.DECLINED, reason)


@command(
    "suggestions done",
    "Mark a suggestion as followed: its saving is compared with its promise.",
    needs=Needs.METRICS | Needs.STATE | Needs.DETECTOR,
    may=Needs.BILL,
    topic=Topic.PLANS,
    examples=("suggestions done s1234abcd",),
    hidden=True,
    changes=True,
)
def suggestions_done(
    ports: Ports, request: Request, name: str = arg(None, "the suggestion's id")
) -> Card:
    """Write that it was followed."""
    return _decide(ports, request, name, Verdict.DONE, "")


@command(
    "suggestions reopen",
    "Withdraw the decision on a suggestion.",
    needs=Needs.STATE,
    topic=Topic.PLANS,
    examples=("suggestions reopen s1234abcd",),
    hidden=True,
    changes=True,
)
def suggestions_reopen(
    ports: Ports, request: Request, name: str = arg(None, "the suggestion's id")
) -> Card:
    """Forget the decision."""
    documents = ports.stores.documents
    decision = VERDICTS.get(documents, name)
    if decision is None:
        raise WrongInput(f"Nobody has decided on '{name}'; 'suggestions' lists the decisions.")
    VERDICTS.drop(documents, name)
    blocks = (text(f"{decision.todo}."),)
    return Card("Suggested again", Tone.GOOD, blocks, {"id": name}, public=True)
