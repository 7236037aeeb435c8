"""Show which size a model needs, where a cluster could be smaller, and where serving could move."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal

from bot.advice.sizing import BYTES_A_PARAMETER, HEADROOM, ROOM, SMALL_PARAMETERS, Fit, training_gib
from bot.cards.card import Align, Block, Button, Buttons, Card, Column, Table, Tone, quiet, text
from bot.cards.money import usd
from bot.cards.notes import note_lines
from bot.model.claims import Note
from bot.model.fleet import InstanceType
from bot.model.price import Price
from bot.model.usage import Usage

_R = Align.RIGHT
HOURS_A_MONTH = 730


def size_card(
    parameters: float, found: Sequence[Fit], prices: Mapping[str, Price], sizing: Sequence[Note], advice: Sequence[Note]
) -> Card:
    """Draw the fewest nodes of each type that hold the training states, with dollars where a price is known."""
    columns = (Column("type"), Column("nodes", _R), Column("memory filled", _R), Column("$/h", _R), Column("price of"))
    rows = tuple(_fit(x, prices.get(x.type.name)) for x in found)
    need = training_gib(parameters)
    blocks: list[Block] = [text(f"Training states need about {need:,.0f} GiB of accelerator memory."), Table(columns, rows)]
    if parameters < SMALL_PARAMETERS:
        blocks.append(
            text("So small a model runs on one core or a trn1.2xlarge: over many chips the interconnect eats the gain.")
        )
    formula = f"{BYTES_A_PARAMETER} bytes a parameter (mixed precision, Adam) x {ROOM} for activations; long sequences need more."
    blocks += [
        quiet(f"An estimate: {formula} Memory alone; the time it takes is another question."),
        *note_lines(sizing),
        *note_lines(advice),
    ]
    blocks.append(Buttons((Button("What it costs a year", "help tco"), Button("Capacity", "help capacity"))))
    data = {
        "parameters": parameters,
        "needs_gib": round(need, 1),
        "fits": [{"instance_type": x.type.name, "nodes": x.nodes, "filled_ratio": round(x.filled, 3)} for x in found],
    }
    return Card(
        f"{_count(parameters)} parameters: {found[0].nodes} x {found[0].type.name} hold them", Tone.INFO, tuple(blocks), data
    )


def right_size_card(rows: Sequence[tuple[Usage, InstanceType | None, Price | None]]) -> Card:
    """List clusters with the smaller size that would hold them, or that none would."""
    columns = (
        Column("cluster"),
        Column("runs"),
        Column("used", _R),
        Column("memory peak", _R),
        Column("would fit"),
        Column("saves a month", _R),
    )
    drawn, total = [], Decimal(0)
    for usage, kind, price in rows:
        saved = saving(usage, price)
        total += saved or Decimal(0)
        told = f"{usage.nodes} x {kind.name}" if kind else "no smaller size"
        drawn.append(
            (usage.cluster, f"{usage.nodes} x {usage.type.name}", _share(usage), _peak(usage), told, usd(saved) if saved else "–")
        )
    notes = quiet(f"Over seven days; a size counts where peak and work fill at most {HEADROOM * 100:.0f} % of it. An estimate.")
    title = f"A smaller size would save about {usd(total)} a month" if total else "No cluster fits a smaller size"
    data = {"clusters": [_data(usage, kind, price) for usage, kind, price in rows]}
    return Card(title, Tone.INFO, (Table(columns, tuple(drawn)), notes), data)


def serve_card(rows: Sequence[tuple[Usage, InstanceType, Price | None]], notes: Sequence[Note]) -> Card:
    """List clusters that seem to serve on training chips, with what Inferentia2 would cost."""
    quoted = [*note_lines(notes, "What others report; not applied to the numbers above")]
    if not rows:
        told = text("No cluster on trn1 or trn2 serves steadily: none says so by name or tag, or all of them train.")
        return Card("Nothing to move to Inferentia2", Tone.GOOD, (told, *quoted), {"clusters": []})
    columns = (Column("cluster"), Column("runs"), Column("used", _R), Column("would fit"), Column("saves a month", _R))
    drawn = tuple(
        (
            u.cluster,
            f"{u.nodes} x {u.type.name}",
            _share(u),
            f"{u.nodes} x {k.name}",
            usd(s) if (s := saving(u, p)) else "no price known",
        )
        for u, k, p in rows
    )
    total = sum((s for u, _, p in rows if (s := saving(u, p))), Decimal(0))
    note = quiet("An estimate by memory peak and peak TFLOPS over seven days: measure latency on one node before you move.")
    title = f"Serving could move to Inferentia2 and save about {usd(total)} a month"
    return Card(title, Tone.INFO, (Table(columns, drawn), note, *quoted), {"clusters": [_data(*row) for row in rows]})


def saving(usage: Usage, price: Price | None) -> Decimal | None:
    """Return USD a month that the other size saves, None where a price is missing or nothing is saved."""
    if usage.price is None or price is None or price.usd_per_hour >= usage.price.usd_per_hour:
        return None
    return ((usage.price.usd_per_hour - price.usd_per_hour) * usage.nodes * HOURS_A_MONTH).quantize(Decimal("0.01"))


def _fit(fit: Fit, price: Price | None) -> tuple[str, ...]:
    cost = (usd(price.usd_per_hour * fit.nodes), f"{price.asof}, {price.market}") if price else ("?", "not known")
    return fit.type.name, f"{fit.nodes}", f"{fit.filled * 100:.0f} %", *cost


def _share(usage: Usage) -> str:
    return "no reading" if usage.utilization is None else f"{usage.utilization * 100:.0f} %"


def _peak(usage: Usage) -> str:
    return "no reading" if usage.peak_gib is None else f"{usage.peak_gib:,.0f} of {usage.type.accelerator_memory_gib:,} GiB"


def _count(parameters: float) -> str:
    return f"{parameters / 1e9:g} billion" if parameters >= 1e9 else f"{parameters / 1e6:g} million"


def _data(usage: Usage, kind: InstanceType | None, price: Price | None) -> dict[str, object]:
    return {
        "cluster": usage.cluster,
        "runs": usage.type.name,
        "nodes": usage.nodes,
        "utilization_ratio": usage.utilization,
        "peak_gib": usage.peak_gib,
        "fits": kind.name if kind else None,
        "saves_usd_per_month": saving(usage, price),
    }
