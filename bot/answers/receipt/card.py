"""Draw receipts, and the outcome of checking them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
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
    Difference,
    Figure,
    PortQuestion,
    Verification,
)

_MOST = 15
_R = Align.RIGHT
_DATED = (AskedPort.BILL, AskedPort.METRICS)


def receipt_card(receipt: AnswerReceipt) -> Card:
    """Draw each number with its formula, the questions asked for it, and the age of the data."""
    if not receipt.figures:
        say = text("Its answer holds no number that would need a receipt.")
        return Card(f"Receipt of '{receipt.line}': no number", Tone.INFO, (say,), encode(receipt))
    numbers, questions = (
        counted(len(receipt.figures), "number"),
        counted(len(receipt.questions), "question"),
    )
    blocks: list[Block] = [
        _figures(receipt.figures),
        *([_questions(receipt.questions)] if receipt.questions else []),
        *_prices(receipt),
        *_ages(receipt),
        quiet(
            "In a terminal, --json writes every number with its path, and 'verify FILE' checks that file later."
        ),
        Buttons((Button("Verify", f"verify {receipt.line}"), Button("The answer", receipt.line))),
    ]
    return Card(
        f"Receipt of '{receipt.line}': {numbers}, {questions}",
        Tone.INFO,
        tuple(blocks),
        encode(receipt),
    )


def _figures(figures: Sequence[Figure]) -> Table:
    """List the numbers with their formulas; those of like rows once, with how many there are."""
    groups: dict[tuple[str, str], list[Figure]] = {}
    for figure in figures:
        groups.setdefault((_pattern(figure.path), figure.formula), []).append(figure)
    columns = (
        Heading("number"),
        Heading("the first", _R),
        Heading("of them", _R),
        Heading("formula"),
    )
    rows = [
        (name, f"{mine[0].amount:,f}", f"{len(mine):,}", formula)
        for (name, formula), mine in groups.items()
    ]
    left = sum(len(mine) for mine in list(groups.values())[_MOST:])
    return Table(
        columns, tuple(rows[:_MOST]), rest=f"and {counted(left, 'more number')}" if left else ""
    )


def _pattern(path: str) -> str:
    """Return a path without the places of its rows: `/rows/3/net_usd` is `rows net_usd`."""
    return " ".join(
        part for part in path.split("/") if part and not part.isdigit() and not part.startswith("$")
    )


def _questions(questions: Sequence[PortQuestion]) -> Table:
    columns = (
        Heading("asked of"),
        Heading("for"),
        Heading("rows", _R),
        Heading("net", _R),
        Heading("amortised", _R),
    )
    rows = tuple(
        (each.port.value, each.asked, f"{each.rows:,}", *_total(each)) for each in questions[:_MOST]
    )
    left = len(questions) - _MOST
    return Table(columns, rows, rest=f"and {counted(left, 'more question')}" if left > 0 else "")


def _total(question: PortQuestion) -> tuple[str, str]:
    return (
        (usd(question.total.net, 2), usd(question.total.amortised, 2))
        if question.total
        else ("", "")
    )


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
    each = [
        (
            x.instance_type,
            f"${x.usd_per_hour:f}",
            x.market.value,
            x.zone or x.region,
            f"{x.basis}: {x.source}",
            f"{x.asof}",
        )
        for x in prices
    ]
    left = len(prices) - _MOST
    return [
        Table(
            columns,
            tuple(each[:_MOST]),
            rest=f"and {counted(left, 'more price')}" if left > 0 else "",
        )
    ]


def _ages(receipt: AnswerReceipt) -> list[Text]:
    """Say how far each kind of data reached."""
    ages: dict[AskedPort, datetime] = {}
    for question in receipt.questions:
        if question.through and question.port in _DATED:
            ages[question.port] = max(ages.get(question.port, question.through), question.through)
    reached = [quiet(f"The {port} reached to ", When(at), ".") for port, at in ages.items()]
    return [
        *reached,
        quiet("Asked ", When(receipt.at), f"{f', of {receipt.source}' if receipt.source else ''}."),
    ]


def verification_card(receipt: AnswerReceipt, outcome: Verification) -> Card:
    """Draw the differences first, then how the rest was checked."""
    counts = Counter(outcome.checked.values())
    every, wrong = len(receipt.figures), len(receipt.figures) - len(outcome.checked)
    facts = [(how.value, f"{counts[how]:,}") for how in Checked]
    blocks: list[Block] = [
        *([_differences(outcome.differences)] if outcome.differences else []),
        Facts((*facts, ("sums of the bill added up", f"{outcome.sums:,}"))),
        quiet(
            "Recomputed: by its formula, or as a sum of the bill that was added up from its days and from its resources. "
            "Answered again: the data are the same, the arithmetic was not done another way."
        ),
        *(quiet(sentence) for sentence in outcome.notes[:3]),
        Buttons((Button("Receipt", f"receipt {receipt.line}"),)),
    ]
    if outcome.differences:
        number = (
            f"{wrong:,} of {counted(every, 'number')} differ"
            if wrong
            else f"{counted(every, 'number')} hold; the data are not the same"
        )
        return Card(
            f"'{receipt.line}': {number}", Tone.WARNING, tuple(blocks), _data(receipt, outcome)
        )
    title = f"'{receipt.line}': {counted(every, 'number')}, the same when made again"
    return Card(title, Tone.GOOD, tuple(blocks), _data(receipt, outcome))


def _differences(differences: Sequence[Difference]) -> Table:
    columns = (Heading("what differs"), Heading("was", _R), Heading("is", _R), Heading("why"))
    rows = tuple((each.what, each.was, each.now, each.why) for each in differences[:_MOST])
    left = len(differences) - _MOST
    return Table(columns, rows, rest=f"and {counted(left, 'more difference')}" if left > 0 else "")


def _data(receipt: AnswerReceipt, outcome: Verification) -> dict[str, Any]:
    return {
        "line": receipt.line,
        "at": receipt.at,
        "figures": len(receipt.figures),
        "checked": {path: how.value for path, how in outcome.checked.items()},
        "sums": outcome.sums,
        "differences": [vars(each) for each in outcome.differences],
        "notes": list(outcome.notes),
    }
