"""Look closer at suspicious nodes: few, within the budget, from now on; a record holds what was seen then."""

from datetime import timedelta
from decimal import Decimal

import numpy as np
import pytest

from adapters.aws.live.poller import HELD, detail_spans
from adapters.aws.live.record import record
from bot.errors import Unavailable
from tests.aws_live.conftest import open_tiny


def instances(live):
    return sorted(live.fleet(live.places()[0]).instances)


def test_a_record_holds_the_cores_that_the_watch_asked_for(world, tiny, tmp_path):
    live, start = world.live(journal=tmp_path / "journal"), world.extent.start
    reported = open_tiny(tiny).read(start + timedelta(hours=2)).frames["core"].things[0].instance
    seen = {}
    for now in world.ticks(2, 2.5):
        reading = live.read(now)
        seen[now] = reading.frames.get("core")
        if now == start + timedelta(hours=2, minutes=10):
            live.drill([reported], now)
    record(
        world.live(journal=tmp_path / "journal"),
        tmp_path / "made",
        start,
        start + timedelta(hours=2.5),
    )
    made = open_tiny(tmp_path / "made")
    assert [frame is not None for frame in seen.values()] == [
        False,
        False,
        False,
        True,
        True,
        True,
        True,
    ]
    for now, ours in seen.items():
        theirs = made.read(now).frames.get("core")
        assert (ours is None) == (theirs is None)
        if ours is not None:
            assert ours.things == theirs.things
            assert np.allclose(
                ours.values[:, -4:], theirs.values[:, -4:], rtol=1e-5, equal_nan=True
            )


def test_a_spent_budget_stops_it_first(world, tmp_path):
    live = world.live(journal=tmp_path, daily_usd=Decimal("0.00001"))
    (now,) = world.ticks(2, 2)
    live.read(now)
    before = dict(world.standin.called)
    live.drill(instances(live), now)
    assert dict(world.standin.called) == before
    assert detail_spans(tmp_path) == {}
    # Nor is the listing of a node finished that was under way.
    with pytest.raises(Unavailable, match="budget"):
        live.lister.details(live.places()[0], instances(live)[0])
    assert dict(world.standin.called) == before


def test_a_node_that_stays_suspicious_is_listed_once_and_one_that_does_not_is_let_go(
    world, tmp_path
):
    live = world.live(journal=tmp_path)
    one, other, *_ = instances(live) or [*(live.read(next(world.ticks(1, 1))) and instances(live))]
    (now,) = world.ticks(2, 2)
    live.read(now)
    live.drill([one, other], now)
    listed = world.standin.called["cloudwatch:ListMetrics"]
    later = now + timedelta(minutes=5)
    live.drill([one], later)
    assert world.standin.called["cloudwatch:ListMetrics"] == listed
    assert live.details.instances() == {one, other}
    live.drill([one], now + HELD)
    assert live.details.instances() == {one}
    begun = now - timedelta(minutes=1)
    assert detail_spans(tmp_path)[one] == [
        [int(begun.timestamp()), int((begun + 2 * HELD).timestamp())]
    ]


def test_what_is_not_of_the_fleet_is_not_asked_for(world):
    live = world.live()
    (now,) = world.ticks(2, 2)
    live.read(now)
    before = dict(world.standin.called)
    live.drill(["i-elsewhere"], now)
    assert dict(world.standin.called) == before
