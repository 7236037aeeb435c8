"""What AWS has promised: its cost in this month and the next, amortised and as it is paid."""

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import pytest

from adapters.store.memory import MemoryStore
from bot.answers.cost.title import range_words
from bot.costs.nowcast import Part, forecast_month
from bot.costs.running import Booking, Fleet, fleet_of
from bot.knowledge import load_knowledge
from bot.model.fleet import Inventory, Market, Reservation
from bot.model.labels import Labels
from bot.model.price import AccountRates, Basis, Price
from bot.model.reading import Reading
from bot.model.spend import Filter, Money, Spend, Tally
from bot.model.window import Window
from tests.builders import ports_over

NOV = Window(datetime(2026, 11, 1, tzinfo=UTC), datetime(2026, 12, 1, tzinfo=UTC))
DEC = Window(NOV.end, datetime(2027, 1, 1, tzinfo=UTC))
NOW = datetime(2026, 11, 10, 12, tzinfo=UTC)
PRICE = Price(
    "trn2.48xlarge",
    Decimal(10),
    Market.CAPACITY_BLOCK,
    Basis.FALLBACK,
    "us-east-2",
    date(2026, 7, 22),
    "the list",
)


class Bill:
    """A bill of $100 a day until now, and of the fees of blocks: (day, resource, net, amortised)."""

    def __init__(self, *fees):
        self.fees = fees

    def tally(self, window, by, where=(), most=None):
        rows = []
        prepaid = {"purchase": "capacity-block", "service": "AmazonEC2", "usage_type": "fee"}
        for n in range(40):
            at = NOW.replace(hour=0) - n * timedelta(days=1)
            key = {"day": f"{at:%Y-%m-%d}", "service": "AmazonS3", "usage_type": "requests"}
            rows.append(Spend(key, Money(net=Decimal(100), amortised=Decimal(100))))
        for day, resource, net, amortised in self.fees:
            key = {"day": day, "hour": f"{day}T10:00", "resource": resource, **prepaid}
            rows.append(Spend(key, Money(net=Decimal(net), amortised=Decimal(amortised))))
        rows = [
            row
            for row in rows
            if datetime.fromisoformat(row.key["day"]).replace(tzinfo=UTC) in window
            and all(x.keeps(row.key) for x in where)
        ]
        return Tally(window, tuple(by), tuple(rows), Money(), billed_through=NOW)


def block(bought, start, end, **more):
    """Return a reservation of one node, by days of November."""
    first = NOV.start - timedelta(days=1)
    bought, start, end = (n and first + n * timedelta(days=1) for n in (bought, start, end))
    labels = Labels(resource="cr-1", instance_type="trn2.48xlarge", region="us-east-2", team="lab")
    return replace(
        Reservation(labels, 1, 0, start, end, Market.CAPACITY_BLOCK, bought_at=bought), **more
    )


ON_DEMAND = {"market": Market.RESERVED, "state": "scheduled"}


