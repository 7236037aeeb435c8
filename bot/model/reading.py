"""Hold everything one tick may know.

Find in it scattered jobs, unused storage and used throughput.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cached_property
from itertools import compress
from operator import attrgetter

import numpy as np

from bot.model.anomaly import Detection
from bot.model.codec import by_key
from bot.model.fleet import FileSystem, Instance, Inventory, Notice, Refusal, Volume
from bot.model.frame import Floats, Frame, Mask
from bot.model.labels import Labels
from bot.model.money import counted
from bot.model.notification import Coverage, Known
from bot.model.run import Claim, CompileMark, Run, claims_of
from bot.model.spend import Commitment, Finding
from bot.model.window import Window

HISTORY = timedelta(days=15)
"""How far back the frames of a reading reach."""
_ROUNDED = timedelta(days=2)
"""More than a frame's step and the rest of a day, by which sums of frames may begin earlier."""


def reaches(window: Window, now: datetime) -> bool:
    """Return whether a reading at `now` may tell something of the window."""
    return window.start < now and window.end > now - HISTORY - _ROUNDED


@dataclass(frozen=True)
class Gap:
    """Name metrics that could not be read this time, by account, region and cluster; "" = any."""

    sentence: str
    account: str = ""
    region: str = ""
    cluster: str = ""

    def hides(self, labels: Labels) -> bool:
        """Return whether readings of things with these labels may be missing.

        A label that is missing may be any.
        """
        pairs = (
            (self.account, labels.account),
            (self.region, labels.region),
            (self.cluster, labels.cluster),
        )
        return all(hidden == label for hidden, label in pairs if hidden and label)

    def __str__(self) -> str:
        """Return the sentence of the gap."""
        return self.sentence


@dataclass(frozen=True)
class Reading:
    """Hold the frames by kind, the inventory and the runs as they were visible at `now`.

    Kinds: `node` `core` `device` `pod` `cluster` (Container Insights, EC2), `file_system` `volume`
    (FSx, EBS), `run` (Trn/Training), `spend` (one step a UTC day) and `spend_hour` (one step an
    hour, of what is billed by the hour): things = account, service, region, usage_type and the tags
    cluster, team, project; metrics in `SPEND_METRICS`. `gaps` say what could not be read this time,
    `unread` of which instances nobody can tell now whether they report or run; `commitments` and
    `findings` are the provider's own words.
    """

    now: datetime
    frames: Mapping[str, Frame] = field(default_factory=dict)
    inventory: Inventory = field(default_factory=Inventory)
    runs: tuple[Run, ...] = ()
    gaps: tuple[Gap, ...] = ()
    commitments: tuple[Commitment, ...] = ()
    findings: tuple[Finding, ...] = ()
    unread: frozenset[str] = frozenset()
    marks: tuple[CompileMark, ...] = ()
    """Lines of compilers' logs, where logs are read; they need not be in order."""
    notices: tuple[Notice, ...] = ()
    """What the provider said of nodes that it will take away or work on, where it is heard."""
    refusals: tuple[Refusal, ...] | None = None
    """Launches that the provider refused for lack of capacity, the oldest first.

    None where nobody asked.
    """
    learning: str = ""
    """A sentence on how much of history is known, while it is being read."""
    missing: tuple[str, ...] = ()
    """Sentences on what could not be had and hides no metric: storage, prices, quotas, the bill."""
    fleet: Reading | None = None
    """The reading of the whole fleet, of which this is one process's part; None where it is whole."""

    def hidden(self, labels: Labels) -> bool:
        """Return whether a gap hides things with these labels."""
        return any(gap.hides(labels) for gap in self.gaps)

    def frame(self, kind: str) -> Frame | None:
        """Return the frame of a kind, or None."""
        # Two lookups, for "is it there" and "give it", would cost a hundred more a tick.
        try:
            return self.frames[kind]
        except KeyError:
            return None

    @cached_property
    def claims(self) -> Mapping[Labels, Claim]:
        """Return the nodes that a label, a tag or a name gives to each run, by its cluster and job."""
        frame, claims_by_runs = self.frame("run"), self.inventory.claims
        runs = frame.things if frame else ()
        claims: Mapping[Labels, Claim] | None = claims_by_runs.get(runs)
        if claims is None:
            claims = claims_of(runs, self.inventory.instances.values())
            claims_by_runs.clear()
            claims_by_runs[runs] = claims
        return claims


