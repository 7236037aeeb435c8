"""Show the fleet: clusters with their nodes' states, a day as a heat map, idle nodes."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import numpy as np

from bot.answers.fleet.compiling import CompileNote, compile_blocks, compile_data, log_blocks
from bot.answers.fleet.unread import Spread, gaps, no_nodes, spread_data, spread_texts, unread
from bot.cards.card import (
    Align,
    Block,
    Button,
    Buttons,
    Card,
    Chart,
    ChartKind,
    Heading,
    Series,
    Table,
    Tone,
    coded,
    folded,
    quiet,
    text,
)
from bot.cards.lines import quote
from bot.model.anomaly import NodeState
from bot.model.fleet import Cluster, Instance
from bot.model.frame import Floats, Frame
from bot.model.money import counted, usd
from bot.model.price import Price
from bot.model.reading import Reading

_DAY, _HOUR = timedelta(hours=24), timedelta(hours=1)
_ROWS = 12


def fleet_heat(frame: Frame | None, names: Sequence[str], label: str = "cluster") -> Chart | None:
    """Return the last 24 hours of the mean utilization of up to 12 clusters, or nodes, in percent.

    None where nothing was read.

    `frame` is that of the nodes; GPU nodes count by their GPUs. An hour is a whole one of UTC, the
    last up to now.
    """
    if frame is None:
        return None
    cut = frame.last(_DAY)
    hours = _hours([end - cut.step for end in cut.times()])
    starts = sorted(set(hours))
    values = _utilization(cut)
    rows = {name: _row(values[_of(cut, name, label)], hours, starts) for name in names[:_ROWS]}
    rows = {name: row for name, row in rows.items() if any(value is not None for value in row)}
    if not rows:
        return None
    series = tuple(
        Series(name or "(no cluster)", row, line=f"fleet {quote(name)}" if name else "")
        for name, row in rows.items()
    )
    few = f", the {_ROWS} least used nodes" if label == "instance" and len(names) > _ROWS else ""
    title = f"Utilization by hour{few}: the stronger, the busier"
    return Chart(ChartKind.HEAT, title, "%", series, tuple(starts), summary=_summary(rows))


def _utilization(frame: Frame) -> Floats:
    cores, gpus = frame.of("neuroncore_utilization_ratio"), frame.of("gpu_utilization_ratio")
    return np.where(np.isnan(cores), gpus, cores)


def _hours(times: Sequence[datetime]) -> list[datetime]:
    return [at.astimezone(UTC).replace(minute=0, second=0, microsecond=0) for at in times]


def _of(frame: Frame, name: str, label: str) -> list[int]:
    return [i for i, thing in enumerate(frame.things) if getattr(thing, label) == name]


def _row(
    values: Floats, hours: Sequence[datetime], starts: Sequence[datetime]
) -> tuple[float | None, ...]:
    """Return the mean of each hour in percent, None where no node was read."""
    column = np.array([starts.index(hour) for hour in hours])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        means = (
            [float(np.nanmean(values[:, column == i])) for i in range(len(starts))]
            if len(values)
            else []
        )
    return tuple(None if np.isnan(mean) else round(mean * 100, 1) for mean in means)


def _summary(rows: Mapping[str, Sequence[float | None]]) -> str:
    """Say the newest of each row, the least used first."""
    newest = [
        (values[-1], name)
        for name, row in rows.items()
        if (values := [value for value in row if value is not None])
    ]
    shares = ", ".join(
        f"{name or '(no cluster)'} {value:.0f} %" for value, name in sorted(newest)[:6]
    )
    return f"Utilization in the last hour: {shares}."


_MOST, _FEW = 15, 6
_FRESH = timedelta(hours=1)
"""How long a line of a compiler's log is worth a sentence."""
_STILL = {
    NodeState.IDLE: "nothing is loaded, the node can go",
    NodeState.LOADED_IDLE: "a job holds the cores and does nothing",
}
_TONES: Mapping[NodeState, Tone] = {
    NodeState.BUSY: Tone.INFO,
    NodeState.STARVED: Tone.WARNING,
    NodeState.COMPILING: Tone.GOOD,
    NodeState.LOADED_IDLE: Tone.ERROR,
    NodeState.IDLE: Tone.CRITICAL,
}
_NODE_COLUMNS = (
    Heading("node"),
    Heading("cluster"),
    Heading("type"),
    Heading("state"),
    Heading("used", Align.RIGHT),
    Heading("$/h", Align.RIGHT),
)


