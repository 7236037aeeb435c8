"""Two hundred activities that Microsoft never signed, and some that it signed once: the bot does nothing for any of them."""

from __future__ import annotations

import time
from typing import Any

import pytest

from tests.guarded import Guarded, guarded
from tests.teams.signing import APP, SECRET, cloud, token
from tests.teams.test_trust import BAD


@pytest.fixture
async def behind() -> Guarded:
    return await guarded("teams:29:dana")


@pytest.fixture
async def door(new_bot: Any, login: Any, behind: Guarded) -> Any:
    known = {"app_id": APP, "app_password": SECRET, "tenant_id": "T1", "development": False}
    made = await new_bot(**known, cloud=cloud(login), shelf=behind.door)
    made.answer = behind.answer
    return made


def said(door: Any, line: str) -> dict[str, Any]:
    return dict(door.activity(text=line, id=f"m {line}"))


def pressed(door: Any, line: str) -> dict[str, Any]:
    value = {
        "action": {"type": "Action.Execute", "verb": "line", "data": {"line": line}},
        "trigger": "manual",
    }
    return dict(
        door.activity(
            type="invoke", name="adaptiveCard/action", value=value, replyToId="m1", id=f"p {line}"
        )
    )


FORGERIES = BAD | {
    "expired a second ago, beyond all leeway": lambda bot: token(bot, exp=int(time.time()) - 301),
    "for nobody": lambda bot: token(bot, aud=""),
    "by nobody": lambda bot: token(bot, iss=""),
    "cut short": lambda bot: token(bot)[:-5],
}


@pytest.mark.parametrize("name", FORGERIES)
async def test_nothing_is_done_for_an_activity_that_microsoft_did_not_sign(
    door: Any, behind: Guarded, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    before, activities = (
        behind.state(),
        [make(door, line) for line in behind.lines() for make in (said, pressed)],
    )
    statuses = [(await door.send(activity, FORGERIES[name](door)))[0] for activity in activities]
    await door.settled()
    assert statuses == [401] * len(activities)
    assert (behind.asked, behind.state()) == ([], before)
    assert SECRET not in caplog.text


@pytest.mark.parametrize("make", [said, pressed])
async def test_what_was_signed_once_is_done_once_however_often_it_comes(
    door: Any, behind: Guarded, make: Any
) -> None:
    for line in behind.lines()[:3]:
        activity, passed, after = make(door, line), token(door), ""
        for _ in range(20):
            assert (await door.send(activity, passed))[0] == 200
            await door.settled()
            after = after or behind.state()
            assert behind.state() == after
    assert [request.line for request in behind.asked] == list(behind.lines()[:3])
    assert behind.wrong == []
