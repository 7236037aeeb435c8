"""The cost answer over a real export, from typed line to card."""

import csv
import re
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from itertools import permutations

import pytest

from adapters.billing.bill import open_billing
from bot.answers.cost.card import CostAnswer, cost, cost_card, cost_data
from bot.answers.cost.title import (
    DRILLS,
    cost_charts,
    cost_title,
    drill_buttons,
    hint_texts,
    meaning_texts,
    money_facts,
    month_end_words,
    newest_uses,
    nothing_text,
    other_groupings,
    part_line,
    span_of,
    split_texts,
    unread,
)
from bot.app import App
from bot.cards.card import EVERY, Buttons, Chart, Facts, Table, Text, plain
from bot.costs.allocation import OwnerHint
from bot.costs.nowcast import Nowcast
from bot.costs.tally import Change
from bot.errors import Unavailable, WrongInput
from bot.grammar.access import Access
from bot.grammar.line import understand
from bot.knowledge import load_knowledge
from bot.model.request import Request, User
from bot.model.spend import (
    Commitment,
    CommitmentPlan,
    Derived,
    Filter,
    Folded,
    Money,
    Spend,
    Tally,
)
from bot.model.window import Window, month_of
from tests.belonging import MEMBER
from tests.builders import ports_over

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
COLUMNS = ["bill_payer_account_id", "line_item_line_item_type", "line_item_product_code", "line_item_usage_start_date",
           "line_item_usage_end_date", "line_item_unblended_cost", "resource_tags"]  # fmt: skip


def line(at, amount, team="search", service="AmazonEC2", kind="Usage"):
    tags = f'{{"user_team": "{team}"}}' if team else ""
    return [
        "1",
        kind,
        service,
        f"{at:%Y-%m-%dT%H:%M:%SZ}",
        f"{at + timedelta(hours=1):%Y-%m-%dT%H:%M:%SZ}",
        amount,
        tags,
    ]


class NoSource:
    """A source that cannot be read."""

    def read(self, now):
        raise Unavailable("no metrics")


@pytest.fixture(scope="module")
def billed(tmp_path_factory):
    """Return the ports over 40 days of two teams, one untagged row, a credit."""
    folder = tmp_path_factory.mktemp("billed")
    (folder / "billing").mkdir()
    days = [NOW.replace(hour=0) - timedelta(days=n) for n in range(1, 41)]
    rows = [line(day + timedelta(hours=h), "10") for day in days for h in (3, 20)]
    rows += [line(day + timedelta(hours=5), "2.5", "ads & co", "AmazonS3") for day in days]
    rows += [line(days[3], "7.77", ""), line(days[2], "-20", "", kind="Credit")]
    with (folder / "billing" / "bill.csv").open("w", newline="") as file:
        csv.writer(file).writerows([COLUMNS, *rows])
    return ports_over(NoSource(), None, billing=open_billing(folder), knowledge=load_knowledge())


@pytest.fixture
def ask(billed):
    """Return a function that answers a line over them."""

    async def answer(words):
        call = understand(words, NOW)
        return await cost(
            billed, Request(words, User("slack:U1"), NOW, "slack", MEMBER), **call.arguments
        )

    return answer


def only(card, kind):
    return [block for block in card.blocks if isinstance(block, kind)]


async def test_the_data_is_the_contract(ask):
    data = (await ask("cost 2026-11-13..2026-11-19 by team")).data
    assert list(data) == [
        "window",
        "by",
        "currency",
        "rows",
        "total",
        "billed_through",
        "rest",
        "filters",
        "groupings",
        "known",
        "because",
    ]
    assert data["window"] == {
        "start": datetime(2026, 11, 13, tzinfo=UTC),
        "end": datetime(2026, 11, 20, tzinfo=UTC),
    }
    assert (data["by"], data["currency"], data["rest"]) == (["team"], "USD", None)
    assert [row["key"] for row in data["rows"]] == [
        {"team": "search"},
        {"team": "ads & co"},
        {"team": ""},
    ]
    assert list(data["rows"][0]) == [
        "key",
        "gross_usd",
        "discounts_usd",
        "credits_usd",
        "tax_usd",
        "net_usd",
        "amortised_usd",
        "estimated",
    ]
    assert data["billed_through"] == NOW.replace(hour=0) - timedelta(hours=3)


