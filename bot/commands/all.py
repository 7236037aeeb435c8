"""Import every family, so that the registry is full; add a new one here."""

from __future__ import annotations

from bot.commands import (
    about,
    alerts,
    backtest,
    config,
    cost,
    digest,
    doctor,
    feedback,
    fleet,
    migrate,
    own,
    routes,
    savings,
    storage,
    tune,
)

FAMILIES = (about, alerts, backtest, config, cost, digest, doctor, feedback, fleet, migrate, own, routes, savings, storage, tune)
