"""Compute a number anew by its formula.

An expression over the answer's data, the line's arguments and dated facts.

A name is looked for beside the number, then outside of it, as far as the whole answer;
`rows.net_usd` is that of every row. Expressions stand in a table of the bot's own, never in a line
or a receipt.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Decimal
from functools import cache
from typing import Any, cast

from bot.errors import TrnbotError
from bot.model.money import cents
from bot.model.receipt import FigureFormula, Path, exact

BILL, PRICE, AGAIN = "bill", "price", "again"
"""How a number is recomputed that no expression makes.

A sum of the bill, a price row, or by answering again.
"""
IF_AGREES = "try "
"""Begins an expression that is a recomputation where it makes the number, and says nothing where it does not: its terms may
be of another time than the number.
"""
ROW = "row "
"""Begins an expression that names one row, asked for anew, in which the number stands."""
MEASURED = "about "
"""Begins an expression over measurements, which are kept in single precision.

It makes the number to four digits.
"""
_PREFIXES = (IF_AGREES, ROW, MEASURED)
BOTH = " & "
"""Joins the ways of a number that is recomputed in several."""


_CARD = "card/"
"""Begins the name of an amount that stands in the words of a card, and in no number of its data."""


class UnknownTerm(Exception):
    """Tell that a formula's term is not there, so that it computes nothing."""


@dataclass(frozen=True)
class Formulas:
    """Hold the table of formulas."""

    rows: tuple[FigureFormula, ...]

    def of(self, command: str, path: Path) -> FigureFormula | None:
        """Return the row of a number.

        The command's own first, then the one that names most of the path.
        """
        names = [part for part in path if isinstance(part, str)]
        fitting = [
            row
            for row in self.rows
            if row.command in ("*", command) and _ends(names, row.name.split("/"))
        ]
        return max(
            fitting,
            key=lambda row: (row.command != "*", row.name.count("/"), "*" not in row.name),
            default=None,
        )

    def of_card(self, command: str) -> Sequence[FigureFormula]:
        """Return the rows of amounts that stand on the card of a command alone."""
        return [
            row for row in self.rows if row.name.startswith(_CARD) and row.command in ("*", command)
        ]

    def term(self, command: str, name: str) -> str | None:
        """Return the expression of a term that other formulas name."""
        return next(
            (
                row.how
                for row in self.rows
                if row.name == f"@{name}" and row.command in ("*", command)
            ),
            None,
        )


def _ends(names: Sequence[str], wanted: Sequence[str]) -> bool:
    tail = names[-len(wanted) :]
    return len(tail) == len(wanted) and all(
        want in ("*", name) for want, name in zip(wanted, tail, strict=True)
    )


@dataclass(frozen=True)
class Terms:
    """Hold the terms of formulas: the answer's data, and beside it arguments and facts by name."""

    data: Mapping[str, Any]
    outside: Mapping[str, Any]
    term: Callable[[str], str | None] = lambda _: None

    def scopes(self, path: Path) -> list[Mapping[str, Any]]:
        """Return the objects around a number, the innermost first, then its own name and place, then the names outside."""
        value: Any = self.data
        around = [value]
        for part in path[:-1]:
            value = value[part]
            around.append(value)
        here = {
            "this": str(path[-1]),
            "place": 1 + next((part for part in reversed(path) if isinstance(part, int)), 0),
        }
        return [
            *(each for each in reversed(around) if isinstance(each, Mapping)),
            here,
            self.outside,
        ]

    def compute(self, how: str, path: Path) -> Decimal:
        """Return the number that the formula makes at a path.

        Raise `UnknownTerm` where a term is missing.
        """
        value = self._value(how, path)
        if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
            raise UnknownTerm(how)
        return exact(value)

    def _value(self, how: str, path: Path) -> Any:
        """Return the value of an expression; a row that nobody can read now is a missing term."""
        try:
            return _Evaluation(self.scopes(path), self.term).value(_parsed(how.strip()))
        except (TrnbotError, ArithmeticError) as error:
            raise UnknownTerm(str(error)) from error

    def amounts(self, how: str) -> list[Decimal]:
        """Return the amounts that an expression over the whole answer makes, one or several.

        None where a term is missing.
        """
        try:
            value = self._value(prefixed(how)[1], ("",))
        except UnknownTerm:
            return []
        return [exact(each) for each in (value if isinstance(value, list) else [value])]


def prefixed(how: str) -> tuple[str, str]:
    """Return the beginning of a way that says how its expression counts, "" for none, and the expression."""
    prefix = next((each for each in _PREFIXES if how.startswith(each)), "")
    return prefix, how.removeprefix(prefix).strip()


@cache
def _parsed(how: str) -> ast.expr:
    return ast.parse(how, mode="eval").body


