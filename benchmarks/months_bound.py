"""Find how narrow a range can be: `python -m benchmarks.months_bound [--seeds FIRST LAST]`.

A forecaster that no product can be: it knows how `tests/months` draws its accounts, every charge
of the month unless something changes, and how likely each change is. All it does not know is
whether, when and what will change. Of its futures, each question gets the interval that pays best
at one price of width, so that no other choice holds as many months within the same mean width.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from copy import deepcopy
from dataclasses import dataclass
from math import comb

import numpy as np
import numpy.typing as npt

from benchmarks.months import DAYS, HELD_BACK
from tests.months import accounts
from tests.months.accounts import Account, draw

Floats = npt.NDArray[np.float64]

FUTURES = 400
CHANGES = {1: 0.7, 2: 0.3}
RESTLESS = {True: 0.8, False: 0.2}
"""As `accounts.draw` has them: how many changes, and whether the past changed, where it does."""
LAG_HOURS = 12
"""At noon of a day the bill is complete up to the noon before."""


@dataclass(frozen=True)
class Question:
    """Hold the month ends that may come, in order, as parts of the one that came."""

    seed: int
    day: int
    futures: Floats


def questions(seed: int) -> list[Question]:
    """Return the futures of one month as its days of asking leave them."""
    account, stages = _stages(seed)
    truth = _spent(account)
    last = account.hours - 48
    found = []
    for day in DAYS:
        cut = account.first + (day - 1) * 24 - LAG_HOURS
        standing = [stage for hour, stage in stages if hour < cut][-1]
        to_come = _changes_to_come(account, cut, last)
        rng = np.random.default_rng([5, seed, day])
        ends = []
        for _ in range(FUTURES):
            future, changes = standing, int(rng.choice(list(to_come), p=list(to_come.values())))
            if changes:
                future = deepcopy(standing)
            for _ in range(changes):
                accounts._change(rng, future, int(rng.integers(cut, max(cut + 1, last))))
            ends.append(_spent(future) / truth)
        found.append(Question(seed, day, np.sort(ends)))
    return found


def _stages(seed: int) -> tuple[Account, list[tuple[int, Account]]]:
    """Return an account, and as it stood before the month and after each change in it."""
    stages: list[tuple[int, Account]] = []
    change = accounts._change

    def noted(rng: np.random.Generator, account: Account, hour: int) -> None:
        if hour >= account.first and not stages:
            stages.append((0, deepcopy(account)))
        change(rng, account, hour)
        if hour >= account.first:
            stages.append((hour, deepcopy(account)))

    accounts._change = noted
    try:
        account = draw(seed)
    finally:
        accounts._change = change
    return account, stages or [(0, account)]


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


def narrowest(asked: Sequence[Question], price: float, noise: float) -> tuple[float, float]:
    """Return the share of futures held and the mean width, at one price of width.

    `noise` is the standard deviation of what days alone add to a month, as a part of it.
    """
    held, widths = [], []
    spread = np.exp(np.random.default_rng(1).normal(0, noise, 5)) if noise else np.ones(1)
    for question in asked:
        ends = np.sort(np.outer(question.futures, spread).ravel())
        counts = np.unique(np.ceil(np.linspace(0.02, 1, 50) * len(ends)).astype(int))
        narrow = np.array([np.min(ends[n - 1 :] - ends[: len(ends) - n + 1]) for n in counts])
        best = int(np.argmax(counts / len(ends) - price * narrow))
        held.append(counts[best] / len(ends))
        widths.append(narrow[best])
    return float(np.mean(held)), float(np.mean(widths))


def main() -> None:
    """Print the least mean width of ranges that hold eight and nine months in ten."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, nargs=2, default=(HELD_BACK[0], HELD_BACK[-1]))
    first, last = parser.parse_args().seeds
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        asked = [x for found in pool.map(questions, range(first, last + 1)) for x in found]

    for noise in (0.0, 0.01, 0.02, 0.03):
        frontier = [narrowest(asked, price, noise) for price in np.geomspace(0.1, 20, 80)]
        least = [
            f"{share:.0%} within {min(width for held, width in frontier if held >= share):.1%}"
            for share in (0.8, 0.85, 0.9)
        ]
        print(f"noise of days {noise:.0%}: {', '.join(least)}")


if __name__ == "__main__":
    main()
