"""The bill as it stood at the time of the question, over an export that was written later."""

import csv
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from adapters.billing.bill import open_billing
from adapters.store.memory import MemoryStore
from bot.answers.all import ANSWERS
from bot.app import App
from bot.cards.card import EVERY, Text, plain
from bot.costs.tally import BilledBy
from bot.errors import Unavailable
from bot.grammar.access import Access
from bot.knowledge import load_knowledge
from bot.model.request import Request, User
from bot.model.spend import Money, Spend, Tally
from bot.model.window import NO_TIME, Window
from tests.belonging import MEMBER
from tests.builders import ports_over

assert ANSWERS
COLUMNS = ["bill_invoice_id", "line_item_line_item_type", "line_item_product_code", "line_item_usage_start_date",
           "line_item_usage_end_date", "line_item_unblended_cost"]  # fmt: skip
HOUR = timedelta(hours=1)
MONTH = datetime(2026, 10, 1, tzinfo=UTC)


def rows():
    """Return $10 an hour through September and October, all of it invoiced, and a fee of $20,000 on the 1st of October."""
    at = datetime(2026, 9, 1, tzinfo=UTC)
    while at < datetime(2026, 11, 1, tzinfo=UTC):
        yield [f"INV{at:%m}", "Usage", "AmazonEC2", at.isoformat(), (at + HOUR).isoformat(), "10"]
        at += HOUR
    yield ["INV10", "Fee", "AWSSupport", MONTH.isoformat(), (MONTH + HOUR).isoformat(), "20000"]


class NoSource:
    """A source that cannot be read."""

    def read(self, now):
        raise Unavailable("no metrics")


def bot_over(folder, columns, rows):
    """Return a bot over a bill of these rows and nothing else."""
    with (folder / "bill.csv").open("w", newline="") as file:
        csv.writer(file).writerows([columns, *rows])
    ports = ports_over(
        NoSource(), MemoryStore(), billing=open_billing(folder), knowledge=load_knowledge()
    )
    return App(ports, (), Access(), lambda: 0.0)


@pytest.fixture(scope="module")
def ask(tmp_path_factory):
    bot = bot_over(tmp_path_factory.mktemp("months"), COLUMNS, rows())

    async def answer(line, at):
        return await bot.answer(Request(line, User("u"), at, "web", MEMBER))

    return answer


async def test_in_mid_month_only_what_was_billed_by_then_is_shown(ask):
    card = await ask("cost 2026-10 by service", datetime(2026, 10, 16, 12, tzinfo=UTC))
    # Hours up to the 15th, 12:00: 14.5 days of $240, and the fee; the whole month is $27,440.
    assert card.data["total"]["net_usd"] == Decimal("14.5") * 240 + 20_000 == Decimal(23_480)
    assert (
        card.data["billed_through"] == card.data["seen"] == datetime(2026, 10, 15, 12, tzinfo=UTC)
    )
    assert "The files hold later charges" in " ".join(
        plain(block.spans) for block in card.blocks if isinstance(block, Text)
    )


async def test_rows_that_are_final_now_were_an_estimate_then(ask):
    card = await ask("cost 2026-09-28..2026-10-20 by day", datetime(2026, 10, 16, tzinfo=UTC))
    estimated = {row["key"]["day"]: row["estimated"] for row in card.data["rows"]}
    # September had its invoice; October had none.
    assert {day for day, whether in estimated.items() if whether} == {
        f"2026-10-{n:02}" for n in range(1, 15)
    }
    early = await ask("cost 2026-09-28..2026-09-30 by day", datetime(2026, 10, 3, tzinfo=UTC))
    assert all(row["estimated"] for row in early.data["rows"])


async def test_a_bill_that_ends_before_the_question_is_shown_whole(ask):
    card = await ask("cost 2026-10", datetime(2026, 11, 1, 3, tzinfo=UTC))
    assert card.data["total"]["net_usd"] == Decimal(27_440)
    assert "seen" not in card.data


