"""What `idle` says of a node: state and use are of one window, and its advice waits for the rule."""

from datetime import UTC, datetime

import pytest

from tests.answers.configuring import ask

DAY = datetime(2026, 11, 17, tzinfo=UTC)
"""From 03:05 on two of three nodes have no runtime; `idle.for` is half an hour."""


@pytest.mark.parametrize(
    ("minute", "advice"),
    [(20, "2 only for a moment so far: wait for an alert"), (45, "such a node can go")],
    ids=["a moment", "as long as the rule waits"],
)
async def test_a_node_that_stands_for_a_moment_is_not_said_to_be_free(bot, minute, advice):
    card = await ask(bot, "idle", at=DAY.replace(hour=3, minute=minute))
    assert [node["utilization_ratio"] for node in card.data["nodes"]] == [0, 0]
    assert advice in str(card.blocks)
