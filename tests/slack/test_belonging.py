"""Only members of the organization are served, by whatever kind of event; in a channel that others read, they alone read the answer."""

import json
import re

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from adapters.chat.slack.auth import Installation
from adapters.chat.slack.forms import Requester, parse_author, parse_presser
from adapters.chat.slack.surface import SlackSurface
from bot.cards.card import Card, text
from bot.model.request import Belonging, Standing
from tests.guarded import guarded, later
from tests.slack.conftest import Workspace, config, ports

ASKED = "cost 7d by team"
EVERY_METHOD = (
    "response",
    "chat.postMessage",
    "chat.postEphemeral",
    "chat.update",
    "views.open",
    "views.update",
    "views.publish",
)
FILE = {"subtype": "file_share", "files": [{"id": "F1"}]}


ONE_TOKEN, OAUTH = "one token", "installed by OAuth"


@pytest.fixture(params=[ONE_TOKEN, OAUTH])
async def door(request, slack):
    """Yield Slack before a surface with a whole bot behind it."""
    behind = await guarded("slack:U1")
    oauth = {
        "client_id": "1.2",
        "client_secret": "hush",
        "workspaces": ("T1",),
        "public_url": "http://trnbot.example",
    }
    tokens = oauth if request.param == OAUTH else {"bot_token": "xoxb-T1"}
    surface = SlackSurface(config(slack, **tokens), ports(behind.answer, behind.door, later))
    if surface._installs:
        await surface._installs.keep(
            Installation("T1", "Ours", "xoxb-T1", "U0BOT", "U1", later(), ())
        )
    app = web.Application()
    app.add_routes(surface.routes())
    async with TestClient(TestServer(app)) as client:
        space = Workspace(client, surface, slack)
        space.behind, space.slack, space.surface = behind, slack, surface
        yield space
    await surface.stop()


def event(**fields):
    """Send an event of the person, in the channel or in the chat with the bot."""

    async def sent(space, line, user, **outer):
        mention = {
            "user": user,
            "channel": "C1",
            "ts": f"{user}.{line[:4]}",
            "text": f"<@U0BOT> {line}",
        }
        direct = {"channel": "D1", "text": line} if fields.get("channel_type") == "im" else {}
        claimed = {"user_team": outer.pop("claims")} if "claims" in outer else {}
        body = {
            "type": "event_callback",
            "team_id": "T1",
            "api_app_id": "A1",
            "event_id": f"Ev{user}{line[:4]}",
        }
        body |= {
            "authorizations": [{"team_id": "T1"}],
            "event": mention | direct | fields | claimed,
        } | outer
        return await space.send(json.dumps(body), "application/json")

    return sent


def interaction(**fields):
    """Send what a person does with a button, a modal or a shortcut."""

    async def sent(space, line, user, claims="", **_):
        filled = json.loads(json.dumps(fields).replace("LINE", line.replace('"', "'")))
        who = {"id": user, "username": "dana"} | ({"team_id": claims} if claims else {})
        return await space.interact({"user": who, "response_url": ""} | filled)

    return sent


def pressed(action_id="line:0", **where):
    action = {
        "type": "button",
        "action_id": action_id,
        "block_id": "b",
        "value": "LINE",
        "action_ts": "1.1",
    }
    in_channel = {
        "channel": {"id": "C1"},
        "message": {"ts": "5.5"},
        "container": {"type": "message", "message_ts": "5.5"},
    }
    return interaction(**{"type": "block_actions", "actions": [action]} | in_channel | where)


def submitted(callback, line="LINE"):
    metadata = json.dumps({"channel": "C1", "thread": "5.5", "line": line}).replace('"', '\\"')
    asked = (
        {"values": {"line": {"line": {"type": "plain_text_input", "value": "LINE"}}}}
        if callback == "trn_ask"
        else {}
    )
    view = {
        "id": "V1",
        "type": "modal",
        "callback_id": callback,
        "state": asked,
        "blocks": [],
        "app_installed_team_id": "T1",
    }
    return interaction(
        type="view_submission", view=view | {"private_metadata": json.loads(f'"{metadata}"')}
    )


