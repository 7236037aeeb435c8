"""Answer the cost: gross, credits, net and amortised.

Total and change, gross to net apart, who spent it, and how old the figures are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from decimal import Decimal
from itertools import repeat
from typing import Any

from bot.answers.cost.title import (
    COLOURS,
    CONDITIONS,
    DERIVED,
    DRILLS,
    FORECAST_FIGURES,
    TIMES,
    UNUSED,
    cost_charts,
    cost_title,
    derived_data,
    drill_buttons,
    forecast_data,
    forecast_words,
    hint_texts,
    is_derived,
    meaning_texts,
    money_facts,
    named,
    newest_uses,
    nothing_text,
    part_line,
    refuse_doubled,
    refuse_unknown,
    split_data,
    split_texts,
    unread,
    unused_of,
)
from bot.answers.fleet.compiling import bill_data, compile_text
from bot.cards.card import (
    EVERY,
    Buttons,
    Card,
    Facts,
    Heading,
    Style,
    Table,
    Text,
    Tone,
    When,
    compose,
    detail,
    text,
)
from bot.cards.columns import NUMBER, SHARE, Column, Columns
from bot.cards.words import (
    MONEY_FIGURES,
    amount_of,
    growth,
    money_data,
    moved,
    period,
    spoken,
    unseen,
)
from bot.costs.allocation import Allocation, OwnerHint
from bot.costs.compiling import CompileBill, compiling_within, may_show_compiling
from bot.costs.nowcast import Nowcast, Part, expected_by_provider, forecast_month
from bot.costs.running import fleet_of
from bot.costs.tally import (
    Change,
    comparable,
    known_rows,
    over_steps,
    page_filters,
    row_ratios,
    share,
    top,
    untagged,
    until,
)
from bot.grammar.registry import Needs, Topic, arg, command
from bot.model.money import usd
from bot.model.notification import Coverage, Known
from bot.model.reading import bill_coverage
from bot.model.request import Request
from bot.model.spend import ZERO, Commitment, Filter, Forecast, Money, Spend, Tally
from bot.model.window import Window, day, month_of, rounded_duration, utc_text
from bot.ports import Ports


@command(
    "cost",
    "Spend by any dimension of the bill: gross, credits, net and amortised.",
    needs=Needs.BILL,
    may=Needs.METRICS | Needs.DETECTOR | Needs.STATE,
    topic=Topic.COSTS,
    examples=(
        "cost 7d by team",
        "cost last-month by service",
        "cost 30d by instance_type team=vision",
    ),
    rows=("rows",),
    figures={
        **MONEY_FIGURES,
        **dict.fromkeys(
            [f"total/{name}" for name in MONEY_FIGURES],
            "sum of the rows here, and of those of the bill in the window",
        ),
        "total/net_usd": "gross + discounts + credits + tax, and the sum of the rows here",
        "derived/amortised_usd": (
            "of the row's amortised cost, what was split among pods by the NeuronCores they "
            "held, or has a derived team"
        ),
        "derived/unused_usd": (
            "of it, cost of the cores that pods held and did not use: 1 - mean utilization"
        ),
        "derived/idle_usd": "cost of the cores that no pod held",
        "owner_hints/amortised_usd": (
            "amortised cost of the resources without a team that this owner's hint names"
        ),
        "compiling/compiles": "count of the compiles within the window, by metrics and logs",
        "compiling/node_hours": "sum over compiles of the hours of each node",
        "compiling/usd": "sum over compiles of node-hours x the price of the node's hour",
        "compiling/cut_usd": "of it, compiles that were cut off before they were used",
        "compiling/spared_usd": (
            "of it, what one node compiling for all would have saved: the sum less the slowest"
        ),
        **FORECAST_FIGURES,
    },
)
def cost(
    ports: Ports,
    request: Request,
    window: Window = arg("7d", "which days"),
    by: tuple[str, ...] = arg(
        "instance_type",
        "dimensions to group by: several with commas, tags as tag:NAME",
        keyword=True,
    ),
    where: tuple[Filter, ...] = arg("", CONDITIONS),
) -> Card:
    """Sum the bill over the window."""
    refuse_doubled(by)
    return cost_card(_answer(ports, request, window, by, where))


def _answer(
    ports: Ports, request: Request, window: Window, by: tuple[str, ...], where: tuple[Filter, ...]
) -> CostAnswer:
    """Ask the bill, and metrics only where the answer shows something of them, once; may block."""
    billing, outlook, at = ports.world.billing, ports.world.outlook, request.at
    allocation = Allocation(ports, at)
    tally = allocation.tally(window, by, where, None if request.whole else EVERY)

    # As many bars as can be told apart: hours of two days, days of two months, else months.
    usual = "month"
    if window.length <= timedelta(days=62):
        # A bill by days tells no hours.
        is_short = window.length <= timedelta(days=2)
        usual = "hour" if is_short and known_rows(allocation, window, ("hour",), where) else "day"
    step = next((name for name in by if name in TIMES), usual)
    groups = [name for name in by if name not in TIMES][:1]
    over_time = over_steps(allocation, tally, [step, *groups], where, COLOURS)

    # A recording may hold rows that are later than the question.
    known_until = min(tally.billed_through, at) if tally.billed_through else None
    spans = comparable(window, known_until)
    change = compared = None
    # Compare only where the bill reaches back to every day of the time before.
    if spans and len(allocation.tally(spans[1], ("day",)).rows) >= len(list(spans[1].days())):
        change, compared = _compare(allocation, tally, over_time, spans, where)

    month = month_of(at)
    nowcast = provider = None
    # Where the month ends is worth a sentence to whom it is asked about so far.
    if tally.billed_through and window.start == month.start and at <= window.end <= month.end:
        nowcast = forecast_month(
            allocation, at, Part(where), fleet_of(ports, allocation.reading, where)
        )
        provider = None if where else expected_by_provider(allocation, outlook, at)

    problems, seen = billing.problems(), bill_coverage(known_until, at, window.end)
    if problems and seen.known is Known.WHOLE:
        seen = Coverage(Known.PARTLY, problems[0])
    hints: Sequence[OwnerHint] = ()
    if "team" in tally.by and untagged(tally, "team").amortised > 0:
        hints = allocation.hints(window, where)
    # A bill that names no lines does not say which commitments went unused.
    fees = known_rows(allocation, window, (), [*where, Filter("line", ("commitment",))])

    refuse_unknown(allocation, billing, tally, where)
    # Metrics are opened only where the answer has room for what they say.
    compiling = None
    if tally.rows and may_show_compiling(window, where, at) and allocation.reading:
        compiling = compiling_within(ports, allocation.reading, window, where)
    return CostAnswer(
        tally=tally,
        filters=where,
        over_time=over_time,
        days=allocation.tally(window, ("day",)),
        change=change,
        nowcast=nowcast,
        expected=provider,
        problems=problems,
        commitments=tuple(outlook.commitments(at)) if "purchase" in by else (),
        hints=hints,
        unused=sum((row.money.amortised for row in fees), ZERO),
        compared=compared,
        compiling=compiling,
        seen=seen,
        nameless=_nameless(allocation, tally, where),
    )


def _compare(
    allocation: Allocation,
    tally: Tally,
    over_time: Tally,
    spans: tuple[Window, Window],
    where: Sequence[Filter],
) -> tuple[Change, tuple[Tally, Tally] | None]:
    """Return the change of the total, and both sides by the same rows where those are not times."""
    by = () if set(tally.by) & TIMES else tally.by
    # Of a page its own rows are compared, and the total of all.
    page = page_filters(tally) if by else []
    current = until(over_time, spans[0], by)
    current = current or allocation.tally(spans[0], by, [*where, *page])
    previous = allocation.tally(spans[1], by, [*where, *page])

    sums = [current.total, previous.total]
    if page:
        sums = [allocation.tally(span, (), where).total for span in spans]
    return Change(*spans, *(side.amortised for side in sums)), (current, previous) if by else None


def _nameless(
    allocation: Allocation, tally: Tally, where: Sequence[Filter]
) -> Mapping[str, Decimal]:
    """Return the amortised cost without a value, by the dimensions that a tag or a pod gives."""
    names = filter(_may_carry, tally.by)
    if not tally.folded:
        return {name: untagged(tally, name).amortised for name in names}
    return {
        name: allocation.tally(tally.window, (), [*where, Filter(name, ("",))]).total.amortised
        for name in names
    }


def _may_carry(dimension: str) -> bool:
    """Return whether a charge without this dimension lacks a tag."""
    return dimension in _OWNERS or dimension.startswith("tag:")


_ROWS = 10
_OWNERS = {"team", "project", "cluster", "namespace", "pod"}


@dataclass(frozen=True)
class CostAnswer:
    """Hold the parts of the card.

    `over_time` is keyed by a time dimension and the first dimension asked for.
    """

    tally: Tally
    filters: tuple[Filter, ...] = ()
    over_time: Tally | None = None
    change: Change | None = None
    nowcast: Nowcast | None = None
    expected: Forecast | None = None
    """What the provider itself expects, beside the nowcast."""
    problems: Sequence[str] = ()
    commitments: tuple[Commitment, ...] = ()
    """How commitments were used, as the provider says."""
    hints: Sequence[OwnerHint] = ()
    """Whose the untagged cost may be."""
    unused: Decimal = Decimal(0)
    """What of the amortised cost is commitment that no usage took."""
    compared: tuple[Tally, Tally] | None = None
    """The settled part and as much of the window before, by the same dimensions.

    None where rows cannot be compared.
    """
    compiling: CompileBill | None = None
    """What compiling cost of it, estimated from metrics; None where they say nothing of it."""
    days: Tally | None = None
    """The whole bill of the window by day."""
    seen: Coverage = field(default_factory=Coverage)
    """How much of the window the bill tells."""
    nameless: Mapping[str, Decimal] = field(default_factory=dict)
    """The amortised cost of the charges that have no value in a dimension of the tally."""


def cost_card(answer: CostAnswer) -> Card:
    """Draw the card; `data` holds the rows that were asked for, the table the largest."""
    tally, filters = answer.tally, answer.filters
    title = cost_title(tally, filters, answer.days)
    through = tally.billed_through
    notes = (
        _compared_words(answer),
        "The files hold later charges; the newest hours are not billed yet at this time."
        if tally.seen
        else "",
        "The window ends later."
        if through and tally.window.end > through + timedelta(hours=1)
        else "",
        f"Source: {', '.join(tally.sources)}." if tally.sources else "",
    )
    aged = compose(
        detail("Billed through ", When(through), ". ", " ".join(filter(None, notes)))
        if through
        else None,
        unseen(answer.seen),
        unread([x for x in answer.problems if x != answer.seen.because]),
    )
    data = cost_data(tally, filters) | answer.seen.data
    if not tally.rows:
        return Card(title, Tone.INFO, (nothing_text(tally, answer.days), *aged), data)

    # Rows of time stand newest first, all others dearest first, which the shares are of.
    ranked = sorted(tally.rows, key=lambda row: -row.money.amortised)
    times = [name for name in tally.by if name in TIMES]
    ranked.sort(key=lambda row: [row.key[name] for name in times], reverse=True)

    # Net stands in the title.
    facts = [fact for fact in money_facts(tally) if fact[0] != "Net"]
    data |= forecast_data(answer.nowcast, answer.expected) | split_data(tally, answer.hints)
    if answer.compiling:
        data["compiling"] = bill_data(answer.compiling)

    separator = "; " if answer.change is None or answer.change.ratio is None else ", "
    lead = f"Amortised {amount_of(tally.total.amortised, tally)}{separator}{_change_words(answer)}."

    return Card(
        title,
        Tone.INFO,
        compose(
            text(lead + forecast_words(answer.nowcast, answer.expected, tally)),
            meaning_texts(tally, answer.over_time, filters),
            Facts(tuple(facts), Style.DETAIL),
            _table(answer, ranked),
            cost_charts(answer.over_time, filters),
            aged,
            _notes(answer),
            use_texts(answer.commitments),
            Buttons(tuple(drill_buttons(tally, filters, ranked))),
        ),
        data,
    )


def _notes(answer: CostAnswer) -> Iterator[Text]:
    """Yield what the amounts leave open: whose they may be, what was split, lost or compiled."""
    tally = answer.tally
    for name in tally.by:
        # No tag names what a commitment left unused: the sentence below does.
        amount = answer.nameless.get(name, Decimal(0)) - answer.unused
        if amount <= 0 or not _may_carry(name):
            continue
        tag = name.removeprefix("tag:")
        remedy = f"tag the resources and, on AWS, activate '{tag}' as a cost allocation tag"
        if name in {"namespace", "pod"}:
            remedy = "turn on split cost allocation data for EKS in the export"
        beside = "Beside unused commitments, " if answer.unused > 0 else ""
        yield detail(f"{beside}{amount_of(amount, tally)} (amortised) has no {tag}: {remedy}.")

    yield from hint_texts(answer.hints, tally)
    yield from split_texts(tally)
    if answer.unused > 0:
        # It is in the amortised sum, and in nobody's usage.
        yield detail(
            f"{amount_of(answer.unused, tally)} of the amortised cost is commitment that"
            " nothing used (Savings Plans, reserved instances, Capacity Blocks)."
        )
    if answer.compiling:
        yield compile_text(answer.compiling)


def cost_data(tally: Tally, filters: Sequence[Filter] = ()) -> dict[str, Any]:
    """Return the stable data of `cost --json`: its rows, those of time oldest first.

    `rest` sums up the rows beyond a page.
    """
    times, folded = [name for name in tally.by if name in TIMES], tally.folded

    return {
        "window": {"start": tally.window.start, "end": tally.window.end},
        "by": list(tally.by),
        "currency": tally.currency,
        "rows": [
            {
                "key": dict(row.key),
                **money_data(row.money),
                "estimated": row.estimated,
                **derived_data(row),
            }
            for row in sorted(tally.rows, key=lambda row: [row.key[name] for name in times])
        ],
        "total": money_data(tally.total),
        "billed_through": tally.billed_through,
        "rest": folded and {"rows": folded.count, **money_data(folded.money)},
        "filters": [str(condition) for condition in filters],
        "groupings": list(DRILLS),
        **({"seen": tally.seen} if tally.seen else {}),
    }


def _grown(ratio: Decimal | None) -> str:
    """Write a change for a cell."""
    return "new" if ratio is None else growth(ratio, signed=True)


def _change_words(answer: CostAnswer) -> str:
    """Say the change, and which part was compared when it is not the whole window."""
    change, tally = answer.change, answer.tally
    if change is None:
        return "no settled figures to compare it with"
    words = "nothing was spent in"
    if change.ratio is not None:
        words = moved(change.ratio)
    if change.part == tally.window:
        return f"{words} {period(change.before)}"

    # Months are compared with each other, whatever the number of their days.
    is_month = tally.window == month_of(tally.window.start)
    length = "month" if is_month else rounded_duration(tally.window.length)

    return f"{words} the {length} before by settled figures"


def _compared_words(answer: CostAnswer) -> str:
    """Say which part of the window was compared, "" where it was all of it or nothing."""
    change, tally = answer.change, answer.tally
    if change is None or change.part == tally.window:
        return ""
    current, previous = amount_of(change.now, tally), amount_of(change.then, tally)

    return f"Compared up to {utc_text(change.part.end)}: {current} against {previous}."


@dataclass(frozen=True)
class _Line:
    """Hold one line of the table: a row of the bill, several folded into one, or all of them."""

    names: Sequence[str]
    money: Money
    rows: Sequence[Spend]
    grown: str = ""
    mark: str = ""


def _table(answer: CostAnswer, ranked: Sequence[Spend]) -> Table:
    """Draw the rows, the smaller or earlier ones folded into one, and their sum."""
    tally, total = answer.tally, answer.tally.total.amortised
    beyond = tally.folded
    has_estimated = any(row.estimated for row in tally.rows) or (beyond and beyond.has_estimated)
    has_final = any(not row.estimated for row in tally.rows) or (beyond and beyond.has_final)
    is_mixed = bool(has_estimated and has_final)
    columns = [
        Column[_Line]("net", lambda x: f"{x.mark}{amount_of(x.money.net, tally)}", NUMBER),
        Column[_Line]("amortised", lambda x: amount_of(x.money.amortised, tally), NUMBER),
        Column[_Line]("share", lambda x: share(x.money.amortised, total), SHARE, missing=""),
    ]
    if answer.compared:
        columns.append(Column("change", lambda x: x.grown, NUMBER, missing=""))
    if any(row.derived and row.derived.unused for row in tally.rows):
        columns.append(Column(UNUSED, lambda x: unused_of(x.rows, tally), NUMBER, missing=""))
    amounts = Columns(*columns)

    def cells(line: _Line) -> tuple[str, ...]:
        return (*line.names, *amounts.row(line))

    def label(words: str) -> list[str]:
        return [words, *[""] * (len(tally.by) - 1)] if tally.by else []

    listed = ranked[:EVERY]
    compared = answer.compared
    changes = map(_grown, row_ratios(*compared, listed)) if compared else repeat("", len(listed))
    lines = [
        _Line(
            [
                named(row.key[name], name) + (DERIVED if is_derived(row, name) else "")
                for name in tally.by
            ],
            row.money,
            [row],
            change,
            "~" if is_mixed and row.estimated else "",
        )
        for row, change in zip(listed, changes, strict=True)
    ]

    # All rows are drawn: what a chat folds away, a page has room for.
    drawn = tuple(map(cells, lines))
    rows, folded, count = top(ranked, _ROWS, tally.folded)
    first, note = drawn[: len(rows)], ""
    if count:
        word = which = "earlier"
        if not set(tally.by) <= TIMES:
            word, which = "more", "earlier or smaller" if TIMES & set(tally.by) else "smaller"
        note = f"{count} {which} rows are combined into one."
        first = (*first, cells(_Line(label(f"{count} {word}"), folded, ranked[len(rows) :])))

    grown = _grown(answer.change.ratio) if answer.change else ""

    return Table(
        (*(Heading(spoken(name)) for name in tally.by), *amounts.headings),
        first,
        cells(_Line(label("total"), tally.total, tally.rows, grown)),
        "~ is an estimate that AWS may still rewrite; share is of the amortised cost"
        if is_mixed
        else "",
        note,
        drawn if count else (),
        tuple(part_line(tally, answer.filters, row.key) if tally.by else "" for row in listed),
    )


def use_texts(commitments: Sequence[Commitment]) -> Iterator[Text]:
    """Say how each kind of commitment was used on the newest day that the provider tells of."""
    for newest in newest_uses(commitments):
        words = (
            f"{newest.plan[0].upper()}{newest.plan[1:]}: {newest.utilization:.0%} of"
            f" {usd(newest.committed)} used on {day(newest.day)}, by AWS;"
            f" {usd(newest.unused)} unused"
        )
        if newest.coverage is not None:
            words += f"; they cover {newest.coverage:.0%} of what they could"
        yield detail(f"{words}.".replace("%", " %"))
