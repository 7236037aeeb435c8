"""Any card becomes a valid Adaptive Card within its budget, and text from data stays text."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adapters.chat.teams.render import ALERT_BYTES, ANSWER_BYTES, dumps, render, weigh
from bot.cards.card import (
    Align,
    Block,
    Button,
    Buttons,
    ButtonStyle,
    Card,
    Chart,
    ChartKind,
    Code,
    Facts,
    Field,
    FieldKind,
    Form,
    Heading,
    Link,
    Mention,
    Series,
    Strong,
    Style,
    Table,
    Text,
    Tone,
    When,
    text,
)
from tests.cards.strategies import any_card
from tests.e2e import samples

AT = datetime(2026, 11, 20, 9, 0, tzinfo=UTC)
EVIL = "[x](http://evil) **b** _i_ <at>all</at> <b>h</b> {{DATE(2026-01-01T00:00:00Z)}} `c` # h\n- l\n1. n | \u202e"


def elements(node: Any) -> Iterator[dict[str, Any]]:
    """Return every object of a card."""
    if isinstance(node, dict):
        yield node
        for child in node.values():
            yield from elements(child)
    elif isinstance(node, list):
        for child in node:
            yield from elements(child)


def kinds(card: dict[str, Any]) -> list[str]:
    """Return the types of the body's elements."""
    return [element["type"] for element in card["body"]]


def shown(card: dict[str, Any]) -> str:
    """Return all text."""
    return "\n".join(str(e.get("text", "")) for e in elements(card))


def body(*blocks: Block, **more: Any) -> dict[str, Any]:
    return render(Card("T", Tone.INFO, blocks), **more)


def line_chart(n: int = 300) -> Chart:
    times = tuple(AT + timedelta(minutes=5 * i) for i in range(n))
    values = tuple(None if i % 7 == 0 else 80.0 + i % 9 for i in range(n))
    return Chart(
        ChartKind.LINE,
        "Utilization",
        "%",
        (Series("llama", values),),
        times,
        band=(85, 95),
        summary="Fell to 20 %.",
    )


@pytest.mark.parametrize(
    ("tone", "style"),
    [
        ("critical", "attention"),
        ("warning", "warning"),
        ("info", "accent"),
        ("over", "emphasis"),
        ("good", "good"),
        ("error", "attention"),
    ],
)
def test_the_first_line_has_the_colour_of_the_tone(tone: str, style: str) -> None:
    assert render(Card("T", Tone(tone)))["body"][0]["style"] == style


def test_a_paragraph_is_runs_that_no_markdown_reaches() -> None:
    block = body(
        text(
            "Wasting ",
            Strong("$1,083"),
            " on ",
            Code("i-0"),
            " ",
            Link("why", "https://h/x"),
            style=Style.QUIET,
        )
    )["body"][1]
    assert block["type"] == "RichTextBlock"
    assert [run.get("weight") or run.get("fontType") for run in block["inlines"]] == [
        None,
        "bolder",
        None,
        "monospace",
        None,
        None,
    ]
    assert block["inlines"][5]["selectAction"] == {"type": "Action.OpenUrl", "url": "https://h/x"}
    assert all(run["isSubtle"] for run in block["inlines"])


def test_a_link_that_is_no_web_address_is_words() -> None:
    assert "javascript" not in json.dumps(body(text(Link("x", "javascript:alert(1)"))))


def test_an_instant_shows_in_the_readers_zone() -> None:
    assert "{{DATE(2026-11-20T09:00:00Z, SHORT)}} {{TIME(2026-11-20T09:00:00Z)}}" in shown(
        body(text("since ", When(AT)))
    )


def test_a_person_of_teams_is_pinged_by_an_entity_with_matching_text() -> None:
    card = body(text("ask ", Mention("teams:29:1x", "Dana <at>")))
    entity = {
        "type": "mention",
        "text": "<at>Dana at</at>",
        "mentioned": {"id": "29:1x", "name": "Dana at"},
    }
    assert card["msteams"]["entities"] == [entity]
    assert card["body"][1]["text"] == "ask <at>Dana at</at>"


def test_a_person_of_another_platform_is_only_named() -> None:
    card = body(text("ask ", Mention("slack:U1", "dana")))
    assert "@dana" in shown(card)
    assert "entities" not in card["msteams"]