@dataclass(frozen=True)
class NodeRow:
    """Hold one running node.

    State now, mean utilization of the last hour (None = no reading), price.
    """

    instance: Instance
    state: NodeState
    used: float | None
    price: Price | None

    @property
    def usd_per_hour(self) -> Decimal:
        """Return the price of an hour, 0 where none is known."""
        return self.price.usd_per_hour if self.price else Decimal(0)


def fleet_card(
    rows: Sequence[NodeRow],
    cluster: str,
    reading: Reading,
    spread: Sequence[Spread] = (),
    compiles: Sequence[CompileNote] = (),
) -> Card:
    """Summarise by cluster, or list the nodes of one.

    `spread` are jobs in several zones, `compiles` those that compile.
    """
    if not rows:
        return no_nodes(reading)
    per_hour = _sum(rows)
    trouble = _trouble(rows)
    blocks: list[Block] = [
        *([text(trouble)] if trouble else []),
        *unread(reading),
        *compile_blocks(compiles, reading.now),
    ]
    mine = {row.instance.id for row in rows}
    blocks += log_blocks(
        [x for x in reading.marks if x.instance in mine and reading.now - x.at < _FRESH], compiles
    )
    blocks += spread_texts(spread)
    blocks += [node_table(rows, apart=False)] if cluster else [_clusters(rows), _money_chart(rows)]
    blocks += _heat(rows, reading, cluster)
    blocks += [quiet(_eks(eks)) for eks in reading.inventory.eks if eks.name == cluster]
    other = Button("All clusters", "fleet") if cluster else Button("Alerts", "alerts")
    blocks += [
        quiet(_basis(rows)),
        Buttons((Button("Idle nodes", f"idle {cluster}".strip()), other)),
    ]
    title = f"{cluster or 'Fleet'}: {counted(len(rows), 'node')} running, {usd(per_hour)} an hour"
    data = {
        "nodes": [node_data(row) for row in rows],
        "usd_per_hour": per_hour,
        "compiles": compile_data(compiles),
    }
    return Card(
        title,
        Tone.WARNING if trouble or spread else Tone.INFO,
        tuple(blocks),
        data | spread_data(spread),
    )


def idle_card(rows: Sequence[NodeRow], cluster: str, reading: Reading, unsure: int = 0) -> Card:
    """List the nodes that do nothing, dearest first; `unsure` of them may as well compile."""
    where = f" in {cluster}" if cluster else ""
    per_hour = _sum(rows)
    data = {"nodes": [node_data(row) for row in rows], "usd_per_hour": per_hour}
    if not rows and reading.gaps:
        title = f"No node stands idle{where}, as far as could be read"
        return Card(title, Tone.WARNING, unread(reading), data | {"gaps": gaps(reading)})
    if not rows:
        return Card(
            f"No node stands idle{where}",
            Tone.GOOD,
            (text("Every running node works, compiles, or has just started."),),
            data,
        )
    title = f"{_nothing(len(rows), 'node')}{where}: {usd(per_hour)} an hour"
    notes = [
        f"“{state.value}”: {meaning}."
        for state, meaning in _STILL.items()
        if any(row.state is state for row in rows)
    ]
    if unsure:
        notes.append(
            f"The host CPU of {unsure:,} is not read, so they may be compiling: look for `neuronx-cc` before you stop them."
        )
    buttons = Buttons((Button("Alerts", "alerts"), Button("Fleet", f"fleet {cluster}".strip())))
    said = (
        node_table(rows, apart=not cluster),
        quiet(*coded(" ".join(notes))),
        quiet(_basis(rows)),
    )
    return Card(title, Tone.WARNING, (*unread(reading), *said, buttons), data)