def command(**fields):
    """Send a slash command."""

    async def sent(space, line, user, claims="T1", **_):
        return await space.command(line, user_id=user, team_id=claims, **fields)

    return sent


NOWHERE = {"channel": None, "message": None}
ORIGIN = json.dumps({"channel": "C1", "thread": "", "line": ""})
SERVED = {
    "a slash command": command(response_url=""),
    "a slash command with a response address": command(),
    "a mention": event(type="app_mention"),
    "a mention in a thread": event(type="app_mention", thread_ts="3.3"),
    "a mention with a file": event(type="app_mention", **FILE),
    "a direct message": event(type="message", channel_type="im"),
    "a direct message with a file": event(type="message", channel_type="im", **FILE),
    "a button": pressed(),
    "a button in a thread": pressed(message={"ts": "6.6", "thread_ts": "5.5"}),
    "a button that opens a modal": pressed("opens:1"),
    "a button of a private answer": pressed(container={"type": "message", "is_ephemeral": True}),
    "a button in App Home": pressed(view={"type": "home"}, container={"type": "view"}, **NOWHERE),
    "a button in a modal": pressed(
        view={"type": "modal", "id": "V1", "private_metadata": ORIGIN}, container={"type": "view"}
    ),
    "a button of the first kind": pressed(
        type="interactive_message",
        callback_id="x",
        actions=[{"name": "a", "type": "button", "value": "LINE"}],
    ),
    "a form": submitted("trn_form"),
    "a typed line in a modal": submitted("trn_ask"),
    "the main button of a modal": submitted("trn_press"),
    "App Home": event(type="app_home_opened", tab="home"),
}
SHORTCUTS = {
    "a shortcut": interaction(type="shortcut", callback_id="trn_ask_anywhere"),
    "a shortcut on a message": interaction(
        type="message_action",
        callback_id="trn_ask",
        channel={"id": "C1"},
        message={"ts": "5.5", "text": "LINE"},
    ),
}
NEVER = {
    "a message in a channel": event(type="message", channel_type="channel"),
    "a message in a group chat": event(type="message", channel_type="mpim", channel="G1"),
    "an edited message": event(type="message", channel_type="im", subtype="message_changed"),
    "a mention by a bot": event(type="app_mention", bot_id="B9"),
    "a link": event(
        type="link_shared", links=[{"domain": "x.example", "url": "https://x.example"}]
    ),
    "a reaction": event(
        type="reaction_added", reaction="eyes", item={"channel": "C1", "ts": "1.1"}
    ),
    "a file": event(type="file_shared", file_id="F1"),
    "a new member of a channel": event(type="member_joined_channel"),
    "a thread with an assistant": event(
        type="assistant_thread_started", assistant_thread={"user_id": "U1", "channel_id": "D1"}
    ),
    "a function": event(type="function_executed", function={"callback_id": "LINE"}, inputs={}),
    "another tab of App Home": event(type="app_home_opened", tab="messages"),
    "a menu that asks for options": interaction(
        type="block_suggestion", action_id="a", block_id="b", value="LINE"
    ),
    "a closed modal": interaction(
        type="view_closed", view={"id": "V1", "type": "modal", "callback_id": "trn_form"}
    ),
    "a step of a workflow": interaction(type="workflow_step_edit", callback_id="LINE"),
}
EVERY_KIND = SERVED | SHORTCUTS | NEVER


def foreign(slack, **more):
    slack.people["U9"] = {"team_id": "T9"} | more


def failing(code):
    def fail(slack):
        slack.failing["users.info"] = [code] * 99

    return fail


