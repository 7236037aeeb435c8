"""Show which packages keep a code base on CUDA."""

from __future__ import annotations

from collections.abc import Sequence

from bot.advice.cuda import Blocked, Requirement
from bot.cards.card import Button, Buttons, Card, Column, Table, Tone, quiet, text
from bot.cards.words import counted

_MOST = 40


def cuda_card(wanted: Sequence[Requirement], blocked: Sequence[Blocked]) -> Card:
    """List what has to go, with what to take instead."""
    buttons = Buttons((Button("Does porting pay?", "breakeven"), Button("Ten questions", "decide")))
    data = {
        "packages": len(wanted),
        "blocked": [
            {"name": x.requirement.name, "text": x.requirement.text, "reason": x.reason, "instead": x.instead} for x in blocked
        ],
    }
    note = quiet(
        "By names and versions alone: code may still call torch.cuda, and a package that is not listed may need CUDA too."
    )
    if not blocked:
        return Card(f"None of {counted(len(wanted), 'package')} is known to need CUDA", Tone.GOOD, (note, buttons), data)
    rows = tuple((x.requirement.name, x.reason, x.instead) for x in blocked[:_MOST])
    rest = f"and {len(blocked) - _MOST} more" if len(blocked) > _MOST else ""
    table = Table((Column("package"), Column("why"), Column("instead")), rows, rest=rest)
    sources = quiet(f"Sources: {'; '.join(sorted({x.source for x in blocked}))}.")
    title = f"{len(blocked)} of {counted(len(wanted), 'package')} {'needs' if len(blocked) == 1 else 'need'} CUDA"
    told = text("AWS Neuron asks to take CUDA dependencies out before a model is ported; each row is work to plan.")
    return Card(title, Tone.WARNING, (told, table, note, sources, buttons), data)


def cuda_help_card() -> Card:
    """Say what to paste."""
    say = text("Paste what 'pip freeze' prints after the word cuda, or in a terminal name the file: cuda requirements.txt.")
    return Card("Which packages need CUDA?", Tone.INFO, (say,), {"packages": 0, "blocked": []})
