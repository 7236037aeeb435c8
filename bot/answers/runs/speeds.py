"""Compare two instance types by the account's own training runs of the same model."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date, datetime

from bot.answers.runs.costed import Costed, costed_runs
from bot.model.claims import ClaimKind, SpeedUp
from bot.model.fleet import InstanceType
from bot.ports import Ports

_WHOLE = ("the job label", "the project tag", "the whole cluster")
"""How a run's nodes were found where they are its own.

Of a shared cluster nobody knows which tokens are whose.
"""


@dataclass(frozen=True)
class _Gained:
    """State the tokens that runs of one size gained on one type, the node-hours that it took, and their names."""

    tokens: float
    node_hours: float
    names: tuple[str, ...]

    @property
    def millions(self) -> float:
        """Return millions of tokens a node-hour."""
        return self.tokens / self.node_hours / 1e6

    def __str__(self) -> str:
        """Read as `llama-70b gained 34.7 million`."""
        runs = self.names[0] if len(self.names) == 1 else f"{len(self.names)} runs"
        return f"{runs} gained {self.millions:,.1f} million"


def measured_speeds(
    ports: Ports, at: datetime, old: InstanceType, new: InstanceType
) -> tuple[SpeedUp, ...]:
    """Return the work of a node of `new` as a multiple of one of `old`, for each size of model trained on both; may block.

    Work is tokens gained, over every node-hour of the runs: restarts, waiting and repeated steps
    slow it down as they did.
    """
    runs = costed_runs(ports, at)
    was, now = gained_on(runs, old), gained_on(runs, new)
    return tuple(
        _speed(old, new, size, (was[size], now[size]), at.date())
        for size in sorted(was.keys() & now.keys())
    )


def gained_on(runs: Iterable[Costed], kind: InstanceType) -> dict[float, _Gained]:
    """Return what the runs on one type alone gained, by the parameters of the model to two digits."""
    sizes: dict[float, _Gained] = {}
    for run in runs:
        tokens, parameters = run.cost.tokens, run.cost.run.parameters
        hours = run.cost.nodes * (run.cost.until - run.cost.since).total_seconds() / 3600
        if (
            run.instance_types == (kind.name,)
            and run.by in _WHOLE
            and tokens
            and parameters
            and hours
        ):
            size = float(f"{parameters:.2g}")
            so_far = sizes.get(size, _Gained(0.0, 0.0, ()))
            sizes[size] = _Gained(
                so_far.tokens + tokens, so_far.node_hours + hours, (*so_far.names, run.name)
            )
    return sizes


def _speed(
    old: InstanceType, new: InstanceType, size: float, gained: tuple[_Gained, _Gained], today: date
) -> SpeedUp:
    was, now = gained
    says = f"{now} tokens a node-hour of {new.name}, {was} of {old.name}, with {size / 1e9:g} billion parameters"
    return SpeedUp(
        old.family,
        new.family,
        now.millions / was.millions,
        ClaimKind.MEASURED,
        says,
        "the account's own runs",
        today,
    )
