"""Keep days of steps while points arrive: bins move on, things come and go, nothing is lost."""

import os
from dataclasses import replace

import numpy as np
import pytest

from adapters.aws.live.frame_buffer import ColumnRoom, FrameBuffer, GridRing, NewPoints, spread
from adapters.aws.metrics.batch import TimeGrid
from adapters.aws.metrics.points import MetricSeries, Points

START = 1_790_000_100 // 300 * 300
DAY = 86_400


def node(name: str, metric: str = "node_neuroncore_utilization") -> MetricSeries:
    pairs = (("ClusterName", "llama"), ("InstanceId", name), ("NodeName", name))
    return MetricSeries(
        "ContainerInsights", metric, tuple(n for n, _ in pairs), pairs, "us-west-2", "1"
    )


def points(number: int, start: int, end: int, percent: float = 50, step: int = 60) -> Points:
    seconds = np.arange(start, end, step)
    n = len(seconds)
    return Points(
        np.full(n, number),
        seconds,
        np.full(n, 32.0),
        np.full(n, 32.0 * percent),
        np.full(n, float(percent)),
    )


def run(buffer: FrameBuffer, numbers: list[int], start: int, end: int, step: int) -> None:
    """Let all series report from start to end, read every `step` seconds."""
    for now in range(start + step, end + 1, step):
        read = NewPoints(
            [points(n, now - step - 60, now - 60, 50 + n) for n in numbers], settled=now - step - 60
        )
        buffer.absorb(read, now // 300, lambda _: {})


def test_history_moves_on_over_days():
    buffer = FrameBuffer(TimeGrid(300, 60), 2 * DAY, [node("i-0"), node("i-1")])
    run(buffer, [0, 1], START, START + 5 * DAY, 3600)
    end = (START + 5 * DAY) // 300
    frame = buffer.grids["node"].frame(end, 2 * DAY // 300, buffer.grids["node"].details)
    values = frame.of("neuroncore_utilization_ratio")
    assert values.shape == (2, 576)
    assert frame.end.timestamp() == end * 300
    assert np.allclose(values, [[0.5], [0.51]])


def coming_and_going(buffer: FrameBuffer) -> np.ndarray:
    """Let one node leave, another come and time pass for longer than columns have room for."""
    run(buffer, [0], START, START + DAY, 3600)
    run(buffer, [0, 1], START + DAY, START + 2 * DAY, 3600)
    run(buffer, [1], START + 2 * DAY, START + 5 * DAY, 3600)
    return buffer.grids["node"].values


def test_the_first_points_of_a_series_are_those_whatever_was_read_first():
    """Its rhythm is told by them, so a late part must not leave it to chance."""
    heads = []
    for hours in ((0, 1, 2), (2, 1, 0), (1, 0, 2)):
        buffer = FrameBuffer(TimeGrid(300, 60), 2 * DAY, [node("i-0"), node("i-1")])
        for hour in hours:
            start = START + 3600 * hour
            part = [points(n, start, start + 3600, 10 * hour, 60 * (n + 1)) for n in (0, 1)]
            buffer.absorb(NewPoints(part, settled=START), START // 300 + 36, lambda _: {})
        heads.append(buffer.remembered().heads)

    assert len(heads[0].series) == 26
    assert heads[0].seconds.max() == START + 12 * 120
    for later in heads[1:]:
        assert np.array_equal(later.seconds, heads[0].seconds)
        assert np.array_equal(later.total, heads[0].total)


def test_columns_in_a_file_hold_what_columns_in_memory_do(tmp_path):
    series, folder = [node("i-0"), node("i-1")], tmp_path / "columns"
    in_memory = coming_and_going(FrameBuffer(TimeGrid(300, 60), 2 * DAY, series))
    mapped = FrameBuffer(TimeGrid(300, 60), 2 * DAY, series, room=ColumnRoom(folder, 0))
    assert np.array_equal(coming_and_going(mapped), in_memory, equal_nan=True)
    assert np.isfinite(in_memory).any()
    # The files of columns that were laid out anew since are gone.
    assert len(list(folder.iterdir())) == 1


def test_columns_stay_in_memory_where_no_file_can_be(tmp_path):
    taken = tmp_path / "columns"
    taken.write_text("no folder")
    columns = ColumnRoom(taken, 0).make((1, 2, 3))[0]
    assert columns.shape == (1, 2, 3)
    assert np.isnan(columns).all()


def test_columns_stay_in_memory_where_the_system_reserves_no_place(tmp_path, monkeypatch):
    """As on macOS."""
    monkeypatch.delattr(os, "posix_fallocate")
    assert ColumnRoom(tmp_path, 0).make((1, 2, 3))[0].shape == (1, 2, 3)


def test_who_reads_while_bins_are_renewed_meets_none_that_is_blank():
    met = []

    class Watched(GridRing):
        """Looks at its values when a part of them is about to be written."""

        def write(self, grid, edge, *, fill):
            met.append(np.isfinite(self.cut(grid, grid.base).values[:, :6]).all())
            super().write(grid, edge, fill=fill)

    buffer = FrameBuffer(TimeGrid(300, 60), DAY, [node("i-0")])
    run(buffer, [0], START, START + 7200, 3600)
    grid = buffer.grids["node"]
    ring = Watched(DAY // 300, grid.base, ColumnRoom(None))
    for _ in range(2):
        ring.renew(grid, grid.base, grid.base)
    assert met[-1]


def test_a_bin_beyond_the_newest_is_blank_again():
    buffer = FrameBuffer(TimeGrid(300, 60), DAY, [node("i-0")])
    run(buffer, [0], START, START + 7200, 3600)
    grid = buffer.grids["node"]
    ring = GridRing(DAY // 300, grid.base, ColumnRoom(None))
    ring.renew(grid, grid.base, grid.base)
    ring.renew(replace(grid, values=grid.values[:, :6]), grid.base, grid.base)
    values = ring.cut(grid, grid.base).values
    assert np.isfinite(values[:, :6]).all()
    assert np.isnan(values[:, 6:]).all()


def test_points_ahead_of_the_clock_wait_for_their_step():
    buffer = FrameBuffer(TimeGrid(300, 60), DAY, [node("i-0")])
    buffer.absorb(
        NewPoints([points(0, START, START + 300)], settled=START), START // 300, lambda _: {}
    )
    assert buffer.grids["node"].visible(START // 300) == 0


def test_a_frame_that_was_handed_out_keeps_its_past():
    buffer = FrameBuffer(TimeGrid(300, 60), DAY, [node("i-0")])
    run(buffer, [0], START, START + 2 * DAY, 3600)
    sheet = buffer.grids["node"]
    before = sheet.frame((START + 2 * DAY) // 300, 288, sheet.details).of(
        "neuroncore_utilization_ratio"
    )
    kept = before.copy()
    run(buffer, [0], START + 2 * DAY, START + 5 * DAY, 3600)
    assert np.array_equal(before, kept, equal_nan=True)


def test_things_come_in_the_order_of_showing_and_leave_when_long_silent():
    buffer = FrameBuffer(TimeGrid(300, 60), DAY, [node("i-z"), node("i-a")])
    run(buffer, [0], START, START + DAY // 2, 3600)
    run(buffer, [0, 1], START + DAY // 2, START + DAY, 3600)
    assert [x.instance for x in buffer.grids["node"].things] == ["i-z", "i-a"]
    run(buffer, [1], START + DAY, START + 3 * DAY, 3600)
    sheet = buffer.grids["node"]
    assert [x.instance for x in sheet.things] == ["i-a"]
    newest = sheet.frame((START + 3 * DAY) // 300, 288, sheet.details).of(
        "neuroncore_utilization_ratio"
    )
    assert np.allclose(newest, 0.51)


def test_a_new_series_with_a_past_takes_nothing_from_the_others():
    buffer = FrameBuffer(TimeGrid(300, 60), DAY, [node("i-0"), node("i-1")])
    run(buffer, [0], START, START + 6 * 3600, 300)
    now = START + 6 * 3600 + 300
    read = NewPoints(
        [points(0, now - 360, now - 60), points(1, now - 3 * 3600, now - 60)],
        settled=now - 3 * 3600,
    )
    buffer.absorb(read, now // 300, lambda _: {})
    sheet = buffer.grids["node"]
    values = sheet.frame(now // 300, 288, sheet.details).of("neuroncore_utilization_ratio")
    assert np.allclose(values[0, -72:], 0.5)
    assert np.allclose(values[1, -35:], 0.5)


def test_when_a_node_last_reported_is_known():
    buffer = FrameBuffer(TimeGrid(300, 60), DAY, [node("i-0"), node("i-1")])
    run(buffer, [0, 1], START, START + 3600, 300)
    run(buffer, [0], START + 3600, START + 7200, 300)
    last, silent = buffer.last_seen.tolist()
    assert (last - silent) * 300 == 3600


def test_silence_is_never_zero():
    buffer = FrameBuffer(TimeGrid(300, 60), DAY, [node("i-0"), node("i-1")])
    run(buffer, [0, 1], START, START + 3600, 300)
    run(buffer, [0], START + 3600, START + 7200, 300)
    sheet = buffer.grids["node"]
    values = sheet.frame((START + 7200) // 300, 288, sheet.details).of(
        "neuroncore_utilization_ratio"
    )
    assert np.isnan(values[1, -11:]).all()
    assert np.isfinite(values[0, -11:]).all()


@pytest.mark.parametrize(
    ("rhythm", "expected"), [(60, 10), (300, 2)], ids=["minutes", "five minutes"]
)
def test_coarse_history_is_spread_only_where_a_metric_reports_every_minute(rhythm, expected):
    past = points(0, START, START + 600, step=300)
    told = spread(past, [node("i-0")], points(0, START + 6000, START + 7200, step=rhythm))
    assert len(told.series) == expected
    assert told.total.sum() == past.total.sum()
    assert told.count.sum() == past.count.sum()
