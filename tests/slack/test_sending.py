"""Messages are posted, replaced and found again; what Slack refuses becomes one sentence."""

import asyncio
import contextlib
import json
from datetime import UTC, datetime, timedelta

import pytest
from aiohttp import web

from adapters.chat.config import SlackConfig
from adapters.chat.slack.client import Pace
from adapters.chat.slack.surface import SlackSurface
from bot.cards.card import Card, Chart, ChartKind, Series, Tone, text
from bot.errors import Limited, Unanswered, Unavailable, WrongInput
from bot.model.notification import Delays
from bot.model.window import Window
from tests.slack.conftest import ports

CHART = Chart(ChartKind.LINE, "Utilization", "%", (), summary="It fell to 20 %.")
ALERT = Card("FIRING", Tone.CRITICAL, (text("Wasting $1,083 an hour"), CHART))
OVER = Card("OVER after 1 h 10 min", Tone.OVER)


async def test_a_post_carries_its_key_twice_and_unfurls_nothing(surface, slack):
    ts = await surface.post("C1", OVER, "incident-1")
    (body,) = slack.sent("chat.postMessage")
    assert ts == "1.0001"
    assert body["metadata"] == {
        "event_type": "trnbot_notice",
        "event_payload": {"key": "incident-1"},
    }
    assert body["blocks"][0]["block_id"].startswith("trnbot:")
    assert (body["unfurl_links"], body["unfurl_media"]) == (False, False)


@pytest.mark.parametrize("kept", ["metadata", "blocks"])
async def test_a_post_is_found_by_either_of_its_two_keys(surface, slack, kept):
    await surface.post("C1", OVER, "incident-1")
    (body,) = slack.sent("chat.postMessage")
    slack.history = [{"ts": "2.2", "text": "other"}, {"ts": "1.1", kept: body[kept]}]
    assert (await surface.posted("C1")).get("incident-1", "") == "1.1"
    assert (await surface.posted("C1")).get("incident-2", "") == ""


async def test_what_may_not_be_looked_at_is_not_found(surface, slack):
    slack.failing["conversations.history"] = ["missing_scope"]
    assert (await surface.posted("C1")).get("incident-1", "") == ""


async def test_an_edit_replaces_the_message(surface, slack):
    assert await surface.edit("C1", "1.1", OVER, "k") == "1.1"
    assert slack.sent("chat.update")[0]["ts"] == "1.1"


@pytest.mark.parametrize("code", ["message_not_found", "cant_update_message"])
async def test_a_deleted_message_is_posted_fresh(surface, slack, code):
    slack.failing["chat.update"] = [code]
    assert await surface.edit("C1", "1.1", OVER, "k") == "3.0001"
    assert slack.sent("chat.postMessage")[0]["metadata"]["event_payload"] == {"key": "k"}


async def test_a_fresh_post_whose_answer_was_lost_is_found_and_not_repeated(surface, slack):
    await surface.post("C1", ALERT, "k")
    slack.history = [{"ts": "2.2", "metadata": slack.sent("chat.postMessage")[0]["metadata"]}]
    slack.failing["chat.update"] = ["message_not_found"]
    assert await surface.edit("C1", "1.1", OVER, "k") == "2.2"
    assert len(slack.sent("chat.postMessage")) == 1

    # The message that is gone is no other one, however long the history still shows it.
    slack.history[0]["ts"] = "1.1"
    slack.failing["chat.update"] = ["message_not_found"]
    await surface.edit("C1", "1.1", OVER, "k")
    assert len(slack.sent("chat.postMessage")) == 2


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ("<html>", "text/html"),
        ("upstream connect error", "text/plain"),
        ("{", "application/json"),
        ("[1]", "application/json"),
    ],
)
@pytest.mark.parametrize("status", [200, 500, 503])
async def test_an_answer_that_is_none_of_slacks_may_have_been_heard(
    surface, slack, status, body, kind
):
    slack.pages = [web.Response(text=body, content_type=kind, status=status)]
    with pytest.raises(Unanswered, match="Slack"):
        await surface.post("C1", OVER, "k")
    assert await surface.post("C1", OVER, "k")


