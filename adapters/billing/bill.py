"""Answer questions to the bill, exports or Cost Explorer's answers, loaded into DuckDB."""

from __future__ import annotations

import json
import logging
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import gettempdir
from threading import Lock
from typing import Any, TypeVar
from urllib.parse import unquote
from uuid import uuid4

import duckdb

from adapters.billing.attribution import DEFAULT_NAMES, BillTagNames
from adapters.billing.database import connect_locked, cursor_of, sql
from adapters.billing.exports import ExportForm
from adapters.billing.files import (
    TAG_VIEW,
    TAGGED,
    ExplorerFiles,
    File,
    about_of,
    check_explorer_dimension,
    list_files,
)
from adapters.billing.load import GATHERED, ExportPlace, refresh, settle_anew
from adapters.billing.questions import (
    NO_EXTENT,
    TAG,
    BillExtent,
    ask,
    canonical,
    extent_of,
    hours_frame,
    hours_of_week,
    rates,
    spend_frame,
)
from bot.errors import Unavailable, WrongInput
from bot.model.fleet import Reservation
from bot.model.price import AccountRates
from bot.model.reading import Gap, Reading
from bot.model.spend import Filter, Tally
from bot.model.window import Window
from bot.ports.work import interruptible, most_rows, refuse_rows

MOST_ROWS = 20_000
"""Of all tallies that are kept: some 15 MB. The one that was asked for longest ago goes first."""
_HOUR = timedelta(hours=1)

V = TypeVar("V")
Question = tuple[Window, tuple[str, ...], tuple[Filter, ...]]


class KeptTallies:
    """Keep the tallies of one loading of the tables; any thread may ask.

    Other tables are a matter of another one.
    """

    def __init__(self, most: int = MOST_ROWS) -> None:
        self._most = most
        self._rows = 0
        self._kept: OrderedDict[Question, Tally] = OrderedDict()
        self._lock = Lock()

    def get(self, window: Window, by: Sequence[str], where: Sequence[Filter]) -> Tally | None:
        """Return the kept tally of a question, else None.

        Raise `OverBudget` where the line may not have so many rows.
        """
        question = window, tuple(by), tuple(where)
        with self._lock:
            tally = self._kept.get(question)
            if tally is None:
                return None
            self._kept.move_to_end(question)
        most = most_rows()
        if most is not None and len(tally.rows) > most:
            raise refuse_rows(most)
        return tally

    def keep(self, tally: Tally, by: Sequence[str], where: Sequence[Filter]) -> None:
        """Keep the tally of a question, unless it alone is too large."""
        question = tally.window, tuple(by), tuple(where)
        size = len(tally.rows) + 1
        with self._lock:
            if size > self._most or question in self._kept:
                return
            self._kept[question] = tally
            self._rows += size
            while self._rows > self._most:
                self._rows -= len(self._kept.popitem(last=False)[1].rows) + 1


def whole_hours(window: Window) -> Window:
    """Return the window of whole hours that holds the same whole hours' beginnings."""
    return Window(_begun(window.start), _begun(window.end))


def _begun(time: datetime) -> datetime:
    """Return the first whole hour at or after a time."""
    hour = time.replace(minute=0, second=0, microsecond=0)
    return hour if hour == time else hour + _HOUR


