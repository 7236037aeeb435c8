"""Read from tags and CloudTrail who launched a thing, and which launches were refused."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from importlib.resources import files
from typing import Any

import orjson

from adapters.aws.api.responses import MALFORMED, Pages, ResponseInfo, instant, members, required
from bot.model.fleet import Launcher, LauncherKind, Refusal
from bot.model.labels import Labels

_EKS_OWNED = "kubernetes.io/cluster/"


@dataclass(frozen=True)
class TagNames:
    """Name the tags that hold cluster, team, project, owner and job.

    The first that is there counts.
    """

    cluster: tuple[str, ...] = ("eks:cluster-name", "aws:eks:cluster-name", "cluster")
    team: tuple[str, ...] = ("team",)
    project: tuple[str, ...] = ("project",)
    owner: tuple[str, ...] = ("owner",)
    job: tuple[str, ...] = ("job", "run", "aws:eks:workload-name")

    def labels(self, tags: Mapping[str, str]) -> Labels:
        """Return cluster, team and job from the tags."""
        named = first(tags, self.cluster)
        owned = sorted(
            name.removeprefix(_EKS_OWNED) for name in tags if name.startswith(_EKS_OWNED)
        )
        return Labels(
            cluster=(named or (owned[0] if owned else "")),
            team=first(tags, self.team),
            job=first(tags, self.job),
        )


def first(tags: Mapping[str, str], names: Iterable[str]) -> str:
    """Return the value of the first of `names` that has one, ""."""
    return next((value for name in names if (value := tags.get(name))), "")


def tags_of(member: Mapping[str, Any], key: str = "Tags") -> dict[str, str]:
    """Return a response's list of {Key, Value} as a mapping."""
    return {str(tag["Key"]): str(tag.get("Value", "")) for tag in member.get(key) or ()}


CREATIONS = frozenset(
    {
        "RunInstances",
        "CreateFleet",
        "StartInstances",
        "CreateVolume",
        "CreateFileSystem",
        "CreateFileSystemFromBackup",
        "CreateCapacityReservation",
        "PurchaseCapacityBlock",
    }
)
"""Calls that put something into the world (CloudTrail's event names)."""
_RESOURCE = re.compile(r"(i|vol|fs|cr)-\w+")
SSO_ROLE = "AWSReservedSSO_"
"""IAM Identity Center names its roles so, and the session after the person."""
_LONGEST = 80


def launchers(pages: Pages, answer: ResponseInfo) -> dict[str, Launcher]:
    """Translate LookupEvents.

    The launcher of each resource that a creating event names, the oldest event first.
    """
    del answer
    by_resource: dict[str, Launcher] = {}
    for event in sorted(members(pages, "Events"), key=lambda event: str(event["EventTime"])):
        launcher = _launcher(event)
        if launcher:
            for resource in created_resources(event):
                by_resource.setdefault(resource, launcher)
    return by_resource


def tagged_launcher(tags: Mapping[str, str]) -> Launcher | None:
    """Return the machine that launched a thing by its tags, None where they name none."""
    for name, template in _rows("tag"):
        if tags.get(name):
            return Launcher(_text(template.format(tags[name])), LauncherKind.MACHINE)
    return None


def _launcher(event: Mapping[str, Any]) -> Launcher | None:
    if event.get("EventName") not in CREATIONS:
        return None
    record = orjson.loads(event.get("CloudTrailEvent") or "{}")
    if record.get("errorCode"):
        return None
    name, kind = _principal(record.get("userIdentity") or {}, str(event.get("Username", "")))
    return (
        Launcher(_text(name), kind, str(event["EventName"]), instant(str(event["EventTime"])))
        if name
        else None
    )


def _principal(who: Mapping[str, Any], username: str) -> tuple[str, LauncherKind]:
    """Return name and kind of a `userIdentity`; `username` is the one in the event's summary."""
    issuer = ((who.get("sessionContext") or {}).get("sessionIssuer") or {}).get("userName") or ""
    machine = _matched("role", issuer.lower()) if issuer else ""
    if not machine and who.get("type") == "AWSService":
        machine = _matched("invoker", str(who.get("invokedBy", "")).lower()) or "an AWS service"
    if machine:
        return machine, LauncherKind.MACHINE
    if issuer:
        session = str(who.get("arn", "")).rpartition("/")[2]
        named = issuer.startswith(SSO_ROLE) or "@" in session
        return (session, LauncherKind.PERSON) if named and session else (issuer, LauncherKind.ROLE)
    if who.get("type") == "Root":
        return "the account's root user", LauncherKind.ROLE
    return str(who.get("userName") or username), LauncherKind.PERSON


def created_resources(event: Mapping[str, Any]) -> Iterator[str]:
    """Yield the resources that an event names and that somebody may be asked about."""
    named = (str(x.get("ResourceName", "")) for x in event.get("Resources") or ())
    yield from (name for name in named if _RESOURCE.fullmatch(name))


def _matched(where: str, text: str) -> str:
    return next((name for pattern, name in _rows(where) if fnmatchcase(text, pattern)), "")


@cache
def _rows(where: str) -> tuple[tuple[str, str], ...]:
    rows: Iterable[dict[str, str]] = csv.DictReader(
        files(__package__).joinpath("launchers.csv").read_text(encoding="utf-8").splitlines()
    )
    return tuple((row["matches"], row["said"]) for row in rows if row["where"] == where)


