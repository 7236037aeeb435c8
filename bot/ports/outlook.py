"""Ask what the provider itself says of the bill: a port, and its answer where nobody is asked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Protocol

from bot.model.outlook import Commitment, Finding, Forecast


class Outlook(Protocol):
    """Tell the provider's own view; each as it was known at `now`."""

    def forecast(self, now: datetime, /) -> Forecast | None:
        """Return the newest forecast of the rest of the month, None where there is none."""
        ...

    def commitments(self, now: datetime, /) -> Sequence[Commitment]:
        """Return how commitments were used, day by day, oldest first; empty where nothing is committed."""
        ...

    def findings(self, now: datetime, /) -> Sequence[Finding]:
        """Return the anomalies of the last days that the provider found."""
        ...

    def problems(self) -> Sequence[str]:
        """Return one sentence for each answer that could not be had or read."""
        ...


class LazyOutlook:
    """Implement `Outlook` over one that is opened when first asked."""

    def __init__(self, opened: Callable[[], Outlook]) -> None:
        self._opened = opened

    def forecast(self, now: datetime, /) -> Forecast | None:
        """Return the newest forecast."""
        return self._opened().forecast(now)

    def commitments(self, now: datetime, /) -> Sequence[Commitment]:
        """Return how commitments were used."""
        return self._opened().commitments(now)

    def findings(self, now: datetime, /) -> Sequence[Finding]:
        """Return what the provider found."""
        return self._opened().findings(now)

    def problems(self) -> Sequence[str]:
        """Return what could not be had or read."""
        return self._opened().problems()


class NoOutlook:
    """Implement `Outlook` where nobody is asked."""

    def forecast(self, _: datetime, /) -> Forecast | None:
        """Return none."""
        return None

    def commitments(self, _: datetime, /) -> Sequence[Commitment]:
        """Return none."""
        return ()

    def findings(self, _: datetime, /) -> Sequence[Finding]:
        """Return none."""
        return ()

    def problems(self) -> Sequence[str]:
        """Return none."""
        return ()
