"""Keep a copy of a billing export by way of Athena.

Each month rolled up by day where it lies, a file a month.
"""

from __future__ import annotations

import csv
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from threading import Lock
from typing import Any

from adapters.aws.api.calls import Calls, Place
from bot.errors import Unavailable, WrongInput

Query = Callable[[str, Sequence[tuple[str, str]], Sequence[str], date], str]
"""Write one month's query: table, columns with types, partition keys, month."""
_NEWEST, _CLOSING, _OLD = timedelta(hours=6), timedelta(hours=24), timedelta(days=30)
"""How long a month's copy counts: the running one, the one before while AWS closes it, any older."""
_CLOSED_BY_DAY = 12
_AGAIN = timedelta(minutes=30)
_MONTHS = 3
_WAITS = (0.3, 0.5, 1.0, 2.0, *(3.0,) * 60)
"""Seconds between looks at a query: three minutes in all."""
_LEAST_SCANNED_MB = 10
_MB = 1_000_000


@dataclass
class AthenaCopy:
    """Keep the last months of `DATABASE.TABLE` as files in `folder`, which the billing adapter reads."""

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
                f"'{self.output}' is no place for Athena's results; write s3://BUCKET/PREFIX."
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

    def refresh(self, now: datetime) -> int:
        """Roll up every month that is due; return how many.

        Raise `Unavailable` at the first that cannot be had.
        """
        due = [month for month in _months(now) if self._due(month, now)]
        if not due:
            return 0
        columns, partitions = self._described()
        for month in due:
            self._write(month, self._rows(self.query(self.table, columns, partitions, month)))
        return len(due)

    def _due(self, month: date, now: datetime) -> bool:
        path = self._path(month)
        if not path.is_file():
            return True
        age = now - datetime.fromtimestamp(float(path.with_suffix(".asked").read_text() or 0), UTC)
        last = _months(now)[1]
        kept = (
            _OLD
            if month < last
            else _NEWEST
            if month > last
            else _CLOSING
            if now.day <= _CLOSED_BY_DAY
            else _OLD
        )
        return age >= kept

    def _described(self) -> tuple[list[tuple[str, str]], list[str]]:
        """Return the table's columns with their types, and the names of its partition keys."""
        database, _, name = self.table.partition(".")
        given: dict[str, Any] = {
            "CatalogName": "AwsDataCatalog",
            "DatabaseName": database,
            "TableName": name,
        }
        table = self.calls.call(self.place, "athena", "get_table_metadata", **given)[
            "TableMetadata"
        ]
        columns = [(str(x["Name"]), str(x.get("Type", "string"))) for x in table.get("Columns", ())]
        return columns, [str(x["Name"]) for x in table.get("PartitionKeys", ())]

    def _rows(self, query: str) -> Iterator[list[str]]:
        """Yield the header and every row of a query's result."""
        given: dict[str, Any] = {"QueryString": query, "WorkGroup": self.workgroup}
        if self.output:
            given["ResultConfiguration"] = {"OutputLocation": self.output}
        named = str(
            self.calls.call(self.place, "athena", "start_query_execution", **given)[
                "QueryExecutionId"
            ]
        )
        self._await(named)
        for page in self.calls.pages(
            self.place, "athena", "get_query_results", QueryExecutionId=named
        ):
            for row in page["ResultSet"]["Rows"]:
                yield [str(cell.get("VarCharValue", "")) for cell in row["Data"]]

    def _await(self, named: str) -> None:
        """Wait until the query has succeeded, and price the bytes it scanned.

        Raise `Unavailable` if it fails or drags on.
        """
        for wait in _WAITS:
            execution = self.calls.call(
                self.place, "athena", "get_query_execution", units=0, QueryExecutionId=named
            )
            status = execution["QueryExecution"].get("Status", {})
            state = status.get("State", "")
            if state in ("SUCCEEDED", "FAILED", "CANCELLED"):
                self._price(execution["QueryExecution"])
            if state == "SUCCEEDED":
                return
            if state in ("FAILED", "CANCELLED"):
                why = str(status.get("StateChangeReason", "no reason given")).splitlines()[0][:120]
                raise Unavailable(
                    f"Athena's query over {self.table} is {state.lower()} ({why.rstrip('.')}); it is tried again later."
                )
            self.sleep(wait)
        raise Unavailable(
            f"Athena's query over {self.table} takes longer than three minutes; it is tried again later."
        )

    def _price(self, execution: Mapping[str, Any]) -> None:
        scanned = int(execution.get("Statistics", {}).get("DataScannedInBytes", 0))
        if scanned:
            self.calls.charge(
                "athena", "get_query_execution", max(_LEAST_SCANNED_MB, -(-scanned // _MB))
            )

    def _write(self, month: date, rows: Iterator[list[str]]) -> None:
        """Put a whole month in place of the one before.

        A month without a row stays empty but is known.
        """
        path = self._path(month)
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(".part")
        with part.open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows(rows)
        part.replace(path)
        path.with_suffix(".asked").write_text(str(self.calls.clock().timestamp()))

    def _path(self, month: date) -> Path:
        return self.folder / "billing" / f"{self.table}-{month:%Y-%m}.csv"


def _months(now: datetime) -> list[date]:
    """Return the first days of this month and the ones before it, newest first."""
    months = [now.date().replace(day=1)]
    while len(months) < _MONTHS:
        months.append((months[-1] - timedelta(days=1)).replace(day=1))
    return months
