"""Learn how long each job stays in a state, and how long a stretch of it must last to be rare.

A job that checkpoints, evaluates, waits for rollouts or starves for a moment shows it in its past:
every stretch of such a state after which the job went on is one of its pauses. A new stretch is
told once it is longer than the job shows once in `alert.rare_weeks`. That length is the return
level of the peaks over a threshold, with the exponential tail of extreme value theory (Coles, An
Introduction to Statistical Modeling of Extreme Values, 2001, chapter 4).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import timedelta

import numpy as np

from detectors.arrays import Counts, Floats, Mask, Numbers, Rows, runs_of
from detectors.numbers import WEEK, number
from detectors.roster import Roster

ONE_JOB = number("jobs.LIKE")
TAIL = number("rarity.TAIL")


@dataclass(frozen=True)
class Stretches:
    """Describe the stretches of one state that the job of each node has shown, each (n,)."""

    count: Counts
    longest: Numbers
    """In steps, 0 where none was seen."""
    rare: Numbers
    """Steps that a stretch lasts once in `alert.rare_weeks`, 0 where none was seen."""

    @staticmethod
    def none(n: int) -> Stretches:
        """Return the stretches of `n` nodes of which none was seen."""
        return Stretches(np.zeros(n, dtype=np.intp), np.zeros(n), np.zeros(n))


def roles_of(roster: Roster, memory: Floats) -> Counts:
    """Return the role of each node, (n,): nodes of one scope whose work holds the same memory.

    A node whose memory is not known has the role of its whole scope, -1 less the scope's number.
    """
    roles: Counts = -1 - roster.scope
    nodes = np.flatnonzero(np.isfinite(memory))
    if not len(nodes):
        return roles
    ordered = nodes[np.lexsort((memory[nodes], roster.scope[nodes]))]
    scope, memories = roster.scope[ordered], memory[ordered]
    with np.errstate(divide="ignore", invalid="ignore"):
        begins = (scope[1:] != scope[:-1]) | (memories[1:] / memories[:-1] - 1 > ONE_JOB)
    roles[ordered] = np.concatenate([[0], np.cumsum(begins)])
    return roles


def stretches_of(
    state: Mask, going_on: Mask, scopes: Rows, roles: Counts, weeks: float, step: timedelta
) -> Stretches:
    """Return the stretches of `state` within which the job was `going_on`, both (n, n_steps).

    `scopes` and `roles` are those of the rows, (n,). Nodes of a role pause together, so stretches
    that begin in the same step are one, as long as the longest. A stretch at an edge of the history
    was not seen whole and is left out.
    """
    row, begin, end = runs_of(state)
    whole = (begin > 0) & (end < state.shape[1])
    row, begin, end = row[whole], begin[whole], end[whole]

    # The sum of steps in which the job was gone, up to each step: equal at both ends of a pause.
    gone = np.concatenate([np.zeros((len(state), 1)), np.cumsum(~going_on, axis=1)], axis=1)
    last = np.minimum(end + 1, state.shape[1])
    pause = gone[row, last] == gone[row, begin]
    row, begin, length = row[pause], begin[pause], (end - begin)[pause]

    stretches = Stretches.none(len(state))
    count, longest, rare = stretches.count, stretches.longest, stretches.rare
    seen_weeks = going_on.sum(axis=1) * (step / WEEK)
    for scope in np.unique(scopes[row]):
        of_scope = np.flatnonzero(scopes == scope)
        for role in np.unique(roles[of_scope]):
            nodes = of_scope[roles[of_scope] == role]
            of_role = np.isin(row, nodes)
            if not of_role.any():
                continue
            starts, place = np.unique(begin[of_role], return_inverse=True)
            lengths = np.zeros(len(starts))
            np.maximum.at(lengths, place, length[of_role])
            count[nodes], longest[nodes] = len(starts), lengths.max()
            rare[nodes] = return_level(lengths, float(seen_weeks[nodes].max()), weeks)

        # Of a node that is new nothing is known but that it may have any role of its scope.
        new = of_scope[roles[of_scope] < 0]
        if len(new):
            count[new] = count[of_scope].max()
            longest[new], rare[new] = longest[of_scope].max(), rare[of_scope].max()
    return stretches


def return_level(lengths: Numbers, weeks_seen: float, weeks: float) -> float:
    """Return the length that is passed once in `weeks`, by lengths seen within `weeks_seen`.

    The mean excess over the upper quartile is taken one standard error too large, and the level is
    never under what was seen.
    """
    threshold = float(np.quantile(lengths, TAIL))
    # A length is read to a whole step: half of one lies on either side.
    excess = lengths[lengths >= threshold] - threshold + 0.5
    scale = float(excess.mean()) * (1 + len(excess) ** -0.5)
    often = max(1.0, len(excess) * weeks / max(weeks_seen, 1e-9))
    return float(max(lengths.max(), threshold + scale * math.log(often)))