@dataclass(frozen=True)
class Shares:
    """State whose nodes each process looks at, at one tick, as the process that leads gave them out.

    What no process is named for is the lead's, so that each cluster always is of exactly one.
    """

    number: str
    """Tells these from all others: a report counts under the shares that it answers alone."""
    at: datetime
    lead: str
    holders: Mapping[str, str] = field(default_factory=dict)
    """The process of each cluster."""
    since: Mapping[str, datetime] = field(default_factory=dict)
    """The first tick at which that process had the cluster."""
    nodes: Mapping[str, int] = field(default_factory=dict)
    unseen: tuple[str, ...] = ()
    """Clusters whose process did not report on the tick before."""
    notices: tuple[Notice, ...] = ()
    """As the lead heard them: what one process receives is hidden from the others."""
    drill: tuple[str, ...] = ()
    """Instances that are worth reading in detail."""

    def holder(self, cluster: str) -> str:
        """Return the process that looks at the nodes of a cluster, "" for those in none."""
        return self.holders.get(cluster, self.lead)


@dataclass(frozen=True)
class Report:
    """State the findings of one process in the clusters that it was given."""

    number: str
    process: str
    detection: Detection = field(default_factory=Detection)
    """Of the states, those of things that open alerts name: nobody asks for others."""
    coverage: Coverage = field(default_factory=Coverage)
    gaps: tuple[Gap, ...] = ()
    missing: tuple[str, ...] = ()
    learning: str = ""


NODE_METRICS: Mapping[str, str] = {
    "neuroncore_utilization_ratio": "mean over the node's cores, 0..1",
    "neuroncore_utilization_highest_ratio": "highest reading of any core within the step, 0..1",
    "neuroncore_effective_flops": (
        "floating-point operations of models a second, summed over the node's cores"
    ),
    "neuroncore_memory_used_bytes": "device memory in use, summed over the node's cores",
    "neuroncore_memory_model_code_bytes": "of it model code, summed over cores",
    "neuroncore_memory_tensors_bytes": "of it tensors, summed over cores",
    "neuron_runtime_memory_used_bytes": "device memory held by runtimes; 0 = no runtime loaded",
    "neuron_runtime_loaded_ratio": (
        "1 where a runtime reported itself, 0 where the node said it has none, nan where unknown"
    ),
    "neuron_execution_errors_count": "execution errors within the step, all types",
    "neuron_execution_errors_hardware_count": "of them the runtime calls hardware",
    "neuron_execution_errors_numerical_count": "of them numerical",
    "neuron_execution_errors_transient_count": "of them transient",
    "neuron_execution_errors_model_count": "of them model",
    "neuron_execution_errors_runtime_count": "of them runtime",
    "neuron_executions_completed_count": (
        "executions completed within the step, where the source tells"
    ),
    "neuron_execution_latency_seconds": (
        "median latency of one execution; nan while nothing executes"
    ),
    "neuron_hardware_ecc_events_count": "ECC events within the step, corrected and not",
    "neuron_hardware_ecc_uncorrected_count": "of them uncorrected, where the source tells",
    "neuroncore_limit_count": "cores the node offers to pods",
    "neuroncore_reserved_count": "cores that pods have reserved",
    "efa_rx_bytes_per_second": "received over EFA",
    "efa_tx_bytes_per_second": "sent over EFA",
    "efa_rdma_read_bytes_per_second": "read by RDMA",
    "efa_rdma_write_bytes_per_second": "written by RDMA",
    "efa_rx_dropped_per_second": "packets dropped on EFA",
    "host_cpu_utilization_ratio": "CPUs of the host, 0..1",
    "host_memory_utilization_ratio": "memory of the host, 0..1",
    "network_in_bytes_per_second": "received over ENA",
    "network_out_bytes_per_second": "sent over ENA",
    "status_check_failed_count": "failed EC2 status checks within the step",
    "gpu_utilization_ratio": "mean over the node's GPUs, 0..1",
}
HARDWARE_METRICS = (
    "neuron_hardware_ecc_uncorrected_count",
    "neuron_execution_errors_hardware_count",
    "neuron_hardware_ecc_events_count",
    "status_check_failed_count",
)
"""The node metrics by which hardware tells that it is broken, the gravest first."""
FILE_SYSTEM_METRICS: Mapping[str, str] = {
    "fsx_read_bytes": "bytes read within the step",
    "fsx_write_bytes": "bytes written within the step",
    "fsx_read_operations_count": "reads within the step",
    "fsx_write_operations_count": "writes within the step",
    "fsx_metadata_operations_count": "metadata operations within the step",
    "fsx_client_connections_count": "clients connected (largest seen)",
    "fsx_free_storage_bytes": "free capacity",
}
VOLUME_METRICS: Mapping[str, str] = {
    "ebs_read_bytes": "bytes read within the step",
    "ebs_write_bytes": "bytes written within the step",
    "ebs_idle_seconds": "seconds without any request within the step",
}
CORE_METRICS: Mapping[str, str] = {
    "neuroncore_utilization_ratio": "one core, 0..1",
    "neuroncore_memory_used_bytes": "device memory in use on the core",
}
SPEND_METRIC, BILLED_METRIC = "spend_amortised_usd", "spend_billed_usd"
SPEND_METRICS: Mapping[str, str] = {
    SPEND_METRIC: (
        "what usage cost with every commitment spread over it;"
        " of a commitment's fee, the part that nothing used"
    ),
    BILLED_METRIC: (
        "what was billed before credits and tax; of a commitment's fee, all of it (daily only)"
    ),
}