STRANGERS = {
    "a foreign organization": foreign,
    "an admin of a foreign organization": lambda slack: foreign(
        slack, is_admin=True, is_owner=True
    ),
    "a foreign grid": lambda slack: foreign(
        slack, enterprise_user={"enterprise_id": "E9", "teams": ["T9", "T8"]}
    ),
    "another workspace of the same grid": lambda slack: foreign(
        slack, enterprise_user={"enterprise_id": "E1", "teams": ["T9"]}
    ),
    "nobody in a common channel": lambda slack: slack.people.update(
        U9={"team_id": "T1", "is_stranger": True}
    ),
    "a deleted user": lambda slack: slack.people.update(U9={"team_id": "T1", "deleted": True}),
    "a bot": lambda slack: slack.people.update(U9={"team_id": "T1", "is_bot": True}),
    "an unknown team": lambda slack: slack.people.update(U9={"team_id": ""}),
    "a user whom Slack does not show": failing("user_not_visible"),
    "a user nobody knows": failing("user_not_found"),
    "an outage of Slack": failing("internal_error"),
    "a scope that is missing": failing("missing_scope"),
    "a limit of Slack": failing("429 30"),
    "an unknown home": lambda slack: (foreign(slack), slack.home.update(team_id="")),
}


def spoken(slack):
    """Return what the bot said, each with its method."""
    return [(method, body) for method, body in slack.calls if method in EVERY_METHOD]


def is_to_one_person(method, body, user):
    """Return whether nobody but the person reads it."""
    match method:
        case "response":
            return body["response_type"] == "ephemeral"
        case "chat.postEphemeral":
            return body["user"] == user
        case "chat.postMessage":
            return body["channel"].startswith(("D", user))
        case "views.publish":
            return body["user_id"] == user
    return method.startswith("views.")


def holds_data(behind, said):
    return any(
        word in json.dumps(said, ensure_ascii=False)
        for word in (behind.alert, "$", "FIRING", "p4d", "cluster", "Share")
    )


DOORS = [(ONE_TOKEN, who) for who in STRANGERS] + [
    (OAUTH, "a foreign organization"),
    (OAUTH, "an outage of Slack"),
]


@pytest.mark.parametrize(("door", "who"), DOORS, indirect=["door"])
@pytest.mark.parametrize("kind", EVERY_KIND)
async def test_a_strangers_mention_or_press_in_a_shared_channel_is_not_served(
    door, kind, who, caplog
):
    STRANGERS[who](door.slack)
    door.slack.channels["C1"] = {"is_ext_shared": True}
    before, lines = (
        door.behind.decided(),
        (ASKED, f"not-an-anomaly {door.behind.alert} 90d", f"share {ASKED}"),
    )
    for line in lines:
        status, body = await EVERY_KIND[kind](door, line, "U9", is_ext_shared_channel=True)
        assert (status < 500, holds_data(door.behind, body)) == (True, False)
    said = spoken(door.slack)
    assert (door.behind.decided(), door.behind.wrong) == (before, [])
    assert {request.belonging.standing for request in door.behind.asked} <= {Standing.STRANGER}
    assert len(said) == (0 if kind in NEVER else 1), said
    assert [one for one in said if not is_to_one_person(*one, "U9")] == []
    assert not holds_data(door.behind, said)
    assert all("organization" in json.dumps(body) for _, body in said)
    assert door.slack.sent("views.open", "views.update", "views.push") == []
    assert [record for record in caplog.records if record.exc_info] == []


@pytest.mark.parametrize("kind", SERVED | SHORTCUTS)
async def test_a_person_whom_the_payload_names_of_another_organization_is_not_served(door, kind):
    before = door.behind.decided()
    await EVERY_KIND[kind](door, f"ack {door.behind.alert}", "U1", claims="T9")
    assert {request.belonging.standing for request in door.behind.asked} <= {Standing.STRANGER}
    assert (door.behind.decided(), holds_data(door.behind, spoken(door.slack))) == (before, False)
    assert door.slack.sent("views.open", "views.update", "views.push") == []


