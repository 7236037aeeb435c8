"""What people do in Slack reaches the bot as a line, and its card comes back to where they are."""

import asyncio
import json
from datetime import timedelta

import pytest

from adapters.chat.slack.forms import Claim
from adapters.chat.slack.listener import PRESSES, Press
from bot.cards.card import Attachment, Buttons, Card, Chart, ChartKind, ShareButton, Tone, text
from tests.slack.conftest import NOW

MENTION = {
    "type": "app_mention",
    "user": "U1",
    "channel": "C1",
    "ts": "7.1",
    "text": "<@U0BOT> cost 7d by team",
}
DIRECT = {
    "type": "message",
    "channel_type": "im",
    "user": "U1",
    "channel": "D1",
    "ts": "8.1",
    "text": "fleet",
}


def titles(body):
    return [block["text"]["text"] for block in body["blocks"] if block["type"] == "header"]


async def test_a_slash_command_is_acknowledged_empty_and_answered_to_the_asker_alone(
    workspace, slack, bot
):
    assert await workspace.command("cost 7d by team") == (200, "")
    (answer,) = slack.sent("response")
    assert answer["response_type"] == "ephemeral"
    assert titles(answer) == ["Cost of 7 days"]
    (request,) = bot.asked
    assert (request.line, request.user.id, request.user.name) == (
        "cost 7d by team",
        "slack:U1",
        "dana",
    )
    assert (request.surface, request.channel) == ("slack", "slack:C1")


SHARED = (text("$142,000"), Buttons((ShareButton("Share", "share cost 7d"),)))


async def test_the_share_button_posts_for_all_and_takes_the_private_answer_away(
    workspace, slack, bot
):
    bot.card = Card("Cost of 7 days", blocks=SHARED, public=True)
    await workspace.press("share cost 7d", container={"type": "message", "is_ephemeral": True})
    shared, removed = slack.sent("response")
    assert shared["response_type"] == "in_channel"
    assert removed == {"delete_original": True}
    assert bot.asked[-1].line == "share cost 7d"


@pytest.mark.parametrize(
    "card", [Card("t", blocks=SHARED), Card("t", Tone.ERROR, SHARED, public=True)]
)
async def test_a_message_all_can_see_is_never_taken_away(workspace, slack, bot, card):
    bot.card = card
    await workspace.press("share cost 7d")
    assert {"delete_original": True} not in slack.sent("response")


async def test_what_all_can_see_has_nothing_to_share(workspace, slack, bot):
    bot.card = Card("Cost of 7 days", blocks=SHARED)
    await workspace.event(MENTION)
    assert "share" not in json.dumps(slack.sent("chat.postMessage"))
    await workspace.command("cost 7d")
    assert "share cost 7d" in json.dumps(slack.sent("response"))


@pytest.mark.parametrize(
    ("typed", "line"),
    [
        ("", "help"),
        ("  cost   7d ", "cost 7d"),
        ("cost where team!=“a&amp;b”", 'cost where team!="a&b"'),
        ("cost —by team", "cost --by team"),
        ("mute <@U2|bob>", "mute slack:U2"),
        (
            "see <https://x.example/a|x.example/a> <https://y.example>",
            "see x.example/a https://y.example",
        ),
    ],
)
async def test_typed_text_becomes_the_line_that_was_meant(workspace, bot, typed, line):
    await workspace.command(typed)
    assert bot.asked[0].line == line


@pytest.mark.parametrize(("thread", "expected"), [({}, "7.1"), ({"thread_ts": "3.3"}, "3.3")])
async def test_a_mention_is_answered_in_its_thread_for_all(workspace, slack, bot, thread, expected):
    await workspace.event(MENTION | thread)
    (answer,) = slack.sent("chat.postMessage")
    assert (answer["channel"], answer["thread_ts"]) == ("C1", expected)
    assert (bot.asked[0].line, bot.asked[0].thread) == ("cost 7d by team", expected)


async def test_a_direct_message_is_answered_in_place(workspace, slack, bot):
    await workspace.event(DIRECT)
    (answer,) = slack.sent("chat.postMessage")
    assert answer["channel"] == "D1"
    assert "thread_ts" not in answer
    assert bot.asked[0].channel == ""


@pytest.mark.parametrize(
    "event",
    [
        DIRECT | {"channel_type": "channel", "channel": "C1"},
        DIRECT | {"bot_id": "B9"},
        DIRECT | {"subtype": "message_changed"},
        {"type": "reaction_added", "user": "U1"},
    ],
)
async def test_what_is_not_said_to_the_bot_is_not_answered(workspace, bot, event):
    assert (await workspace.event(event))[0] == 200
    assert bot.asked == []


