"""Take compiles apart into the hours of each node, so that their cost can be multiplied out anew."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any

from bot.answers.receipt.readings import Readings
from bot.costs.pricing import Pricing
from bot.model.spend import Filter
from bot.model.window import Window
from bot.ports import Ports


class CompileRows:
    """Name the hours that nodes compiled."""

    def __init__(self, ports: Ports, readings: Readings, at: datetime) -> None:
        self._ports, self._readings, self._at = ports, readings, at

    def names(self) -> Mapping[str, Any]:
        """Return the terms by name."""
        return {"compiles": self.compiles}

    def compiles(
        self, start: datetime, end: datetime, where: Sequence[Filter]
    ) -> Sequence[Mapping[str, Any]]:
        """Return the compiles within a time.

        Those of a scope that ended alike and share minutes together, node by node.
        """
        reading, pricing = self._readings.reading, Pricing(self._ports).at(self._at)
        together: list[dict[str, Any]] = []
        every = self._ports.world.compiles(reading, self._ports.policy, start)
        for each in sorted(every, key=lambda x: x.window.start):
            node = reading.inventory.instances.get(each.instance)
            begun, ended = max(each.window.start, start), min(each.window.end, end)
            known = dict(node.labels) | {"project": node.project} if node else {}
            if begun >= ended or not (node or not where) or any(_hides(x, known) for x in where):
                continue
            price = pricing.instance(node) if node else None
            hours = Decimal(str(Window(begun, ended).hours))
            row = {
                "hours": hours,
                "usd_per_hour": price and price.usd_per_hour,
                "usd": price and hours * price.usd_per_hour,
            }
            alike = (
                x
                for x in together
                if (x["scope"], x["ending"]) == (each.scope, each.ending) and begun < x["end"]
            )
            batch = next(alike, None)
            if batch is None:
                batch = {"scope": each.scope, "ending": each.ending, "end": ended, "nodes": []}
                together.append(batch)
            batch["end"] = max(batch["end"], ended)
            batch["nodes"].append(row)
        return together


def _hides(condition: Filter, labels: Mapping[str, str]) -> bool:
    return (labels.get(condition.dimension, "") in condition.values) is condition.negated
