"""Answer where each dollar of the Neuron nodes went: by class, and by whatever it is grouped by."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from decimal import Decimal
from itertools import chain
from typing import Any

import numpy as np

from bot.answers.cost.title import CONDITIONS, refuse_doubled, refuse_unknown
from bot.cards.card import (
    Block,
    Button,
    Buttons,
    Card,
    Chart,
    ChartKind,
    Series,
    Text,
    Tone,
    When,
    compose,
    detail,
    quiet,
    text,
)
from bot.cards.columns import SHARE, USD, Column, Columns, Unit, datum
from bot.cards.lines import cost_line, filter_line, window_line
from bot.cards.words import grouped_words, period, unseen
from bot.costs.allocation import Allocation
from bot.costs.goodput import (
    BILLED_HOUR,
    JOB,
    KEYS,
    RESOURCE,
    Amounts,
    GoodputRow,
    Split,
    by_cost,
    goodput_of,
    grouped,
    repriced,
)
from bot.costs.losses import lose
from bot.costs.node_time import CLASSES, GoodputClass, NodeTime
from bot.costs.tally import known_rows
from bot.errors import TrnbotError, WrongInput
from bot.grammar.registry import Needs, Topic, arg, command
from bot.model.codec import by_key
from bot.model.fleet import is_neuron
from bot.model.frame import Frame
from bot.model.labels import Labels
from bot.model.money import cents, usd
from bot.model.notification import Coverage, Known
from bot.model.reading import Reading, bill_coverage, coverage_of
from bot.model.request import Request
from bot.model.spend import Filter, Spend, Tally
from bot.model.window import Window, day, utc_text
from bot.ports import Ports

_NODE, _DAY = "node", "day"
_ROWS, _LOSSES, _FLOWS, _MOST_DAYS = 12, 6, 6, 21
_WHOLE = 0.995
"""Share of the work from which all of it publishes effective FLOPs, but for lost readings."""
_NONE = Decimal(0)
_LATE, _STEP = timedelta(hours=1), timedelta(minutes=5)
_SLACK = 0.01
"""Of an hour that was metered, by rounding."""


@dataclass(frozen=True)
class Goodput:
    """Hold the dollars of a window by class: by the rows asked for, by day, and in all."""

    window: Window
    by: tuple[str, ...]
    rows: Sequence[GoodputRow]
    days: Sequence[GoodputRow]
    total: GoodputRow
    tally: Tally
    """What the bill says of the window, of nodes and of all else."""
    read: Window | None
    """The time of which metrics were read, None where none were."""
    seen: Coverage
    filters: tuple[Filter, ...] = ()
    flows: bool = False
    """Whether its picture lets rows flow into classes; else it stacks classes over time."""


@dataclass(frozen=True)
class ClassShare:
    """State the USD of one class and its share of a whole."""

    kind: GoodputClass
    usd: Decimal
    share: float


def _percent(ratio: float) -> str:
    """Write a share of a peak, small ones to a digit."""
    return f"{100 * ratio:.{0 if ratio >= 0.1 else 1}f} %"


def _work_data(row: GoodputRow) -> dict[str, Any] | None:
    """Return how near to the peak the work came, None where no node publishes effective FLOPs."""
    work = row.work
    if not work.measured_usd:
        return None
    return {
        "measured_usd": work.measured_usd,
        "at_peak_usd": work.at_peak_usd,
        "below_peak_usd": work.busy_usd - work.at_peak_usd,
        "between_usd": work.measured_usd - work.busy_usd,
        "unmeasured_usd": max(_NONE, row.of(GoodputClass.PRODUCTIVE) - work.measured_usd),
        "busy": work.busy,
        "of_peak": work.of_peak,
        "pflop_days": work.pflop_days,
        "usd_per_pflop_day": work.usd_per_pflop_day,
    }


_CLASSES = Columns[ClassShare](
    Column("where it went", lambda x: x.kind.words),
    Column("amortised", lambda x: x.usd, USD),
    Column("share", lambda x: x.share, SHARE),
)
_WORK_PARTS = Columns[tuple[str, Decimal, float]](
    Column("of the work", lambda x: x[0]),
    Column("amortised", lambda x: x[1], USD),
    Column("share", lambda x: x[2], Unit(_percent)),
)
_GOODPUT = "classes_usd/productive over the sum of all classes_usd above zero but not_seen"
_AMOUNTS: tuple[Column[GoodputRow], ...] = (
    Column("amortised", lambda x: x.usd, USD, "total_usd", "sum of the row's classes", total=True),
    Column(
        "goodput",
        lambda x: x.goodput,
        SHARE,
        "goodput",
        _GOODPUT,
    ),
    Column("most lost to", lambda x: x.most_lost[0]),
    Column("lost", lambda x: x.most_lost[1], USD),
    datum("classes_usd", lambda x: _classes_data(x.classes)),
    datum("work", _work_data),
)
_OF_CLASS = (
    "sum over nodes and days of the bill's amortised cost of the node's day x the class's hours"
    " of it / the hours billed"
)
_WORK = {
    "measured_usd": "productive dollars of nodes that publish effective FLOPs and whose peak is"
    " known",
    "at_peak_usd": "of them x effective FLOPs / the BF16 peak of the instance type",
    "below_peak_usd": "of them x NeuronCore utilization, less at_peak_usd",
    "between_usd": "measured_usd less at_peak_usd and below_peak_usd",
    "unmeasured_usd": "classes_usd/productive less measured_usd",
    "busy": "(at_peak_usd + below_peak_usd) / measured_usd",
    "of_peak": "at_peak_usd / measured_usd",
    "pflop_days": "sum of effective FLOPs x the productive time of their nodes / (86,400 x 10^15)",
    "usd_per_pflop_day": "measured_usd / pflop_days",
}
_FIGURES = {
    "total_usd": "sum of the rows; the bill's amortised cost of Neuron instance types, of their"
    " reserved capacity, and of commitments that nothing used",
    "goodput": _GOODPUT,
    **{f"classes_usd/{kind.value}": "sum of the rows" for kind in CLASSES},
    **{f"rows/classes_usd/{kind.value}": _OF_CLASS for kind in CLASSES},
    **{f"{at}work/{name}": how for at in ("", "rows/") for name, how in _WORK.items()},
    **Columns(*_AMOUNTS).sources("rows"),
}


GOODPUT_FIGURES = {
    f"goodput/{name}": how for name, how in _FIGURES.items() if not name.startswith("rows")
}


def goodput_data(total: GoodputRow) -> dict[str, Any]:
    """Return the numbers of a sentence about goodput."""
    return {
        "total_usd": total.usd,
        "goodput": total.goodput,
        "classes_usd": _classes_data(total.classes),
    }


def _classes_data(classes: Amounts) -> dict[str, Decimal]:
    return {kind.value: classes.get(kind, _NONE) for kind in CLASSES}


def _work_parts(row: GoodputRow) -> list[tuple[str, Decimal, float]]:
    """Return the parts of the productive USD with their shares; they sum to it."""
    work, whole = row.work, row.of(GoodputClass.PRODUCTIVE)
    parts = {
        "effective FLOPs, at the peak's pace": work.at_peak_usd,
        "busy, below the peak": work.busy_usd - work.at_peak_usd,
        "between, not busy": work.measured_usd - work.busy_usd,
        "FLOPs not published": whole - work.measured_usd,
    }
    return [(name, part, float(part / whole)) for name, part in parts.items() if cents(part) > 0]


def _work_text(row: GoodputRow) -> Text | None:
    """Say how busy the work was and how near to the peak, and the cost of its operations."""
    work = row.work
    if work.busy is None or work.of_peak is None or work.usd_per_pflop_day is None:
        return None
    whose = "The work was"
    if float(work.measured_usd) < _WHOLE * float(row.of(GoodputClass.PRODUCTIVE)):
        whose = f"Of the work, {usd(work.measured_usd)} was on nodes that publish effective FLOPs:"
    return text(
        f"{whose} {100 * work.busy:.0f} % busy, {_percent(work.of_peak)} of the BF16 peak: an"
        f" effective PFLOP-day costs {usd(work.usd_per_pflop_day)}."
    )


def _share(row: GoodputRow) -> str:
    return "not known" if row.goodput is None else SHARE.write(row.goodput)


def _uncovered(total: GoodputRow) -> str:
    unseen_usd = total.of(GoodputClass.NOT_SEEN)
    return f"metric covers {usd(unseen_usd)} of the {usd(total.usd)} for Neuron nodes."


def most_lost_words(total: GoodputRow) -> str:
    """Go on in a sentence with what took most of what was no work; "" where all of it was."""
    kind, lost = total.most_lost
    return f"; most of the rest: {kind} ({usd(lost)})" if lost else ""


def goodput_words(total: GoodputRow) -> str:
    """Say in a sentence what share of the dollars was work, and what took most of the others."""
    if total.goodput is None:
        return f"{_share(total)}; no {_uncovered(total)}"

    most = most_lost_words(total)
    unseen_usd = cents(total.of(GoodputClass.NOT_SEEN))
    if not unseen_usd:
        return f"{_share(total)} of {usd(total.usd)} for Neuron nodes went into work{most}."

    return (
        f"{_share(total)} of the {usd(total.seen_usd)} for Neuron nodes that metrics cover went"
        f" into work{most}; {usd(unseen_usd)} more was not seen."
    )


def goodput_card(answer: Goodput) -> Card:
    """Draw what share was work, where the rest went, and who or what it was."""
    total, tally = answer.total, answer.tally
    data = {
        "window": answer.window,
        "by": list(answer.by),
        "currency": tally.currency,
        "billed_through": tally.billed_through,
        **answer.seen.data,
        **goodput_data(total),
        "work": _work_data(total),
        "rows": [{"key": dict(row.key), **Columns(*_AMOUNTS).record(row)} for row in answer.rows],
    }
    span = period(answer.window)
    if not total.usd:
        return Card(
            f"Goodput of {span}: nothing was billed",
            Tone.INFO,
            (text("The bill holds no Neuron nodes in this window."),),
            data,
        )

    productive, unseen_usd = (
        cents(total.of(kind)) for kind in (GoodputClass.PRODUCTIVE, GoodputClass.NOT_SEEN)
    )
    returned = cents(sum(total.spent.values(), Decimal(0)) - total.usd)
    partly = total.seen_usd and (unseen_usd or returned)
    amount = f"{usd(total.seen_usd)} seen" if partly else usd(total.usd)
    lead = (
        f"{usd(productive)} went into work, {usd(total.seen_usd - productive)} into what kept the"
        " nodes from it"
        + (f"; no metric covers {usd(unseen_usd)}" if unseen_usd else "")
        + (f"; the bill gave back {usd(returned)}." if returned else ".")
    )
    part = _share(total) if total.goodput is None else f"{_share(total)} of {amount}"
    rows = Columns(*(Column[GoodputRow](name, _key(name)) for name in answer.by), *_AMOUNTS)
    costly = [row for row in answer.rows if cents(row.usd)]
    line = _line(answer, answer.by)

    return Card(
        f"Goodput {part} · {span}{grouped_words(answer.by)}",
        Tone.INFO,
        compose(
            text(lead if total.goodput is not None else f"No {_uncovered(total)}"),
            _work_text(total),
            _CLASSES.table(class_shares(total)),
            _WORK_PARTS.table(_work_parts(total)) if total.work.measured_usd else None,
            rows.table(costly, most=_ROWS, total="total") if len(costly) > 1 else None,
            _chart(answer),
            _notes(answer),
            unseen(answer.seen),
            Buttons(
                (
                    *(
                        Button(f"By {name}", _line(answer, [name]))
                        for name in ("cluster", "team", "job", "node", "day")
                        if (name,) != answer.by
                    ),
                    Button("Over time", line)
                    if answer.flows
                    else Button("As a flow", f"{line} chart=flow"),
                )
            ),
        ),
        data,
    )


def _line(answer: Goodput, by: Sequence[str]) -> str:
    """Return the line that groups the same dollars by these dimensions."""
    filters = map(filter_line, answer.filters)
    return " ".join(["goodput", window_line(answer.window), "by", ",".join(by), *filters])


def _key(name: str) -> Callable[[GoodputRow], str]:
    return lambda row: row.key[name] or f"(no {name})"


def _chart(answer: Goodput) -> Chart | None:
    """Stack the dearest classes by day, of a long window by week, or let each row flow to them."""
    if answer.flows:
        return _flow(answer) if answer.rows else None
    days, span = answer.days, "day"
    partial: tuple[int, ...] = ()
    if len(days) > _MOST_DAYS:
        days, span = _weeks(days), "week"
        edges = {0: answer.window.start, len(days) - 1: answer.window.end}
        partial = tuple(place for place, edge in edges.items() if edge.weekday() or edge.hour)
    if len(days) < 2:
        return None
    percents, between = [100 * x.goodput for x in days if x.goodput is not None], "not known"
    if percents:
        between = f"between {min(percents):.0f} and {max(percents):.0f} % a {span}"

    return Chart(
        ChartKind.BAR,
        f"Amortised cost of Neuron nodes by {span}",
        "$",
        _series(answer.total, days),
        categories=tuple(day(datetime.fromisoformat(x.key[_DAY])) for x in days),
        summary=f"Goodput was {between}.",
        partial=partial,
        timed=True,
    )


def _weeks(days: Sequence[GoodputRow]) -> list[GoodputRow]:
    """Return the sums of weeks from Monday, each by its first day in the window."""
    weeks = by_key((date.fromisoformat(row.key[_DAY]).isocalendar()[:2], row) for row in days)
    dated = [replace(row, key=week[0].key) for week in weeks.values() for row in week]
    return sorted(grouped(dated, [_DAY]), key=lambda row: row.key[_DAY])


def _flow(answer: Goodput) -> Chart:
    """Draw where the dollars of each row went, the dearest apart."""
    rows = list(answer.rows[:_FLOWS])
    names = [" ".join(_key(name)(row) for name in answer.by) for row in rows]
    if others := answer.rows[_FLOWS:]:
        rows += grouped(others, ())
        names.append(f"{len(others)} more")

    return Chart(
        ChartKind.FLOW,
        f"Where {usd(answer.total.usd)} went, by {' and '.join(answer.by)}",
        "$",
        _series(answer.total, rows),
        categories=tuple(names),
        summary=f"Goodput {_share(answer.total)}{most_lost_words(answer.total)}.",
    )


def _series(total: GoodputRow, rows: Sequence[GoodputRow]) -> tuple[Series, ...]:
    """Return the amounts of work and of the dearest other classes by row, all else in one."""
    # As many colours as can be told apart.
    kinds = [x.kind for x in class_shares(total)]
    losses = [kind for kind in kinds if kind is not GoodputClass.PRODUCTIVE]
    series = [
        Series(kind.words, tuple(float(x.of(kind)) for x in rows))
        for kind in (GoodputClass.PRODUCTIVE, *losses[:_LOSSES])
    ]
    if losses[_LOSSES:]:
        others = tuple(sum(float(x.of(kind)) for kind in losses[_LOSSES:]) for x in rows)
        series.append(Series("all else", others))
    return tuple(series)


def _notes(answer: Goodput) -> Iterator[Block]:
    """Say what the total is, what metrics do not reach, and how far the bill goes."""
    total, tally = answer.total, answer.tally
    types = sorted(
        {row.key["instance_type"] for row in tally.rows if is_neuron(row.key["instance_type"])}
    )
    line = cost_line(
        window_line(answer.window),
        ("line",),
        (Filter("instance_type", tuple(types)), *answer.filters),
    )
    committed = total.of(GoodputClass.COMMITTED_UNUSED)
    beside = " and the commitments that nothing used" if committed else ""
    yield detail(
        f"The total is billed ({line}){beside}; its split is an estimate, from what each node did,"
        " step by step, and what its day cost. Hours that an alert counted as lost go to its cause."
    )
    if answer.read and answer.read.start > answer.window.start + _LATE:
        begun = utc_text(answer.read.start)
        yield quiet(f"Metrics go back to {begun}: what was billed before is not seen.")
    if tally.billed_through and tally.billed_through < answer.window.end:
        yield quiet("Billed through ", When(tally.billed_through), ".")


def goodput_within(
    ports: Ports, reading: Reading, window: Window, by: Sequence[str], where: Sequence[Filter] = ()
) -> Goodput:
    """Return where the dollars of a window went; may block."""
    time = node_time(ports, reading, window)
    asked = {_NODE: "resource"}
    of_bill = [asked.get(name, name) for name in by if name != JOB]
    allocation = Allocation(ports, reading.now)
    tally = allocation.tally(window, tuple(dict.fromkeys((*KEYS, *of_bill))), where)
    refuse_unknown(allocation, ports.world.billing, tally, where)
    # The bill is asked and split once: rows, days and the total are sums of the same charges.
    columns = [asked.get(name, name) for name in by]
    through = max(window.start, tally.billed_through or window.end)
    split = Split(time, window.within(Window(window.start, through)), by_job=JOB in by)
    parts = goodput_rows(ports, _with_hours(allocation, tally, where), split, [*columns, _DAY])
    days = sorted(grouped(parts, [_DAY]), key=lambda row: row.key[_DAY])
    rows = days if tuple(by) == (_DAY,) else grouped(parts, columns)
    (total,) = grouped(parts, ()) or [GoodputRow({}, {})]
    seen = bill_coverage(tally.billed_through, reading.now, window.end)
    if total.usd and total.goodput is None:
        unread = f"No metric covers {period(window)}."
        seen = Coverage(Known.UNKNOWN, coverage_of(reading).because or unread)

    return Goodput(
        window,
        tuple(by),
        [replace(row, key=dict(zip(by, row.key.values(), strict=True))) for row in rows],
        days,
        total,
        tally,
        time.nodes.window if time.nodes.n_steps else None,
        seen,
        tuple(where),
    )


def goodput_rows(
    ports: Ports, rows: Sequence[Spend], split: Split, by: Sequence[str]
) -> list[GoodputRow]:
    """Return the rows of `goodput_of`, of which the day is one key: days are split apart."""

    def days() -> list[tuple[Sequence[Spend], Split, Sequence[str]]]:
        of_days = by_key((row.key[_DAY], row) for row in rows)
        return [(of_day, split.apart(of_day), by) for of_day in of_days.values()]

    by_day = ports.world.workers.each("goodput", len(rows), goodput_of, days)
    return goodput_of(rows, split, by) if by_day is None else by_cost(chain.from_iterable(by_day))


def _with_hours(allocation: Allocation, tally: Tally, where: Sequence[Filter]) -> Sequence[Spend]:
    """Return the rows of a tally, by the hour those of nodes whose price changes within a day.

    Of a bill without hours, or of too many, as they are.
    """
    nodes = repriced(tally.rows)
    if not nodes:
        return tally.rows
    by = tuple(dict.fromkeys((*tally.by, BILLED_HOUR)))
    of_nodes = (*where, Filter(RESOURCE, tuple(sorted(nodes))))
    hourly = known_rows(allocation, tally.window, by, of_nodes, TrnbotError)
    # A row of one node that holds more than an hour is of a day.
    if not hourly or any(row.hours > 1 + _SLACK for row in hourly):
        return tally.rows
    return [*(row for row in tally.rows if row.key[RESOURCE] not in nodes), *hourly]


def goodput_total(ports: Ports, reading: Reading, window: Window) -> GoodputRow | None:
    """Return where the dollars of a window went in all; None where none did, or no bill is read."""
    with suppress(TrnbotError):
        total = goodput_within(ports, reading, window, ("cluster",)).total
        return total if total.usd else None
    return None


def class_shares(total: GoodputRow) -> list[ClassShare]:
    """Return each class of a cent or more with its share of the whole: work first, then the dearest."""
    whole = float(sum(total.spent.values()) or abs(total.usd))
    return sorted(
        (
            ClassShare(kind, part, float(part) / whole)
            for kind, part in total.classes.items()
            if cents(part)
        ),
        key=lambda x: (x.kind is not GoodputClass.PRODUCTIVE, -x.usd),
    )


def node_time(ports: Ports, reading: Reading, window: Window) -> NodeTime:
    """Return what each node did in each step, as far as the reading goes back; may block."""
    # Nodes without NeuronCores are in the frame as well, and no row of the bill asks for them.
    nothing = np.zeros((0, 0, 0), dtype=np.float32)
    frame = reading.frame("node") or Frame("node", (), reading.now, _STEP, (), nothing)
    neuron = [is_neuron(thing.instance_type) for thing in frame.things]
    nodes = frame.pick(np.array(neuron, dtype=bool)) if not all(neuron) else frame
    limits = [ports.policy.at(thing).number("idle.below") for thing in nodes.things]
    kinds = ports.world.knowledge.types()
    peaks = [
        (thing.instance_type in kinds and kinds[thing.instance_type].bf16_tflops * 1e12) or np.nan
        for thing in nodes.things
    ]

    time = NodeTime(nodes, np.array(limits, dtype=np.float64), np.array(peaks, dtype=np.float64))
    time.compile(ports.world.compiles(reading, ports.policy, nodes.start))
    if runs := reading.frame("run"):
        time.run(runs, reading.claims)
    lose(time, ports.stores.alerts.history(window, Labels()))

    return time


@command(
    "goodput",
    "Where each dollar spent on Neuron nodes went: into work, or into what kept them from it.",
    needs=Needs.BILL | Needs.METRICS | Needs.DETECTOR | Needs.STATE,
    topic=Topic.COSTS,
    examples=(
        "goodput 7d",
        "goodput 7d by team",
        "goodput last-week chart=flow",
        "goodput last-week by node cluster=llama",
    ),
    rows=("rows",),
    figures=_FIGURES,
)
def goodput(
    ports: Ports,
    request: Request,
    window: Window = arg("7d", "which days"),
    by: tuple[str, ...] = arg(
        "cluster", "cluster, team, job, node, day, or any dimension of the bill", keyword=True
    ),
    chart: str = arg(
        "days",
        "over time, or as a flow of each row into classes",
        choices=("days", "flow"),
        keyword=True,
    ),
    where: tuple[Filter, ...] = arg("", CONDITIONS),
) -> Card:
    """Split the bill of the window by what its nodes did."""
    refuse_doubled(by)
    if any(condition.dimension in {JOB, _NODE} for condition in where):
        raise WrongInput(
            "'goodput' is filtered by dimensions of the bill: resource=i-0abc for a node."
        )

    answer = goodput_within(ports, ports.world.source.read(request.at), window, by, where)
    return goodput_card(replace(answer, flows=chart == "flow"))
