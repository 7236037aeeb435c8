"""State vendors' claims, dated and sourced, and where they contradict each other."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from enum import StrEnum


@dataclass(frozen=True, kw_only=True)
class Sourced:
    """State something that somebody said: who, or where it was read, and of which date it is."""

    source: str
    asof: date


class ClaimKind(StrEnum):
    """Name the way a speed-up was established."""

    EQUAL_LOSS = "measured to equal loss"
    """The account's own runs, between two losses that both passed."""
    MEASURED = "measured"
    """The account's own runs, by tokens."""
    TYPED = "as you state"
    PEAK = "peak"
    """The ratio of two datasheets: nobody reaches it."""
    CLAIM = "claim"
    CASE = "case"
    """One customer's model; yours differs."""


@dataclass(frozen=True)
class SpeedUp(Sourced):
    """State the work of a full node in BF16 as a multiple of that of another family."""

    from_family: str
    to_family: str
    factor: float
    kind: ClaimKind
    says: str


@dataclass(frozen=True)
class ClaimedSaving(Sourced):
    """State a vendor's claim of a saving.

    Its prices are not told, so it is never multiplied with today's.
    """

    from_family: str
    to_family: str
    says: str


@dataclass(frozen=True)
class Conflict(Sourced):
    """State where a vendor's text contradicts AWS's own documents; AWS's count."""

    subject: str
    """A family, or one instance type."""
    vendor_says: str
    aws_says: str

    def about(self, instance_type: str) -> bool:
        """Return whether the claim concerns the type."""
        return self.subject in (instance_type, instance_type.partition(".")[0])


@dataclass(frozen=True)
class Transfer(Sourced):
    """State the USD of moving one GB: `inter-region`, `internet`, `cross-zone`."""

    route: str
    usd_per_gb: Decimal


@dataclass(frozen=True)
class TokenPrice(Sourced):
    """State USD of a million tokens of a model on Bedrock, read and written, on demand."""

    model: str
    usd_per_million_input: Decimal
    usd_per_million_output: Decimal
    region: str


@dataclass(frozen=True)
class Programme(Sourced):
    """State a programme of credits as others describe it: the amount, who may apply, and how."""

    name: str
    amount: str
    who: str
    route: str
    kind: str
    """`programme`, or `vendor claim` where AWS itself does not say it."""


@dataclass(frozen=True)
class Note(Sourced):
    """State one sentence about a topic, with how firm it is.

    `GA`, `announced`, `documented`, `claim`, `case`.
    """

    topic: str
    subject: str
    says: str
    state: str


@dataclass(frozen=True)
class Package(Sourced):
    """State a Python package that needs CUDA: `name` may end in `*`."""

    name: str
    reason: str
    instead: str


def normal(name: str) -> str:
    """Return a package's name as PyPI compares it."""
    return re.sub(r"[-_.]+", "-", name).lower()


@dataclass(frozen=True)
class CodeSign(Sourced):
    """State what in a line of code needs CUDA, or is otherwise on Neuron.

    `finds` is a name, a method, a text or an argument that fits `pattern`, none of whose call's
    arguments fits `unless`; or a backward pass in a file whose imports fit, while no name of the file
    fits `unless`.
    """

    kind: str
    finds: str
    pattern: str
    unless: str
    reason: str
    instead: str


@dataclass(frozen=True)
class Question(Sourced):
    """State one question whose yes speaks for Trainium (`weight` > 0) or for GPUs (< 0)."""

    key: str
    asks: str
    weight: int
    why: str


@dataclass(frozen=True)
class Effort(Sourced):
    """State a class of porting effort or a stated case.

    Engineer-months, and the saving where one is stated.
    """

    name: str
    months_low: Decimal
    months_high: Decimal
    saving_ratio: Decimal | None
    says: str


@dataclass(frozen=True)
class Chip(Sourced):
    """State one chip's dense peaks and its memory."""

    name: str
    bf16_tflops: float
    fp8_tflops: float
    memory_gib: int


@dataclass(frozen=True)
class Power(Sourced):
    """State the watts of one accelerator under full load.

    Of one whose maker gives none, the range of what others estimate.
    """

    accelerator: str
    low: float
    high: float

    @property
    def watts(self) -> float:
        """Return the middle of the range."""
        return (self.low + self.high) / 2

    @property
    def spread(self) -> float:
        """Return by which share of the middle the range reaches up and down; 0 where it is one."""
        return (self.high - self.low) / (self.high + self.low)

    def __str__(self) -> str:
        """Read as `700 W`, or `90 to 175 W`."""
        return f"{self.low:.0f} to {self.high:.0f} W" if self.spread else f"{self.low:.0f} W"


@dataclass(frozen=True)
class Grid(Sourced):
    """State the kg of CO2 equivalents of one kWh where a region's data centres stand."""

    region: str
    kg_per_kwh: float
    zone: str
    """The electricity zone that the region is in, as its publisher names it."""
    counts: str = ""
    """What the publisher counts: `direct emissions` of the power plants, or their `life cycle`."""
    licence: str = ""
    """The terms under which the figure may be kept here."""
    read: str = ""
    """How the figure was read: of whose page or copy."""


@dataclass(frozen=True)
class Pue(Sourced):
    """State the power usage effectiveness of a provider.

    Energy of the whole data centre over that of its machines.
    """

    provider: str
    ratio: float
    says: str


@dataclass(frozen=True)
class Claims:
    """Hold everything that is said and not measured here."""

    speedups: tuple[SpeedUp, ...] = ()
    savings: tuple[ClaimedSaving, ...] = ()
    conflicts: tuple[Conflict, ...] = ()
    transfers: tuple[Transfer, ...] = ()
    programmes: tuple[Programme, ...] = ()
    notes: tuple[Note, ...] = ()
    packages: tuple[Package, ...] = ()
    code: tuple[CodeSign, ...] = ()
    questions: tuple[Question, ...] = ()
    efforts: tuple[Effort, ...] = ()
    chips: tuple[Chip, ...] = ()
    powers: tuple[Power, ...] = ()
    grids: tuple[Grid, ...] = ()
    pues: tuple[Pue, ...] = ()
    tokens: tuple[TokenPrice, ...] = ()
    regions: tuple[str, ...] = ()
    """The name of every region of the provider."""

    def transfer(self, route: str) -> Transfer:
        """Return the price of a route; raise `KeyError` for one that is not listed."""
        return {transfer.route: transfer for transfer in self.transfers}[route]

    def of(self, topic: str) -> tuple[Note, ...]:
        """Return the notes of a topic."""
        return tuple(note for note in self.notes if note.topic == topic)


_YEAR = 365
OLDEST_DAYS: Mapping[type, int] = {
    SpeedUp: _YEAR,
    ClaimedSaving: _YEAR,
    Conflict: _YEAR,
    Note: _YEAR,
    Package: _YEAR,
    CodeSign: _YEAR,
    Transfer: _YEAR,
    TokenPrice: 180,
    Programme: 180,
    Question: 2 * _YEAR,
    Effort: 2 * _YEAR,
    Chip: 2 * _YEAR,
    Power: 3 * _YEAR,
    Grid: 550,
    Pue: 550,
}
"""Days after which a fact of a kind is told to be old: trnbot's own defaults.

A grid's year is published in the next one.
"""


def stale_days(fact: Sourced, today: date) -> int:
    """Return the age in days of a fact that is older than its kind may be, else 0."""
    age = (today - fact.asof).days
    return age if age > OLDEST_DAYS.get(type(fact), _YEAR) else 0