async def test_gross_credits_and_net_stand_apart(ask):
    total = (await ask("cost 2026-11-13..2026-11-19 by team")).data["total"]
    assert {k: str(v) for k, v in total.items()} == {
        "gross_usd": "165.27", "discounts_usd": "0.00", "credits_usd": "-20.00", "tax_usd": "0.00", "net_usd": "145.27",
        "amortised_usd": "165.27",
    }  # fmt: skip


async def test_rows_are_the_total_for_any_grouping(ask):
    for by in ("service", "team,service", "day", "tag:team", "instance_type"):
        data = (await ask(f"cost 30d by {by}")).data
        assert sum(row["net_usd"] for row in data["rows"]) == data["total"]["net_usd"]


async def test_the_card_reads_well(ask):
    card = await ask("cost 2026-11-13..2026-11-19 by team")
    assert card.title == (
        "$165 amortised, $145 net · Nov 13 to 19, 2026, billed to Nov 19, 21:00 · by team"
    )
    assert only(card, Facts)[0].pairs == (
        ("Gross", "$165"),
        ("Credits", "-$20.00"),
    )
    table = only(card, Table)[0]
    assert table.rows[1] == ("ads & co", "~$17.50", "$17.50", "11 %", "0 %")
    assert table.rows[2][0] == "(no team)"
    assert table.total == ("total", "$145", "$165", "100 %", "+9 %")


async def test_each_row_tells_its_change_and_opens_its_part(ask):
    table = only(await ask("cost 2026-11-13..2026-11-19 by team"), Table)[0]
    assert table.columns[-1].name == "change"
    assert {row[0]: row[-1] for row in table.rows}["(no team)"] == "new"
    assert table.lines[1] == 'cost 2026-11-13..2026-11-19 by service team="ads & co"'
    by_day = only(await ask("cost 2026-11-13..2026-11-19 by day"), Table)[0]
    assert "change" not in {column.name for column in by_day.columns}
    assert by_day.lines == tuple(f"cost {row[0]} by service" for row in by_day.rows)


async def test_only_the_settled_part_is_compared(ask):
    card = await ask("cost 2026-11-13..2026-11-19 by team")
    lead, *notes = (plain(block.spans) for block in only(card, Text))
    assert lead == "Amortised $165, up 9 % from the 7 days before by settled figures."
    assert any("Compared up to Nov 17, 00:00 UTC: $97.77 against $90.00." in x for x in notes)


async def test_a_bill_that_does_not_reach_back_is_not_compared(ask):
    lead = plain(only(await ask("cost 35d by team"), Text)[0].spans)
    assert "no settled figures to compare" in lead


async def test_untagged_money_gets_a_hint_and_the_age_is_said(ask):
    notes = [
        plain(block.spans) for block in only(await ask("cost 2026-11-13..2026-11-19 by team"), Text)
    ]
    assert any(
        note.startswith("$7.77 (amortised) has no team: tag the resources") for note in notes
    )
    (age,) = (note for note in notes if note.startswith("Billed through Nov 19, 21:00 UTC. "))
    assert "The window ends later." in age
    end = "after credits, discounts and tax. Estimated from Nov 18 on; AWS may still rewrite it."
    assert any(note.endswith(end) for note in notes)


async def test_the_newest_days_stay_and_the_older_are_folded(ask):
    table = only(await ask("cost 30d by day"), Table)[0]
    days = [row[0] for row in table.rows if row[0].startswith("20")]
    assert days == sorted(days, reverse=True)
    assert days[0] == max(row["key"]["day"] for row in (await ask("cost 30d by day")).data["rows"])
    assert table.rows[-1][0].endswith(" earlier")
    assert table.rest.endswith("earlier rows are combined into one.")
    assert [line.split()[1] for line in table.lines[:3]] == days[:3]


async def test_a_day_s_parts_stand_together_the_newest_day_first(ask):
    rows = only(await ask("cost 2026-11-13..2026-11-19 by day,team"), Table)[0].rows
    days = [row[0] for row in rows if row[0].startswith("20")]
    assert days == sorted(days, reverse=True)


