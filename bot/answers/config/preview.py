"""Show the effect of a change or a promise before it is made, and the watch over a recording."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from operator import itemgetter
from typing import Any

from bot.cards.alert_words import alert_data, lasted, muted_words, where
from bot.cards.card import (
    MISSING,
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
    Table,
    Tone,
    compose,
    quiet,
    text,
)
from bot.cards.columns import COUNT, RATIO, SHARE, USD, Column, Columns, Unit
from bot.cards.words import few, period
from bot.errors import TrnbotError
from bot.grammar.registry import Needs, arg, command
from bot.model.alert import Alert, spent
from bot.model.labels import Labels
from bot.model.money import counted, usd
from bot.model.notification import ReplayResult
from bot.model.policy import Draft, Edit, VersionKind
from bot.model.request import Request, Role
from bot.model.window import clock, day, duration_text, rounded_duration
from bot.policy.file import read_policy
from bot.ports import Ports, StateUpdate
from bot.watch.budget import BEYOND, Budget, Frontier, Point, Week
from bot.watch.preview import PolicyComparison, anywhere, held_since, replay

_MOST = 10
_EDITS = 12


def preview_card(draft: Draft, seen: PolicyComparison, notes: Sequence[str] = ()) -> Card:
    """Show both sides, the alerts that only one of them tells, and the buttons to go on."""
    apply = f"config apply {draft.id}"
    # A file that is imported has no form that could be opened again.
    change = Button("Change…", f"config change {draft.id}", opens=True)
    buttons = (
        Button("Apply", apply, ButtonStyle.PRIMARY),
        *((change,) if draft.doing is VersionKind.SET else ()),
        Button("Cancel", f"config cancel {draft.id}"),
    )
    sides = (seen.before, seen.after)
    rows = (
        ("alerts sent", *(f"{len(side.notified)}" for side in sides)),
        ("muted", *(f"{side.muted}" for side in sides)),
        *(
            (
                f"messages and edits to {name}",
                *(f"{side.notifications.get(name, 0)}" for side in sides),
            )
            for name in sorted({*seen.before.notifications, *seen.after.notifications})
        ),
        ("waste caught", *(usd(side.usd) for side in sides)),
        (
            "median delay",
            *(MISSING if side.delay is None else duration_text(side.delay) for side in sides),
        ),
    )

    method = (
        f"Measured by running the watch twice over {period(seen.window)}"
        f" ({counted(seen.ticks, 'tick')} each)."
    )

    sent, length = len(seen.before.notified), rounded_duration(seen.window.length)
    headline = f"the same {counted(sent, 'alert')} over {length}"
    if seen.appear or seen.disappear:
        headline = f"{counted(len(seen.after.notified), 'alert')} instead of {sent} over {length}"

    return Card(
        f"Preview: {headline}",
        Tone.INFO,
        compose(
            edit_lines(draft.edits),
            [text(note) for note in notes],
            Table(
                (
                    Heading(f"last {rounded_duration(seen.window.length)}"),
                    Heading("current policy", Align.RIGHT),
                    Heading("with the change", Align.RIGHT),
                ),
                rows,
            ),
            _verdict(seen),
            bool(seen.appear)
            and _ALERTS.table(seen.appear, most=_MOST, caption="Alerts that appear"),
            bool(seen.disappear)
            and _ALERTS.table(seen.disappear, most=_MOST, caption="Alerts that disappear"),
            _chart(seen) if seen.before.notified or seen.after.notified else None,
            quiet(f"{method} To apply it: ", Code(apply)),
            Buttons(buttons),
        ),
        {
            "preview": draft.id,
            "edits": [edit_data(edit) for edit in draft.edits],
            **draft.shown,
            "appear": [alert_data(alert) for alert in seen.appear],
            "disappear": [alert_data(alert) for alert in seen.disappear],
        },
    )


_ALERTS = Columns[Alert](
    Column("opened", lambda alert: clock(alert.opened)),
    Column("cause", lambda alert: alert.cause.facts.words),
    Column("where", where, missing=""),
    Column("waste", lambda alert: alert.waste.so_far if alert.waste else None, USD),
)


def edit_lines(edits: Sequence[Edit]) -> list[Block]:
    """Write each edit on a line: `idle.below 5% → 15% for cluster=llama`."""
    return [text(Strong(x)) for x in few([edit_words(edit) for edit in edits], _EDITS, "setting")]


def edit_words(edit: Edit) -> str:
    """Write one edit."""
    return f"{edit.key} {edit.before} → {edit.after}{scope_words(edit.scope)}"


def scope_words(scope: Labels) -> str:
    """Write for whom a setting holds, "" for everybody."""
    return f" for {scope}" if str(scope) else ""


def edit_data(edit: Edit) -> dict[str, object]:
    """Return one edit as data."""
    return {"key": edit.key, "scope": dict(edit.scope), "from": edit.before, "to": edit.after}


def _verdict(seen: PolicyComparison) -> Block:
    """Say in dollars how much would be missed and how much found, and how much sooner."""
    before, after, delayed = seen.before.delay, seen.after.delay, ""
    if before is not None and after is not None and abs(after - before) >= timedelta(minutes=1):
        direction = "later" if after > before else "sooner"
        length = duration_text(abs(after - before))
        delayed = f"; the median alert is sent {length} {direction}"

    sides = ((seen.appear, "added", "waste"), (seen.disappear, "dropped", "waste not reported"))
    parts = [
        f"{counted(len(alerts), 'alert')} {verb}, {usd(spent(alerts))} of {waste}"
        for alerts, verb, waste in sides
        if alerts
    ]
    if not parts:
        return text("No alert appears or disappears", delayed, ".")

    return text("With the change: ", Strong("; ".join(parts)), delayed, ".")


def _chart(seen: PolicyComparison) -> Chart:
    """Stack the alerts of each day.

    Those told either way, those only with the change, those only without.
    """
    first, last = seen.window.start.date(), seen.window.end.date()
    days = [first + timedelta(days=i) for i in range((last - first).days + 1)]
    gone = {alert.id for alert in seen.disappear}
    unchanged = [alert for alert in seen.before.notified if alert.id not in gone]
    stacks = (
        ("both", unchanged, Tone.INFO),
        ("new", seen.appear, Tone.WARNING),
        ("gone", seen.disappear, Tone.OVER),
    )

    return Chart(
        ChartKind.BAR,
        "Alerts a day",
        "",
        tuple(
            Series(
                name,
                tuple(float(sum(x.opened.date() == date for x in alerts)) for date in days),
                tone,
            )
            for name, alerts, tone in stacks
        ),
        categories=tuple(day(seen.window.start + (date - first)) for date in days),
        summary=f"Alerts: {len(unchanged)} sent either way, {len(seen.appear)} new with the"
        f" change, {len(seen.disappear)} no longer sent.",
        timed=True,
    )


_FLOORS = 12


def budget_card(seen: Frontier, promised: Budget) -> Card:
    """Show the messages of each floor, and whether the one in force keeps the promise."""
    current = seen.current
    standing = text("Nothing is promised yet. ", Code("config budget at most 2 messages a week"))
    if promised != Budget():
        verdict = "keeps" if seen.kept(current, promised) else "does not keep"
        standing = text(
            Strong(f"Promised: {promise_words(promised)}"), f"; today's floor {verdict} it."
        )

    return Card(
        f"Alert budget: {counted(current.messages, 'message')} in"
        f" {rounded_duration(seen.window.length)} covered {_share(seen, current)}",
        Tone.INFO,
        compose(
            standing,
            _frontier_chart(seen, current),
            _points(seen).table(seen.points[:_FLOORS], caption="What each floor would have sent"),
            quiet(
                f"Measured by running the watch over {period(seen.window)}, with all that its rules"
                " raised. Reminders are not counted."
            ),
            Buttons((Button("Settings", "config show alert"),)),
        ),
        _data(seen, current, promised),
    )


def promised_card(preview: Card, seen: Frontier, point: Point, budget: Budget) -> Card:
    """Put a promise, and whether a floor keeps it, before the preview of that floor."""
    return replace(
        preview,
        tone=Tone.INFO if seen.kept(point, budget) else Tone.WARNING,
        blocks=compose(
            _promise_verdict(seen, point, budget), _frontier_chart(seen, point), preview.blocks
        ),
        data={**preview.data, "budget": _data(seen, point, budget)},
    )


def promise_words(budget: Budget) -> str:
    """Write a promise as its line has it."""
    parts = (
        (budget.most_per_week, f"at most {budget.most_per_week:g} messages a week"),
        (budget.least_caught, f"at least {100 * budget.least_caught:g} % of wasted dollars"),
    )
    return " and ".join(words for amount, words in parts if amount)


def week_words(week: Week, budget: Budget) -> str:
    """Say whether a promise held in a week."""
    verdict = "kept" if week.keeps(budget) else "not kept"
    share = f", {SHARE.write(week.caught)} of {usd(week.usd)} wasted" if week.usd else ""
    beside = f" and {week.critical} critical" if week.critical else ""
    sent = counted(week.messages, "message")
    return f"{promise_words(budget)}: {verdict} ({sent}{beside}{share})."


def week_data(week: Week, budget: Budget) -> dict[str, Any]:
    """Return whether a promise held as data."""
    return {
        "most_per_week": budget.most_per_week,
        "least_caught": budget.least_caught,
        "messages": week.messages,
        "critical": week.critical,
        "caught": round(week.caught, 4),
        "kept": week.keeps(budget),
    }


def _promise_verdict(seen: Frontier, point: Point, budget: Budget) -> Block:
    """Say which floor keeps the promise, what it does not count, and else the cost of keeping it."""
    most, least = budget.most_per_week, budget.least_caught
    floor = usd(point.usd_per_hour)
    how = f"With a floor of {floor} an hour"
    if most:
        how = (
            "With a floor that follows the messages left of each week"
            f" (at first {floor} an hour, for waste that lasts a week)"
        )
    parts: list[str | Strong] = [
        Strong(
            f"{how}, {counted(point.messages, 'message')} in {rounded_duration(seen.window.length)}"
            f" covered {_share(seen, point)}."
        )
    ]
    if most and seen.critical:
        parts.append(
            f" Critical among them: {seen.critical}. No promise counts what is critical, or holds it"
            " back, whatever it wastes."
        )
    if most and point.messages - seen.critical > most * seen.weeks:
        parts.append(f" These passed it for waste {BEYOND} times as dear as all before it.")
    if seen.caught(point) < least:
        enough = next((x for x in seen.points if seen.caught(x) >= least), seen.points[-1])
        parts.append(
            f" Covering {SHARE.write(least)} of wasted dollars takes {_a_week(seen, enough)}."
        )

    return text(*parts)


def _share(seen: Frontier, point: Point) -> str:
    return f"{SHARE.write(seen.caught(point))} of {usd(seen.usd)} wasted"


def _frontier_chart(seen: Frontier, chosen: Point) -> Chart:
    """Draw the share of wasted dollars covered against messages a week, a bar for each floor."""
    points = list(seen.points[:_FLOORS])
    if (chosen.messages, chosen.usd) not in [(x.messages, x.usd) for x in points]:
        points = sorted((*points, chosen), key=lambda point: (point.messages, point.usd))
    names = [_name(point, seen, chosen) for point in points]
    shares = [100 * seen.caught(point) for point in points]
    tones = {_OTHERS: Tone.INFO, _TODAY: Tone.WARNING, _CHOSEN: Tone.GOOD}

    return Chart(
        ChartKind.BAR,
        "Wasted dollars covered, by messages a week",
        "%",
        tuple(
            Series(
                name,
                tuple(s if n == name else 0.0 for n, s in zip(names, shares, strict=True)),
                tone,
            )
            for name, tone in tones.items()
            if name in names
        ),
        categories=tuple(_RATE.write(seen.per_week(point)) for point in points),
        summary=f"{_a_week(seen, chosen)}: {_share(seen, chosen)} is covered.",
    )


def _points(seen: Frontier) -> Columns[Point]:
    """Specify the messages of each floor and the waste that they covered."""
    return Columns[Point](
        Column("from $/h", lambda point: point.usd_per_hour, USD, "usd_per_hour"),
        Column("messages", lambda point: point.messages, COUNT, "messages"),
        Column("a week", seen.per_week, _RATE, "messages_per_week"),
        Column("covered", lambda point: point.usd, USD, "usd"),
        Column("share", seen.caught, RATIO, "caught"),
        Column(
            "note", lambda point: _name(point, seen, seen.current).replace(_OTHERS, ""), missing=""
        ),
    )


_RATE = Unit("{:.2g}".format, store=lambda rate: round(rate, 3))


def _a_week(seen: Frontier, point: Point) -> str:
    rate = _RATE.write(seen.per_week(point))
    return f"{rate} message{'' if rate == '1' else 's'} a week"


_OTHERS, _TODAY, _CHOSEN = "other floors", "today", "promised"


def _name(point: Point, seen: Frontier, chosen: Point) -> str:
    """Return a point's name in the legend."""
    if point == chosen and chosen != seen.current:
        return _CHOSEN
    return _TODAY if point.messages == seen.current.messages else _OTHERS


