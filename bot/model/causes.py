"""The table of causes.

One row for each cause an alert may have, with every fact that the rest of the code asks for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum

from bot.model.action import ActionKind
from bot.model.window import DAY, HOUR

UTILIZATION = "neuroncore_utilization_ratio"
SPEND = "spend_amortised_usd"


class Cause(StrEnum):
    """Name every cause an alert may have; the set is closed, and each has a row in `CAUSES`."""

    IDLE = "idle"
    ALLOCATED_UNUSED = "allocated_unused"
    COMPILING = "compiling"
    LONG_COMPILE = "long_compile"
    COLD_CACHE = "cold_cache"
    KILLED_COMPILE = "killed_compile"
    STARVED = "starved"
    NETWORK_BOUND = "network_bound"
    COLLECTIVE_PATH = "collective_path"
    STRAGGLER = "straggler"
    HUNG = "hung"
    MEMORY_PRESSURE = "memory_pressure"
    EXECUTION_ERRORS = "execution_errors"
    HARDWARE_FAULT = "hardware_fault"
    CHECKPOINT_AT_RISK = "checkpoint_at_risk"
    INTERRUPTION_NOTICE = "interruption_notice"
    UNUSED_CAPACITY = "unused_capacity"
    ORPHANED_STORAGE = "orphaned_storage"
    TRANSFER_ROUTE = "transfer_route"
    SPEND_JUMP = "spend_jump"
    SPEND_NEW = "spend_new"
    BUDGET_BURN = "budget_burn"
    COMMITMENT_UNUSED = "commitment_unused"
    NO_DATA = "no_data"
    ODD = "odd"

    @property
    def facts(self) -> CauseFacts:
        """Return the row of the table."""
        return CAUSES[self]


class Severity(StrEnum):
    """Order alerts by how soon a person must look."""

    CRITICAL = "critical"
    WARNING = "warning"
    INFO = "info"


class About(StrEnum):
    """Name the things that an alert is about; each value is the kind of its chart's frame."""

    NODES = "node"
    RUN = "run"
    STORAGE = "storage"
    CAPACITY = "reservation"
    MONEY = "spend"


class Family(StrEnum):
    """Name causes that one alert may change between.

    When a cause is recognised better later, the alert goes on.
    """

    COMPILE = "compile"
    DROP = "drop"

    @property
    def rules(self) -> tuple[str, ...]:
        """Return the names of the cause's rules, in the order of the table."""
        return tuple(facts.cause.value for facts in CAUSES.values() if facts.family is self)


