"""A refusal names the argument that is wrong, so that a form says so under the right field."""

from __future__ import annotations

import pytest

from bot.errors import WrongInput
from bot.model.labels import Labels
from bot.policy.file import read_changes
from tests.builders import NOON, anomaly
from tests.house.fakes import Chat, Script, app, ask


@pytest.mark.parametrize(
    ("words", "argument"),
    [
        ("length=9z", "length"),
        ("length=90d", "length"),
        ("until=yesterday-ish", "until"),
        ("length=1h until=2020-01-01", "until"),
        ("length=1h ceiling=much", "ceiling"),
        ("length=1h ceiling=much until=18:00", "ceiling"),
        ("length=1h sure=perhaps", "sure"),
        ("length=1h length=2h", ""),
    ],
)
async def test_a_wrong_snooze_blames_the_field_that_is_wrong(words: str, argument: str) -> None:
    bot = app(Script(anomaly()), Chat())
    (alert,) = (await bot.tick(NOON)).outcome.alerts
    refused = await bot.answer(ask(f"snooze {alert.id} {words}"))
    assert refused.data.get("error")
    assert refused.data.get("argument", "") == argument


def test_of_several_wrong_settings_the_first_is_blamed() -> None:
    with pytest.raises(WrongInput, match=r"idle\.below.*idle\.for") as refused:
        read_changes([("idle.below", "much"), ("idle.for", "9z")], Labels())
    assert refused.value.argument == "idle.below"
