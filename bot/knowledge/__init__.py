"""Read the data files beside this one, each once and only when asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields
from datetime import date
from decimal import Decimal
from functools import cache
from typing import Any, TypeVar, get_type_hints

from bot.model.claims import (
    Chip,
    ClaimedSaving,
    Claims,
    CodeSign,
    Conflict,
    Effort,
    Grid,
    Note,
    Package,
    Power,
    Programme,
    Pue,
    Question,
    SpeedUp,
    TokenPrice,
    Transfer,
)
from bot.model.codec import table
from bot.model.fleet import InstanceType, InstanceTypes
from bot.model.price import Basis, Price, StoragePrice

T = TypeVar("T")
Row = Mapping[str, str]


@cache
def load_knowledge() -> KnowledgeFiles:
    """Return the one set of facts of this installation."""
    return KnowledgeFiles()


class KnowledgeFiles:
    """Implement `bot.ports.Knowledge`."""

    @staticmethod
    @cache
    def types() -> Mapping[str, InstanceType]:
        """Return the specification of every known instance type, by name."""
        reader = noun_of(InstanceType)
        return InstanceTypes(
            _each(
                "instance_types.csv",
                lambda row: reader({**row, "family": row["name"].partition(".")[0]}),
            )
        )

    @staticmethod
    @cache
    def fallback_prices() -> tuple[Price, ...]:
        """Return the prices of last resort (Basis.FALLBACK)."""
        reader = noun_of(Price)
        return tuple(_each("prices.csv", lambda row: reader({**row, "basis": Basis.FALLBACK})))

    @staticmethod
    @cache
    def storage_prices() -> tuple[StoragePrice, ...]:
        """Return the list prices of storage."""
        return tuple(_each("storage.csv", noun_of(StoragePrice)))

    @staticmethod
    @cache
    def claims() -> Claims:
        """Return speed-ups, savings and contradictions as others state them."""
        return Claims(
            tuple(_each("speedups.csv", noun_of(SpeedUp))),
            tuple(_each("savings.csv", noun_of(ClaimedSaving))),
            tuple(_each("conflicts.csv", noun_of(Conflict))),
            tuple(_each("transfer.csv", noun_of(Transfer))),
            tuple(_each("programmes.csv", noun_of(Programme))),
            tuple(_each("notes.csv", noun_of(Note))),
            tuple(_each("cuda.csv", noun_of(Package))),
            tuple(_each("code.csv", noun_of(CodeSign))),
            tuple(_each("questions.csv", noun_of(Question))),
            tuple(_each("efforts.csv", noun_of(Effort))),
            tuple(_each("chips.csv", noun_of(Chip))),
            tuple(_each("power.csv", noun_of(Power))),
            tuple(_each("grids.csv", noun_of(Grid))),
            tuple(_each("pue.csv", noun_of(Pue))),
            tuple(_each("tokens.csv", noun_of(TokenPrice))),
            tuple(sorted(row["region"] for row in table("bot.knowledge", "regions.csv"))),
        )

    @staticmethod
    @cache
    def services() -> Mapping[str, str]:
        """Return the product code of each service by the name that AWS's cost tools show."""
        return {row["said"]: row["code"] for row in table("bot.knowledge", "services.csv")}


def noun_of(kind: type[T]) -> Callable[[Row], T]:
    """Return a reader of rows whose columns are the fields of a noun, each read by its type."""
    hints = get_type_hints(kind)
    readers: Mapping[Any, Callable[[str], Any]] = {
        date: date.fromisoformat,
        Decimal | None: lambda text: Decimal(text) if text else None,
    }
    names = [field.name for field in fields(kind)]  # type: ignore[arg-type] # a noun is a dataclass

    def read(row: Row) -> T:
        return kind(**{n: readers.get(hints[n], hints[n])(row[n]) for n in names if n in row})

    return read


def _each(name: str, read: Callable[[Row], T]) -> Iterator[T]:
    """Yield the noun of each row; raise `ValueError` naming the file and line that does not fit."""
    for line, row in enumerate(table("bot.knowledge", name), 2):
        try:
            yield read(row)
        except (ValueError, ArithmeticError, KeyError, TypeError) as error:
            raise ValueError(f"{name}, line {line}: {error}") from error
