"""Answer when porting to Trainium has paid for itself, and when it never does."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal

from bot.cards.card import (
    Align,
    Block,
    Button,
    Buttons,
    Card,
    Facts,
    Heading,
    Table,
    Tone,
    quiet,
    text,
)
from bot.cards.words import cited
from bot.errors import WrongInput, nearest
from bot.grammar.registry import Needs, Topic, arg, command
from bot.model.claims import Effort, Note
from bot.model.money import cents, counted, usd
from bot.model.request import Request
from bot.ports import Ports

_TENTH = Decimal("0.1")
ENGINEER_USD_A_YEAR = Decimal(200_000)
"""What an engineer costs a year where nobody says: trnbot's own default."""


@dataclass(frozen=True)
class Porting:
    """State a port.

    Engineer-months, USD of an engineer a year, the cost of compiling anew, and the GPU bill it
    would cut.
    """

    months: Decimal
    usd_per_year: Decimal
    bill_usd: Decimal
    """USD of GPU training a month; of one run where `runs` is given."""
    saving_low: Decimal
    saving_high: Decimal
    runs: int | None = None
    """How often it will be trained in all; None = every month, without an end."""
    recompile_usd: Decimal = Decimal(0)

    @property
    def cost(self) -> Decimal:
        """Return the cost of the port in USD, compiling anew included."""
        return cents(self.months * self.usd_per_year / 12 + self.recompile_usd)


@dataclass(frozen=True)
class Payback:
    """State one saving's outcome.

    USD saved a month (or a run), months (or runs) until it has paid, None = never.
    """

    saving: Decimal
    saved_each: Decimal
    periods: Decimal | None
    balance: Decimal
    """USD gained (or lost) after the horizon, or after every run."""


def usual_port(efforts: Sequence[Effort]) -> tuple[Decimal, Effort]:
    """Return the cost of a port where nobody says more, and the effort that it takes."""
    effort = next(x for x in efforts if x.name == _USUAL)
    return cents(effort.months_high * ENGINEER_USD_A_YEAR / 12), effort


def payback(port: Porting, saving: Decimal, horizon_months: int) -> Payback:
    """Return the outcome at one saving, a share of the bill."""
    each = cents(port.bill_usd * saving)
    times = horizon_months if port.runs is None else port.runs
    periods = (port.cost / each).quantize(_TENTH, "ROUND_CEILING") if each > 0 else None
    if port.runs is not None and periods is not None and each * port.runs < port.cost:
        periods = None
    return Payback(saving, each, periods, each * times - port.cost)


def outcomes(port: Porting, horizon_months: int) -> tuple[Payback, ...]:
    """Return the outcome at the low and the high saving; one where they are the same."""
    return tuple(
        payback(port, saving, horizon_months)
        for saving in dict.fromkeys((port.saving_low, port.saving_high))
    )


_R = Align.RIGHT


def breakeven_card(
    port: Porting,
    effort: Effort | None,
    risks: Sequence[Note],
    stack: str,
    horizon_months: int,
    today: date,
) -> Card:
    """Draw the verdict first: yes, it depends, or no."""
    paybacks = outcomes(port, horizon_months)
    pays = [outcome.balance > 0 for outcome in paybacks]
    blocks: list[Block] = [
        text(_verdict(port, paybacks, pays, horizon_months)),
        _facts(port),
        _table(port, paybacks, horizon_months),
    ]
    if stack:
        blocks.append(text(stack))
    if effort:
        blocks.append(quiet(f"Effort '{effort.name}': {effort.says} ({cited(effort, today)})."))
    blocks += [quiet(f"Risk, {x.subject}: {x.says} ({x.state}; {cited(x, today)}).") for x in risks]
    blocks.append(
        quiet(
            "Estimated from your input; nothing was measured. Vendors' savings are claims: compare a run."
        )
    )
    blocks.append(
        Buttons(
            (
                Button("Ten questions", "decide"),
                Button("A stated case", f"breakeven {port.bill_usd:f} preset=case"),
            )
        )
    )
    tone = Tone.GOOD if all(pays) else Tone.WARNING if not any(pays) else Tone.INFO
    return Card(
        _title(port, paybacks, pays), tone, tuple(blocks), _data(port, paybacks, horizon_months)
    )