async def test_a_retry_of_slack_is_handled_once(workspace, bot):
    await workspace.event(MENTION)
    status, _ = await workspace.event(
        MENTION, headers={"X-Slack-Retry-Num": "1", "X-Slack-Retry-Reason": "http_timeout"}
    )
    assert status == 200
    assert len(bot.asked) == 1


@pytest.mark.parametrize("options", [{"secret": "forged"}, {"age": 600}])
async def test_a_forged_or_old_request_is_refused(workspace, bot, options):
    assert (await workspace.event(MENTION, **options))[0] == 401
    assert bot.asked == []


@pytest.mark.parametrize("body", ["{", "[]", "null", "\x00", '"text"'])
async def test_garbage_is_refused_without_a_traceback(workspace, bot, body):
    status, text = await workspace.send(body, "application/json")
    assert 400 <= status < 500
    assert "Traceback" not in text


async def test_a_button_types_its_line_for_who_pressed(workspace, slack, bot):
    assert (await workspace.press("ack a1"))[0] == 200
    assert (bot.asked[0].line, bot.asked[0].user.name) == ("ack a1", "dana")
    (answer,) = slack.sent("response")
    assert (answer["response_type"], answer["replace_original"]) == ("ephemeral", False)


async def test_a_button_in_a_thread_answers_in_the_thread(workspace, slack):
    await workspace.press("why a1", message={"ts": "6.6", "thread_ts": "5.5"})
    assert slack.sent("response")[0]["thread_ts"] == "5.5"


@pytest.mark.parametrize(
    "fields", [{"value": ""}, {"value": "x", "actions": [{"type": "overflow", "action_id": "old"}]}]
)
async def test_a_button_no_longer_understood_says_so(workspace, slack, bot, fields):
    await workspace.press(**fields)
    assert "no longer works" in slack.sent("response")[0]["text"]
    assert bot.asked == []


async def test_an_expired_response_address_falls_back_to_a_message_only_they_see(workspace, slack):
    await workspace.press("why a1", response_url="http://127.0.0.1:9/gone")
    (answer,) = slack.sent("chat.postEphemeral")
    assert (answer["channel"], answer["user"]) == ("C1", "U1")


@pytest.mark.parametrize("refused", [1, 2])
async def test_a_picture_that_is_not_ready_is_tried_again_then_left_to_its_summary(
    workspace, slack, bot, refused
):
    slack.failing["response"] = ["invalid_blocks"] * refused
    bot.card = Card("Cost", blocks=(Chart(ChartKind.BAR, "Cost", "$", (), summary="It rose."),))
    await workspace.command("cost")
    last = slack.sent("response")[-1]["blocks"][1]["type"]
    assert (len(slack.sent("response")), last) == (
        refused + 1,
        "image" if refused == 1 else "context",
    )


async def test_app_home_shows_the_home_card(workspace, slack, bot):
    await workspace.event({"type": "app_home_opened", "user": "U1", "channel": "D1", "tab": "home"})
    assert bot.asked[0].line == "home"
    view = slack.sent("views.publish")[0]["view"]
    assert view["type"] == "home"


async def test_slack_is_acknowledged_before_the_answer_is_ready(workspace, slack, bot):
    ready = asyncio.Event()
    bot.before = ready.wait
    assert (await workspace.command("cost 90d", drain=False))[0] == 200
    assert slack.sent("response") == []
    ready.set()
    await workspace.drain()
    assert len(slack.sent("response")) == 1


@pytest.mark.parametrize(
    "payload",
    [
        {"type": "block_actions", "actions": []},
        {"type": "block_actions", "actions": [{}], "user": None},
        {
            "type": "block_actions",
            "actions": [{"action_id": "a", "value": {"x": 1}}],
            "view": {"private_metadata": "{"},
        },
        {"type": "view_submission"},
        {"type": "view_submission", "view": {"callback_id": "x", "state": None}},
        {"type": "shortcut", "callback_id": "gone"},
        {"type": "unheard_of"},
        {},
    ],
)
async def test_signed_nonsense_is_no_server_error(workspace, payload):
    status, text = await workspace.interact(payload)
    assert status < 500
    assert "Traceback" not in text


async def slowly() -> None:
    await asyncio.sleep(2.3)


