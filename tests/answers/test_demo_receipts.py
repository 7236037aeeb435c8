"""Every number on every card of the demo says how it is made, and a number that is a cent off is never vouched for."""

from __future__ import annotations

import asyncio
import shutil
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path

import pytest

from bot.answers.all import ANSWERS
from bot.answers.receipt.command import answered
from bot.answers.receipt.verify import UNSTATED, WatchedAnswer, receipt_of, verify
from bot.costs.tally import as_of
from bot.errors import WrongInput
from bot.grammar.line import read_line
from bot.grammar.registry import commands_by_name
from bot.model.receipt import AnswerReceipt, Checked, Verification
from bot.model.request import LOCAL, Request, User
from bot.ports import Billing
from bot.wiring.build import terminal_app
from bot.wiring.environment import settings_of, terminal_user
from tests.answers.test_code import SCRIPTS
from tests.answers.test_goldens import FILES, has_receipt
from tests.e2e.product import recording

assert ANSWERS
pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]
THERE = {
    "llama-8b": "llama-70b",
    "vit-2b": "vit-22b",
    "i-0a1b2c3d4e5f60718": "i-37c0bfc9ee1a6488d",
}
"""What the demo has where an example names a run or a node of another account."""
REFUSED = ["config history page=2", "config history 3"]
"""Examples of a longer history than the demo has."""


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


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Demo:
    """Ask once, and check each answer."""
    settings = settings_of({"source": f"recording:{recording('demo')}"})
    bot, opened = terminal_app(settings, settings.source, None)
    asking = Request("", User(terminal_user()), opened.end(), "terminal", LOCAL)
    ports = as_of(bot.ports, asking.at)
    files = Path(shutil.copytree(FILES, tmp_path_factory.mktemp("typed") / "files"))
    (files / "train.py").write_text(SCRIPTS["planted/single_gpu.py"])
    there = THERE | {"a1b2c3d4e": ports.stores.alerts.load(asking.at).alerts[0].id}
    examples = [line for each in commands_by_name() if has_receipt(each) for line in each.examples]

    asked, refused = [], {}
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(files)
        for example in ["cost mtd by service", *examples]:
            line = example
            for name, ours in there.items():
                line = line.replace(name, ours)
            try:
                answer = asyncio.run(answered(ports, asking, read_line(line)))
            except WrongInput as error:
                refused[line] = str(error)
                continue
            receipt = receipt_of(answer)
            asked.append(Asked(line, answer, receipt, verify(receipt, answer, ports.world.billing)))

    assert sorted(refused) == sorted(REFUSED), refused
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