_NOW = timedelta(hours=1)
"""How old the newest sign of a node, pod or run may be for it to count as there."""
_BILL_LATE = timedelta(days=3)
"""From this age a bill is late: AWS writes it several times a day, and settles it within two."""
_NAMED = 2
"""How many troubles a coverage names; it counts those that are left."""


def billed_end(spend: Frame) -> datetime:
    """Return the end of the newest step that was billed: a frame of the bill reaches up to now."""
    billed = np.flatnonzero(~np.isnan(spend.values).all(axis=(0, 2)))
    return spend.start + (int(billed.max(initial=-1)) + 1) * spend.step


def bill_coverage(
    billed_through: datetime | None, now: datetime, until: datetime | None = None
) -> Coverage:
    """Return how much a bill that ends so tells at `now` of what was spent up to `until`.

    Up to `now` where that is None.
    """
    if billed_through is None:
        return Coverage(Known.UNKNOWN, "No billed day is seen yet.")
    if min(now, until or now) - billed_through > _BILL_LATE:
        return Coverage(Known.PARTLY, f"The bill ends {(now - billed_through).days} days ago.")
    return Coverage()


def _reporting(reading: Reading) -> tuple[Collection[Instance], Collection[Instance]]:
    """Return the accelerated nodes that run, and those of them that sent no metrics lately."""
    frame, nodes, reporting = reading.frame("node"), reading.inventory.accelerated, set[str]()
    if frame is not None and frame.n_steps:
        hour = frame.last(_NOW).values
        mute: Mask = np.asarray(np.isnan(hour[:, -1]).all(axis=1))
        mute[mute] = np.isnan(hour[mute]).all(axis=(1, 2))
        reporting = set(map(attrgetter("instance"), compress(frame.things, (~mute).tolist())))
    # At most ticks all report: then no node is looked at by itself.
    unread = nodes.keys() - reporting
    silent = [nodes[name] for name in unread if reading.now - nodes[name].launched_at > _NOW]
    return nodes.values(), silent


def coverage_of(
    reading: Reading, asked: tuple[Collection[Instance], Collection[Instance]] | None = None
) -> Coverage:
    """Return how much of the fleet a reading tells: what nobody reads is not well, but unknown.

    `asked` are the nodes it is asked for, and the silent ones of them: else all.
    """
    asked_nodes, silent_nodes = asked or _reporting(reading)
    nodes, silent, whose = len(asked_nodes), len(silent_nodes), ""
    if 0 < silent < nodes:
        types, silent_types = (
            Counter(node.labels.instance_type for node in group)
            for group in (asked_nodes, silent_nodes)
        )
        # Types that never report are no nodes that fell silent.
        if not silent_types.keys() & (types - silent_types).keys():
            whose = f": all of {', '.join(sorted(silent_types))}"
    troubles = list(dict.fromkeys([*reading.missing, *map(str, reading.gaps)]))
    sentences = troubles[:_NAMED]
    if unnamed := len(troubles) - len(sentences):
        sentences.append(f"And {counted(unnamed, 'more gap')}; 'doctor' lists them.")
    if silent:
        sentences.append(f"{silent:,} of {counted(nodes, 'node')} sent no metrics lately{whose}.")
    if spend := reading.frame("spend"):
        sentences += filter(None, [bill_coverage(billed_end(spend), reading.now).because])
    sentences = sentences or list(filter(None, [reading.learning]))

    blind = silent == nodes if nodes else bool(reading.gaps)
    if blind and sentences:
        return Coverage(Known.UNKNOWN, " ".join(sentences))
    return Coverage(Known.PARTLY, " ".join(sentences)) if sentences else Coverage()


