"""Ask what compiling cost within a window, of the same part of the fleet that a question about the bill is about."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from bot.costs.compiling import CompileBill, bill_of
from bot.errors import Unavailable
from bot.model.fleet import Inventory
from bot.model.spend import Filter
from bot.model.window import Window
from bot.ports import Ports
from bot.pricing import Pricing, hours_of

_KNOWN = ("cluster", "team", "project", "region", "zone", "account", "instance_type")
"""Dimensions of the bill that an instance has too: only by these can its compiles be kept apart."""


def compiling_within(ports: Ports, window: Window, where: Sequence[Filter], now: datetime) -> CompileBill | None:
    """Return what compiling cost within the part of the window that metrics reach; None where it cost nothing or none can say.

    May block.
    """
    if any(one.dimension not in _KNOWN for one in where):
        return None
    try:
        reading = ports.source.read(now)
    except Unavailable:
        return None
    frame = reading.frame("node")
    if frame is None or frame.end <= window.start or frame.start >= window.end:
        return None
    seen = Window(max(window.start, frame.start), min(window.end, frame.end))
    found = [x for x in ports.compiles(reading, ports.policy, seen.start) if _asked(x.instance, reading.inventory, where)]
    bill = bill_of(found, seen, hours_of(Pricing(ports).at(now), reading.inventory))
    return bill if bill.compiles else None


def _asked(instance: str, inventory: Inventory, where: Sequence[Filter]) -> bool:
    """Tell whether every filter keeps the instance; one that the inventory does not know is kept where none is asked for."""
    known = inventory.instances.get(instance)
    if known is None:
        return not where
    said = dict(known.labels) | {"project": known.project}
    return all((said.get(one.dimension, "") in one.values) is not one.negated for one in where)
