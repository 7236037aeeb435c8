"""Points come in order whatever order their files wrote them in; of two of one series and time the later read stays."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from adapters.aws.metrics.batch import batches, merged
from adapters.aws.metrics.points import Gatherer, Points

NODES = 4
STRETCH = 20
BEGIN = 19
"""One stretch of a series begins with the last point of the one before."""
RUN = st.tuples(st.integers(0, NODES - 1), st.integers(0, 3))
"""A series, and the stretch of its time that a part of a file writes."""


def part_of(runs, count):
    """Return the points of some stretches, one after the other, all told `count` times."""
    series = np.repeat([run[0] for run in runs], STRETCH).astype(np.int64)
    seconds = np.concatenate([60 * (BEGIN * run[1] + np.arange(STRETCH)) for run in runs]).astype(
        np.int64
    )
    return Points(
        series, seconds, np.full(len(series), float(count)), seconds + series / 10, seconds / 1.0
    )


@given(st.lists(st.lists(RUN, min_size=1, max_size=6), min_size=1, max_size=4), st.randoms())
def test_points_come_in_order_and_the_later_read_wins(parts, random):
    gatherer = Gatherer()
    names = [f"i-{node}" for node in range(NODES)]
    random.shuffle(names)
    for name in names:
        gatherer.number("AWS/EC2", "CPUUtilization", {"InstanceId": name}, "", "")
    expected = {}
    for count, runs in enumerate(parts, 1):
        for series, stretch in runs:
            expected |= {(names[series], 60 * (BEGIN * stretch + i)): count for i in range(STRETCH)}
        gatherer.add(part_of(runs, count))
    (batch,) = batches(gatherer)
    instance = [dict(key.dimensions)["InstanceId"] for key in batch.keys]
    points = batch.points
    read = [
        (instance[i], second)
        for i, second in zip(points.series.tolist(), points.seconds.tolist(), strict=True)
    ]
    assert read == sorted(expected)
    assert points.count.tolist() == [expected[one] for one in read]
    assert batch.starts.tolist() == [sum(name < one for name, _ in read) for one in instance] + [
        len(read)
    ]


def test_parts_of_one_owner_add_up_to_one_point_each_time():
    gatherer = Gatherer()
    for node in range(NODES):
        gatherer.number("AWS/EC2", "CPUUtilization", {"InstanceId": f"i-{node}"}, "", "")
    gatherer.add(part_of([(node, node % 2 * 3) for node in range(NODES)], 2))
    (batch,) = batches(gatherer)
    first, second = batch.keys[:2]
    sums = merged(batch, [second, first, second, second])
    assert sums.keys == tuple(sorted([first, second]))
    assert (sums.starts.tolist(), len(sums.points.seconds)) == ([0, 20, 60], 60)
    apart = sums.points.seconds[:20].tolist()
    assert apart == [60 * (BEGIN * 3 + n) for n in range(STRETCH)]
    together = sums.points.count[20:].tolist()
    assert together == [4.0] * STRETCH + [2.0] * STRETCH
    assert sums.points.total[20] == 0.2
    assert sums.points.peak[21] == 60
