"""Work out since when nobody has used a volume or a file system."""

from __future__ import annotations

from datetime import datetime

import numpy as np

from bot.model.fleet import Volume
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

    EBS has metrics only while attached; a volume that was never measured is detached since it was first described so.
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
    """Return which steps of one file system show no use, and which were read at all, (n_steps,); an unread one shows no use."""
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
