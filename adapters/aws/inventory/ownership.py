"""Read from tags and CloudTrail who launched a thing, and which launches were refused."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from typing import Any

import orjson

from adapters.aws.api.responses import MALFORMED, Pages, ResponseInfo, instant, members, required
from bot.model.codec import table
from bot.model.fleet import Launcher, LauncherKind, Refusal
from bot.model.labels import CLUSTER_TAGS, Labels

_EKS_OWNED = "kubernetes.io/cluster/"


@dataclass(frozen=True)
class TagNames:
    """Name the tags that hold cluster, team, project, owner and job.

    The first that is there counts.
    """

    cluster: tuple[str, ...] = CLUSTER_TAGS
    team: tuple[str, ...] = ("team",)
    project: tuple[str, ...] = ("project",)
    owner: tuple[str, ...] = ("owner",)
    job: tuple[str, ...] = ("job", "run", "aws:eks:workload-name")

    def labels(self, tags: Mapping[str, str]) -> Labels:
        """Return cluster, team and job from the tags."""
        owned = (x.removeprefix(_EKS_OWNED) for x in tags if x.startswith(_EKS_OWNED))
        return Labels(
            cluster=first(tags, self.cluster) or min(owned, default=""),
            team=first(tags, self.team),
            job=first(tags, self.job),
        )


def first(tags: Mapping[str, str], names: Iterable[str]) -> str:
    """Return the value of the first of `names` that has one, ""."""
    return next((value for name in names if (value := tags.get(name))), "")


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


def launchers(pages: Pages, _: ResponseInfo) -> dict[str, Launcher]:
    """Translate LookupEvents.

    The launcher of each resource that a creating event names, the oldest event first.
    """
    by_resource: dict[str, Launcher] = {}
    for event in sorted(members(pages, "Events"), key=lambda event: str(event["EventTime"])):
        if event.get("EventName") not in CREATIONS:
            continue
        record = orjson.loads(event.get("CloudTrailEvent") or "{}")
        if record.get("errorCode"):
            continue
        name, kind = _principal(record.get("userIdentity") or {}, str(event.get("Username", "")))
        if name:
            launcher = Launcher(
                _text(name), kind, str(event["EventName"]), instant(str(event["EventTime"]))
            )
            by_resource = dict.fromkeys(created_resources(event), launcher) | by_resource
    return by_resource


def tagged_launcher(tags: Mapping[str, str]) -> Launcher | None:
    """Return the machine that launched a thing by its tags, None where they name none."""
    machine = next((text.format(tags[name]) for name, text in _rows("tag") if tags.get(name)), "")
    return Launcher(_text(machine), LauncherKind.MACHINE) if machine else None


def _principal(who: Mapping[str, Any], username: str) -> tuple[str, LauncherKind]:
    """Return name and kind of a `userIdentity`; `username` is the one in the event's summary."""
    issuer = ((who.get("sessionContext") or {}).get("sessionIssuer") or {}).get("userName") or ""
    machine = _matched("role", issuer.lower()) if issuer else ""
    if not machine and who.get("type") == "AWSService":
        machine = _matched("invoker", str(who.get("invokedBy", "")).lower()) or "an AWS service"
    if machine:
        return machine, LauncherKind.MACHINE
    if issuer:
        # A person's role session is named after the person, a machine's is not.
        session = str(who.get("arn", "")).rpartition("/")[2]
        person = issuer.startswith(SSO_ROLE) or "@" in session
        return (session, LauncherKind.PERSON) if person and session else (issuer, LauncherKind.ROLE)
    if who.get("type") == "Root":
        return "the account's root user", LauncherKind.ROLE
    return str(who.get("userName") or username), LauncherKind.PERSON


def created_resources(event: Mapping[str, Any]) -> list[str]:
    """Return the resources that an event names and that somebody may be asked about."""
    names = (str(x.get("ResourceName", "")) for x in event.get("Resources") or ())
    return [name for name in names if _RESOURCE.fullmatch(name)]


def _matched(where: str, text: str) -> str:
    return next((name for pattern, name in _rows(where) if fnmatchcase(text, pattern)), "")


