"""Explain why nodes work under their usual: data, network, collectives' path, or one slow node."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np

from bot.model.causes import Cause
from bot.model.labels import Labels
from bot.model.money import counted
from bot.model.reading import scattered
from detectors.jobs import AS_QUICK
from detectors.nodes import cores
from detectors.nodes.shortfall import FAMILY, NOW, SETTLED, under
from detectors.nodes.storage import file_system_loads, load_words, more_throughput
from detectors.numbers import (
    Floats,
    Mask,
    Rows,
    count,
    duration,
    middle_of,
    newest_of,
    number,
    percent,
    rate,
    span,
)
from detectors.progress import SLOWER, TOGETHER, pace_of_nodes
from detectors.rule import SIGNS, Explanation, RuleMatch, believed
from detectors.usual import CPU, DROPPED, LATENCY, SENT, median, medians_where
from detectors.view import BEFORE, View

STEADY = duration("drop_cause.STEADY")
DIVERTED = number("drop_cause.DIVERTED")
STARVED_BUSY_SUGGESTIONS = (
    "The host's CPUs are saturated: tokenize and decode ahead of time, or move it off the"
    " training nodes.",
    "Stage preprocessed data on FSx for Lustre; prefetch into host memory.",
)

BUSY = number("drop_cause.BUSY")
AHEAD = number("drop_cause.AHEAD")
CPU_ABOVE = number("drop_cause.CPU_ABOVE")


def slower(view: View) -> Mask:
    """Return which nodes' executions take longer than usual and than in usual work lately, (n,).

    A job may slow its executions and not its work, as a longer context does: those of its pauses
    are then no slower.
    """
    latency = view.recent(view.latency, view.window.steps(NOW))
    longer = np.asarray(ratio_to(latency, view.usual_of(LATENCY)) >= SLOWER)
    rows = np.flatnonzero(longer)
    if len(rows):
        newest = slice(-view.window.steps(BEFORE), None)
        working = view.utilization[rows, newest] >= view.usual_work[rows, None]
        # A run says by its own count since when its work is not the usual one.
        pace = pace_of_nodes(view)
        working &= ~newest_of(working.shape[1], pace.slow_steps[rows] * pace.counted[rows])
        before = medians_where(view.latency[rows, newest], working)
        longer[rows] = ~(latency[rows] < SLOWER * before)
    return longer


def quiet(view: View) -> Mask:
    """Return which nodes lately sent far less than their work would, (n,).

    So does an evaluation, whose executions may be longer. It is asked of each step: an evaluation
    that ended within the newest one has sent as much as ever since.
    """
    newest = slice(-view.window.steps(STEADY), None)
    sent = ratio_to(view.metric(SENT)[:, newest], view.usual_of(SENT)[:, None])
    work = ratio_to(view.utilization[:, newest], view.levels[1][:, None])
    return np.asarray(((sent < DIVERTED * work) & view.executing[:, newest]).any(axis=1))


def loader_busy(view: View) -> Mask:
    """Return which hosts' CPUs are far busier than usual, as by a slow data loader, (n,)."""
    cpu = view.recent(view.cpu, view.window.steps(NOW))
    usual = view.usual_of(CPU)
    return np.asarray((cpu >= view.number("starved.cpu")) & ~(cpu < usual + CPU_ABOVE))


def saturated(view: View) -> Mask:
    """Return which nodes' host CPUs or NIC are saturated, (n,).

    That is evidence of a drop even in a job whose usual is not known yet.
    """
    share = view.recent(view.efa, view.window.steps(NOW)) / view.roster.nic
    return np.asarray(loader_busy(view) | (share >= view.number("network_bound.above")))


def troubled(view: View) -> Mask:
    """Return where a drop shows a sign: slow executions, a busy host or a full NIC."""
    late = view.latency >= SLOWER * view.usual_of(LATENCY)[:, None]
    return np.asarray(under(view) & (view.overloaded | late))


@dataclass(frozen=True)
class Straggler:
    """Name the slow node, the sign of it, and how many nodes wait for it."""

    instance: str
    sign: str
    waiting: int


def straggler(view: View, rows: Rows) -> Straggler | None:
    """Return the node for which those at `rows`, which fell under their usual, wait.

    None where no node stands out.
    """
    # The slow node is seen first by its executions; those that wait for it may not be told yet.
    peers = np.flatnonzero(view.fellows(rows))
    level, longer, sent = (
        ratio_to(view.recent(now), usual)[peers]
        for now, usual in (
            (view.utilization, view.levels[1]),
            (view.latency, view.usual_of(LATENCY)),
            (view.metric(SENT), view.usual_of(SENT)),
        )
    )
    fallen = level < view.number("starved.over")[peers]
    fallen |= np.isin(peers, rows) & np.isnan(level)

    # What executes and sends as ever waits for nobody: it is of another job that no tag tells.
    apart = ~fallen & (np.abs(longer - 1) <= AS_QUICK) & (np.abs(sent - 1) <= AS_QUICK)
    peers, fallen, level = peers[~apart], fallen[~apart], level[~apart]
    if fallen.sum() < max(count("drop_cause.LEAST"), 0.5 * len(rows), len(peers) - 1):
        return None
    return _that_works(view, peers, fallen, level) or _with_busy_host(view, peers, fallen)


