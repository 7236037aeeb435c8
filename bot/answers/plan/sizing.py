"""Answer which size holds a model, and where a cluster could be smaller or serve on Inferentia2."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from decimal import Decimal

from bot.answers.plan.decide import SMALL_PARAMETERS, parameter_count
from bot.answers.plan.fit import ClusterUse, usages
from bot.cards.card import Button, Buttons, Card, Tone, compose, quiet, text
from bot.cards.columns import NUMBER, SHARE, USD, Column, Columns, Unit, datum
from bot.cards.words import PriceAge, as_read, note_lines
from bot.costs.pricing import HOURS_A_MONTH, Offers, Pricing
from bot.grammar.names import no_cluster
from bot.grammar.registry import Needs, Topic, arg, command
from bot.model.claims import Note
from bot.model.fleet import InstanceType
from bot.model.money import cents, counted, usd
from bot.model.price import Price
from bot.model.request import Request
from bot.model.window import calendar_day
from bot.ports import Ports

HEADROOM = 0.9
"""Share of memory or compute that a smaller size may be filled to: trnbot's own default."""


@dataclass(frozen=True)
class Leaner:
    """State what would hold a cluster's work for less: a size, how many of it, and its price.

    No type where nothing would, or where too little was read.
    """

    usage: ClusterUse
    type: InstanceType | None = None
    nodes: int = 0
    price: Price | None = None

    @property
    def saving(self) -> Decimal | None:
        """Return USD a month that the other size or number saves.

        None where a price is missing or nothing is saved.
        """
        if self.usage.price is None or self.price is None:
            return None
        saved = self.usage.usd_per_hour - self.price.usd_per_hour * self.nodes

        return cents(saved * HOURS_A_MONTH) if saved > 0 else None

    def __str__(self) -> str:
        """Read as `4 x trn1.2xlarge`, or why there is nothing."""
        if self.type:
            return f"{self.nodes} x {self.type.name}"
        return "too little was read" if self.usage.unread else "all are needed"


def smallest(usage: ClusterUse, sizes: Iterable[InstanceType]) -> InstanceType | None:
    """Return the smallest size that holds a node's memory peak and work with room to spare."""
    tflops = usage.type.bf16_tflops * usage.busiest
    holding = (
        size
        for size in sizes
        if (usage.peak_gib or 0.0) <= size.accelerator_memory_gib * HEADROOM
        and tflops <= size.bf16_tflops * HEADROOM
    )
    return min(holding, key=lambda size: size.chips, default=None)


def fewer_nodes(usage: ClusterUse) -> int | None:
    """Return how many nodes of today's type would hold the peak memory and the work of all.

    None where all are needed.

    Memory counts as if all of it were sharded over the nodes: what every node holds a copy of needs
    no more, but no less.
    """
    shares = usage.busiest, (usage.peak_gib or 0.0) / usage.type.accelerator_memory_gib
    sold = usage.type.sold_in
    nodes = math.ceil(max(1.0, usage.nodes * max(shares) / HEADROOM) / sold - 1e-9) * sold

    return nodes if nodes < usage.nodes else None


def leaner_of(usage: ClusterUse, types: Iterable[InstanceType], offers: Offers) -> Leaner:
    """Return the smallest size that would hold a node's work, else fewer nodes."""
    if usage.unread or (usage.utilization or 0.0) + (usage.spread or 0.0) <= 0:
        return Leaner(usage)
    # A smaller size is surer than fewer nodes, which need the jobs to be packed anew.
    today = usage.type
    size = smallest(usage, (x for x in types if x.family == today.family and x.chips < today.chips))
    if size:
        return moved_to(usage, size, offers)
    nodes = fewer_nodes(usage)

    return Leaner(usage, today, nodes, usage.price) if nodes else Leaner(usage)


def moved_to(usage: ClusterUse, size: InstanceType, offers: Offers) -> Leaner:
    """Return as many nodes of a size, bought as today's are, else without a commitment."""
    alike = offers.here(size.name, usage.price.market, usage.region) if usage.price else None
    return Leaner(usage, size, usage.nodes, alike or offers.plain(size.name, usage.region))