@pytest.mark.parametrize(
    ("what", "held", "fees", "november", "december"),
    [
        # USD amortised and paid, of this month and of the next; an hour is $10, a day $240.
        ("a block of this month", block(10, 20, 25), [], (1200, 1200), (0, 0)),
        ("one over its end", block(10, 26, 36), [], (1200, 2400), (1200, 0)),
        ("one of the next, bought now", block(10, 35, 45), [], (0, 2400), (2400, 0)),
        ("its fee not on its day", block(3, 35, 45), [], (0, 0), (2400, 2400)),
        ("one that began", block(9, 10, 20), [], (2400, 2400), (0, 0)),
        ("payment pending", block(10, 20, 25, state="payment-pending"), [], (1200, 1200), (0, 0)),
        ("billed by name", block(8, 20, 25), [("2026-11-08", "cr-1", 999, 0)], (999, 0), (0, 0)),
        ("billed on its day", block(8, 20, 25), [("2026-11-08", "", 999, 0)], (999, 0), (0, 0)),
        ("left on its day", block(8, 20, 25), [("2026-11-08", "", 999, 999)], (0, 0), (0, 0)),
        ("another's fee", block(9, 20, 25), [("2026-11-06", "", 999, 999)], (1200, 1200), (0, 0)),
        (
            "on demand from a day on",
            block(9, 26, None, **ON_DEMAND),
            [],
            (1200, 1200),
            (7440, 7440),
        ),
        ("on demand to a day", block(9, 26, 41, **ON_DEMAND), [], (1200, 1200), (2400, 2400)),
    ],
)
def test_what_is_promised_is_in_the_forecast(what, held, fees, november, december):
    bill = Bill(*fees)
    fleet = Fleet(
        blocks=[held] if held.market is Market.CAPACITY_BLOCK else [],
        bookings=[Booking(held, PRICE)],
    )
    for month, added in ((NOV, november), (DEC, december)):
        for amount, expected in zip((None, lambda money: money.net), added, strict=True):
            part = Part(month=month, amount=amount) if amount else Part(month=month)
            plain = forecast_month(bill, NOW, part)
            found = forecast_month(bill, NOW, part, fleet)
            assert found.forecast - plain.forecast == expected, (what, month.start, amount)


class World:
    """A bill without rates, and lists without prices: what is left is the dated fallback."""

    def rates(self, now):
        return AccountRates()

    def quotes(self, instance_type, region, now):
        return ()


@pytest.mark.parametrize(
    ("where", "count"),
    [
        ([], 2),
        ([Filter("team", ("lab",))], 2),
        ([Filter("team", ("vision",))], 0),
        ([Filter("purchase", ("capacity-block",))], 1),
        ([Filter("purchase", ("capacity-block",), negated=True)], 1),
        ([Filter("service", ("AmazonEC2",)), Filter("region", ("us-east-2",))], 2),
        ([Filter("service", ("AmazonS3",))], 0),
    ],
)
def test_what_is_promised_counts_in_the_part_of_the_bill_that_it_belongs_to(where, count):
    over = block(-9, -5, 2)
    later = block(9, 26, None, **ON_DEMAND)
    later = replace(later, labels=replace(later.labels, instance_type="trn1.32xlarge"))
    inventory = Inventory(NOW, blocks=(over, block(9, 20, 25, total=2)), scheduled=(later,))
    ports = ports_over(World(), MemoryStore(), knowledge=load_knowledge())
    fleet = fleet_of(ports, Reading(NOW, {}, inventory), where)
    assert len(fleet.bookings) == count


def test_the_card_says_what_is_promised_and_from_which_price():
    held = Booking(block(9, 20, 25, total=2), PRICE)
    fleet = Fleet(blocks=[held.reservation], bookings=[held])
    words = range_words(forecast_month(Bill(), NOW, fleet=fleet), None, Bill().tally(NOV, ()))
    assert words.endswith(
        "; a Capacity Block of 2 x trn2.48xlarge from Nov 20 that is on no bill yet adds $2,400"
        " (an estimate: dated fallback of Jul 22, 2026)."
    )


def test_a_fee_without_the_tags_of_its_hours_pays_for_them():
    held = block(8, 20, 25)
    fleet = Fleet(blocks=[held], bookings=[Booking(held, PRICE)])
    bill = Bill(("2026-11-08", "cr-1", 999, 0))
    found = forecast_month(bill, NOW, Part([Filter("team", ("lab",))]), fleet)
    assert (found.forecast, found.bookings) == (999, [])


class Ended(Bill):
    """The same bill, of which a team had a hundred dollars a day up to the end of October."""

    def tally(self, window, by, where=(), most=None):
        tally = super().tally(window, by)
        if not where:
            return tally
        return replace(tally, rows=tuple(x for x in tally.rows if x.key["day"] < "2026-11-01"))


def test_a_part_of_the_bill_that_ended_is_not_forecast_from_its_last_days():
    found = forecast_month(Ended(), NOW, Part([Filter("team", ("lab",))]))
    assert (found.spent, found.forecast < 100) == (0, True)