async def test_a_time_without_a_charge_is_no_zero(ask):
    later = await ask("cost 2026-11-20")
    assert later.title == "Nothing billed · Nov 20, 2026 · by instance type"
    assert plain(later.blocks[0].spans).startswith(
        "Nothing in this window is billed yet: the bill reaches"
    )


async def test_what_is_untagged_is_said_in_words(ask):
    assert (await ask("cost 2026-11-13..2026-11-19 by service team=")).title.endswith(
        " · by service · without team"
    )


async def test_the_chart_has_a_bar_a_day_for_each_team(ask):
    chart = only(await ask("cost 2026-11-13..2026-11-19 by team"), Chart)[0]
    assert [series.name for series in chart.series] == ["search", "ads & co", "(no team)"]
    assert chart.categories == tuple(f"Nov {day}" for day in range(13, 20))
    assert chart.series[0].values == (20.0,) * 7


@pytest.mark.parametrize(
    "words",
    [
        "cost 7d by team",
        "cost 2026-11-13..2026-11-19 by service",
        "cost last-month by team team!=search",
        "cost 5h",
    ],
)
async def test_every_button_is_a_line_that_answers(ask, words):
    for button in only(await ask(words), Buttons)[0].buttons if "5h" not in words else ():
        again = await ask(button.line)
        assert again.data["total"]["net_usd"] != 0


async def test_a_row_opens_on_its_own_even_with_an_odd_name(ask):
    buttons = only(await ask('cost 7d by team team="ads & co"'), Buttons)[0].buttons
    assert (await ask(buttons[0].line)).data["rows"][0]["net_usd"] == 15


async def test_this_month_is_forecast(ask):
    lead = plain(only(await ask("cost mtd by team"), Text)[0].spans)
    assert "About $692 by month end ($662 to $722 in 8 of 10 months, from 37 settled days)" in lead


async def test_only_what_is_asked_of_this_month_so_far_is_forecast(ask):
    for window, forecast in (
        ("2026-11", True),
        ("2026-11-01..2026-11-19", False),
        ("2026-11-02..2026-11-30", False),
        ("2026-10", False),
    ):
        lead = plain(only(await ask(f"cost {window} by team"), Text)[0].spans)
        assert ("by month end" in lead) is forecast, window


async def test_a_bar_is_an_hour_of_two_days_a_day_of_two_months_or_a_month(ask):
    for words, step in (
        ("2026-11-18..2026-11-19 by team", "hour"),
        ("2026-11-17..2026-11-19 by team", "day"),
        ("2026-11-17..2026-11-19 by hour", "hour"),
        ("2026-09-19..2026-11-19 by team", "day"),
        ("2026-09-18..2026-11-19 by team", "month"),
    ):
        (chart,) = only(await ask(f"cost {words}"), Chart)
        assert chart.title == f"Amortised cost by {step}", words


async def test_an_empty_answer_says_so(ask):
    card = await ask("cost 2020-01 by team")
    assert card.data["rows"] == []
    early = "The bill holds no charge of this time; it may not reach back so far."
    assert plain(only(card, Text)[0].spans) == early


@pytest.mark.parametrize(("words", "hint"), [("cost 7d by servise", "did you mean 'service'"), ("cost 7d by team,team", "twice"),
                                             ("cost 7d taem=x", "did you mean 'team'")])  # fmt: skip
async def test_what_cannot_be_asked_names_the_nearest(ask, words, hint):
    with pytest.raises(WrongInput, match=hint):
        await ask(words)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("cost 7d team=serch", "No charge on the bill has team=serch; did you mean 'search'?"),
        ("cost 7d team!=serch", "No charge on the bill has team=serch; did you mean 'search'?"),
        (
            "cost 7d team=search,mars",
            "No charge on the bill has team=mars; known: ads & co, search.",
        ),
        ("cost 2020-01 team=mars", "No charge on the bill has team=mars; known: ads & co, search."),
        (
            "cost 7d by tag:nonesuch",
            "No charge on the bill carries a tag 'nonesuch'; write it as the bill does, such as"
            " tag:team.",
        ),
    ],
)
async def test_a_value_that_no_charge_has_is_refused(ask, words, sentence):
    with pytest.raises(WrongInput) as refused:
        await ask(words)
    assert str(refused.value) == sentence


