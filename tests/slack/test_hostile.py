"""Read what nobody should send: unsigned bodies, deep and huge ones, and texts made to be slow."""

import asyncio
import json
import time
from urllib.parse import urlencode

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer
from slack_bolt.request.async_request import AsyncBoltRequest

from adapters.chat.slack.auth import LARGEST_BODY
from adapters.chat.slack.client import loggable, sdk_log
from adapters.chat.slack.forms import Origin, parse_line, submitted_line, without_mention
from adapters.chat.slack.markup import chunks, code, cut, escape, mrkdwn_object, plain_text, size
from adapters.chat.slack.surface import SlackSurface
from adapters.store.memory import MemoryStore
from tests.cases import in_one_run
from tests.slack.conftest import config, ports

TOKEN = "xoxb-not-for-the-log"
NESTED = '{"a":' * 200_000
BODIES = {
    "nested JSON": (NESTED, "application/json"),
    "nested lists": ("[" * 500_000, "application/json"),
    "a nested payload": (
        urlencode({"payload": NESTED[:300_000]}),
        "application/x-www-form-urlencoded",
    ),
    "lines and tokens": (
        f"text={TOKEN}\nERROR forged line\n\x1b[2J",
        "application/x-www-form-urlencoded",
    ),
    "no text": ("\udcff\udcfe", "application/json"),
}
STAMPS = ("", "yesterday", "9" * 400, "9" * 5_000, "1e3", "-1", "١٢٣")


def written(body):
    return body.encode(errors="surrogateescape")


@pytest.fixture
async def whole_app(surface):
    """Yield the events route in an application whose errors are answered as the bot's own."""
    app = web.Application()
    app.add_routes(surface.routes())
    async with TestClient(TestServer(app)) as client:
        yield client


@pytest.mark.parametrize("kind", BODIES)
@pytest.mark.parametrize("stamp", STAMPS)
async def test_before_the_signature_is_checked_nothing_is_parsed_or_logged(
    whole_app, bot, caplog, kind, stamp
):
    caplog.set_level("DEBUG")
    body, content_type = BODIES[kind]
    headers = {
        "X-Slack-Signature": "v0=é",
        "X-Slack-Request-Timestamp": stamp,
        "Content-Type": content_type,
    }
    answer = await whole_app.post("/slack/events", data=written(body), headers=headers)
    assert (answer.status, bot.asked) == (401, [])
    ours = [
        record
        for record in caplog.records
        if record.name.startswith(("trnbot", "slack", "aiohttp.server"))
    ]
    assert [(record.exc_info, record.levelname) for record in ours] == [(None, "WARNING")]
    logged = ours[0].getMessage()
    assert len(logged) < 200
    assert not {"\n", "\x1b"} & set(logged)
    assert TOKEN not in caplog.text


async def test_a_body_over_the_limit_is_refused_before_it_is_kept_whole(whole_app, bot):
    async def endless():
        for _ in range(64):
            yield b"x" * 100_000

    answer = await whole_app.post("/slack/events", data=endless())
    assert (answer.status, str(LARGEST_BODY) in await answer.text(), bot.asked) == (413, True, [])


@pytest.mark.parametrize(
    "kind", ["nested JSON", "nested lists", "a nested payload", "lines and tokens"]
)
async def test_what_is_signed_and_no_payload_is_refused_in_one_line(workspace, bot, caplog, kind):
    caplog.set_level("DEBUG")
    body, content_type = BODIES[kind]
    status, text = await workspace.send(body[:900_000], content_type)
    assert (400 <= status < 500, "Traceback" in text, bot.asked) == (True, False, [])
    assert TOKEN not in caplog.text
    assert max(len(record.getMessage()) for record in caplog.records) < 1_100
    assert [
        record for record in caplog.records if "\n" in record.getMessage() or record.exc_info
    ] == []


@pytest.mark.parametrize("kind", ["unheard_of", "block_suggestion", "workflow_step_edit"])
async def test_a_payload_that_nobody_handles_is_not_shown_to_the_log(workspace, caplog, kind):
    caplog.set_level("DEBUG")
    await workspace.interact(
        {"type": kind, "token": TOKEN, "action_id": "a", "block_id": "b", "value": "secret plan"}
    )
    assert not [words for words in (TOKEN, "secret plan", "dana") if words in caplog.text]


