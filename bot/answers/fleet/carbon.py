"""Answer the energy and the emissions of the nodes that ran: an estimate by a formula."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from decimal import Decimal

from bot.answers.runs.costed import costed_runs, find_run
from bot.cards.card import Block, Card, Tone, compose, quiet, text
from bot.cards.columns import Column, Columns, Unit
from bot.cards.words import as_read, cited, note_lines, period
from bot.errors import Unavailable, refuse
from bot.grammar.names import refuse_unseen
from bot.grammar.registry import Needs, Topic, arg, command
from bot.model.claims import Claims, Grid, Note, Power, Pue
from bot.model.fleet import InstanceType
from bot.model.request import Request
from bot.model.window import Window
from bot.ports import Ports


@dataclass(frozen=True)
class Footprint:
    """State node-hours with their kWh and kg of CO2 equivalents; None where a factor is unknown."""

    instance_type: str
    region: str
    node_hours: float
    watts: float | None
    kwh: float | None
    kg: float | None
    spread: float = 0.0
    """The share by which watts, and all that is made of them, may be less or more."""


@dataclass(frozen=True)
class Factors:
    """Hold the factors of a node-hour.

    The data centres' overhead, watts of a chip, kg of a kWh by region.
    """

    pue: Pue
    powers: Mapping[str, Power]
    grids: Mapping[str, Grid]
    watts: float | None = None
    """Of every chip, as the asker gives it; the vendors' figures otherwise."""
    kg_per_kwh: float | None = None

    def of(self, kind: InstanceType, region: str, node_hours: float) -> Footprint:
        """Return kWh = node-hours x chips x watts x PUE / 1000, and kg = kWh x grid's factor."""
        power, grid = self.powers.get(kind.accelerator), self.grids.get(region)
        watts, factor, spread = self.watts, self.kg_per_kwh, 0.0
        if watts is None and power:
            watts, spread = power.watts, power.spread
        if factor is None and grid:
            factor = grid.kg_per_kwh
        kwh = node_hours * kind.chips * watts * self.pue.ratio / 1000 if watts is not None else None

        return Footprint(
            kind.name,
            region,
            node_hours,
            watts,
            kwh,
            kwh * factor if kwh is not None and factor is not None else None,
            spread,
        )

    @classmethod
    def stated(
        cls, claims: Claims, watts: float | None = None, kg_per_kwh: float | None = None
    ) -> Factors:
        """Return the newest published factors."""
        return cls(
            next(x for x in claims.pues if x.provider == "AWS"),
            {x.accelerator: x for x in claims.powers},
            {x.region: x for x in claims.grids},
            watts,
            kg_per_kwh,
        )


@dataclass(frozen=True)
class Carbon:
    """Hold the footprints of a time, their factors, the chips that ran, and vendors' claims."""

    footprints: Sequence[Footprint]
    window: Window
    factors: Factors
    peaks: Mapping[str, float]
    """BF16 TFLOPS of each chip that ran; 0 where not known."""
    today: date
    run: str = ""
    notes: Sequence[Note] = field(default=())
    cluster: str = ""

    @property
    def node_hours(self) -> float:
        """Return the node-hours of all, known or not."""
        return sum(x.node_hours for x in self.footprints)

    @property
    def known_hours(self) -> float:
        """Return the node-hours whose emissions are known."""
        return sum(x.node_hours for x in self.footprints if x.kg is not None)

    @property
    def kg(self) -> float:
        """Return the kilograms of those hours."""
        return sum(x.kg for x in self.footprints if x.kg is not None)

    @property
    def kg_either_way(self) -> float:
        """Return by how much they may be less or more, where watts are a range."""
        return sum(x.kg * x.spread for x in self.footprints if x.kg is not None)


def _known(unit: str) -> Unit:
    return Unit(lambda amount: f"{amount:,.0f} {unit}")


