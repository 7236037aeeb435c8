"""Goodput against the labelled dollars of another hand's recordings, where they are at hand."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path

import pytest

from benchmarks.goodput import WORLD, goodput_of_week, labelled, recorded
from bot.costs.node_time import GoodputClass

NEAR = Decimal("0.05")
SLIGHT = 100
"""USD of a label of which the five minutes of a step are more than a tenth."""


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.skipif(not WORLD.exists(), reason=f"{WORLD} is not at hand: it makes recordings")
def test_classes_come_near_to_the_labelled_dollars_and_little_is_not_seen(tmp_path: Path) -> None:
    recording = recorded(WORLD, tmp_path, "mixed", 8)
    answer = goodput_of_week(recording)
    truth = labelled(json.loads((recording / "labels.json").read_text()), answer.window)

    total = answer.total
    assert sum(total.classes.values()) == total.usd > 0
    assert total.of(GoodputClass.NOT_SEEN) < Decimal("0.02") * total.usd
    assert {GoodputClass.COLD_CACHE, GoodputClass.ALLOCATED_UNUSED} < set(truth)
    for kind, usd in truth.items():
        if usd > SLIGHT:
            assert abs(total.of(kind) / usd - 1) <= NEAR, kind
