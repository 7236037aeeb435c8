"""Show the fleet: clusters with their nodes' states, a day as a heat map, idle nodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from decimal import Decimal

import numpy as np

from bot.answers.fleet.compiling import COMPILES, CompileNote, compile_blocks, log_blocks
from bot.cards.alert_words import price_source
from bot.cards.card import (
    Block,
    Button,
    Buttons,
    Card,
    Chart,
    ChartKind,
    Series,
    Table,
    Tone,
    coded,
    compose,
    detail,
    folded,
    quiet,
    text,
)
from bot.cards.columns import NUMBER, RATIO, SHARE, USD, Column, Columns, datum
from bot.cards.lines import quote
from bot.cards.words import as_read, committed_words, doubted, few, period, unseen
from bot.model.anomaly import NodeState
from bot.model.codec import by_key
from bot.model.fleet import Instance
from bot.model.frame import Frame
from bot.model.money import cents, counted, usd
from bot.model.notification import Coverage
from bot.model.price import Price
from bot.model.reading import Reading, Scattered, coverage_of, utilization_of
from bot.model.window import Window, calendar_day

_ROWS = 12


def fleet_heat(frame: Frame | None, names: Sequence[str], label: str = "cluster") -> Chart | None:
    """Return the last 24 hours of the mean utilization of up to 12 clusters, or nodes, in percent.

    None where nothing was read.

    `frame` is that of the nodes; GPU nodes count by their GPUs. The last hour ends now, as that of
    the table of nodes does: both say the same of it.
    """
    if frame is None:
        return None
    day = frame.last(timedelta(hours=24))
    values = utilization_of(day)

    # Counted back from now, so that no hour but the oldest is a part of one.
    ends, hour = day.times(), timedelta(hours=1)
    ages = np.array([(ends[-1] - end) // hour for end in ends])
    hours = range(int(ages[0]), -1, -1)

    rows: dict[str, tuple[float | None, ...]] = {}
    for name in names[:_ROWS]:
        members = [i for i, thing in enumerate(day.things) if getattr(thing, label) == name]
        row = tuple(
            None if np.isnan(cells).all() else round(float(np.nanmean(cells)) * 100, 1)
            for cells in [values[members][:, ages == age] for age in hours]
        )
        # A row of gaps alone would look like one that stands idle.
        if any(mean is not None for mean in row):
            rows[name or "(no cluster)"] = row
    if not rows:
        return None

    newest = sorted((row[-1], name) for name, row in rows.items() if row[-1] is not None)
    shares = ", ".join(few([f"{name} {mean:.0f} %" for mean, name in newest], 6))
    cut = f", the {_ROWS} least used nodes" if label == "instance" and len(names) > _ROWS else ""

    return Chart(
        ChartKind.HEAT,
        f"Utilization by hour{cut}: a stronger color is busier",
        "%",
        tuple(
            Series(name, row, line="" if name == "(no cluster)" else f"fleet {quote(name)}")
            for name, row in rows.items()
        ),
        tuple(ends[-1] - (age + 1) * hour for age in hours),
        summary=f"Utilization in the last hour: {shares or 'no reading'}.",
    )


_MOST, _FEW = 15, 6
_FRESH = timedelta(hours=1)
"""How long a line of a compiler's log is worth a sentence."""
STILL = {
    NodeState.IDLE: "nothing is loaded",
    NodeState.LOADED_IDLE: "a job holds the cores and does nothing",
}
_TONES: Mapping[NodeState, Tone] = {
    NodeState.BUSY: Tone.INFO,
    NodeState.STARVED: Tone.WARNING,
    NodeState.COMPILING: Tone.GOOD,
    NodeState.LOADED_IDLE: Tone.ERROR,
    NodeState.IDLE: Tone.CRITICAL,
}


