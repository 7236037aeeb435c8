"""Follow an anomaly through its life.

Alert, notification, the log of notifications by channel, and people's decisions.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal
from enum import StrEnum

from bot.model.anomaly import Anomaly
from bot.model.causes import Cause, Severity
from bot.model.labels import Labels
from bot.model.money import MILLIONTH, cents
from bot.model.request import SignedBy


@dataclass(frozen=True)
class WastedHours:
    """State the hours that things of one price wasted, and the shares that they waste now."""

    usd_per_hour: Decimal
    hours: Decimal
    share: Decimal = Decimal(0)


@dataclass(frozen=True)
class Waste:
    """State an alert's waste.

    USD an hour now, so far, and by month end by how long its kind goes on (with a range).

    An alert that is over, or passes by itself, costs nothing more by month end.
    """

    per_hour: Decimal
    so_far: Decimal
    month_end: Decimal
    month_end_low: Decimal
    month_end_high: Decimal
    basis: str
    """Where the price of an hour comes from, in words, with its date."""
    priced_at: date | None = None
    unpriced: int = 0
    """Things of which no price is known: their waste is not in it."""
    hours: tuple[WastedHours, ...] = ()
    """The hours that `so_far` is made of, by price.

    Empty of a cause of the bill, and where they were not kept.
    """
    committed_share: Decimal = field(default=Decimal(0), metadata={"optional": True})
    """The share of an hour's USD that a commitment bills whether the things run or not.

    To twelve digits, which give the millionths of an hour of up to a million dollars.
    """
    lapses: date | None = field(default=None, metadata={"optional": True})
    """The day on which the last of those commitments ends, where the bill says so."""
    billed: bool = field(default=False, metadata={"optional": True})
    """Whether the hours of a past alert cost what their own lines of the bill say."""

    @property
    def committed_per_hour(self) -> Decimal:
        """Return the USD an hour that stopping the things does not save."""
        return (self.per_hour * self.committed_share).quantize(MILLIONTH)

    @property
    def goes_on(self) -> bool:
        """Return whether it is to cost more by month end than it has so far."""
        return cents(self.month_end) > cents(self.so_far)


@dataclass(frozen=True)
class Peak:
    """Hold an alert at its peak, by the newest sight of it: so it is remembered."""

    anomaly: Anomaly
    usd_per_hour: Decimal
    most_usd_per_hour: Decimal
    """The most that an hour ever cost, at this sight or at one before."""


class DecisionKind(StrEnum):
    """Name the decisions that a person can take about an alert."""

    ACKNOWLEDGE = "acknowledge"
    UNACKNOWLEDGE = "unacknowledge"
    ASSIGN = "assign"
    UNASSIGN = "unassign"
    NOT_AN_ANOMALY = "not an anomaly"
    USEFUL = "useful"
    UNJUDGED = "judgement withdrawn"


@dataclass(frozen=True)
class Decision(SignedBy):
    """State one person's decision about one opening of an alert; decisions are only ever added."""

    id: str
    alert: str
    doing: DecisionKind
    by: str
    by_name: str
    at: datetime
    note: str = ""
    assignee: str = ""
    """The address of who is to look into it, or who was until it was taken back.

    "" where only a name is known.
    """
    assignee_name: str = ""

    @property
    def whom(self) -> str:
        """Return the assignee's name, else the address."""
        return self.assignee_name or self.assignee


class OwnerBy(StrEnum):
    """Name the ways in which an owner is told, the surest first."""

    TAG = ""
    LABEL = "a Kubernetes label"
    FILE = "the mapping file"


class MutedBy(StrEnum):
    """Name the kinds of what keeps an alert from notifying."""

    ALERT = "inhibit"
    SILENCE = "silence"
    SETTING = "policy"

    def mark(self, name: str) -> str:
        """Return the mark of one of its kind: of an alert's key, a silence's id, a setting's name."""
        return f"{self}:{name}"

    def marks(self, alert: Alert) -> bool:
        """Return whether one of its kind mutes the alert."""
        return alert.muted_by.startswith(self.mark(""))


