"""Forms, answers and buttons in Slack's modals: one window that goes on, and an answer even where it was closed."""

import asyncio
import json

import pytest

from adapters.chat.slack.forms import Origin, form_view, with_workspace
from adapters.chat.slack.render import message
from bot.answers.alerts.alerts import snooze_form
from bot.cards.card import Button, Buttons, ButtonStyle, Card, Field, FieldKind, Form, Tone, text
from tests.cards.samples import starved

FORM = Form(
    "Snooze",
    "snooze a1",
    (Field("for", "How long", FieldKind.CHOICE, "1h", (("1h", "1 hour"), ("1d", "1 day"))),),
)


APPLY = Card("Preview", blocks=(text("one alert fewer"), Buttons((Button("Apply", "config apply p1", ButtonStyle.PRIMARY), Button("Cancel", "config cancel p1")))))  # fmt: skip


def submitted(value, **view):
    state = {"for": {"for": {"type": "static_select", "selected_option": {"value": value}}}}
    metadata = json.dumps({"channel": "C1", "thread": "5.5", "line": "snooze a1"})
    blocks = [{"type": "input", "block_id": "for"}]
    return {
        "callback_id": "trn_form",
        "private_metadata": metadata,
        "state": {"values": state},
        "blocks": blocks,
    } | view


async def test_a_button_in_a_modal_shares_in_the_channel_the_modal_was_opened_from(
    workspace, slack, bot
):
    await workspace.press("why a1", "opens:1")
    view = {
        "type": "modal",
        "id": "V1",
        "private_metadata": slack.sent("views.update")[0]["view"]["private_metadata"],
    }
    bot.card = Card("Why", public=True)
    await workspace.press(
        "share why a1",
        channel=None,
        message=None,
        view=view,
        container={"type": "view"},
        response_url="",
    )
    assert [body["view_id"] for body in slack.sent("views.update")] == ["V1"] * 3
    assert slack.sent("chat.postMessage")[0]["channel"] == "C1"


async def test_the_main_button_of_an_answer_is_the_modals_own_and_its_answer_takes_its_place(
    workspace, slack, bot
):
    bot.card = APPLY
    await workspace.press("config change p1", "opens:1")
    view = slack.sent("views.update")[0]["view"]
    assert (view["callback_id"], view["submit"]["text"]) == ("trn_press", "Apply")
    assert [
        one["text"]["text"]
        for block in view["blocks"]
        if block["type"] == "actions"
        for one in block["elements"]
    ] == ["Cancel"]
    bot.card = Card("Applied as version 1", Tone.GOOD, public=True)
    _, body = await workspace.submit(view)
    assert bot.asked[-1].line == "config apply p1"
    assert json.loads(body)["response_action"] == "update"
    assert json.loads(body)["view"]["title"]["text"] == "Applied as version 1"
    assert slack.sent("chat.postMessage")[0]["channel"] == "C1"


async def test_what_went_wrong_at_the_foot_of_a_modal_is_said_in_it(workspace, slack, bot):
    bot.card = APPLY
    await workspace.press("config change p1", "opens:1")
    bot.card = Card("That did not work", Tone.ERROR, (text("Preview it again."),))
    _, body = await workspace.submit(slack.sent("views.update")[0]["view"])
    assert "Preview it again." in json.dumps(json.loads(body)["view"]["blocks"])
    assert slack.sent("chat.postMessage", "chat.postEphemeral") == []


async def test_a_press_in_a_modal_that_was_closed_is_answered_where_it_was_opened(
    workspace, slack, bot
):
    view = {
        "type": "modal",
        "id": "V1",
        "private_metadata": json.dumps({"channel": "C1", "thread": "", "line": ""}),
    }
    slack.failing["views.update"] = ["not_found"]
    await workspace.press(
        "config cancel p1",
        channel=None,
        message=None,
        view=view,
        container={"type": "view"},
        response_url="",
    )
    assert slack.sent("chat.postEphemeral")[0]["user"] == "U1"
    assert len(bot.asked) == 1


async def test_a_button_that_opens_shows_a_working_modal_then_the_form(workspace, slack, bot):
    bot.card = Card("Snooze", blocks=(FORM,))
    await workspace.press("snooze a1", "opens:1")
    assert [m for m, _ in slack.calls if m.startswith("views")] == ["views.open", "views.update"]
    view = slack.sent("views.update")[0]["view"]
    assert view["callback_id"] == "trn_form"
    assert view["blocks"][0]["element"]["initial_option"]["value"] == "1h"
    assert json.loads(view["private_metadata"]) == {
        "channel": "C1",
        "thread": "",
        "line": "snooze a1",
    }