@dataclass(frozen=True)
class NodeRow:
    """Hold one running node.

    State now, mean utilization of the last hour, of one that does nothing that of now (None = no
    reading), price.
    """

    instance: Instance
    state: NodeState
    used: float | None
    price: Price | None
    free: bool = True
    """Whether a rule says that it is kept for nothing: that is more than a moment's."""

    @property
    def usd_per_hour(self) -> Decimal:
        """Return the price of an hour, 0 where none is known."""
        return self.price.usd_per_hour if self.price else Decimal(0)

    @property
    def committed_usd_per_hour(self) -> Decimal:
        """Return the part of it that a commitment bills whether the node runs or not."""
        return self.price.committed_usd_per_hour if self.price else Decimal(0)


@dataclass(frozen=True)
class NodeGroup:
    """Hold nodes that share a row: some that are alike, or all of one cluster."""

    nodes: Sequence[NodeRow]

    @property
    def first(self) -> NodeRow:
        """Return the first of them, which stands for those that are alike."""
        return self.nodes[0]

    @property
    def cluster(self) -> str:
        """Return the cluster that they are of."""
        return self.first.instance.labels.cluster

    @property
    def usd_per_hour(self) -> Decimal | None:
        """Return the cost of an hour of all, None where no price is known."""
        return _sum(self.nodes) or None

    @property
    def name(self) -> str:
        """Name the one, or count them and name the first."""
        name = self.first.instance.id
        return f"{counted(len(self.nodes), 'node')}, {name} …" if len(self.nodes) > 1 else name

    @property
    def used(self) -> str:
        """Write the range of their utilization: `20-40 %`."""
        shares = [node.used for node in self.nodes if node.used is not None]
        ends = dict.fromkeys(map(percent, (min(shares), max(shares)) if shares else (None,)))
        return "-".join(ends).replace(" %-", "-")

    @property
    def mean_used(self) -> str:
        """Write the mean of their utilization."""
        shares = [node.used for node in self.nodes if node.used is not None]
        return percent(sum(shares) / len(shares) if shares else None)


def percent(used: float | None) -> str:
    """Write a utilization, or that none was read.

    It is rounded as a heat map rounds it, so that both say the same.
    """
    return "no reading" if used is None else SHARE.write(round(used, 3))


def _sum(rows: Sequence[NodeRow]) -> Decimal:
    return sum((row.usd_per_hour for row in rows), Decimal(0))


def _counts(words: Iterable[str], between: str, most: int) -> str:
    return ", ".join(f"{n}{between}{word}" for word, n in Counter(words).most_common(most))


