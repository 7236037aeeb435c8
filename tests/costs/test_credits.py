"""The rate of credits over a real export: whole days only."""

import csv
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

from adapters.billing.bill import open_billing
from adapters.store.memory import MemoryStore
from bot.answers.cost.commitments import credits_
from bot.grammar.line import understand
from bot.knowledge import load_knowledge
from bot.model.request import Request, User
from tests.belonging import MEMBER
from tests.builders import ports_over

NOW = datetime(2026, 11, 20, 17, tzinfo=UTC)
COLUMNS = ["line_item_line_item_type", "line_item_product_code", "line_item_usage_start_date", "line_item_usage_end_date",
           "line_item_unblended_cost"]  # fmt: skip


def rows():
    """Return usage and a credit an hour for 30 days: $6.25, so $150 a day."""
    at = datetime(2026, 10, 21, tzinfo=UTC)
    while at < NOW:
        span = [at.isoformat(), (at + timedelta(hours=1)).isoformat()]
        yield ["Usage", "AmazonEC2", *span, "100"]
        yield ["Credit", "AmazonEC2", *span, "-6.25"]
        at += timedelta(hours=1)


async def test_credits_of_150_dollars_each_day_are_150_dollars_a_day(tmp_path):
    with (tmp_path / "bill.csv").open("w", newline="") as file:
        csv.writer(file).writerows([COLUMNS, *rows()])
    ports = ports_over(
        None, MemoryStore(), billing=open_billing(tmp_path), knowledge=load_knowledge()
    )
    call = understand("credits balance=15000", NOW)
    data = (
        await credits_(ports, Request("credits", User("u"), NOW, "web", MEMBER), **call.arguments)
    ).data
    assert data["usd_per_day"] == Decimal("150.00")
    # Settled through Nov 17 (two days behind the newest hour): 15,000 / 150 = 100 days from Nov 18 on.
    assert data["gone_on"] == date(2026, 11, 18) + timedelta(days=100)