def node_table(rows: Sequence[NodeRow], *, apart: bool) -> Table:
    """List nodes, dearest first, those alike in one row where they are many.

    `apart` tells their clusters apart.
    """
    ranked = sorted(
        rows, key=lambda r: (-r.usd_per_hour, r.used if r.used is not None else 2.0, r.instance.id)
    )
    columns = (
        _NODE_COLUMNS
        if apart
        else tuple(column for column in _NODE_COLUMNS if column.name != "cluster")
    )
    lines = tuple(f"fleet {row.instance.id}" for row in ranked)
    every = Table(columns, tuple(_nodes([row], apart) for row in ranked), lines=lines)
    groups = _alike(ranked) if len(ranked) > _FEW else [[row] for row in ranked]
    shown = tuple(_nodes(group, apart) for group in groups[:_MOST])
    left = sum(len(group) for group in groups[_MOST:])
    rest = f"and {counted(left, 'more node')}" if left else ""
    return (
        replace(folded(every, len(shown), rest), rows=shown) if len(shown) < len(ranked) else every
    )


def _alike(rows: Sequence[NodeRow]) -> list[list[NodeRow]]:
    """Group nodes of one cluster, type, price and state, the dearest group first."""
    groups: dict[tuple[object, ...], list[NodeRow]] = {}
    for row in rows:
        labels = row.instance.labels
        groups.setdefault(
            (labels.cluster, labels.instance_type, row.price and row.usd_per_hour, row.state), []
        ).append(row)
    return sorted(groups.values(), key=lambda group: -_sum(group))


def _nodes(group: Sequence[NodeRow], apart: bool) -> tuple[str, ...]:
    """Write the row of a node, or of several that are alike, named by their number and the first of them."""
    first = group[0]
    labels, used = first.instance.labels, [row.used for row in group if row.used is not None]
    place = (labels.cluster or "–",) if apart else ()
    name = (
        first.instance.id
        if len(group) == 1
        else f"{counted(len(group), 'node')}, {first.instance.id} …"
    )
    ends = (
        dict.fromkeys((percent(min(used)), percent(max(used)))) if used else {percent(None): None}
    )
    price = usd(_sum(group)) if first.price else "?"
    return (
        name,
        *place,
        labels.instance_type,
        first.state.value,
        "-".join(ends).replace(" %-", "-"),
        price,
    )


def _eks(cluster: Cluster) -> str:
    """State the EKS version of a cluster, and the sizes that its node groups want."""
    groups = [
        f"{x.name} wants {x.desired:,} x {', '.join(x.instance_types) or 'any type'}"
        for x in cluster.node_groups
    ]
    node_groups = f"; {'; '.join(groups[:3])}" if groups else ""
    more = f"; and {len(groups) - 3} more node groups" if len(groups) > 3 else ""
    return (
        f"EKS {cluster.version}, {cluster.status.lower() or 'status unknown'}{node_groups}{more}."
    )


def _trouble(rows: Sequence[NodeRow]) -> str:
    """Say how many nodes do nothing, starve or cannot be seen, and their cost; "" when all is well."""
    still = [row for row in rows if row.state in _STILL]
    starved = [row for row in rows if row.state is NodeState.STARVED]
    unseen = [row for row in rows if row.state is NodeState.NO_DATA]
    parts = [
        f"{_nothing(len(still), '')}, at {usd(_sum(still))} an hour" if still else "",
        f"{len(starved):,} wait{'s' if len(starved) == 1 else ''} for data, at {usd(_sum(starved))} an hour"
        if starved
        else "",
        f"{len(unseen):,} sent no metrics" if unseen else "",
    ]
    return "; ".join(part for part in parts if part) + "." if any(parts) else ""


def _nothing(n: int, noun: str) -> str:
    return f"{counted(n, noun) if noun else f'{n:,}'} {'does' if n == 1 else 'do'} nothing"


def _sum(rows: Sequence[NodeRow]) -> Decimal:
    return sum((row.usd_per_hour for row in rows), Decimal(0))


def _clusters(rows: Sequence[NodeRow]) -> Table:
    columns = (
        Heading("cluster"),
        Heading("nodes"),
        Heading("states"),
        Heading("used", Align.RIGHT),
        Heading("$/h", Align.RIGHT),
    )
    groups = _by_cluster(rows)
    lines = tuple(_opened(name) for name, _ in groups)
    return Table(columns, tuple(_cluster_row(name, mine) for name, mine in groups), lines=lines)