@pytest.mark.parametrize(
    "words",
    [
        "cost 2020-01 team=search",
        "cost 7d team=search,",
        "cost 7d team!=search",
        "cost 7d day=2030-01-01",
    ],
)
async def test_a_value_that_charges_have_at_another_time_is_none_of_nonsense(ask, words):
    assert (await ask(words)).data["rows"] is not None


async def test_unused_commitment_is_said_apart(tmp_path):
    (tmp_path / "billing").mkdir()
    columns = [*COLUMNS, "savings_plan_total_commitment_to_date", "savings_plan_used_commitment"]
    fee = line(
        NOW - timedelta(days=3), "15", service="ComputeSavingsPlans", kind="SavingsPlanRecurringFee"
    )
    with (tmp_path / "billing" / "bill.csv").open("w", newline="") as file:
        csv.writer(file).writerows(
            [columns, [*line(NOW - timedelta(days=3), "10"), "", ""], [*fee, "15", "12.5"]]
        )
    ports = ports_over(NoSource(), None, billing=open_billing(tmp_path), knowledge=load_knowledge())
    request = Request("cost", User("u"), NOW, "web", MEMBER)
    card = await cost(ports, request, **understand("cost 7d by service", NOW).arguments)
    assert "$2.50 of the amortised cost is commitment that nothing used" in str(card.blocks)
    card = await cost(
        ports, request, **understand("cost 7d by service service=AmazonEC2", NOW).arguments
    )
    assert "nothing used" not in str(card.blocks)


async def test_what_lies_beyond_a_page_counts_to_its_notes(tmp_path):
    (tmp_path / "billing").mkdir()
    lately = NOW - timedelta(days=1)
    rows = [line(lately, "10", f"team-{n}") for n in range(EVERY)]
    rows += [line(NOW - timedelta(days=5), "1", f"old-{n}") for n in range(3)]
    rows += [line(lately, "3", ""), line(lately, "5", "", "AmazonS3")]
    rows = [[*row[:-1], row[-1].replace("user_team", "user_batch")] for row in rows]
    with (tmp_path / "billing" / "bill.csv").open("w", newline="") as file:
        csv.writer(file).writerows([COLUMNS, *rows])
    ports = ports_over(NoSource(), None, billing=open_billing(tmp_path), knowledge=load_knowledge())
    words = "cost 7d by tag:batch service=AmazonEC2"
    request = Request(words, User("u"), NOW, "web", MEMBER, whole=False)
    card = await cost(ports, request, **understand(words, NOW).arguments)
    assert card.data["rest"]["rows"] == 4
    assert "$3.00 (amortised) has no batch" in str(card.blocks)
    # All that is shown is estimated, and of the others a part is final.
    assert "~ is an estimate" in str(only(card, Table)[0])


async def test_share_after_a_cost_answer_reads_no_bill_again(tmp_path):
    (tmp_path / "billing").mkdir()
    rows = [line(NOW - timedelta(hours=h), "10") for h in range(1, 400)]
    with (tmp_path / "billing" / "bill.csv").open("w", newline="") as file:
        csv.writer(file).writerows([COLUMNS, *rows])
    bill = open_billing(tmp_path)
    bot = App(
        ports_over(NoSource(), None, billing=bill, knowledge=load_knowledge()),
        (),
        Access(),
        lambda: 0.0,
    )

    async def answer(words, at):
        return await bot.answer(Request(words, User("slack:U1"), at, "slack", MEMBER, "slack:C1"))

    private = await answer("cost 7d by team", NOW)
    bill.close()  # a query would fail from here on
    shared = await answer("share cost 7d by team", NOW)
    assert (shared.public, shared.data) == (True, private.data)