def _text(name: str) -> str:
    """Return one line of printable text: a session's name is chosen by whoever opens it."""
    return "".join(c for c in name if c.isprintable())[:_LONGEST]


REFUSED_CALLS = ("RunInstances", "CreateFleet")
"""Calls that launch instances (CloudTrail's event names).

A fleet's answer names each refusal, though the call succeeds.
"""
_SHORT = "InsufficientInstanceCapacity"
"""With `Server.` or `Client.` before it, or alone (EC2 API Reference, error codes, 2026-11)."""
_MESSAGE = re.compile(
    r"sufficient ([a-z0-9-]{1,20}\.[a-z0-9-]{1,20}) capacity in the Availability Zone you requested \(([a-z0-9-]{1,30})\)"
)
_TYPE, _ZONE = "instanceType", "availabilityZone"


def refused_part(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return the part of a CloudTrail record that says what was refused, in CloudTrail's own form.

    {} where nothing was.
    """
    if _is_refusal(record.get("errorCode")):
        named = _MESSAGE.search(str(record.get("errorMessage", "")))
        asked = record.get("requestParameters")
        kind, zone = (
            _first(asked, _TYPE) or (named[1] if named else ""),
            _first(asked, _ZONE) or (named[2] if named else ""),
        )
        market = {"instanceMarketOptions": {"marketType": "spot"}} if _is_spot(record) else {}
        return {"requestParameters": {_TYPE: kind, _ZONE: zone} | market}
    errors = [_fleet_error(item) for item in _refused_items(record.get("responseElements"))]
    return (
        {"responseElements": {"CreateFleetResponse": {"errorSet": {"item": errors}}}}
        if errors
        else {}
    )


def refusals_in(event: Mapping[str, Any], answer: ResponseInfo) -> Iterator[Refusal]:
    """Yield the refusals that an event of LookupEvents names, one for each type and zone that a fleet could not have."""
    if event.get("EventName") not in REFUSED_CALLS:
        return
    record = _refusals_record(event)
    part = refused_part(record)
    asked = part.get("requestParameters")
    items = [asked] if asked else list(_refused_items(part.get("responseElements")))
    for number, item in enumerate(items):
        place = Labels(
            region=answer.region,
            account=answer.account,
            zone=_first(item, _ZONE),
            instance_type=_first(item, _TYPE),
        )
        name = str(event.get("EventId") or f"{event['EventName']} {event['EventTime']}")
        at = required(str(event["EventTime"]), "EventTime")
        yield Refusal(f"{name}/{number}", at, place, _is_spot(item), str(event["EventName"]))


def _refusals_record(event: Mapping[str, Any]) -> Mapping[str, Any]:
    try:
        record = orjson.loads(event.get("CloudTrailEvent") or "{}")
    except MALFORMED:
        return {}
    return record if isinstance(record, dict) else {}


def _is_refusal(code: object) -> bool:
    return str(code or "").rpartition(".")[2] == _SHORT


def _is_spot(value: Mapping[str, Any]) -> bool:
    told = (_first(value, "marketType"), _first(value, "lifecycle"))
    return "spot" in told or "Spot capacity" in str(value.get("errorMessage", ""))


def _fleet_error(item: Mapping[str, Any]) -> dict[str, Any]:
    kept = {
        _TYPE: _first(item, _TYPE),
        _ZONE: _first(item, _ZONE),
        "lifecycle": _first(item, "lifecycle"),
    }
    return {"errorCode": str(item["errorCode"])} | {
        name: value for name, value in kept.items() if value
    }


def _refused_items(value: Any) -> Iterator[Mapping[str, Any]]:
    """Yield the objects anywhere within a value that carry the error's code."""
    if isinstance(value, dict):
        if _is_refusal(value.get("errorCode")):
            yield value
        else:
            for inner in value.values():
                yield from _refused_items(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _refused_items(inner)


def _first(value: Any, name: str) -> str:
    """Return the first text under a name anywhere within a value, "" where there is none."""
    if isinstance(value, dict):
        own = value.get(name)
        if isinstance(own, str) and own:
            return own
        value = list(value.values())
    if isinstance(value, list):
        return next((found for inner in value if (found := _first(inner, name))), "")
    return ""


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


SERVICE, OPERATION = "cloudtrail", "lookup_events"
REFUSALS = "refusals"
"""The argument of the answer that holds the refused launches of a place."""
SPACING_SECONDS = 0.5
"""LookupEvents takes two calls a second of an account and region (CloudTrail User Guide, quotas, 2026-11)."""


@dataclass(frozen=True)
class Trail:
    """Hold what one answer of LookupEvents says."""

    launchers: Mapping[str, Launcher]
    refusals: tuple[Refusal, ...] | None
    """None where the answer is about one resource: nobody asked for refusals."""


def trail(pages: Pages, answer: ResponseInfo) -> Trail:
    """Translate LookupEvents."""
    asked = answer.argument == REFUSALS
    refused = tuple(x for event in members(pages, "Events") for x in refusals_in(event, answer))
    return Trail({} if asked else launchers(pages, answer), refused if refused or asked else None)


def refusals_of(every: Iterable[Trail]) -> tuple[Refusal, ...] | None:
    """Return the refusals that answers name, each once, the oldest first.

    None where nobody ever asked.
    """
    told = [one.refusals for one in every if one.refusals is not None]
    by_id = {refusal.id: refusal for refusals in told for refusal in refusals}
    return tuple(sorted(by_id.values(), key=lambda x: (x.at, x.id))) if told else None
