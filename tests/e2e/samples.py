"""Hold sample cards: the alert of the design, a cost answer, a form."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta

from bot.cards.card import (
    Align,
    Button,
    Buttons,
    ButtonStyle,
    Card,
    Chart,
    ChartKind,
    Code,
    Facts,
    Field,
    FieldKind,
    Form,
    Heading,
    Link,
    Mention,
    Series,
    Strong,
    Style,
    Table,
    Text,
    Tone,
    When,
    quiet,
    text,
)
from bot.model.window import Window

NOW = datetime(2026, 11, 20, 14, 25, tzinfo=UTC)
STEP = timedelta(minutes=5)


def line_chart() -> Chart:
    """Return six hours of utilization that fell 25 minutes ago, with one gap."""
    times = tuple(NOW - STEP * (72 - i) for i in range(73))
    values: list[float | None] = [
        90 + 4 * math.sin(i / 3.1) + 1.5 * math.sin(i * 1.7) for i in range(73)
    ]
    for i, value in enumerate((61.0, 24.0, 19.5, 20.5, 20.0), start=68):
        values[i] = value
    values[30] = values[31] = None
    return Chart(
        ChartKind.LINE,
        "NeuronCore utilization, mean of 64 nodes",
        "%",
        (Series("utilization", tuple(values)),),
        times=times,
        band=(85.0, 95.0),
        shaded=Window(NOW - timedelta(minutes=25), NOW),
        summary="Utilization fell from 90 % to 20 % at 14:00 UTC; usual at this hour is 85-95 %.",
    )


def bar_chart() -> Chart:
    """Return seven days of cost by three teams and the rest."""
    days = tuple(f"{d} Nov" for d in range(13, 20))
    rows = {
        "research": (21400, 22100, 21850, 20900, 21300, 24600, 25100),
        "speech": (8200, 8100, 8350, 7900, 8000, 8150, 8300),
        "vision": (4100, 4300, 6900, 7200, 4200, 4100, 4250),
        "no team": (900, 870, 910, 1500, 2100, 2650, 3100),
    }
    return Chart(
        ChartKind.BAR,
        "Amortised cost by team, a day",
        "$",
        tuple(Series(name, tuple(float(v) for v in values)) for name, values in rows.items()),
        categories=days,
        summary="Cost rose from $34,600 to $40,750 a day, mostly research and nodes without a team.",
    )


def heat_chart() -> Chart:
    """Return a day of three clusters by hour, one of them read half of the time."""
    times = tuple(NOW.replace(minute=0) - timedelta(hours=23 - i) for i in range(24))
    rows = {
        "llama-70b": (90.0,) * 22 + (40.0, 20.0),
        "eval-sweep": (None,) * 12 + (60.0,) * 6 + (0.0,) * 6,
        "serving": (30.0,) * 24,
    }
    series = tuple(Series(name, values) for name, values in rows.items())
    return Chart(
        ChartKind.HEAT,
        "Utilization by hour",
        "%",
        series,
        times,
        summary="Utilization in the last hour: eval-sweep 0 %.",
    )


BUTTONS = Buttons(
    (
        Button("Acknowledge", "ack a1", ButtonStyle.PRIMARY),
        Button("Snooze…", "snooze a1", opens=True),
        Button("Not an anomaly", "feedback a1 no"),
        Button("Why", "why a1"),
        Button("Tune…", "tune starved", opens=True),
    )
)


def alert_card() -> Card:
    """Return the sample alert of the design."""
    return Card(
        "FIRING 25 min · starved · llama-70b, 64 x trn1.32xlarge, us-west-2",
        Tone.CRITICAL,
        (
            Text(
                (
                    Strong("NeuronCore utilization 20 %"),
                    ", usually 85-95 % at this hour. Runtime loaded, steps run at 22 % of their usual rate, host CPU 96 %.",
                )
            ),
            Text(
                (
                    "Wasting ",
                    Strong("$1,083 an hour"),
                    " · $451 so far · about ",
                    Strong("$23,800"),
                    " by month end (21,000-26,500) at amortised price of 2026-11-20",
                ),
                Style.LEAD,
            ),
            text(
                "Likely the ",
                Strong("data loader"),
                " (0.86); next: network (0.09). Try: more loader workers and prefetch; stage the data on FSx.",
            ),
            line_chart(),
            BUTTONS,
            quiet(
                "Since ",
                When(NOW - timedelta(minutes=25)),
                " · owner ",
                Mention("slack:U01", "dana"),
                " · key ",
                Code("starved/llama-70b"),
            ),
        ),
    )


def idle_card() -> Card:
    """Return a second, smaller alert with facts and a link."""
    return Card(
        "FIRING 3 h 40 min · idle · eval-sweep, 4 x trn2.48xlarge, us-east-2",
        Tone.WARNING,
        (
            text(
                "No Neuron runtime has been loaded since ",
                When(NOW - timedelta(hours=3, minutes=40)),
                "; the nodes are still billed.",
            ),
            Text(
                (
                    "Wasting ",
                    Strong("$142 an hour"),
                    " · $521 so far · about ",
                    Strong("$35,700"),
                    " by month end",
                ),
                Style.LEAD,
            ),
            Facts(
                (
                    ("Cluster", "eval-sweep"),
                    ("Team", "speech"),
                    ("Launched by", "maria"),
                    ("Market", "capacity block"),
                )
            ),
            Buttons(
                (
                    Button("Acknowledge", "ack a2", ButtonStyle.PRIMARY),
                    Button("Snooze…", "snooze a2", opens=True),
                    Button("Why", "why a2"),
                )
            ),
            quiet("Runbook: ", Link("release idle nodes", "https://example.com/runbook")),
        ),
    )


def over_card() -> Card:
    """Return the quiet line that an alert becomes at its end."""
    return Card(
        "OVER after 1 h 10 min · cost $1,263 · hung, whisper-l · acknowledged by dana after 6 min",
        Tone.OVER,
    )


def cost_card() -> Card:
    """Return a cost answer with stacked bars and a table."""
    right = Align.RIGHT
    return Card(
        "$261,730 in 7 days, by team · up 9 % on the 7 days before",
        Tone.INFO,
        (
            Text(("Amortised, before tax. ", Strong("$12,030"), " has no team tag."), Style.NORMAL),
            bar_chart(),
            Table(
                (
                    Heading("Team"),
                    Heading("Gross", right),
                    Heading("Credits", right),
                    Heading("Amortised", right),
                    Heading("Before", right),
                ),
                (
                    ("research", "$164,020.11", "-$6,770.00", "$157,250.11", "+12 %"),
                    ("speech", "$57,000.40", "$0.00", "$57,000.40", "-1 %"),
                    ("vision", "$35,050.00", "$0.00", "$35,050.00", "+4 %"),
                    ("(no team)", "$12,030.02", "$0.00", "$12,030.02", "+61 %"),
                ),
                total=("Total", "$268,100.53", "-$6,770.00", "$261,330.53", "+9 %"),
                caption="13 to 19 November 2026, UTC",
                rest="3 teams under $10 folded away",
            ),
            Buttons(
                (
                    Button("By cluster", "cost 7d by cluster"),
                    Button("By day", "cost 7d by day"),
                    Button("30 days", "cost 30d by team"),
                )
            ),
            quiet(
                "Billed through ",
                When(NOW - timedelta(hours=20)),
                " · CUR 2.0 · estimate for the last 20 hours",
            ),
        ),
    )


def form_card() -> Card:
    """Return a card that holds a form."""
    return Card(
        "Snooze llama-70b, starved",
        Tone.INFO,
        (
            Form(
                "Snooze this alert",
                "snooze a1",
                (
                    Field(
                        "for",
                        "For",
                        FieldKind.CHOICE,
                        "2h",
                        (("1h", "1 hour"), ("2h", "2 hours"), ("1d", "1 day"), ("1w", "1 week")),
                    ),
                    Field(
                        "ceiling",
                        "Speak again over",
                        FieldKind.NUMBER,
                        "",
                        hint="USD wasted; empty for no ceiling",
                    ),
                    Field(
                        "reason",
                        "Reason",
                        FieldKind.TEXT,
                        "",
                        hint="shown to the channel",
                        required=True,
                    ),
                    Field("others", "Also other alerts of this cluster", FieldKind.SWITCH, "no"),
                ),
                submit="Snooze",
            ),
        ),
    )


def good_card() -> Card:
    """Return a short public answer."""
    return Card(
        "Acknowledged by dana · the data loader of llama-70b is being looked at",
        Tone.GOOD,
        public=True,
    )
