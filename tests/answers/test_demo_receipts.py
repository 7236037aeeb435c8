"""Every number on every card of the demo is recomputed from rows, and a number that is a cent off is never vouched for."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from bot.answers.all import ANSWERS
from bot.answers.receipt.command import answered
from bot.costs.formulas import AGAIN, Formulas
from bot.costs.tally import as_of
from bot.costs.verify import UNSTATED, WatchedAnswer, receipt_of, verify
from bot.errors import WrongInput
from bot.grammar.line import read_line
from bot.grammar.registry import Command, Needs, commands_by_name
from bot.knowledge import load_knowledge
from bot.model.receipt import (
    AnswerReceipt,
    Checked,
    Figure,
    FigureFormula,
    Verification,
    numbers,
    pointer,
)
from bot.model.request import LOCAL, Request, User
from bot.ports import Billing
from bot.wiring.build import terminal_app
from bot.wiring.environment import settings_of, terminal_user

assert ANSWERS
pytestmark = pytest.mark.timeout(1800)
FORMULAS = Formulas(load_knowledge().figures())
NAMES_WHAT_IS_NOT_THERE = 15
"""How many examples at most name an alert, a run, a team or a file of another account."""
ANSWERED_AGAIN: frozenset[tuple[str, str]] = frozenset()
"""The command and the name of each number of the demo that is answered again; docs/money.md says why."""


@dataclass(frozen=True)
class Asked:
    """One line of the demo with its answer, its receipt and the outcome of checking it."""

    line: str
    answer: WatchedAnswer
    receipt: AnswerReceipt
    outcome: Verification


@dataclass(frozen=True)
class Demo:
    """The demo, asked every line that its help shows."""

    asked: tuple[Asked, ...]
    billing: Billing

    def checked(self) -> Iterator[tuple[Asked, Figure, FigureFormula, Checked]]:
        """Yield every number of the data with its formula, and how it was checked."""
        for each in self.asked:
            paths = {pointer(path): path for path, _ in numbers(each.answer.data)}
            for figure in each.receipt.figures:
                formula = (
                    FORMULAS.of(each.answer.command, paths[figure.path])
                    if figure.path in paths
                    else None
                )
                if formula and figure.path in each.outcome.checked:
                    yield each, figure, formula, each.outcome.checked[figure.path]


@pytest.fixture(scope="module")
def demo() -> Demo:
    """Ask once, and check each answer."""
    settings = settings_of({"source": "simulator:7"})
    bot, opened = terminal_app(settings, settings.source, None)
    asking = Request("", User(terminal_user()), opened.end(), "terminal", LOCAL)
    ports = as_of(bot.ports, asking.at)
    every, refused = [], []
    for line in [
        "cost mtd by service",
        *(line for each in commands_by_name() if _has_receipt(each) for line in each.examples),
    ]:
        try:
            answer = asyncio.run(answered(ports, asking, read_line(line)))
        except WrongInput as error:
            refused.append((line, str(error)))
            continue
        receipt = receipt_of(answer, FORMULAS)
        every.append(
            Asked(line, answer, receipt, verify(receipt, answer, FORMULAS, ports.world.billing))
        )
    assert len(refused) <= NAMES_WHAT_IS_NOT_THERE, refused
    return Demo(tuple(every), ports.world.billing)


def _has_receipt(command: Command) -> bool:
    return not (
        command.changes or command.carries or command.audited or Needs.REPLAY in command.opens
    )


def test_every_number_has_a_formula_and_agrees_with_it(demo: Demo) -> None:
    stated = [
        f"{x.line}: {figure.path}"
        for x in demo.asked
        for figure in x.receipt.figures
        if figure.formula == UNSTATED
    ]
    differing = [f"{x.line}: {each}" for x in demo.asked for each in x.outcome.differences]
    assert (stated, differing) == ([], [])


def test_no_number_is_only_answered_again_but_the_named_ones(demo: Demo) -> None:
    again = {
        (x.answer.command, x.line, path)
        for x in demo.asked
        for path, how in x.outcome.checked.items()
        if how is Checked.AGAIN
    }
    assert {
        each for each in again if (each[0], each[2].rpartition("/")[2]) not in ANSWERED_AGAIN
    } == set()
    counts = {
        how: sum(how is each for x in demo.asked for each in x.outcome.checked.values())
        for how in Checked
    }
    assert counts[Checked.RECOMPUTED] > 800, counts
    assert counts[Checked.LOOKED_UP] > 200, counts


def _one_of_each(demo: Demo) -> Iterator[tuple[Asked, Figure, FigureFormula]]:
    """Yield one number of each formula that the demo uses."""
    met: set[tuple[str, FigureFormula]] = set()
    for asked, figure, formula, how in demo.checked():
        if how is not Checked.AGAIN and (asked.answer.command, formula) not in met:
            met.add((asked.answer.command, formula))
            yield asked, figure, formula


def test_a_receipt_that_is_a_cent_off_is_found_for_every_formula(demo: Demo) -> None:
    unseen, tried = [], 0
    for asked, figure, formula in _one_of_each(demo):
        forged = replace(
            asked.receipt, figures=(replace(figure, amount=figure.amount + Decimal("0.01")),)
        )
        outcome = verify(forged, asked.answer, FORMULAS, demo.billing)
        tried += 1
        if figure.path not in {each.what for each in outcome.differences}:
            unseen.append(f"{asked.line}: {figure.path} by {formula.how}")
    assert unseen == []
    assert tried > 120


def test_an_answer_that_is_off_itself_is_vouched_for_by_no_formula(demo: Demo) -> None:
    vouched = []
    for asked, figure, formula in _one_of_each(demo):
        path = next(path for path, _ in numbers(asked.answer.data) if pointer(path) == figure.path)
        data: Any = deepcopy(dict(asked.answer.data))
        inner = data
        for part in path[:-1]:
            inner = inner[part]
        if not isinstance(inner, dict | list):
            continue
        measured = formula.how.startswith("about ")
        inner[path[-1]] = _off(inner[path[-1]], measured)
        altered = replace(asked.answer, terms=replace(asked.answer.terms, data=data))
        stated = next(
            each for each in receipt_of(altered, FORMULAS).figures if each.path == figure.path
        )
        outcome = verify(replace(asked.receipt, figures=(stated,)), altered, FORMULAS, demo.billing)
        if (
            outcome.checked.get(figure.path, Checked.AGAIN) is not Checked.AGAIN
            and "arg." not in formula.how
        ):
            vouched.append(f"{asked.line}: {figure.path} by {formula.how}")
    assert vouched == []


def _off(value: Any, measured: bool) -> Any:
    """Return a number that is a cent off; of a measurement, a hundredth."""
    if isinstance(value, int):
        return value + 1
    more = abs(float(value)) / 100 + 0.01 if measured else 0.01
    return value + (Decimal(str(round(more, 6))) if isinstance(value, Decimal) else more)


def test_each_number_that_can_only_be_answered_again_is_named_with_its_reason() -> None:
    said = (Path(__file__).parents[2] / "docs" / "money.md").read_text()
    for row in load_knowledge().figures():
        if row.how == AGAIN:
            assert (
                f"`{row.command}` {row.name}" in said
                or f"`{row.command}` {row.name.partition('/')[0]}/" in said
            ), row
