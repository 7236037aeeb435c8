"""Tokens decide: what Microsoft did not sign for this app is refused with 401, and never crashes."""

from __future__ import annotations

import base64
import time
from dataclasses import replace
from typing import Any

import jwt
import pytest
from aiohttp import web

from adapters.chat.config import PUBLIC, TeamsConfig, on_loopback
from adapters.chat.teams.surface import Token
from bot.errors import Unavailable, WrongInput
from tests.teams.signing import APP, ISSUER, KEY, OTHER, SECRET, Login, cloud, token


def lacking(bot: Any, *names: str) -> str:
    """Return a token of the Bot Connector without some of its claims."""
    claims = jwt.decode(token(bot), options={"verify_signature": False})
    return jwt.encode(
        {k: v for k, v in claims.items() if k not in names},
        KEY,
        algorithm="RS256",
        headers={"kid": "k1"},
    )


EMULATOR = "https://sts.windows.net/d6d49420-f39b-4df7-a1dc-d59a935871db/"
EMULATOR_2 = "https://login.microsoftonline.com/f8cdef31-a31e-4b4a-93e4-5f571e91255a/v2.0"


def unsigned(bot: Any) -> str:
    """Return a token of `alg: none`."""
    return jwt.encode(
        {"iss": ISSUER, "aud": APP, "exp": 9e9, "serviceurl": bot.service_url},
        None,
        algorithm="none",
    )


async def test_a_token_of_the_connector_is_believed_and_the_answer_carries_our_own(
    signed: Any, connector: Any
) -> None:
    status, _ = await signed.send(signed.activity(text="cost"), token(signed))
    await signed.settled()
    assert status == 200
    assert len(connector.cards()) == 1
    assert connector.headers[-1]["Authorization"] == "Bearer bearer-of-the-bot"


BAD = {
    "none at all": lambda bot: "",
    "garbage": lambda bot: "garbage",
    "three parts of garbage": lambda bot: "a.b.c",
    "json that is no header": lambda bot: base64.urlsafe_b64encode(b"[]").decode() + ".e30.x",
    "expired": lambda bot: token(bot, exp=int(time.time()) - 3600),
    "not yet": lambda bot: token(bot, nbf=int(time.time()) + 3600),
    "another key": lambda bot: token(bot, key=OTHER),
    "unknown key": lambda bot: token(bot, kid="k9"),
    "unsigned": unsigned,
    "HS256": lambda bot: token(bot, key="x" * 64, algorithm="HS256"),
    "another app": lambda bot: token(bot, aud="someone-else"),
    "another issuer": lambda bot: token(bot, iss="https://evil.example"),
    "another service": lambda bot: token(bot, serviceurl="https://evil.example"),
    "no service": lambda bot: token(bot, serviceurl=None),
    "a skill": lambda bot: token(
        bot,
        ver="1.0",
        appid="another-bot",
        iss="https://sts.windows.net/d6d49420-f39b-4df7-a1dc-d59a935871db/",
    ),
    "that never expires": lambda bot: lacking(bot, "exp"),
    "that expires at null": lambda bot: token(bot, exp=None),
    "that expires at infinity": lambda bot: token(bot, exp=float("inf")),
    "written in ten minutes": lambda bot: token(bot, iat=int(time.time()) + 600),
    "valid in six minutes": lambda bot: token(bot, nbf=int(time.time()) + 360),
    "expired six minutes ago": lambda bot: token(bot, exp=int(time.time()) - 360),
    "without audience": lambda bot: lacking(bot, "aud"),
    "for several apps": lambda bot: token(bot, aud=[APP, "someone-else"]),
    "without issuer": lambda bot: lacking(bot, "iss"),
    "without service": lambda bot: lacking(bot, "serviceurl"),
    "without key": lambda bot: jwt.encode(
        jwt.decode(token(bot), options={"verify_signature": False}), KEY, algorithm="RS256"
    ),
    "of the emulator, outside development": lambda bot: token(
        bot, ver="1.0", appid=APP, iss=EMULATOR
    ),
    "of the emulator, second version": lambda bot: token(bot, ver="2.0", azp=APP, iss=EMULATOR_2),
    "of the emulator, that never expires": lambda bot: token(
        bot, ver="1.0", appid=APP, iss=EMULATOR, exp=None
    ),
    "of a stranger through the emulator": lambda bot: token(
        bot,
        ver="1.0",
        appid=APP + "0",
        aud=APP,
        iss="https://sts.windows.net/d6d49420-f39b-4df7-a1dc-d59a935871db/",
    ),
}


