"""Whatever a library logs, a line of the log is one line, short, and holds no secret."""

from __future__ import annotations

import asyncio
import io
import json
import logging
import time
from collections.abc import Iterator
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from botbuilder.schema import Activity
from botframework.connector import ConnectorClient
from msrest.authentication import BasicTokenAuthentication
from slack_sdk.web.async_client import AsyncWebClient
from slack_sdk.webhook.async_client import AsyncWebhookClient

from bot.errors import Unavailable, redact, spellings
from bot.settings.settings import read_settings
from bot.wiring.logs import MESSAGE_CHARS, TRACE_CHARS, LogFormatter, hide

FORMAT = "%(asctime)s %(levelname)s %(name)s %(message)s"
WEB_TOKEN, PASSWORD, SIGNING = (
    "correct horse battery",
    "pg/pass word+1",
    "8f742231b10e8888abcd99yyyzzz85a5",
)
CONFIGURED = {
    "TRNBOT_WEB_TOKEN": WEB_TOKEN,
    "TRNBOT_DATABASE_URL": "postgresql://bot:pg%2Fpass%20word%2B1@db/trnbot",
    "SLACK_BOT_TOKEN": "xoxb-1-2-AbCdEf",
    "SLACK_SIGNING_SECRET": SIGNING,
    "MicrosoftAppId": "app",
    "MicrosoftAppPassword": "Q~8app'pass\"word",
    "TRNBOT_SECRETS_KEY": f"{'k' * 43}=, {'n' * 43}=",
}


@pytest.fixture
def written() -> Iterator[Any]:
    """Return what the log of `serve` writes: each record of every library, at DEBUG."""
    stream, root = io.StringIO(), logging.getLogger()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(LogFormatter(FORMAT))
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    hide(read_settings(CONFIGURED).secrets())
    yield stream.getvalue
    hide([])
    root.removeHandler(handler)
    root.setLevel(level)


LOG = logging.getLogger("a.library")


def test_a_line_from_outside_cannot_forge_another_or_colour_the_terminal(written: Any) -> None:
    LOG.warning(
        "asked by %s",
        "U1\n2026-11-22 00:00:00,000 INFO trnbot forged\r\x1b[31mred\x00\u2028\u202eevil\x85",
    )
    (line,) = written().splitlines()
    assert (
        r"U1\n2026-11-22 00:00:00,000 INFO trnbot forged\r\x1b[31mred\x00\u2028\u202eevil\x85"
        in line
    )
    assert line.isprintable()


def test_a_failure_that_says_what_to_do_is_a_line_and_has_its_trace_with_verbose_alone(
    written: Any,
) -> None:
    def fail(error: Exception) -> None:
        try:
            raise error
        except Exception:
            LOG.exception("not weighed")

    fail(Unavailable("The disk is full; free some space."))
    assert "Traceback" in written()
    before = len(written())
    logging.getLogger().setLevel(logging.INFO)
    fail(Unavailable("The disk is full; free some space."))
    assert written()[before:].endswith("not weighed: The disk is full; free some space.\n")
    assert written()[before:].count("\n") == 1
    fail(ValueError("a bug"))
    assert "ValueError: a bug" in written()[before:]


def test_text_that_is_meant_to_be_read_stays(written: Any) -> None:
    LOG.warning("Zoë paid 3 €, naïve – “quoted” 日本語 C:\\x %s", "100 %")
    assert "Zoë paid 3 €, naïve – “quoted” 日本語 C:\\x 100 %" in written()


