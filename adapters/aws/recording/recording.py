"""Read a recording as of any time, as the bot's source and price list."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from threading import Lock

from adapters.aws.config import ReadingConfig
from adapters.aws.events.notices import Notices
from adapters.aws.inventory.joined import JoinedInventory, core_counts, labelled, last_seen
from adapters.aws.inventory.snapshots import Snapshots
from adapters.aws.logs.logbook import Logbook
from adapters.aws.metrics.batch import batches
from adapters.aws.metrics.metric_grid import MetricGrid, SeriesBatch, build_grid, series_batches
from adapters.aws.metrics.points import Gatherer
from adapters.aws.metrics.runs import TrainingRuns
from adapters.aws.metrics.time_grid import TimeGrid
from adapters.aws.prices.quoted import QuotedPrices
from adapters.aws.problems import Problems
from adapters.aws.recent import Recent
from bot.model.fleet import Inventory
from bot.model.frame import Frame
from bot.model.labels import Labels
from bot.model.price import CommitmentOffer, Interruption, PlacementScore, Price
from bot.model.reading import Reading
from bot.model.window import Window

_KINDS = ("node", "pod", "cluster", "file_system", "volume", "run", "device")
_LAZY = "core"
"""Built when first asked for: as large as all the rest."""


@dataclass(frozen=True)
class RecordingContents:
    """Hold everything that was read from a recording's folder."""

    gatherer: Gatherer
    snapshots: Snapshots
    prices: QuotedPrices
    logs: Logbook
    problems: Problems
    notices: Notices