def right_size_card(rows: Sequence[Leaner]) -> Card:
    """List clusters with the smaller size or the fewer nodes that would hold them, if any would."""
    title = "No cluster fits on less"
    if total := sum(row.saving or 0 for row in rows):
        title = f"Smaller sizes or fewer nodes would save about {usd(total)} a month"

    return Card(
        title,
        Tone.INFO,
        compose(
            CLUSTERS.table(rows),
            any(row.type is row.usage.type for row in rows)
            and text(
                "Fewer nodes hold the same work only if its jobs can be packed, or trained on"
                " fewer: take one away, and compare."
            ),
            quiet(
                "Estimated over seven days; a size fits if peak memory and work (mean and twice"
                f" its spread) use at most {HEADROOM * 100:.0f} % of it."
                " Committed hours are paid until the commitment ends."
            ),
        ),
        {"clusters": CLUSTERS.data(rows)},
    )


CLUSTERS = Columns[Leaner](
    Column("cluster", lambda row: row.usage.cluster, key="cluster", missing="(no cluster)"),
    datum("runs", lambda row: row.usage.type.name),
    Column("runs", lambda row: f"{row.usage.nodes} x {row.usage.type.name}"),
    datum(
        "nodes",
        lambda row: row.usage.nodes,
        "count of the cluster's running nodes of its most common type",
    ),
    Column(
        "used",
        lambda row: row.usage.utilization,
        SHARE,
        "utilization_ratio",
        "mean over seven days of the mean of the nodes",
        missing="no reading",
    ),
    datum(
        "peak_gib",
        lambda row: row.usage.peak_gib,
        "highest accelerator memory of any node within seven days",
    ),
    Column("memory peak", lambda row: row.usage.peak, NUMBER, missing="no reading"),
    datum("fits", lambda row: row.type and row.type.name),
    datum(
        "fits_nodes",
        lambda row: row.nodes or None,
        "fewest nodes that memory peak and work fill to 90 % at most",
    ),
    Column("would fit", str),
    Column(
        "saves a month",
        lambda row: row.saving,
        USD,
        "saves_usd_per_month",
        "(price of today's nodes - price of those that would fit) x 730",
    ),
)


BYTES_A_PARAMETER = 16
"""Mixed precision with Adam.

2 weights, 2 gradients, 12 master weights and moments (Rajbhandari et al., ZeRO, 2020).
"""
ROOM = 1.25
"""Memory for activations and buffers, as a multiple of the states': trnbot's own default."""


@dataclass(frozen=True)
class Fit:
    """State how many nodes of a type hold a model's training states, UltraServers whole."""

    type: InstanceType
    nodes: int
    filled: float
    """Share of their accelerator memory."""

    def __str__(self) -> str:
        """Read as `1 x trn2.48xlarge` or `4 UltraServers (16 x trn2u.48xlarge)`."""
        nodes = f"{self.nodes} x {self.type.name}"
        return (
            f"{counted(self.nodes // self.type.sold_in, 'UltraServer')} ({nodes})"
            if self.type.sold_in > 1
            else nodes
        )


def training_gib(parameters: float) -> float:
    """Return the accelerator memory that training needs, in GiB."""
    return parameters * BYTES_A_PARAMETER * ROOM / 2**30


def fits(parameters: float, types: Iterable[InstanceType]) -> tuple[Fit, ...]:
    """Return the fewest nodes of each Trainium type: the advised one first, then by chips.

    Sizes of one chip are joined by the network alone: they count only where one of them is enough.
    UltraServers are for what no single node holds.

    One node of the first family that holds it is advised, else UltraServers: Trn1 for fine-tuning
    and mid-size models, Trn2 for what needs more, an UltraServer for what does not fit 16 chips.
    """
    need_gib = training_gib(parameters)
    fewest = []
    for kind in types:
        if kind.accelerator.startswith("Trainium"):
            sold = max(1, math.ceil(need_gib / (kind.accelerator_memory_gib * kind.sold_in)))
            nodes = sold * kind.sold_in
            fewest.append(Fit(kind, nodes, need_gib / (nodes * kind.accelerator_memory_gib)))

    # UltraServers are for what no single node holds.
    enough = any(fit.nodes == 1 for fit in fewest)
    options = [
        fit
        for fit in fewest
        if fit.nodes == 1 or (fit.type.chips > 1 and not (enough and fit.type.sold_in > 1))
    ]
    options.sort(key=lambda fit: (fit.nodes * fit.type.chips, fit.type.name))

    alone = [
        fit
        for family in _FAMILIES
        for fit in options
        if fit.type.family == family and fit.nodes == 1
    ]
    best = (alone or [fit for fit in options if fit.type.sold_in > 1] or options)[0]

    return (best, *(fit for fit in options if fit is not best))


