"""Every kind of event from everybody who does not belong: none is served; who belongs is answered where only members read."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from aiohttp import web

from bot.model.request import Standing
from tests.guarded import Guarded, guarded
from tests.teams.signing import APP, SECRET, cloud, token

KNOWN = {"app_id": APP, "app_password": SECRET, "tenant_id": "T1", "development": False}
DANA = "29:dana"
THERE = "19:c@thread.tacv2"
CHANNEL = {"id": THERE, "conversationType": "channel", "tenantId": "T1", "isGroup": True}
SHARED = {"tenant": {"id": "T1"}, "channel": {"id": THERE, "type": "shared"}}
CHAT = {
    "id": "19:chat@thread.v2",
    "conversationType": "groupChat",
    "tenantId": "T1",
    "isGroup": True,
}
PERSON = {
    "id": DANA,
    "tenantId": "T1",
    "userRole": "user",
    "userPrincipalName": "dana@ours.example",
}
THEIRS = PERSON | {"tenantId": "T2", "userPrincipalName": "dana@theirs.example"}
SERVED = "does not serve your organization"

SENDERS: dict[str, tuple[dict[str, Any], Any]] = {
    "of a foreign organization": (
        {
            "conversation": {"id": "a:x", "conversationType": "personal", "tenantId": "T2"},
            "channelData": {"tenant": {"id": "T2"}},
        },
        THEIRS,
    ),
    "guest": ({"conversation": CHANNEL}, PERSON | {"userRole": "guest"}),
    "guest by address": (
        {"conversation": CHANNEL},
        PERSON | {"userPrincipalName": "dana_theirs.example#EXT#@ours.example"},
    ),
    "in a shared channel": ({"conversation": CHANNEL, "channelData": SHARED}, THEIRS),
    "in a federated chat": ({"conversation": CHAT}, THEIRS),
    "of the wrong tenant": (
        {"conversation": CHANNEL, "channelData": {"tenant": {"id": "T2"}}},
        THEIRS,
    ),
    "whose account is elsewhere": (
        {
            "conversation": CHANNEL,
            "from": {"id": DANA, "name": "Dana", "aadObjectId": "0", "tenantId": "T2"},
        },
        PERSON,
    ),
    "anonymous": (
        {"conversation": CHAT | {"id": "19:meeting_x@thread.v2"}},
        {"id": DANA, "tenantId": "T1", "userRole": "anonymous"},
    ),
    "of no tenant at all": (
        {"conversation": {"id": "a:x", "conversationType": "personal"}, "channelData": {}},
        {"id": DANA, "userRole": "user"},
    ),
    "of no tenant in the roster": (
        {"conversation": CHANNEL},
        {"id": DANA, "userRole": "user", "userPrincipalName": "d@x"},
    ),
    "of an unknown role": ({"conversation": CHANNEL}, PERSON | {"userRole": "bystander"}),
    "whom the roster does not know": ({"conversation": CHANNEL}, 404),
    "whom the roster does not tell": ({"conversation": CHANNEL}, 500),
    "whose bot is not in the roster": ({"conversation": CHANNEL}, 403),
}


def invoked(name: str, data: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "invoke",
        "name": name,
        "value": {"action": {"type": "Action.Execute", "data": data}},
        "replyToId": "m1",
    }


def events(line: str) -> dict[str, dict[str, Any]]:
    """Return every kind of event that Teams sends, each with the line where it can carry one."""
    return {
        "message": {"text": line},
        "mention": {
            "text": f"<at>trnbot</at> {line}",
            "entities": [{"type": "mention", "mentioned": {"id": "28:bot"}}],
        },
        "slash command": {"text": line, "recipient": {"id": "28:bot", "isTargeted": True}},
        "message with value": {"text": "", "value": {"line": line}},
        "press": invoked("adaptiveCard/action", {"line": line}),
        "press of an alert": invoked("adaptiveCard/action", {"line": line, "stands": True}),
        "task/fetch": invoked("task/fetch", {"line": line}),
        "task/submit": invoked("task/submit", {"line": line}),
        "composeExtension/query": invoked("composeExtension/query", {"line": line}),
        "message/submitAction": invoked("message/submitAction", {"line": line}),
        "messageReaction": {
            "type": "messageReaction",
            "reactionsAdded": [{"type": "like"}],
            "text": line,
        },
        "messageUpdate": {"type": "messageUpdate", "text": line},
        "messageDelete": {"type": "messageDelete", "text": line},
        "bot added": {
            "type": "conversationUpdate",
            "membersAdded": [{"id": "28:bot"}],
            "text": line,
        },
        "member added": {
            "type": "conversationUpdate",
            "membersAdded": [{"id": DANA}],
            "text": line,
        },
        "installationUpdate add": {"type": "installationUpdate", "action": "add", "text": line},
        "installationUpdate remove": {
            "type": "installationUpdate",
            "action": "remove",
            "text": line,
        },
        "typing": {"type": "typing", "text": line},
        "event": {"type": "event", "name": "application/vnd.microsoft.meetingStart", "text": line},
        "unknown": {"type": "frobnicate", "text": line},
    }


@pytest.fixture
async def behind() -> Guarded:
    return await guarded("teams:29:dana")


@pytest.fixture
async def door(new_bot: Any, login: Any, behind: Guarded) -> Any:
    """Return a bot of T1 behind its real door, whose people are judged by what they change and read."""
    made = await new_bot(**KNOWN, cloud=cloud(login), shelf=behind.door)
    made.answer = behind.answer
    return made


async def test_a_member_is_served_by_every_event_that_carries_a_line(
    door: Any, behind: Guarded, connector: Any
) -> None:
    for name, event in events("alerts").items():
        connector.calls.clear()
        status, body = await door.send(door.activity(**event, conversation=CHANNEL), token(door))
        await door.settled()
        carries = name in (
            "message",
            "mention",
            "slash command",
            "message with value",
            "press",
            "press of an alert",
        )
        assert (behind.alert in str(body) + str(connector.said())) is carries, name
        assert status == (
            501
            if event.get("name")
            and "adaptiveCard" not in event["name"]
            and "invoke" in event["type"]
            else 200
        )
    assert {request.user.email for request in behind.asked} == {"somebody@ours.example"}


@pytest.mark.parametrize("kind", events(""))
@pytest.mark.parametrize("who", SENDERS)
async def test_nobody_is_served_who_does_not_belong(
    door: Any, behind: Guarded, connector: Any, who: str, kind: str
) -> None:
    where, connector.roster[DANA] = SENDERS[who]
    before, bodies = behind.decided(), ""
    for line in ("alerts", f"ack {behind.alert}", f"share why {behind.alert}"):
        _, body = await door.send(door.activity(**events(line)[kind] | where), token(door))
        await door.settled()
        bodies += str(body)
    said = bodies + str(connector.said())
    assert behind.decided() == before
    assert behind.alert not in said
    if "guest" in who:
        assert {request.belonging.standing for request in behind.asked} <= {Standing.GUEST}
        assert "does not answer guests" in said or not behind.asked
    else:
        assert behind.asked == []
        assert len(connector.said()) <= 1
        assert not behind.door.newest("teams.people", 9)
        assert not behind.door.newest("teams.conversations", 9)


@pytest.mark.parametrize(
    ("who", "says"),
    [("in a shared channel", SERVED), ("whom the roster does not tell", "try again")],
)
async def test_strangers_get_one_sentence_and_once_an_hour(
    door: Any, connector: Any, who: str, says: str
) -> None:
    where, connector.roster[DANA] = SENDERS[who]
    for n in range(3):
        await door.send(door.activity(text="cost", id=f"m{n}") | where, token(door))
        await door.settled()
        press = (
            door.activity(**invoked("adaptiveCard/action", {"line": "cost"}), id=f"p{n}") | where
        )
        _, body = await door.send(press, token(door))
        assert (body["type"], says in body["value"]) == (
            "application/vnd.microsoft.activity.message",
            True,
        )
    (card,) = connector.cards()
    assert says in str(card)
    assert "messageid=m0" in connector.calls[0][1], "in the thread"


async def test_a_strangers_tenant_in_a_shared_channel_is_told_to_an_admin(
    door: Any, connector: Any
) -> None:
    where, connector.roster[DANA] = SENDERS["in a shared channel"]
    await door.send(door.activity(text="cost") | where, token(door))
    await door.settled()
    assert door.told == [
        "Teams tenant T2 wrote to the bot and was refused; TRNBOT_TEAMS_TENANTS lists who is served."
    ]


async def hear(bot: Any, line: str, **more: Any) -> None:
    await bot.send(bot.activity(text=line, **more), token(bot))
    await bot.settled()


async def press(bot: Any, line: str, *, stands: bool = False, **more: Any) -> dict[str, Any]:
    sent = bot.activity(**invoked("adaptiveCard/action", {"line": line, "stands": stands}), **more)
    _, body = await bot.send(sent, token(bot))
    await bot.settled()
    return dict(body)


@pytest.fixture
async def signed(new_bot: Any, login: Any) -> Any:
    return await new_bot(**KNOWN, cloud=cloud(login))


class Watch:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


async def test_the_roster_is_asked_once_an_hour_and_its_outage_locks_out_nobody_known(
    signed: Any, connector: Any
) -> None:
    watch = Watch()
    signed.surface._listener._belongings._people.monotonic = watch
    for _ in range(3):
        await hear(signed, "cost")
    assert connector.rosters_asked == [DANA]
    connector.roster[DANA], watch.now = 500, 3601.0
    await hear(signed, "cost")
    assert (len(connector.rosters_asked), len(signed.asked)) == (2, 4)
    connector.roster[DANA] = THEIRS
    await hear(signed, "cost")
    assert len(signed.asked) == 4, "who left is a stranger once the roster says so"
    connector.roster[DANA], watch.now = 500, 3 * 86_400.0
    await hear(signed, "cost")
    assert len(signed.asked) == 4


async def test_who_was_not_told_is_served_when_the_roster_answers_again(
    signed: Any, connector: Any
) -> None:
    connector.roster[DANA] = 503
    await hear(signed, "cost")
    del connector.roster[DANA]
    await hear(signed, "cost")
    assert [request.belonging.organization for request in signed.asked] == ["T1"]


async def test_what_is_remembered_of_people_is_bounded(signed: Any) -> None:
    people = signed.surface._listener._belongings._people
    for n in range(6000):
        people.put(f"29:{n}", None)
    assert len(people) == 5000


async def test_a_roster_that_hangs_does_not_hold_up_a_press(
    signed: Any, connector: Any, login: Any, serve: Any
) -> None:
    async def hang(request: web.Request) -> web.Response:
        await asyncio.sleep(30)
        return web.Response()

    signed.service_url = await serve([web.get("/v3/conversations/{c}/members/{u}", hang)])
    async with asyncio.timeout(8):
        body = await press(signed, "cost")
    assert "try again" in body["value"]


async def test_without_an_app_id_this_machine_alone_is_let_in_and_asks_no_roster(
    bot: Any, connector: Any
) -> None:
    await bot.hear("cost")
    assert connector.rosters_asked == []
    assert bot.asked[0].belonging.standing is Standing.MEMBER


@pytest.mark.parametrize(
    ("listed", "name"),
    [
        ({"name": "Sam"}, "Sam"),
        ({"name": "Sam", "tenantId": "T9"}, ""),
        ({"name": "Sam", "userRole": "anonymous"}, ""),
        (404, ""),
    ],
)
async def test_somebody_of_another_organization_has_no_name_here(
    signed: Any, connector: Any, listed: Any, name: str
) -> None:
    await signed.send(signed.activity(text="cost"), token(signed))
    await signed.settled()
    connector.roster["29:sam"] = {
        "tenantId": "T1",
        "userRole": "user",
        "userPrincipalName": "sam@ours.example",
    }
    connector.roster["29:sam"] = (
        listed if isinstance(listed, int) else connector.roster["29:sam"] | listed
    )
    assert await signed.surface.name("29:sam") == name