def _that_works(view: View, peers: Rows, fallen: Mask, level: Floats) -> Straggler | None:
    """Return the only node that works on though its executions slowed with the others'."""
    slower = ratio_to(view.recent(view.latency), view.usual_of(LATENCY))[peers]
    sent = ratio_to(view.recent(view.metric(SENT)), view.usual_of(SENT))[peers]
    working = ~fallen & (level >= max(BUSY, float(np.nanmedian(level[fallen])) + AHEAD))
    if working.sum() != 1:
        return None

    # The others' executions last as long as its own, where their collectives wait for it.
    suspect = int(np.flatnonzero(working)[0])
    late, silent = middle_of(slower[fallen]), middle_of(sent[fallen])
    if np.isnan(slower[suspect]):
        in_step = silent < BUSY - AHEAD and abs(sent[suspect] - silent) <= TOGETHER
    else:
        in_step = slower[suspect] >= SLOWER and not late > (1 + TOGETHER) * slower[suspect]
    if not in_step:
        return None

    level_now = view.recent(view.utilization)[peers]
    busy, waiting = percent(float(level_now[suspect])), percent(middle_of(level_now[fallen]))
    sign = f"its cores are busy at {busy}, those of the others at {waiting}"
    if late >= SLOWER:
        sign += f", and an execution takes all of them {late:.1f}x its usual time"
    elif slower[suspect] >= SLOWER:
        sign += f", and an execution takes it {slower[suspect]:.1f}x its usual time"
    return Straggler(view.roster.ids[peers[suspect]], sign, int(fallen.sum()))


def _with_busy_host(view: View, peers: Rows, fallen: Mask) -> Straggler | None:
    """Return the only node whose host is saturated while the others' rest as usual.

    Its data loader holds up the whole job.
    """
    cpu = view.recent(view.cpu)[peers]
    above = cpu - view.usual_of(CPU)[peers]
    busy = (cpu >= view.number("starved.cpu")[peers]) & (above >= CPU_ABOVE)
    if busy.sum() != 1 or np.isnan(above).any() or (above[~busy] > CPU_ABOVE / 2).any():
        return None
    suspect = int(np.flatnonzero(busy)[0])
    highest, typical = percent(float(cpu[suspect])), percent(middle_of(cpu[~busy]))
    sign = f"its host's CPU is at {highest}, that of the others at {typical}"
    return Straggler(view.roster.ids[peers[suspect]], sign, int((fallen & ~busy).sum()))


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
    dropped: float
    dropped_usual: float
    pace: float
    counted: bool
    """Whether the pace is of a run's own count."""
    alone: bool
    by_hour: bool
    """Whether the usual is that of an hour of the day."""
    in_turns: bool
    """Whether the drop comes and goes, and the level is its mean."""


