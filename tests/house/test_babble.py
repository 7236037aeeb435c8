"""Six thousand lines, near the grammar and far from it: no failure of our own, and no change without leave.

The payloads of Slack and Teams are in their folders: two thousand of each.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Iterator

import pytest

from bot.model.request import Request, User
from tests.babble import lines
from tests.belonging import MEMBER
from tests.guarded import Guarded, guarded, later

LINES = (700, pytest.param(6_000, marks=pytest.mark.slow))
ADMIN = "U1"


@pytest.fixture
async def behind() -> Guarded:
    return await guarded(f"slack:{ADMIN}", f"teams:{ADMIN}", f"web:{ADMIN}")


@pytest.fixture
def quiet(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Fail when anything was logged with a traceback."""
    caplog.set_level(logging.INFO)
    yield
    found = [
        record for record in caplog.records if record.exc_info or "Traceback" in record.getMessage()
    ]
    assert found == [], [record.getMessage() for record in found[:3]]


@pytest.mark.timeout(300)
@pytest.mark.parametrize("count", LINES)
@pytest.mark.usefixtures("quiet")
async def test_no_line_breaks_the_bot_or_changes_what_its_person_may_not(
    behind: Guarded, count: int
) -> None:
    dice = random.Random(5)
    for n, line in zip(range(count), lines(dice, behind.alert), strict=False):
        user = f"{dice.choice(('slack', 'teams', 'web'))}:{dice.choice((ADMIN, 'U2', ''))}"
        await behind.answer(
            Request(
                line,
                User(user, "dana"),
                later(),
                user.partition(":")[0],
                MEMBER,
                dice.choice(("", "chat:ops")),
                "",
            )
        )
        if n % 500 == 0:
            await forget(behind)
    assert behind.wrong == []


async def forget(behind: Guarded) -> None:
    """Take back what was decided rightly, so that the state stays small."""
    for silence in behind.store.load(later()).silences:
        await behind.bot.answer(
            Request(f"silences drop {silence.id}", User(f"slack:{ADMIN}"), later(), "slack", MEMBER)
        )
