"""Open a recording: AWS's own formats in a folder, read as the bot's source and price list."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Lock

from adapters.aws.batch import batches
from adapters.aws.catalogue import Catalogue, catalogue_with
from adapters.aws.forms import MetricForm, form_of
from adapters.aws.frames import Frames, cores_of, labelled
from adapters.aws.grid import Grid
from adapters.aws.identity import TagNames
from adapters.aws.inventory import Inventories, Snapshots, last_seen
from adapters.aws.jsonl import read_jsonl
from adapters.aws.logbook import Logbook, node_names, read_logs
from adapters.aws.neuron_monitor import read_reports
from adapters.aws.parquet import read_parquet
from adapters.aws.points import KEPT_DAYS, Gatherer
from adapters.aws.prices import QuotedPrices
from adapters.aws.problems import Problems
from adapters.aws.responses import Responses
from adapters.aws.runs import Runs
from adapters.aws.sheet import Sheet, Source, sheet, sources
from bot.errors import Unavailable, WrongInput
from bot.model.fleet import InstanceType, Inventory
from bot.model.frame import Frame
from bot.model.labels import Labels
from bot.model.names import OwnNames
from bot.model.price import Interruption, PlacementScore, Price
from bot.model.reading import Reading
from bot.model.window import Window

_KINDS = ("node", "pod", "cluster", "file_system", "volume", "run", "device")
_LAZY = "core"
"""Built when first asked for: as large as all the rest."""


def open_recording(
    folder: Path,
    *,
    interval: timedelta,
    lag: timedelta = timedelta(minutes=1),
    history: timedelta = timedelta(days=15),
    types: Mapping[str, InstanceType],
    tags: TagNames | None = None,
    own: OwnNames | None = None,
) -> Recording:
    """Read a folder's metrics, reports and responses; frames have steps of `interval`, aligned to the epoch.

    `own` names the metrics of a namespace of the installation's own.

    Raise `WrongInput` where the folder is missing and `Unavailable` where it holds no metric.
    """
    if not folder.is_dir():
        raise WrongInput(f"There is no recording at {folder}; name a folder that has metrics/ in it.")
    problems = Problems()
    gatherer = gather(folder, problems, catalogue_with(own))
    if not gatherer.parts:
        first = next(iter(problems.sentences()), "it needs a metric stream under metrics/, or neuron-monitor/*.jsonl.")
        raise Unavailable(f"The recording {folder} is empty: no metric could be read; {first}")
    if astray := gatherer.drop_astray():
        problems.add("metrics", f"{astray:,} points lie over {KEPT_DAYS} days from the others; skipped.")
    responses = Responses(folder / "api", problems)
    snapshots = Snapshots(responses, tags or TagNames(), types, history)
    grid = Grid(int(interval.total_seconds()), int(lag.total_seconds()))
    logs = read_logs(folder, node_names(gatherer.numbers), problems)
    return Recording(gatherer, grid, history, snapshots, QuotedPrices(responses), problems, logs)


def gather(folder: Path, problems: Problems, catalogue: Catalogue) -> Gatherer:
    """Read every metric and report under the folder, files in the order of their names.

    Reports are read beside: they cost Python's time, Parquet costs DuckDB's.
    """
    gatherer = Gatherer(catalogue=catalogue)
    with ThreadPoolExecutor(1, thread_name_prefix="reports") as beside:
        reports = beside.submit(_reports, folder, catalogue)
        _metrics(folder, gatherer, problems)
    told, broken = reports.result()
    gatherer.take(told)
    problems.take(broken)
    return gatherer


def _metrics(folder: Path, gatherer: Gatherer, problems: Problems) -> None:
    metrics = list(_metric_files(folder, problems))
    for path, name, form in metrics:
        if form is MetricForm.LINES:
            read_jsonl(path, name, gatherer, problems)
    read_parquet([(path, name) for path, name, form in metrics if form is MetricForm.PARQUET], gatherer, problems)


def _reports(folder: Path, catalogue: Catalogue) -> tuple[Gatherer, Problems]:
    gatherer, problems = Gatherer(catalogue=catalogue), Problems()
    for path in sorted((folder / "neuron-monitor").glob("*.jsonl*")):
        if path.name.endswith((".jsonl", ".jsonl.gz")):
            read_reports(path, str(path.relative_to(folder)), path.name.partition(".jsonl")[0], gatherer, problems)
    return gatherer, problems


def _metric_files(folder: Path, problems: Problems) -> Iterator[tuple[Path, str, MetricForm]]:
    """Yield path, name and form of what may hold metrics; marks and hidden files are none."""
    for path in sorted((folder / "metrics").rglob("*")):
        if path.name.startswith((".", "_")) or not path.is_file():
            continue
        name = str(path.relative_to(folder))
        if form := form_of(path):
            yield path, name, form
        elif path.stat().st_size:
            problems.add(name, "neither metric-stream JSON nor Parquet (OpenTelemetry's format is not read); skipped.")


class Recording:
    """Read a recording as of any time: `bot.ports.Source` and `bot.ports.Prices`.

    Frames are views into whole-recording arrays and are built when asked for. Any thread may read.
    """

    def __init__(
        self,
        gatherer: Gatherer,
        grid: Grid,
        history: timedelta,
        snapshots: Snapshots,
        prices: QuotedPrices,
        problems: Problems,
        logs: Logbook,
    ) -> None:
        self.ignored: Mapping[str, int] = dict(gatherer.ignored)
        """Points of metric names that mean nothing here, by `namespace metric`."""
        self._grid, self._prices, self._problems = grid, prices, problems
        self._history, self._logs = history, logs
        self._most = max(1, int(history.total_seconds()) // grid.step)
        ordered = batches(gatherer)
        feeding = {kind: found for kind in (*_KINDS, _LAZY) if (found := sources(ordered, kind, gatherer.catalogue))}
        every = [source for found in feeding.values() for source in found]
        self._extent = _extent(every)
        self._base = _first_bin(every, grid)
        self._cores = cores_of(snapshots, every)
        self._sheets = {kind: self._sheet(kind, found) for kind, found in feeding.items() if kind != _LAZY}
        self._waiting = tuple(replace(source, batch=source.batch.copy()) for source in feeding.get(_LAZY, []))
        self._lazy_from = _first_bin(self._waiting, grid) if self._waiting else sys.maxsize
        self._runs = Runs(feeding.get("run", []), grid)
        nodes = self._sheets.get("node")
        self._inventories = Inventories(snapshots, nodes, last_seen(nodes) if nodes else None)
        self._named: tuple[Inventory | None, dict[str, tuple[Labels, ...]]] = (None, {})
        self._building = Lock()

    def read(self, now: datetime) -> Reading:
        """Return what was visible at the last step's end at or before `now`."""
        end = int(now.timestamp()) // self._grid.step
        inventory = self._inventories.at(now, end)
        frames = Frames(self._kinds(end), lambda kind: self._frame(kind, end, inventory))
        marks = self._logs.at(datetime.fromtimestamp(end * self._grid.step, UTC), self._history)
        return Reading(now, frames, inventory, self._runs.at(end * self._grid.step), marks=marks)

    def extent(self) -> Window:
        """Return the first metric's timestamp to the end of the last one's period."""
        return self._extent

    def problems(self) -> Sequence[str]:
        """Return one sentence for each file, line or response that could not be read."""
        return self._problems.sentences()

    def quotes(self, instance_type: str, region: str, now: datetime) -> Sequence[Price]:
        """Return the listed, spot and Capacity Block prices known at `now`; all regions where `region` is ""."""
        return self._prices.quotes(instance_type, region, now)

    def spot_history(self, instance_type: str, now: datetime) -> Sequence[tuple[datetime, Price]]:
        """Return the spot price changes known at `now`, oldest first."""
        return self._prices.spot_history(instance_type, now)

    def placement(self, instance_type: str, now: datetime) -> Sequence[PlacementScore]:
        """Return the spot placement scores known at `now`, the best first."""
        return self._prices.chances.placement(instance_type, now)

    def interruptions(self, instance_type: str, now: datetime) -> Sequence[Interruption]:
        """Return the Spot Advisor's bands known at `now`, by region."""
        return self._prices.chances.interruptions(instance_type, now)

    def _kinds(self, end: int) -> tuple[str, ...]:
        shown = tuple(kind for kind in (*_KINDS, _LAZY) if (of := self._sheets.get(kind)) and of.visible(end))
        return (*shown, _LAZY) if _LAZY not in shown and self._lazy_from <= end else shown

    def _frame(self, kind: str, end: int, inventory: Inventory) -> Frame:
        with self._building:
            if kind not in self._sheets:
                self._sheets[kind] = self._sheet(kind, self._waiting)
                self._waiting = ()
        return self._sheets[kind].frame(end, self._most, self._names(kind, inventory))

    def _sheet(self, kind: str, feeding: Sequence[Source]) -> Sheet:
        return sheet(kind, feeding, self._grid, self._base, self._cores)

    def _names(self, kind: str, inventory: Inventory) -> tuple[Labels, ...]:
        """Return all that is known of each thing of a kind, kept while the inventory stays the same."""
        named_for, named = self._named
        if named_for is not inventory:
            named = {}
            self._named = (inventory, named)
        if kind not in named:
            named[kind] = labelled(self._sheets[kind], inventory)
        return named[kind]


def _first_bin(feeding: Sequence[Source], grid: Grid) -> int:
    return min(int(grid.span(source.batch, source.period)[0].min()) for source in feeding)


def _extent(feeding: Sequence[Source]) -> Window:
    first = min(int(x.batch.points.seconds[x.batch.starts[:-1]].min()) for x in feeding)
    last = max(int((x.batch.points.seconds[x.batch.starts[1:] - 1] + x.period).max()) for x in feeding)
    return Window(datetime.fromtimestamp(first, UTC), datetime.fromtimestamp(last, UTC))
