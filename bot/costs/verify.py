"""Check a receipt against the same data, asked again.

Each number by its formula, each sum of the bill by its pieces.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from typing import Any

from bot.costs.formulas import (
    AGAIN,
    BILL,
    BOTH,
    IF_AGREES,
    MEASURED,
    PRICE,
    ROW,
    Formulas,
    Terms,
    UnknownTerm,
    prefixed,
)
from bot.costs.pieces import MEASURES, mismatches
from bot.costs.witness import Witness
from bot.model.fleet import Market
from bot.model.money import cents
from bot.model.price import Price
from bot.model.receipt import (
    DRAWN,
    AnswerReceipt,
    Checked,
    Difference,
    Figure,
    FigureFormula,
    Path,
    Piece,
    PortQuestion,
    Verification,
    agree,
    exact,
    numbers,
    pointer,
)
from bot.model.spend import Tally
from bot.ports import Billing

UNSTATED = "no formula is stated for it"
_MILLIONTH = Decimal("0.000001")
_DIGITS = Decimal("0.0001")
"""How far a measurement may be from what its formula makes."""


@dataclass(frozen=True)
class WatchedAnswer:
    """Hold one answer to a line, with all that was noted while it was made."""

    line: str
    at: datetime
    source: str
    command: str
    terms: Terms
    witness: Witness
    drawn: tuple[Figure, ...] = ()
    """The amounts that stand on its card alone."""

    @property
    def data(self) -> Mapping[str, Any]:
        """Return the data of its card."""
        return self.terms.data


def receipt_of(answer: WatchedAnswer, formulas: Formulas) -> AnswerReceipt:
    """Return the receipt of an answer: of every number in its data, and of every question it asked."""
    every = numbers(answer.data)
    stated = [
        Figure(pointer(path), amount, _words(formulas.of(answer.command, path)))
        for path, amount in every
    ]
    figures = (*stated, *answer.drawn)
    named = set(_texts(answer.data)) | {
        question.asked.partition(" ")[0] for question in answer.witness.questions.values()
    }
    questions = tuple(_with_used(question, named) for question in answer.witness.questions.values())
    return AnswerReceipt(answer.line, answer.at, answer.source, questions, figures)


def _words(formula: FigureFormula | None) -> str:
    return formula.words if formula else UNSTATED


def _with_used(question: PortQuestion, named: set[str]) -> PortQuestion:
    """Return a question with the price rows of the types that the answer names.

    Its digest is of all of them.
    """
    return replace(
        question, prices=tuple(price for price in question.prices if price.instance_type in named)
    )


def _texts(data: Any) -> Iterator[str]:
    match data:
        case str():
            yield data
        case Mapping():
            for inner in data.values():
                yield from _texts(inner)
        case list() | tuple():
            for inner in data:
                yield from _texts(inner)


def verify(
    receipt: AnswerReceipt, again: WatchedAnswer, formulas: Formulas, billing: Billing
) -> Verification:
    """Return how each number of a receipt was checked against the line answered again, and the differences; may block."""
    fresh = receipt_of(again, formulas)
    changed = list(_changed_questions(receipt.questions, fresh.questions))
    check = _Check(again, formulas)
    checked, wrong = check.figures(
        receipt.figures, {figure.path: figure for figure in fresh.figures}, _why(changed)
    )
    sums, notes = 0, _other_source(receipt, again)
    for tally, terms in check.rested_on():
        unequal, left = mismatches(billing, terms, tally)
        wrong, notes, sums = [*wrong, *unequal], [*notes, *left], sums + (not unequal)
    return Verification(checked, (*changed, *wrong), sums, tuple(notes))


def _other_source(receipt: AnswerReceipt, again: WatchedAnswer) -> list[str]:
    if receipt.source == again.source:
        return []
    return [
        f"The receipt was made of {receipt.source or 'a source without a name'}; this is {again.source or 'another one'}."
    ]


def _why(changed: Sequence[Difference]) -> str:
    """Return the reason for which numbers differ.

    The parts of the data that changed, else that none did.
    """
    parts = list(dict.fromkeys(each.what.partition(":")[0] for each in changed))
    more = f" and {len(parts) - 2} more" if len(parts) > 2 else ""
    return (
        f"changed: {'; '.join(parts[:2])}{more}" if parts else "the same data make another number"
    )


def _shown(was: Decimal, now: Decimal) -> tuple[str, str]:
    """Write two numbers to the cent, or in full where they differ by less."""
    if cents(was) != cents(now):
        return f"{was:.2f}", f"{now:.2f}"
    return f"{was:f}", f"{now:f}"


class _Check:
    """Check the numbers of one answer, and collect the sums of the bill that they rest on."""

    def __init__(self, answer: WatchedAnswer, formulas: Formulas) -> None:
        self._answer, self._formulas = answer, formulas
        self._sums: set[str] = set()

    def figures(
        self, stated: Sequence[Figure], fresh: Mapping[str, Figure], why: str
    ) -> tuple[dict[str, Checked], list[Difference]]:
        """Return how each stated number was checked, and those that differ."""
        paths = {pointer(path): path for path, _ in numbers(self._answer.data)}
        checked, wrong = {}, []
        for figure in stated:
            new = fresh.get(figure.path)
            if new is None:
                wrong.append(
                    Difference(figure.path, f"{figure.amount:f}", "not in the answer", why)
                )
                continue
            path = paths.get(figure.path)
            how, computed = (
                self._recomputed(path, new.amount) if path else (self._of_drawn(new), new.amount)
            )
            if not agree(figure.amount, computed):
                wrong.append(Difference(figure.path, *_shown(figure.amount, computed), why))
            elif figure.formula != new.formula:
                wrong.append(
                    Difference(
                        figure.path, figure.formula, new.formula, "the formula is another one"
                    )
                )
            else:
                checked[figure.path] = how
        known = {figure.path for figure in stated}
        new_ones = [figure for path, figure in fresh.items() if path not in known]
        return checked, wrong + [
            Difference(new.path, "not in the receipt", f"{new.amount:f}", why) for new in new_ones
        ]

    def rested_on(self) -> Iterator[tuple[Tally, Any]]:
        """Yield the sums of the bill that numbers of the answer rest on."""
        for question in self._answer.witness.questions.values():
            if question.terms and str(question.terms) in self._sums:
                yield self._answer.witness.tallies[str(question.terms)], question.terms

    def _recomputed(self, path: Path, amount: Decimal) -> tuple[Checked, Decimal]:
        """Return how a number was made anew, and the result.

        Of several ways the one that does not agree.
        """
        formula = self._formulas.of(self._answer.command, path)
        ways = [
            self._way(how, path, amount) for how in (formula.how if formula else AGAIN).split(BOTH)
        ]
        unequal = [computed for _, computed in ways if not agree(amount, computed)]
        return next(how for how in Checked if how in dict(ways)), unequal[0] if unequal else amount

    def _way(self, how: str, path: Path, amount: Decimal) -> tuple[Checked, Decimal]:
        if how == BILL:
            sum_of = self._billed(path, amount)
            self._sums |= {sum_of} if sum_of else set()
            return (Checked.RECOMPUTED if sum_of else Checked.AGAIN), amount
        if how == PRICE:
            return (Checked.LOOKED_UP if self._priced(path, amount) else Checked.AGAIN), amount
        prefix, expression = prefixed(how)
        try:
            computed = self._answer.terms.compute(expression, path) if how != AGAIN else None
        except UnknownTerm:
            computed = None
        if computed is None or (prefix == IF_AGREES and not agree(amount, computed)):
            return Checked.AGAIN, amount
        alike = prefix == MEASURED and abs(amount - computed) <= _DIGITS * max(
            Decimal(1), abs(amount)
        )
        return (
            Checked.LOOKED_UP if prefix == ROW else Checked.RECOMPUTED
        ), amount if alike else computed

    def _of_drawn(self, figure: Figure) -> Checked:
        """Return how an amount of the card alone was made anew.

        By a formula of the card, as a sum of checked numbers, or not.
        """
        ways = {
            row.words: prefixed(row.how)[0] for row in self._formulas.of_card(self._answer.command)
        }
        made = Checked.LOOKED_UP if ways.get(figure.formula) == ROW else Checked.RECOMPUTED
        return Checked.AGAIN if figure.formula == DRAWN else made

    def _billed(self, path: Path, amount: Decimal) -> str | None:
        """Return the terms of the sum of the bill that states this amount.

        In the row of its key, else in a total.
        """
        measure = str(path[-1]).removesuffix("_usd").rpartition("_")[2]
        if measure not in MEASURES:
            return None
        key = next(
            (
                scope["key"]
                for scope in self._answer.terms.scopes(path)[:1]
                if isinstance(scope.get("key"), Mapping)
            ),
            None,
        )
        for terms, tally in self._answer.witness.tallies.items():
            rows = (
                [row.money for row in tally.rows if dict(row.key) == key]
                if key is not None
                else [tally.total]
            )
            if any(agree(getattr(money, measure), amount) for money in rows):
                return terms
        return None

    def _priced(self, path: Path, amount: Decimal) -> bool:
        """Tell whether the amount is the price of a row that was looked up.

        A quote, or the account's own rate.
        """
        scopes = self._answer.terms.scopes(path)
        kind, cluster = _label(scopes, "instance_type"), _label(scopes, "cluster")
        rates = self._answer.witness.rates
        instance = next((scope["instance"] for scope in scopes if "instance" in scope), "")
        own = [
            _of(kind, rows)
            for rows in (
                rates.by_instance.get(instance, ()),
                rates.by_cluster.get(cluster, ()),
                rates.by_type,
            )
        ]
        quoted = _of(
            kind,
            (price for each in self._answer.witness.questions.values() for price in each.prices),
        )
        every = [price.usd_per_hour for price in quoted] + [
            mean for rows in own for mean in _means(rows)
        ]
        return any(abs(each - amount) <= _MILLIONTH for each in every)


def _label(scopes: Sequence[Mapping[str, Any]], name: str) -> str:
    """Return a label of the thing around a number, else of the whole answer."""
    for scope in scopes:
        for inside in (scope, scope.get("labels")):
            if isinstance(inside, Mapping) and isinstance(inside.get(name), str):
                return str(inside[name])
    return ""


def _of(kind: str, prices: Any) -> list[Price]:
    return [price for price in prices if price.instance_type == kind]


_COMMITTED = (Market.ON_DEMAND, Market.SAVINGS_PLAN, Market.RESERVED)


def _means(rates: Sequence[Price]) -> Iterator[Decimal]:
    """Yield the rate of an hour in each region, weighted by hours.

    Over all rates, the committed ones, and of each market.
    """
    for region in dict.fromkeys(rate.region for rate in rates):
        for markets in (tuple(Market), _COMMITTED, *((market,) for market in Market)):
            taken = [x for x in rates if x.region == region and x.market in markets]
            hours = sum((exact(x.hours) for x in taken), Decimal(0))
            if hours:
                yield sum((x.usd_per_hour * exact(x.hours) for x in taken), Decimal(0)) / hours


def _changed_questions(
    stated: Sequence[PortQuestion], fresh: Sequence[PortQuestion]
) -> Iterator[Difference]:
    """Yield the questions that were answered otherwise, each changed part once, and those that one side alone asked."""
    told: set[tuple[str, str, str]] = set()
    now = {question.key: question for question in fresh}
    then = {question.key: question for question in stated}
    for key, question in then.items():
        if key not in now:
            yield Difference(
                _named(question), "asked", "not asked", "the answer asks for something else now"
            )
        elif now[key].digest != question.digest or now[key].total != question.total:
            for each in _changes(question, now[key]):
                part = (
                    each.what.partition(":")[0] if question.pieces else each.what,
                    each.was,
                    each.now,
                )
                if part not in told:
                    yield each
                told.add(part)
    yield from (
        Difference(_named(each), "not asked", "asked", "new")
        for key, each in now.items()
        if key not in then
    )


def _changes(then: PortQuestion, now: PortQuestion) -> Iterator[Difference]:
    """Yield the changes of one question: parts of a sum, price rows, else that something did."""
    found = [*_changed_pieces(then, now), *_changed_prices(then, now)]
    if not found:
        rows = (f"{then.rows:,} rows", f"{now.rows:,} rows")
        found = [
            Difference(
                _named(then),
                *(rows if rows[0] != rows[1] else ("as noted", "other content")),
                "the content changed",
            )
        ]
    yield from found


def _changed_pieces(then: PortQuestion, now: PortQuestion) -> Iterator[Difference]:
    before, after = ({piece.key: piece for piece in each.pieces} for each in (then, now))
    rows = (
        f"{then.rows:,} rows came back, and now {now.rows:,}"
        if then.rows != now.rows
        else "rows were added or rewritten"
    )
    for key in sorted({*before, *after}):
        if (was := before.get(key)) != (is_ := after.get(key)):
            yield Difference(
                f"{then.port} of {key}: {then.asked}", _amounts(was), _amounts(is_), rows
            )


def _amounts(piece: Piece | None) -> str:
    return (
        f"net {piece.money.net:.2f}, amortised {piece.money.amortised:.2f}" if piece else "nothing"
    )


def _changed_prices(then: PortQuestion, now: PortQuestion) -> Iterator[Difference]:
    before, after = (_by_row(each.prices) for each in (then, now))
    for row in dict.fromkeys((*before, *after)):
        if before.get(row) != after.get(row):
            yield Difference(
                f"price of {row}", _hour(before.get(row)), _hour(after.get(row)), _named(then)
            )


def _by_row(prices: Sequence[Price]) -> dict[str, Price]:
    return {
        ", ".join(filter(None, (x.instance_type, x.market, x.basis, x.region, x.zone))): x
        for x in prices
    }


def _hour(price: Price | None) -> str:
    return (
        f"{price.usd_per_hour:f} an hour, {price.source}, {price.asof}" if price else "no such row"
    )


def _named(question: PortQuestion) -> str:
    return f"{question.port}: {question.asked}"
