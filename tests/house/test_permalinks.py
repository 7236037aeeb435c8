"""An answer says where the console gives it again, and who must sign in there first comes back to it."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from urllib.parse import parse_qs, urlsplit

import pytest

from adapters.web.auth import own_path
from adapters.web.links import address
from bot.cards.card import Buttons, Card, Link, Text
from bot.wiring.build import at_console
from tests.builders import NOON, anomaly, with_parts
from tests.house.fakes import Chat, Script, app, ask

CONSOLE = "https://trn.example.com"


def links(card: Card) -> list[str]:
    return [
        span.url
        for block in card.blocks
        if isinstance(block, Text)
        for span in block.spans
        if isinstance(span, Link)
    ]


@pytest.mark.parametrize("line", ["alerts", "config show idle", "help cost", "alert llama"])
async def test_an_answer_in_chat_links_to_the_console_that_gives_it_again(line: str) -> None:
    bot = app(Script(anomaly()), Chat())
    await bot.tick(NOON)
    bot.ports = with_parts(bot.ports, permalink=partial(at_console, CONSOLE, address))
    card = await bot.answer(ask(f"share {line}"))
    (url,) = links(card)
    asked = parse_qs(urlsplit(url).query)
    assert url.startswith(f"{CONSOLE}/")
    assert asked.get("line", [""])[0] in (line, "") and (asked or url.endswith("/alert/llama"))  # noqa: PT018
    assert not [
        block
        for block in card.blocks[:-2]
        if isinstance(block, Text) and block.spans[:1] == (Link("Open in console", url),)
    ]


@pytest.mark.parametrize(
    "changed",
    [{"surface": "web"}, {"line": "ack llama"}, {"line": "cost"}, {"line": "config idle"}],
)
async def test_the_console_itself_a_change_a_refusal_and_a_form_have_no_link(
    changed: dict[str, str],
) -> None:
    bot = app(Script(anomaly()), Chat())
    await bot.tick(NOON)
    bot.ports = with_parts(bot.ports, permalink=partial(at_console, CONSOLE, address))
    assert links(await bot.answer(replace(ask("alerts"), **changed))) == []  # type: ignore[arg-type]


async def test_without_a_public_console_there_is_no_link() -> None:
    bot = app(Script(), Chat())
    bot.ports = with_parts(bot.ports, permalink=partial(at_console, "", address))
    assert links(await bot.answer(ask("alerts"))) == []


async def test_the_buttons_of_an_answer_stay_last() -> None:
    bot = app(Script(anomaly()), Chat())
    await bot.tick(NOON)
    bot.ports = with_parts(bot.ports, permalink=partial(at_console, CONSOLE, address))
    card = await bot.answer(ask("home"))
    assert isinstance(card.blocks[-1], Buttons)
    assert links(card) == [f"{CONSOLE}/ask?line=home"]


@pytest.mark.parametrize(
    "path",
    [
        "//evil.example",
        "/\\evil.example",
        "https://evil.example",
        "/a\r\nSet-Cookie: x",
        "/%0d",
        "",
        "javascript:x",
    ],
)
def test_signing_in_leads_to_no_other_site(path: str) -> None:
    assert own_path(path) in ("/", "/%0d")


def test_signing_in_leads_back_to_the_line_of_a_link() -> None:
    assert (
        own_path("/ask?line=cost%207d%20by%20team%20team%3Dvision")
        == "/ask?line=cost%207d%20by%20team%20team%3Dvision"
    )