@pytest.mark.parametrize("name", BAD)
async def test_a_bad_token_is_refused(signed: Any, name: str) -> None:
    assert (await signed.send(signed.activity(text="cost"), BAD[name](signed)))[0] == 401
    assert signed.asked == []
    assert not signed.shelf.newest("teams.conversations", 9)


async def test_in_development_the_emulator_signs_for_this_app_alone(
    new_bot: Any, login: Login
) -> None:
    bot = await new_bot(
        app_id=APP, app_password=SECRET, tenant_id="T1", development=True, cloud=cloud(login)
    )
    for issuer, app, status in (
        (EMULATOR, APP, 200),
        (EMULATOR, "another", 401),
        (EMULATOR + "x", APP, 401),
    ):
        said = token(bot, ver="1.0", appid=app, iss=issuer)
        assert (await bot.send(bot.activity(text="cost"), said))[0] == status
    assert (
        await bot.send(bot.activity(text="cost"), token(bot, ver="2.0", azp=APP, iss=EMULATOR_2))
    )[0] == 200
    assert (
        await bot.send(
            bot.activity(text="cost"), token(bot, ver="1.0", appid=APP, iss=EMULATOR, exp=None)
        )
    )[0] == 401


async def test_a_channel_other_than_teams_is_refused_even_where_the_key_speaks_for_it(
    new_bot: Any, login: Login
) -> None:
    """Web Chat lets its callers name themselves and their tenant."""
    login.endorsements = ["msteams", "webchat"]
    bot = await new_bot(
        app_id=APP, app_password=SECRET, tenant_id="T1", development=False, cloud=cloud(login)
    )
    assert (await bot.send(bot.activity(text="cost", channelId="webchat"), token(bot)))[0] == 401
    assert bot.asked == []


async def test_a_key_without_endorsements_speaks_for_no_channel(new_bot: Any, login: Login) -> None:
    login.endorsements = []
    bot = await new_bot(
        app_id=APP, app_password=SECRET, tenant_id="T1", development=False, cloud=cloud(login)
    )
    assert (await bot.send(bot.activity(text="cost"), token(bot)))[0] == 401


async def test_a_channel_that_the_key_does_not_speak_for_is_refused(signed: Any) -> None:
    activity = signed.activity(text="cost", channelId="directline")
    assert (await signed.send(activity, token(signed)))[0] == 401


STRANGER = {"id": "a:x", "conversationType": "personal", "tenantId": "T2"}


async def test_another_tenant_is_refused_in_words_without_data_and_told_to_an_admin_once(
    signed: Any, connector: Any
) -> None:
    for _ in range(3):
        assert (
            await signed.send(signed.activity(text="cost", conversation=STRANGER), token(signed))
        )[0] == 403
        await signed.settled()
    assert signed.asked == []
    (card,) = connector.cards()
    assert "does not serve your organization" in str(card)
    assert "cost" not in str(card)
    assert signed.told == [
        "Teams tenant T2 wrote to the bot and was refused; TRNBOT_TEAMS_TENANTS lists who is served."
    ]
    assert not signed.shelf.newest("teams.conversations", 9)
    assert not signed.shelf.newest("teams.people", 9)


@pytest.mark.parametrize(("tenants", "status"), [(("T2",), 200), (("*",), 200), (("T3",), 403)])
async def test_tenants_are_allowed_by_list(
    new_bot: Any, login: Login, tenants: tuple[str, ...], status: int
) -> None:
    settings = {
        "app_id": APP,
        "app_password": SECRET,
        "tenant_id": "T1",
        "development": False,
        "cloud": cloud(login),
    }
    listed = await new_bot(**settings, tenants=tenants)
    assert (
        await listed.send(
            listed.activity(text="cost", conversation=STRANGER, channelData={}), token(listed)
        )
    )[0] == status
    assert (await listed.send(listed.activity(text="cost"), token(listed)))[0] == 200


