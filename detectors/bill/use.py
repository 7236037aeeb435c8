"""See by the nodes what the bill does not say: growth that busy nodes explain, and costs that have ended."""

from __future__ import annotations

import re
from collections.abc import Sequence, Set
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

import numpy as np

from bot.model.anomaly import BilledExcess
from bot.model.causes import Cause
from bot.model.labels import PLACE, Labels
from detectors.arrays import Numbers, Rows
from detectors.bill.growth import DAY, HOUR, HOURS, MOST, BillLines, Jump
from detectors.rule import Subject
from detectors.usual import utilization_of
from detectors.view import View

DEAREST = 2.5
"""More hours are bought on demand while the usual ones may lie under a plan at up to 60 % off.

So much dearer may each be.
"""


@dataclass(frozen=True)
class _Use:
    """Hold the busy node-hours of a place in a step of the bill, now and usually."""

    now: float
    before: float

    @property
    def more(self) -> float:
        """Return the busy hours that came to the usual."""
        return self.now - self.before


def used(jump: Jump, bill: BillLines, view: View) -> bool:
    """Return whether more busy nodes explain the growth of a line.

    Of their hours, or of what comes along with them.
    """
    if jump.cause is Cause.TRANSFER_ROUTE:
        return False
    match = HOURS.search(jump.where.usage_type)
    if not match:
        return _comes_along(jump, bill, view)
    rows = [i for i, x in enumerate(bill.line_of) if bill.lines[int(x)] == jump.where]
    nodes = Labels(instance_type=match[1], region=jump.where.region)
    return _priced_by_use(jump, bill, view, nodes, rows, jump.value - jump.high)


def grew_with_use(jump: Jump, bill: BillLines, view: View) -> bool:
    """Return whether the busy nodes of a wide place grew by as much.

    Storage, requests and transfer follow them.
    """
    nodes = _place(tuple(thing for thing, _, _ in jump.parts))
    use = _use(jump, view, nodes)
    above = view.policy.at(nodes).number("spend_jump.above")
    if (
        use
        and use.before > 0
        and use.more > 0
        and jump.value <= jump.high * max(1.0, use.now / use.before) * (1 + above)
    ):
        return True
    return _came_along(jump, bill, view, {_place((thing,)) for thing in jump.growing})


def _came_along(jump: Jump, bill: BillLines, view: View, places: Set[Labels]) -> bool:
    """Return whether what grew is the price of the new busy hours of each place that grew, and a small part beside them.

    Hours that a line of their own tells of are not in the jump, but what came along with them is.
    """
    inside = {thing for thing, _, _ in jump.parts}
    rows = {
        place: [
            i for i, x in enumerate(bill.things) if HOURS.search(x.usage_type) and place.selects(x)
        ]
        for place in places
    }
    every = sorted({i for some in rows.values() for i in some})
    hours = _growth(jump, bill, every)
    along = (
        jump.value - jump.high - _growth(jump, bill, [i for i in every if bill.things[i] in inside])
    )
    if (
        hours <= 0
        or along > view.policy.at(_place(tuple(places))).number("spend_jump.along") * hours
    ):
        return False
    grown = {
        place: growth for place, some in rows.items() if (growth := _growth(jump, bill, some)) > 0
    }
    return all(
        _priced_by_use(jump, bill, view, place, rows[place], growth)
        for place, growth in grown.items()
    )


def _comes_along(jump: Jump, bill: BillLines, view: View) -> bool:
    """Return whether a growth is a small part of that of its team's or cluster's new nodes in use, or grew as they did."""
    growing = jump.growing
    place, usual = _place(growing), sum(usual for thing, _, usual in jump.parts if thing in growing)
    policy = view.policy.at(place)
    if not (place.team or place.cluster):
        return False
    if usual > 0.01:  # what was there before grows with the nodes, and no faster
        use, above = _use(jump, view, place), policy.number("spend_jump.above")
        return bool(
            use
            and use.before > 0
            and jump.value - jump.high <= (1 + above) * usual * use.more / use.before
        )
    rows = [i for i, x in enumerate(bill.things) if HOURS.search(x.usage_type) and place.selects(x)]
    hours = _growth(jump, bill, rows)
    return jump.value - jump.high <= policy.number("spend_jump.along") * hours and _priced_by_use(
        jump, bill, view, place, rows, hours
    )


