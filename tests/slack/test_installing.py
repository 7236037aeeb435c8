"""Several workspaces install the app by OAuth, and each is spoken to with its own token."""

from datetime import UTC, datetime
from urllib.parse import parse_qs, urlsplit

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from adapters.chat.config import INSTALLATIONS, SlackConfig
from adapters.chat.manifest import SCOPES
from adapters.chat.slack.auth import Installation, InstallPages
from adapters.chat.slack.surface import SlackSurface
from adapters.store.open import open_store
from bot.cards.card import Card, Mention, text
from bot.errors import Refused
from tests.slack.conftest import Workspace, config, ports

ALERT = Card("FIRING", blocks=(text("Wasting $1,083 an hour"),))
MENTION = {
    "type": "app_mention",
    "user": "U1",
    "channel": "C1",
    "ts": "7.1",
    "text": "<@U0BOT> cost 7d by team",
}


def grant(team, **more):
    scope = ",".join(SCOPES)
    return {
        "access_token": f"xoxb-{team}",
        "scope": scope,
        "bot_user_id": "U0BOT",
        "team": {"id": team, "name": team},
    } | more


@pytest.fixture
def store(sqlite_url):
    opened = open_store(sqlite_url)
    yield opened
    opened.close()


@pytest.fixture
async def installing(slack, bot, store):
    """Yield a surface for two workspaces, and a browser that looks at it."""
    slack.granted = {f"code-{team}": grant(team) for team in ("T1", "T2", "T9")}
    app = {
        "client_id": "1.2",
        "client_secret": "hush-hush",
        "workspaces": ("T1", "T2"),
        "public_url": "http://trnbot.example",
    }
    surface = SlackSurface(config(slack, **app), ports(bot, store))
    app = web.Application()
    app.add_routes(surface.routes())
    async with TestClient(TestServer(app)) as browser:
        yield surface, browser
    await surface.stop()


async def begun(browser):
    """Open the page and return what Slack is asked."""
    answer = await browser.get("/slack/install", allow_redirects=False)
    assert answer.status == 302
    return {
        name: found[0]
        for name, found in parse_qs(urlsplit(answer.headers["Location"]).query).items()
    }


async def installed(browser, team):
    state = (await begun(browser))["state"]
    return await browser.get(
        "/slack/oauth_redirect", params={"state": state, "code": f"code-{team}"}
    )


async def test_the_page_sends_to_slack_with_the_scopes_of_the_manifest_and_no_secret(installing):
    _, browser = installing
    answer = await browser.get("/slack/install", allow_redirects=False)
    asked = parse_qs(urlsplit(answer.headers["Location"]).query)
    assert answer.headers["Location"].startswith("https://slack.com/oauth/v2/authorize?")
    assert asked["scope"] == [",".join(SCOPES)]
    assert asked["redirect_uri"] == ["http://trnbot.example/slack/oauth_redirect"]
    assert "hush" not in str(answer.headers)
    assert {"HttpOnly", "SameSite=Lax"} <= {
        part.strip() for part in answer.headers["Set-Cookie"].split(";")
    }


async def test_each_workspace_is_spoken_to_by_its_own_token(installing, slack):
    surface, browser = installing
    for team in ("T1", "T2"):
        answer = await installed(browser, team)
        assert (answer.status, team in await answer.text()) == (200, True)
    assert await surface.post("C1", ALERT, "k")
    assert await surface.post("T2/C1", ALERT, "k")
    await surface.edit("T2/C1", "1.1", ALERT, "k")
    spoken = [found for found in slack.tokens if found[0].startswith("chat.")]
    assert spoken == [
        ("chat.postMessage", "xoxb-T1"),
        ("chat.postMessage", "xoxb-T2"),
        ("chat.update", "xoxb-T2"),
    ]
    assert {body["channel"] for body in slack.sent("chat.postMessage", "chat.update")} == {"C1"}


async def test_who_asks_from_another_workspace_is_another_person(installing, slack, bot):
    surface, browser = installing
    await installed(browser, "T1")
    await installed(browser, "T2")
    space = Workspace(browser, surface, slack)
    await space.command("cost 7d")
    await space.command("cost 7d", team_id="T2")
    await space.event(MENTION, team="T2")
    heard = [(request.user.id, request.channel) for request in bot.asked]
    assert heard == [
        ("slack:U1", "slack:C1"),
        ("slack:T2/U1", "slack:T2/C1"),
        ("slack:T2/U1", "slack:T2/C1"),
    ]
    assert slack.tokens[-1] == ("chat.postMessage", "xoxb-T2")


