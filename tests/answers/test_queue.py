"""How long pods waited for a place: waits by hand, what is a start and no wait, and what is not read."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import numpy as np
import pytest

from bot.answers.fleet.queue import PENDING, queue_card, queues_of
from bot.app import App
from bot.grammar.access import Access
from bot.model.fleet import Refusal, scarcities
from bot.model.frame import Frame
from bot.model.labels import Labels
from bot.model.reading import Reading
from bot.model.window import Window
from tests.answers.configuring import ask, end, refused
from tests.builders import NOON, with_parts

FIVE, HOUR = timedelta(minutes=5), timedelta(hours=1)
NAN = float("nan")
DAY = Window(NOON - timedelta(days=1), NOON)


def frame(*clusters: list[float], now: datetime = NOON) -> Frame:
    """Return the pods that wait in clusters a, b, ... at readings of five minutes until now."""
    things = tuple(Labels(cluster="abc"[n]) for n in range(len(clusters)))
    values = np.array(clusters, dtype=np.float32)[:, :, None]
    return Frame("cluster", things, now - len(clusters[0]) * FIVE, FIVE, (PENDING,), values)


def test_a_wait_lasts_from_its_first_reading_to_its_last() -> None:
    (queue,) = queues_of(frame([0, 2, 4, 4, 0, 0, 1, 1]), DAY)
    assert [wait.length for wait in queue.waits] == [3 * FIVE, 2 * FIVE]
    assert queue.waits[0].start == NOON - 7 * FIVE
    assert (queue.waited, queue.longest) == (5 * FIVE, 3 * FIVE)
    assert queue.pod_hours == pytest.approx(12 / 12)
    assert (queue.most, queue.pending, queue.read) == (4, 1, 8 * FIVE)


def test_a_pod_that_waits_at_one_reading_is_starting() -> None:
    (queue,) = queues_of(frame([0, 3, 0, 0, 2, 0, 0, 9]), DAY)
    assert (queue.waits, queue.pod_hours, queue.most, queue.pending) == ((), 0.0, 0, 0)


def test_a_gap_is_no_wait_and_a_cluster_that_is_not_read_has_no_queue() -> None:
    whole, gone = [1, 1, NAN, 1, 1, 1], [NAN] * 6
    (queue,) = queues_of(frame(whole, gone), DAY)
    assert (queue.cluster, queue.read) == ("a", 5 * FIVE)
    assert [wait.length for wait in queue.waits] == [2 * FIVE, 3 * FIVE]


def test_only_the_window_counts_and_who_waited_longest_stands_first() -> None:
    first, second = queues_of(
        frame([1.0] * 6 + [0.0] * 6, [0.0] * 4 + [1.0] * 8), Window(NOON - HOUR / 2, NOON)
    )
    assert (first.cluster, first.waited) == ("b", 6 * FIVE)
    assert (second.cluster, second.waited) == ("a", timedelta())


def launch(n: int, at: datetime, zone: str = "us-west-2a", *, spot: bool = False) -> Refusal:
    labels = Labels(region="us-west-2", zone=zone, instance_type="trn2.48xlarge")
    return Refusal(f"r{n}", at, labels, spot)


def test_refusals_are_counted_by_place_and_in_the_window_alone() -> None:
    times = (NOON - 30 * HOUR, NOON - 3 * HOUR, NOON - HOUR)
    refusals = [launch(n, at, spot=n == 2) for n, at in enumerate(times)]
    refusals.append(launch(3, NOON - HOUR, ""))
    (place, region) = scarcities(x for x in refusals if x.at in DAY)
    assert (place.zone, place.refused, place.spot) == ("us-west-2a", 2, 1)
    assert (place.first, place.newest) == times[1:]
    assert (region.zone, region.refused) == ("us-west-2", 1)


class Source:
    """Read the frames and refusals that a test sets."""

    def __init__(self, source: Any, **parts: Any) -> None:
        self._source, self._parts = source, parts

    def read(self, now: datetime) -> Reading:
        read: Reading = self._source.read(now)
        frames = {**read.frames, **self._parts.get("frames", {})}
        return replace(read, **(self._parts | {"frames": frames}))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._source, name)


async def test_the_card_says_hours_and_launches_and_no_dollars(bot: App) -> None:
    now = end(bot)
    frames = {"cluster": frame([0.0] * 6 + [2.0] * 6, now=now)}
    source = Source(bot.ports.world.source, frames=frames, refusals=(launch(1, now - HOUR),))
    asked = App(with_parts(bot.ports, source=source), (), Access(()), lambda: 0.0)
    card = await ask(asked, "queue 1d")
    assert card.title.startswith("Pods waited 30 min; 1 launch refused")
    assert card.data["waited_seconds"] == 1800
    (cluster,) = card.data["clusters"]
    assert (cluster["pod_hours"], cluster["pending_pods"]) == (1.0, 2)
    assert "$" not in str(card)
    assert (await ask(asked, "queue 1d cluster=tiny")).data["clusters"] == []


def test_what_is_not_read_is_neither_zero_nor_said_to_be() -> None:
    calm = queues_of(frame([0.0] * 12), DAY)
    assert queue_card(calm, None, DAY).title.startswith("No pod waited in ")
    assert queue_card(calm, [], DAY).title.startswith("No pod waited; no launch refused in ")
    assert queue_card([], [], DAY).title.startswith("No launch refused in ")
    assert "Read for 1 h." in str(queue_card(calm, [], DAY))


async def test_what_is_not_read_is_said(bot: App) -> None:
    card = await ask(bot, "queue")
    assert card.title.startswith("No data on how long jobs waited")
    assert "pod_status_pending" in str(card)
    assert card.data["refused"] is None
    assert "No cluster is called 'nosuch'" in refused(await ask(bot, "queue cluster=nosuch"))
