"""Answer questions to the bill, exports or Cost Explorer's answers, loaded into DuckDB."""

from __future__ import annotations

import json
import logging
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from hashlib import blake2b
from pathlib import Path
from tempfile import gettempdir
from threading import Lock
from typing import Any, Protocol, TypeVar, cast
from uuid import uuid4

import duckdb

from adapters.billing.attribution import DEFAULT_NAMES, BillTagNames, date_commitments
from adapters.billing.database import (
    connect_locked,
    cursor_of,
    is_private,
    parts_of,
    prune_copies,
    sql,
)
from adapters.billing.exports import ExportForm
from adapters.billing.files import ExplorerFiles, File, check_explorer_dimension, list_files
from adapters.billing.load import ExportPlace, refresh, settle_anew
from adapters.billing.questions import (
    NO_EXTENT,
    BillExtent,
    KeptTallies,
    TallyQuestion,
    ask,
    canonical,
    extent_of,
    hours_frame,
    hours_of_week,
    rates,
    spend_frame,
    whole_hours,
)
from bot.errors import Unavailable, WrongInput
from bot.model.fleet import Reservation
from bot.model.frame import Frame
from bot.model.price import AccountRates
from bot.model.reading import Gap, Reading
from bot.model.spend import Filter, Tally
from bot.model.window import Window, midnight
from bot.ports.work import interruptible

V = TypeVar("V")
_NO_DAMAGE = (duckdb.InterruptException, duckdb.ConnectionException, duckdb.OutOfMemoryException)
"""Failures that say nothing of the file that is read."""
_log = logging.getLogger("trnbot.billing")


class LocalCopy(Protocol):
    """Hold a local copy of a bill."""

    def keep_fresh(self) -> None:
        """Bring the copy up to date where it is old."""

    def problems(self) -> Sequence[str]:
        """Return why the copy is old where it is."""


@dataclass(frozen=True)
class BillOptions:
    """Set up a bill.

    How late its rows are seen, which tags and names it reads, and how it is kept up to date.
    """

    lag: timedelta = timedelta(hours=24)
    """How long after its usage end a row is seen in `deltas` and `rates`.

    `tally` counts all that the export holds.
    """
    tags: BillTagNames = field(default_factory=dict)
    """Tag names of `team`, `project`, `cluster` and `namespace`, best first."""
    services: Mapping[str, str] = field(default_factory=dict)
    """Product codes by Cost Explorer's names of services."""
    scratch: Path = field(default_factory=lambda: Path(gettempdir()))
    """The folder in which archives are unpacked and queries go to disk: up to `BILL_SPILL` each."""
    cache: Path | None = None
    """Where a copy of the tables is left, which spares the next start the loading.

    What else the tables depend on goes on its name: the folder, the names of tags and services,
    and the view.
    """
    by_day: Callable[[], str] = str
    """Return the name of the source that rolled some of the files up by day; "" of none."""
    copied_from: str = ""
    """The address whose files are copied here, where they are."""
    copy: LocalCopy | None = None
    """What brings that folder up to date, where it is a copy."""
    blocks: Callable[[], Sequence[Reservation]] = tuple
    """Return the Capacity Blocks ever described: asked only where a fee of one is billed."""
    ends: Callable[[], Mapping[str, datetime]] = dict
    """Return when commitments end, by name: asked only where the bill does not say it of each."""
    due: Callable[[], bool] = lambda: True
    """Return whether to look at the folder again."""


@dataclass
class _Loading:
    """Hold what the tables hold since they were last loaded, and what was read of them.

    Each loading gets a new one: a reader that still works on the tables of before keeps its own.
    """

    files: Mapping[str, File] | None = None
    """None before the first loading."""
    extent: BillExtent = NO_EXTENT
    unread: Sequence[str] = ()
    unspread: Sequence[str] = ()
    blocks: str | None = None
    """The Capacity Blocks that fees were spread by, in words; None where none was asked for."""
    tallies: KeptTallies = field(default_factory=KeptTallies)
    answers: dict[tuple[object, ...], Any] = field(default_factory=dict)
    """What else was asked of the tables, by the question."""


