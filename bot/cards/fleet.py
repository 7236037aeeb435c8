"""Show the fleet: clusters with their nodes' states, and the nodes that do nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

from bot.cards.card import (
    Align,
    Block,
    Button,
    Buttons,
    Card,
    Chart,
    ChartKind,
    Column,
    Series,
    Table,
    Tone,
    quiet,
    text,
)
from bot.cards.money import usd
from bot.model.anomaly import NodeState
from bot.model.fleet import Instance
from bot.model.price import Price
from bot.model.reading import Reading

_MOST = 15
_NODE_COLUMNS = (
    Column("node"),
    Column("cluster"),
    Column("type"),
    Column("state"),
    Column("used", Align.RIGHT),
    Column("$/h", Align.RIGHT),
)


@dataclass(frozen=True)
class NodeRow:
    """Hold one running node: state now, mean utilization of the last hour (None = no reading), price."""

    instance: Instance
    state: NodeState
    used: float | None
    price: Price | None

    @property
    def usd_per_hour(self) -> Decimal:
        """Return the price of an hour, 0 where none is known."""
        return self.price.usd_per_hour if self.price else Decimal(0)


def fleet_card(rows: Sequence[NodeRow], cluster: str, reading: Reading) -> Card:
    """Summarise by cluster, or list the nodes of one."""
    per_hour = sum((row.usd_per_hour for row in rows), Decimal(0))
    still = [row for row in rows if row.state in {NodeState.IDLE, NodeState.LOADED_IDLE}]
    title = f"{cluster or 'Fleet'}: {len(rows)} nodes running, {usd(per_hour)} an hour"
    if not rows:
        return Card("No node is running", Tone.INFO, (text("The source lists no running instance at this time."),), {"nodes": []})
    blocks: list[Block] = [node_table(rows) if cluster else _clusters(rows), _states_chart(rows)]
    if still:
        lost = sum((row.usd_per_hour for row in still), Decimal(0))
        blocks.insert(0, text(f"{len(still)} of them do nothing, at {usd(lost)} an hour."))
    blocks += [quiet(f"Not read this time: {gap}") for gap in reading.gaps[:3]]
    blocks += [quiet(_basis(rows)), Buttons((Button("Idle nodes", "idle"), Button("Alerts", "alerts")))]
    return Card(
        title, Tone.WARNING if still else Tone.INFO, tuple(blocks), {"nodes": [_data(r) for r in rows], "usd_per_hour": per_hour}
    )


def idle_card(rows: Sequence[NodeRow], cluster: str) -> Card:
    """List the nodes that do nothing, dearest first."""
    where = f" in {cluster}" if cluster else ""
    per_hour = sum((row.usd_per_hour for row in rows), Decimal(0))
    data = {"nodes": [_data(row) for row in rows], "usd_per_hour": per_hour}
    if not rows:
        return Card(
            f"No node stands idle{where}", Tone.GOOD, (text("Every running node works, compiles, or has just started."),), data
        )
    note = "“no runtime”: nothing is loaded, the node can go. “runtime loaded, no work”: a job holds the cores."
    title = f"{len(rows)} nodes do nothing{where}: {usd(per_hour)} an hour"
    return Card(title, Tone.WARNING, (node_table(rows), quiet(note), quiet(_basis(rows))), data)


def node_table(rows: Sequence[NodeRow]) -> Table:
    """List nodes, dearest first."""
    ranked = sorted(rows, key=lambda r: (-r.usd_per_hour, r.used if r.used is not None else 2.0, r.instance.id))
    shown = tuple(
        (
            row.instance.id,
            row.instance.labels.cluster or "–",
            row.instance.labels.instance_type,
            row.state.value,
            _percent(row.used),
            usd(row.usd_per_hour) if row.price else "?",
        )
        for row in ranked[:_MOST]
    )
    return Table(_NODE_COLUMNS, shown, rest=f"and {len(ranked) - _MOST} more nodes" if len(ranked) > _MOST else "")


def _clusters(rows: Sequence[NodeRow]) -> Table:
    columns = (Column("cluster"), Column("nodes"), Column("states"), Column("used", Align.RIGHT), Column("$/h", Align.RIGHT))
    return Table(columns, tuple(_cluster_row(name, mine) for name, mine in _by_cluster(rows)))


def _by_cluster(rows: Sequence[NodeRow]) -> list[tuple[str, list[NodeRow]]]:
    names = sorted({row.instance.labels.cluster for row in rows})
    groups = [(name, [r for r in rows if r.instance.labels.cluster == name]) for name in names]
    return sorted(groups, key=lambda g: -sum(r.usd_per_hour for r in g[1]))


def _cluster_row(name: str, mine: Sequence[NodeRow]) -> tuple[str, ...]:
    types = Counter(row.instance.labels.instance_type for row in mine)
    states = Counter(row.state.value for row in mine)
    used = [row.used for row in mine if row.used is not None]
    return (
        name or "(no cluster)",
        ", ".join(f"{n} x {kind}" for kind, n in types.most_common(2)),
        ", ".join(f"{n} {state}" for state, n in states.most_common(3)),
        _percent(sum(used) / len(used) if used else None),
        usd(sum((row.usd_per_hour for row in mine), Decimal(0))),
    )


def _states_chart(rows: Sequence[NodeRow]) -> Chart:
    groups = _by_cluster(rows)[:12]
    states = [state for state in NodeState if any(row.state is state for row in rows)]
    series = tuple(Series(s.value, tuple(float(sum(r.state is s for r in mine)) for _, mine in groups)) for s in states)
    names = tuple(name or "(no cluster)" for name, _ in groups)
    return Chart(
        ChartKind.BAR,
        "Nodes by state",
        "nodes",
        series,
        categories=names,
        summary=f"{len(rows)} nodes in {len(groups)} clusters.",
    )


def _basis(rows: Sequence[NodeRow]) -> str:
    prices = {str(row.price.basis): row.price.asof for row in rows if row.price}
    missing = sum(row.price is None for row in rows)
    told = ", ".join(f"{basis} of {asof:%Y-%m-%d}" for basis, asof in sorted(prices.items()))
    return f"Estimated at {told or 'no known price'}." + (f" {missing} nodes have no known price." if missing else "")


def _percent(used: float | None) -> str:
    return "no reading" if used is None else f"{used * 100:.0f} %"


def _data(row: NodeRow) -> dict[str, object]:
    return {
        "instance": row.instance.id,
        "labels": dict(row.instance.labels),
        "state": row.state.value,
        "utilization_ratio": None if row.used is None else round(row.used, 4),
        "usd_per_hour": row.usd_per_hour if row.price else None,
        "price": str(row.price) if row.price else None,
    }