_log = logging.getLogger("trnbot.billing")
_LAYOUT = "9"
"""Grows when the tables or their meaning change: an older cache is then loaded anew."""


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
    cache: Path | None = None
    """A DuckDB file that spares the next start the loading."""
    by_day: str = ""
    """The name of the source that rolled the files up by day, where one did."""
    blocks: Callable[[], Sequence[Reservation]] = tuple
    """Return the Capacity Blocks ever described: asked only where a fee of one is billed."""
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
    blocks: tuple[Reservation, ...] = ()
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
        self._scratch = Path(gettempdir()).resolve() / f"trnbot-{uuid4().hex}"
        self._lock = Lock()
        self._loading = _Loading()
        self._notes: list[str] = []
        self._logged: set[str] = set()
        self._db = self._open(options.cache)

    def tally(self, window: Window, by: Sequence[str], where: Sequence[Filter] = ()) -> Tally:
        """Sum the rows whose usage starts in the window.

        Raise `WrongInput` for an unknown dimension or mixed currencies.
        """
        with self._caught_up() as loading:
            if not loading.extent.sources:
                self._refuse_unread(loading)

            # Cost Explorer's answers are cut by fewer dimensions than an export.
            only_explorer = set(loading.files or ()) == {ExportForm.EXPLORER}
            for dimension in (*by, *(condition.dimension for condition in where)):
                if only_explorer:
                    check_explorer_dimension(canonical(dimension), self._answers.view)
                elif self._options.by_day and canonical(dimension) == "hour":
                    raise WrongInput(
                        f"{self._options.by_day} gives the bill by day; "
                        "set TRNBOT_AWS_BILLING to the export itself for hours."
                    )

            span = whole_hours(window) if loading.extent.hourly else window
            tally = loading.tallies.get(span, by, where)
            if tally is None:
                with self._cursor() as db:
                    tally = ask(db, loading.extent, span, by, where)
                loading.tallies.keep(tally, by, where)
            return replace(tally, window=window)

    def _refuse_unread(self, loading: _Loading) -> None:
        """Raise `Unavailable`, as no file is there or could be read.

        $0.00 would be taken for an answer.
        """
        if not loading.files:
            raise Unavailable(
                f"No billing export was found in '{self._folder}'; "
                "put CUR or FOCUS files (parquet, csv) there."
            )
        with self._cursor() as db:
            unread = db.execute("SELECT problems FROM file ORDER BY path").fetchall()
        others = f" And {len(unread) - 1} more such files." if len(unread) > 1 else ""
        raise Unavailable(
            f"Nothing in '{self._folder}' can be read as a bill: {unread[0][0][0]}{others}"
        )

    def deltas(self, now: datetime, days: int) -> Reading:
        """Return the `spend` frame of the last `days` whole days seen at `now`, and the hours.

        Those reach up to the newest whole one. No frame while nothing is seen; no `spend_hour`
        where the export holds days only.
        """
        midnight, until = self._seen(now), now.astimezone(UTC) - self._options.lag
        monday = hours_of_week(until)
        with self._caught_up() as loading:
            frame = hours = None
            if loading.files:
                frame = self._once(loading, spend_frame, midnight, days)
            if loading.files and not self._options.by_day:
                hours = self._once(loading, hours_frame, monday)
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
        midnight = self._seen(now)
        with self._caught_up() as loading:
            if not loading.files:
                return AccountRates()
            return self._once(loading, rates, midnight)

    def problems(self) -> Sequence[str]:
        """Return one sentence for each file, month or row that does not count, and why."""
        with self._caught_up() as loading:
            return [*self._notes, *loading.unread, *loading.unspread]

    def close(self) -> None:
        """Release the database."""
        self._db.close()

    def _seen(self, now: datetime) -> datetime:
        """Return the UTC midnight before which every day's usage has been seen at `now`."""
        newest = now.astimezone(UTC) - self._options.lag
        return newest.replace(hour=0, minute=0, second=0, microsecond=0)

    def _once(self, loading: _Loading, query: Callable[..., V], *asked: object) -> V:
        """Return what was read of these tables before, else what the query reads now."""
        question = (query, *asked)
        if question not in loading.answers:
            with self._cursor() as db:
                loading.answers[question] = query(db, *asked)
        answer: V = loading.answers[question]
        return answer

    @contextmanager
    def _cursor(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """Yield a cursor of the caller's own."""
        with cursor_of(self._db) as cursor, interruptible(cursor.interrupt):
            yield cursor

    @contextmanager
    def _caught_up(self) -> Iterator[_Loading]:
        """Let the tables match the folder, and yield what they hold.

        An answer kept from before needs no cursor, which costs as much as looking.
        """
        try:
            # Somebody may bring the tables up to date, which may take minutes; until then they
            # are whole as they were.
            if self._lock.acquire(blocking=self._loading.files is None):
                try:
                    self._look_again()
                finally:
                    self._lock.release()
            yield self._loading
        except duckdb.Error as problem:
            raise Unavailable(
                f"The bill could not be asked ({type(problem).__name__}); "
                "look at the export with 'doctor'."
            ) from problem

    def _look_again(self) -> None:
        """Load the files that are new or changed, and settle anew where other blocks are known."""
        before = self._loading
        if not self._options.due() and before.files is not None:
            return
        files = list_files(self._folder, self._answers)
        bought: list[Reservation] = []
        if files == before.files and (
            not before.unspread or tuple(self._options.blocks()) == before.blocks
        ):
            return

        def blocks() -> Sequence[Reservation]:
            bought[:] = self._options.blocks()
            return bought

        with cursor_of(self._db) as db:
            if files == before.files:
                unspread = settle_anew(db, blocks)
            else:
                place = ExportPlace(self._folder, self._scratch, self._names)
                unspread = refresh(db, place, self._answers, files, blocks)
            query = "SELECT unnest(problems) FROM file ORDER BY path"
            unread = [str(sentence) for (sentence,) in db.execute(query).fetchall()]
            loading = _Loading(files, extent_of(db), unread, unspread, tuple(bought))

        # Each problem is logged once, so that an export nobody asks about does not break silently.
        for sentence in (*unread, *unspread):
            if sentence not in self._logged:
                self._logged.add(sentence)
                _log.warning(sentence)
        self._loading = loading

    def _open(self, cache: Path | None) -> duckdb.DuckDBPyConnection:
        """Open the database, in the cache's file where there is one; an older cache is emptied."""
        folders, db = (self._folder, self._scratch), None
        if cache is not None:
            try:
                cache.parent.mkdir(parents=True, exist_ok=True)
                db = connect_locked(cache, folders)
            except (duckdb.Error, OSError) as problem:
                self._notes.append(
                    f"The billing cache {cache.name} cannot be used, the export is loaded anew: "
                    f"{type(problem).__name__}."
                )
        if db is None:
            db = connect_locked(None, folders)

        names = {key: list(tags) for key, tags in self._names.items()}
        identity = json.dumps([_LAYOUT, duckdb.__version__, str(self._folder.resolve()), names])
        db.execute(sql("schema"))
        if db.execute("SELECT value FROM setting").fetchall() != [(identity,)]:
            for table in ("setting", "file", "thing", "tagset", "tag", *GATHERED):
                db.execute(f"DELETE FROM {table}")  # noqa: S608 names from this tuple
            db.execute("INSERT INTO setting VALUES ('identity', $1)", [identity])
        return db


_USUAL = BillOptions()
_ANSWERS = Path("api/ce/get_cost_and_usage")

Refresher = Callable[[str], str]
"""Bring the answers of a view up to date; return their age and their cost in words."""


def open_billing(folder: Path, options: BillOptions = _USUAL, view: str = "") -> Bill:
    """Open the exports under `folder/billing` (or `folder` itself).

    They are loaded at the first question and kept up to date. Cost Explorer's answers under
    `folder/api` count for months that no export holds; `view` is which view of them. Raise
    `WrongInput` when the folder is missing.
    """
    return Bill(folder, options, ExplorerFiles(folder / _ANSWERS, view, options.services))


def open_explorer(
    folder: Path, options: BillOptions = _USUAL, fresh: Refresher = lambda _: ""
) -> ExplorerBill:
    """Open Cost Explorer's answers under `folder/api`.

    `fresh` brings a view of them up to date before it is asked.
    """
    return ExplorerBill(lambda view: open_billing(folder, options, view), fresh, options.tags)


def has_only_answers(folder: Path) -> bool:
    """Return whether a recording holds Cost Explorer's answers and no export."""
    return (folder / _ANSWERS).is_dir() and not (folder / "billing").is_dir()


class ExplorerBill:
    """Implement `bot.ports.Billing` over Cost Explorer's answers.

    The whole bill, and one view a tag.
    """

    def __init__(self, opened: Callable[[str], Bill], fresh: Refresher, tags: BillTagNames) -> None:
        self._opened, self._fresh, self._names = opened, fresh, {**DEFAULT_NAMES, **tags}
        self._bills: dict[str, Bill] = {}
        self._lock = Lock()

    def tally(self, window: Window, by: Sequence[str], where: Sequence[Filter] = ()) -> Tally:
        """Sum the rows of a window.

        Raise `WrongInput` for a dimension that Cost Explorer does not have.
        """
        dimensions = [canonical(name) for name in (*by, *(keep.dimension for keep in where))]
        tags = sorted({name for name in dimensions if name in TAGGED or name.startswith(TAG)})
        if not tags:
            return self._tally("", window, by, where)

        tag, *further = tags
        for dimension in (*further, *(name for name in dimensions if name not in tags)):
            check_explorer_dimension(dimension, "" if dimension in further else tag)

        # The tag has several names: the first with a value counts, the first of all where none has.
        tallies = []
        for name in self._names.get(tag, ()) or (tag.removeprefix(TAG),):
            view = TAG_VIEW + about_of(name)
            tallies.append(self._tally(view, window, by, where))
            if any(row.key.get(tag) for row in self._tally(view, window, (tag,)).rows):
                return tallies[-1]
        return tallies[0]

    def deltas(self, now: datetime, days: int) -> Reading:
        """Return the daily spend seen at `now`."""
        self._fresh("")
        return self._bill("").deltas(now, days)

    def rates(self, now: datetime) -> AccountRates:
        """Return the account's own rates."""
        self._fresh("")
        return self._bill("").rates(now)

    def problems(self) -> Sequence[str]:
        """Return a sentence for each answer that could not be read."""
        return [sentence for bill in list(self._bills.values()) for sentence in bill.problems()]

    def close(self) -> None:
        """Release every view."""
        for bill in self._bills.values():
            bill.close()

    def _tally(
        self, view: str, window: Window, by: Sequence[str], where: Sequence[Filter] = ()
    ) -> Tally:
        freshness = self._fresh(view)
        try:
            tally = self._bill(view).tally(window, by, where)
        except Unavailable:
            about = f"by tag {unquote(view.removeprefix(TAG_VIEW))}" if view else "yet"
            raise Unavailable(
                f"Cost Explorer has not been asked {about}. {freshness}".strip()
            ) from None
        return replace(
            tally,
            sources=tuple(
                freshness or form if form == ExportForm.EXPLORER else form for form in tally.sources
            ),
        )

    def _bill(self, view: str) -> Bill:
        with self._lock:
            if view not in self._bills:
                self._bills[view] = self._opened(view)
            return self._bills[view]