@dataclass(frozen=True)
class CauseFacts:
    """Hold all that is known of one cause before anything is measured."""

    cause: Cause
    switch: str
    """The meaning of its setting `CAUSE.on`; more settings of the cause begin with its name too."""
    lasts: timedelta = field(kw_only=True)
    """How long it usually goes on, by trnbot's own estimate.

    It counts as one alert beside those that were seen to end.
    """
    said_as: str = ""
    """Its name for people; "" = the name with spaces."""
    about: About = About.NODES
    family: Family | None = None
    severity: Severity = Severity.WARNING
    precedence: int | None = None
    """Which rule about nodes has a node that several match: the lowest.

    None = the rule stands beside the others.
    """
    explained_by: tuple[Cause, ...] = ()
    """Causes that mute it where they hold most of the same things: a sick whole mutes its parts."""
    part_of: tuple[Cause, ...] = ()
    """Causes that mute it, come later, on a few of the nodes of a wide incident of theirs.

    One fault is one story.
    """
    of_job: bool = False
    """It befalls one job.

    Where it befalls another job of the same cluster later, that is another incident.
    """
    of_node: bool = False
    """It is the fault of one node or a few, however many wait for them."""
    works_nothing: bool = False
    """Its nodes do no work, and are bought all the same.

    Days later the bill grows by what their own alert has told.
    """
    kept_for_nothing: bool = False
    """Its nodes are kept though nothing wants them: whoever pays for them may have them stopped."""
    if_committed: str = ""
    """What to do first where a commitment bills its nodes whether they run or not."""
    buys_hours: bool = False
    """It may be the bill's view of nodes that work nothing, and is then explained by them."""
    however_small: bool = False
    """An alert of it is raised however little it wastes now.

    It puts more at risk, or somebody asked to hear of it.
    """
    adds_up: bool = False
    """Many small alerts of it in one cluster and account count together against the least waste."""
    cores_differ: bool = False
    """Single cores may differ under it, so that its nodes are worth a closer look."""
    grows: bool = False
    """It is growth of the bill, as the provider's own findings are.

    Both may be about the same money.
    """
    passes: bool = False
    """It ends by itself within hours, so its cost is never drawn out to the month's end."""
    returns: timedelta = timedelta(0)
    """How long after its end it is the same incident when it is seen again.

    Where that is longer than `alert.reopen_within`.
    """
    needs_setting: bool = False
    """It is raised only where somebody set a limit, so that no recording shows it."""
    is_state: bool = False
    """It is a state of nodes for which no alert is raised."""
    scenario: str = "causes"
    """The simulator's scenario that shows it; "" = none."""
    no_faster_chip: str = ""
    """Why no faster chip is advised while it lasts; "" = it speaks for no chip and against none."""
    metric: str = UTILIZATION
    """The metric that its chart shows, unless the evidence names another; "" = no chart."""
    action: ActionKind | None = None
    """What the bot itself may do about it, once admins press."""
    suggestions: tuple[str, ...] = ()
    """Steps to try, the first first; a rule may know better ones by its evidence."""

    @property
    def words(self) -> str:
        """Return the name of the cause in plain words."""
        return self.said_as or self.cause.value.replace("_", " ")

    @property
    def is_bought(self) -> bool:
        """Return whether things are bought or kept for nothing, rather than run badly."""
        return self.about in {About.MONEY, About.CAPACITY, About.STORAGE}

    @property
    def is_for_finops(self) -> bool:
        """Return whether those who watch the bill hear of it too.

        Things are bought or kept for nothing.
        """
        return self.is_bought or self.kept_for_nothing


_SICK = (Cause.HARDWARE_FAULT, Cause.HUNG, Cause.NO_DATA)
_COMPILES = (Cause.LONG_COMPILE, Cause.COLD_CACHE)
_DROPS = (Cause.STARVED, Cause.NETWORK_BOUND, Cause.COLLECTIVE_PATH, Cause.STRAGGLER)
_STALLS = (Cause.HUNG, *_DROPS)
_BILLED = DAY
"""How long the bill may take to tell of an hour.

What it tells anew within it is the same growth still.
"""
_USE_COMMITTED = (
    "Move other work onto the nodes, or let the commitment lapse: it is billed either way."
)

_PROFILE = (
    "See where a step's time goes: `neuron-profile capture -n GRAPH.neff -s step.ntff` on a spare"
    " node, then `neuron-profile view -n GRAPH.neff -s step.ntff` (`neuron-explorer` in newer"
    " SDKs)."
)

