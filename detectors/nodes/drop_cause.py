"""Explain why nodes work under their usual: data, network, the path of collectives, or one slow node."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

import numpy as np

from bot.model.alert import Alert
from bot.model.causes import Cause, Family
from bot.model.money import counted
from bot.model.reading import scattered
from detectors.arrays import Floats, Mask, Rows, middle_of
from detectors.nodes import cores
from detectors.nodes.storage import file_system_loads, load_words, more_throughput
from detectors.progress import pace
from detectors.rule import Explanation, RuleMatch
from detectors.usual import LATENCY, SENT, percentiles
from detectors.view import View
from detectors.words import percent, rate, span

LEAST = 3
"""Nodes that must wait before one is said to be slow."""
BUSY = 0.95
"""Share of its usual utilization from which a node works while its peers wait."""
AHEAD = 0.25
"""How much more of its usual it must work than they do."""
SLOWER = 1.3
"""Share of the usual latency from which executions are slower: those of one job end together."""
TOGETHER = 0.25
"""How far apart the latencies and the EFA of nodes in step may lie, as shares of their usual."""
_CPU_ABOVE = 0.25
"""How far above its usual the CPU of the slow host is, and that of no other."""


@dataclass(frozen=True)
class Straggler:
    """Name the slow node, what shows it, and how many others wait."""

    instance: str
    sign: str
    waiting: int


def straggler(view: View, rows: Rows) -> Straggler | None:
    """Return the node for which those at `rows`, which fell under their usual, wait.

    None where none stands out.
    """
    if len(rows) < LEAST:
        return None
    peers = np.flatnonzero(view.fellows(rows))
    fallen = np.isin(peers, rows)
    if fallen.sum() < max(LEAST, 0.5 * len(rows)):
        return None
    return _that_works(view, peers, fallen) or _with_busy_host(view, peers, fallen)


def _that_works(view: View, peers: Rows, fallen: Mask) -> Straggler | None:
    """Return the only node that works on as before though its executions slowed down as those of all others did."""
    level = _share(view, view.utilization, view.levels[1], peers)
    slower = _share(view, view.latency, view.usual_of(LATENCY), peers)
    sent = _share(view, view.metric(SENT), view.usual_of(SENT), peers)
    waits = float(np.nanmedian(level[fallen]))
    working = ~fallen & (level >= max(BUSY, waits + AHEAD))
    if working.sum() != 1 or fallen.sum() < len(peers) - 1:
        return None
    one = int(np.flatnonzero(working)[0])
    late, silent = middle_of(slower[fallen]), middle_of(sent[fallen])
    in_step = late >= SLOWER and abs(slower[one] - late) <= TOGETHER * late
    in_step |= (
        bool(np.isnan(slower[one]))
        and silent < BUSY - AHEAD
        and abs(sent[one] - silent) <= TOGETHER
    )
    if not in_step:
        return None
    here = percent(float(view.recent(view.utilization)[peers[one]]))
    there = percent(middle_of(view.recent(view.utilization)[peers[fallen]]))
    sign = f"its cores are busy at {here}, those of the others at {there}" + (
        f", and an execution takes all of them {late:.1f}x its usual time" if late >= SLOWER else ""
    )
    return Straggler(view.roster.ids[peers[one]], sign, int(fallen.sum()))


def _with_busy_host(view: View, peers: Rows, fallen: Mask) -> Straggler | None:
    """Return the only node whose host is at its end while all others' rest as usual.

    Its loader holds up the whole job.
    """
    cpu = view.recent(view.cpu)[peers]
    above = cpu - view.usual_of("host_cpu_utilization_ratio")[peers]
    busy = (cpu >= view.number("starved.cpu")[peers]) & (above >= _CPU_ABOVE)
    if (
        busy.sum() != 1
        or np.isnan(above).any()
        or (above[~busy] > _CPU_ABOVE / 2).any()
        or fallen.sum() < len(peers) - 1
    ):
        return None
    one = int(np.flatnonzero(busy)[0])
    sign = f"its host's CPU is at {percent(float(cpu[one]))}, that of the others at {percent(middle_of(cpu[~busy]))}"
    return Straggler(view.roster.ids[peers[one]], sign, int((fallen & ~busy).sum()))


def _share(view: View, values: Floats, usual: Floats, rows: Rows) -> Floats:
    return np.asarray(
        view.recent(values)[rows] / np.where(usual[rows] > 0, usual[rows], np.nan), dtype=np.float32
    )


SETTLED = timedelta(minutes=30)
"""How long work, or a drop, lasts before it is taken for what it is."""
STEADY = timedelta(minutes=15)
"""The newest time that a settled drop is described by."""
DIVERTED = 0.4
"""Share of what the work itself would send over EFA under which slow executions send elsewhere, or wait for who does."""
_SURE = 12.0
"""The weight of a node that stands out of its job: what holds up one node explains all the others."""
STILL = 0.005
"""Pace under which a run's steps stand still: it would read as 0.00x."""

