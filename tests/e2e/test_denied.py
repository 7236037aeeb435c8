"""AWS denies everything, or its tokens expire, for some ticks: admins read one message in Slack, and one when it is over.

A tick comes once a minute at the most often, so this takes six minutes a way: TRNBOT_LONG=1 make e2e.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.aws_live.faults import Faults
from tests.aws_live.standin import StandIn, environment, simulated
from tests.e2e.product import Product, product
from tests.e2e.slackserver import SlackServer, free_port, slack_server
from tests.e2e.test_product import slack_settings, until

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.timeout(900),
    pytest.mark.skipif(
        not os.environ.get("TRNBOT_LONG"), reason="takes twelve minutes; TRNBOT_LONG=1 asks for it"
    ),
]
TOLD, OVER = "alerts may be missing", "Everything is read again"
TICKS_S = 240.0
"""Four ticks: an hour of them differs in nothing that the bot could see."""


@contextmanager
def stood_in(folder: Path) -> Iterator[tuple[StandIn, dict[str, str]]]:
    began = datetime.now(UTC)
    world = StandIn(simulated(folder, began, 2.25), lambda: datetime.now(UTC))
    try:
        yield world, environment(world, world.start())
    finally:
        world.stop()


def denied(faults: Faults) -> None:
    faults.denied |= {"cloudwatch:GetMetricData", "cloudwatch:ListMetrics", "ec2:DescribeInstances"}


def expired(faults: Faults) -> None:
    faults.expired = True


async def said(server: SlackServer, words: str) -> list[dict[str, Any]]:
    """Return the messages with these words anywhere, private ones to admins included."""
    channels = (await server.control("state"))["channels"]
    every = [one for channel in channels for one in await server.messages(channel["id"])]
    return [one for one in every if words in json.dumps(one, ensure_ascii=False)]


@pytest.mark.parametrize("trouble", [denied, expired])
async def test_admins_are_told_once_that_aws_refuses_and_once_that_it_answers_again(
    tmp_path: Path, trouble: Any
) -> None:
    port = free_port()
    with stood_in(tmp_path) as (world, aws), slack_server("socket", tmp_path, port) as server:
        settings = (
            slack_settings(server, "socket") | aws | {"TRNBOT_INTERVAL": "1m", "TRNBOT_SPEED": "1"}
        )
        with product(tmp_path, port, settings) as bot:
            await until(lambda: ticked(bot, 1), "the first tick", 150)
            trouble(world.faults)
            await until(lambda: said(server, TOLD), "that nothing is read", TICKS_S + 60)
            assert not bot.health()["ok"]
            await asyncio.sleep(70)  # one more tick, and nobody is told again
            assert len(await said(server, TOLD)) == 1
            world.faults.end()
            await until(lambda: said(server, OVER), "that all is read again", TICKS_S)
            assert len(await said(server, TOLD)) == len(await said(server, OVER)) == 1
            assert bot.health()["ok"]
            assert not await said(server, "no_data"), "silence of the bot's own eyes is no alert"


async def ticked(bot: Product, least: int) -> bool:
    return int(bot.health().get("ticks") or 0) >= least