async def test_a_mention_that_takes_long_is_said_to_be_worked_on_and_the_answer_takes_that_place(
    workspace, slack, bot
):
    bot.before = slowly
    await workspace.event(MENTION)
    (note,) = slack.sent("chat.postMessage")
    (answer,) = slack.sent("chat.update")
    assert ("Working on it" in note["text"], note["thread_ts"]) == (True, "7.1")
    assert answer["ts"] == next(
        f"{n + 1}.0001" for n, (method, _) in enumerate(slack.calls) if method == "chat.postMessage"
    )
    assert titles(answer) == ["Cost of 7 days"]


async def test_a_command_that_takes_long_is_said_to_be_worked_on_to_the_asker_alone(
    workspace, slack, bot
):
    bot.before = slowly
    await workspace.command("cost 7d")
    note, answer = slack.sent("response")
    assert ("Working on it" in note["text"], note["response_type"]) == (True, "ephemeral")
    assert titles(answer) == ["Cost of 7 days"]


async def test_a_thread_with_the_bot_shows_its_status_where_the_app_has_one(workspace, slack, bot):
    bot.before = slowly
    await workspace.event(DIRECT | {"thread_ts": "8.0"})
    (status,) = slack.sent("assistant.threads.setStatus")
    assert (status["channel_id"], status["thread_ts"], status["status"]) == (
        "D1",
        "8.0",
        "is working on it …",
    )
    assert [titles(body) for body in slack.sent("chat.postMessage")] == [["Cost of 7 days"]]


async def test_an_app_without_a_status_is_asked_once_and_says_it_by_a_message(
    workspace, slack, bot
):
    slack.failing["assistant.threads.setStatus"] = ["missing_scope"]
    bot.before = slowly
    await workspace.event(DIRECT | {"thread_ts": "8.0"})
    bot.before = lambda: asyncio.sleep(0)
    await workspace.event(DIRECT | {"thread_ts": "8.0", "ts": "8.2"}, event_id="Ev2")
    assert len(slack.sent("assistant.threads.setStatus")) == 1
    assert len(slack.sent("chat.update")) == 1


FILE = Card(
    "The table", blocks=(Attachment("trnbot-cost.csv", "team,net_usd\r\nvision,5\r\n", "cost 7d"),)
)


async def test_a_file_goes_into_the_thread_where_all_read_the_answer(workspace, slack, bot):
    bot.card = FILE
    await workspace.event(MENTION)
    (given,) = slack.sent("files.completeUploadExternal")
    assert (given["channel_id"], given["thread_ts"]) == ("C1", "7.1")
    assert "trnbot-cost.csv" in json.dumps(slack.sent("chat.postMessage"))


async def test_a_file_that_one_person_asked_for_goes_to_their_own_messages(workspace, slack, bot):
    bot.card = FILE
    await workspace.command("csv cost 7d")
    (opened,) = slack.sent("conversations.open")
    (given,) = slack.sent("files.completeUploadExternal")
    assert opened["users"] == "U1"
    assert given["channel_id"].startswith("D")
    assert "in your messages with this app" in json.dumps(slack.sent("response"))

    # Their own messages know nothing of the thread in which they pressed.
    await workspace.press("csv cost 7d", message={"ts": "6.6", "thread_ts": "5.5"})
    given = slack.sent("files.completeUploadExternal")[-1]
    assert (given["channel_id"][0], given.get("thread_ts")) == ("D", None)


async def test_a_file_that_slack_does_not_take_says_so(workspace, slack, bot):
    bot.card = FILE
    slack.failing["files.getUploadURLExternal"] = ["missing_scope"] * 4
    await workspace.command("csv cost 7d")
    assert "Slack did not take the file" in json.dumps(slack.sent("response"))


async def test_what_was_pressed_into_a_kill_is_answered_alone_and_once(slack, bot, surface):
    """The process that took it ended between its acknowledgement and its answer."""
    store, claim = surface._ports.documents, Claim("U1", "dana", "C1", team="T1")
    pressed = NOW - timedelta(minutes=5)
    PRESSES.put(store, "t9", Press("cost 7d", pressed, "", claim))
    for _ in range(2):
        looking = asyncio.create_task(surface._listener.answer_left())
        await asyncio.sleep(0.1)
        looking.cancel()
        await surface._listener.tasks.drain()
    (body,) = slack.sent("chat.postEphemeral")
    assert (body["channel"], body["user"]) == ("C1", "U1")
    assert [request.at for request in bot.asked] == [pressed]
    assert PRESSES.keys(store, 9) == []


async def test_a_press_that_was_answered_is_kept_no_more(workspace, surface, slack):
    await workspace.press("cost 7d")
    assert len(slack.sent("response")) == 1
    assert PRESSES.keys(surface._ports.documents, 9) == []
