"""A fleet that could not be read is not an empty one."""

from datetime import UTC, datetime, timedelta

import pytest

from bot.answers.fleet.card import fleet_card, idle_card
from bot.answers.fleet.command import fleet, idle, with_age
from bot.cards.card import Card, Text, Tone, plain
from bot.errors import Unavailable
from bot.model.reading import Gap, Reading
from bot.model.request import Request, User
from bot.policy.schema import default_policy
from tests.belonging import MEMBER
from tests.builders import ports_over

AT = datetime(2026, 11, 20, 12, tzinfo=UTC)
GAP = "ec2 of 111122223333 in us-west-2 did not answer (ExpiredToken)."


def first(card: Card) -> str:
    block = card.blocks[0]
    assert isinstance(block, Text)
    return plain(block.spans)


def test_a_fleet_that_nobody_could_ask_for_is_not_known():
    card = fleet_card([], "", Reading(AT, gaps=(Gap(GAP),)))
    assert (card.title, card.tone) == ("It is not known which nodes run", Tone.WARNING)
    assert first(card) == GAP
    assert card.data["gaps"] == [GAP]


def test_idle_nodes_of_an_unread_fleet_are_not_known_either():
    card = idle_card([], "llama", Reading(AT, gaps=(Gap(GAP),)))
    assert card.title == "Which nodes are idle is not known"
    assert first(card) == GAP


@pytest.mark.parametrize(
    "draw", [lambda: fleet_card([], "", Reading(AT)), lambda: idle_card([], "", Reading(AT))]
)
def test_a_fleet_that_was_read_and_has_no_node_is_said_to_have_none(draw):
    assert draw().title in {"No node is running", "No node is idle"}


class Unwatched:
    """Stores of an account that is named in a line: nothing watched it."""

    def load(self, now):
        raise Unavailable("A live account has no end to replay to.")


class Dear:
    """A source that nobody may ask."""

    def read(self, now):
        raise AssertionError("metrics were paid for")


@pytest.mark.parametrize("answer", [fleet, idle])
async def test_a_named_account_is_refused_before_metrics_are_paid_for(answer):
    ports = ports_over(Dear(), Unwatched())
    with pytest.raises(Unavailable, match="no end to replay to"):
        await answer(ports, Request("fleet", User("u"), AT, "terminal", MEMBER), "")


def test_a_fleet_says_how_much_history_is_known_while_it_is_read():
    reading = Reading(AT, learning="The history of 1 of 2 series is read.")
    card = with_age(Card("Fleet", Tone.INFO, ()), reading, AT, default_policy())
    assert [plain(block.spans) for block in card.blocks] == [reading.learning]
    assert card.data["learning"] == reading.learning
    assert not with_age(Card("Fleet", Tone.INFO, ()), Reading(AT), AT, default_policy()).blocks


def test_more_gaps_than_fit_are_counted():
    card = fleet_card([], "", Reading(AT, gaps=tuple(Gap(f"{n}: {GAP}") for n in range(5))))
    assert first(card) == f"0: {GAP} 1: {GAP} And 3 more gaps; 'doctor' lists them."


@pytest.mark.parametrize(("minutes", "said"), [(0, False), (5, True)])
def test_a_reading_that_is_older_than_the_question_says_of_when_it_is(minutes, said):
    reading = Reading(AT)
    card = with_age(
        fleet_card([], "", reading), reading, AT + timedelta(minutes=minutes), default_policy()
    )
    last = card.blocks[-1]
    assert isinstance(last, Text)
    assert ("as of Nov 20, 12:00 UTC" in plain(last.spans)) is said
    assert ("read_at" in card.data) is said
