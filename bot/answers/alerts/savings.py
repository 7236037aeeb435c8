"""Answer how much waste stopped because somebody acted."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

from bot.cards.alert_words import where
from bot.cards.card import Button, Buttons, Card, Tone, quiet, text
from bot.cards.columns import USD, Column, Columns, datum
from bot.cards.words import doubted, period, unseen
from bot.grammar.registry import Needs, Topic, arg, command
from bot.model.labels import Labels
from bot.model.money import counted, usd
from bot.model.notification import Coverage
from bot.model.request import Request
from bot.model.window import Window
from bot.ports import Ports
from bot.watch.feedback import Saving, saved_within

_MOST = 12
_SAVINGS = Columns[Saving](
    Column("", lambda saving: saving.alert.id, key="id"),
    Column("", lambda saving: saving.alert.key, key="key"),
    Column("", lambda saving: saving.alert.seen, key="seen_at"),
    Column("", lambda saving: saving.alert.closed, key="closed_at"),
    Column("", lambda saving: saving.by, key="by"),
    Column("stopped", lambda saving: saving.alert.cause.facts.words),
    Column("where", lambda saving: where(saving.alert), missing=""),
    Column(
        "because",
        lambda saving: f"acknowledged by {saving.by}" if saving.by else "its nodes are gone",
    ),
    Column("$/h", lambda saving: saving.usd_per_hour, USD, key="usd_per_hour", total=True),
    datum(
        "committed_usd_per_hour",
        lambda saving: saving.committed_usd_per_hour,
        "the part of it that a commitment bills all the same",
    ),
    Column("saved since", lambda saving: saving.usd_so_far, USD, key="usd_so_far", total=True),
)


def savings_card(savings: Sequence[Saving], window: Window, seen: Coverage) -> Card:
    """List the savings of a window, dearest first, as far as the watch saw what ended."""
    per_hour = sum((saving.usd_per_hour for saving in savings), Decimal(0))
    committed = sum((saving.committed_usd_per_hour for saving in savings), Decimal(0))

    data = {
        "savings": _SAVINGS.data(savings),
        "usd_per_hour": per_hour,
        "committed_usd_per_hour": committed,
        "usd_so_far": sum((saving.usd_so_far for saving in savings), Decimal(0)),
        "estimate": True,
        **seen.data,
    }
    if not savings:
        said = doubted("Nothing saved", "What was saved is not known", seen)
        return Card(
            f"{said} · {period(window)}",
            Tone.INFO,
            (
                text(
                    "No alert ended in this time after somebody acknowledged it or took its nodes away."
                ),
                *unseen(seen),
            ),
            data,
        )

    hidden = counted(len(savings) - _MOST, "more alert")
    ended = f"{counted(len(savings), 'alert')} ended after somebody acted"

    return Card(
        f"About {usd(per_hour)} an hour stopped: {ended} · {period(window)}",
        Tone.GOOD,
        (
            _SAVINGS.table(savings, most=_MOST, rest=f"and {hidden}", total="total"),
            quiet(
                "Estimated: each alert's waste an hour when it ended, counted from its end until now"
                " or until the end of that month, ",
                "as if nobody had acted. Waste that would have ended by itself is included.",
                f" {usd(committed)} an hour of it is committed, and is saved only where other work"
                " uses it."
                if committed
                else "",
            ),
            Buttons((Button("Alerts", "alerts"),)),
        ),
        data,
    )


@command(
    "savings",
    "Waste that stopped because somebody acted (estimated).",
    needs=Needs.STATE | Needs.METRICS,
    topic=Topic.COSTS,
    examples=("savings", "savings 7d"),
    figures={
        "savings/usd_per_hour": "waste an hour of the alert at its peak",
        "savings/usd_so_far": (
            "waste an hour x hours since the alert was last seen until now, or until the end of"
            " that UTC month"
        ),
        "usd_per_hour": "sum over the alerts listed",
        "committed_usd_per_hour": "sum over the alerts listed",
        "usd_so_far": "sum over the alerts listed",
    },
)
def savings_(
    ports: Ports, request: Request, window: Window = arg("30d", "alerts that ended in this window")
) -> Card:
    """List the alerts that ended after they were acknowledged, or whose nodes are gone since."""
    history = ports.stores.alerts.history(window, Labels())
    memory = ports.stores.alerts.load(request.at)
    running = ports.world.source.read(request.at).inventory.running
    saved = saved_within(history, window, running, request.at)
    return savings_card(saved, window, memory.coverage(request.at))
