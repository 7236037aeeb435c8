"""Every number on every card of the demo says how it is made, and a number that is a cent off is never vouched for."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from decimal import Decimal

import pytest

from bot.answers.all import ANSWERS
from bot.answers.receipt.command import answered
from bot.answers.receipt.verify import UNSTATED, WatchedAnswer, receipt_of, verify
from bot.costs.tally import as_of
from bot.errors import WrongInput
from bot.grammar.line import read_line
from bot.grammar.registry import Command, Needs, commands_by_name
from bot.model.receipt import AnswerReceipt, Checked, Verification
from bot.model.request import LOCAL, Request, User
from bot.ports import Billing
from bot.wiring.build import terminal_app
from bot.wiring.environment import settings_of, terminal_user

assert ANSWERS
pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]
NAMES_WHAT_IS_NOT_THERE = 15
"""How many examples at most name an alert, a run, a team or a file of another account."""


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


def _has_receipt(command: Command) -> bool:
    return not (
        command.changes or command.carries or command.audited or Needs.REPLAY in command.opens
    )


@pytest.fixture(scope="module")
def demo() -> Demo:
    """Ask once, and check each answer."""
    settings = settings_of({"source": "simulator:7"})
    bot, opened = terminal_app(settings, settings.source, None)
    asking = Request("", User(terminal_user()), opened.end(), "terminal", LOCAL)
    ports = as_of(bot.ports, asking.at)
    examples = [line for each in commands_by_name() if _has_receipt(each) for line in each.examples]
    asked, refused = [], []
    for line in ["cost mtd by service", *examples]:
        try:
            answer = asyncio.run(answered(ports, asking, read_line(line)))
        except WrongInput as error:
            refused.append((line, str(error)))
            continue
        receipt = receipt_of(answer)
        asked.append(Asked(line, answer, receipt, verify(receipt, answer, ports.world.billing)))
    assert len(refused) <= NAMES_WHAT_IS_NOT_THERE, refused
    return Demo(tuple(asked), ports.world.billing)


def test_every_number_has_a_formula_and_agrees_with_it(demo: Demo) -> None:
    unstated = [
        f"{asked.line}: {figure.path}"
        for asked in demo.asked
        for figure in asked.receipt.figures
        if figure.formula == UNSTATED
    ]
    differing = [f"{asked.line}: {x}" for asked in demo.asked for x in asked.outcome.differences]
    assert (unstated, differing) == ([], [])


def test_sums_of_the_bill_are_added_up_and_prices_looked_up(demo: Demo) -> None:
    checks = [how for asked in demo.asked for how in asked.outcome.checked.values()]
    assert checks.count(Checked.RECOMPUTED) > 150
    assert checks.count(Checked.LOOKED_UP) > 100


def test_a_receipt_that_is_a_cent_off_is_found_for_every_formula(demo: Demo) -> None:
    unseen, tried = [], set()
    for asked in demo.asked:
        for figure in asked.receipt.figures:
            if (asked.line.split()[0], figure.formula) in tried:
                continue
            tried.add((asked.line.split()[0], figure.formula))
            forged = replace(figure, amount=figure.amount + Decimal("0.01"))
            outcome = verify(replace(asked.receipt, figures=(forged,)), asked.answer, demo.billing)
            if figure.path not in {difference.what for difference in outcome.differences}:
                unseen.append(f"{asked.line}: {figure.path}")
    assert unseen == []
    assert len(tried) > 120