async def test_a_person_of_another_workspace_is_not_pinged(installing, slack):
    surface, browser = installing
    await installed(browser, "T2")
    people = tuple(Mention(user, "x") for user in ("slack:U1", "slack:T2/U2", "slack:T1/U3"))
    await surface.post("T2/C1", Card("FIRING", mentions=people), "k")
    (body,) = slack.sent("chat.postMessage")
    assert [user for user in ("U1", "U2", "U3") if f"<@{user}>" in str(body)] == ["U2"]


async def test_what_is_not_installed_or_not_served_is_refused_by_name(installing, slack, bot):
    surface, browser = installing
    with pytest.raises(Refused, match=r"not installed in Slack workspace T1; open /slack/install"):
        await surface.post("C1", ALERT, "k")
    with pytest.raises(
        Refused, match=r"workspace T9 is not served; add it to TRNBOT_SLACK_WORKSPACES"
    ):
        await surface.post("T9/C1", ALERT, "k")
    await Workspace(browser, surface, slack).command("cost 7d", team_id="T9")
    assert bot.asked == []


async def test_a_workspace_that_is_listed_no_more_is_not_served_though_it_installed_the_app(
    installing, slack, bot
):
    surface, browser = installing
    await surface._installs.keep(
        Installation("T9", "Nine", "xoxb-T9", "U0BOT", "U1", datetime(2026, 11, 20, tzinfo=UTC))
    )
    await Workspace(browser, surface, slack).command("cost 7d", team_id="T9")
    with pytest.raises(Refused, match="not installed in Slack workspace T9"):
        await surface._workspaces.of("T9")
    assert bot.asked == []
    assert "xoxb-T9" not in {token for _, token in slack.tokens}


async def test_a_workspace_that_installs_again_is_spoken_to_by_its_new_token(installing, slack):
    surface, browser = installing
    for token in ("xoxb-T1", "xoxb-newer"):
        slack.granted["code-T1"] = grant("T1", access_token=token)
        await installed(browser, "T1")
        await surface.post("C1", ALERT, f"k {token}")
        assert slack.tokens[-1] == ("chat.postMessage", token)


async def test_a_workspace_that_nobody_listed_gets_no_installation_and_its_token_is_given_back(
    installing, slack, store
):
    _, browser = installing
    answer = await installed(browser, "T9")
    assert (answer.status, "T9 may not install" in await answer.text()) == (403, True)
    assert store.newest(INSTALLATIONS, 9) == []
    assert ("auth.revoke", "xoxb-T9") in slack.tokens


@pytest.mark.parametrize("break_", ["another browser", "used", "forged", "none", "old"])
async def test_a_state_is_for_one_browser_once_and_for_ten_minutes(
    installing, slack, store, break_
):
    _, browser = installing
    state = (await begun(browser))["state"]
    match break_:
        case "another browser":
            browser.session.cookie_jar.clear()
        case "used":
            await browser.get(
                "/slack/oauth_redirect", params={"state": state, "error": "access_denied"}
            )
        case "forged" | "none" | "old":
            nonce, until, signature = state.split(".")
            forged = {
                "forged": f"{nonce}.{until}.{signature[:-1]}x",
                "old": f"{nonce}.1.{signature}",
                "none": "",
            }
            state = forged[break_]
            browser.session.cookie_jar.update_cookies({"trnbot_slack_state": state})
    answer = await browser.get("/slack/oauth_redirect", params={"state": state, "code": "code-T1"})
    assert answer.status == 400
    assert slack.sent("oauth.v2.access") == []
    assert store.newest(INSTALLATIONS, 9) == []


@pytest.mark.parametrize(
    ("code", "failing", "says"),
    [
        ("code-T1", ["invalid_code"], "refused the installation with 'invalid_code'"),
        ("code-org", [], "into one workspace"),
        ("code-odd", [], "names no workspace"),
    ],
)
async def test_what_slack_answers_instead_of_an_installation_is_told_in_a_sentence(
    installing, slack, code, failing, says
):
    _, browser = installing
    slack.failing["oauth.v2.access"] = list(failing)
    slack.granted |= {
        "code-org": grant("T1", is_enterprise_install=True),
        "code-odd": {"access_token": "xoxb-x"},
    }
    state = (await begun(browser))["state"]
    answer = await browser.get("/slack/oauth_redirect", params={"state": state, "code": code})
    assert (400 <= answer.status < 600, says in await answer.text()) == (True, True)
    # What Slack granted for the whole organization is given back.
    assert ("auth.revoke" in dict(slack.tokens)) is (code == "code-org")


