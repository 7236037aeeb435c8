"""Answer what is reachable, permitted and missing."""

from __future__ import annotations

import asyncio

from bot.cards.card import Align, Block, Card, Column, Table, Tone, text
from bot.commands.registry import command
from bot.model.request import Request, Role
from bot.ports import Check, Ports


@command("doctor", "What is reachable, permitted, missing, and what to do.", examples=("doctor",), who=Role.ADMIN)
async def doctor(ports: Ports, request: Request) -> Card:
    """Look at everything the bot needs."""
    checks = await asyncio.to_thread(ports.checks)
    return doctor_card(list(checks))


def doctor_card(checks: list[Check]) -> Card:
    """List the checks, the failed ones first with their remedy."""
    wrong = [check for check in checks if not check.ok]
    rows = tuple(("missing" if not c.ok else "ok", c.name, c.found) for c in sorted(checks, key=lambda c: c.ok))
    blocks: list[Block] = [Table((Column("", Align.LEFT), Column("what"), Column("found")), rows)]
    blocks += [text(f"{c.name}: {c.remedy}") for c in wrong if c.remedy]
    data = {"checks": [{"name": c.name, "ok": c.ok, "found": c.found, "remedy": c.remedy} for c in checks]}
    title = (
        f"{len(wrong)} of {len(checks)} things {'needs' if len(wrong) == 1 else 'need'} you"
        if wrong
        else "Everything needed is there"
    )
    return Card(title, Tone.WARNING if wrong else Tone.GOOD, tuple(blocks), data)
