"""Build small fleets with behaviours, as a source would show them."""

from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta

import numpy as np

from bot.model.alert import Alert
from bot.model.fleet import Instance, InstanceType, Inventory
from bot.model.frame import Frame
from bot.model.labels import Labels
from bot.model.reading import NODE_METRICS, Reading
from bot.policy.schema import default_policy
from detectors import Detector
from detectors.forest import Forest, fit

START = datetime(2026, 11, 2, tzinfo=UTC)
STEP = timedelta(minutes=5)
HBM = 512 * 2.0**30
TRN1 = InstanceType(
    "trn1.32xlarge",
    "trn1",
    "Trainium",
    16,
    32,
    512,
    512,
    128,
    800,
    3040,
    3040,
    "test",
    date(2026, 11, 1),
)
NAMES = tuple(NODE_METRICS)


@dataclass
class Fleet:
    """Nodes of one cluster that train well; behaviours bend what they show from one time to another."""

    nodes: int = 4
    days: float = 2.0
    cluster: str = "llama"
    instance_type: str = "trn1.32xlarge"
    job: str = ""
    team: str = ""
    zones: tuple[str, ...] = ("",)
    step: timedelta = STEP
    seed: int = 1
    metrics: dict[str, np.ndarray] = field(default_factory=dict)
    ended: dict[int, datetime] = field(default_factory=dict)
    launched: dict[int, datetime] = field(default_factory=dict)
    owners: dict[int, str] = field(default_factory=dict)
    names: dict[int, str] = field(default_factory=dict)

    def __post_init__(self):
        rng = np.random.default_rng(self.seed)
        shape = (self.nodes, int(timedelta(days=self.days) / self.step))
        noise = lambda size: rng.normal(0, size, shape)  # noqa: E731
        self.metrics = {name: np.full(shape, np.nan) for name in NAMES} | {
            "neuroncore_utilization_ratio": 0.9 + noise(0.015),
            "neuroncore_memory_used_bytes": HBM * (0.78 + noise(0.002)),
            "neuron_runtime_memory_used_bytes": HBM * (0.78 + noise(0.002)),
            "neuron_execution_errors_count": np.zeros(shape),
            "neuron_hardware_ecc_events_count": np.zeros(shape),
            "neuron_execution_latency_seconds": 0.7 * (1 + noise(0.02)),
            "efa_tx_bytes_per_second": 3.2e10 * (1 + noise(0.03)),
            "efa_rx_bytes_per_second": 3.2e10 * (1 + noise(0.03)),
            "host_cpu_utilization_ratio": 0.11 + noise(0.01),
            "host_memory_utilization_ratio": 0.41 + noise(0.004),
            "network_in_bytes_per_second": 1.8e8 * (1 + noise(0.05)),
            "network_out_bytes_per_second": 3e5 * (1 + noise(0.05)),
            "status_check_failed_count": np.zeros(shape),
        }

        self.ids = [f"i-{self.cluster}{i:03d}" for i in range(self.nodes)]

    def cut(self, start, end, nodes=slice(None)):
        """Return the index of some nodes from `start` to `end` (times)."""
        return nodes, slice(round((start - START) / self.step), round((end - START) / self.step))

    def set(self, start, end, nodes=slice(None), **values):
        """Write values; a name is the beginning of a metric's name."""
        at = self.cut(start, end, nodes)
        for prefix, value in values.items():
            for name in NAMES:
                if name.startswith(prefix):
                    self.metrics[name][at] = value
        return self

    def scale(self, start, end, nodes=slice(None), **factors):
        at = self.cut(start, end, nodes)
        for prefix, factor in factors.items():
            for name in NAMES:
                if name.startswith(prefix):
                    self.metrics[name][at] *= factor
        return self

    def stop(self, start, end, nodes=slice(None), **more):
        """No runtime, no work."""
        quiet = {"neuroncore_utilization": 0, "neuroncore_memory": 0, "neuron_runtime_memory": 0}
        quiet |= {"neuron_execution_latency": np.nan, "efa": 0, "host_cpu": 0.02, "network_in": 2e5}
        return self.set(start, end, nodes, **(quiet | more))

    def starve(self, start, end, nodes=slice(None), share=0.22, **more):
        self.scale(start, end, nodes, neuroncore_utilization=share, efa=share, network_in=share)
        return self.set(start, end, nodes, **({"host_cpu": 0.96} | more))

    def silence(self, start, end, nodes=slice(None)):
        at = self.cut(start, end, nodes)
        for array in self.metrics.values():
            array[at] = np.nan
        return self

    def labels(self, i):
        zone = self.zones[i % len(self.zones)]
        return Labels(
            cluster=self.cluster,
            instance=self.ids[i],
            instance_type=self.instance_type,
            region="us-west-2",
            zone=zone,
            job=self.job,
            team=self.team,
        )

    def frame(self):
        values = np.stack([self.metrics[name] for name in NAMES], axis=2).astype(np.float32)
        return Frame(
            "node",
            tuple(self.labels(i) for i in range(self.nodes)),
            START,
            self.step,
            NAMES,
            values,
        )

    def instances(self, now):
        long_ago = START - timedelta(days=30)
        return {
            self.ids[i]: Instance(
                self.labels(i),
                self.launched.get(i, long_ago),
                "running"
                if now < self.ended.get(i, datetime.max.replace(tzinfo=UTC))
                else "terminated",
                ended_at=self.ended[i] if i in self.ended and now >= self.ended[i] else None,
                owner=self.owners.get(i, ""),
                tags={"Name": self.names[i]} if i in self.names else {},
            )
            for i in range(self.nodes)
            if self.launched.get(i, long_ago) <= now
        }


