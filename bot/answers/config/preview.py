"""Show the effect of a change of the policy before it is made."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import date, timedelta

from bot.cards.alert_words import alert_data, where
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
    Column,
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
from bot.model.alert import Alert
from bot.model.counts import counted
from bot.model.durations import duration_text, rounded_duration
from bot.model.money import usd
from bot.model.version import Draft, Edit, VersionKind
from bot.watch.preview import PolicyComparison, Side, spent

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
        Column(f"last {rounded_duration(seen.window.length)}"),
        Column("current policy", Align.RIGHT),
        Column("with the change", Align.RIGHT),
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
    columns = (Column("opened"), Column("cause"), Column("where"), Column("waste", Align.RIGHT))
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
