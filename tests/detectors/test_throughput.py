"""What a file system moves stands beside what it is provisioned for: on the card of starved nodes, and in `storage`."""

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