@pytest.mark.parametrize("size", [3_000, 40_000, 5_000_000])
@pytest.mark.parametrize("unit", ["x", "word ", "\x1b", "xoxb-1-2-AbCdEf "])
def test_a_long_text_is_cut_and_costs_little(written: Any, size: int, unit: str) -> None:
    started = time.perf_counter()
    LOG.warning("body %s", unit * (size // len(unit)))
    assert time.perf_counter() - started < 1
    assert len(written()) < MESSAGE_CHARS + 100
    assert "xoxb" not in written()


@pytest.mark.parametrize(
    "unit",
    [
        "://a:b",
        "http://",
        "xoxb-",
        "eyJaaaaaaaa.",
        "'code': '",
        "token=",
        "Bearer ",
        "a",
        "-",
        "secret_",
    ],
)
def test_no_text_makes_the_search_for_secrets_slow(unit: str) -> None:
    text = unit * (32_000 // len(unit))
    started = time.perf_counter()
    redact(text)
    assert time.perf_counter() - started < 1


def test_a_traceback_stays_readable_is_capped_and_forges_nothing(written: Any) -> None:
    def deep(left: int) -> None:
        if left:
            deep(left - 1)
        raise ValueError(f"broken\n2026-11-22 INFO trnbot forged {WEB_TOKEN}\n" + "y" * 100_000)

    try:
        deep(3)
    except ValueError:
        LOG.exception("it failed")
    first, *trace = written().splitlines()
    assert first.endswith("it failed")
    assert all(line.startswith("  | ") for line in trace)
    assert any("in deep" in line for line in trace)
    assert len(written()) < TRACE_CHARS + 1_000
    assert WEB_TOKEN not in written()


def test_arguments_that_do_not_fit_are_told_and_not_printed_bare(written: Any) -> None:
    record = logging.LogRecord(
        "a.library", logging.WARNING, __file__, 1, "one %s %s", (WEB_TOKEN,), None
    )
    assert LogFormatter("%(message)s").format(record) == "one %s %s (TypeError in its arguments)"


def test_every_configured_secret_is_hidden_whoever_logs_it(written: Any) -> None:
    settings = read_settings(CONFIGURED)
    password = settings.text("teams.app_password")
    for text in (
        WEB_TOKEN,
        SIGNING,
        PASSWORD,
        "pg%2Fpass%20word%2B1",
        "k" * 43 + "=",
        "n" * 43 + "=",
        password,
    ):
        LOG.info("%s", text)
        LOG.info("%r", {"given": text})
        LOG.info("%s", json.dumps({"given": text}))
        LOG.info("connecting to postgresql://bot:%s@db/trnbot", text)
    log = written()
    for shown in (WEB_TOKEN, SIGNING, "pass word", "pass%20word", "kkkk", "nnnn", "Q~8app"):
        assert shown not in log
    assert log.count("(hidden)") >= 28


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("xoxb-12-34-aBc", "(hidden)"),
        ("xoxe.xoxp-1-aBc", "(hidden)"),
        ("xapp-1-A0-99-abc", "(hidden)"),
        ("POST https://hooks.slack.com/commands/T1/2/x", "POST https://hooks.slack.com(hidden)"),
        ("Authorization: Bearer abc.def-ghi_jkl", "Authorization: (hidden)"),
        ("'Authorization': 'Basic Y2xpZW50OnNlY3JldA=='", "'Authorization': '(hidden)'"),
        ("postgresql://bot:hunter2@db/x", "postgresql://(hidden)@db/x"),
        ("https://x/?a=1&client_secret=hush-hush&b=2", "https://x/?a=1&client_secret=(hidden)&b=2"),
        ('{"access_token": "abcdef", "ok": true}', '{"access_token": "(hidden)", "ok": true}'),
        (
            "<SecretAccessKey>wJalrXUtnFEMI</SecretAccessKey>",
            "<SecretAccessKey>(hidden)</SecretAccessKey>",
        ),
        ("eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiIxIn0.c2ln", "(hidden)"),
        ("key AKIAIOSFODNN7EXAMPLE", "key (hidden)"),
        ("redirected with ?code=abc.def&state=x", "redirected with ?code=(hidden)&state=x"),
        ("SLACK_BOT_TOKEN is missing or not a bot token; it begins with xoxb-.", None),
        ("The console asks for its token (TRNBOT_WEB_TOKEN).", None),
        (
            "slack:C02FIN was not delivered: Slack cannot be reached at https://slack.com/api/chat.postMessage",
            None,
        ),
        ("installed in Slack workspace T0123", None),
        ("token=None password: True", None),
        ("no access: denied; basic authentication failed; aws_access_key_id unset", None),
        ("aws_secret_access_key = wJalrXUtnFEMI", "aws_secret_access_key = (hidden)"),
    ],
)
def test_what_looks_like_a_secret_is_hidden_and_nothing_else(text: str, shown: str | None) -> None:
    assert redact(text) == (shown or text)


def test_a_short_secret_hides_no_words() -> None:
    assert spellings(["abc"]) == ()


async def test_the_debug_log_of_slacks_sdk_holds_no_secret(written: Any) -> None:
    """The SDK logs whole requests and answers; here with its own loggers, which nobody of ours has touched."""
    token = "xoxb-99-88-S3CRETs3cret"

    async def answer(request: web.Request) -> web.Response:
        body = {
            "ok": True,
            "access_token": token,
            "said": f"{token}\n{WEB_TOKEN}",
            "long": "z" * 50_000,
        }
        return web.json_response(body)

    app = web.Application()
    app.router.add_route("*", "/{tail:.*}", answer)
    async with TestServer(app) as server:
        url = str(server.make_url("/api/"))
        client = AsyncWebClient(token=token, base_url=url)
        await client.auth_test()
        await client.oauth_v2_access(client_id="1.2", client_secret=SIGNING, code="grant-code-1")
        await AsyncWebhookClient(f"{url}_hooks/response/TICKET1").send(text=f"hello {token}")
    log = written()
    assert "slack_sdk" in log
    for secret in (token, "S3CRET", SIGNING, WEB_TOKEN, "TICKET1"):
        assert secret not in log
    assert max(map(len, log.splitlines())) < MESSAGE_CHARS + 100


async def test_the_debug_log_of_botbuilders_http_client_holds_no_secret(written: Any) -> None:
    """botbuilder's client is made of msrest and requests, which log headers and bodies both ways."""

    async def answer(request: web.Request) -> web.Response:
        return web.json_response(
            {
                "id": "m1",
                "said": f"{dict(request.headers)} {await request.text()}",
                "long": "z" * 50_000,
            }
        )

    app = web.Application()
    app.router.add_route("*", "/{tail:.*}", answer)
    token, password = (
        "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl",
        CONFIGURED["MicrosoftAppPassword"],
    )
    async with TestServer(app) as server:
        client = ConnectorClient(
            BasicTokenAuthentication({"access_token": token}), base_url=str(server.make_url(""))
        )
        client.config.enable_http_logger = True
        activity = Activity(
            type="message",
            text=f"hello\n2026 INFO forged {password} {WEB_TOKEN} \x1b[31m{'z' * 5_000}",
        )
        await asyncio.to_thread(client.conversations.send_to_conversation, "a:1", activity)
    log = written()
    assert "msrest" in log
    assert "/v3/conversations" in log
    for secret in ("c2lnbmF0dXJl", "eyJhbG", "Q~8app", WEB_TOKEN, "\x1b", "\n2026 INFO forged"):
        assert secret not in log
    assert max(map(len, log.splitlines())) < MESSAGE_CHARS + 100
