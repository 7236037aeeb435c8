"""Write recordings as a metric stream delivers them, from AWS's documents alone: nothing here is shared with the simulator."""

import gzip
import json
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

START = datetime(2026, 11, 2, tzinfo=UTC)
PERIOD = 5
SCRAPES = PERIOD
Record = dict[str, Any]


@dataclass(frozen=True)
class Sample:
    """Say what a node does at a minute; latency None while nothing executes, memory as a share of the devices'."""

    util: float
    memory: float
    cpu: float
    latency: float | None
    efa: float


Play = Callable[[int, int], Sample | None]
"""(node, minute) -> what it does; None = nothing is read of it."""


def works(node: int, minute: int, level: float = 88.0) -> Sample:
    """Train: a steady level with a little wave, a checkpoint each 45 minutes."""
    wave = 1.5 * math.sin(minute / 7 + node) + math.sin(minute / 3.1)
    pause = 0.8 if minute % 45 < PERIOD else 1.0
    return Sample((level + wave) * pause, 0.7, 28 + wave, 1.4, 30e9 * pause)


@dataclass(frozen=True)
class Fleet:
    """A cluster of `n` nodes that play one part."""

    cluster: str
    n: int
    play: Play
    kind: str = "trn1.32xlarge"
    cores: int = 32
    memory: float = 512 * 2.0**30
    interfaces: int = 8
    neuron: bool = True
    tags: dict[str, str] = field(default_factory=lambda: {"team": "core"})
    region: str = "us-east-2"
    cpu: bool = True

    def ids(self) -> list[str]:
        """Return the instances' ids."""
        return [f"i-0{sum(self.cluster.encode()):05x}{n:011x}" for n in range(self.n)]


def records(fleet: Fleet, minutes: int) -> Iterator[Record]:
    """Yield statistic sets of five scrapes, by node and for the whole cluster."""
    for minute in range(0, minutes, PERIOD):
        played = [
            (name, sample)
            for n, name in enumerate(fleet.ids())
            if (sample := fleet.play(n, minute))
        ]
        for name, sample in played:
            node = {
                "ClusterName": fleet.cluster,
                "InstanceId": name,
                "NodeName": f"ip-{name}.internal",
            }
            yield from _node(fleet, minute, node, sample)
        if played and fleet.neuron:
            mean = sum(sample.util for _, sample in played) / len(played)
            yield _set(
                fleet,
                minute,
                "node_neuroncore_utilization",
                {"ClusterName": fleet.cluster},
                mean,
                fleet.cores * len(played),
            )


def _node(fleet: Fleet, minute: int, node: dict[str, str], sample: Sample) -> Iterator[Record]:
    if fleet.cpu:
        yield _set(
            fleet,
            minute,
            "CPUUtilization",
            {"InstanceId": node["InstanceId"]},
            sample.cpu,
            1,
            "AWS/EC2",
        )
    if not fleet.neuron:
        return
    held = sample.memory * fleet.memory
    yield _set(fleet, minute, "node_neuroncore_utilization", node, sample.util, fleet.cores)
    yield _set(
        fleet, minute, "node_neuroncore_memory_usage_total", node, held / fleet.cores, fleet.cores
    )
    yield _set(fleet, minute, "node_neurondevice_runtime_memory_used_bytes", node, held, 1)
    yield _set(
        fleet, minute, "node_efa_tx_bytes", node, sample.efa / fleet.interfaces, fleet.interfaces
    )
    if sample.latency is not None:
        yield _set(fleet, minute, "node_neuron_execution_latency", node, sample.latency, 1)


def _set(
    fleet: Fleet,
    minute: int,
    metric: str,
    dimensions: dict[str, str],
    mean: float,
    things: int,
    space: str = "ContainerInsights",
) -> Record:
    count = SCRAPES * things
    return {
        "metric_stream_name": "trn",
        "account_id": "111122223333",
        "region": fleet.region,
        "namespace": space,
        "metric_name": metric,
        "dimensions": dimensions,
        "timestamp": int((START + timedelta(minutes=minute)).timestamp() * 1000),
        "value": {"max": mean, "min": mean, "sum": mean * count, "count": count},
        "unit": "None",
    }


def write(
    folder: Path,
    fleets: Sequence[Fleet],
    hours: float,
    change: Callable[[list[str]], list[str]] = list,
) -> Path:
    """Write metrics and one inventory into a folder; `change` may spoil, shuffle or repeat the lines."""
    lines = [json.dumps(record) for fleet in fleets for record in records(fleet, int(hours * 60))]
    (folder / "metrics").mkdir(parents=True)
    with gzip.open(folder / "metrics" / "stream.jsonl.gz", "wt", compresslevel=1) as file:
        file.write("\n".join(change(lines)) + "\n")
    for region in {fleet.region for fleet in fleets}:
        place = folder / "api" / "ec2" / "describe_instances" / region
        place.mkdir(parents=True)
        listed = [_reservation(fleet) for fleet in fleets if fleet.region == region]
        (place / f"{START:%Y%m%dT%H%M%SZ}.json").write_text(json.dumps({"Reservations": listed}))
    return folder


def _reservation(fleet: Fleet) -> Record:
    tags = {"eks:cluster-name": fleet.cluster, **fleet.tags}
    return {
        "ReservationId": "r-0123456789abcdef0",
        "OwnerId": "111122223333",
        "Groups": [],
        "Instances": [
            {
                "InstanceId": name,
                "InstanceType": fleet.kind,
                "LaunchTime": "2026-10-20T00:00:00Z",
                "State": {"Code": 16, "Name": "running"},
                "Placement": {"AvailabilityZone": fleet.region + "a", "Tenancy": "default"},
                "PrivateDnsName": f"ip-{name}.internal",
                "Tags": [{"Key": key, "Value": value} for key, value in tags.items()],
            }
            for name in fleet.ids()
        ],
    }