async def test_a_reply_goes_into_the_thread(surface, slack):
    await surface.reply("C1", "1.1", OVER, "k1")
    assert slack.sent("chat.postMessage")[0]["thread_ts"] == "1.1"


@pytest.mark.parametrize(
    ("code", "advice"),
    [
        ("channel_not_found", "invite the bot"),
        ("not_in_channel", "/invite"),
        ("token_revoked", "reinstall the app"),
        ("missing_scope", "scope 'chat:write'"),
        ("strange_new_error", "refused with 'strange_new_error'"),
        ("<b>xoxb-leak", "refused with 'unknown_error'"),
    ],
)
async def test_a_refusal_says_what_to_do(surface, slack, code, advice):
    slack.failing["chat.postMessage"] = [code]
    with pytest.raises(Unavailable, match=advice) as caught:
        await surface.post("C1", OVER, "k")
    assert "xoxb" not in str(caught.value)


@pytest.mark.parametrize("doing", ["post", "edit", "reply", "posted"])
async def test_a_rate_limit_is_given_back_at_once_with_its_seconds(surface, slack, doing):
    method = {"edit": "chat.update", "posted": "conversations.history"}.get(
        doing, "chat.postMessage"
    )
    slack.failing[method] = ["429 30"]
    asked = {
        "post": lambda: surface.post("C1", ALERT, "k"),
        "edit": lambda: surface.edit("C1", "1.1", ALERT, "k"),
        "reply": lambda: surface.reply("C1", "1.1", ALERT, "k"),
        "posted": lambda: surface.posted("C1"),
    }[doing]
    began = asyncio.get_running_loop().time()
    for _ in range(2):
        with pytest.raises(Limited) as caught:
            await asked()
        assert 29 < caught.value.seconds <= 30
    assert asyncio.get_running_loop().time() - began < 5
    assert len(slack.sent(method)) == 1


async def test_an_answer_waits_for_a_brief_limit_and_for_no_long_one(slack, workspace):
    slack.failing = {"response": ["400"], "chat.postEphemeral": ["429 1", "429 1"]}
    await workspace.command("cost")
    assert len(slack.sent("chat.postEphemeral")) == 3
    slack.failing = {"response": ["400"], "chat.postEphemeral": ["429 30"]}
    await workspace.command("cost")
    assert len(slack.sent("chat.postEphemeral")) == 4


async def test_a_limit_that_two_channels_meet_is_the_workspaces(surface, slack):
    slack.failing["chat.postMessage"] = ["429 30", "429 30"]
    for channel in ("C1", "C2", "C3"):
        with pytest.raises(Limited):
            await surface.post(channel, OVER, "k")
    assert len(slack.sent("chat.postMessage")) == 2, "the third channel was not asked any more"
    assert await surface.edit("C1", "1.1", OVER, "k"), "another method is open"


async def test_a_line_is_found_in_its_thread_by_its_key(surface, slack):
    await surface.reply("C1", "1.1", OVER, "n1-2-over")
    (body,) = slack.sent("chat.postMessage")
    slack.replies = [
        {"ts": "1.1", "text": "the message"},
        {"ts": "2.2", "metadata": body["metadata"]},
    ]
    assert (await surface.posted("C1", "1.1")).get("n1-2-over", "") == "2.2"
    assert (await surface.posted("C1", "1.1")).get("n1-3-over", "") == ""
    assert slack.sent("conversations.replies")[0]["ts"] == "1.1"
    slack.failing["conversations.replies"] = ["internal_error"]
    with pytest.raises(Unanswered):
        await surface.posted("C1", "1.1")


