"""The forecast of a month's end: by its parts, and through `cost` over a real export."""

import csv
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import numpy as np
import pytest

from adapters.billing.bill import open_billing
from adapters.store.memory import MemoryStore
from bot.answers.all import ANSWERS
from bot.app import App
from bot.costs.nowcast import MonthBill, Part, _whole, cost_ahead, forecast_month, month_end
from bot.costs.recurring import Due
from bot.costs.running import Running
from bot.errors import Unavailable
from bot.grammar.access import Access
from bot.knowledge import load_knowledge
from bot.model.fleet import Market, Reservation
from bot.model.labels import Labels
from bot.model.projection import project
from bot.model.request import Request, User
from bot.model.spend import Money, Spend, Tally
from bot.model.window import Window
from tests.belonging import MEMBER
from tests.builders import ports_over

assert ANSWERS
FEE = ("AWSSupport", "Dollar", "")
LINE = ("AmazonEC2", "NatGateway-Bytes", "")
NODES = ("BoxUsage:trn1.32xlarge", "llama")
NOV = Window(datetime(2026, 11, 1, tzinfo=UTC), datetime(2026, 12, 1, tzinfo=UTC))
HOUR = timedelta(hours=1)


def days(first, amounts):
    return {first + timedelta(days=n): Decimal(str(amount)) for n, amount in enumerate(amounts)}


def ended(amounts, until, first=date(2026, 11, 1), **more):
    return month_end(
        MonthBill({LINE: days(first, amounts)}, **more), NOV, datetime(2026, 11, until, tzinfo=UTC)
    )


def test_a_flat_bill_goes_on_and_its_range_leaves_room_for_what_no_bill_shows():
    found = ended([100] * 20, 19)
    assert (found.spent, found.forecast) == (1800, 3000)
    # Twelve days are left, in which a cluster may join or leave: at most an eighth of them.
    assert 3000 - 150 < found.low < 3000 < found.high < 3000 + 150


def test_a_bill_that_was_flat_for_long_has_a_narrow_range():
    found = ended([100] * 110, 19, first=date(2026, 8, 1))
    assert found.forecast == 3000
    assert Decimal(2970) < found.low < 3000 < found.high < Decimal(3030)


def test_a_fleet_that_stepped_before_has_the_wider_range():
    calm, stepped = (
        ended([100] * 30, 16, first=date(2026, 10, 16)),
        ended([60] * 10 + [80] * 10 + [100] * 10, 16, first=date(2026, 10, 16)),
    )
    assert (stepped.high - stepped.forecast) > 2 * (calm.high - calm.forecast)


def test_less_history_leaves_more_room():
    short, long = ended([100] * 5, 6), ended([100] * 25, 6, first=date(2026, 10, 12))
    assert short.forecast == long.forecast == 3000
    assert short.high - short.low > long.high - long.low


def test_one_bill_has_one_forecast():
    assert ended([3, 5, 4, 9], 5) == ended([3, 5, 4, 9], 5)


def test_days_after_the_settled_ones_do_not_count():
    assert ended([100] * 18 + [7, 1], 19) == ended([100] * 18, 19)


def test_a_fee_that_is_due_is_counted_once():
    found = ended([100] * 18, 19, due={FEE: Due(Decimal(70))})
    assert (found.fees, found.forecast) == (70, 3070)


def test_days_of_the_month_before_help_at_its_start():
    found = ended([10] * 10, 2, first=date(2026, 10, 25))
    assert (found.spent, found.forecast, found.days_used) == (10, 300, 8)


def test_fewer_than_three_days_say_nothing():
    assert ended([100, 100], 3) is None


