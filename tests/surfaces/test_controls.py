"""Every control of every card, pressed once on each surface: the line that reaches the bot.

Cards are the samples of `tests/cards`. A line that is the same on all surfaces, which is what it says on the control, stands
once; `S` `T` `W` tell what Slack, Teams or the console make of it. `make goldens` writes them anew.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from adapters.chat.slack.forms import Origin, answer_view
from adapters.chat.slack.render import Around, message
from adapters.chat.teams.render import render
from bot.cards.card import Card, Form
from bot.model.request import Request
from tests.cards.samples import SAMPLES
from tests.cards.test_goldens import PAGES, compare
from tests.surfaces.sides import SlackSide, TeamsSide, controls, inputs
from tests.web.conftest import open_console

assert open_console
GOLDEN = Path(__file__).with_name("goldens") / "controls.txt"
FILLED: Mapping[str, str] = {"reason": 'say "x"', "until": "18:00", "ceiling": "500"}
"""What a person fills in where a form has a place for it."""
OWN = {"X-Trnbot": "console", "Sec-Fetch-Site": "same-origin"}


async def done(_: Request) -> Card:
    return Card("Done")


class Pressable(HTMLParser):
    """Collect the forms of a page as a browser would send them."""

    def __init__(self) -> None:
        super().__init__()
        self.forms: list[tuple[str, list[tuple[str, str]], str]] = []
        self._select = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attrs}
        name, value = found.get("name", ""), found.get("value", "")
        if tag == "form":
            self.forms.append((found["action"], [], ""))
        elif tag == "select":
            self._select = name
        elif tag == "option" and self._select and "selected" in found:
            self._put(self._select, value)
        elif tag == "input" and name and ("checked" in found or found.get("type") != "checkbox"):
            self._put(name, value)

    def handle_endtag(self, tag: str) -> None:
        self._select = "" if tag == "select" else self._select

    def _put(self, name: str, value: str) -> None:
        self.forms[-1][1].append((name, value))


async def pressed_in_slack(card: Card, side: SlackSide) -> Iterator[tuple[str, str]]:
    side.asked.clear()
    pressed = []
    for block in message(card, Around(line="LINE")).blocks:
        for button in block.get("elements", ()) if block["type"] == "actions" else ():
            await side.press(button["value"], opens=button["action_id"].startswith("opens"))
            pressed.append((button["text"]["text"], side.asked[-1].line))
    if any(card.each(Form)):
        view = answer_view(card, Origin("C1"))
        await side.submit(view, **FILLED)
        pressed.append((view["submit"]["text"], side.asked[-1].line))
    return iter(pressed)


async def pressed_in_teams(card: Card, side: TeamsSide) -> Iterator[tuple[str, str]]:
    side.asked.clear()
    drawn, pressed = render(card), []
    actions = [x for element in drawn["body"] for x in element.get("actions", ())]
    titles = [x["title"] for x in actions if x["type"] == "Action.Execute"]
    for title, data in zip(titles, controls(drawn), strict=True):
        filled = {f"f{data.get('form')}.{name}": value for name, value in FILLED.items()}
        form = {**inputs(drawn), **filled} if "fields" in data else {}
        await side.press("", data={**data, **form})
        pressed.append((title, side.asked[-1].line))
    return iter(pressed)


async def pressed_in_a_browser(card: Card, client: Any, asked: list[str]) -> Iterator[tuple[str, str]]:  # fmt: skip
    reader, pressed = Pressable(), []
    page = str(PAGES.card(card))
    reader.feed(page)
    titles = re.findall(r"<button class=\"button[^>]*>([^<]*)</button>", page)
    for title, (action, fields, _) in zip(titles, reader.forms, strict=True):
        known = {name for name, _ in fields}
        filled = [(f"f.{x}", value) for x, value in FILLED.items() if f"f.{x}" in known]
        kept = [(name, value) for name, value in fields if name not in dict(filled)]
        response = await client.post(action, data=[*kept, *filled], headers=OWN)
        assert response.status == 200, await response.text()
        pressed.append((title, asked[-1]))
    return iter(pressed)


async def test_each_control_says_the_line_that_was_last_read(open_console: Any) -> None:
    asked: list[str] = []

    async def noted(request: Request) -> Card:
        asked.append(request.line)
        return Card("Done")

    _, client = await open_console(answer=noted)
    lines, seen = list[str](), set[str]()
    async with SlackSide(done) as slack, TeamsSide(done) as teams:
        for name, make in SAMPLES.items():
            card = fresh(make(), seen)
            told = {
                "S": dict(await pressed_in_slack(card, slack)),
                "T": dict(await pressed_in_teams(card, teams)),
                "W": dict(await pressed_in_a_browser(card, client, asked)),
            }
            controls_of = dict.fromkeys(title for pressed in told.values() for title in pressed)
            lines += [f"## {name}"] if controls_of else []
            for title in controls_of:
                by_line: dict[str, str] = {}
                for mark, pressed in told.items():
                    if title in pressed:
                        by_line[pressed[title]] = by_line.get(pressed[title], "") + mark
                everywhere = list(by_line.values()) == ["STW"]
                lines += [f"{'=' if everywhere else by} [{title}] {x}" for x, by in by_line.items()]
    compare("\n".join(lines) + "\n", GOLDEN)


def fresh(card: Card, seen: set[str]) -> Card:
    """Return a card with the buttons that none before it had."""
    known = frozenset(seen)
    seen |= {button.line for button in card.buttons}
    return card.without_buttons(lambda button: button.line in known)
