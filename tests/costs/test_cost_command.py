"""The cost answer over a real export, from typed line to card."""

import csv
import re
from datetime import UTC, datetime, timedelta

import pytest

from adapters.billing.bill import open_billing
from bot.answers.cost.card import cost
from bot.answers.cost.title import DRILLS, other_groupings
from bot.app import App
from bot.cards.card import EVERY, Buttons, Chart, Facts, Table, Text, plain
from bot.errors import Unavailable, WrongInput
from bot.grammar.access import Access
from bot.grammar.line import understand
from bot.knowledge import load_knowledge
from bot.model.request import Request, User
from bot.model.spend import Filter, Money, Tally
from bot.model.window import Window
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


@pytest.fixture
def ask(tmp_path):
    """Return a function that answers a line over 40 days of two teams, one untagged row, a credit."""
    (tmp_path / "billing").mkdir()
    days = [NOW.replace(hour=0) - timedelta(days=n) for n in range(1, 41)]
    rows = [line(day + timedelta(hours=h), "10") for day in days for h in (3, 20)]
    rows += [line(day + timedelta(hours=5), "2.5", "ads & co", "AmazonS3") for day in days]
    rows += [line(days[3], "7.77", ""), line(days[2], "-20", "", kind="Credit")]
    with (tmp_path / "billing" / "bill.csv").open("w", newline="") as file:
        csv.writer(file).writerows([COLUMNS, *rows])
    ports = ports_over(NoSource(), None, billing=open_billing(tmp_path), knowledge=load_knowledge())

    async def answer(words):
        call = understand(words, NOW)
        return await cost(
            ports, Request(words, User("slack:U1"), NOW, "slack", MEMBER), **call.arguments
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
    (age,) = (note for note in notes if note.startswith("Billed through 2026-11-19 21:00 UTC. "))
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
    assert "About $692 by month end ($667 to $722 in 9 of 10 months, from 37 settled days)" in lead


async def test_an_empty_answer_says_so(ask):
    card = await ask("cost 2020-01 by team")
    assert card.data["rows"] == []
    assert plain(only(card, Text)[0].spans) == "No charge on the bill fits this question."


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