@pytest.mark.parametrize(
    ("service", "day"),
    [
        ({}, 14),
        ({"S3": [10, 10, 10, 10, 9]}, 12),
        ({"S3": [10, 10, 10, 10, 8.9]}, 11),
        ({"S3": [10, 10, 10]}, 10),
        ({"S3": [10, 10, 5]}, 10),
        ({"S3": [1, 1, 1, 0.5]}, 14),
        ({"S3": [2.1, 2.1, 2.1, 0.5]}, 10),
        ({"S3": [0, 10, 10, 10]}, 14),
        ({"S3": [10, 10, 10, 10, 10], "FSx": [10, 10, 10, 4]}, 10),
    ],
)
def test_days_are_whole_until_the_first_service_that_is_not_slight_is_late(service, day):
    """The bill is settled until the 10th; `service` has the days from the 7th on."""
    services = {"AmazonEC2": days(date(2026, 11, 7), [100] * 7 + [50])}
    services |= {name: days(date(2026, 11, 7), usd) for name, usd in service.items()}
    through = datetime(2026, 11, 14, 12, tzinfo=UTC)
    assert _whole(services, through, date(2026, 11, 10)) == date(2026, 11, day)


def test_the_days_before_a_gap_in_the_bill_are_left_out():
    both = days(date(2026, 10, 1), [900] * 5) | days(date(2026, 11, 1), [10] * 5)
    bill = MonthBill({LINE: both})
    assert month_end(bill, NOV, datetime(2026, 11, 6, tzinfo=UTC)).days_used == 5


def test_an_unsteady_bill_has_a_wide_range_that_never_undoes_what_is_billed():
    found = ended([0, 0, 0, 1000, 200], 5)
    assert (found.spent, found.low) == (1000, 1200)
    assert found.low < found.forecast < found.high


def test_credits_that_make_days_negative_may_undo_what_is_spent():
    found = ended([100, -80, 90, -60], 5)
    assert found.low < found.spent < found.high


def test_a_refund_may_take_all_that_is_billed_and_no_more():
    found = ended([100, 100, -150, 100, 100, -150, 100], 8)
    assert found.low == 0 < found.forecast


@pytest.mark.parametrize("scale", [1, 10, 10**5])
def test_the_forecast_scales_with_the_bill(scale):
    one, many = ended([3, 4, 5, 6], 5), ended([3 * scale, 4 * scale, 5 * scale, 6 * scale], 5)
    assert many.forecast == pytest.approx(one.forecast * scale, rel=Decimal("1e-3"))
    assert many.high == pytest.approx(one.high * scale, rel=Decimal("1e-3"))


def test_a_growing_fleet_goes_on_growing():
    # 100, 102 ... 138 over 20 days; ten more of 140 ... 158 are 1,490, their mean by the newest level alone 1,380.
    projection = project([100 + 2 * n for n in range(20)], range(10))
    assert projection.middle == pytest.approx(1490, rel=0.02)
    assert projection.low <= 1490 <= projection.high


def test_one_step_is_no_growth():
    projection = project([100] * 14 + [150] * 6, range(10))
    assert projection.middle == pytest.approx(1500, rel=0.07)
    assert projection.low <= 1500 <= projection.high


def test_one_large_step_counts_as_one_of_many():
    once = project([100] * 30 + [300] * 30, range(20))
    often = project([100] * 15 + [300] * 15 + [100] * 15 + [300] * 15, range(20))
    # A level that tripled once is not expected to do so again; one that goes to and fro is.
    assert once.low > 0.75 * 6000
    assert often.high - often.low > 1.2 * (once.high - once.low)


def test_a_week_is_told_from_two_of_them():
    week = [100, 100, 100, 100, 100, 20, 20]
    assert project(week * 3, range(5)).middle == pytest.approx(500, rel=0.03)
    assert project(week * 3 + week[:5], range(2)).middle == pytest.approx(40, rel=0.2)


@pytest.mark.parametrize("wanders", [False, True], ids=["steady", "wanders"])
def test_the_range_holds_as_often_as_it_says(wanders):
    rng = np.random.default_rng(7)
    held = said = 0
    for _ in range(120):
        month = 1000 + (np.cumsum(rng.normal(0, 25, 44)) if wanders else rng.normal(0, 120, 44))
        found = project(list(month[:30]), range(14))
        held += found.low <= month[30:].sum() <= found.high
        said += found.held
    assert held / 120 >= said / 120 - 0.05
    assert said / 120 >= 0.8


