"""Slack's own tables and charts: within what its pages document, numbers as numbers, and text again where Slack refuses them."""

import json

import pytest

from adapters.chat.slack.render import Around, chart_block, message, table_block
from bot.cards.card import Align, Card, Chart, ChartKind, Heading, Series, Table, folded, text
from tests.cards.samples import SAMPLES
from tests.cases import in_one_run

COLUMNS = (
    Heading("team"),
    Heading("cost", Align.RIGHT),
    Heading("share", Align.RIGHT),
    Heading("lasted", Align.RIGHT),
)
ROWS = (
    ("pretraining", "$1,083.40", "64 %", "3 h"),
    ("vision", "-$3.20", "–", "25 min"),
    ("lab", "$0.50", "1 %", ""),
)
TABLE = Table(COLUMNS, ROWS, total=("total", "$1,080.70", "", ""), rest="and 4 more teams")
BARS = Chart(
    ChartKind.BAR,
    "Cost of an epoch",
    "$",
    (Series("cost", (1.0, 2.5)),),
    categories=("1", "2"),
    summary="It rose.",
)
ANSWER = Card("Cost of 7 days", blocks=(text("$1,080.70"), TABLE, BARS))
NATIVE = {"data_table", "data_visualization"}


def kinds(body):
    return [block["type"] for block in body["blocks"]]


def test_numbers_sort_as_numbers_and_lengths_of_time_as_text():
    block, left = table_block(TABLE)
    assert (left, len(block["rows"])) == (0, 4)
    assert [cell["type"] for cell in block["rows"][0]] == ["raw_text"] * 4
    assert [row[1] for row in block["rows"][1:]] == [
        {"type": "raw_number", "value": 1083.4, "text": "$1,083.40"},
        {"type": "raw_number", "value": -3.2, "text": "-$3.20"},
        {"type": "raw_number", "value": 0.5, "text": "$0.50"},
    ]
    assert [row[2]["type"] for row in block["rows"][1:]] == ["raw_number", "raw_text", "raw_number"]
    assert {row[3]["type"] for row in block["rows"]} == {"raw_text"}


def test_the_total_stands_below_where_no_sorting_moves_it_and_the_rest_is_told():
    drawn = message(ANSWER, Around(native=True)).blocks
    at = [block["type"] for block in drawn].index("data_table")
    assert "pretraining" in json.dumps(drawn[at])
    assert "total" not in json.dumps(drawn[at])
    assert "$1,080.70" in drawn[at + 1]["text"]["text"]
    assert "and 4 more teams" in json.dumps(drawn[at + 2])


@in_one_run
@pytest.mark.parametrize("name", sorted(SAMPLES))
def test_every_card_keeps_to_the_limits_of_slacks_own_blocks(name):
    drawn = message(SAMPLES[name](), Around(native=True)).blocks
    tables = [block for block in drawn if block["type"] == "data_table"]
    charts = [block for block in drawn if block["type"] == "data_visualization"]
    assert (len(tables) <= 1, len(charts) <= 2) == (True, True)
    for table in tables:
        assert 1 < len(table["rows"]) <= 101
        assert {len(row) for row in table["rows"]} == {len(table["rows"][0])}
        assert all(cell["text"] for row in table["rows"] for cell in row)
        assert (1 <= table["page_size"] <= 100, bool(table["caption"])) == (True, True)
    for chart in charts:
        labels = chart["chart"]["axis_config"]["categories"]
        assert (len(chart["title"]) <= 50, len(labels) <= 20, len(set(labels)) == len(labels)) == (
            True,
            True,
            True,
        )
        for series in chart["chart"]["series"]:
            assert [point["label"] for point in series["data"]] == labels


def test_a_table_of_many_rows_says_how_many_it_leaves_out():
    long = Table(COLUMNS, tuple((f"team-{n}", f"${n}", "1 %", "3 h") for n in range(100)))
    block, left = table_block(long)
    assert left == 101 - len(block["rows"]) > 0
    drawn = message(Card("t", blocks=(long,)), Around(native=True)).blocks
    assert f"and {left} more rows" in json.dumps(drawn)
    assert len(json.dumps(block)) < 8_000


def test_rows_that_are_folded_elsewhere_are_leafed_through():
    short = folded(
        Table(COLUMNS, tuple((f"team-{n}", f"${n}", "1 %", "3 h") for n in range(20))),
        5,
        "and 15 more",
    )
    drawn = message(Card("t", blocks=(short,)), Around(native=True)).blocks
    assert (len(drawn[1]["rows"]), "15 more" in json.dumps(drawn)) == (21, False)


@pytest.mark.parametrize(
    "chart",
    [
        Chart(ChartKind.LINE, "Use", "%", (Series("use", (1.0, 2.0)),), summary="s"),
        Chart(
            ChartKind.BAR,
            "Cost",
            "$",
            (Series("a", (1.0,)), Series("b", (2.0,))),
            categories=("x",),
            summary="stacked",
        ),
        Chart(
            ChartKind.BAR,
            "Cost",
            "$",
            (Series("a", (1.0, None)),),
            categories=("x", "y"),
            summary="a gap",
        ),
        Chart(
            ChartKind.BAR,
            "Cost",
            "$",
            (Series("a", (1.0,) * 21),),
            categories=tuple(map(str, range(21))),
            summary="many",
        ),
        Chart(
            ChartKind.BAR,
            "Cost",
            "$",
            (Series("a", (1.0, 2.0)),),
            categories=("x", "x"),
            summary="the same twice",
        ),
    ],
    ids=lambda chart: chart.summary,
)
def test_what_slack_would_draw_otherwise_stays_a_picture(chart):
    assert chart_block(chart) is None


async def test_an_answer_comes_with_slacks_own_table_and_chart_and_needs_no_upload(
    workspace, slack, bot
):
    bot.card = ANSWER
    await workspace.command("cost 7d")
    (answer,) = slack.sent("response")
    assert set(kinds(answer)) >= NATIVE
    assert slack.sent("files.getUploadURLExternal") == []


@pytest.mark.parametrize("thread", [{}, {"thread_ts": "3.3"}])
async def test_where_slack_refuses_them_it_is_text_and_a_picture_and_so_it_stays(
    workspace, slack, bot, thread
):
    bot.card, slack.failing["chat.postMessage"] = ANSWER, ["invalid_blocks"]
    mention = {
        "type": "app_mention",
        "user": "U1",
        "channel": "C1",
        "ts": "7.1",
        "text": "<@U0BOT> cost 7d",
    } | thread
    await workspace.event(mention)
    refused, plainer = slack.sent("chat.postMessage")
    assert set(kinds(refused)) >= NATIVE
    assert NATIVE.isdisjoint(kinds(plainer))
    assert "image" in kinds(plainer)
    assert "pretraining" in json.dumps(plainer)
    await workspace.event(mention | {"ts": "7.2"}, event_id="Ev2")
    assert NATIVE.isdisjoint(kinds(slack.sent("chat.postMessage")[-1]))
    assert len(slack.sent("chat.postMessage")) == 3


async def test_a_refusal_for_another_reason_is_no_verdict_on_them(workspace, slack, bot):
    bot.card, slack.failing["chat.postMessage"] = ANSWER, ["channel_not_found"]
    mention = {
        "type": "app_mention",
        "user": "U1",
        "channel": "C1",
        "ts": "7.1",
        "text": "<@U0BOT> cost 7d",
    }
    await workspace.event(mention)
    await workspace.event(mention | {"ts": "7.2"}, event_id="Ev2")
    assert set(kinds(slack.sent("chat.postMessage")[-1])) >= NATIVE