NODES = Columns[NodeRow](
    datum("instance", lambda row: row.instance.id),
    datum("labels", lambda row: dict(row.instance.labels)),
    datum("state", lambda row: row.state.value),
    datum(
        "utilization_ratio",
        lambda row: row.used,
        "mean of the node's accelerator utilization over the last hour; now, of one that does"
        " nothing",
        RATIO,
    ),
    datum(
        "usd_per_hour",
        lambda row: row.price and row.usd_per_hour,
        "price of an hour: the node's own lines of the bill, else its cluster's like nodes,"
        " else the account's rate, else a price list",
    ),
    datum(
        "committed_usd_per_hour",
        lambda row: row.price and cents(row.committed_usd_per_hour),
        "the part of it that a commitment bills whether the node runs or not, by the bill",
    ),
    datum("price", lambda row: row.price and str(row.price)),
    datum("basis", lambda row: row.price and row.price.found_by),
)
NODE_FIGURES = {
    **NODES.sources("nodes"),
    "usd_per_hour": "sum over the nodes listed whose price is known",
}
_ALIKE = Columns[NodeGroup](
    Column("node", lambda group: group.name),
    Column("cluster", lambda group: group.cluster),
    Column("type", lambda group: group.first.instance.labels.instance_type),
    Column("state", lambda group: group.first.state.value),
    Column("used", lambda group: group.used, NUMBER),
    Column("$/h", lambda group: group.usd_per_hour, USD, missing="?"),
)
"""One node, or several that are alike, in a row."""
_CLUSTERS = Columns[NodeGroup](
    Column("cluster", lambda group: group.cluster, missing="(no cluster)"),
    Column(
        "nodes",
        lambda group: _counts((row.instance.labels.instance_type for row in group.nodes), " x ", 2),
    ),
    Column("states", lambda group: _counts((row.state.value for row in group.nodes), " ", 3)),
    Column("used", lambda group: group.mean_used, NUMBER),
    Column("$/h", lambda group: group.usd_per_hour, USD, missing="?"),
)


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
    per_hour, trouble = _sum(rows), _trouble(rows)
    clusters, frame = _by_cluster(rows), reading.frame("node")
    nodes = {row.instance.id for row in rows}
    if cluster:
        # A node that was not read is not known to do little, and stands last.
        least_used = sorted(
            rows, key=lambda row: (row.used if row.used is not None else 2.0, row.instance.id)
        )
        heat = fleet_heat(frame, [row.instance.id for row in least_used], "instance")
        drawn: tuple[Block, ...] = (node_table(rows, apart=False),)
        button = Button("All clusters", "fleet")
    else:
        heat = fleet_heat(frame, [group.cluster for group in clusters])
        table = _CLUSTERS.table(clusters, opens=lambda group: _opened(group.cluster))
        drawn, button = (table, _money_chart(rows)), Button("Alerts", "alerts")

    # The version of the EKS cluster, and the sizes that its node groups want.
    versions = []
    for eks in reading.inventory.eks:
        if eks.name == cluster:
            groups = [
                f"{x.name} wants {x.desired:,} x {', '.join(x.instance_types) or 'any type'}"
                for x in eks.node_groups
            ]
            state = eks.status.lower() or "status unknown"
            versions.append([f"EKS {eks.version}, {state}", *few(groups, 3, "node group")])

    data = {
        "nodes": NODES.data(rows),
        "usd_per_hour": per_hour,
        "compiles": COMPILES.data(compiles),
        **seen_of(rows, reading).data,
    }
    if spread:
        data["scattered"] = [
            {
                "cluster": x.job.cluster,
                "job": x.job.job,
                "zones": dict(x.job.zones),
                "cross_zone_usd": x.usd,
                "of_cluster": x.of_cluster,
            }
            for x in spread
        ]

    return Card(
        f"{cluster or 'Fleet'}: {counted(len(rows), 'node')} running, {usd(per_hour)} an hour",
        Tone.WARNING
        if trouble or spread or any(row.state is NodeState.NO_DATA for row in rows)
        else Tone.INFO,
        compose(
            trouble and text(trouble),
            unread(rows, reading),
            compile_blocks(compiles, reading.now),
            log_blocks(
                [x for x in reading.marks if x.instance in nodes and reading.now - x.at < _FRESH],
                compiles,
            ),
            spread_texts(spread),
            drawn,
            heat,
            [detail(f"{'; '.join(words)}.") for words in versions],
            quiet(_basis(rows)),
            Buttons((Button("Idle nodes", f"idle {cluster}".strip()), button)),
        ),
        data,
    )


def idle_card(rows: Sequence[NodeRow], cluster: str, reading: Reading, unsure: int = 0) -> Card:
    """List those of `rows` that do nothing, dearest first; `unsure` of them may as well compile."""
    where = f" in {cluster}" if cluster else ""
    seen = seen_of(rows, reading)
    still = [row for row in rows if row.state in STILL]
    per_hour = _sum(still)
    data = {"nodes": NODES.data(still), "usd_per_hour": per_hour, **seen.data}

    calm = f"No node is idle{where}"
    if not still and seen.because:
        unknown = "Which nodes are idle is not known"
        title = doubted(calm, unknown, seen) if rows else unknown
        return Card(title, Tone.WARNING, unseen(seen), data | {"gaps": gaps(reading)})
    if not still:
        working = text("Every running node works, compiles, or has just started.")
        return Card(calm, Tone.GOOD, (working,), data)

    title = f"{_nothing(len(still), 'node')}{where}: {usd(per_hour)} an hour"
    moments = sum(row.state is NodeState.IDLE and not row.free for row in still)
    advice = "such a node can be stopped"
    if moments:
        advice = f"{moments:,} only for a moment so far: wait for an alert before you stop them"
    notes = [
        f"“{state.value}”: {meaning}{f'; {advice}' if state is NodeState.IDLE else ''}."
        for state, meaning in STILL.items()
        if any(row.state is state for row in still)
    ]
    if unsure:
        notes.append(
            f"The host CPU of {unsure:,} is not read, so they may be compiling: "
            "look for `neuronx-cc` before you stop them."
        )

    committed = committed_words(
        per_hour,
        sum((row.committed_usd_per_hour for row in still), Decimal(0)),
        max((x.price.lapses for x in still if x.price and x.price.lapses), default=None),
    )

    return Card(
        title,
        Tone.WARNING,
        compose(
            unread(rows, reading),
            node_table(still, apart=not cluster),
            committed and text(committed),
            quiet(*coded(" ".join(notes))),
            quiet(_basis(still)),
            Buttons((Button("Alerts", "alerts"), Button("Fleet", f"fleet {cluster}".strip()))),
        ),
        data,
    )


