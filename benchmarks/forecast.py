"""Hold forecasts of a month's end against the month as it ended.

`python -m benchmarks.forecast [--worlds FOLDER...]`.

Each month is asked at noon of days 8, 16 and 24, of the bill as it stood then. Months are invented
here, each drawn by its seed alone: fleets of several clusters, some of which grow, change their
size at any hour, keep office hours or buy spot, with support fees of the 1st and, in every second
account, a one-off charge at any hour. The forecast was tuned on one set of seeds and counted once
on the other. Others are read from recordings that another hand made, whose bill covers that month
and the one before it.
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

from adapters.billing.bill import open_billing
from bot.costs.nowcast import Nowcast, forecast_month
from bot.costs.tally import BilledBy
from bot.model.window import NO_TIME, Window, month_of
from bot.ports import Billing

MONTH = month_of(datetime(2026, 9, 15, tzinfo=UTC))
DAYS = (8, 16, 24)
SETS = {"tuned": range(1001, 1025), "held": range(2001, 2025)}
"""Seeds of the months that the forecast was tuned on, and of those that nobody looked at until it was."""
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

    @property
    def width(self) -> float:
        """Return how wide the range is, as a share of the truth."""
        return float((self.forecast.high - self.forecast.low) / self.truth)


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
        yield from (
            _row("Usage", f"BoxUsage:c{n}", at, dollars)
            for at, dollars in enumerate(usd)
            if dollars > 0
        )
    storage = rng.uniform(1, 40) * np.exp(rng.normal(0, 0.1, hours))
    yield from (
        _row("Usage", "TimedStorage-ByteHrs", at, dollars) for at, dollars in enumerate(storage)
    )
    support = float(rng.choice([0, 5_000, 20_000]))
    first = [at for at in (_at(hour) for hour in range(hours)) if at.day == 1 and at.hour == 0]
    yield from (
        _row("Fee", "Support", int((at - _at(0)) / _HOUR), support) for at in first if support
    )
    if rng.random() < 0.5:
        yield _row(
            "Fee",
            "Professional-Services",
            int(rng.integers(0, hours)),
            float(rng.uniform(10_000, 300_000)),
        )


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
    """Draw one line a forecast, and what they come to, all of them and by day."""
    lines = [
        f"{'month':<14}{'day':>4}{'forecast':>14}{'truth':>14}{'error':>9}  {'range':<27}in range"
    ]
    for one in every:
        span = f"{one.forecast.low:,.0f} to {one.forecast.high:,.0f}"
        figures = f"{one.forecast.forecast:>14,.0f}{one.truth:>14,.0f}{one.error:>+9.1%}"
        lines.append(
            f"{one.month:<14}{one.day:>4}{figures}  {span:<27}{'yes' if one.held else 'NO'}"
        )
    by_day = (f"day {day:>2}: {summary([one for one in every if one.day == day])}" for day in DAYS)
    return "\n".join([*lines, *by_day, summary(every)])


def summary(every: Sequence[Asked]) -> str:
    """Return the median and the largest error, the share of months that ended within the range, and its median width."""
    errors, held = (
        sorted(abs(one.error) for one in every),
        sum(one.held for one in every) / len(every),
    )
    range_words = (
        f"within the range {held:.0%}, which is {median(one.width for one in every):.1%} wide"
    )
    return f"{len(every)} forecasts: median error {median(errors):.1%}, largest {errors[-1]:.1%}, {range_words}"


def invented_months(seeds: Sequence[int]) -> list[Asked]:
    """Ask of each invented month."""
    every: list[Asked] = []
    for seed in seeds:
        with tempfile.TemporaryDirectory() as folder:
            every += asked(f"invented {seed}", invented(seed, Path(folder)))
    return every


def main() -> None:
    """Print a table of the invented months, one of the recordings, and what both come to."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--worlds",
        type=Path,
        nargs="*",
        default=[],
        help="recordings whose bill covers September 2026",
    )
    parser.add_argument(
        "--set", choices=tuple(SETS), default="held", help="which seeds of invented months"
    )
    arguments = parser.parse_args()
    ours = invented_months(SETS[arguments.set])
    others = [one for world in arguments.worlds for one in asked(world.name, open_billing(world))]
    print(*(table(some) for some in (ours, others) if some), summary(ours + others), sep="\n\n")


if __name__ == "__main__":
    main()
