"""The rate of credits over a real export: whole days only."""

import csv
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import pytest

from adapters.billing.bill import open_billing
from adapters.store.memory import MemoryStore
from bot.answers.cost.commitments import Burn, burn_down, credits_, credits_card
from bot.cards.card import Tone
from bot.errors import WrongInput
from bot.grammar.line import understand
from bot.knowledge import load_knowledge
from bot.model.request import Request, User
from bot.model.spend import Money, Tally
from bot.model.window import Window
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


def burnt(*usd, balance=None):
    """Return the burn of some days, the last of which is the day before that of the question."""
    days = [NOW.date() - timedelta(days=n) for n in range(len(usd), 0, -1)]
    daily = dict(zip(days, map(Decimal, usd), strict=True)) | {NOW.date(): Decimal(-9999)}
    left = None if balance is None else Decimal(balance)
    # The order of the days is none of the bill's.
    return burn_down(dict(reversed(daily.items())), NOW.date(), left)


def test_three_settled_days_make_a_rate_and_the_day_of_the_question_is_none_of_them():
    assert burnt("-1", "-2") is None
    assert burnt("-1", "-2", "-6") == Burn(
        Decimal(3), 3, NOW.date() - timedelta(days=3), None, None
    )


@pytest.mark.parametrize(
    ("balance", "usd", "days"),
    [
        ("8.99", "-3", 2),
        ("9", "-3", 3),
        ("0", "-3", 0),
        ("1e11", "-0.01", 36_500),
        ("9", "0", None),
        ("9", "1", None),
        (None, "-3", None),
    ],
)
def test_a_balance_lasts_whole_days_and_is_not_gone_where_nothing_burns(balance, usd, days):
    burn = burnt(usd, usd, usd, balance=balance)
    assert burn.gone_on == (None if days is None else NOW.date() + timedelta(days=days))


def test_the_card_warns_where_less_than_thirty_days_are_left():
    tally = Tally(Window(NOW - timedelta(days=7), NOW), (), (), Money(credits=Decimal(-21)))

    def card(balance, of=tally):
        burn = burnt("-3", "-3", "-3", balance=balance) if balance != "" else None
        return credits_card(of, burn, load_knowledge().claims().programmes, NOW.date())

    assert [card(x).tone for x in ("89.99", "90", None, "")] == [
        Tone.WARNING,
        Tone.INFO,
        Tone.INFO,
        Tone.INFO,
    ]
    assert ["used up about" in card(x).title for x in ("90", None, "")] == [True, False, False]
    said = [str(card(x).blocks) for x in ("90", None, "")]
    assert ["no API for the remaining balance" in x for x in said] == [False, True, False]
    assert ["Fewer than three settled days" in x for x in said] == [False, False, True]
    idle = credits_card(tally, burnt("0", "0", "0", balance="90"), (), NOW.date())
    assert "no credits are being used now" in str(idle.blocks)
    # Programs are of use without a bill, too, and nothing of a bill is offered there.
    bare = card("", None)
    assert (bare.data["total"], "cost mtd" in str(bare.blocks)) == (None, False)
    assert len(bare.data["programmes"]) == len(load_knowledge().claims().programmes)


@pytest.mark.parametrize(("balance", "fits"), [("0", True), ("-1", False), ("1e12", False)])
async def test_the_ends_of_a_balance(tmp_path, balance, fits):
    ports = ports_over(
        None, MemoryStore(), billing=open_billing(tmp_path), knowledge=load_knowledge()
    )
    request = Request("credits", User("u"), NOW, "web", MEMBER)
    window = Window(NOW - timedelta(days=7), NOW)
    try:
        await credits_(ports, request, window=window, balance=Decimal(balance))
    except WrongInput:
        assert not fits
    else:
        assert fits
