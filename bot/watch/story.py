"""Follow a demonstration tick by tick.

What of its story was seen, and what a simulated person does next.

Nothing is told before the watch has seen it, and nothing is done but by lines that a person could
type.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from bot.cards.words import about, since
from bot.model.alert import Alert
from bot.model.anomaly import NodeState
from bot.model.causes import Cause
from bot.model.money import counted
from bot.model.request import User
from bot.model.window import rounded_duration
from bot.ports.chat import Chapter
from bot.watch.feedback import savings
from bot.watch.tick import TickResult

DANA = User("demo:dana", "Dana (simulated)")
MEI = User("demo:mei", "Mei (simulated)")
"""The admin among the simulated people."""
TRIED = "config set compiling.grace 30m"
PATIENCE = timedelta(minutes=15)
"""How long, in recorded time, a simulated person reads before they act."""
_TOLD = {Cause.LONG_COMPILE, Cause.COLD_CACHE, Cause.KILLED_COMPILE}


@dataclass(frozen=True)
class Compiling:
    """State the nodes of a cluster that compile, or did until `ended`, and whether an alert told of it."""

    cluster: str
    nodes: int
    began: datetime
    ended: datetime | None = None
    told: bool = False


@dataclass(frozen=True)
class Line:
    """Name what a simulated person types, and who."""

    by: User
    text: str


@dataclass(frozen=True)
class Seen:
    """Hold what was seen since the story began."""

    began: datetime
    now: datetime
    grace: timedelta = timedelta(0)
    """How long a compile may take before it is told."""
    starved: Alert | None = None
    compiling: Compiling | None = None
    jump: Alert | None = None
    preview: str = ""
    """The title of the answer to what was tried."""

    def after(self, result: TickResult) -> Seen:
        """Return it with all that another tick shows."""
        now, alerts = result.reading.now, result.outcome.alerts
        return replace(
            self,
            now=now,
            starved=self._newest(self.starved, alerts, Cause.STARVED),
            jump=self._newest(self.jump, alerts, Cause.SPEND_JUMP),
            compiling=self._compiling(result),
        )

    def _newest(self, known: Alert | None, alerts: tuple[Alert, ...], cause: Cause) -> Alert | None:
        if known:
            return next((one for one in alerts if one.id == known.id), known)
        return next(
            (
                one
                for one in alerts
                if one.cause is cause and one.opened >= self.began and not one.muted_by
            ),
            None,
        )

    def _compiling(self, result: TickResult) -> Compiling | None:
        now, instances = result.reading.now, result.reading.inventory.instances
        nodes = Counter(
            instances[name].labels.cluster
            for name, state in result.detection.states.items()
            if state is NodeState.COMPILING and name in instances
        )
        if self.compiling is None:
            cluster, n = next(iter(nodes.most_common(1)), ("", 0))
            return Compiling(cluster, n, now) if n > 1 else None
        seen = self.compiling
        told = seen.told or any(
            one.cause in _TOLD and one.anomaly.scope.cluster == seen.cluster
            for one in result.outcome.alerts
        )
        n = nodes[seen.cluster]
        return replace(
            seen, told=told, nodes=max(n, seen.nodes), ended=seen.ended or (None if n else now)
        )

    def next_line(self) -> Line | None:
        """Return the line that a simulated person types now, None while nobody does."""
        starved, jump = self.starved, self.jump
        if (
            starved
            and starved.firing
            and not starved.acknowledged
            and self.now - starved.opened >= PATIENCE
        ):
            return Line(DANA, f"ack {starved.id} the data loader; on it")
        if jump and not self.preview and self.now - jump.opened >= PATIENCE:
            return Line(MEI, f"share {TRIED}")
        return None

    def chapters(self) -> tuple[Chapter, ...]:
        """Return every chapter, those that were not seen yet without words."""
        return (
            Chapter("64 nodes starve", self._starved(), _page(self.starved)),
            Chapter("Somebody takes it", self._taken(), _page(self.starved)),
            Chapter("It ends, and money is saved", self._saved(), "/saved"),
            Chapter("A compile, not told", self._compiled(), "/fleet"),
            Chapter("The bill jumps", self._jumped(), _page(self.jump)),
            Chapter("A setting, tried first", self._tried(), "/"),
        )

    def _starved(self) -> str:
        alert = self.starved
        if not alert:
            return ""
        dear = f", {about(alert.waste.per_hour)} an hour" if alert.waste else ""
        onset, told = (since(at, self.now) for at in (alert.anomaly.window.start, alert.opened))
        nodes = f"{counted(alert.things_at_peak, 'node')} of {alert.anomaly.scope.cluster}"
        return f"{nodes} wait for data since {onset}{dear}. Told at {told}."

    def _taken(self) -> str:
        ack = self.starved.acknowledged if self.starved else None
        return f"{ack.who} acknowledged it at {since(ack.at, self.now)}." if ack else ""

    def _saved(self) -> str:
        alert = self.starved
        if not alert or not alert.ended:
            return ""
        ended = f"It ended at {since(alert.ended, self.now)}."
        for saving in savings([alert], set(alert.anomaly.things), self.now):
            since_then = f", {about(saving.usd_so_far)} not lost since" if saving.usd_so_far else ""
            return f"{ended} {about(saving.usd_per_hour)} an hour stopped{since_then}."
        return ended

    def _compiled(self) -> str:
        seen = self.compiling
        if not seen:
            return ""
        nodes = f"{counted(seen.nodes, 'node')} of {seen.cluster}"
        first = since(seen.began, self.now)
        did = (
            f"compiled, seen from {first} to {since(seen.ended, self.now)}"
            if seen.ended
            else f"compile, seen since {first}"
        )
        if seen.told:
            return f"{nodes} {did}; it took longer than its grace of {rounded_duration(self.grace)}, and was told."
        within = f"Within the grace of {rounded_duration(self.grace)} that is work"
        return f"{nodes} {did}. {within}: no alert was sent."

    def _jumped(self) -> str:
        return (
            f"{self.jump.anomaly.why} Told at {since(self.jump.opened, self.now)}."
            if self.jump
            else ""
        )

    def _tried(self) -> str:
        return (
            f"{MEI.name} typed “{TRIED}”. {self.preview}. Nothing changes before somebody applies it."
            if self.preview
            else ""
        )


NOTHING_SEEN = Seen(datetime.max.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC))


def _page(alert: Alert | None) -> str:
    return f"/alert/{alert.id}" if alert else ""
