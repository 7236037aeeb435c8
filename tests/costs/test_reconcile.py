"""The estimate of a month beside its invoice, over a real export."""

import csv
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from adapters.billing.bill import open_billing
from adapters.store.memory import MemoryStore
from bot.answers.cost.month_end import MonthEnd, month_end_card, reconcile
from bot.cards.card import Table, Text
from bot.costs.reconcile import reconciled, remember_estimate
from bot.grammar.line import understand
from bot.model.request import Request, User
from bot.model.spend import Money, Spend, Tally
from bot.model.window import Window
from tests.belonging import MEMBER
from tests.builders import ports_over
from tests.cards.leads import NOWCAST

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
    card = await reconcile(
        ports, Request(words, User("u"), NOW, "web", MEMBER), **understand(words, NOW).arguments
    )
    return card, {one["month"]: one for one in card.data["months"]}


async def test_each_closed_month_has_its_difference(ports):
    card, months = await ask(
        ports(lambda at: "10" if at < datetime(2026, 10, 20, tzinfo=UTC) else "20")
    )
    assert list(months) == ["2026-09", "2026-10", "2026-11"]
    assert (months["2026-09"]["difference_usd"], months["2026-09"]["within_range"]) == (0, True)
    october = months["2026-10"]
    assert (october["estimate"]["amortised_usd"], october["amortised_usd"]) == (310, 430)
    assert (october["difference_usd"], october["within_range"], october["final"]) == (
        120,
        False,
        True,
    )
    assert (october["net_usd"], october["credits_usd"]) == (380, -50)
    assert (months["2026-11"]["final"], months["2026-11"]["difference_usd"]) == (False, None)
    assert card.title == "October 2026 cost +$120 (+27.9 %) against its estimate"
    (table,) = (block for block in card.blocks if isinstance(block, Table))
    assert table.rows[1] == (
        "2026-10",
        "$310",
        "Oct 16, again",
        "Oct 15",
        "$430",
        "+$120 (+27.9 %)",
        "$380",
    )
    assert table.rows[2][5] == "not final"


