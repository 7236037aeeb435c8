"""Hold how an installation reads metrics and inventory, of a recording or of a live account."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta

from adapters.aws.inventory.ownership import TagNames
from adapters.aws.metrics.batch import TimeGrid
from adapters.aws.metrics.points import Catalogue, standard
from bot.model.fleet import InstanceType
from bot.model.frame import OwnNames
from bot.model.window import Window


@dataclass(frozen=True)
class ReadingConfig:
    """Configure the frames and the inventory of a source.

    Steps of `interval` are aligned to the epoch.
    """

    interval: timedelta
    types: Mapping[str, InstanceType]
    lag: timedelta = timedelta(minutes=1)
    """How long after its period a point becomes visible."""
    history: timedelta = timedelta(days=15)
    tags: TagNames = field(default_factory=TagNames)
    own: OwnNames | None = None
    """Names of the metrics in a namespace of the installation's own."""
    billed: Window | None = None
    """The time that is watched by the bill alone where there are no metrics, None for none."""

    @property
    def grid(self) -> TimeGrid:
        """Return the grid of visible time."""
        return TimeGrid(int(self.interval.total_seconds()), int(self.lag.total_seconds()))

    @property
    def history_seconds(self) -> int:
        """Return the length of history in seconds."""
        return int(self.history.total_seconds())

    @property
    def most_steps(self) -> int:
        """Return how many steps a frame holds at most."""
        return max(1, self.history_seconds // self.grid.step)

    def catalogue(self) -> Catalogue:
        """Return the metrics that mean something.

        The standard ones, and those of the installation's own.
        """
        return Catalogue(standard().shapes, self.own) if self.own else standard()
