"""Read a recording, as of any time, from AWS's own formats in a folder."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from threading import Lock

from adapters.aws.api.responses import RecordedResponses
from adapters.aws.config import ReadingConfig
from adapters.aws.events.notices import Notices
from adapters.aws.files import JSON_LINES, MetricForm, Problems, form_of
from adapters.aws.inventory.snapshots import (
    JoinedInventory,
    Recent,
    Snapshots,
    core_counts,
    labelled,
    last_seen,
)
from adapters.aws.logs.logbook import Logbook, node_names, read_logs
from adapters.aws.metrics.batch import TimeGrid, batches
from adapters.aws.metrics.believed import believe
from adapters.aws.metrics.lines import read_jsonl, read_reports
from adapters.aws.metrics.metric_grid import (
    MetricGrid,
    SeriesBatch,
    TrainingRuns,
    build_grid,
    series_batches,
)
from adapters.aws.metrics.parquet import read_parquet
from adapters.aws.metrics.points import KEPT_DAYS, Catalogue, Gatherer
from adapters.aws.prices.quoted import PriceSource, QuotedPrices
from bot.errors import Unavailable, WrongInput
from bot.model.fleet import Inventory
from bot.model.frame import Frame, FrameLookup
from bot.model.labels import Labels
from bot.model.money import counted
from bot.model.reading import Reading
from bot.model.window import NO_TIME, Window

_KINDS = ("node", "pod", "cluster", "file_system", "volume", "run", "device")
_LAZY = "core"
"""Built when first asked for: as large as all the rest."""


class Recording(PriceSource):
    """Read a recording as of any time: `bot.ports.Source` and `bot.ports.Prices`.

    Frames are views into whole-recording arrays and are built when asked for. Any thread may read.
    """

    def __init__(
        self,
        gatherer: Gatherer,
        responses: RecordedResponses,
        logs: Logbook,
        problems: Problems,
        config: ReadingConfig,
    ) -> None:
        grid = config.grid
        self._snapshots = Snapshots(responses, config.tags, config.types, config.history)
        self._prices, self._notices = QuotedPrices(responses), Notices(responses)
        self.ignored: Mapping[str, int] = dict(gatherer.ignored)
        """Points of metric names that mean nothing here, by `namespace metric`."""
        self._grid, self._logs, self._problems = grid, logs, problems
        self._history, self._most = config.history, config.most_steps
        ordered = batches(gatherer)
        feeding = {
            kind: series
            for kind in (*_KINDS, _LAZY)
            if (series := series_batches(ordered, kind, gatherer.catalogue))
        }
        sources = [source for series in feeding.values() for source in series]
        self.billed_alone = not sources
        """Whether the bill alone tells of its time."""
        self._extent = _extent(sources) if sources else config.billed or NO_TIME
        self._base = _first_bin(sources, grid)
        self._cores = core_counts(self._snapshots, sources)
        self._grids = {
            kind: self._built(kind, series) for kind, series in feeding.items() if kind != _LAZY
        }

        # Cores keep arrays of their own: those of the batches can then be freed.
        self._waiting = tuple(
            replace(source, batch=source.batch.copy()) for source in feeding.get(_LAZY, [])
        )
        self._lazy_from = _first_bin(self._waiting, grid) if self._waiting else sys.maxsize
        self._runs = TrainingRuns(feeding.get("run", []), grid)
        nodes = self._grids.get("node")
        self._inventories = JoinedInventory(
            self._snapshots, nodes, last_seen(nodes) if nodes else None
        )
        self._named = Recent[tuple[Inventory, tuple[Labels, ...]]]()
        self._building = Lock()

    def read(self, now: datetime) -> Reading:
        """Return the reading at the last step's end at or before `now`."""
        end = int(now.timestamp()) // self._grid.step
        inventory = self._inventories.at(now, end)
        runs, notices = self._runs.at(end * self._grid.step), self._notices.at(now, self._history)
        return Reading(
            now,
            FrameLookup(self._kinds(end), lambda kind: self._frame(kind, end, inventory)),
            inventory,
            runs,
            marks=self._logs.at(datetime.fromtimestamp(end * self._grid.step, UTC), self._history),
            notices=notices,
            refusals=self._snapshots.refusals(now),
            missing=(_NO_METRICS,) if self.billed_alone else (),
        )

    def extent(self) -> Window:
        """Return the first metric's timestamp to the end of the last one's period.

        Without metrics, the time that the bill tells of.
        """
        return self._extent

    def measured(self) -> Window:
        """Return the same of metrics alone; raise `Unavailable` where there are none."""
        if self.billed_alone:
            raise Unavailable(_NO_METRICS)
        return self._extent

    def problems(self) -> Sequence[str]:
        """Return one sentence for each file, line or response that could not be read."""
        return self._problems.sentences()

    def quoted(self, now: datetime) -> QuotedPrices:  # noqa: ARG002 - its base asks
        """Return the prices of the recording, which know what was known at a time."""
        return self._prices

    def _kinds(self, end: int) -> tuple[str, ...]:
        visible = tuple(
            kind for kind in (*_KINDS, _LAZY) if (of := self._grids.get(kind)) and of.visible(end)
        )
        return (*visible, _LAZY) if _LAZY not in visible and self._lazy_from <= end else visible

    def _frame(self, kind: str, end: int, inventory: Inventory) -> Frame:
        with self._building:
            if kind not in self._grids:
                self._grids[kind] = self._built(kind, self._waiting)
                self._waiting = ()
        return self._grids[kind].frame(
            end,
            self._most,
            self._named.get(
                (kind, id(inventory)), lambda: (inventory, labelled(self._grids[kind], inventory))
            )[1],
        )

    def _built(self, kind: str, feeding: Sequence[SeriesBatch]) -> MetricGrid:
        return build_grid(kind, feeding, self._grid, self._base, self._cores)


