"""Read the fleet, the market and the bill for changes that would save money, kind by kind."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Set
from contextlib import suppress
from dataclasses import replace
from datetime import date, datetime, timedelta
from decimal import Decimal
from functools import cached_property

import numpy as np

from bot.answers.cost.commitments import burn_down, commitments_of, credits_left
from bot.answers.cost.goodput import goodput_within
from bot.answers.cost.storage import MOST_OF_A_WEEK, unused_of
from bot.answers.fleet.command import look_over
from bot.answers.fleet.compiling import ledger_within
from bot.answers.plan.capacity import use_of
from bot.answers.plan.comparison import Migration
from bot.answers.plan.migrate import suggested as moves_of
from bot.cards.lines import quote
from bot.costs import capacity
from bot.costs import suggestions as weigh
from bot.costs.node_time import GoodputClass
from bot.costs.pricing import HOURS_A_MONTH, Offers, Pricing
from bot.costs.running import lapsing_of
from bot.costs.spot import SpotJob, offer, zones
from bot.costs.suggestions import Suggestion, SuggestionKind
from bot.errors import TrnbotError
from bot.model.codec import by_key
from bot.model.fleet import Instance, Market, is_neuron
from bot.model.money import cents, usd
from bot.model.price import Price
from bot.model.reading import AT_LIMIT, BEYOND, Reading, throughput_of
from bot.model.spend import Filter
from bot.model.window import Window, midnight
from bot.ports import Ports

_LOOKED = timedelta(days=14)
_START = timedelta(hours=1)
"""What takes longer until its first reading was no start, but a node without an agent."""
_NOTEBOOK = re.compile(r":(notebook-instance|app)/")
"""ARNs of notebook instances, and of apps of SageMaker Studio."""
_COPIES = re.compile(r"SnapshotUsage|BackupUsage")
"""Usage types of copies: nothing works on them, so growth alone says that none expires."""


class Look:
    """Hold what every kind of change is weighed by: a reading, its prices, and how far back."""

    def __init__(self, ports: Ports, reading: Reading) -> None:
        settled = midnight(reading.now) - timedelta(days=2)
        self.ports, self.reading = ports, reading
        self.pricing = Pricing(ports).at(reading.now)
        self.window = Window(reading.now - _LOOKED, reading.now)
        self.settled = Window(settled - _LOOKED, settled)
        """The days whose bill does not change any more."""

    @cached_property
    def alerted(self) -> Set[str]:
        """Return the things of open alerts, about which nothing is suggested beside them."""
        return {
            thing
            for alert in self.ports.stores.alerts.load(self.reading.now).alerts
            if alert.speaking
            for thing in alert.anomaly.things
        }

    def priced(self) -> Iterator[tuple[int, Instance, Price]]:
        """Yield the row of each node whose metrics are read, the node, and the price of its hour."""
        frame = self.reading.frame("node")
        for row, thing in enumerate(frame.things if frame else ()):
            node = self.reading.inventory.instances.get(thing.instance)
            price = self.pricing.instance(node) if node else None
            if node and price:
                yield row, node, price


def candidates(ports: Ports, now: datetime) -> list[Suggestion]:
    """Weigh every kind of change; an unreadable source suggests nothing. May block."""
    weighed: list[Suggestion | None] = []
    with suppress(TrnbotError):
        rows, reading = look_over(ports, now)
        look = Look(ports, reading)
        with suppress(TrnbotError):
            weighed += (_move(move, reading) for move in moves_of(ports, rows, reading))
        for weigh_kind in _KINDS:
            with suppress(TrnbotError):
                weighed += weigh_kind(look)
    return [suggestion for suggestion in weighed if suggestion]


def _move(move: Migration, reading: Reading) -> Suggestion | None:
    """Weigh a move to another type, bought as today's nodes are where it is sold so.

    None where it would save nothing by its slowest source. What a commitment pays of today's nodes
    it goes on to pay.
    """
    standing, moves, price = move.standing, move.moves(), move.standing.price
    alike = (x for x in moves if price and x.price.market is price.market)
    option = next(alike, next(iter(moves), None))
    if option is None or price is None:
        return None
    today = standing.usd_per_hour * HOURS_A_MONTH
    committed = price.committed_usd_per_hour * standing.nodes * HOURS_A_MONTH
    worst, middle, best = (
        cents(today * (1 - Decimal(str(share))) - committed)
        for share in (option.worst, option.middle, option.best)
    )
    if worst <= 0:
        return None
    return Suggestion(
        SuggestionKind.MOVE,
        standing.cluster,
        f"Move {standing.cluster} to {move.to.name}: {move.verdict.headline}",
        middle,
        worst,
        best,
        Window(reading.now - timedelta(days=1), reading.now),
        f"nodes go on to work as fast as was measured, bought as {option.price.market}",
        f"migrate {quote(standing.cluster)}",
        (
            ("today's nodes, a month", usd(today, digits=2)),
            *weigh.committed_step(committed),
            ("cost of the same work there, middle", f"{option.middle:.1%}"),
            ("slowest and fastest source", f"{option.worst:.1%} to {option.best:.1%}"),
        ),
    )


def _commitments(look: Look) -> Iterator[Suggestion | None]:
    running = {
        node.labels.instance_type
        for node in look.reading.inventory.instances.values()
        if node.running and node.market is Market.ON_DEMAND and is_neuron(node.labels.instance_type)
    }
    for name in running:
        with suppress(TrnbotError):
            yield capacity.commitment(
                commitments_of(look.ports, (name, 1), Offers(look.pricing), look.reading.now, "")
            )


def _schedules(look: Look) -> Iterator[Suggestion | None]:
    frame = look.reading.frame("node")
    paid = by_key(
        (frame.things[row].cluster, (row, price))
        for row, node, price in look.priced()
        if frame and node.market is Market.ON_DEMAND and frame.things[row].cluster
    )
    for cluster, nodes in paid.items():
        assert frame
        rows, prices = zip(*nodes, strict=True)
        yield weigh.schedule(
            cluster,
            frame.pick(np.array(rows)),
            look.ports.policy.at(frame.things[rows[0]]).number("idle.below"),
            prices,
        )


def _storage(look: Look) -> Iterator[Suggestion]:
    """Suggest to delete storage too small for an alert, once it has lain for days."""
    unused = [
        x
        for x in unused_of(look.reading, look.pricing)
        if x.thing.labels.resource not in look.alerted
        and x.since <= look.reading.now - look.ports.policy.duration("orphaned_storage.for")
    ]
    if unused:
        amounts = [(x.thing.labels.resource, x.usd_per_month) for x in unused]
        yield weigh.unused_storage(amounts, min(x.since for x in unused), look.reading.now)


def _losses(look: Look) -> Iterator[Suggestion | None]:
    """Weigh compiles of known work, by the ledger, and by goodput each job's restarts."""
    goodput = goodput_within(look.ports, look.reading, look.window, ("job",))
    reach = goodput.read
    if reach is None:
        return
    again = sum(
        (x.again_usd for x in ledger_within(look.ports, look.reading, look.window)), Decimal(0)
    )
    yield weigh.cache(again, reach)
    yield from (
        weigh.checkpoints(
            row.key["job"],
            row.of(GoodputClass.LOST),
            row.of(GoodputClass.CHECKPOINT_EVALUATION),
            reach,
        )
        for row in goodput.rows
        if row.key["job"]
    )


