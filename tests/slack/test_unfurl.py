"""A link to an alert's page shows the alert under the message, to those who may read it."""

import json
from dataclasses import replace

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from adapters.chat.manifest import slack_manifest as manifest
from adapters.chat.slack.surface import SlackSurface
from adapters.store.memory import MemoryStore
from bot.cards.card import Button, Buttons, Card, Tone, text
from bot.model.request import Manner
from tests.slack.conftest import HINTS, NOW, Workspace, config, ports

ALERT = Card(
    "FIRING since 11:35 UTC · starved",
    Tone.CRITICAL,
    (text("Wasting $1,083 an hour"), Buttons((Button("Acknowledge", "ack a1"),))),
)
HOME = "https://trnbot.example.com"


def shared(*urls, **more):
    links = [{"domain": "trnbot.example.com", "url": url} for url in urls]
    return {
        "type": "link_shared",
        "user": "U1",
        "channel": "C1",
        "message_ts": "7.1",
        "links": links,
    } | more


@pytest.fixture
async def linked(slack, bot):
    bot.card = ALERT
    surface = SlackSurface(
        config(slack, bot_token="xoxb-secret-token", public_url=HOME), ports(bot, MemoryStore())
    )
    app = web.Application()
    app.add_routes(surface.routes())
    async with TestClient(TestServer(app)) as client:
        yield Workspace(client, surface, slack)
    await surface.stop()


async def test_a_link_to_an_alert_shows_what_it_leads_to(linked, slack, bot):
    await linked.event(shared(f"{HOME}/alert/a1b2c3?tab=why"))
    (shown,) = slack.sent("chat.unfurl")
    unfurls = (
        shown["unfurls"] if isinstance(shown["unfurls"], dict) else json.loads(shown["unfurls"])
    )
    drawn = json.dumps(unfurls[f"{HOME}/alert/a1b2c3?tab=why"])
    assert ("$1,083 an hour" in drawn, "Acknowledge" in drawn) == (True, False)
    assert (bot.asked[0].line, bot.asked[0].manner) == ("alert a1b2c3", Manner.VIEWED)


@pytest.mark.parametrize(
    "url",
    [
        f"{HOME}/cost",
        "https://elsewhere.example.com/alert/a1",
        f"{HOME}/alert/a1/../b",
        f"{HOME}/alert/a%20b",
    ],
)
async def test_other_links_are_left_alone(linked, slack, bot, url):
    await linked.event(shared(url))
    assert (slack.sent("chat.unfurl"), bot.asked) == ([], [])


async def test_an_alert_that_is_not_known_shows_nothing(linked, slack, bot):
    bot.card = Card("That did not work", Tone.ERROR)
    await linked.event(shared(f"{HOME}/alert/a1"))
    assert slack.sent("chat.unfurl") == []


@pytest.mark.parametrize(
    ("people", "channels"),
    [
        ({"U1": {"team_id": "T9"}}, {}),
        ({"U1": {"is_restricted": True}}, {}),
        ({}, {"C1": {"is_ext_shared": True}}),
    ],
    ids=["a stranger's", "a guest's", "where strangers read"],
)
async def test_nothing_is_shown_to_who_does_not_belong(linked, slack, bot, people, channels):
    slack.people, slack.channels = people, channels
    await linked.event(shared(f"{HOME}/alert/a1"))
    assert slack.sent("chat.unfurl") == []


def test_the_manifest_asks_for_links_only_where_the_console_has_an_address():
    assert "links:read" not in str(manifest(HINTS))
    made = manifest(HINTS, f"{HOME}/")
    assert made["features"]["unfurl_domains"] == ["trnbot.example.com"]
    assert {"links:read", "links:write"} <= set(made["oauth_config"]["scopes"]["bot"])
    assert "link_shared" in made["settings"]["event_subscriptions"]["bot_events"]


DATA = {
    "id": "a1b2c3",
    "cause": "starved",
    "severity": "critical",
    "opened_at": NOW,
    "closed_at": None,
    "assigned_to": "bob",
}


def described(body):
    metadata = body.get("metadata") or "{}"
    return (metadata if isinstance(metadata, dict) else json.loads(metadata)).get("entities", [])


async def test_a_link_to_an_alert_comes_with_its_work_object(linked, slack, bot):
    bot.card = replace(ALERT, data=DATA)
    posted = f"{HOME}/alert/a1b2c3?tab=why"
    await linked.event(shared(posted))
    (body,) = slack.sent("chat.unfurl")
    (entity,) = described(body)
    assert (entity["entity_type"], entity["url"], entity["app_unfurl_url"]) == (
        "slack#/entities/incident",
        posted[:-8],
        posted,
    )
    assert entity["external_ref"] == {"id": "a1b2c3", "type": "alert"}
    fields = entity["entity_payload"]["fields"]
    assert (fields["status"]["value"], fields["priority"]["value"]) == ("Firing", "Critical")
    assert (fields["assigned_to"]["user"]["text"], fields["date_created"]["value"]) == (
        "bob",
        int(NOW.timestamp()),
    )


async def test_an_app_without_work_objects_shows_the_words_alone(linked, slack, bot):
    bot.card = replace(ALERT, data=DATA)
    slack.failing["chat.unfurl"] = ["invalid_metadata_format"]
    for n in (1, 2):
        await linked.event(shared(f"{HOME}/alert/a{n}"), event_id=f"Ev{n}")
    assert [len(described(body)) for body in slack.sent("chat.unfurl")] == [1, 0, 0]
    assert "$1,083 an hour" in str(slack.sent("chat.unfurl")[-1]["unfurls"])
