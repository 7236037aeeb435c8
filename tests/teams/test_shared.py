"""Where people of other organizations read, a member is answered alone."""

from __future__ import annotations

from typing import Any

import pytest

from bot.cards.card import Card, Facts, Tone, text
from bot.errors import Unavailable
from bot.model.request import Request
from tests.teams.test_belonging import (
    CHANNEL,
    CHAT,
    PERSON,
    SHARED,
    THEIRS,
    THERE,
    hear,
    press,
    signed,
)

assert signed


def places(connector: Any) -> list[str]:
    return [path.split("/")[3] for _, path, body in connector.calls if body["type"] == "message"]


async def test_in_a_shared_channel_a_member_is_answered_in_their_own_chat(
    signed: Any, connector: Any
) -> None:
    await hear(signed, "hello")
    connector.calls.clear()
    await hear(signed, "cost", conversation=CHANNEL, channelData=SHARED)
    assert signed.asked[-1].belonging.shared
    own, there = places(connector)
    assert (own, there.partition(";")[0]) == ("a:personal", THERE)
    answer, pointer = connector.cards()
    assert "you asked: cost" in str(answer)
    assert "you asked" not in str(pointer)
    assert "in your chat with the bot" in str(pointer)


async def test_the_chat_of_a_member_who_never_wrote_there_is_opened(
    signed: Any, connector: Any
) -> None:
    await hear(signed, "cost", conversation=CHANNEL, channelData=SHARED)
    assert places(connector)[0] == "a:opened"


async def test_where_no_chat_can_be_had_nothing_is_read_and_a_sentence_says_so(
    signed: Any, connector: Any
) -> None:
    async def forbidden(*_: Any) -> str:
        raise Unavailable("Teams refused the bot (HTTP 403).")

    signed.surface._conversations._open = forbidden
    await hear(signed, "cost", conversation=CHANNEL, channelData=SHARED)
    assert signed.asked == []
    (card,) = connector.cards()
    assert "ask the bot in a personal chat" in str(card)


async def test_a_slash_command_in_a_shared_channel_is_answered_there_to_one_person(
    signed: Any, connector: Any
) -> None:
    await hear(
        signed,
        "cost",
        conversation=CHANNEL,
        channelData=SHARED,
        recipient={"id": "28:bot", "isTargeted": True},
    )
    assert {place.partition(";")[0] for place in places(connector)} == {THERE}
    assert connector.queries[-1] == "isTargetedActivity=true"


async def test_a_press_in_a_shared_channel_is_answered_to_who_pressed_alone(
    signed: Any, connector: Any
) -> None:
    async def long(request: Request) -> Card:
        return Card(
            "Why",
            Tone.INFO,
            (text("starved"), Facts((("loader", "0.86"),))),
            public=request.line.startswith("share "),
        )

    signed.answer = long
    there = {"conversation": CHANNEL, "channelData": SHARED}
    body = await press(signed, "why 7", **there)
    assert "loader" in str(body["value"])
    assert connector.said() == []
    assert "starved" in (await press(signed, "share why 7", stands=True, **there))["value"]
    assert places(connector) == ["a:opened"], "the long answer goes to the member's own chat"


async def test_nothing_is_shared_from_a_chat_into_a_channel_that_others_read(
    signed: Any, connector: Any
) -> None:
    async def public(request: Request) -> Card:
        return Card("Cost", public=True)

    await hear(signed, "hello", conversation=CHANNEL, channelData=SHARED)
    connector.calls.clear()
    signed.answer = public
    assert "other organizations" in (await press(signed, "share cost"))["value"]
    assert connector.said() == []


async def test_a_channel_stays_shared_where_a_later_event_does_not_say(
    signed: Any, connector: Any
) -> None:
    await hear(signed, "hello", conversation=CHANNEL, channelData=SHARED)
    await hear(signed, "cost", conversation=CHANNEL)
    assert [request.belonging.shared for request in signed.asked] == [True, True]


async def test_a_channel_where_a_stranger_wrote_is_shared(signed: Any, connector: Any) -> None:
    await hear(signed, "hello", conversation=CHANNEL)
    connector.roster["29:eve"] = THEIRS | {"id": "29:eve"}
    await hear(signed, "cost", conversation=CHANNEL, **{"from": {"id": "29:eve", "name": "Eve"}})
    await hear(signed, "cost", conversation=CHANNEL)
    assert [request.belonging.shared for request in signed.asked] == [False, True]


@pytest.mark.parametrize(
    ("others", "shared"),
    [
        ({}, False),
        ({"29:kim": PERSON | {"id": "29:kim", "userRole": "guest"}}, False),
        ({"29:eve": THEIRS}, True),
        ({"29:anon": {"id": "29:anon", "tenantId": "T1", "userRole": "anonymous"}}, True),
        ({"29:down": 500}, True),
    ],
    ids=["members", "a guest", "another organization", "anonymous", "not told"],
)
async def test_a_group_chat_is_as_open_as_its_roster(
    signed: Any, connector: Any, others: dict[str, Any], shared: bool
) -> None:
    connector.roster |= others
    await hear(signed, "cost", conversation=CHAT)
    await hear(signed, "cost", conversation=CHAT)
    assert [request.belonging.shared for request in signed.asked] == [shared, shared]
    assert (places(connector)[0] == "a:opened") is shared


async def test_a_chat_of_no_stated_kind_is_no_personal_one(signed: Any, connector: Any) -> None:
    connector.roster["29:eve"] = THEIRS
    await hear(signed, "cost", conversation={"id": "19:chat@thread.v2", "tenantId": "T1"})
    assert signed.asked[0].belonging.shared
