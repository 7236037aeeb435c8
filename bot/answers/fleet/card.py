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
    day = frame.last(_DAY)
    cores, gpus = day.of("neuroncore_utilization_ratio"), day.of("gpu_utilization_ratio")
    values = np.where(np.isnan(cores), gpus, cores)

    # A step is named by its end: the hour that it belongs to is that of its start.
    step_starts = [end - day.step for end in day.times()]
    hours = [
        start.astimezone(UTC).replace(minute=0, second=0, microsecond=0) for start in step_starts
    ]
    starts = sorted(set(hours))

    rows: dict[str, tuple[float | None, ...]] = {}
    newest: list[tuple[float, str]] = []
    for name in names[:_ROWS]:
        members = [i for i, thing in enumerate(day.things) if getattr(thing, label) == name]
        row = _row(values[members], hours, starts)
        readings = [value for value in row if value is not None]
        if readings:
            rows[name] = row
            newest.append((readings[-1], name))
    if not rows:
        return None

    series = tuple(
        Series(name or "(no cluster)", row, line=f"fleet {quote(name)}" if name else "")
        for name, row in rows.items()
    )
    shares = ", ".join(
        f"{name or '(no cluster)'} {value:.0f} %" for value, name in sorted(newest)[:6]
    )
    cut = f", the {_ROWS} least used nodes" if label == "instance" and len(names) > _ROWS else ""
    return Chart(
        ChartKind.HEAT,
        f"Utilization by hour{cut}: the stronger, the busier",
        "%",
        series,
        tuple(starts),
        summary=f"Utilization in the last hour: {shares}.",
    )


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

    blocks: list[Block] = [text(trouble)] if trouble else []
    blocks += [*unread(reading), *compile_blocks(compiles, reading.now)]
    nodes = {row.instance.id for row in rows}
    fresh = [x for x in reading.marks if x.instance in nodes and reading.now - x.at < _FRESH]
    blocks += [*log_blocks(fresh, compiles), *spread_texts(spread)]

    frame = reading.frame("node")
    if cluster:
        blocks.append(node_table(rows, apart=False))
        least_used = sorted(
            rows, key=lambda row: (row.used if row.used is not None else 2.0, row.instance.id)
        )
        heat = fleet_heat(frame, [row.instance.id for row in least_used], "instance")
        button = Button("All clusters", "fleet")
    else:
        blocks += [_clusters(rows), _money_chart(rows)]
        heat = fleet_heat(frame, [name for name, _ in _by_cluster(rows)])
        button = Button("Alerts", "alerts")
    if heat:
        blocks.append(heat)
    blocks += [quiet(_eks(eks)) for eks in reading.inventory.eks if eks.name == cluster]
    blocks.append(quiet(_basis(rows)))
    blocks.append(Buttons((Button("Idle nodes", f"idle {cluster}".strip()), button)))

    title = f"{cluster or 'Fleet'}: {counted(len(rows), 'node')} running, {usd(per_hour)} an hour"
    tone = Tone.WARNING if trouble or spread else Tone.INFO
    data = {
        "nodes": [node_data(row) for row in rows],
        "usd_per_hour": per_hour,
        "compiles": compile_data(compiles),
    }
    return Card(title, tone, tuple(blocks), data | spread_data(spread))


def idle_card(rows: Sequence[NodeRow], cluster: str, reading: Reading, unsure: int = 0) -> Card:
    """List the nodes that do nothing, dearest first; `unsure` of them may as well compile."""
    where = f" in {cluster}" if cluster else ""
    per_hour = _sum(rows)
    data = {"nodes": [node_data(row) for row in rows], "usd_per_hour": per_hour}

    if not rows and reading.gaps:
        title = f"No node stands idle{where}, as far as could be read"
        return Card(title, Tone.WARNING, unread(reading), data | {"gaps": gaps(reading)})
    if not rows:
        working = text("Every running node works, compiles, or has just started.")
        return Card(f"No node stands idle{where}", Tone.GOOD, (working,), data)

    title = f"{_nothing(len(rows), 'node')}{where}: {usd(per_hour)} an hour"
    notes = [
        f"“{state.value}”: {meaning}."
        for state, meaning in _STILL.items()
        if any(row.state is state for row in rows)
    ]
    if unsure:
        notes.append(
            f"The host CPU of {unsure:,} is not read, so they may be compiling: "
            "look for `neuronx-cc` before you stop them."
        )

    blocks = (
        *unread(reading),
        node_table(rows, apart=not cluster),
        quiet(*coded(" ".join(notes))),
        quiet(_basis(rows)),
        Buttons((Button("Alerts", "alerts"), Button("Fleet", f"fleet {cluster}".strip()))),
    )
    return Card(title, Tone.WARNING, blocks, data)