class Recording:
    """Read a recording as of any time: `bot.ports.Source` and `bot.ports.Prices`.

    Frames are views into whole-recording arrays and are built when asked for. Any thread may read.
    """

    def __init__(self, contents: RecordingContents, config: ReadingConfig) -> None:
        gatherer, snapshots, grid = contents.gatherer, contents.snapshots, config.grid
        self.ignored: Mapping[str, int] = dict(gatherer.ignored)
        """Points of metric names that mean nothing here, by `namespace metric`."""
        self._grid, self._prices, self._problems = grid, contents.prices, contents.problems
        self._history, self._most, self._logs = config.history, config.most_steps, contents.logs
        self._notices, self._snapshots = contents.notices, snapshots
        ordered = batches(gatherer)
        feeding = {
            kind: series
            for kind in (*_KINDS, _LAZY)
            if (series := series_batches(ordered, kind, gatherer.catalogue))
        }
        every = [source for series in feeding.values() for source in series]
        self._extent = _extent(every)
        self._base = _first_bin(every, grid)
        self._cores = core_counts(snapshots, every)
        self._grids = {
            kind: self._built(kind, series) for kind, series in feeding.items() if kind != _LAZY
        }
        self._waiting = tuple(
            replace(source, batch=source.batch.copy()) for source in feeding.get(_LAZY, [])
        )
        self._lazy_from = _first_bin(self._waiting, grid) if self._waiting else sys.maxsize
        self._runs = TrainingRuns(feeding.get("run", []), grid)
        nodes = self._grids.get("node")
        self._inventories = JoinedInventory(snapshots, nodes, last_seen(nodes) if nodes else None)
        self._named = Recent[tuple[Inventory, tuple[Labels, ...]]]()
        self._building = Lock()

    def read(self, now: datetime) -> Reading:
        """Return the reading at the last step's end at or before `now`."""
        end = int(now.timestamp()) // self._grid.step
        inventory = self._inventories.at(now, end)
        frames = FrameLookup(self._kinds(end), lambda kind: self._frame(kind, end, inventory))
        marks = self._logs.at(datetime.fromtimestamp(end * self._grid.step, UTC), self._history)
        runs, notices = self._runs.at(end * self._grid.step), self._notices.at(now, self._history)
        return Reading(
            now,
            frames,
            inventory,
            runs,
            marks=marks,
            notices=notices,
            refusals=self._snapshots.refusals(now),
        )

    def extent(self) -> Window:
        """Return the first metric's timestamp to the end of the last one's period."""
        return self._extent

    def problems(self) -> Sequence[str]:
        """Return one sentence for each file, line or response that could not be read."""
        return self._problems.sentences()

    def quotes(self, instance_type: str, region: str, now: datetime) -> Sequence[Price]:
        """Return the listed, spot and Capacity Block prices known at `now`.

        All regions where `region` is "".
        """
        return self._prices.quotes(instance_type, region, now)

    def spot_history(self, instance_type: str, now: datetime) -> Sequence[tuple[datetime, Price]]:
        """Return the spot price changes known at `now`, oldest first."""
        return self._prices.spot_history(instance_type, now)

    def placement(self, instance_type: str, now: datetime) -> Sequence[PlacementScore]:
        """Return the spot placement scores known at `now`, the best first."""
        return self._prices.spot_scores.placement(instance_type, now)

    def interruptions(self, instance_type: str, now: datetime) -> Sequence[Interruption]:
        """Return the Spot Advisor's bands known at `now`, by region."""
        return self._prices.spot_scores.interruptions(instance_type, now)

    def commitment_offers(self, instance_type: str, now: datetime) -> Sequence[CommitmentOffer]:
        """Return the Savings Plans and reserved instances offered for a type, as known at `now`."""
        return self._prices.commitments.of(instance_type, now)

    def _kinds(self, end: int) -> tuple[str, ...]:
        shown = tuple(
            kind for kind in (*_KINDS, _LAZY) if (of := self._grids.get(kind)) and of.visible(end)
        )
        return (*shown, _LAZY) if _LAZY not in shown and self._lazy_from <= end else shown

    def _frame(self, kind: str, end: int, inventory: Inventory) -> Frame:
        with self._building:
            if kind not in self._grids:
                self._grids[kind] = self._built(kind, self._waiting)
                self._waiting = ()
        return self._grids[kind].frame(end, self._most, self._names(kind, inventory))

    def _built(self, kind: str, feeding: Sequence[SeriesBatch]) -> MetricGrid:
        return build_grid(kind, feeding, self._grid, self._base, self._cores)

    def _names(self, kind: str, inventory: Inventory) -> tuple[Labels, ...]:
        """Return all labels of each thing of a kind, kept while the inventory stays the same."""
        # The inventory is kept beside its labels, so that no other one has its id meanwhile.
        return self._named.get(
            (kind, id(inventory)), lambda: (inventory, labelled(self._grids[kind], inventory))
        )[1]


def _first_bin(feeding: Sequence[SeriesBatch], grid: TimeGrid) -> int:
    return min(int(grid.span(source.batch, source.period)[0].min()) for source in feeding)


def _extent(feeding: Sequence[SeriesBatch]) -> Window:
    first = min(int(x.batch.points.seconds[x.batch.starts[:-1]].min()) for x in feeding)
    last = max(
        int((x.batch.points.seconds[x.batch.starts[1:] - 1] + x.period).max()) for x in feeding
    )
    return Window(datetime.fromtimestamp(first, UTC), datetime.fromtimestamp(last, UTC))


class FrameLookup(Mapping[str, Frame]):
    """Build each frame when it is first asked for."""

    def __init__(self, kinds: tuple[str, ...], build: Callable[[str], Frame]) -> None:
        self._kinds, self._build = kinds, build
        self._built: dict[str, Frame] = {}

    def __getitem__(self, kind: str) -> Frame:
        """Build the frame, or return the one built before."""
        if kind not in self._built:
            if kind not in self._kinds:
                raise KeyError(kind)
            self._built[kind] = self._build(kind)
        return self._built[kind]

    def __iter__(self) -> Iterator[str]:
        """Name the kinds without building any."""
        return iter(self._kinds)

    def __len__(self) -> int:
        """Count the kinds."""
        return len(self._kinds)
