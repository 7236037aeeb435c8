"""Hold what is projected of scripted days: a change that is meant is seen here in figures."""

from pathlib import Path

import numpy as np

from bot.model.projection import Forecasts, is_seldom, project
from tests import goldens

RISE, FLAT = np.arange(1.0, 41.0), np.full(40, 100.0)
WEEKS = np.where(np.arange(40) % 7 < 5, 100.0, 20.0)
NOISE = 100 + 10 * np.random.default_rng(3).standard_normal(40)
STEP = np.repeat([100.0, 160.0], (25, 15))
BEGUN = np.repeat([0.0, 50.0], (35, 5))
LINES = {
    "two days": FLAT[:2],
    "three days": FLAT[:3],
    "five days": NOISE[:5],
    "eleven days": RISE[:11],
    "nothing": FLAT * 0,
    "flat": FLAT,
    "rising": RISE,
    "falling": RISE[::-1],
    "weekends": WEEKS,
    "noise": NOISE,
    "a step": STEP,
    "ended": FLAT * (np.arange(40) < 36),
    "two lines, one new": np.stack([NOISE, BEGUN]),
    "credits": -NOISE,
    "a year": np.tile(NOISE, 9) + np.repeat([500.0, 0.0], 180),
}


def test_it_projects_what_it_projected() -> None:
    text = ""
    for name, lines in LINES.items():
        for ahead, unsure, besides in ((1, 0.0, 0.0), (7, 5.0, 500.0), (24, 0.0, 3000.0), (0, 2.0, 0.0)):  # fmt: skip
            seen = project(lines, range(ahead), unsure, besides)
            figures = seen and (seen.low, seen.middle, seen.high, seen.held)
            words = "nothing" if figures is None else " ".join(f"{x:.4g}" for x in figures)
            text += f"{name}, {ahead} ahead: {words}\n"

    # Forecasts made before go on, beside others, for days of which nothing was learnt.
    before = Forecasts.of(np.atleast_2d(NOISE[:33])).held(7)
    beside = before.beside(Forecasts.of(np.atleast_2d(WEEKS)))
    for name, lines, forecasts in (("held", NOISE, before), ("beside", [NOISE, WEEKS], beside)):
        seen = project(lines, range(7), forecasts=forecasts)
        assert seen
        text += f"{name}: {seen.low:.4g} {seen.middle:.4g} {seen.high:.4g} {seen.held:.4g}\n"
    seldom = [[n for n in range(9) if is_seldom(n, days)] for days in (1, 14, 27, 56)]
    goldens.check(Path(__file__).parent / "goldens" / "projection.txt", f"{text}{seldom}\n")
