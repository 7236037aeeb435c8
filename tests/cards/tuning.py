"""Build one card of every step of tuning: forms, preview, what was applied, history; the worst preview among them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import timedelta

from bot.answers.config.preview import budget_card, preview_card, promised_card
from bot.answers.config.show import (
    FAMILIES,
    applied_card,
    cancelled_card,
    chooser_card,
    form_card,
    history_card,
    settings_of,
    version_card,
)
from bot.cards.card import Card
from bot.model.alert import Alert
from bot.model.causes import Cause, Severity
from bot.model.labels import Labels
from bot.model.notification import Notification, Reason, ReplayResult
from bot.model.policy import Attempt, Draft, Version, VersionKind
from bot.model.window import Window
from bot.policy.file import applied, edits, read_changes, shown
from bot.policy.schema import SETTINGS, default_policy
from bot.watch.budget import Budget, Frontier, frontier
from bot.watch.preview import PolicyComparison, compare, summary
from tests.builders import NOON, alert, anomaly, waste

LLAMA = Labels(cluster="llama-70b")
FORTNIGHT = Window(NOON - timedelta(days=14), NOON)
NASTY = "<!channel> [x](http://evil.example) <script>alert(1)</script> <at>all</at>"


def idle(number: int, cluster: str = "vision", so_far: str = "129.00") -> Alert:
    opened = NOON - timedelta(days=13) + timedelta(hours=7 * number)
    found = anomaly(Cause.IDLE, n=3, cluster=cluster, at=opened)
    more = {"waste": waste("64.50", so_far), "closed": opened + timedelta(hours=2)}
    return alert(found, name=f"a{cluster[:9]}{number}", opened=opened, **more)


def replayed(*alerts: Alert) -> ReplayResult:
    notices = [
        Notification(f"n{a.id}", channel, Reason.FIRST, a.opened, (a,))
        for a in alerts
        for channel in ("web:alerts", "slack:C02FIN")
    ]
    return ReplayResult(FORTNIGHT, 4033, {a.id: a for a in alerts}, notices)


def drafted(
    seen: PolicyComparison,
    pairs: Mapping[str, str],
    scope: Labels = LLAMA,
    doing: VersionKind = VersionKind.SET,
) -> Draft:
    changes = read_changes(pairs.items(), scope)
    made = edits(default_policy(), applied(default_policy(), changes), changes)
    return Draft(
        "p1234abcd", NOON, "slack:U01ALICE", 0, doing, changes, changes, made, summary(seen)
    )


def preview() -> Card:
    before = [idle(i) for i in range(12)]
    seen = compare(replayed(*before), replayed(*before[:7], idle(40, "lab", "51.20")))
    return preview_card(drafted(seen, {"idle.below": "15%", "idle.for": "45m"}), seen)


def worst() -> Card:
    """Return an import of every setting that moves 600 alerts of clusters with the nastiest names."""
    before, after = (
        [idle(i % 46, f"{i}{NASTY}") for i in range(300)],
        [idle(i % 46, f"x{i}{NASTY}") for i in range(300)],
    )
    seen = compare(replayed(*before), replayed(*after))
    every = {key: "off" for key, one in SETTINGS.items() if key.endswith(".on")} | {
        "idle.below": "15%",
        "idle.for": "2h",
    }
    notes = [f"Nothing runs under cluster={NASTY} now."]
    return preview_card(
        drafted(seen, every, Labels(cluster=NASTY), VersionKind.IMPORT), seen, notes
    )


def version(
    number: int = 3, doing: VersionKind = VersionKind.SET, restores: int | None = None
) -> Version:
    seen = compare(replayed(*(idle(i) for i in range(12))), replayed(*(idle(i) for i in range(7))))
    made = drafted(seen, {"idle.below": "15%", "idle.for": "45m"})
    said = {} if doing is VersionKind.UNDO else {"preview": made.id, "shown": made.shown}
    at = NOON - timedelta(hours=9 - number)
    return Version(
        number,
        at,
        "slack:U01ALICE",
        "alice",
        doing,
        made.edits,
        made.overrides,
        **said,
        restores=restores,
    )


def chooser() -> Card:
    known = {"cluster": ("lab", "llama-70b", "vision"), "team": ("pretraining",)}
    return chooser_card(
        FAMILIES, known, [("idle.below", "cluster=llama-70b", "15%", "5%")], version()
    )


def form() -> Card:
    return form_card(
        "starved",
        settings_of("starved"),
        {key: shown(default_policy(), LLAMA, key) for key in SETTINGS},
        LLAMA,
    )


def history() -> Card:
    words = "'config undo' is for admins (slack:U01ALICE), and you are slack:U02BOB."
    tried = [Attempt(NOON, "slack:U02BOB", "bob", "config undo", words)]
    return history_card([version(5, VersionKind.UNDO, 3), version(4), version(3)], tried)


def floors(faults: int = 0) -> Frontier:
    """Return a fortnight of nine alerts, one of them of $1,650 an hour, beside broken nodes."""
    alerts = []
    for number, per_hour in enumerate((3, 4, 9, 21, 30, 64, 64, 240, 1650)):
        raised = idle(number, f"c{number}", str(per_hour * 4))
        alerts.append(replace(raised, waste=waste(str(per_hour), str(per_hour * 4))))
    for number in range(faults):
        broken = anomaly(Cause.HARDWARE_FAULT, cluster=f"b{number}", severity=Severity.CRITICAL)
        alerts.append(replace(alert(broken, name=f"b{number}"), waste=waste("2", "8")))
    return frontier(alerts, FORTNIGHT, default_policy())


def promised(budget: Budget, faults: int = 0) -> Card:
    seen = floors(faults)
    return promised_card(preview(), seen, seen.chosen(budget), budget)


TUNING: Mapping[str, Callable[[], Card]] = {
    "config": chooser,
    "config_form": form,
    "config_preview": preview,
    "config_preview_worst": worst,
    "config_budget": lambda: budget_card(floors(), Budget()),
    "config_budget_promised": lambda: promised(Budget(2, 0.9)),
    "config_budget_critical": lambda: promised(Budget(2, 0.5), faults=1),
    "config_budget_caught": lambda: promised(Budget(0, 0.99), faults=2),
    "config_budget_dear": lambda: promised(Budget(1, 0.99)),
    "config_applied": lambda: applied_card(version()),
    "config_cancelled": lambda: cancelled_card("p1234abcd"),
    "config_undone": lambda: applied_card(version(4, VersionKind.UNDO, 0)),
    "config_history": history,
    "config_history_none": lambda: history_card([], []),
    "config_version": lambda: version_card(version()),
}
