"""The home page begins with the summary, tells an alert once, and leaves out what cannot be read."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

from bot.answers.about.summary import summary_card
from bot.cards.card import Buttons, Text, plain
from bot.errors import Unavailable
from tests.builders import NOON, anomaly, with_parts
from tests.cards.leads import WEEK, home, week
from tests.cards.samples import idle, starved
from tests.house.fakes import Chat, Script, app, ask


def words(card: Any) -> list[str]:
    return [plain(block.spans) for block in card.blocks if isinstance(block, Text)]


def test_it_begins_with_the_summary_and_tells_each_alert_once() -> None:
    card = home(week(starved(), idle()))
    assert [one.partition(":")[0] for one in words(card)[:3]] == [
        "Spend",
        "Forecast",
        "Biggest change",
    ]
    assert sum("llama-70b, 64 x" in one for one in words(card)) == 1
    assert not [one for one in words(card) if one.startswith(("Waste:", "Alert:"))]
    assert [
        button.line.split()[0]
        for button in next(b for b in card.blocks if isinstance(b, Buttons)).buttons
    ] == [
        "alert",
        "ack",
    ]


def test_a_change_that_is_nothing_of_the_spend_is_not_told_as_the_biggest() -> None:
    told = week(starved())
    assert told.change
    slight = Decimal("3.38")
    drivers = (replace(told.change.drivers[0], net=slight, amortised=slight),)
    small = replace(told.change, drivers=drivers)
    card = home(replace(told, change=small))
    assert words(card)[2] == "Biggest change: no change above 1 % of the week's spend."


async def test_what_cannot_be_read_leaves_its_lines_out() -> None:
    class Away:
        def read(self, *_: Any) -> Any:
            raise Unavailable("the source is away")

        tally = rates = commitments = read

    bot = app(Script(anomaly()), Chat())
    (alert,) = (await bot.tick(NOON)).outcome.alerts
    bot.ports = with_parts(bot.ports, source=Away(), billing=Away())
    card = await bot.answer(ask("home", at=NOON))
    assert card.data["open"] == [alert.id]
    assert words(card)[0] == "Spend: no week of the bill has settled yet."


def test_the_buttons_of_a_summary_show_the_numbers_of_its_own_week() -> None:
    of = week()
    typed = f"{WEEK.start:%Y-%m-%d}..{WEEK.end - timedelta(days=1):%Y-%m-%d}"
    for card in (summary_card(of), home(of)):
        lines = {x.line for b in card.blocks if isinstance(b, Buttons) for x in b.buttons}
        assert {f"why cost {typed}", f"cost {typed} by team"} <= lines