async def test_what_was_said_then_counts_before_what_would_be_said_now(ports):
    here = ports(lambda _: "10")
    for day in (3, 12, 15, 28):
        remember_estimate(here, datetime(2026, 10, day, 12, tzinfo=UTC))
    here.stores.documents.put(
        "estimates",
        "2026-10-15",
        {"at": "2026-10-15T12:00:00+00:00", "forecast": "250", "low": "240", "high": "260"},
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
        "settled_until": None,
        "billed_usd": None,
        "estimated_usd": None,
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


async def test_an_estimate_of_later_than_the_question_is_not_told(ports):
    here = ports(lambda _: "10")
    remember_estimate(here, datetime(2026, 11, 16, 12, tzinfo=UTC))
    sixth = datetime(2026, 11, 6, 12, tzinfo=UTC)
    (november,) = reconciled(
        here.world.billing, here.stores.documents, Window(sixth, sixth + timedelta(hours=1)), sixth
    )
    assert (november.estimate.at, november.estimate.remembered) == (sixth, False)


async def test_an_estimate_says_what_it_knew_and_which_part_of_it_was_an_estimate(ports):
    here = ports(lambda at: "10" if at < datetime(2026, 11, 16, tzinfo=UTC) else "14")
    remember_estimate(here, datetime(2026, 11, 16, 12, tzinfo=UTC))
    card, months = await ask(here, "reconcile 2026-11")
    then = months["2026-11"]["estimate"]
    # The files end with the 19th: at noon of the 16th the days before the 14th had settled, each of $10.
    assert (then["at"], then["settled_until"]) == (
        datetime(2026, 11, 16, 12, tzinfo=UTC),
        datetime(2026, 11, 14, tzinfo=UTC),
    )
    assert (then["billed_usd"], then["estimated_usd"], then["amortised_usd"]) == (130, 170, 300)
    (said,) = (
        str(block.spans[0])
        for block in card.blocks
        if isinstance(block, Text) and "not final" in str(block.spans)
    )
    assert "Of its estimate, $130 was billed before Nov 14, and $170 was estimated." in said


async def test_a_month_that_goes_on_is_compared_over_the_same_hours(ports):
    here = ports(lambda at: "10" if at < datetime(2026, 11, 16, tzinfo=UTC) else "14")
    remember_estimate(here, datetime(2026, 11, 16, 12, tzinfo=UTC))
    _, months = await ask(here, "reconcile 2026-11")
    # Settled by now: the days before the 18th. $130 + four of the 17 days' $170, against 15 days of $10 and two of $14.
    assert months["2026-11"]["so_far"] == {
        "until": datetime(2026, 11, 18, tzinfo=UTC),
        "estimated_usd": Decimal("170.00"),
        "billed_usd": Decimal(178),
        "difference_usd": Decimal("8.00"),
    }
    assert months["2026-11"]["difference_usd"] is None


FIRST = datetime(2026, 1, 1, tzinfo=UTC)


class Bill:
    """A flat bill that reaches so far; its newest two days may be rewritten, unless told otherwise.

    Beside the days from the `first` on it may hold the fees of each month's first.
    """

    def __init__(self, through, *, settled=False, first=FIRST, fees=False):
        self.through, self.settled, self.first, self.fees = through, settled, first, fees

    def tally(self, window, by, where=(), most=None):
        last = min(window.end, self.through)
        days = [
            day
            for day in window.days()
            if day.start < last and (self.first <= day.start or (self.fees and day.start.day == 1))
        ]
        young = [not self.settled and day.end > self.through - timedelta(days=2) for day in days]
        each = Money(gross=Decimal(10), net=Decimal(10), amortised=Decimal(10))
        rows = [
            Spend({"day": f"{day.start:%Y-%m-%d}"}, each, is_young)
            for day, is_young in zip(days, young, strict=True)
        ]
        return Tally(
            window,
            tuple(by),
            tuple(rows),
            sum((row.money for row in rows), Money()),
            billed_through=self.through,
        )


@pytest.mark.parametrize(
    ("through", "settled", "final"),
    [
        (datetime(2026, 11, 3, tzinfo=UTC), False, True),
        (
            datetime(2026, 11, 2, 23, tzinfo=UTC),
            False,
            False,
        ),  # its last day may still be rewritten
        (datetime(2026, 11, 1, tzinfo=UTC), True, True),
        (datetime(2026, 10, 31, 23, tzinfo=UTC), True, False),  # an hour is missing
    ],
)
def test_a_month_is_final_once_it_is_billed_whole_and_nothing_of_it_is_rewritten(
    through, settled, final
):
    october = Window(datetime(2026, 10, 1, tzinfo=UTC), datetime(2026, 11, 1, tzinfo=UTC))
    (found,) = reconciled(Bill(through, settled=settled), MemoryStore(), october, NOW)
    assert (found.month, found.final) == (october, final)


def test_a_month_of_which_the_bill_lacks_the_first_days_is_not_closed():
    """An export that begins on the 13th holds a part of its month."""
    october = Window(datetime(2026, 10, 1, tzinfo=UTC), datetime(2026, 11, 1, tzinfo=UTC))
    through = datetime(2026, 11, 5, tzinfo=UTC)
    first = datetime(2026, 10, 13, tzinfo=UTC)
    bills = Bill(through), Bill(through, first=first), Bill(through, first=first, fees=True)
    finals = [reconciled(bill, MemoryStore(), october, NOW)[0].final for bill in bills]
    assert finals == [True, False, False]


@pytest.mark.parametrize(
    ("first", "fees", "words"),
    [
        (1, False, "All of October 2026"),
        (13, False, "October 2026, 19 of 31 days"),
        (13, True, "October 2026, 20 of 31 days"),
    ],
)
def test_a_forecast_names_the_part_of_last_month_that_the_bill_holds(first, fees, words):
    october = Window(datetime(2026, 10, 1, tzinfo=UTC), datetime(2026, 11, 1, tzinfo=UTC))
    bill = Bill(NOW, first=datetime(2026, 10, first, tzinfo=UTC), fees=fees)
    card = month_end_card(MonthEnd(NOWCAST, None, bill.tally(october, ("day",))))
    assert words in str(card.blocks)


def test_a_month_of_which_nothing_has_settled_has_spent_nothing_until_a_day_before_it():
    bill = Bill(NOW, first=datetime(2026, 10, 1, tzinfo=UTC)).tally(NOWCAST.month, ("day",))
    begun = replace(NOWCAST, settled=NOWCAST.month.start + timedelta(days=3))
    fresh = replace(NOWCAST, settled=NOWCAST.month.start - timedelta(days=2))
    said = ["Spent until" in str(month_end_card(MonthEnd(x, None, bill))) for x in (begun, fresh)]
    assert said == [True, False]