async def test_what_slacks_limits_hold_up_is_counted_wherever_it_is_said(surface, slack, workspace):
    slack.failing = {"chat.postMessage": ["429 1"], "chat.update": ["429 1"], "response": ["429 1"]}
    assert (surface.delays.seconds, surface.delays.waiting) == (0.0, 0)
    told = []
    for said in (
        surface.post("C1", OVER, "k"),
        surface.edit("C1", "1.1", OVER, "k"),
        workspace.command("cost"),
    ):
        before = surface.delays.seconds
        with contextlib.suppress(Limited):
            await said
        told.append(surface.delays.seconds > before)
    assert (told, surface.delays.waiting) == ([True] * 3, 0)


async def test_a_channel_that_slack_closes_for_minutes_holds_up_no_other_and_is_left_alone_until_then(
    surface, slack
):
    slack.failing["chat.postMessage"] = ["429 120"]
    for _ in range(3):
        with pytest.raises(Unavailable, match="limits how fast the bot may post in C1"):
            await surface.post("C1", OVER, "k")
    assert len(slack.sent("chat.postMessage")) == 1
    with pytest.raises(Unavailable, match=r"retried in 1[12]\d s"):
        await surface.reply("C1", "1.1", OVER, "k1")
    assert await surface.post("C2", OVER, "k")


async def test_messages_that_wait_for_their_turn_are_counted():
    delays = Delays()
    pace, counts = Pace(0.01, delays), []

    async def send():
        async with pace.turn("C1", "chat.postMessage"):
            await asyncio.sleep(0)
            counts.append(delays.waiting)

    await asyncio.gather(*(send() for _ in range(3)))
    assert (counts, delays.waiting) == ([2, 1, 0], 0)
    assert delays.seconds > 0


async def test_slack_out_of_reach_leaks_no_address_and_no_token(slack, bot, caplog):
    there = SlackConfig(
        bot_token="xoxb-secret-token", signing_secret="s", api_url="http://127.0.0.1:9/xoxb-in-url/"
    )
    made = SlackSurface(there, ports(bot, None))
    caplog.set_level("DEBUG")
    with pytest.raises(Unavailable, match="cannot be reached") as caught:
        await made.posted("C1")
    assert "xoxb" not in f"{caught.value}{caplog.text}"


async def test_a_response_address_never_reaches_the_log(workspace, caplog):
    caplog.set_level("DEBUG")
    await workspace.command(
        "cost", response_url="http://127.0.0.1:9/_hooks/response/T1/secret-ticket"
    )
    assert "secret-ticket" not in caplog.text


async def test_a_chart_is_uploaded_once_and_shown_until_it_changes(surface, slack):
    await surface.post("C1", ALERT, "k")
    first = slack.sent("chat.postMessage")[0]["blocks"][-1]["slack_file"]["id"]
    assert slack.sent("upload")
    await surface.edit("C1", "1.1", ALERT, "k")
    assert slack.sent("chat.update")[0]["blocks"][-1]["slack_file"]["id"] == first
    changed = Card(
        "FIRING",
        Tone.CRITICAL,
        (Chart(ChartKind.LINE, "Utilization", "%", (), summary="Lower still."),),
    )
    await surface.edit("C1", "1.1", changed, "k")
    assert slack.sent("chat.update")[1]["blocks"][-1]["slack_file"]["id"] != first


async def test_a_failed_upload_leaves_the_summary(surface, slack):
    slack.failing["files.getUploadURLExternal"] = ["missing_scope"]
    await surface.post("C1", ALERT, "k")
    assert (
        "It fell to 20 %." in slack.sent("chat.postMessage")[0]["blocks"][-1]["elements"][0]["text"]
    )


async def test_while_slack_takes_no_more_pictures_none_is_drawn(surface, slack):
    slack.failing["files.getUploadURLExternal"] = ["429 30"]
    for key in ("a", "b"):
        await surface.post("C1", ALERT, key)
    assert len(slack.sent("files.getUploadURLExternal")) == 1
    assert "slack_file" not in str(slack.sent("chat.postMessage"))


