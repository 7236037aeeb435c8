"""What people do in Slack and in Teams, done to a whole bot, and all that goes out for it, side by side as it was last read.

Each scene begins with an alert that fires in the channel. `=` is the same on both, `S` Slack alone, `T` Teams alone; what is
the same without reason, or differs without, is a fault. `make goldens` writes them anew: read `git diff tests/surfaces/goldens`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping
from itertools import zip_longest
from pathlib import Path

import pytest
from aiohttp import web

from tests.builders import FIVE, NOON
from tests.cards.test_goldens import compare
from tests.surfaces.outline import side_by_side
from tests.surfaces.sides import (
    PERSONAL,
    THEIRS,
    AgentsSide,
    Calls,
    Side,
    SlackSide,
    TeamsSide,
    controls,
    inputs,
)

GOLDENS = Path(__file__).with_name("goldens")
Scene = Callable[[Side], Awaitable[None]]


async def again(side: Side) -> None:
    """Deliver one message, and one press, twice."""
    if isinstance(side, SlackSide):
        await side.mention("alerts")
        await side.mention("alerts")
        await side.press("why ALERT".replace("ALERT", side.alert), trigger_id="same")
        await side.press("why ALERT".replace("ALERT", side.alert), trigger_id="same")
    else:
        await side.mention("alerts", id="same")
        await side.mention("alerts", id="same")
        await side.press(f"why {side.alert}", id="pressed")
        await side.press(f"why {side.alert}", id="pressed")


async def share(side: Side) -> None:
    """Ask alone, and show all what was answered."""
    await side.slash("alerts")
    await side.press("share alerts", private=True, thread="7.1")


async def failing(side: Side, how: str) -> None:
    side.fails(how)
    await side.mention("alerts")


async def failing_alone(side: Side, how: str) -> None:
    side.fails(how)
    await side.slash("alerts")


async def asked_and_shared(side: Side) -> None:
    """Ask for all, ask alone, and share."""
    await side.mention("alerts")
    await side.slash("alerts")
    await side.press("share alerts", private=True)


async def strangers(side: Side) -> None:
    """Let somebody of another organization ask in each way, twice."""
    for _ in range(2):
        await side.mention("alerts", by="eve")
    await side.slash("alerts", by="eve")
    await side.direct("alerts", by="eve")
    await side.press(f"ack {side.alert}", by="eve")


async def foreign(side: Side) -> None:
    """Let a payload name another organization itself."""
    if isinstance(side, SlackSide):
        await side.slash("alerts", team_id=THEIRS)
        await side.mention("alerts", user_team=THEIRS)
    else:
        await side.direct("alerts", channelData={"tenant": {"id": THEIRS}})
        await side.press("alerts", channelData={"tenant": {"id": THEIRS}})


async def form(side: Side, **filled: str) -> None:
    """Open the form of a snooze, and fill it in."""
    line = f"snooze {side.alert}"
    if isinstance(side, SlackSide):
        await side.press(line, opens=True)
        view = side.views()[-1]
        await side.submit(view, **filled)
        return
    await side.slash(line)
    (card,) = side.connector.cards()
    data = next(x for x in controls(card) if "fields" in x)
    await side.press(
        "", data={**data, **inputs(card), **{f"f{data['form']}.{k}": v for k, v in filled.items()}}
    )


async def assigned(side: Side) -> None:
    """Name somebody by a mention."""
    line, ada = f"assign {side.alert}", side.id("ada")
    if isinstance(side, SlackSide):
        await side.mention(f"{line} <@{ada}>")
    else:
        of_bot = {"type": "mention", "mentioned": {"id": "28:bot"}, "text": "<at>trnbot</at>"}
        of_ada = {
            "type": "mention",
            "mentioned": {"id": ada, "name": "ada"},
            "text": "<at>ada</at>",
        }
        text = f"<at>trnbot</at> {line} <at>ada</at>"
        await side.mention("", text=text, entities=[of_bot, of_ada])


async def worse_and_over(side: Side) -> None:
    """Tick until the alert is over, which edits its message and adds to its thread."""
    for n in (1, 2, 3, 4, 5, 6, 7):
        await side.bot.tick(NOON + n * FIVE)


async def gone(side: Side) -> None:
    """Decide on an alert whose message somebody has deleted."""
    side.fails("gone")
    await side.press(f"ack {side.alert}")


async def tells_admin(side: Side) -> None:
    await side.bot.tell_admins("The watch fails.")


WORDS: Mapping[str, Scene] = {
    "a mention in the channel": lambda side: side.mention("alerts"),
    "a mention in a thread": lambda side: side.mention("alerts", thread="3.3"),
    "a mention with no word": lambda side: side.mention(""),
    "a mention in the alert's thread, of no alert by name": lambda side: side.mention("ack", thread=side.message),
    "a mention elsewhere, of no alert by name": lambda side: side.mention("ack"),
    "a direct message": lambda side: side.direct("alerts"),
    "a slash command": lambda side: side.slash("alerts"),
    "plain words": lambda side: side.mention("what is wasted right now?"),
    "plain words that may mean several lines": lambda side: side.direct("llama cost or idle"),
    "plain words that would change something": lambda side: side.direct(f"please acknowledge {side.alert}"),
    "a word that is no command": lambda side: side.mention("cots 7d"),
    "an argument that does not fit": lambda side: side.slash("alerts soon=maybe"),
    "a question that the bill alone answers": lambda side: side.mention("cost 7d by team"),
    "a table as a file": lambda side: side.slash("csv alerts"),
    "a line that is for admins": lambda side: side.mention("config set idle.below 15%"),
    "the same from an admin": lambda side: side.slash("config set idle.below 15%", by="ada"),
    "somebody who is assigned by a mention": assigned,
}  # fmt: skip
SHARED = "a channel that another organization reads"
PEOPLE: Mapping[str, Scene] = {
    "home is opened": lambda side: side.home(),
    "somebody joins": lambda side: side.member_joins(),
    "a reaction": lambda side: side.reaction(),
    "a message that was edited": lambda side: side.edited(),
    "a message and a press that come twice": again,
    "a guest": lambda side: side.mention("alerts", by="gus"),
    "people of another organization": strangers,
    "a payload that names another organization": foreign,
    SHARED: asked_and_shared,
    "the bot is removed": lambda side: side.removed(),
}
PRESSES: Mapping[str, Scene] = {
    "acknowledge": lambda side: side.press(f"ack {side.alert}"),
    "why": lambda side: side.press(f"why {side.alert}", opens=True) if isinstance(side, SlackSide) else side.press("", data={"line": f"why {side.alert}", "stands": True}),
    "a button of a message to one person": lambda side: side.press("alerts", private=True),
    "a button from another time": lambda side: side.stale(),
    "share": share,
    "a form": lambda side: form(side, reason="the loader is known"),
    "a form with a mistake": lambda side: form(side, ceiling="lots"),
    "a press of what was decided": lambda side: side.press(f"unack {side.alert}"),
    "a press for admins": lambda side: side.press("config undo"),
}  # fmt: skip
TROUBLE: Mapping[str, Scene] = {
    "a limit of a moment": lambda side: failing(side, "limit"),
    "a limit of a minute": lambda side: failing(side, "limit 60"),
    "a platform that is away": lambda side: failing(side, "away"),
    "a channel that the bot is not in": lambda side: failing(side, "refused"),
    "a limit of a moment, alone": lambda side: failing_alone(side, "limit"),
    "a limit of a minute, alone": lambda side: failing_alone(side, "limit 60"),
    "a platform that is away, alone": lambda side: failing_alone(side, "away"),
    "an alert that ends": worse_and_over,
    "an alert's message that was deleted": gone,
    "a sentence to an admin": tells_admin,
}
CHAPTERS = {"words": WORDS, "people": PEOPLE, "presses": PRESSES, "trouble": TROUBLE}


ALERTS = "https://trnbot.example/alert/"


async def linked(side: Side, url: str, by: str = "dana") -> None:
    """Post a link to a page of the console."""
    assert isinstance(side, SlackSide)
    link = {"type": "link_shared", "user": side.id(by), "channel": "C1", "message_ts": "7.1"}
    await side.event(link | {"links": [{"url": url}]})


async def typed_in_a_window(side: Side, **where: object) -> None:
    """Open the window where a line is typed, and type one."""
    assert isinstance(side, SlackSide)
    user = {"id": side.id("dana"), "username": "dana"}
    await side._sent(side.people.interact({"callback_id": "trn_ask", "user": user} | where))
    await side.submit(side.views()[-1], line="alerts")


MESSAGE = {
    "type": "message_action",
    "channel": {"id": "C1"},
    "message": {"ts": "6.6", "text": "<@UBOT> alerts"},
}


async def shown_and_pressed(side: Side) -> None:
    """Ask for an answer with a main button in a window, and press that."""
    assert isinstance(side, SlackSide)
    await side.press(f"silences drop {side.alert}", opens=True)
    await side.press(f"alert {side.alert}", opens=True)
    await side.submit(side.views()[-1])


SLACK: Mapping[str, Scene] = {
    "a shortcut anywhere": lambda side: typed_in_a_window(side, type="shortcut"),
    "a shortcut on a message": lambda side: typed_in_a_window(side, **MESSAGE),
    "a window and its main button": shown_and_pressed,
    "a link to an alert": lambda side: linked(side, f"{ALERTS}{side.alert}?tab=why"),
    "a link to no alert": lambda side: linked(side, f"{ALERTS}a1/more"),
    "a link that another organization posts": lambda side: linked(side, f"{ALERTS}{side.alert}", "eve"),
    "the messages of the app are opened": lambda side: side.event({"type": "app_home_opened", "user": "UDANA", "tab": "messages"}),
    "a message of a bot": lambda side: side.direct("alerts", bot_id="B9"),
    "a message in a channel": lambda side: side.direct("alerts", channel_type="channel", channel="C1"),
    "a direct message in a thread": lambda side: side.direct("alerts", thread_ts="8.0"),
    "a press in a thread": lambda side: side.press("alerts", thread="3.3"),
    "a press whose answer has no address": lambda side: side.press("alerts", response_url=""),
    "a button of App Home": lambda side: side.press("alerts", channel={}, container={"type": "view"}, message={}, view={"type": "home", "id": "V0"}, response_url=""),
}  # fmt: skip


def answering(statuses: str, scene: Scene) -> Scene:
    """Return a scene in which Teams answers so first, waiting for nothing."""

    async def answered(side: Side) -> None:
        assert isinstance(side, TeamsSide)
        for status in map(int, statuses.split()):
            body = {} if status < 400 else {"error": {"code": "Refused"}}
            answer = web.json_response(body, status=status, headers={"Retry-After": "0"})
            side.connector.answers.append(answer)
        await scene(side)

    return answered


TEAMS: Mapping[str, Scene] = {
    "installed for one person": lambda side: side.installed(personal=True),
    "installed by a stranger": lambda side: side.installed(by="eve"),
    "installed twice": lambda side: side.installed(),
    "an older client submits a form": lambda side: side.direct("", value={"line": "alerts", "form": 0, "fields": ["cluster"], "f0.cluster": "llama"}),
    "a message that Teams refuses": answering("500", lambda side: side.mention("alerts")),
    "a message that is gone": answering("404", lambda side: side.press(f"ack {side.alert}")),
    "another kind of invoke": lambda side: side.press("alerts", name="composeExtension/query"),
    "a press in a personal chat": lambda side: side.press("alerts", conversation=dict(PERSONAL)),
    "a press that shares from a personal chat": lambda side: side.press("share alerts", conversation=dict(PERSONAL)),
    "a short answer to an alert": lambda side: side.press("", data={"line": f"ack {side.alert}", "stands": True}),
}  # fmt: skip


def refusing(codes: str, scene: Scene) -> Scene:
    """Return a scene in which Slack refuses methods, each with its codes: `views.open=expired, ...`."""

    async def refused(side: Side) -> None:
        assert isinstance(side, SlackSide)
        for refusal in codes.split(", "):
            method, _, code = refusal.partition("=")
            side.slack.failing.setdefault(method, []).append(code)
        await scene(side)

    return refused


SLACK_REFUSES = (
    ("views.open=expired_trigger_id", lambda side: side.press(f"why {side.alert}", opens=True)),
    ("views.open=expired_trigger_id", SLACK["a shortcut anywhere"]),
    ("views.update=not_found", lambda side: side.press(f"why {side.alert}", opens=True)),
    ("views.publish=missing_scope", lambda side: side.home()),
    ("chat.unfurl=invalid_metadata", SLACK["a link to an alert"]),
    ("chat.unfurl=429 0", SLACK["a link to an alert"]),
    ("chat.unfurl=invalid_metadata, chat.unfurl=cannot_unfurl_url", SLACK["a link to an alert"]),
    ("files.getUploadURLExternal=missing_scope, files.getUploadURLExternal=missing_scope", lambda side: side.slash("csv alerts")),
    ("files.getUploadURLExternal=missing_scope", lambda side: side.mention("csv alerts")),
    ("conversations.open=cannot_dm_bot", lambda side: side.slash("csv alerts")),
    ("users.info=user_not_found", lambda side: side.mention("alerts")),
    ("users.info=internal_error", lambda side: side.slash("alerts")),
    ("auth.test=invalid_auth, auth.test=invalid_auth", lambda side: side.mention("alerts")),
    ("response=400", lambda side: side.slash("alerts")),
    ("response=400, chat.postEphemeral=user_not_in_channel", lambda side: side.slash("alerts")),
    ("response=400, chat.postEphemeral=429 0", lambda side: side.slash("alerts")),
    ("chat.postMessage=invalid_blocks", lambda side: side.mention("help")),
    ("chat.postMessage=invalid_blocks, chat.postMessage=invalid_blocks", lambda side: side.mention("help")),
    ("response=400, response=400", lambda side: side.slash("help")),
    ("assistant.threads.setStatus=missing_scope", SLACK["a direct message in a thread"]),
    ("assistant.threads.setStatus=429 0", SLACK["a direct message in a thread"]),
    ("chat.postMessage=is_archived", lambda side: side.mention("alerts")),
    ("chat.postMessage=token_revoked", lambda side: side.mention("alerts")),
    ("chat.postMessage=missing_scope", lambda side: side.mention("alerts")),
    ("chat.update=edit_window_closed", lambda side: side.press(f"ack {side.alert}")),
    ("chat.update=not_in_channel", lambda side: side.press(f"ack {side.alert}")),
)  # fmt: skip


def roster(told: object, scene: Scene) -> Scene:
    """Return a scene in which the roster tells this of Dana, an hour after she was last asked after."""

    async def rostered(side: Side) -> None:
        assert isinstance(side, TeamsSide)
        side.connector.roster["29:new"] = told  # type: ignore[assignment]
        await scene(side)

    return rostered


MINE = {"id": "29:new", "tenantId": "T1", "name": "New", "userRole": "user"}
TEAMS_REFUSES = (
    *((status, lambda side: side.mention("alerts")) for status in ("401", "403", "404", "413", "500", "429", "412", "502 201", "504 504 504 504", "429 429 429 429", "502 429 500")),
    *((status, lambda side: side.direct("alerts")) for status in ("403", "429", "201 404")),
    *((status, lambda side: side.press(f"ack {side.alert}")) for status in ("404", "403", "404 500", "500")),
)  # fmt: skip
ROSTERS: tuple[object, ...] = (
    404,
    500,
    MINE,
    MINE | {"userRole": "guest"},
    MINE | {"userRole": "", "userPrincipalName": "new_x#EXT#@ours.example"},
    MINE | {"userRole": "", "userPrincipalName": "new@ours.example"},
    MINE | {"userRole": "anonymous"},
    MINE | {"tenantId": ""},
    MINE | {"tenantId": THEIRS},
    MINE | {"objectId": "0f8f"},
)


@pytest.mark.parametrize("kind", [SlackSide, TeamsSide])
async def test_what_a_platform_refuses_ends_as_it_was_last_read(kind: type[Side]) -> None:
    written = []
    if kind is SlackSide:
        for codes, scene in SLACK_REFUSES:
            calls = await seen(SlackSide, codes, refusing(codes, scene))
            written.append(told(codes, brief(calls), []))
    else:
        for statuses, scene in TEAMS_REFUSES:
            calls = await seen(kind, statuses, answering(statuses, scene))
            written.append(told(statuses, [], brief(calls)))
        for listed in ROSTERS:
            asks = roster(listed, lambda side: side.send(by="new", text="alerts", conversation=dict(PERSONAL), **{"from": {"id": "29:new", "name": "New", "aadObjectId": "1a2b"}}))  # fmt: skip
            written.append(told(str(listed), [], brief(await seen(kind, "", asks))))
    compare("".join(written), GOLDENS / f"{kind.name}_refuses.txt")


def brief(calls: Calls) -> Calls:
    """Keep of what is shown what tells it: its first two lines."""
    return [(words, shown[:2]) for words, shown in calls]


async def seen(kind: type[Side], title: str, scene: Scene) -> Calls:
    async with kind(shared=title == SHARED) as side:
        await side.alerted()
        await scene(side)
        await side.bot.settle()
        assert side.left_over() == []
        return side.went_out()


def told(title: str, slack: Calls, teams: Calls) -> str:
    """Return a scene in lines: each call of both, then what it shows."""
    lines = [f"## {title}"]
    for ours, theirs in zip_longest(steps(slack), steps(teams), fillvalue=([], [])):
        lines += [f"S {'; '.join(ours[0])}"] if ours[0] else []
        lines += [f"T {'; '.join(theirs[0])}"] if theirs[0] else []
        lines += side_by_side(ours[1], theirs[1])
    return "\n".join([*lines, "", ""])


def steps(calls: Calls) -> Iterator[tuple[list[str], list[str]]]:
    """Yield what is shown, with the call that shows it and those before that show nothing."""
    before: list[str] = []
    for words, shown in calls:
        before.append(words)
        if shown:
            yield before, shown
            before = []
    if before:
        yield before, []


@pytest.mark.parametrize(
    ("name", "kind", "scenes"),
    [("slack", SlackSide, SLACK), ("teams", TeamsSide, TEAMS), ("teams", AgentsSide, TEAMS)],
    ids=["slack", "teams", "the other SDK of teams"],
)
async def test_what_one_of_them_alone_has_is_what_was_last_read(
    name: str, kind: type[Side], scenes: Mapping[str, Scene]
) -> None:
    written = []
    for title, scene in scenes.items():
        calls = await seen(kind, title, scene)
        written.append(told(title, *((calls, []) if kind is SlackSide else ([], calls))))
    compare("".join(written), GOLDENS / f"{name}.txt")


@pytest.mark.parametrize("chapter", CHAPTERS)
async def test_what_goes_out_is_what_was_last_read(chapter: str) -> None:
    scenes = [
        told(title, await seen(SlackSide, title, scene), await seen(TeamsSide, title, scene))
        for title, scene in CHAPTERS[chapter].items()
    ]
    compare("".join(scenes), GOLDENS / f"{chapter}.txt")


async def test_the_alert_is_said_as_it_was_last_read() -> None:
    said = []
    for kind in (SlackSide, TeamsSide):
        async with kind() as side:
            if isinstance(side, TeamsSide):
                await side.installed()
            await side.bot.tick(NOON)
            said.append(side.went_out())
    compare(told("an alert begins", *said), GOLDENS / "alert.txt")
