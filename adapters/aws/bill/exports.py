"""Keep a copy of a billing export: its files from S3, or its rollup by Athena or Spark."""

from __future__ import annotations

import csv
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from pathlib import Path, PurePosixPath
from threading import Lock
from typing import Any, Protocol
from urllib.parse import quote
from warnings import filterwarnings

import orjson

from adapters.aws.api.calls import Calls, bucket_and_prefix
from adapters.aws.api.operations import Place
from adapters.aws.api.outcomes import log, refused_in
from adapters.aws.files import replacing, why, write_whole
from bot.errors import Unavailable, WrongInput, redact, spellings
from bot.model.window import utc_text

_ENDINGS = (".parquet", ".csv", ".csv.gz", ".zip")
_BESIDE = (".json", ".yml", ".yaml", ".sql", ".md", ".txt", "_SUCCESS", "/")
"""What AWS puts beside the files of an export: manifests and table definitions.

A folder's own key.
"""
_ASSEMBLY = re.compile(r"(?P<month>.*/\d{8}-\d{8})/(?P<assembly>[0-9a-f-]{20,})/")
"""A legacy CUR that keeps versions: REPORT/20261101-20261201/ASSEMBLY/file.

Only the newest assembly of a month counts.
"""


@dataclass
class ExportCache:
    """Mirror `s3://BUCKET/PREFIX` into `folder`, which the billing adapter reads.

    Raise `WrongInput` for another address.
    """

    calls: Calls
    address: str
    folder: Path
    place: Place
    """The region, and the role whose account the bucket lets in."""

    def __post_init__(self) -> None:
        """Read the address."""
        self._bucket, prefix = bucket_and_prefix(self.address, "a billing export")
        self._prefix = f"{prefix.strip('/')}/".lstrip("/")
        self._next: datetime | None = None
        self._foreign: list[str] = []
        self._problem = ""

    def problems(self) -> Sequence[str]:
        """Return why the copy is old where it is, and where some files cannot be read."""
        if self._problem:
            return (self._problem,)
        if not self._foreign:
            return ()
        files, such = "A file", self._foreign[0]
        if len(self._foreign) > 1:
            files, such = f"{len(self._foreign):,} files", f"such as {such}"
        return (
            f"{files} under {self.address} cannot be read, {such}:"
            " have the export delivered as parquet or csv.",
        )

    def keep_fresh(self) -> None:
        """Refresh once an hour.

        A failure is logged once, tried again after ten minutes, and leaves the copy as it was.
        """
        now = self.calls.clock()
        if self._next is not None and now < self._next:
            return
        try:
            self.refresh()
            self._next, self._problem = now + timedelta(hours=1), ""
        except Unavailable as error:
            self._next, self._problem = now + timedelta(minutes=10), str(error)
        finally:
            self.calls.meter.save()

    def refresh(self) -> int:
        """Fetch the files that are new or rewritten and drop those that are gone.

        Return how many changed. AWS rewrites a month in several files: all are fetched before the
        first is put in place. Raise `Unavailable` where one cannot be had; the copy then stays as
        it was.
        """
        index = self.folder / ".etags.json"
        self.folder.mkdir(parents=True, exist_ok=True)
        listed = self._listed()
        try:
            copied = dict(orjson.loads(index.read_bytes()))
        except (OSError, ValueError):
            copied = {}
        new = [
            key
            for key, etag in listed.items()
            if copied.get(key) != etag or not self._path(key).is_file()
        ]

        # A file that is gone from the bucket would be counted twice beside its successor.
        gone = [key for key in copied if key not in listed]

        # Parts have names that the billing adapter does not read.
        fetched: dict[str, Path] = {}
        broken = "The billing export broke off while it was read from S3"
        for number, key in enumerate(new):
            fetched[key] = part = self.folder / f".part-{number}"
            self.calls.download(self.place, self._bucket, key, part, broken)
            with part.open("rb") as file:
                os.fsync(file.fileno())
        for key, part in fetched.items():
            self._path(key).parent.mkdir(parents=True, exist_ok=True)
            part.replace(self._path(key))
        for key in gone:
            self._path(key).unlink(missing_ok=True)
        if fetched or gone:
            write_whole(index, orjson.dumps(listed))
        return len(fetched) + len(gone)

    def _listed(self) -> dict[str, str]:
        """Return the ETag of every file of the export that counts, by key."""
        pages = self.calls.pages(
            self.place, "s3", "list_objects_v2", Bucket=self._bucket, Prefix=self._prefix
        )
        members = {str(x["Key"]): x for page in pages for x in page.get("Contents", ())}
        foreign = sorted(x for x in members if not x.endswith((*_BESIDE, *_ENDINGS)))
        if foreign != self._foreign:
            self._foreign = foreign
            log.warning(
                " ".join(self.problems()) or f"All files under {self.address} can be read again."
            )

        # Of a month that is kept in versions only the newest assembly counts.
        members = {key: x for key, x in members.items() if key.endswith(_ENDINGS)}
        newest: dict[str, tuple[Any, str]] = {}
        for key, member in members.items():
            if version := _ASSEMBLY.match(key):
                written = (member["LastModified"], version["assembly"])
                newest[version["month"]] = max(newest.get(version["month"], written), written)
        return {
            key: str(member["ETag"]).strip('"')
            for key, member in members.items()
            if not (x := _ASSEMBLY.match(key)) or newest[x["month"]][1] == x["assembly"]
        }

    def _path(self, key: str) -> Path:
        """Return the path that a key is kept at; a key cannot lead out of the folder."""
        below = PurePosixPath(key.removeprefix(self._prefix).lstrip("/"))
        if ".." in below.parts:
            raise WrongInput(
                "The billing export has a file with '..' in its name,"
                f" under {self.address}; move it away."
            )
        return self.folder / below


