"""State an anomaly: its cause, its things, its onset, and the evidence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from enum import StrEnum

from bot.model.causes import Cause, Severity
from bot.model.labels import Labels
from bot.model.window import Window


class NodeState(StrEnum):
    """Name the state of a node as `fleet` shows it: zero without a runtime has its own."""

    BUSY = "busy"
    STARVED = "starved"
    COMPILING = "compiling"
    LOADED_IDLE = "loaded, idle"
    IDLE = "no runtime"
    NO_DATA = "no data"
    UNWATCHED = "not watched"
    NEW = "just launched"


@dataclass(frozen=True)
class AtRisk:
    """Name the work that would be lost.

    The nodes that do it, and for how many hours it is nowhere but on them.
    """

    things: tuple[str, ...]
    hours: float


@dataclass(frozen=True)
class BilledExcess:
    """State the waste over its usual as the bill shows it.

    What it cost since `through` is an estimate.
    """

    through: datetime
    usd: Decimal
    low: Decimal
    """The least that an hour of it costs, in USD, and below the most.

    How much the usual moves by itself.
    """
    high: Decimal
    until: datetime | None = None
    """When it ended, as far as the newest hours of the bill or the nodes show.

    None while it goes on.
    """


@dataclass(frozen=True)
class Anomaly:
    """State one finding at one tick; score in [0, 1], higher is stranger.

    `scope` is the identity that, with the rule, makes an alert's key: it must not change while the
    incident lasts. `labels` are what all `things` share. `wasted_shares` (parallel to `things`,
    each 0..1) times each thing's price is the waste; causes of money give `usd_per_hour` instead.
    `window.start` is the estimated onset.
    """

    rule: str
    cause: Cause
    scope: Labels
    labels: Labels
    things: tuple[str, ...]
    window: Window
    score: float
    value: float
    unit: str
    usual: tuple[float, float] | None = None
    why: str = ""
    """One sentence: the symptom in numbers."""
    evidence: tuple[str, ...] = ()
    confidence: float = 1.0
    runners_up: tuple[tuple[Cause, float], ...] = ()
    suggestions: tuple[str, ...] = ()
    wasted_shares: tuple[float, ...] = ()
    shares_since: tuple[float, ...] = ()
    """The mean of these since the alert was last seen, at its opening since its onset.

    Over 1 for a thing that joins: it was wasted before that too. Empty = they were the same
    throughout.
    """
    usd_per_hour: Decimal | None = None
    lost_hours: tuple[float, ...] = ()
    """Hours of each thing (parallel to `things`) that were lost before the alert was raised."""
    metric: str = ""
    """The frame's metric that a chart should show, with `kind` below."""
    kind: str = "node"
    severity: Severity = Severity.WARNING
    billed: BilledExcess | None = field(default=None, metadata={"optional": True})
    """What the bill has shown of it; None where it is seen as it happens."""
    suspect: str = field(default="", metadata={"optional": True})
    """The one thing for which all others wait, "" where none is known."""
    at_risk: AtRisk | None = field(default=None, metadata={"optional": True})
    """The work since the newest checkpoint that it would cost, None where none is known of."""
    wide: bool = False
    """Whether it held half of its cluster's nodes, once at least.

    Whatever comes on a few of them meanwhile is part of it.
    """

    @property
    def key(self) -> str:
        """Return the identity of the alert this opens: rule and scope."""
        return key_of(self.rule, self.scope)


def key_of(rule: str, scope: Labels) -> str:
    """Return the identity of the alerts of a rule in a scope."""
    return f"{rule}/{scope}" if str(scope) else rule


@dataclass(frozen=True)
class Detection:
    """Hold the findings of one tick.

    Anomalies that may open alerts, and each node's state by instance id.
    """

    anomalies: tuple[Anomaly, ...] = ()
    states: Mapping[str, NodeState] = field(default_factory=dict)
