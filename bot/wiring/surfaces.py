"""Join settings and the chat platforms: the surfaces that are configured, and what they announce. A part of `build`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from bot.answers.all import ANSWERS
from bot.answers.registry import COMMANDS
from bot.ports import Clock, CommandHint, DocumentStore, IdempotencyKeys, Tell
from bot.settings.settings import Settings

assert ANSWERS


class Kept(DocumentStore, IdempotencyKeys, Protocol):
    """Keep what surfaces must not forget; the store is one."""


def chats(settings: Settings, answer: Any, tell: Tell, clock: Clock, kept: Kept, hints: Sequence[CommandHint]) -> dict[str, Any]:
    """Return the chat surfaces that are configured, by name."""
    from adapters.charts.png import draw

    shared: dict[str, Any] = {"answer": answer, "clock": clock, "draw": draw, "shelf": kept, "turnstile": kept, "hints": hints}
    found: dict[str, Any] = {}
    if settings.slack:
        from adapters.slack.surface import SlackSurface

        one: dict[str, Any] = _named(settings, "slack", ("bot_token", "app_token", "signing_secret", "api_url"))
        several: dict[str, Any] = _named(settings, "slack", ("client_id", "client_secret"))
        several |= {"workspaces": settings["slack.workspaces"], "public_url": settings["public_url"]}
        found["slack"] = SlackSurface(**one, **several, **shared)
    if settings.teams:
        from adapters.teams.surface import TeamsSurface

        app: dict[str, Any] = _named(settings, "teams", ("app_id", "app_password", "tenant_id"))
        more = {"development": settings["teams.development"], "tenants": settings["teams.tenants"], "tell": tell}
        found["teams"] = TeamsSurface(**app, **more, **shared)
    return found


def _named(settings: Settings, table: str, names: Sequence[str]) -> dict[str, str]:
    return {name: settings.text(f"{table}.{name}") for name in names}


def command_hints() -> tuple[CommandHint, ...]:
    """Return every command that people type, for hints and manifests."""
    seen = {made.name: made for made in COMMANDS.values() if not made.hidden}
    return tuple(CommandHint(m.name, m.summary, m.examples[0], m.changes) for _, m in sorted(seen.items()))
