"""State the receipt of an answer, and check one against the same data, asked again."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from itertools import accumulate
from typing import Any

from bot.answers.receipt.witness import Witness
from bot.cards.card import Card, Facts, Table, Text
from bot.cards.words import about
from bot.errors import OverBudget, WrongInput
from bot.model.codec import by_key, encode
from bot.model.fleet import Market
from bot.model.money import Part, cents, usd
from bot.model.price import Price
from bot.model.receipt import (
    AnswerReceipt,
    Checked,
    Difference,
    Figure,
    Path,
    Piece,
    PortQuestion,
    TallyTerms,
    Verification,
    agree,
    exact,
    numbers,
    pointer,
)
from bot.model.spend import Money, Tally
from bot.ports import Billing

UNSTATED = "no formula is stated for it"
DRAWN = "is only on the card, rounded for reading"
"""The formula of an amount on a card that is neither a number of its data nor a sum of them."""
MEASURES = ("gross", "discounts", "credits", "tax", "net", "amortised")
_MILLIONTH = Decimal("0.000001")
_ONE_RATE = (Market.ON_DEMAND, Market.SAVINGS_PLAN, Market.RESERVED)
_USD = re.compile(r"\$\d+(?:,\d{3})*(?:\.\d+)?")
_LABELS = ("cluster", "team", "state", "instance_type", "service")
"""What rows are summed by on cards."""


@dataclass(frozen=True)
class WatchedAnswer:
    """Hold one answer to a line, with all that was noted while it was made."""

    line: str
    at: datetime
    source: str
    figures: Mapping[str, str]
    """How each number of the command's data is made, by the end of its path."""
    card: Card
    witness: Witness


def receipt_of(answer: WatchedAnswer) -> AnswerReceipt:
    """Return the receipt of an answer: of each number in its data, and each question it asked."""
    stated = [
        Figure(pointer(path), amount, formula_of(answer.figures, path))
        for path, amount in numbers(answer.card.data)
    ]

    # Of the price rows that came, those of the types that the answer names.
    questions = answer.witness.questions.values()
    words = {
        *_texts(answer.card.data),
        *(question.asked.partition(" ")[0] for question in questions),
    }
    noted = tuple(
        replace(question, prices=tuple(x for x in question.prices if x.instance_type in words))
        for question in questions
    )

    return AnswerReceipt(
        answer.line, answer.at, answer.source, noted, (*stated, *drawn_alone(answer.card))
    )


def formula_of(figures: Mapping[str, str], path: Path) -> str:
    """Return how a number is made, by the row that names most of its path; `*` is any name."""
    names = [part for part in path if isinstance(part, str)]

    def fits(end: str) -> bool:
        parts = end.split("/")
        tail = names[-len(parts) :]
        return len(tail) == len(parts) and all(
            part in ("*", name) for part, name in zip(parts, tail, strict=True)
        )

    fitting = [end for end in figures if fits(end)]
    if not fitting:
        return UNSTATED

    return figures[max(fitting, key=lambda end: (end.count("/"), "*" not in end))]


def _texts(data: Any) -> Iterator[str]:
    """Yield every text within data."""
    match data:
        case str():
            yield data
        case Mapping():
            for inner in data.values():
                yield from _texts(inner)
        case list() | tuple():
            for inner in data:
                yield from _texts(inner)


def drawn_alone(card: Card) -> Iterator[Figure]:
    """Yield the amounts of USD that stand on a card and in no number of its data."""
    in_data = {text for _, amount in numbers(card.data) for text in _writings(amount)}
    sums = {text: (total, how) for how, total in _sums(card.data) for text in _writings(total)}

    words = [encode(block) for block in card.blocks if isinstance(block, Text | Facts | Table)]
    # An amount that a card writes twice is one figure.
    for drawn in dict.fromkeys(
        x for text in _texts([card.title, *words]) for x in _USD.findall(text)
    ):
        if drawn not in in_data:
            rounded = Decimal(drawn.replace(",", "").removeprefix("$"))
            yield Figure(f"/card/{drawn}", *sums.get(drawn, (rounded, DRAWN)))


