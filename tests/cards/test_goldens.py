"""Every card says what it was last seen to say, and every surface draws every part of a card as it was last looked at.

A card has one golden, its own document, so that a word is written in one place. Eight cards, which hold every part that a
card can have, have one more for each surface. `make goldens` writes them anew: look at `git diff tests/cards/goldens` before
you keep it.
"""

from __future__ import annotations

import json
import os
import textwrap
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, get_args

import pytest
from slack_sdk.models.blocks import Block as SlackBlock

from adapters.chat.slack import markup as limits
from adapters.chat.slack.forms import Origin, answer_view
from adapters.chat.slack.render import message
from adapters.chat.teams.render import ALERT_BYTES, ANSWER_BYTES, render, weigh
from adapters.terminal.render import render as terminal
from adapters.web.html import PageRenderer
from bot.cards import card as parts
from bot.cards.card import Block, Card, Form, Span
from bot.model.codec import encode
from tests.cards.adaptive import ADAPTIVE_CARD
from tests.cards.samples import SAMPLES
from tests.cases import in_one_run

GOLDENS = Path(__file__).parent / "goldens"
PAGES = PageRenderer(token="token", title="trnbot")
DRAWN = (
    "breakeven",
    "assign_form",
    "config_form",
    "every_part",
    "fleet",
    "notice_came_with",
    "notice_hostile",
    "notice_over",
    "notice_storm",
    "snooze_form",
)
"""The cards that are kept as each surface draws them: together they hold every part of a card."""
WIDTH, SHOWN = 120, 12


def slack(card: Card) -> str:
    form = any(isinstance(block, Form) for block in card.blocks)
    drawn: Any = (
        answer_view(card, Origin())
        if form
        else {"text": message(card).text, "blocks": message(card).blocks}
    )
    return as_json(drawn)


def teams(card: Card) -> str:
    return as_json(render(card, budget=budget(card)))


def budget(card: Card) -> int:
    return ALERT_BYTES if card.title.startswith("FIRING") else ANSWER_BYTES


def as_json(document: Any) -> str:
    return json.dumps(document, ensure_ascii=False, indent=1) + "\n"


SURFACES: Mapping[str, tuple[Callable[[Card], str], str]] = {
    "slack": (slack, "json"),
    "teams": (teams, "json"),
    "web": (lambda card: f"{PAGES.card(card)}\n", "html"),
    "terminal": (lambda card: terminal(card, 100), "txt"),
}


def neutral(card: Card) -> str:
    """Return the card's own document, which no surface has drawn; long lists of its data are cut to their beginning."""
    document = encode(card)
    return laid_out(document | {"data": shortened(document["data"])}) + "\n"


def shortened(data: Any, most: int = SHOWN) -> Any:
    """Keep the first items of each long list, and count the others."""
    if isinstance(data, dict):
        return {name: shortened(value, most) for name, value in data.items()}
    if not isinstance(data, list):
        return data
    rest = [f"... and {len(data) - most} more"] if len(data) > most else []
    return [shortened(item, most) for item in data[:most]] + rest


def laid_out(value: Any, depth: int = 0) -> str:
    """Return JSON for people: what fits into a line stands in one, and so do as many numbers as fit."""
    line = json.dumps(value, ensure_ascii=False)
    if not isinstance(value, dict | list) or len(line) + depth <= WIDTH:
        return line
    pad, end = " " * (depth + 1), "\n" + " " * depth
    if isinstance(value, list) and not any(
        isinstance(item, dict | list) or " " in str(item) for item in value
    ):
        items = textwrap.wrap(
            line[1:-1], WIDTH - depth, break_long_words=False, break_on_hyphens=False
        )
        return f"[\n{pad}" + f"\n{pad}".join(items) + f"{end}]"
    if isinstance(value, list):
        return "[\n" + ",\n".join(pad + laid_out(item, depth + 1) for item in value) + f"{end}]"
    inside = (
        f"{pad}{json.dumps(name, ensure_ascii=False)}: {laid_out(item, depth + 1)}"
        for name, item in value.items()
    )
    return "{\n" + ",\n".join(inside) + f"{end}}}"


def compare(drawn: str, golden: Path) -> None:
    """Fail where this is not the golden; write it where that is asked for."""
    if os.environ.get("GOLDENS") == "write":
        golden.parent.mkdir(parents=True, exist_ok=True)
        golden.write_text(drawn, encoding="utf-8")
    assert drawn == golden.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", SAMPLES)
def test_it_says_what_it_was_last_seen_to_say(name: str) -> None:
    compare(neutral(SAMPLES[name]()), GOLDENS / f"{name}.json")


@pytest.mark.parametrize("name", DRAWN)
@pytest.mark.parametrize("surface", SURFACES)
def test_it_looks_as_it_was_last_looked_at(surface: str, name: str) -> None:
    draw, ending = SURFACES[surface]
    compare(draw(SAMPLES[name]()), GOLDENS / surface / f"{name}.{ending}")


