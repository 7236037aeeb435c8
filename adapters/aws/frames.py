"""Hand out frames as views into sheets, each thing with all its labels."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from adapters.aws.inventory import Snapshots
from adapters.aws.sheet import Sheet, Source
from bot.model.fleet import FileSystem, Inventory, Volume
from bot.model.frame import Frame
from bot.model.labels import Labels


class Frames(Mapping[str, Frame]):
    """Build each frame when it is first asked for."""

    def __init__(self, kinds: tuple[str, ...], build: Callable[[str], Frame]) -> None:
        self._kinds, self._build = kinds, build
        self._built: dict[str, Frame] = {}

    def __getitem__(self, kind: str) -> Frame:
        """Build the frame, or return the one built before."""
        if kind not in self._built:
            if kind not in self._kinds:
                raise KeyError(kind)
            self._built[kind] = self._build(kind)
        return self._built[kind]

    def __iter__(self) -> Iterator[str]:
        """Name the kinds without building any."""
        return iter(self._kinds)

    def __len__(self) -> int:
        """Count the kinds."""
        return len(self._kinds)


def labelled(of: Sheet, inventory: Inventory) -> tuple[Labels, ...]:
    """Return all that is known of each thing of a sheet: its dimensions, and what the inventory says of it."""
    if of.kind in ("node", "core", "device"):
        instances = inventory.instances
        return tuple(x.merge(known.labels) if (known := instances.get(x.instance)) else x for x in of.details)
    if of.kind in ("volume", "file_system"):
        described = {x.resource: x for x in (*_labels(inventory.volumes), *_labels(inventory.file_systems))}
        return tuple(x.merge(described.get(x.resource, x)) for x in of.details)
    return of.details


def _labels(storage: Sequence[Volume] | Sequence[FileSystem]) -> list[Labels]:
    return [x.labels for x in storage]


def cores_of(snapshots: Snapshots, feeding: Sequence[Source]) -> dict[str, int]:
    """Return how many cores each instance shows, where its type is known."""
    named = {labels.instance: labels.instance_type for source in feeding for labels in source.said if labels.instance_type}
    return {
        id: snapshots.types[name].cores for id, name in {**named, **snapshots.instance_types()}.items() if name in snapshots.types
    }
