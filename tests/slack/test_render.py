"""Any card becomes a message within every limit of Slack, and nothing from data is read as markup."""

import json
import re
from datetime import UTC, datetime

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from slack_sdk.models.blocks import Block
from slack_sdk.models.views import View

from adapters.chat.slack import markup as limits
from adapters.chat.slack.forms import Origin, answer_view
from adapters.chat.slack.markup import size
from adapters.chat.slack.render import Around, message
from bot.cards.card import (
    Align,
    Button,
    Buttons,
    ButtonStyle,
    Card,
    Chart,
    ChartKind,
    Code,
    Facts,
    Form,
    Heading,
    Link,
    Mention,
    Strong,
    Style,
    Table,
    Text,
    Tone,
    When,
    quiet,
    text,
)
from tests.cards.strategies import any_card

HOSTILE = [
    "<!channel>",
    "<@U01>",
    "@here",
    "*b*",
    "_i_",
    "~s~",
    "`c`",
    "```",
    ":x:",
    ":100:",
    "<https://evil.example|x>",
    "&amp;",
    ">q",
]
words = st.one_of(
    st.text(max_size=30),
    st.sampled_from(HOSTILE),
    st.text(min_size=1, max_size=6).map(lambda t: t * 900),
)
cards = any_card(
    words,
    users=st.one_of(words, st.just("slack:U01ALICE")),
    urls=st.one_of(words, st.just("https://ok.example/a?b=c&d")),
    most=12,
)
arounds = st.builds(Around, words, words, st.sampled_from([{}, {0: "F1"}]))


def texts(drawn):
    return [
        one
        for block in drawn
        for one in (block.get("text"), *(block.get("fields") or ()), *(block.get("elements") or ()))
        if one
    ]


def check_limits(drawn, most=limits.BLOCKS):
    for block in Block.parse_all(drawn):
        block.validate_json()
    assert 1 <= len(drawn) <= most
    assert size(json.dumps(drawn, ensure_ascii=False).replace("\\", "")) <= 13_200
    for one in texts(drawn):
        most_text = limits.HEADER if one["type"] == "plain_text" else limits.SECTION
        assert one["type"] == "button" or 0 < size(one["text"]) <= most_text
    for block in drawn:
        assert all(size(one["text"]) <= limits.FIELD for one in block.get("fields", ()))
        assert len(block.get("fields", ())) <= limits.FIELDS
        assert block["type"] != "header" or block["text"]["type"] == "plain_text"
    actions = [
        one["action_id"]
        for block in drawn
        if block["type"] == "actions"
        for one in block["elements"]
    ]
    assert len(actions) == len(set(actions))
    assert all(actions)


@settings(max_examples=60, deadline=None)
@given(cards, arounds)
def test_any_card_fits_every_limit_of_a_message(card, around):
    drawn = message(card, around)
    check_limits(drawn.blocks)
    assert 0 < size(drawn.text) <= 40_000


@settings(max_examples=40, deadline=None)
@given(cards)
def test_any_card_fits_every_limit_of_a_modal(card):
    view = answer_view(card, Origin("C1"))
    assert len(view["title"]["text"]) <= 24
    assert len(view.get("private_metadata", "")) <= 3000
    View(**view).validate_json()
    assert len(view["blocks"]) <= limits.VIEW_BLOCKS
    if view["callback_id"] == "trn_shown":
        check_limits(view["blocks"], limits.VIEW_BLOCKS)


@settings(max_examples=80, deadline=None)
@given(st.lists(words, min_size=1, max_size=6))
@example(["00" + "0000:a" * 900])
def test_no_markup_from_data_survives(parts):
    card = Card(
        parts[0],
        Tone.OVER,
        (
            Text(tuple(parts)),
            Facts(tuple((p, p) for p in parts)),
            quiet(*parts),
            text(Link("a", parts[-1])),
        ),
    )
    drawn = message(card)
    for one in [*texts(drawn.blocks), {"type": "mrkdwn", "text": drawn.text}]:
        assert "text" not in one or one["type"] != "mrkdwn" or not markup(one["text"])


