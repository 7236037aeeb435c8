"""Answer whether serving could move from training chips to Inferentia2, and what that saves."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import date
from decimal import Decimal

from bot.answers.plan.fit import ClusterUse, usages
from bot.answers.plan.sizing import (
    HEADROOM,
    Leaner,
    alike_price,
    busiest,
    saving,
    share_text,
    usage_data,
)
from bot.cards.card import Align, Card, Heading, Table, Tone, quiet, text
from bot.cards.words import note_lines
from bot.costs.pricing import Offers, Pricing
from bot.grammar.registry import Needs, Topic, command
from bot.model.claims import Note
from bot.model.fleet import InstanceType
from bot.model.money import usd
from bot.model.request import Request
from bot.ports import Ports

STEADY = 0.15
"""Spread of utilization under which a cluster that trains nothing is called steady.

Trnbot's own default.
"""


def serving_sizes(
    kind: InstanceType, peak_gib: float, utilization: float, types: Iterable[InstanceType]
) -> Sequence[InstanceType]:
    """Return the Inferentia2 sizes that hold a serving node's memory peak and work, the smallest first.

    Trn3 is sold for training and serving alike, so nothing is returned for it.
    """
    if kind.family not in {"trn1", "trn1n", "trn2", "trn2u"}:
        return ()
    work = kind.bf16_tflops * utilization
    fitting = [
        x for x in types if x.family == "inf2" and peak_gib <= x.accelerator_memory_gib * HEADROOM
    ]
    return sorted((x for x in fitting if work <= x.bf16_tflops * HEADROOM), key=lambda x: x.chips)


_R = Align.RIGHT


def serve_card(
    rows: Sequence[tuple[ClusterUse, Leaner]], notes: Sequence[Note], today: date
) -> Card:
    """List clusters that seem to serve on training chips, with the cost of Inferentia2."""
    quoted = [*note_lines(notes, today, "What others report; not applied to the numbers above")]
    if not rows:
        sentence = text(
            "No cluster on trn1 or trn2 serves steadily: none is marked as serving by name or tag, or all of them train."
        )
        return Card(
            "Nothing to move to Inferentia2", Tone.GOOD, (sentence, *quoted), {"clusters": []}
        )
    columns = (
        Heading("cluster"),
        Heading("runs"),
        Heading("used", _R),
        Heading("would fit"),
        Heading("saves a month", _R),
    )
    drawn = tuple(
        (
            usage.cluster,
            f"{usage.nodes} x {usage.type.name}",
            share_text(usage),
            f"{leaner.nodes} x {leaner.type.name}",
            usd(saved) if (saved := saving(usage, leaner)) else "no price known",
        )
        for usage, leaner in rows
    )
    total = sum((saved for row in rows if (saved := saving(*row))), Decimal(0))
    note = quiet(
        "Estimated from peak memory and peak TFLOPS over seven days: measure latency on one node before you move."
    )
    title = f"Serving could move to Inferentia2 and save about {usd(total)} a month"
    return Card(
        title,
        Tone.INFO,
        (Table(columns, drawn), note, *quoted),
        {"clusters": [usage_data(*row) for row in rows]},
    )


@command(
    "inference",
    "Clusters that serve on training chips, and the cost on Inferentia2.",
    needs=Needs.METRICS,
    may=Needs.BILL,
    topic=Topic.PLANS,
    examples=("inference",),
)
def inference(ports: Ports, request: Request) -> Card:
    """Find steady inference; training and Trn3 are left alone."""
    types, offers = ports.world.knowledge.types(), Offers(Pricing(ports).at(request.at))
    rows = []
    for usage in usages(ports, request.at):
        if usage.utilization is None or usage.peak_gib is None or not _serves(usage):
            continue
        fitting = serving_sizes(usage.type, usage.peak_gib, busiest(usage), types.values())
        if fitting:
            rows.append(
                (usage, Leaner(fitting[0], usage.nodes, alike_price(usage, fitting[0], offers)))
            )
    return serve_card(rows, ports.world.knowledge.claims().of("serve"), request.at.date())


def _serves(usage: ClusterUse) -> bool:
    """Tell whether it says that it serves, or works steadily and lightly without any training run."""
    steady = (
        usage.spread is not None and usage.spread < STEADY and 0.02 < (usage.utilization or 0) < 0.5
    )
    return not usage.trains and (usage.named_serving or steady)