@pytest.mark.parametrize("both", [{"tenantId": "T1"}, {}])
async def test_every_tenant_that_is_named_is_served_and_one_is(
    signed: Any, both: dict[str, str]
) -> None:
    """A guest's activity may name two; one that names none comes from nobody who is listed."""
    here = {"id": "a:x", "conversationType": "personal", **both}
    other = {"tenant": {"id": "T2"}} if both else {}
    assert (
        await signed.send(
            signed.activity(text="cost", conversation=here, channelData=other), token(signed)
        )
    )[0] == 403
    await signed.settled()
    assert signed.asked == []


async def test_what_a_stranger_presses_is_refused_in_one_sentence_and_does_nothing(
    signed: Any, connector: Any
) -> None:
    value = {"action": {"data": {"line": "cost"}}}
    pressed = signed.activity(
        type="invoke", name="adaptiveCard/action", conversation=STRANGER, value=value
    )
    status, body = await signed.send(pressed, token(signed))
    assert (status, body["value"]) == (
        200,
        "This bot does not serve your organization; nothing was read or changed.",
    )
    assert connector.calls == signed.asked == []


async def test_keys_are_fetched_once_and_an_unknown_key_asks_again_only_after_a_while(
    signed: Any, login: Login
) -> None:
    for _ in range(3):
        await signed.send(signed.activity(text="cost"), token(signed))
    await signed.send(signed.activity(text="cost"), token(signed, kid="k9"))
    assert login.asked.count("configuration") == 1


async def test_without_keys_the_answer_is_503_and_the_next_request_tries_again(
    signed: Any, login: Login
) -> None:
    login.down = True
    assert (await signed.send(signed.activity(text="cost"), token(signed)))[0] == 503
    login.down = False
    assert (await signed.send(signed.activity(text="cost"), token(signed)))[0] == 200


async def test_the_secret_reaches_microsoft_and_no_log(
    signed: Any, login: Login, caplog: pytest.LogCaptureFixture
) -> None:
    login.refuses = True
    await signed.send(signed.activity(text="cost"), token(signed))
    await signed.settled()
    assert f"token {APP} {SECRET} T1" in login.asked
    assert "MicrosoftAppPassword" in caplog.text
    assert SECRET not in caplog.text


async def test_a_service_address_elsewhere_is_refused_even_when_signed(signed: Any) -> None:
    elsewhere = "http://127.0.0.1.evil.example/"
    activity = signed.activity(text="cost") | {"serviceUrl": elsewhere}
    assert (await signed.send(activity, token(signed, serviceurl=elsewhere)))[0] == 403


@pytest.mark.parametrize(
    ("url", "ours"),
    [
        ("https://smba.trafficmanager.net/emea/", True),
        ("https://SMBA.trafficmanager.net:443/teams", True),
        ("https://europe.botframework.com", True),
        ("http://smba.trafficmanager.net/", False),
        ("https://smba.trafficmanager.net.evil.example/", False),
        ("https://evilbotframework.com/", False),
        ("https://smba.trafficmanager.net@evil.example/", False),
        ("https://smba.trafficmanager.net:8443/", False),
        ("https://smba.trafficmanager.net:x/", False),
        ("https://smba.trafficmanager.net\t.evil.example/", False),
        ("https://smba.trafficmanager.net.", False),
        ("https://evil.example#.botframework.com", False),
        ("https://evil.example/.botframework.com", False),
        ("https://evil.example\\@smba.trafficmanager.net/", False),
        ("https://[::1", False),
        ("http://169.254.169.254/latest", False),
        ("", False),
    ],
)
def test_only_services_of_microsoft_are_answered(url: str, ours: bool) -> None:
    assert PUBLIC.serves(url) is ours


@pytest.mark.parametrize(
    ("url", "here"),
    [
        ("http://localhost:56150", True),
        ("http://[::1]:1", True),
        ("http://127.8.8.8/x", True),
        ("http://10.0.0.1", False),
    ],
)
def test_development_answers_this_machine_alone(url: str, here: bool) -> None:
    assert on_loopback(url) is here


