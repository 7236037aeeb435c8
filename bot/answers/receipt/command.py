"""Answer a line with its receipt, and check receipts."""

from __future__ import annotations

import asyncio
import json
import re
from dataclasses import replace
from datetime import datetime, timedelta

from bot.answers.receipt.card import receipt_card, verification_card
from bot.answers.receipt.verify import WatchedAnswer, receipt_of, verify
from bot.answers.receipt.witness import Witness
from bot.cards.card import Card
from bot.costs.tally import BilledBy, as_of
from bot.errors import WrongInput, shortened
from bot.grammar.line import CommandLine, read_line, typed
from bot.grammar.registry import Needs, Topic, arg, command
from bot.model.codec import decode
from bot.model.limits import YEARS
from bot.model.receipt import AnswerReceipt, AskedPort
from bot.model.request import Request
from bot.ports import Ports

_WATCHED = Needs.BILL | Needs.METRICS | Needs.DETECTOR | Needs.STATE
_HUGE = re.compile(r'"[+-]?[\d.]+[eE]\+?\d{2,}"')
"""An amount that would take longer to write than to read."""
_FILE = re.compile(r"\S*(?:/|\.json$)\S*")


@command(
    "receipt",
    "How each number of an answer came about: what was asked, prices, formula, age of the data.",
    needs=Needs.SOURCE,
    may=_WATCHED,
    topic=Topic.COSTS,
    examples=("receipt cost 7d by service", "receipt fleet"),
    heavy=True,
    carries=True,
)
async def receipt(
    ports: Ports,
    request: Request,
    line: str = arg(None, "the line whose answer is meant", rest=True),
) -> Card:
    """Answer the line, and state how it was answered."""
    answer = await answered(ports, request, _carried(read_line(request.line).rest))
    return receipt_card(receipt_of(answer))


@command(
    "verify",
    "Make the numbers of an answer again from the same data, and list those that differ.",
    needs=Needs.SOURCE,
    may=_WATCHED,
    topic=Topic.COSTS,
    examples=("verify cost 7d by service", "verify fleet"),
    heavy=True,
    carries=True,
)
async def verify_(
    ports: Ports,
    request: Request,
    line: str = arg(
        None,
        "the line whose answer is meant; in a terminal also a file that 'receipt LINE --json'"
        " wrote",
        rest=True,
    ),
) -> Card:
    """Check a line at once, or the receipt of an earlier answer."""
    words = read_line(request.line).rest.strip()
    if _FILE.fullmatch(words):
        stored = _read(ports.site.files.text(words, request), words)
        ports, request = _then(ports, stored), replace(request, at=stored.at)
        again = await answered(ports, request, _carried(stored.line))
    else:
        # There is no earlier answer to compare with: the line is asked twice.
        first, again = [await answered(ports, request, _carried(words)) for _ in range(2)]
        stored = receipt_of(first)
    outcome = await asyncio.to_thread(verify, stored, again, ports.world.billing)
    return verification_card(stored, outcome)


def _carried(words: str) -> CommandLine:
    """Return the line that a receipt is asked for.

    Raise `WrongInput` for one that does more than read.
    """
    line = read_line(words)
    name, runs = line.command.name, line.runs
    if line.shared:
        raise WrongInput("A receipt is of an answer, not of sharing it; leave 'share' out.")
    if runs.carries:
        raise WrongInput(f"'{name}' is itself about another line; name that line alone.")
    if runs.changes or runs.audited:
        raise WrongInput(
            f"'{name}' changes something; a receipt is of a line that only reads, such as"
            " 'receipt cost 7d'."
        )
    if Needs.REPLAY in runs.opens:
        raise WrongInput(
            f"'{name}' reads other recordings than the watched source, of which no receipt is made."
        )
    return line


async def answered(ports: Ports, request: Request, read: CommandLine) -> WatchedAnswer:
    """Answer a line, noting its questions to the ports."""
    call, witness = typed(read, request.at), Witness()
    asking = replace(request, line=read.text)
    card: Card = await call.command.handler(witness.watched(ports), asking, **call.arguments)
    source = ports.site.facts.get("source", "")
    return WatchedAnswer(read.text, request.at, source, call.command.figures, card, witness)


def _read(text: str, name: str) -> AnswerReceipt:
    """Read a stored receipt; raise `WrongInput` for anything else."""
    try:
        document = json.loads(text)
        stored = decode(AnswerReceipt, document.get("data", document))
        times = (stored.at, *_reached(stored))
        if _HUGE.search(text) or not all(time.year in YEARS for time in times):
            raise ValueError("a number or a time in it is no answer's")
    except (ValueError, AttributeError, RecursionError) as error:
        reason = shortened(str(error), 120)
        raise WrongInput(
            f"'{shortened(name)}' is no receipt that 'receipt LINE --json' wrote: {reason}."
        ) from None
    return stored


def _reached(stored: AnswerReceipt) -> list[datetime]:
    """Return how far the bill reached when each question was asked."""
    return [
        question.through
        for question in stored.questions
        if question.port is AskedPort.BILL and question.through
    ]


def _then(ports: Ports, stored: AnswerReceipt) -> Ports:
    """Return the ports with the bill as far as it reached when the receipt was made."""
    billing = ports.world.billing
    if isinstance(billing, BilledBy):
        billing = billing.billing  # it was cut to the time of this question
    reached = _reached(stored)
    if reached:
        billing = BilledBy(billing, max(reached), timedelta(0))
    ports = replace(ports, world=replace(ports.world, billing=billing))
    return ports if reached else as_of(ports, stored.at)
