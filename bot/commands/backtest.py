"""Answer what the watch would have said over a recording."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

from bot.cards.backtest import backtest_card
from bot.cards.card import Card
from bot.commands.registry import arg, command
from bot.errors import WrongInput
from bot.model.alert import Silence
from bot.model.policy import Policy
from bot.model.replay import Replay
from bot.model.request import Request, Role
from bot.policy.file import read_policy
from bot.ports import Changes, Ports
from bot.preview import held_since
from bot.replay import replay

DAY = timedelta(days=1)


@command(
    "backtest",
    "The watch over a recording: alerts, notices, and a grade where the truth is known.",
    examples=("backtest recording:var/demo", "backtest var/demo policy=policy.toml"),
    who=Role.ADMIN,
)
async def backtest(
    ports: Ports,
    request: Request,
    recording: str = arg(None, "a folder, recording:DIR or simulator:SEED"),
    policy: str = arg("", "a policy file as `config export` prints it", keyword=True),
    channel: str = arg("default", "the audience that notices are counted for", keyword=True),
) -> Card:
    """Replay a recording under a policy and grade it."""
    source = recording if ":" in recording else f"recording:{recording}"
    chosen = await asyncio.to_thread(lambda: _policy(policy) if policy else ports.policy)
    seen, grade = await asyncio.to_thread(_run, ports, source, chosen, channel, request)
    return backtest_card(recording, seen, grade)


def _run(ports: Ports, source: str, policy: Policy, channel: str, request: Request) -> tuple[Replay, dict[str, object] | None]:
    over = ports.replays.open(source, policy)
    over.store.save(Changes(silences=_patterns(ports, over, request)))
    seen = replay(over, (channel,))
    truth = ports.replays.truth(source)
    if truth is None:
        return seen, None
    clusters = over.source.read(seen.window.end).inventory.clusters()
    return seen, dict(ports.replays.grade(seen, truth, len([name for name in clusters if name])))


def _patterns(ports: Ports, over: Ports, request: Request) -> list[Silence]:
    """Return what people judged no anomaly, as if they had before the recording began."""
    extent = over.source.extent()
    if not ports.remembers or extent is None:
        return []
    known = [silence for silence in ports.store.load(request.at).silences if silence.pattern]
    return [replace(held_since(silence, extent.start), ends=max(silence.ends, extent.end + DAY)) for silence in known]


def _policy(path: str) -> Policy:
    try:
        return read_policy(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise WrongInput(f"The policy file '{path}' cannot be read ({error.strerror}); give a path to a TOML file.") from None