def test_what_covers_nodes_ends_on_a_known_day():
    lapsing = {date(2026, 11, 21): Decimal(50), date(2026, 11, 3): Decimal(900)}
    bill = MonthBill({LINE: days(date(2026, 11, 1), [100] * 8)}, lapsing=lapsing)
    found = month_end(bill, NOV, datetime(2026, 11, 9, tzinfo=UTC))
    # Ten days at $50 more; what ended on the 3rd is in the bill.
    assert found.forecast == 3500
    assert found.lapses == {date(2026, 11, 21): 500}


DEC = Window(NOV.end, datetime(2027, 1, 1, tzinfo=UTC))


def test_a_month_to_come_is_what_goes_on_in_it():
    bill = MonthBill({LINE: days(date(2026, 10, 1), [100] * 48)}, due={FEE: Due(Decimal(7))})
    until = datetime(2026, 11, 18, tzinfo=UTC)
    this, following = month_end(bill, NOV, until), month_end(bill, DEC, until)
    assert (following.forecast, following.spent, following.month) == (3107, 0, DEC)
    # Of days farther off less is known.
    assert following.high - following.low > 2 * (this.high - this.low)
    assert following.low < 3107 < following.high


def test_a_weekday_of_a_month_to_come_costs_as_that_weekday_does():
    # Saturdays and Sundays are idle; December has 23 weekdays.
    week = [0 if date(2026, 10, 1 + n % 7).weekday() > 4 else 100 for n in range(7)]
    bill = MonthBill({LINE: days(date(2026, 10, 1), (week * 7)[:48])})
    found = month_end(bill, DEC, datetime(2026, 11, 18, tzinfo=UTC))
    assert found.forecast == pytest.approx(2300, rel=0.02)


def test_a_month_to_come_knows_the_end_of_what_covers_nodes_and_of_blocks():
    first, until = date(2026, 11, 1), datetime(2026, 11, 18, tzinfo=UTC)
    blocks = {("capacity-block",): days(first, [60] * 17)}
    bill = MonthBill(
        {LINE: days(first, [100] * 17), **blocks},
        lapsing={date(2026, 11, 28): Decimal(10), date(2026, 12, 30): Decimal(1)},
        ahead=Decimal(180),
    )
    found = month_end(bill, DEC, until)
    # 31 days of $110, three of a block, two at a dollar more.
    assert found.forecast == 3100 + 310 + 180 + 2
    assert found.lapses == {date(2026, 11, 28): 310, date(2026, 12, 30): 2}


class Lines:
    """A bill of $100 a day by service and usage type, each on some days from September 1 on."""

    def __init__(self, **lines):
        self.lines = lines

    def tally(self, window, by, where=(), most=None):
        rows = [
            Spend(
                {
                    "day": f"{date(2026, 9, 1) + timedelta(days=n)}",
                    "service": name,
                    "usage_type": kind,
                },
                Money(amortised=Decimal(100)),
            )
            for name, (kind, numbers) in self.lines.items()
            for n in numbers
        ]
        through = datetime(2026, 11, 12, tzinfo=UTC)
        return Tally(window, tuple(by), tuple(rows), Money(), billed_through=through)


DAILY = ("requests", range(72))
RUN = ("BoxUsage:trn1.32xlarge", [*range(9, 13), *range(40, 44), *range(70, 72)])


@pytest.mark.parametrize(
    ("sentence", "kind", "numbers", "november", "december"),
    [
        # September 10 to 13, October 11 to 14, and it is November 12.
        ("a run of each month ends with what the last cost", *RUN, 400, 400),
        ("a fee is counted at its day", "contract", [65], 100, 0),
        ("one of the last month does not come again", "contract", [45], 0, 0),
        ("one of the 1st, new, comes with the next", "licence", [61], 100, 100),
        ("two that stand alone are fees", "contract", [62, 68], 200, 0),
        ("days that follow each other are usage", "jobs", [62, 63, 69, 70], None, None),
        ("nodes of one day go on", "BoxUsage:trn1.2xlarge", [71], None, None),
        ("what is charged often goes on", "jobs", range(50, 72, 2), None, None),
    ],
)
def test_what_is_charged_on_few_days(sentence, kind, numbers, november, december):
    now = datetime(2026, 11, 12, 12, tzinfo=UTC)
    for month, added in ((NOV, november), (DEC, december)):
        plain, found = (
            forecast_month(Lines(**lines), now, Part(month=month))
            for lines in ({"S3": DAILY}, {"S3": DAILY, "EC2": (kind, numbers)})
        )
        if added is None:
            assert found.forecast - plain.forecast > 200, sentence
        else:
            assert found.forecast - plain.forecast == added, sentence


