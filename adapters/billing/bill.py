"""Answer questions to the bill: exports in a folder, or Cost Explorer's answers, loaded into DuckDB."""

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
from urllib.parse import unquote
from uuid import uuid4

import duckdb

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
    ask,
    canonical,
    extent_of,
    hours_frame,
    hours_of_week,
    rates,
    spend_frame,
)
from adapters.billing.tags import DEFAULT_NAMES, BillTagNames
from bot.errors import Unavailable, WrongInput
from bot.model.fleet import Reservation
from bot.model.frame import Frame
from bot.model.price import AccountRates
from bot.model.reading import Gap, Reading
from bot.model.spend import Filter, Tally
from bot.model.window import Window
from bot.ports.work import interruptible, most_rows, refuse_rows

MOST_ROWS = 20_000
"""Of all tallies that are kept: some 15 MB. The one that was asked for longest ago goes first."""
_HOUR = timedelta(hours=1)

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
        size = _size(tally)
        if size > self._most:
            return
        with self._lock:
            if question in self._kept:
                return
            self._kept[question] = tally
            self._rows += size
            while self._rows > self._most:
                self._rows -= _size(self._kept.popitem(last=False)[1])


def whole_hours(window: Window) -> Window:
    """Return the window that holds the same whole hours' beginnings and has whole hours as its ends."""
    return Window(_begun(window.start), _begun(window.end))


def _begun(at: datetime) -> datetime:
    """Return the first whole hour at or after a time."""
    hour = at.replace(minute=0, second=0, microsecond=0)
    return hour if hour == at else hour + _HOUR


def _size(tally: Tally) -> int:
    return len(tally.rows) + 1


_log = logging.getLogger("trnbot.billing")
_LAYOUT = "8"
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
    """Return the Capacity Blocks that were ever described: asked only where a fee of one is billed."""
    due: Callable[[], bool] = lambda: True
    """Return whether to look at the folder again."""