def _first_bin(feeding: Sequence[SeriesBatch], grid: TimeGrid) -> int:
    spans = (grid.span(source.batch, source.period)[0] for source in feeding)
    return min((int(starts.min()) for starts in spans), default=0)


def _extent(feeding: Sequence[SeriesBatch]) -> Window:
    first = min(int(x.batch.points.seconds[x.batch.starts[:-1]].min()) for x in feeding)
    last = max(
        int((x.batch.points.seconds[x.batch.starts[1:] - 1] + x.period).max()) for x in feeding
    )
    return Window(datetime.fromtimestamp(first, UTC), datetime.fromtimestamp(last, UTC))


_NO_METRICS = "The recording has no metrics: only the bill and the inventory are watched."


def open_recording(folder: Path, config: ReadingConfig) -> Recording:
    """Read the metrics, reports, responses and logs in a folder.

    Raise `WrongInput` where the folder is missing and `Unavailable` where it holds no metric and
    its bill tells of no time.
    """
    if not folder.is_dir():
        raise WrongInput(
            f"There is no recording at {folder}; name a folder that has metrics/ in it."
        )
    problems = Problems()
    gatherer = gather(folder, problems, config.catalogue())
    believe(gatherer, problems)
    if not gatherer.parts and config.billed is None:
        first = next(
            iter(problems.sentences()),
            "put a metric stream under metrics/, or neuron-monitor/*.jsonl.",
        )
        raise Unavailable(f"The recording {folder} has no metric that could be read; {first}")
    if gatherer.parts and (astray := gatherer.drop_astray()):
        problems.add(
            "metrics",
            f"{counted(astray, 'point')} more than {KEPT_DAYS} days from the others; skipped.",
        )

    # Responses and logs are read after the metrics, which name nodes and tell whether there is
    # anything.
    responses = RecordedResponses(folder / "api", problems)
    logs = read_logs(folder, node_names(gatherer.numbers), problems)
    return Recording(gatherer, responses, logs, problems, config)


def gather(folder: Path, problems: Problems, catalogue: Catalogue) -> Gatherer:
    """Read every metric and report under the folder, files in the order of their names.

    Reports are read beside: they cost Python's time, Parquet costs DuckDB's.
    """
    gatherer = Gatherer(catalogue=catalogue)
    with ThreadPoolExecutor(1, thread_name_prefix="reports") as beside:
        reports = beside.submit(_reports, folder, catalogue)

        metrics = list(_metric_files(folder, problems))
        for path, name, form in metrics:
            if form is MetricForm.LINES:
                read_jsonl(path, name, gatherer, problems)
        read_parquet(
            [(path, name) for path, name, form in metrics if form is MetricForm.PARQUET],
            gatherer,
            problems,
        )
    reported, broken = reports.result()
    gatherer.take(reported)
    problems.take(broken)
    return gatherer


def _reports(folder: Path, catalogue: Catalogue) -> tuple[Gatherer, Problems]:
    gatherer, problems = Gatherer(catalogue=catalogue), Problems()
    for path in sorted((folder / "neuron-monitor").glob("*.jsonl*")):
        if path.name.endswith(JSON_LINES):
            read_reports(
                path,
                str(path.relative_to(folder)),
                path.name.partition(".jsonl")[0],
                gatherer,
                problems,
            )
    return gatherer, problems


def _metric_files(folder: Path, problems: Problems) -> Iterator[tuple[Path, str, MetricForm]]:
    """Yield path, name and form of each file that may hold metrics.

    Marks and hidden files hold none.
    """
    for path in sorted((folder / "metrics").rglob("*")):
        if path.name.startswith((".", "_")) or not path.is_file():
            continue
        name = str(path.relative_to(folder))
        if form := form_of(path):
            yield path, name, form
        elif path.stat().st_size:
            problems.add(
                name,
                "neither metric-stream JSON nor Parquet (OpenTelemetry's format is not read);"
                " skipped.",
            )