async def test_a_title_says_how_many_days_of_its_time_the_bill_holds(ask):
    titles = [(await ask(f"cost {window} by team")).title for window in ("7d", "400d")]
    assert not re.search(r"\d+ of \d+ days", titles[0])
    assert re.search(r", \d+ of \d+ days", titles[1])


def test_no_grouping_is_offered_that_the_answer_has_or_that_a_filter_holds_still():
    tally = Tally(Window.parse("7d", NOW), ("cluster",), (), Money())
    offered = other_groupings(tally, [Filter("service", ("AmazonEC2",))])
    assert offered == [name for name in DRILLS if name not in ("cluster", "service")]


WEEK = Window(datetime(2026, 11, 13, tzinfo=UTC), datetime(2026, 11, 20, tzinfo=UTC))


def spend(usd, net=None, *, estimated=False, derived=None, **key):
    """Return a row of so many dollars amortised, and as many net where nothing else is said."""
    amount = Decimal(usd)
    money = Money(gross=amount, net=amount if net is None else Decimal(net), amortised=amount)
    return Spend(key, money, estimated, derived)


def tallied(*rows, by=None, window=WEEK, **more):
    total = sum((row.money for row in rows), Money())
    by = tuple(rows[0].key) if by is None else by
    return Tally(window, by, rows, total, **more)


def amounts(card):
    return {row[0]: row[1:] for row in only(card, Table)[0].rows}


def test_rows_stand_dearest_first_and_those_of_time_newest_first_whatever_their_order():
    rows = [
        spend("5", team="a", day="2026-11-14"),
        spend("9", team="b", day="2026-11-13"),
        spend("7", team="c", day="2026-11-14"),
        spend("1", team="", day="2026-11-15"),
    ]
    for some in permutations(rows):
        tally = tallied(*some)
        table = only(cost_card(CostAnswer(tally)), Table)[0]
        assert [row[0] for row in table.rows] == ["(no team)", "c", "a", "b"]
        days = [row["key"]["day"] for row in cost_data(tally)["rows"]]
        assert days == sorted(days), "scripts read time forwards"
        plain_rows = [replace(row, key={"team": row.key["team"]}) for row in some]
        table = only(cost_card(CostAnswer(tallied(*plain_rows))), Table)[0]
        assert [row[0] for row in table.rows] == ["b", "c", "a", "(no team)"]
        assert [row[3] for row in table.rows] == ["41 %", "32 %", "23 %", "5 %"]


def test_ten_rows_stand_and_of_more_than_eleven_the_others_are_combined():
    def drawn(n, **more):
        rows = [spend(str(100 - i), team=f"t{i:02}") for i in range(n)]
        return only(cost_card(CostAnswer(tallied(*rows, **more))), Table)[0]

    assert [len(drawn(n).rows) for n in (10, 11, 12)] == [10, 11, 11]
    assert drawn(11).rest == ""
    assert drawn(12).rest == "2 smaller rows are combined into one."
    assert drawn(12).rows[-1][:2] == ("2 more", "$179")
    assert (len(drawn(12).every), len(drawn(11).every)) == (12, 0)
    beyond = drawn(12, folded=Folded(3, Money(net=Decimal(5), amortised=Decimal(5)), False, True))
    assert beyond.rows[-1][:2] == ("5 more", "$184")


def test_an_estimate_is_marked_where_other_rows_are_final():
    final, young = spend("5", team="a"), spend("4", team="b", estimated=True)
    marks = [
        [row[1] for row in only(cost_card(CostAnswer(tallied(*rows))), Table)[0].rows]
        for rows in ((final, young), (young,), (final,))
    ]
    assert marks == [["$5.00", "~$4.00"], ["$4.00"], ["$5.00"]]


def test_a_part_opens_by_what_is_still_free_and_a_time_by_what_was_asked():
    tally = tallied(spend("1", team="a", day="2026-11-14"))
    assert part_line(tally, (), {"team": "a"}) == "cost 2026-11-13..2026-11-19 by service team=a"
    assert part_line(tally, (), {"day": "2026-11-14"}) == "cost 2026-11-14 by team"
    both = part_line(tally, [Filter("service", ("s",))], {"team": "a", "day": "2026-11-14"})
    assert both == "cost 2026-11-14 by instance_type service=s team=a"
    held = [Filter(name, ("x",)) for name in DRILLS if name != "team"]
    assert part_line(tally, held, {"team": "a"}) == ""
    assert part_line(tally, (), {"team": 'a"b'}) == part_line(tally, (), {"team": "a,b"}) == ""