async def test_a_picture_slack_will_not_show_goes_into_the_thread(surface, slack):
    slack.failing["chat.postMessage"] = ["invalid_blocks", "invalid_blocks"]
    ts = await surface.post("C1", ALERT, "k")
    assert "slack_file" not in str(slack.sent("chat.postMessage")[-1]["blocks"])
    shared = slack.sent("files.completeUploadExternal")[-1]
    assert (shared["channel_id"], shared["thread_ts"]) == ("C1", ts)


async def test_messages_of_one_channel_keep_their_distance_and_order():
    pace, loop, times = Pace(0.05), asyncio.get_running_loop(), []

    async def send(n):
        async with pace.turn("C1", "chat.postMessage"):
            times.append((n, loop.time()))

    await asyncio.gather(*(send(n) for n in range(3)))
    assert [n for n, _ in times] == [0, 1, 2]
    assert times[2][1] - times[0][1] >= 0.099


async def test_an_edit_overtaken_by_a_newer_one_is_not_sent(surface, slack):
    newer = Card("FIRING 30 min", Tone.CRITICAL)
    edited = await asyncio.gather(
        *(surface.edit("C1", "1.1", card, "k") for card in (OVER, ALERT, newer))
    )
    assert set(edited) == {"1.1"}, "the message stays where it is, for those that were not sent too"
    assert [body["blocks"][0].get("text", {}).get("text") for body in slack.sent("chat.update")][
        -1
    ] == "🔴 FIRING 30 min"
    assert len(slack.sent("chat.update")) < 3


@pytest.mark.parametrize(
    ("tokens", "said"),
    [
        ({"bot_token": ""}, "SLACK_BOT_TOKEN"),
        ({"bot_token": "xapp-1"}, "SLACK_BOT_TOKEN"),
        ({"app_token": "xoxb-1"}, "SLACK_APP_TOKEN"),
        ({"signing_secret": ""}, "SLACK_SIGNING_SECRET"),
    ],
)
def test_missing_secrets_are_refused_by_name(tokens, said):
    known = {"bot_token": "xoxb-1", "app_token": "", "signing_secret": "s"}
    with pytest.raises(WrongInput, match=said):
        SlackConfig(**(known | tokens))


async def test_socket_mode_with_a_wrong_app_token_says_so_at_the_start(slack):
    made = SlackSurface(
        SlackConfig(bot_token="xoxb-1", app_token="xapp-1", api_url=slack.url), ports(None, None)
    )
    slack.failing["apps.connections.open"] = ["invalid_auth"]
    assert made.routes() == []
    with pytest.raises(Unavailable, match="does not accept the token"):
        await made.start()
    await made.stop()


START = datetime(2026, 11, 20, 6, tzinfo=UTC)
STEP = timedelta(minutes=5)


