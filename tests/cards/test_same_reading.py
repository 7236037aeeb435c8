"""What a message says of an alert does not age, and every place that tells of it says the same."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from bot.answers.alerts.alerts import alerts_card
from bot.answers.alerts.why import why_card
from bot.cards.alert import notification_card, thread_line
from bot.cards.alert_words import headline
from bot.cards.card import Code, Table, Text, When
from bot.model.notification import Coverage, Notification, Reason
from bot.watch.notify import log_entry_of
from tests.builders import NOON
from tests.cards.samples import idle, notice, starved, waste

HOUR = timedelta(hours=1)


def test_the_title_of_a_message_is_as_true_five_hours_later() -> None:
    assert headline(starved(), NOON) == headline(starved(), NOON + 5 * HOUR)
    assert headline(starved(), NOON).startswith("FIRING since 11:35 UTC · starved")
    assert headline(starved(), NOON + 24 * HOUR).startswith(
        "FIRING since Nov 20, 11:35 UTC · starved"
    )


def test_a_title_says_that_nobody_is_notified_while_it_is_snoozed() -> None:
    words = {"silence:s1": "SNOOZED, firing", "silence:m1": "MUTED, firing", "inhibit:k": "FIRING"}
    for mark, state in words.items():
        title = headline(starved(muted_by=mark), NOON)
        assert title.startswith(f"{state} since 11:35 UTC · starved")
    over = starved(muted_by="silence:s1", seen=NOON, closed=NOON + HOUR)
    assert headline(over, NOON).startswith("OVER after 25 min")


def test_a_message_says_as_of_when_its_dollars_are() -> None:
    (line,) = [
        block
        for block in notice(starved(seen=NOON - HOUR)).blocks
        if isinstance(block, Text) and " · as of " in block.spans
    ]
    assert line.spans[line.spans.index(" · as of ") + 1] == When(NOON - HOUR)


def test_card_list_and_why_tell_the_same_length_of_an_alert_that_is_over() -> None:
    over = starved(seen=NOON, closed=NOON + HOUR)
    notification = Notification("n1", "c", Reason.OVER, NOON + 2 * HOUR, (over,))
    table = next(
        block for block in alerts_card([over], None, Coverage()).blocks if isinstance(block, Table)
    )
    assert notification_card(notification).title.startswith("OVER after 25 min")
    assert table.rows[0][2] == "25 min"
    assert why_card(over, (), None, NOON + 2 * HOUR).title.startswith("Why: OVER after 25 min")


def test_what_came_with_an_alert_makes_it_no_longer() -> None:
    lead = starved(seen=NOON, closed=NOON)
    early = replace(idle(), seen=NOON, closed=NOON, muted_by=f"inhibit:{lead.key}")
    assert notice(lead, early, reason=Reason.OVER).title.startswith("OVER after 25 min")


def test_the_thread_says_the_dollars_of_the_message() -> None:
    worse, other = starved(waste=waste("2000", "900")), idle()
    seen = Notification("n1", "c", Reason.WORSE, NOON, (worse, other))
    said = thread_line(seen, log_entry_of(seen, "m1"), notification_card(seen))
    together = [
        " ".join(map(str, block.spans))
        for block in notification_card(seen).blocks
        if isinstance(block, Text)
    ]
    assert said.title == "Worse: $2,064 an hour now, $1,222 so far · starved, llama-70b"
    assert any("$2,064 an hour" in words and "$1,222 so far" in words for words in together)


def test_what_is_to_be_typed_is_code_and_no_sentence_shows_grave_accents() -> None:
    advice = ("Cordon the node (`kubectl drain`).", "See `cost 7d by usage_type`.")
    one = starved(anomaly=replace(starved().anomaly, suggestions=advice))
    for card in (notice(one), why_card(one, (), None, NOON)):
        spans = [span for block in card.blocks if isinstance(block, Text) for span in block.spans]
        typed = {Code("kubectl drain"), Code("cost 7d by usage_type cluster=llama-70b")}
        assert typed <= set(spans)
        assert not any("`" in span for span in spans if isinstance(span, str))