def test_a_cluster_of_weekends_costs_each_weekend_of_the_month():
    now, weekends = (
        datetime(2026, 11, 12, 12, tzinfo=UTC),
        [n for n in range(72) if n % 7 in (4, 5)],
    )
    plain, found = (
        forecast_month(Lines(**lines), now)
        for lines in ({"S3": DAILY}, {"S3": DAILY, "EC2": ("BoxUsage:trn1.32xlarge", weekends)})
    )
    assert abs(found.forecast - plain.forecast - 900) < 5


def test_a_block_that_began_before_the_month_costs_the_month_its_own_days():
    start, end = (NOV.start + n * timedelta(days=1) for n in (-2, 2))
    block = Reservation(Labels(resource="cr-1"), 1, 0, start, end, Market.CAPACITY_BLOCK)
    fee = Spend({"resource": "cr-1", "day": "2026-10-30"}, Money(net=Decimal(96)))
    assert cost_ahead([block], [fee], NOV) == 48
    assert cost_ahead([block], [fee], Window(NOV.start + timedelta(days=1), NOV.end)) == 24
    assert cost_ahead([block], [fee], DEC) == 0


def test_the_nodes_that_ran_tell_of_the_days_since_the_bill():
    # Bill until Nov 9: $100 a day, of which nodes $60. On the 9th the nodes double, and it is the 11th.
    noon = datetime(2026, 11, 11, 12, tzinfo=UTC)
    hours = np.array([2.5] * 4 * 24 + [5.0] * 60)
    running = Running(datetime(2026, 11, 5, tzinfo=UTC), noon, {NODES: hours})
    first = date(2026, 11, 1)
    bill = MonthBill({NODES: days(first, [60] * 8), LINE: days(first, [40] * 8)})
    until = datetime(2026, 11, 9, tzinfo=UTC)
    blind, seeing = month_end(bill, NOV, until), month_end(bill, NOV, until, running)
    assert blind.forecast == 3000
    # 8 days of $100 and 22 of $160 are $4,320.
    assert seeing.forecast == pytest.approx(Decimal(4320), rel=Decimal("0.05"))
    assert seeing.low <= 4320 <= seeing.high
    assert (seeing.running_since, blind.running_since) == (date(2026, 11, 9), None)


def test_nodes_that_ended_unseen_are_left_where_the_newest_hours_of_the_bill_agree():
    # Half of the nodes left at the midnight with which Nov 9 begins; only those that stay are known.
    lines = {NODES: days(date(2026, 11, 1), [120] * 8 + [30])}
    running = Running(
        datetime(2026, 11, 5, tzinfo=UTC),
        datetime(2026, 11, 10, 12, tzinfo=UTC),
        {NODES: np.full(132, 2.5)},
    )
    until, noon = (datetime(2026, 11, 9, hour, tzinfo=UTC) for hour in (0, 12))
    billed = month_end(MonthBill(lines, through=noon), NOV, until, running)
    unbilled = month_end(MonthBill(lines, through=until), NOV, until, running)
    # 8 days of $120 and 22 of $60 are $2,280; without the hours of Nov 9 all are $120.
    assert billed.forecast == pytest.approx(Decimal(2280), rel=Decimal("0.1"))
    assert unbilled.forecast == 3600


