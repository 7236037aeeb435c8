"""The bot speaks first: posts, edits, replies, finds; paced, and again when Teams asks for patience."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from aiohttp import web

from adapters.chat.teams.client import Pace
from bot.cards.card import Card, Tone, text
from bot.errors import Limited, Unavailable

CHANNEL = {
    "id": "19:c@thread.tacv2;messageid=100",
    "conversationType": "channel",
    "tenantId": "T1",
    "isGroup": True,
}
ID = "19:c@thread.tacv2"
ALERT = Card("FIRING 25 min", Tone.CRITICAL, (text("wasting $1,083 an hour"),))


class Watch:
    """Tell a time that passes by sleeping alone, and remember each sleep."""

    def __init__(self) -> None:
        self.now = 0.0
        self.waits: list[float] = []

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.now += seconds


@pytest.fixture
async def met(bot: Any, connector: Any) -> Any:
    """Return a bot that was spoken to in a channel, its waiting made short."""
    await bot.hear("hello", conversation=CHANNEL)
    connector.calls.clear()
    bot.watch = Watch()
    bot.surface._client._pace = Pace(bot.watch, bot.watch.sleep, bot.surface.delays)
    return bot


async def test_post_begins_a_thread_of_the_channel_and_find_knows_it(
    met: Any, connector: Any
) -> None:
    made = await met.surface.post(ID, ALERT, "incident 7")
    method, path, body = connector.calls[0]
    assert (method, path, made) == ("POST", f"/v3/conversations/{ID}/activities", "m1")
    assert body["conversation"]["id"] == ID
    assert "replyToId" not in body
    assert body["from"]["id"] == "28:bot"
    assert body["summary"] == "FIRING 25 min"
    assert (await met.surface.posted(ID)).get("incident 7", "") == "m1"
    assert (await met.surface.posted(ID)).get("incident 8", "") == ""


async def test_edit_replaces_the_message(met: Any, connector: Any) -> None:
    assert await met.surface.edit(ID, "m1", ALERT, "k") == "m1"
    method, path, body = connector.calls[0]
    assert (method, path, body["id"]) == ("PUT", f"/v3/conversations/{ID}/activities/m1", "m1")


async def test_edit_of_a_deleted_message_posts_a_fresh_one(met: Any, connector: Any) -> None:
    connector.answers.append(
        web.json_response({"error": {"code": "ActivityNotFoundInConversation"}}, status=404)
    )
    made = await met.surface.edit(ID, "gone", ALERT, "k")
    assert [method for method, _, _ in connector.calls] == ["PUT", "POST"]
    assert (await met.surface.posted(ID)).get("k", "") == made == "m2"


async def test_reply_goes_to_the_thread(met: Any, connector: Any) -> None:
    await met.surface.reply(ID, "m1", ALERT, "k1")
    assert connector.calls[0][1] == f"/v3/conversations/{ID};messageid=m1/activities/m1"


async def test_reply_in_a_chat_without_threads_goes_to_the_chat(bot: Any, connector: Any) -> None:
    await bot.hear("hello")
    await bot.surface.reply("a:personal", "m1", ALERT, "k1")
    assert connector.calls[-1][1] == "/v3/conversations/a:personal/activities"


async def test_a_place_never_seen_says_what_to_do(bot: Any) -> None:
    with pytest.raises(Unavailable, match="say hello to the bot there once"):
        await bot.surface.post("19:unknown", ALERT, "k")


async def test_another_process_speaks_by_the_shelf(met: Any, new_bot: Any, connector: Any) -> None:
    other = await new_bot(shelf=met.shelf)
    assert await other.surface.post(ID, ALERT, "k") == "m1"


@pytest.mark.parametrize("status", [412, 429, 502, 504])
async def test_teams_asking_for_patience_gets_it(met: Any, connector: Any, status: int) -> None:
    connector.answers += [
        web.Response(status=status),
        web.Response(status=status, headers={"Retry-After": "3"}),
    ]
    assert await met.surface.post(ID, ALERT, "k") == "m3"
    assert met.watch.waits == [1.0, 3.0]


async def test_what_teams_limits_hold_up_is_counted(met: Any, connector: Any) -> None:
    connector.answers.append(web.Response(status=429, headers={"Retry-After": "3"}))
    await met.surface.post(ID, ALERT, "k")
    assert (round(met.surface.delays.seconds, 1), met.surface.delays.waiting) == (3.0, 0)


async def test_a_conversation_that_teams_closes_for_minutes_is_left_alone_until_then(
    met: Any, connector: Any
) -> None:
    connector.answers.append(web.Response(status=429, headers={"Retry-After": "120"}))
    for _ in range(3):
        with pytest.raises(Unavailable, match="it will be retried in 120 s"):
            await met.surface.post(ID, ALERT, "k")
    assert len(connector.calls) == 1
    met.watch.now += 117
    assert await met.surface.post(ID, ALERT, "k") == "m2"
    assert met.watch.now == 120


async def test_patience_ends(met: Any, connector: Any) -> None:
    connector.answers += [web.Response(status=429) for _ in range(9)]
    with pytest.raises(Unavailable, match="HTTP 429"):
        await met.surface.post(ID, ALERT, "k")
    assert len(connector.calls) == 4


@pytest.mark.parametrize(
    ("status", "says"),
    [
        (403, "still installed"),
        (401, "password"),
        (413, "too long"),
        (400, "BadSyntax"),
        (302, "302"),
    ],
)
async def test_a_refusal_says_what_it_means(
    met: Any, connector: Any, status: int, says: str
) -> None:
    connector.answers.append(
        web.json_response({"error": {"code": "BadSyntax", "message": "x"}}, status=status)
    )
    with pytest.raises(Unavailable, match=says):
        await met.surface.post(ID, ALERT, "k")
    assert len(connector.calls) == 1


async def test_a_service_that_is_down_is_named_unavailable(met: Any) -> None:
    met.shelf.get("teams.conversations", ID)["reference"]["serviceUrl"] = "http://127.0.0.1:9/"
    with pytest.raises(Unavailable, match="cannot be reached"):
        await met.surface.post(ID, ALERT, "k")


async def test_a_reference_that_leads_elsewhere_is_not_followed(met: Any) -> None:
    met.shelf.get("teams.conversations", ID)["reference"]["serviceUrl"] = "http://169.254.169.254/"
    with pytest.raises(Unavailable, match="none of Microsoft's"):
        await met.surface.post(ID, ALERT, "k")


async def test_a_conversation_is_paced_to_its_limits() -> None:
    watch = Watch()
    pace = Pace(watch, watch.sleep)
    sent = []
    while len(sent) < 130:
        try:
            await pace.turn("c")
        except Limited as limit:  # whoever delivers comes again
            watch.now += limit.seconds
            continue
        sent.append(watch.now)
    for most, span in ((7, 1.0), (8, 2.0), (60, 30.0)):
        assert all(later - first >= span for first, later in zip(sent, sent[most:], strict=False))
    assert sent[6] == 0.0
    assert sent[-1] < 130 / 60 * 30 + 5


async def test_one_conversation_does_not_wait_for_another() -> None:
    watch = Watch()
    pace = Pace(watch, watch.sleep)
    await asyncio.gather(*(pace.turn(f"c{n}") for n in range(50)))
    assert watch.now == 0.0


async def test_a_route_to_a_person_goes_to_the_chat_they_began(bot: Any, connector: Any) -> None:
    await bot.hear("hello")
    connector.calls.clear()
    made = await bot.surface.post("29:dana", ALERT, "k")
    await bot.surface.edit("29:dana", made, ALERT, "k")
    assert {path.partition("/activities")[0] for _, path, _ in connector.calls} == {
        "/v3/conversations/a:personal"
    }
    assert (await bot.surface.posted("29:dana")).get("k", "") == made


async def test_a_route_to_a_person_opens_their_chat_once_for_every_process(
    met: Any, new_bot: Any, connector: Any
) -> None:
    made = await met.surface.post("29:kim", ALERT, "k")
    other = await new_bot(shelf=met.shelf)
    await other.surface.edit("29:kim", made, ALERT, "k")
    assert len(connector.opened) == 1
    opened = connector.opened[0]
    assert (opened["bot"]["id"], opened["members"], opened["tenantId"]) == (
        "28:bot",
        [{"id": "29:kim"}],
        "T1",
    )
    assert [(method, path) for method, path, _ in connector.calls] == [
        ("POST", "/v3/conversations/a:opened/activities"),
        ("PUT", f"/v3/conversations/a:opened/activities/{made}"),
    ]


async def test_a_chat_that_teams_opens_without_naming_it_is_not_kept(
    met: Any, connector: Any
) -> None:
    connector.answers.append(web.json_response({}))
    with pytest.raises(Unavailable, match="did not name the chat"):
        await met.surface.post("29:kim", ALERT, "k")
    assert met.shelf.get("teams.people", "29:kim") is None
    assert connector.calls == []


async def test_a_person_is_not_reached_before_teams_introduced_anybody(bot: Any) -> None:
    with pytest.raises(Unavailable, match="say hello to the bot there once"):
        await bot.surface.post("29:kim", ALERT, "k")


async def test_an_event_is_answered_by_one_of_two_processes(bot: Any, new_bot: Any) -> None:
    other = await new_bot(shelf=bot.shelf)
    for process in (bot, other, bot):
        await process.send(process.activity(id="same", text="cost"))
        await process.settled()
    assert len(bot.asked) + len(other.asked) == 1
