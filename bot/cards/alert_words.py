"""Say an alert in words: its cause, where, how long, how many dollars; and as typed numbers for scripts."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from decimal import Decimal

from bot.cards.card import Strong, Style, Text, text
from bot.cards.money import usd
from bot.cards.words import about
from bot.model.alert import Alert, Waste
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
        "suggestions": list(anomaly.suggestions),
    }