_FAMILIES = ("trn1", "trn2")
"""The order in which the notes on sizes name them, the cheaper chip first."""


FITS = Columns[tuple[Fit, Price | None]](
    Column("type", lambda row: row[0].type.name, key="instance_type"),
    Column(
        "nodes",
        lambda row: row[0].nodes,
        NUMBER,
        "nodes",
        "fewest nodes, or whole UltraServers, whose accelerator memory holds the states",
    ),
    Column(
        "memory filled",
        lambda row: row[0].filled,
        Unit(SHARE.write, store=lambda filled: round(filled, 3)),
        "filled_ratio",
        "memory needed / (nodes x accelerator memory of a node)",
    ),
    datum(
        "node_usd_per_hour",
        lambda row: row[1] and row[1].usd_per_hour,
        "price of an hour of a node: on demand, else as it is offered",
    ),
    Column("$/h", lambda row: row[1] and row[1].usd_per_hour * row[0].nodes, USD, missing="?"),
    datum("market", lambda row: row[1] and row[1].market.value),
    datum("region", lambda row: row[1] and row[1].region),
    datum("asof", lambda row: row[1] and row[1].asof),
)


def size_card(
    parameters: float,
    options: Sequence[Fit],
    prices: Mapping[str, Price],
    notes: Sequence[Note],
    age: PriceAge,
) -> Card:
    """Draw the fewest nodes of each type that hold the training states, and their dollars."""
    rows = [(fit, prices.get(fit.type.name)) for fit in options]

    def dated(row: tuple[Fit, Price | None]) -> str | None:
        price = row[1]
        if price is None:
            return None
        return f"{calendar_day(price.asof)}, {price.market}, {price.region}{age.of(price.asof)}"

    need_gib = training_gib(parameters)
    formula = (
        f"{BYTES_A_PARAMETER} bytes a parameter (mixed precision, Adam) x {ROOM} for"
        " activations; long sequences need more."
    )

    best = options[0]
    holds = "holds" if best.nodes == best.type.sold_in else "hold"
    units = ((1e12, "trillion"), (1e9, "billion"), (1e6, "million"))
    scale, unit = next((x for x in units if parameters >= x[0]), units[-1])

    return Card(
        f"{parameters / scale:g} {unit} parameters: {best} {holds} them",
        Tone.INFO,
        compose(
            text(f"Training states need about {need_gib:,.0f} GiB of accelerator memory."),
            Columns(*FITS.drawn, Column("price of", dated, missing="not known")).table(rows),
            parameters < SMALL_PARAMETERS
            and text(
                "A model this small runs on one core or a trn1.2xlarge: on many chips the"
                " interconnect outweighs the gain."
            ),
            quiet(f"Estimated: {formula} This covers memory only, not the training time."),
            quiet(
                "Sizes of one chip are listed where one is enough: only the network joins several."
                " UltraServers are bought whole."
            ),
            note_lines(notes, age.today),
            Buttons(
                (Button("What it costs a year", "help tco"), Button("Capacity", "help capacity"))
            ),
        ),
        {
            "parameters": parameters,
            "needs_gib": round(need_gib, 1),
            "advised": best.type.name,
            "fits": FITS.data(rows),
        },
    )


