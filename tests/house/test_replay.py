"""What a replay opens before its first tick."""

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest

from bot.errors import Unavailable
from bot.model.window import Window
from bot.watch.preview import opened
from tests.builders import ports_over

EXTENT = Window(
    datetime(2026, 11, 17, tzinfo=UTC), datetime(2026, 11, 17, tzinfo=UTC) + timedelta(hours=1)
)


def ports(extent, prepare):
    return ports_over(SimpleNamespace(extent=lambda: extent), None, prepare=prepare)


def test_what_a_replay_needs_is_there_when_its_source_is_open():
    done = []
    assert opened(ports(EXTENT, lambda: done.append(True))) == EXTENT
    assert done == [True]


def test_a_source_without_an_end_is_not_replayed():
    with pytest.raises(Unavailable, match="record it first"):
        opened(ports(None, lambda: None))


def test_a_failure_beside_the_opening_is_not_lost():
    def fail():
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        opened(ports(EXTENT, fail))