FAMILY = Family.DROP.rules
STARVED_BUSY_SUGGESTIONS = (
    "The host's CPUs are at their end: tokenize and decode ahead of time, or move it off the training nodes.",
    "Stage preprocessed data on FSx for Lustre; prefetch into host memory.",
)


@dataclass(frozen=True)
class Signs:
    """Hold the signs of the flagged nodes, medians over them; nan = not read."""

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


def explain(view: View, match: RuleMatch, rows: Rows) -> Explanation:
    """Name the likeliest cause of the drop, with the evidence for it and the runners-up.

    It is judged by most of the drop's life. One that was named before it settled gives way only to
    one that has evidence.
    """
    alert = view.alert_of(FAMILY, rows)
    lasted = max(
        float(match.steps[rows].max()),
        (view.now - alert.anomaly.window.start) / view.window.step if alert else 0,
    )
    settled = lasted > SETTLED / view.window.step
    signs = read_signs(view, rows, int(lasted) if settled else 0)
    slow = straggler(view, rows)
    ranked = rank(signs, view, int(rows[0]), slow)
    plain = ranked[0][0] is Cause.STARVED and not signs.cpu >= float(
        view.number("starved.cpu")[rows[0]]
    )
    if (
        alert
        and plain
        and alert.cause is not Cause.STARVED
        and (not settled or alert.cause is Cause.STRAGGLER)
    ):
        ranked = [(alert.cause, alert.anomaly.confidence), *alert.anomaly.runners_up]
    cause, confidence = ranked[0]
    loads = file_system_loads(view, rows) if cause is Cause.STARVED else []
    suspect, waits = _named(alert, cause, slow)
    return Explanation(
        why=_why(signs, cause, view.gauge(rows)) + waits,
        value=signs.level,
        unit="ratio",
        cause=cause,
        usual=(signs.low, signs.high),
        score=float(np.clip(1 - signs.level / max(signs.usual, 1e-6), 0.3, 1)),
        evidence=(
            *([f"{slow.instance}: {slow.sign}"] if slow else ()),
            *_evidence(signs, len(rows)),
            *map(load_words, loads),
            *_zones(view, rows),
            *cores.core_evidence(view, rows),
        ),
        confidence=confidence,
        runners_up=tuple(ranked[1:]),
        suggestions=_suggestions(cause, signs, more_throughput(loads)),
        suspect=suspect,
    )


def _suggestions(cause: Cause, signs: Signs, first: tuple[str, ...]) -> tuple[str, ...] | None:
    """Return the steps to try, those that the evidence names first.

    None where the table of causes knows best.
    """
    busy = cause is Cause.STARVED and signs.cpu >= 0.9
    rest = STARVED_BUSY_SUGGESTIONS if busy else cause.facts.suggestions
    return (*first, *rest) if first or busy else None


