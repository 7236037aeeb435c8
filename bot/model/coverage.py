"""State how much is known of the fleet: whatever says that all is well asks this first."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Known(StrEnum):
    """Name how much is known of the fleet."""

    WHOLE = "known"
    PARTLY = "partly known"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Coverage:
    """State how much of the fleet is known, and in a sentence why no more; "" for all of it."""

    known: Known = Known.WHOLE
    because: str = ""

    @property
    def data(self) -> dict[str, str]:
        """Return the same for scripts."""
        return {"known": self.known.value, "because": self.because}
