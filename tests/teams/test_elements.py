"""Every element of a card at Teams' limits, every text as text, and every press as its line."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest

from adapters.chat.teams import elements
from adapters.chat.teams.elements import (
    LINE_MOST,
    TEXT_MOST,
    Mentions,
    action_rows,
    bare,
    button_sets,
    escape,
    form_elements,
    paragraph,
    pressed_line,
    runs,
    stands,
)
from bot.cards.card import (
    Button,
    Buttons,
    ButtonStyle,
    Code,
    Field,
    FieldKind,
    Form,
    Link,
    Mention,
    Strong,
    Style,
    Text,
    When,
)
from tests.cases import in_one_run

NOON = datetime(2026, 11, 20, 13, tzinfo=timezone(timedelta(hours=1)))
DANA = Mention("teams:29:1x", "Dana")
GAP = "\u200b"


@in_one_run
@pytest.mark.parametrize(
    ("write", "given", "expected"),
    [
        (bare, "<at>x</at> <  / at>", f"<{GAP}at>x<{GAP}/at> <{GAP}/at>"),
        (bare, "<attic", "<attic"),
        (bare, "{{DATE(x)}}", "{" + GAP + "{DATE(x)}}"),
        (bare, "a\u202eb", "ab"),
        (escape, "*a* [b](c) `d` ~e #f |g !h <i>", r"\*a\* \[b\](c) \`d\` \~e \#f \|g \!h \<i\>"),
        (escape, "_a_ snake_case", r"\_a\_ snake_case"),
        (escape, "- a\n1. b\n12) c\n+d", f"{GAP}- a\n{GAP}1. b\n{GAP}12) c\n{GAP}+d"),
        (escape, "1.5 a", f"{GAP}1.5 a"),
        (escape, "15 a", "15 a"),
    ],
)
def test_a_text_is_shown_and_does_nothing(write, given, expected):
    assert write(given) == expected


def text_of(block):
    return [run["text"] for run in block["inlines"]]


def test_a_paragraph_is_cut_where_its_room_ends():
    assert text_of(runs(("a" * TEXT_MOST,))) == ["a" * TEXT_MOST]
    assert text_of(runs(("a" * (TEXT_MOST + 1),))) == ["a" * (TEXT_MOST - 1) + "…"]
    assert text_of(runs(("a" * 3_999, Strong("bc"), "d"))) == ["a" * 3_999, "…"]
    assert text_of(runs(("a" * TEXT_MOST, "b"))) == ["a" * TEXT_MOST]
    assert len(text_of(runs(("a",) * 61))) == 60
    assert text_of(runs(())) == text_of(runs(("",))) == [" "]


def test_every_span_has_its_look():
    link, foreign = Link("a", "https://x"), Link("b", "javascript:x")
    inlines = runs(("p", Strong("s"), Code("c"), When(NOON), DANA, link, foreign), bold=True)[
        "inlines"
    ]
    plain = [
        {key: value for key, value in run.items() if key not in ("type", "weight")}
        for run in inlines
    ]
    when = "{{DATE(2026-11-20T12:00:00Z, SHORT)}} {{TIME(2026-11-20T12:00:00Z)}}"
    opens = {"type": "Action.OpenUrl", "url": "https://x"}
    assert plain == [
        {"text": "p"},
        {"text": "s"},
        {"text": "c", "fontType": "monospace"},
        {"text": when},
        {"text": "@Dana"},
        {"text": "a", "color": "accent", "selectAction": opens},
        {"text": "b", "color": "accent"},
    ]
    assert {run["weight"] for run in inlines} == {"bolder"}
    looks = {style: runs(("a",), style)["inlines"][0] for style in Style}
    assert {style: look.get("isSubtle", False) for style, look in looks.items()} == {
        Style.NORMAL: False,
        Style.QUIET: True,
        Style.DETAIL: True,
        Style.LEAD: False,
    }
    assert looks[Style.LEAD]["size"] == "medium"
    assert "horizontalAlignment" not in runs(("a",))
    assert runs(("a",), align="right")["horizontalAlignment"] == "right"


def test_a_paragraph_that_pings_is_markdown_and_names_its_people():
    mentions = Mentions()
    spans = ("*hi* ", Strong("b*"), Strong(" "), Code("c_d_"), DANA, Link("a", "https://x/(y) z"))
    drawn = paragraph(Text((*spans, Mention("web:kim", "k*m")), Style.QUIET), mentions)
    assert (drawn["type"], drawn["isSubtle"]) == ("TextBlock", True)
    assert drawn["text"] == (
        r"\*hi\* **b\***" + r"c_d\_" + "<at>Dana</at>[a](https://x/%28y%29%20z)" + r"@k\*m"
    )
    (entity,) = mentions.take()
    assert entity["mentioned"] == {"id": "29:1x", "name": "Dana"}
    assert mentions.take() == []
    assert paragraph(Text(("a", Mention("slack:U1", "x"))), mentions)["type"] == "RichTextBlock"
    long = Mention(f"teams:{'x' * 195}", "x")
    assert paragraph(Text((long,)), mentions)["type"] == "RichTextBlock"
    assert paragraph(Text((Mention(f"teams:{'x' * 194}", "x"),)), mentions)["type"] == "TextBlock"


def test_two_people_of_one_name_have_two_texts_and_one_has_one():
    mentions = Mentions()
    people = [("29:1", "Dana"), ("29:2", "Dana"), ("29:1", "Dana"), ("29:3", "<b>"), ("29:4", "**")]
    written = [mentions.mark(Mention(f"teams:{id_}", name)) for id_, name in people]
    assert written == [
        "<at>Dana</at>",
        "<at>Dana'</at>",
        "<at>Dana</at>",
        "<at>b</at>",
        "<at>someone</at>",
    ]
    assert [x["mentioned"]["id"] for x in mentions.take()] == ["29:1", "29:2", "29:3", "29:4"]
    assert len(mentions.mark(Mention("teams:29:5", "x" * 41))) == len("<at></at>") + 40


def test_rows_of_buttons_fit_a_phone():
    def rows(*titles):
        return [len(row["actions"]) for row in action_rows([{"title": x} for x in titles])]

    assert rows() == []
    assert rows(*"abcdefg") == [6, 1]
    # A row is 326 wide; a button takes 34 and 8 a letter.
    assert rows("x" * 16, "x" * 16) == [2]
    assert rows("x" * 16, "x" * 17) == [1, 1]
    assert rows("x" * 90) == [1]


@in_one_run
@pytest.mark.parametrize("style", ButtonStyle)
def test_a_button_carries_its_line(style):
    looks = {ButtonStyle.PRIMARY: "positive", ButtonStyle.DANGER: "destructive"}
    for kept in (False, True):
        block = Buttons(
            (Button("Do", "x" * LINE_MOST, style), Button("Far", "x" * (LINE_MOST + 1)))
        )
        ((action,),) = (row["actions"] for row in button_sets(block, stands=kept))
        assert (action["title"], action["verb"]) == ("Do", "line")
        assert action.get("style") == looks.get(style)
        assert pressed_line(action["data"]) == "x" * LINE_MOST
        assert stands(action["data"]) is kept
    assert not stands({"stands": 1})
    assert not stands(None)


FIELDS = (
    Field("note", "Note", value="v", hint="h", required=True),
    Field("n", "N", kind=FieldKind.NUMBER, value="5"),
    Field("share", "Share", kind=FieldKind.NUMBER, value="70%"),
    Field("at", "At", kind=FieldKind.WHEN),
    Field("who", "Who", kind=FieldKind.PERSON, options=(("teams:29:1", "Dana"),)),
    Field("on", "On", kind=FieldKind.SWITCH, value="Yes"),
    Field("off", "Off", kind=FieldKind.SWITCH, value="no", hint="*why*"),
    Field("pick", "Pick", kind=FieldKind.CHOICE, value="b", options=(("a", "A"), ("b", ""))),
    Field("gone", "Gone", kind=FieldKind.CHOICE, value="z", options=(("a", "A"),)),
    Field("many", "Many", kind=FieldKind.CHOICE, options=tuple((f"{n}", "x") for n in range(101))),
)


def test_every_kind_of_field_is_drawn_and_its_values_are_the_line():
    title, *inputs, actions = form_elements(Form("Title", "set x", FIELDS), 3, stands=False)
    assert text_of(title) == ["Title"]
    drawn = {x["id"]: x for x in inputs}
    assert list(drawn) == [f"f3.{field.name}" for field in FIELDS]
    assert [x["type"].removeprefix("Input.") for x in inputs] == [
        *("Text", "Number", "Text", "Text", "ChoiceSet"),
        *("Toggle", "Toggle", "ChoiceSet", "ChoiceSet", "ChoiceSet"),
    ]  # fmt: skip
    note = drawn["f3.note"]
    assert (note["value"], note["placeholder"], note["isRequired"]) == ("v", "h", True)
    assert note["errorMessage"] == "Note: please fill this in."
    assert (drawn["f3.n"]["value"], drawn["f3.share"]["value"]) == (5.0, "70%")
    assert note["maxLength"] == 1000
    assert not {"value", "isRequired", "placeholder"} & drawn["f3.at"].keys()
    assert [drawn[f"f3.{name}"]["value"] for name in ("on", "off")] == ["on", "off"]
    assert (drawn["f3.on"]["title"], "label" in drawn["f3.on"]) == ("On", False)
    assert (drawn["f3.off"]["title"], drawn["f3.off"]["label"]) == (r"\*why\*", "Off")
    assert drawn["f3.pick"]["value"] == "b"
    assert [x["title"] for x in drawn["f3.pick"]["choices"]] == ["A", "b"]
    assert "value" not in drawn["f3.gone"]
    assert len(drawn["f3.many"]["choices"]) == 100
    assert drawn["f3.who"]["style"] == "filtered"
    assert "choices.data" in drawn["f3.who"]

    data = actions["actions"][0]["data"]
    filled = {"note": "a  b\n", "n": 2.5, "share": "", "who": "aad-1", "on": "on", "off": False}
    pressed = data | {f"f3.{name}": value for name, value in filled.items()}
    assert pressed_line(pressed) == 'set x note="a b" n=2.5 who=teams:aad-1 on=on off=off'
    offered = data | {"f3.who": "teams:29:1", "f2.note": "of another form"}
    assert pressed_line(offered) == "set x who=teams:29:1"
    assert pressed_line(data | {"f3.note": "x" * 1_001}) == f"set x note={'x' * 1_000}"
    assert pressed_line(data | {"f3.note": ["x"], "f3.n": 7}) == "set x n=7"


@in_one_run
@pytest.mark.parametrize(
    ("data", "line"),
    [
        (None, ""),
        ({}, ""),
        ({"line": 5}, ""),
        ({"line": "fleet"}, "fleet"),
        ({"line": "x" * (LINE_MOST + 1)}, "x" * LINE_MOST),
        ({"line": "set", "fields": "x"}, "set"),
        ({"line": "set", "form": 1, "fields": ["x" * 101], f"f1.{'x' * 101}": "1"}, "set"),
        ({"line": "set", "form": 1, "fields": [5], "f1.5": "1"}, "set"),
        (
            {"line": "set", "form": 1, "fields": ["a"] * 40 + ["b"], "f1.a": "1", "f1.b": "2"},
            "set a=1",
        ),
        ({"line": "set", "form": 1, "fields": ["a"], "people": 5, "f1.a": "x"}, "set a=x"),
    ],
)
def test_what_is_pressed_is_read_as_far_as_it_is_ours(data, line):
    assert pressed_line(data) == line


def test_a_title_is_never_empty():
    block = Buttons((Button("", "fleet"), Button("x" * 81, "fleet")))
    titles = [x["title"] for row in button_sets(block, stands=False) for x in row["actions"]]
    assert titles == ["…", "x" * 79 + "…"]
    assert elements.words("a")["inlines"][0]["text"] == "a"