def _data(seen: Frontier, point: Point, budget: Budget) -> dict[str, Any]:
    """Return the frontier, the chosen point and the promise as data."""
    points = _points(seen)
    return {
        "window": seen.window,
        "most_per_week": budget.most_per_week,
        "least_caught": budget.least_caught,
        "kept": seen.kept(point, budget) if budget != Budget() else None,
        "chosen": points.record(point),
        "current": points.record(seen.current),
        "points": points.data(seen.points),
    }


_BACKTEST_MOST = 20


_GRADE = tuple(
    Column[Mapping[str, Any]](name, itemgetter(key), unit)
    for name, key, unit in (
        ("incidents that happened", "incidents", COUNT),
        ("incidents found", "recall", SHARE),
        ("alerts about an incident", "precision", SHARE),
        ("right cause in the first alert", "cause_top1", SHARE),
        ("right cause in any alert", "cause_any", SHARE),
        ("median delay", "median_delay_minutes", Unit("{:.3g} min".format)),
        ("false alerts", "false_alerts", COUNT),
        ("false alerts a cluster a week", "false_alerts_per_cluster_week", Unit("{:.2g}".format)),
        ("messages an incident", "messages_per_incident", Unit("{:.3g}".format)),
        ("messages and edits an incident", "notices_per_incident", Unit("{:.3g}".format)),
    )
)