def firing(hours, newest=20.0, *, begun=START, nodes=64):
    """Return an alert's message with its line chart, so many hours after its onset; `newest` is the level of its last hour."""
    length = timedelta(hours=max(6, hours + 1))
    times = [
        START + timedelta(hours=hours) - length + STEP * (i + 1) for i in range(length // STEP)
    ]
    values = [90.0 if at < START else 20.0 for at in times]
    values[-12:] = [newest] * 12
    line = Series("NeuronCore utilization", tuple(values))
    title, shaded = f"NeuronCore utilization, mean of {nodes} nodes", Window(begun, times[-1])
    chart = Chart(
        ChartKind.LINE,
        title,
        "%",
        (line,),
        tuple(times),
        band=(85, 95),
        shaded=shaded,
        summary=f"{hours} h",
    )
    return Card("FIRING", Tone.CRITICAL, (text(f"{hours * 1083} so far"), chart))


def pictures(slack):
    """Return the files that were uploaded, and those that were deleted."""
    uploaded = [
        json.loads(body["files"])[0]["id"] for body in slack.sent("files.completeUploadExternal")
    ]
    return uploaded, [body["file"] for body in slack.sent("files.delete")]


def shown(slack):
    blocks = slack.sent("chat.postMessage", "chat.update")[-1]["blocks"]
    return next((block["slack_file"]["id"] for block in blocks if block["type"] == "image"), "")


async def test_hourly_edits_use_the_picture_again_and_leave_no_file_behind(surface, slack):
    ts = await surface.post("C1", firing(1), "k")
    for hour in range(2, 49):
        await surface.edit("C1", ts, firing(hour), "k")
        uploaded, deleted = pictures(slack)
        assert shown(slack) == uploaded[-1]
        assert deleted == uploaded[:-1]
    assert len(uploaded) <= 15, "once an hour would be 48"
    await surface.edit("C1", ts, Card("OVER after 2 d", Tone.OVER), "k")
    uploaded, deleted = pictures(slack)
    assert (deleted, shown(slack)) == (uploaded, "")


@pytest.mark.parametrize(
    ("card", "again"),
    [
        (firing(25), False),
        (firing(25, 24.0), False),
        (firing(25, 60.0), True),
        (firing(25, 0.0), True),
        (firing(25, nodes=32), True),
        (firing(25, begun=START + timedelta(hours=1)), True),
        (firing(40), True),
    ],
    ids=[
        "nothing new",
        "the same level",
        "recovering",
        "dead",
        "fewer nodes",
        "another onset",
        "long after",
    ],
)
async def test_a_picture_is_uploaded_again_when_what_it_shows_changed(surface, slack, card, again):
    ts = await surface.post("C1", firing(24), "k")
    await surface.edit("C1", ts, card, "k")
    assert len(pictures(slack)[0]) == 1 + again


async def test_an_edit_that_slack_refuses_keeps_both_pictures_until_one_is_taken(surface, slack):
    ts = await surface.post("C1", firing(24), "k")
    slack.failing["chat.update"] = ["msg_too_long"]
    with pytest.raises(Unavailable):
        await surface.edit("C1", ts, firing(25, 60.0), "k")
    assert len(pictures(slack)[0]) == 2
    assert pictures(slack)[1] == []
    await surface.edit("C1", ts, firing(26, 60.0), "k")
    uploaded, deleted = pictures(slack)
    assert (len(uploaded), deleted, shown(slack)) == (2, uploaded[:1], uploaded[1])


async def test_a_picture_that_could_not_be_deleted_is_deleted_with_the_next_edit(surface, slack):
    ts = await surface.post("C1", firing(24), "k")
    slack.failing["files.delete"] = ["internal_error"]
    await surface.edit("C1", ts, firing(25, 60.0), "k")
    await surface.edit("C1", ts, firing(25, 60.0), "k")
    assert pictures(slack)[1] == [pictures(slack)[0][0]] * 2


async def test_a_picture_that_slack_will_not_show_is_deleted_and_one_stands_in_the_thread(
    surface, slack
):
    slack.failing["chat.postMessage"] = ["invalid_blocks", "invalid_blocks"]
    await surface.post("C1", ALERT, "k")
    uploaded, deleted = pictures(slack)
    assert (len(uploaded), deleted) == (2, uploaded[:1])


async def test_an_answer_that_slack_refuses_leaves_no_picture(workspace, slack, bot):
    bot.card = firing(24)
    slack.failing["chat.postMessage"] = ["channel_not_found"]
    await workspace.event(
        {
            "type": "app_mention",
            "user": "U1",
            "channel": "C1",
            "ts": "5.5",
            "text": "<@U0BOT> alert a1",
        }
    )
    uploaded, deleted = pictures(slack)
    assert (len(uploaded), deleted) == (1, uploaded)
