"""People write, mention, press and submit; each becomes one line."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from bot.cards.card import Button, Buttons, Card, ShareButton
from bot.model.request import Request

DANA = "teams:29:dana"
CHANNEL = {
    "id": "19:c@thread.tacv2;messageid=100",
    "conversationType": "channel",
    "tenantId": "T1",
    "isGroup": True,
}
MENTION = {
    "type": "mention",
    "mentioned": {"id": "28:bot", "name": "trnbot"},
    "text": "<at>trnbot</at>",
}


def texts(card: dict[str, Any]) -> str:
    """Return every run's text of a card."""
    found = [card["text"]] if isinstance(card.get("text"), str) else []
    for value in card.values():
        for child in value if isinstance(value, list) else [value]:
            found += [texts(child)] if isinstance(child, dict) else []
    return " ".join(found)


async def test_half_a_character_in_a_message_keeps_no_answer_back(bot: Any, connector: Any) -> None:
    """As a client leaves it that cuts an emoji in two."""
    assert (await bot.hear("cost \ud83d"))[0] == 200
    assert "you asked: cost" in texts(connector.cards()[0])


async def test_typing_is_shown_while_the_answer_is_made_but_not_in_channels(
    bot: Any, connector: Any
) -> None:
    await bot.hear("cost", conversation=CHANNEL)
    await bot.hear("cost")
    assert [body["type"] for _, _, body in connector.calls].count("typing") == 1


@pytest.mark.parametrize(
    ("said", "line"),
    [
        ("<at>trnbot</at> cost 7d", "cost 7d"),
        ("<at>trnbot</at>&nbsp;cost 7d\r\n", "cost 7d"),
        ("<p><at>trnbot</at>\xa0cost by&nbsp;team</p>", "cost by team"),
        ("cost <at>trnbot</at> 7d", "cost 7d"),
        ("<at>trnbot</at> cost team!=a&amp;b", "cost team!=a&b"),
        ("<at>trnbot</at> ack 3 <at>Sam</at> saw it", "ack 3 Sam saw it"),
        ("<at>trnbot</at>", "help"),
        ("", "help"),
    ],
)
async def test_the_mention_of_the_bot_is_no_part_of_the_line(
    bot: Any, said: str, line: str
) -> None:
    await bot.hear(said, conversation=CHANNEL, entities=[MENTION])
    assert bot.asked[0].line == line


@pytest.mark.parametrize(
    ("person", "line"),
    [
        ("29:sam", "assign a1 teams:29:sam please"),
        ("no id at all", "assign a1 Sam please"),
        ("", "assign a1 Sam please"),
    ],
)
async def test_somebody_who_is_mentioned_is_their_address_where_teams_names_it(
    bot: Any, person: str, line: str
) -> None:
    sam = {"type": "mention", "mentioned": {"id": person, "name": "Sam"}, "text": "<at>Sam</at>"}
    await bot.hear(
        "<at>trnbot</at> assign a1 <at>Sam</at> please",
        conversation=CHANNEL,
        entities=[MENTION, sam],
    )
    assert bot.asked[0].line == line


PICKED = "0f8fad5b-d9cb-469f-a165-70867728950e"


@pytest.mark.parametrize(
    ("picked", "whom"),
    [(PICKED, f"teams:{PICKED}"), ("me", "me"), ("teams:29:sam", "teams:29:sam")],
)
async def test_whom_one_picks_from_the_people_of_the_conversation_is_their_address(
    bot: Any, picked: str, whom: str
) -> None:
    data = {
        "line": "assign a1",
        "form": 0,
        "fields": ["person"],
        "people": {"person": ["me", "teams:29:sam"]},
    }
    await bot.press(data | {"f0.person": picked})
    assert bot.asked[0].line == f"assign a1 person={whom}"


@pytest.mark.parametrize(
    ("listed", "name"), [({"name": "Sam"}, "Sam"), ({}, PICKED), (404, PICKED)]
)
async def test_a_person_has_the_name_by_which_the_conversation_lists_them(
    bot: Any, connector: Any, listed: Any, name: str
) -> None:
    await bot.hear("cost", conversation=CHANNEL)
    connector.roster[PICKED] = listed
    assert await bot.surface.name(PICKED) == name


async def test_a_channel_is_answered_in_the_thread_and_without_a_share_button(
    bot: Any, connector: Any
) -> None:
    async def shareable(request: Request) -> Card:
        return Card(
            "Cost",
            blocks=(Buttons((ShareButton("Share", "share cost"), Button("More", "cost 30d"))),),
        )

    bot.answer = shareable
    await bot.hear("<at>trnbot</at> cost", conversation=CHANNEL, entities=[MENTION])
    assert bot.asked[0].channel == "teams:19:c@thread.tacv2"
    assert bot.asked[0].thread == "100"
    path = next(path for _, path, body in connector.calls if body["type"] == "message")
    assert "19:c@thread.tacv2;messageid=100/" in path
    assert [a["title"] for a in connector.cards()[0]["body"][1]["actions"]] == ["More"]


