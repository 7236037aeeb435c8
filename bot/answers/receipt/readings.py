"""Read the rows of metrics and of the inventory anew, as terms of formulas.

No answer's own arithmetic is asked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from functools import cached_property
from typing import Any, TypeVar

import numpy as np

from bot.costs.formulas import UnknownTerm
from bot.costs.pricing import Pricing
from bot.model.fleet import FileSystem, Instance, Quota
from bot.model.frame import Doubles, Frame
from bot.model.reading import Reading
from bot.ports import Ports

T = TypeVar("T")
_LAUNCHED = ("pending", "running")


class Readings:
    """Hold one reading, and name its rows."""

    def __init__(self, ports: Ports, at: datetime) -> None:
        self._ports, self._at = ports, at

    @cached_property
    def reading(self) -> Reading:
        """Return everything visible at the time of the question, read once and when first asked for."""
        return self._ports.world.source.read(self._at)

    def names(self) -> Mapping[str, Any]:
        """Return the terms by name."""
        return {
            "levels": self.levels,
            "moved": self.moved,
            "cluster_levels": self.cluster_levels,
            "nodes_of": self.nodes_of,
            "cluster_nodes": self.cluster_nodes,
            "launched": self.launched,
            "ran": self.ran,
            "quota": self.quota,
            "stored": self.stored,
            "price_of_stored": self.price_of_stored,
            "file_system": self.file_system,
            "seconds_a_step": self.seconds_a_step,
        }

    def levels(self, thing: str, hours: Decimal, *metrics: str) -> list[float]:
        """Return a node's readings of the last hours, at each step by the first of the metrics that was read."""
        rows = self._rows("node", (thing,))
        values = self._newest(rows, hours, *metrics)[0]
        return [float(value) for value in values[~np.isnan(values)]]

    def cluster_levels(
        self, cluster: str, instance_type: str, hours: Decimal, metric: str
    ) -> list[list[float]]:
        """Return by time the readings of the nodes of a cluster and type.

        Times without one are left out.
        """
        rows = self._rows("node", [node.id for node in self.nodes_of(cluster, instance_type)])
        columns = self._newest(rows, hours, metric).T
        return [
            [float(x) for x in column[~np.isnan(column)]]
            for column in columns
            if not np.isnan(column).all()
        ]

    def moved(self, resource: str, hours: Decimal) -> list[float]:
        """Return the bytes a second that a file system read and wrote, of each step of the last hours that was read."""
        rows = self._rows("file_system", (resource,))
        read, written = (
            self._newest(rows, hours, name, kind="file_system")[0]
            for name in ("fsx_read_bytes", "fsx_write_bytes")
        )
        seconds = float(self.seconds_a_step("file_system"))
        known = ~np.isnan(read) | ~np.isnan(written)
        return [float(x) / seconds for x in (np.nan_to_num(read) + np.nan_to_num(written))[known]]

    def seconds_a_step(self, kind: str) -> Decimal:
        """Return the length of a step of a frame."""
        return Decimal(str(self._frame(kind).step.total_seconds()))

    def nodes_of(self, cluster: str, instance_type: str) -> list[Instance]:
        """Return the running nodes of a cluster and type."""
        return [x for x in self.cluster_nodes(cluster) if x.labels.instance_type == instance_type]

    def cluster_nodes(self, cluster: str) -> list[Instance]:
        """Return the running nodes of a cluster."""
        return [
            x
            for x in self.reading.inventory.instances.values()
            if x.running and x.labels.cluster == cluster
        ]

    def launched(self, account: str, region: str, market: str) -> list[Instance]:
        """Return the instances of an account, region and market that count against quotas.

        "" is any.
        """
        every = (
            x
            for x in self.reading.inventory.instances.values()
            if x.state in _LAUNCHED and x.market == market
        )
        return [
            x
            for x in every
            if account in ("", x.labels.account) and region in ("", x.labels.region)
        ]

    def ran(self, start: datetime, end: datetime) -> list[Mapping[str, Any]]:
        """Return each instance with the hours that it ran within a time."""
        rows: list[Mapping[str, Any]] = []
        for x in self.reading.inventory.instances.values():
            seconds = (
                min(x.ended_at or end, end, self._at) - max(x.launched_at, start)
            ).total_seconds()
            if seconds > 0:
                rows.append({"labels": x.labels, "hours": Decimal(str(seconds)) / 3600})
        return rows

    def quota(self, code: str, account: str, region: str) -> Quota:
        """Return the row of a quota."""
        every = self.reading.inventory.quotas
        return _only(
            [
                x
                for x in every
                if (x.code, x.labels.account, x.labels.region) == (code, account, region)
            ],
            code,
        )

    def file_system(self, resource: str) -> FileSystem:
        """Return the row of a file system."""
        return _only(
            [x for x in self.reading.inventory.file_systems if x.labels.resource == resource],
            resource,
        )

    def stored(self, resource: str) -> Mapping[str, int]:
        """Return the size of a volume or a file system, in GiB."""
        volumes = {x.labels.resource: x.size_gib for x in self.reading.inventory.volumes}
        sizes = volumes | {
            x.labels.resource: x.storage_gib for x in self.reading.inventory.file_systems
        }
        return {"gib": sizes[resource]} if resource in sizes else {}

    def price_of_stored(self, resource: str) -> Decimal:
        """Return the price of an hour of a volume or a file system."""
        price = Pricing(self._ports).at(self._at)(resource, self.reading.inventory)
        if price is None:
            raise UnknownTerm(resource)
        return price.usd_per_hour

    def _frame(self, kind: str) -> Frame:
        frame = self.reading.frame(kind)
        if frame is None:
            raise UnknownTerm(kind)
        return frame

    def _rows(self, kind: str, things: Sequence[str]) -> list[int]:
        rows = [
            i
            for i, x in enumerate(self._frame(kind).things)
            if (x.resource or x.instance) in things
        ]
        if not rows:
            raise UnknownTerm(", ".join(things))
        return rows

    def _newest(
        self, rows: Sequence[int], hours: Decimal, *metrics: str, kind: str = "node"
    ) -> Doubles:
        frame = self._frame(kind)
        steps = min(frame.n_steps, -(-timedelta(hours=float(hours)) // frame.step))
        values = np.full((len(rows), steps), np.nan)
        for metric in metrics:
            column = frame.of(metric)[list(rows), frame.n_steps - steps :]
            values = np.where(np.isnan(values), column, values)
        return values


def _only(rows: Sequence[T], name: str) -> T:
    """Return the one row; raise `UnknownTerm` where there is none, or several."""
    if len(rows) != 1:
        raise UnknownTerm(name)
    return rows[0]