def markup(shown):
    """Return what Slack would read as more than text, our own bold and links to http(s) set aside."""
    plain = re.sub(r"(^|(?<=[\s\u200b]))\*[^*\n]+\*(?=$|[\s\u200b])", "", shown)
    plain = re.sub(r"<https?://[^<>|]+\|[^<>|]*>", "", plain)
    return re.findall(
        r"[<>*~`]|(?<![^\W_])_[^_]+_(?![^\W_])|:(?:[\w+'-]*[a-z][\w+'-]*|100):|^\s*&gt;",
        plain,
        re.MULTILINE,
    )


@pytest.mark.parametrize(
    "name", ["cold_cache", "trn1.32xlarge", "team:research", "12:30:45", "a-b/c d", "$1,083 · 20 %"]
)
def test_names_and_numbers_are_shown_unchanged(name):
    assert message(Card("t", blocks=(text(name),))).blocks[1]["text"]["text"] == name


@pytest.mark.parametrize(
    ("shown", "verbatim"),
    [
        ("see https://evil.example", True),
        ("#general", True),
        ("@here", True),
        ("evil.example", True),
        ("trn1.32xlarge at 0.22x", False),
    ],
)
def test_addresses_and_names_in_data_are_no_links(shown, verbatim):
    for one in texts(
        message(Card("t", blocks=(text(shown), quiet(shown), Facts((("a", shown),))))).blocks[1:]
    ):
        assert one.get("verbatim", False) is verbatim


def test_a_leading_paragraph_is_one_bold_text():
    spans = (" Wasting ", Strong("$1 an hour"), " · so far " + "x " * 250)
    shown = message(Card("t", blocks=(Text(spans, Style.LEAD),))).blocks[1]["text"]["text"]
    assert shown.startswith("*Wasting $1 an hour · so far x x")
    assert "x* *x" in shown


def test_spans_are_drawn_with_slacks_own_tokens():
    at = datetime(2026, 11, 20, 14, 0, tzinfo=UTC)
    spans = (
        "Since ",
        When(at),
        " ",
        Mention("slack:U01ALICE", "dana"),
        " ",
        Mention("teams:29:1x", "bob"),
        " ",
        Strong("$1"),
        "k ",
        Code("a_b*c"),
    )
    shown = message(
        Card("t", blocks=(text(*spans, " ", Link("why", "https://x.example/?a=b&c")),))
    ).blocks[1]["text"]["text"]
    date = "<!date^1795183200^{date_short_pretty} {time}|Nov 20, 14:00 UTC>"
    assert (
        shown
        == f"Since {date} <@U01ALICE> @bob *$1*\u200bk `a_b*c` <https://x.example/?a=b&amp;c|why>"
    )


@pytest.mark.parametrize("url", ["javascript:alert(1)", "file:///etc/passwd", "evil"])
def test_a_link_that_is_not_http_stays_text(url):
    assert message(Card("t", blocks=(text(Link("here", url)),))).blocks[1]["text"]["text"] == "here"


def test_a_form_without_fields_is_a_question_to_confirm():
    view = answer_view(
        Card("Reset", blocks=(Form("Reset every setting?", "config reset", ()),)), Origin()
    )
    assert view["blocks"][0]["text"]["text"] == "Reset every setting?"


def test_who_is_pinged_only_by_the_card_is_named_below_its_title():
    drawn = message(
        Card(
            "FIRING",
            Tone.CRITICAL,
            (text("x ", Mention("slack:U2", "b")),),
            mentions=(Mention("slack:U1", "a"), Mention("slack:U2", "b")),
        )
    )
    assert json.dumps(drawn.blocks).count("<@U1>") == json.dumps(drawn.blocks).count("<@U2>") == 1


