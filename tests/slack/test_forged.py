"""Two hundred requests that Slack never made, and many that it made once: the bot does nothing for any of them."""

import hashlib
import hmac
import json
import time
from urllib.parse import urlencode

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from adapters.chat.slack.auth import REDIRECT_PATH, Installation
from adapters.chat.slack.surface import SlackSurface
from tests.guarded import guarded, later
from tests.slack.conftest import SECRET, config, ports

FORM, JSON = "application/x-www-form-urlencoded", "application/json"
CLIENT_SECRET = "hush-hush"


@pytest.fixture
async def door(slack):
    """Yield a client of the surface, with a whole bot behind it."""
    behind = await guarded("slack:U1")
    app = {
        "client_id": "1.2",
        "client_secret": CLIENT_SECRET,
        "workspaces": ("T1",),
        "public_url": "http://trnbot.example",
    }
    surface = SlackSurface(config(slack, **app), ports(behind.answer, behind.door, later))
    await surface._installs.keep(installation())
    app = web.Application()
    app.add_routes(surface.routes())
    async with TestClient(TestServer(app)) as client:
        client.behind, client.drain = behind, surface.stop
        yield client


def installation():
    return Installation("T1", "Trainium", "xoxb-secret-token", "U0BOT", "U1", later(), ())


def command(line):
    body = {
        "command": "/trn",
        "text": line,
        "team_id": "T1",
        "user_id": "U1",
        "channel_id": "C1",
        "trigger_id": f"t {line}",
    }
    return urlencode(body), FORM


def pressed(line):
    where = {
        "channel": {"id": "C1"},
        "message": {"ts": "5.5"},
        "container": {"type": "message", "message_ts": "5.5"},
    }
    who = {
        "team": {"id": "T1"},
        "user": {"id": "U1", "username": "dana"},
        "trigger_id": f"p {line}",
    }
    action = {
        "type": "button",
        "action_id": "line:0",
        "block_id": "b",
        "value": line,
        "action_ts": "1.1",
    }
    return urlencode(
        {"payload": json.dumps({"type": "block_actions", "actions": [action]} | where | who)}
    ), FORM


def submitted(line):
    view = {
        "id": "V1",
        "type": "modal",
        "callback_id": "trn_ask",
        "private_metadata": json.dumps({"channel": "C1"}),
    }
    view |= {
        "blocks": [],
        "state": {"values": {"line": {"line": {"type": "plain_text_input", "value": line}}}},
    }
    who = {
        "team": {"id": "T1"},
        "user": {"id": "U1", "username": "dana"},
        "trigger_id": f"s {line}",
    }
    return urlencode({"payload": json.dumps({"type": "view_submission", "view": view} | who)}), FORM


def mentioned(line):
    event = {
        "type": "app_mention",
        "user": "U1",
        "channel": "C1",
        "ts": line,
        "text": f"<@U0BOT> {line}",
    }
    body = {
        "type": "event_callback",
        "team_id": "T1",
        "api_app_id": "A1",
        "event_id": f"e {line}",
        "event": event,
    }
    return json.dumps(body), JSON


BODIES = (command, pressed, submitted, mentioned)


def signed(body, *, secret=SECRET, age_s=0, version="v0"):
    stamp = str(int(time.time()) - age_s)
    digest = hmac.new(secret.encode(), f"v0:{stamp}:{body}".encode(), hashlib.sha256).hexdigest()
    return {"X-Slack-Signature": f"{version}={digest}", "X-Slack-Request-Timestamp": stamp}


def without(headers, name):
    return {key: value for key, value in headers.items() if key != name}


FORGERIES = {
    "unsigned": lambda body: {},
    "without a signature": lambda body: without(signed(body), "X-Slack-Signature"),
    "without a time": lambda body: without(signed(body), "X-Slack-Request-Timestamp"),
    "by another secret": lambda body: signed(body, secret="another"),
    "by no secret": lambda body: signed(body, secret=""),
    "of another body": lambda body: signed(f"{body}&"),
    "expired": lambda body: signed(body, age_s=301 + 5),
    "of the future": lambda body: signed(body, age_s=-3600),
    "with its time moved": lambda body: (
        signed(body, age_s=900) | {"X-Slack-Request-Timestamp": str(int(time.time()))}
    ),
    "of another version": lambda body: signed(body, version="v1"),
    "with half a signature": lambda body: {
        **signed(body),
        "X-Slack-Signature": signed(body)["X-Slack-Signature"][:30],
    },
    "with an empty signature": lambda body: {**signed(body), "X-Slack-Signature": ""},
    "at no time at all": lambda body: {**signed(body), "X-Slack-Request-Timestamp": "yesterday"},
    "said to be a retry": lambda body: {**signed(body, secret="another"), "X-Slack-Retry-Num": "1"},
}


