"""Say one incident: what, since when, how many dollars, why, what to do; at its end one quiet line."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from decimal import Decimal

from bot.cards.card import (
    Align,
    Block,
    Button,
    Buttons,
    ButtonStyle,
    Card,
    Chart,
    Code,
    Column,
    Mention,
    Span,
    Strong,
    Style,
    Table,
    Text,
    Tone,
    When,
    quiet,
    text,
)
from bot.cards.compiling import lost_texts, spared_text
from bot.cards.decided import decided
from bot.cards.lines import quote
from bot.cards.money import usd
from bot.cards.words import about, counted
from bot.model.alert import Alert, Notice, Silence, Waste
from bot.model.anomaly import Cause, Severity

_WORDS: Mapping[Cause, str] = {
    Cause.ODD: "odd",
    Cause.NO_DATA: "no data",
    Cause.LONG_COMPILE: "long compile",
    Cause.COLD_CACHE: "cold cache",
    Cause.ALLOCATED_UNUSED: "allocated, unused",
    Cause.KILLED_COMPILE: "compile cut off",
}
_PRICES: Mapping[str, str] = {
    "billed": "the billed price",
    "price list": "the list price",
    "spot history": "the spot price",
    "capacity block offering": "the capacity block's price",
    "dated fallback": "a fallback price",
}
_OTHERS = (Column("also"), Column("where"), Column("state"), Column("$/h", Align.RIGHT))
_TOP, _FEW = 5, 3


def nobody(_: str) -> str:
    """Resolve no owner: the name is shown, and nobody is pinged."""
    return ""


_COMPILES = (Cause.LONG_COMPILE, Cause.COLD_CACHE)


def notice_card(
    notice: Notice, chart: Chart | None = None, silences: Sequence[Silence] = (), address: Callable[[str], str] = nobody
) -> Card:
    """Draw a notice; the message of its end is one quiet line and its facts. `address` tells where an owner is reached."""
    firing = [alert for alert in notice.alerts if alert.firing]
    if not firing:
        return over_card(notice.alerts, notice.at)
    worst = max(firing, key=worth)
    owner = next(((name, found) for name in worst.owners if (found := address(name))), ("", ""))
    blocks = [
        *_body(worst, firing, owner[0]),
        *decided(worst, silences),
        *([chart] if chart else []),
        *_others(worst, notice.alerts),
    ]
    more = f" · and {counted(len(firing) - 1, 'more alert')}" if len(firing) > 1 else ""
    return Card(
        title=headline(worst, notice.at) + more,
        tone=Tone.CRITICAL if worst.severity is Severity.CRITICAL else Tone.WARNING,
        blocks=(*blocks, Buttons(_buttons(worst))),
        data=alert_data(worst),
        mentions=_mentions(*owner),
    )


def headline(alert: Alert, now: datetime) -> str:
    """Write the line that survives every limit: state, cause, where, how many."""
    state = f"FIRING {span(now - alert.anomaly.window.start)}" if alert.firing else "OVER"
    return " · ".join([state, cause_words(alert.cause), where(alert)])


def where(alert: Alert) -> str:
    """Say what an alert is about: `llama-70b, 64 x trn1.32xlarge, us-west-2`."""
    labels, things = alert.anomaly.labels, alert.anomaly.things
    money = labels.service if alert.anomaly.kind.startswith("spend") else ""
    name = money or labels.cluster or labels.resource or labels.service or labels.job or labels.account
    kind = labels.instance_type or ("nodes" if alert.anomaly.kind == "node" else "things")
    count = f"{len(things)} x {kind}" if len(things) > 1 else " ".join(p for p in (labels.instance_type, *things) if p)
    return ", ".join(part for part in (name, count if count != name else "", labels.region) if part)


def over_card(alerts: Sequence[Alert], now: datetime) -> Card:
    """Write the end: how long, what it cost in total, who acknowledged."""
    worst = max(alerts, key=worth)
    ended = max((a.seen for a in alerts), default=now)
    lasted = ended - min(a.anomaly.window.start for a in alerts)
    total = sum((a.waste.so_far for a in alerts if a.waste), Decimal(0))
    parts = [f"OVER after {span(lasted)}", *([f"cost {usd(total)}"] if total else [])]
    ack = worst.acknowledged
    if ack:
        parts.append(f"acknowledged by {ack.by_name or ack.by} after {span(ack.at - worst.opened)}")
    title = " · ".join([*parts, f"{cause_words(worst.cause)}, {worst.anomaly.labels.cluster or where(worst)}"])
    body = quiet("Opened ", When(worst.opened), ", last seen ", When(ended), ". ", worst.anomaly.why)
    judge = Button("Useful", f"useful {worst.id}"), Button("Not an anomaly", f"not-an-anomaly {worst.id}")
    return Card(title, Tone.OVER, (body, Buttons((Button("Why", f"why {worst.id}"), *judge))), alert_data(worst))


def money_line(waste: Waste) -> Text:
    """Write dollars an hour, so far, and by month end with its range."""
    return text(
        "Wasting ",
        Strong(f"{usd(waste.per_hour)} an hour"),
        f" · {usd(waste.so_far)} so far · about ",
        Strong(f"{about(waste.month_end)} by month end"),
        f" ({about(waste.month_end_low)}-{about(waste.month_end_high).removeprefix('$')})",
        style=Style.LEAD,
    )


def price_words(alert: Alert) -> str:
    """Say on what price the dollars rest, and how old it is; "" where no dollars are asked for."""
    waste = alert.waste
    if waste is None:
        return "No price is known for these nodes, so no dollars" if alert.anomaly.wasted_shares else ""
    dated = f" of {waste.priced_at:%Y-%m-%d}" if waste.priced_at else ""
    return f"Estimated at {_PRICES.get(waste.basis, waste.basis)}{dated}"


def cause_words(cause: Cause) -> str:
    """Say a cause as people do."""
    return _WORDS.get(cause, cause.value.replace("_", " "))


def span(length: timedelta) -> str:
    """Write a length of time: `25 min`, `1 h 10 min`, `3 d 4 h`."""
    minutes = max(0, int(length.total_seconds() // 60))
    if minutes < 60:
        return f"{minutes} min"
    if minutes < 1440:
        return f"{minutes // 60} h" + (f" {minutes % 60} min" if minutes % 60 else "")
    return f"{minutes // 1440} d" + (f" {minutes % 1440 // 60} h" if minutes % 1440 >= 60 else "")


def worth(alert: Alert) -> tuple[bool, bool, Decimal]:
    """Order alerts by what a lead should see first: firing, critical, dearest."""
    return alert.firing, alert.severity is Severity.CRITICAL, alert.waste.per_hour if alert.waste else Decimal(0)


def alert_data(alert: Alert) -> dict[str, object]:
    """Return the alert as the command line contract names it."""
    anomaly, waste = alert.anomaly, alert.waste
    cents = (
        {
            "per_hour": waste.per_hour,
            "so_far": waste.so_far.quantize(Decimal("0.01")),
            "month_end": waste.month_end,
        }
        if waste
        else None
    )
    return {
        "key": alert.key,
        "id": alert.id,
        "rule": anomaly.rule,
        "cause": alert.cause.value,
        "severity": alert.severity.value,
        "labels": dict(anomaly.labels),
        "things": list(anomaly.things),
        "onset": anomaly.window.start,
        "opened_at": alert.opened,
        "closed_at": alert.closed,
        "score": round(anomaly.score, 4),
        "waste_usd": cents,
        "muted_by": alert.muted_by,
        "launched_by": alert.launched_by,
        "why": anomaly.why,
    }


def _body(alert: Alert, firing: Sequence[Alert], address: str) -> list[Block]:
    anomaly = alert.anomaly
    blocks: list[Block] = [text(anomaly.why)] if anomaly.why else []
    blocks += [money_line(alert.waste)] if alert.waste and alert.waste.per_hour else lost_texts(alert)
    blocks += [_together(firing)] if len(firing) > 1 else []
    blocks += (
        [spared_text(alert.waste, len(anomaly.things))] if alert.waste and alert.cause in _COMPILES and anomaly.things[1:] else []
    )
    verdict = likely(alert)
    blocks += [verdict] if verdict else []
    since = f"{price_words(alert)} · since " if price_words(alert) else "Since "
    return [*blocks, quiet(since, When(anomaly.window.start), f"{_owner(alert, address)} · rule {anomaly.rule}")]


def _together(firing: Sequence[Alert]) -> Text:
    """Sum what every alert of the incident wastes."""
    wastes = [alert.waste for alert in firing if alert.waste]
    hour, far = sum((w.per_hour for w in wastes), Decimal(0)), sum((w.so_far for w in wastes), Decimal(0))
    unpriced = f", {counted(len(firing) - len(wastes), 'alert')} without a price" if len(wastes) < len(firing) else ""
    return text(f"All {len(firing)} alerts together: ", Strong(f"{usd(hour)} an hour"), f" · {usd(far)} so far{unpriced}")


def likely(alert: Alert) -> Text | None:
    """Say the verdict with its confidence, the runner-up, and what to try."""
    anomaly = alert.anomaly
    spans: list[Span] = []
    if anomaly.runners_up:
        next_cause, share = anomaly.runners_up[0]
        next_words = f" ({anomaly.confidence:.2f}); next: {cause_words(next_cause)} ({share:.2f}). "
        spans += ["Likely ", Strong(cause_words(alert.cause)), next_words]
    if anomaly.suggestions:
        spans += ["What to do: ", " ".join(f"{s.rstrip('.')}." for s in anomaly.suggestions[:2])]
    return Text(tuple(spans)) if spans else None


def _owner(alert: Alert, resolved: str) -> str:
    """Say whose it is: who is pinged stands beside the title, and here how they were found, where no tag says it."""
    if resolved:
        return "" if resolved == alert.owner else f" · owner by {resolved.replace(':', ' ')}"
    named = [f"owner {alert.owner}"] if alert.owner else ["no owner tag"]
    named += [claim.replace(":", " ") for claim in alert.claims]
    # A person or a role stands among the claims already; a machine is nobody to ask, but says where to look.
    by_machine = alert.launched_by and not any(claim.startswith("launcher:") for claim in alert.claims)
    named += [f"launched by {alert.launched_by}"] if by_machine else []
    unknown = ", not in the settings" if alert.owners else ""
    return f" · {', '.join(named)}{unknown}: told to the default channel"


def _mentions(name: str, address: str) -> tuple[Mention, ...]:
    return (Mention(address, name.rpartition(":")[2]),) if address else ()


def _others(worst: Alert, alerts: Sequence[Alert]) -> list[Block]:
    """Name the things, and list the other alerts of the incident with their states."""
    blocks: list[Block] = [_named(worst)] if len(worst.anomaly.things) > 1 else []
    rest = [alert for alert in alerts if alert.id != worst.id]
    if rest:
        rest.sort(key=worth, reverse=True)
        more = f"and {counted(len(rest) - _TOP, 'more alert')} of this incident; type: alerts" if len(rest) > _TOP else ""
        blocks.append(Table(_OTHERS, tuple(_other(a) for a in rest[:_TOP]), rest=more))
    return blocks


def _named(alert: Alert) -> Text:
    """Name a few things; of many one, as an example, and where all are listed: at night a wall of ids helps nobody."""
    things, cluster = alert.anomaly.things, alert.anomaly.labels.cluster
    shown = things if len(things) <= _FEW else things[:1]
    spans: list[Span] = [span for thing in shown for span in (Code(thing), " ")]
    if len(things) > len(shown):
        spans.append(f"and {counted(len(things) - len(shown), 'other')}")
        listed = alert.anomaly.kind == "node" and cluster
        spans += [", listed by ", Code(f"fleet {quote(cluster)}")] if listed else []
    recovered = alert.things_at_worst - len(things)
    spans += [f" · {recovered} of {alert.things_at_worst} recovered"] if recovered > 0 else []
    return quiet(*spans)


def _other(alert: Alert) -> tuple[str, ...]:
    per_hour = usd(alert.waste.per_hour) if alert.waste and alert.firing else "–"
    return (cause_words(alert.cause), where(alert), "firing" if alert.firing else "over", per_hour)


def _tuning(alert: Alert) -> str:
    """Write the line that opens the form of the rule's settings where they apply here."""
    cluster = alert.anomaly.labels.cluster
    return f"config {alert.anomaly.rule}" + (f" cluster={quote(cluster)}" if cluster else "")


def _buttons(alert: Alert) -> tuple[Button, ...]:
    first = (
        Button("Reopen", f"unack {alert.id}")
        if alert.acknowledged
        else Button("Acknowledge", f"ack {alert.id}", ButtonStyle.PRIMARY)
    )
    return (
        first,
        Button("Snooze…", f"snooze {alert.id}", opens=True),
        Button("Not an anomaly", f"not-an-anomaly {alert.id}"),
        Button("Why", f"why {alert.id}"),
        Button("Tune…", _tuning(alert), opens=True),
    )