def node_table(rows: Sequence[NodeRow], *, apart: bool) -> Table:
    """List nodes, dearest first, those alike in one row where they are many.

    `apart` tells their clusters apart.
    """
    ranked = sorted(
        rows, key=lambda r: (-r.usd_per_hour, r.used if r.used is not None else 2.0, r.instance.id)
    )
    columns = _ALIKE if apart else _ALIKE.pick("node", "type", "state", "used", "$/h")
    groups = [NodeGroup([row]) for row in ranked]
    table = columns.table(groups, opens=lambda group: f"fleet {group.first.instance.id}")

    # Where they are many, nodes of one cluster, type, price and state share a row.
    if len(ranked) > _FEW:
        groups = _grouped(
            ranked,
            lambda r: (
                r.instance.labels.cluster,
                r.instance.labels.instance_type,
                r.price and r.usd_per_hour,
                r.state,
            ),
        )

    cells = columns.table(groups[:_MOST]).rows
    if len(cells) == len(ranked):
        return table
    folded_nodes = sum(len(group.nodes) for group in groups[_MOST:])
    note = f"and {counted(folded_nodes, 'more node')}" if folded_nodes else ""

    return replace(folded(table, len(cells), note), rows=cells)


def _trouble(rows: Sequence[NodeRow]) -> str:
    """Say how many nodes do nothing or starve, and their cost; "" if none."""
    still = [row for row in rows if row.state in STILL]
    starved = [row for row in rows if row.state is NodeState.STARVED]
    verb = "waits" if len(starved) == 1 else "wait"
    parts = (
        still and f"{_nothing(len(still), '')}, at {usd(_sum(still))} an hour",
        starved and f"{len(starved):,} {verb} for data, at {usd(_sum(starved))} an hour",
    )
    sentence = "; ".join(str(part) for part in parts if part)

    return f"{sentence}." if sentence else ""


def _nothing(n: int, noun: str) -> str:
    return f"{counted(n, noun) if noun else f'{n:,}'} {'does' if n == 1 else 'do'} nothing"


def _opened(cluster: str) -> str:
    """Write the line that opens a cluster; nodes outside of clusters have none."""
    return f"fleet {quote(cluster)}" if cluster else ""


def _grouped(rows: Iterable[NodeRow], by: Callable[[NodeRow], object]) -> list[NodeGroup]:
    """Return the nodes of each group, the dearest first, of equally dear ones as they come."""
    groups = by_key((by(row), row) for row in rows).values()
    return sorted(map(NodeGroup, groups), key=lambda group: -_sum(group.nodes))


def _by_cluster(rows: Sequence[NodeRow]) -> list[NodeGroup]:
    """Return the nodes of each cluster, the dearest first, of equally dear ones by name."""
    ranked = sorted(rows, key=lambda row: row.instance.labels.cluster)
    return _grouped(ranked, lambda row: row.instance.labels.cluster)