@pytest.mark.parametrize(
    "where", ["http://{}/", "http://localhost@{}/", "http://[::ffff:127.0.0.1]:{}/"]
)
async def test_the_bots_token_goes_to_no_forged_service(
    new_bot: Any, login: Login, serve: Any, where: str
) -> None:
    """A request that is signed, a stored reference and an opened chat lead to a service that is none of Microsoft's."""
    heard: list[str] = []

    async def take(request: web.Request) -> web.Response:
        heard.append(str(request.headers.get("Authorization")))
        return web.json_response({"id": "m"})

    evil = await serve([web.route("*", "/{tail:.*}", take)])
    forged = where.format(
        evil.removeprefix("http://").removeprefix("127.0.0.1:" if "ffff" in where else "")
    )
    bot = await new_bot(
        app_id=APP,
        app_password=SECRET,
        tenant_id="T1",
        development=False,
        cloud=replace(cloud(login), services=PUBLIC.services),
    )
    said = bot.activity(text="cost") | {"serviceUrl": forged}
    assert (await bot.send(said, token(bot, serviceurl=forged)))[0] == 403
    client = bot.surface._client
    calls = (
        client.get(forged, "/a/members/b"),
        client.open(forged, "b", "29:u", "T1"),
        client.call("POST", forged, "a", "", {}),
    )
    for call in calls:
        with pytest.raises(Unavailable, match="none of Microsoft's"):
            await call
    assert heard == []
    assert [asked for asked in login.asked if asked.startswith("token")] == []


async def test_in_development_a_caller_who_names_another_host_is_refused(bot: Any) -> None:
    activity = bot.activity(text="cost") | {"serviceUrl": "http://10.0.0.1:9/"}
    assert (await bot.send(activity))[0] == 403


async def test_in_development_another_host_header_is_refused(bot: Any) -> None:
    assert (await bot.send(bot.activity(text="cost"), headers={"Host": "evil.example"}))[0] == 403


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"not json", 400),
        (b"[]", 400),
        (b"{}", 400),
        (b'{"type": "message"}', 400),
        (b'{"type": 7, "conversation": 8}', 400),
        (b"", 400),
        (
            b'{"type": "message", "conversation": {"id": ";messageid=1"}, "recipient": {"id": "28:b"}, "from": {"id": "29:d"}}',
            400,
        ),
        (
            b'{"type": "message", "conversation": {"id": ["a"]}, "recipient": {"id": "28:b"}, "from": {"id": "29:d"}}',
            400,
        ),
        (
            b'{"type": "message", "conversation": {"id": "a"}, "recipient": {"id": "28:b"}, "from": {"id": "29:\\ud800"}}',
            400,
        ),
        (
            b'{"type": "message", "channelId": ":", "conversation": {"id": "a"}, "recipient": {"id": "28:b"}, "from": {"id": "d"}}',
            400,
        ),
    ],
)
async def test_garbage_is_refused(bot: Any, body: bytes, status: int) -> None:
    assert await bot.raw(body) == status


async def test_another_content_type_is_refused(bot: Any) -> None:
    assert await bot.raw(b"{}", content_type="text/plain") == 415


@pytest.mark.parametrize(
    ("settings", "names"),
    [
        ({"app_id": "", "app_password": "", "development": False}, "MicrosoftAppId"),
        ({"app_id": APP, "app_password": "", "development": False}, "MicrosoftAppPassword"),
        ({"app_id": APP, "app_password": "", "development": True}, "MicrosoftAppPassword"),
    ],
)
def test_a_bot_without_credentials_does_not_start(settings: Any, names: str) -> None:
    with pytest.raises(WrongInput, match=names):
        TeamsConfig(**settings)


@pytest.mark.parametrize(
    ("signed_for", "channels", "covered"),
    [
        (None, (), True),
        ("https://x.example", ("msteams",), True),
        ("https://x.example", ("webchat",), False),
        ("https://y.example", ("msteams",), False),
    ],
)
def test_a_token_covers_its_own_service_and_channels(signed_for, channels, covered):
    class Said:
        service_url, channel_id = "https://x.example", "msteams"

    assert Token({}, signed_for, channels).covers(Said()) is covered
