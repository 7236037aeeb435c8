"""Find nodes that work well under their usual, and tell why: data, network, the path of collectives."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

import numpy as np
import numpy.typing as npt

from bot.model.anomaly import Cause
from detectors.progress import pace
from detectors.rules.found import Found, Words
from detectors.streak import share_before, trailing
from detectors.view import Floats, Mask, Numbers, View
from detectors.words import count, percent, rate, span

FAMILY = (Cause.STARVED.value, Cause.NETWORK_BOUND.value, Cause.COLLECTIVE_PATH.value)
SETTLED = timedelta(minutes=30)
NOW = timedelta(minutes=5)
DEEPER = 0.78
"""Share of `starved.deep` under which a drop needs no further sign."""
FORWARD = 0.75
"""Share of the usual latency under which executions are of another kind."""
EVIDENT = timedelta(minutes=15)
RESTART = timedelta(minutes=10)
"""A drop within this time after zeros is the ramp of a start."""
_LOADER = (
    "Use more loader workers (`num_workers` of 16 or more) and prefetch; the host has vCPUs and memory to spare.",
    "Stage the data on FSx for Lustre or local disks instead of reading S3 in the training loop.",
)
_LOADER_BUSY = (
    "The host's CPUs are at their end: tokenize and decode ahead of time, or move it off the training nodes.",
    "Stage preprocessed data on FSx for Lustre; prefetch into host memory.",
)
_NETWORK = (
    "Overlap or bucket all-reduce, accumulate gradients, or shard less across nodes.",
    "Check that all nodes of the job share one zone and placement group.",
)
_PATH = (
    "Check that collectives go over NeuronLink within a node and EFA between nodes (FI_PROVIDER, security groups, launcher).",
    "Use the launcher that the Neuron documentation names (`torchrun`).",
)


@dataclass(frozen=True)
class Signs:
    """Hold what the flagged nodes show, medians over them; nan = not read."""

    level: float
    usual: float
    low: float
    high: float
    cpu: float
    cpu_usual: float
    latency_ratio: float
    efa_share: float
    efa: float
    efa_ratio: float
    ena_ratio: float
    ena: float
    read_ratio: float
    pace: float
    alone: bool


def find(view: View) -> Found:
    """Return nodes whose utilization, still executing, fell under their usual: soon if deep, later if shallow.

    Training is judged against the node's own median, inference against its own lowest level at this hour of such a day.
    A drop that follows a start rather than work, comes with other memory in use or with much quicker executions (an
    evaluation only runs forward) is other work, unless the CPUs say more.
    """
    _, middle, _ = view.levels
    ratio = (view.utilization / middle[:, None]).astype(np.float32)
    soon, steps = _soon(view, ratio)
    shallow = trailing(_mostly(~view.standing & (ratio < view.number("starved.below")[:, None])), view.unknown)
    soon &= ~view.roster.inference
    late = shallow >= np.where(view.roster.inference, 2, 1) * view.steps("starved.shallow_for")
    late |= (shallow >= view.window.steps(EVIDENT)) & _network_full(view) & ~view.roster.inference
    begins = view.eligible & view.executing[:, -1] & (soon | late) & _same_job(view, steps, late)
    stays = view.held_open(*FAMILY) & (view.recent(ratio, view.window.steps(NOW)) < view.number("starved.over"))
    wasted = 1 - view.recent(view.utilization) / middle
    hit = (begins | (view.roster.running & stays)) & ~_held_still(view)
    return Found(Cause.STARVED, hit & view.limits.on("starved.on"), steps, np.nan_to_num(wasted.astype(np.float64)))


def tell(view: View, found: Found, rows: npt.NDArray[np.intp]) -> Words:
    """Name the likeliest cause of the drop, with what speaks for it and what comes next.

    Once named, a cause gives way only to one that something speaks for: at the end of a drop its signs fade first.
    """
    signs = read_signs(view, rows, 1 if found.steps[rows].max() <= SETTLED / view.window.step else 3)
    ranked = rank(signs, view, int(rows[0]))
    known = view.alert(FAMILY, view.roster.scopes[view.roster.scope[rows[0]]])
    plain = ranked[0][0] is Cause.STARVED and not signs.cpu >= float(view.number("starved.cpu")[rows[0]])
    if known and plain and known.cause is not Cause.STARVED:
        ranked = [(known.cause, known.anomaly.confidence), *known.anomaly.runners_up]
    cause, confidence = ranked[0]
    return Words(
        why=_why(signs, cause, view.gauge(rows)),
        value=signs.level,
        unit="ratio",
        cause=cause,
        usual=(signs.low, signs.high),
        score=float(np.clip(1 - signs.level / max(signs.usual, 1e-6), 0.3, 1)),
        evidence=_evidence(signs, len(rows)),
        confidence=confidence,
        runners_up=tuple(ranked[1:]),
        suggestions=_suggestions(cause, signs),
        family=FAMILY,
    )


def rank(signs: Signs, view: View, row: int) -> list[tuple[Cause, float]]:
    """Return the possible causes with their shares of belief, the likeliest first; weights are trnbot's own."""
    near_limit = signs.efa_share >= float(view.number("network_bound.above")[row])
    grown = float(view.number("collective_path.growth")[row])
    starved = 1.0 + 2.0 * (signs.cpu >= float(view.number("starved.cpu")[row])) + 1.0 * (signs.read_ratio < 0.6)
    starved += 1.0 * (signs.latency_ratio < 1.15) + 0.5 * (signs.cpu >= signs.cpu_usual + 0.25)
    network = 0.4 + 5.0 * near_limit + 0.5 * (signs.efa_ratio > 1.3) + 0.4 * (signs.latency_ratio > 1.3)
    stray = signs.ena_ratio >= grown and signs.ena > 2e8
    lone = signs.alone and signs.efa > 1e9 and not signs.efa_ratio < grown
    path = 0.2 + 3.0 * stray + 3.0 * lone + 0.5 * (signs.latency_ratio > 1.3) * (stray or lone)
    if lone:
        network -= 2.0 * near_limit
    weights = {Cause.STARVED: starved, Cause.NETWORK_BOUND: network, Cause.COLLECTIVE_PATH: path}
    weights = {cause: weight for cause, weight in weights.items() if view.limits.on(f"{cause}.on")[row]}
    total = sum(weights.values())
    return sorted(((c, round(w / total, 2)) for c, w in weights.items()), key=lambda x: -x[1])


