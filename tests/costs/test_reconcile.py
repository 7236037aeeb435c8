"""The estimate of a month beside its invoice, over a real export."""

import csv
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from adapters.billing.open import open_billing
from adapters.store.memory import MemoryStore
from bot.answers.line import understand
from bot.answers.reconcile import reconcile
from bot.cards.card import Table
from bot.costs.reconcile import reconciled, remember_estimate
from bot.model.request import Request, User
from bot.model.spend import Money, Spend, Tally
from bot.model.window import Window
from tests.belonging import MEMBER
from tests.builders import ports_over

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
COLUMNS = ["bill_invoice_id", "line_item_line_item_type", "line_item_product_code", "line_item_usage_start_date",
           "line_item_usage_end_date", "line_item_unblended_cost"]  # fmt: skip


def rows(daily):
    """Return a usage row a day from September on; months before November have an invoice, each with a credit of $50."""
    at = datetime(2026, 9, 1, tzinfo=UTC)
    while at < NOW.replace(hour=0):
        invoice = f"INV{at:%m}" if at.month < 11 else ""
        end = at + timedelta(days=1)
        yield [invoice, "Usage", "AmazonEC2", at.isoformat(), end.isoformat(), daily(at)]
        if at.day == 20:
            yield [invoice, "Credit", "AmazonEC2", at.isoformat(), end.isoformat(), "-50"]
        at = end


@pytest.fixture
def ports(tmp_path):
    def made(daily):
        with (tmp_path / "bill.csv").open("w", newline="") as file:
            csv.writer(file).writerows([COLUMNS, *rows(daily)])
        return ports_over(None, MemoryStore(), billing=open_billing(tmp_path))

    return made


async def ask(ports, words="reconcile 90d"):
    card = await reconcile(ports, Request(words, User("u"), NOW, "web", MEMBER), **understand(words, NOW).arguments)
    return card, {one["month"]: one for one in card.data["months"]}


async def test_each_closed_month_has_its_difference(ports):
    card, months = await ask(ports(lambda at: "10" if at < datetime(2026, 10, 20, tzinfo=UTC) else "20"))
    assert list(months) == ["2026-09", "2026-10", "2026-11"]
    assert (months["2026-09"]["difference_usd"], months["2026-09"]["within_range"]) == (0, True)
    october = months["2026-10"]
    assert (october["estimate"]["amortised_usd"], october["amortised_usd"]) == (310, 430)
    assert (october["difference_usd"], october["within_range"], october["final"]) == (120, False, True)
    assert (october["net_usd"], october["credits_usd"]) == (380, -50)
    assert (months["2026-11"]["final"], months["2026-11"]["difference_usd"]) == (False, None)
    assert card.title == "October 2026 cost +$120 (+27.9 %) against its estimate"
    (table,) = (block for block in card.blocks if isinstance(block, Table))
    assert table.rows[1] == ("2026-10", "$310", "Oct 16, again", "$430", "+$120 (+27.9 %)", "$380")
    assert table.rows[2][4] == "not final"


async def test_what_was_said_then_counts_before_what_would_be_said_now(ports):
    here = ports(lambda _: "10")
    for day in (3, 12, 15, 28):
        remember_estimate(here, datetime(2026, 10, day, 12, tzinfo=UTC))
    here.stores.documents.put(
        "estimates", "2026-10-15", {"at": "2026-10-15T12:00:00+00:00", "forecast": "250", "low": "240", "high": "260"}
    )
    remember_estimate(here, datetime(2026, 10, 15, 23, tzinfo=UTC))
    _, months = await ask(here, "reconcile 2026-10")
    assert list(months) == ["2026-10"]
    assert months["2026-10"]["estimate"] == {
        "at": datetime(2026, 10, 15, 12, tzinfo=UTC),
        "amortised_usd": Decimal(250),
        "low_usd": Decimal(240),
        "high_usd": Decimal(260),
        "remembered": True,
    }
    assert months["2026-10"]["difference_usd"] == 60


async def test_an_early_day_is_remembered_without_an_estimate(ports):
    here = ports(lambda _: "10")
    remember_estimate(here, datetime(2026, 9, 2, tzinfo=UTC))
    assert "forecast" not in here.stores.documents.get("estimates", "2026-09-02")
    _, months = await ask(here, "reconcile 2026-09")
    assert months["2026-09"]["estimate"]["remembered"] is False


async def test_a_bill_of_other_times_says_so(ports):
    card, months = await ask(ports(lambda _: "10"), "reconcile 2025-01")
    assert months == {}
    assert card.title == "The bill has no month in that window"


class Bill:
    """A flat bill that reaches so far; its newest two days may be rewritten, unless told otherwise."""

    def __init__(self, through, *, settled=False):
        self.through, self.settled = through, settled

    def tally(self, window, by, where=()):
        last = min(window.end, self.through)
        days = [day for day in window.days() if day.start < last]
        young = [not self.settled and day.end > self.through - timedelta(days=2) for day in days]
        each = Money(gross=Decimal(10), net=Decimal(10), amortised=Decimal(10))
        rows = [Spend({"day": f"{day.start:%Y-%m-%d}"}, each, is_young) for day, is_young in zip(days, young, strict=True)]
        return Tally(window, tuple(by), tuple(rows), sum((row.money for row in rows), Money()), billed_through=self.through)


@pytest.mark.parametrize(
    ("through", "settled", "final"),
    [
        (datetime(2026, 11, 3, tzinfo=UTC), False, True),
        (datetime(2026, 11, 2, 23, tzinfo=UTC), False, False),  # its last day may still be rewritten
        (datetime(2026, 11, 1, tzinfo=UTC), True, True),
        (datetime(2026, 10, 31, 23, tzinfo=UTC), True, False),  # an hour is missing
    ],
)
def test_a_month_is_final_once_it_is_billed_whole_and_nothing_of_it_is_rewritten(through, settled, final):
    october = Window(datetime(2026, 10, 1, tzinfo=UTC), datetime(2026, 11, 1, tzinfo=UTC))
    (found,) = reconciled(Bill(through, settled=settled), MemoryStore(), october, NOW)
    assert (found.month, found.final) == (october, final)
