"""Read the data files beside this one, each once and only when asked for."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Mapping
from datetime import date
from decimal import Decimal
from functools import cache, cached_property
from importlib.resources import files
from typing import TypeVar

from bot.model.claims import (
    Chip,
    ClaimedSaving,
    ClaimKind,
    Claims,
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
    Transfer,
)
from bot.model.fleet import InstanceType, Market
from bot.model.price import Basis, Price, StoragePrice

T = TypeVar("T")
Row = Mapping[str, str]


@cache
def load_knowledge() -> KnowledgeFiles:
    """Return the one set of facts of this installation."""
    return KnowledgeFiles()


class KnowledgeFiles:
    """Implement `bot.ports.Knowledge`."""

    def types(self) -> Mapping[str, InstanceType]:
        """Return the specification of every known instance type, by name."""
        return self._types

    def fallback_prices(self) -> tuple[Price, ...]:
        """Return the prices of last resort (Basis.FALLBACK)."""
        return self._prices

    def storage_prices(self) -> tuple[StoragePrice, ...]:
        """Return the list prices of storage."""
        return self._storage

    def claims(self) -> Claims:
        """Return speed-ups, savings and contradictions as others state them."""
        return self._claims

    def services(self) -> Mapping[str, str]:
        """Return the product code of each service by the name that AWS's cost tools show."""
        return self._services

    @cached_property
    def _services(self) -> Mapping[str, str]:
        return dict(_each("services.csv", lambda row: (row["said"], row["code"])))

    @cached_property
    def _types(self) -> Mapping[str, InstanceType]:
        return {kind.name: kind for kind in _each("instance_types.csv", _type)}

    @cached_property
    def _prices(self) -> tuple[Price, ...]:
        return tuple(_each("prices.csv", _price))

    @cached_property
    def _storage(self) -> tuple[StoragePrice, ...]:
        return tuple(_each("storage.csv", _storage_price))

    @cached_property
    def _claims(self) -> Claims:
        return Claims(
            tuple(_each("speedups.csv", _speedup)),
            tuple(_each("savings.csv", _saving)),
            tuple(_each("conflicts.csv", _conflict)),
            tuple(_each("transfer.csv", _transfer)),
            tuple(_each("programmes.csv", _programme)),
            tuple(_each("notes.csv", _note)),
            tuple(_each("cuda.csv", _package)),
            tuple(_each("questions.csv", _question)),
            tuple(_each("efforts.csv", _effort)),
            tuple(_each("chips.csv", _chip)),
            tuple(_each("power.csv", _power)),
            tuple(_each("grids.csv", _grid)),
            tuple(_each("pue.csv", _pue)),
            tuple(sorted(_each("regions.csv", lambda row: row["region"]))),
        )


def _each(name: str, read: Callable[[Row], T]) -> Iterator[T]:
    """Yield the noun of each row; raise `ValueError` naming the file and line that does not fit."""
    text = (files("bot.knowledge") / name).read_text(encoding="utf-8")
    for line, row in enumerate(csv.DictReader(text.splitlines()), 2):
        try:
            yield read(row)
        except (ValueError, ArithmeticError, KeyError) as error:
            raise ValueError(f"{name}, line {line}: {error}") from error


def _type(row: Row) -> InstanceType:
    return InstanceType(
        name=row["name"],
        family=row["name"].partition(".")[0],
        accelerator=row["accelerator"],
        chips=int(row["chips"]),
        cores=int(row["cores"]),
        accelerator_memory_gib=int(row["accelerator_memory_gib"]),
        host_memory_gib=int(row["host_memory_gib"]),
        vcpus=int(row["vcpus"]),
        network_gbps=float(row["network_gbps"]),
        bf16_tflops=float(row["bf16_tflops"]),
        fp8_tflops=float(row["fp8_tflops"]),
        source=row["source"],
        asof=date.fromisoformat(row["asof"]),
        note=row["note"],
        memory_tb_per_second=float(row["memory_tb_per_second"]),
        sold_in=int(row["sold_in"]),
    )


def _price(row: Row) -> Price:
    market, usd = Market(row["market"]), Decimal(row["usd_per_hour"])
    return Price(
        row["instance_type"],
        usd,
        market,
        Basis.FALLBACK,
        row["region"],
        date.fromisoformat(row["asof"]),
        row["source"],
    )


def _storage_price(row: Row) -> StoragePrice:
    usd, asof = Decimal(row["usd_per_gib_month"]), date.fromisoformat(row["asof"])
    return StoragePrice(row["kind"], row["region"], usd, row["source"], asof)


def _speedup(row: Row) -> SpeedUp:
    kind, asof = ClaimKind(row["kind"]), date.fromisoformat(row["asof"])
    return SpeedUp(
        row["from_family"],
        row["to_family"],
        float(row["factor"]),
        kind,
        row["says"],
        row["source"],
        asof,
    )


def _saving(row: Row) -> ClaimedSaving:
    asof = date.fromisoformat(row["asof"])
    return ClaimedSaving(row["from_family"], row["to_family"], row["says"], row["source"], asof)


def _conflict(row: Row) -> Conflict:
    asof = date.fromisoformat(row["asof"])
    return Conflict(row["subject"], row["vendor_says"], row["aws_says"], row["source"], asof)


def _transfer(row: Row) -> Transfer:
    return Transfer(
        row["route"], Decimal(row["usd_per_gb"]), row["source"], date.fromisoformat(row["asof"])
    )


def _programme(row: Row) -> Programme:
    asof = date.fromisoformat(row["asof"])
    return Programme(
        row["name"], row["amount"], row["who"], row["route"], row["kind"], row["source"], asof
    )


def _note(row: Row) -> Note:
    asof = date.fromisoformat(row["asof"])
    return Note(row["topic"], row["subject"], row["says"], row["state"], row["source"], asof)


def _package(row: Row) -> Package:
    return Package(
        row["name"], row["reason"], row["instead"], row["source"], date.fromisoformat(row["asof"])
    )


def _question(row: Row) -> Question:
    asof = date.fromisoformat(row["asof"])
    return Question(row["key"], row["asks"], int(row["weight"]), row["why"], row["source"], asof)


def _effort(row: Row) -> Effort:
    low, high, asof = (
        Decimal(row["months_low"]),
        Decimal(row["months_high"]),
        date.fromisoformat(row["asof"]),
    )
    saving = Decimal(row["saving_ratio"]) if row["saving_ratio"] else None
    return Effort(row["name"], low, high, saving, row["says"], row["source"], asof)


def _chip(row: Row) -> Chip:
    bf16, fp8, asof = (
        float(row["bf16_tflops"]),
        float(row["fp8_tflops"]),
        date.fromisoformat(row["asof"]),
    )
    return Chip(row["name"], bf16, fp8, int(row["memory_gib"]), row["source"], asof)


def _power(row: Row) -> Power:
    return Power(
        row["accelerator"], float(row["watts"]), row["source"], date.fromisoformat(row["asof"])
    )


def _grid(row: Row) -> Grid:
    asof = date.fromisoformat(row["asof"])
    told = (row["counts"], row["licence"], row["read"])
    return Grid(row["region"], float(row["kg_per_kwh"]), row["zone"], row["source"], asof, *told)


def _pue(row: Row) -> Pue:
    return Pue(
        row["provider"],
        float(row["pue"]),
        row["says"],
        row["source"],
        date.fromisoformat(row["asof"]),
    )