def node_table(rows: Sequence[NodeRow], *, apart: bool) -> Table:
    """List nodes, dearest first, those alike in one row where they are many.

    `apart` tells their clusters apart.
    """
    ranked = sorted(
        rows, key=lambda r: (-r.usd_per_hour, r.used if r.used is not None else 2.0, r.instance.id)
    )
    columns = tuple(column for column in _NODE_COLUMNS if apart or column.name != "cluster")
    lines = tuple(f"fleet {row.instance.id}" for row in ranked)
    table = Table(columns, tuple(_nodes([row], apart) for row in ranked), lines=lines)

    # Where they are many, nodes of one cluster, type, price and state share a row.
    groups = [[row] for row in ranked]
    if len(ranked) > _FEW:
        alike: dict[tuple[object, ...], list[NodeRow]] = {}
        for row in ranked:
            labels = row.instance.labels
            price = row.price and row.usd_per_hour
            key = (labels.cluster, labels.instance_type, price, row.state)
            alike.setdefault(key, []).append(row)
        groups = sorted(alike.values(), key=lambda group: -_sum(group))

    cells = tuple(_nodes(group, apart) for group in groups[:_MOST])
    if len(cells) == len(ranked):
        return table
    folded_nodes = sum(len(group) for group in groups[_MOST:])
    note = f"and {counted(folded_nodes, 'more node')}" if folded_nodes else ""
    return replace(folded(table, len(cells), note), rows=cells)


def _nodes(group: Sequence[NodeRow], apart: bool) -> tuple[str, ...]:
    """Write the row of a node, or of several alike: their number and the first of them."""
    first = group[0]
    labels, used = first.instance.labels, [row.used for row in group if row.used is not None]
    name = first.instance.id
    if len(group) > 1:
        name = f"{counted(len(group), 'node')}, {name} …"

    ends = [percent(None)]
    if used:
        ends = list(dict.fromkeys((percent(min(used)), percent(max(used)))))
    return (
        name,
        *((labels.cluster or "–",) if apart else ()),
        labels.instance_type,
        first.state.value,
        "-".join(ends).replace(" %-", "-"),
        usd(_sum(group)) if first.price else "?",
    )


def _eks(cluster: Cluster) -> str:
    """State the EKS version of a cluster, and the sizes that its node groups want."""
    groups = [
        f"{x.name} wants {x.desired:,} x {', '.join(x.instance_types) or 'any type'}"
        for x in cluster.node_groups
    ]
    node_groups = f"; {'; '.join(groups[:3])}" if groups else ""
    if len(groups) > 3:
        node_groups += f"; and {len(groups) - 3} more node groups"
    return f"EKS {cluster.version}, {cluster.status.lower() or 'status unknown'}{node_groups}."


def _trouble(rows: Sequence[NodeRow]) -> str:
    """Say how many nodes do nothing, starve or cannot be seen, and their cost; "" if none."""
    still = [row for row in rows if row.state in _STILL]
    starved = [row for row in rows if row.state is NodeState.STARVED]
    unseen = [row for row in rows if row.state is NodeState.NO_DATA]

    parts = []
    if still:
        parts.append(f"{_nothing(len(still), '')}, at {usd(_sum(still))} an hour")
    if starved:
        verb = "waits" if len(starved) == 1 else "wait"
        parts.append(f"{len(starved):,} {verb} for data, at {usd(_sum(starved))} an hour")
    if unseen:
        parts.append(f"{len(unseen):,} sent no metrics")
    return "; ".join(parts) + "." if parts else ""


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

    cells = []
    groups = _by_cluster(rows)
    for name, nodes in groups:
        types = Counter(row.instance.labels.instance_type for row in nodes)
        states = Counter(row.state.value for row in nodes)
        used = [row.used for row in nodes if row.used is not None]
        cells.append(
            (
                name or "(no cluster)",
                ", ".join(f"{n} x {kind}" for kind, n in types.most_common(2)),
                ", ".join(f"{n} {state}" for state, n in states.most_common(3)),
                percent(sum(used) / len(used) if used else None),
                usd(_sum(nodes)) if any(row.price for row in nodes) else "?",
            )
        )
    return Table(columns, tuple(cells), lines=tuple(_opened(name) for name, _ in groups))


def _opened(cluster: str) -> str:
    """Write the line that opens a cluster; nodes outside of clusters have none."""
    return f"fleet {quote(cluster)}" if cluster else ""


def _by_cluster(rows: Sequence[NodeRow]) -> list[tuple[str, list[NodeRow]]]:
    names = sorted({row.instance.labels.cluster for row in rows})
    groups = [(name, [r for r in rows if r.instance.labels.cluster == name]) for name in names]
    return sorted(groups, key=lambda group: -_sum(group[1]))


def _money_chart(rows: Sequence[NodeRow]) -> Chart:
    """Draw the cost of an hour of each cluster, coloured by the state of its nodes."""
    groups = [(name, nodes) for name, nodes in _by_cluster(rows) if _sum(nodes)][:12]
    states = [state for state in NodeState if any(row.state is state for row in rows)]
    series = tuple(
        Series(
            state.value,
            tuple(float(_sum([row for row in nodes if row.state is state])) for _, nodes in groups),
            _TONES.get(state),
        )
        for state in states
    )

    sums = [(state, _sum([row for row in rows if row.state is state])) for state in states]
    spent = "; ".join(f"{usd(amount)} {state.value}" for state, amount in sums if amount)
    return Chart(
        ChartKind.BAR,
        "Dollars an hour by state",
        "$/h",
        series,
        categories=tuple(name or "(no cluster)" for name, _ in groups),
        lines=tuple(_opened(name) for name, _ in groups),
        summary=f"An hour: {spent}." if spent else "No price is known.",
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