@pytest.mark.parametrize("door", [ONE_TOKEN], indirect=True)
@pytest.mark.parametrize("guest", ["is_restricted", "is_ultra_restricted"])
@pytest.mark.parametrize("kind", EVERY_KIND)
async def test_guests_are_told_apart_and_not_served(door, kind, guest):
    door.slack.people["U9"] = {"team_id": "T1", guest: True}
    before = door.behind.decided()
    for line in (ASKED, f"not-an-anomaly {door.behind.alert} 90d"):
        _, body = await EVERY_KIND[kind](door, line, "U9")
        assert not holds_data(door.behind, body)
    said = [(method, body) for method, body in spoken(door.slack) if kind not in SHORTCUTS]
    assert (door.behind.decided(), door.behind.wrong, holds_data(door.behind, said)) == (
        before,
        [],
        False,
    )
    assert {request.belonging.standing for request in door.behind.asked} <= {Standing.GUEST}
    assert [one for one in said if not is_to_one_person(*one, "U9")] == []
    assert bool(door.behind.asked) == (kind in SERVED)


@pytest.mark.parametrize("kind", SERVED)
async def test_members_are_served_by_the_same_kinds(door, kind):
    await SERVED[kind](door, ASKED, "U1")
    (request,) = door.behind.asked
    assert (request.belonging, request.user.id) == (Belonging("T1", Standing.MEMBER), "slack:U1")


@pytest.mark.parametrize(
    ("profile", "email"), [({}, ""), ({"email": "Dana@Ours.example"}, "dana@ours.example")]
)
async def test_an_email_address_is_known_where_the_app_may_read_it(slack, door, profile, email):
    slack.people["U1"] = {"team_id": "T1", "profile": profile}
    await event(type="app_mention")(door, ASKED, "U1")
    (request,) = door.behind.asked
    assert request.user.email == email


@pytest.mark.parametrize("kind", SHORTCUTS)
async def test_members_open_the_modals_of_shortcuts(door, kind):
    await SHORTCUTS[kind](door, ASKED, "U1")
    assert len(door.slack.sent("views.open")) == 1


OPEN = {
    "shared": ({"is_ext_shared": True}, {}),
    "being shared": ({"is_pending_ext_shared": True}, {}),
    "offered to a team": ({"pending_connected_team_ids": ["T9"]}, {}),
    "shared in a grid": ({"is_org_shared": True, "shared_team_ids": ["T1", "T9"]}, {}),
    "shared in a grid that nobody names": ({"is_org_shared": True}, {}),
    "shared a moment ago": ({}, {"is_ext_shared_channel": True}),
    "of unknown readers": (None, {}),
}
IN_THE_CHANNEL = [kind for kind in SERVED if "App Home" not in kind and "direct" not in kind]
READ_BY_OTHERS = [
    (kind, how)
    for kind in IN_THE_CHANNEL
    for how in OPEN
    if kind.startswith("a mention") or not OPEN[how][1]
]
"""Only events say themselves that a channel is shared."""


@pytest.mark.parametrize("door", [ONE_TOKEN], indirect=True)
@pytest.mark.parametrize(("kind", "how"), READ_BY_OTHERS)
async def test_answers_in_shared_channels_are_private_to_members(door, kind, how):
    channel, outer = OPEN[how]
    door.slack.channels["C1"] = channel
    if channel is None:
        door.slack.failing["conversations.info"] = ["missing_scope"] * 99
        del door.slack.channels["C1"]
    shown = [
        await SERVED[kind](door, line, "U1", **outer)
        for line in (ASKED, f"share {ASKED}", f"ack {door.behind.alert}")
    ]
    said = spoken(door.slack)
    assert {request.belonging for request in door.behind.asked} == {
        Belonging("T1", Standing.MEMBER, shared=True)
    }
    assert [one for one in said if not is_to_one_person(*one, "U1")] == []
    assert not re.search(r"value\W+share", json.dumps([said, shown]))
    assert "nothing is shared here" in json.dumps([said, shown])


