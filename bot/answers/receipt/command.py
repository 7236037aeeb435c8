"""Answer how the numbers of a line came about, and whether they come out again."""

from __future__ import annotations

import asyncio
import json
import re
from collections import Counter
from dataclasses import replace
from datetime import datetime, timedelta

from bot.answers.receipt.verify import WatchedAnswer, receipt_of, verify
from bot.answers.receipt.witness import Witness
from bot.cards.card import (
    Button,
    Buttons,
    Card,
    Facts,
    Tone,
    When,
    compose,
    quiet,
    text,
)
from bot.cards.columns import COUNT, NUMBER, USD_CENTS, Column, Columns, Unit
from bot.costs.tally import BilledBy, as_of
from bot.errors import WrongInput, refuse, shortened
from bot.grammar.line import CommandLine, read_line, typed
from bot.grammar.registry import Needs, Topic, arg, command
from bot.model.codec import by_key, decode, encode
from bot.model.limits import YEARS
from bot.model.money import counted
from bot.model.price import Price
from bot.model.receipt import (
    AnswerReceipt,
    AskedPort,
    Checked,
    Difference,
    Figure,
    PortQuestion,
    Verification,
)
from bot.model.request import Request
from bot.ports import Ports

_MOST = 15


_FIGURES = Columns[tuple[str, list[Figure]]](
    Column("number", lambda group: group[0]),
    Column("the first", lambda group: group[1][0].amount, Unit("{:,f}".format)),
    Column("of them", lambda group: len(group[1]), COUNT),
    Column("formula", lambda group: group[1][0].formula, missing=""),
)
_QUESTIONS = Columns[PortQuestion](
    Column("asked of", lambda question: question.port.value),
    Column("for", lambda question: question.asked, missing=""),
    Column("rows", lambda question: question.rows, COUNT),
    Column("net", lambda x: x.total and x.total.net, USD_CENTS, missing=""),
    Column("amortised", lambda x: x.total and x.total.amortised, USD_CENTS, missing=""),
)
_PRICES = Columns[Price](
    Column("price of", lambda price: price.instance_type, missing=""),
    Column("an hour", lambda price: price.usd_per_hour, Unit("${:f}".format)),
    Column("market", lambda price: price.market.value),
    Column("region", lambda price: price.zone or price.region, missing=""),
    Column("by", lambda price: f"{price.basis}: {price.source}"),
    Column("of", lambda price: price.asof, NUMBER),
)
_DIFFERENCES = Columns[Difference](
    Column("what differs", lambda difference: difference.what, missing=""),
    Column("was", lambda difference: difference.was, NUMBER, missing=""),
    Column("is", lambda difference: difference.now, NUMBER, missing=""),
    Column("why", lambda difference: difference.why, missing=""),
)


def _name_of(figure: Figure) -> str:
    """Return the path of a number without places in lists and amounts of a card."""
    parts = figure.path.split("/")
    return " ".join(x for x in parts if x and not x.isdigit() and not x.startswith("$"))


def receipt_card(receipt: AnswerReceipt) -> Card:
    """Draw each number with its formula, the questions asked for it, and the age of the data."""
    if not receipt.figures:
        say = text("Its answer holds no number that would need a receipt.")
        return Card(f"Receipt of '{receipt.line}': no number", Tone.INFO, (say,), encode(receipt))

    # Numbers of like rows are listed once: `/rows/3/net_usd` and its neighbours as `rows net_usd`.
    alike = by_key(((_name_of(figure), figure.formula), figure) for figure in receipt.figures)
    groups = [(name, figures) for (name, _), figures in alike.items()]
    # Of the price rows that came back those that a number is, to the millionth.
    amounts = {round(figure.amount, 6) for figure in receipt.figures}
    came = dict.fromkeys(price for question in receipt.questions for price in question.prices)
    prices = [price for price in came if round(price.usd_per_hour, 6) in amounts]

    # How far each kind of data reached.
    reached = by_key((x.port, x.through) for x in receipt.questions if x.through)
    dated = (AskedPort.BILL, AskedPort.METRICS)
    ages = {port: max(times) for port, times in reached.items() if port in dated}
    source = f", of {receipt.source}" if receipt.source else ""
    unlisted = sum(len(figures) for _, figures in groups[_MOST:])
    numbers = counted(len(receipt.figures), "number")
    questions = counted(len(receipt.questions), "question")

    return Card(
        f"Receipt of '{receipt.line}': {numbers}, {questions}",
        Tone.INFO,
        compose(
            _FIGURES.table(groups, most=_MOST, rest=f"and {counted(unlisted, 'more number')}"),
            _QUESTIONS.table(receipt.questions, most=_MOST, noun="question")
            if receipt.questions
            else None,
            _PRICES.table(prices, most=_MOST, noun="price") if prices else None,
            [quiet(f"The {port} reached to ", When(age), ".") for port, age in ages.items()],
            quiet("Asked ", When(receipt.at), f"{source}."),
            quiet(
                "In a terminal, --json writes every number with its path, "
                "and 'verify FILE' checks that file later."
            ),
            Buttons(
                (Button("Verify", f"verify {receipt.line}"), Button("The answer", receipt.line))
            ),
        ),
        encode(receipt),
    )