def test_people_whom_no_text_names_are_pinged_under_the_first_line() -> None:
    card = render(
        Card(
            "T",
            blocks=(text("x"),),
            mentions=(Mention("teams:29:1", "Dana"), Mention("teams:29:2", "Dana")),
        )
    )
    assert [e["mentioned"]["id"] for e in card["msteams"]["entities"]] == ["29:1", "29:2"]
    assert all(e["text"] in card["body"][1]["text"] for e in card["msteams"]["entities"])
    assert len({e["text"] for e in card["msteams"]["entities"]}) == 2


def evil_blocks() -> list[Block]:
    column = Heading(EVIL, Align.RIGHT)
    field = Field("n", EVIL, FieldKind.SWITCH, hint=EVIL)
    return [
        text(EVIL, Strong(EVIL), Code(EVIL)),
        text(
            Mention("teams:29:1", EVIL),
            EVIL,
            Strong(EVIL),
            Code(EVIL),
            Link(EVIL, "https://h/a)b(c"),
        ),
        Facts(((EVIL, EVIL),)),
        Table((column,), ((EVIL,),), (EVIL,), EVIL, EVIL),
        Chart(ChartKind.BAR, EVIL, EVIL, (Series(EVIL, (1.0,)),), categories=(EVIL,), summary=EVIL),
        Form(EVIL, "x", (field, Field("m", EVIL, hint=EVIL, value=EVIL))),
    ]


def read_as_markdown(card: dict[str, Any]) -> list[str]:
    """Return the strings that Teams reads as markdown."""
    found = [str(e["text"]) for e in elements(card) if e.get("type") == "TextBlock"]
    found += [
        str(f[k])
        for e in elements(card)
        if e.get("type") == "FactSet"
        for f in e["facts"]
        for k in ("title", "value")
    ]
    return found + [str(e["title"]) for e in elements(card) if e.get("type") == "Input.Toggle"]


@pytest.mark.parametrize("block", evil_blocks(), ids=lambda block: type(block).__name__)
def test_text_from_data_never_pings_or_computes(block: Block) -> None:
    card = render(Card(EVIL, blocks=(block,)))
    pings = {entity["text"] for entity in card["msteams"].get("entities", [])}
    said = json.dumps(card, ensure_ascii=False)
    assert set(re.findall(r"<at>.*?</at>", said)) <= pings
    assert "{{DATE(2026-01" not in said
    assert "\u202e" not in said


@pytest.mark.parametrize("block", evil_blocks(), ids=lambda block: type(block).__name__)
def test_text_from_data_is_never_formatted(block: Block) -> None:
    for said in read_as_markdown(render(Card(EVIL, blocks=(block,)))):
        ours = re.sub(
            r"<at>.*?</at>|(?<!\\)\*\*|(?<!\\)\[|(?<!\\)\]\(https://h/a%29b%28c\)", "", said
        )
        assert not re.search(r"(?<!\\)[\[\]*`<>#|]", ours)
        assert not re.search(r"(?m)^\s*(-|\d+\.)", ours)


def test_markdown_is_escaped_where_it_would_be_read() -> None:
    fact = body(Facts((("a_b_c", "[x](http://evil) **b** _i_ 1.5 trn1_x"),)))["body"][1]["facts"][0]
    assert fact == {"title": "a_b_c", "value": r"\[x\](http://evil) \*\*b\*\* \_i\_ 1.5 trn1_x"}


def test_a_table_aligns_numbers_right_and_sets_its_total_apart() -> None:
    table = Table(
        (Heading("team"), Heading("USD", Align.RIGHT)),
        (("a", "1"), ("b", "2")),
        ("total", "3"),
        "Cost",
        "and 4 more",
    )
    card = body(table)
    drawn = card["body"][2]
    assert kinds(card) == ["Container", "RichTextBlock", "Table", "RichTextBlock"]
    assert [row.get("style") for row in drawn["rows"]] == ["emphasis", None, None, "emphasis"]
    assert drawn["rows"][1]["cells"][1]["items"][0]["horizontalAlignment"] == "right"
    assert "team · USD\na · 1\nb · 2\ntotal · 3" in shown(drawn["fallback"])


def test_a_long_or_wide_table_says_what_it_folds() -> None:
    table = Table(tuple(Heading(f"c{i}") for i in range(12)), tuple(("x",) * 12 for _ in range(60)))
    assert "and 20 more rows; 4 more columns not shown" in shown(body(table))