def _priced_by_use(
    jump: Jump, bill: BillLines, view: View, nodes: Labels, rows: Sequence[int], growth: float
) -> bool:
    """Return whether the growth of instance hours at `rows` is the price of the busy hours that came to the `nodes`."""
    use = _use(jump, view, nodes)
    if use is None or use.more <= 0:
        return False
    own = float(_usually(jump, bill, rows).sum()) / use.before if use.before > 0 else 0.0
    rate = own or _rate_elsewhere(jump, bill, view, rows)
    if not rate:  # a type that nobody used before: its price is that of its nodes, as long as each is seen at work
        return not any(_there(nodes, x.labels) for x in view.roster.mute) and _at_work(
            view, nodes, jump
        )
    return growth <= DEAREST * rate * use.more


def _rate_elsewhere(jump: Jump, bill: BillLines, view: View, rows: Sequence[int]) -> float:
    """Return the dearest USD of a usual busy hour of the same types in any region.

    0 where none was used.
    """
    own, rates = set(rows), [0.0]
    types = {_type(bill.things[i]) for i in rows}
    for name in sorted(types):
        others = [i for i, x in enumerate(bill.things) if i not in own and _type(x) == name]
        for region in sorted({bill.things[i].region for i in others}):
            usual = float(
                _usually(jump, bill, [i for i in others if bill.things[i].region == region]).sum()
            )
            use = _use(jump, view, Labels(instance_type=name, region=region))
            rates += [usual / use.before] if use and use.before > 0 else []
    return max(rates)


def _type(thing: Labels) -> str:
    match = HOURS.search(thing.usage_type)
    return match[1] if match else ""


def _place(things: Sequence[Labels]) -> Labels:
    return Labels.shared(things).only(PLACE)


def _growth(jump: Jump, bill: BillLines, rows: Sequence[int]) -> float:
    """Return by how many USD a step the things at some rows grew."""
    first, last = _steps(jump, bill)
    newest = last - 1 if bill.step == DAY else first
    now = np.nan_to_num(bill.parts[list(rows), newest:last]).mean(axis=1)
    return float((now - _usually(jump, bill, rows)).sum())


