"""Check the table of causes: whole, in agreement with itself, and the memberships that alerts, routes and grades rely on."""

import pytest

from bot.model.causes import CAUSES, About, Cause, Family
from bot.policy.schema import SETTINGS
from detectors.diagnose import RULES

MONEY = {
    Cause.SPEND_JUMP,
    Cause.SPEND_NEW,
    Cause.BUDGET_BURN,
    Cause.COMMITMENT_UNUSED,
    Cause.TRANSFER_ROUTE,
}


def those(column):
    return {cause for cause, facts in CAUSES.items() if getattr(facts, column)}


@pytest.mark.parametrize("cause", list(Cause))
def test_every_cause_has_a_row_a_switch_and_something_to_try(cause):
    facts = cause.facts
    assert facts.cause is cause
    assert SETTINGS[f"{cause}.on"].meaning == facts.switch
    assert facts.suggestions or facts.is_state
    assert cause not in facts.explained_by


def test_no_two_causes_mute_each_other():
    pairs = {
        (cause, other)
        for cause, facts in CAUSES.items()
        for other in facts.explained_by
        if cause is not Cause.ODD
    }
    assert not {(other, cause) for cause, other in pairs} & pairs


def test_causes_of_money_are_five_and_what_is_bought_is_seven():
    assert {cause for cause in Cause if cause.facts.about is About.MONEY} == MONEY
    assert those("is_bought") == {*MONEY, Cause.UNUSED_CAPACITY, Cause.ORPHANED_STORAGE}
    assert those("grows") == {Cause.SPEND_JUMP, Cause.SPEND_NEW, Cause.TRANSFER_ROUTE}
    assert those("buys_hours") == {Cause.SPEND_JUMP, Cause.SPEND_NEW}


def test_the_causes_of_a_family_share_a_precedence():
    assert Family.COMPILE.rules == ("long_compile", "cold_cache")
    assert Family.DROP.rules == ("starved", "network_bound", "collective_path", "straggler")
    for family in Family:
        assert len({Cause(rule).facts.precedence for rule in family.rules}) == 1


def test_people_read_words_and_no_underscores():
    assert Cause.KILLED_COMPILE.facts.words == "compile cut off"
    assert not [cause for cause in Cause if "_" in cause.facts.words]


def test_every_rule_about_nodes_has_a_place_of_its_own_in_the_precedence():
    places = [rule.cause.facts.precedence for rule in RULES]
    assert places == sorted(set(places), key=lambda place: place or 0)
    assert None not in places
