"""Either of Microsoft's SDKs carries what is said, and neither adds to it, reads more of it, or is loaded where the other serves."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

from adapters.chat.config import TeamsConfig, TeamsSdk
from adapters.chat.teams.activity import (
    Account,
    Activity,
    Delivery,
    InvokeAnswer,
    Message,
    Place,
    Reference,
    parse_activity,
)
from adapters.chat.teams.client import Anonymous, ConnectorClient
from adapters.chat.teams.responder import Sdk, open_sdk
from bot.cards.card import Card
from bot.errors import WrongInput
from bot.model.request import Request
from bot.settings.keys import TEAMS_SDKS

ROOT = Path(__file__).parents[2]
CHANNEL = {
    "id": "19:c@thread.tacv2;messageid=100",
    "conversationType": "channel",
    "tenantId": "T1",
    "isGroup": True,
}
SECRET = "S3CRET-7"


@pytest.fixture(params=list(TeamsSdk))
def sdk(request: pytest.FixtureRequest) -> TeamsSdk:
    """Do each test by both of Microsoft's SDKs."""
    return TeamsSdk(request.param)


def reference(service_url: str) -> Reference:
    bot, dana = Account("28:bot", "trnbot"), Account("29:dana", "Dana", "0-1", "user")
    return Reference(
        Place("19:c@thread.tacv2", "channel", "T1"), service_url, bot, dana, "msteams", "en-US"
    )


def deliveries(there: Reference) -> list[Delivery]:
    """Return a message of each kind: to a place, a thread, one person, in the place of another, with data of every type."""
    card = {
        "type": "AdaptiveCard",
        "body": [{"a": None, "b": [1, 2.5, True, "é <at>x</at>"], "tenantID": "kept", "c": {}}],
        "d": [],
    }
    thread = f"{there.conversation.id};messageid=100"
    return [
        Delivery(Message("Cost", card), there, there.conversation.id),
        Delivery(Message("Cost", card), there, thread, reply_to="100"),
        Delivery(Message("Cost", card), there, thread, reply_to="100", targeted=True),
        Delivery(Message("Cost", card), there, there.conversation.id, replaces="m 1/2"),
        Delivery(Message(), there, there.conversation.id),
    ]


async def sent(connector: Any, name: TeamsSdk) -> list[Any]:
    """Return what the service got of every kind of message."""
    client = ConnectorClient(Anonymous(), lambda _: True)
    for delivery in deliveries(reference(connector.url)):
        await open_sdk(name, client, "app").send(delivery)
    await client.close()
    return [(*call, query) for call, query in zip(connector.calls, connector.queries, strict=True)]


async def test_the_service_gets_a_message_exactly_as_it_was_written(
    connector: Any, sdk: TeamsSdk
) -> None:
    expected = deliveries(reference(connector.url))
    calls = await sent(connector, sdk)
    assert [body | {"id": None} for _, _, body, _ in calls] == [
        each.document() | {"id": None} for each in expected
    ]
    place = "/v3/conversations/19:c@thread.tacv2"
    assert [(method, path, query) for method, path, _, query in calls] == [
        ("POST", f"{place}/activities", ""),
        ("POST", f"{place};messageid=100/activities/100", ""),
        ("POST", f"{place};messageid=100/activities/100", "isTargetedActivity=true"),
        ("PUT", f"{place}/activities/m 1/2", ""),
        ("POST", f"{place}/activities", ""),
    ]


async def test_both_sdks_send_the_same(connector: Any) -> None:
    one = await sent(connector, TeamsSdk.BOTBUILDER)
    connector.calls.clear()
    connector.queries.clear()
    assert one == await sent(connector, TeamsSdk.AGENTS)


async def test_a_session_that_is_closed_while_the_token_is_fetched_is_opened_anew(
    connector: Any,
) -> None:
    class Closing(Anonymous):
        async def header(self) -> dict[str, str]:
            await client.close()
            return {}

    client = ConnectorClient(Closing(), lambda _: True)
    for _ in range(2):
        member = await client.get(connector.url, "/19:c@thread.tacv2/members/29:dana")
        assert member["id"] == "29:dana"
    await client.close()


async def test_a_sign_of_typing_whose_answer_names_no_id_keeps_no_answer_back(
    bot: Any, connector: Any
) -> None:
    """The Playground's answers to it are empty."""
    connector.answers.append(web.json_response({}, status=201))
    await bot.hear("cost")
    assert [body["type"] for _, _, body in connector.calls] == ["typing", "message"]


