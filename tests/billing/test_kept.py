"""A question to the bill is a query once: pages, presses and messages ask the same until a file changes or an hour begins."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from adapters.billing.questions import KeptTallies, TallyQuestion, whole_hours
from bot.errors import OverBudget, Unavailable, WrongInput
from bot.model.spend import Filter, Folded, Money, Spend, Tally
from bot.model.window import Window
from bot.ports.work import Lane, Work, within

HOUR = timedelta(hours=1)
LATER = Window(datetime(2026, 11, 1, tzinfo=UTC), datetime(2026, 11, 9, 10, 20, 30, tzinfo=UTC))


def tally_of(rows, window=LATER):
    return Tally(
        window,
        ("resource",),
        tuple(Spend({"resource": str(n)}, Money()) for n in range(rows)),
        Money(),
    )


def test_the_same_question_is_asked_of_the_tables_once(exports, november):
    bill = exports.bill(exports.line(), exports.line(line_item_resource_id="i-2"))
    first = bill.tally(november, ("team",), [Filter("cluster", ("llama",))])
    bill.close()  # a query would fail from here on
    assert bill.tally(november, ("team",), [Filter("cluster", ("llama",))]) == first
    with pytest.raises(Unavailable, match="could not be asked"):
        bill.tally(november, ("team",))


def test_a_moment_later_within_the_hour_is_the_same_question_where_every_charge_begins_at_an_hour(
    exports,
):
    bill = exports.bill(exports.line(), exports.line(exports.day + 3 * HOUR))
    asked = Window(exports.day - HOUR / 2, exports.day + 2.5 * HOUR)
    moved = Window(asked.start + HOUR / 4, asked.end + HOUR / 4)
    first = bill.tally(asked, ())
    bill.close()
    second = bill.tally(moved, ())
    assert (first.window, second.window) == (asked, moved)
    assert second.rows == first.rows
    with pytest.raises(Unavailable):
        bill.tally(Window(asked.start, asked.end + HOUR), ())


def test_a_charge_that_begins_within_an_hour_counts_from_its_minute(exports):
    bill = exports.bill(exports.line(), exports.line(exports.day + HOUR / 2, "5"))
    ends = (exports.day + HOUR / 4, exports.day + HOUR / 2, exports.day + 3 * HOUR / 4)
    assert [bill.tally(Window(exports.day, end), ()).total.net for end in ends] == [
        Decimal(1),
        Decimal(1),
        Decimal(6),
    ]


def test_a_rewritten_file_is_asked_anew(exports, november):
    bill = exports.bill(exports.line())
    assert bill.tally(november, ()).total.net == 1
    exports.put("bill.csv", [exports.line(cost="2.50"), exports.line(line_item_resource_id="i-2")])
    assert bill.tally(november, ()).total.net == Decimal("3.50")


def asked(n):
    return TallyQuestion(LATER, ("resource", str(n)))


def test_what_is_kept_is_bounded_and_the_oldest_goes_first():
    kept = KeptTallies(most=100)
    for n in range(3):
        kept.keep(asked(n), tally_of(40))
    assert [kept.get(asked(n)) is not None for n in range(3)] == [False, True, True]
    kept.get(asked(1))
    kept.keep(asked(3), tally_of(40))
    assert [kept.get(asked(n)) is not None for n in range(4)] == [False, True, False, True]
    kept.keep(asked(4), tally_of(100))
    assert kept.get(asked(4)) is None


def test_a_kept_answer_is_refused_to_a_line_that_may_not_have_so_many_rows():
    kept = KeptTallies()
    kept.keep(asked(1), tally_of(40))
    with within(Lane.QUICK, Work(rows=39)), pytest.raises(OverBudget, match="more than 39 rows"):
        kept.get(asked(1))
    with within(Lane.QUICK, Work(rows=40)):
        assert kept.get(asked(1))


def dearest_first(rows):
    return sorted(rows, key=lambda row: (row.key.get("day", ""), row.money.amortised), reverse=True)


@pytest.mark.parametrize("by", [("resource",), ("resource", "day"), ("resource", "cluster")])
@pytest.mark.parametrize("most", [1, 4, 50])
def test_a_page_holds_the_first_rows_of_the_whole_and_the_sum_of_all_others(
    exports, november, by, most
):
    kinds = ("Usage", "Credit", "Tax", "EdpDiscount")
    bill = exports.bill(
        *(
            exports.line(
                exports.day + n * 9 * HOUR,
                f"{7 * n % 11 + 1}.125",
                line_item_resource_id=f"i-{n % 7}",
                line_item_line_item_type=kinds[n % 4],
            )
            for n in range(20)
        )
    )
    whole, page = bill.tally(november, by), bill.tally(november, by, (), most)
    ranked = dearest_first(whole.rows)
    assert sorted(map(str, page.rows)) == sorted(map(str, ranked[:most]))
    if most >= len(ranked):
        assert page == whole
    else:
        others = ranked[most:]
        assert page.total == whole.total
        assert page.folded == Folded(
            len(others),
            sum((row.money for row in others), Money()),
            any(row.estimated for row in others),
            not all(row.estimated for row in others),
        )


@pytest.mark.parametrize("dearest", ["lately", "long ago"])
def test_beyond_a_page_is_estimated_by_its_own_charges(exports, november, dearest):
    lately = exports.line(exports.day + 300 * HOUR, "9" if dearest == "lately" else "1")
    settled = exports.line(cost="5", bill_invoice_id="42", line_item_resource_id="i-2")
    page = exports.bill(lately, settled).tally(november, ("resource",), (), 1)
    estimated = [row.estimated for row in page.rows]
    assert estimated == [dearest == "lately"]
    assert (page.folded.has_estimated, page.folded.has_final) == (dearest != "lately", *estimated)


def test_a_page_of_two_currencies_is_refused_whatever_it_shows(exports, november):
    euros = exports.line(line_item_currency_code="EUR", cost="0.01")
    bill = exports.bill(exports.line(cost="5"), euros)
    with pytest.raises(WrongInput, match="EUR and USD"):
        bill.tally(november, ("resource",), (), 1)


def test_whole_hours_begin_where_the_same_charges_do():
    assert whole_hours(LATER) == Window(LATER.start, datetime(2026, 11, 9, 11, tzinfo=UTC))