@pytest.mark.parametrize("forgery", FORGERIES)
async def test_nothing_is_done_for_a_request_that_slack_did_not_sign(door, forgery, caplog):
    caplog.set_level("DEBUG")
    before = door.behind.state()
    for line in door.behind.lines():
        for body, kind in (make(line) for make in BODIES):
            headers = FORGERIES[forgery](body) | {"Content-Type": kind}
            answer = await door.post("/slack/events", data=body.encode(), headers=headers)
            assert answer.status in (400, 401, 403), await answer.text()
    await door.drain()
    assert (door.behind.asked, door.behind.state()) == ([], before)
    assert SECRET not in caplog.text


@pytest.mark.parametrize("make", BODIES)
async def test_what_slack_signed_once_is_done_once_however_often_it_comes(door, make):
    for line in door.behind.lines()[:3]:
        body, kind = make(line)
        headers = signed(body) | {"Content-Type": kind}
        after = ""
        for _ in range(20):
            assert (
                await door.post("/slack/events", data=body.encode(), headers=headers)
            ).status == 200
            await door.drain()
            after = after or door.behind.state()
            assert door.behind.state() == after
    assert len(door.behind.asked) == 3
    assert door.behind.wrong == []


def state(*, secret=CLIENT_SECRET, lasts_s=600, nonce="n0"):
    made = f"{nonce}.{int(time.time()) + lasts_s}"
    return f"{made}.{hmac.digest(secret.encode(), made.encode(), 'sha256').hex()}"


STATES = {
    "none": lambda i: ("", ""),
    "of another browser": lambda i: (state(nonce=f"n{i}"), state(nonce="mine")),
    "without a cookie": lambda i: (state(nonce=f"n{i}"), ""),
    "by another secret": lambda i: (state(secret=f"other{i}"),) * 2,
    "expired": lambda i: (state(lasts_s=-1 - i, nonce=f"n{i}"),) * 2,
    "of no shape": lambda i: (("x" * i + "." * (i % 4)),) * 2,
    "cut short": lambda i: (state(nonce=f"n{i}")[: -1 - i],) * 2,
    "with its end moved": lambda i: (state().replace(".", f".{i}", 1),) * 2,
}


@pytest.mark.parametrize("kind", STATES)
async def test_no_installation_comes_of_a_state_that_was_not_given(door, slack, kind, caplog):
    caplog.set_level("DEBUG")
    slack.granted = {"code": {"access_token": "xoxb-thief", "team": {"id": "T1", "name": "Thief"}}}
    before = door.behind.state()
    for i in range(25):
        shown, kept = STATES[kind](i)
        headers = {"Cookie": f"trnbot_slack_state={kept}"} if kept else {}
        answer = await door.get(
            REDIRECT_PATH, params={"state": shown, "code": "code"}, headers=headers
        )
        assert answer.status == 400
    assert (door.behind.state(), slack.sent("oauth.v2.access")) == (before, [])
    assert CLIENT_SECRET not in caplog.text


async def test_a_used_state_is_refused_two_hundred_times(door, slack):
    slack.granted = {
        "code": {"access_token": "xoxb-secret-token", "team": {"id": "T1", "name": "Trainium"}}
    }
    given = state(nonce="once")
    asked = {
        "params": {"state": given, "code": "code"},
        "headers": {"Cookie": f"trnbot_slack_state={given}"},
    }
    assert (await door.get(REDIRECT_PATH, **asked)).status == 200
    before = door.behind.state()
    for _ in range(200):
        assert (await door.get(REDIRECT_PATH, **asked)).status == 400
    assert (door.behind.state(), len(slack.sent("oauth.v2.access"))) == (before, 1)
