"""Draw receipts, and the outcome of checking them."""

from __future__ import annotations

from collections import Counter
from datetime import datetime
from typing import Any

from bot.cards.card import (
    Align,
    Block,
    Button,
    Buttons,
    Card,
    Facts,
    Heading,
    Table,
    Text,
    Tone,
    When,
    quiet,
    text,
)
from bot.model.codec import encode
from bot.model.money import counted, usd
from bot.model.receipt import (
    AnswerReceipt,
    AskedPort,
    Checked,
    Figure,
    Verification,
)

_MOST = 15
_R = Align.RIGHT
_DATED = (AskedPort.BILL, AskedPort.METRICS)


def _more(count: int, noun: str) -> str:
    return f"and {counted(count, f'more {noun}')}" if count > 0 else ""


def receipt_card(receipt: AnswerReceipt) -> Card:
    """Draw each number with its formula, the questions asked for it, and the age of the data."""
    if not receipt.figures:
        say = text("Its answer holds no number that would need a receipt.")
        return Card(f"Receipt of '{receipt.line}': no number", Tone.INFO, (say,), encode(receipt))

    # Numbers of like rows are listed once: `/rows/3/net_usd` and its neighbours as `rows net_usd`.
    groups: dict[tuple[str, str], list[Figure]] = {}
    for figure in receipt.figures:
        parts = [part for part in figure.path.split("/") if part and not part.isdigit()]
        name = " ".join(part for part in parts if not part.startswith("$"))
        groups.setdefault((name, figure.formula), []).append(figure)
    rows = [
        (name, f"{figures[0].amount:,f}", f"{len(figures):,}", formula)
        for (name, formula), figures in groups.items()
    ]
    unlisted = sum(len(figures) for figures in list(groups.values())[_MOST:])
    columns = (
        Heading("number"),
        Heading("the first", _R),
        Heading("of them", _R),
        Heading("formula"),
    )
    blocks: list[Block] = [Table(columns, tuple(rows[:_MOST]), rest=_more(unlisted, "number"))]

    if receipt.questions:
        cells = []
        for question in receipt.questions[:_MOST]:
            net, amortised = "", ""
            if question.total:
                net, amortised = usd(question.total.net, 2), usd(question.total.amortised, 2)
            cells.append(
                (question.port.value, question.asked, f"{question.rows:,}", net, amortised)
            )
        headings = (
            Heading("asked of"),
            Heading("for"),
            Heading("rows", _R),
            Heading("net", _R),
            Heading("amortised", _R),
        )
        note = _more(len(receipt.questions) - _MOST, "question")
        blocks.append(Table(headings, tuple(cells), rest=note))

    blocks += [*_prices(receipt), *_ages(receipt)]
    blocks += [
        quiet(
            "In a terminal, --json writes every number with its path, "
            "and 'verify FILE' checks that file later."
        ),
        Buttons((Button("Verify", f"verify {receipt.line}"), Button("The answer", receipt.line))),
    ]
    numbers = counted(len(receipt.figures), "number")
    questions = counted(len(receipt.questions), "question")
    title = f"Receipt of '{receipt.line}': {numbers}, {questions}"
    return Card(title, Tone.INFO, tuple(blocks), encode(receipt))


def _prices(receipt: AnswerReceipt) -> list[Block]:
    """List the price rows that a number is, to the millionth."""
    amounts = {round(figure.amount, 6) for figure in receipt.figures}
    came = dict.fromkeys(price for question in receipt.questions for price in question.prices)
    prices = [price for price in came if round(price.usd_per_hour, 6) in amounts]
    if not prices:
        return []

    columns = (
        Heading("price of"),
        Heading("an hour", _R),
        Heading("market"),
        Heading("region"),
        Heading("by"),
        Heading("of", _R),
    )
    rows = tuple(
        (
            price.instance_type,
            f"${price.usd_per_hour:f}",
            price.market.value,
            price.zone or price.region,
            f"{price.basis}: {price.source}",
            f"{price.asof}",
        )
        for price in prices[:_MOST]
    )
    return [Table(columns, rows, rest=_more(len(prices) - _MOST, "price"))]


def _ages(receipt: AnswerReceipt) -> list[Text]:
    """Say how far each kind of data reached."""
    ages: dict[AskedPort, datetime] = {}
    for question in receipt.questions:
        if question.through and question.port in _DATED:
            ages[question.port] = max(ages.get(question.port, question.through), question.through)

    reached = [quiet(f"The {port} reached to ", When(newest), ".") for port, newest in ages.items()]
    source = f", of {receipt.source}" if receipt.source else ""
    return [*reached, quiet("Asked ", When(receipt.at), f"{source}.")]


def verification_card(receipt: AnswerReceipt, outcome: Verification) -> Card:
    """Draw the differences first, then how the rest was checked."""
    blocks: list[Block] = []
    if outcome.differences:
        columns = (Heading("what differs"), Heading("was", _R), Heading("is", _R), Heading("why"))
        rows = tuple((x.what, x.was, x.now, x.why) for x in outcome.differences[:_MOST])
        note = _more(len(outcome.differences) - _MOST, "difference")
        blocks.append(Table(columns, rows, rest=note))

    counts = Counter(outcome.checked.values())
    facts = [(how.value, f"{counts[how]:,}") for how in Checked]
    blocks += [
        Facts((*facts, ("sums of the bill added up", f"{outcome.sums:,}"))),
        quiet(
            "Recomputed: by its formula, or as a sum of the bill that was added up from its days "
            "and from its resources. Answered again: the data are the same, the arithmetic was "
            "not done another way."
        ),
        *(quiet(sentence) for sentence in outcome.notes[:3]),
        Buttons((Button("Receipt", f"receipt {receipt.line}"),)),
    ]

    tone = Tone.WARNING if outcome.differences else Tone.GOOD
    numbers = counted(len(receipt.figures), "number")
    wrong = len(receipt.figures) - len(outcome.checked)
    if not outcome.differences:
        verdict = f"{numbers}, the same when made again"
    elif wrong:
        verdict = f"{wrong:,} of {numbers} differ"
    else:
        verdict = f"{numbers} hold; the data are not the same"
    title = f"'{receipt.line}': {verdict}"
    return Card(title, tone, tuple(blocks), _data(receipt, outcome))


def _data(receipt: AnswerReceipt, outcome: Verification) -> dict[str, Any]:
    return {
        "line": receipt.line,
        "at": receipt.at,
        "figures": len(receipt.figures),
        "checked": {path: how.value for path, how in outcome.checked.items()},
        "sums": outcome.sums,
        "differences": [vars(difference) for difference in outcome.differences],
        "notes": list(outcome.notes),
    }
