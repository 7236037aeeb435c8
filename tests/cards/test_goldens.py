"""Every answer looks on every surface as it was last looked at: `TRNBOT_GOLDENS=write pytest tests/cards` writes anew.

Look at what changed (`git diff tests/cards/goldens`) as people see it before you keep it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from slack_sdk.models.blocks import Block as SlackBlock

from adapters.slack import limits
from adapters.slack.modal import Origin, answer_view
from adapters.slack.render import message
from adapters.teams.render import ALERT_BYTES, ANSWER_BYTES, render, weigh
from adapters.terminal.render import render as terminal
from adapters.web.html import Pages
from bot.cards.card import Card, Form
from tests.cards.samples import SAMPLES

GOLDENS = Path(__file__).parent / "goldens"
PAGES = Pages(token="token", title="trnbot")


def slack(card: Card) -> str:
    form = any(isinstance(block, Form) for block in card.blocks)
    drawn: Any = answer_view(card, Origin()) if form else {"text": message(card).text, "blocks": message(card).blocks}
    return as_json(drawn)


def teams(card: Card) -> str:
    return as_json(render(card, budget=ALERT_BYTES if card.title.startswith("FIRING") else ANSWER_BYTES))


def as_json(document: Any) -> str:
    return json.dumps(document, ensure_ascii=False, indent=1) + "\n"


SURFACES: Mapping[str, tuple[Callable[[Card], str], str]] = {
    "slack": (slack, "json"),
    "teams": (teams, "json"),
    "web": (lambda card: f"{PAGES.card(card)}\n", "html"),
    "terminal": (lambda card: terminal(card, 100), "txt"),
}


@pytest.mark.parametrize("name", SAMPLES)
@pytest.mark.parametrize("surface", SURFACES)
def test_it_looks_as_it_was_last_looked_at(surface: str, name: str) -> None:
    draw, ending = SURFACES[surface]
    drawn = draw(SAMPLES[name]())
    golden = GOLDENS / surface / f"{name}.{ending}"
    if os.environ.get("TRNBOT_GOLDENS") == "write":
        golden.parent.mkdir(parents=True, exist_ok=True)
        golden.write_text(drawn, encoding="utf-8")
    assert drawn == golden.read_text(encoding="utf-8")


def test_no_golden_is_left_over() -> None:
    assert {path.stem for path in GOLDENS.rglob("*.*")} == set(SAMPLES)


@pytest.mark.parametrize("name", SAMPLES)
def test_slack_takes_it(name: str) -> None:
    drawn = message(SAMPLES[name]())
    assert len(drawn.blocks) <= limits.BLOCKS
    for block in drawn.blocks:
        parsed = SlackBlock.parse(block)
        assert parsed is not None
        parsed.validate_json()


@pytest.mark.parametrize("name", SAMPLES)
def test_teams_takes_it(name: str) -> None:
    assert weigh(render(SAMPLES[name](), budget=ALERT_BYTES)) <= ALERT_BYTES


def read_as_markup(node: Any, kind: str) -> Iterator[str]:
    """Yield every text that a client reads markup in."""
    if isinstance(node, dict) and node.get("type") == kind:
        yield node["text"]
    for child in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
        yield from read_as_markup(child, kind)


@pytest.mark.parametrize(
    ("surface", "kind", "alive"), [("slack", "mrkdwn", ("<!channel", "`c`")), ("teams", "TextBlock", ("](",))]
)
def test_names_from_tags_stay_text(surface: str, kind: str, alive: tuple[str, ...]) -> None:
    drawn = json.loads(SURFACES[surface][0](SAMPLES["notice_hostile"]()))
    assert not any(sign in text for text in read_as_markup(drawn, kind) for sign in alive)


def test_names_from_tags_are_no_html() -> None:
    drawn = SURFACES["web"][0](SAMPLES["notice_hostile"]())
    assert not any(sign in drawn for sign in ("<script>", "<at>", "<!"))


@pytest.mark.parametrize("name", SAMPLES)
def test_the_terminal_keeps_its_width(name: str) -> None:
    assert all(len(line) <= 80 for line in terminal(SAMPLES[name](), 80).split("\n"))


@pytest.mark.parametrize("name", SAMPLES)
def test_one_is_never_many(name: str) -> None:
    words = terminal(SAMPLES[name](), 200).replace(" 1 ", "\n1 ")
    assert not any(line.startswith(("1 nodes", "1 alerts", "1 days", "1 things", "1 hours")) for line in words.split("\n"))
