from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from bot.answers.cost.title import meaning_texts
from bot.costs.tally import (
    KEPT,
    REQUESTS,
    Change,
    buckets_of,
    comparable,
    days_held,
    page_filters,
    row_ratios,
    settled_until,
    share,
    top,
    unknown_value,
    untagged,
    until,
)
from bot.model.spend import Filter, Folded, Money, Spend, Tally
from bot.model.window import Window, month_of

NOV = datetime(2026, 11, 1, tzinfo=UTC)


def day(n, hour=0):
    return NOV + timedelta(days=n - 1, hours=hour)


@pytest.mark.parametrize(
    ("start", "end", "billed", "part", "before"),
    [
        # settled whole: all of it against as much before
        (day(8), day(15), day(20), (day(8), day(15)), (day(1), day(8))),
        # the newest two days may still change: five days against five
        (day(8), day(15), day(15, 7), (day(8), day(13)), (day(1), day(6))),
        # a rolling week that began in the afternoon keeps its start
        (day(8, 15), day(15, 15), day(14), (day(8, 15), day(12)), (day(1, 15), day(5))),
        # a whole month of 30 days against the first 30 days of the 31 before it
        (
            day(1),
            day(31),
            day(40),
            (day(1), day(31)),
            (NOV - timedelta(days=31), NOV - timedelta(days=1)),
        ),
        # two settled hours of long ago
        (day(3), day(3, 2), day(20), (day(3), day(3, 2)), (day(2, 22), day(3))),
    ],
)
def test_only_what_is_settled_is_compared_and_over_one_length(start, end, billed, part, before):
    assert comparable(Window(start, end), billed) == (Window(*part), Window(*before))


def test_before_a_whole_month_stands_the_month_before_whatever_their_lengths():
    for month in range(1, 13):
        whole = month_of(datetime(2026, month, 1, tzinfo=UTC))
        assert whole.previous() == month_of(whole.start - timedelta(days=1))
        assert month_of(whole.previous().end) == whole


@pytest.mark.parametrize("billed", [None, day(9), day(10, 23)])
def test_less_than_a_settled_day_is_not_compared(billed):
    assert comparable(Window(day(8), day(15)), billed) is None


def test_what_has_just_come_to_rest_is_compared_to_its_end():
    for billed, end in ((day(17, 6), day(15, 6)), (day(17, 5), day(15))):
        part, _ = comparable(Window(day(8, 6), day(15, 6)), billed)
        assert part == Window(day(8, 6), end)


def of_days(*numbers, folded=None, window=None):
    rows = tuple(
        Spend({"day": f"{day(n):%Y-%m-%d}", "team": "nlp"}, Money(net=Decimal(n))) for n in numbers
    )
    return Tally(window or Window(day(1), day(9)), ("day", "team"), rows, Money(), folded=folded)


def test_the_first_days_of_a_tally_are_those_before_their_end():
    found = until(of_days(1, 2, 3), Window(day(1), day(3)), ("team",))
    assert [(row.key, row.money.net) for row in found.rows] == [({"team": "nlp"}, 3)]
    folded = of_days(1, folded=Folded(1, Money(), has_estimated=False, has_final=True))
    assert until(folded, Window(day(1), day(3)), ("team",)) is None
    for part in (Window(day(2), day(3)), Window(day(1), day(3, 1))):
        assert until(of_days(1), part, ("team",)) is None


def test_days_are_held_as_far_as_the_bill_reaches():
    days = of_days(1, 2)
    for through, held in ((day(1), (0, 0)), (day(3), (2, 2)), (None, (0, 0)), (day(30), (2, 8))):
        assert days_held(replace(days, billed_through=through)) == held


def test_a_page_is_asked_for_by_its_dimension_of_most_values():
    rows = [Spend({"team": "nlp", "region": x}, Money()) for x in ("a", "b", "a")]
    beyond = Folded(1, Money(), has_estimated=False, has_final=True)
    page = Tally(Window(day(1), day(2)), ("team", "region"), tuple(rows), Money(), folded=beyond)
    assert page_filters(page) == [Filter("region", ("a", "b"))]
    assert page_filters(replace(page, folded=None)) == []


def test_a_row_grows_from_what_it_cost_and_from_nothing_by_no_share():
    def tally(*usd):
        rows = (
            Spend({"team": name}, Money(amortised=Decimal(x)))
            for name, x in zip("abc", usd, strict=True)
        )
        return Tally(Window(day(1), day(2)), ("team",), tuple(rows), Money())

    now = tally(12, 1, 1)
    assert list(row_ratios(now, tally(10, 0, -1), now.rows)) == [Decimal("0.2"), None, None]
    free = tally(0, 0, 0)
    assert list(row_ratios(free, free, free.rows)) == [0, 0, 0]


def test_settled_until_is_a_midnight_two_days_back():
    assert settled_until(day(15, 7)) == day(13)