def _named(alert: Alert | None, cause: Cause, slow: Straggler | None) -> tuple[str, str]:
    """Return the node for which the others wait and the sentence that says so.

    ("", "") where that is not the cause.
    """
    if cause is not Cause.STRAGGLER:
        return "", ""
    if slow is None:
        before = alert.anomaly.suspect if alert else ""
        return before, f" All wait for {before}." if before else ""
    return slow.instance, f" {counted(slow.waiting, 'node')} wait for {slow.instance}: {slow.sign}."


def rank(
    signs: Signs, view: View, row: int, slow: Straggler | None = None
) -> list[tuple[Cause, float]]:
    """Return the possible causes with their shares of belief, the likeliest first.

    Weights are trnbot's own.
    """
    near_limit = signs.efa_share >= float(view.number("network_bound.above")[row])
    grown = float(view.number("collective_path.growth")[row])
    loader = signs.cpu >= min(
        float(view.number("starved.cpu")[row]), 1 - 0.5 * (1 - signs.cpu_usual)
    )
    starved = 1.0 + 2.0 * loader + 1.0 * (signs.read_ratio < 0.6)
    starved += 1.0 * (signs.latency_ratio < 1.15) + 0.5 * (signs.cpu >= signs.cpu_usual + 0.25)
    network = (
        0.4 + 5.0 * near_limit + 0.5 * (signs.efa_ratio > 1.3) + 0.4 * (signs.latency_ratio > 1.3)
    )
    stray = signs.ena_ratio >= grown and signs.ena > 2e8 and not signs.latency_ratio < 1.15
    lone = signs.alone and signs.efa > 1e9 and not signs.efa_ratio < grown
    kept = signs.level / max(signs.usual, 1e-6)
    diverted = signs.latency_ratio > 1.3 and signs.efa_ratio < DIVERTED * kept
    path = (
        0.2
        + 3.0 * stray
        + 3.0 * lone
        + 2.0 * diverted
        + 0.5 * (signs.latency_ratio > 1.3) * (stray or lone)
    )
    if lone:
        network -= 2.0 * near_limit
    weights = {Cause.STARVED: starved, Cause.NETWORK_BOUND: network, Cause.COLLECTIVE_PATH: path}
    weights |= {Cause.STRAGGLER: _SURE} if slow else {}
    weights = {
        cause: weight for cause, weight in weights.items() if view.limits.on(f"{cause}.on")[row]
    }
    total = sum(weights.values())
    return sorted(((c, round(w / total, 2)) for c, w in weights.items()), key=lambda x: -x[1])


def read_signs(view: View, rows: Rows, steps: int) -> Signs:
    """Read the signs of the nodes at `rows` against their usual.

    In the newest step, as the step of the onset is half and half.

    Once the drop has settled, by the middle of its `steps`, as far as they are looked at, without
    those of no training.
    """
    trained = (
        np.where(view.at_work[rows, -steps:], np.float32(0), np.nan)
        if steps
        else np.zeros((len(rows), 0), np.float32)
    )

    def now(values: Floats) -> Floats:
        return (
            percentiles(values[rows, -steps:] + trained, (0.5,))[0]
            if steps
            else view.recent(values, 1)[rows]
        )

    low, middle, high = (level[rows] for level in view.levels)
    latency = ratio_to(now(view.latency), view.usual_of(LATENCY)[rows])
    efa = now(view.efa)
    arriving = now(view.metric("network_in_bytes_per_second"))
    leaving = now(view.metric("network_out_bytes_per_second"))
    scope = view.roster.scope == view.roster.scope[rows[0]]
    busy = int((scope & (view.recent(view.utilization) > view.number("idle.below"))).sum())
    return Signs(
        level=middle_of(now(view.utilization)),
        usual=middle_of(middle),
        low=middle_of(low),
        high=middle_of(high),
        cpu=middle_of(now(view.cpu)),
        cpu_usual=middle_of(view.usual_of("host_cpu_utilization_ratio")[rows]),
        latency_ratio=middle_of(latency),
        efa_share=middle_of(efa / view.roster.nic[rows]),
        efa=middle_of(efa),
        efa_ratio=middle_of(ratio_to(efa, view.usual_of(SENT)[rows])),
        ena_ratio=middle_of(ratio_to(leaving, view.usual_of("network_out_bytes_per_second")[rows])),
        ena=middle_of(leaving),
        read_ratio=middle_of(
            ratio_to(arriving, view.usual_of("network_in_bytes_per_second")[rows])
        ),
        pace=_pace(view, rows),
        alone=busy <= 1 or _quiet_usually(view, rows),
    )