def test_a_curve_is_a_native_chart_without_the_points_that_were_never_read() -> None:
    chart = body(line_chart())["body"][2]
    assert chart["type"] == "Chart.Line"
    assert [series["legend"] for series in chart["data"]] == ["llama", "usual from 85", "to 95 %"]
    assert (chart["yMin"], chart["yMax"]) == (0, 100.0), "four round parts"
    assert 2 < len(chart["data"][0]["values"]) <= 60
    gap = Chart(
        ChartKind.LINE,
        "t",
        "%",
        (Series("s", (1.0, None, 3.0)),),
        (AT, AT + timedelta(1), AT + timedelta(2)),
    )
    drawn = body(gap)["body"][2]
    assert drawn["data"][0]["values"] == [{"x": -48.0, "y": 1.0}, {"x": 0.0, "y": 3.0}]
    assert drawn["xAxisTitle"] == "hours before Nov 22, 09:00 UTC"


def test_the_parts_of_an_axis_end_at_zero_and_not_beside_it() -> None:
    times = tuple(AT - timedelta(minutes=minutes) for minutes in (380, 350, 5, 0))
    chart = Chart(ChartKind.LINE, "t", "%", (Series("s", (4.0, 3.0, 2.0, 1.0)),), times)
    points = body(chart)["body"][2]["data"][0]["values"]
    part = -points[0]["x"] / 4
    assert points[0]["x"] + part + part + part + part == 0.0
    assert [round(point["x"] * 60) for point in points] == [-380, -350, -5, 0]


def test_one_series_of_bars_is_plain_and_several_are_stacked() -> None:
    one = Chart(ChartKind.BAR, "t", "$", (Series("s", (1.0, 2.0)),), categories=("a", "b"))
    two = Chart(
        ChartKind.BAR, "t", "$", (Series("s", (1.0,)), Series("u", (2.0,))), categories=("a",)
    )
    assert body(one)["body"][2]["data"] == [{"x": "a", "y": 1.0}, {"x": "b", "y": 2.0}]
    assert body(two)["body"][2]["type"] == "Chart.VerticalBar.Grouped"
    assert body(two)["body"][2]["stacked"] is True


def test_stacked_bars_are_a_picture_where_it_fits_since_their_axis_cannot_be_round() -> None:
    two = Chart(
        ChartKind.BAR,
        "t",
        "$",
        (Series("s", (1.0,), Tone.WARNING), Series("u", (2.0,))),
        categories=("a",),
    )
    assert kinds(body(two, draw=lambda _: b"p")) == [
        "Container",
        "RichTextBlock",
        "Image",
    ]
    native = body(two, draw=lambda _: b"p" * 90_000)["body"][2]
    assert [series["color"] for series in native["data"]] == ["warning", "categoricalMarigold"]


@pytest.mark.parametrize(
    ("high", "unit", "top"),
    [
        (93.0, "%", 100.0),
        (3.0, "", 4.0),
        (17.0, "", 20.0),
        (911.0, "$/h", 1000.0),
        (0.3, "GB/s", 0.4),
    ],
)
def test_the_value_axis_ends_where_its_quarters_are_round(
    high: float, unit: str, top: float
) -> None:
    bars = Chart(ChartKind.BAR, "t", unit, (Series("s", (high,)),), categories=("a",))
    assert body(bars)["body"][2]["yMax"] == top


def test_a_chart_without_a_reading_is_its_sentence() -> None:
    empty = Chart(
        ChartKind.LINE,
        "t",
        "%",
        (Series("s", (None, float("nan"))),),
        (AT, AT),
        summary="Nothing was read.",
    )
    assert kinds(body(empty)) == ["Container", "RichTextBlock"]


def test_hosts_without_charts_get_a_picture_where_it_fits_and_words_where_not() -> None:
    fits = body(line_chart(), draw=lambda _: b"p" * 9000)["body"][2]["fallback"]
    large = body(line_chart(), draw=lambda _: b"p" * 90_000)["body"][2]["fallback"]
    assert fits["url"].startswith("data:image/png;base64,cHBw")
    assert fits["altText"] == "Fell to 20 %."
    assert large["inlines"][0]["text"] == "Fell to 20 %."


@pytest.mark.parametrize("chart", [line_chart(), samples.bar_chart(), samples.heat_chart()])
def test_the_title_of_a_chart_stands_once_in_words_and_not_in_its_picture(chart: Chart) -> None:
    drawn: list[str] = []
    card = body(chart, draw=lambda pictured: drawn.append(pictured.title) or b"p")
    assert drawn == [""]
    assert dumps(card["body"]).count(f'"text":"{chart.title}"'.encode()) == 1