def _renewals(look: Look) -> Iterator[Suggestion]:
    yield from capacity.renewals(lapsing_of(look.pricing).items(), look.reading.now)


def _room(look: Look) -> Iterator[Suggestion]:
    """Suggest to fill empty places of a reservation with nodes of its type and zone."""
    for reservation in look.reading.inventory.reservations:
        place = reservation.labels
        if not (reservation.active and reservation.available) or place.resource in look.alerted:
            continue
        prices = sorted(
            price.usd_per_hour
            for node in look.reading.inventory.instances.values()
            if node.running and not node.reservation and node.market is Market.ON_DEMAND
            if (node.labels.instance_type, node.labels.zone) == (place.instance_type, place.zone)
            if (price := look.pricing.instance(node))
        )[::-1][: reservation.available]
        if prices:
            yield capacity.reserved_room(
                place.instance_type,
                place.zone,
                len(prices),
                sum(prices, Decimal(0)),
                look.reading.now,
            )


def _volumes(look: Look) -> Iterator[Suggestion]:
    """Suggest gp3 for volumes of gp2, at the list prices of both."""
    sizes = Counter[str]()
    for volume in look.reading.inventory.volumes:
        if volume.volume_type == "gp2":
            sizes[volume.labels.region] += volume.size_gib
    older, newer = (
        sum(
            (
                price.usd_per_hour * HOURS_A_MONTH
                for region, gib in sizes.items()
                if (price := look.pricing.listed_storage(kind, gib, region))
            ),
            Decimal(0),
        )
        for kind in ("ebs:gp2", "ebs:gp3")
    )
    if newer and (x := weigh.newer_volumes(sizes.total(), older, newer, look.reading.now)):
        yield x


