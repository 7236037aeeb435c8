"""Hold forecasts against blind months: `python -m benchmarks.months [--seeds FIRST LAST]`.

Each month of `tests/months` is asked at noon of days 8, 15 and 22 (`--days`; 0 and less are days of
the month before), of a recording that holds what was billed and answered by then. The forecast was
tuned on seeds 1 to 60 and 301 to 360, its parts were chosen by 601 to 660, and 701 to 724 were
counted once.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import chdir
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import repeat
from pathlib import Path
from statistics import fmean, median

from bot.costs.nowcast import Nowcast, forecast_of
from bot.errors import Unavailable
from bot.model.reading import Reading
from bot.model.window import month_of
from bot.ports import Ports
from bot.wiring.environment import settings_of
from bot.wiring.source import OpenedSource, memory_stores
from tests.months.accounts import draw
from tests.months.bill import Truth, lines, truth, write

DAYS = (8, 15, 22)
HELD_BACK = range(601, 661)


@dataclass(frozen=True)
class Asked:
    """Hold one forecast beside the month as it ended."""

    seed: int
    day: int
    changes: bool
    nowcast: Nowcast
    truth: Truth

    @property
    def error(self) -> float:
        """Return the relative error."""
        return float(self.nowcast.forecast) / self.truth.amortised - 1

    @property
    def held(self) -> bool:
        """Return whether the month ended within the range, to the cent."""
        low, high = float(self.nowcast.low), float(self.nowcast.high)
        return low - 0.01 <= self.truth.amortised <= high + 0.01

    @property
    def width(self) -> float:
        """Return how wide the range is, as a share of the truth."""
        return float(self.nowcast.high - self.nowcast.low) / self.truth.amortised


def asked(seed: int, days: Iterable[int] = DAYS) -> list[Asked]:
    """Return the forecasts of one month at its days."""
    account = draw(seed)
    found = lines(account)
    ended = truth(account, found)
    forecasts = []
    for day in days:
        at = account.month + timedelta(days=day - 1, hours=12)
        with tempfile.TemporaryDirectory() as home, chdir(home):
            folder = write(account, found, at, Path(home) / "recording")
            source = f"recording:{folder}"
            settings = settings_of({"source": source})
            ports = OpenedSource(source, settings).ports(memory_stores(), settings.policy)
            month = month_of(account.month)
            # Of an account of less than two weeks nothing is said of a month to come.
            if nowcast := forecast_of(ports, at, _reading(ports, at), month):
                forecasts.append(Asked(seed, day, account.changes_level, nowcast, ended))
    return forecasts


def _reading(ports: Ports, at: datetime) -> Reading | None:
    """Return the reading of a moment, None for an account without a Neuron node."""
    try:
        return ports.world.source.read(at)
    except Unavailable:
        return None


def asked_of_all(seeds: Sequence[int], days: Sequence[int] = DAYS) -> list[Asked]:
    """Ask of every month, by as many processes as there are cores."""
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        return [forecast for found in pool.map(asked, seeds, repeat(days)) for forecast in found]


def summary(name: str, forecasts: Sequence[Asked]) -> str:
    """Return one line of figures."""
    return f"{name:<32}{len(forecasts):>4} forecasts: {figures(forecasts)}" if forecasts else name


def figures(forecasts: Sequence[Asked]) -> str:
    """Return how near the forecasts were, and how many months ended within the range."""
    error = median(abs(forecast.error) for forecast in forecasts)
    held = fmean(forecast.held for forecast in forecasts)
    width = fmean(forecast.width for forecast in forecasts)
    return f"median error {error:6.1%}, in range {held:4.0%}, mean width {width:6.1%}"


def table(forecasts: Sequence[Asked]) -> str:
    """Return the figures of all months, by day, and of those that change their level alone."""
    lines_ = []
    kinds = {
        "all": forecasts,
        "level changes": [x for x in forecasts if x.changes],
        "no level change": [x for x in forecasts if not x.changes],
    }
    for name, some in kinds.items():
        lines_.append(summary(name, some))
        days = sorted({x.day for x in forecasts})
        lines_ += [summary(f"  day {n}", [x for x in some if x.day == n]) for n in days]
    return "\n".join(lines_)


def main() -> None:
    """Print every forecast and the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, nargs=2, default=(HELD_BACK[0], HELD_BACK[-1]))
    parser.add_argument("--days", type=int, nargs="+", default=DAYS)
    parser.add_argument("--each", action="store_true", help="a line for every forecast as well")
    arguments = parser.parse_args()
    first, last = arguments.seeds
    forecasts = asked_of_all(range(first, last + 1), arguments.days)
    if arguments.each:
        for x in forecasts:
            span = f"{x.nowcast.low:,.0f} to {x.nowcast.high:,.0f}"
            verdict = "" if x.held else "NO"
            print(
                f"{x.seed:>4} {x.day:>3} {x.truth.amortised:>12,.0f} {x.error:>+7.1%}",
                span,
                verdict,
            )
    print(table(forecasts))


if __name__ == "__main__":
    main()
