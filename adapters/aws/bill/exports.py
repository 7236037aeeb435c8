"""Keep a copy of a billing export, from S3 or by way of Athena."""

from __future__ import annotations

import csv
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from pathlib import Path, PurePosixPath
from threading import Lock
from typing import Any

import orjson

from adapters.aws.api.calls import Calls, bucket_and_prefix
from adapters.aws.api.operations import Place
from adapters.aws.api.outcomes import log, refused_in
from adapters.aws.files import replacing, write_whole
from bot.errors import Unavailable, WrongInput

_ENDINGS = (".parquet", ".csv", ".csv.gz", ".zip")
_BESIDE = (".json", ".yml", ".yaml", ".sql", ".md", ".txt", "_SUCCESS", "/")
"""What AWS puts beside the files of an export: manifests and table definitions.

A folder's own key.
"""
_INDEX = ".etags.json"
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
        self._prefix = prefix.strip("/")
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
        index = self.folder / _INDEX
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
        prefix = f"{self._prefix}/" if self._prefix else ""
        pages = self.calls.pages(
            self.place, "s3", "list_objects_v2", Bucket=self._bucket, Prefix=prefix
        )
        members = {str(x["Key"]): x for page in pages for x in page.get("Contents", ())}
        foreign = sorted(x for x in members if not x.endswith((*_BESIDE, *_ENDINGS)))
        if foreign != self._foreign:
            self._foreign = foreign
            again = f"All files under {self.address} can be read again."
            log.warning(" ".join(self.problems()) or again)

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


Query = Callable[[str, Sequence[tuple[str, str]], Sequence[str], date], str]
"""Write one month's query: table, columns with types, partition keys, month."""
_NEWEST, _CLOSING, _OLD = timedelta(hours=6), timedelta(hours=24), timedelta(days=30)
"""How long a month's copy counts.

The running one, the one before while AWS closes it, any older.
"""
_CLOSED_BY_DAY = 12
_AGAIN = timedelta(minutes=30)
_MONTHS = 3
_WAITS = (0.3, 0.5, 1.0, 2.0, *(3.0,) * 60)
"""Seconds between looks at a query: three minutes in all."""
_LEAST_SCANNED_MB = 10
_MB = 1_000_000


@dataclass
class AthenaCopy:
    """Keep the last months of `DATABASE.TABLE` as files in `folder`.

    Which the billing adapter reads.
    """

    calls: Calls
    table: str
    workgroup: str
    output: str
    folder: Path
    place: Place
    query: Query
    sleep: Callable[[float], None] = time.sleep
    _failed: datetime | None = None
    _problem: str = ""
    _lock: Lock = field(default_factory=Lock)

    def __post_init__(self) -> None:
        """Read the name of the table; raise `WrongInput` for another form."""
        if not re.fullmatch(r"\w[\w-]*\.\w[\w-]*", self.table):
            raise WrongInput(f"'{self.table}' names no Athena table; write DATABASE.TABLE.")
        if self.output and not self.output.startswith("s3://"):
            raise WrongInput(
                f"'{self.output}' is not a place for Athena's results; write s3://BUCKET/PREFIX."
            )

    def keep_fresh(self) -> None:
        """Refresh the months that are due.

        A failure leaves the copy as it was and is tried again after half an hour.
        """
        with self._lock:
            now = self.calls.clock()
            if self._failed and now - self._failed < _AGAIN:
                return
            try:
                self.refresh(now)
                self._failed, self._problem = None, ""
            except Unavailable as error:
                self._failed, self._problem = now, str(error)

    def problems(self) -> Sequence[str]:
        """Return why the copy is not fresh, where it is not."""
        return (self._problem,) if self._problem else ()

    def refresh(self, now: datetime) -> None:
        """Roll up every month that is due.

        Raise `Unavailable` at the first that cannot be had.
        """
        due = [month for month in _months(now) if self._due(month, now)]
        if not due:
            return
        database, _, name = self.table.partition(".")
        table = self._ask(
            "get_table_metadata",
            CatalogName="AwsDataCatalog",
            DatabaseName=database,
            TableName=name,
        )["TableMetadata"]
        columns = [(str(x["Name"]), str(x.get("Type", "string"))) for x in table.get("Columns", ())]
        partitions = [str(x["Name"]) for x in table.get("PartitionKeys", ())]

        for month in due:
            # A whole month takes the place of the one before; without a row it stays empty but
            # known.
            path, query = self._path(month), self.query(self.table, columns, partitions, month)
            with (
                replacing(path) as part,
                part.open("w", newline="", encoding="utf-8") as file,
            ):
                csv.writer(file).writerows(self._rows(query))
            path.with_suffix(".asked").write_text(str(self.calls.clock().timestamp()))

    def _due(self, month: date, now: datetime) -> bool:
        path = self._path(month)
        if not path.is_file():
            return True
        age = now - datetime.fromtimestamp(float(path.with_suffix(".asked").read_text() or 0), UTC)
        running, last, *_ = _months(now)
        if month == running:
            return age >= _NEWEST

        # AWS goes on changing a month for some days after its end.
        closing = month == last and now.day <= _CLOSED_BY_DAY
        return age >= (_CLOSING if closing else _OLD)

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
                scanned = int(look.get("Statistics", {}).get("DataScannedInBytes", 0))
                if scanned:
                    megabytes = max(_LEAST_SCANNED_MB, -(-scanned // _MB))
                    self.calls.charge("athena", "get_query_execution", megabytes)
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

    def _path(self, month: date) -> Path:
        return self.folder / "billing" / f"{self.table}-{month:%Y-%m}.csv"


def _months(now: datetime) -> list[date]:
    """Return the first days of this month and the ones before it, newest first."""
    months = [now.date().replace(day=1)]
    while len(months) < _MONTHS:
        months.append((months[-1] - timedelta(days=1)).replace(day=1))
    return months