def backtest_card(name: str, seen: ReplayResult, grade: Mapping[str, Any] | None) -> Card:
    """List the alerts of a replay with its grade; `data` is the contract of the command line."""
    alerts = sorted(seen.alerts.values(), key=lambda alert: (alert.opened, alert.key))
    notified = [alert for alert in alerts if not alert.muted_by]
    total = sum((alert.waste.so_far for alert in notified if alert.waste), Decimal(0))
    table = Columns[Alert](
        *_ALERTS.columns[:3],
        Column(
            "lasted",
            lambda alert: duration_text(lasted((alert,))) if alert.closed else "open",
        ),
        Column("so far", _ALERTS.columns[3].of, USD),
        Column("muted", muted_words),
    )
    # The lists of a grade are for programs; the card has its numbers.
    marks = tuple((column.name, column.cell(grade)) for column in _GRADE) if grade else ()
    keys = {alert.id: alert.key for alert in alerts}

    return Card(
        f"{name}: {counted(len(notified), 'alert')},"
        f" {counted(len(seen.notifications), 'notification')}, {usd(total)} of waste seen",
        Tone.INFO,
        compose(
            table.table(alerts, most=_BACKTEST_MOST) if alerts else quiet("No alerts."),
            Facts(marks) if marks else None,
            quiet(f"{counted(seen.ticks, 'tick')}, {period(seen.window)}"),
        ),
        {
            "start": seen.window.start,
            "end": seen.window.end,
            "ticks": seen.ticks,
            "alerts": [alert_data(alert) for alert in alerts],
            "notices": [
                {
                    "id": notification.id,
                    "channel": notification.channel,
                    "reason": notification.reason.value,
                    "at": notification.at,
                    "alerts": [keys.get(alert.id, alert.key) for alert in notification.alerts],
                }
                for notification in seen.notifications
            ],
            "grade": dict(grade) if grade else None,
        },
    )


