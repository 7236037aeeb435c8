"""Join settings and the chat platforms: the surfaces that are configured, and what they announce. A part of `build`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bot.commands.all import FAMILIES
from bot.commands.registry import COMMANDS
from bot.ports import Clock, CommandHint, Shelf
from bot.settings import Settings

assert FAMILIES


def chats(settings: Settings, answer: Any, clock: Clock, shelf: Shelf, hints: Sequence[CommandHint]) -> dict[str, Any]:
    """Return the chat surfaces that are configured, by name."""
    from adapters.charts.png import draw

    shared: dict[str, Any] = {"answer": answer, "clock": clock, "draw": draw, "shelf": shelf, "hints": hints}
    found: dict[str, Any] = {}
    if settings.slack:
        from adapters.slack.surface import SlackSurface

        tokens: dict[str, Any] = _named(settings, "slack", ("bot_token", "app_token", "signing_secret", "api_url"))
        found["slack"] = SlackSurface(**tokens, **shared)
    if settings.teams:
        from adapters.teams.surface import TeamsSurface

        app: dict[str, Any] = _named(settings, "teams", ("app_id", "app_password", "tenant_id"))
        found["teams"] = TeamsSurface(**app, development=settings["teams.development"], **shared)
    return found


def _named(settings: Settings, table: str, names: Sequence[str]) -> dict[str, str]:
    return {name: settings.text(f"{table}.{name}") for name in names}


def command_hints() -> tuple[CommandHint, ...]:
    """Return every command that people type, for hints and manifests."""
    seen = {made.name: made for made in COMMANDS.values() if not made.hidden}
    return tuple(CommandHint(m.name, m.summary, m.examples[0], m.changes) for _, m in sorted(seen.items()))
