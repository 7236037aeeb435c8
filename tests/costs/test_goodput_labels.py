"""Goodput and suggestions over another hand's recordings, where that makes them."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from pathlib import Path

import pytest

from adapters.store.memory import MemoryStore
from benchmarks.goodput import WORLD, compared, recorded, sums_of
from bot.answers.plan.suggestions import suggestions_of
from bot.costs.node_time import GoodputClass
from bot.wiring.environment import settings_of
from bot.wiring.source import OpenedSource
from tests.answers.configuring import app

NEAR = Decimal("0.05")
SLIGHT = 100
"""USD of a label of which the five minutes of a step are more than a tenth."""


pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(1800),
    pytest.mark.skipif(not WORLD.exists(), reason=f"{WORLD} is not at hand: it makes recordings"),
]


def test_a_calm_fleet_gets_no_suggestion_in_ten_days_and_its_dollars_sum_to_the_bill(
    tmp_path: Path,
) -> None:
    recording = recorded(WORLD, tmp_path, "calm", 3)
    assert "$0.00 apart" in sums_of(recording)
    source = f"recording:{recording}"
    bot = app(OpenedSource(source, settings_of({"source": source})), MemoryStore())
    extent = bot.ports.world.source.extent()
    assert extent
    for days in range(10):
        assert suggestions_of(bot.ports, extent.end - timedelta(days=days)).open == []


def test_classes_come_near_to_the_labelled_dollars_and_little_is_not_seen(tmp_path: Path) -> None:
    recording = recorded(WORLD, tmp_path, "mixed", 8)
    held = compared(recording, WORLD, "mixed", 8)
    total, truth = held.total, held.truth

    assert sum(total.classes.values()) == total.usd > 0
    assert total.of(GoodputClass.NOT_SEEN) < Decimal("0.02") * total.usd
    assert {GoodputClass.COLD_CACHE, GoodputClass.ALLOCATED_UNUSED} < set(truth)
    for kind, usd in truth.items():
        if usd > SLIGHT:
            assert abs(held.usd(kind) / usd - 1) <= NEAR, kind
