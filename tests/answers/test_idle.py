"""What `idle` says of a node: state and use are of one window, and its advice waits for the rule."""

from datetime import UTC, datetime

import pytest

from bot.model.anomaly import Detection, NodeState
from bot.model.causes import Cause
from tests.answers.configuring import ask
from tests.builders import anomaly, nodes
from tests.house import fakes

DAY = datetime(2026, 11, 17, tzinfo=UTC)
"""From 03:05 on two of three nodes have no runtime; `idle.for` is half an hour."""


@pytest.mark.parametrize(
    ("minute", "advice"),
    [(20, "2 only for a moment so far: wait for an alert"), (45, "such a node can be stopped")],
    ids=["a moment", "as long as the rule waits"],
)
async def test_a_node_that_stands_for_a_moment_is_not_said_to_be_free(bot, minute, advice):
    card = await ask(bot, "idle", at=DAY.replace(hour=3, minute=minute))
    assert [node["utilization_ratio"] for node in card.data["nodes"]] == [0, 0]
    assert advice in str(card.blocks)


@pytest.mark.parametrize(
    ("cause", "free"), [(Cause.ODD, False), (Cause.MEMORY_PRESSURE, False), (Cause.IDLE, True)]
)
async def test_only_a_rule_of_what_is_kept_for_nothing_sets_a_node_free(cause, free):
    still = Detection((anomaly(cause),), dict.fromkeys(nodes(4), NodeState.IDLE))
    bot = fakes.app(lambda *_: still, fakes.Chat())
    card = await bot.answer(fakes.ask("idle"))
    assert ("such a node can be stopped" in str(card.blocks)) is free
    assert ("4 only for a moment so far" in str(card.blocks)) is not free