def test_no_golden_is_left_over() -> None:
    wanted = {GOLDENS / f"{name}.json" for name in SAMPLES}
    wanted |= {
        GOLDENS / surface / f"{name}.{ending}"
        for surface, (_, ending) in SURFACES.items()
        for name in DRAWN
    }
    assert {path for path in GOLDENS.rglob("*") if path.is_file()} == wanted


def parts_of(value: Any) -> Iterator[str]:
    """Yield the name of every block, span and choice that a card is made of."""
    if isinstance(value, Enum):
        yield str(value.__class__.__name__ + "." + value.name)
    elif is_dataclass(value):
        yield type(value).__name__
        for field in fields(value):
            yield from parts_of(getattr(value, field.name))
    elif isinstance(value, tuple):
        for item in value:
            yield from parts_of(item)


def test_each_surface_is_seen_to_draw_every_part_of_a_card() -> None:
    choices = [
        kind for kind in vars(parts).values() if isinstance(kind, type) and issubclass(kind, Enum)
    ]
    every = {f"{kind.__name__}.{one.name}" for kind in choices for one in kind}
    every |= {kind.__name__ for kind in (*get_args(Block), *get_args(Span)) if kind is not str}
    assert {
        "ButtonStyle.DANGER",
        "FieldKind.SWITCH",
        "ChartKind.HEAT",
        "Tone.OVER",
        "Style.LEAD",
        "Link",
        "Form",
    } < every
    kept = {part for name in DRAWN for part in parts_of(SAMPLES[name]())}
    assert every - kept == set()


def drawn_by_slack(card: Card) -> list[dict[str, Any]]:
    form = any(isinstance(block, Form) for block in card.blocks)
    return [*message(card).blocks, *(answer_view(card, Origin())["blocks"] if form else ())]


@in_one_run
@pytest.mark.parametrize("name", SAMPLES)
def test_slack_takes_it(name: str) -> None:
    card = SAMPLES[name]()
    drawn = drawn_by_slack(card)
    assert len(message(card).blocks) <= limits.BLOCKS
    parsed = SlackBlock.parse_all(drawn)
    assert len(parsed) == len(drawn)
    for block in parsed:
        block.validate_json()


@cache
def rules_of_teams() -> Any:
    """Return the validator of Adaptive Cards; its library takes seconds to import."""
    from jsonschema.validators import validator_for

    kind = validator_for(ADAPTIVE_CARD)
    kind.check_schema(ADAPTIVE_CARD)
    return kind(ADAPTIVE_CARD)


@in_one_run
@pytest.mark.parametrize("name", SAMPLES)
def test_teams_takes_it(name: str) -> None:
    card, documents = SAMPLES[name](), set[str]()
    for most in (ALERT_BYTES, ANSWER_BYTES):
        drawn = render(card, budget=most)
        assert weigh(drawn) <= most
        documents.add(json.dumps(drawn, allow_nan=False))
    for document in documents:  # most cards fit either size
        rules_of_teams().validate(json.loads(document))


class WellFormed(HTMLParser):
    """Fail at a tag that closes nothing; hold the tags that are still open."""

    VOID = frozenset({"br", "hr", "img", "input", "meta", "link", "wbr"})

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert len({name for name, _ in attrs}) == len(attrs), attrs
        self.open += [] if tag in self.VOID else [tag]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Take a tag that closes itself, as in SVG."""


@in_one_run
@pytest.mark.parametrize("name", SAMPLES)
def test_a_browser_takes_it(name: str) -> None:
    reader = WellFormed()
    reader.feed(PAGES.card(SAMPLES[name]()))
    reader.close()
    assert reader.open == []


def read_as_markup(node: Any, kind: str) -> Iterator[str]:
    """Yield every text that a client reads markup in."""
    if isinstance(node, dict) and node.get("type") == kind:
        yield node["text"]
    for child in (
        node.values() if isinstance(node, dict) else node if isinstance(node, list) else ()
    ):
        yield from read_as_markup(child, kind)


@pytest.mark.parametrize(
    ("surface", "kind", "alive"),
    [("slack", "mrkdwn", ("<!channel", "`c`")), ("teams", "TextBlock", ("](",))],
)
def test_names_from_tags_stay_text(surface: str, kind: str, alive: tuple[str, ...]) -> None:
    drawn = json.loads(SURFACES[surface][0](SAMPLES["notice_hostile"]()))
    assert not any(sign in text for text in read_as_markup(drawn, kind) for sign in alive)


def test_names_from_tags_are_no_html() -> None:
    drawn = SURFACES["web"][0](SAMPLES["notice_hostile"]())
    assert not any(sign in drawn for sign in ("<script>", "<at>", "<!"))


@in_one_run
@pytest.mark.parametrize("name", SAMPLES)
def test_the_terminal_keeps_its_width(name: str) -> None:
    assert all(len(line) <= 80 for line in terminal(SAMPLES[name](), 80).split("\n"))


@in_one_run
@pytest.mark.parametrize("name", SAMPLES)
def test_one_is_never_many(name: str) -> None:
    words = terminal(SAMPLES[name](), 200).replace(" 1 ", "\n1 ")
    assert not any(
        line.startswith(("1 nodes", "1 alerts", "1 days", "1 things", "1 hours"))
        for line in words.split("\n")
    )
