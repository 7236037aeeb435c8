"""Look at one tick: read -> detect -> step. The live watch, the backtest and the preview all run this."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from bot.alerts.news import too_late
from bot.alerts.step import Outcome, step
from bot.model.anomaly import Detection
from bot.model.memory import Changes, Memory
from bot.model.reading import Reading
from bot.model.route import Routes
from bot.ports import Ports
from bot.pricing import Pricing
from bot.routes import routes_now

SPEND_DAYS = 45
"""Days of the bill that a tick may compare with: six weeks give every weekday six times."""


@dataclass(frozen=True)
class Look:
    """Hold one tick: what was remembered, read, found, and what it came to."""

    memory: Memory
    reading: Reading
    detection: Detection
    outcome: Outcome

    def changes(self) -> Changes:
        """Return what to write before anything is said: alerts, and messages that became pointless untold."""
        before = {alert.id: alert for alert in self.memory.alerts}
        changed = [alert for alert in self.outcome.alerts if before.get(alert.id) != alert]
        known = {**before, **{alert.id: alert for alert in self.outcome.alerts}}
        about = {s.id: [known[name] for name in s.alerts if name in known] for s in self.memory.said}
        untold = [s for s in self.memory.said if not s.message and not s.over and too_late(about[s.id], self.reading.now)]
        return Changes(alerts=changed, said=[replace(s, over=True) for s in untold])


class Watch:
    """Watch one source for some channels."""

    def __init__(self, ports: Ports, channels: Sequence[str]) -> None:
        self._ports = ports
        self._channels = tuple(channels)
        self.pricing = Pricing(ports)

    def read(self, now: datetime) -> Reading:
        """Return the metrics, the inventory and the bill as visible at `now`."""
        reading = self._ports.source.read(now)
        spend = self._ports.billing.deltas(now, SPEND_DAYS)
        outlook = self._ports.outlook
        return replace(
            reading,
            frames=ChainMap(dict(spend.frames), reading.frames),  # type: ignore[arg-type]
            commitments=tuple(outlook.commitments(now)),
            findings=tuple(outlook.findings(now)),
        )

    def routes(self) -> Routes:
        """Return who hears what, subscriptions included."""
        return routes_now(self._ports.routes, self._ports.shelf)

    def look(self, now: datetime) -> Look:
        """Return what the tick at `now` comes to; nothing is written or said."""
        memory = self._ports.store.load(now)
        reading = self.read(now)
        policy = self._ports.policy
        detection = self._ports.detect(reading, policy, memory.alerts)
        outcome = step(memory, reading, detection, self.pricing.at(now), policy, self._channels, self.routes())
        return Look(memory, reading, detection, outcome)


def grid(start: datetime, end: datetime, interval: timedelta) -> list[datetime]:
    """Return every tick of a recording: the multiples of the interval since 1970 from `start` up to the first past `end`."""
    epoch = datetime(1970, 1, 1, tzinfo=start.tzinfo)
    first = start + (epoch - start) % interval
    last = end + (epoch - end) % interval
    return [first + i * interval for i in range((last - first) // interval + 1)]
