"""Draw which waste fewer messages a week would leave untold, and what a promise would hold."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from bot.cards.card import (
    Block,
    Button,
    Buttons,
    Card,
    Chart,
    ChartKind,
    Code,
    Series,
    Strong,
    Table,
    Tone,
    compose,
    quiet,
    text,
)
from bot.cards.columns import COUNT, SHARE, USD, Column, Columns
from bot.cards.words import period
from bot.model.money import counted, usd
from bot.model.window import rounded_duration
from bot.watch.budget import Budget, Frontier, Point, Week

_MOST = 12


def budget_card(seen: Frontier, promised: Budget) -> Card:
    """Show what each floor would have sent, and whether the one in force keeps the promise."""
    current = seen.current
    standing = text("Nothing is promised yet. ", Code("config budget at most 2 messages a week"))
    if promised != Budget():
        verdict = "keeps" if seen.kept(current, promised) else "does not keep"
        standing = text(
            Strong(f"Promised: {promise_words(promised)}"), f"; today's floor {verdict} it."
        )

    blocks = compose(
        standing,
        _chart(seen, current),
        _floors(seen),
        quiet(
            f"The watch itself over {period(seen.window)}, with everything that its rules raised."
            " Reminders of what nobody acknowledged are not counted."
        ),
        Buttons((Button("Settings", "config show alert"),)),
    )
    sent = counted(current.messages, "message")
    length = rounded_duration(seen.window.length)
    title = f"Alert budget: {sent} in {length} covered {_share(seen, current)}"
    return Card(title, Tone.INFO, blocks, _data(seen, current, promised))


def promised_card(preview: Card, seen: Frontier, point: Point, budget: Budget) -> Card:
    """Put a promise, and whether a floor keeps it, before the preview of that floor."""
    blocks = compose(_verdict(seen, point, budget), _chart(seen, point), preview.blocks)
    tone = Tone.INFO if seen.kept(point, budget) else Tone.WARNING
    data = {**preview.data, "budget": _data(seen, point, budget)}
    return replace(preview, tone=tone, blocks=blocks, data=data)


def promise_words(budget: Budget) -> str:
    """Write a promise as its line has it."""
    most = f"at most {budget.most_per_week:g} messages a week"
    least = f"at least {100 * budget.least_caught:g} % of wasted dollars"
    return " and ".join((most,) * bool(budget.most_per_week) + (least,) * bool(budget.least_caught))


def week_words(week: Week, budget: Budget) -> str:
    """Say whether a promise held in a week."""
    kept = "kept" if week.keeps(budget) else "not kept"
    share = f", {SHARE.write(week.caught)} of {usd(week.usd)} wasted" if week.usd else ""
    return f"{promise_words(budget)}: {kept} ({counted(week.messages, 'message')}{share})."


def week_data(week: Week, budget: Budget) -> dict[str, Any]:
    """Return whether a promise held as data."""
    return {
        "most_per_week": budget.most_per_week,
        "least_caught": budget.least_caught,
        "messages": week.messages,
        "caught": round(week.caught, 4),
        "kept": week.keeps(budget),
    }


def _verdict(seen: Frontier, point: Point, budget: Budget) -> Block:
    """Say which floor keeps the promise, how surely, and else what keeping it would cost."""
    most, least = budget.most_per_week, budget.least_caught
    sent = counted(point.messages, "message")
    length = rounded_duration(seen.window.length)
    floor = f"From {usd(point.usd_per_hour)} an hour on, {sent} in {length} covered "
    parts: list[str | Strong] = [Strong(f"{floor}{_share(seen, point)}.")]
    if most and seen.per_week(point) > most:
        parts.append(f" No floor keeps to {most:g} a week: these carried no dollars to judge by.")
    elif most:
        chance = seen.held(point, most)
        parts.append(
            f" At most {most:g} a week holds in {SHARE.write(chance)} of weeks like these."
        )
    if seen.caught(point) < least:
        enough = next((x for x in seen.points if seen.caught(x) >= least), seen.points[-1])
        parts.append(f" {SHARE.write(least)} of wasted dollars take {_a_week(seen, enough)}.")
    return text(*parts)


def _share(seen: Frontier, point: Point) -> str:
    return f"{SHARE.write(seen.caught(point))} of {usd(seen.usd)} wasted"


def _chart(seen: Frontier, chosen: Point) -> Chart:
    """Draw the share of wasted dollars covered against messages a week, a bar for each floor."""
    points = seen.points[:_MOST]
    names = [_name(point, seen, chosen) for point in points]
    shares = [100 * seen.caught(point) for point in points]
    series = []
    for name, tone in ((_OTHERS, Tone.INFO), (_TODAY, Tone.WARNING), (_CHOSEN, Tone.GOOD)):
        bars = tuple(s if n == name else 0.0 for n, s in zip(names, shares, strict=True))
        series += [Series(name, bars, tone)] if name in names else []
    return Chart(
        ChartKind.BAR,
        "Wasted dollars covered, by messages a week",
        "%",
        tuple(series),
        categories=tuple(f"{seen.per_week(point):.2g}" for point in points),
        summary=f"{_a_week(seen, chosen)} cover {_share(seen, chosen)}.",
    )


def _floors(seen: Frontier) -> Table:
    """List each floor with what it would have sent."""
    return Columns[Point](
        Column("from $/h", lambda point: point.usd_per_hour, USD),
        Column("messages", lambda point: point.messages, COUNT),
        Column("a week", lambda point: f"{seen.per_week(point):.2g}"),
        Column("covered", lambda point: point.usd, USD),
        Column("share", seen.caught, SHARE),
        Column(
            "note", lambda point: _name(point, seen, seen.current).replace(_OTHERS, ""), missing=""
        ),
    ).table(seen.points[:_MOST], caption="What each floor would have sent")


def _a_week(seen: Frontier, point: Point) -> str:
    rate = f"{seen.per_week(point):.2g}"
    return f"{rate} message{'' if rate == '1' else 's'} a week"


_OTHERS, _TODAY, _CHOSEN = "other floors", "today", "promised"


def _name(point: Point, seen: Frontier, chosen: Point) -> str:
    """Return a point's name in the legend."""
    if point == chosen and chosen != seen.current:
        return _CHOSEN
    return _TODAY if point.messages == seen.current.messages else _OTHERS


def _data(seen: Frontier, point: Point, budget: Budget) -> dict[str, Any]:
    """Return the frontier, the chosen point and the promise as data."""

    def row(x: Point) -> dict[str, Any]:
        return {
            "usd_per_hour": x.usd_per_hour,
            "messages": x.messages,
            "messages_per_week": round(seen.per_week(x), 3),
            "usd": x.usd,
            "caught": round(seen.caught(x), 4),
        }

    return {
        "window": seen.window,
        "most_per_week": budget.most_per_week,
        "least_caught": budget.least_caught,
        "kept": seen.kept(point, budget) if budget != Budget() else None,
        "chosen": row(point),
        "current": row(seen.current),
        "points": [row(x) for x in seen.points],
    }