def middling(view: View, values: Floats, rows: Rows) -> Floats:
    """Return the median of the newest `STEADY` of the nodes at `rows`; nan where nothing was read."""
    return percentiles(values[rows, -view.window.steps(STEADY) :], (0.5,))[0]


def _quiet_usually(view: View, rows: Rows) -> bool:
    """Tell whether the nodes usually send next to nothing over EFA: single-node work."""
    usual = view.usual_of(SENT)[rows]
    return bool(np.isfinite(usual).any() and np.nanmedian(usual) < 1e8)


def _pace(view: View, rows: Rows) -> float:
    ratio = pace(view, view.roster.labels[rows[0]].cluster)
    return float("nan") if ratio is None else ratio


def ratio_to(now: Floats, usual: Floats) -> Floats:
    """Return `now` as a share of `usual`, nan where that is not known."""
    return np.where(usual > 0, now / np.where(usual > 0, usual, 1), np.nan).astype(np.float32)


def _why(signs: Signs, cause: Cause, gauge: str) -> str:
    """State the symptom; what was not read is not said."""
    parts = []
    if not np.isnan(signs.pace):
        parts.append(
            f"steps go on at {signs.pace:.2f}x" if signs.pace >= STILL else "steps stand still"
        )
    if not np.isnan(signs.cpu):
        parts.append(f"host CPU {percent(signs.cpu)}")
    if cause is Cause.NETWORK_BOUND and not np.isnan(signs.efa):
        limit = (
            "" if np.isnan(signs.efa_share) else f", {percent(signs.efa_share)} of the NIC's limit"
        )
        parts.append(f"EFA {rate(signs.efa)}{limit}")
    if cause is Cause.COLLECTIVE_PATH:
        read = [
            f"{name} {rate(x)}"
            for name, x in (("ENA", signs.ena), ("EFA", signs.efa))
            if not np.isnan(x)
        ]
        parts.append(
            "possible wrong path of collectives" + (f": {', '.join(read)}" if read else "")
        )
    usual = (
        ""
        if np.isnan(signs.low) or np.isnan(signs.high)
        else f", usually {span(signs.low, signs.high)} at this hour"
    )
    return f"{gauge} {percent(signs.level)}{usual}. {', '.join(['Runtime loaded', *parts])}."


def _evidence(signs: Signs, nodes: int) -> tuple[str, ...]:
    evidence = [
        f"{counted(nodes, 'node')} at {percent(signs.level / max(signs.usual, 1e-6))} of the usual"
    ]
    if not np.isnan(signs.cpu) and not np.isnan(signs.cpu_usual):
        evidence.append(f"host CPU {percent(signs.cpu)}, usually {percent(signs.cpu_usual)}")
    if not np.isnan(signs.latency_ratio):
        evidence.append(f"an execution takes {signs.latency_ratio:.2f}x its usual time")
    if not np.isnan(signs.efa_share):
        evidence.append(f"EFA at {percent(signs.efa_share)} of the NIC's limit")
    if not np.isnan(signs.read_ratio):
        evidence.append(f"data arrives at {signs.read_ratio:.2f}x its usual rate")
    return tuple(evidence)


def _zones(view: View, rows: Rows) -> tuple[str, ...]:
    """Say in which zones the job stands where it is more than one."""
    cluster = view.roster.labels[rows[0]].cluster
    return tuple(
        f"{one.job} stands in several zones: {one}"
        for one in scattered(view.reading)
        if one.cluster == cluster
    )
