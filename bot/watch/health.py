"""Count the ticks and their failures, for `/healthz` and `/metrics`, and find channels that cannot be reached."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from bot.errors import Refused
from bot.model.alert import Alert
from bot.model.delays import Delays
from bot.ports import Documents, DocumentStore
from bot.ports.work import Lane, LaneLoad
from bot.watch.deliver import Delivered

_METRICS = (
    ("trnbot_ticks_total", "counter", "Ticks that were run whole.", "ticks"),
    ("trnbot_tick_failures_total", "counter", "Ticks that failed.", "failures"),
    ("trnbot_ticks_missed_total", "counter", "Ticks that did not run in time.", "missed"),
    ("trnbot_tick_duration_seconds", "gauge", "Length of the last tick.", "tick_seconds"),
    ("trnbot_alerts_open", "gauge", "Alerts firing and not muted.", "open_alerts"),
    ("trnbot_waste_usd_per_hour", "gauge", "Waste of the open alerts.", "usd_per_hour"),
    ("trnbot_notices_undelivered", "gauge", "Notifications that the last tick could not deliver.", "n_undelivered"),
)
_DELAYS = (
    ("trnbot_delayed_by_limit_seconds_total", "counter", "Time that messages waited for a platform's limits.", "seconds"),
    ("trnbot_messages_waiting", "gauge", "Messages that wait for a platform's limits now.", "waiting"),
)
_LANES = (
    ("trnbot_lines_refused_total", "counter", "Lines refused: a share was used up, or too many waited.", "refused"),
    ("trnbot_lines_stopped_total", "counter", "Lines that took too long, or whose asker left.", "stopped"),
    ("trnbot_lines_waiting", "gauge", "Lines that wait for a turn now.", "waiting"),
    ("trnbot_work_seconds_total", "counter", "Time that threads worked.", "seconds"),
)


@dataclass
class Health:
    """Hold the counters of one process."""

    ticks: int = 0
    failures: int = 0
    missed: int = 0
    last_tick: datetime | None = None
    last_error: str = ""
    tick_seconds: float = 0.0
    open_alerts: int = 0
    usd_per_hour: Decimal = Decimal(0)
    undelivered: tuple[str, ...] = ()
    gaps: tuple[str, ...] = ()
    delays: Mapping[str, Delays] = field(default_factory=dict)
    """What each platform's limits hold up."""
    lanes: Mapping[Lane, LaneLoad] = field(default_factory=lambda: {lane: LaneLoad() for lane in Lane})
    """What the threads of the watch, of quick lines and of heavy ones did."""

    @property
    def n_undelivered(self) -> int:
        """Return how many notices the last tick could not deliver."""
        return len(self.undelivered)

    def ticked(self, now: datetime, seconds: float, alerts: Sequence[Alert], gaps: tuple[str, ...]) -> None:
        """Note a tick that was run whole."""
        speaking = [a for a in alerts if a.firing and not a.muted_by]
        self.ticks, self.last_tick, self.tick_seconds = self.ticks + 1, now, seconds
        self.last_error, self.gaps = "", gaps
        self.open_alerts = len(speaking)
        self.usd_per_hour = sum((a.waste.per_hour for a in speaking if a.waste), Decimal(0))

    def failed(self, sentence: str) -> None:
        """Note a tick that failed."""
        self.failures += 1
        self.last_error = sentence

    def missed_tick(self) -> None:
        """Note a tick that did not run in time."""
        self.missed += 1

    def facts(self) -> dict[str, Any]:
        """Return how the watch stands."""
        problem = self.last_error or "; ".join(self.undelivered[:1]) or "; ".join(self.gaps[:1])
        return {
            "ok": not self.last_error,
            "problem": problem,
            "ticked_at": self.last_tick,
            "ticks": self.ticks,
            "missed": self.missed,
            "failures": self.failures,
            "tick_seconds": self.tick_seconds,
            "undelivered": self.n_undelivered,
            "open_alerts": self.open_alerts,
            "usd_per_hour": self.usd_per_hour,
            **{f"delayed_by_{name}_seconds": round(held.seconds, 1) for name, held in self.delays.items()},
            **{f"waiting_for_{name}": held.waiting for name, held in self.delays.items()},
        }

    def exposition(self) -> str:
        """Return the counters in Prometheus's text format."""
        lines = []
        for name, kind, meaning, attribute in _METRICS:
            lines += [f"# HELP {name} {meaning}", f"# TYPE {name} {kind}", f"{name} {getattr(self, attribute)}"]
        for name, kind, meaning, attribute in _DELAYS:
            samples = [f'{name}{{platform="{platform}"}} {getattr(held, attribute)}' for platform, held in self.delays.items()]
            lines += [f"# HELP {name} {meaning}", f"# TYPE {name} {kind}", *samples] if samples else []
        for name, kind, meaning, attribute in _LANES:
            samples = [f'{name}{{lane="{lane}"}} {getattr(load, attribute)}' for lane, load in self.lanes.items()]
            lines += [f"# HELP {name} {meaning}", f"# TYPE {name} {kind}", *samples]
        return "\n".join(lines) + "\n"


@dataclass(frozen=True)
class Outage:
    """State since when nothing reaches a channel, and whether a person was told."""

    since: datetime
    reported: bool = field(default=False, metadata={"stored": "told"})


OUTAGES = Documents("troubles", Outage)
PATIENCE = timedelta(minutes=15)
"""How long a platform may be away before a person is told; what only a person can mend is told at once."""
MOST = 100


async def watch_channels(
    delivered: Delivered, store: DocumentStore, now: datetime, tell: Callable[[str], Awaitable[None]]
) -> None:
    """Tell of channels that nothing reaches, each once, and of those that messages reach again."""
    if not delivered.entries and not delivered.failures:
        return
    outages = dict(await asyncio.to_thread(OUTAGES.newest, store, MOST))
    for channel, error in delivered.failures.items():
        outage = outages.get(channel, Outage(now))
        due = not outage.reported and (now - outage.since >= PATIENCE or isinstance(error, Refused))
        if channel not in outages or due:
            await asyncio.to_thread(OUTAGES.put, store, channel, replace(outage, reported=outage.reported or due))
        if due:
            await tell(f"Nothing reaches {channel}: {error}")
    for channel in {one.channel for one in delivered.entries} & outages.keys():
        await asyncio.to_thread(OUTAGES.drop, store, channel)
        if outages[channel].reported:
            await tell(f"Messages reach {channel} again.")
