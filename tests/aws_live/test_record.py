"""Record a live account, and find in the recording what the live watch saw."""

from datetime import datetime, timedelta

import pytest

from adapters.aws.live.record import record
from bot.errors import WrongInput
from bot.model.window import Window
from bot.watch.preview import replay
from tests.aws_live.conftest import open_tiny
from tests.aws_live.ordeal import Watched, ports_of, told
from tests.aws_live.same import differences


@pytest.mark.slow
def test_a_backtest_of_the_record_gives_the_alerts_of_the_live_watch(world, tmp_path, tiny):
    live = world.live(journal=tmp_path / "journal")
    (tmp_path / "bill").mkdir()
    start = world.extent.start
    watched = Watched(
        world, live, Window(start + timedelta(hours=2.5), start + timedelta(hours=4.5))
    )
    before = replay(ports_of(tmp_path / "bill", source=watched, prices=live), ("web:alerts",))
    record(
        world.live(journal=tmp_path / "journal"),
        tmp_path / "made",
        start,
        start + timedelta(hours=4.5),
    )
    after = replay(ports_of(tmp_path / "made"), ("web:alerts",))
    assert [cause.value for cause, *_ in told(before)] == ["idle"]
    assert told(after) == told(before)
    assert [(n.reason, n.at) for n in after.notifications] == [
        (n.reason, n.at) for n in before.notifications
    ]


def test_a_record_reads_as_the_recording_behind_it(world, tmp_path, tiny):
    (now,) = world.ticks(2, 2)
    done = record(world.live(), tmp_path / "made", world.extent.start, now)
    ours, theirs = open_tiny(tmp_path / "made"), open_tiny(tiny)
    assert done.missing == ()
    assert differences(
        ours.read(now - timedelta(minutes=5)), theirs.read(now - timedelta(minutes=5))
    ) in ([], ["instances"])
    assert ours.quotes("trn1.32xlarge", "us-west-2", now)


@pytest.mark.parametrize(
    ("used", "hours", "said"), [(True, 1, "is not empty"), (False, 0, "nothing between")]
)
def test_wrong_asks_are_refused_before_anything_is_read(world, tmp_path, used, hours, said):
    if used:
        (tmp_path / "kept.txt").write_text("kept")
    with pytest.raises(WrongInput, match=said):
        record(
            world.live(), tmp_path, world.extent.start, world.extent.start + timedelta(hours=hours)
        )
    assert not world.standin.called


def test_window_is_half_open(world, tmp_path):
    world.now = world.extent.end
    start = world.extent.start
    record(world.live(), tmp_path / "made", start + timedelta(hours=1), start + timedelta(hours=2))
    assert open_tiny(tmp_path / "made").extent() == Window(
        start + timedelta(hours=1), start + timedelta(hours=2)
    )
    assert isinstance(world.now, datetime)