async def test_a_failure_in_a_turn_is_told_to_nobody(
    bot: Any, connector: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """The Agents SDK would print it, and post its text to the conversation."""

    async def fail(_: Request) -> Card:
        raise RuntimeError(SECRET)

    bot.answer = fail
    value = {"action": {"data": {"line": "cost"}}}
    status, _ = await bot.send(bot.activity(type="invoke", name="adaptiveCard/action", value=value))
    assert status == 500
    assert connector.calls == []
    assert SECRET not in "".join(capsys.readouterr())


@pytest.mark.parametrize("delivery", ["expectReplies", "ephemeral", "stream", 7])
async def test_the_body_s_own_wishes_for_its_delivery_reach_no_sdk(
    bot: Any, connector: Any, delivery: Any
) -> None:
    status, body = await bot.hear("cost", deliveryMode=delivery)
    assert (status, body, len(connector.cards())) == (200, None, 1)


async def test_a_press_is_answered_with_the_body_that_was_made(
    sdk: TeamsSdk, connector: Any
) -> None:
    pressed = Activity(
        "invoke", Place("a:1"), Account("29:dana"), Account("28:bot"), service_url=connector.url
    )
    made = InvokeAnswer(
        200, {"statusCode": 200, "type": "x", "value": {"a": None, "b": [{"c": 1.5}]}}
    )

    async def handle(activity: Activity) -> InvokeAnswer:
        assert activity is pressed
        return made

    carried: Sdk = open_sdk(sdk, ConnectorClient(Anonymous(), lambda _: True), "")
    assert await carried.take(pressed, handle) == made


FIELDS = ("type", "id", "name", "channelId", "serviceUrl", "locale", "text", "action", "replyToId")
texts = st.one_of(
    st.text(max_size=4),
    st.sampled_from([" ", ":", "msteams:x", "invoke", "message", "expectReplies"]),
)
accounts = st.dictionaries(
    st.sampled_from(["id", "name", "aadObjectId", "role", "properties", "tenantId"]), texts
)
places = st.dictionaries(
    st.sampled_from(["id", "conversationType", "tenantId", "name", "role"]), texts
)
bodies = st.fixed_dictionaries(
    {"from": accounts, "recipient": accounts, "conversation": places},
    optional=dict.fromkeys(FIELDS, texts)
    | {"deliveryMode": texts, "callerId": texts, "entities": st.lists(accounts)},
)


@given(bodies)
def test_what_our_parser_takes_no_sdk_refuses(body: dict[str, Any]) -> None:
    ids = {
        part: {"id": "x"} | {name: text for name, text in body[part].items() if text}
        for part in ("from", "recipient", "conversation")
    }
    try:
        activity = parse_activity(json.dumps({"type": "message"} | body | ids).encode())
    except WrongInput:
        return
    handled: list[Activity] = []

    async def handle(one: Activity) -> None:
        handled.append(one)

    async def both() -> None:
        for name in TeamsSdk:
            await open_sdk(name, ConnectorClient(Anonymous(), lambda _: True), "").take(
                activity, handle
            )

    asyncio.run(both())
    assert handled == [activity, activity]


def test_the_setting_names_the_sdks_there_are() -> None:
    assert tuple(TeamsSdk) == TEAMS_SDKS
    assert TeamsConfig(development=True).sdk is TeamsSdk.BOTBUILDER


def test_without_its_extra_the_bot_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "microsoft_agents.hosting.aiohttp", None)
    with pytest.raises(
        WrongInput,
        match=r"^TRNBOT_TEAMS_SDK=agents needs an extra .* pip install 'trnbot\[agents\]'",
    ):
        TeamsConfig(development=True, sdk=TeamsSdk.AGENTS)
    assert TeamsConfig(development=True).sdk is TeamsSdk.BOTBUILDER


PROGRAM = """
import sys
from adapters.chat.config import TeamsConfig, TeamsSdk
from adapters.chat.teams.surface import TeamsSurface
from adapters.store.memory import MemoryStore
from bot.ports import ChatPorts
ports = ChatPorts(None, None, None, MemoryStore(), MemoryStore())
TeamsSurface(TeamsConfig(development=True, sdk=TeamsSdk(sys.argv[1])), ports, None)
print(sorted({"botbuilder", "botframework", "msrest", "microsoft_agents", "pydantic"} & set(sys.modules)))
"""


@pytest.mark.parametrize(
    ("name", "imported"),
    [
        ("botbuilder", ["botbuilder", "botframework", "msrest"]),
        ("agents", ["microsoft_agents", "pydantic"]),
    ],
)
def test_only_the_sdk_that_serves_is_imported(name: str, imported: list[str]) -> None:
    command = [sys.executable, "-c", PROGRAM, name]
    said = subprocess.run(
        command, capture_output=True, text=True, timeout=60, cwd=ROOT, check=False
    )
    assert said.stdout == f"{imported}\n", said.stderr[-500:]