def test_days_since_the_bill_that_are_of_the_month_before_cost_this_one_nothing():
    running = Running(
        datetime(2026, 10, 26, tzinfo=UTC),
        datetime(2026, 11, 2, tzinfo=UTC),
        {NODES: np.full(7 * 24, 2.5)},
    )
    bill = MonthBill({NODES: days(date(2026, 10, 1), [60] * 30)})
    found = month_end(bill, NOV, datetime(2026, 10, 31, tzinfo=UTC), running)
    assert found.forecast == pytest.approx(Decimal(1800), rel=Decimal("0.001"))


COLUMNS = ["bill_invoice_id", "line_item_line_item_type", "line_item_product_code", "line_item_usage_type", "line_item_usage_start_date",
           "line_item_usage_end_date", "line_item_unblended_cost"]  # fmt: skip


class NoSource:
    """A source that cannot be read."""

    def read(self, now):
        raise Unavailable("no metrics")


@pytest.fixture
def forecast(tmp_path):
    """Return the forecast that `cost` tells at a time, over September and October at an even rate and some fees."""

    def asked(at, monthly, fees):
        first, end = datetime(2026, 9, 1, tzinfo=UTC), datetime(2026, 11, 1, tzinfo=UTC)
        with (tmp_path / "bill.csv").open("w", newline="") as file:
            lines = csv.writer(file)
            lines.writerow(COLUMNS)
            hourly = Decimal(monthly) / (31 * 24)
            for n in range(int((end - first) / HOUR)):
                lines.writerow(
                    [
                        "",
                        "Usage",
                        "AmazonEC2",
                        "BoxUsage:trn1.32xlarge",
                        *span(first + n * HOUR),
                        f"{hourly:.10f}",
                    ]
                )
            for day, product, usd in fees:
                lines.writerow(
                    [
                        "",
                        "Fee",
                        product,
                        "Fee",
                        *span(datetime.fromisoformat(day).replace(tzinfo=UTC)),
                        usd,
                    ]
                )
        bot = App(
            ports_over(
                NoSource(),
                MemoryStore(),
                billing=open_billing(tmp_path),
                knowledge=load_knowledge(),
            ),
            (),
            Access(),
            lambda: 0.0,
        )

        async def answer():
            return (await bot.answer(Request("cost this-month", User("u"), at, "web", MEMBER))).data

        return answer()

    return asked


def span(at):
    return [at.isoformat(), (at + HOUR).isoformat()]


async def test_forecast_on_october_20_counts_one_off_fees_once(forecast):
    # October ended at $1,195,662: fees of $411,964 and $20,000, and $763,698 of what recurs, evenly.
    fees = [
        ("2026-09-01", "AWSSupport", "20000"),
        ("2026-10-01", "AWSSupport", "20000"),
        ("2026-10-13", "Upfront", "411964"),
    ]
    data = await forecast(datetime(2026, 10, 20, 12, tzinfo=UTC), 763_698, fees)
    found = data["forecast"]
    assert found["amortised_usd"] == pytest.approx(Decimal(1_195_662), rel=Decimal("0.01"))
    assert found["low_usd"] <= 1_195_662 <= found["high_usd"]
    assert found["low_usd"] >= data["total"]["amortised_usd"], "never under what is already spent"
    assert found["fees_usd"] == 431_964


async def test_on_the_16th_the_fee_of_the_1st_is_not_repeated(forecast):
    data = await forecast(
        datetime(2026, 10, 16, 12, tzinfo=UTC), 310_000, [("2026-10-01", "AWSSupport", "20000")]
    )
    assert data["forecast"]["amortised_usd"] == pytest.approx(
        Decimal(330_000), rel=Decimal("0.005")
    )


async def test_a_fee_of_each_month_is_expected_at_its_day(forecast):
    fees = [("2026-09-25", "Licence", "5000"), ("2026-08-25", "Licence", "5000")]
    data = await forecast(datetime(2026, 10, 16, 12, tzinfo=UTC), 310_000, fees)
    assert data["forecast"]["amortised_usd"] == pytest.approx(
        Decimal(315_000), rel=Decimal("0.005")
    )
    assert data["forecast"]["fees_usd"] == 5_000