Columns = Sequence[tuple[str, str]]
Query = Callable[[str, Columns, Sequence[str], date], str]
"""Write one month's query: table, columns with types, partition keys, month."""
_NEWEST, _CLOSING, _OLD = timedelta(hours=6), timedelta(hours=24), timedelta(days=30)
"""How long a month's copy counts.

The running one, the one before while AWS closes it, any older.
"""
_CLOSED_BY_DAY = 12
_AGAIN = timedelta(minutes=30)
_MONTHS = 3
_GRAIN = "rolled_by"
"""The column of a rollup that says hour or day, alike in all its rows."""


def file_stem(table: str) -> str:
    """Return a table as a part of a file's name, which may have 255 characters in all."""
    return quote(table, safe="")[-200:]


class RollupEngine(Protocol):
    """Roll an export up where it lies; every method raises `Unavailable` where it cannot."""

    table: str
    """What it rolls up, as the settings name it."""
    ending: str
    """Of the files that it writes."""

    def columns(self) -> tuple[Columns, Sequence[str]]:
        """Return the columns of the export with their types, and the partition keys."""
        ...

    def write(self, query: str, path: Path) -> str:
        """Write the rows of a query into a file, and return whether they are of an hour or a day."""
        ...


@dataclass
class RollupCopy:
    """Keep the last months of an export, rolled up by an engine, as files in `folder`.

    Which the billing adapter reads.
    """

    engine: RollupEngine
    folder: Path
    query: Query
    clock: Callable[[], datetime]
    _failed: datetime | None = None
    _problem: str = ""
    _lock: Lock = field(default_factory=Lock)

    def keep_fresh(self) -> None:
        """Refresh the months that are due.

        A failure leaves the copy as it was and is tried again after half an hour. Who asks while
        another thread refreshes is answered from the copy of before, where it is whole.
        """
        # Of a whole copy the oldest month is there: at a start it is written last.
        if not self._lock.acquire(blocking=not self._path(_months(self.clock())[-1]).is_file()):
            return
        try:
            now = self.clock()
            if self._failed and now - self._failed < _AGAIN:
                return
            self.refresh(now)
            self._failed, self._problem = None, ""
        except (Unavailable, WrongInput) as error:
            self._failed, self._problem = now, str(error)
        except OSError as error:
            sentence = f"The rollup of {self.engine.table} was not written ({error.strerror})"
            self._failed, self._problem = now, f"{sentence}; it is tried again later."
        finally:
            self._lock.release()

    def problems(self) -> Sequence[str]:
        """Return why the copy is not fresh, where it is not, and how old it is."""
        if not self._problem:
            return ()
        newest = max((self._asked(path)[0] for path in self._copies()), default=None)
        until = f" Until then the bill of {utc_text(newest)} counts." if newest else ""
        return (self._problem + until,)

    def has_days(self) -> bool:
        """Return whether any month may be rolled up by day, as it has too many rows for its hours."""
        return any(self._asked(path)[1] != "hour" for path in self._copies())

    def refresh(self, now: datetime) -> None:
        """Roll up every month that is due.

        Raise `Unavailable` at the first that cannot be had.
        """
        if not (due := [month for month in _months(now) if self._due(month, now)]):
            return
        columns, partitions = self.engine.columns()
        for month in due:
            # A whole month takes the place of the one before; without a row it stays empty but
            # known.
            path, table = self._path(month), self.engine.table
            note = path.with_suffix(".asked")
            with replacing(path) as part:
                grain = self.engine.write(self.query(table, columns, partitions, month), part)
                # Without it a copy is due, and gives no hours: whoever reads now, or ends here.
                note.unlink(missing_ok=True)
            write_whole(note, f"{self.clock().timestamp()} {grain}".encode())

    def _due(self, month: date, now: datetime) -> bool:
        path = self._path(month)
        if not path.is_file():
            return True
        made_at, grain = self._asked(path)
        age = now - made_at
        running, last, *_ = _months(now)
        if month == running or not grain:
            return age >= _NEWEST

        # AWS goes on changing a month for some days after its end.
        closing = month == last and now.day <= _CLOSED_BY_DAY
        return age >= (_CLOSING if closing else _OLD)

    def _asked(self, path: Path) -> tuple[datetime, str]:
        """Return when a copy was made, and by hour or day: long ago and "" where that is not known."""
        try:
            seconds, _, grain = path.with_suffix(".asked").read_text().partition(" ")
        except FileNotFoundError:
            seconds, grain = "", ""
        return datetime.fromtimestamp(float(seconds or 0), UTC), grain

    def _copies(self) -> Iterator[Path]:
        return (self.folder / "billing").glob(f"*{self.engine.ending}")

    def _path(self, month: date) -> Path:
        name = f"{file_stem(self.engine.table)}-{month:%Y-%m}{self.engine.ending}"
        return self.folder / "billing" / name