@pytest.mark.parametrize(
    "channel",
    [
        {},
        {"is_ext_shared": False},
        {"is_org_shared": True, "shared_team_ids": ["T1"]},
        {"is_shared": True},
    ],
)
async def test_answers_in_a_channel_of_our_own_are_for_all_who_read_it(door, channel):
    door.slack.channels["C1"] = channel
    await SERVED["a mention"](door, ASKED, "U1")
    (answer,) = door.slack.sent("chat.postMessage")
    assert (answer["channel"], door.behind.asked[0].belonging.shared) == ("C1", False)


async def test_an_event_that_denies_a_shared_channel_is_believed_where_slack_is_not_to_be_asked(
    door,
):
    door.slack.failing["conversations.info"] = ["missing_scope"] * 9
    await SERVED["a mention"](door, ASKED, "U1", is_ext_shared_channel=False)
    assert door.slack.sent("chat.postMessage")[0]["channel"] == "C1"


async def test_a_stranger_is_told_once_an_hour_and_a_member_asked_for_once(door):
    foreign(door.slack)
    now = [0.0]
    door.surface._listener._refusals.people.monotonic = lambda: now[0]
    for n in range(50):
        await SERVED["a mention"](door, f"{n:04}", "U9")
        await SERVED["a mention"](door, f"{n:04}", "U1")
    told = [body["user"] for body in door.slack.sent("chat.postEphemeral")]
    assert (told, sorted(body["user"] for body in door.slack.sent("users.info"))) == (
        ["U9"],
        ["U1", "U9"],
    )
    assert len(door.behind.door._shelves["slack.seen"]) == 50
    now[0] = 3_601.0
    await SERVED["a mention"](door, "more", "U9")
    assert len(door.slack.sent("chat.postEphemeral")) == 2


async def test_an_outage_locks_nobody_out_who_was_known(door):
    people = (await door.surface._workspaces.of("T1")).belongings._people
    now = [0.0]
    people.recent.monotonic = lambda: now[0]
    foreign(door.slack)
    for user in ("U1", "U9"):
        await SERVED["a mention"](door, "one ", user)
    now[0], door.slack.failing["users.info"] = 1e6, ["internal_error"] * 99
    for line in ("two ", "thre"):
        for user in ("U1", "U9"):
            await SERVED["a mention"](door, line, user)
    assert [request.user.id for request in door.behind.asked] == [
        "slack:U1",
        "slack:T9/U9",
        "slack:U1",
        "slack:U1",
    ]
    assert len(door.slack.sent("users.info")) == 4
    door.slack.failing["users.info"] = []
    door.slack.people["U1"] = {"deleted": True}
    now[0] += 61.0
    await SERVED["a mention"](door, "four", "U1")
    assert door.behind.asked[-1].belonging.standing is Standing.STRANGER


async def test_who_cannot_be_told_apart_is_told_to_try_again_and_then_served(door):
    door.slack.failing["users.info"] = ["internal_error"]
    await SERVED["a mention"](door, ASKED, "U1")
    (told,) = door.slack.sent("chat.postEphemeral")
    assert "Try again" in json.dumps(told)
    await SERVED["a mention"](door, f" {ASKED}", "U1")
    assert door.slack.sent("chat.postMessage")[0]["channel"] == "C1"


