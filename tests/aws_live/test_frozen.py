"""Freeze a live account: another process reads in its copy what the account told then."""

from datetime import timedelta

import numpy as np
import pytest

from bot.errors import Unavailable
from bot.wiring.kept import packed, unpacked
from tests.aws_live.same import differences


def test_a_frozen_account_reads_as_the_account_did_whatever_comes_later(world, tmp_path):
    live = world.live(journal=tmp_path / "journal")
    copied = lambda ticked: unpacked(packed(ticked))  # noqa: E731
    with pytest.raises(Unavailable, match="AWS has not been read yet"):
        live.frozen(copied)

    *_, now = world.ticks(2, 2.1)
    live.read(now)
    times = [now - timedelta(minutes=5), now]
    before = [live.read(time) for time in times]
    prices = live.quotes("trn1.32xlarge", "us-west-2", now)
    told = [{kind: x.values.copy() for kind, x in reading.frames.items()} for reading in before]
    frozen = live.frozen(copied)

    for later in world.ticks(3, 3.1):
        live.read(later)
    for time, reading, frames in zip(times, before, told, strict=True):
        there = frozen.read(time)
        assert differences(there, reading) == []
        for kind, values in frames.items():
            np.testing.assert_array_equal(there.frames[kind].values, values)
        assert (there.runs, there.notices, there.marks, there.refusals, there.gaps) == (
            reading.runs,
            reading.notices,
            reading.marks,
            reading.refusals,
            reading.gaps,
        )
    assert prices
    assert frozen.quotes("trn1.32xlarge", "us-west-2", now) == prices
