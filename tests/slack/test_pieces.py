"""Every piece of a message or modal at Slack's limits, and every text that could be markup as text."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from adapters.chat.manifest import ASK
from adapters.chat.slack import markup
from adapters.chat.slack.forms import (
    FORM,
    PRESS,
    SHOWN,
    Claim,
    Origin,
    answer_view,
    ask_view,
    blamed_input,
    form_view,
    is_person,
    parse_author,
    parse_claim,
    parse_line,
    parse_presser,
    submitted_line,
    with_workspace,
    without_mention,
    working,
)
from adapters.chat.slack.markup import (
    Rank,
    SizeUnit,
    chunks,
    context,
    cut,
    fit,
    join,
    section,
    size,
)
from bot.cards.card import (
    Button,
    Buttons,
    ButtonStyle,
    Card,
    Code,
    Field,
    FieldKind,
    Form,
    Link,
    Mention,
    Strong,
    When,
    text,
)
from tests.cases import in_one_run

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
HERE = Origin("C1", "1.1", "")
WRITTEN = [
    (markup.escape, "a<b>&c", "a&lt;b&gt;&amp;c"),
    (markup.escape, "*b* ~s~ `c`", "∗b∗ ∼s∼ ˋcˋ"),
    (markup.escape, "_i_ snake_case", "ˍiˍ snake_case"),
    (markup.escape, ":smile: 12:30:00 :100:", "\ua789smile: 12:30:00 \ua789100:"),
    (markup.escape, "a\n > quote", "a\n › quote"),
    (markup.escape, "a\tb\u202ec", "a bc"),
    (markup.code, "a `b`\nc", "`a ˋbˋ c`"),
    (markup.code, " ", ""),
    (markup.strong, "a *b*", "*a ∗b∗*"),
    (markup.strong, "", ""),
    (markup.user_id, "slack:U01A", "U01A"),
    (markup.user_id, "slack:T1/W01A", "W01A"),
    (markup.user_id, "teams:U01A", ""),
    (markup.user_id, "slack:C01A", ""),
    (markup.when, When(NOON), "<!date^1795176000^{date_short_pretty} {time}|Nov 20, 12:00 UTC>"),
    (markup.link, Link("a|b", "https://x/?a=<b> c"), "<https://x/?a=%3Cb%3E%20c|a∣b>"),
    (markup.link, Link("a", "javascript:x"), "a"),
    (markup.link, Link("a", "https://x/" + "y" * 690), f"<https://x/{'y' * 690}|a>"),
    (markup.link, Link("a", "https://x/" + "y" * 691), "a"),
    (markup.mention, Mention("slack:U01A", "dana"), "<@U01A>"),
    (markup.mention, Mention("web:dana", "d*na"), "@d∗na"),
    (join, ["*a*", "b"], "*a*\u200bb"),
    (join, ["a", "*b*"], "a\u200b*b*"),
    (join, ["*a*", "*b*"], "*a*\u200b*b*"),
    (join, ["*a*", " b"], "*a* b"),
    (size, "a😀", 3),
    (parse_line, "", "help"),
    (parse_line, "why <https://x/a|x> &lt;b&gt; &amp;lt;", "why x <b> &lt;"),
    (parse_line, "ack <@U01A|dana> —for 2h “x y”", 'ack slack:U01A --for 2h "x y"'),
    (parse_line, "see <https://x/a>", "see https://x/a"),
    (parse_line, "a" * 3_001, "a" * 3_000),
    (without_mention, " <@U1>: cost", "cost"),
    (without_mention, "cost <@U1>", "cost <@U1>"),
]


@in_one_run
@pytest.mark.parametrize(("function", "given", "expected"), WRITTEN)
def test_it_is_written_and_read_as_text(function, given, expected):
    assert function(given) == expected


def test_people_are_of_the_workspace_that_asks():
    assert with_workspace("assign slack:U1 slack:T2/U3", "T1/") == "assign slack:T1/U1 slack:T2/U3"
    assert with_workspace("assign slack:U1", "") == "assign slack:U1"


@in_one_run
@pytest.mark.parametrize(
    ("whole", "most", "shown"),
    [
        ("aaaaa", 5, "aaaaa"),
        ("aaaaaa", 5, "aaaa…"),
        ("aaa  aaa", 5, "aaa…"),
        ("😀😀", 4, "😀😀"),
        ("😀😀😀", 4, "😀…"),
        ("😀😀😀", 5, "😀😀…"),
    ],
)
def test_a_cut_text_is_as_long_as_it_may_be(whole, most, shown):
    assert cut(whole, most) == shown
    assert size(shown) <= most


def test_long_texts_are_cut_between_words_and_nothing_is_lost():
    words = [f"word{n}" for n in range(400)]
    parts = chunks((" ".join(words), Strong("x " * 300), Code("c")), 500)
    assert max(map(len, parts)) <= 500
    plain = " ".join(parts).replace("*", "").replace("`", "").split()
    assert plain == [*words, *(["x"] * 300), "c"]
    assert chunks((f"{'a' * 150}\n{'b' * 150} c",), 170) == ["a" * 150, "b" * 150 + " c"]
    assert chunks(("a" * 450,), 250) == ["a" * 200, "a" * 200, "a" * 50]


def test_only_what_slack_would_link_by_itself_is_verbatim():
    linked = ("https://x", "www.x", "a.com", "#general", "@here", "mailto:x")
    assert all(section(x)["text"].get("verbatim") for x in linked)
    assert not any(
        "verbatim" in section(x)["text"] for x in ("a b", "<https://x|a>", "1.5", "a. b")
    )
    assert [x["text"] for x in context(["a", "b"])["elements"]] == ["a", "b"]


def unit(name, rank, length=10):
    return SizeUnit(name, {"text": "x" * length}, rank)


def test_blocks_are_dropped_by_rank_from_the_end_and_named():
    units = [unit("first", Rank.NEVER), unit("buttons", Rank.LATE)]
    units += [unit(f"table {n}", Rank.FIRST) for n in range(5)]
    assert fit(units, 7) == [x.block for x in units]
    fitted = fit(units, 6)
    assert fitted[:-1] == [x.block for x in units[:5]]
    assert "table 3, table 4" in fitted[-1]["elements"][0]["text"]
    assert fit(units, 2)[0] == units[0].block
    assert len(fit(units[:1], 0)) == 1
    full = [unit(name, Rank.FIRST, markup.TOTAL // 2 - 15) for name in "ab"]
    assert len(fit(full, 50)) == 2
    assert len(fit([*full, unit("c", Rank.FIRST, 40)], 50)) == 2


FIELDS = (
    Field("note", "Note", value="v", hint="h"),
    Field("n", "", kind=FieldKind.NUMBER, required=True),
    Field("at", "At", kind=FieldKind.WHEN, hint="unseen"),
    Field("who", "Who", kind=FieldKind.PERSON),
    Field("on", "On", kind=FieldKind.SWITCH, value="ON", required=True),
    Field("off", "Off", kind=FieldKind.SWITCH, value="no"),
    Field(
        "pick",
        "Pick",
        kind=FieldKind.CHOICE,
        value="b",
        options=(("", "none"), ("a", ""), ("b", "B"), ("x" * 151, "long")),
    ),
    Field("none", "None", kind=FieldKind.CHOICE, options=(("", "x"),)),
)


def test_every_kind_of_field_is_drawn():
    view = form_view(Form("Title", "set", FIELDS, submit="Go"), Card("t"), HERE)
    assert (view["callback_id"], view["submit"]["text"]) == (FORM, "Go")
    drawn = {block["block_id"]: block for block in view["blocks"]}
    elements = {name: block["element"] for name, block in drawn.items()}
    assert {name: x["type"] for name, x in elements.items()} == {
        "note": "plain_text_input",
        "n": "plain_text_input",
        "at": "datetimepicker",
        "who": "users_select",
        "on": "checkboxes",
        "off": "checkboxes",
        "pick": "static_select",
        "none": "plain_text_input",
    }
    assert [name for name, block in drawn.items() if not block["optional"]] == ["n"]
    assert drawn["n"]["label"]["text"] == "n"
    hints = {name: block["hint"]["text"] for name, block in drawn.items() if "hint" in block}
    assert hints == {"note": "h", "at": "in your own time zone"}
    assert (elements["note"]["initial_value"], "initial_value" in elements["n"]) == ("v", False)
    assert ("initial_options" in elements["on"], "initial_options" in elements["off"]) == (
        True,
        False,
    )
    assert [x["value"] for x in elements["pick"]["options"]] == ["a", "b"]
    assert elements["pick"]["initial_option"]["value"] == "b"
    assert all(x["element"]["action_id"] == name for name, x in drawn.items())


def test_a_form_that_was_filled_in_is_the_line_that_it_completes():
    view = form_view(Form("Title", "set x", FIELDS, submit="Go"), Card("t"), HERE)
    states = {
        "note": {"type": "plain_text_input", "value": " a b "},
        "n": {"type": "plain_text_input", "value": None},
        "at": {"type": "datetimepicker", "selected_date_time": 1795176000},
        "who": {"type": "users_select", "selected_user": "U1"},
        "on": {"type": "checkboxes", "selected_options": [{"value": "true"}]},
        "off": {"type": "checkboxes", "selected_options": []},
        "pick": {"type": "static_select", "selected_option": {"value": "b"}},
    }
    state = {"values": {name: {name: value} for name, value in states.items()}}
    line, origin = submitted_line(view | {"state": state})
    assert line == 'set x note="a b" at="2026-11-20 12:00" who=slack:U1 on=on off=off pick=b'
    assert (origin.channel, origin.thread) == ("C1", "1.1")
    for broken in (
        {"x" * 256: {"value": "a"}},
        {"x": {"value": "a" * 3_001}},
        {f"x{n}": {"value": "a"} for n in range(101)},
    ):
        with pytest.raises(ValueError, match="more than a modal"):
            submitted_line(view | {"state": {"values": {"b": broken}}})
    assert submitted_line(view | {"state": {"values": {"b": {"x" * 255: {"value": "a" * 3_000}}}}})

    asked = ask_view("cost 7d", "why", HERE)
    assert (asked["callback_id"], asked["blocks"][0]["element"]["initial_value"]) == (ASK, "why")
    typed = {"values": {"line": {"line": {"value": " fleet "}}}}
    assert submitted_line(asked | {"state": typed})[0] == "fleet"


def test_an_answer_in_a_window_has_its_form_or_its_main_button_at_the_foot():
    card = Card("Title", blocks=(text("a"),))
    shown = answer_view(card, HERE)
    assert (shown["callback_id"], len(shown["blocks"])) == (SHOWN, 1)
    assert "submit" not in shown
    longer = answer_view(Card("T" * 25, blocks=(text("a"),)), HERE)
    assert (len(longer["title"]["text"]), len(longer["blocks"])) == (24, 2)
    main = Button("Do", "do it", ButtonStyle.PRIMARY)
    pressed = answer_view(Card("Title", blocks=(text("a"), Buttons((main,)))), HERE)
    assert (pressed["callback_id"], pressed["submit"]["text"]) == (PRESS, "Do")
    assert Origin.load(pressed["private_metadata"]) == Origin("C1", "1.1", "do it")
    form = Form("F", "set", (Field("x", "X"),))
    filled = answer_view(Card("Title", blocks=(text("above"), form)), HERE)
    assert [x["type"] for x in filled["blocks"]][-1] == "input"
    assert len(filled["blocks"]) > 1
    long = form_view(Form("F", "x" * 3_000, (Field("x", "X"),)), card, HERE)
    assert (long["callback_id"], "submit" in long) == (SHOWN, False)
    many = tuple(Field(f"x{n}", "X") for n in range(120))
    assert len(form_view(Form("F", "set", many), card, HERE)["blocks"]) == 100
    assert (working()["callback_id"], working("n")["external_id"]) == (SHOWN, "n")


def test_a_mistake_is_shown_at_its_input():
    view = form_view(Form("F", "set", FIELDS[:2]), Card("t"), HERE)
    assert [blamed_input(view, x) for x in ("n", "zzz")] == ["n", "note"]
    assert blamed_input({}, "n") == ""


def test_metadata_that_is_not_ours_is_refused():
    assert Origin.load(HERE.dump()) == HERE
    for foreign in ("[" * 2_000, "null", '{"channel": 1}', "x", " " * 3_001):
        with pytest.raises(ValueError):  # noqa: PT011 - of whichever reader
            Origin.load(foreign)


@in_one_run
@pytest.mark.parametrize(
    ("event", "person"),
    [
        ({"user": "U1"}, True),
        ({"user": "U1", "subtype": "file_share"}, True),
        ({"user": "U1", "subtype": "message_changed"}, False),
        ({"user": "U1", "bot_id": "B1"}, False),
        ({}, False),
    ],
)
def test_who_wrote_just_now_is_a_person(event, person):
    assert is_person(event) is person


def test_a_payload_says_who_asks_and_where():
    command = {"user_id": "U1", "user_name": "d\nna", "response_url": "r", "team_id": "T1"}
    assert parse_claim(command, "C1", thread="1.1", private=False) == Claim(
        "U1", "d na", "C1", "1.1", "r", private=False, team="T1"
    )
    user = {"id": "U1", "username": "dana", "team_id": "T2"}
    press = {"user": user, "team_id": "T1", "container": {"channel_id": "C2", "thread_ts": "2.2"}}
    assert parse_presser(press) == Claim("U1", "dana", "C2", "2.2", team="T2")
    message = {"user": user, "channel": {"id": "C3"}, "message": {"thread_ts": "3.3"}}
    assert parse_presser(message) == Claim("U1", "dana", "C3", "3.3", team="T2")
    view = {"user": user, "channel": {"id": "C3"}, "view": {"private_metadata": HERE.dump()}}
    assert parse_presser(view) == Claim("U1", "dana", "C1", "1.1", team="T2")
    assert parse_presser({"user": user, "view": {"private_metadata": "x"}}).channel == ""
    event = {"user": "U1", "channel": "C1", "source_team": "T3"}
    assert parse_author({"event": event, "is_ext_shared_channel": True}, "1.1") == Claim(
        "U1", "", "C1", "1.1", private=False, team="T3", shared=True
    )
    assert parse_author({"event": event | {"user_team": "T4"}}).team == "T4"
    assert parse_author({"event": event}).shared is None
