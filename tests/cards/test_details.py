"""Messages for a phone: what matters first, the notes at a press, dollars in a notification."""

from __future__ import annotations

import json
from dataclasses import replace

from adapters.chat.slack.render import Around, message
from adapters.chat.teams.render import render
from bot.cards.card import Card, Facts, Style, Table, Text, plain
from bot.cards.lines import with_details
from bot.grammar.line import read_line
from bot.grammar.turns import equal_of
from bot.model.request import Request, User
from tests.belonging import MEMBER
from tests.builders import NOON
from tests.cards.samples import SAMPLES

LINE = "cost 7d by team"


def notes(card: Card) -> list[str]:
    return [
        plain(block.spans) if isinstance(block, Text) else block.pairs[-1][1]
        for block in card.blocks
        if isinstance(block, Text | Facts) and block.style is Style.DETAIL
    ]


def test_slack_folds_the_notes_of_an_answer_behind_a_button_that_shows_them() -> None:
    card = SAMPLES["cost"]()
    folded = json.dumps(message(card, Around(line=LINE)).blocks)
    whole = json.dumps(message(with_details(card), Around(line=f"details {LINE}")).blocks)
    assert notes(card)
    for note in notes(card):
        assert note[-30:] not in folded
        assert note[-30:] in whole
    assert f"details {LINE}" in folded
    assert '"Details"' not in whole


def test_a_message_that_answers_no_line_shows_all() -> None:
    card = SAMPLES["cost"]()
    assert notes(card)[0][-30:] in json.dumps(message(card).blocks)


def test_teams_shows_the_notes_on_the_reader_s_device() -> None:
    card = SAMPLES["cost"]()
    body = render(card)["body"]
    hidden = [element["id"] for element in body if not element.get("isVisible", True)]
    (toggle,) = (
        action
        for element in body
        for action in element.get("actions", ())
        if action["type"] == "Action.ToggleVisibility"
    )
    assert toggle["targetElements"] == hidden
    assert len(hidden) == len(notes(card))


def test_a_row_of_buttons_in_teams_is_as_wide_as_a_phone() -> None:
    rows = [
        [action["title"] for action in element["actions"]]
        for name in ("notice_first", "cost", "act", "summary")
        for element in render(SAMPLES[name]())["body"]
        if element["type"] == "ActionSet"
    ]
    assert ["Acknowledge", "Assign…", "Snooze…"] in rows
    assert max(sum(len(title) for title in row) + 4 * len(row) for row in rows) <= 41


def test_an_incident_of_forty_alerts_shows_three_and_counts_the_others() -> None:
    card = SAMPLES["notice_storm"]()
    table = next(block for block in card.blocks if isinstance(block, Table))
    assert ([column.name for column in table.columns], len(table.rows)) == (
        ["also", "where", "$/h"],
        3,
    )
    assert table.rest == "and 36 more alerts of this incident; type: alerts"
    states = next(b for b in SAMPLES["notice_came_with"]().blocks if isinstance(b, Table))
    assert states.columns[-1].name == "state"


def test_details_begin_a_line_as_share_does() -> None:
    line = read_line(f"/trn details {LINE}")
    assert (line.detailed, line.shared, line.text) == (True, False, LINE)
    assert read_line(f"share {LINE}").detailed is False


def test_a_notification_says_its_dollars_within_sixty_characters() -> None:
    for name in ("notice_first", "notice_committed", "notice_storm", "notice_came_with"):
        text = message(SAMPLES[name]()).text
        assert "/h: " in text[:20]
        assert "llama-70b" in text[:60] or "vision" in text[:60]
        assert len(text.split("\n")[0]) <= 60

    assert "cost $451 · starved, llama-70b" in message(SAMPLES["notice_over"]()).text[:60]


def test_an_answer_about_cost_folds_what_a_phone_has_no_room_for() -> None:
    card = SAMPLES["cost"]()
    drawn = message(card, Around(line=LINE)).blocks
    assert len(drawn) <= 8
    assert [len(block["elements"]) for block in drawn if block["type"] == "actions"] == [3]
    rows = [element for element in render(card)["body"] if "actions" in element]
    assert [action["title"] for action in rows[-1]["actions"]][-1] == "Details"


def test_an_answer_in_plain_words_is_shown_in_full_by_the_line_it_was_read_as() -> None:
    card = SAMPLES["cost"]()
    read = replace(card, data={**card.data, "read_as": LINE})
    drawn = json.dumps(message(read, Around(line="what did each team cost")).blocks)
    assert f"details {LINE}" in drawn
    assert "details what" not in drawn


def test_who_asks_for_details_shares_no_answer_without_them() -> None:
    asked = [
        equal_of(Request(line, User("U1"), NOON, "slack", MEMBER))
        for line in (LINE, f"details {LINE}", f"/trn details {LINE}")
    ]
    assert asked[0] != asked[1] == asked[2]
