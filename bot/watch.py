"""Look at one tick: read -> detect -> step. The live watch, the backtest and the preview all run this."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from bot.alerts.step import Outcome, step
from bot.costs.pricing import choose
from bot.model.anomaly import Detection
from bot.model.fleet import Instance, Market
from bot.model.memory import Changes, Memory
from bot.model.price import Price
from bot.model.reading import Reading
from bot.ports import Ports

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
        firing = {alert.id for alert in self.outcome.alerts if alert.firing}
        untold = [s for s in self.memory.said if not s.message and not s.over and not firing & set(s.alerts)]
        return Changes(alerts=changed, said=[replace(s, over=True) for s in untold])


class Pricing:
    """Price the hours of instances, remembering each answer for a UTC day."""

    def __init__(self, ports: Ports) -> None:
        self._ports = ports
        self._known: dict[tuple[str, str, Market], Price | None] = {}
        self._rates: Sequence[Price] = ()
        self._day: datetime | None = None

    def at(self, now: datetime) -> Pricing:
        """Return itself, ready for prices of `now`: what was remembered of another day is forgotten."""
        day = now.replace(hour=0, minute=0, second=0, microsecond=0)
        if day != self._day:
            self._day, self._known = day, {}
            self._rates = self._ports.billing.rates(now)
        self._now = now
        return self

    def __call__(self, instance: Instance) -> Price | None:
        """Return the price of one hour of the instance, None when nobody knows one."""
        labels = instance.labels
        key = (labels.instance_type, labels.region, instance.market)
        if key not in self._known:
            self._known[key] = choose(self.quotes(labels.instance_type, labels.region), instance.market, labels.region)
        return self._known[key]

    def quotes(self, instance_type: str, region: str) -> list[Price]:
        """Return every price known for a type: the account's own, listed, offered, and of last resort."""
        own = [rate for rate in self._rates if rate.instance_type == instance_type]
        listed = self._ports.prices.quotes(instance_type, region, self._now)
        last = [price for price in self._ports.knowledge.fallback_prices() if price.instance_type == instance_type]
        return [*own, *listed, *last]


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
        return replace(reading, frames=ChainMap(dict(spend.frames), reading.frames))  # type: ignore[arg-type]

    def look(self, now: datetime) -> Look:
        """Return what the tick at `now` comes to; nothing is written or said."""
        memory = self._ports.store.load(now)
        reading = self.read(now)
        policy = self._ports.policy
        detection = self._ports.detect(reading, policy, memory.alerts)
        outcome = step(memory, reading, detection, self.pricing.at(now), policy, self._channels)
        return Look(memory, reading, detection, outcome)


def grid(start: datetime, end: datetime, interval: timedelta) -> list[datetime]:
    """Return every tick of a recording: the multiples of the interval since 1970 from `start` up to the first past `end`."""
    epoch = datetime(1970, 1, 1, tzinfo=start.tzinfo)
    first = start + (epoch - start) % interval
    last = end + (epoch - end) % interval
    return [first + i * interval for i in range((last - first) // interval + 1)]
