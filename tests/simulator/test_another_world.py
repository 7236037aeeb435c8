"""The watch over two small recordings that another hand made: nothing false where nothing is wrong, most of what is wrong told."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.worlds import grade

WORLD = Path(__file__).parents[3] / "shared" / "world"
DAYS = 5
SEED = 1

pytestmark = [
    pytest.mark.skipif(
        not WORLD.exists(), reason="the other world's programs do not lie beside the repository"
    ),
    pytest.mark.timeout(1800),  # a recording and its replay: 25 to 55 s of a processor each
]


def test_five_calm_days_bring_no_alert(tmp_path: Path) -> None:
    graded = grade(WORLD, tmp_path, "calm", SEED, DAYS)
    assert [(alert["cause"], alert["why"]) for alert in graded.figures["bad_alerts"]] == []


def test_of_five_days_of_waste_most_is_told_by_its_name(tmp_path: Path) -> None:
    graded = grade(WORLD, tmp_path, "waste", SEED, DAYS)
    assert len(graded.incidents) >= 15
    overall = graded.figures["overall"]
    assert overall["recall"] >= 0.9
    assert overall["precision"] >= 0.9
    assert overall["cause_top1"] >= 0.85
    assert 0.9 <= graded.figures["dollars"]["ratio_median"] <= 1.1