def test_buttons_execute_their_line_six_a_row() -> None:
    buttons = Buttons(
        tuple(
            Button(f"b{i}", f"line {i}", ButtonStyle.DANGER if i else ButtonStyle.PRIMARY)
            for i in range(8)
        )
    )
    rows = body(buttons, stands=True)["body"][1:]
    assert [len(row["actions"]) for row in rows] == [6, 2]
    first = {
        "type": "Action.Execute",
        "title": "b0",
        "verb": "line",
        "data": {"line": "line 0", "stands": True},
        "style": "positive",
    }
    assert rows[0]["actions"][0] == first


def titles(card: dict[str, Any]) -> list[list[str]]:
    """Return the titles of each row of buttons."""
    return [[x["title"] for x in row["actions"]] for row in card["body"] if "actions" in row]


def test_a_row_of_buttons_ends_where_a_phone_does() -> None:
    names = ["By instance type", "By team", "By cluster and account", "x" * 60, "A", "B"]
    buttons = Buttons(tuple(Button(name, "line") for name in names))
    assert titles(body(buttons)) == [
        ["By instance type", "By team"],
        ["By cluster and account"],
        ["x" * 60],
        ["A", "B"],
    ]


def test_details_open_from_the_last_row_of_buttons() -> None:
    blocks = Text(("the rule",), Style.DETAIL), Facts((("gross", "$5"),), Style.DETAIL)
    buttons = Buttons((Button("By instance type", "a"), Button("By cluster and account", "b")))
    after = text("the end")
    card = body(buttons, *blocks, after)
    assert titles(card) == [["By instance type"], ["By cluster and account", "Details"]]
    assert [x.get("isVisible", True) for x in card["body"][3:]] == [False, False, True]
    alone = body(*blocks, after)
    assert titles(alone) == [["Details"]]
    (toggle,) = (x for x in elements(alone) if x.get("type") == "Action.ToggleVisibility")
    assert len(toggle["targetElements"]) == 2


def test_a_form_draws_every_kind_of_field() -> None:
    fields = (
        Field("a", "A", FieldKind.TEXT, "v", hint="h", required=True),
        Field("b", "B", FieldKind.NUMBER, "1.5"),
        Field("c", "C", FieldKind.NUMBER, "15%"),
        Field("d", "D", FieldKind.CHOICE, "x", (("x", "X"), ("y", "Y"))),
        Field("e", "E", FieldKind.SWITCH, "on"),
    )
    drawn = body(Form("F", "tune", fields))["body"][2:]
    assert [e["type"] for e in drawn] == [
        "Input.Text",
        "Input.Number",
        "Input.Text",
        "Input.ChoiceSet",
        "Input.Toggle",
        "ActionSet",
    ]
    assert [e.get("value") for e in drawn[:5]] == ["v", 1.5, "15%", "x", "on"]
    assert [e.get("label") for e in drawn[:5]] == ["A", "B", "C", "D", None]
    assert drawn[5]["actions"][0]["data"] == {
        "line": "tune",
        "form": 0,
        "fields": ["a", "b", "c", "d", "e"],
    }


def test_the_worst_alert_of_500_nodes_fits_and_says_what_it_left_out() -> None:
    table = Table(
        tuple(Heading(f"column {i}") for i in range(8)),
        tuple((f"i-{n:017x}" * 6,) * 8 for n in range(500)),
    )
    fact = Facts(tuple((f"node {n}", "x" * 300) for n in range(500)))
    card = Card(
        "FIRING",
        Tone.CRITICAL,
        (text("wasting"), Buttons((Button("Ack", "ack 1"),)), table, fact, fact, line_chart()),
    )
    drawn = render(card, lambda _: b"p" * 30_000, budget=ALERT_BYTES)
    assert weigh(drawn) <= ALERT_BYTES
    assert {"FIRING" in shown(drawn), "wasting" in shown(drawn), "ActionSet" in kinds(drawn)} == {
        True
    }
    left_out = "Left out, the message would be too long: 1 table, 2 lists of facts, 1 chart."
    assert left_out in shown(drawn)


def test_pictures_are_drawn_as_long_as_all_of_them_fit() -> None:
    card = Card("Cost", blocks=(line_chart(),) * 4)
    drawn = render(card, lambda _: b"p" * 20_000, budget=ANSWER_BYTES)
    assert weigh(drawn) <= ANSWER_BYTES
    assert json.dumps(drawn).count('"Image"') > 1