@pytest.mark.parametrize(
    "event",
    [
        {"type": "app_uninstalled"},
        {"type": "tokens_revoked", "tokens": {"oauth": [], "bot": ["U0BOT"]}},
    ],
)
async def test_a_workspace_that_removed_the_app_is_forgotten_and_may_come_back(
    installing, slack, store, event
):
    surface, browser = installing
    await installed(browser, "T1")
    await surface.post("C1", ALERT, "k")
    assert (await Workspace(browser, surface, slack).event(event))[0] == 200
    assert store.newest(INSTALLATIONS, 9) == []
    with pytest.raises(Refused, match="not installed"):
        await surface.post("C1", ALERT, "k")
    slack.granted["code-T1"] = grant("T1", access_token="xoxb-again")
    await installed(browser, "T1")
    await surface.post("C1", ALERT, "k")
    assert slack.tokens[-1] == ("chat.postMessage", "xoxb-again")


async def test_a_token_of_a_person_that_was_revoked_changes_nothing(installing, slack, store):
    surface, browser = installing
    await installed(browser, "T1")
    await Workspace(browser, surface, slack).event(
        {"type": "tokens_revoked", "tokens": {"oauth": ["U1"], "bot": []}}
    )
    assert len(store.newest(INSTALLATIONS, 9)) == 1


async def test_tokens_and_secrets_reach_no_log_and_no_page(installing, slack, caplog):
    surface, browser = installing
    caplog.set_level("DEBUG")
    pages = [await (await installed(browser, team)).text() for team in ("T1", "T9")]
    slack.failing["chat.postMessage"] = ["token_revoked"]
    with pytest.raises(Refused) as caught:
        await surface.post("C1", ALERT, "k")
    kept = await surface._installs.of("T1")
    logged = [record.getMessage() for record in caplog.records if record.name.startswith("trnbot")]
    seen = f"{logged}{pages}{caught.value}{kept!r}{surface._workspaces.opened()!r}"
    assert not [secret for secret in ("xoxb", "hush-hush", "code-T") if secret in seen]


async def test_an_event_is_answered_by_one_of_two_processes(installing, slack, bot, store):
    surface, browser = installing
    await installed(browser, "T1")
    other = SlackSurface(config(slack, bot_token="xoxb-T1"), ports(bot, store))
    app = web.Application()
    app.add_routes(other.routes())
    async with TestClient(TestServer(app)) as second:
        await Workspace(browser, surface, slack).event(MENTION)
        await Workspace(second, other, slack).event(MENTION, headers={"X-Slack-Retry-Num": "1"})
    assert len(bot.asked) == 1


async def test_a_route_to_a_person_opens_the_chat_with_them_and_keeps_to_it(installing, slack):
    surface, browser = installing
    await installed(browser, "T2")
    ts = await surface.post("T2/U01DANA", ALERT, "k")
    await surface.edit("T2/U01DANA", ts, ALERT, "k")
    await surface.reply("T2/U01DANA", ts, ALERT, "k1")
    await surface.posted("T2/U01DANA")
    spoken = {
        body["channel"]
        for body in slack.sent("chat.postMessage", "chat.update", "conversations.history")
    }
    assert spoken == {"D-U01DANA"}
    assert len(slack.sent("conversations.open")) == 1


async def test_a_person_nobody_knows_is_told_by_name(installing, slack):
    surface, browser = installing
    await installed(browser, "T1")
    slack.failing["conversations.open"] = ["user_not_found"]
    with pytest.raises(Refused, match="no person U0NOBODY"):
        await surface.post("U0NOBODY", ALERT, "k")


@pytest.mark.parametrize(
    ("public_url", "secure"), [("https://x.example", True), ("", True), ("http://x.example", False)]
)
async def test_the_state_of_an_installation_travels_by_https_alone_where_there_is_any(
    public_url, secure
):
    asked = SlackConfig(
        signing_secret="s", client_id="1.2", client_secret="hush", public_url=public_url
    )
    pages = InstallPages(asked, None, None, None)
    cookie = (await pages.begin(None)).cookies["trnbot_slack_state"]
    assert bool(cookie["secure"]) is secure
    assert (cookie["max-age"], bool(cookie["httponly"]), cookie["samesite"]) == ("600", True, "Lax")