FOOTPRINTS = Columns[Footprint](
    Column("type", lambda x: x.instance_type, key="instance_type"),
    Column("region", lambda x: x.region, key="region"),
    Column(
        "node-hours",
        lambda x: x.node_hours,
        Unit("{:,.0f}".format),
        "node_hours",
        "sum over instances, by inventory, of the hours between launch and end within the window",
    ),
    Column(
        "a chip",
        lambda x: x.watts,
        _known("W"),
        "watts",
        "as typed, else the maker's published watts of a chip, else the middle of what others"
        " estimate",
        missing="not known",
    ),
    Column(
        "energy",
        lambda x: x.kwh,
        _known("kWh"),
        "kwh",
        "node-hours x chips x watts of a chip x PUE / 1000",
        missing="not known",
    ),
    Column(
        "CO2e", lambda x: x.kg, _known("kg"), "kg", "kWh x the grid's kg a kWh", missing="not known"
    ),
)
_CHIPS = Columns[tuple[str, float, float]](
    Column("chip", lambda chip: chip[0]),
    Column("full load", lambda chip: chip[1], _known("W")),
    Column("BF16 TFLOPS", lambda chip: chip[2], Unit("{:,.0f}".format)),
    Column("watts a TFLOP", lambda chip: chip[1] / chip[2], Unit("{:.2f} W".format)),
)


def carbon_card(carbon: Carbon) -> Card:
    """Draw a row for each type and region.

    A figure that no vendor states stays unknown, and the title says how much is.
    """
    # What is missing is named together with the way to give it.
    types = dict.fromkeys(x.instance_type for x in carbon.footprints if x.watts is None)
    regions = dict.fromkeys(
        x.region for x in carbon.footprints if x.kwh is not None and x.kg is None
    )

    # Chips are compared by their makers' watts alone: two of them at least, each with its peak.
    powers = carbon.factors.powers
    chips = [
        (name, powers[name].watts, peak)
        for name, peak in carbon.peaks.items()
        if peak and name in powers and not powers[name].spread
    ]
    claims = [x for x in carbon.notes if x.topic != "footprint"]

    return Card(
        _title(carbon),
        Tone.INFO,
        compose(
            FOOTPRINTS.table(carbon.footprints),
            bool(types)
            and text(
                f"No watts of {', '.join(types)} are published: "
                "give a measured figure, such as carbon watts=500."
            ),
            bool(regions)
            and text(
                f"No grid factor of {', '.join(regions)} is known: "
                "give one, such as carbon kg_per_kwh=0.3."
            ),
            _sources(carbon),
            len(chips) > 1
            and _CHIPS.table(
                sorted(chips, key=lambda x: x[1] / x[2]),
                caption="Peaks by data sheets and cited watts; a model reaches neither",
            ),
            note_lines([x for x in carbon.notes if x.topic == "footprint"], carbon.today),
            note_lines(claims, carbon.today, "What vendors claim; none is used in a calculation"),
        ),
        {
            "window": {"start": carbon.window.start, "end": carbon.window.end},
            "run": carbon.run or None,
            "cluster": carbon.cluster or None,
            "estimate": True,
            "pue": carbon.factors.pue.ratio,
            "kg": carbon.kg if carbon.known_hours else None,
            "kg_either_way": carbon.kg_either_way if carbon.known_hours else None,
            "node_hours": carbon.node_hours,
            "known_node_hours": carbon.known_hours,
            "rows": FOOTPRINTS.data(carbon.footprints),
        },
    )


def _title(carbon: Carbon) -> str:
    """Say the sum and of how much of the time it is: a part must not pass for the whole."""
    of = ", ".join(filter(None, (carbon.run or carbon.cluster, period(carbon.window))))
    if not carbon.footprints:
        return f"Footprint of {of}: nothing ran"
    if not carbon.known_hours:
        return f"Footprint of {of}: not known for any of {carbon.node_hours:,.0f} node-hours"
    total = f"about {carbon.kg:,.0f} kg CO2e, an estimate"
    if off := carbon.kg_either_way:
        total = f"{carbon.kg - off:,.0f} to {carbon.kg + off:,.0f} kg CO2e, an estimate"
    if carbon.known_hours < carbon.node_hours:
        part = f"{carbon.known_hours:,.0f} of {carbon.node_hours:,.0f} node-hours"
        total = f"{total} for {part}; the rest is not known"

    return f"Footprint of {of}: {total}"


def _sources(carbon: Carbon) -> list[Block]:
    factors, today, pue = carbon.factors, carbon.today, carbon.factors.pue
    blocks: list[Block] = [
        quiet(
            f"Estimated: node-hours x chips x watts x PUE {pue.ratio} / 1000 x kg a kWh; "
            "full load, without hosts."
        ),
        quiet(f"PUE {pue.ratio}: {pue.says} ({cited(pue, today)})."),
    ]

    # A figure that the asker gave in place of a cited one leaves nothing to cite.
    if factors.watts is None:
        blocks += [
            quiet(f"{name}: {power} ({cited(power, today)}).")
            for name, power in factors.powers.items()
            if name in carbon.peaks
        ]

    if factors.kg_per_kwh is None:
        regions = {x.region for x in carbon.footprints}
        grids = [grid for region, grid in factors.grids.items() if region in regions]
        blocks += [
            quiet(
                f"{x.region}: {x.kg_per_kwh} kg a kWh, grid {x.zone}, {x.counts} "
                f"({cited(x, today)}; {x.licence})."
            )
            for x in grids
        ]
        if len({x.counts for x in grids}) > 1:
            blocks.append(
                quiet(
                    "Direct emissions leave out what fuel and plants cost before they run: "
                    "compare regions only within one measure."
                )
            )

    return blocks


