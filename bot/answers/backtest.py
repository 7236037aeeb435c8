"""Answer which alerts the watch would have told over a recording, and how well they meet the truth."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

from bot.answers.registry import Needs, arg, command
from bot.cards.alert_words import alert_data, lasted, muted_words, where
from bot.cards.card import Align, Block, Card, Column, Facts, Table, Tone, quiet
from bot.cards.words import clock, period
from bot.errors import TrnbotError
from bot.model.alert import Alert, Silence
from bot.model.counts import counted
from bot.model.durations import duration_text
from bot.model.money import usd
from bot.model.policy import Policy
from bot.model.request import Request, Role
from bot.model.state import ReplayResult
from bot.policy.file import read_policy
from bot.ports import Ports, StateUpdate
from bot.watch.preview import held_since
from bot.watch.replay import replay

_MOST = 20


def backtest_card(name: str, seen: ReplayResult, grade: Mapping[str, Any] | None) -> Card:
    """List the alerts of a replay with its grade; `data` is the contract of the command line."""
    alerts = sorted(seen.alerts.values(), key=lambda a: (a.opened, a.key))
    notified = [a for a in alerts if not a.muted_by]
    total = sum((a.waste.so_far for a in notified if a.waste), Decimal(0))
    counts = (
        f"{counted(len(notified), 'alert')}, {counted(len(seen.notifications), 'notification')}"
    )
    title = f"{name}: {counts}, {usd(total)} of waste seen"
    blocks: list[Block] = [_table(alerts)] if alerts else [quiet("No alerts.")]
    blocks += [_grade(grade)] if grade else []
    blocks.append(quiet(f"{counted(seen.ticks, 'tick')}, {period(seen.window)}"))
    return Card(title, Tone.INFO, tuple(blocks), _data(seen, alerts, grade))


def _grade(grade: Mapping[str, Any]) -> Facts:
    return Facts(
        tuple(
            (k.replace("_", " "), _show(v))
            for k, v in grade.items()
            if not isinstance(v, list | dict)
        )
    )


def _table(alerts: list[Alert]) -> Table:
    columns = (
        Column("opened"),
        Column("cause"),
        Column("where"),
        Column("lasted"),
        Column("so far", Align.RIGHT),
        Column("muted"),
    )
    rows = tuple(
        (
            clock(a.opened),
            a.cause.facts.words,
            where(a),
            duration_text(lasted((a,), a.seen)) if a.closed else "open",
            usd(a.waste.so_far) if a.waste else "–",
            muted_words(a) or "–",
        )
        for a in alerts[:_MOST]
    )
    return Table(
        columns, rows, rest=f"and {len(alerts) - _MOST} more" if len(alerts) > _MOST else ""
    )


def _show(value: Any) -> str:
    return "–" if value is None else f"{value:.3g}" if isinstance(value, float) else str(value)


def _data(
    seen: ReplayResult, alerts: list[Alert], grade: Mapping[str, Any] | None
) -> dict[str, Any]:
    keys = {alert.id: alert.key for alert in alerts}
    notices = [
        {
            "id": notice.id,
            "channel": notice.channel,
            "reason": notice.reason.value,
            "at": notice.at,
            "alerts": [keys.get(alert.id, alert.key) for alert in notice.alerts],
        }
        for notice in seen.notifications
    ]
    return {
        "start": seen.window.start,
        "end": seen.window.end,
        "ticks": seen.ticks,
        "alerts": [alert_data(alert) for alert in alerts],
        "notices": notices,
        "grade": dict(grade) if grade else None,
    }


DAY = timedelta(days=1)


@command(
    "backtest",
    "Replay the watch over a recording: alerts, notifications, and a grade if the true incidents are known.",
    needs=Needs.REPLAY,
    may=Needs.STATE,
    examples=("backtest week-46 policy=night", "backtest var/demo policy=policy.toml"),
    who=Role.ADMIN,
    heavy=True,
)
async def backtest(
    ports: Ports,
    request: Request,
    recording: str = arg(
        None, "a recording by its name; in a terminal a folder, recording:DIR or simulator:SEED"
    ),
    policy: str = arg(
        "", "a policy as `config export` writes it: by its name; in a terminal a file", keyword=True
    ),
    channel: str = arg("default", "the audience whose notifications are counted", keyword=True),
) -> Card:
    """Replay a recording under a policy and grade it."""
    source = await asyncio.to_thread(ports.site.files.recording, recording, request)
    chosen = await asyncio.to_thread(
        lambda: (
            read_policy(ports.site.files.policy(policy, request), policy)
            if policy
            else ports.policy
        )
    )
    with _called(recording, source):
        seen, grade = await asyncio.to_thread(_run, ports, source, chosen, channel, request)
    return await asyncio.to_thread(backtest_card, recording, seen, grade)


@contextmanager
def _called(name: str, source: str) -> Iterator[None]:
    """Let errors call the source as the person did: where its folder lies is not theirs to know."""
    try:
        yield
    except TrnbotError as error:
        folder = source.partition(":")[2]
        raise type(error)(str(error).replace(folder, name.partition(":")[2] or name)) from None


def _run(
    ports: Ports, source: str, policy: Policy, channel: str, request: Request
) -> tuple[ReplayResult, dict[str, object] | None]:
    over = ports.world.replays.open(source, policy)
    over.stores.alerts.save(StateUpdate(silences=_patterns(ports, over, request)))
    seen = replay(over, (channel,))
    truth = ports.world.replays.truth(source)
    if truth is None:
        return seen, None
    clusters = over.world.source.read(seen.window.end).inventory.clusters()
    return seen, dict(
        ports.world.replays.grade(seen, truth, len([name for name in clusters if name]))
    )


def _patterns(ports: Ports, over: Ports, request: Request) -> list[Silence]:
    """Return the patterns that people judged no anomaly, as if they had before the recording began."""
    extent = over.world.source.extent()
    if not ports.stores.persistent or extent is None:
        return []
    patterned = [
        silence for silence in ports.stores.alerts.load(request.at).silences if silence.pattern
    ]
    return [
        replace(held_since(silence, extent.start), ends=max(silence.ends, extent.end + DAY))
        for silence in patterned
    ]
