"""Show when a port pays, at the low and the high saving, with what the answer leaves out."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

from bot.advice.breakeven import Payback, Porting, outcomes
from bot.cards.card import Align, Block, Button, Buttons, Card, Column, Facts, Table, Tone, quiet, text
from bot.cards.money import usd
from bot.cards.words import counted
from bot.model.claims import Effort, Note

_R = Align.RIGHT


def breakeven_card(port: Porting, effort: Effort | None, risks: Sequence[Note], stack: str, horizon_months: int) -> Card:
    """Draw the verdict first: yes, it depends, or no."""
    found = outcomes(port, horizon_months)
    pays = [one.balance > 0 for one in found]
    blocks: list[Block] = [text(_verdict(port, found, pays, horizon_months)), _facts(port), _table(port, found, horizon_months)]
    if stack:
        blocks.append(text(stack))
    if effort:
        blocks.append(quiet(f"Effort '{effort.name}': {effort.says} ({effort.source}, {effort.asof})."))
    blocks += [quiet(f"Risk, {x.subject}: {x.says} ({x.state}; {x.source}, {x.asof}).") for x in risks]
    blocks.append(
        quiet("An estimate from what you typed; nothing of it was measured. Savings of vendors are claims: compare a run.")
    )
    blocks.append(
        Buttons((Button("Ten questions", "decide"), Button("A stated case", f"breakeven {port.bill_usd:f} preset=case")))
    )
    tone = Tone.GOOD if all(pays) else Tone.WARNING if not any(pays) else Tone.INFO
    return Card(_title(port, found, pays), tone, tuple(blocks), _data(port, found, horizon_months))


def _title(port: Porting, found: Sequence[Payback], pays: Sequence[bool]) -> str:
    if port.runs is not None:
        advice = "Port" if all(pays) else "It depends" if any(pays) else "Stay on GPUs"
        return f"{advice}: {counted(port.runs, 'run')}, {usd(port.cost)} to port"
    months = sorted(one.periods for one in found if one.periods is not None)
    if not months:
        return "Porting never pays back"
    ends = list(dict.fromkeys(f"{x.normalize():f}" for x in months))
    ends += ["never"] if len(months) < len(found) else []
    return f"Porting for {usd(port.cost)} pays back after {' to '.join(ends)} months"


def _verdict(port: Porting, found: Sequence[Payback], pays: Sequence[bool], horizon_months: int) -> str:
    span = f"{horizon_months} months" if port.runs is None else counted(port.runs, "run")
    if all(pays):
        return f"Yes: within {span} it saves more than it costs, also at the low saving."
    if any(pays):
        return f"It depends on the saving: within {span} only the high one pays for the port."
    saved = max(one.balance for one in found) + port.cost
    gain = f"saves {usd(saved)} at most" if saved > 0 else "saves nothing"
    return f"No: within {span} it {gain}, and costs {usd(port.cost)}."


def _facts(port: Porting) -> Facts:
    months = f"{port.months.normalize():f} engineer-month{'' if port.months == 1 else 's'}"
    work = f"{months} at {usd(port.usd_per_year)} a year"
    bill = f"{usd(port.bill_usd)} {'a month' if port.runs is None else 'a run'}"
    again = [("compiling anew", usd(port.recompile_usd))] if port.recompile_usd else []
    return Facts((("port", f"{usd(port.cost)} ({work})"), *again, ("GPU bill", bill)))


def _table(port: Porting, found: Sequence[Payback], horizon_months: int) -> Table:
    unit = "month" if port.runs is None else "run"
    after = f"after {counted(horizon_months if port.runs is None else port.runs, unit)}"
    columns = (Column("saving", _R), Column(f"saved a {unit}", _R), Column("pays after", _R), Column(after, _R))
    rows = tuple((_percent(x.saving), usd(x.saved_each), _periods(x, unit), usd(x.balance)) for x in found)
    return Table(columns, rows)


def _percent(share: Decimal) -> str:
    return f"{(share * 100).normalize():f} %"


def _periods(one: Payback, unit: str) -> str:
    return "never" if one.periods is None else f"{one.periods.normalize():f} {unit}{'' if one.periods == 1 else 's'}"


def _data(port: Porting, found: Sequence[Payback], horizon_months: int) -> dict[str, object]:
    return {
        "port_usd": port.cost,
        "engineer_months": port.months,
        "bill_usd": port.bill_usd,
        "runs": port.runs,
        "horizon_months": horizon_months,
        "outcomes": [
            {"saving_ratio": x.saving, "saved_usd": x.saved_each, "pays_after": x.periods, "balance_usd": x.balance}
            for x in found
        ],
    }
