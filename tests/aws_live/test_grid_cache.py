"""A new process goes on from what the last one settled: the same grids and alerts, and nothing bought twice."""

import json
import shutil
from dataclasses import replace
from datetime import datetime

import numpy as np
import pytest

from adapters.aws.api.operations import Place
from adapters.aws.files import Problems
from adapters.aws.live.frame_buffer import ColumnRoom, FrameBuffer
from adapters.aws.live.grid_cache import GridCache
from adapters.aws.live.poller import MetricPoller
from adapters.aws.metrics.batch import TimeGrid
from bot.policy.schema import default_policy
from detectors.detector import Detector
from tests.aws_live.test_frame_buffer import DAY, START, node, run


@pytest.fixture(scope="module", autouse=True)
def three_hours_are_recent():
    """Let all but the newest three hours be history: the recording is six hours long."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("adapters.aws.live.poller.RECENT_SECONDS", 3 * 3600)
        yield


def watch(world, live, start, end):
    """Tick as a watch does, history read and hours written before the next tick; return the last reading."""
    for now in world.ticks(start, end):
        reading = live.read(now)
        live.settle(now)
        live.metrics.backfill.join()
        live.cache.join()
    return reading


def requested(world, do):
    before = world.standin.cloudwatch.requested
    do()
    return world.standin.cloudwatch.requested - before


def differing(one, other):
    """Return the kinds whose frames are not the same, bit by bit."""
    assert set(one.frames) == set(other.frames)
    return [kind for kind, frame in one.frames.items() if not same(frame, other.frames[kind])]


def same(one, other):
    return (one.things, one.metrics, one.end) == (
        other.things,
        other.metrics,
        other.end,
    ) and np.array_equal(one.values, other.values, equal_nan=True)


def alerts(reading):
    return Detector()(reading, default_policy(), ())


@pytest.fixture
def away(world, tmp_path):
    """Return the reading of a watch that never stopped, that of one which was away for 40 minutes, and what its return cost."""
    one = watch(world, world.live(), 4.25, 5.5)
    before = world.live(journal=tmp_path)
    watch(world, before, 4.25, 4.5)
    tick = requested(world, lambda: watch(world, before, 4.5 + 1 / 12, 4.5 + 1 / 12))
    after = world.live(journal=tmp_path)
    first = requested(world, lambda: watch(world, after, 5.25, 5.25))
    return one, watch(world, after, 5.25 + 1 / 12, 5.5), tick, first


def test_a_restart_finds_what_a_watch_that_never_stopped_has_and_buys_one_tick(away):
    one, two, tick, first = away
    assert differing(one, two) == []
    assert (alerts(one), one.runs) == (alerts(two), two.runs)
    assert first == tick


HOME = Place("us-west-2", account="111122223333")
OTHERS = (Place("us-west-2", account="444455556666"), Place("us-east-1", account="111122223333"))
HOURS = 8
NOON = START + HOURS * 3600


class Process:
    """Hold what one process has of two nodes."""

    def __init__(self, root, place=HOME, step=300, columns=None):
        self.problems, self.place = Problems(), place
        self.poller = MetricPoller(None, DAY, lambda: 0.0)
        self.buffer = FrameBuffer(
            TimeGrid(step, 60), DAY, self.poller.book.series, room=ColumnRoom(columns, 0)
        )
        self.cache = GridCache(self.buffer, self.poller, self.problems, root)

    def begin(self, now):
        self.cache.recall([self.place], now)
        self.known = bool(self.poller.known())
        self.poller.enter(
            self.place, [replace(node(x), region=self.place.region) for x in ("i-0", "i-1")], now
        )
        return self

    def run(self, start, end):
        run(self.buffer, [0, 1], start, end, self.buffer.grid.step)
        return self

    def stop(self, now):
        self.cache.save([self.place], now)
        self.cache.join()
        return self

    def values(self, end):
        sheet = self.buffer.grids["node"]
        return sheet.frame(end // 300, DAY // 300, sheet.details).of("neuroncore_utilization_ratio")

    def wanted(self):
        return [(block.start, block.end) for block in self.poller.backfill.pending()]


def eight_hours(folder, **other):
    """Return a process of eight hours that has left all of them in a folder."""
    first = Process(folder, **other).begin(START)
    first.run(START, NOON)
    first.poller.backfill._wanted.clear()
    return first.stop(NOON)


@pytest.fixture(scope="module")
def ended(tmp_path_factory):
    """Return a process that has ended, and the folder of what it left."""
    folder = tmp_path_factory.mktemp("ended")
    return eight_hours(folder), folder


@pytest.fixture
def left(ended, tmp_path):
    """Return a process that has ended, and put what it left in the folder of this test."""
    process, folder = ended
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    return process


def again(left, tmp_path, **other):
    return Process(tmp_path, **other).begin(NOON + 600)


def test_what_was_settled_is_known_again(left, tmp_path):
    second = again(left, tmp_path).run(NOON - 3 * 3600, NOON)
    assert second.known
    assert second.wanted() == []
    assert np.array_equal(second.values(NOON), left.values(NOON), equal_nan=True)
    assert second.problems.sentences() == ()


def test_hours_that_an_earlier_version_left_are_known_again(left, tmp_path):
    for path in tmp_path.glob("*/2*.npz"):
        with np.load(path) as stored:
            arrays = dict(stored)
        by_value = np.ascontiguousarray(np.moveaxis(arrays["node"], 0, -1))
        np.savez(path, **arrays | {"node": by_value.view(np.float32)[..., 0]})
    second = again(left, tmp_path).run(NOON - 3 * 3600, NOON)
    assert second.wanted() == []
    assert np.array_equal(second.values(NOON), left.values(NOON), equal_nan=True)


@pytest.mark.parametrize(
    "other",
    [{"place": OTHERS[0]}, {"place": OTHERS[1]}, {"step": 600}],
    ids=["account", "region", "step"],
)
def test_another_account_region_or_step_reads_none_of_it(left, tmp_path, other):
    second = again(left, tmp_path, **other)
    assert not second.known
    assert second.wanted()
    assert second.problems.sentences() == ()


@pytest.mark.parametrize("harm", ["cut off", "empty", "another version", "another shape", "gone"])
def test_a_broken_hour_costs_only_itself(left, tmp_path, harm):
    hour = sorted(tmp_path.glob("*/2*.npz"))[2]
    harm_file(hour, harm)
    second = again(left, tmp_path).run(NOON - 3 * 3600, NOON)
    begin = int(datetime.strptime(f"{hour.stem}+0000", "%Y%m%dT%H%MZ%z").timestamp())
    assert second.wanted() == [(begin, begin + 3600)]
    assert np.isfinite(second.values(NOON)).sum() == np.isfinite(left.values(NOON)).sum() - 2 * 12
    (sentence,) = second.problems.sentences()
    assert "its hour is bought again" in sentence
    assert not hour.exists()


@pytest.mark.parametrize("harm", ["cut off", "empty", "another version"])
def test_a_broken_index_costs_history_and_no_start(left, tmp_path, harm):
    harm_file(next(tmp_path.glob("*/index.npz")), harm)
    second = again(left, tmp_path)
    assert not second.known
    assert second.wanted()
    (sentence,) = second.problems.sentences()
    assert "history is bought again" in sentence


def harm_file(path, harm):
    if harm == "gone":
        path.unlink()
    elif harm in ("cut off", "empty"):
        path.write_bytes(path.read_bytes()[: 200 if harm == "cut off" else 0])
    else:
        with np.load(path) as stored:
            arrays = dict(stored)
        said = json.loads(arrays["said"].tobytes())
        if harm == "another version":
            arrays["said"] = np.frombuffer(
                json.dumps(said | {"format": 99}).encode(), dtype=np.uint8
            )
        else:
            arrays["node"] = arrays["node"][..., :1]
        np.savez(path, **arrays)


def test_what_was_not_read_yet_is_wanted_still(tmp_path):
    first = Process(tmp_path).begin(NOON).run(START, NOON)
    assert first.wanted()
    first.stop(NOON)
    assert again(first, tmp_path).wanted() == first.wanted()


def test_a_long_outage_buys_its_gap_as_history(left, tmp_path):
    late = NOON + 10 * 3600
    second = Process(tmp_path).begin(late)
    (mark,) = {mark.start for mark in second.poller.book.marks}
    assert NOON - 3 * 3600 < mark < NOON, (
        "from there on everything is asked for, what is older than six hours as history"
    )


def test_hours_older_than_history_are_deleted(tmp_path):
    eight_hours(tmp_path).run(NOON, NOON + 2 * DAY).stop(NOON + 2 * DAY)
    hours = list(tmp_path.glob("*/2*.npz"))
    assert 24 <= len(hours) <= 26


def test_a_disk_that_is_full_is_said_and_stops_nobody(tmp_path):
    root = tmp_path / "file"
    root.write_text("no folder")
    first = Process(root).begin(START).run(START, NOON).stop(NOON)
    (sentence,) = first.problems.sentences()
    assert "cannot be kept for the next start" in sentence


@pytest.mark.parametrize(
    ("later", "known"),
    [(-3 * 3600 - 1, False), (0, True), (DAY - 2 * 3600, True), (DAY + 2 * 3600, False)],
)
def test_what_lies_ahead_or_further_back_than_history_is_not_gone_on_from(
    left, tmp_path, later, known
):
    assert Process(tmp_path).begin(NOON + later).known is known


@pytest.fixture(scope="module")
def watching(tmp_path_factory):
    """Return a process that has left eight hours, in columns of a file too, and goes on since."""
    folder = tmp_path_factory.mktemp("watching")
    process = eight_hours(folder, columns=folder / "columns")
    return process.run(NOON, NOON + 1800), folder


@pytest.fixture
def killed(watching, tmp_path):
    """Return a process that was killed, and put what it left in the folder of this test."""
    process, folder = watching
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    return process


def columns_file(tmp_path):
    """Return the only file of columns."""
    (path,) = (tmp_path / "columns").iterdir()
    return path


def after_a_kill(tmp_path):
    """Return a process that goes on with the columns where it can, and reads on from then."""
    columns = tmp_path / "columns"
    return again(None, tmp_path, columns=columns).run(NOON - 3 * 3600, NOON + 1800)


def same_values(one, other):
    return np.array_equal(one.values(NOON + 1800), other.values(NOON + 1800), equal_nan=True)


def test_columns_are_gone_on_with_and_hours_not_read(killed, tmp_path):
    path = columns_file(tmp_path)
    sorted(tmp_path.glob("*/2*.npz"))[2].unlink()
    second = after_a_kill(tmp_path)
    assert second.wanted() == []
    assert same_values(second, killed)
    assert columns_file(tmp_path) == path


@pytest.mark.parametrize(
    "harm", ["cut off", "empty", "gone", "foreign", "another layout", "other metrics", "no folder"]
)
def test_columns_that_cannot_be_believed_are_built_anew(killed, tmp_path, harm):
    path = columns_file(tmp_path)
    if harm == "foreign":
        path.write_bytes(np.full(path.stat().st_size // 4, 0.5, dtype=np.float32).tobytes())
    elif harm in ("another layout", "other metrics"):
        change_columns(tmp_path, {"layout": "0"} if harm == "another layout" else {"metrics": []})
    elif harm == "no folder":
        shutil.rmtree(path.parent)
        path.parent.write_text("")
    else:
        harm_file(path, harm)
    second = after_a_kill(tmp_path)
    assert second.wanted() == []
    assert same_values(second, killed)
    # Neither is the file of before left for ever, nor a sentence said: nothing is missing.
    assert harm == "no folder" or columns_file(tmp_path) != path
    assert second.problems.sentences() == ()


def change_columns(tmp_path, changes):
    path = next(tmp_path.glob("*/index.npz"))
    with np.load(path) as stored:
        arrays = dict(stored)
    said = json.loads(arrays["said"].tobytes())
    said["columns"]["node"] |= changes
    np.savez(path, **arrays | {"said": np.frombuffer(json.dumps(said).encode(), dtype=np.uint8)})


def test_columns_are_of_one_process_at_a_time(killed, tmp_path):
    second = after_a_kill(tmp_path)
    third = after_a_kill(tmp_path)
    assert same_values(second, third)
    assert len(list((tmp_path / "columns").iterdir())) == 2


def test_columns_with_more_things_than_were_said_are_built_anew(killed, tmp_path):
    path = columns_file(tmp_path)
    second = after_a_kill(tmp_path)
    second.poller.enter(HOME, [node("i-2")], NOON + 1800)
    run(second.buffer, [0, 1, 2], NOON + 1800, NOON + 3600, 300)
    assert columns_file(tmp_path) == path.with_suffix(".3")
    third = after_a_kill(tmp_path)
    assert same_values(third, killed)


def test_columns_are_named_again_with_the_next_hour(killed, tmp_path):
    second = after_a_kill(tmp_path)
    second.run(NOON + 1800, NOON + 3 * 3600).stop(NOON + 3 * 3600)
    change = next(tmp_path.glob("*/index.npz"))
    with np.load(change) as stored:
        said = json.loads(stored["said"].tobytes())
    assert said["columns"]["node"]["file"] == columns_file(tmp_path).name