@command(
    "carbon",
    "Estimated energy and CO2 of the nodes that ran, or of one training run, with the formula.",
    needs=Needs.METRICS,
    may=Needs.BILL,
    topic=Topic.PLANS,
    examples=("carbon 7d", "carbon run=llama-70b", "carbon 7d watts=500 cluster=llama"),
    figures={
        "pue": "power usage effectiveness as published, with its date",
        **FOOTPRINTS.sources("rows"),
        "kg": "sum over the rows whose watts and grid are known",
        "kg_either_way": "sum over the rows of kg x half the range of their watts / its middle",
        "node_hours": "sum over the rows",
        "known_node_hours": "sum over the rows whose kg is known",
    },
)
def carbon(
    ports: Ports,
    request: Request,
    window: Window = arg("7d", "which days"),
    cluster: str = arg("", "only this cluster", keyword=True),
    run: str = arg("", "only this training run, over the time that it was observed", keyword=True),
    watts: Decimal | None = arg("", "watts of one chip, if you know a better figure", keyword=True),
    kg_per_kwh: Decimal | None = arg(
        "", "the grid's factor, if you know a better figure", keyword=True
    ),
) -> Card:
    """Count node-hours by inventory, and multiply."""
    refuse(
        (
            any(x is not None and not 0 < x < 100_000 for x in (watts, kg_per_kwh)),
            "watts and kg_per_kwh are more than 0, such as watts=500 kg_per_kwh=0.3.",
        ),
        (bool(run and cluster), "Name a run or a cluster, not both."),
    )
    stated = (None if x is None else float(x) for x in (watts, kg_per_kwh))
    claims, types = ports.world.knowledge.claims(), ports.world.knowledge.types()
    reading = ports.world.source.read(request.at)
    refuse_unseen(cluster, reading)
    instances = reading.inventory.instances.values()

    # Node-hours by type and region: of a run over its own time, else of all within the window.
    hours: dict[tuple[str, str], float] = defaultdict(float)
    if run:
        costed = find_run(costed_runs(ports, request.at), run)
        window = Window(costed.cost.since, costed.cost.until)
        if len(costed.instance_types) != 1:
            raise Unavailable(
                f"{costed.name} ran on {', '.join(costed.instance_types)}: "
                "its hours on each cannot be told apart."
            )
        # A run seldom tells its region: its cluster's nodes of that type do.
        name, ran_in = costed.instance_types[0], costed.cost.run.labels
        nodes = (instance.labels for instance in instances if instance.labels.instance_type == name)
        regions = (labels.region for labels in nodes if labels.cluster == ran_in.cluster)
        hours[name, next(regions, ran_in.region)] = costed.cost.nodes * window.hours
    else:
        for instance in instances:
            labels = instance.labels
            start = max(instance.launched_at, window.start)
            end = min(instance.ended_at or request.at, window.end, request.at)
            if cluster in ("", labels.cluster) and end > start:
                hours[labels.instance_type, labels.region] += (end - start) / timedelta(hours=1)

    # Chips that no table knows have no figures: their types are left out.
    counts = {place: count for place, count in sorted(hours.items()) if place[0] in types}
    factors = Factors.stated(claims, *stated)
    footprints = [
        factors.of(types[name], region, count) for (name, region), count in counts.items()
    ]

    documented = {chip.name: chip.bf16_tflops for chip in claims.chips}
    kinds = {types[name].accelerator: types[name] for name, _ in counts}
    peaks = {
        name: documented.get(name, kind.bf16_tflops / kind.chips) for name, kind in kinds.items()
    }
    notes = (*claims.of("footprint"), *claims.of("energy"))

    return as_read(
        carbon_card(
            Carbon(footprints, window, factors, peaks, request.at.date(), run, notes, cluster)
        ),
        f"Footprint of {period(window)}: not known which nodes ran",
        reading,
    )