@dataclass(frozen=True)
class Alert:
    """Follow one opening of one key.

    `acknowledged` and `assignment` are derived from the decisions and never written by the watch.
    """

    id: str
    anomaly: Anomaly
    opened: datetime
    seen: datetime
    closed: datetime | None = None
    acknowledged: Decision | None = None
    muted_by: str = ""
    """"" or the mark of what mutes it: `inhibit:KEY`, `silence:ID`, `policy:NAME`."""
    waste: Waste | None = None
    owner: str = ""
    """Who has most of its things.

    By owner tags, else the nodes' Kubernetes labels, else the mapping file; "" for nobody.
    """
    things_at_peak: int = field(default=0, metadata={"stored": "things_at_worst"})
    """The most things that it ever was about."""
    peak: Peak | None = field(default=None, metadata={"stored": "worst"})
    claims: tuple[str, ...] = ()
    """Who else it may belong to, likeliest first: `namespace:NAME`, `launcher:NAME`."""

    launched_by: str = ""
    """Who or what launched most of the things, in words.

    Asked of CloudTrail, it may come after the opening.
    """
    costly: bool = False
    """Whether it wastes so much an hour that it is critical, whatever its cause."""
    owner_by: OwnerBy = field(default=OwnerBy.TAG, metadata={"optional": True})
    """What names the owner."""
    at_risk_usd: Decimal | None = field(default=None, metadata={"optional": True})
    """The price of the work that would be lost, as of when it was last seen.

    None where none is known of.
    """
    assignment: Decision | None = field(default=None, metadata={"optional": True})
    """The newest decision about who is to look into it.

    That somebody is, or that nobody is any more.
    """

    notified: datetime | None = field(default=None, metadata={"optional": True})
    """Since when it notifies, where a setting held it back at first; None otherwise."""

    @property
    def assigned(self) -> Decision | None:
        """Return the decision that assigned the alert to the person who has it.

        An `owner` is whom tags name.
        """
        return (
            self.assignment
            if self.assignment and self.assignment.doing is DecisionKind.ASSIGN
            else None
        )

    @property
    def notified_at(self) -> datetime:
        """Return since when it notifies: its opening, or later where it was held back."""
        return self.notified or self.opened

    @property
    def effect_mark(self) -> str:
        """Return the mark of the alerts that this one explains."""
        return MutedBy.ALERT.mark(self.key)

    @property
    def owners(self) -> tuple[str, ...]:
        """Return every name under which the mapping may know the owner, likeliest first."""
        return (self.owner, *self.claims) if self.owner else self.claims

    @property
    def key(self) -> str:
        """Return rule and scope, the identity over openings."""
        return self.anomaly.key

    @property
    def cause(self) -> Cause:
        """Return the cause by the newest verdict."""
        return self.anomaly.cause

    @property
    def things(self) -> tuple[str, ...]:
        """Return the things that it was about at its peak or is about now, each once."""
        peak = self.peak.anomaly.things if self.peak else ()
        return tuple(dict.fromkeys((*peak, *self.anomaly.things)))

    @property
    def most_usd_per_hour(self) -> Decimal:
        """Return the most USD that it ever wasted an hour; where all is lost already, the whole.

        What was worth a message stays so while it recovers. 0 without dollars.
        """
        if self.waste is None or self.anomaly.lost_hours:
            return self.waste.so_far if self.waste else Decimal(0)
        return max(self.waste.per_hour, self.peak.most_usd_per_hour if self.peak else Decimal(0))

    @property
    def severity(self) -> Severity:
        """Return how soon a person must look: by its cause, or sooner by its dollars."""
        # Dollars raise a severity and never lower it.
        return Severity.CRITICAL if self.costly else self.anomaly.severity

    @property
    def firing(self) -> bool:
        """Return whether the alert has not ended."""
        return self.closed is None

    @property
    def ended(self) -> datetime | None:
        """Return when it was seen for the last time, None while it fires.

        It closes once nothing was seen of it for a while.
        """
        return self.seen if self.closed else None

    @property
    def speaking(self) -> bool:
        """Return whether the alert has not ended and nothing mutes it."""
        return self.firing and not self.muted_by

    @property
    def usd_per_hour(self) -> Decimal:
        """Return the USD an hour that it wastes, 0 where none is known."""
        return self.waste.per_hour if self.waste else Decimal(0)


def usd_per_hour_of(alerts: Iterable[Alert]) -> Decimal:
    """Return the USD an hour that some alerts waste together."""
    return sum((alert.usd_per_hour for alert in alerts), Decimal(0))


def spent(alerts: Iterable[Alert]) -> Decimal:
    """Return the waste of some alerts so far."""
    return sum((alert.waste.so_far for alert in alerts if alert.waste), Decimal(0))


def committed_usd_per_hour_of(alerts: Iterable[Alert]) -> Decimal:
    """Return the USD an hour of some alerts that stopping what they name does not save."""
    wastes = (alert.waste for alert in alerts)
    return sum((waste.committed_per_hour for waste in wastes if waste), Decimal(0))


def leading(alerts: Sequence[Alert]) -> list[Alert]:
    """Return the alerts of an incident that none of the others explains."""
    # An alert names the one that explains it; of a circle all would be gone, so all are kept.
    marks = {alert.effect_mark for alert in alerts}
    return [alert for alert in alerts if alert.muted_by not in marks] or list(alerts)


@dataclass(frozen=True)
class Pattern:
    """Describe alerts that were judged no anomaly.

    Rule and place, a level, and the most that an hour may cost.
    """

    rule: str
    scope: Labels
    unit: str = ""
    low: float | None = None
    high: float | None = None
    """The level, in the anomaly's unit, ends included; None = any."""
    usd_per_hour: Decimal | None = None
    """An alert that costs more an hour is notified again; None = its cost is unknown."""


@dataclass(frozen=True)
class Silence(SignedBy):
    """Mute the alerts that the labels and the cause select, until a time or a dollar ceiling."""

    id: str
    selector: Labels
    starts: datetime
    ends: datetime
    by: str
    by_name: str = ""
    reason: str = ""
    cause: str = ""
    alert: str = ""
    """One alert's id, when only that opening is meant."""
    ceiling_usd: Decimal | None = None
    ended_at: datetime | None = None
    pattern: Pattern | None = None
    """The pattern that was judged no anomaly, muted at every opening; the id then begins with m."""
