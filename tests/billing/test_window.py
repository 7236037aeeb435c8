"""Half-open windows; the rollup and the detail say the same."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from adapters.billing.bill import open_billing
from bot.errors import Unavailable, WrongInput
from bot.model.spend import Filter
from bot.model.window import Window

T0 = datetime(2026, 10, 30, tzinfo=UTC)
MINUTES = st.integers(0, 10 * 24 * 60)


@pytest.fixture(scope="module")
def folder(tmp_path_factory, request):
    return tmp_path_factory.mktemp("hours")


def amount(n):
    return Decimal(n * n + 1) / 100


def hours(line):
    return [
        line(
            T0 + timedelta(minutes=97 * n),
            str(amount(n)),
            line_item_product_code="AmazonEC2" if n % 3 else "AmazonS3",
        )
        for n in range(150)
    ]


@given(a=MINUTES, b=MINUTES)
@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_any_window_is_the_straight_sum(exports, folder, a, b):
    if not (folder / "billing").exists():
        exports.write_csv(folder / "billing" / "bill.csv", hours(exports.line))
        type(exports).shared = open_billing(folder)
    window = Window(T0 + timedelta(minutes=min(a, b)), T0 + timedelta(minutes=max(a, b)))
    tally = type(exports).shared.tally(window, ("service",))
    assert tally.total.net == sum(
        amount(n) for n in range(150) if T0 + timedelta(minutes=97 * n) in window
    )
    fine = type(exports).shared.tally(window, ("service", "hour"))
    assert fine.total == tally.total


def test_the_end_is_not_inside(exports):
    bill = exports.bill(
        exports.line(exports.day, "1"), exports.line(exports.day + timedelta(hours=1), "2")
    )
    assert bill.tally(Window(exports.day, exports.day + timedelta(hours=1)), ()).total.net == 1
    assert (
        bill.tally(
            Window(exports.day + timedelta(hours=1), exports.day + timedelta(hours=2)), ()
        ).total.net
        == 2
    )


def test_a_fee_counts_by_its_own_start(exports):
    fee = exports.line(exports.day.replace(day=1), "50", "Fee", hours=30 * 24)
    bill = exports.bill(fee, exports.line())
    assert bill.tally(Window(exports.day.replace(day=1), exports.day), ()).total.net == 50
    assert bill.tally(
        Window(exports.day, exports.day + timedelta(days=1)), ()
    ).billed_through == exports.day + timedelta(hours=1)


def test_an_unknown_dimension_gets_the_nearest(exports, november):
    bill = exports.bill(exports.line())
    for dimension, hint in {
        "servise": "did you mean 'service'",
        "instance-typ": "did you mean 'instance_type'",
        "tag:": "names no tag",
        "zz": "known: ",
    }.items():
        for asked in (((dimension,), ()), (("team",), (Filter(dimension, ("x",)),))):
            with pytest.raises(WrongInput, match=hint):
                bill.tally(november, *asked)


FILTERS = [
    (Filter("team", ("search",)), {"search"}),
    (Filter("team", ("search", "ads")), {"search", "ads"}),
    (Filter("team", ("search",), negated=True), {"ads", ""}),
    (Filter("team", ("",)), {""}),
    (Filter("team", ("nobody",)), set()),
    (Filter("tag:team", ("ads",)), {"ads"}),
    (Filter("day", ("2026-11-02",)), {"search", "ads", ""}),
]
"""Filters, and the teams whose rows they keep."""


def test_filters(exports, november):
    rows = [exports.line(resource_tags={"user_team": team}) for team in ("search", "ads")]
    bill = exports.bill(*rows, exports.line(resource_tags={}))
    for condition, kept in FILTERS:
        found = bill.tally(november, ("team",), [condition]).rows
        assert {row.key["team"] for row in found} == kept, condition


def test_rows_stand_by_net_then_key(exports, november):
    rows = [
        exports.line(cost=c, resource_tags={"user_team": t})
        for c, t in (("1", "b"), ("5", "c"), ("1", "a"), ("-2", "d"))
    ]
    assert [r.key["team"] for r in exports.bill(*rows).tally(november, ("team",)).rows] == [
        "c",
        "a",
        "b",
        "d",
    ]


@pytest.mark.parametrize(
    ("days_old", "invoice", "estimated"),
    [(0, "INV1", True), (1, "INV1", True), (3, "INV1", False), (3, "", True)],
)
def test_what_may_still_change_is_estimated(exports, days_old, invoice, estimated):
    newest = exports.day.replace(day=20)
    rows = [
        exports.line(at, bill_invoice_id=invoice)
        for at in (newest, newest - timedelta(days=days_old))
    ]
    tally = exports.bill(*rows).tally(
        Window(newest - timedelta(days=20), newest + timedelta(days=1)), ("day",)
    )
    found = {row.key["day"]: row.estimated for row in tally.rows}
    assert found[f"{newest - timedelta(days=days_old):%Y-%m-%d}"] is estimated


def test_a_month_of_the_past_is_settled_without_an_invoice(exports):
    tally = exports.bill(exports.line(), exports.line(exports.day - timedelta(days=10))).tally(
        Window(T0 - timedelta(days=30), T0), ()
    )
    assert [row.estimated for row in tally.rows] == [False]


def test_an_empty_folder_is_unavailable_not_zero(exports, november):
    with pytest.raises(Unavailable, match="No billing export"):
        exports.bill().tally(november, ())


def test_a_missing_folder_is_named(tmp_path):
    with pytest.raises(WrongInput, match="nowhere"):
        open_billing(tmp_path / "nowhere")
