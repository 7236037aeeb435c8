"""Name the nodes that compile, at which cost, and how to spare it; keep a ledger of all starts."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from bot.cards.card import (
    Align,
    Block,
    Button,
    Buttons,
    Card,
    Code,
    Strong,
    Text,
    Tone,
    When,
    compose,
    quiet,
    text,
)
from bot.cards.columns import COUNT, USD_CENTS, Column, Columns, Unit, datum
from bot.cards.lines import window_line
from bot.cards.words import about, as_read, period
from bot.costs.compiling import (
    Batch,
    CacheMiss,
    CompileBill,
    LedgerEntry,
    batches,
    clipped,
    ledger,
)
from bot.costs.pricing import Pricing, hours_of
from bot.grammar.names import refuse_unseen
from bot.grammar.registry import Needs, Topic, arg, command
from bot.model.causes import Cause
from bot.model.labels import Labels
from bot.model.money import counted, summed, usd
from bot.model.reading import Reading
from bot.model.request import Request
from bot.model.run import CompileMark, Ending, Mark
from bot.model.window import Days, Window, clock, duration_text, utc_text
from bot.ports import Ports

_RETRY = (
    "Neuron caches an interrupted compile as failed and later skips it, unless"
    " --retry_failed_compilation is in NEURON_CC_FLAGS (Neuron's documentation of its persistent"
    " cache)."
)
_AGAIN = (
    "These nodes compiled before and then worked: the cache missed, probably because the batch"
    " size, optimizer, compiler flags or compiler version changed, or because the cache is not"
    " kept."
)
_CACHE = (
    "a cache that all nodes share (NEURON_COMPILE_CACHE_URL; --cache_dir in NEURON_CC_FLAGS"
    " overrides it)"
)
_MOST, _LISTED = 4, 12


@dataclass(frozen=True)
class CompileNote:
    """Hold one batch with the settings that apply to it.

    The grace, and from how many nodes on to compile on one first.
    """

    batch: Batch
    grace: timedelta
    advise_from: int
    sharing: int = 0
    """On how many nodes the log says that another compiles the same graph."""
    again: bool = False
    """Whether its nodes compiled before, and then worked."""

    @property
    def long_after(self) -> datetime:
        """Return when it becomes a long compile."""
        return self.batch.window.start + self.grace


def compile_blocks(notes: Sequence[CompileNote], now: datetime) -> Iterator[Block]:
    """Name the nodes that compile now, then the compiles that were cut off lately."""
    going = [x for x in notes if x.batch.ending is Ending.GOING]
    cut = [x for x in notes if x.batch.ending is Ending.CUT]
    for note in going[:_MOST]:
        yield from _going(note, now)
    for note in cut[:_MOST]:
        batch = note.batch
        nodes = _who(batch).removesuffix(" are").removesuffix(" is")
        yield text(
            Strong(f"A compile on {nodes} was cut off"),
            " at ",
            When(batch.window.end),
            f" after {_minutes(batch.window.length)}: est. ",
            Strong(f"{_cost(batch)} wasted"),
            f", nothing executed. {_RETRY} A pre-compile that nobody has used yet looks the same.",
        )

    if hidden := len(going[_MOST:]) + len(cut[_MOST:]):
        yield quiet(f"And {counted(hidden, 'more compile')}.")


def log_blocks(marks: Sequence[CompileMark], notes: Sequence[CompileNote]) -> Iterator[Block]:
    """Repeat the complaints of compilers' logs.

    Graphs cached as failed, and waits for a lock though nothing compiles.
    """
    if skipped := {x.instance for x in marks if x.mark is Mark.SKIPPED}:
        yield text(
            f"{_nodes(skipped)} a graph that is cached as failed, according to the log: add"
            " --retry_failed_compilation to NEURON_CC_FLAGS."
        )
    waiting = {x.instance for x in marks if x.mark is Mark.WAITING}
    # While something compiles, to wait for it is as it should be.
    if waiting and not any(note.batch.ending is Ending.GOING for note in notes):
        yield text(
            f"{_nodes(waiting, 'wait')} for another process to compile, according to the log, and"
            " none is compiling: a killed one may have left its lock. If so, remove the .lock"
            " files in the compile cache."
        )


def _nodes(names: Collection[str], verb: str = "skip") -> str:
    return f"{next(iter(names))} {verb}s" if len(names) == 1 else f"{len(names):,} nodes {verb}"


COMPILES = Columns[CompileNote](
    datum("scope", lambda x: dict(x.batch.compiles[0].scope)),
    datum("nodes", lambda x: sorted({part.instance for part in x.batch.compiles})),
    datum("start", lambda x: x.batch.window.start),
    datum("end", lambda x: None if x.batch.ending is Ending.GOING else x.batch.window.end),
    datum("ending", lambda x: x.batch.ending.value),
    datum(
        "usd",
        lambda x: x.batch.usd,
        "sum over the compiles of node-hours x the price of the node's hour",
    ),
    datum(
        "spared_usd",
        lambda x: x.batch.spared_usd,
        "the sum less the slowest compile: what one node compiling for all would have saved",
    ),
    datum("grace_seconds", lambda x: x.grace.total_seconds(), "the setting compiling.grace"),
    datum("again", lambda x: x.again),
    datum("from_log", lambda x: any(part.told for part in x.batch.compiles)),
)


def compile_text(bill: CompileBill) -> Text:
    """Say how the estimate was made, and how much of it was for nothing or could be spared."""
    hours = f"{bill.node_hours:,.1f} node-hours in {counted(bill.compiles, 'compile')}"
    cost = usd(bill.usd) if bill.usd else "no price is known"
    parts = (
        f"Compiling, estimated: {cost} for {hours} since {utc_text(bill.window.start)}",
        f"{usd(bill.cut_usd)} of it cut off before anything executed" if bill.cut_usd else "",
        f"one node that compiles for the others would have saved {usd(bill.spared_usd)} of it"
        if bill.spared_usd
        else "",
        f"{counted(bill.unpriced, 'node')} without a known price" if bill.unpriced else "",
    )

    return quiet(
        "; ".join(filter(None, parts)),
        ". Hours seen compiling times the price of an hour; ",
        Code("compiles"),
        " says why, and what a cache that is kept would have saved.",
    )


def bill_data(bill: CompileBill) -> dict[str, Any]:
    """Return the line for scripts."""
    return {
        "start": bill.window.start,
        "end": bill.window.end,
        "compiles": bill.compiles,
        "node_hours": round(bill.node_hours, 4),
        "usd": bill.usd,
        "cut_usd": bill.cut_usd,
        "spared_usd": bill.spared_usd,
        "estimated": True,
    }


def _going(note: CompileNote, now: datetime) -> list[Block]:
    """Say how long a batch compiles, at which cost and until when, and how to spare it."""
    batch, began = note.batch, note.batch.window.start
    grace = f"its grace of {_minutes(note.grace)} (compiling.grace)"
    is_late = note.long_after <= now
    state = f"Past {grace} since " if is_late else f"Within {grace}; a long compile after "
    lines: list[Block] = [
        text(
            Strong(f"{_who(batch)} compiling"),
            f" for {_minutes(now - began)} (since ",
            When(began),
            "): ",
            "est. cost so far ",
            Strong(_cost(batch)),
            ". ",
            Strong("Do not cancel"),
            f": {_RETRY} ",
            state,
            When(note.long_after),
            ".",
            *((f" {_AGAIN}",) if note.again else ()),
        )
    ]
    # One node has nobody to share a compile with.
    if batch.nodes < 2:
        return lines

    advice, spared = f"use {_CACHE}", ""
    if batch.nodes >= note.advise_from:
        advice = f"compile on one node first (neuron_parallel_compile), into {_CACHE}"
    if batch.spared_usd:
        spared = (
            f": about {_rounded(batch.spared_usd)} of it would have been saved (the sum less the"
            " slowest)"
        )
    sentences = [f"{batch.nodes} nodes compile at the same time."]
    if note.sharing:
        sentences.append(
            f"According to the log, {note.sharing} of them compile a graph that another compiles"
            " too."
        )

    return [*lines, quiet(" ".join((*sentences, f"Next time {advice}{spared}.")))]


def _who(batch: Batch) -> str:
    scope = batch.compiles[0].scope
    where = scope.cluster or scope.team or scope.region or scope.account
    place = f" of {where}" if where else ""
    if batch.nodes > 1:
        return f"{batch.nodes} nodes{place} are"
    return f"{batch.compiles[0].instance}{place} is"


def _cost(batch: Batch) -> str:
    return "not known (no price)" if batch.usd is None else _rounded(batch.usd)


def _rounded(amount: Decimal) -> str:
    return usd(amount) if amount < 100 else about(amount)


def _minutes(length: timedelta) -> str:
    return duration_text(length, Days.NEVER)


_REMEDIES: Mapping[CacheMiss, str] = {
    CacheMiss.FIRST: "where many nodes compile at once, all pay for the wait: compile on one node"
    " (neuron_parallel_compile) before the others are launched.",
    CacheMiss.GRAPH: "the log names graphs that were never compiled: a new shape, batch size,"
    " optimizer, precision or line of code makes one. Pad to a few shapes, and compile on one node"
    " first (neuron_parallel_compile).",
    CacheMiss.FLAGS: "the same graphs were compiled before with other flags: keep NEURON_CC_FLAGS"
    " the same on every start and node.",
    CacheMiss.NOT_SHARED: f"nodes compiled what others had compiled: use {_CACHE}.",
    CacheMiss.NOT_KEPT: "nodes compiled the same graphs with the same flags again: the cache is on a disk that is lost with the pod or node"
    ", or the compiler's version changed.",
    CacheMiss.COLD: "jobs that ran before compiled again at their start. Which part of the key was"
    " missed (graph, flags, version, place) is in the compiler's log, which is not read here.",
    CacheMiss.UNKNOWN: "nodes that had compiled before, for the same job or for another one: tag"
    " nodes with their job, or let the compiler's log be read (docs/aws.md).",
}
"""The remedy for each part of the key that was missed."""

LEDGER = Columns[LedgerEntry](
    Column("begun", lambda x: clock(x.batch.window.start)),
    datum("window", lambda x: x.batch.window),
    Column("where", lambda x: x.batch.place),
    datum("scope", lambda x: dict(x.batch.compiles[0].scope)),
    Column("nodes", lambda x: x.batch.nodes, COUNT, "nodes", "count of the nodes that compiled"),
    Column("for", lambda x: x.batch.window.length, Unit(_minutes, Align.LEFT)),
    Column(
        "cost",
        lambda x: x.batch.usd,
        USD_CENTS,
        "usd",
        "sum over the nodes of hours compiling x the price of the node's hour",
        total=True,
    ),
    Column(
        "avoidable",
        lambda x: x.spared_usd,
        USD_CENTS,
        "spared_usd",
        "all of it where the work had been compiled before (one cache for all nodes), else the sum"
        " less the slowest node (one node that compiles before the others are launched)",
        total=True,
    ),
    Column("why", lambda x: x.miss.value, key="miss"),
    datum("ending", lambda x: x.batch.ending.value),
)


def ledger_card(entries: Sequence[LedgerEntry], window: Window, *, logged: bool) -> Card:
    """List the starts that compiled, the dearest first, with the cost, cause and remedy of each."""
    total = sum((entry.batch.usd or Decimal(0) for entry in entries), Decimal(0))
    spared = sum((entry.spared_usd for entry in entries), Decimal(0))
    data = {
        "window": window,
        "usd": total,
        "spared_usd": spared,
        "estimated": True,
        "compiles": LEDGER.data(entries),
    }
    if not entries:
        return Card(
            f"No compile, {period(window)}", Tone.INFO, (text("No node was seen compiling."),), data
        )

    by_miss = summed((entry.miss, entry.batch.usd or Decimal(0)) for entry in entries)
    title = f"Compiling: {usd(total)} in {counted(len(entries), 'start')}, {period(window)}"
    if spared:
        title = f"Compiling: {usd(total)}, up to {usd(spared)} of it avoidable"
    again = sum((entry.again_usd for entry in entries), Decimal(0))

    return Card(
        title,
        Tone.WARNING if again > total / 2 else Tone.INFO,
        compose(
            LEDGER.table(entries, most=_LISTED, total="total"),
            [
                text(Strong(f"{miss.value.capitalize()}, {usd(amount)}"), f": {_REMEDIES[miss]}")
                for miss, amount in sorted(by_miss.items(), key=lambda x: -x[1])
            ],
            quiet(
                "Estimates: hours seen compiling times the price of an hour. Nodes of a cluster that"
                " compile at the same time are one start."
                + ("" if logged else " No compiler's log is read here, so no graph is known.")
            ),
            Buttons(
                (Button("Goodput", f"goodput {window_line(window)}"), Button("Fleet", "fleet"))
            ),
        ),
        data,
    )


def ledger_within(
    ports: Ports, reading: Reading, window: Window, cluster: str = ""
) -> list[LedgerEntry]:
    """Return the starts that compiled within a window, each with why; may block."""
    frame = reading.frame("node")
    since = min(frame.start if frame else reading.now, window.start)
    every = [
        compilation
        for compilation in ports.world.compiles(reading, ports.policy, since)
        if cluster in ("", compilation.scope.cluster)
    ]
    of_cache = [
        (alert, set(alert.things))
        for alert in ports.stores.alerts.history(Window(since, window.end), Labels())
        if alert.cause is Cause.COLD_CACHE
    ]

    def cold(batch: Batch) -> bool:
        """Return whether an alert told that the job of a start had compiled before."""
        nodes = {x.instance for x in batch.compiles}
        return any(
            nodes & things
            and alert.anomaly.window.start < batch.window.end
            and alert.seen > batch.window.start
            for alert, things in of_cache
        )

    # What the window holds is held against what came before it as well.
    hour_of = hours_of(Pricing(ports).at(reading.now), reading.inventory)
    starts = batches(clipped(every, Window(since, window.end)), hour_of)

    return [
        entry
        for entry in ledger(starts, reading.marks, cold)
        if entry.batch.window.start >= window.start
    ]


@command(
    "compiles",
    "Every start that compiled, the most expensive first: its cost, the likely reason that the"
    " cache missed, and how much was avoidable.",
    needs=Needs.METRICS | Needs.DETECTOR | Needs.STATE,
    may=Needs.BILL,
    topic=Topic.COSTS,
    examples=("compiles", "compiles 7d cluster=llama"),
    rows=("compiles",),
    figures={
        "usd": "sum over the starts",
        "spared_usd": "sum over the starts",
        **LEDGER.sources("compiles"),
    },
)
def compiles(
    ports: Ports,
    request: Request,
    window: Window = arg("14d", "which days"),
    cluster: str = arg("", "only this cluster's", keyword=True),
) -> Card:
    """Hold each start against those before it, as far as metrics go back."""
    reading = ports.world.source.read(request.at)
    refuse_unseen(cluster, reading)
    entries = sorted(
        ledger_within(ports, reading, window, cluster),
        key=lambda entry: -(entry.batch.usd or Decimal(0)),
    )
    card = ledger_card(entries, window, logged=bool(reading.marks))

    return as_read(card, "It is not known what compiled", reading)
