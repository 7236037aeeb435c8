"""What a file system moves stands beside what it is provisioned for: on the card of starved nodes, and in `storage`."""

from dataclasses import replace
from datetime import timedelta

import numpy as np
import pytest
from builder import START, STEP, Fleet, World, hours

from bot.answers.cost.storage import storage_card
from bot.model.anomaly import Anomaly
from bot.model.causes import Cause
from bot.model.codec import decode, encode
from bot.model.fleet import FileSystem
from bot.model.frame import Frame
from bot.model.labels import Labels
from bot.model.reading import throughput_of

MB = 1e6 * STEP.total_seconds()
MINE = Labels(resource="fs-0123456789", cluster="llama", region="us-west-2")


def system(labels=MINE, gib=16_000, deployment="PERSISTENT_2", per_tib=125, **more):
    return FileSystem(labels, gib, deployment, per_tib, START - timedelta(days=30), **more)


def moved(reads, writes=0.0, labels=MINE, days=2.0):
    """Return the frame of a file system that reads and writes so many MB/s."""
    steps = int(timedelta(days=days) / STEP)
    values = np.stack(
        [np.broadcast_to(np.asarray(x) * MB, steps) for x in (reads, writes)], axis=1
    )[None]
    return Frame(
        "file_system",
        (labels,),
        START,
        STEP,
        ("fsx_read_bytes", "fsx_write_bytes"),
        values.astype(np.float32),
    )


def starved(*systems, frame=None, **more):
    fleet = Fleet(4).starve(hours(30), hours(40))
    frames = {"file_system": moved(1900.0) if frame is None else frame}
    made = World(fleet, inventory={"file_systems": systems or (system(),)}, frames=frames, **more)
    (found,) = (a for a in made.at(hours(31)).anomalies if a.cause is Cause.STARVED)
    return found


def test_a_starved_card_says_how_full_its_file_system_is():
    found = starved()
    assert "FSx fs-0123456789 reads 1.9 of 2.0 GB/s: 95 % of what is provisioned" in found.evidence
    assert found.suggestions[0].startswith("Raise the throughput of fs-0123456789")


def test_a_file_system_with_room_is_said_and_no_step_is_asked_for():
    found = starved(frame=moved(150.0, 150.0))
    assert (
        "FSx fs-0123456789 reads and writes 0.3 of 2.0 GB/s: 15 % of what is provisioned"
        in found.evidence
    )
    assert "Raise" not in found.suggestions[0]


def test_a_file_system_that_no_tag_ties_to_a_cluster_is_named_near_its_limit_alone():
    untagged = replace(MINE, cluster="")
    assert any(
        "fs-0123456789" in line
        for line in starved(system(untagged), frame=moved(1900.0, labels=untagged)).evidence
    )
    assert not any(
        "FSx" in line
        for line in starved(system(untagged), frame=moved(900.0, labels=untagged)).evidence
    )


@pytest.mark.parametrize(
    "labels", [replace(MINE, cluster="other"), replace(MINE, cluster="", region="us-east-1")]
)
def test_a_file_system_of_others_is_not_named(labels):
    assert not any(
        "FSx" in line
        for line in starved(system(labels), frame=moved(1900.0, labels=labels)).evidence
    )


def test_a_file_system_that_moved_more_than_its_limit_is_not_held_to_it():
    reads = np.full(576, 1900.0)
    reads[300] = 6000.0
    found = starved(frame=moved(reads))
    assert any("95 % of what is provisioned" in line for line in found.evidence)
    assert "Raise" not in found.suggestions[0]
    burst = starved(frame=moved(3100.0))
    assert any(
        "155 % of what is provisioned (from a cache or by burst credits)" in line
        for line in burst.evidence
    )
    assert "Raise" not in burst.suggestions[0]


def test_no_metric_no_word():
    assert not any("FSx" in line for line in starved(frame=moved(np.nan, np.nan)).evidence)


@pytest.mark.parametrize(
    ("one", "mbps"),
    [
        (system(gib=4_800, deployment="PERSISTENT_1", per_tib=50), 240),
        (system(gib=1_200, deployment="SCRATCH_2", per_tib=0), 240),
        (system(gib=0, deployment="PERSISTENT_2", per_tib=0, throughput_mbps=4_000), 4_000),
        (system(gib=1_200, deployment="", per_tib=0), None),
    ],
)
def test_what_is_provisioned_follows_the_deployment(one, mbps):
    assert one.provisioned == (None if mbps is None else mbps * 1e6)


@pytest.mark.parametrize(
    ("reads", "days", "verdict"),
    [
        (1950.0, 2.0, "reaches its limit"),
        (4000.0, 2.0, "beyond its limit: cache or burst credits"),
        (100.0, 8.0, "more than is needed"),
        (100.0, 2.0, "–"),
        (1000.0, 8.0, "–"),
        (56_280.0, 2.0, "beyond its network: check its metrics"),
    ],
)
def test_storage_tells_who_has_too_little_and_who_too_much(reads, days, verdict):
    load = throughput_of(system(), moved(reads, days=days), timedelta(days=7))
    card = storage_card([], [load], "")
    (row,) = card.blocks[1].rows
    assert row[0] == "fs-0123456789"
    assert row[-1] == verdict
    assert card.data["file_systems"][0]["provisioned_bytes_per_second"] == 2e9


def test_the_busiest_step_counts_not_the_mean():
    reads = np.full(576, 50.0)
    reads[300] = 1990.0
    load = throughput_of(system(), moved(reads), timedelta(days=7))
    assert (round(load.share, 3), round(load.peak_share, 3)) == (0.025, 0.995)


def test_an_anomaly_of_a_whole_cluster_can_be_stored():
    found = starved()
    assert type(found.wide) is bool
    assert decode(Anomaly, encode(found)) == found
