"""Join crews to a fleet, and show its minutes to the whole watch as CloudWatch would."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal
from types import SimpleNamespace

import numpy as np
from builder import grown
from crew import NAMES, START, STEP, TYPES, Crew

from adapters.store.memory import MemoryStore
from bot.model.fleet import Instance, Inventory, Market
from bot.model.frame import Frame
from bot.model.labels import Labels
from bot.model.price import AccountRates, Basis, Price
from bot.model.reading import Reading
from bot.model.window import Window
from bot.watch.preview import replay
from detectors import Detector
from tests.builders import ports_over


@dataclass
class Fleet:
    """Join crews, and show them to the watch."""

    crews: tuple[Crew, ...]
    period: int = 5
    runs: bool = True
    gaps: tuple[tuple[int, int], ...] = ()
    """Minutes between which the source gives nothing."""
    lag: int = 1
    watched_from: int = 0
    """The minute of the first tick: what was before is read as history, as after a restart."""

    def __post_init__(self):
        columns = [crew.columns(self.period, self.lag) for crew in self.crews]
        self.names = [k for k in columns[0] if any(np.isfinite(c[k]).any() for c in columns)]
        values = np.stack(
            [np.concatenate([c[k] for c in columns]) for k in self.names], axis=2
        ).astype(np.float32)
        for start, end in self.gaps:
            values[:, -(-start // 5) : end // 5] = np.nan
        things = tuple(crew.labels(i) for crew in self.crews for i in range(crew.nodes))
        self.frame = Frame("node", things, START, STEP, tuple(NAMES[k] for k in self.names), values)
        self.run_frame = self._run_frame() if self.runs else None
        self.inventories: dict[object, Inventory] = {}

    def _run_frame(self):
        found = [crew.run() for crew in self.crews]
        values = np.stack([np.stack([x[4::5] for x in pair], axis=1) for pair in found]).astype(
            np.float32
        )
        things = tuple(Labels(cluster=crew.cluster, job=crew.job or "run") for crew in self.crews)
        return Frame(
            "run", things, START, STEP, ("run_step_count", "run_checkpoint_age_seconds"), values
        )

    def extent(self):
        begin = START + timedelta(minutes=self.watched_from)
        return Window(begin, self.frame.window.end)

    def read(self, now):
        frames = {"node": self.frame.until(now)}
        if self.run_frame:
            frames["run"] = self.run_frame.until(now)
        return Reading(now, frames, self.inventory(now))

    def inventory(self, now):
        minute = (now - START) / timedelta(minutes=1)
        gone = frozenset(
            crew.ids[i]
            for crew in self.crews
            for i, spans in crew.ended.items()
            if any(a <= minute < b for a, b in spans)
        )
        back = {
            crew.ids[i]: b
            for crew in self.crews
            for i, spans in crew.ended.items()
            for a, b in spans
            if b <= minute
        }
        key = (gone, tuple(sorted(back.items())))
        if key not in self.inventories:
            made = {}
            for crew in self.crews:
                for i, name in enumerate(crew.ids):
                    launched = (
                        START + timedelta(minutes=back[name])
                        if name in back
                        else START - timedelta(days=30)
                    )
                    made[name] = Instance(
                        crew.labels(i), launched, "terminated" if name in gone else "running"
                    )
            self.inventories[key] = Inventory(now, made, types=TYPES)
        return self.inventories[key]

    def replay(self):
        """Run the watch from its first tick to the end; return what was seen."""
        price = [
            Price(t, Decimal(20), Market.ON_DEMAND, Basis.LISTED, "", date(2026, 9, 1), "")
            for t in TYPES
        ]
        nothing = SimpleNamespace(
            deltas=lambda now, days: Reading(now), rates=lambda now: AccountRates()
        )
        prices = SimpleNamespace(
            quotes=lambda kind, region, now: [p for p in price if p.instance_type == kind]
        )
        knowledge = SimpleNamespace(fallback_prices=tuple)
        parts = {
            "billing": nothing,
            "prices": prices,
            "knowledge": knowledge,
            "detect": Detector(grown),
            "interval": STEP,
        }
        ports = ports_over(self, MemoryStore(), **parts)
        return replay(ports, ("default",))


def spoken(seen):
    """Return the alerts that a message told of, by id."""
    said = {a.id for notice in seen.notifications for a in notice.alerts}
    return [a for a in seen.alerts.values() if a.id in said and not a.muted_by]