class Bill:
    """Implement `bot.ports.Billing` over a folder; safe to call from many threads."""

    def __init__(self, folder: Path, options: BillOptions, answers: ExplorerFiles) -> None:
        if not folder.is_dir():
            raise WrongInput(
                f"'{folder}' is not a folder; name a recording or a folder with CUR or FOCUS "
                "exports."
            )
        recorded = any((folder / part).is_dir() for part in ("billing", "api"))
        self._folder = folder / "billing" if recorded else folder
        self._options, self._answers = options, answers
        self._names = {**DEFAULT_NAMES, **options.tags}
        # Where zips are unpacked; nothing else may be there, as the database reads what is.
        scratch = options.scratch
        try:
            scratch.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError:
            scratch = Path(gettempdir())
        self._scratch = scratch.resolve() / f"trnbot-{uuid4().hex}"
        self._lock = Lock()
        self._loading = _Loading()
        self._logged: set[str] = set()
        self._copy = self._copy_of(options.cache) if options.cache else None
        self._is_copy = False
        self._db = self._open()

    def tally(
        self,
        window: Window,
        by: Sequence[str],
        where: Sequence[Filter] = (),
        most: int | None = None,
    ) -> Tally:
        """Sum the rows whose usage starts in the window, those beyond `most` in one.

        Raise `WrongInput` for an unknown dimension or mixed currencies.
        """

        def sum_up(loading: _Loading) -> Tally:
            if not loading.extent.sources:
                self._refuse_unread(loading)

            # Cost Explorer's answers are cut by fewer dimensions than an export.
            only_explorer = set(loading.files or ()) == {ExportForm.EXPLORER}
            for dimension in (*by, *(condition.dimension for condition in where)):
                if only_explorer:
                    check_explorer_dimension(canonical(dimension), self._answers.view)
                elif canonical(dimension) == "hour" and (source := self._options.by_day()):
                    raise WrongInput(
                        f"{source} gives a bill of this size by day; "
                        "set TRNBOT_AWS_BILLING to the export itself for hours."
                    )

            span = whole_hours(window) if loading.extent.hourly else window
            question = TallyQuestion(span, tuple(by), tuple(where), most)
            tally = loading.tallies.get(question)
            if tally is None:
                with self._cursor() as db:
                    tally = ask(db, loading.extent, question)
                loading.tallies.keep(question, tally)
            return replace(tally, window=window)

        return self._asked(sum_up)

    def _refuse_unread(self, loading: _Loading) -> None:
        """Raise `Unavailable`, as no file is there or could be read.

        $0.00 would be taken for an answer.
        """
        if self._options.copy and (problems := self._options.copy.problems()):
            raise Unavailable(" ".join(problems))
        if not loading.files and self._options.copied_from:
            raise Unavailable(
                f"Nothing of the bill in {self._options.copied_from} could be read yet; "
                "'doctor' says why."
            )
        if not loading.files:
            raise Unavailable(
                f"No billing export was found in '{self._folder}'; "
                "put CUR or FOCUS files (parquet, csv) there."
            )
        first, *others = loading.unread
        more = f" And {len(others)} more such files." if others else ""
        raise Unavailable(f"Nothing in '{self._folder}' can be read as a bill: {first}{more}")

    def deltas(self, now: datetime, days: int) -> Reading:
        """Return the `spend` frame of the last `days` whole days seen at `now`, and the hours.

        Those reach up to the newest whole one. No frame while nothing is seen; no `spend_hour`
        where the export holds days only.
        """
        until = now.astimezone(UTC) - self._options.lag
        monday = hours_of_week(until)

        def read(loading: _Loading) -> tuple[Frame | None, Frame | None]:
            frame = hours = None
            if loading.files:
                frame = self._once(loading, spend_frame, midnight(until), days)
            if loading.files and not self._options.by_day():
                hours = self._once(loading, hours_frame, monday)
            return frame, hours

        frame, hours = self._asked(read)
        if not frame:
            return Reading(now, {}, gaps=(Gap("No billed day is seen yet."),))
        frames = {"spend": frame}
        if hours:
            frames["spend_hour"] = hours.until(until)
        return Reading(now, frames)

    def rates(self, now: datetime) -> AccountRates:
        """Return effective USD an hour over the last 7 days seen at `now`.

        By type, by cluster and of each instance.
        """
        until = midnight(now.astimezone(UTC) - self._options.lag)

        def read(loading: _Loading) -> AccountRates:
            return self._once(loading, rates, until) if loading.files else AccountRates()

        return self._asked(read)

    def problems(self) -> Sequence[str]:
        """Return one sentence for each file, month or row that does not count, and why.

        And why a copy is old where it is.
        """
        copy = self._options.copy
        return [
            *(copy.problems() if copy else ()),
            *self._asked(lambda loading: [*loading.unread, *loading.unspread], refreshes=False),
        ]

    def close(self) -> None:
        """Release the database."""
        self._db.close()

    def _once(self, loading: _Loading, query: Callable[..., V], *asked: object) -> V:
        """Return what was read of these tables before, else what the query reads now."""
        question = (query, *asked)
        if question not in loading.answers:
            with self._cursor() as db:
                loading.answers[question] = query(db, *asked)
        return cast(V, loading.answers[question])

    @contextmanager
    def _cursor(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """Yield a cursor of the caller's own."""
        with cursor_of(self._db) as cursor, interruptible(cursor.interrupt):
            yield cursor

    def _asked(self, question: Callable[[_Loading], V], *, refreshes: bool = True) -> V:
        """Return the answer of tables that match the folder, which is brought up to date before.

        Where the copy on disk turns out to be damaged, the files themselves are read.
        """
        if refreshes and self._options.copy:
            self._options.copy.keep_fresh()
        try:
            loading = self._caught_up()
            try:
                return question(loading)
            except duckdb.Error as problem:
                if isinstance(problem, _NO_DAMAGE):
                    raise
                with self._lock:
                    if loading is self._loading and not self._discard_copy(problem):
                        raise
            return question(self._caught_up())
        except duckdb.Error as problem:
            raise Unavailable(
                f"The bill could not be asked ({type(problem).__name__}); "
                "look at the export with 'doctor'."
            ) from problem

    def _caught_up(self) -> _Loading:
        """Let the tables match the folder, and return their state.

        An answer kept from before needs no cursor, which costs as much as looking. Somebody may
        bring the tables up to date, which may take minutes; until then they are whole as they were.
        """
        if self._lock.acquire(blocking=self._loading.files is None):
            try:
                self._look_again()
            finally:
                self._lock.release()
        return self._loading

    def _look_again(self) -> None:
        """Load the files that are new or changed, and settle anew where other blocks are known."""
        before, is_first = self._loading, self._loading.files is None
        if not self._options.due() and not is_first:
            return
        if is_first and self._is_copy:
            try:
                with cursor_of(self._db) as db:
                    settings = dict(db.execute("SELECT key, value FROM setting").fetchall())
                    rows = db.execute("SELECT path, stamp, modified FROM file").fetchall()
                    loaded = {path: File(path, *stamps) for path, *stamps in rows}
                    unspread, blocks = json.loads(settings["unspread"]), settings["blocks"]
                    before = _Loading(loaded, extent_of(db), _unread(db), unspread, blocks)
            except (duckdb.Error, LookupError, ValueError) as problem:
                self._discard_copy(problem)

        files = list_files(self._folder, self._answers)
        # A process asks again for blocks that it missed; the next one, for all that it used.
        asks = before.blocks is not None and (is_first or before.unspread)
        if files == before.files and not (
            asks and repr(tuple(self._options.blocks())) != before.blocks
        ):
            self._loading = before
            return

        loading = self._loaded(before, files)

        # Each problem is logged once, so that an export nobody asks about does not break silently.
        for sentence in (*loading.unread, *loading.unspread):
            if sentence not in self._logged:
                self._logged.add(sentence)
                _log.warning(sentence)
        self._loading = loading

    def _loaded(self, before: _Loading, files: Mapping[str, File]) -> _Loading:
        """Bring the tables up to date on disk, else in memory, and return their state."""
        if self._copy is not None:
            try:
                return self._load_on_disk(self._copy, before, files)
            except (duckdb.Error, OSError) as problem:
                _log.warning(
                    "The bill is not kept on disk, and read again at each start: %s", problem
                )
                self._copy = None

        was_copy = self._is_copy
        if was_copy:
            self._db, self._is_copy = self._in_memory(), False
        with cursor_of(self._db) as db:
            return self._fill(db, _Loading() if was_copy else before, files)

    def _load_on_disk(self, copy: Path, before: _Loading, files: Mapping[str, File]) -> _Loading:
        """Bring a draft up to date, put it in the copy's place, and read it from there.

        Whoever reads the copy of before finishes there. A file that could not be read is not in
        it, so that the next start tries again. Raise `OSError` or a database's error.
        """
        draft = copy.with_name(f".{copy.name}-{uuid4().hex}")
        folders = (self._folder, self._scratch)
        copy.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            # Another process may have put a newer copy in place, which refreshing minds.
            if self._is_copy and copy.exists() and is_private(copy):
                shutil.copyfile(copy, draft)
            else:
                before = _Loading()

            with closing(connect_locked(draft, folders, writes=True)) as written:
                draft.chmod(0o600)
                with cursor_of(written) as db:
                    db.execute(sql("schema"))
                    loading = self._fill(db, before, files)
                    settings = [json.dumps(list(loading.unspread)), loading.blocks]
                    db.execute("DELETE FROM setting; DELETE FROM file WHERE form IS NULL")
                    db.execute(
                        "INSERT INTO setting VALUES ('unspread', $1), ('blocks', $2)", settings
                    )
                written.execute("USE memory; DETACH bill")

            self._db, self._is_copy = connect_locked(draft, folders), True
            draft.rename(copy)
            prune_copies(copy)
            return loading
        finally:
            for part in parts_of(draft):
                part.unlink(missing_ok=True)

    def _fill(
        self, db: duckdb.DuckDBPyConnection, before: _Loading, files: Mapping[str, File]
    ) -> _Loading:
        """Load the changes of the files since, or spread the fees by other Capacity Blocks."""
        bought: list[str] = []

        def blocks() -> Sequence[Reservation]:
            reservations = tuple(self._options.blocks())
            bought[:] = [repr(reservations)]
            return reservations

        if files == before.files:
            unspread = settle_anew(db, blocks)
        else:
            place = ExportPlace(self._folder, self._scratch, self._names)
            unspread = refresh(db, place, self._answers, files, blocks)
        date_commitments(db, self._options.ends)
        used = bought[0] if bought else None
        return _Loading(files, extent_of(db), _unread(db), unspread, used)

    def _open(self) -> duckdb.DuckDBPyConnection:
        """Open the copy of an earlier start, which is only read, or else a database in memory."""
        if self._copy is not None:
            try:
                if not is_private(self._copy):
                    raise PermissionError("others may have written it")
                db = connect_locked(self._copy, (self._folder, self._scratch))
                os.utime(self._copy)
                self._is_copy = True
                return db
            except (FileNotFoundError, NotADirectoryError):
                pass
            except (duckdb.Error, OSError) as problem:
                self._warn_of_copy(problem)

        return self._in_memory()

    def _in_memory(self) -> duckdb.DuckDBPyConnection:
        """Return a database of empty tables."""
        return connect_locked(None, (self._folder, self._scratch)).execute(sql("schema"))

    def _discard_copy(self, problem: Exception) -> bool:
        """Go on from the files themselves where a copy was read, and return whether it was."""
        if not self._is_copy or self._copy is None:
            return False
        self._warn_of_copy(problem)
        self._copy.unlink(missing_ok=True)
        self._db, self._is_copy, self._loading = self._in_memory(), False, _Loading()
        return True

    def _warn_of_copy(self, problem: Exception) -> None:
        why = str(problem).splitlines()[0][:200]
        _log.warning("The copy of the bill on disk is unreadable and made anew: %s", why)

    def _copy_of(self, cache: Path) -> Path:
        """Return the place of the copy of these tables."""
        names = {name: list(tags) for name, tags in sorted(self._names.items())}
        services = sorted(self._options.services.items())
        folder = str(self._folder.resolve())
        depends_on = [duckdb.__version__, folder, names, services, self._answers.view]
        digest = blake2b(json.dumps(depends_on).encode(), digest_size=12).hexdigest()
        return cache.with_name(f"{cache.name}-{digest}")


def _unread(db: duckdb.DuckDBPyConnection) -> list[str]:
    """Return a sentence for each file, month or row that does not count."""
    query = "SELECT unnest(problems) FROM file ORDER BY path"
    return [str(sentence) for (sentence,) in db.execute(query).fetchall()]


USUAL = BillOptions()
ANSWERS = Path("api/ce/get_cost_and_usage")


def open_billing(folder: Path, options: BillOptions = USUAL, view: str = "") -> Bill:
    """Open the exports under `folder/billing` (or `folder` itself).

    They are loaded at the first question and kept up to date. Cost Explorer's answers under
    `folder/api` count for months that no export holds; `view` is which view of them. Raise
    `WrongInput` when the folder is missing.
    """
    return Bill(folder, options, ExplorerFiles(folder / ANSWERS, view, options.services))