@command(
    "size",
    "The instance size that fits a model, or a smaller one that would fit the current work.",
    needs=Needs.METRICS | Needs.STATE,
    may=Needs.BILL,
    topic=Topic.PLANS,
    examples=("size 7B", "size", "size llama"),
    figures={
        "parameters": "as typed",
        "needs_gib": "parameters x 16 bytes x 1.25",
        **FITS.sources("fits"),
        **CLUSTERS.sources("clusters"),
    },
)
def size(
    ports: Ports,
    request: Request,
    what: str = arg("", "a count of parameters such as 7B, or a cluster"),
) -> Card:
    """Judge a model by its parameters, clusters by their use."""
    types, claims = ports.world.knowledge.types(), ports.world.knowledge.claims()
    offers = Offers(Pricing(ports).at(request.at))
    if what[:1].isdigit():
        count = parameter_count(what)
        options = fits(count, types.values())
        prices = {x.type.name: price for x in options if (price := offers.plain(x.type.name))}
        return size_card(
            count,
            options,
            prices,
            [*claims.of("sizing"), *claims.of("advice")],
            PriceAge.on(request.at, ports.policy),
        )

    clusters = usages(ports, request.at)
    chosen = [usage for usage in clusters if what in ("", usage.cluster)]
    if what and not chosen:
        raise no_cluster(what, (usage.cluster for usage in clusters if usage.cluster))

    return as_read(
        right_size_card([leaner_of(usage, types.values(), offers) for usage in chosen]),
        "It is not known which clusters run",
        ports.world.source.read(request.at),
    )


STEADY = 0.15
"""Spread of utilization under which a cluster that trains nothing is called steady.

Trnbot's own default.
"""


def serving_size(usage: ClusterUse, types: Iterable[InstanceType]) -> InstanceType | None:
    """Return the smallest Inferentia2 size that holds a serving node's peak and work.

    None for Trn3, which is sold for training and serving alike.
    """
    if usage.type.family not in {"trn1", "trn1n", "trn2", "trn2u"}:
        return None
    return smallest(usage, (size for size in types if size.family == "inf2"))


def serve_card(rows: Sequence[Leaner], notes: Sequence[Note], today: date) -> Card:
    """List clusters that seem to serve on training chips, with the cost of Inferentia2."""
    quoted = note_lines(notes, today, "What others report; not applied to the numbers above")
    data = {"clusters": CLUSTERS.data(rows)}
    if not rows:
        sentence = text(
            "No cluster on trn1 or trn2 serves steadily: none is marked as serving by name or"
            " tag, or all of them train."
        )
        return Card("Nothing to move to Inferentia2", Tone.GOOD, (sentence, *quoted), data)

    total = sum((row.saving or Decimal(0) for row in rows), Decimal(0))
    saves = replace(CLUSTERS.columns[-1], missing="no price known")

    return Card(
        f"Serving could move to Inferentia2 and save about {usd(total)} a month",
        Tone.INFO,
        (
            Columns(*CLUSTERS.drawn[:3], *CLUSTERS.pick("would fit").columns, saves).table(rows),
            quiet(
                "Estimated from peak memory and peak TFLOPS over seven days: measure latency on"
                " one node before you move."
            ),
            *quoted,
        ),
        data,
    )


@command(
    "inference",
    "Clusters that serve on training chips, and the cost on Inferentia2.",
    needs=Needs.METRICS,
    may=Needs.BILL,
    topic=Topic.PLANS,
    examples=("inference",),
    figures={
        **CLUSTERS.sources("clusters"),
    },
)
def inference(ports: Ports, request: Request) -> Card:
    """Find steady inference; training and Trn3 are left alone."""
    types, offers = ports.world.knowledge.types(), Offers(Pricing(ports).at(request.at))
    rows = []
    for usage in usages(ports, request.at):
        if usage.utilization is None or usage.unread or usage.trains:
            continue
        # A steady, light load is what serving looks like where nobody says that it is.
        steady = usage.spread is not None and usage.spread < STEADY
        light = 0.02 < usage.utilization < 0.5
        if not usage.named_serving and not (steady and light):
            continue
        if size := serving_size(usage, types.values()):
            rows.append(moved_to(usage, size, offers))

    return as_read(
        serve_card(rows, ports.world.knowledge.claims().of("serve"), request.at.date()),
        "It is not known which clusters serve",
        ports.world.source.read(request.at),
    )