def join(*frames):
    """Lay the frames of several fleets over each other."""
    return replace(
        frames[0],
        things=tuple(x for f in frames for x in f.things),
        values=np.concatenate([f.values for f in frames]),
    )


_FORESTS: dict[tuple[bytes, int], Forest] = {}


def grown(rows: np.ndarray, seed: int = 0) -> Forest:
    """Return the forest of some rows, grown once: most fleets here begin alike."""
    key = rows.tobytes(), seed
    if key not in _FORESTS:
        _FORESTS[key] = fit(rows, seed)
    return _FORESTS[key]


class World:
    """Read fleets at a time, and tick over them as the watch does, with alerts that live and end."""

    def __init__(self, *fleets, policy=None, **more):
        self.fleets, self.more = fleets, more
        self.whole = join(*(f.frame() for f in fleets)) if fleets else None
        self.policy = policy or default_policy()
        self.detector = Detector(grown)
        self.known = []
        self._inventories = {}

    def inventory(self, now):
        key = tuple(
            (f.cluster, at <= now)
            for f in self.fleets
            for at in (*f.ended.values(), *f.launched.values())
        )
        if key in self._inventories:
            return self._inventories[key]
        instances = {k: v for f in self.fleets for k, v in f.instances(now).items()}
        self._inventories[key] = Inventory(
            now, instances, types={"trn1.32xlarge": TRN1}, **self.more.get("inventory", {})
        )
        return self._inventories[key]

    def reading(self, now):
        frames = {k: f.until(now) for k, f in self.more.get("frames", {}).items()}
        if self.whole is not None:
            frames["node"] = self.whole.until(now)
        return Reading(
            now,
            frames,
            self.inventory(now),
            gaps=self.more.get("gaps", ()),
            unread=frozenset(self.more.get("unread", ())),
        )

    def view(self, now):
        return self.detector.view(self.reading(now), self.policy, self.known)

    def at(self, now):
        return self.detector(self.reading(now), self.policy, self.known)

    def ticks(self, start, end, step=STEP):
        """Yield (now, detection) and follow alerts: open while seen, closed 15 minutes after."""
        now = start
        while now <= end:
            detection = self.at(now)
            self.follow(detection, now)
            yield now, detection
            now += step

    def follow(self, detection, now):
        found = {a.key: a for a in detection.anomalies}
        kept = []
        for alert in self.known:
            seen = found.pop(alert.key, None) if alert.firing else None
            if seen:
                kept.append(replace(alert, anomaly=seen, seen=now))
            elif alert.firing and now - alert.seen >= timedelta(minutes=15):
                kept.append(replace(alert, closed=now))
            else:
                kept.append(alert)
        self.known = kept + [Alert(f"{a.key}@{now:%d%H%M}", a, now, now) for a in found.values()]

    def run(self, start, end, step=STEP):
        """Return every alert that was opened."""
        for _ in self.ticks(start, end, step):
            pass
        return self.known


def hours(h):
    """Return the time `h` hours after the start."""
    return START + timedelta(hours=h)


def only(detection):
    """Return the one anomaly there is."""
    assert len(detection.anomalies) == 1, [(a.rule, a.why) for a in detection.anomalies]
    return detection.anomalies[0]
