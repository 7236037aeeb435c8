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
from bot.ports import Billing, Ports

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
        "the line whose answer is meant; in a terminal also a file that 'receipt LINE --json' wrote",
        rest=True,
    ),
) -> Card:
    """Check a line at once, or the receipt of an earlier answer."""
    words = read_line(request.line).rest.strip()
    if _FILE.fullmatch(words):
        kept = _read(ports.site.files.text(words, request), words)
        ports, request = _then(ports, kept), replace(request, at=kept.at)
        again = await answered(ports, request, _carried(kept.line))
    else:
        first, again = [await answered(ports, request, _carried(words)) for _ in range(2)]
        kept = receipt_of(first)
    outcome = await asyncio.to_thread(verify, kept, again, ports.world.billing)
    return verification_card(kept, outcome)


def _carried(words: str) -> CommandLine:
    """Return the line that a receipt is asked for.

    Raise `WrongInput` for one that does more than read.
    """
    read = read_line(words)
    name = read.command.name
    if read.shared:
        raise WrongInput("A receipt is of an answer, not of sharing it; leave 'share' out.")
    if read.runs.carries:
        raise WrongInput(f"'{name}' is itself about another line; name that line alone.")
    if read.runs.changes or read.runs.audited:
        raise WrongInput(
            f"'{name}' changes something; a receipt is of a line that only reads, such as 'receipt cost 7d'."
        )
    if Needs.REPLAY in read.runs.opens:
        raise WrongInput(
            f"'{name}' reads other recordings than the watched source, of which no receipt is made."
        )
    return read


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
        kept = decode(AnswerReceipt, document.get("data", document))
        if _HUGE.search(text) or not all(at.year in YEARS for at in (kept.at, *_reached(kept))):
            raise ValueError("a number or a time in it is no answer's")
    except (ValueError, AttributeError, RecursionError) as error:
        said = shortened(str(error), 120)
        raise WrongInput(
            f"'{shortened(name)}' is no receipt that 'receipt LINE --json' wrote: {said}."
        ) from None
    return kept


def _reached(kept: AnswerReceipt) -> list[datetime]:
    """Return how far the bill reached when each question was asked."""
    return [
        question.through
        for question in kept.questions
        if question.port is AskedPort.BILL and question.through
    ]


def _then(ports: Ports, kept: AnswerReceipt) -> Ports:
    """Return the ports with the bill as far as it reached when the receipt was made."""
    whole = replace(ports, world=replace(ports.world, billing=_whole(ports.world.billing)))
    reached = _reached(kept)
    if not reached:
        return as_of(whole, kept.at)
    return replace(
        whole,
        world=replace(
            whole.world, billing=BilledBy(whole.world.billing, max(reached), timedelta(0))
        ),
    )


def _whole(billing: Billing) -> Billing:
    return billing.billing if isinstance(billing, BilledBy) else billing
