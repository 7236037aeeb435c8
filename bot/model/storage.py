"""Work out since when nobody has used a volume or a file system, and how much of its throughput is used."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

import numpy as np

from bot.model.fleet import FileSystem, Volume
from bot.model.frame import Frame, Mask

_OPERATIONS = (
    "fsx_read_operations_count",
    "fsx_write_operations_count",
    "fsx_metadata_operations_count",
    "fsx_read_bytes",
    "fsx_write_bytes",
)
_ATTACHED = ("ebs_read_bytes", "ebs_write_bytes", "ebs_idle_seconds")


def detached_since(volume: Volume, frame: Frame | None) -> datetime | None:
    """Return since when a volume is surely attached to nothing, None where it is.

    EBS has metrics only while attached; a volume that was never measured is detached since it was
    first described so.
    """
    if volume.state != "available" or volume.attached_to:
        return None
    own = own_frame(frame, volume.labels.resource)
    if own is not None:
        read = np.flatnonzero(np.any([~np.isnan(own.of(name)[0]) for name in _ATTACHED], axis=0))
        if len(read):
            return max(volume.created_at, own.start + (int(read[-1]) + 1) * own.step)
    return max(volume.created_at, volume.detached_at or volume.created_at)


def quiet_steps(own: Frame) -> tuple[Mask, Mask]:
    """Return which steps of one file system show no use, and which were read at all, (n_steps,).

    An unread one shows no use.
    """
    clients = own.of("fsx_client_connections_count")[0]
    uses = np.stack([own.of(name)[0] for name in _OPERATIONS])
    read = ~np.isnan(clients) | ~np.isnan(uses).all(axis=0)
    return ~(clients > 0) & ~(uses > 0).any(axis=0), read


def quiet_since(own: Frame) -> datetime:
    """Return the start of the first step after the last use of one file system, of the first that was read where none shows."""
    quiet, read = quiet_steps(own)
    used = np.flatnonzero(~quiet)
    return own.start + (int(used[-1]) + 1 if len(used) else int(np.argmax(read))) * own.step


def own_frame(frame: Frame | None, resource: str) -> Frame | None:
    """Return one thing's part of a frame, None where it has none."""
    if frame is None:
        return None
    row = next((i for i, x in enumerate(frame.things) if x.resource == resource), None)
    return None if row is None else frame.pick([row])


LATELY = timedelta(minutes=15)
"""The newest time that a file system's throughput is said of."""
AT_LIMIT, BEYOND, HARDLY = 0.9, 1.1, 0.2
"""Shares of the provisioned throughput from which a file system is at its limit, beyond it, and under which it has too much.

Beyond it data comes from a cache or by burst credits: one that has moved so much is not held to its
limit.
"""


@dataclass(frozen=True)
class Throughput:
    """State what a file system moves, in bytes a second, beside what it is provisioned for."""

    system: FileSystem
    provisioned: float
    now: float
    """Mean of `LATELY`."""
    reads: float
    """Of it, what is read."""
    peak: float
    """The busiest step of the time that was read."""
    looked: timedelta
    """How much was read."""

    @property
    def share(self) -> float:
        """Return the share in use now."""
        return self.now / self.provisioned

    @property
    def peak_share(self) -> float:
        """Return the share that the busiest step used."""
        return self.peak / self.provisioned

    @property
    def beyond_network(self) -> bool:
        """Return whether the busiest step moved more than its network carries.

        Then no reading can be right.
        """
        return self.system.network is not None and self.peak > self.system.network

    @property
    def held_back(self) -> bool:
        """Return whether it moves all that it is provisioned for, and never moved more in the time that was read."""
        return self.share >= AT_LIMIT and self.peak_share < BEYOND


def throughput_of(system: FileSystem, frame: Frame | None, back: timedelta) -> Throughput | None:
    """Return the throughput of a file system over the last `back`.

    None where nothing was read lately or no limit is known.
    """
    own = own_frame(frame, system.labels.resource)
    if own is None or not own.n_steps or system.provisioned is None:
        return None
    part = own.last(max(back, LATELY))
    read, written = (
        part.of(name)[0] / part.step.total_seconds()
        for name in ("fsx_read_bytes", "fsx_write_bytes")
    )
    known = ~np.isnan(read) | ~np.isnan(written)
    moved = np.nan_to_num(read) + np.nan_to_num(written)
    lately = np.arange(part.n_steps) >= part.n_steps - part.steps(LATELY)
    if not (known & lately).any():
        return None
    now, reads = (
        float(moved[known & lately].mean()),
        float(np.nan_to_num(read)[known & lately].mean()),
    )
    looked = int(known.sum()) * part.step
    return Throughput(system, system.provisioned, now, reads, float(moved[known].max()), looked)
