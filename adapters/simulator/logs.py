"""Write what Neuron's compiler would log, as CloudWatch Logs hands it out: `logs/CLUSTER.jsonl.gz`, an event a line."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Sequence
from datetime import timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from adapters.simulator.fleet import Fleet, Node
from adapters.simulator.telemetry import Crew

_CALL = "INFO ||NEURON_CC_WRAPPER||: Call compiler with cmd: neuronx-cc compile --framework=XLA model.{module}.hlo_module.pb"
_DONE = "INFO ||NEURON_CC_WRAPPER||: Compilation Successfully Completed for model.{module}.hlo_module.pb"
_LATE_SECONDS = 20
"""How long after its time an event is ingested."""


def write_logs(folder: Path, crews: Sequence[Crew], fleet: Fleet) -> int:
    """Write an event for each begin of a compile and for each end that was not cut off; return how many."""
    by_cluster: dict[str, list[dict[str, Any]]] = {}
    for crew in crews:
        for event in _events(crew, fleet):
            by_cluster.setdefault(crew.cluster, []).append(event)
    for cluster, events in by_cluster.items():
        path = folder / "logs" / f"{cluster}.jsonl.gz"
        path.parent.mkdir(parents=True, exist_ok=True)
        events.sort(key=lambda x: (x["timestamp"], x["eventId"]))
        path.write_bytes(gzip.compress("".join(json.dumps(x) + "\n" for x in events).encode(), mtime=0))
    return sum(map(len, by_cluster.values()))


def _events(crew: Crew, fleet: Fleet) -> Iterator[dict[str, Any]]:
    compiling = crew.signals.compiling
    for row, node in enumerate(crew.nodes):
        edges = np.flatnonzero(np.diff(np.concatenate(([0], compiling[row] > 0, [0])).astype(np.int8)))
        for begin, end in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True):
            module = f"MODULE_{int(sha256(f'{node.job.name} {begin}'.encode()).hexdigest()[:14], 16)}+d41d8cd9"
            yield _event(node, begin, _CALL.format(module=module), fleet)
            if end < fleet.minutes and compiling[row, begin] == 1:
                yield _event(node, end, _DONE.format(module=module), fleet)


def _event(node: Node, minute: int, line: str, fleet: Fleet) -> dict[str, Any]:
    at = fleet.at(minute) + timedelta(seconds=node.row % 30)
    ms = int(at.timestamp() * 1000)
    stream = f"{node.name}-application.var.log.containers.{node.job.name}-{node.row}_default_train-{node.id[2:]}.log"
    name = sha256(f"{stream} {ms} {line}".encode()).hexdigest()[:56]
    text = f"{at:%Y-%m-%d %H:%M:%S}.000297:  27  {line}"
    late = ms + _LATE_SECONDS * 1000
    return {"logStreamName": stream, "timestamp": ms, "message": text, "ingestionTime": late, "eventId": name}