async def test_socket_mode_takes_deep_and_huge_payloads_without_showing_them(slack, bot, caplog):
    caplog.set_level("DEBUG")
    tokens = {"bot_token": "xoxb-1", "app_token": "xapp-1"}
    surface = SlackSurface(config(slack, **tokens), ports(bot, MemoryStore()))
    deep = json.loads('{"a":' * 300 + "1" + "}" * 300)
    for payload in (
        {"type": "unheard_of", "deep": deep, "token": TOKEN},
        {"type": "events_api", "huge": TOKEN * 50_000},
        {},
    ):
        await surface._app.async_dispatch(AsyncBoltRequest(mode="socket_mode", body=payload))
    sdk_log.error("Failed to process a message: %s", NESTED + TOKEN)
    await surface.stop()
    assert TOKEN not in caplog.text
    assert max(len(record.getMessage()) for record in caplog.records) < 1_100
    assert bot.asked == []


def test_a_logged_text_is_one_short_line():
    assert loggable("a\nb\x1b[2J xoxb-1-2 c") == "a b[2J (hidden) c"
    assert len(loggable("x" * 100_000)) == 1_000


SLOW = {
    "open links": "<http://",
    "open mails": "<mailto:",
    "open names": "<@U1|",
    "open channels": "<#c|",
    "brackets": "<",
    "mentions": "<@U1>",
    "colons": ":",
    "an emoji without end": "a",
    "digits": "9",
    "empty lines": "\n",
    "spaces": " \t",
    "marks": "*_~`",
    "entities": "&#",
    "dashes": " —a",
    "faces": "\U0001f600",
}
READERS = {
    "parser": lambda text: parse_line(without_mention(text)),
    "escape": escape,
    "code": code,
    "plain": lambda text: plain_text(text, 3_000),
    "object": mrkdwn_object,
    "chunks": lambda text: chunks((text, "."), 2_900),
    "log": loggable,
}


def seconds(read, text):
    """Return the least time of five readings."""

    def once():
        begun = time.process_time()
        read(text)
        return time.process_time() - begun

    return min(once() for _ in range(5))


@in_one_run
@pytest.mark.timeout(120)
@pytest.mark.parametrize("kind", SLOW)
@pytest.mark.parametrize("reader", READERS)
def test_regexes_on_40_kb_of_text_take_ten_times_as_long_as_on_4_kb(reader, kind):
    read, unit = READERS[reader], SLOW[kind]
    short, long = (f":{unit * (size // len(unit))}" for size in (4_000, 40_000))
    assert seconds(read, long) <= 20 * max(seconds(read, short), 0.0005)


@pytest.mark.timeout(120)
@pytest.mark.parametrize("kind", SLOW)
def test_a_megabyte_is_read_as_its_beginning(kind):
    text = SLOW[kind] * (1_000_000 // len(SLOW[kind]))
    assert parse_line(text) == parse_line(text[:12_000])
    assert len(parse_line(text)) <= 3_000


@pytest.mark.parametrize(
    ("text", "most"),
    [("a" * 9, 5), ("\U0001f600" * 9, 5), ("a\U0001f600" * 9, 7), ("é" * 3, 3), ("", 1)],
)
def test_a_text_is_cut_to_the_length_that_slack_counts(text, most):
    assert size(cut(text, most)) <= most
    assert cut(text, most) == text or (
        cut(text, most).endswith("…") and size(cut(text, most)) >= most - 1
    )


def test_what_slack_escaped_is_unescaped_once():
    assert parse_line("team=&lt;a&gt; &amp;lt; &#39; &quot;") == "team=<a> &lt; &#39; &quot;"


def view(**fields):
    value = {"type": "plain_text_input", "value": "x"}
    return (
        {"callback_id": "trn_form", "private_metadata": Origin("C1", "", "snooze a1").dump()}
        | {"state": {"values": fields.pop("values", {"for": {"for": value}})}}
        | fields
    )


@pytest.mark.parametrize(
    "hostile",
    [
        {"private_metadata": "[" * 2_900},
        {"private_metadata": "x" * 100_000},
        {"values": {f"b{n}": {f"a{n}": {"value": "x"}} for n in range(200)}},
        {"values": {"b": {"for": {"value": "x" * 100_000}}}},
        {"values": {"b": {"n" * 10_000: {"value": "x"}}}},
    ],
)
async def test_a_modal_that_slack_would_not_send_is_refused(workspace, bot, hostile):
    with pytest.raises(ValueError, match=r"metadata|modal"):
        submitted_line(view(**hostile))
    status, _ = await workspace.submit(view(**hostile))
    assert (status, bot.asked) == (200, [])
    assert submitted_line(view()) == ("snooze a1 for=x", Origin("C1", "", "snooze a1"))
    await asyncio.sleep(0)
