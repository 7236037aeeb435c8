"""Answer the cost: gross, credits, net and amortised."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from decimal import Decimal

from bot.answers.cost.card import CostAnswer, cost_card
from bot.answers.cost.title import FORECAST_FIGURES, TIMES, refuse_unknown
from bot.cards.card import Card
from bot.cards.words import MONEY_FIGURES
from bot.costs.allocation import Allocation
from bot.costs.compiling import compiling_within, may_show_compiling
from bot.costs.nowcast import expected, fleet_of, forecast_month
from bot.costs.owners import OwnerHint
from bot.costs.tally import Change, comparable, untagged, until
from bot.errors import WrongInput
from bot.grammar.registry import Needs, Topic, arg, command
from bot.model.coverage import Coverage, Known
from bot.model.reading import bill_coverage
from bot.model.request import Request
from bot.model.spend import Filter
from bot.model.window import Window, month_of
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
            "of it, what one node compiling for all would have spared: the sum less the slowest"
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
    where: tuple[Filter, ...] = arg(
        "", "only charges with dimension=value, or without it: dimension!=value"
    ),
) -> Card:
    """Sum the bill over the window."""
    if len(set(by)) < len(by):
        raise WrongInput(f"'{', '.join(by)}' names a dimension twice; keep one of each.")
    return cost_card(_answer(ports, request, window, by, where))


def _answer(
    ports: Ports, request: Request, window: Window, by: tuple[str, ...], where: tuple[Filter, ...]
) -> CostAnswer:
    """Ask the bill, and metrics only where the answer shows something of them, once; may block."""
    billing, outlook = ports.world.billing, ports.world.outlook
    allocation = Allocation(ports, request.at)
    tally = allocation.tally(window, by, where)

    # As many bars as can be told apart: hours of two days, days of two months, else months.
    if window.length <= timedelta(days=2):
        step = "hour"
    else:
        step = "day" if window.length <= timedelta(days=62) else "month"
    step = next((name for name in by if name in TIMES), step)
    groups = [name for name in by if name not in TIMES][:1]
    over_time = allocation.tally(window, [step, *groups], where)

    # A recording may hold rows that are later than the question.
    known_until = min(tally.billed_through, request.at) if tally.billed_through else None
    spans = comparable(window, known_until)
    change = compared = None
    # Compare only where the bill reaches back to every day of the time before.
    if spans and len(allocation.tally(spans[1], ("day",)).rows) >= len(list(spans[1].days())):
        rows_by = () if set(by) & TIMES else by
        current = until(over_time, spans[0], rows_by)
        current = current or allocation.tally(spans[0], rows_by, where)
        previous = allocation.tally(spans[1], rows_by, where)
        change = Change(*spans, current.total.amortised, previous.total.amortised)
        compared = (current, previous) if rows_by else None

    commitments = tuple(outlook.commitments(request.at)) if "purchase" in by else ()

    month = month_of(request.at)
    nowcast = provider = None
    # Where the month ends is worth a sentence to whom it is asked about so far.
    if window.start == month.start and request.at <= window.end <= month.end:
        if tally.billed_through:
            fleet = fleet_of(ports, allocation.reading, where)
            nowcast = forecast_month(allocation, request.at, where, fleet)

        forecast = None if where else outlook.forecast(request.at)
        if forecast and tally.billed_through:
            billed = Window(month.start, max(month.start, forecast.window.start))
            provider = expected(allocation.tally(billed, ()).total.amortised, forecast)

    problems, seen = billing.problems(), bill_coverage(known_until, request.at, window.end)
    if problems and seen.known is Known.WHOLE:
        seen = Coverage(Known.PARTLY, problems[0])
    hints: Sequence[OwnerHint] = ()
    if "team" in tally.by and untagged(tally, "team").amortised > 0:
        hints = allocation.hints(window, where)
    try:
        fees = allocation.tally(window, (), [*where, Filter("line", ("commitment",))])
        unused = fees.total.amortised
    except WrongInput:
        # The bill names no lines, so nothing says which commitments went unused.
        unused = Decimal(0)

    refuse_unknown(allocation, billing, tally, where)
    # Metrics are opened only where the answer has room for what they say.
    compiling = None
    if tally.rows and may_show_compiling(window, where, request.at) and allocation.reading:
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
        commitments=commitments,
        hints=hints,
        unused=unused,
        compared=compared,
        compiling=compiling,
        seen=seen,
    )