class Bill:
    """Implement `bot.ports.Billing` over a folder; safe to call from many threads."""

    def __init__(self, folder: Path, options: BillOptions, answers: ExplorerFiles) -> None:
        if not folder.is_dir():
            raise WrongInput(
                f"'{folder}' is not a folder; name a recording or a folder with CUR or FOCUS exports."
            )
        recorded = any((folder / part).is_dir() for part in ("billing", "api"))
        self._folder = folder / "billing" if recorded else folder
        self._answers, self._by_day, self._due = answers, options.by_day, options.due
        self._read_blocks = options.blocks
        self._blocks: tuple[Reservation, ...] = ()
        self._unspread: list[str] = []
        self._unread: list[str] = []
        self._scratch = Path(gettempdir()).resolve() / f"trnbot-{uuid4().hex}"
        """Where zips are unpacked; nothing else may be there, as the database reads what is."""
        self._lag, self._names = options.lag, {**DEFAULT_NAMES, **options.tags}
        self._lock = Lock()
        self._files: dict[str, File] | None = None
        self._notes: list[str] = []
        self._logged: set[str] = set()
        self._extent = NO_EXTENT
        self._frames: dict[tuple[datetime, int], Frame | None] = {}
        self._hour_frames: dict[datetime, Frame | None] = {}
        self._rates_of_day: dict[datetime, AccountRates] = {}
        self._tallies = KeptTallies()
        self._db = self._open(options.cache)

    def tally(self, window: Window, by: Sequence[str], where: Sequence[Filter] = ()) -> Tally:
        """Sum the rows whose usage starts in the window.

        Raise `WrongInput` for an unknown dimension or mixed currencies.
        """
        with self._caught_up():
            tallies = (
                self._tallies
            )  # read before the extent, as it is replaced after it: what is kept is of one loading
            extent = self._extent
            if not extent.sources:
                self._refuse_unread()
            self._refuse([*by, *(condition.dimension for condition in where)])
            asked = whole_hours(window) if extent.hourly else window
            tally = tallies.get(asked, by, where)
            if tally is None:
                with self._cursor() as db:
                    tally = ask(db, extent, asked, by, where)
                tallies.keep(tally, by, where)
            return replace(tally, window=window)

    def _refuse_unread(self) -> None:
        """Raise `Unavailable`, as no file is there or could be read.

        $0.00 would be taken for an answer.
        """
        if not self._files:
            raise Unavailable(
                f"No billing export was found in '{self._folder}'; put CUR or FOCUS files (parquet, csv) there."
            )
        with self._cursor() as db:
            unread = db.execute("SELECT problems FROM file ORDER BY path").fetchall()
        more = f" And {len(unread) - 1} more such files." if len(unread) > 1 else ""
        raise Unavailable(
            f"Nothing in '{self._folder}' can be read as a bill: {unread[0][0][0]}{more}"
        )

    def _refuse(self, dimensions: Sequence[str]) -> None:
        """Raise `WrongInput` for a dimension that the loaded files do not hold."""
        only_explorer = set(self._files or ()) == {ExportForm.EXPLORER}
        for dimension in dimensions:
            if only_explorer:
                check_explorer_dimension(canonical(dimension), self._answers.view)
            elif self._by_day and canonical(dimension) == "hour":
                raise WrongInput(
                    f"{self._by_day} gives the bill by day; set TRNBOT_AWS_BILLING to the export itself for hours."
                )

    def deltas(self, now: datetime, days: int) -> Reading:
        """Return the `spend` frame of the last `days` whole days seen at `now`, and the hours up to the newest whole one.

        No frame while nothing is seen; no `spend_hour` where the export holds days only.
        """
        midnight, until = self._seen(now), now.astimezone(UTC) - self._lag
        with self._caught_up():
            frame, hours = self._days(midnight, days), self._hours(hours_of_week(until))
        if not frame:
            return Reading(now, {}, gaps=(Gap("No billed day is seen yet."),))
        return Reading(
            now, {"spend": frame} | ({"spend_hour": hours.until(until)} if hours else {})
        )

    def rates(self, now: datetime) -> AccountRates:
        """Return effective USD an hour over the last 7 days seen at `now`, by type, by cluster and of each instance."""
        midnight = self._seen(now)
        with self._reader() as db:
            cache = self._rates_of_day
            if midnight not in cache:
                cache[midnight] = rates(db, midnight) if self._files else AccountRates()
            return cache[midnight]

    def problems(self) -> Sequence[str]:
        """Return one sentence for each file, month or row that does not count, and why."""
        with self._caught_up():
            return [*self._notes, *self._unread, *self._unspread]

    def close(self) -> None:
        """Release the database."""
        self._db.close()

    def _days(self, midnight: datetime, days: int) -> Frame | None:
        cache = self._frames
        if (midnight, days) not in cache:
            with cursor_of(self._db) as db:
                cache[midnight, days] = spend_frame(db, midnight, days) if self._files else None
        return cache[midnight, days]

    def _hours(self, monday: datetime) -> Frame | None:
        cache = self._hour_frames
        if monday not in cache:
            with cursor_of(self._db) as db:
                cache[monday] = (
                    hours_frame(db, monday) if self._files and not self._by_day else None
                )
        return cache[monday]

    def _seen(self, now: datetime) -> datetime:
        """Return the UTC midnight before which every day's usage has been seen at `now`."""
        return (now.astimezone(UTC) - self._lag).replace(hour=0, minute=0, second=0, microsecond=0)

    @contextmanager
    def _reader(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """Yield a cursor of the caller's own, over tables that match the folder."""
        with self._caught_up(), self._cursor() as cursor:
            yield cursor

    @contextmanager
    def _cursor(self) -> Iterator[duckdb.DuckDBPyConnection]:
        with cursor_of(self._db) as cursor, interruptible(cursor.interrupt):
            yield cursor

    @contextmanager
    def _caught_up(self) -> Iterator[None]:
        """Let the tables match the folder.

        An answer kept from before needs no cursor, which costs as much as looking.
        """
        try:
            self._catch_up()
            yield
        except duckdb.Error as problem:
            raise Unavailable(
                f"The bill could not be asked ({type(problem).__name__}); look at the export with 'doctor'."
            ) from problem

    def _catch_up(self) -> None:
        if not self._lock.acquire(blocking=self._files is None):
            return  # somebody brings the tables up to date, which may take minutes; until then they are whole as they were
        try:
            self._look_again()
        finally:
            self._lock.release()

    def _look_again(self) -> None:
        if not self._due() and self._files is not None:
            return
        files = list_files(self._folder, self._answers)
        if files == self._files and not self._other_blocks():
            return
        with cursor_of(self._db) as db:
            place = ExportPlace(self._folder, self._scratch, self._names)
            if files == self._files:
                self._unspread = settle_anew(db, self._known_blocks)
            else:
                self._unspread = refresh(db, place, self._answers, files, self._known_blocks)
            self._extent, self._unread = extent_of(db), _problems(db)
            self._log([*self._unread, *self._unspread])
        self._files = files
        # New dictionaries: a reader that still works on the tables of before keeps its own.
        self._frames, self._hour_frames, self._rates_of_day, self._tallies = (
            {},
            {},
            {},
            KeptTallies(),
        )

    def _known_blocks(self) -> Sequence[Reservation]:
        self._blocks = tuple(self._read_blocks())
        return self._blocks

    def _other_blocks(self) -> bool:
        """Return whether a fee waits for its reservation, and others are known by now."""
        return bool(self._unspread) and tuple(self._read_blocks()) != self._blocks

    def _log(self, problems: Sequence[str]) -> None:
        """Write each problem once, so that an export nobody asks about is not broken in silence."""
        for sentence in problems:
            if sentence not in self._logged:
                self._logged.add(sentence)
                _log.warning(sentence)

    def _open(self, cache: Path | None) -> duckdb.DuckDBPyConnection:
        db = self._connect(cache)
        identity = json.dumps(
            [
                _LAYOUT,
                duckdb.__version__,
                str(self._folder.resolve()),
                {k: list(v) for k, v in self._names.items()},
            ]
        )
        db.execute(sql("schema"))
        if db.execute("SELECT value FROM setting").fetchall() != [(identity,)]:
            for table in ("setting", "file", "thing", "tagset", "tag", *GATHERED):
                db.execute(f"DELETE FROM {table}")  # noqa: S608 names from this tuple
            db.execute("INSERT INTO setting VALUES ('identity', $1)", [identity])
        return db

    def _connect(self, cache: Path | None) -> duckdb.DuckDBPyConnection:
        folders = (self._folder, self._scratch)
        if cache is None:
            return connect_locked(None, folders)
        try:
            cache.parent.mkdir(parents=True, exist_ok=True)
            return connect_locked(cache, folders)
        except (duckdb.Error, OSError) as problem:
            self._notes.append(
                f"The billing cache {cache.name} cannot be used, the export is loaded anew: {type(problem).__name__}."
            )
            return connect_locked(None, folders)


def _problems(db: duckdb.DuckDBPyConnection) -> list[str]:
    return [
        str(row[0])
        for row in db.execute("SELECT unnest(problems) FROM file ORDER BY path").fetchall()
    ]


_USUAL = BillOptions()
_ANSWERS = Path("api/ce/get_cost_and_usage")

Refresher = Callable[[str], str]
"""Bring the answers of a view up to date; return their age and their cost in words."""


def open_billing(folder: Path, options: BillOptions = _USUAL, view: str = "") -> Bill:
    """Open the exports under `folder/billing` (or `folder` itself), loaded at the first question and kept up to date.

    Cost Explorer's answers under `folder/api` count for months that no export holds; `view` is
    which view of them. Raise `WrongInput` when the folder is missing.
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
        dimensions = [
            canonical(name) for name in (*by, *(condition.dimension for condition in where))
        ]
        tags = {
            dimension
            for dimension in dimensions
            if dimension in TAGGED or dimension.startswith(TAG)
        }
        if not tags:
            return self._tally("", window, by, where)
        first, *others = sorted(tags)
        for dimension in (
            *others,
            *(dimension for dimension in dimensions if dimension not in tags),
        ):
            check_explorer_dimension(dimension, "" if dimension in others else first)
        return self._tagged(first, window, by, where)

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

    def _tagged(
        self, dimension: str, window: Window, by: Sequence[str], where: Sequence[Filter]
    ) -> Tally:
        """Ask by the tag names of a dimension until one has a value.

        The first counts where none has.
        """
        first_tally = None
        for name in self._tag_names(dimension):
            view = TAG_VIEW + about_of(name)
            tally = self._tally(view, window, by, where)
            first_tally = first_tally or tally
            if any(row.key.get(dimension) for row in self._tally(view, window, (dimension,)).rows):
                return tally
        assert first_tally
        return first_tally

    def _tag_names(self, dimension: str) -> Iterator[str]:
        yield from self._names.get(dimension, ()) or (dimension.removeprefix(TAG),)

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
