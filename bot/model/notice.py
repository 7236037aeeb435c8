"""State the provider's own words about capacity.

That it will take nodes away, and that it had none to give.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from bot.model.labels import Labels

MOMENT = timedelta(hours=1)
"""What comes so soon after its notice is no appointment: nobody plans for it."""


class NoticeKind(StrEnum):
    """Name the kinds of notice, the most pressing first."""

    INTERRUPTION = "interruption"
    """Spot capacity, or an interruptible reservation, is taken back within two minutes."""
    BLOCK_END = "end of the Capacity Block"
    REBALANCE = "rebalance recommendation"
    RETIREMENT = "retirement"
    MAINTENANCE = "scheduled maintenance"
    HEALTH = "AWS Health event"

    @property
    def rank(self) -> int:
        """Return its place among the kinds: 0 is the most pressing."""
        return list(NoticeKind).index(self)


@dataclass(frozen=True)
class Notice:
    """State that the provider told of nodes: they will be taken away, or their hardware needs work.

    One event that is delivered twice has one `id`; what several events are about has one `subject`.
    """

    id: str
    kind: NoticeKind
    at: datetime
    """When the provider said it, however late it was delivered."""
    labels: Labels
    """Account and region."""
    instances: tuple[str, ...] = ()
    reservation: str = ""
    """The reservation whose instances it is about, "" where it names instances."""
    due: datetime | None = None
    """When it happens, None where nobody tells."""
    subject: str = ""
    """What a planned event is called by the provider, "" where each notice stands for itself."""
    what: str = ""
    """The provider's own word for it: `terminate`, `AWS_EC2_INSTANCE_RETIREMENT_SCHEDULED`."""
    over: bool = False
    """The provider took it back, or calls it done."""

    @property
    def planned(self) -> bool:
        """Return whether it happens so long after the notice that people can plan for it."""
        return self.due is not None and self.due - self.at > MOMENT


@dataclass(frozen=True)
class Refusal:
    """State that the provider had no capacity for one request to launch."""

    id: str
    at: datetime
    labels: Labels
    """Account, region, zone and instance type, as far as the request names them."""
    spot: bool = False
    by: str = ""
    """The call that was refused: `RunInstances`."""


@dataclass(frozen=True)
class Scarcity:
    """Count the requests of one type in one zone that were refused for want of capacity."""

    zone: str
    """The zone, else the region."""
    refused: int
    spot: int
    """Of them on spot."""
    newest: datetime


def scarcities(refusals: Sequence[Refusal], instance_type: str) -> tuple[Scarcity, ...]:
    """Count the refusals of a type by zone, the zone refused most first."""
    zones: dict[str, list[Refusal]] = {}
    for one in refusals:
        if one.labels.instance_type == instance_type:
            zones.setdefault(one.labels.zone or one.labels.region, []).append(one)
    counts = [
        Scarcity(zone, len(x), sum(one.spot for one in x), max(one.at for one in x))
        for zone, x in zones.items()
    ]
    return tuple(sorted(counts, key=lambda x: (-x.refused, x.zone)))
