"""Read the owner of a resource from its tags, and its launcher from tags or else from CloudTrail."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from importlib.resources import files
from typing import Any

import orjson

from adapters.aws.api.responses import Pages, ResponseInfo, instant, members
from bot.model.fleet import Launcher, LauncherKind
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
        return Labels(
            cluster=self._cluster(tags), team=first(tags, self.team), job=first(tags, self.job)
        )

    def _cluster(self, tags: Mapping[str, str]) -> str:
        named = first(tags, self.cluster)
        owned = sorted(
            name.removeprefix(_EKS_OWNED) for name in tags if name.startswith(_EKS_OWNED)
        )
        return named or (owned[0] if owned else "")


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
