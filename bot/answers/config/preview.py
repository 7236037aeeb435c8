"""Show the effect of a change before it is made, and the watch over a recording."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import date, timedelta
from decimal import Decimal
from typing import Any

from bot.cards.alert_words import alert_data, lasted, muted_words, where
from bot.cards.card import (
    Align,
    Block,
    Button,
    Buttons,
    ButtonStyle,
    Card,
    Chart,
    ChartKind,
    Code,
    Facts,
    Heading,
    Series,
    Strong,
    Style,
    Table,
    Text,
    Tone,
    quiet,
    text,
)
from bot.cards.words import clock, day, period
from bot.errors import TrnbotError
from bot.grammar.registry import Needs, arg, command
from bot.model.alert import Alert, Silence
from bot.model.money import counted, usd
from bot.model.notification import ReplayResult
from bot.model.policy import Draft, Edit, Policy, VersionKind
from bot.model.request import Request, Role
from bot.model.window import duration_text, rounded_duration
from bot.policy.file import read_policy
from bot.ports import Ports, StateUpdate
from bot.watch.preview import PolicyComparison, Side, held_since, replay, spent

_MOST = 10
_EDITS = 12


def preview_card(draft: Draft, seen: PolicyComparison, notes: Sequence[str] = ()) -> Card:
    """Show both sides, the alerts that only one of them tells, and the buttons to apply, change or cancel."""
    blocks: list[Block] = [
        *edit_lines(draft.edits),
        *(text(note) for note in notes),
        _sides(seen),
        _verdict(seen),
    ]
    blocks += [_listed("Alerts that appear", seen.appear)] if seen.appear else []
    blocks += [_listed("Alerts that disappear", seen.disappear)] if seen.disappear else []
    blocks += [_chart(seen)] if seen.before.notified or seen.after.notified else []
    blocks.append(_how(draft, seen))
    blocks.append(Buttons(_buttons(draft)))
    data = {
        "preview": draft.id,
        "edits": [edit_data(edit) for edit in draft.edits],
        **draft.shown,
        "appear": [alert_data(alert) for alert in seen.appear],
        "disappear": [alert_data(alert) for alert in seen.disappear],
    }
    return Card(f"Preview: {_headline(seen)}", Tone.INFO, tuple(blocks), data)


def edit_lines(edits: Sequence[Edit]) -> list[Block]:
    """Write each edit on a line: `idle.below 5% → 15% for cluster=llama`."""
    rest = len(edits) - _EDITS
    lines = [edit_words(edit) for edit in edits[:_EDITS]] + (
        [f"and {counted(rest, 'more setting')}"] if rest > 0 else []
    )
    return [Text((Strong(line),), Style.NORMAL) for line in lines]


def edit_words(edit: Edit) -> str:
    """Write one edit."""
    return f"{edit.key} {edit.before} → {edit.after}" + (
        f" for {edit.scope}" if str(edit.scope) else ""
    )


def edit_data(edit: Edit) -> dict[str, object]:
    """Return one edit as data."""
    return {"key": edit.key, "scope": dict(edit.scope), "from": edit.before, "to": edit.after}


def _headline(seen: PolicyComparison) -> str:
    then, now = len(seen.after.notified), len(seen.before.notified)
    if not seen.appear and not seen.disappear:
        return f"the same {counted(now, 'alert')} over {rounded_duration(seen.window.length)}"
    return f"{counted(then, 'alert')} instead of {now} over {rounded_duration(seen.window.length)}"


def _sides(seen: PolicyComparison) -> Table:
    before, after = seen.before, seen.after
    rows = [
        ("alerts sent", f"{len(before.notified)}", f"{len(after.notified)}"),
        ("muted", f"{before.muted}", f"{after.muted}"),
    ]
    rows += [
        (
            f"messages and edits to {name}",
            f"{before.notifications.get(name, 0)}",
            f"{after.notifications.get(name, 0)}",
        )
        for name in sorted({*before.notifications, *after.notifications})
    ]
    rows += [
        ("waste caught", usd(before.usd), usd(after.usd)),
        ("median delay", _delay(before), _delay(after)),
    ]
    columns = (
        Heading(f"last {rounded_duration(seen.window.length)}"),
        Heading("current policy", Align.RIGHT),
        Heading("with the change", Align.RIGHT),
    )
    return Table(columns, tuple(rows))


def _delay(side: Side) -> str:
    return "–" if side.delay is None else duration_text(side.delay)


def _verdict(seen: PolicyComparison) -> Block:
    """Say in dollars how much would be missed and how much found."""
    missed, gained = spent(seen.disappear), spent(seen.appear)
    if not seen.appear and not seen.disappear:
        return text("No alert appears or disappears", _sooner(seen), ".")
    parts = (
        [f"{counted(len(seen.appear), 'alert')} more, {usd(gained)} of waste"]
        if seen.appear
        else []
    )
    parts += (
        [f"{counted(len(seen.disappear), 'alert')} fewer, {usd(missed)} of waste not reported"]
        if seen.disappear
        else []
    )
    return text("With the change: ", Strong("; ".join(parts)), _sooner(seen), ".")


def _sooner(seen: PolicyComparison) -> str:
    before, after = seen.before.delay, seen.after.delay
    if before is None or after is None or abs(after - before) < timedelta(minutes=1):
        return ""
    return f"; the median alert is sent {duration_text(abs(after - before))} {'later' if after > before else 'sooner'}"


def _listed(caption: str, alerts: Sequence[Alert]) -> Table:
    columns = (Heading("opened"), Heading("cause"), Heading("where"), Heading("waste", Align.RIGHT))
    rows = tuple(
        (clock(a.opened), a.cause.facts.words, where(a), usd(a.waste.so_far) if a.waste else "–")
        for a in alerts[:_MOST]
    )
    return Table(
        columns,
        rows,
        caption=caption,
        rest=f"and {len(alerts) - _MOST} more" if len(alerts) > _MOST else "",
    )


def _chart(seen: PolicyComparison) -> Chart:
    """Stack the alerts of each day.

    Those told either way, those only with the change, those only without.
    """
    first, last = seen.window.start.date(), seen.window.end.date()
    days = [first + timedelta(days=i) for i in range((last - first).days + 1)]
    gone = {alert.id for alert in seen.disappear}
    both = [alert for alert in seen.before.notified if alert.id not in gone]
    series = (
        Series("both", _counts(both, days), Tone.INFO),
        Series("new", _counts(seen.appear, days), Tone.WARNING),
        Series("gone", _counts(seen.disappear, days), Tone.OVER),
    )
    counts = f"{len(both)} sent either way, {len(seen.appear)} new with the change, {len(seen.disappear)} no longer sent"
    names = tuple(day(seen.window.start + (each - first)) for each in days)
    return Chart(
        ChartKind.BAR,
        "Alerts a day",
        "",
        series,
        categories=names,
        summary=f"Alerts: {counts}.",
        timed=True,
    )


def _counts(alerts: Iterable[Alert], days: Sequence[date]) -> tuple[float | None, ...]:
    per_day = Counter(alert.opened.date() for alert in alerts)
    return tuple(float(per_day[each]) for each in days)


def _how(draft: Draft, seen: PolicyComparison) -> Text:
    method = f"The watch itself, run twice over {period(seen.window)} ({counted(seen.ticks, 'tick')} each). To apply it: "
    return quiet(method, Code(f"config apply {draft.id}"))


def _buttons(draft: Draft) -> tuple[Button, ...]:
    change = (
        (Button("Change…", f"config change {draft.id}", opens=True),)
        if draft.doing is VersionKind.SET
        else ()
    )
    return (
        Button("Apply", f"config apply {draft.id}", ButtonStyle.PRIMARY),
        *change,
        Button("Cancel", f"config cancel {draft.id}"),
    )


_BACKTEST_MOST = 20


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
        Heading("opened"),
        Heading("cause"),
        Heading("where"),
        Heading("lasted"),
        Heading("so far", Align.RIGHT),
        Heading("muted"),
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
        for a in alerts[:_BACKTEST_MOST]
    )
    return Table(
        columns,
        rows,
        rest=f"and {len(alerts) - _BACKTEST_MOST} more" if len(alerts) > _BACKTEST_MOST else "",
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
