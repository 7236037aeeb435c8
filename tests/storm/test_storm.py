"""Ten minutes in which Slack and Teams fail over real HTTP: everything is told afterwards, worst first, nothing twice.

The time is simulated, the adapters, the SDKs, the sockets and the database are real. `make test` plays one
seed, `make test-all` six; STORMS=200 plays two hundred.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import create_engine, text

from bot.policy.schema import default_policy
from tests.builders import NOON
from tests.house.fakes import ask
from tests.storm.faults import AFTER, BEFORE, Faults
from tests.storm.loop import simulate
from tests.storm.slackside import SPEAKING, SlackSide
from tests.storm.teamsside import TeamsSide
from tests.storm.world import CHANNELS, LEAD, MINUTE, OPS, World, world

SEEDS = int(os.environ.get("STORMS", "6"))
BEGIN, STORM, CALM, END = -5, 10, 15, 32
"""Minutes: the first tick, the end of the storm that begins at 0, when all must be told, the last tick."""
LONGEST_LIMIT_S = 120
"""How long the storm's last limit may hold."""
LEAD_IN_S = 600
"""Simulated seconds before the storm."""
COSTLY = default_policy().values["alert.critical_usd_per_hour"]
ID = re.compile(r"why (a[0-9a-f]{9})")
PRESSES = {2: "ack", 6: "unack", 8: "ack"}
"""What is typed about the first open alert after the ticks of these minutes."""
Event = tuple[str, datetime]


@dataclass
class Seen:
    """Hold what one run left behind."""

    there: World
    events: list[Event]
    begun_s: list[float]
    """When each event began, in simulated seconds."""
    calm: dict[str, dict[str, str]]
    """What each channel said of each incident when all had to be told."""


def run(seed: int, folder: Path, faults: tuple[str, ...], again: Sequence[Event] = ()) -> Seen:
    """Play a seed with these faults; or the very events of another run, in good weather."""
    folder.mkdir()
    return simulate(_run(seed, folder, faults, again))


async def _run(seed: int, folder: Path, ways: tuple[str, ...], again: Sequence[Event]) -> Seen:
    share = 0.25 if ways else 1.0
    end_s = LEAD_IN_S + STORM * 60
    slack = SlackSide(Faults(seed, LEAD_IN_S, end_s, ways, share))
    teams = TeamsSide(
        Faults(seed + 1, LEAD_IN_S, end_s, tuple(w for w in ways if w != "text"), share)
    )
    async with world(seed, folder, slack, teams) as there:
        seen = Seen(there, [], [], {})
        if again:
            for event in again:
                await _happen(seen, *event)
            return seen
        minute = BEGIN
        while minute < END:
            await asyncio.sleep(
                max(0.0, LEAD_IN_S + minute * 60 - asyncio.get_running_loop().time())
            )
            await _happen(seen, "tick", NOON + minute * MINUTE)
            if minute in PRESSES and (alert := _first_open(there)):
                await _happen(
                    seen,
                    f"{PRESSES[minute]} {alert}",
                    NOON + minute * MINUTE + timedelta(seconds=20),
                )
            late_s = asyncio.get_running_loop().time() - LEAD_IN_S
            minute = max(minute + 1, int(-(-late_s // 60)))
        return seen


async def _happen(seen: Seen, what: str, at: datetime) -> None:
    seen.events.append((what, at))
    seen.begun_s.append(asyncio.get_running_loop().time())
    if what == "tick":
        await seen.there.bot.tick(at)
    else:
        await seen.there.bot.answer(ask(what, at=at))
    if at >= NOON + CALM * MINUTE and not seen.calm:
        seen.calm = {
            channel: {key: _state(body) for key, body in held(seen, channel)}
            for channel in CHANNELS
        }


def _first_open(there: World) -> str:
    alerts = there.bot.ports.stores.alerts.load(NOON).alerts
    return min((a.id for a in alerts if a.firing), default="")


def held(seen: Seen, channel: str) -> list[tuple[str, Any]]:
    """Return each message of a channel as it stands last, by the alert it is about."""
    platform, _, name = channel.partition(":")
    bodies = (
        seen.there.slack.heads(name)
        if platform == "slack"
        else list(seen.there.teams.messages.values())
    )
    return [(ID.findall(str(body))[0], _shown(body)) for body in bodies]


def _shown(body: Any) -> str:
    """Return what people read: no ids of files, which differ from one upload to the next, and no picture that never came."""
    blocks = body.get("blocks") or body["attachments"][0]["content"]
    return re.sub(
        r"'F\d+'",
        "'F'",
        str([b for b in blocks if not _picture(b)] if isinstance(blocks, list) else blocks),
    )


def _picture(block: Any) -> bool:
    return block["type"] == "image" or (
        "utilization" in str(block).lower() and block["type"] == "context"
    )


def _state(shown: str) -> str:
    return f"{'OVER' if 'OVER after' in shown else 'FIRING'}{' acknowledged' if 'cknowledged by' in shown else ''}"


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, SEEDS))]
)
def test_all_is_told_after_the_storm_once_and_as_in_good_weather(seed: int, tmp_path: Path) -> None:
    stormy = run(seed, tmp_path / "stormy", BEFORE + AFTER)
    fair = run(seed, tmp_path / "fair", (), stormy.events)
    there, slack, teams = stormy.there, stormy.there.slack, stormy.there.teams
    assert sum(slack.door.faults.met.values()) > 10
    assert stormy.calm == fair.calm, "fifteen minutes after it began"
    for channel in CHANNELS[:2]:
        assert len(held(stormy, channel)) == len(dict(held(stormy, channel))), (
            f"doubled in {channel}"
        )
        assert dict(held(stormy, channel)) == dict(held(fair, channel))
    unheard = Counter(
        ID.findall(str(body))[0] for kind, body in teams.door.unanswered if kind == "post"
    )
    copies = Counter(key for key, _ in held(stormy, CHANNELS[2]))
    assert copies == Counter(set(copies)) + unheard - Counter(), (
        "Teams cannot tell: one more for each answer that was lost"
    )
    assert dict(held(stormy, CHANNELS[2])) == dict(held(fair, CHANNELS[2])), (
        "the newest of them is kept up to date"
    )
    assert there.bot.health.undelivered == ()
    _keeps_to_the_pace(slack, teams)
    _says_the_worst_first(stormy)
    _says_every_line_once(stormy, fair)