async def test_a_trigger_that_is_too_old_still_gets_an_answer_with_a_button_to_the_form(
    workspace, slack, bot
):
    slack.failing["views.open"] = ["expired_trigger_id"]
    bot.card = Card("Snooze", blocks=(FORM,))
    await workspace.press("snooze a1", "opens:1")
    (button,) = slack.sent("response")[0]["blocks"][-1]["elements"]
    assert (button["value"], button["action_id"][:5]) == ("snooze a1", "opens")


async def test_a_form_submits_its_line_and_the_answer_comes_back_to_the_channel(
    workspace, slack, bot
):
    assert await workspace.submit(submitted("1 d")) == (200, "")
    assert (bot.asked[0].line, bot.asked[0].channel) == ('snooze a1 for="1 d"', "slack:C1")
    (answer,) = slack.sent("chat.postEphemeral")
    assert (answer["channel"], answer["thread_ts"]) == ("C1", "5.5")


async def test_a_form_that_is_answered_by_a_form_goes_on_in_the_same_modal(workspace, slack, bot):
    bot.card = Card(
        "Settings of idle", blocks=(Form("Idle", "config set", (Field("idle.below", "Share"),)),)
    )
    status, body = await workspace.submit(submitted("idle"))
    view = json.loads(body)["view"]
    assert (status, json.loads(body)["response_action"], view["callback_id"]) == (
        200,
        "update",
        "trn_form",
    )
    assert json.loads(view["private_metadata"]) == {
        "channel": "C1",
        "thread": "5.5",
        "line": "config set",
    }
    assert slack.sent("chat.postEphemeral") == []


async def test_a_wrong_form_stays_open_and_says_why(workspace, bot):
    bot.card = Card("'9z' is not a length of time; write 30m, 2h, 3d or 1w.", Tone.ERROR)
    status, body = await workspace.submit(submitted("9z"))
    assert (status, json.loads(body)["response_action"]) == (200, "errors")
    assert json.loads(body)["errors"] == {"for": bot.card.title}


async def test_an_error_stands_under_the_field_that_is_wrong(workspace, bot):
    bot.card = Card("'much' is not a number for ceiling.", Tone.ERROR, data={"argument": "ceiling"})
    blocks = [{"type": "input", "block_id": "for"}, {"type": "input", "block_id": "ceiling"}]
    _, body = await workspace.submit(submitted("1h", blocks=blocks))
    assert json.loads(body)["errors"] == {"ceiling": bot.card.title}


@pytest.mark.parametrize("metadata", ["", "{", '"x"', "null"])
async def test_a_modal_of_another_time_is_refused_in_one_sentence(workspace, bot, metadata):
    _, body = await workspace.submit(submitted("1d", private_metadata=metadata))
    assert json.loads(body)["response_action"] == "update"
    assert bot.asked == []


async def test_the_message_shortcut_asks_in_the_thread_of_the_message(workspace, slack, bot):
    found = {"ts": "5.5", "text": "<@U0BOT> ack a1"}
    payload = {
        "type": "message_action",
        "callback_id": "trn_ask",
        "channel": {"id": "C1"},
        "message": found,
    }
    await workspace.interact(payload)
    view = slack.sent("views.open")[0]["view"]
    assert view["blocks"][0]["element"]["initial_value"] == "ack a1"
    state = {"values": {"line": {"line": {"type": "plain_text_input", "value": "ack a1"}}}}
    await workspace.submit(
        {"callback_id": "trn_ask", "private_metadata": view["private_metadata"], "state": state}
    )
    (answer,) = slack.sent("chat.postMessage")
    assert (answer["thread_ts"], bot.asked[0].line) == ("5.5", "ack a1")


@pytest.mark.parametrize(
    ("words", "typed"),
    [
        ('"ack" a1', '"ack" a1'),
        ("/trn cost 7d", "/trn cost 7d"),
        ("thank you", None),
        ("ac\u212a a1", None),
        ("", None),
    ],
)
async def test_the_message_shortcut_offers_what_the_grammar_takes_for_a_line(
    workspace, slack, words, typed
):
    found = {"ts": "5.5", "text": words}
    await workspace.interact(
        {
            "type": "message_action",
            "callback_id": "trn_ask",
            "channel": {"id": "C1"},
            "message": found,
        }
    )
    assert slack.sent("views.open")[0]["view"]["blocks"][0]["element"].get("initial_value") == typed


async def test_a_button_in_app_home_answers_in_a_modal(workspace, slack, bot):
    bot.card = Card("Why", blocks=(text("because"), Buttons((Button("Back", "home"),))))
    await workspace.press(
        "why a1", channel=None, message=None, view={"type": "home"}, container={"type": "view"}
    )
    assert slack.sent("views.update")[0]["view"]["title"]["text"] == "Why"


HASTY = pytest.mark.parametrize("patience_s", [0.05])