def _opened(cluster: str) -> str:
    """Write the line that opens a cluster; nodes outside of clusters have none."""
    return f"fleet {quote(cluster)}" if cluster else ""


def _by_cluster(rows: Sequence[NodeRow]) -> list[tuple[str, list[NodeRow]]]:
    names = sorted({row.instance.labels.cluster for row in rows})
    groups = [(name, [r for r in rows if r.instance.labels.cluster == name]) for name in names]
    return sorted(groups, key=lambda group: -_sum(group[1]))


def _cluster_row(name: str, mine: Sequence[NodeRow]) -> tuple[str, ...]:
    types = Counter(row.instance.labels.instance_type for row in mine)
    states = Counter(row.state.value for row in mine)
    used = [row.used for row in mine if row.used is not None]
    return (
        name or "(no cluster)",
        ", ".join(f"{n} x {kind}" for kind, n in types.most_common(2)),
        ", ".join(f"{n} {state}" for state, n in states.most_common(3)),
        percent(sum(used) / len(used) if used else None),
        usd(_sum(mine)) if any(row.price for row in mine) else "?",
    )


def _money_chart(rows: Sequence[NodeRow]) -> Chart:
    """Draw the cost of an hour of each cluster, coloured by the state of its nodes."""
    groups = [(name, mine) for name, mine in _by_cluster(rows) if _sum(mine)][:12]
    states = [state for state in NodeState if any(row.state is state for row in rows)]
    series = tuple(
        Series(
            s.value,
            tuple(float(_sum([row for row in mine if row.state is s])) for _, mine in groups),
            _TONES.get(s),
        )
        for s in states
    )
    names, lines = (
        tuple(name or "(no cluster)" for name, _ in groups),
        tuple(_opened(name) for name, _ in groups),
    )
    sums = [(state, _sum([row for row in rows if row.state is state])) for state in states]
    spent = "; ".join(f"{usd(amount)} {state.value}" for state, amount in sums if amount)
    return Chart(
        ChartKind.BAR,
        "Dollars an hour by state",
        "$/h",
        series,
        categories=names,
        lines=lines,
        summary=f"An hour: {spent}." if spent else "No price is known.",
    )


def _heat(rows: Sequence[NodeRow], reading: Reading, cluster: str) -> list[Block]:
    names = (
        [row.instance.id for row in _least_used(rows)]
        if cluster
        else [name for name, _ in _by_cluster(rows)]
    )
    chart = fleet_heat(reading.frame("node"), names, "instance" if cluster else "cluster")
    return [chart] if chart else []


def _least_used(rows: Sequence[NodeRow]) -> list[NodeRow]:
    return sorted(
        rows, key=lambda row: (row.used if row.used is not None else 2.0, row.instance.id)
    )


def _basis(rows: Sequence[NodeRow]) -> str:
    prices = [row.price for row in rows if row.price]
    counts = Counter(price.found_by for price in prices)
    newest = {way: max(price.asof for price in prices if price.found_by == way) for way in counts}
    missing = sum(row.price is None for row in rows)
    dated = "; ".join(f"{n:,} {way} ({newest[way]:%Y-%m-%d})" for way, n in counts.most_common())
    prices_text = f"Prices: {dated}." if dated else ""
    return (
        f"{prices_text} {counted(missing, 'node')} without a known price.".strip()
        if missing
        else prices_text
    )


def percent(used: float | None) -> str:
    """Write a utilization, or that none was read."""
    return "no reading" if used is None else f"{used * 100:.0f} %"


def node_data(row: NodeRow) -> dict[str, object]:
    """Return a node for scripts."""
    return {
        "instance": row.instance.id,
        "labels": dict(row.instance.labels),
        "state": row.state.value,
        "utilization_ratio": None if row.used is None else round(row.used, 4),
        "usd_per_hour": row.usd_per_hour if row.price else None,
        "price": str(row.price) if row.price else None,
        "basis": row.price.found_by if row.price else None,
    }
