"""Compare two instance types by the account's own training runs of the same model."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime

from bot.answers.runs.costed import Costed, costed_runs
from bot.model.claims import ClaimKind, SpeedUp
from bot.model.fleet import InstanceType
from bot.ports import Ports

_ALIKE = 0.01
"""Share by which the parameters of two runs may differ and still be called the same model: trnbot's own default."""


def measured_speeds(ports: Ports, at: datetime, old: InstanceType, new: InstanceType) -> tuple[SpeedUp, ...]:
    """Return the work of a node of `new` as a multiple of one of `old`, for each pair of runs of one model; may block.

    Work is tokens gained, over every node-hour of the run: restarts, waiting and repeated steps slow it down as they did.
    """
    runs = costed_runs(ports, at)
    pairs = [(one, other) for one in _on(runs, old) for other in _on(runs, new) if _same_model(one, other)]
    return tuple(_speed(one, other, at.date()) for one, other in pairs)


def tokens_per_node_hour(run: Costed) -> float:
    """Return the tokens that a node gained in an hour, 0 where the run reports none."""
    hours = run.cost.nodes * (run.cost.until - run.cost.since).total_seconds() / 3600
    return run.cost.tokens / hours if run.cost.tokens and hours else 0.0


def _on(runs: Sequence[Costed], kind: InstanceType) -> list[Costed]:
    return [run for run in runs if run.instance_types == (kind.name,) and tokens_per_node_hour(run)]


def _same_model(one: Costed, other: Costed) -> bool:
    sizes = one.cost.run.parameters, other.cost.run.parameters
    return bool(sizes[0] and sizes[1] and abs(sizes[0] - sizes[1]) <= _ALIKE * max(sizes[0], sizes[1]))


def _speed(one: Costed, other: Costed, today: date) -> SpeedUp:
    was, now = tokens_per_node_hour(one), tokens_per_node_hour(other)
    old, new = (run.instance_types[0].partition(".")[0] for run in (one, other))
    says = f"{other.name} gained {now / 1e6:,.1f} million tokens a node-hour, {one.name} {was / 1e6:,.1f} million"
    return SpeedUp(old, new, now / was, ClaimKind.MEASURED, says, "the account's own runs", today)
