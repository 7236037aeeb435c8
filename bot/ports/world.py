"""Declare the ports to the watched world.

Metrics, the bill, prices, dated facts, the provider's outlook, and detection.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Protocol

from bot.model.alert import Alert
from bot.model.anomaly import Detection
from bot.model.claims import Claims
from bot.model.fleet import InstanceType
from bot.model.policy import Policy
from bot.model.price import (
    AccountRates,
    CommitmentOffer,
    Interruption,
    PlacementScore,
    Price,
    StoragePrice,
)
from bot.model.reading import Reading
from bot.model.run import Compile
from bot.model.spend import Commitment, Filter, Finding, Forecast, Tally
from bot.model.window import Window


class Source(Protocol):
    """Read metrics and inventory; the same for a recording and a live account."""

    def read(self, now: datetime) -> Reading:
        """Return everything visible at `now`, with frames that reach back over the history kept."""
        ...

    def extent(self) -> Window | None:
        """Return first to last metric, or None for a source without an end (a live account)."""
        ...

    def problems(self) -> Sequence[str]:
        """Return one sentence for each thing that could not be read: file, line, why."""
        ...


class Billing(Protocol):
    """Ask the bill."""

    def tally(self, window: Window, by: Sequence[str], where: Sequence[Filter] = ()) -> Tally:
        """Sum the rows whose usage starts in the window, by dimensions.

        Raise `WrongInput` for an unknown one.
        """
        ...

    def deltas(self, now: datetime, days: int) -> Reading:
        """Return a reading with the `spend` frame of the last `days`, of rows seen at `now` (usage end + billing.lag)."""
        ...

    def rates(self, now: datetime) -> AccountRates:
        """Return the account's own effective USD an hour by type, by cluster and of each instance (Basis.BILLED)."""
        ...

    def problems(self) -> Sequence[str]:
        """Return one sentence for each file or row that could not be read."""
        ...


class CommitmentPrices(Protocol):
    """Quote commitments."""

    def commitment_offers(self, instance_type: str, now: datetime) -> Sequence[CommitmentOffer]:
        """Return the Savings Plans and reserved instances offered for a type, known at `now`.

        Empty where they are not read.
        """
        ...


class Prices(CommitmentPrices, Protocol):
    """Quote hours."""

    def quotes(self, instance_type: str, region: str, now: datetime) -> Sequence[Price]:
        """Return every known price at `now`, any basis and market; empty when none is known.

        A kind of storage (`ebs:gp3`, `fsx:125`) has the list price of an hour of one GiB.
        """
        ...

    def spot_history(self, instance_type: str, now: datetime) -> Sequence[tuple[datetime, Price]]:
        """Return the spot price changes known at `now`, oldest first."""
        ...

    def placement(self, instance_type: str, now: datetime) -> Sequence[PlacementScore]:
        """Return EC2's spot placement scores known at `now`, the best first.

        Empty where they are not read.
        """
        ...

    def interruptions(self, instance_type: str, now: datetime) -> Sequence[Interruption]:
        """Return the Spot Advisor's bands known at `now`, by region; empty where they are not read."""
        ...


class Knowledge(Protocol):
    """Give dated facts."""

    def types(self) -> Mapping[str, InstanceType]:
        """Return the specification of every known instance type, by name."""
        ...

    def fallback_prices(self) -> Sequence[Price]:
        """Return the prices of last resort (Basis.FALLBACK)."""
        ...

    def storage_prices(self) -> Sequence[StoragePrice]:
        """Return the list prices of storage, each with its source."""
        ...

    def claims(self) -> Claims:
        """Return speed-ups, savings and contradictions as others state them."""
        ...


class Inbox(Protocol):
    """Take in what the provider sends of its own accord.

    Only the watch does, before and after its ticks.
    """

    def receive(self, now: datetime) -> None:
        """Take in what waits, so that a reading of `now` has it.

        What fails is a problem of the source.
        """
        ...

    def settle(self, now: datetime) -> None:
        """Take away what a reading of `now` had: the tick that used it is saved."""
        ...


class NoInbox:
    """Implement `Inbox` where nothing is sent."""

    def receive(self, _: datetime) -> None:
        """Take in nothing."""

    def settle(self, _: datetime) -> None:
        """Take nothing away."""


class Detect(Protocol):
    """Find anomalies."""

    def __call__(self, reading: Reading, policy: Policy, known: Sequence[Alert]) -> Detection:
        """Judge `reading.now` by the history before it; `known` alerts are not learnt from."""
        ...


class Compiles(Protocol):
    """Follow compiles."""

    def __call__(self, reading: Reading, policy: Policy, since: datetime) -> Sequence[Compile]:
        """Return every compile that was going on at `since` or later, as far back as the reading goes."""
        ...


class Outlook(Protocol):
    """Tell the provider's own view; each as it was known at `now`."""

    def forecast(self, now: datetime, /) -> Forecast | None:
        """Return the newest forecast of the rest of the month, None where there is none."""
        ...

    def commitments(self, now: datetime, /) -> Sequence[Commitment]:
        """Return how commitments were used, day by day, oldest first.

        Empty where nothing is committed.
        """
        ...

    def findings(self, now: datetime, /) -> Sequence[Finding]:
        """Return the anomalies of the last days that the provider found."""
        ...

    def problems(self) -> Sequence[str]:
        """Return one sentence for each answer that could not be had or read."""
        ...


class NoOutlook:
    """Implement `Outlook` where nobody is asked."""

    def forecast(self, _: datetime, /) -> Forecast | None:
        """Return none."""
        return None

    def commitments(self, _: datetime, /) -> Sequence[Commitment]:
        """Return none."""
        return ()

    def findings(self, _: datetime, /) -> Sequence[Finding]:
        """Return none."""
        return ()

    def problems(self) -> Sequence[str]:
        """Return none."""
        return ()