def _title(port: Porting, paybacks: Sequence[Payback], pays: Sequence[bool]) -> str:
    if port.runs is not None:
        advice = "Port" if all(pays) else "It depends" if any(pays) else "Stay on GPUs"
        return f"{advice}: {counted(port.runs, 'run')}, {usd(port.cost)} to port"
    months = sorted(each.periods for each in paybacks if each.periods is not None)
    if not months:
        return "Porting never pays back"
    ends = list(dict.fromkeys(f"{x.normalize():f}" for x in months))
    ends += ["never"] if len(months) < len(paybacks) else []
    return f"Porting for {usd(port.cost)} pays back after {' to '.join(ends)} months"


def _verdict(
    port: Porting, paybacks: Sequence[Payback], pays: Sequence[bool], horizon_months: int
) -> str:
    span = f"{horizon_months} months" if port.runs is None else counted(port.runs, "run")
    if all(pays):
        return f"Yes: within {span} it saves more than it costs, even at the low saving."
    if any(pays):
        return f"It depends on the saving: within {span} only the high one pays for the port."
    saved = max(each.balance for each in paybacks) + port.cost
    gain = f"saves {usd(saved)} at most" if saved > 0 else "saves nothing"
    return f"No: within {span} it {gain}, and costs {usd(port.cost)}."


def _facts(port: Porting) -> Facts:
    months = f"{port.months.normalize():f} engineer-month{'' if port.months == 1 else 's'}"
    work = f"{months} at {usd(port.usd_per_year)} a year"
    bill = f"{usd(port.bill_usd)} {'a month' if port.runs is None else 'a run'}"
    again = [("compiling anew", usd(port.recompile_usd))] if port.recompile_usd else []
    return Facts((("port", f"{usd(port.cost)} ({work})"), *again, ("GPU bill", bill)))


def _table(port: Porting, paybacks: Sequence[Payback], horizon_months: int) -> Table:
    unit = "month" if port.runs is None else "run"
    after = f"after {counted(horizon_months if port.runs is None else port.runs, unit)}"
    columns = (
        Heading("saving", _R),
        Heading(f"saved a {unit}", _R),
        Heading("pays after", _R),
        Heading(after, _R),
    )
    rows = tuple(
        (_percent(x.saving), usd(x.saved_each), _periods(x, unit), usd(x.balance)) for x in paybacks
    )
    return Table(columns, rows)


def _percent(share: Decimal) -> str:
    return f"{(share * 100).normalize():f} %"


def _periods(outcome: Payback, unit: str) -> str:
    return (
        "never"
        if outcome.periods is None
        else f"{outcome.periods.normalize():f} {unit}{'' if outcome.periods == 1 else 's'}"
    )


def _data(port: Porting, paybacks: Sequence[Payback], horizon_months: int) -> dict[str, object]:
    return {
        "port_usd": port.cost,
        "engineer_months": port.months,
        "bill_usd": port.bill_usd,
        "runs": port.runs,
        "horizon_months": horizon_months,
        "outcomes": [
            {
                "saving_ratio": x.saving,
                "saved_usd": x.saved_each,
                "pays_after": x.periods,
                "balance_usd": x.balance,
            }
            for x in paybacks
        ],
    }


_MOST = Decimal(10**12)
_USUAL = "two-months"
STACKS = {
    "pytorch": ("weeks", "PyTorch is the easiest to port according to every vendor text."),
    "jax": (
        "weeks",
        "JAX: one vendor text says only PyTorch-native code pays well, another that JAX is fine. Try a short run first.",
    ),
    "tensorflow": ("months", "Neuron trains PyTorch and JAX: TensorFlow code is rewritten first."),
    "cuda": (
        "months",
        "Hand-written CUDA kernels are rewritten in NKI; ask 'cuda' for what your packages need.",
    ),
}


