"""Answer whether porting pays."""

from __future__ import annotations

import re
from decimal import Decimal

from bot.advice.breakeven import Porting
from bot.cards.breakeven import breakeven_card
from bot.cards.card import Card
from bot.commands.registry import arg, command
from bot.errors import WrongInput, nearest
from bot.model.claims import Effort
from bot.model.request import Request
from bot.ports import Ports

_MOST = Decimal(10**12)
STACKS = {
    "pytorch": ("weeks", "PyTorch ports best by every vendor text."),
    "jax": (
        "weeks",
        "JAX: one vendor text says only PyTorch-native code pays well, another that JAX is fine. Try a short run first.",
    ),
    "tensorflow": ("months", "Neuron trains PyTorch and JAX: TensorFlow code is rewritten first."),
    "cuda": ("months", "Hand-written CUDA kernels are rewritten in NKI; ask 'cuda' for what your packages need."),
}


@command(
    "breakeven",
    "Whether porting to Trainium pays, and after how long.",
    examples=("breakeven 20000", "breakeven 20000 saving=33% preset=case", "breakeven 12500 saving=40% months=3 runs=1"),
)
async def breakeven(
    ports: Ports,
    request: Request,
    bill_usd: Decimal = arg("20000", "USD of GPU training a month; of one run with runs="),
    saving: str = arg("", "the share saved, such as 35% or 30-40%; 30-40% or the preset's when left out", keyword=True),
    months: Decimal | None = arg("", "engineer-months that the port takes; the preset's when left out", keyword=True),
    eng_usd_year: Decimal = arg("200000", "USD of an engineer a year", keyword=True),
    preset: str = arg("", "days, weeks, months, two-months, or case", keyword=True),
    stack: str = arg("", "what the code is written in", choices=("", *STACKS), keyword=True),
    runs: int | None = arg("", "how often it will be trained in all; every month when left out", keyword=True),
    recompile_usd: Decimal = arg("0", "what compiling anew costs, as compiled artifacts do not move", keyword=True),
    horizon: int = arg("12", "months that the answer looks ahead", keyword=True),
) -> Card:
    """Join what was typed with a preset's effort."""
    claims = ports.knowledge.claims()
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
    class_, said = STACKS.get(stack, ("", ""))
    effort = _effort(preset or ("" if months is not None else class_ or "two-months"), claims.efforts)
    low, high = _saving(saving, effort)
    taken = months if months is not None else (effort.months_high if effort else Decimal(2))
    port = Porting(taken, eng_usd_year, bill_usd, low, high, runs, recompile_usd)
    return breakeven_card(port, effort, claims.of("risk"), said, horizon)


def _effort(name: str, known: tuple[Effort, ...]) -> Effort | None:
    if not name:
        return None
    found = {x.name: x for x in known}
    if name not in found:
        raise WrongInput(f"'{name}' is no preset{nearest(name, found)}.")
    return found[name]


def _saving(text: str, effort: Effort | None) -> tuple[Decimal, Decimal]:
    """Read `35%`, `0.35` or `30-40%`; the preset's own, else 30-40 %, where nothing is said."""
    if not text:
        own = effort.saving_ratio if effort else None
        return (own, own) if own is not None else (Decimal("0.30"), Decimal("0.40"))
    found = re.fullmatch(r"(-?[\d.]+)(?:\s*-\s*([\d.]+))?\s*(%?)", text.strip())
    try:
        parts = [Decimal(x) for x in (found[1], found[2]) if x] if found else []
    except ArithmeticError:
        parts = []
    shares = [x / 100 if (found and found[3]) or x > 1 else x for x in parts]
    if not shares or not all(-1 <= x <= 1 for x in shares):
        raise WrongInput(f"'{text}' is not a saving; write it like 35% or 30-40%.")
    return min(shares), max(shares)