# fmt: off
# Laid out by hand, so that a row stays a few lines: what it is, how alerts treat it, how it is
# simulated and drawn, what to try.
_ROWS = (
    CauseFacts(Cause.IDLE, "report nodes that do nothing", lasts=DAY, action=ActionKind.STOP,
        precedence=5, explained_by=(*_SICK,
        *_COMPILES), works_nothing=True,
        kept_for_nothing=True,
        if_committed=_USE_COMMITTED,
        no_faster_chip="it does nothing: stopping nodes saves more than any chip",
        suggestions=(
            "Stop the nodes or scale the node group down.",
            "If they wait for a job on purpose, silence them until it starts.",
            "Let the autoscaler remove nodes without Neuron pods.")),
    CauseFacts(Cause.ALLOCATED_UNUSED, "report nodes that a runtime or a pod holds for nothing",
        "allocated, unused",
        lasts=DAY, precedence=4, explained_by=(*_SICK, *_COMPILES, Cause.IDLE), works_nothing=True,
        kept_for_nothing=True,
        if_committed=_USE_COMMITTED,
        no_faster_chip="cores are held and not used: release them first",
        suggestions=(
            "Stop the process or pod that holds the cores (a notebook, a finished job), or scale"
            " the nodes down.",
            "Set an idle timeout on notebooks and interactive pods.")),
    CauseFacts(Cause.HUNG, "report jobs that stopped in the middle of a run with the runtime loaded",
        lasts=4 * HOUR, severity=Severity.CRITICAL, precedence=3, of_job=True, works_nothing=True,
        cores_differ=True,
        explained_by=(Cause.HARDWARE_FAULT, Cause.NO_DATA), part_of=_DROPS,
        no_faster_chip="it hangs: restart the run first",
        suggestions=(
            "Look at the slowest rank's log and `neuron-top`; restart the job from its last"
            " checkpoint.",
            "Set a timeout on collectives so that a hang ends the job instead of holding the"
            " fleet.")),
    CauseFacts(Cause.NO_DATA, "report running nodes that stopped reporting", lasts=6 * HOUR,
        however_small=True,
        explained_by=(Cause.HARDWARE_FAULT,), part_of=_STALLS,
        no_faster_chip="its metrics stopped, so nothing can be said of its work",
        suggestions=(
            "Look at the node: is neuron-monitor or the CloudWatch agent running, did the kernel"
            " panic, is the disk full?",
            "If the node was stopped on purpose, the next inventory shows it, and this alert ends"
            " by itself.")),
    CauseFacts(Cause.COMPILING, "tell compiling from idling", lasts=HOUR, is_state=True,
        no_faster_chip="it compiles: judge it by its training"),
    CauseFacts(Cause.LONG_COMPILE, "report compiles that outlast their grace",
        lasts=HOUR, family=Family.COMPILE, precedence=2, explained_by=(Cause.COLD_CACHE,),
        works_nothing=True,
        passes=True,
        no_faster_chip="it compiles: judge it by its training",
        suggestions=(
            "Do not cancel it: an interrupted compile is cached as failed; use"
            " `--retry_failed_compilation` if that has happened.",
            "Pre-compile on one node (`neuron_parallel_compile`) before launching the whole job.",
            "Share the cache: set NEURON_COMPILE_CACHE_URL to a bucket that every node may read"
            " and write.")),
    CauseFacts(Cause.COLD_CACHE, "report jobs that ran before and compile again at each start",
        lasts=HOUR, family=Family.COMPILE, precedence=2, works_nothing=True, passes=True,
        returns=3 * DAY,
        no_faster_chip="it compiles what was compiled before: fix the cache first",
        suggestions=(
            "Share the cache: set NEURON_COMPILE_CACHE_URL to one bucket; `--cache_dir` in"
            " NEURON_CC_FLAGS overrides it.",
            "Check what changed: batch size, optimizer, compiler flags and compiler version all"
            " miss the cache.",
            "Pre-compile on one node (`neuron_parallel_compile`) and do not cancel this one.")),
    CauseFacts(Cause.KILLED_COMPILE, "report compiles that were cut off before anything executed",
        "compile cut off",
        lasts=HOUR, scenario="compiles",
        suggestions=(
            "Before the next launch add `--retry_failed_compilation` to NEURON_CC_FLAGS: Neuron"
            " caches an interrupted compile as"
            " failed and skips it later (Neuron's documentation of its persistent cache).",
            "If the next launch only waits (`Another process must be compiling`), remove the"
            " `.lock` files that the killed one"
            " left in the compile cache.",
            "If a time limit or a health check ended it, raise it: a first compile may take an"
            " hour.",
            "If it was a pre-compile (`neuron_parallel_compile`) that ended well, nothing is lost:"
            " launch the job.")),
    CauseFacts(Cause.STARVED, "report nodes that wait for data", lasts=6 * HOUR,
        family=Family.DROP, precedence=8,
        of_job=True, cores_differ=True,
        explained_by=(
            *_SICK, Cause.NETWORK_BOUND, Cause.COLLECTIVE_PATH, Cause.STRAGGLER, Cause.IDLE,
        Cause.ALLOCATED_UNUSED, *_COMPILES),
        no_faster_chip="it waits for data, and a faster chip would wait longer",
        suggestions=(
            "Use more loader workers (`num_workers` of 16 or more) and prefetch; the host has"
            " vCPUs and memory to spare.",
            "Stage the data on FSx for Lustre or local disks instead of reading S3 in the training"
            " loop.")),
    CauseFacts(Cause.NETWORK_BOUND, "report nodes held up by the network",
        lasts=6 * HOUR, family=Family.DROP, precedence=8, of_job=True, cores_differ=True,
        explained_by=_SICK,
        no_faster_chip="the network limits it, not the chip",
        suggestions=(
            "Overlap or bucket all-reduce, accumulate gradients, or shard less across nodes.",
            "Check that all nodes of the job share one zone and placement group.",
            _PROFILE)),
    CauseFacts(Cause.COLLECTIVE_PATH,
        "report traffic that seems to take the wrong path between devices",
        lasts=12 * HOUR, family=Family.DROP, precedence=8, of_job=True, cores_differ=True,
        explained_by=_SICK,
        no_faster_chip="its collectives seem to take the wrong path: fix that first",
        suggestions=(
            "Check that collectives go over NeuronLink within a node and EFA between nodes"
            " (FI_PROVIDER, security groups, launcher).",
            _PROFILE,
            "Use the launcher that the Neuron documentation names (`torchrun`).")),
    CauseFacts(Cause.STRAGGLER, "report jobs in which all nodes wait for one",
        lasts=6 * HOUR, family=Family.DROP, precedence=8, of_job=True, cores_differ=True,
        of_node=True, explained_by=_SICK, action=ActionKind.CORDON,
        no_faster_chip="its nodes wait for a slow one: replace that first",
        suggestions=(
            "Restart the job from its last checkpoint without the slow node, or cordon and replace"
            " it.",
            "Look at what else runs on its host and at its loader before you blame the device.")),
    CauseFacts(Cause.MEMORY_PRESSURE, "report memory of devices and hosts near its limit",
        lasts=12 * HOUR, precedence=7, of_job=True, however_small=True, cores_differ=True,
        metric="neuroncore_memory_used_bytes",
        explained_by=(Cause.HARDWARE_FAULT,), part_of=_STALLS,
        suggestions=(
            "Shard optimizer states (ZeRO-1), use smaller micro-batches or activation"
            " checkpointing.",
            "Use more nodes, or a type with more device memory, if it is to grow further.")),
    CauseFacts(Cause.EXECUTION_ERRORS, "report execution errors", lasts=3 * HOUR,
        precedence=6, of_job=True,
        explained_by=(Cause.HARDWARE_FAULT, Cause.MEMORY_PRESSURE), part_of=_STALLS,
        however_small=True, cores_differ=True,
        metric="neuron_execution_errors_count",
        suggestions=(
            "Look at the runtime's log for the first error; numerical ones point to NaN in the"
            " model, model ones to the graph.",
            "If transient errors stay on one node, replace it.")),
    CauseFacts(Cause.HARDWARE_FAULT,
        "report hardware errors, uncorrected ECC events and failed status checks",
        lasts=6 * HOUR, severity=Severity.CRITICAL, precedence=1, of_job=True, however_small=True,
        cores_differ=True, of_node=True, action=ActionKind.CORDON,
        metric="neuron_execution_errors_count", part_of=_STALLS,
        suggestions=(
            "Cordon and replace the node; restart the job from its last checkpoint without it.",
            "Report the instance to AWS with its id; EC2 retires hardware that keeps failing.")),
    CauseFacts(Cause.CHECKPOINT_AT_RISK, "report runs whose checkpoints stopped",
        lasts=6 * HOUR, about=About.RUN, explained_by=_SICK, part_of=_DROPS, however_small=True,
        metric="run_checkpoint_age_seconds",
        suggestions=(
            "Look at the checkpoint writer: is the file system full, did an asynchronous save"
            " fail, is the bucket still"
            " writable?",
            "Save one now by hand if the trainer allows it.")),
    CauseFacts(Cause.INTERRUPTION_NOTICE,
        "report nodes that AWS says it will take away, and the work at risk on them",
        however_small=True, lasts=HOUR, scenario="",
        no_faster_chip="its nodes are about to be taken away: save the work first",
        suggestions=(
            "Save a checkpoint now, if the trainer can be told to.",
            "Cordon and drain the node (`kubectl drain`), and restart the job without it from its"
            " newest checkpoint.",
            "Have the trainer save by itself when it receives SIGTERM: the notice comes"
            " two minutes before.")),
    CauseFacts(Cause.ORPHANED_STORAGE, "report volumes and file systems that nobody uses",
        lasts=90 * DAY, about=About.STORAGE, severity=Severity.INFO, adds_up=True, metric="",
        action=ActionKind.DELETE,
        suggestions=("Take a snapshot and delete the volume, or attach it where it is needed.",)),
    CauseFacts(Cause.UNUSED_CAPACITY, "report reserved capacity that is not used",
        lasts=30 * DAY, about=About.CAPACITY, metric="",
        suggestions=(
            "Launch into the reservation, share it with another account, or cancel it (a Capacity"
            " Block cannot be cancelled).",
            "Move nodes of this type that run on demand elsewhere into it.")),
    CauseFacts(Cause.SPEND_JUMP, "report services that suddenly cost more",
        lasts=30 * DAY, about=About.MONEY, returns=_BILLED, buys_hours=True, grows=True,
        metric=SPEND,
        suggestions=("Open `cost 7d by usage_type`; compare with what was launched that day.",)),
    CauseFacts(Cause.SPEND_NEW, "report usage that was never billed before",
        lasts=30 * DAY, about=About.MONEY, returns=_BILLED, explained_by=(Cause.SPEND_JUMP,),
        buys_hours=True,
        grows=True, metric=SPEND,
        suggestions=("Ask the owner whether this usage is intended; `cost 7d by resource` names what"
                     " it is.",)),
    CauseFacts(Cause.COMMITMENT_UNUSED, "report commitment that usage no longer covers",
        lasts=60 * DAY, about=About.MONEY, returns=_BILLED, metric=SPEND,
        suggestions=(
            "Move nodes that run on demand under the plan, or let it run out instead of renewing"
            " it.",
            "See what it still covers: `cost 7d by purchase,instance_type`.")),
    CauseFacts(Cause.BUDGET_BURN, "report budgets that will be used up before their month ends",
        lasts=15 * DAY, about=About.MONEY, returns=_BILLED, however_small=True,
        needs_setting=True, metric=SPEND,
        suggestions=(
            "See where it goes: `cost mtd by usage_type`; stop or shrink what can wait until next"
            " month.",
            "If the spending is intended, raise the budget: `config budget_burn`.")),
    CauseFacts(Cause.TRANSFER_ROUTE, "report data transfer that takes a costly route",
        lasts=90 * DAY, about=About.MONEY, returns=_BILLED, grows=True, metric=SPEND,
        suggestions=(
            "Send S3 traffic through a gateway endpoint instead of the NAT gateway: it is free of"
            " charge.",
            "Keep the nodes of a job, their data and their file system in one zone: bytes between"
            " zones are billed at both ends.",
            "Keep a copy of the data in the region where it is read, instead of reading it from"
            " another.")),
    CauseFacts(Cause.ODD, "report combinations of metrics that no rule knows (isolation forest)",
        lasts=DAY, severity=Severity.INFO,
        explained_by=tuple(cause for cause in Cause if cause is not Cause.ODD), however_small=True,
        cores_differ=True,
        suggestions=("Check whether the job changed; if it did, mark this as not an anomaly.",)),
)
# fmt: on

CAUSES: Mapping[Cause, CauseFacts] = {facts.cause: facts for facts in _ROWS}
"""Every cause's row, in the order in which settings and documents list them."""
