"""Two thousand activities that Teams would not send: no server error, no traceback, no change without leave."""

from __future__ import annotations

import logging
import random
from typing import Any

import pytest

from tests.babble import lines, spoilt
from tests.guarded import guarded
from tests.teams.test_forged import pressed, said

ACTIVITIES = (200, pytest.param(2_000, marks=pytest.mark.slow))


def filled(bot: Any, line: str) -> dict[str, Any]:
    """Return a submitted form that stands for the line's first word, its other words filled in."""
    data = {
        "line": line.split(" ", maxsplit=1)[0],
        "form": 1,
        "fields": ["length", "reason"],
        "f1.length": line[-20:],
        "f1.reason": line,
    }
    made = pressed(bot, line)
    made["value"]["action"]["data"] = data
    return made


@pytest.mark.timeout(300)
@pytest.mark.parametrize("activities", ACTIVITIES)
async def test_no_activity_breaks_the_door_or_changes_what_its_person_may_not(
    new_bot: Any, caplog: pytest.LogCaptureFixture, activities: int
) -> None:
    caplog.set_level(logging.INFO)
    behind = await guarded("teams:29:dana")
    bot = await new_bot(shelf=behind.door)
    bot.answer, dice = behind.answer, random.Random(7)
    for n, line in zip(range(activities), lines(dice, behind.alert), strict=False):
        activity = dice.choice((said, pressed, filled))(bot, line) | {"id": f"a{n}"}
        activity["conversation"] = activity["conversation"] | {"id": f"a:{n}"}
        activity["from"] = {"id": dice.choice(("29:dana", "29:bob")), "name": "D"}
        spoiled = spoilt(dice, activity, behind.alert)
        status, _ = await bot.send(spoiled if isinstance(spoiled, dict) else {"x": spoiled})
        assert status < 500 or status == 501, spoiled
        if n % 50 == 0:
            await bot.settled()
    await bot.settled()
    assert len(behind.asked) > activities / 4
    assert behind.wrong == []
    assert behind.kept_by_the_door() <= {"teams.conversations", "teams.people", "teams.seen"}
    assert [record.getMessage() for record in caplog.records if record.exc_info] == []