@pytest.mark.parametrize(
    ("at", "start", "hours"),
    [
        ("2026-11", datetime(2026, 11, 1, tzinfo=UTC), 720),
        ("2026-11-14", datetime(2026, 11, 14, tzinfo=UTC), 24),
        ("2026-11-14T05:00", datetime(2026, 11, 14, 5, tzinfo=UTC), 1),
    ],
)
def test_a_key_of_time_names_an_hour_a_day_or_a_month(at, start, hours):
    assert span_of(at) == Window(start, start + timedelta(hours=hours))


def test_the_first_button_opens_the_largest_part_that_has_a_name():
    rows = [spend("9", team=""), spend("5", team="a"), spend("4", team="b")]
    tally = tallied(*rows)
    found = drill_buttons(tally, (), rows)
    assert [button.text for button in found] == ["Only a", "By service"]
    assert [x.text for x in drill_buttons(tally, (), rows[:1])] == [
        "By service",
        "By instance type",
    ]
    assert len(drill_buttons(replace(tally, by=()), (), rows)) == 2


def test_a_chart_gives_the_five_largest_a_colour_and_the_others_share_one():
    days = ("2026-11-13", "2026-11-14", "2026-11-19")
    rows = [spend(str(n), day=at, team=f"t{n}") for n in range(1, 8) for at in days[:2]]
    rows.append(spend("2", day=days[2], team=""))
    billed = datetime(2026, 11, 19, 12, tzinfo=UTC)
    for some in (rows, rows[::-1]):
        (chart,) = cost_charts(tallied(*some, billed_through=billed))
        assert [x.name for x in chart.series] == ["t7", "t6", "t5", "t4", "t3", "others"]
        assert chart.series[0].values == (7.0, 7.0, 0.0)
        assert chart.series[-1].values == (3.0, 3.0, 2.0)
        assert chart.categories == ("Nov 13", "Nov 14", "Nov 19")
        assert chart.partial == (2,), "the bill ends within the day"
        assert chart.summary == "$28.00 a day.", "which is not compared with full ones"
    assert [line.split()[1] for line in chart.lines] == list(days)
    (whole,) = cost_charts(tallied(*rows, billed_through=WEEK.end))
    assert (whole.partial, whole.summary) == (
        (),
        "Between $2.00 and $28.00 a day, highest: Nov 13.",
    )
    # A window that begins within a day holds a part of it.
    late = Window(WEEK.start + timedelta(hours=1), WEEK.end)
    assert cost_charts(tallied(*rows, window=late))[0].partial == (0,)
    assert cost_charts(None) == cost_charts(tallied(by=("day",))) == []
    # Of equal sums the names decide, and one group alone needs no others.
    twins = [spend("1", day=days[0], team=name) for name in ("b", "a")]
    assert [x.name for x in cost_charts(tallied(*twins))[0].series] == ["a", "b"]
    assert cost_charts(tallied(spend("3", day=days[0])))[0].series[0].name == "amortised"


def test_an_hour_that_is_not_billed_yet_is_no_bar_of_nothing():
    """A plan's fee of the whole day is on the bill before the hours are."""
    hours = [f"2026-11-19T{hour:02}:00:00+00:00" for hour in (10, 11, 12)]
    rows = [spend("5" if "T10" in at or "T11" in at else "0", hour=at) for at in hours]
    billed = datetime(2026, 11, 19, 12, tzinfo=UTC)
    (chart,) = cost_charts(tallied(*rows, by=("hour",), billed_through=billed))
    assert chart.categories == ("10:00", "11:00")
    assert chart.summary == "$5.00 an hour."