def worst_alert():
    """Return an alert of 500 nodes whose every block is as long as it may be."""
    nodes = tuple(
        (f"i-0{n:015x}", "trn1.32xlarge", "us-west-2d", "20 %", "$21.50") for n in range(500)
    )
    table = Table(
        tuple(Heading(name) for name in ("instance", "type", "zone", "used", "an hour")),
        nodes,
        ("500", "", "", "", "$10,750"),
        "Nodes",
    )
    return Card(
        "FIRING 25 min · starved · " + "llama-70b " * 30,
        Tone.CRITICAL,
        (
            text("NeuronCore utilization 20 %. ", "&<>" * 500),
            Facts(tuple((f"fact {n}", "v<&>" * 60) for n in range(40))),
            table,
            Chart(ChartKind.LINE, "Utilization", "%", (), summary="fell " * 300),
            *(text("Likely the loader. " * 100) for _ in range(40)),
            Buttons(
                (Button("Acknowledge", "ack a1", ButtonStyle.PRIMARY), Button("Why", "why a1"))
            ),
        ),
        mentions=tuple(Mention(f"slack:U{n:09}", "x") for n in range(400)),
    )


def test_the_worst_alert_still_fits_and_says_what_was_left_out():
    drawn = message(worst_alert(), Around("key", "line")).blocks
    check_limits(drawn)
    assert drawn[0]["text"]["text"].startswith("🔴 FIRING 25 min · starved")
    assert "NeuronCore utilization 20 %" in drawn[3]["text"]["text"]
    assert drawn[-2]["elements"][0]["value"] == "ack a1"
    assert "Left out, too long for one Slack message: " in drawn[-1]["elements"][0]["text"]


def test_a_long_table_keeps_its_first_rows_and_its_total_and_counts_the_rest():
    wide = worst_alert().blocks[2]
    assert isinstance(wide, Table)
    narrow = Table(wide.columns[:2], tuple(row[:2] for row in wide.rows), ("500", "$10,750"))
    for table, first, end in (
        (wide, "*i-0000000000000000*", "$10,750"),
        (narrow, "i-0000000000000000 ", "\n```"),
    ):
        shown = message(Card("t", blocks=(table,))).blocks[1]["text"]["text"]
        assert first in shown
        assert re.search(r"… and 4\d\d more rows", shown)
        assert "$10,750" in shown
        assert shown.endswith(end)


def test_a_table_is_aligned_and_cannot_break_out_of_its_block():
    table = Table(
        (Heading("team"), Heading("usd", Align.RIGHT)),
        (("a```b<!here>", "$1"), ("日本", "$1,000")),
        ("", "$1,001"),
    )
    assert message(Card("t", blocks=(table,))).blocks[1]["text"]["text"].splitlines() == [
        "```",
        "team             usd",
        "─" * 20,
        "aˋˋˋb&lt;!here&gt;      $1",
        "日本          $1,000",
        "─" * 20,
        "              $1,001",
        "```",
    ]


def test_a_chart_is_its_picture_or_its_summary():
    card = Card("t", blocks=(Chart(ChartKind.LINE, "Use", "%", (), summary="It fell."),))
    assert message(card, Around(images={0: "F1"})).blocks[1]["slack_file"] == {"id": "F1"}
    assert message(card).blocks[1]["elements"][0]["text"] == "*Use* It fell."


def test_a_line_too_long_for_a_button_is_named_instead_of_cut():
    drawn = message(Card("t", blocks=(Buttons((Button("Apply", "config " + "x" * 2000),)),)))
    assert drawn.blocks[1]["elements"][0]["text"] == "Too long for a button: Apply."


def test_a_table_wider_than_a_phone_is_a_list_that_markup_cannot_enter():
    table = Table(
        tuple(map(Heading, ("how", "says", "source", "of"))),
        (("now", "*b* <!here>", "s" * 50, "t" * 50), ("then",)),
    )
    shown = message(Card("t", blocks=(table,))).blocks[1]["text"]["text"].splitlines()
    assert shown == [f"• *now*: ∗b∗ &lt;!here&gt; · source {'s' * 50} · of {'t' * 50}", "• *then*"]


def test_a_wide_table_without_rows_shows_its_header():
    table = Table((Heading("a" * 90), Heading("b" * 90)), ())
    assert message(Card("t", blocks=(table,))).blocks[1]["text"]["text"].startswith("```\na")
