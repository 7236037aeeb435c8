"""Stand up the real watch, store and surfaces between the two platforms, and let incidents happen by a seed."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
from aiohttp import ClientSession, web

from adapters.chat.config import SlackConfig, TeamsConfig
from adapters.chat.slack.surface import SlackSurface
from adapters.chat.teams.surface import TeamsSurface
from adapters.store.open import open_store
from bot.app import App
from bot.grammar.access import Access
from bot.model.alert import Alert
from bot.model.anomaly import Detection
from bot.model.causes import Cause, Severity
from bot.model.frame import Frame
from bot.model.labels import Labels
from bot.model.policy import Policy
from bot.model.reading import Reading
from bot.model.window import Window
from bot.policy.schema import default_policy
from bot.ports import ChatPorts
from tests.builders import NOON, anomaly, nodes, with_parts
from tests.house.fakes import Fleet, app
from tests.storm.slackside import SlackSide
from tests.storm.teamsside import TeamsSide

MINUTE = timedelta(minutes=1)
OPS, LEAD, TEAMS = "C01OPS", "C02LEAD", "19:ops@thread.tacv2"
CHANNELS = (f"slack:{OPS}", f"slack:{LEAD}", f"teams:{TEAMS}")
NAMES = ("ash", "birch", "cedar", "elm", "fir", "hazel", "larch", "oak")
METRIC = "neuroncore_utilization_ratio"


@dataclass(frozen=True)
class Plan:
    """Say of one cluster from when to when its incident lasts (minutes), what it costs an hour, and when that triples."""

    start: int
    end: int
    usd: int
    dearer_at: int
    critical: bool

    def usd_at(self, minute: float) -> int:
        return self.usd * (3 if minute >= self.dearer_at else 1)


def plans(seed: int) -> dict[str, Plan]:
    """Open, change and end incidents before, in and after the ten minutes."""
    dice = random.Random(seed)
    found = {}
    for name in NAMES:
        start = dice.randint(-4, 9)
        end = start + dice.choice((2, 4, 7, 15))
        found[name] = Plan(
            start,
            end,
            dice.choice((40, 90, 300, 700)) + dice.randint(0, 30),
            dice.randint(0, 12),
            dice.random() < 0.2,
        )
    return found


class Incidents:
    """Detects what the plans say, by the time alone."""

    def __init__(self, found: dict[str, Plan]) -> None:
        self.plans = found

    def __call__(self, reading: Reading, policy: Policy, known: Sequence[Alert]) -> Detection:
        minute = (reading.now - NOON) / MINUTE
        return Detection(
            tuple(
                self.one(n, p, minute, reading.now)
                for n, p in self.plans.items()
                if p.start <= minute < p.end
            )
        )

    def one(self, name: str, plan: Plan, minute: float, now: datetime) -> Any:
        severity = Severity.CRITICAL if plan.critical else Severity.WARNING
        window = Window(NOON + (plan.start - 10) * MINUTE, now)
        usd = Decimal(plan.usd_at(minute))
        return anomaly(
            Cause.HUNG,
            cluster=name,
            usd_per_hour=usd,
            wasted_shares=(),
            severity=severity,
            window=window,
        )


class Charted(Fleet):
    """Reads a frame too, so that every message has a chart to upload."""

    def read(self, now: datetime) -> Reading:
        things = tuple(
            Labels(cluster=name, instance=one) for name in NAMES for one in nodes(4, name)
        )
        values = np.full((len(things), 72, 1), 0.2, dtype=np.float32)
        frame = Frame("node", things, now - 72 * 5 * MINUTE, 5 * MINUTE, (METRIC,), values)
        return replace(super().read(now), frames={"node": frame})


@dataclass
class World:
    """Hold everything of one run."""

    bot: App
    slack: SlackSide
    teams: TeamsSide
    plans: dict[str, Plan]
    database: str


@asynccontextmanager
async def world(
    seed: int,
    folder: Path,
    slack: SlackSide,
    teams: TeamsSide,
    *,
    admins: tuple[str, ...] = (),
    found: dict[str, Plan] | None = None,
) -> AsyncIterator[World]:
    """Serve both platforms on loopback and join a bot to them; incidents go by `found`, else by the seed."""
    runner = web.AppRunner(made := web.Application(), access_log=None, shutdown_timeout=0.1)
    made.add_routes([*slack.routes(), *teams.routes()])
    url = await _served(runner)
    slack.url = url
    database = f"sqlite:///{folder}/storm.db"
    store: Any = open_store(database)
    surfaces = _surfaces(url, store)
    door = web.AppRunner(heard := web.Application(), access_log=None, shutdown_timeout=0.1)
    heard.add_routes(surfaces["teams"].routes())
    await _introduce(await _served(door), url)
    found = found or plans(seed)
    policy = default_policy()
    base = replace(policy, values={**policy.values, "alert.resolve_after": 2 * MINUTE})
    ports = app(Incidents(found), surfaces["slack"], store, fleet=Charted()).ports  # type: ignore[arg-type]
    bot = App(
        with_parts(ports, base=base, surfaces=surfaces),
        CHANNELS,
        Access(admins),
        stopwatch=lambda: 0.0,
    )
    try:
        yield World(bot, slack, teams, found, database)
    finally:
        for surface in surfaces.values():
            await surface.stop()
        await door.cleanup()
        await runner.cleanup()
        store.close()


async def _served(runner: web.AppRunner) -> str:
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    return f"http://127.0.0.1:{runner.addresses[0][1]}"


def _surfaces(url: str, store: Any) -> dict[str, Any]:
    async def nobody(_: Any) -> Any:
        raise AssertionError("nobody asks")

    ports = ChatPorts(nobody, lambda: NOON, lambda _: b"\x89PNG", store, store)
    slack = SlackSurface(
        SlackConfig(bot_token="xoxb-1", signing_secret="s", api_url=f"{url}/api/"), ports
    )
    return {"slack": slack, "teams": TeamsSurface(TeamsConfig(development=True), ports, nobody)}


async def _introduce(door: str, service_url: str) -> None:
    """Let Teams say that the bot was added to the channel, as it does once, long before anything fails."""
    account = {"id": "28:bot", "name": "trnbot"}
    conversation = {"id": TEAMS, "conversationType": "channel", "tenantId": "T1", "isGroup": True}
    activity = {
        "type": "conversationUpdate",
        "id": "a1",
        "channelId": "msteams",
        "serviceUrl": service_url,
        "recipient": account,
    }
    activity |= {"from": {"id": "29:dana", "name": "Dana"}, "conversation": conversation}
    async with (
        ClientSession() as session,
        session.post(f"{door}/api/messages", json=activity) as answer,
    ):
        assert answer.status == 200
    await asyncio.sleep(1)