def verification_card(receipt: AnswerReceipt, outcome: Verification) -> Card:
    """Draw the differences first, then how the rest was checked."""
    counts = Counter(outcome.checked.values())
    facts = [(how.value, f"{counts[how]:,}") for how in Checked]

    tone = Tone.WARNING if outcome.differences else Tone.GOOD
    numbers = counted(len(receipt.figures), "number")
    wrong = len(receipt.figures) - len(outcome.checked)
    if not outcome.differences:
        verdict = f"{numbers}, the same when made again"
    elif wrong:
        verdict = f"{wrong:,} of {numbers} differ"
    else:
        verdict = f"{numbers} hold; the data are not the same"

    return Card(
        f"'{receipt.line}': {verdict}",
        tone,
        compose(
            _DIFFERENCES.table(outcome.differences, most=_MOST, noun="difference")
            if outcome.differences
            else None,
            Facts((*facts, ("sums of the bill added up", f"{outcome.sums:,}"))),
            quiet(
                "Recomputed: by its formula, or as a sum of the bill that was added up from its"
                " days and from its resources. Answered again: the data are the same, the"
                " arithmetic was not done another way."
            ),
            [quiet(sentence) for sentence in outcome.notes[:3]],
            Buttons((Button("Receipt", f"receipt {receipt.line}"),)),
        ),
        {
            "line": receipt.line,
            "at": receipt.at,
            "figures": len(receipt.figures),
            "checked": {path: how.value for path, how in outcome.checked.items()},
            "sums": outcome.sums,
            "differences": [vars(difference) for difference in outcome.differences],
            "notes": list(outcome.notes),
        },
    )


_WATCHED = Needs.BILL | Needs.METRICS | Needs.DETECTOR | Needs.STATE
_HUGE = re.compile(r'"[+-]?[\d.]+[eE]\+?\d{2,}"')
"""An amount that would take longer to write than to read."""
_FILE = re.compile(r"\S*(?:/|\.json$)\S*")


@command(
    "receipt",
    "Where each number of an answer comes from: what was asked, prices, formula, age of the data.",
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
    "Recompute an answer's numbers from the same data, and list those that differ.",
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
    refuse(
        (line.shared, "A receipt is for an answer, not for sharing it; leave 'share' out."),
        (runs.carries, f"'{name}' is itself about another line; name that line alone."),
        (
            runs.changes or runs.audited,
            f"'{name}' changes something; a receipt is for a line that only reads, such as"
            " 'receipt cost 7d'.",
        ),
        (
            Needs.REPLAY in runs.opens,
            f"'{name}' reads other recordings than the watched source, of which no receipt is"
            " made.",
        ),
    )

    return line


async def answered(ports: Ports, request: Request, read: CommandLine) -> WatchedAnswer:
    """Answer a line, noting its questions to the ports."""
    call, witness = typed(read, request.at), Witness()
    card: Card = await call.command.handler(
        witness.watched(ports), replace(request, line=read.text, whole=True), **call.arguments
    )
    source = ports.site.facts.get("source", "")
    return WatchedAnswer(read.text, request.at, source, call.command.figures, card, witness)


def _read(text: str, name: str) -> AnswerReceipt:
    """Read a stored receipt; raise `WrongInput` for anything else."""
    try:
        document = json.loads(text)
        stored = decode(AnswerReceipt, document.get("data", document))
        times = (stored.at, *_reached(stored))
        if _HUGE.search(text) or not all(time.year in YEARS for time in times):
            raise ValueError("it holds a number or a time that no answer has")
    except (ValueError, AttributeError, RecursionError) as error:
        reason = shortened(str(error), 120)
        raise WrongInput(
            f"'{shortened(name)}' is not a receipt that 'receipt LINE --json' wrote: {reason}."
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
    billing, reached = ports.world.billing, _reached(stored)
    if isinstance(billing, BilledBy):
        billing = billing.billing  # it was cut to the time of this question
    if reached:
        billing = BilledBy(billing, max(reached), timedelta(0))
    ports = replace(ports, world=replace(ports.world, billing=billing))

    return ports if reached else as_of(ports, stored.at)