@HASTY
@pytest.mark.parametrize("late", [0, 2])
async def test_a_modal_whose_answer_takes_long_says_so_and_is_filled_later(
    workspace, slack, bot, late
):
    ready = asyncio.Event()
    bot.before = ready.wait
    _, body = await workspace.submit(submitted("1d"), drain=False)
    assert json.loads(body)["response_action"] == "update"
    slack.failing["views.update"] = ["not_found"] * late
    ready.set()
    await workspace.drain()
    filled = slack.sent("views.update")[-1]
    assert filled["view"]["title"]["text"] == "Cost of 7 days"
    assert filled["external_id"] == json.loads(body)["view"]["external_id"]
    assert slack.sent("chat.postEphemeral") == []


@HASTY
async def test_an_answer_whose_modal_was_closed_meanwhile_is_told_where_it_was_opened(
    workspace, slack, bot
):
    ready = asyncio.Event()
    bot.before = ready.wait
    await workspace.submit(submitted("1d"), drain=False)
    slack.failing["views.update"] = ["not_found"] * 9
    ready.set()
    await workspace.drain()
    assert slack.sent("chat.postEphemeral")[0]["user"] == "U1"


def until_view(**filled):
    kinds = {"length": "static_select", "until": "datetimepicker", "ceiling": "plain_text_input"}
    blocks = [
        {"type": "input", "block_id": name, "element": {"type": kind, "action_id": name}}
        for name, kind in kinds.items()
    ]
    state = {
        "length": {"type": "static_select", "selected_option": {"value": "1h"}},
        "until": {"type": "datetimepicker", "selected_date_time": filled.get("until")},
        "ceiling": {"type": "plain_text_input", "value": filled.get("ceiling")},
    }
    metadata = Origin("C1", "", "snooze a1").dump()
    values = {name: {name: value} for name, value in state.items()}
    return {
        "callback_id": "trn_form",
        "private_metadata": metadata,
        "blocks": blocks,
        "state": {"values": values},
    }


async def test_an_instant_that_was_picked_is_typed_in_utc(workspace, bot):
    await workspace.submit(until_view(until=1795510800))
    assert bot.asked[-1].line == 'snooze a1 length=1h until="2026-11-24 09:00"'


def test_the_form_of_a_snooze_has_a_picker():
    (form,) = (block for block in snooze_form(starved()).blocks if isinstance(block, Form))
    inputs = {
        block["block_id"]: block["element"]["type"]
        for block in form_view(form, Card("t"), Origin())["blocks"]
    }
    assert inputs["until"] == "datetimepicker"


async def test_what_a_form_is_asked_about_is_asked_in_its_window(workspace, slack, bot):
    go_on = Button("Snooze for 3 days", "snooze a1 3d sure=yes", ButtonStyle.PRIMARY)
    bot.card = Card(
        "Snooze for 3 days? Nothing is muted yet",
        Tone.WARNING,
        (text("It wastes $5."), Buttons((go_on,))),
    )
    _, answer = await workspace.submit(until_view())
    view = json.loads(answer)["view"]
    assert (view["submit"]["text"], Origin.load(view["private_metadata"]).line) == (
        "Snooze for 3 days",
        go_on.line,
    )


def test_a_button_that_reaches_far_asks_before_it_counts():
    far = Button(
        "Drop s1",
        "silences drop s1",
        confirm="People will be notified again of 1 firing alert: starved.",
    )
    (row,) = (
        block
        for block in message(Card("t", blocks=(Buttons((far,)),))).blocks
        if block["type"] == "actions"
    )
    asked = row["elements"][0]["confirm"]
    assert (asked["title"]["text"], asked["text"]["text"], asked["deny"]["text"]) == (
        "Drop s1",
        far.confirm,
        "Leave it",
    )


async def test_a_person_is_picked_from_slacks_own_list_and_becomes_a_word_of_the_line(
    workspace, slack, bot
):
    bot.card = Card(
        "Assign",
        blocks=(
            Form("Assign", "assign a1", (Field("person", "Who looks into it", FieldKind.PERSON),)),
        ),
    )
    await workspace.press("assign a1", "opens:1")
    view = slack.sent("views.update")[0]["view"]
    assert view["blocks"][0]["element"]["type"] == "users_select"
    state = {"person": {"person": {"type": "users_select", "selected_user": "U02BOB"}}}
    await workspace.submit(view | {"state": {"values": state}})
    assert bot.asked[-1].line == "assign a1 person=slack:U02BOB"


@pytest.mark.parametrize(
    ("line", "whole"),
    [
        ("assign a1 slack:U02BOB", "assign a1 slack:T2/U02BOB"),
        ("assign a1 person=slack:U02BOB", "assign a1 person=slack:T2/U02BOB"),
        ("assign a1 slack:T3/U02BOB", "assign a1 slack:T3/U02BOB"),
        ("routes test to=slack:C02FIN", "routes test to=slack:C02FIN"),
    ],
)
def test_whoever_is_mentioned_in_another_workspace_is_a_person_of_it(line, whole):
    assert (with_workspace(line, "T2/"), with_workspace(line, "")) == (whole, line)
