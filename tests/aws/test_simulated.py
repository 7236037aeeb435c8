"""Read what the simulator writes."""

from dataclasses import fields
from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest

from adapters.aws.config import ReadingConfig
from adapters.aws.recording.recording import open_recording
from adapters.simulator.generate import Files, generate
from bot.model.codec import encode
from tests.worlds_in_figures import compared, figure


@pytest.fixture(scope="module")
def recordings(tmp_path_factory):
    found = {}
    for form in ("jsonl", "parquet"):
        folder = tmp_path_factory.mktemp(form) / "recording"
        generate(folder, 7, "tiny", files=Files(form=form, logs=True))
        found[form] = open_recording(folder, ReadingConfig(timedelta(minutes=5), {}))
    return found


def test_everything_is_understood(recordings):
    for recording in recordings.values():
        assert recording.problems() == ()


def test_lines_and_parquet_read_alike(recordings):
    one, other = (recording.read(recording.extent().end) for recording in recordings.values())
    assert one.inventory == other.inventory
    assert one.frames.keys() == other.frames.keys()
    for kind, frame in one.frames.items():
        assert frame.things == other.frames[kind].things
        assert np.array_equal(frame.values, other.frames[kind].values, equal_nan=True)


def test_cores_and_node_agree(recordings):
    reading = recordings["parquet"].read(recordings["parquet"].extent().end)
    cores, nodes = reading.frames["core"], reading.frames["node"]
    node = cores.things[0].instance
    rows = [i for i, x in enumerate(cores.things) if x.instance == node]
    (row,) = [i for i, x in enumerate(nodes.things) if x.instance == node]
    for metric, of_all in (
        ("neuroncore_utilization_ratio", np.mean),
        ("neuroncore_memory_used_bytes", np.sum),
    ):
        assert nodes.of(metric)[row] == pytest.approx(
            of_all(cores.of(metric)[rows], axis=0), rel=0.02, abs=0.02
        )


def read_of(reading):
    """Return what a reading holds: each noun as it is, of each row of a frame a few figures."""
    frames = {}
    for kind, frame in sorted(reading.frames.items()):
        things = [frame.things[0], frame.things[-1]]
        rows = {"things": [len(frame.things), *things], "steps": frame.n_steps}
        rows["from"] = f"{frame.start:%H:%M} every {frame.step.total_seconds():g} s"
        for metric in sorted(frame.metrics):
            values = frame.of(metric)
            known = np.isfinite(values)
            sums = [figure(values[i][known[i]].sum()) for i in (0, -1)]
            rows[metric] = [int(known.sum()), *sums, figure(np.nanmean(values[:, -1:]))]
        frames[kind] = rows
    others = {
        x.name: repr(getattr(reading, x.name))
        for x in fields(reading)
        if x.name not in ("frames", "inventory", "runs", "marks")
    }
    return {
        "frames": frames,
        "inventory": encode(reading.inventory),
        "runs": [encode(x) for x in reading.runs],
        "marks": [repr(x) for x in reading.marks],
        "others": others,
    }


@pytest.mark.parametrize("hours", [1, 3])
def test_a_recording_is_read_as_it_was_last_seen_to_be_read(recordings, hours):
    recording = recordings["parquet"]
    now = recording.extent().start + timedelta(hours=hours)
    golden = Path(__file__).with_name("goldens") / f"tiny_{hours}h.json"
    compared(golden, read_of(recording.read(now)))