@dataclass(frozen=True)
class _Evaluation:
    """Evaluate one expression within its scopes."""

    scopes: Sequence[Mapping[str, Any]]
    term: Callable[[str], str | None]

    def value(self, node: ast.expr) -> Any:
        """Return the value of an expression."""
        match node:
            case ast.Constant(value=value):
                return Decimal(str(value)) if isinstance(value, int | float) else value
            case ast.BinOp() | ast.UnaryOp():
                return self._arithmetic(node)
            case ast.IfExp(test=test, body=body, orelse=other):
                return self.value(body if self._holds(test) else other)
            case ast.Tuple(elts=every):
                return tuple(self.value(each) for each in every)
            case ast.Call(func=ast.Name(id=name), args=given):
                called = _FUNCTIONS.get(name) or self._function(name)
                return called(*(self._listed(each) for each in given))
        return self._referred(node)

    def _referred(self, node: ast.expr) -> Any:
        """Return the value of a name, or of a part of a named thing."""
        match node:
            case ast.Name(id=name):
                return self._named(name)
            case ast.Attribute(value=inner, attr=name):
                return _member(self.value(inner), name)
            case ast.Subscript(value=inner, slice=index):
                return _member(self.value(inner), self.value(index))
        raise ValueError(f"no formula is written with {ast.dump(node)}")

    def _named(self, name: str) -> Any:
        for scope in self.scopes:
            if name in scope:
                return scope[name]
        how = self.term(name)
        if how is None:
            raise UnknownTerm(name)
        return self.value(_parsed(how))

    def _function(self, name: str) -> Callable[..., Any]:
        """Return what takes arguments under this name; a number of the data may have the same one."""
        found = next((scope[name] for scope in self.scopes if callable(scope.get(name))), None)
        if found is None:
            raise UnknownTerm(name)
        return cast(Callable[..., Any], found)

    def _arithmetic(self, node: ast.BinOp | ast.UnaryOp) -> Decimal:
        if isinstance(node, ast.UnaryOp):
            return -self._number(node.operand)
        one, other = self._number(node.left), self._number(node.right)
        if isinstance(node.op, ast.Div) and not other:
            raise UnknownTerm("a division by nothing")
        result: Decimal = _OPERATORS[type(node.op)](one, other)
        return result

    def _number(self, node: ast.expr) -> Decimal:
        value = self.value(node)
        if value is None or isinstance(value, str | bool | Sequence):
            raise UnknownTerm(ast.unparse(node))
        return exact(value)

    def _listed(self, node: ast.expr) -> Any:
        """Return the value of an argument, a list of one for each of its members where it says `x for y in z`."""
        if not isinstance(node, ast.GeneratorExp):
            return self.value(node)
        (loop,) = node.generators
        assert isinstance(loop.target, ast.Name)
        inner = [
            _Evaluation([{loop.target.id: each}, *self.scopes], self.term)
            for each in self.value(loop.iter)
        ]
        return [
            each.value(node.elt) for each in inner if all(each._holds(test) for test in loop.ifs)
        ]

    def _holds(self, node: ast.expr) -> bool:
        match node:
            case ast.Compare(left=left, ops=[op], comparators=[right]):
                return bool(_COMPARED[type(op)](self.value(left), self.value(right)))
            case ast.UnaryOp(op=ast.Not(), operand=inner):
                return not self._holds(inner)
            case ast.BoolOp(op=ast.And(), values=every):
                return all(self._holds(each) for each in every)
        return bool(self.value(node))


def _member(value: Any, name: Any) -> Any:
    """Return a part of a value by name; of a list, that of each of its members that has one."""
    if isinstance(value, Mapping):
        if name not in value:
            raise UnknownTerm(str(name))
        return value[name]
    if isinstance(value, list | tuple) and isinstance(name, Decimal | int):
        if not -len(value) <= name < len(value):
            raise UnknownTerm(str(name))
        return value[int(name)]
    if isinstance(value, list | tuple):
        return [part for each in value if (part := _member(each, name)) is not None]
    if value is None:
        return None
    if not hasattr(value, str(name)):
        raise UnknownTerm(str(name))
    return getattr(value, str(name))


def _sum(values: Sequence[Any]) -> Decimal:
    return sum((exact(value) for value in values if value is not None), Decimal(0))


def _each(values: Sequence[Any]) -> Sequence[Any]:
    """Return the values of a call: those of its one list, or its own; raise `UnknownTerm` for none."""
    every = values[0] if len(values) == 1 and isinstance(values[0], list | tuple) else values
    if not every:
        raise UnknownTerm("no value")
    return every


def _mean(values: Sequence[Any]) -> Decimal:
    return _sum(_each((values,))) / len(values)


def _spread(values: Sequence[Any]) -> Decimal:
    """Return the standard deviation of all values."""
    middle = _mean(values)
    return _mean([(exact(value) - middle) * (exact(value) - middle) for value in values]).sqrt()


def _rounded(value: Any, digits: Any) -> Decimal:
    return exact(value).quantize(Decimal(1).scaleb(-int(digits)), ROUND_HALF_EVEN)


def _stood(steps: Sequence[Mapping[str, Decimal]], share: Any) -> Decimal:
    """Return the lowest price that stood, or was undercut, for a share of the hours."""
    left = _sum([step["hours"] for step in steps]) * exact(share)
    for step in sorted(steps, key=lambda step: step["usd_per_hour"]):
        left -= step["hours"]
        if left <= 0:
            return step["usd_per_hour"]
    raise UnknownTerm("no price")


_OPERATORS: Mapping[type[ast.operator], Callable[[Decimal, Decimal], Decimal]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}
_COMPARED: Mapping[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Is: operator.is_,
    ast.IsNot: operator.is_not,
    ast.In: lambda one, every: one in every,
    ast.NotIn: lambda one, every: one not in every,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
}
_FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "sum": _sum,
    "count": lambda values: Decimal(len(values)),
    "cents": lambda value: cents(exact(value)),
    "round": _rounded,
    "each": lambda values: values,
    "mean": _mean,
    "spread": _spread,
    "least": lambda *values: min(map(exact, _each(values))),
    "most": lambda *values: max(map(exact, _each(values))),
    "up": lambda value: exact(value).to_integral_value(ROUND_CEILING),
    "down": lambda value: exact(value).to_integral_value(ROUND_FLOOR),
    "stood": _stood,
    "seconds": lambda length: exact(length.total_seconds()),
}
