"""State what others say of speed and saving, dated and sourced, and where they contradict each other."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from enum import StrEnum


class ClaimKind(StrEnum):
    """Tell how a speed-up was come by."""

    PEAK = "peak"
    """The ratio of two datasheets: nobody reaches it."""
    CLAIM = "claim"
    CASE = "case"
    """One customer's model; yours differs."""


@dataclass(frozen=True)
class SpeedUp:
    """State the work of a full node of `to_family` in BF16 as a multiple of a full node of `from_family`."""

    from_family: str
    to_family: str
    factor: float
    kind: ClaimKind
    says: str
    source: str
    asof: date


@dataclass(frozen=True)
class Saving:
    """State in a vendor's words what a move saves; at prices it does not tell, so never multiplied with today's."""

    from_family: str
    to_family: str
    says: str
    source: str
    asof: date


@dataclass(frozen=True)
class Conflict:
    """State where a vendor's text contradicts AWS's own documents; AWS's count."""

    subject: str
    """A family, or one instance type."""
    vendor_says: str
    aws_says: str
    source: str
    asof: date

    def about(self, instance_type: str) -> bool:
        """Tell whether it concerns the type."""
        return self.subject in (instance_type, instance_type.partition(".")[0])


@dataclass(frozen=True)
class Claims:
    """Hold everything that is said and not measured here."""

    speedups: tuple[SpeedUp, ...] = ()
    savings: tuple[Saving, ...] = ()
    conflicts: tuple[Conflict, ...] = ()
