"""See by the nodes, not the bill: growth that busy nodes explain, and costs that have ended."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import takewhile

import numpy as np

from bot.model.anomaly import BilledExcess
from bot.model.causes import Cause
from bot.model.codec import by_key
from bot.model.labels import PLACE, Labels
from bot.model.reading import utilization_of
from detectors.bill.growth import CENT, LOOKBACK, MOST, BillLines, Jump, type_in
from detectors.numbers import DAY, HOUR, Numbers, number
from detectors.rule import Subject
from detectors.view import View

_PLAN = re.compile(r"(?:EC2SP|HeavyUsage):([\w-]+)")
"""Fees of commitments to a family of instances, and the family in them."""
_READ = number("use.READ")


@dataclass(frozen=True)
class _Use:
    """Hold the busy node-hours of a place in a step of the bill, now and usually."""

    now: float
    before: float

    @property
    def more(self) -> float:
        """Return the busy hours that came to the usual."""
        return self.now - self.before


def unexplained(jump: Jump, bill: BillLines, view: View) -> Jump | None:
    """Return the jump, of which clusters that grew with their own use say so; None where all did.

    Several may grow in one line, one by its work and one by its price.
    """
    if used(jump, bill, view):
        return None
    by_cluster = by_key((part[0].cluster, part) for part in jump.parts)
    growing = {thing.cluster for thing in jump.growing}
    if not type_in(jump.where.usage_type) or len(growing) < 2:
        return jump

    # Whose use made what no cluster is named for grow, nobody knows.
    by_use: set[str] = set()
    for cluster in growing - {""}:
        parts = by_cluster[cluster]
        now, usual = sum(x[1] for x in parts), sum(x[2] for x in parts)
        alone = replace(jump, parts=tuple(parts), value=now, low=usual, high=usual)
        by_use |= {cluster} if used(alone, bill, view) else set()
    if not by_use:
        return jump

    remaining = sum(now - usual for x, now, usual in jump.parts if x.cluster not in by_use)
    least = view.policy.at(_place(jump.growing)).number("spend_jump.least")
    reported = remaining * (DAY / jump.step) >= least
    return replace(jump, by_use=frozenset(by_use)) if reported else None


def used(jump: Jump, bill: BillLines, view: View) -> bool:
    """Return whether more busy nodes explain the growth of a line.

    Of their hours, or of the costs that come along with them.
    """
    if jump.cause is Cause.TRANSFER_ROUTE:
        return False
    growth = jump.value - jump.high
    if kind := type_in(jump.where.usage_type):
        # Where one cluster grew, what nodes of the same type do elsewhere tells nothing.
        cluster = _place(jump.growing).cluster
        nodes = Labels(instance_type=kind, region=jump.where.region, cluster=cluster)
        rows = [
            i
            for i, line in enumerate(bill.line_of)
            if bill.lines[int(line)] == jump.where
            and (not cluster or bill.things[i].cluster == cluster)
        ]
        # The market sets the price of spot, under that of on-demand: only hours are ours.
        spot = "SpotUsage" in jump.where.usage_type and _at_work(jump, view, nodes)
        return spot or _priced_by_use(jump, bill, view, nodes, rows, growth)

    # A small part of the growth of its team's or cluster's new nodes in use.
    growing = jump.growing
    place = _place(growing)
    usual = sum(usual for thing, _, usual in jump.parts if thing in growing)
    policy = view.policy.at(place)
    if not (place.team or place.cluster):
        return False
    if usual > CENT:  # a cost that was there before grows with the nodes, and no faster
        use, most = _use(jump, view, place), (1 + policy.number("spend_jump.above")) * usual
        return bool(use and use.before > 0 and growth <= most * use.more / use.before)
    rows = _hours_of(bill, place)
    hours = _growth(jump, bill, rows)
    return growth <= policy.number("spend_jump.along") * hours and _priced_by_use(
        jump, bill, view, place, rows, hours
    )


def grew_with_use(jump: Jump, bill: BillLines, view: View) -> bool:
    """Return whether the busy nodes of a wide place grew by as much.

    Storage, requests and transfer follow them.
    """
    nodes = _place(jump.things)
    use = _use(jump, view, nodes)
    above = view.policy.at(nodes).number("spend_jump.above")
    if use and use.before > 0 and use.more > 0:
        usual = jump.high * max(1.0, use.now / use.before)
        if jump.value <= usual * (1 + above):
            return True

    # What busy nodes of a place explain is no jump: the price of their new hours, in the jump or in
    # a line of its own, and a small part for what comes along. The remainder is one only where it
    # would be alone.
    policy, inside = view.policy.at(nodes), jump.things
    remainder, counted = jump.value - jump.high, set[int]()
    for place in sorted({_place((thing,)) for thing in jump.growing}, key=str):
        rows = [i for i in _hours_of(bill, place) if i not in counted]
        counted.update(rows)
        hours = _growth(jump, bill, rows)
        if hours > 0 and _priced_by_use(jump, bill, view, place, rows, hours):
            in_jump = _growth(jump, bill, [i for i in rows if bill.things[i] in inside])
            remainder -= in_jump + policy.number("spend_jump.along") * hours
    return remainder <= max(above * jump.high, policy.number("spend_jump.least"))


def _hours_of(bill: BillLines, place: Labels) -> list[int]:
    """Return the rows of the instance hours in a place."""
    return [i for i, x in enumerate(bill.things) if type_in(x.usage_type) and place.selects(x)]


def _priced_by_use(
    jump: Jump, bill: BillLines, view: View, nodes: Labels, rows: Sequence[int], growth: float
) -> bool:
    """Return whether a growth of instance hours at `rows` is the price of their busy hours.

    These are the hours of the `nodes` that came to the usual.
    """
    use = _use(jump, view, nodes)
    if use is None or use.more <= 0:
        return False
    rate = float(_usually(jump, bill, rows).sum()) / use.before if use.before > 0 else 0.0
    rate = rate or _rate_elsewhere(jump, bill, view, rows)
    if rate:
        return growth <= number("use.DEAREST") * rate * use.more

    # The price of a type that nobody used before is that of its nodes, where these work.
    return _at_work(jump, view, nodes)


def _at_work(jump: Jump, view: View, nodes: Labels) -> bool:
    """Return whether each of the nodes is seen, and nearly all hours of the newest step were used."""
    start = jump.until - _newest(jump)
    seen_hours, _ = _seen_and_busy(view, nodes, start, jump.until)
    at_work = bool(busy_hours(view, nodes, start, jump.until) >= MOST * seen_hours.sum() > 0)
    return at_work and not any(_there(nodes, x.labels) for x in view.roster.mute)


def _rate_elsewhere(jump: Jump, bill: BillLines, view: View, rows: Sequence[int]) -> float:
    """Return the dearest USD of a usual busy hour of the same types in any region.

    0 where none was used.
    """
    rates, inside = [0.0], set(rows)
    for name in sorted({type_in(bill.things[i].usage_type) for i in rows}):
        regions = by_key(
            (thing.region, i)
            for i, thing in enumerate(bill.things)
            if i not in inside and type_in(thing.usage_type) == name
        )
        for region, others in sorted(regions.items()):
            usual = float(_usually(jump, bill, others).sum())
            use = _use(jump, view, Labels(instance_type=name, region=region))
            if use and use.before > 0:
                rates.append(usual / use.before)
    return max(rates)


def _place(things: Iterable[Labels]) -> Labels:
    return Labels.shared(things).only(PLACE)


def _growth(jump: Jump, bill: BillLines, rows: Sequence[int]) -> float:
    """Return by how many USD a step the things at some rows grew."""
    last = bill.index(jump.until - bill.step)
    first = last if bill.step == DAY else bill.index(jump.since)
    newest_usd = np.nan_to_num(bill.parts[list(rows), first : last + 1]).mean(axis=1)
    return float((newest_usd - _usually(jump, bill, rows)).sum())


def _usually(jump: Jump, bill: BillLines, rows: Sequence[int]) -> Numbers:
    """Return the usual USD a step of the things at some rows, (len(rows),).

    By the two weeks before the jump.
    """
    first = bill.index(jump.since)
    before = bill.parts[list(rows), max(0, first - LOOKBACK * bill.per_day) : first]
    return np.median(np.nan_to_num(before), axis=1) if before.size else np.zeros(len(rows))


def _use(jump: Jump, view: View, nodes: Labels) -> _Use | None:
    """Return the busy node-hours of the named nodes in a step; None where not known.

    Usual is the median of as long a span on the seven days before.
    """
    newest = _newest(jump)
    busy_now = busy_hours(view, nodes, jump.until - newest, jump.until)
    starts = (jump.since - d * DAY for d in range(1, 8))
    days = [busy_hours(view, nodes, start, start + newest) for start in starts]
    measured = [hours for hours in days if not np.isnan(hours)]
    if np.isnan(busy_now) or not measured:
        return None
    scale = jump.step / newest
    return _Use(busy_now * scale, float(np.median(measured)) * scale)


def _newest(jump: Jump) -> timedelta:
    return DAY if jump.step == DAY else jump.until - jump.since


def busy_hours(view: View, nodes: Labels, start: datetime, end: datetime) -> float:
    """Return the node-hours that the named nodes were used within the span.

    Nan where the frame does not reach back so far. A node that worked for half of the time in which
    it was seen was used all along, its start included. One that does not say where it is counts as
    there; of another type it never is.
    """
    seen, busy = _seen_and_busy(view, nodes, start, end)
    return float(np.where(2 * busy >= seen, seen, busy).sum()) if len(seen) else float("nan")


def _seen_and_busy(
    view: View, nodes: Labels, start: datetime, end: datetime
) -> tuple[Numbers, Numbers]:
    """Return the hours that each of the named nodes was seen and was busy, each (n,).

    Empty where nobody knows.
    """
    whole = view.whole
    rows = [i for i, x in enumerate(view.roster.labels) if _there(nodes, x)]
    part = whole.until(end).since(start)
    if not rows or part.n_steps < _READ * ((end - start) / whole.step):
        return np.zeros(0), np.zeros(0)
    level, hour = utilization_of(part)[rows], whole.step / timedelta(hours=1)
    busy = (level > view.number("idle.below")[rows][:, None]).sum(axis=1)
    return (~np.isnan(level)).sum(axis=1) * hour, busy * hour


def _there(nodes: Labels, node: Labels) -> bool:
    return all(
        node.get(name) in ((value,) if name == "instance_type" else (value, ""))
        for name, value in nodes
    )


def nowcast(view: View, subject: Subject) -> BilledExcess | None:
    """Return the billed excess of a subject, ended where its nodes show that before the bill does.

    Its nodes are those whose hours it is about, or that could use its commitment.
    """
    billed = subject.billed
    if billed is None or billed.until:
        return billed
    plans = [_PLAN.search(usage) for usage in subject.things]
    families = {plan[1] for plan in plans if plan}
    types = {type_in(usage) for usage, plan in zip(subject.things, plans, strict=True) if not plan}
    place = subject.labels.only(("region", "cluster"))
    rows = [
        i
        for i, node in enumerate(view.roster.labels)
        if place.selects(node)
        if node.instance_type in types or node.instance_type.split(".")[0] in families
    ]
    if not rows or "" in types:
        return billed

    def reporting(start: datetime, end: datetime) -> float:
        """Return how many of the nodes reported on average.

        Nan where the frame does not reach back so far.
        """
        part = view.whole.until(end).since(start)
        if part.n_steps < _READ * ((end - start) / view.whole.step):
            return float("nan")
        return float((~np.isnan(utilization_of(part)[rows])).sum(axis=0).mean())

    # Since when the nodes are back where they were before it, if they ever were elsewhere.
    start, through = subject.start, billed.through
    before, during = reporting(start - DAY, start), reporting(max(start, through - DAY), through)
    moved = during - before
    if np.isnan(moved) or abs(moved) < max(1.0, number("use.LEAST") * before):
        return billed
    newest_first = (through + i * HOUR for i in reversed(range((view.now - through) // HOUR)))
    back = takewhile(
        lambda at: (reporting(at, at + HOUR) - before) / moved < number("use.BACK"), newest_first
    )
    return replace(billed, until=min(back, default=None))
