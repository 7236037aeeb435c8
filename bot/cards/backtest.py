"""Show a replay: what would have been said, and how well it meets the truth."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from bot.cards.alert_words import alert_data, cause_words, span, where
from bot.cards.card import Align, Block, Card, Column, Facts, Table, Tone, quiet
from bot.cards.decided import muted_words
from bot.cards.money import usd
from bot.cards.words import clock, counted, period
from bot.model.alert import Alert
from bot.model.replay import Replay

_MOST = 20


def backtest_card(name: str, seen: Replay, grade: Mapping[str, Any] | None) -> Card:
    """List the alerts of a replay with its grade; `data` is the contract of the command line."""
    alerts = sorted(seen.alerts.values(), key=lambda a: (a.opened, a.key))
    told = [a for a in alerts if not a.muted_by]
    total = sum((a.waste.so_far for a in told if a.waste), Decimal(0))
    said = f"{counted(len(told), 'alert')}, {counted(len(seen.notices), 'notice')}"
    title = f"{name}: {said}, {usd(total)} of waste seen"
    blocks: list[Block] = [_table(alerts)] if alerts else [quiet("Not one alert.")]
    blocks += [_grade(grade)] if grade else []
    blocks.append(quiet(f"{counted(seen.ticks, 'tick')}, {period(seen.window)}"))
    return Card(title, Tone.INFO, tuple(blocks), _data(seen, alerts, grade))


def _grade(grade: Mapping[str, Any]) -> Facts:
    return Facts(tuple((k.replace("_", " "), _show(v)) for k, v in grade.items() if not isinstance(v, list | dict)))


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
            cause_words(a.cause),
            where(a),
            span(a.closed - a.anomaly.window.start) if a.closed else "open",
            usd(a.waste.so_far) if a.waste else "–",
            muted_words(a) or "–",
        )
        for a in alerts[:_MOST]
    )
    return Table(columns, rows, rest=f"and {len(alerts) - _MOST} more" if len(alerts) > _MOST else "")


def _show(value: Any) -> str:
    return "–" if value is None else f"{value:.3g}" if isinstance(value, float) else str(value)


def _data(seen: Replay, alerts: list[Alert], grade: Mapping[str, Any] | None) -> dict[str, Any]:
    keys = {alert.id: alert.key for alert in alerts}
    notices = [
        {
            "id": notice.id,
            "channel": notice.channel,
            "reason": notice.reason.value,
            "at": notice.at,
            "alerts": [keys.get(alert.id, alert.key) for alert in notice.alerts],
        }
        for notice in seen.notices
    ]
    return {
        "start": seen.window.start,
        "end": seen.window.end,
        "ticks": seen.ticks,
        "alerts": [alert_data(alert) for alert in alerts],
        "notices": notices,
        "grade": dict(grade) if grade else None,
    }
