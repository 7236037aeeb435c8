"""Answer the cost: gross, credits, net and amortised."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import Decimal
from functools import partial

from bot.answers.cost.card import CostAnswer, cost_card
from bot.answers.cost.title import TIMES, refuse_unknown
from bot.cards.card import Card
from bot.cards.words import MONEY_FIGURES
from bot.costs.allocation import Allocation
from bot.costs.compiling import compiling_within, may_show_compiling
from bot.costs.nowcast import Daily, Expected, Nowcast, expected, forecast_month, running_of
from bot.costs.owners import OwnerHint
from bot.costs.tally import Change, comparable, untagged, until
from bot.errors import WrongInput
from bot.grammar.registry import Needs, Topic, arg, command
from bot.model.request import Request
from bot.model.spend import Filter, Tally
from bot.model.window import Window, month_of
from bot.ports import Outlook, Ports

_COST_FIGURES = {
    **MONEY_FIGURES,
    "total/gross_usd": "sum of the rows here, and of those of the bill in the window",
    "total/discounts_usd": "sum of the rows here, and of those of the bill in the window",
    "total/credits_usd": "sum of the rows here, and of those of the bill in the window",
    "total/tax_usd": "sum of the rows here, and of those of the bill in the window",
    "total/amortised_usd": "sum of the rows here, and of those of the bill in the window",
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
    "forecast/amortised_usd": (
        "settled days of the month, fees at their day, and the recurring cost of the days "
        "left, by the days that settled and the nodes that run"
    ),
    "forecast/low_usd": "the low end of the forecast's range, never under what is billed",
    "forecast/high_usd": "the high end of the forecast's range",
    "forecast/fees_usd": "one-off charges and monthly fees of the month, each counted once",
    "forecast/settled_days": "count of the settled days that the forecast rests on",
    "expected/amortised_usd": (
        "amortised cost billed before AWS's forecast begins + AWS's forecast of the rest"
    ),
    "expected/low_usd": (
        "amortised cost billed before AWS's forecast begins + the low end of AWS's 80 % interval"
    ),
    "expected/high_usd": (
        "amortised cost billed before AWS's forecast begins + the high end of AWS's 80 % interval"
    ),
}


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
    figures=_COST_FIGURES,
)
async def cost(
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
    return await asyncio.to_thread(lambda: cost_card(_answer(ports, request, window, by, where)))


def _answer(
    ports: Ports, request: Request, window: Window, by: tuple[str, ...], where: tuple[Filter, ...]
) -> CostAnswer:
    """Ask the bill, and metrics only where the answer shows something of them, once; may block."""
    allocation = Allocation(ports, request.at)
    running = partial(_running, ports, allocation)
    answer = _Asked(
        allocation, ports.world.billing.problems, ports.world.outlook, running, window, by, where
    ).answer(request)
    refuse_unknown(allocation, ports.world.billing, answer.tally, where)
    if (
        not answer.tally.rows
        or not may_show_compiling(window, where, request.at)
        or allocation.reading is None
    ):
        return answer
    return replace(answer, compiling=compiling_within(ports, allocation.reading, window, where))


def _running(ports: Ports, allocation: Allocation) -> Daily:
    """Return the cost of the nodes that ran by day; nothing where no metrics are read."""
    return running_of(ports, allocation.reading) if allocation.reading else {}


@dataclass(frozen=True)
class _Asked:
    """Hold one question; every method may block."""

    billing: Allocation
    problems: Callable[[], Sequence[str]]
    outlook: Outlook
    running: Callable[[], Daily]
    """What the nodes that ran cost by day, which tells of the days since the bill."""
    window: Window
    by: tuple[str, ...]
    where: tuple[Filter, ...]

    def answer(self, request: Request) -> CostAnswer:
        tally = self.billing.tally(self.window, self.by, self.where)
        over_time = self._over_time()
        change, compared = self._change(tally, over_time, request)
        used = tuple(self.outlook.commitments(request.at)) if "purchase" in self.by else ()
        return CostAnswer(
            tally,
            self.where,
            over_time,
            change,
            self._nowcast(tally, request),
            self._expected(tally, request),
            self.problems(),
            used,
            self._hints(tally),
            self._unused(),
            compared,
        )

    def _unused(self) -> Decimal:
        """Return the commitment that nothing used: the amortised part of fees.

        0 where the bill does not tell lines.
        """
        try:
            return self.billing.tally(
                self.window, (), [*self.where, Filter("line", ("commitment",))]
            ).total.amortised
        except WrongInput:
            return Decimal(0)

    def _hints(self, tally: Tally) -> Sequence[OwnerHint]:
        """Guess whose the untagged cost is where teams are asked for."""
        return (
            self.billing.hints(self.window, self.where)
            if "team" in tally.by and untagged(tally, "team").amortised > 0
            else ()
        )

    def _over_time(self) -> Tally:
        """Return the tally by a fitting time step and the first dimension that is no time."""
        groups = [name for name in self.by if name not in TIMES][:1]
        steps = [name for name in self.by if name in TIMES][:1]
        return self.billing.tally(
            self.window, [*(steps or [_step(self.window)]), *groups], self.where
        )

    def _change(
        self, tally: Tally, over_time: Tally, request: Request
    ) -> tuple[Change | None, tuple[Tally, Tally] | None]:
        """Compare the settled part, and each row, with as much of the window before.

        None when the bill does not reach back.
        """
        spans = comparable(self.window, _known_until(tally, request))
        if spans is None:
            return None, None
        billed = self.billing.tally(spans[1], ("day",)).rows
        if len(billed) < len(list(spans[1].days())):
            return None, None
        by = () if set(self.by) & TIMES else self.by
        now = until(over_time, spans[0], by) or self.billing.tally(spans[0], by, self.where)
        then = self.billing.tally(spans[1], by, self.where)
        return Change(*spans, now.total.amortised, then.total.amortised), (
            now,
            then,
        ) if by else None

    def _nowcast(self, tally: Tally, request: Request) -> Nowcast | None:
        """Forecast only when this whole month is asked for, from its start."""
        month = month_of(request.at)
        whole = self.window.start == month.start and request.at <= self.window.end <= month.end
        if not whole or tally.billed_through is None:
            return None
        return forecast_month(
            self.billing, request.at, self.where, {} if self.where else self.running()
        )

    def _expected(self, tally: Tally, request: Request) -> Expected | None:
        """Return where the provider itself expects this month to end.

        The bill before its forecast begins, and the forecast.
        """
        month = month_of(request.at)
        if (
            self.where
            or self.window.start != month.start
            or not request.at <= self.window.end <= month.end
        ):
            return None
        forecast = self.outlook.forecast(request.at)
        if forecast is None or tally.billed_through is None:
            return None
        spent = self.billing.tally(
            Window(month.start, max(month.start, forecast.window.start)), ()
        ).total.amortised
        return expected(spent, forecast)


def _known_until(tally: Tally, request: Request) -> datetime | None:
    """Return how far the bill reaches, never past the time of the question (a recording may hold later rows)."""
    return min(tally.billed_through, request.at) if tally.billed_through else None


def _step(window: Window) -> str:
    if window.length <= timedelta(days=2):
        return "hour"
    return "day" if window.length <= timedelta(days=62) else "month"
