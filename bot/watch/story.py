"""Follow a demonstration tick by tick.

What of its story was seen, and what a simulated person does next.

Nothing is told before the watch has seen it, and nothing is done but by lines that a person could
type.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from bot.cards.words import about
from bot.model.alert import Alert
from bot.model.anomaly import NodeState
from bot.model.causes import Cause
from bot.model.money import counted
from bot.model.request import User
from bot.model.window import rounded_duration, utc_text
from bot.ports.chat import Chapter
from bot.watch.feedback import savings
from bot.watch.tick import TickResult

DANA = User("demo:dana", "Dana (simulated)")
MEI = User("demo:mei", "Mei (simulated)")
"""The admin among the simulated people."""
TRIED = "config set compiling.grace 30m"
PATIENCE = timedelta(minutes=15)
"""How long, in recorded time, a simulated person reads before they act."""
_RAISED = {Cause.LONG_COMPILE, Cause.COLD_CACHE, Cause.KILLED_COMPILE}


@dataclass(frozen=True)
class Compiling:
    """State the nodes of a cluster that compile, or did until `ended`.

    `raised` = an alert was raised about it.
    """

    cluster: str
    nodes: int
    began: datetime
    ended: datetime | None = None
    raised: bool = False


@dataclass(frozen=True)
class Line:
    """Name a line that a simulated person types, and who."""

    by: User
    text: str


@dataclass(frozen=True)
class Seen:
    """Hold everything that was seen since the story began."""

    began: datetime
    now: datetime
    grace: timedelta = timedelta(0)
    """How long a compile may take before an alert is raised."""
    starved: Alert | None = None
    compiling: Compiling | None = None
    jump: Alert | None = None
    preview: str = ""
    """The title of the answer to what was tried."""

    def after(self, result: TickResult) -> Seen:
        """Return it with all that another tick shows."""
        alerts, compiling = result.outcome.alerts, self.compiling
        instances = result.reading.inventory.instances
        nodes = Counter(
            instances[name].labels.cluster
            for name, state in result.detection.states.items()
            if state is NodeState.COMPILING and name in instances
        )
        if compiling:
            n = nodes[compiling.cluster]
            raised = any(
                alert.cause in _RAISED and alert.anomaly.scope.cluster == compiling.cluster
                for alert in alerts
            )
            compiling = replace(
                compiling,
                raised=compiling.raised or raised,
                nodes=max(n, compiling.nodes),
                ended=compiling.ended or (None if n else result.reading.now),
            )
        else:
            # The story follows the first cluster that compiles on several nodes.
            cluster, n = next(iter(nodes.most_common(1)), ("", 0))
            if n > 1:
                compiling = Compiling(cluster, n, result.reading.now)

        return replace(
            self,
            now=result.reading.now,
            starved=self._newest(self.starved, alerts, Cause.STARVED),
            jump=self._newest(self.jump, alerts, Cause.SPEND_JUMP),
            compiling=compiling,
        )

    def _newest(self, before: Alert | None, alerts: Sequence[Alert], cause: Cause) -> Alert | None:
        """Return the alert as it is now, or the first of its cause that was raised since."""
        if before:
            return next((alert for alert in alerts if alert.id == before.id), before)
        raised = (a for a in alerts if a.cause is cause and not a.muted_by)
        return next((alert for alert in raised if alert.opened >= self.began), None)

    def next_line(self) -> Line | None:
        """Return the line that a simulated person types now, None while nobody does."""
        starved, jump = self.starved, self.jump
        unseen = starved and starved.firing and not starved.acknowledged
        if starved and unseen and self.now - starved.opened >= PATIENCE:
            return Line(DANA, f"ack {starved.id} the data loader; on it")
        if jump and not self.preview and self.now - jump.opened >= PATIENCE:
            return Line(MEI, f"share {TRIED}")
        return None

    def chapters(self) -> tuple[Chapter, ...]:
        """Return every chapter, those that were not seen yet without words."""
        alert, jump, compiling = self.starved, self.jump, self.compiling
        starved = acknowledged = saved = compiled = jumped = tried = ""
        page = f"/alert/{alert.id}" if alert else ""
        if alert:
            dear = f", {about(alert.waste.per_hour)} an hour" if alert.waste else ""
            onset, opened = (
                utc_text(t, self.now) for t in (alert.anomaly.window.start, alert.opened)
            )
            nodes = f"{counted(alert.things_at_peak, 'node')} of {alert.anomaly.scope.cluster}"
            starved = f"{nodes} have waited for data since {onset}{dear}. Alert sent at {opened}."
        if ack := alert.acknowledged if alert else None:
            acknowledged = f"{ack.who} acknowledged it at {utc_text(ack.at, self.now)}."

        if alert and alert.ended:
            saved = f"It ended at {utc_text(alert.ended, self.now)}."
            for saving in savings([alert], set(alert.anomaly.things), self.now):
                so_far = f", {about(saving.usd_so_far)} saved since" if saving.usd_so_far else ""
                saved += f" {about(saving.usd_per_hour)} an hour stopped{so_far}."

        if compiling:
            nodes, grace = counted(compiling.nodes, "node"), rounded_duration(self.grace)
            began = utc_text(compiling.began, self.now)
            compiled = f"{nodes} of {compiling.cluster} have been compiling since {began}"
            if compiling.ended:
                until = utc_text(compiling.ended, self.now)
                compiled = f"{nodes} of {compiling.cluster} compiled from {began} to {until}"
            if compiling.raised:
                compiled += f"; it outlasted its grace of {grace}, so an alert was raised."
            else:
                compiled += f". That is within its grace of {grace}: no alert was sent."

        if jump:
            jumped = f"{jump.anomaly.why} Alert sent at {utc_text(jump.opened, self.now)}."
        if self.preview:
            tried = (
                f"{MEI.name} typed “{TRIED}”. {self.preview}."
                " Nothing changes before somebody applies it."
            )
        return (
            Chapter("64 nodes starve", starved, page),
            Chapter("Somebody takes it", acknowledged, page),
            Chapter("It ends, and money is saved", saved, "/saved"),
            Chapter("A compile that raises no alert", compiled, "/fleet"),
            Chapter("The bill jumps", jumped, f"/alert/{jump.id}" if jump else ""),
            Chapter("A setting, tried first", tried, "/"),
        )


NOTHING_SEEN = Seen(datetime.max.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC))
