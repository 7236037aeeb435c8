"""Read addresses in S3, and list the objects of a bucket that grows by key.

On from the last one, with a look back.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from adapters.aws.api.calls import Calls, Place
from bot.errors import WrongInput


def bucket_and_prefix(address: str, what: str) -> tuple[str, str]:
    """Return the two parts of `s3://BUCKET/PREFIX`.

    Raise `WrongInput` naming `what` it should lead to.
    """
    parts = re.fullmatch(r"s3://([a-z0-9.-]{3,63})(?:/(.*))?", address)
    if not parts:
        raise WrongInput(f"'{address}' is no address of {what}; write s3://BUCKET/PREFIX.")
    return parts[1], parts[2] or ""


LOOK_BACK = timedelta(hours=2)
"""An object whose key stands before those of so long ago is not looked for any more."""
_LAYOUTS = (
    (re.compile(r"\d{4}/"), "%Y/%m/%d/%H"),
    (re.compile(r"year=\d{4}/"), "year=%Y/month=%m/day=%d/hour=%H"),
)
"""How Firehose begins a key after the prefix: by UTC hour, unless it was told otherwise."""


@dataclass(frozen=True)
class S3Object:
    """Name one object and when it was written."""

    key: str
    at: datetime


@dataclass
class S3Lister:
    """List the objects under `s3://BUCKET/PREFIX` that were not done yet.

    Raise `WrongInput` for another address.
    """

    calls: Calls
    address: str
    place: Place
    begin: timedelta
    """How far the first listing reaches back: what was written before is never read."""
    _after: str | None = None
    _since: datetime | None = None
    _done: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        """Read the address."""
        self.bucket, self._prefix = bucket_and_prefix(self.address, "a metric stream")

    def fresh(self, now: datetime) -> list[S3Object]:
        """Return the objects that are not done, the newest first.

        Raise `Unavailable` where a page fails.
        """
        if self._since is None:
            since = now - self.begin
            self._after = self._first_key(since)
            self._since = since
        listed = [x for x in self._listed() if x.at >= self._since]
        self._done &= {x.key for x in listed}
        fresh = [x for x in listed if x.key not in self._done]
        self._move(listed, fresh, now)
        return sorted(fresh, key=lambda x: (x.at, x.key), reverse=True)

    def done(self, key: str) -> None:
        """Take note that an object needs not be read again."""
        self._done.add(key)

    def _move(self, listed: list[S3Object], fresh: list[S3Object], now: datetime) -> None:
        """Begin the next listing behind the last key before which all is done and old."""
        waiting = {x.key for x in fresh}
        still = [x.key for x in listed if x.key in waiting or x.at >= now - LOOK_BACK]
        old = [x.key for x in listed if not still or x.key < min(still)]
        if old:
            self._after = max(old)

    def _listed(self) -> list[S3Object]:
        return [
            S3Object(str(x["Key"]), x["LastModified"])
            for page in self._pages()
            for x in page.get("Contents", ())
            if x["Size"]
        ]

    def _pages(self) -> list[Mapping[str, Any]]:
        given: dict[str, Any] = {"Bucket": self.bucket, "Prefix": self._prefix}
        if self._after:
            given["StartAfter"] = self._after
        return list(self.calls.pages(self.place, "s3", "list_objects_v2", optional=0, **given))

    def _first_key(self, since: datetime) -> str:
        """Return the key of the hour to begin at, "" where keys do not tell it.

        Then every key is listed once.
        """
        given: dict[str, Any] = {"Bucket": self.bucket, "Prefix": self._prefix, "Delimiter": "/"}
        page = self.calls.call(self.place, "s3", "list_objects_v2", optional=0, **given)
        folders = [
            str(x["Prefix"]).removeprefix(self._prefix).lstrip("/")
            for x in page.get("CommonPrefixes", ())
        ]
        for pattern, layout in _LAYOUTS:
            if folders and all(pattern.fullmatch(name) for name in folders):
                return f"{self._prefix}{since.strftime(layout)}"
        return ""