@dataclass(frozen=True)
class Scattered:
    """State one job whose nodes stand in several zones: (zone, nodes), most nodes first."""

    cluster: str
    job: str
    zones: tuple[tuple[str, int], ...]

    def __str__(self) -> str:
        """Read as `us-west-2b (3) and us-west-2c (1)`."""
        *first, last = [f"{zone} ({n:,})" for zone, n in self.zones]
        return f"{', '.join(first)} and {last}"


def scattered(reading: Reading) -> tuple[Scattered, ...]:
    """Return the jobs whose running accelerated nodes are in several zones, sorted.

    A node's job is its tag's. In a cluster whose nodes carry none, all are one job only where all
    its pods that hold cores are of one, or (without pods) exactly one run reports: nodes of
    separate jobs may stand anywhere.
    """
    # Nodes without accelerators may stand anywhere: nothing fast goes between them.
    types = reading.inventory.types
    nodes = [
        node.labels
        for node in reading.inventory.instances.values()
        if node.running
        and node.labels.zone
        and (kind := types.get(node.labels.instance_type))
        and kind.chips
    ]
    # In a cluster that tags jobs, a node without a tag is of none of them.
    tagged = {labels.cluster for labels in nodes if labels.job}
    alone = {
        cluster: _only_job(reading, cluster)
        for cluster in {labels.cluster for labels in nodes} - tagged
        if cluster
    }
    zones = by_key(
        ((labels.cluster, job), labels.zone)
        for labels in nodes
        if (job := labels.job or alone.get(labels.cluster, ""))
    )
    counted_zones = ((place, Counter(of_job)) for place, of_job in sorted(zones.items()))
    return tuple(
        Scattered(cluster, job, tuple(sorted(counts.items(), key=lambda x: (-x[1], x[0]))))
        for (cluster, job), counts in counted_zones
        if len(counts) > 1
    )


def _only_job(reading: Reading, cluster: str) -> str:
    """Return the one job of a cluster, "" where there is none or there may be several."""
    jobs, pods = set[str](), reading.frame("pod")
    if pods is not None and pods.n_steps:  # those whose pods hold cores now
        hour = pods.last(_NOW)
        # A pod may have asked for cores and wait for them, or hold some of a share.
        requested = np.nan_to_num(hour.of("neuroncore_request_count"))
        cores = requested + np.nan_to_num(hour.of("neuroncore_usage_count"))
        jobs = {
            pod.job or pod.pod
            for pod, holds in zip(hour.things, np.asarray((cores > 0).any(axis=1)), strict=True)
            if holds and pod.cluster == cluster
        }
    jobs = jobs or {
        run.labels.job
        for run in reading.runs
        if run.labels.cluster == cluster and reading.now - run.seen_at <= _NOW
    }
    return jobs.pop() if len(jobs) == 1 else ""


_OPERATIONS = (
    "fsx_read_operations_count",
    "fsx_write_operations_count",
    "fsx_metadata_operations_count",
    "fsx_read_bytes",
    "fsx_write_bytes",
)
_ATTACHED = ("ebs_read_bytes", "ebs_write_bytes", "ebs_idle_seconds")


def detached_since(volume: Volume, frame: Frame | None) -> datetime | None:
    """Return since when a volume is surely attached to nothing, None where it is.

    EBS has metrics only while attached; a volume that was never measured is detached since it was
    first described so.
    """
    # EC2 calls a volume available that is attached to nothing.
    if volume.state != "available" or volume.attached_to:
        return None
    part = own_frame(frame, volume.labels.resource)
    if part is not None:
        attached = np.any([~np.isnan(part.of(name)[0]) for name in _ATTACHED], axis=0)
        # From the end of the last step with a metric on: it may have been let go within it.
        if attached.any():
            last = int(np.flatnonzero(attached)[-1])
            return max(volume.created_at, part.start + (last + 1) * part.step)
    return max(volume.created_at, volume.detached_at or volume.created_at)