async def test_a_bill_that_is_up_to_date_is_shown_whole_though_it_names_the_hour_under_way(ask):
    # The last row is of the hour from 23:00 to midnight.
    card = await ask("cost 2026-10", datetime(2026, 10, 31, 23, 30, tzinfo=UTC))
    assert card.data["total"]["net_usd"] == Decimal(27_440)
    assert "seen" not in card.data


class Counted:
    """Count the questions to a bill that reaches farther than the time of the question."""

    def __init__(self, through):
        self.through, self.asked = through, []

    def tally(self, window, by, where=(), most=None):
        self.asked.append(window)
        return Tally(
            window,
            tuple(by),
            (Spend({"team": "search"}, Money()),),
            Money(),
            billed_through=self.through,
        )


def test_the_bill_is_asked_once_where_all_of_a_window_was_an_estimate():
    at = datetime(2026, 10, 16, tzinfo=UTC)
    counted = Counted(at + 9 * timedelta(days=1))
    seen = BilledBy(counted, at, timedelta(days=1))
    (row,) = seen.tally(Window(datetime(2026, 10, 2, tzinfo=UTC), at), ("team",)).rows
    assert row.estimated
    assert counted.asked == [
        NO_TIME,
        Window(datetime(2026, 10, 2, tzinfo=UTC), at - timedelta(days=1)),
    ]
    (row,) = seen.tally(
        Window(datetime(2026, 8, 1, tzinfo=UTC), datetime(2026, 8, 9, tzinfo=UTC)), ("team",)
    ).rows
    assert not row.estimated
    assert len(counted.asked) == 3


NAMES = ["line_item_resource_id", "line_item_usage_account_id", "product_region_code"]


def volumes():
    """Return 2,520 volumes, each billed by the hour for some days of three weeks."""
    for n in range(2520):
        for day in range(n % 5, 21, 6):
            at = MONTH + timedelta(days=day, hours=n % 24)
            kind = "Credit" if (n + day) % 9 == 0 else "Usage"
            cost = f"{'-' if kind == 'Credit' else ''}{(n * 37 + day) % 320 + 1}.03"
            row = ["", kind, "AmazonEC2", at.isoformat(), (at + HOUR).isoformat(), cost]
            yield [*row, f"vol-{n:04}", f"{n % 3}", "us-west-2"]


@pytest.fixture(scope="module")
def ask_tail(tmp_path_factory):
    bot = bot_over(tmp_path_factory.mktemp("tail"), [*COLUMNS, *NAMES], volumes())

    async def answer(line, at, whole):
        request = Request(line, User("t:x", "x"), at, "terminal", MEMBER, whole=whole)
        return await bot.answer(request)

    return answer


@pytest.mark.parametrize("days", [18, 21], ids=["amid the bill", "at its end"])
@pytest.mark.parametrize(
    "line",
    [
        "cost 7d by resource",
        "cost 14d by resource,account",
        "cost 14d by day,resource",
        "cost 14d by resource account!=1",
    ],
)
async def test_a_page_draws_the_card_of_the_whole_and_sums_up_what_it_leaves_out(
    ask_tail, line, days
):
    at = MONTH + timedelta(days=days)
    whole, page = [await ask_tail(line, at, is_whole) for is_whole in (True, False)]
    assert page.title == whole.title
    assert page.blocks == whole.blocks
    count = len(whole.data["rows"])
    assert (count > EVERY) is ("!=" not in line)
    if count > EVERY:
        assert len(page.data["rows"]) == EVERY
        assert page.data["rest"]["rows"] == count - EVERY
    for name in ("net_usd", "amortised_usd", "credits_usd"):
        shown = sum(row[name] for row in page.data["rows"])
        beyond = page.data["rest"][name] if page.data["rest"] else 0
        assert shown + beyond == whole.data["total"][name] == page.data["total"][name]
