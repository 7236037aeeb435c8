"""Read what the simulator writes."""

from datetime import timedelta

import numpy as np
import pytest

from adapters.aws.config import ReadingConfig
from adapters.aws.recording.recording import open_recording
from adapters.simulator.generate import Files, generate


@pytest.fixture(scope="module")
def recordings(tmp_path_factory):
    found = {}
    for form in ("jsonl", "parquet"):
        folder = tmp_path_factory.mktemp(form) / "recording"
        generate(folder, 7, "tiny", files=Files(form=form))
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
