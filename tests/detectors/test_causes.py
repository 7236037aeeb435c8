"""Check the table of causes: whole, in agreement with itself, and the memberships that alerts, routes and grades rely on."""

import re
from pathlib import Path

import pytest

import detectors
from bot.model.causes import CAUSES, About, Cause, Family
from bot.policy.schema import SETTINGS
from detectors.diagnose import RULES
from detectors.rule import SIGNS, believed
from tests.cases import in_one_run

TEXT = re.compile(r'"(\w+)"')

MONEY = {
    Cause.SPEND_JUMP,
    Cause.SPEND_NEW,
    Cause.BUDGET_BURN,
    Cause.COMMITMENT_UNUSED,
    Cause.TRANSFER_ROUTE,
}


def those(column):
    return {cause for cause, facts in CAUSES.items() if getattr(facts, column)}


@in_one_run
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


def test_a_sign_that_another_explains_speaks_for_nothing():
    starved, waits = {"dropped", "loader_busy"}, {"dropped", "loader_busy", "traffic_slowed"}
    assert believed(waits) == believed(starved)
    assert dict(believed(waits - {"loader_busy"}))[Cause.NETWORK_BOUND] > 0.5


def test_causes_that_are_off_are_not_believed_and_what_no_row_knows_lowers_all():
    every = dict(believed({"errors_frequent"}))
    assert every == {Cause.EXECUTION_ERRORS: 0.85, Cause.HARDWARE_FAULT: 0.15}
    assert believed({"errors_frequent"}, {Cause.HARDWARE_FAULT}) == [(Cause.HARDWARE_FAULT, 0.15)]


def test_every_cause_has_signs_and_every_sign_that_code_names_has_a_row():
    growths = {Cause.SPEND_NEW, Cause.TRANSFER_ROUTE}  # believed as a jump is
    assert {row.cause for row in SIGNS} == set(Cause) - growths
    code = "".join(path.read_text() for path in Path(detectors.__file__).parent.rglob("*.py"))
    named = {sign for call in re.findall(r"belief\(([^)]*)\)", code) for sign in TEXT.findall(call)}
    assert named - {row.sign for row in SIGNS} == set()
    assert all(row.source and (row.unless in {"", *(x.sign for x in SIGNS)}) for row in SIGNS)