@cache
def _rows(where: str) -> tuple[tuple[str, str], ...]:
    return tuple(
        (row["matches"], row["said"])
        for row in table(__package__, "launchers.csv")
        if row["where"] == where
    )


def _text(name: str) -> str:
    """Return one line of printable text: a session's name is chosen by whoever opens it."""
    return "".join(c for c in name if c.isprintable())[:80]


REFUSED_CALLS = ("RunInstances", "CreateFleet")
"""Calls that launch instances (CloudTrail's event names).

A fleet's answer names each refusal, though the call succeeds.
"""
_SHORT = "InsufficientInstanceCapacity"
"""With `Server.` or `Client.` before it, or alone (EC2 API Reference, error codes, 2026-11)."""
_MESSAGE = re.compile(
    r"sufficient ([a-z0-9-]{1,20}\.[a-z0-9-]{1,20}) capacity"
    r" in the Availability Zone you requested \(([a-z0-9-]{1,30})\)"
)
_TYPE, _ZONE = "instanceType", "availabilityZone"


def refused_part(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return the part of a CloudTrail record that says what was refused, in CloudTrail's own form.

    {} where nothing was.
    """
    if _is_refusal(record.get("errorCode")):
        message = _MESSAGE.search(str(record.get("errorMessage", "")))
        parameters = record.get("requestParameters")
        refused: dict[str, Any] = {
            name: _first(parameters, name) or (message[group] if message else "")
            for group, name in enumerate((_TYPE, _ZONE), 1)
        }
        if _is_spot(record):
            refused["instanceMarketOptions"] = {"marketType": "spot"}
        return {"requestParameters": refused}

    errors = [
        {"errorCode": str(item["errorCode"])}
        | {name: x for name in (_TYPE, _ZONE, "lifecycle") if (x := _first(item, name))}
        for item in _refused_items(record.get("responseElements"))
    ]
    if not errors:
        return {}
    return {"responseElements": {"CreateFleetResponse": {"errorSet": {"item": errors}}}}


def refusals_in(event: Mapping[str, Any], answer: ResponseInfo) -> Iterator[Refusal]:
    """Yield the refusals that an event of LookupEvents names.

    One for each type and zone that a fleet could not have.
    """
    if event.get("EventName") not in REFUSED_CALLS:
        return
    part = refused_part(_record(event))
    parameters = part.get("requestParameters")
    items = [parameters] if parameters else _refused_items(part.get("responseElements"))
    for number, item in enumerate(items):
        place = Labels(
            region=answer.region,
            account=answer.account,
            zone=_first(item, _ZONE),
            instance_type=_first(item, _TYPE),
        )
        yield Refusal(
            f"{event_id(event)}/{number}",
            required(str(event["EventTime"]), "EventTime"),
            place,
            _is_spot(item),
            str(event["EventName"]),
        )


def event_id(event: Mapping[str, Any]) -> str:
    """Return what tells an event from others."""
    return str(event.get("EventId") or f"{event.get('EventName')} {event.get('EventTime')}")


def _is_refusal(code: object) -> bool:
    return str(code or "").rpartition(".")[2] == _SHORT


def _is_spot(value: Mapping[str, Any]) -> bool:
    markets = (_first(value, "marketType"), _first(value, "lifecycle"))
    return "spot" in markets or "Spot capacity" in str(value.get("errorMessage", ""))


def _refused_items(value: Any) -> Iterator[Mapping[str, Any]]:
    """Yield the objects anywhere within a value that carry the error's code."""
    if isinstance(value, dict):
        if _is_refusal(value.get("errorCode")):
            yield value
            return
        value = list(value.values())
    for inner in value if isinstance(value, list) else ():
        yield from _refused_items(inner)


def _first(value: Any, name: str) -> str:
    """Return the first text under a name anywhere within a value, "" where there is none."""
    if isinstance(value, dict):
        text = value.get(name)
        if isinstance(text, str) and text:
            return text
        value = list(value.values())
    inner = value if isinstance(value, list) else ()
    return next(filter(None, (_first(x, name) for x in inner)), "")


_EVENT = ("EventId", "EventName", "EventTime", "Username")
_EMAIL = re.compile(rb"[A-Za-z0-9._%+-]{1,64}@[A-Za-z0-9.-]{1,255}")
_ALIASES = "redacted.invalid"
"""Their domain, which no mail reaches (RFC 2606)."""


def trimmed_events(events: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return LookupEvents' events without what nobody reads.

    Access key ids, addresses, user agents, ids of requests.
    """
    trimmed = []
    for event in events:
        record = _record(event)
        who = record.get("userIdentity") or {}
        issuer = ((who.get("sessionContext") or {}).get("sessionIssuer") or {}).get("userName")
        identity = {x: who[x] for x in ("type", "arn", "userName", "invokedBy") if x in who}
        if issuer:
            identity["sessionContext"] = {"sessionIssuer": {"userName": issuer}}
        failure = {name: record[name] for name in ("errorCode",) if name in record}
        essence = failure | {"userIdentity": identity} | refused_part(record)
        trimmed.append(
            {name: event[name] for name in _EVENT if name in event}
            | {
                "Resources": [{"ResourceName": name} for name in created_resources(event)],
                "CloudTrailEvent": orjson.dumps(essence).decode(),
            }
        )
    return trimmed


def _record(event: Mapping[str, Any]) -> Mapping[str, Any]:
    try:
        record = orjson.loads(event.get("CloudTrailEvent") or "{}")
    except MALFORMED:
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
    return orjson.dumps(
        [
            {"Events": [alias(event) for event in trimmed_events(page.get("Events", ()))]}
            for page in (pages if isinstance(pages, list) else [pages])
            if isinstance(page, dict)
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
        return _EMAIL.sub(lambda address: self.of(address[0].decode()).encode(), raw)

    def of(self, person: str) -> str:
        """Return the alias of a person.

        One with an email address stays one who has such an address.
        """
        if not person or person.endswith(f"@{_ALIASES}"):
            return person

        # Numbers in the order of meeting: the same recording has the same aliases.
        number = f"person-{len(self._of) + 1}"
        return self._of.setdefault(
            person.lower(), f"{number}@{_ALIASES}" if "@" in person else number
        )

    def _aliased(self, event: dict[str, Any]) -> dict[str, Any]:
        record = dict(_record(event))
        who = record["userIdentity"]
        head, _, session = str(who.get("arn", "")).rpartition("/")
        issuer = who.get("sessionContext", {}).get("sessionIssuer", {}).get("userName") or ""
        if issuer and (issuer.startswith(SSO_ROLE) or "@" in session):
            head = f"{head}/{self.of(session)}"
        record["userIdentity"] = {**who, "arn": head}
        if who.get("userName"):
            record["userIdentity"]["userName"] = self.of(str(who["userName"]))
        return {
            **event,
            "Username": self.of(str(event.get("Username", ""))),
            "CloudTrailEvent": orjson.dumps(record).decode(),
        }


SERVICE, OPERATION = "cloudtrail", "lookup_events"
REFUSALS = "refusals"
"""The argument of the answer that holds the refused launches of a place."""
SPACING_SECONDS = 0.5
"""LookupEvents takes two calls a second of an account and region.

CloudTrail User Guide, quotas, 2026-11.
"""


@dataclass(frozen=True)
class Trail:
    """Hold what one answer of LookupEvents says."""

    launchers: Mapping[str, Launcher]
    refusals: tuple[Refusal, ...] | None
    """None where the answer is about one resource: nobody asked for refusals."""


def trail(pages: Pages, answer: ResponseInfo) -> Trail:
    """Translate LookupEvents."""
    refused = tuple(x for event in members(pages, "Events") for x in refusals_in(event, answer))
    if answer.argument == REFUSALS:
        return Trail({}, refused)
    return Trail(launchers(pages, answer), refused or None)


def refusals_of(trails: Iterable[Trail]) -> tuple[Refusal, ...] | None:
    """Return the refusals that answers name, each once, the oldest first.

    None where nobody ever asked.
    """
    answers = [trail.refusals for trail in trails if trail.refusals is not None]
    by_id = {refusal.id: refusal for refusals in answers for refusal in refusals}
    return tuple(sorted(by_id.values(), key=lambda x: (x.at, x.id))) if answers else None
