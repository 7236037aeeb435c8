"""Answer when porting to Trainium has paid for itself, and when it never does."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal

from bot.cards.card import Button, Buttons, Card, Facts, Tone, compose, quiet, text
from bot.cards.columns import USD, Column, Columns, Unit
from bot.cards.words import cited
from bot.errors import WrongInput, find_named, refuse
from bot.grammar.registry import Needs, Topic, arg, command
from bot.model.claims import Effort, Note
from bot.model.money import cents, counted, usd
from bot.model.request import Request
from bot.ports import Ports

ENGINEER_USD_A_YEAR = Decimal(200_000)
"""What an engineer costs a year where nobody says: trnbot's own default."""


@dataclass(frozen=True)
class Porting:
    """State a port.

    Engineer-months, USD of an engineer a year, the cost of recompiling, and the GPU bill it
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
        """Return the cost of the port in USD, recompiling included."""
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


def refuse_amounts(limit: int, **amounts: Decimal | None) -> None:
    """Raise `WrongInput` for the first of some arguments that is no amount under a limit."""
    for name, amount in amounts.items():
        if amount is not None and not 0 <= amount < limit:
            raise WrongInput(f"{name} is 0 or more; got {amount}.")


def usual_port(efforts: Sequence[Effort]) -> tuple[Decimal, Effort]:
    """Return the cost of a port where nobody says more, and the effort that it takes."""
    effort = next(effort for effort in efforts if effort.name == _USUAL)
    return cents(effort.months_high * ENGINEER_USD_A_YEAR / 12), effort


def payback(port: Porting, saving: Decimal, horizon_months: int) -> Payback:
    """Return the outcome at one saving, a share of the bill."""
    saved = cents(port.bill_usd * saving)
    times = horizon_months if port.runs is None else port.runs
    periods = (port.cost / saved).quantize(Decimal("0.1"), "ROUND_CEILING") if saved > 0 else None
    # What takes more runs than there will be never pays.
    if port.runs is not None and periods is not None and saved * port.runs < port.cost:
        periods = None

    return Payback(saving, saved, periods, saved * times - port.cost)


def outcomes(port: Porting, horizon_months: int) -> tuple[Payback, ...]:
    """Return the outcome at the low and the high saving; one where they are the same."""
    return tuple(
        payback(port, saving, horizon_months)
        for saving in dict.fromkeys((port.saving_low, port.saving_high))
    )


def _spelled(number: Decimal, unit: str) -> str:
    return f"{number.normalize():f} {unit}{'' if number == 1 else 's'}"


def _judged(port: Porting, paybacks: Sequence[Payback], span: str) -> tuple[str, str, Tone]:
    """Return the title, the verdict and the tone of a card: yes, it depends, or no."""
    pays = [payback.balance > 0 for payback in paybacks]
    if all(pays):
        verdict = f"Yes: within {span} it saves more than it costs, even at the low saving."
        advice, tone = "Port", Tone.GOOD
    elif any(pays):
        verdict = f"It depends on the saving: within {span} only the high one pays for the port."
        advice, tone = "It depends", Tone.INFO
    else:
        saved = max(payback.balance for payback in paybacks) + port.cost
        gain = f"saves {usd(saved)} at most" if saved > 0 else "saves nothing"
        verdict = f"No: within {span} it {gain}, and costs {usd(port.cost)}."
        advice, tone = "Stay on GPUs", Tone.WARNING

    if port.runs is not None:
        return f"{advice}: {counted(port.runs, 'run')}, {usd(port.cost)} to port", verdict, tone

    periods = sorted(payback.periods for payback in paybacks if payback.periods is not None)
    if not periods:
        return "Porting never pays back", verdict, tone
    ends = list(dict.fromkeys(f"{period.normalize():f}" for period in periods))
    if len(periods) < len(paybacks):
        ends.append("never")

    return f"Porting for {usd(port.cost)} pays back after {' to '.join(ends)} months", verdict, tone


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
    if port.runs is None:
        unit, span = "month", f"{horizon_months} months"
        after = counted(horizon_months, unit)
    else:
        unit, span = "run", counted(port.runs, "run")
        after = span

    title, verdict, tone = _judged(port, paybacks, span)

    work = f"{_spelled(port.months, 'engineer-month')} at {usd(port.usd_per_year)} a year"
    facts = {
        "port": f"{usd(port.cost)} ({work})",
        "recompiling": usd(port.recompile_usd) if port.recompile_usd else "",
        "GPU bill": f"{usd(port.bill_usd)} a {unit}",
    }
    table = Columns[Payback](
        Column(
            "saving",
            lambda payback: payback.saving,
            Unit(lambda ratio: f"{(ratio * 100).normalize():f} %"),
            key="saving_ratio",
        ),
        Column(f"saved a {unit}", lambda payback: payback.saved_each, USD, key="saved_usd"),
        Column(
            "pays back after",
            lambda payback: payback.periods,
            Unit(lambda periods: _spelled(periods, unit)),
            key="pays_after",
            missing="never",
        ),
        Column(f"after {after}", lambda payback: payback.balance, USD, key="balance_usd"),
    )

    return Card(
        title,
        tone,
        compose(
            text(verdict),
            Facts(tuple((name, words) for name, words in facts.items() if words)),
            table.table(paybacks),
            stack and text(stack),
            effort is not None
            and quiet(f"Effort '{effort.name}': {effort.says} ({cited(effort, today)})."),
            [
                quiet(f"Risk, {risk.subject}: {risk.says} ({risk.state}; {cited(risk, today)}).")
                for risk in risks
            ],
            quiet(
                "Estimated from your input; nothing was measured."
                " Vendors' savings are claims: compare a run."
            ),
            Buttons(
                (
                    Button("Twelve questions", "decide"),
                    Button("A stated case", f"breakeven {port.bill_usd:f} preset=case"),
                )
            ),
        ),
        {
            "port_usd": port.cost,
            "engineer_months": port.months,
            "bill_usd": port.bill_usd,
            "runs": port.runs,
            "horizon_months": horizon_months,
            "outcomes": table.data(paybacks),
        },
    )


_USUAL = "two-months"
STACKS = {
    "pytorch": ("weeks", "PyTorch is the easiest to port according to every vendor text."),
    "jax": (
        "weeks",
        "JAX: one vendor text says only PyTorch-native code pays well, another that JAX is fine."
        " Try a short run first.",
    ),
    "tensorflow": ("months", "Neuron trains PyTorch and JAX: TensorFlow code is rewritten first."),
    "cuda": (
        "months",
        "Hand-written CUDA kernels are rewritten in NKI; ask 'cuda' for what your packages need.",
    ),
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
    figures={
        "port_usd": "engineer-months x USD a year / 12 + recompiling",
        "engineer_months": "as typed, else those of the stated effort",
        "bill_usd": "as typed",
        "runs": "as typed",
        "horizon_months": "as typed",
        "saving_ratio": "as typed, else of the stated effort, else 30 to 40 %",
        "saved_usd": "bill x saving",
        "pays_after": "port / saved each month or run, rounded up to a tenth",
        "balance_usd": "saved each month or run x their number - port",
    },
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
    refuse_amounts(
        10**12,
        bill_usd=bill_usd,
        eng_usd_year=eng_usd_year,
        recompile_usd=recompile_usd,
        months=months,
    )
    refuse(
        (
            not 1 <= horizon <= 120 or (runs is not None and not 1 <= runs <= 10**6),
            "horizon is 1 to 120 months, runs is 1 or more.",
        )
    )

    # Who says how many months it takes needs no preset, unless they name one for its saving.
    class_, stack_words = STACKS.get(stack, ("", ""))
    name = preset or ("" if months is not None else class_ or _USUAL)
    presets = {effort.name: effort for effort in claims.efforts}
    effort = find_named(f"'{name}' is not a preset", name, presets) if name else None
    if months is None:
        months = effort.months_high if effort else Decimal(2)

    low, high = _saving_range(saving, effort)

    return breakeven_card(
        Porting(months, eng_usd_year, bill_usd, low, high, runs, recompile_usd),
        effort,
        claims.of("risk"),
        stack_words,
        horizon,
        request.at.date(),
    )


def _saving_range(text: str, effort: Effort | None) -> tuple[Decimal, Decimal]:
    """Read `35%`, `0.35` or `30-40%`; the preset's own, else 30-40 %, where nothing is said."""
    if not text:
        usual = effort.saving_ratio if effort else None
        return (Decimal("0.30"), Decimal("0.40")) if usual is None else (usual, usual)

    match = re.fullmatch(r"(-?[\d.]+)(?:\s*-\s*([\d.]+))?\s*(%?)", text.strip())
    try:
        ends = [Decimal(end) for end in (match[1], match[2]) if end] if match else []
    except ArithmeticError:
        ends = []

    # A saving above 1 can only be meant in percent.
    shares = [end / 100 if (match and match[3]) or end > 1 else end for end in ends]
    if not shares or not all(-1 <= share <= 1 for share in shares):
        raise WrongInput(f"'{text}' is not a saving; write it like 35% or 30-40%.")

    return min(shares), max(shares)
