"""Whether porting pays: the vendor texts' own examples, to the dollar."""

from __future__ import annotations

import asyncio
from decimal import Decimal

import pytest

from bot.answers.plan.breakeven import Porting, breakeven, outcomes, payback
from bot.cards.card import Text, Tone, plain
from bot.grammar.line import understand
from bot.knowledge import load_knowledge
from bot.model.request import Request, User
from tests.belonging import MEMBER
from tests.builders import NOON, ports_over

PORTS = ports_over(None, None, knowledge=load_knowledge())


def ask(line: str):
    call = understand(line, NOON)
    return asyncio.run(
        breakeven(PORTS, Request(line, User("u"), NOON, "terminal", MEMBER), **call.arguments)
    )


def test_three_months_of_an_engineer_do_not_pay_for_five_thousand_dollars():
    port = Porting(
        Decimal(3), Decimal(200_000), Decimal(12_500), Decimal("0.4"), Decimal("0.4"), runs=1
    )
    (found,) = outcomes(port, 12)
    assert port.cost == Decimal("50000.00")
    assert found.saved_each == Decimal("5000.00")
    assert found.periods is None
    assert found.balance == Decimal("-45000.00")
    card = ask("breakeven 12500 saving=40% months=3 runs=1")
    assert card.title == "Stay on GPUs: 1 run, $50,000 to port"
    assert card.tone is Tone.WARNING


def test_twenty_thousand_a_month_saves_six_to_eight_thousand():
    data = ask("breakeven 20000").data
    assert [x["saved_usd"] for x in data["outcomes"]] == [Decimal("6000.00"), Decimal("8000.00")]
    assert data["port_usd"] == Decimal("33333.33"), "two engineer-months at $200,000 a year"
    assert [x["pays_after"] for x in data["outcomes"]] == [Decimal("5.6"), Decimal("4.2")]


@pytest.mark.parametrize("saving", ["0%", "-5%"])
def test_what_saves_nothing_never_pays_back(saving):
    card = ask(f"breakeven 20000 saving={saving}")
    assert card.title == "Porting never pays back"
    assert card.data["outcomes"][0]["pays_after"] is None


def test_a_range_that_pays_at_its_high_end_only_says_that_it_depends():
    card = ask("breakeven 10000 saving=10-40% months=2 horizon=12")
    assert card.tone is Tone.INFO
    assert "only the high one pays" in " ".join(
        plain(x.spans) for x in card.blocks if isinstance(x, Text)
    )


def test_two_weeks_and_a_third_is_a_preset_and_says_whose_case_it_is():
    card = ask("breakeven 20000 preset=case")
    assert card.data["engineer_months"] == Decimal("0.5")
    assert card.data["outcomes"][0]["saving_ratio"] == Decimal("0.33")
    assert "yours differs" in " ".join(plain(x.spans) for x in card.blocks if isinstance(x, Text))


@pytest.mark.parametrize(
    ("stack", "months"), [("pytorch", 1), ("jax", 1), ("tensorflow", 3), ("cuda", 3)]
)
def test_the_stack_changes_the_class_of_effort(stack, months):
    assert ask(f"breakeven 20000 stack={stack}").data["engineer_months"] == months


def test_compiling_anew_is_part_of_the_port():
    port = Porting(
        Decimal(0),
        Decimal(0),
        Decimal(100),
        Decimal("0.5"),
        Decimal("0.5"),
        recompile_usd=Decimal(100),
    )
    assert payback(port, Decimal("0.5"), 12).periods == 2


@pytest.mark.parametrize(("runs", "pays_after"), [(11, 10), (10, 10), (9, None)])
def test_as_many_runs_as_pay_for_the_port(runs, pays_after):
    port = Porting(
        Decimal(3), Decimal(200_000), Decimal(12_500), Decimal("0.4"), Decimal("0.4"), runs=runs
    )
    assert payback(port, Decimal("0.4"), 12).periods == pays_after
