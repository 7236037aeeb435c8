"""Keep of CloudTrail's events what tells who launched a thing or what was refused, and put aliases in the place of people."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import orjson

from adapters.aws.inventory.ownership import SSO_ROLE, created_resources
from adapters.aws.inventory.refusals import refused_part

_EVENT = ("EventId", "EventName", "EventTime", "Username")
_EMAIL = re.compile(rb"[A-Za-z0-9._%+-]{1,64}@[A-Za-z0-9.-]{1,255}")
_ALIASES = "redacted.invalid"
"""Their domain, which no mail reaches (RFC 2606)."""


def trimmed_events(events: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return LookupEvents' events without what nobody reads.

    Access key ids, addresses, user agents, ids of requests.
    """
    return [_trimmed(event) for event in events]


def _trimmed(event: Mapping[str, Any]) -> dict[str, Any]:
    record = _record(event)
    who = record.get("userIdentity") or {}
    issuer = ((who.get("sessionContext") or {}).get("sessionIssuer") or {}).get("userName")
    identity = {name: who[name] for name in ("type", "arn", "userName", "invokedBy") if name in who}
    identity |= {"sessionContext": {"sessionIssuer": {"userName": issuer}}} if issuer else {}
    kept = (
        {name: record[name] for name in ("errorCode",) if name in record}
        | {"userIdentity": identity}
        | refused_part(record)
    )
    resources = [{"ResourceName": name} for name in created_resources(event)]
    summary = {name: event[name] for name in _EVENT if name in event}
    return summary | {"Resources": resources, "CloudTrailEvent": orjson.dumps(kept).decode()}


def _record(event: Mapping[str, Any]) -> Mapping[str, Any]:
    try:
        record = orjson.loads(event.get("CloudTrailEvent") or "{}")
    except orjson.JSONDecodeError:
        return {}
    return record if isinstance(record, dict) else {}


def with_trimmed_events(
    raw: bytes, alias: Callable[[dict[str, Any]], dict[str, Any]] = lambda event: event
) -> bytes:
    """Return LookupEvents' pages with their events trimmed; pages that cannot be read hold none."""
    try:
        pages = orjson.loads(raw)
    except orjson.JSONDecodeError:
        pages = []
    listed = [
        page for page in (pages if isinstance(pages, list) else [pages]) if isinstance(page, dict)
    ]
    return orjson.dumps(
        [
            {"Events": [alias(event) for event in trimmed_events(page.get("Events", ()))]}
            for page in listed
        ]
    )


class Aliases:
    """Put one alias in the place of each person, the same wherever that person is named."""

    def __init__(self) -> None:
        self._of: dict[str, str] = {}

    def __len__(self) -> int:
        """Count the people."""
        return len(self._of)

    def in_events(self, raw: bytes) -> bytes:
        """Return LookupEvents' pages trimmed, and people by their aliases."""
        return with_trimmed_events(raw, self._aliased)

    def in_text(self, raw: bytes) -> bytes:
        """Return any other response with an alias for each email address in it.

        Tags of owners hold some.
        """
        return _EMAIL.sub(lambda found: self.of(found[0].decode()).encode(), raw)

    def of(self, person: str) -> str:
        """Return the alias of a person.

        One with an email address stays one who has such an address.
        """
        if not person or person.endswith(f"@{_ALIASES}"):
            return person
        number = f"person-{len(self._of) + 1}"
        return self._of.setdefault(
            person.lower(), f"{number}@{_ALIASES}" if "@" in person else number
        )

    def _aliased(self, event: dict[str, Any]) -> dict[str, Any]:
        record = dict(_record(event))
        who = record["userIdentity"]
        head, _, session = str(who.get("arn", "")).rpartition("/")
        issuer = who.get("sessionContext", {}).get("sessionIssuer", {}).get("userName") or ""
        person = bool(issuer) and (issuer.startswith(SSO_ROLE) or "@" in session)
        named = {"arn": f"{head}/{self.of(session)}"} if person else {"arn": head}
        named |= {"userName": self.of(str(who["userName"]))} if who.get("userName") else {}
        record["userIdentity"] = {**who, **named}
        return {
            **event,
            "Username": self.of(str(event.get("Username", ""))),
            "CloudTrailEvent": orjson.dumps(record).decode(),
        }
