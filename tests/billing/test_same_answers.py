"""A simulated bill is answered as it was last seen to be answered, by every dimension and filter, in two forms."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from adapters.billing.bill import Bill, open_billing
from adapters.simulator.bill import write_bill
from adapters.simulator.fleet import build_fleet
from adapters.simulator.scenario import SCENARIOS
from bot.errors import WrongInput
from bot.model.spend import Filter
from bot.model.window import Window
from tests.worlds_in_figures import compared, figure

SPEC = SCENARIOS["calm"]
START = SPEC.start
HOUR, DAY = timedelta(hours=1), timedelta(days=1)
WINDOWS = {
    "two days": Window(START, START + 2 * DAY),
    "parts of days": Window(START + 5 * HOUR, START + DAY + 7 * HOUR),
    "an hour": Window(START + 9 * HOUR, START + 10 * HOUR),
    "before": Window(START - 40 * DAY, START - 30 * DAY),
}
BY = (
    ("account",),
    ("region", "service"),
    ("usage_type",),
    ("instance_type", "purchase"),
    ("family",),
    ("line",),
    ("cluster", "team"),
    ("project",),
    ("tag:owner",),
    ("day",),
    ("resource",),
    ("commitment", "commitment_ends", "line"),
    ("namespace",),
    ("pod",),
    (),
)
FILTERS = {
    "team": (Filter("team", ("search", "vision")),),
    "no team": (Filter("team", ("",)),),
    "not compute": (Filter("service", ("AmazonEC2",), negated=True),),
    "two": (Filter("purchase", ("on-demand",)), Filter("region", ("us-west-2",))),
}


@pytest.fixture(scope="module", params=["cur2", "focus1.2"])
def bill(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    folder = tmp_path_factory.mktemp("bill")
    fleet = build_fleet(SPEC, START, 2 * 1440, 7)
    write_bill(folder, SPEC, fleet, request.param)
    opened = open_billing(folder)
    yield request.param, opened
    opened.close()


def summed(bill: Bill, window: Window, by: tuple[str, ...], where: tuple[Filter, ...] = ()) -> Any:
    """Return totals and the rows' figures, of many the dearest and the last few."""
    try:
        tally = bill.tally(window, by, where)
    except WrongInput as error:
        return str(error)
    rows = [
        [*row.key.values(), str(row.money.net), str(row.money.amortised), row.estimated, row.hours]
        for row in tally.rows
    ]
    money = tally.total
    totals = [str(x) for x in (money.gross, money.discounts, money.credits, money.tax)]
    return {
        "rows": [len(rows), *rows[:3], *rows[3:][-2:]],
        "totals": [*totals, str(money.net), str(money.amortised), tally.currency],
    }


def answers(bill: Bill) -> dict[str, Any]:
    world: dict[str, Any] = {
        name: {
            ",".join(by) or "all": summed(bill, window, by)
            for by in (BY if name == "parts of days" else (("account",), ("day",), ()))
        }
        for name, window in WINDOWS.items()
    }
    world["filters"] = {
        name: summed(bill, WINDOWS["parts of days"], ("team",), where)
        for name, where in FILTERS.items()
    }
    now = datetime(START.year, START.month, START.day, tzinfo=UTC) + 2 * DAY
    for kind, frame in bill.deltas(now, 5).frames.items():
        world[kind] = {
            metric: [
                len(frame.things),
                frame.n_steps,
                f"{frame.start:%d %H:%M}",
                figure(total),
                known,
            ]
            for metric in frame.metrics
            for total in [float(np.nansum(frame.of(metric)))]
            for known in [int(np.isfinite(frame.of(metric)).sum())]
        }
    world["rates"] = repr(bill.rates(now))
    world["problems"] = list(bill.problems())
    return world


def test_a_bill_is_answered_as_it_was_last_seen_to_be_answered(bill: Any) -> None:
    form, opened = bill
    compared(Path(__file__).with_name("goldens") / f"{form}.json", answers(opened))