@pytest.mark.parametrize(
    ("now", "then", "ratio"),
    [("12", "10", "0.2"), ("5", "10", "-0.5"), ("1", "0", None), ("1", "-3", None)],
)
def test_growth_needs_something_to_grow_from(now, then, ratio):
    span = Window(day(1), day(2))
    assert Change(span, span, Decimal(now), Decimal(then)).ratio == (
        None if ratio is None else Decimal(ratio)
    )


def rows(n):
    return [
        Spend({"team": f"t{i}"}, Money(gross=Decimal(n - i), net=Decimal(n - i))) for i in range(n)
    ]


@pytest.mark.parametrize(
    ("n", "kept", "folded", "rest"),
    [(3, 3, 0, 0), (11, 11, 0, 0), (12, 10, 2, 3), (20, 10, 10, 55)],
)
def test_top_and_rest_are_everything(n, kept, folded, rest):
    first, others, count = top(rows(n), 10)
    assert (len(first), count, others.net) == (kept, folded, rest)
    assert sum(row.money.net for row in first) + others.net == sum(range(1, n + 1))


def test_a_share_needs_a_positive_whole():
    assert share(Decimal(1), Decimal(4)) == Decimal("0.25")
    assert share(Decimal(1), Decimal(0)) is None


def test_untagged_is_what_says_nothing():
    tally = Tally(
        Window(day(1), day(2)),
        ("team",),
        (Spend({"team": ""}, Money(net=Decimal(3))), *rows(2)),
        Money(),
    )
    assert untagged(tally, "team").net == 3


class Buckets:
    """A bill of what two clusters keep in S3."""

    def tally(self, window, by, where=(), most=None):
        keys = [
            {"resource": f"arn:aws:s3:::{name}", "cluster": cluster, "line": line}
            for name, cluster in (("corpus", "llama"), ("images", "vision"))
            for line in (KEPT, REQUESTS, "EC2")
        ]
        rows = [
            Spend(key, Money(amortised=Decimal(3)))
            for key in keys
            if all(key[condition.dimension] in condition.values for condition in where)
        ]
        return Tally(window, tuple(by), tuple(rows), Money(), billed_through=day(20))


@pytest.mark.parametrize(("cluster", "names"), [("", ["corpus", "images"]), ("llama", ["corpus"])])
def test_buckets_are_those_of_the_cluster_that_is_asked_about(cluster, names):
    found = buckets_of(Buckets(), day(20), cluster)
    assert [bucket.name for bucket in found.buckets] == names
    assert {(bucket.kept, bucket.requests) for bucket in found.buckets} == {(3, 3)}


def test_the_dearest_bucket_stands_first_those_alike_by_name_and_one_of_nothing_nowhere():
    costs = {"b": 1, "a": 1, "dear": 2, "gone": 0}

    class Lines:
        def tally(self, window, by, where=()):
            rows = tuple(
                Spend({"resource": name, "line": KEPT}, Money(amortised=Decimal(usd)))
                for name, usd in costs.items()
            )
            return Tally(window, tuple(by), rows, Money(), billed_through=day(20))

    found = buckets_of(Lines(), day(20))
    assert [bucket.name for bucket in found.buckets] == ["dear", "a", "b"]


def test_the_first_value_that_no_charge_has_is_named_beside_those_there_are():
    teams = ("nlp", "speech", "")

    def ask(window, by, where):
        rows = tuple(
            Spend({"team": team}, Money())
            for team in teams
            if all(team in condition.values for condition in where)
        )
        return Tally(window, tuple(by), rows, Money())

    shown, empty = (
        Tally(Window(day(1), day(2)), ("team",), rows, Money())
        for rows in ((Spend({"team": "nlp"}, Money()),), ())
    )

    def value(tally, *values, negated=False):
        found = unknown_value(ask, ask, tally, [Filter("team", values, negated)])
        return found and (found.value, found.known)

    known = ["nlp", "speech"]
    assert value(shown, "anything") is None, "the answer shows it"
    assert value(shown, "nope", negated=True) == ("nope", known)
    assert value(shown, "nlp", "nope") == ("nope", known)
    assert value(empty, "zz", "aa") == ("aa", known)
    assert value(empty, "nlp", "") is None


def test_a_share_is_of_something():
    shares = [share(Decimal(1), Decimal(x)) for x in (4, 0, -4)]
    assert shares == [Decimal("0.25"), None, None]


def test_amortised_and_net_are_explained_where_they_differ_in_rows_alone():
    window = month_of(datetime(2026, 11, 1, tzinfo=UTC))
    fee = Spend({"team": ""}, Money(net=Decimal(90)))
    hours = Spend({"team": "search"}, Money(net=Decimal(10), amortised=Decimal(100)))
    alike = Spend({"team": "search"}, Money(net=Decimal(100), amortised=Decimal(100)))
    bills = (
        Tally(window, ("team",), rows, Money(net=Decimal(100), amortised=Decimal(100)))
        for rows in ((fee, hours), (alike,))
    )
    assert [bool(meaning_texts(bill, None, ())) for bill in bills] == [True, False]
