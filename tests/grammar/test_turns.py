"""Turns of one lane, in order: who used less comes first, and no turn is lost with who gave up."""

from __future__ import annotations

import asyncio

import pytest

from bot.errors import OverBudget
from bot.grammar.turns import LaneLimits, Queue


async def begun(queue: Queue, used: float) -> asyncio.Task[None]:
    task = asyncio.create_task(queue.turn(used))
    await asyncio.sleep(0)
    return task


async def test_who_used_less_comes_first_then_who_came_first() -> None:
    queue, order = Queue(LaneLimits(running=1, waiting=9, at_once=9, seconds=9)), list[str]()
    await queue.turn(0)
    for name, used in (("most", 5.0), ("first", 1.0), ("second", 1.0), ("none", 0.0)):
        (await begun(queue, used)).add_done_callback(lambda _, name=name: order.append(name))
    for _ in range(4):
        queue.next()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    assert order == ["none", "first", "second", "most"]


async def test_where_too_many_wait_who_used_most_is_refused() -> None:
    queue = Queue(LaneLimits(running=1, waiting=1, at_once=9, seconds=9))
    await queue.turn(0)
    least, most = await begun(queue, 1), await begun(queue, 2)
    with pytest.raises(OverBudget, match="1 lines are running and 1 are waiting"):
        await most
    greedy = await begun(queue, 3)
    with pytest.raises(OverBudget):
        await greedy
    queue.next()
    await least


@pytest.mark.parametrize("turn_came", [False, True])
async def test_who_gives_up_leaves_the_turn_to_the_next(turn_came: bool) -> None:
    queue = Queue(LaneLimits(running=1, waiting=9, at_once=9, seconds=9))
    await queue.turn(0)
    leaving, staying = await begun(queue, 1), await begun(queue, 2)
    if turn_came:
        queue.next()
    leaving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await leaving
    if not turn_came:
        queue.next()
    await asyncio.wait_for(staying, 5)

    # All turns are given back: the next one is there at once.
    queue.next()
    assert (await begun(queue, 9)).done()
