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


SHARED = (text("$142,000"), Buttons((ShareButton("Share", "share cost 7d"),)))


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


@pytest.mark.parametrize("options", [{"secret": "forged"}, {"age": 600}])
async def test_a_forged_or_old_request_is_refused(workspace, bot, options):
    assert (await workspace.event(MENTION, **options))[0] == 401
    assert bot.asked == []


@pytest.mark.parametrize("body", ["{", "[]", "null", "\x00", '"text"'])
async def test_garbage_is_refused_without_a_traceback(workspace, bot, body):
    status, text = await workspace.send(body, "application/json")
    assert 400 <= status < 500
    assert "Traceback" not in text


@pytest.mark.parametrize(
    "fields", [{"value": ""}, {"value": "x", "actions": [{"type": "overflow", "action_id": "old"}]}]
)
async def test_a_button_no_longer_understood_says_so(workspace, slack, bot, fields):
    await workspace.press(**fields)
    assert "no longer works" in slack.sent("response")[0]["text"]
    assert bot.asked == []


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


HASTY = pytest.mark.parametrize("patience_s", [0.05])


async def slowly() -> None:
    await asyncio.sleep(0.3)


@HASTY
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


@HASTY
async def test_a_command_that_takes_long_is_said_to_be_worked_on_to_the_asker_alone(
    workspace, slack, bot
):
    bot.before = slowly
    await workspace.command("cost 7d")
    note, answer = slack.sent("response")
    assert ("Working on it" in note["text"], note["response_type"]) == (True, "ephemeral")
    assert titles(answer) == ["Cost of 7 days"]


@HASTY
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


@HASTY
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