_BREAKEVEN_FIGURES = {
    "port_usd": "engineer-months x USD a year / 12 + compiling anew",
    "engineer_months": "as typed, else those of the stated effort",
    "bill_usd": "as typed",
    "runs": "as typed",
    "horizon_months": "as typed",
    "saving_ratio": "as typed, else of the stated effort, else 30 to 40 %",
    "saved_usd": "bill x saving",
    "pays_after": "port / saved each month or run, rounded up to a tenth",
    "balance_usd": "saved each month or run x their number - port",
}


@command(
    "breakeven",
    "Whether porting to Trainium pays, and after how long.",
    needs=Needs.NOTHING,
    topic=Topic.PLANS,
    examples=(
        "breakeven 20000",
        "breakeven 20000 saving=33% preset=case",
        "breakeven 12500 saving=40% months=3 runs=1",
    ),
    figures=_BREAKEVEN_FIGURES,
)
async def breakeven(
    ports: Ports,
    request: Request,
    bill_usd: Decimal = arg("20000", "USD a month for GPU training; with runs=, USD for one run"),
    saving: str = arg(
        "",
        "the share saved, such as 35% or 30-40%; 30-40% or the preset's when left out",
        keyword=True,
    ),
    months: Decimal | None = arg(
        "", "engineer-months that porting takes; the preset's when left out", keyword=True
    ),
    eng_usd_year: Decimal = arg(
        str(ENGINEER_USD_A_YEAR), "yearly cost of an engineer in USD", keyword=True
    ),
    preset: str = arg("", "days, weeks, months, two-months, or case", keyword=True),
    stack: str = arg("", "the framework of the code", choices=("", *STACKS), keyword=True),
    runs: int | None = arg(
        "", "total number of training runs; one every month when left out", keyword=True
    ),
    recompile_usd: Decimal = arg(
        "0", "cost of compiling again, as compiled artifacts cannot be moved", keyword=True
    ),
    horizon: int = arg("12", "how many months to look ahead", keyword=True),
) -> Card:
    """Join the typed arguments with a preset's effort."""
    claims = ports.world.knowledge.claims()
    for name, amount in (
        ("bill_usd", bill_usd),
        ("eng_usd_year", eng_usd_year),
        ("recompile_usd", recompile_usd),
        ("months", months),
    ):
        if amount is not None and not 0 <= amount < _MOST:
            raise WrongInput(f"{name} is 0 or more; got {amount}.")
    if not 1 <= horizon <= 120 or (runs is not None and not 1 <= runs <= 10**6):
        raise WrongInput("horizon is 1 to 120 months, runs is 1 or more.")
    class_, stack_words = STACKS.get(stack, ("", ""))
    effort = _effort(preset or ("" if months is not None else class_ or _USUAL), claims.efforts)
    low, high = _saving(saving, effort)
    taken = months if months is not None else (effort.months_high if effort else Decimal(2))
    port = Porting(taken, eng_usd_year, bill_usd, low, high, runs, recompile_usd)
    return breakeven_card(port, effort, claims.of("risk"), stack_words, horizon, request.at.date())


def _effort(name: str, efforts: tuple[Effort, ...]) -> Effort | None:
    if not name:
        return None
    by_name = {x.name: x for x in efforts}
    if name not in by_name:
        raise WrongInput(f"'{name}' is not a preset{nearest(name, by_name)}.")
    return by_name[name]


def _saving(text: str, effort: Effort | None) -> tuple[Decimal, Decimal]:
    """Read `35%`, `0.35` or `30-40%`; the preset's own, else 30-40 %, where nothing is said."""
    if not text:
        own = effort.saving_ratio if effort else None
        return (own, own) if own is not None else (Decimal("0.30"), Decimal("0.40"))
    match = re.fullmatch(r"(-?[\d.]+)(?:\s*-\s*([\d.]+))?\s*(%?)", text.strip())
    try:
        parts = [Decimal(x) for x in (match[1], match[2]) if x] if match else []
    except ArithmeticError:
        parts = []
    shares = [x / 100 if (match and match[3]) or x > 1 else x for x in parts]
    if not shares or not all(-1 <= x <= 1 for x in shares):
        raise WrongInput(f"'{text}' is not a saving; write it like 35% or 30-40%.")
    return min(shares), max(shares)
