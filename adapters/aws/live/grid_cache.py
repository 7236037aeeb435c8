"""Keep settled bins on disk, an hour a file.

So that the next process asks AWS for nothing that this one knew.
"""

from __future__ import annotations

import hashlib
import logging
import re
import shutil
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson

from adapters.aws.api.operations import Place
from adapters.aws.files import Problems, chunked, flush, replacing, why
from adapters.aws.live.frame_buffer import MARGIN_SECONDS, FrameBuffer, GridRing, Remembered
from adapters.aws.live.poller import MetricPoller
from adapters.aws.live.requests import SeriesBlock
from adapters.aws.metrics.batch import PARALLEL, parallel_map
from adapters.aws.metrics.metric_grid import GridPart
from adapters.aws.metrics.points import COLUMNS, MetricSeries, Points
from bot.model.frame import Floats
from bot.model.labels import Labels

_FORMAT = 1
_BASE = re.compile(rb'"base": ?(\d+)')
_INDEX = "index.npz"
_BROKEN = (OSError, ValueError, KeyError, TypeError, IndexError, EOFError, zipfile.BadZipFile)
Arrays = Mapping[str, npt.NDArray[Any]]
_log = logging.getLogger("trnbot.aws")


@dataclass
class GridCache:
    """Write the settled hours of a buffer into a folder.

    Let a new buffer and poller go on from there.
    """

    buffer: FrameBuffer
    metrics: MetricPoller
    problems: Problems
    root: Path | None
    """A folder with one for each set of accounts and regions, step and meaning of metrics.

    None keeps nothing.
    """
    _recalled: bool = False
    _hours: set[int] = field(default_factory=set)
    _writer: Thread | None = None

    def __post_init__(self) -> None:
        """Measure an hour in bins."""
        self._bins = max(1, 3600 // self.buffer.grid.step)
        self._seconds = self._bins * self.buffer.grid.step

    def recall(self, places: Sequence[Place], now: int) -> None:
        """Let buffer and poller go on from where an earlier process of these places stopped, once.

        Before anything is read.
        """
        if self.root is None or self._recalled:
            return
        self._recalled = True
        folder = self.root / self._scope(places)
        if self.metrics.book.series or not (folder / _INDEX).exists():
            return
        try:
            arrays = _read(folder / _INDEX)
            index = orjson.loads(arrays["said"].tobytes())
            until = int(index["until"])
            if now - self.buffer.history < until * self._seconds <= now:
                if index["format"] != _FORMAT:
                    raise ValueError(f"format {index['format']}, not {_FORMAT}")
                series = [
                    MetricSeries(n, m, tuple(k for k, _ in d), tuple((k, v) for k, v in d), r, a)
                    for n, m, d, r, a in index["series"]
                ]
                remembered = Remembered(
                    _points("heads", arrays), _points("runs", arrays), arrays["spoke"]
                )
                place_of = {f"{place.region} {place.account}": place for place in places}
                numbers_of = {place_of[name]: numbers for name, numbers in index["known"].items()}
                blocks = [
                    SeriesBlock(place_of[name], start, end, tuple(numbers))
                    for name, start, end, numbers in index["wanted"]
                ]
                since = until * self._seconds - MARGIN_SECONDS
                # All is read that may be broken; from here on nothing fails by half.
                self._hours = set(index["hours"])
                rings = self._rings(folder, index.get("columns", {}), until * self._bins)
                hours = () if rings else self._stored(folder)
                self.metrics.book.resume(series, since)
                for place, numbers in numbers_of.items():
                    self.metrics.resume(place, numbers, set(index["active"]) & set(numbers), since)
                for block in blocks:
                    self.metrics.backfill.queue(block.place, block.numbers, block.start, block.end)
                self.buffer.resume(remembered, until * self._bins, hours, rings)
        except _BROKEN as error:
            self._set_aside(folder / _INDEX, error, "history is bought again")

    def save(self, places: Sequence[Place], now: int) -> None:
        """Write the hours that are settled since, and those that history filled.

        In the background.
        """
        until = self.buffer.horizon // self._bins
        changed = {bin // self._bins for bin in self.buffer.filled}
        settled = until > max(self._hours, default=0) + 1 or not self._hours
        if (
            self.root is None
            or not places
            or not self.buffer.grids
            or (self._writer is not None and self._writer.is_alive())
        ):
            return
        if not settled and not (changed and not self.metrics.backfill.pending()):
            return
        first = min(grid.base for grid in self.buffer.grids.values()) // self._bins
        begin = max(self._hours, default=first - 1) + 1
        hours = sorted(hour for hour in {*range(begin, until), *changed} if first <= hour < until)
        self.buffer.filled = set()

        self._writer = Thread(
            target=self._write,
            args=(self.root / self._scope(places), hours, until, self._index(now, until)),
            name="grid cache",
        )
        self._writer.start()

    def _index(self, now: int, until: int) -> Arrays:
        """Return all that the next process needs beside the hours."""
        numbers_of, pending = self.metrics.known(), self.metrics.backfill.pending()
        book, remembered = self.metrics.book, self.buffer.remembered()

        # Series that nobody reads on or goes back to are left behind, the others numbered anew.
        living, matters = (np.zeros(len(book.series), dtype=np.bool_) for _ in range(2))
        living[[n for numbers in numbers_of.values() for n in numbers]] = True
        matters[
            [
                *remembered.heads.series.tolist(),
                *book.active,
                *(n for block in pending for n in block.numbers),
            ]
        ] = True
        living &= matters
        place = np.cumsum(living) - 1

        def numbered(numbers: Iterable[int]) -> list[int]:
            return [int(place[n]) for n in numbers if living[n]]

        facts = {
            "format": _FORMAT,
            "saved": now,
            "until": until,
            "series": [
                (x.namespace, x.metric, x.dimensions, x.region, x.account)
                for x, my in zip(book.series, living, strict=True)
                if my
            ],
            "known": {
                f"{bin.region} {bin.account}": numbered(numbers)
                for bin, numbers in numbers_of.items()
            },
            "active": numbered(sorted(book.active)),
            "wanted": [
                (f"{x.place.region} {x.place.account}", x.start, x.end, numbered(x.numbers))
                for x in pending
            ],
        }
        heads, runs = (
            replace(kept, series=place[kept.series])
            for points in (remembered.heads, remembered.of_runs)
            for kept in [points.take(living[points.series])]
        )
        spoke = remembered.spoke[living[remembered.spoke[:, 0]]]
        spoke = np.stack([place[spoke[:, 0]], spoke[:, 1]], axis=1)
        return {
            "said": _bytes(facts),
            "spoke": spoke,
            **_columns("heads", heads),
            **_columns("runs", runs),
        }

    def join(self) -> None:
        """Wait for the files that are being written."""
        if self._writer:
            self._writer.join()

    def _scope(self, places: Sequence[Place]) -> str:
        """Return the folder's name.

        Other places, another step and other meanings of metrics have others.
        """
        catalogue, grid = self.metrics.book.catalogue, self.buffer.grid
        meanings = sorted(
            (*shape[:2], sorted(shape[2]), repr(targets))
            for shape, targets in catalogue.shapes.items()
        )
        where = sorted((place.account, place.region) for place in places)
        identity = repr((_FORMAT, grid.step, grid.lag, where, meanings, catalogue.own))
        return hashlib.sha256(identity.encode()).hexdigest()[:16]

    def _write(self, folder: Path, hours: Sequence[int], until: int, index: Arrays) -> None:
        try:
            for hour in hours:
                parts = self.buffer.part(hour * self._bins, (hour + 1) * self._bins)
                kinds = {
                    kind: {
                        "base": part.base,
                        "metrics": part.metrics,
                        "things": [dict(x) for x in part.things],
                    }
                    for kind, part in parts.items()
                }
                arrays = {kind: _bytes_of(part.values) for kind, part in parts.items()}
                about = _bytes({"format": _FORMAT, "kinds": kinds})
                _store(self._file(folder, hour), {"said": about, **arrays})
            self._hours |= set(hours)
            oldest = until - self.buffer.history // self._seconds
            for hour in [hour for hour in self._hours if hour < oldest]:
                self._file(folder, hour).unlink(missing_ok=True)
                self._hours.discard(hour)
            facts = orjson.loads(index["said"].tobytes())
            facts |= {"hours": sorted(self._hours), "columns": self.buffer.columns()}
            _store(folder / _INDEX, {**index, "said": _bytes(facts)})

            # Folders of other sets go once they are older than history reaches.
            newest = (folder / _INDEX).stat().st_mtime
            for stranger in folder.parent.iterdir():
                if stranger.is_dir() and newest - stranger.stat().st_mtime > self.buffer.history:
                    shutil.rmtree(stranger, ignore_errors=True)
        except OSError as error:
            self.buffer.filled |= {hour * self._bins for hour in hours}
            self.problems.add(
                str(folder), f"what was read cannot be kept for the next start ({why(error)})."
            )

    def _rings(self, folder: Path, columns: Mapping[str, Any], settled: int) -> dict[str, GridRing]:
        """Return the columns that an earlier process left, or none: the hours are read then.

        They are believed where the newest hour and one of each day say the same.
        """
        documents: dict[bytes, Any] = {}
        try:
            rings = self.buffer.opened(columns, settled)
            for hour in sorted(self._hours)[:: -86_400 // self._seconds] if rings else ():
                for kind, grid in self._hour(folder, hour, documents).items():
                    if not rings[kind].holds(grid):
                        raise ValueError(f"{kind} is not what its hour says")
        except _BROKEN as error:
            _log.info("the columns are built anew: %s", why(error))
            return {}
        return rings

    def _stored(self, folder: Path) -> Iterator[Mapping[str, GridPart]]:
        """Yield the grids of each hour.

        One that cannot be read is set aside, and wanted as history once more.
        """
        documents: dict[bytes, Any] = {}

        def grids_or_error(hour: int) -> Mapping[str, GridPart] | Exception:
            try:
                return self._hour(folder, hour, documents)
            except _BROKEN as error:
                return error

        lost = []
        for hours in chunked(sorted(self._hours), lambda _: 1, PARALLEL):
            for hour, grids in zip(hours, parallel_map(grids_or_error, hours), strict=True):
                if isinstance(grids, Exception):
                    self._set_aside(self._file(folder, hour), grids, "its hour is bought again")
                    lost.append(hour)
                else:
                    yield grids
        if lost:
            self._hours -= set(lost)
            self.metrics.refill(lost[0] * self._seconds, (lost[-1] + 1) * self._seconds)

    def _hour(self, folder: Path, hour: int, documents: dict[bytes, Any]) -> Mapping[str, GridPart]:
        """Return the grids of an hour; `documents` are what like hours say of their things."""
        arrays = _read(self._file(folder, hour))
        document = arrays["said"].tobytes()
        alike = _BASE.sub(b"", document)  # hour by hour mostly the same things
        facts = documents.get(alike) or orjson.loads(document)
        if facts["format"] != _FORMAT:
            raise ValueError(f"format {facts['format']}, not {_FORMAT}")
        if alike not in documents:
            for about in facts["kinds"].values():
                about["things"] = tuple(Labels(**thing) for thing in about["things"])
            documents[alike] = facts

        grids = {}
        bases = [int(base) for base in _BASE.findall(document)]
        for base, (kind, about) in zip(bases, facts["kinds"].items(), strict=True):
            values, things = _floats(arrays[kind]), about["things"]
            if values.shape[::2] != (len(about["metrics"]), len(things)):
                raise ValueError(f"{kind} has another shape than it says")
            grids[kind] = GridPart(base, things, tuple(about["metrics"]), values)
        return grids

    def _file(self, folder: Path, hour: int) -> Path:
        return folder / f"{np.datetime64(hour * self._seconds, 's').item():%Y%m%dT%H%MZ}.npz"

    def _set_aside(self, path: Path, error: Exception, so: str) -> None:
        if path.exists():
            path.replace(path.with_suffix(".broken"))
        self.problems.add(str(path), f"cannot be read ({why(error)}); it is set aside, and {so}.")


def _bytes(document: Any) -> npt.NDArray[np.uint8]:
    return np.frombuffer(orjson.dumps(document), dtype=np.uint8)


def _bytes_of(values: Floats) -> npt.NDArray[np.uint8]:
    """Return the first bytes of all values, then the second ones: alike, they are packed quickly."""
    return np.moveaxis(np.ascontiguousarray(values)[..., None].view(np.uint8), -1, 0)


def _floats(stored: npt.NDArray[Any]) -> Floats:
    """Return values from their bytes; an earlier version kept values as they are."""
    if stored.dtype == np.float32:
        return stored
    values = np.empty((*stored.shape[1:], len(stored)), dtype=np.uint8)
    for place, plane in enumerate(stored):
        values[..., place] = plane
    return values.view(np.float32)[..., 0]


def _columns(name: str, points: Points) -> dict[str, npt.NDArray[Any]]:
    return {f"{name}.{column}": getattr(points, column) for column in COLUMNS}


def _points(name: str, arrays: Arrays) -> Points:
    return Points(*(arrays[f"{name}.{column}"] for column in COLUMNS))


def _read(path: Path) -> dict[str, npt.NDArray[Any]]:
    with np.load(path, allow_pickle=False) as stored:
        return {name: stored[name] for name in stored.files}


def _store(path: Path, arrays: Arrays) -> None:
    """Write arrays in numpy's own form, quickly rather than tightly packed.

    Put the file in its place when it is whole.
    """
    with replacing(path) as part:
        with zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
            for name, array in arrays.items():
                with archive.open(f"{name}.npy", "w", force_zip64=True) as file:
                    whole = np.ascontiguousarray(array)
                    np.lib.format.write_array(file, whole, allow_pickle=False)
        flush(part)
