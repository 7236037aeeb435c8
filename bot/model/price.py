"""State what an hour costs, with where and when that was read."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from enum import StrEnum

from bot.model.fleet import Market


class Basis(StrEnum):
    """Name where a price comes from, best first."""

    BILLED = "billed"
    LISTED = "price list"
    SPOT = "spot history"
    CAPACITY_BLOCK = "capacity block offering"
    FALLBACK = "dated fallback"


@dataclass(frozen=True)
class Price:
    """State the USD for one hour of one thing of `instance_type` in `region`."""

    instance_type: str
    usd_per_hour: Decimal
    market: Market
    basis: Basis
    region: str
    asof: date
    source: str
    zone: str = ""
    hours: float = 0.0
    """Instance-hours behind a billed rate; 0 for a quote."""

    def __str__(self) -> str:
        """Read as `$21.50 an hour, on-demand, price list of 2026-11-20`."""
        return f"${self.usd_per_hour:,.2f} an hour, {self.market}, {self.basis} of {self.asof:%Y-%m-%d}"


@dataclass(frozen=True)
class StoragePrice:
    """State the USD a month for one GiB of a kind of storage: `ebs:gp3`, or `fsx:125` (MB/s per TiB)."""

    kind: str
    region: str
    usd_per_gib_month: Decimal
    source: str
    asof: date
