"""Answer how long jobs waited for nodes: pods without a place, and launches that were refused."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

import numpy as np

from bot.cards.card import Button, Buttons, Card, Tone, compose, quiet, text
from bot.cards.columns import COUNT, DURATION, HOURS, Column, Columns, datum
from bot.cards.words import as_read, period
from bot.errors import WrongInput
from bot.grammar.names import refuse_unseen
from bot.grammar.registry import Needs, Topic, arg, command
from bot.model.fleet import Scarcity, scarcities
from bot.model.frame import Frame, runs_of
from bot.model.money import counted
from bot.model.request import Request
from bot.model.window import Window, clock, duration_text
from bot.ports import Ports

PENDING = "pods_pending_count"
_HOUR = timedelta(hours=1)


@dataclass(frozen=True)
class Queue:
    """State how long pods of a cluster waited for a place, as far as it was read."""

    cluster: str
    waits: tuple[Window, ...]
    """The times in which a pod waited at one reading and at the next."""
    pod_hours: float
    most: int
    """The most pods that waited at once."""
    pending: int
    """The pods that wait at the newest reading."""
    read: timedelta

    @property
    def waited(self) -> timedelta:
        """Return the length of all waits together."""
        return sum((wait.length for wait in self.waits), timedelta())

    @property
    def longest(self) -> timedelta:
        """Return the length of the longest wait."""
        return max((wait.length for wait in self.waits), default=timedelta())


def queues_of(frame: Frame, window: Window) -> list[Queue]:
    """Return the queue of each cluster whose pods are read, those that waited longest first.

    A pod that waits at a single reading is starting, and counts as no wait.
    """
    cut = frame.until(window.end).since(window.start)
    pods = np.nan_to_num(cut.of(PENDING))
    read = ~np.isnan(cut.of(PENDING))
    queues = []
    for row in np.flatnonzero(read.any(axis=1)).tolist():
        waiting = np.zeros_like(read[row])
        runs = zip(*runs_of(pods[[row]] >= 0.5), strict=True)
        spans = [(first, last) for _, first, last in runs if last - first > 1]
        for first, last in spans:
            waiting[first:last] = True
        newest = int(np.flatnonzero(read[row])[-1])
        queues.append(
            Queue(
                cut.things[row].cluster,
                tuple(
                    Window(cut.start + first * cut.step, cut.start + last * cut.step)
                    for first, last in spans
                ),
                float(pods[row, waiting].sum()) * (cut.step / _HOUR),
                round(float(pods[row, waiting].max(initial=0.0))),
                round(float(pods[row, newest])) if waiting[newest] else 0,
                int(read[row].sum()) * cut.step,
            )
        )

    return sorted(queues, key=lambda x: (-x.waited, x.cluster))


_QUEUES = Columns[Queue](
    Column("cluster", lambda x: x.cluster, key="cluster"),
    Column(
        "waited", lambda x: x.waited, DURATION, "waited_seconds", "sum of the lengths of its waits"
    ),
    Column("longest", lambda x: x.longest, DURATION, "longest_seconds", "its longest wait"),
    Column(
        "pod-hours",
        lambda x: x.pod_hours,
        HOURS,
        "pod_hours",
        "sum over its waits of pods waiting x hours",
    ),
    Column("at once", lambda x: x.most, COUNT, "most_pods", "most pods that waited at one reading"),
    Column("now", lambda x: x.pending, COUNT, "pending_pods", "pods waiting at the newest reading"),
    datum("waits", lambda x: list(x.waits)),
    datum("read_seconds", lambda x: x.read, "readings x their step", DURATION),
)
_REFUSED = Columns[Scarcity](
    Column("type", lambda x: x.instance_type, key="instance_type"),
    Column("zone", lambda x: x.zone, key="zone"),
    Column("refused", lambda x: x.refused, COUNT, "refused", "count of refused launches"),
    Column("on spot", lambda x: x.spot, COUNT, "of_them_spot", "count of those on spot"),
    Column("first", lambda x: clock(x.first)),
    Column("last", lambda x: clock(x.newest)),
    datum("first", lambda x: x.first),
    datum("newest", lambda x: x.newest),
)


def queue_card(queues: Sequence[Queue], refused: Sequence[Scarcity] | None, window: Window) -> Card:
    """Draw the queues and the refusals; `refused` is None where nobody asked for them."""
    waited = sum((x.waited for x in queues), timedelta())
    launches = sum(x.refused for x in refused or ())
    tried = [x.instance_type for x in refused or () if x.instance_type][:1]
    read = duration_text(max((x.read for x in queues), default=timedelta()))

    # What is not read is neither zero nor said to be.
    parts = [f"pods waited {duration_text(waited)}" if waited else "no pod waited"] * bool(queues)
    if refused is not None:
        parts.append(
            f"{counted(launches, 'launch', 'launches') if launches else 'no launch'} refused"
        )
    title = "; ".join(parts) or "no data on how long jobs waited"
    title = f"{title[0].upper()}{title[1:]} in {period(window)}"

    return Card(
        title,
        Tone.WARNING if any(x.pending for x in queues) else Tone.INFO,
        compose(
            _QUEUES.table(queues) if queues else None,
            _REFUSED.table(refused, caption="Refused for lack of capacity, whichever cluster asked")
            if refused
            else None,
            not queues
            and text(
                "No cluster reports how long its pods waited. Container Insights with enhanced "
                "observability publishes it as pod_status_pending; Slurm's queue is not read."
            ),
            refused is None
            and quiet(
                "Refused launches are not read: CloudTrail lists them (docs/aws-reference.md)."
            ),
            bool(queues)
            and quiet(
                f"The readings reach back {read}. Pods of every kind count, those that need no"
                " accelerator too. A wait counts from two readings on: at a single one, a pod is"
                " only starting."
            ),
            [Buttons((Button("Ways to capacity", f"capacity {name}"),)) for name in tried],
        ),
        {
            "window": window,
            "waited_seconds": waited.total_seconds(),
            "clusters": _QUEUES.data(queues),
            "refused": None if refused is None else _REFUSED.data(refused),
        },
    )


@command(
    "queue",
    "How long jobs waited for nodes: pods without a place by cluster, and refused launches.",
    needs=Needs.METRICS,
    topic=Topic.COSTS,
    examples=("queue", "queue 14d", "queue 7d cluster=llama"),
    rows=("clusters",),
    figures={
        "waited_seconds": "sum over the clusters",
        **_QUEUES.sources("clusters"),
        **_REFUSED.sources("refused"),
    },
)
def queue(
    ports: Ports,
    request: Request,
    window: Window = arg("7d", "which days"),
    cluster: str = arg("", "only this cluster", keyword=True),
) -> Card:
    """Count hours, not dollars: what people cost who wait is nobody's reading."""
    if window.start >= request.at:
        raise WrongInput("The window is in the future; write one that has begun.")
    reading = ports.world.source.read(request.at)
    refuse_unseen(cluster, reading)
    frame = reading.frame("cluster")
    queues = queues_of(frame, window) if frame else []
    refusals = reading.refusals
    refused = None if refusals is None else scarcities(x for x in refusals if x.at in window)
    card = queue_card([x for x in queues if cluster in ("", x.cluster)], refused, window)

    return as_read(card, "It is not known how long jobs waited", reading)
