"""How long cash lasts at a month's pace."""

from datetime import date
from decimal import Decimal

import pytest

from bot.answers.cost.commitments import Runway, runway_card, uses_of
from bot.answers.cost.month_end import Invoice
from bot.cards.card import Tone
from bot.model.spend import Money, Spend, Tally
from tests.cards.leads import NOWCAST, WEEK

TODAY = date(2026, 11, 20)


def runway(cash: str, credits: str = "0", tax: str = "0", waste: str = "0") -> Runway:
    invoice = Invoice(NOWCAST.forecast, Decimal(credits), Decimal(tax))
    return Runway(Decimal(cash), NOWCAST, invoice, Decimal(waste))


def test_cash_over_a_month_s_cost_with_its_range() -> None:
    found = runway(str(NOWCAST.forecast * 4))
    low, about, high = found.months or (0, 0, 0)
    assert about == 4
    assert low == found.cash / NOWCAST.high < 4 < high == found.cash / NOWCAST.low
    assert found.without_waste is None
    card = runway_card(found, TODAY)
    assert card.title.endswith("lasts about 4.0 months, until March 2027")
    assert card.data["runway"]["months"] == 4


def test_credits_and_tax_count_and_open_waste_is_told_apart() -> None:
    month = NOWCAST.forecast - 1000 + 300
    found = runway(str(month * 2), credits="-1000", tax="300", waste="100")
    assert found.usd_per_month == month
    assert found.without_waste == found.cash / (month - 73_000)
    (_, waste, *_) = (
        block for block in runway_card(found, TODAY).blocks if hasattr(block, "spans")
    )
    assert "Without the $100 an hour that open alerts waste" in str(waste)


def test_credits_that_pay_for_all_leave_the_cash_alone() -> None:
    found = runway("1000", credits=str(-NOWCAST.high))
    assert found.months is None
    assert runway_card(found, TODAY).title == "$1,000 is not touched"


@pytest.mark.parametrize(
    ("cash", "words"), [("1e11", "lasts more than 120 months"), ("1", "November 2026")]
)
def test_what_lasts_for_ever_and_what_is_gone_today(cash: str, words: str) -> None:
    assert words in runway_card(runway(cash), TODAY).title


def test_under_three_months_is_short_and_what_waste_costs_is_said_only_where_there_is_any() -> None:
    def card(months: str, waste: str = "0"):
        return runway_card(runway(str(NOWCAST.forecast * Decimal(months)), waste=waste), TODAY)

    assert [card(x).tone for x in ("2.99", "3")] == [Tone.WARNING, Tone.INFO]
    assert ["more than 120" in card(x).title for x in ("120", "120.1")] == [False, True]
    assert ["alerts waste" in str(card("5", x).blocks) for x in ("0", "1")] == [False, True]
    # What all of a month's cost would be saved by cannot be divided by.
    everything = str(NOWCAST.forecast / 730 + 1)
    assert "alerts waste" not in str(card("5", everything).blocks)


def test_capacity_blocks_that_name_no_commitment_are_one() -> None:
    """What nothing used of them is in the sum that `cost` says; hours on demand are no commitment."""

    def row(purchase: str, line: str, usd: int, commitment: str = "") -> Spend:
        key = {"purchase": purchase, "line": line, "commitment": commitment}
        key |= {"usage_type": "", "commitment_ends": ""}
        return Spend(key, Money(amortised=Decimal(usd)))

    tally = Tally(
        WEEK,
        ("commitment", "purchase", "line", "usage_type", "commitment_ends"),
        (
            row("capacity-block", "EC2", 90),
            row("capacity-block", "commitment", 10),
            row("reserved", "commitment", 5, "ri-1"),
            row("on-demand", "EC2", 1000),
        ),
        Money(),
    )
    block, reserved = uses_of(tally, [])
    assert (block.name, block.usd, block.unused_usd) == ("capacity-block", 100, 10)
    assert (reserved.name, reserved.usd, reserved.unused_usd) == ("ri-1", 5, 5)
