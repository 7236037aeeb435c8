"""The price of every node of a recording that another hand made, against sums over its export that are taken without the bot."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from datetime import UTC, timedelta
from pathlib import Path

import duckdb
import pytest

from bot.costs.pricing import Pricing
from bot.model.price import Basis, Whose
from bot.model.spend import Filter
from bot.model.window import Window
from bot.settings.settings import read_settings
from bot.wiring.source import OpenedSource, memory_stores

WORLD = Path(__file__).parents[3] / "shared" / "world"
HALF_CENT = 0.0051

pytestmark = pytest.mark.skipif(
    not WORLD.exists(), reason="the other world's programs do not lie beside the repository"
)


def charged(folder: Path, week: Window) -> Mapping[str, tuple[float, float]]:
    """Return the USD and the hours of every instance in a week, by AWS's definition of amortised cost."""
    rows = duckdb.execute(
        """SELECT line_item_resource_id, sum(CASE WHEN line_item_line_item_type = 'SavingsPlanCoveredUsage'
               THEN savings_plan_savings_plan_effective_cost ELSE line_item_unblended_cost END)::DOUBLE, sum(line_item_usage_amount)::DOUBLE
           FROM read_parquet($files) WHERE line_item_usage_start_date >= $start AND line_item_usage_end_date <= $until
               AND regexp_matches(line_item_usage_type, '(^|-)(BoxUsage|SpotUsage):') AND line_item_resource_id LIKE 'i-%'
               AND line_item_line_item_type IN ('Usage', 'SavingsPlanCoveredUsage') GROUP BY ALL""",
        {
            "files": f"{folder}/billing/**/*.parquet",
            "start": week.start.replace(tzinfo=None),
            "until": week.end.replace(tzinfo=None),
        },
    ).fetchall()
    return {name: (usd, hours) for name, usd, hours in rows}


def test_node_hours_times_the_one_price_are_what_the_other_worlds_bill_says(tmp_path: Path) -> None:
    program = [
        sys.executable,
        str(WORLD / "make_recording.py"),
        "--seed",
        "1",
        "--days",
        "5",
        "--scenario",
        "money",
        str(tmp_path / "w"),
    ]
    subprocess.run(program, check=True, stdout=subprocess.DEVNULL)
    read = read_settings({"TRNBOT_SOURCE": f"recording:{tmp_path / 'w'}"})
    opened = OpenedSource(read.source, read)
    ports, at = opened.ports(memory_stores(), read.policy), opened.end()
    assert at is not None
    end = (at.astimezone(UTC) - read["billing.lag"]).replace(
        hour=0, minute=0, second=0, microsecond=0
    )
    week = Window(end - timedelta(days=7), end)
    rows = ports.world.billing.tally(week, ("resource",), [Filter("line", ("EC2", "compile"))]).rows
    cost = {row.key["resource"].rpartition("/")[2]: float(row.money.amortised) for row in rows}
    pricing, nodes = Pricing(ports).at(at), ports.world.source.read(at).inventory.instances
    seen = {
        name: (usd, hours)
        for name, (usd, hours) in charged(tmp_path / "w", week).items()
        if name in nodes and hours
    }
    assert len(seen) > 20
    for name, (usd, hours) in seen.items():
        price = pricing.instance(nodes[name])
        assert price is not None
        assert (price.basis, price.whose) == (Basis.BILLED, Whose.OWN)
        assert abs(float(price.usd_per_hour) * hours - usd) < HALF_CENT
        assert abs(cost[name] - usd) < HALF_CENT