def test_a_title_says_amortised_where_it_differs_by_more_than_a_hundredth():
    def title(net, amortised="100", **more):
        return cost_title(tallied(spend(amortised, net, team="a"), **more), ())

    assert [("amortised" in title(net)) for net in ("98.99", "99", "100", "101", "101.02")] == [
        True,
        False,
        False,
        False,
        True,
    ]
    assert title("0", "0").startswith("$0.00 net")
    # The end of the bill is told where it lies within the window and an hour at least before its end.
    cut = {
        hours: "billed to" in title("100", billed_through=WEEK.end - timedelta(hours=hours))
        for hours in (0, 1, 2, 7 * 24 - 1, 7 * 24, 200)
    }
    assert cut == {0: False, 1: False, 2: True, 7 * 24 - 1: True, 7 * 24: False, 200: False}
    conditions = (Filter("team", ("",)), Filter("tag:job", ("",), negated=True))
    assert cost_title(tallied(by=("team",)), conditions).endswith("without team · with job")


def test_discounts_and_tax_are_named_where_there_are_any():
    def names(**money):
        return [name for name, _ in money_facts(Tally(WEEK, (), (), Money(**money)))]

    assert names() == ["Gross", "Credits", "Net"]
    every = names(discounts=Decimal(-1), tax=Decimal(2))
    assert every == ["Gross", "Discounts", "Credits", "Tax", "Net"]


@pytest.mark.parametrize(("hours", "unbilled"), [(-1, True), (0, True), (1, False)])
def test_an_empty_time_is_unbilled_from_the_end_of_the_bill_on(hours, unbilled):
    tally = tallied(by=(), billed_through=WEEK.start + timedelta(hours=hours))
    assert ("billed yet" in str(nothing_text(tally))) is unbilled
    assert "billed yet" not in str(nothing_text(tallied(by=())))


def test_estimates_begin_at_the_first_estimated_time():
    rows = [
        spend("1", day=f"2026-11-{n}", estimated=n in (17, 18), team="a") for n in (19, 18, 17, 14)
    ]
    (said,) = meaning_texts(tallied(*rows), tallied(*rows), ())
    assert "Estimated from Nov 17 on" in plain(said.spans)
    hourly = tallied(spend("1", hour="2026-11-17T05:00", estimated=True))
    assert "Estimated from Nov 17, 05:00 on" in plain(meaning_texts(hourly, hourly, ())[0].spans)
    assert meaning_texts(tallied(rows[0]), tallied(rows[0]), ()) == []


@pytest.mark.parametrize(
    ("now", "then", "words"),
    [
        ("112", "100", "up 12 % from"),
        ("88", "100", "down 12 % from"),
        ("100.4", "100", "unchanged from"),
        ("100.6", "100", "up 1 % from"),
        ("99.6", "100", "unchanged from"),
        ("5", "0", "nothing was spent in"),
    ],
)
def test_a_change_is_up_down_or_none(now, then, words):
    before = Window(WEEK.start - timedelta(days=7), WEEK.start)
    tally = tallied(spend("5", team="a"))
    whole = Change(WEEK, before, Decimal(now), Decimal(then))
    part = replace(whole, part=Window(WEEK.start, WEEK.end - timedelta(days=1)))
    lead, partly = (
        plain(only(cost_card(CostAnswer(tally, change=x)), Text)[0].spans) for x in (whole, part)
    )
    assert words in lead
    assert ("by settled figures" in lead, "by settled figures" in partly) == (False, True)
    assert "the 7 days before" in partly
    month = replace(tally, window=month_of(WEEK.start))
    card = cost_card(CostAnswer(month, change=part))
    assert "the month before" in plain(only(card, Text)[0].spans)


def test_what_has_no_owner_is_named_less_what_no_tag_can_name():
    def notes(by, nameless, unused="0"):
        tally = tallied(spend("9", **dict.fromkeys(by, "a")))
        answer = CostAnswer(tally, nameless=nameless, unused=Decimal(unused))
        return "\n".join(plain(block.spans) for block in only(cost_card(answer), Text))

    nine = Decimal(9)
    assert "$9.00 (amortised) has no team: tag the resources" in notes(("team",), {"team": nine})
    assert "$6.00 (amortised) has no team" in notes(("team",), {"team": nine}, "3")
    assert "has no team" not in notes(("team",), {"team": nine}, "9")
    assert "has no service" not in notes(("service",), {"service": nine})
    assert "has no job: tag" in notes(("tag:job",), {"tag:job": nine})
    for name in ("namespace", "pod"):
        assert f"has no {name}: turn on split" in notes((name,), {name: nine})
    assert ["nothing used" in notes(("team",), {}, x) for x in ("0", "1")] == [False, True]