def explain(view: View, match: RuleMatch, rows: Rows) -> Explanation:
    """Name the likeliest cause of the drop, with the evidence for it and the runners-up.

    It is judged by most of the drop's life.
    """
    alert = view.alert_of(FAMILY, rows)
    lasted = float(match.steps[rows].max())
    if alert:
        lasted = max(lasted, (view.now - alert.anomaly.window.start) / view.window.step)
    settled = lasted > SETTLED / view.window.step
    signs = read_signs(view, rows, int(lasted) if settled else 0)
    slow = straggler(view, rows)
    present = signs_present(signs, view, int(rows[0]), slow)
    on = {Cause(rule) for rule in FAMILY if view.on(f"{rule}.on")[rows[0]]}
    ranked = believed(present, on)

    # A cause that was named before the drop settled gives way only to one that has evidence.
    plain = not any(
        sign.sign in present and sign.weight >= number("drop_cause.DECIDES") for sign in SIGNS
    )
    still_holds = not settled or (alert is not None and alert.cause is Cause.STRAGGLER)
    if alert and plain and still_holds and alert.cause is not Cause.STARVED:
        ranked = [(alert.cause, alert.anomaly.confidence), *alert.anomaly.runners_up]
    cause, confidence = ranked[0]

    suspect, waits = "", ""
    if cause is Cause.STRAGGLER and slow:
        suspect = slow.instance
        waits = f" {counted(slow.waiting, 'node')} wait for {suspect}: {slow.sign}."
    elif cause is Cause.STRAGGLER and alert and alert.anomaly.suspect:
        suspect = alert.anomaly.suspect
        waits = f" All wait for {suspect}."

    loads = file_system_loads(view, rows) if cause is Cause.STARVED else []
    suggestions = more_throughput(loads)
    if cause is Cause.STARVED and signs.cpu >= number("drop_cause.FULL"):
        suggestions += STARVED_BUSY_SUGGESTIONS
    elif suggestions:
        suggestions += cause.facts.suggestions

    waiting = view.nobody() if match.kept is None else match.kept
    waiting = waiting & (view.roster.scope == view.roster.scope[rows[0]])
    held_up = Counter(view.jobs[waiting & ~np.isin(view.jobs, view.jobs[rows])].tolist())
    of_job = Labels.shared(view.roster.labels[i] for i in rows).only(["job"])
    cluster = view.roster.labels[rows[0]].cluster
    zones = [job for job in scattered(view.reading) if job.cluster == cluster]
    return Explanation(
        why=_why(signs, cause, view.gauge(rows)) + waits,
        value=signs.level,
        unit="ratio",
        cause=cause,
        usual=(signs.low, signs.high),
        by_value=not signs.pace < float(view.number("starved.over")[rows[0]]),
        score=float(np.clip(1 - signs.level / max(signs.usual, 1e-6), 0.3, 1)),
        evidence=(
            *([f"{slow.instance}: {slow.sign}"] if slow else ()),
            *_evidence(signs, len(rows)),
            *(
                counted(n, f"node of {job} waits", f"nodes of {job} wait")
                + " for it longer than ever"
                for job, n in held_up.items()
                if job
            ),
            *map(load_words, loads),
            *(f"{job.job} runs in several zones: {job}" for job in zones),
            *cores.core_evidence(view, rows),
        ),
        confidence=confidence,
        runners_up=tuple(ranked[1:]),
        suggestions=suggestions or None,
        suspect=suspect,
        labels=of_job if held_up else Labels(),
    )


def signs_present(signs: Signs, view: View, row: int, slow: Straggler | None) -> set[str]:
    """Return which signs of the table are present; one that was not read is not."""
    grown = float(view.number("collective_path.growth")[row])
    loader_at = min(float(view.number("starved.cpu")[row]), 1 - 0.5 * (1 - signs.cpu_usual))
    share = signs.level / max(signs.usual, 1e-6)
    late, quick = signs.latency_ratio > SLOWER, signs.latency_ratio < 1 + AS_QUICK
    astray = signs.ena_ratio >= grown and signs.ena > number("drop_cause.STRAY") and not quick
    lone = signs.alone and signs.efa > number("drop_cause.LONE") and not signs.efa_ratio < grown
    full = signs.efa_share >= float(view.number("network_bound.above")[row])
    in_proportion = abs(signs.efa_ratio * signs.latency_ratio - 1) <= TOGETHER
    present = {
        "dropped": True,
        "loader_busy": signs.cpu >= loader_at,
        "cpu_grown": signs.cpu >= signs.cpu_usual + CPU_ABOVE,
        "data_late": signs.read_ratio < number("drop_cause.LATE"),
        "executions_quick": quick,
        "executions_slow": late,
        "nic_full": full and not lone,
        "nic_full_alone": full and lone,
        "efa_grown": signs.efa_ratio > SLOWER,
        "packets_lost": signs.dropped > max(1.0, grown * np.nan_to_num(signs.dropped_usual)),
        "traffic_slowed": late and in_proportion and not signs.alone,
        "ena_stray": astray,
        "lone_traffic": lone,
        # What EFA does not send must be seen on ENA, where that is read.
        "efa_missing": late and signs.efa_ratio < DIVERTED * share and not signs.ena_ratio < grown,
        "executions_slow_astray": late and (astray or lone),
        "node_stands_out": slow is not None,
        "waits_busy": share >= BUSY and signs.pace < BUSY - AHEAD,
    }
    return {name for name, is_there in present.items() if is_there}


