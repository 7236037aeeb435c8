"""Tell incidents of one scope apart.

An open alert goes on over its nodes, and another job's trouble is another incident.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

import numpy as np

from bot.model.alert import Alert
from bot.model.labels import Labels
from detectors.arrays import Rows
from detectors.jobs import fellows
from detectors.readings import Readings
from detectors.roster import scope_of

TOGETHER = timedelta(minutes=10)
"""How long after an alert opened what befalls another job of its scope is still the same incident.

They share a cause.
"""


@dataclass(frozen=True)
class Incident:
    """Hold the nodes of one scope that one trouble befell, the scope of its alert's key, and the alert where one is open."""

    scope: Labels
    rows: Rows
    alert: Alert | None = None


def incidents(seen: Readings, rules: tuple[str, ...], rows: Rows) -> list[Incident]:
    """Return the incidents among the nodes at `rows`, all of one scope, that are told by one of the rules.

    A node belongs to the open alert that is about it, else to one about its job; one whose job is
    not known belongs to the first. The first incident of a scope is named by the scope alone, one
    that another job meets later by that job too.
    """
    scope = seen.roster.scopes[seen.roster.scope[rows[0]]]
    opened = [
        alert
        for (rule, place), alert in seen.open.items()
        if rule in rules and scope_of(place) == scope
    ]
    if not opened:
        return [Incident(scope, rows)]
    if len(opened) == 1 and _holds_all(seen, opened[0], rows):
        return [Incident(opened[0].anomaly.scope, rows, opened[0])]
    owner = _owners(seen, opened, rows)
    held = [
        Incident(one.anomaly.scope, rows[owner == k], one)
        for k, one in enumerate(opened)
        if (owner == k).any()
    ]
    return [*held, *_by_job(seen, scope, rows[owner < 0])]


def _holds_all(seen: Readings, alert: Alert, rows: Rows) -> bool:
    """Tell whether none of the nodes is apart from the alert.

    By its cause, by its age, or as it is about all of them.
    """
    whole = not alert.cause.facts.of_job or seen.now - alert.opened < TOGETHER
    return whole or set(rows.tolist()) <= set(seen.roster.rows_of(alert.anomaly.things))


def _owners(seen: Readings, opened: Sequence[Alert], rows: Rows) -> Rows:
    """Return which of the open alerts each node belongs to, -1 where none is about its job, (len(rows),)."""
    owner = np.full(len(rows), -1, dtype=np.intp)
    about = [np.array(seen.roster.rows_of(alert.anomaly.things), dtype=np.intp) for alert in opened]
    for k, mine in enumerate(about):
        owner[np.isin(rows, mine)] = k
    for k, (alert, mine) in enumerate(zip(opened, about, strict=True)):
        joins = owner < 0
        if len(mine) and joins.any() and not _holds_all(seen, alert, rows):
            joins &= fellows(seen.usual, seen.roster, mine)[rows]
        owner[joins] = k
    return owner


def _by_job(seen: Readings, scope: Labels, rows: Rows) -> Iterator[Incident]:
    """Yield the nodes of each job: by its name where it has one, else by that of its first node."""
    while len(rows):
        mine = fellows(seen.usual, seen.roster, rows[:1])[rows]
        mine[0] = True
        first = min(seen.roster.ids[i] for i in rows[mine])
        job = seen.roster.labels[rows[0]].job or f"of {first}"
        yield Incident(replace(scope, job=job), rows[mine])
        rows = rows[~mine]