def test_a_first_paragraph_without_end_is_shortened_not_dropped() -> None:
    long = text(*(Strong("😀" * 500) for _ in range(500)), Mention("teams:29:1", "x"))
    drawn = render(Card("T" * 5000, blocks=(long, text("second" * 9000))), budget=ALERT_BYTES)
    assert weigh(drawn) <= ALERT_BYTES
    assert "😀😀" in shown(drawn)


WORDS = st.one_of(st.text(max_size=40), st.just(EVIL), st.text(alphabet='😀"\\\n<', max_size=3000))
USERS = st.sampled_from(
    ["teams:29:1", "teams:29:2", "teams:29:3", "slack:U1", "teams:" + "9" * 900]
)
CARDS = any_card(
    WORDS, users=USERS, urls=st.sampled_from(["https://h/x", "javascript:x", ""]), most=5
)


@given(CARDS, st.sampled_from([ALERT_BYTES, ANSWER_BYTES]), st.booleans())
@settings(max_examples=60, deadline=None)
def test_any_card_fits_keeps_its_title_and_pings_only_whom_it_names(
    card: Card, budget: int, stands: bool
) -> None:
    drawn = render(card, lambda _: b"p" * 20_000, budget=budget, stands=stands)
    assert weigh(drawn) <= budget
    assert json.loads(json.dumps(drawn, allow_nan=False)) == drawn
    assert drawn["body"][0]["items"][0]["inlines"][0]["text"]
    texts = [str(e["text"]) for e in elements(drawn["body"]) if e.get("type") == "TextBlock"]
    for entity in drawn["msteams"].get("entities", []):
        assert any(entity["text"] in said for said in texts)
    if card.blocks and isinstance(card.blocks[0], Text):
        assert len(drawn["body"]) > 1


def test_no_number_and_no_id_is_broken_between_two_signs() -> None:
    rows = (
        (
            "starved · llama, 64 x trn1.32xlarge, us-west-2",
            "snoozed up to $5,000: moving the data",
            "$1,083.40",
            "sc06835827",
        ),
    )
    drawn = render(
        Card(
            "t",
            blocks=(
                Table(
                    (Heading("muted"), Heading("how"), Heading("net", Align.RIGHT), Heading("id")),
                    rows,
                ),
            ),
        )
    )
    (table,) = (element for element in drawn["body"] if element["type"] == "Table")
    widths = [column["width"] for column in table["columns"]]
    longest = ("trn1.32xlarge,", "snoozed", "$1,083.40", "sc06835827")
    assert all(width >= len(word) + 2 for width, word in zip(widths, longest, strict=True))
    assert sum(widths) <= 72, "so that a sign has 6 pixels in a chat of 430"


def test_a_table_whose_words_need_more_than_a_phone_shows_is_written_small() -> None:
    def drawn(*columns: Heading) -> tuple[int, set[str]]:
        cells = ("llama-70b", "64 x trn1n.32xlarge", "13 busy, 3 no runtime", "20 %", "$1,376")
        card = Card("t", blocks=(Table(columns, (cells[: len(columns)],)),))
        (table,) = (x for x in render(card)["body"] if x["type"] == "Table")
        sizes = {
            x.get("size", "default") for x in elements(table["rows"]) if x.get("type") == "TextRun"
        }
        return sum(column["width"] for column in table["columns"]), sizes

    right = Align.RIGHT
    wide = (Heading("cluster"), Heading("nodes"), Heading("states"), Heading("used", right))
    assert drawn(*wide[:3]) == (38, {"default"}), "words have the room that is left"
    assert drawn(*wide, Heading("$/h", right)) == (52, {"small"}), "words alone"


def test_of_more_bars_than_there_is_room_for_times_keep_the_newest_and_ranks_the_first() -> None:
    names = tuple(f"Oct {i}" for i in range(1, 32))
    ranked = Chart(
        ChartKind.BAR,
        "t",
        "$",
        (Series("s", tuple(float(i) for i in range(31))),),
        categories=names,
    )
    first, newest = (
        body(chart)["body"][2]["data"] for chart in (ranked, replace(ranked, timed=True))
    )
    assert (first[0]["x"], first[-1]["x"]) == ("Oct 1", "Oct 30")
    assert (newest[0]["x"], newest[-1]["x"]) == ("Oct 2", "Oct 31")