def utilization_of(frame: Frame) -> Floats:
    """Return the utilization of the accelerator, (n, n_steps).

    NeuronCores, or GPUs where there are none.
    """
    cores = frame.of("neuroncore_utilization_ratio")
    unread = np.isnan(cores)
    if not (unread.any() and frame.has("gpu_utilization_ratio")):
        return cores
    return np.where(unread, frame.of("gpu_utilization_ratio"), cores)


def quiet_steps(part: Frame) -> tuple[Mask, Mask]:
    """Return which steps of one file system show no use, and which were read at all, (n_steps,).

    An unread one shows no use.
    """
    clients = part.of("fsx_client_connections_count")[0]
    uses = np.stack([part.of(name)[0] for name in _OPERATIONS])
    readings = ~np.isnan(clients) | ~np.isnan(uses).all(axis=0)
    # Of nan no comparison holds, so an unread step counts as quiet on both sides.
    return ~(clients > 0) & ~(uses > 0).any(axis=0), readings


def quiet_since(part: Frame) -> datetime:
    """Return the start of the first step after the last use of one file system.

    Of the first step that was read where no use shows.
    """
    quiet, readings = quiet_steps(part)
    used = np.flatnonzero(~quiet)
    return part.start + (int(used[-1]) + 1 if len(used) else int(np.argmax(readings))) * part.step


def own_frame(frame: Frame | None, resource: str) -> Frame | None:
    """Return one thing's part of a frame, None where it has none."""
    if frame is None:
        return None
    row = next((i for i, x in enumerate(frame.things) if x.resource == resource), None)
    return None if row is None else frame.pick(slice(row, row + 1))


LATELY = timedelta(minutes=15)
"""The newest time that a file system's throughput is said of."""
AT_LIMIT, BEYOND, HARDLY = 0.9, 1.1, 0.2
"""Shares of the provisioned throughput: at its limit, beyond it, and far too much of it.

Beyond it data comes from a cache or by burst credits: one that has moved so much is not held to its
limit.
"""


@dataclass(frozen=True)
class Throughput:
    """State the bytes a second that a file system moves, and those it is provisioned for."""

    system: FileSystem
    provisioned: float
    now: float
    """Mean of `LATELY`."""
    reads: float
    """Of it, what is read."""
    peak: float
    """The busiest step of the time that was read."""
    looked: timedelta
    """How much was read."""
    limited: timedelta = timedelta()
    """Of it, how long it moved all that it is provisioned for."""

    @property
    def share(self) -> float:
        """Return the share in use now."""
        return self.now / self.provisioned

    @property
    def peak_share(self) -> float:
        """Return the share that the busiest step used."""
        return self.peak / self.provisioned

    @property
    def beyond_network(self) -> bool:
        """Return whether the busiest step moved more than its network carries.

        Then no reading can be right.
        """
        return self.system.network is not None and self.peak > self.system.network

    @property
    def held_back(self) -> bool:
        """Return whether it moves all that it is provisioned for, and never moved more."""
        return self.share >= AT_LIMIT and self.peak_share < BEYOND


def throughput_of(system: FileSystem, frame: Frame | None, back: timedelta) -> Throughput | None:
    """Return the throughput of a file system over the last `back`.

    None where nothing was read lately or no limit is known.
    """
    part = own_frame(frame, system.labels.resource)
    if part is None or not part.n_steps or system.provisioned is None:
        return None
    part = part.last(max(back, LATELY))
    seconds = part.step.total_seconds()
    reads, writes = (part.of(name)[0] / seconds for name in ("fsx_read_bytes", "fsx_write_bytes"))
    readings = ~np.isnan(reads) | ~np.isnan(writes)
    moved = np.nan_to_num(reads) + np.nan_to_num(writes)
    lately = readings & (np.arange(part.n_steps) >= part.n_steps - part.steps(LATELY))
    if not lately.any():
        return None
    return Throughput(
        system,
        system.provisioned,
        now=float(moved[lately].mean()),
        reads=float(np.nan_to_num(reads)[lately].mean()),
        peak=float(moved[readings].max()),
        looked=int(readings.sum()) * part.step,
        limited=int((moved >= AT_LIMIT * system.provisioned).sum()) * part.step,
    )
