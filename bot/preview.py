"""Try a policy: the watch itself over the last days, once as things stand and once as they would."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from threading import Lock

from bot.errors import Unavailable, WrongInput
from bot.model.alert import Silence
from bot.model.codec import decode, encode
from bot.model.memory import Changes
from bot.model.policy import Policy
from bot.model.replay import Replay
from bot.model.request import Request
from bot.model.version import Doing, Draft, Override
from bot.model.window import Window
from bot.policy.change import applied, edits
from bot.policy.compare import Comparison, compare, summary
from bot.ports import Ports
from bot.replay import ticking
from bot.routes import routes_now
from bot.watch import grid

SPAN = timedelta(days=14)
SHELF = "previews"
KEPT = 50
"""Previews that can still be applied; older ones are forgotten."""
_RUNNING = Lock()


def draft(
    ports: Ports, request: Request, doing: Doing, changes: Sequence[Override], overrides: Sequence[Override]
) -> tuple[Draft, Comparison]:
    """Preview what `overrides` would do in place of those that stand, and keep it to be applied; may run for a minute.

    Raises `WrongInput` when nothing would change, `Unavailable` while another preview runs or without recorded time.
    """
    newest = ports.versions.versions(1)
    standing = newest[0].overrides if newest else ()
    now, then = applied(ports.base, standing), applied(ports.base, overrides)
    made = edits(now, then, (*standing, *overrides, *((*o[:2], "") for o in ports.base.overrides)))
    if not made:
        raise WrongInput("Nothing would change: all of it stands so already.")
    if not _RUNNING.acquire(blocking=False):
        raise Unavailable("Another preview runs just now; try again in a minute.")
    try:
        seen = preview(ports, (now, then), request.at)
    finally:
        _RUNNING.release()
    stamp = repr((request.at, request.user.id, made, newest[0].number if newest else 0))
    kept = Draft(
        id="p" + hashlib.sha256(stamp.encode()).hexdigest()[:8],
        at=request.at,
        by=request.user.id,
        over=newest[0].number if newest else 0,
        doing=doing,
        changes=tuple(changes),
        overrides=tuple(overrides),
        edits=made,
        shown=summary(seen),
    )
    _keep(ports, kept)
    return kept, seen


def preview(ports: Ports, policies: tuple[Policy, Policy], until: datetime) -> Comparison:
    """Replay both policies up to `until`, never past it; silences and subscriptions that hold now hold in both."""
    window = _window(ports.source.extent(), until)
    times = [now for now in grid(window.start, window.end, ports.interval) if now <= until]
    silences = [held_since(silence, window.start) for silence in ports.store.load(until).silences]
    routes = routes_now(ports.routes, ports.shelf)
    runs = [(replace(again, routes=routes), Replay(window)) for again in ports.replays.again(policies)]
    for again, _ in runs:
        again.store.save(Changes(silences=silences))
    for _ in zip(*(ticking(again, ports.channels, times, seen) for again, seen in runs), strict=True):
        pass
    return compare(runs[0][1], runs[1][1])


def held_since(silence: Silence, start: datetime) -> Silence:
    """Return a remembered pattern as if it had been judged by `start`: it tells what people want to hear, at any time."""
    return replace(silence, starts=min(silence.starts, start)) if silence.pattern else silence


def kept_draft(ports: Ports, name: str) -> Draft:
    """Return a preview that can still be applied; raise `WrongInput` for any other."""
    document = ports.shelf.get(SHELF, name)
    if document is None:
        raise WrongInput(f"There is no preview '{name}' to apply; it was cancelled, is too old, or never was. Preview it again.")
    return decode(Draft, document)


def _keep(ports: Ports, made: Draft) -> None:
    ports.shelf.put(SHELF, made.id, encode(made))
    for name, _ in ports.shelf.newest(SHELF, 2 * KEPT)[KEPT:]:
        ports.shelf.drop(SHELF, name)


def _window(extent: Window | None, until: datetime) -> Window:
    start, end = max(until - SPAN, extent.start) if extent else until - SPAN, min(until, extent.end) if extent else until
    if start >= end:
        raise Unavailable(f"Nothing is recorded in the 14 days before {until:%Y-%m-%d %H:%M} UTC, so nothing can be previewed.")
    return Window(start, end)