def _keeps_to_the_pace(slack: SlackSide, teams: TeamsSide) -> None:
    assert slack.door.hasty == []
    assert teams.door.hasty == []
    for channel in (OPS, LEAD):
        times = [at for at, method, where in slack.came if where == channel and method in SPEAKING]
        assert min(b - a for a, b in pairwise(times)) >= 0.999
    for most, span in ((7, 1.0), (8, 2.0), (60, 30.0)):
        assert all(
            b - a >= span - 0.001 for a, b in zip(teams.came, teams.came[most:], strict=False)
        ), (most, teams.came)


def _says_the_worst_first(seen: Seen) -> None:
    posted = [(at, channel, str(body["text"])) for at, channel, body in seen.there.slack.posted]
    posted += [(at, CHANNELS[2], str(body["summary"])) for at, body in seen.there.teams.posted]
    storm_s = (LEAD_IN_S, LEAD_IN_S + STORM * 60)
    for (_, now), begin, end in zip(
        seen.events, seen.begun_s, [*seen.begun_s[1:], 1e9], strict=True
    ):
        if storm_s[0] <= begin < storm_s[1] + LONGEST_LIMIT_S:
            continue  # the worst was tried first, and may be the very one that failed, or waits for a limit
        for channel in {channel for _, channel, _ in posted}:
            firsts = [
                said
                for at, where, said in posted
                if begin <= at < end and where == channel and "FIRING" in said
            ]
            ranks = [_rank(seen, said, (now - NOON) / MINUTE) for said in dict.fromkeys(firsts)]
            assert ranks == sorted(ranks), f"{channel} at {begin:.0f} s: {firsts}"


def _rank(seen: Seen, said: str, minute: float) -> tuple[bool, int]:
    plan = next(plan for name, plan in seen.there.plans.items() if name in said)
    usd = plan.usd_at(minute)
    return not (plan.critical or usd >= COSTLY), -usd


def _says_every_line_once(stormy: Seen, fair: Seen) -> None:
    """Each line stands in its thread, but for those that a message posted later than they were decided shows itself."""
    for channel in (OPS, LEAD):
        said, usual = lines(stormy, channel), lines(fair, channel)
        assert max(said.values(), default=1) == 1
        late = {
            key
            for key in usual - said
            if shown_by(stormy, key) in stormy.there.slack.messages[channel]
        }
        assert usual.keys() == said.keys() | late
    assert not stormy.there.bot.ports.stores.alerts.load(NOON + END * MINUTE).lines


def lines(seen: Seen, channel: str) -> Counter[str]:
    """Count the lines of a channel's threads by their keys."""
    every = seen.there.slack.messages[channel].values()
    return Counter(str(m["metadata"]["event_payload"]["key"]) for m in every if "thread_ts" in m)


def shown_by(seen: Seen, key: str) -> str:
    """Return the message that shows what a line would have said, "" for none."""
    with create_engine(seen.there.database).connect() as connection:
        words = "SELECT lines.sent FROM lines JOIN said ON said.id = notification AND message = lines.sent WHERE lines.id = :key"
        return str(connection.execute(text(words), {"key": key}).scalar() or "")
