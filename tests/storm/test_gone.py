"""What people take away (a channel, a token, the bot itself, a message) is told to an admin once, over real HTTP."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from tests.builders import NOON
from tests.storm.faults import Faults
from tests.storm.loop import simulate
from tests.storm.slackside import SlackSide
from tests.storm.teamsside import TeamsSide
from tests.storm.world import LEAD, MINUTE, OPS, TEAMS, Plan, World, world

PLANS = {"ash": Plan(0, 30, 300, 99, False), "birch": Plan(10, 30, 90, 99, False)}
"""One incident from the start, another from the tenth minute; both end at the thirtieth."""
DANA, KIM = "slack:U1", "teams:29:kim"
Play = Callable[[World], Awaitable[Any]]


def played(folder: Path, play: Play, *admins: str) -> Any:
    async def run() -> Any:
        slack, teams = SlackSide(Faults(0, 0, 0)), TeamsSide(Faults(0, 0, 0))
        async with world(0, folder, slack, teams, admins=admins, found=PLANS) as there:
            return await play(there)

    return simulate(run())


async def ticks(there: World, first: int, last: int) -> None:
    for minute in range(first, last, 5):
        await there.bot.tick(NOON + minute * MINUTE)


def told(there: World, about: str = "Nothing reaches") -> list[str]:
    """Return what the admins were told of channels, in Slack and in Teams."""
    slack = [str(m["text"]) for m in there.slack.heads("DU1")]
    teams = [str(m.get("summary")) for m in there.teams.messages.values()]
    return [said for said in slack + teams if about in said]


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("channel_not_found", "knows no channel"),
        ("is_archived", "is archived"),
        ("not_in_channel", "type /invite"),
    ],
)
def test_a_channel_that_is_gone_is_told_once_and_so_is_its_return(
    tmp_path: Path, code: str, words: str
) -> None:
    async def play(there: World) -> None:
        there.slack.broken[LEAD] = code
        await ticks(there, 0, 45)
        (said,) = told(there)
        assert LEAD in said
        assert words in said
        assert there.bot.health.undelivered
        del there.slack.broken[LEAD]
        await ticks(there, 45, 60)
        assert len(told(there, "again")) == 1
        assert len(told(there)) == 1
        assert ["OVER" in str(m) for m in there.slack.heads(LEAD)] == [True, True]

    played(tmp_path, play, DANA)


def test_a_revoked_token_is_told_on_the_other_platform_once(tmp_path: Path) -> None:
    async def play(there: World) -> None:
        there.slack.broken[""] = "token_revoked"
        await ticks(there, 0, 30)
        said = told(there)
        assert len(said) == 2, "one for each channel"
        assert all("token was revoked" in one for one in said)
        assert len(there.teams.messages) == 2 + 2

    played(tmp_path, play, DANA, KIM)


def test_a_bot_that_was_removed_from_a_team_is_told_in_slack_once(tmp_path: Path) -> None:
    async def play(there: World) -> None:
        there.teams.left = TEAMS
        await ticks(there, 0, 30)
        said = [str(m["text"]) for m in there.slack.heads("DU1")]
        assert len(said) == 1
        assert "is it still installed there" in said[0]

    played(tmp_path, play, DANA)


def test_a_deleted_message_is_posted_afresh_once_and_kept_up_to_date(tmp_path: Path) -> None:
    async def play(there: World) -> None:
        await ticks(there, 0, 10)
        for kept in (there.slack.messages[OPS], there.teams.messages):
            (only,) = kept
            del kept[only]
        await ticks(there, 10, 50)
        assert ["OVER" in str(m) for m in there.slack.heads(OPS)] == [True, True]
        assert ["OVER" in str(m) for m in there.teams.messages.values()] == [True, True]
        assert told(there) == []

    played(tmp_path, play, DANA)
