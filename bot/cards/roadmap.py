"""Show what is said of the next chips, and what waiting for them would mean."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

from bot.advice.wait import Waiting
from bot.cards.card import Align, Block, Button, Buttons, Card, Column, Table, Tone, quiet, text
from bot.cards.money import usd
from bot.cards.notes import note_lines, notes_data
from bot.model.claims import Chip, Note

_LONG_MONTHS = 6
NO_FASTER = 1.05
"""Speed-up under which two chips are called alike: trnbot's own default."""


def roadmap_card(notes: Sequence[Note], energy: Sequence[Note], claims: Sequence[Note]) -> Card:
    """List the facts with their state and source; contradictions stand beside each other."""
    blocks: list[Block] = [
        *note_lines(notes),
        *note_lines(energy, "Energy, as vendors state it: the lines contradict each other, and none is used in a sum"),
        *note_lines(claims, "Other claims: none is used in a sum"),
        quiet("Trn3 has no listed price: what it saves cannot be told, only what it may cost at most ('wait')."),
        Buttons((Button("Wait for Trn3?", "wait"), Button("Trainium or GPUs?", "decide"))),
    ]
    every = [*notes, *energy, *claims]
    return Card("What comes after Trn2, by source", Tone.INFO, tuple(blocks), {"notes": notes_data(every)})


def wait_card(found: Waiting, now: Chip, later: Chip, precision: str, wait_months: Decimal) -> Card:
    """Compare training now with waiting; Trainium3's price is a question, not a number."""
    columns = (Column("way"), Column("done after", Align.RIGHT), Column("costs", Align.RIGHT), Column("of it delay", Align.RIGHT))
    rows = (
        (f"now, {now.name}", _months(found.now_months), usd(found.now_usd), "–"),
        (f"wait, {later.name}", _months(found.later_months), usd(found.later_usd), usd(found.delay_usd)),
    )
    caption = f"The same work; {later.name} at {now.name}'s price an hour, which nobody has promised"
    blocks: list[Block] = [text(_verdict(found, later)), Table(columns, rows, caption=caption)]
    if found.now_months < _LONG_MONTHS:
        blocks.append(text(f"For less than {_LONG_MONTHS} months of work the question seldom matters: train now."))
    blocks += [quiet(_speed(found, now, later, precision)), Buttons((Button("All sources", "roadmap"),))]
    title = f"{'Waiting' if found.waits else 'Training now'} costs less, were {later.name} no dearer an hour"
    title = f"Train now: in {precision.upper()} {later.name} is no faster a chip" if found.speedup < NO_FASTER else title
    data = {
        "precision": precision,
        "speedup": found.speedup,
        "now_usd": found.now_usd,
        "wait_usd": found.later_usd,
        "delay_usd": found.delay_usd,
        "wait_months": wait_months,
        "most_price_ratio": found.most_price_ratio,
    }
    return Card(title, Tone.INFO, tuple(blocks), data)


def _verdict(found: Waiting, later: Chip) -> str:
    if found.most_price_ratio <= 0:
        return f"The delay alone costs more than all the work: waiting for {later.name} pays at no price."
    return f"Waiting pays while an hour of a {later.name} chip costs less than {found.most_price_ratio}x one of today."


def _speed(found: Waiting, now: Chip, later: Chip, precision: str) -> str:
    name = precision.upper()
    of = (now.fp8_tflops, later.fp8_tflops) if precision == "fp8" else (now.bf16_tflops, later.bf16_tflops)
    peak = f"{name} peak of a chip: {of[1]:,.0f} against {of[0]:,.0f} TFLOPS, {found.speedup:.2f}x"
    return (
        f"An estimate. {peak} ({later.source}; {now.source}; {later.asof}). Nobody reaches a peak; 4.4x is a whole UltraServer."
    )


def _months(months: Decimal) -> str:
    return f"{months.normalize():f} months"
