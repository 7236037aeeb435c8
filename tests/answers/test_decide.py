"""Twelve questions: the same answers give the same advice, by form and by text."""

from __future__ import annotations

import asyncio
import re

import pytest

from adapters.store.memory import MemoryStore
from bot.answers.plan.decide import Choice, advice_of, parameter_count
from bot.answers.plan.decide import decide as command
from bot.cards.card import Form, Table, Text, plain
from bot.cards.lines import form_line
from bot.errors import WrongInput
from bot.grammar.line import understand
from bot.knowledge import load_knowledge
from bot.model.request import Request, User
from tests.answers.advice_world import GPUS, World
from tests.belonging import MEMBER
from tests.builders import NOON, ports_over

QUESTIONS = load_knowledge().claims().questions
PORTS = ports_over(World(GPUS), MemoryStore(), knowledge=load_knowledge())
FIT = {q.key: q.weight > 0 for q in QUESTIONS}


def ask(line: str):
    call = understand(line, NOON)
    return asyncio.run(
        command(PORTS, Request(line, User("u"), NOON, "slack", MEMBER), **call.arguments)
    )


def typed(answers) -> str:
    return " ".join(f"{key}={'yes' if said else 'no'}" for key, said in answers.items())


def test_there_are_six_questions_for_each_side():
    weights = [q.weight for q in QUESTIONS]
    assert (sum(w > 0 for w in weights), sum(w < 0 for w in weights)) == (6, 6)


def test_the_form_holds_every_question_and_types_the_line_that_answers():
    (form,) = (block for block in ask("decide llama").blocks if isinstance(block, Form))
    asked = [field.name for field in form.fields]
    assert asked == [*FIT, "parameters"]
    filled = {key: "yes" if said else "no" for key, said in FIT.items()} | {"parameters": "7B"}
    card = ask(form_line(form.line, filled))
    assert card.title == "llama: Train it on Trainium"
    assert card == ask(f"decide llama {typed(FIT)} parameters=7B"), "text and form are one"


@pytest.mark.parametrize("key", [q.key for q in QUESTIONS if q.weight < 0])
def test_each_poor_fit_lowers_the_score(key):
    assert advice_of(QUESTIONS, FIT | {key: True}).points < advice_of(QUESTIONS, FIT).points


@pytest.mark.parametrize("key", [q.key for q in QUESTIONS if q.weight > 0])
def test_each_missing_condition_lowers_the_score(key):
    assert advice_of(QUESTIONS, FIT | {key: False}).points < advice_of(QUESTIONS, FIT).points


def test_all_against_stays_on_gpus():
    assert advice_of(QUESTIONS, {key: not said for key, said in FIT.items()}).choice is Choice.GPU


def test_research_that_is_trained_again_and_again_goes_both_ways():
    assert advice_of(QUESTIONS, FIT | {"stable": False}).choice is Choice.BOTH


def test_open_questions_are_asked_with_the_answers_so_far():
    (form,) = (block for block in ask("decide stable=yes").blocks if isinstance(block, Form))
    assert [field.value for field in form.fields][:2] == ["", "yes"]


def test_every_reason_has_its_source_and_the_contradiction_on_rl_is_shown():
    (table,) = (block for block in ask(f"decide {typed(FIT)}").blocks if isinstance(block, Table))
    told = {row[1]: row[3] for row in table.rows}
    assert "contradict each other" in told["rl"]
    assert all(re.search(r"Nov \d+, 2026", words) for words in told.values())


def test_a_small_model_is_told_to_take_one_core():
    texts = " ".join(
        plain(x.spans)
        for x in ask(f"decide {typed(FIT)} parameters=50M").blocks
        if isinstance(x, Text)
    )
    assert "one core or a trn1.2xlarge" in texts
    assert "HyperPod" in texts, "the managed alternative stands in every verdict"


def test_counts_of_parameters_are_read():
    assert [parameter_count(x) for x in ("7B", "350m", "1,000")] == [7e9, 350e6, 1000]
    for wrong in ("many", "-1", "1..2B"):
        with pytest.raises(WrongInput):
            parameter_count(wrong)
