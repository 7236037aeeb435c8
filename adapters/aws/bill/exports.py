"""Keep a copy of a billing export.

Files in S3 whose ETag is new, a whole refresh at once or none of it.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path, PurePosixPath
from typing import Any

import orjson
from botocore.exceptions import BotoCoreError

from adapters.aws.api.calls import Calls, Place
from adapters.aws.api.failures import code_of
from adapters.aws.api.s3 import bucket_and_prefix
from bot.errors import Unavailable, WrongInput

log = logging.getLogger("trnbot.aws")
_ENDINGS = (".parquet", ".csv", ".csv.gz", ".zip")
_BESIDE = (".json", ".yml", ".yaml", ".sql", ".md", ".txt", "_SUCCESS", "/")
"""What AWS puts beside the files of an export: manifests and table definitions; a folder's own key."""
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

    def problems(self) -> Sequence[str]:
        """Return a sentence where some files are no export that can be read."""
        if not self._foreign:
            return ()
        many = f"{len(self._foreign):,} files" if len(self._foreign) > 1 else "A file"
        such = f"such as {self._foreign[0]}" if len(self._foreign) > 1 else self._foreign[0]
        return (
            f"{many} under {self.address} cannot be read, {such}: have the export delivered as parquet or csv.",
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
            self._next = now + timedelta(hours=1)
        except Unavailable:
            self._next = now + timedelta(minutes=10)
        finally:
            self.calls.meter.save()

    def refresh(self) -> int:
        """Fetch the files that are new or rewritten and drop those that are gone.

        Return how many changed.

        AWS rewrites a month in several files: all are fetched before the first is put in place.
        Raise `Unavailable` where one cannot be had; the copy then stays as it was.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        listed, copied = self._listed(), self._known()
        wanted = {
            key: etag
            for key, etag in listed.items()
            if copied.get(key) != etag or not self._path(key).is_file()
        }
        gone = [key for key in copied if key not in listed]
        fetched = {key: self._fetch(key, number) for number, key in enumerate(wanted)}
        for key, part in fetched.items():
            self._path(key).parent.mkdir(parents=True, exist_ok=True)
            part.replace(self._path(key))
        for key in gone:
            self._path(key).unlink(missing_ok=True)
        if fetched or gone:
            self._write_index(listed)
        return len(fetched) + len(gone)

    def _listed(self) -> dict[str, str]:
        """Return the ETag of every file of the export that counts, by key."""
        members: dict[str, Mapping[str, Any]] = {}
        given: dict[str, Any] = {
            "Bucket": self._bucket,
            "Prefix": f"{self._prefix}/" if self._prefix else "",
        }
        for page in self.calls.pages(self.place, "s3", "list_objects_v2", **given):
            members |= {
                str(x["Key"]): x
                for x in page.get("Contents", ())
                if not str(x["Key"]).endswith(_BESIDE)
            }
        before, self._foreign = (
            self._foreign,
            sorted(key for key in members if not key.endswith(_ENDINGS)),
        )
        if self._foreign != before:
            log.warning(
                " ".join(self.problems()) or f"All files under {self.address} can be read again."
            )
        members = {key: member for key, member in members.items() if key.endswith(_ENDINGS)}
        newest: dict[str, tuple[Any, str]] = {}
        for key, member in members.items():
            if of := _ASSEMBLY.match(key):
                version = (member["LastModified"], of["assembly"])
                newest[of["month"]] = max(newest.get(of["month"], version), version)
        return {
            key: str(member["ETag"]).strip('"')
            for key, member in members.items()
            if not (of := _ASSEMBLY.match(key)) or newest[of["month"]][1] == of["assembly"]
        }

    def _fetch(self, key: str, number: int) -> Path:
        """Return a whole file under a name that the billing adapter does not read."""
        part = self.folder / f".part-{number}"
        answer = self.calls.call(self.place, "s3", "get_object", Bucket=self._bucket, Key=key)
        try:
            with part.open("wb") as file:
                for block in answer["Body"].iter_chunks(1 << 20):
                    file.write(block)
                file.flush()
                os.fsync(file.fileno())
        except (BotoCoreError, OSError) as error:
            part.unlink(missing_ok=True)
            raise Unavailable(
                f"The billing export broke off while it was read from S3 ({code_of(error)})."
            ) from error
        return part

    def _path(self, key: str) -> Path:
        """Return the path that a key is kept at; a key cannot lead out of the folder."""
        below = PurePosixPath(key.removeprefix(self._prefix).lstrip("/"))
        if ".." in below.parts:
            raise WrongInput(
                f"The billing export has a file with '..' in its name, under {self.address}; move it away."
            )
        return self.folder / below

    def _known(self) -> dict[str, str]:
        try:
            return dict(orjson.loads((self.folder / _INDEX).read_bytes()))
        except (OSError, ValueError):
            return {}

    def _write_index(self, listed: Mapping[str, str]) -> None:
        part = self.folder / f"{_INDEX}.part"
        part.write_bytes(orjson.dumps(listed))
        part.replace(self.folder / _INDEX)