def _usually(jump: Jump, bill: BillLines, rows: Sequence[int]) -> Numbers:
    """Return the usual USD a step of the things at some rows, by the two weeks before the jump, (len(rows),)."""
    first, _ = _steps(jump, bill)
    before = bill.parts[list(rows), max(0, first - 14 * (DAY // bill.step)) : first]
    return np.median(np.nan_to_num(before), axis=1) if before.size else np.zeros(len(rows))


def _steps(jump: Jump, bill: BillLines) -> tuple[int, int]:
    return (jump.since - bill.start) // bill.step, (jump.until - bill.start) // bill.step


def _use(jump: Jump, view: View, nodes: Labels) -> _Use | None:
    """Return the busy node-hours of the named nodes in a step of the bill; None where nobody knows."""
    newest = _newest(jump)
    now = busy_hours(view, nodes, jump.until - newest, jump.until)
    before = _before(view, nodes, jump.since, newest)
    scale = jump.step / newest
    return None if np.isnan(now) or np.isnan(before) else _Use(now * scale, before * scale)


def _newest(jump: Jump) -> timedelta:
    return DAY if jump.step == DAY else jump.until - jump.since


def _before(view: View, nodes: Labels, since: datetime, span: timedelta) -> float:
    """Return the usual busy node-hours of as long a span on the seven days before.

    Nan where nobody knows.
    """
    days = [busy_hours(view, nodes, since - d * DAY, since - d * DAY + span) for d in range(1, 8)]
    measured = [hours for hours in days if not np.isnan(hours)]
    return float(np.median(measured)) if measured else float("nan")


def busy_hours(view: View, nodes: Labels, start: datetime, end: datetime) -> float:
    """Return the node-hours that the named nodes were used within the span.

    Nan where the frame does not reach back so far.

    A node that worked for half of what was seen of it was used all along, its start included. One
    that does not say where it is counts as there; of another type it never is.
    """
    seen, busy = _seen_and_busy(view, nodes, start, end)
    return float(np.where(2 * busy >= seen, seen, busy).sum()) if len(seen) else float("nan")


def _at_work(view: View, nodes: Labels, jump: Jump) -> bool:
    """Return whether nearly all of the named nodes' hours of the newest step were used."""
    start = jump.until - _newest(jump)
    seen, _ = _seen_and_busy(view, nodes, start, jump.until)
    return bool(busy_hours(view, nodes, start, jump.until) >= MOST * seen.sum() > 0)


def _seen_and_busy(
    view: View, nodes: Labels, start: datetime, end: datetime
) -> tuple[Numbers, Numbers]:
    """Return the hours that each of the named nodes was seen and was busy, each (n,).

    Empty where nobody knows.
    """
    whole = view.whole
    rows = [i for i, x in enumerate(view.roster.labels) if _there(nodes, x)]
    part = whole.until(end).since(start)
    if not rows or part.n_steps < 0.8 * ((end - start) / whole.step):
        return np.zeros(0), np.zeros(0)
    level, hour = utilization_of(part.pick(rows)), whole.step / timedelta(hours=1)
    busy = (level > view.number("idle.below")[rows][:, None]).sum(axis=1)
    return (~np.isnan(level)).sum(axis=1) * hour, busy * hour


def _there(nodes: Labels, node: Labels) -> bool:
    return all(
        node.get(name) in ((value,) if name == "instance_type" else (value, ""))
        for name, value in nodes
    )


_PLAN = re.compile(r"(?:EC2SP|HeavyUsage):([\w-]+)")
"""Fees of commitments to a family of instances, and the family in them."""
_LEAST = 0.1
"""Share of the nodes that must have come or gone with it for their number to tell when it ended."""
_BACK = 0.5
"""Share of the nodes that came or went which are back where they were when it has ended."""


def nowcast(view: View, subject: Subject) -> BilledExcess | None:
    """Return what the bill shows of a subject, ended where its nodes show that, though the bill does not yet."""
    billed = subject.billed
    rows = _nodes_of(view, subject)
    if billed is None or billed.until or not len(rows):
        return billed
    ended = _back_since(view, rows, subject.start, billed.through)
    return replace(billed, until=ended) if ended else billed


def _nodes_of(view: View, subject: Subject) -> Rows:
    """Return the rows of the nodes whose hours a subject is about, or could use its commitment.

    None where it is not of nodes.
    """
    hours, plans = (
        [pattern.search(usage) for usage in subject.things] for pattern in (HOURS, _PLAN)
    )
    types, families = ({match[1] for match in matches if match} for matches in (hours, plans))
    if not all(a or b for a, b in zip(hours, plans, strict=True)):
        return np.zeros(0, dtype=np.intp)
    place = subject.labels.only(("region", "cluster"))
    return np.array(
        [i for i, x in enumerate(view.roster.labels) if _about(x, place, types, families)],
        dtype=np.intp,
    )


def _about(node: Labels, place: Labels, types: set[str], families: set[str]) -> bool:
    kind = node.instance_type
    return place.selects(node) and (kind in types or kind.split(".")[0] in families)


def _back_since(view: View, rows: Rows, start: datetime, through: datetime) -> datetime | None:
    """Return since when the nodes are back where they were before it.

    None where they are not, or never were elsewhere.
    """
    first = max(start, through - DAY)
    before, during = _number(view, rows, start - DAY, start), _number(view, rows, first, through)
    moved = during - before
    if np.isnan(moved) or abs(moved) < max(1.0, _LEAST * before):
        return None
    ended = None
    for i in range((view.now - through) // HOUR - 1, -1, -1):
        at = through + i * HOUR
        if not (_number(view, rows, at, at + HOUR) - before) / moved < _BACK:
            break
        ended = at
    return ended


def _number(view: View, rows: Rows, start: datetime, end: datetime) -> float:
    """Return how many of the nodes reported on average.

    Nan where the frame does not reach back so far.
    """
    part = view.whole.until(end).since(start)
    if part.n_steps < 0.8 * ((end - start) / view.whole.step):
        return float("nan")
    return float((~np.isnan(utilization_of(part.pick(rows)))).sum(axis=0).mean())