async def test_a_pressed_button_types_its_line_and_its_card_is_replaced(bot: Any) -> None:
    body = await bot.press({"line": "cost 30d"})
    assert body["type"] == "application/vnd.microsoft.card.adaptive"
    assert "you asked: cost 30d" in texts(body["value"])
    assert bot.asked[0].user.id == DANA


async def test_a_form_submits_one_line_with_its_fields_quoted(bot: Any) -> None:
    data = {"line": "silence add", "form": 0, "fields": ["cluster", "for", "why", "all", "none"]}
    await bot.press(
        data
        | {
            "f0.cluster": "llama 70b",
            "f0.for": 2,
            "f0.why": 'say "x"',
            "f0.all": "on",
            "f1.none": "x",
        }
    )
    assert bot.asked[0].line == 'silence add cluster="llama 70b" for=2 why="say \\"x\\"" all=on'


async def test_an_older_client_submits_the_form_as_a_message(bot: Any) -> None:
    await bot.hear("", value={"line": "cost", "form": 0, "fields": ["by"], "f0.by": "team"})
    assert bot.asked[0].line == "cost by=team"


@pytest.mark.parametrize(
    "value",
    [{}, {"action": None}, {"action": {"data": {"line": 7}}}, "x", None, {"action": {"data": []}}],
)
async def test_a_press_that_is_none_of_ours_says_so(bot: Any, value: Any) -> None:
    status, body = await bot.send(
        bot.activity(type="invoke", name="adaptiveCard/action", value=value)
    )
    assert (status, body["type"]) == (200, "application/vnd.microsoft.activity.message")
    assert bot.asked == []


async def test_a_public_answer_is_posted_by_lines_that_share_and_by_no_other(
    bot: Any, connector: Any
) -> None:
    async def public(request: Request) -> Card:
        return Card("Acknowledged", public=True)

    bot.answer = public
    body = await bot.press({"line": "ack 7", "stands": True})
    await bot.settled()
    assert "Acknowledged" in str(body["value"])
    assert (connector.said(), connector.cards()) == ([], [])


async def test_a_line_that_takes_long_is_said_to_be_worked_on_and_the_answer_takes_that_place(
    new_bot: Any, connector: Any
) -> None:
    bot = await new_bot(patience_s=0.05)

    async def slow(request: Request) -> Card:
        await asyncio.sleep(0.3)
        return Card("Done at last")

    bot.answer = slow
    await bot.hear("cost 365d", conversation=CHANNEL)
    await bot.settled()
    note, answer = connector.cards()
    assert "Working on it" in texts(note)
    assert "Done at last" in texts(answer)
    (_, where, _), (method, place, _) = connector.calls
    assert (method, place) == ("PUT", f"{where.rpartition('/')[0]}/m1")


async def test_a_slow_press_is_acknowledged_and_answered_later(bot: Any, connector: Any) -> None:
    ready = asyncio.Event()

    async def slow(request: Request) -> Card:
        await ready.wait()
        return Card("Done at last")

    bot.answer = slow
    bot.surface._responder._timeout_s = 0.01
    body = await bot.press({"line": "cost 365d"})
    assert body["value"].startswith("Working on it")
    ready.set()
    await bot.settled()
    assert "Done at last" in texts(connector.cards()[0])


async def test_installing_greets_once_and_says_how_alerts_come_here(
    bot: Any, connector: Any
) -> None:
    added = {
        "type": "conversationUpdate",
        "membersAdded": [{"id": "28:bot"}],
        "conversation": CHANNEL,
    }
    await bot.hear("", **added)
    await bot.hear("", **added)
    await bot.hear("", type="installationUpdate", action="add", conversation=CHANNEL)
    assert len(connector.cards()) == 1
    assert "teams:19:c@thread.tacv2" in texts(connector.cards()[0])


async def test_a_member_who_joins_tells_of_a_place_and_removal_forgets_it(bot: Any) -> None:
    joined = {"type": "conversationUpdate", "membersAdded": [{"id": "29:eve"}]}
    await bot.hear("", conversation=CHANNEL, **joined)
    assert bot.shelf.get("teams.conversations", "19:c@thread.tacv2")
    await bot.hear("", type="installationUpdate", action="remove", conversation=CHANNEL)
    assert bot.shelf.get("teams.conversations", "19:c@thread.tacv2") is None


async def shareable(request: Request) -> Card:
    """Answer as the bot does: privately with a button to share, publicly to that button."""
    shared = request.line.startswith("share ")
    return Card(
        "Cost",
        blocks=() if shared else (Buttons((Button("Share", f"share {request.line}"),)),),
        public=shared,
    )


async def test_sharing_from_a_personal_chat_goes_to_the_one_channel(
    bot: Any, connector: Any
) -> None:
    bot.answer = shareable
    assert "Mention the bot" in (await bot.press({"line": "share cost"}))["value"]
    await bot.hear("hello", conversation=CHANNEL)
    assert (await bot.press({"line": "share cost"}))["value"] == "Shared."
    assert connector.calls[-1][1] == "/v3/conversations/19:c@thread.tacv2/activities"
    await bot.hear("hello", conversation=CHANNEL | {"id": "19:d@thread.tacv2"})
    assert "Mention the bot" in (await bot.press({"line": "share cost"}))["value"]
