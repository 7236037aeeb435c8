"""Open a recording: gather its metrics, reports, responses and logs from a folder."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from adapters.aws.api.responses import RecordedResponses
from adapters.aws.config import ReadingConfig
from adapters.aws.events.notices import Notices
from adapters.aws.files import MetricForm, form_of
from adapters.aws.inventory.snapshots import Snapshots
from adapters.aws.logs.logbook import node_names, read_logs
from adapters.aws.metrics.believed import believe
from adapters.aws.metrics.catalogue import Catalogue
from adapters.aws.metrics.jsonl import read_jsonl
from adapters.aws.metrics.neuron_monitor import read_reports
from adapters.aws.metrics.parquet import read_parquet
from adapters.aws.metrics.points import KEPT_DAYS, Gatherer
from adapters.aws.prices.quoted import QuotedPrices
from adapters.aws.problems import Problems
from adapters.aws.recording.recording import Recording, RecordingContents
from bot.errors import Unavailable, WrongInput


def open_recording(folder: Path, config: ReadingConfig) -> Recording:
    """Read the metrics, reports, responses and logs in a folder.

    Raise `WrongInput` where the folder is missing and `Unavailable` where it holds no metric.
    """
    if not folder.is_dir():
        raise WrongInput(
            f"There is no recording at {folder}; name a folder that has metrics/ in it."
        )
    problems = Problems()
    gatherer = gather(folder, problems, config.catalogue())
    believe(gatherer, problems)
    if not gatherer.parts:
        first = next(
            iter(problems.sentences()),
            "it needs a metric stream under metrics/, or neuron-monitor/*.jsonl.",
        )
        raise Unavailable(f"The recording {folder} is empty: no metric could be read; {first}")
    if astray := gatherer.drop_astray():
        problems.add(
            "metrics", f"{astray:,} points lie over {KEPT_DAYS} days from the others; skipped."
        )
    responses = RecordedResponses(folder / "api", problems)
    snapshots = Snapshots(responses, config.tags, config.types, config.history)
    logs = read_logs(folder, node_names(gatherer.numbers), problems)
    contents = RecordingContents(
        gatherer, snapshots, QuotedPrices(responses), logs, problems, Notices(responses)
    )
    return Recording(contents, config)


def gather(folder: Path, problems: Problems, catalogue: Catalogue) -> Gatherer:
    """Read every metric and report under the folder, files in the order of their names.

    Reports are read beside: they cost Python's time, Parquet costs DuckDB's.
    """
    gatherer = Gatherer(catalogue=catalogue)
    with ThreadPoolExecutor(1, thread_name_prefix="reports") as beside:
        reports = beside.submit(_reports, folder, catalogue)
        _metrics(folder, gatherer, problems)
    reported, broken = reports.result()
    gatherer.take(reported)
    problems.take(broken)
    return gatherer


def _metrics(folder: Path, gatherer: Gatherer, problems: Problems) -> None:
    metrics = list(_metric_files(folder, problems))
    for path, name, form in metrics:
        if form is MetricForm.LINES:
            read_jsonl(path, name, gatherer, problems)
    read_parquet(
        [(path, name) for path, name, form in metrics if form is MetricForm.PARQUET],
        gatherer,
        problems,
    )


def _reports(folder: Path, catalogue: Catalogue) -> tuple[Gatherer, Problems]:
    gatherer, problems = Gatherer(catalogue=catalogue), Problems()
    for path in sorted((folder / "neuron-monitor").glob("*.jsonl*")):
        if path.name.endswith((".jsonl", ".jsonl.gz")):
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
                "neither metric-stream JSON nor Parquet (OpenTelemetry's format is not read); skipped.",
            )