def _writings(amount: Decimal) -> list[str]:
    """Return the ways in which a card may write an amount."""
    if not amount.is_finite():
        return []
    size = abs(amount)
    return [about(size), *(usd(size, digits) for digits in (None, 0, 2, 4))]


def _sums(data: Mapping[str, Any]) -> Iterator[tuple[str, Decimal]]:
    """Yield the sums of a list's numbers over the rows of one label, with how each is made."""
    for name, rows in data.items():
        if not isinstance(rows, list | tuple) or not all(isinstance(row, Mapping) for row in rows):
            continue
        # Cards add rows up by these labels, to sums that no number of the data is.
        for label in _LABELS:
            groups = by_key(
                ((str(value), " ".join(map(str, path))), amount)
                for row in rows
                for value in _values(row, label)[:1]
                for path, amount in numbers(row)
            )
            for (value, number), amounts in groups.items():
                if "usd" in number and len(amounts) > 1 and any(amounts):
                    how = f"sum of {name} {number} where {label} is {value or 'none'}"
                    yield how, sum(amounts, Decimal(0))


def _values(scope: Mapping[str, Any], label: str) -> list[Any]:
    """Return the values of a label of a row: of its own, of its labels, and of its key."""
    places = (scope, scope.get("labels"), scope.get("key"))
    return [place[label] for place in places if isinstance(place, Mapping) and label in place]


def verify(receipt: AnswerReceipt, again: WatchedAnswer, billing: Billing) -> Verification:
    """Return how each number of a receipt was checked against the line answered again; may block.

    A sum of the bill is added up from its days and its resources, a price is looked up in the rows
    that came back, and every other number is compared with the new answer.
    """
    fresh = receipt_of(again)
    changed = list(_changed_questions(receipt.questions, fresh.questions))
    parts = list(dict.fromkeys(difference.what.partition(":")[0] for difference in changed))
    why = "the same data make another number"
    if parts:
        others = f" and {len(parts) - 2} more" if len(parts) > 2 else ""
        why = f"changed: {'; '.join(parts[:2])}{others}"

    checked, wrong, sums_of = _checked_figures(receipt.figures, fresh.figures, again, why)

    sums, notes = 0, []
    if receipt.source != again.source:
        stated, current = receipt.source or "a source without a name", again.source or "another one"
        notes.append(f"The receipt was made of {stated}; this is {current}.")
    for question in again.witness.questions.values():
        if question.terms and str(question.terms) in sums_of:
            unequal, untried = _mismatches(
                billing, question.terms, again.witness.tallies[str(question.terms)]
            )
            wrong, notes, sums = [*wrong, *unequal], [*notes, *untried], sums + (not unequal)

    return Verification(checked, (*changed, *wrong), sums, tuple(notes))


def _checked_figures(
    stated: Sequence[Figure], fresh: Sequence[Figure], again: WatchedAnswer, why: str
) -> tuple[dict[str, Checked], list[Difference], set[str]]:
    """Return how each stated number was checked, those that differ, and the sums they rest on."""
    paths = {pointer(path): path for path, _ in numbers(again.card.data)}
    current = {figure.path: figure for figure in fresh}
    checked: dict[str, Checked] = {}
    wrong: list[Difference] = []
    sums_of: set[str] = set()
    for figure in stated:
        new = current.pop(figure.path, None)
        if new is None:
            wrong.append(Difference(figure.path, f"{figure.amount:f}", "not in the answer", why))
        elif not agree(figure.amount, new.amount):
            # To the cent, or in full where they differ by less.
            digits = ".2f" if cents(figure.amount) != cents(new.amount) else "f"
            was, is_now = (format(amount, digits) for amount in (figure.amount, new.amount))
            wrong.append(Difference(figure.path, was, is_now, why))
        elif figure.formula != new.formula:
            wrong.append(
                Difference(figure.path, figure.formula, new.formula, "the formula is another one")
            )
        elif figure.path not in paths:
            # Such an amount stands on the card alone: it was rounded there, or added up anew.
            checked[figure.path] = Checked.AGAIN if new.formula == DRAWN else Checked.RECOMPUTED
        elif terms := _billed(paths[figure.path], new.amount, again):
            sums_of.add(terms)
            checked[figure.path] = Checked.RECOMPUTED
        elif _priced(paths[figure.path], new.amount, again):
            checked[figure.path] = Checked.LOOKED_UP
        else:
            checked[figure.path] = Checked.AGAIN

    # What is left of the new answer was not in the receipt.
    wrong += [
        Difference(new.path, "not in the receipt", f"{new.amount:f}", why)
        for new in current.values()
    ]

    return checked, wrong, sums_of