@pytest.mark.parametrize(
    ("home", "person", "standing"),
    [
        (
            {"enterprise_id": "E1", "is_enterprise_install": True},
            {"team_id": "T5"},
            Standing.MEMBER,
        ),
        (
            {"enterprise_id": "E1", "is_enterprise_install": False},
            {"team_id": "T5"},
            Standing.STRANGER,
        ),
        ({"enterprise_id": "E1"}, {"team_id": "T5", "teams": ["T5", "T1"]}, Standing.MEMBER),
        (
            {"enterprise_id": "E2", "is_enterprise_install": True},
            {"team_id": "T5"},
            Standing.STRANGER,
        ),
    ],
)
async def test_an_enterprise_is_one_organization_where_the_app_is_installed_in_all_of_it(
    surface, slack, bot, home, person, standing
):
    slack.home |= home
    grid = {"enterprise_id": "E1", "teams": person.pop("teams", ["T5"])}
    slack.people["U5"] = person | {"enterprise_user": grid}
    app = web.Application()
    app.add_routes(surface.routes())
    async with TestClient(TestServer(app)) as client:
        await event(type="app_mention")(Workspace(client, surface, slack), ASKED, "U5", claims="E1")
    (request,) = bot.asked
    assert request.belonging.standing is standing
    assert request.user.id == ("slack:U5" if standing is Standing.MEMBER else "slack:T5/U5")


async def test_a_member_of_a_listed_workspace_is_served_in_a_channel_of_another_and_stays_the_same_person(
    slack, bot
):
    behind = await guarded()
    app = {
        "client_id": "1.2",
        "client_secret": "hush",
        "workspaces": ("T1", "T2"),
        "public_url": "http://trnbot.example",
    }
    surface = SlackSurface(config(slack, **app), ports(bot, behind.door))
    for team in ("T1", "T2"):
        await surface._installs.keep(
            Installation(team, team, f"xoxb-{team}", "U0BOT", "U1", later(), ())
        )
    slack.people |= {"U2": {"team_id": "T2"}, "U1": {"team_id": "T1"}, "U9": {"team_id": "T9"}}
    door = web.Application()
    door.add_routes(surface.routes())
    async with TestClient(TestServer(door)) as client:
        space = Workspace(client, surface, slack)
        for n, (user, team) in enumerate((("U2", "T1"), ("U2", "T2"), ("U1", "T2"), ("U9", "T2"))):
            await event(type="app_mention", ts=str(n))(
                space, ASKED, user, authorizations=[{"team_id": team}], event_id=f"e{n}"
            )
    heard = [
        (request.user.id, request.belonging.organization, request.belonging.standing.value)
        for request in bot.asked
    ]
    assert heard == [
        ("slack:T2/U2", "T2", "member"),
        ("slack:T2/U2", "T2", "member"),
        ("slack:U1", "T1", "member"),
        ("slack:T9/U9", "T9", "stranger"),
    ]
    await surface.stop()


async def test_alerts_routed_to_a_shared_channel_are_posted_and_that_is_said_once(
    surface, slack, caplog
):
    slack.channels["C1"] = {"is_ext_shared": True}
    for key in ("a", "b"):
        for channel in ("C1", "C2", "U1"):
            assert await surface.post(
                channel, Card("FIRING", blocks=(text("$1,083 an hour"),)), key
            )
    await surface.stop()
    said = [
        record.getMessage()
        for record in caplog.records
        if "another organization" in record.getMessage()
    ]
    assert said == [
        "Slack channel C1 gets alerts and is open to another organization, which reads them."
    ]
    assert len(slack.sent("conversations.info")) == 2


def test_no_requester_is_made_without_how_they_belong():
    with pytest.raises(TypeError, match="belonging"):
        Requester("U1", address="slack:U1")


@pytest.mark.parametrize("junk", [{"ts": "1.1"}, ["1.1"], 1.1, None])
def test_a_claim_is_of_texts_whatever_a_payload_holds(junk):
    body = {"channel": {"id": junk}, "message": {"thread_ts": junk}, "response_url": junk}
    presser, author = parse_presser(body), parse_author({"event": {"channel": junk}}, junk)
    for claim in (presser, author):
        assert all(isinstance(x, str) for x in (claim.channel, claim.thread, claim.response_url))
