"""See by the nodes that what the bill still shows has ended.

Their hours cost, or their absence leaves a commitment unused.
"""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import datetime

import numpy as np

from bot.model.anomaly import BilledExcess
from bot.model.labels import Labels
from detectors.arrays import Rows
from detectors.bill.growth import HOURS
from detectors.bill.lines import DAY, HOUR
from detectors.rule import Subject
from detectors.usual import utilization_of
from detectors.view import View

_PLAN = re.compile(r"(?:EC2SP|HeavyUsage):([\w-]+)")
"""Fees of commitments to a family of instances, and the family in them."""
_LEAST = 0.1
"""Share of the nodes that must have come or gone with it for their number to tell when it ended."""
_BACK = 0.5
"""Share of the nodes that came or went which are back where they were when it has ended."""


def nowcast(view: View, subject: Subject) -> BilledExcess | None:
    """Return what the bill shows of a subject, ended where its nodes show that, though the bill does not yet."""
    billed = subject.billed
    rows = _nodes_of(view, subject)
    if billed is None or billed.until or not len(rows):
        return billed
    ended = _back_since(view, rows, subject.start, billed.through)
    return replace(billed, until=ended) if ended else billed


def _nodes_of(view: View, subject: Subject) -> Rows:
    """Return the rows of the nodes whose hours a subject is about, or could use its commitment.

    None where it is not of nodes.
    """
    hours, plans = (
        [pattern.search(usage) for usage in subject.things] for pattern in (HOURS, _PLAN)
    )
    types, families = ({match[1] for match in matches if match} for matches in (hours, plans))
    if not all(a or b for a, b in zip(hours, plans, strict=True)):
        return np.zeros(0, dtype=np.intp)
    place = subject.labels.only(("region", "cluster"))
    return np.array(
        [i for i, x in enumerate(view.roster.labels) if _about(x, place, types, families)],
        dtype=np.intp,
    )


def _about(node: Labels, place: Labels, types: set[str], families: set[str]) -> bool:
    kind = node.instance_type
    return place.selects(node) and (kind in types or kind.split(".")[0] in families)


def _back_since(view: View, rows: Rows, start: datetime, through: datetime) -> datetime | None:
    """Return since when the nodes are back where they were before it.

    None where they are not, or never were elsewhere.
    """
    first = max(start, through - DAY)
    before, during = _number(view, rows, start - DAY, start), _number(view, rows, first, through)
    moved = during - before
    if np.isnan(moved) or abs(moved) < max(1.0, _LEAST * before):
        return None
    ended = None
    for i in range((view.now - through) // HOUR - 1, -1, -1):
        at = through + i * HOUR
        if not (_number(view, rows, at, at + HOUR) - before) / moved < _BACK:
            break
        ended = at
    return ended


def _number(view: View, rows: Rows, start: datetime, end: datetime) -> float:
    """Return how many of the nodes reported on average.

    Nan where the frame does not reach back so far.
    """
    part = view.whole.until(end).since(start)
    if part.n_steps < 0.8 * ((end - start) / view.whole.step):
        return float("nan")
    return float((~np.isnan(utilization_of(part.pick(rows)))).sum(axis=0).mean())
