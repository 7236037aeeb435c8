"""State the progress of one training run."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from bot.model.labels import Labels


@dataclass(frozen=True)
class Run:
    """State a run (`labels.job`) as last reported; None where nothing was reported."""

    labels: Labels
    started_at: datetime
    seen_at: datetime
    epochs: float | None = None
    steps: float | None = None
    tokens: float | None = None
    parameters: float | None = None
    loss: float | None = None
    checkpoint_age_seconds: float | None = None
    attempts: int = 1
