"""How long pods waited for a place: waits by hand, what is a start and no wait, and what is not read."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import groupby
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest

from adapters.simulator import generate
from adapters.simulator.scenario import PlannedCluster, PlannedJob, Scenario
from adapters.store.memory import MemoryStore
from bot.answers.fleet.queue import PENDING, queue_card, queues_of
from bot.app import App
from bot.cards.card import Table, Tone
from bot.grammar.access import Access
from bot.model.fleet import Refusal, scarcities
from bot.model.frame import Frame
from bot.model.labels import Labels
from bot.model.reading import Reading
from bot.model.window import Window
from bot.wiring.environment import settings_of
from bot.wiring.source import OpenedSource
from tests.answers.configuring import app, ask, buttons, end, refused
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
    assert "The readings reach back 1 h." in str(queue_card(calm, [], DAY))


@pytest.fixture(scope="module")
def waiting(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return twelve hours of a cluster whose pods wait twice, and at the end."""
    job = PlannedJob("moe", 2, market="spot", replaced=((1, 2.0),), run_hours=400)
    cluster = PlannedCluster(
        "frontier",
        "trn1.32xlarge",
        "us-west-2",
        (job,),
        team="frontier",
        waits=((4.0, 1.5, 8), (11.0, 3.0, 4)),
    )
    folder = tmp_path_factory.mktemp("waiting") / "recording"
    generate(folder, 3, Scenario("Pods wait.", 0.5, 300, (cluster,)))
    return folder


async def test_the_hours_are_those_of_the_raw_rows(waiting: Path) -> None:
    """Derive them again: pods pending at each reading, and each event of the trail."""
    source = f"recording:{waiting}"
    bot = app(OpenedSource(source, settings_of({"source": source})), MemoryStore())
    # The last reading comes a minute after its period.
    card = await ask(bot, "queue 1d", at=end(bot) + FIVE)
    (cluster,) = card.data["clusters"]

    read = (
        f"SELECT value.sum / 5 FROM '{waiting}/metrics/frontier/queue.parquet' ORDER BY timestamp"
    )
    pods = [x for (x,) in duckdb.sql(read).fetchall()]
    stretches = [list(run) for some, run in groupby(pods, lambda x: x >= 0.5) if some]
    waits = [run for run in stretches if len(run) > 1]
    hours = [len(run) / 12 for run in waits]
    assert cluster["waited_seconds"] == pytest.approx(sum(hours) * 3600)
    assert cluster["longest_seconds"] == pytest.approx(max(hours) * 3600)
    assert cluster["pod_hours"] == pytest.approx(sum(map(sum, waits)) / 12)
    assert (cluster["most_pods"], cluster["pending_pods"]) == (8, 4)
    # A spot node was gone for nine minutes, eight pods waited 90, and four since the last hour.
    assert [round(x * 60) for x in hours] == [10, 90, 60]

    files = (waiting / "api" / "cloudtrail" / "lookup_events").rglob("*.refusals.json")
    events = [event for file in files for event in json.loads(file.read_text())["Events"]]
    (place,) = card.data["refused"]
    assert place["refused"] == len({event["EventId"] for event in events}) == 5 + 3
    assert (
        place["zone"]
        == json.loads(events[0]["CloudTrailEvent"])["requestParameters"]["availabilityZone"]
    )


async def test_what_is_not_read_is_said(bot: App) -> None:
    source = Source(bot.ports.world.source, frames={"cluster": None}, refusals=None)
    bot = App(with_parts(bot.ports, source=source), (), Access(()), lambda: 0.0)
    card = await ask(bot, "queue")
    assert card.title.startswith("No data on how long jobs waited")
    assert "pod_status_pending" in str(card)
    assert card.data["refused"] is None
    assert "No cluster is called 'nosuch'" in refused(await ask(bot, "queue cluster=nosuch"))


def test_the_card_adds_up_all_clusters_warns_of_who_waits_now_and_opens_the_type_refused_most():
    waited, waits = [1.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 1.0]
    past, now, both = (
        queue_card(queues_of(frame(*some), DAY), None, DAY)
        for some in ((waited,), (waits,), (waited, waits))
    )
    assert [card.tone for card in (past, now, both)] == [Tone.INFO, Tone.WARNING, Tone.WARNING]
    assert [card.data["waited_seconds"] for card in (past, now, both)] == [600, 600, 1200]
    assert [row["cluster"] for row in both.data["clusters"]] == ["a", "b"]
    assert [row["pending_pods"] for row in both.data["clusters"]] == [0, 1]
    assert [queue.cluster for queue in queues_of(frame(waits, [1.0] * 4), DAY)] == ["b", "a"]

    places = scarcities([launch(n, NOON, f"us-west-2{zone}") for n, zone in enumerate("abb")])
    for refused_by, tables in ((None, 1), ((), 1), (places, 2)):
        card = queue_card(queues_of(frame(waited), DAY), refused_by, DAY)
        assert len([block for block in card.blocks if isinstance(block, Table)]) == tables
        assert ("Refused launches are not read" in str(card.blocks)) is (refused_by is None)
        assert bool(buttons(card)) is bool(refused_by)
    assert card.title.startswith("Pods waited 10 min; 3 launches refused in ")
    assert [row["zone"] for row in card.data["refused"]] == ["us-west-2b", "us-west-2a"]
    assert buttons(card)["Ways to capacity"].line == "capacity trn2.48xlarge"
    # The longest that was read is told, whoever waited.
    unread = queue_card(queues_of(frame(waited, [NAN, NAN, NAN, 0.0]), DAY), None, DAY)
    assert "The readings reach back 20 min." in str(unread.blocks)
