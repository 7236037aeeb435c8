"""Hold forecasts of a month's end against the month as it ended: `python -m benchmarks.forecast [--worlds FOLDER...]`.

Each month is asked at noon of days 8, 16 and 24, of the bill as it stood then. Six months are invented here: fleets of several
clusters, some of which grow, change their size, keep office hours or buy spot, with support fees of the 1st and a one-off charge
before the 8th: nobody can know of a later one. Others are read from recordings that another hand made, whose bill covers that
month and the one before it.
"""

from __future__ import annotations

import argparse
import csv
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from statistics import median

import numpy as np

from adapters.billing.open import open_billing
from bot.costs.asof import BilledBy
from bot.costs.nowcast import Nowcast, forecast_month
from bot.model.window import NO_TIME, Window, month_of
from bot.ports import Billing

MONTH = month_of(datetime(2026, 9, 15, tzinfo=UTC))
DAYS = (8, 16, 24)
SEEDS = range(101, 107)
_HISTORY, _HOUR, _LAG = timedelta(days=31), timedelta(hours=1), timedelta(hours=24)
_COLUMNS = ("line_item_line_item_type", "line_item_product_code", "line_item_usage_type", "line_item_usage_start_date",
            "line_item_usage_end_date", "line_item_unblended_cost")  # fmt: skip


@dataclass(frozen=True)
class Asked:
    """Hold one forecast beside the truth."""

    month: str
    day: int
    forecast: Nowcast
    truth: Decimal

    @property
    def error(self) -> float:
        """Return the relative error."""
        return float(self.forecast.forecast / self.truth - 1)

    @property
    def held(self) -> bool:
        """Return whether the month ended within the range."""
        return self.forecast.low <= self.truth <= self.forecast.high


def asked(name: str, billing: Billing, month: Window = MONTH) -> Iterator[Asked]:
    """Yield the forecasts of one month at its days."""
    through = billing.tally(NO_TIME, ()).billed_through
    assert through
    truth = billing.tally(month, ()).total.amortised
    for day in DAYS:
        at = month.start + timedelta(days=day - 1, hours=12)
        forecast = forecast_month(BilledBy(billing, at, _LAG), at)
        assert forecast
        yield Asked(name, day, forecast, truth)


def invented(seed: int, folder: Path) -> Billing:
    """Write the bill of a month that a seed draws, and open it."""
    with (folder / "bill.csv").open("w", newline="") as file:
        csv.writer(file).writerows([_COLUMNS, *_rows(np.random.default_rng(seed))])
    return open_billing(folder)


def _rows(rng: np.random.Generator) -> Iterator[Sequence[str]]:
    hours = int((MONTH.end - MONTH.start + _HISTORY) / _HOUR)
    for n in range(int(rng.integers(3, 7))):
        kind = str(rng.choice(["steady", "steady", "grows", "steps", "office", "spot", "jobs"]))
        usd = float(rng.uniform(1, 22)) * _nodes(rng, kind, hours)
        yield from (_row("Usage", f"BoxUsage:c{n}", at, dollars) for at, dollars in enumerate(usd) if dollars > 0)
    storage = rng.uniform(1, 40) * np.exp(rng.normal(0, 0.1, hours))
    yield from (_row("Usage", "TimedStorage-ByteHrs", at, dollars) for at, dollars in enumerate(storage))
    support = float(rng.choice([0, 5_000, 20_000]))
    first = [at for at in (_at(hour) for hour in range(hours)) if at.day == 1 and at.hour == 0]
    yield from (_row("Fee", "Support", int((at - _at(0)) / _HOUR), support) for at in first if support)
    if rng.random() < 0.5:
        before = int((_HISTORY + timedelta(days=DAYS[0] - 2)) / _HOUR)
        yield _row("Fee", "Professional-Services", int(rng.integers(0, before)), float(rng.uniform(10_000, 300_000)))


def _nodes(rng: np.random.Generator, kind: str, hours: int) -> np.ndarray:
    """Return the nodes of one cluster by the hour."""
    size, at = int(rng.integers(4, 40)), np.arange(hours)
    nodes = np.full(hours, float(size))
    match kind:
        case "grows":
            nodes += np.floor(at / 24 * rng.uniform(0.01, 0.04) * size)
        case "steps":
            nodes[int(rng.integers(0, hours)) :] *= rng.uniform(0.5, 1.6)
        case "office":
            weekday, hour = (at // 24 + _at(0).weekday()) % 7, at % 24
            nodes *= (weekday < 5) & (hour >= 7) & (hour < 19)
        case "spot":
            nodes *= np.exp(np.cumsum(rng.normal(0, 0.004, hours)))
        case "jobs":
            busy = np.zeros(hours)
            for _ in range(hours // 30):
                start = int(rng.integers(0, hours))
                busy[start : start + int(rng.integers(6, 60))] = 1
            nodes *= 0.5 + 0.5 * busy
    return nodes


def _at(hour: int) -> datetime:
    return MONTH.start - _HISTORY + hour * _HOUR


def _row(kind: str, usage_type: str, hour: int, usd: float) -> Sequence[str]:
    at = _at(hour)
    return kind, "AmazonEC2", usage_type, at.isoformat(), (at + _HOUR).isoformat(), f"{usd:.6f}"


def table(every: Sequence[Asked]) -> str:
    """Draw one line a forecast, and what they come to."""
    lines = [f"{'month':<14}{'day':>4}{'forecast':>14}{'truth':>14}{'error':>9}  {'range':<27}in range"]
    for one in every:
        span = f"{one.forecast.low:,.0f} to {one.forecast.high:,.0f}"
        figures = f"{one.forecast.forecast:>14,.0f}{one.truth:>14,.0f}{one.error:>+9.1%}"
        lines.append(f"{one.month:<14}{one.day:>4}{figures}  {span:<27}{'yes' if one.held else 'NO'}")
    return "\n".join([*lines, summary(every)])


def summary(every: Sequence[Asked]) -> str:
    """Return the median error and the share of the months that ended within the range."""
    middle, held = median(abs(one.error) for one in every), sum(one.held for one in every) / len(every)
    return f"{len(every)} forecasts: median error {middle:.1%}, within the range {held:.0%}"


def run(worlds: Sequence[Path], seeds: Sequence[int]) -> list[Asked]:
    """Ask of each invented month and of each recording."""
    every: list[Asked] = []
    for seed in seeds:
        with tempfile.TemporaryDirectory() as folder:
            every += asked(f"invented {seed}", invented(seed, Path(folder)))
    for world in worlds:
        every += asked(world.name, open_billing(world))
    return every


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--worlds", type=Path, nargs="*", default=[], help="recordings whose bill covers September 2026")
    parser.add_argument("--seeds", type=int, nargs="*", default=list(SEEDS), help="seeds of invented months")
    arguments = parser.parse_args()
    print(table(run(arguments.worlds, arguments.seeds)))


if __name__ == "__main__":
    main()
