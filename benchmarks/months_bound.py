"""Find how narrow a range can be: `python -m benchmarks.months_bound [--seeds FIRST LAST]`.

A forecaster that no product can be: it knows how `tests/months` draws its accounts, what each was
drawn as, all that happened up to the hour of asking, and how likely each change is. All it does not
know is whether, when and what will change, and how the noise of jobs, users and spot goes on, which
each future draws anew. Of three in four of its futures each question gets the interval that pays
best at one price of width, so that no other choice holds as many months within the same mean width;
how many it holds is counted in the others.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from copy import deepcopy
from dataclasses import dataclass
from math import ceil, comb
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.months import DAYS, HELD_BACK
from tests.months import accounts
from tests.months.accounts import Account, draw

Floats = npt.NDArray[np.float64]

FUTURES, CHOSEN_BY = 200, 150
"""Futures of a question, and of them those by which its interval is chosen."""
CHANGES = {1: 0.7, 2: 0.3}
RESTLESS = {True: 0.8, False: 0.2}
"""As `accounts.draw` has them: how many changes, and whether the past changed, where it does."""
CENT = 1e-4
"""As a part of a month."""
ASKED_AT = 12
"""The hour of a day at which is asked: the forecaster knows all that happened before."""


@dataclass(frozen=True)
class Question:
    """Hold the month ends that may come, in order, as parts of the one that came."""

    seed: int
    day: int
    futures: Floats


class HalfDrawn:
    """Draw what was drawn before, but of each series the part after a share of it anew."""

    def __init__(self, drawn: np.random.Generator, anew: np.random.Generator, share: float) -> None:
        self._drawn, self._anew, self._share = drawn, anew, share

    def __getattr__(self, name: str) -> Any:
        """Draw single numbers as before: they are what the account is."""
        return getattr(self._drawn, name)

    def random(self, size: int) -> Floats:
        """Draw a series between 0 and 1."""
        return self._joined(self._drawn.random(size), self._anew.random(size))

    def normal(self, mean: float, spread: float, size: int) -> Floats:
        """Draw a series about a mean."""
        drawn, anew = (x.normal(mean, spread, size) for x in (self._drawn, self._anew))
        return self._joined(drawn, anew)

    def _joined(self, before: Floats, after: Floats) -> Floats:
        kept = ceil(len(before) * self._share)
        return np.concatenate([before[:kept], after[kept:]])


def questions(seed: int) -> list[Question]:
    """Return the futures of one month as its days of asking leave them."""
    account = draw(seed)
    truth, last, found = _spent(account), account.hours - 48, []
    for day in DAYS:
        cut = account.first + (day - 1) * 24 + ASKED_AT
        to_come = _changes_to_come(account, cut, last)
        rng = np.random.default_rng([5, seed, day])
        ends = []
        for _ in range(FUTURES):
            future = _redrawn(seed, cut, rng)
            changes = int(rng.choice(list(to_come), p=list(to_come.values())))
            for _ in range(changes):
                accounts._change(rng, future, int(rng.integers(cut, max(cut + 1, last))))
            ends.append(_spent(future) / truth)
        found.append(Question(seed, day, np.sort(ends)))
    return found


def _redrawn(seed: int, cut: int, anew: np.random.Generator) -> Account:
    """Return an account as it stood at an hour, and the noise from then on drawn anew."""
    shape, change = accounts._shape, accounts._change

    def shaped(rng: np.random.Generator, account: Account, kind: str, size: int) -> Floats:
        half: Any = HalfDrawn(deepcopy(rng), anew, cut / account.hours)
        nodes = [shape(x, account, kind, size) for x in (rng, half)]
        return np.concatenate([nodes[0][:cut], nodes[1][cut:]])

    def changed(rng: np.random.Generator, account: Account, hour: int) -> None:
        # Of two changes the later may be drawn first: it is left out, and what it draws is drawn.
        change(rng, account if hour < cut else deepcopy(account), hour)

    accounts._shape, accounts._change = shaped, changed
    try:
        return draw(seed)
    finally:
        accounts._shape, accounts._change = shape, change


def _spent(account: Account) -> float:
    """Return USD of the month at list price."""
    return float(account.run_rate()[account.first :].sum())


def _changes_to_come(account: Account, cut: int, last: int) -> dict[int, float]:
    """Return how likely each number of changes after an hour is, by all that happened before."""
    known = sum(account.first <= hour < cut for hour, _ in account.changes)
    past = any(hour < account.first for hour, _ in account.changes)
    left = min(1.0, max(0.0, (last - cut) / (last - account.first - 24)))

    # half of all accounts change in their month, and those changed before more often
    changing = RESTLESS[True] if past else 1 - RESTLESS[True]
    calm = RESTLESS[False] if past else 1 - RESTLESS[False]
    odds = {0: calm if not known else 0.0}
    for number, chance in CHANGES.items():
        if number >= known:
            seen = comb(number, known) * (1 - left) ** known * left ** (number - known)
            odds[number - known] = odds.get(number - known, 0.0) + changing * chance * seen
    whole = sum(odds.values())
    return {number: chance / whole for number, chance in odds.items()}


def narrowest(asked: Sequence[Question], price: float) -> tuple[float, float, float]:
    """Return the share of futures held at one price of width, the mean width, and of months held."""
    held, widths, came = [], [], []
    for question in asked:
        mixed = np.random.default_rng([6, question.seed, question.day]).permutation(
            question.futures
        )
        ends, others = np.sort(mixed[:CHOSEN_BY]), mixed[CHOSEN_BY:]
        counts = np.unique(np.ceil(np.linspace(0.02, 1, 50) * len(ends)).astype(int))
        firsts = [int(np.argmin(ends[n - 1 :] - ends[: len(ends) - n + 1])) for n in counts]
        narrow = ends[firsts + counts - 1] - ends[firsts]
        best = int(np.argmax(counts / len(ends) - price * narrow))

        widths.append(narrow[best])
        low, high = ends[firsts[best]] - CENT, ends[firsts[best] + counts[best] - 1] + CENT
        held.append(np.mean((others >= low) & (others <= high)))
        came.append(low <= 1 <= high)
    return float(np.mean(held)), float(np.mean(widths)), float(np.mean(came))


def main() -> None:
    """Print the least mean width of ranges that hold eight and nine months in ten."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, nargs=2, default=(HELD_BACK[0], HELD_BACK[-1]))
    first, last = parser.parse_args().seeds
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        asked = [x for found in pool.map(questions, range(first, last + 1)) for x in found]

    frontier = [narrowest(asked, price) for price in np.geomspace(0.1, 20, 80)]
    for share in (0.8, 0.85, 0.9):
        width, came = min((width, came) for held, width, came in frontier if held >= share)
        print(f"{share:.0%} of futures within {width:.1%}, which hold {came:.0%} of the months")


if __name__ == "__main__":
    main()