def read_signs(view: View, rows: npt.NDArray[np.intp], steps: int = 3) -> Signs:
    """Read what the nodes at `rows` show in the newest `steps` against their usual; the step of the onset is half and half."""

    def now(values: Floats) -> Floats:
        return view.recent(values, steps)[rows]

    low, middle, high = (level[rows] for level in view.levels)
    latency = _ratio(now(view.latency), view.beside("neuron_execution_latency_seconds")[rows])
    efa = now(view.efa)
    arriving = now(view.metric("network_in_bytes_per_second"))
    leaving = now(view.metric("network_out_bytes_per_second"))
    scope = view.roster.scope == view.roster.scope[rows[0]]
    busy = int((scope & (view.recent(view.utilization) > view.number("idle.below"))).sum())
    return Signs(
        level=_median(now(view.utilization)),
        usual=_median(middle),
        low=_median(low),
        high=_median(high),
        cpu=_median(now(view.cpu)),
        cpu_usual=_median(view.beside("host_cpu_utilization_ratio")[rows]),
        latency_ratio=_median(latency),
        efa_share=_median(efa / view.roster.nic[rows]),
        efa=_median(efa),
        efa_ratio=_median(_ratio(efa, view.beside("efa_tx_bytes_per_second")[rows])),
        ena_ratio=_median(_ratio(leaving, view.beside("network_out_bytes_per_second")[rows])),
        ena=_median(leaving),
        read_ratio=_median(_ratio(arriving, view.beside("network_in_bytes_per_second")[rows])),
        pace=_pace(view, rows),
        alone=busy <= 1 or _quiet_usually(view, rows),
    )


def _soon(view: View, ratio: Floats) -> tuple[Mask, Numbers]:
    """Tell which nodes fell deep for long enough, and return the streak of any drop, which dates the onset; both (n,).

    A checkpoint at the edge of an evaluation makes two deep steps as well: without busy CPUs a drop is deeper or lasts longer.
    """

    def under(key: str, share: float = 1.0) -> npt.NDArray[np.intp]:
        below = ~view.standing & (ratio < share * view.number(key)[:, None])
        return trailing(_mostly(below), view.unknown)

    needed = view.steps("starved.for")
    deep = under("starved.deep")
    soon = (deep >= needed) & (_loader_busy(view) | (deep >= needed + view.window.steps(NOW)))
    soon |= under("starved.deep", DEEPER) >= needed
    return soon, np.maximum(deep, under("starved.over")).astype(np.float64)


def _loader_busy(view: View) -> Mask:
    """Tell which hosts' CPUs are far busier than usual, as when the data loader cannot keep up, (n,)."""
    cpu = view.recent(view.cpu, view.window.steps(NOW))
    busy: Mask = (cpu >= view.number("starved.cpu")) & ~(cpu < view.beside("host_cpu_utilization_ratio") + 0.25)
    return busy


def _network_full(view: View) -> Mask:
    """Tell which nodes' EFA carries what the NIC can, (n,)."""
    share = view.recent(view.efa, view.window.steps(NOW)) / view.roster.nic
    return np.asarray(share >= view.number("network_bound.above"))


def falling(view: View) -> Mask:
    """Tell which nodes work under their usual right now, whether or not that lasts long enough to be told, (n,)."""
    now = view.recent(view.utilization, view.window.steps(NOW))
    return np.asarray(now < view.number("starved.over") * view.levels[1])