def _money_chart(rows: Sequence[NodeRow]) -> Chart:
    """Draw the cost of an hour of each cluster, coloured by the state of its nodes."""
    groups = [group for group in _by_cluster(rows) if _sum(group.nodes)][:12]
    states = [state for state in NodeState if any(row.state is state for row in rows)]

    sums = [(state, _sum([row for row in rows if row.state is state])) for state in states]
    spent = "; ".join(f"{usd(amount)} {state.value}" for state, amount in sums if amount)

    return Chart(
        ChartKind.BAR,
        "Dollars an hour by state",
        "$/h",
        tuple(
            Series(
                state.value,
                tuple(
                    float(_sum([row for row in group.nodes if row.state is state]))
                    for group in groups
                ),
                _TONES.get(state),
            )
            for state in states
        ),
        categories=tuple(group.cluster or "(no cluster)" for group in groups),
        lines=tuple(_opened(group.cluster) for group in groups),
        summary=f"An hour: {spent}." if spent else "No price is known.",
    )


def _basis(rows: Sequence[NodeRow]) -> str:
    prices = [row.price for row in rows if row.price]
    counts = Counter(price.found_by for price in prices)
    newest = {way: max(price.asof for price in prices if price.found_by == way) for way in counts}
    dated = "; ".join(
        f"{n:,} {price_source(way)} ({calendar_day(newest[way])})"
        for way, n in counts.most_common()
    )
    sentences = [f"Prices: {dated}."] if dated else []
    if len(prices) < len(rows):
        sentences.append(f"{counted(len(rows) - len(prices), 'node')} without a known price.")

    return " ".join(sentences)


_MOST_JOBS = 3


def no_nodes(reading: Reading) -> Card:
    """Say that no node runs, or that nobody could be asked: an unread fleet is no empty one."""
    card = Card(
        "No node is running",
        Tone.WARNING if reading.gaps else Tone.INFO,
        () if reading.gaps else (text("The source lists no running instance at this time."),),
        {"nodes": [], **({"gaps": gaps(reading)} if reading.gaps else {})},
    )
    return as_read(card, "It is not known which nodes run", reading)


def seen_of(rows: Sequence[NodeRow], reading: Reading) -> Coverage:
    """Return how much is known of some nodes: `fleet` and `idle` say the same of silent ones."""
    silent = [row.instance for row in rows if row.state is NodeState.NO_DATA]
    return coverage_of(reading, ([row.instance for row in rows], silent))


def unread(rows: Sequence[NodeRow], reading: Reading) -> tuple[Block, ...]:
    """Say why no more is known, before the nodes that are known are listed.

    Of history that is still being read `with_age` tells.
    """
    seen = seen_of(rows, reading)
    return () if seen.because == reading.learning else unseen(seen)


def gaps(reading: Reading) -> list[str]:
    """Return the sentences of what could not be read."""
    return [str(gap) for gap in reading.gaps]


@dataclass(frozen=True)
class Spread:
    """Hold one scattered job, and its cross-zone cost within `window`, None where not known."""

    job: Scattered
    usd: Decimal | None = None
    window: Window | None = None
    of_cluster: bool = False


def spread_texts(spreads: Sequence[Spread]) -> Iterator[Block]:
    """Yield a sentence for each job, and how many more there are."""
    for spread in spreads[:_MOST_JOBS]:
        job = spread.job
        advice = (
            f"{job.job} of {job.cluster or 'no cluster'} runs in {len(job.zones)} zones, {job}: "
            "EFA does not cross zones, so its collectives are slower between them. "
            "Keep a job in one zone and placement group."
        )
        if spread.usd is not None and spread.window is not None:
            payer = f"of {job.cluster}" if spread.of_cluster else "of everything on the bill"
            cost = f"{usd(spread.usd)} ({period(spread.window)})"
            advice += f" Cross-zone traffic {payer} cost {cost}."
        yield text(advice)

    if len(spreads) > _MOST_JOBS:
        yield text(f"{counted(len(spreads) - _MOST_JOBS, 'more job')} in several zones.")