def read_signs(view: View, rows: Rows, steps: int) -> Signs:
    """Read the signs of the nodes at `rows` against their usual.

    They are read in the newest step, as the step of the onset is half and half; once the drop has
    settled, in the middle of its `steps`, as far as these are looked at, without those of no
    training.
    """
    trains = view.at_work[rows, -steps:]
    trains |= ~trains.any(axis=1, keepdims=True)  # without training all of its steps tell

    def now(values: Floats) -> Floats:
        if steps:
            return median(np.where(trains, values[rows, -steps:], np.nan))
        return view.recent(values, 1)[rows]

    def usual(name: str) -> Floats:
        return view.usual_of(name)[rows]

    low, middle, high = (level[rows] for level in view.levels)
    efa = now(view.efa)
    arriving = now(view.metric("network_in_bytes_per_second"))
    leaving = now(view.metric("network_out_bytes_per_second"))

    # Work on a single node: it is the only busy one, or usually sends next to nothing over EFA.
    scope = view.roster.scope == view.roster.scope[rows[0]]
    busy = int((scope & (view.recent(view.utilization) > view.number("idle.below"))).sum())
    sent = usual(SENT)
    alone = busy <= 1 or bool(
        np.isfinite(sent).any() and np.nanmedian(sent) < number("drop_cause.ALONE")
    )
    pace = pace_of_nodes(view)

    # Where most of the drop's steps are within the usual ones it comes and goes: its mean tells,
    # against that of the usual work.
    level, mean = now(view.utilization), view.recent(view.utilization, max(1, steps))[rows]
    over, average = middle_of(view.usual_work[rows]), middle * view.usual.unpaused[rows]
    within = middle_of(level) >= min(over, middle_of(low))
    in_turns = bool(steps) and within and middle_of(mean) < min(over, middle_of(average))
    if in_turns:
        level, low, high = mean, average, average
    return Signs(
        level=middle_of(level),
        usual=middle_of(middle),
        low=middle_of(low),
        high=middle_of(high),
        cpu=middle_of(now(view.cpu)),
        cpu_usual=middle_of(usual(CPU)),
        latency_ratio=middle_of(ratio_to(now(view.latency), usual(LATENCY))),
        efa_share=middle_of(efa / view.roster.nic[rows]),
        efa=middle_of(efa),
        efa_ratio=middle_of(ratio_to(efa, sent)),
        ena_ratio=middle_of(ratio_to(leaving, usual("network_out_bytes_per_second"))),
        ena=middle_of(leaving),
        read_ratio=middle_of(ratio_to(arriving, usual("network_in_bytes_per_second"))),
        dropped=middle_of(now(view.metric(DROPPED))),
        dropped_usual=middle_of(usual(DROPPED)),
        pace=middle_of(pace.lately[rows]),
        counted=bool(pace.counted[rows].any()),
        alone=alone,
        by_hour=bool(view.roster.inference[rows[0]]),
        in_turns=in_turns,
    )


def ratio_to(now: Floats, usual: Floats) -> Floats:
    """Return `now` as a share of `usual`, nan where that is not known."""
    return np.where(usual > 0, now / np.where(usual > 0, usual, 1), np.nan).astype(np.float32)


def _why(signs: Signs, cause: Cause, gauge: str) -> str:
    """State the symptom; a sign that was not read is left out."""
    parts = ["Runtime loaded"]
    if signs.pace >= number("drop_cause.STILL"):
        work = "steps" if signs.counted else "executions"
        parts.append(f"{work} run at {percent(signs.pace)} of their usual rate")
    elif not np.isnan(signs.pace):
        parts.append("steps stand still")
    if not np.isnan(signs.cpu):
        parts.append(f"host CPU {percent(signs.cpu)}")
    if cause is Cause.NETWORK_BOUND and not np.isnan(signs.efa):
        limit = f", {percent(signs.efa_share)} of the NIC's limit"
        parts.append(f"EFA {rate(signs.efa)}{'' if np.isnan(signs.efa_share) else limit}")
    if cause is Cause.COLLECTIVE_PATH:
        rates = (("ENA", signs.ena), ("EFA", signs.efa))
        speeds = ", ".join(f"{name} {rate(sent)}" for name, sent in rates if not np.isnan(sent))
        parts.append("possible wrong path of collectives" + (f": {speeds}" if speeds else ""))

    usual = ""
    if not (np.isnan(signs.low) or np.isnan(signs.high)):
        hour = " at this hour" if signs.by_hour else ""
        usual = f", usually {span(signs.low, signs.high)}{hour}"
    average = " on average" if signs.in_turns else ""
    return f"{gauge} {percent(signs.level)}{average}{usual}. {', '.join(parts)}."


def _evidence(signs: Signs, nodes: int) -> list[str]:
    share = signs.level / max(signs.usual, 1e-6)
    cpu, usual, late, arriving = signs.cpu, signs.cpu_usual, signs.latency_ratio, signs.read_ratio
    lasts = "as long as usual" if f"{late:.1f}" == "1.0" else f"{late:.1f}x its usual time"
    sentences = (
        (True, f"{counted(nodes, 'node')} at {percent(share)} of the usual utilization"),
        (np.isfinite([cpu, usual]).all(), f"host CPU {percent(cpu)}, usually {percent(usual)}"),
        (np.isfinite(late), f"an execution takes {lasts}"),
        (np.isfinite(signs.efa_share), f"EFA at {percent(signs.efa_share)} of the NIC's limit"),
        (signs.dropped > 0, f"EFA drops {signs.dropped:,.0f} packets a second"),
        (np.isfinite(arriving), f"data arrives at {percent(arriving)} of its usual rate"),
    )
    return [sentence for is_known, sentence in sentences if is_known]