def _scopes(path: Path, data: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the objects around a number, the innermost first."""
    document: Any = data
    around = accumulate(path[:-1], lambda scope, part: scope[part], initial=document)
    return [scope for scope in reversed(list(around)) if isinstance(scope, Mapping)]


def _billed(path: Path, amount: Decimal, answer: WatchedAnswer) -> str:
    """Return the terms of the sum of the bill that states this amount, "" where none does.

    In the row of its key, else in a total.
    """
    measure = str(path[-1]).removesuffix("_usd").rpartition("_")[2]
    if measure not in MEASURES:
        return ""

    # A row of the bill is known by its key; what has none is a total.
    key = _scopes(path, answer.card.data)[0].get("key")
    for terms, tally in answer.witness.tallies.items():
        sums = [tally.total]
        if isinstance(key, Mapping):
            sums = [row.money for row in tally.rows if dict(row.key) == key]
        if any(agree(getattr(money, measure), amount) for money in sums):
            return terms

    return ""


def _priced(path: Path, amount: Decimal, answer: WatchedAnswer) -> bool:
    """Return whether the amount is the price of a row: a quote, or the account's own rate."""
    if "usd" not in str(path[-1]):
        return False
    scopes = _scopes(path, answer.card.data)

    def label(name: str) -> str:
        inside = [part for scope in scopes for part in (scope, scope.get("labels"))]
        texts = [part[name] for part in inside if isinstance(part, Mapping) and name in part]
        return next((text for text in texts if isinstance(text, str)), "")

    rates = answer.witness.rates
    quoted = [x for question in answer.witness.questions.values() for x in question.prices]
    lists = (
        rates.by_instance.get(label("instance"), ()),
        rates.by_cluster.get(label("cluster"), ()),
        rates.by_type,
    )
    kind = label("instance_type")
    prices = [price.usd_per_hour for price in quoted if price.instance_type == kind]

    # A rate is a mean by hours: over all ways to buy, the committed ones, and each of them.
    choices = (tuple(Market), _ONE_RATE, *((market,) for market in Market))
    for rows in lists:
        own_rates = [price for price in rows if price.instance_type == kind]
        for region in dict.fromkeys(rate.region for rate in own_rates):
            for markets in choices:
                chosen = [x for x in own_rates if x.region == region and x.market in markets]
                if hours := sum((exact(x.hours) for x in chosen), Decimal(0)):
                    usd = sum((x.usd_per_hour * exact(x.hours) for x in chosen), Decimal(0))
                    prices.append(usd / hours)

    return any(abs(price - amount) <= _MILLIONTH for price in prices)


def _mismatches(
    billing: Billing, terms: TallyTerms, tally: Tally
) -> tuple[list[Difference], list[str]]:
    """Add a sum up from its days, and from its resources.

    Return where it does not agree to the cent, and the sums not tried.
    """
    wrong: list[Difference] = []
    untried: list[str] = []
    for part in ("day", "resource"):
        if part in terms.by:
            continue
        try:
            pieces = billing.tally(terms.window, (*terms.by, part), terms.where)
        except (WrongInput, OverBudget) as error:
            untried.append(f"{terms} was not added up by {part}: {error}")
            continue

        sums: dict[tuple[str, ...], Money] = defaultdict(Money)
        for row in pieces.rows:
            sums[tuple(row.key[name] for name in terms.by)] += row.money
        stated = {tuple(row.key[name] for name in terms.by): row.money for row in tally.rows}
        pairs = [
            *(
                (", ".join(key) or "all", stated.get(key, Money()), sums.get(key, Money()))
                for key in dict.fromkeys((*stated, *sums))
            ),
            ("total", tally.total, sum(sums.values(), Money())),
        ]

        for name, total, added in pairs:
            unequal = [x for x in MEASURES if not agree(getattr(total, x), getattr(added, x))]
            if unequal:
                was, is_now = (
                    "; ".join(f"{measure} {getattr(money, measure):.2f}" for measure in unequal)
                    for money in (total, added)
                )
                what = f"bill added up by {part}: {terms}, {name}"
                wrong.append(Difference(what, was, is_now, "its pieces make another sum"))

    return wrong, untried


def _changed_questions(
    stated: Sequence[PortQuestion], fresh: Sequence[PortQuestion]
) -> Iterator[Difference]:
    """Yield the changed parts of questions, each once, and questions that one side alone asked."""
    yielded: set[tuple[str, str, str]] = set()
    before = {question.key: question for question in stated}
    after = {question.key: question for question in fresh}
    for key, question in before.items():
        if key not in after:
            yield Difference(
                _named(question), "asked", "not asked", "the answer asks for something else now"
            )
        elif after[key].digest != question.digest or after[key].total != question.total:
            for change in _changes(question, after[key]):
                # Questions over the same rows have the same pieces.
                what = change.what.partition(":")[0] if question.pieces else change.what
                if (what, change.was, change.now) not in yielded:
                    yield change
                yielded.add((what, change.was, change.now))

    for key, question in after.items():
        if key not in before:
            yield Difference(_named(question), "not asked", "asked", "new")


def _changes(then: PortQuestion, now: PortQuestion) -> list[Difference]:
    """Return the changes of one question: parts of a sum, price rows, else that something did."""
    was_now = f"{then.rows:,} rows", f"{now.rows:,} rows"
    reason = f"{was_now[0]} came back, and now {now.rows:,}"
    if then.rows == now.rows:
        was_now, reason = ("as noted", "other content"), "rows were added or rewritten"
    pieces = [{piece.key: piece for piece in question.pieces} for question in (then, now)]
    prices = [
        {
            ", ".join(filter(None, (x.instance_type, x.market, x.basis, x.region, x.zone))): x
            for x in question.prices
        }
        for question in (then, now)
    ]
    changes = [
        Difference(f"{then.port} of {key}: {then.asked}", _amounts(was), _amounts(is_now), reason)
        for key, was, is_now in sorted(_unequal(*pieces))
    ]
    changes += [
        Difference(f"price of {row}", _hour(was), _hour(is_now), _named(then))
        for row, was, is_now in _unequal(*prices)
    ]
    return changes or [Difference(_named(then), *was_now, "the content changed")]


def _unequal(
    then: Mapping[str, Part], now: Mapping[str, Part]
) -> list[tuple[str, Part | None, Part | None]]:
    """Return the keys whose parts differ, with both; None of one that has none."""
    return [
        (key, then.get(key), now.get(key))
        for key in dict.fromkeys((*then, *now))
        if then.get(key) != now.get(key)
    ]


def _amounts(piece: Piece | None) -> str:
    if piece is None:
        return "nothing"
    return f"net {piece.money.net:.2f}, amortised {piece.money.amortised:.2f}"


def _hour(price: Price | None) -> str:
    if price is None:
        return "no such row"
    return f"{price.usd_per_hour:f} an hour, {price.source}, {price.asof}"


def _named(question: PortQuestion) -> str:
    return f"{question.port}: {question.asked}"