@command(
    "backtest",
    "Replay the watch over a recording: alerts, notifications, and a grade if the true incidents"
    " are known.",
    needs=Needs.REPLAY,
    may=Needs.STATE,
    examples=("backtest week-46 policy=night", "backtest var/demo policy=policy.toml"),
    who=Role.ADMIN,
    heavy=True,
)
def backtest(
    ports: Ports,
    request: Request,
    recording: str = arg(
        None, "a recording by its name; in a terminal a folder, recording:DIR or simulator:SEED"
    ),
    policy: str = arg(
        "", "a policy as 'config export' writes it: by its name; in a terminal a file", keyword=True
    ),
    channel: str = arg("default", "the audience whose notifications are counted", keyword=True),
) -> Card:
    """Replay a recording under a policy and grade it."""
    files, replays = ports.site.files, ports.world.replays
    source = files.recording(recording, request)
    chosen = read_policy(files.policy(policy, request), policy) if policy else ports.policy
    try:
        over = replays.open(source, chosen)
        patterns = []
        extent = over.world.source.extent()
        if ports.stores.persistent and extent:
            # What people judged no anomaly holds as if they had before the recording began.
            patterns = [
                replace(
                    held_since(silence, extent.start),
                    ends=max(silence.ends, extent.end + timedelta(days=1)),
                )
                for silence in ports.stores.alerts.load(request.at).silences
                if silence.pattern
            ]
        over.stores.alerts.save(StateUpdate(silences=patterns))

        replayed, grade = replay(over, (channel,), run=anywhere), None
        if (truth := replays.truth(source)) is not None:
            names = over.world.source.read(replayed.window.end).inventory.clusters()
            grade = dict(replays.grade(replayed, truth, len([name for name in names if name])))
    except TrnbotError as error:
        # The source is called as the person did: where its folder lies is not theirs to know.
        folder, called = (name.partition(":")[2] or name for name in (source, recording))
        raise type(error)(str(error).replace(folder, called)) from None

    return backtest_card(recording, replayed, grade)