_WAITS = (0.3, 0.5, 1.0, 2.0, *(3.0,) * 60)
"""Seconds between looks at a query: three minutes in all."""
_LEAST_SCANNED_MB = 10


@dataclass
class AthenaTable:
    """Roll up `DATABASE.TABLE` in Athena."""

    calls: Calls
    table: str
    workgroup: str
    output: str
    place: Place
    sleep: Callable[[float], None] = time.sleep
    ending = ".csv"

    def __post_init__(self) -> None:
        """Read the name of the table; raise `WrongInput` for another form."""
        if not re.fullmatch(r"\w[\w-]*\.\w[\w-]*", self.table):
            raise WrongInput(f"'{self.table}' names no Athena table; write DATABASE.TABLE.")
        if self.output and not self.output.startswith("s3://"):
            raise WrongInput(
                f"'{self.output}' is not a place for Athena's results; write s3://BUCKET/PREFIX."
            )

    def columns(self) -> tuple[Columns, Sequence[str]]:
        """Return the columns of the table, and its partition keys."""
        database, _, name = self.table.partition(".")
        table = self._ask(
            "get_table_metadata",
            CatalogName="AwsDataCatalog",
            DatabaseName=database,
            TableName=name,
        )["TableMetadata"]
        columns = [(str(x["Name"]), str(x.get("Type", "string"))) for x in table.get("Columns", ())]
        return columns, [str(x["Name"]) for x in table.get("PartitionKeys", ())]

    def write(self, query: str, path: Path) -> str:
        """Write the result of a query as it comes, page by page."""
        with path.open("w", newline="", encoding="utf-8") as file:
            rows, writer = self._rows(query), csv.writer(file)
            header, first = next(rows), next(rows, None)
            writer.writerows(row for row in (header, first, *rows) if row)
        return first[header.index(_GRAIN)] if first else "hour"

    def _rows(self, query: str) -> Iterator[list[str]]:
        """Yield the header and every row of a query's result."""
        parameters: dict[str, Any] = {"QueryString": query, "WorkGroup": self.workgroup}
        if self.output:
            parameters["ResultConfiguration"] = {"OutputLocation": self.output}
        id = str(self._ask("start_query_execution", **parameters)["QueryExecutionId"])
        self._await(id)
        for page in self.calls.pages(
            self.place, "athena", "get_query_results", QueryExecutionId=id
        ):
            for row in page["ResultSet"]["Rows"]:
                yield [str(cell.get("VarCharValue", "")) for cell in row["Data"]]

    def _ask(self, operation: str, **parameters: Any) -> Mapping[str, Any]:
        return self.calls.call(self.place, "athena", operation, **parameters)

    def _await(self, id: str) -> None:
        """Wait until the query has succeeded, and price the bytes it scanned.

        Raise `Unavailable` if it fails or drags on.
        """
        query = f"Athena's query over {self.table}"
        for wait in _WAITS:
            look = self._ask("get_query_execution", units=0, QueryExecutionId=id)["QueryExecution"]
            status = look.get("Status", {})
            state = status.get("State", "")
            if state in ("SUCCEEDED", "FAILED", "CANCELLED"):
                if scanned := int(look.get("Statistics", {}).get("DataScannedInBytes", 0)):
                    self.calls.charge(
                        "athena",
                        "get_query_execution",
                        max(_LEAST_SCANNED_MB, -(-scanned // 1_000_000)),
                    )
                if state == "SUCCEEDED":
                    self.calls.allow(self.place, "athena:StartQueryExecution")
                    return
                reason = str(status.get("StateChangeReason", "no reason given"))
                if action := refused_in(reason):
                    raise self.calls.refuse(self.place, action)
                reason = reason.splitlines()[0][:120].rstrip(".")
                raise Unavailable(
                    f"{query} is {state.lower()} ({reason}); it is tried again later."
                )
            self.sleep(wait)
        raise Unavailable(f"{query} takes longer than three minutes; it is tried again later.")


_PARTITIONS = ("billing_period", "year", "month")
"""The columns that AWS parts the files of an export by."""
_GROUP_ROWS = 100_000
_AWAY, _ADDRESS = "AWAY", "ADDRESS"
_CAUSES = {
    "UNAVAILABLE": "cannot be reached; start it, or set TRNBOT_SPARK to its address",
    _AWAY: "went away amid a question; look whether it runs",
    "UNAUTHENTICATED": "refuses the token; set one that is valid in TRNBOT_SPARK",
    "PERMISSION_DENIED": "does not let the token read {table}; grant it SELECT on that",
    _ADDRESS: "is named by an address that its client does not take; mend TRNBOT_SPARK",
    "DEADLINE_EXCEEDED": "did not answer in time; look at it, or give it more cores",
}
"""What is wrong, and to be done, where Spark answers with a status of gRPC."""
_NOTHING = "finds no {table}; set TRNBOT_SPARK_TABLE to the table of the export"


@dataclass
class SparkTable:
    """Roll up a table, or a folder of Parquet files, in Spark by Spark Connect."""

    place: str
    """HOST:PORT, for people."""
    address: Callable[[], str]
    """Return the address with its token."""
    table: str
    """CATALOG.SCHEMA.TABLE, or the address of a folder."""
    seconds: float = 300
    """How long one question may take: a cluster that sleeps starts within it."""
    ending = ".parquet"

    def columns(self) -> tuple[Columns, Sequence[str]]:
        """Return the columns of the table, and the partition keys among them."""
        with self._session() as session:
            if "/" in self.table:
                schema = session.read.parquet(self.table).schema
            else:
                schema = session.table(".".join(f"`{x}`" for x in self.table.split("."))).schema
        columns = [(field.name, field.dataType.simpleString()) for field in schema]
        if not columns:  # of a folder that is not there some engines see an empty table
            raise Unavailable(self._said(_NOTHING))
        return columns, [name for name, _ in columns if name.lower() in _PARTITIONS]

    def write(self, query: str, path: Path) -> str:
        """Write the result of a query as it comes, so that memory holds a group of rows."""
        with self._session() as session:
            import pyarrow
            from pyarrow.parquet import ParquetWriter

            frame, client, grain = session.sql(query), session.client, "hour"
            schema = pyarrow.schema([(name, pyarrow.string()) for name in frame.columns])
            # The public ways hold all rows at once, or make a Python row of each.
            answers = client.to_table_as_iterator(frame._plan.to_proto(client), {})
            with ParquetWriter(path, schema) as writer:
                group: list[pyarrow.Table] = []
                for table in answers:
                    if not isinstance(table, pyarrow.Table) or not table.num_rows:
                        continue
                    grain = table[_GRAIN][0].as_py()
                    group.append(table.cast(schema))
                    if sum(x.num_rows for x in group) >= _GROUP_ROWS:
                        writer.write_table(pyarrow.concat_tables(group))
                        group.clear()
                if group:
                    writer.write_table(pyarrow.concat_tables(group))
        return grain

    @contextmanager
    def _session(self) -> Iterator[Any]:
        """Yield a session, and end it."""
        try:
            from pyspark.errors import PySparkException
            from pyspark.sql.connect.client.core import DefaultChannelBuilder
            from pyspark.sql.connect.client.retries import DefaultPolicy
            from pyspark.sql.connect.session import SparkSession
        except ImportError:
            raise Unavailable(
                "TRNBOT_SPARK needs packages that are not there; pip install 'trnbot[spark]'."
            ) from None

        # A sentence says so instead.
        filterwarnings("ignore", message=r"\[RETRIES_EXCEEDED\]")
        try:
            channel = DefaultChannelBuilder(self.address())
            channel.add_interceptor(_deadline(self.seconds))
            session = SparkSession.builder.channelBuilder(channel).create()
        except ValueError:  # of a port or a parameter: its text may hold the address
            raise Unavailable(self._said(_CAUSES[_ADDRESS])) from None
        session.client.set_retry_policies([DefaultPolicy(max_retries=2)])
        answered = False
        try:
            session.conf.set("spark.sql.session.timeZone", "UTC")
            answered = True
            yield session
        except PySparkException as error:
            raise Unavailable(
                redact(self._sentence(error, answered=answered), spellings([self.address()]))
            ) from None
        finally:
            with suppress(Exception):  # a server that is gone has ended it
                session.stop()

    def _sentence(self, error: Exception, *, answered: bool) -> str:
        """Return a failure's cause and the nearest right thing."""
        code: Any = getattr(error, "getGrpcStatusCode", lambda: None)()
        status = str(code.name) if code else ""
        if status == "UNAVAILABLE" and answered:
            status = _AWAY
        if status in _CAUSES:
            return self._said(_CAUSES[status])
        if re.search("(TABLE_OR_VIEW|SCHEMA|CATALOG|PATH)_NOT_FOUND", str(error)):
            return self._said(_NOTHING)
        details = re.search('details = "(.*)"', str(error))
        return self._said("failed over {table} ({because})", details[1] if details else why(error))

    def _said(self, cause: str, because: str = "") -> str:
        sentence = cause.format(table=self.table, because=because.rstrip("."))
        return f"Spark at {self.place} {sentence}; it is tried again later."


def _deadline(seconds: float) -> Any:
    """Return the interceptor that gives each call its time, as the client sets none."""
    import grpc

    class Deadline(grpc.UnaryUnaryClientInterceptor, grpc.UnaryStreamClientInterceptor):  # type: ignore[misc]
        def intercept_unary_unary(self, go_on: Any, details: Any, request: Any) -> Any:
            return go_on(details._replace(timeout=seconds), request)

        intercept_unary_stream = intercept_unary_unary

    return Deadline()


def _months(now: datetime) -> list[date]:
    """Return the first days of this month and the ones before it, newest first."""
    months = [now.date().replace(day=1)]
    while len(months) < _MONTHS:
        months.append((months[-1] - timedelta(days=1)).replace(day=1))
    return months