def test_of_each_kind_of_commitment_the_newest_day_that_had_one_is_told():
    def use(plan, day_, committed):
        return Commitment(plan, date(2026, 11, day_), Decimal(committed), Decimal(1), None)

    plans = CommitmentPlan
    uses = [
        use(plans.RESERVATIONS, 3, 5),
        use(plans.SAVINGS_PLANS, 2, 5),
        use(plans.SAVINGS_PLANS, 4, 5),
        use(plans.SAVINGS_PLANS, 5, 0),
    ]
    for some in permutations(uses):
        assert newest_uses(some) == [uses[2], uses[0]]


def test_hints_name_those_that_have_an_owner_and_a_cost_and_count_their_things():
    hints = [
        OwnerHint("ada", "her tag", Decimal(5), ("i-1", "i-2", "i-3")),
        OwnerHint("bob", "a tag", Decimal(4), ()),
        OwnerHint("", "", Decimal(9), ("i-4",)),
        OwnerHint("eve", "a tag", Decimal(0), ("i-5",)),
    ]
    tally = tallied(spend("9", team=""))
    (said,) = hint_texts(hints, tally)
    words = plain(said.spans)
    assert "$5.00 ada (her tag: i-1 and 2 more); $4.00 bob (a tag: no resource named)" in words
    assert "eve" not in words
    assert hint_texts(hints[2:], tally) == []


def test_what_was_split_and_derived_is_said_only_where_it_was():
    derived = Derived(Decimal(5), Decimal(2), Decimal(0), (("ads", "labels"), ("ml", "names")))
    rows = [spend("9", team="ads", derived=derived), spend("1", team="x")]

    def said(tally):
        return " ".join(plain(block.spans) for block in split_texts(tally))

    split = tallied(*rows, split=WEEK)
    assert "$2.00 is for cores that pods held and did not use." in said(split)
    assert "no pod held" not in said(split)
    assert "from the labels or the names of pods" in said(split)
    assert "split by the NeuronCores" not in said(tallied(*rows))
    assert "(derived)" not in said(replace(split, by=("cluster",)))
    table = only(cost_card(CostAnswer(split)), Table)[0]
    assert [row[0] for row in table.rows] == ["ads (derived)", "x"]
    assert [row[-1] for row in table.rows] == ["$2.00", ""]
    other = only(cost_card(CostAnswer(tallied(rows[1]))), Table)[0]
    assert "unused" not in str(other.columns)


@pytest.mark.parametrize(("n", "more"), [(0, None), (2, ""), (3, "And 1 more"), (4, "And 2 more")])
def test_two_problems_of_the_export_are_told_and_the_others_counted(n, more):
    blocks = unread([f"Problem {i}." for i in range(n)])
    assert len(blocks) == (more is not None)
    if blocks:
        words = plain(blocks[0].spans)
        assert "Problem 1." in words
        assert "Problem 2." not in words
        assert ("And" in words, more in words) == (bool(more), True)


def test_a_forecast_names_what_it_rests_on():
    known = Nowcast(month_of(NOW), NOW, *[Decimal(5)] * 4, 14)
    full = replace(
        known,
        high=Decimal(6),
        held=0.99,
        fees=Decimal(3),
        running_since=date(2026, 11, 18),
        lapses={date(2026, 11, 28): Decimal(2), date(2026, 11, 25): Decimal(1)},
    )
    assert month_end_words(known) == "about $5.00 by month end (from 14 settled days)."
    words = month_end_words(full)
    assert "in 9 of 10 months" in words, "that all do nobody can promise"
    assert "in 8 of 10 months" in month_end_words(replace(full, held=0.86))
    assert words.index("Nov 25") < words.index("Nov 28")
    assert ("monthly charges counted once" in words, "since Nov 18" in words) == (True, True)
