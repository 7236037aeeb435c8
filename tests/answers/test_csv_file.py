"""The table of another line's answer as a file, for who may ask that line."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bot.cards.card import Attachment, Buttons
from tests.builders import NOON, anomaly, with_parts
from tests.house.fakes import Chat, Script, app, ask


async def test_an_answer_with_a_table_offers_its_file_and_the_file_holds_every_row() -> None:
    bot = app(Script(anomaly()), Chat())
    await bot.tick(NOON)
    bot.ports = with_parts(bot.ports, download="https://trn.example.com/download?line={}".format)
    offered = [
        b.line
        for block in (await bot.answer(ask("alerts"))).blocks
        if isinstance(block, Buttons)
        for b in block.buttons
    ]
    assert "csv alerts" in offered
    card = await bot.answer(ask("csv alerts"))
    (file,) = [block for block in card.blocks if isinstance(block, Attachment)]
    assert (file.name, file.line, file.url) == (
        "trnbot-alerts.csv",
        "alerts",
        "https://trn.example.com/download?line=alerts",
    )
    assert len(file.content.splitlines()) == 2
    assert not [
        b
        for block in card.blocks
        if isinstance(block, Buttons)
        for b in block.buttons
        if b.line.startswith("csv")
    ]


@pytest.mark.parametrize("surface", ["web", "terminal"])
async def test_pages_and_terminals_have_ways_of_their_own(surface: str) -> None:
    bot = app(Script(anomaly()), Chat())
    await bot.tick(NOON)
    card = await bot.answer(replace(ask("alerts"), surface=surface))
    assert "csv alerts" not in repr(card.blocks)