def fell_lately(view: View, length: timedelta) -> Mask:
    """Tell which nodes worked under their usual for a good part of the last `length`: an evaluation, or a drop to be, (n,)."""
    part = view.utilization[:, -view.window.steps(length) :]
    under = part < (view.number("starved.over") * view.levels[1])[:, None]
    return np.asarray(under.mean(axis=1) >= 0.4) | falling(view)


def _mostly(below: Mask) -> Mask:
    """Fill short bursts back to normal, at fine steps: a starving loader flutters."""
    filled = below.copy()
    if below.shape[1] > 90:
        filled[:, 1:-1] |= below[:, :-2] & below[:, 2:]
        filled[:, 2:-1] |= below[:, 1:-2] & below[:, :-3] & below[:, 3:]
    return filled


def _same_job(view: View, steps: Numbers, late: Mask) -> Mask:
    """Tell which drops interrupt work of the usual kind: work right before, the same memory; or CPUs that speak for data."""
    before = share_before(
        view.utilization >= view.number("starved.over")[:, None] * view.levels[1][:, None],
        ~view.unknown,
        steps.astype(np.intp),
        view.window.steps(SETTLED),
    )
    rested = share_before(view.standing, ~view.unknown, steps.astype(np.intp), view.window.steps(RESTART))
    fell = (before >= 0.5) & ~(rested > 0)
    held = _ratio(view.recent(view.memory), view.beside("neuroncore_memory_used_bytes"))
    alike = np.isnan(held) | (np.abs(held - 1) <= 0.25)
    quicker = _ratio(view.recent(view.latency), view.beside("neuron_execution_latency_seconds")) < FORWARD
    return np.asarray((alike & fell & ~quicker) | (late & (_loader_busy(view) | view.roster.inference)))


def _held_still(view: View) -> Mask:
    """Tell which nodes execute nothing at all: that is another story."""
    return trailing(view.zero & view.standing, view.unknown) >= 2


def _quiet_usually(view: View, rows: npt.NDArray[np.intp]) -> bool:
    """Tell whether the nodes usually send next to nothing over EFA: single-node work."""
    usual = view.beside("efa_tx_bytes_per_second")[rows]
    return bool(np.isfinite(usual).any() and np.nanmedian(usual) < 1e8)


def _pace(view: View, rows: npt.NDArray[np.intp]) -> float:
    found = pace(view, view.roster.labels[rows[0]].cluster)
    return float("nan") if found is None else found


def _ratio(now: Floats, usual: Floats) -> Floats:
    return np.where(usual > 0, now / np.where(usual > 0, usual, 1), np.nan).astype(np.float32)


def _median(values: npt.NDArray[np.floating]) -> float:
    known = values[np.isfinite(values)]
    return float(np.median(known)) if len(known) else float("nan")


def _why(signs: Signs, cause: Cause, gauge: str) -> str:
    parts = []
    if not np.isnan(signs.pace):
        parts.append(f"steps go on at {signs.pace:.2f}x")
    if not np.isnan(signs.cpu):
        parts.append(f"host CPU {percent(signs.cpu)}")
    if cause is Cause.NETWORK_BOUND:
        parts.append(f"EFA {rate(signs.efa)}, {percent(signs.efa_share)} of the NIC's limit")
    if cause is Cause.COLLECTIVE_PATH:
        parts.append(f"possible wrong path of collectives: ENA {rate(signs.ena)}, EFA {rate(signs.efa)}")
    rest = ", ".join(["Runtime loaded", *parts])
    return f"{gauge} {percent(signs.level)}, usually {span(signs.low, signs.high)} at this hour. {rest}."


def _evidence(signs: Signs, nodes: int) -> tuple[str, ...]:
    said = [f"{count(nodes, 'node')} at {percent(signs.level / max(signs.usual, 1e-6))} of the usual"]
    if not np.isnan(signs.cpu) and not np.isnan(signs.cpu_usual):
        said.append(f"host CPU {percent(signs.cpu)}, usually {percent(signs.cpu_usual)}")
    if not np.isnan(signs.latency_ratio):
        said.append(f"an execution takes {signs.latency_ratio:.2f}x its usual time")
    if not np.isnan(signs.efa_share):
        said.append(f"EFA at {percent(signs.efa_share)} of the NIC's limit")
    if not np.isnan(signs.read_ratio):
        said.append(f"data arrives at {signs.read_ratio:.2f}x its usual rate")
    return tuple(said)


def _suggestions(cause: Cause, signs: Signs) -> tuple[str, ...]:
    if cause is Cause.NETWORK_BOUND:
        return _NETWORK
    if cause is Cause.COLLECTIVE_PATH:
        return _PATH
    return _LOADER_BUSY if signs.cpu >= 0.9 else _LOADER
