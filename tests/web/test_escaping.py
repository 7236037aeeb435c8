import json
from dataclasses import asdict, replace
from decimal import Decimal
from html.parser import HTMLParser

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adapters.chat.slack.render import message as slack_message
from adapters.chat.teams.render import render as teams_body
from adapters.terminal.render import render
from adapters.web.html import PageRenderer
from bot.answers.about.document import as_json, csv_text, pure
from bot.cards.card import (
    Button,
    Buttons,
    Card,
    Chart,
    ChartKind,
    Code,
    Facts,
    Field,
    FieldKind,
    Form,
    Heading,
    Link,
    Mention,
    Series,
    Strong,
    Table,
    Tone,
    text,
)
from tests.e2e import samples

PAGES = PageRenderer(token="t", title="trnbot")
NASTY = st.sampled_from(
    [
        "<script>alert(1)</script>",
        '"><img src=x onerror=alert(1)>',
        "' onclick='x",
        "</title><b>",
        "{{ 7*7 }}",
        "javascript:alert(1)",
        "&lt;",
    ]
) | st.text(alphabet="<>\"'&/=`{}%;: ajonx\n", min_size=1, max_size=40)
LINE = samples.line_chart()


def everywhere(words):
    """Return a card with the words in every place that holds text."""
    unit = f"in {words}"  # `%` alone and `$` are written in their own ways
    field = Field(words, words, FieldKind.TEXT, words, hint=words)
    choice = Field(words, words, FieldKind.CHOICE, words, ((words, words),))
    return Card(
        words,
        Tone.CRITICAL,
        (
            text(words, Strong(words), Code(words), Mention(words, words), Link(words, words)),
            Facts(((words, words),)),
            Table((Heading(words),), ((words,), (words, words)), (words,), words, words),
            Chart(
                ChartKind.LINE,
                words,
                unit,
                (Series(words, LINE.series[0].values), Series(words, (1.0,))),
                LINE.times,
                summary=words,
            ),
            Chart(
                ChartKind.BAR,
                words,
                unit,
                (Series(words, (1.0,)), Series(words, (2.0,))),
                categories=(words,),
                summary=words,
            ),
            Buttons((Button(words, words),)),
            Form(
                words, words, (field, choice, Field(words, words, FieldKind.SWITCH, words)), words
            ),
        ),
    )


class Shape(HTMLParser):
    """Collect the tags and the names of their attributes, and every address."""

    def __init__(self):
        super().__init__()
        self.tags, self.addresses = [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append(
            (tag, tuple(sorted(name for name, _ in attrs if name not in ("checked", "selected"))))
        )
        self.addresses += [value for name, value in attrs if name in ("href", "src", "action")]


def shape(words):
    found = Shape()
    found.feed(str(PAGES.card(everywhere(words), "m1")))
    return found


HARMLESS = [tag for tag in shape("plain").tags if tag[0] != "option"]


@settings(deadline=None)
@given(NASTY)
def test_text_never_becomes_markup(words):
    found = shape(words)
    tags = [tag for tag in found.tags if tag[0] not in ("a", "option")]
    assert tags == HARMLESS
    assert set(found.addresses) <= {"/ask", "/form", words}


@pytest.mark.parametrize(
    "url",
    [
        "javascript:alert(1)",
        "JAVASCRIPT:x",
        "data:text/html,x",
        "//evil.example",
        "vbscript:x",
        " https://x",
        "https://x y",
    ],
)
def test_only_web_addresses_link(url):
    assert "<a " not in PAGES.card(Card("t", blocks=(text(Link("here", url)),)))


@pytest.mark.parametrize(
    "url",
    [
        "https://console.aws.amazon.com/ec2?region=us-west-2#x",
        "http://localhost:8080/alert/a1",
        "/alert/a1",
    ],
)
def test_addresses_the_bot_makes_link(url):
    assert f'<a href="{url}" rel="noreferrer noopener">here</a>' in PAGES.card(
        Card("t", blocks=(text(Link("here", url)),))
    )


def test_the_key_to_the_forms_stands_in_every_form():
    drawn = str(PAGES.card(everywhere("x"), "m1"))
    assert drawn.count("<form") == drawn.count('name="token" value="t"') == 2


SENT_BACK = {"value", "line", "id", "fields"}
"""What a platform only sends back to the bot."""


def shown(body):
    """Return what a platform shows of a message."""
    if isinstance(body, dict):
        return {name: shown(part) for name, part in body.items() if name not in SENT_BACK}
    return [shown(part) for part in body] if isinstance(body, list) else body


def test_what_nobody_sees_reaches_no_surface():
    """A name that writes backwards, colours a terminal, or speaks to machines alone is only its letters."""
    unseen = [
        "\u202e",
        "\u2066",
        "\x1b",
        "\x07",
        "\x9b",
        "\u200b",
        "\u2028",
        "\U000e0041",
    ]
    card = everywhere("node".join(["", *unseen, "", ""]))
    card = replace(card, data={"rows": [{"name": card.title, card.title: Decimal(1)}]})
    surfaces = {
        "page": str(PAGES.card(card)),
        "json": json.dumps(pure(card.data), ensure_ascii=False) + as_json(card.data),
        "csv": csv_text("alerts", replace(card, data={"alerts": card.data["rows"]})),
        "terminal": render(card, 80),
        "Slack": json.dumps(shown(asdict(slack_message(card))), ensure_ascii=False),
        "Teams": json.dumps(shown(teams_body(card)), ensure_ascii=False),
    }
    # The gaps by which the chats keep marks and mentions apart are ours.
    found = {
        (name, ascii(char))
        for name, text in surfaces.items()
        for char in unseen
        if char in text and (name[0].islower() or char != "\u200b")
    }
    assert found == set()
    assert all("node" in text for text in surfaces.values())
