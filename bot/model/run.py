"""State the progress of a training run, which nodes are its, and a node's compile."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from functools import lru_cache

from bot.model.codec import by_key
from bot.model.fleet import Instance
from bot.model.labels import Labels
from bot.model.window import Window

_ATTEMPT = re.compile(
    r"(?:[-_.](?:\d{6,}(?:[-_.T]?\d{4,6}Z?)?|(?:r|run|trial|try|retry|attempt)[-_]?\d+))+$",
    re.ASCII,
)


def job_of(name: str) -> str:
    """Return the name of a run or job without the date or the number of the attempt at its end."""
    return _ATTEMPT.sub("", name) or name


@dataclass(frozen=True)
class Run:
    """State a run (`labels.job`) as last reported; None where nothing was reported."""

    labels: Labels
    started_at: datetime
    seen_at: datetime
    epochs: float | None = None
    steps: float | None = None
    tokens: float | None = None
    parameters: float | None = None
    loss: float | None = None
    checkpoint_age_seconds: float | None = None
    attempts: int = 1


class Sign(StrEnum):
    """Name the signs that give a node to a run, the surest first."""

    LABEL = "the job label"
    PROJECT = "the project tag"
    NAME = "their names"


_SIGNS = tuple(Sign)


@dataclass(frozen=True)
class Claim:
    """Hold the ids of the nodes that a sign gives to a run."""

    sign: Sign
    nodes: frozenset[str]


def claims_of(runs: Iterable[Labels], nodes: Iterable[Instance]) -> Mapping[Labels, Claim]:
    """Return the claims of runs by their cluster and job; no node is in two of them.

    A node is of the run that its surest sign names. A run has the nodes of its surest sign alone;
    one without any has no claim.
    """
    jobs = by_key((run.cluster, run.job) for run in runs if run.job)
    members = by_key((node.labels.cluster, node) for node in nodes)
    claims: dict[Labels, Claim] = {}
    for cluster, names in jobs.items():
        known, of_cluster = frozenset(names), members.get(cluster, [])
        called = _jobs_by_name(known, frozenset(x.tags.get("Name", "") for x in of_cluster))
        found: dict[Sign, dict[str, set[str]]] = {sign: {} for sign in _SIGNS}
        for node in of_cluster:
            name = called.get(node.tags.get("Name", ""), "")
            for job, sign in zip((node.labels.job, node.project, name), _SIGNS, strict=True):
                if job in known:
                    found[sign].setdefault(job, set()).add(node.id)
                    break

        for sign, by_job in found.items():
            for job, ids in by_job.items():
                run = Labels(cluster=cluster, job=job)
                claims.setdefault(run, Claim(sign, frozenset(ids)))
    return claims


def nodes_of(run: Labels, claims: Mapping[Labels, Claim]) -> tuple[frozenset[str], bool]:
    """Return ids of nodes, and whether they are a run's, or all others of its cluster are.

    A run has the nodes of its claim, else those that no run claims.
    """
    if claim := claims.get(run.only(("cluster", "job"))):
        return claim.nodes, True
    return frozenset().union(*(x.nodes for x in claims.values())), False


@lru_cache(maxsize=64)
def _jobs_by_name(jobs: frozenset[str], names: frozenset[str]) -> Mapping[str, str]:
    """Return the job of each name of a node: the longest that stands in it as whole words.

    A job that all names hold is the cluster's word as well, and tells no run; nor does a name that
    holds two of the same length. A tick asks for the jobs and names of the one before, mostly.
    """
    held: dict[str, list[str]] = {}
    for job in jobs:
        # Most jobs stand in no name, which is seen sooner than a pattern is made.
        near = [x for x in names if job.lower() in x.lower() or not (job + x).isascii()]
        if not near:
            continue
        whole = re.compile(rf"(?<![a-z0-9]){re.escape(job)}(?![a-z0-9])", re.IGNORECASE)
        holding = {name for name in near if whole.search(name)}
        for name in holding if holding != names else ():
            held.setdefault(name, []).append(job)

    longest = {name: sorted(found, key=len)[-2:] for name, found in held.items()}
    return {name: x[-1] for name, x in longest.items() if len(x) == 1 or len(x[0]) < len(x[1])}


class Ending(StrEnum):
    """Name the ways in which a compile ends."""

    GOING = "going on"
    USED = "executions followed"
    CUT = "cut off"
    """Its process, pod or node was gone before anything executed.

    A pre-compile that nobody used yet looks the same.
    """
    UNKNOWN = "not known"


@dataclass(frozen=True)
class Compile:
    """State one compile of one node.

    `scope` is the scope of alerts about it, `told` whether a log said its ends.
    """

    instance: str
    scope: Labels
    window: Window
    ending: Ending
    told: bool = False

    @property
    def hours(self) -> float:
        """Return the node-hours of the compile."""
        return self.window.hours


class Mark(StrEnum):
    """Name the meanings of lines in the compiler's log."""

    BEGUN = "begun"
    DONE = "done"
    FAILED = "failed"
    OVER = "over"
    """All that its process compiles is done."""
    SKIPPED = "skipped"
    """A graph is cached as failed, so it is not compiled."""
    WAITING = "waiting"
    """Another process is to compile the same graph, and holds its lock."""


@dataclass(frozen=True)
class CompileMark:
    """State one line of a compiler's log.

    Of which graph, "" where it does not say, and in which log stream.
    """

    at: datetime
    instance: str
    mark: Mark
    module: str = ""
    stream: str = ""