def _growth(look: Look) -> Iterator[Suggestion | None]:
    """Suggest to let copies and logs expire that cost more each week."""
    end = look.settled.end
    # Whole weeks alone: a day more or less would look like growth.
    starts = (end - n * timedelta(days=7) for n in range(weigh.GROWTH_WEEKS, 0, -1))
    windows = (Window(start, start + timedelta(days=7)) for start in starts)
    weeks = by_key(
        (usage, row.money.amortised)
        for window in windows
        for row in look.ports.world.billing.tally(window, ("service", "usage_type")).rows
        if _COPIES.search(usage := row.key["usage_type"])
        or (row.key["service"] == "AmazonCloudWatch" and "TimedStorage" in usage)
    )
    for usage, amounts in weeks.items():
        yield weigh.only_grows(usage, amounts, end)


def _quotas(look: Look) -> Iterator[Suggestion | None]:
    """Compare the room of each quota with the wishes of node groups and the growth of nodes."""
    inventory, ages = look.reading.inventory, (_LOOKED, _LOOKED / 2, timedelta())
    for limit in inventory.quotas:
        fits = use_of(limit, inventory).room
        if fits is None:
            continue
        name, free = fits
        nodes = [
            node
            for node in inventory.instances.values()
            if node.labels.instance_type == name and node.market is limit.market
            if limit.labels.selects(node.labels) and (node.running or node.ended_at)
        ]
        two_weeks_ago, week_ago, today = (
            sum(
                node.launched_at <= at and (node.ended_at is None or node.ended_at > at)
                for node in nodes
            )
            for at in (look.reading.now - age for age in ages)
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
        demand = capacity.Demand(
            limit.name,
            name,
            limit.labels.region or "one region",
            free,
            planned,
            (two_weeks_ago, week_ago, today),
        )
        price = look.pricing.mean(node for node in nodes if node.running)
        if price:
            yield capacity.quota(demand, price.usd_per_hour, look.reading.now)


def _refused(look: Look) -> Iterator[Suggestion | None]:
    """Set launches that were refused beside those that were had, and nodes that waited."""
    frame, since = look.reading.frame("node"), look.reading.now - _LOOKED
    if frame is None:
        return
    frame = frame.since(since)
    priced = list(look.priced())
    refusals_of = by_key(
        ((x.labels.instance_type, x.labels.region), x)
        for x in look.reading.refusals or ()
        if x.at >= since and x.labels.instance_type
    )
    for (name, region), refusals in refusals_of.items():
        launches = [
            (node.labels.zone or region, node.launched_at)
            for node in look.reading.inventory.instances.values()
            if (node.labels.instance_type, node.labels.region) == (name, region)
            if node.launched_at >= since
        ]
        waiting = [
            (row, price.usd_per_hour)
            for row, node, price in priced
            if (node.labels.instance_type, node.labels.region) == (name, region)
            if node.id not in look.alerted
        ]
        if waiting:
            rows, prices = zip(*waiting, strict=True)
            yield capacity.elsewhere(
                refusals,
                launches,
                frame.pick(np.array(rows)),
                look.ports.policy.at(frame.things[rows[0]]).number("idle.below"),
                prices,
            )


def _credits(look: Look) -> Iterator[Suggestion | None]:
    """Say when credits end whose balance an admin has set: AWS tells it to no program."""
    balance = credits_left(look.ports, look.reading.now)
    if balance is None:
        return
    daily = {
        date.fromisoformat(row.key["day"]): row.money.credits
        for row in look.ports.world.billing.tally(look.settled, ("day",)).rows
    }
    burn = burn_down(daily, look.settled.end.date(), balance)
    if burn and burn.gone_on:
        yield capacity.credits_end(
            {day: -amount for day, amount in daily.items()}, burn.gone_on, look.reading.now
        )


def _pools(look: Look) -> Iterator[Suggestion | None]:
    """Weigh the zones of each cluster's spot nodes: price, reclaims, and requests refused.

    Another region alone where fewer are reclaimed, by its band of the Spot Advisor.
    """
    window, market = look.window, look.ports.world.prices
    refused = Counter(
        (x.labels.instance_type, x.labels.zone)
        for x in look.reading.refusals or ()
        if x.spot and x.at in window
    )
    places = Counter(
        (node.labels.cluster, node.labels.instance_type, node.labels.zone)
        for node in look.reading.inventory.instances.values()
        if node.running and node.market is Market.SPOT and node.labels.zone
    )
    for (cluster, name, zone), nodes in places.items():
        job = SpotJob(nodes, Decimal(HOURS_A_MONTH))
        bands = market.interruptions(name, look.reading.now)
        offers = [
            offer(x, job, bands, (), None, Decimal(0))
            for x in zones(market.spot_history(name, look.reading.now), window)
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
            yield capacity.pool(
                (cluster, name),
                [
                    capacity.PoolCost(
                        x.zone.zone,
                        x.expected,
                        replace(x, compute=cents(x.zone.p95 * nodes * job.hours)).expected,
                        refused[name, x.zone.zone],
                    )
                    for x in (stay, move)
                ],
                window,
            )


def _starts(look: Look) -> Iterator[Suggestion | None]:
    """Time each launch until its node's first reading of cores, and each warm pool that was kept."""
    frame, window = look.reading.frame("node"), look.window
    if frame is not None:
        has_reading = ~np.isnan(frame.of("neuroncore_utilization_ratio"))
        starts = by_key(
            (node.labels.cluster, (max(first - node.launched_at, timedelta()), price.usd_per_hour))
            for row, node, price in look.priced()
            if node.launched_at in window and node.launched_at >= frame.start
            if has_reading[row].any()
            if (first := frame.start + int(has_reading[row].argmax()) * frame.step)
            if first - node.launched_at <= _START and node.labels.cluster != node.labels.job
        )
        for cluster, timed in starts.items():
            yield weigh.warm_pool(cluster, timed, frame.step, window)

    yield weigh.kept_warm(
        [
            (node.labels.job, node.kept_warm, price.usd_per_hour)
            for node in look.reading.inventory.instances.values()
            if node.kept_warm and node.ended_at and node.ended_at in window
            if (price := look.pricing.instance(node))
        ],
        window,
    )


def _notebooks(look: Look) -> Iterator[Suggestion | None]:
    """Look for notebooks of SageMaker that the bill names in every hour."""
    of_sagemaker = [Filter("service", ("AmazonSageMaker",))]
    billed = by_key(
        (row.key["resource"], row.money.amortised)
        for row in look.ports.world.billing.tally(
            look.settled, ("resource", "hour"), of_sagemaker
        ).rows
        if _NOTEBOOK.search(row.key["resource"]) and row.money.amortised > 0
    )
    for resource, hours in billed.items():
        yield weigh.notebook(resource, hours, look.settled)


def _file_systems(look: Look) -> Iterator[Suggestion | None]:
    """Hold the throughput of file systems against their use, and against nodes that starve."""
    frame = look.reading.frame("file_system")
    starved: Mapping[str, Decimal] | None = None
    for system in look.reading.inventory.file_systems:
        load = throughput_of(system, frame, _LOOKED / 2)
        # What nobody uses is to go, not to get less.
        if (
            load is None
            or not load.peak
            or load.looked < MOST_OF_A_WEEK
            or system.labels.resource in look.alerted
        ):
            continue
        region = system.labels.region
        tiers = {
            tier: cents(price.usd_per_hour * HOURS_A_MONTH)
            for tier in system.tiers
            if (price := look.pricing.listed_storage(f"fsx:{tier}", system.storage_gib, region))
        }
        if AT_LIMIT <= load.peak_share < BEYOND:
            if starved is None:  # once for all file systems: it looks through two weeks
                rows = goodput_within(look.ports, look.reading, look.window, ("cluster",)).rows
                starved = {row.key["cluster"]: row.of(GoodputClass.STARVED) for row in rows}
            lost = starved.get(system.labels.cluster, Decimal(0))
            yield weigh.more_throughput(load, tiers, lost, look.window)
        else:
            looked = Window(look.reading.now - load.looked, look.reading.now)
            yield weigh.less_throughput(load, tiers, looked)


_KINDS = (
    _commitments,
    _schedules,
    _losses,
    _renewals,
    _volumes,
    _growth,
    _quotas,
    _credits,
    _pools,
    _starts,
    _notebooks,
    _storage,
    _room,
    _refused,
    _file_systems,
)
"""Each weighs one kind of change, or two that rest on the same readings."""
