"""Hold promises of messages against weeks they never saw: `python -m benchmarks.budget FOLDER`.

Each recording of ten days is replayed once without a floor, with the detectors. Of its newest week,
in which all its incidents begin, what a promise would have sent is held against the promise, and
against the best floor that could have been found afterwards. The promise has learnt from the weeks
of the two recordings before it: other fleets, which waste other amounts. Without the world, it says
so and measures nothing.

With `--labels` no recording is made and nothing is replayed: the world's labels stand for the
alerts of a watch that sees all and is never wrong, a floor is chosen on two weeks as in life, and
held against the week that follows. Beside the floor that follows the messages left of a week stands
the single floor that catches most in the two weeks before. The best that could have been found
afterwards is that of floors that hold back what has no dollars as a promise does.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks.worlds import WORLD, run_python
from bot.model.alert import Alert, Waste, spent
from bot.model.anomaly import Anomaly
from bot.model.causes import Cause
from bot.model.labels import Labels
from bot.model.policy import Policy
from bot.model.window import HOUR, WEEK, Window
from bot.policy.schema import default_policy
from bot.watch.budget import (
    FLOOR,
    Budget,
    Frontier,
    Point,
    followed,
    frontier,
    messages_of,
    promised_of,
    worth_of,
)
from bot.watch.preview import replay
from bot.wiring.environment import settings_of
from bot.wiring.source import OpenedSource, SourceReplays

MOST = (2, 3, 5, 8)
"""Messages a week that are promised at most."""
NEAR = 0.8
"""Of the dollars of the best floor, what counts as near it."""
_DAYS = 30
SEEDS = range(61, 71)


def replayed(folder: Path) -> tuple[Window, list[Alert]]:
    """Return the newest week of a recording, and the alerts that the detectors raised in it."""
    settings = settings_of({})
    source = f"recording:{folder}"
    free = Policy({**settings.policy.values, FLOOR: Decimal(0)}, settings.policy.overrides)
    ports = SourceReplays(settings, OpenedSource(source, settings)).open(source, free)
    found = replay(ports, ("default",))
    week = Window(found.window.end - WEEK, found.window.end)
    return week, [x for x in found.alerts.values() if x.opened in week and not x.muted_by]


def after_others(weeks: Sequence[tuple[Window, Sequence[Alert]]], number: int) -> Weeks:
    """Return one of some weeks as if the two before it in the list had come right before it.

    An alert that is open at the end of its recording ends with its week.
    """
    week, raised = weeks[number]
    earlier: list[Alert] = []
    for back in (1, 2):
        before, alerts = weeks[number - back]
        by, until = week.start - back * WEEK - before.start, before.end - 2 * HOUR
        earlier += (_moved(alert, by, until) for alert in alerts)
    window = Window(week.start - 2 * WEEK, week.start)
    return Weeks(
        frontier(earlier, window, default_policy()), frontier(raised, week, default_policy())
    )


def _moved(alert: Alert, by: timedelta, until: datetime) -> Alert:
    """Return an alert of another week, over at `until` at the latest."""
    span = alert.anomaly.window
    closed = min(alert.closed or until, until)
    return replace(
        alert,
        id=f"{alert.id} {by}",
        anomaly=replace(alert.anomaly, window=Window(span.start + by, span.end + by)),
        opened=alert.opened + by,
        seen=min(alert.seen, closed) + by,
        closed=closed + by,
    )


@dataclass(frozen=True)
class Following(Point):
    """State what a floor sends of what a promise counts, and what it tells of late."""

    late_usd: Decimal
    """USD that the alerts had wasted since they were raised when their messages went out."""
    critical: int
    """Messages beside these that no promise counts."""


@dataclass(frozen=True)
class Weeks:
    """Hold the frontier of the weeks that a promise learns from, and that of the time after them."""

    before: Frontier
    after: Frontier

    def allowed(self, most: int) -> int:
        """Return the messages that a promise allows in the time after."""
        return int(most * self.after.weeks)


def labelled(seed: int, scenario: str) -> Weeks:
    """Return the last three weeks of a world of thirty days, made in memory."""
    sys.path.insert(0, str(WORLD))
    world, _ = import_module("make_recording").simulate(seed, _DAYS, scenario)
    end = datetime.fromisoformat(str(world.start)).replace(tzinfo=UTC) + timedelta(days=_DAYS)
    middle = end - WEEK
    windows = Window(middle - 2 * WEEK, middle), Window(middle, end)
    alerts = [alert_of(label) for label in world.labels]
    before, after = (
        frontier([x for x in alerts if x.opened in window], window, default_policy())
        for window in windows
    )
    return Weeks(before, after)


def alert_of(label: Mapping[str, Any]) -> Alert:
    """Return the alert of a watch that sees a label as soon as the contract lets it."""
    start, end = (datetime.fromisoformat(label[name]) for name in ("start", "end"))
    labels = Labels(**label["labels"])
    waste = None
    if label["usd"] is not None:
        usd = Decimal(str(label["usd"]))
        per_hour = usd / Decimal((end - start) / timedelta(hours=1))
        waste = Waste(per_hour, usd, usd, usd, usd, "label", start.date())
    anomaly = Anomaly(
        label["cause"],
        Cause(label["cause"]),
        labels.only(("account", "cluster", "job")),
        labels,
        tuple(label["instances"]) or (label["id"],),
        Window(start, end),
        score=1.0,
        value=0.0,
        unit="",
        severity=Cause(label["cause"]).facts.severity,
    )
    opened = min(start + timedelta(minutes=label["grace_min"]), end)
    return Alert(label["id"], anomaly, opened, seen=end, closed=end, things_at_peak=1, waste=waste)


def one_floor(seen: Frontier, most: int) -> Point:
    """Return the point of the lowest floor that kept to so many messages a week."""
    return [seen.points[0], *(x for x in seen.points if seen.kept(x, Budget(most)))][-1]


def best_of(seen: Frontier, most: int) -> Decimal:
    """Return the most USD that one floor would have told of with so many messages."""
    raised = seen.raised
    least = min((x for x in worth_of(raised).values() if x is not None), default=Decimal(0))
    competing = replace(seen, worths=worth_of(raised, least))
    messages = most + competing.critical
    return max((x.usd for x in competing.points if x.messages <= messages), default=Decimal(0))


def single(weeks: Weeks, most: int) -> Following:
    """Return what the floor that would have kept to the promise before sends in the week."""
    point = weeks.after.at(one_floor(weeks.before, most).usd_per_hour)
    critical = weeks.after.critical
    return Following(point.usd_per_hour, point.messages - critical, point.usd, Decimal(0), critical)


def following(weeks: Weeks, most: int) -> Following:
    """Return what a floor that follows the messages left sends in the week, after two such weeks."""
    week = weeks.after.window
    whole = Window(weeks.before.window.start, week.end)
    every = followed([*weeks.before.raised, *weeks.after.raised], whole, most)
    sent = [x for x in every if x.opened in week]
    late = sum((share_before_message(x) * x.waste.so_far for x in sent if x.waste), Decimal(0))
    told = [x for x in every if x.notified and x.notified >= week.start]
    promised = promised_of(told)
    return Following(Decimal(0), promised, spent(sent), late, messages_of(told) - promised)


def share_before_message(alert: Alert) -> Decimal:
    """Return the share of an alert's time that was over when its message went out."""
    length = alert.seen - alert.opened
    return Decimal((alert.notified_at - alert.opened) / length) if length else Decimal(0)


def lines(every: Sequence[Weeks]) -> Iterator[str]:
    """Yield, for each number of messages, how often each floor kept to it and was near the best."""
    for most in MOST:
        allowed = [weeks.allowed(most) for weeks in every]
        best = [best_of(x.after, n) for x, n in zip(every, allowed, strict=True)]
        for name, sending in (("one floor", single), ("following", following)):
            found = [sending(weeks, most) for weeks in every]
            usd, late = (
                sum(amounts, Decimal(0))
                for amounts in ([x.usd for x in found], [x.late_usd for x in found])
            )
            near = sum(
                float(x.usd) >= NEAR * float(most_usd)
                for x, most_usd in zip(found, best, strict=True)
            )
            kept, with_critical = (
                sum(messages <= n for messages, n in zip(counts, allowed, strict=True))
                for counts in (
                    [x.messages for x in found],
                    [x.messages + x.critical for x in found],
                )
            )
            yield (
                f"at most {most}, {name}: of {len(found)} weeks kept in {kept} (in {with_critical}"
                f" with what is critical), near the best in {near};"
                f" ${usd:,.0f} told of, ${sum(best):,.0f} at best; ${late:,.0f} of it before the"
                " message"
            )


def main() -> None:
    """Make the recordings that are missing, replay all and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, nargs="?", default=Path("var/budget"))
    parser.add_argument("--labels", action="store_true", help="by the world's labels, no replay")
    parser.add_argument("--seeds", type=int, nargs=2, default=(SEEDS[0], SEEDS[-1]))
    parser.add_argument("--scenario", default="mixed")
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    arguments = parser.parse_args()
    if not WORLD.is_dir():
        print(f"There is no world at {WORLD}: no week was made, and no promise was measured.")
        return
    seeds = range(arguments.seeds[0], arguments.seeds[1] + 1)
    if arguments.labels:
        print("\n".join(lines([labelled(seed, arguments.scenario) for seed in seeds])))
        return
    folders = [arguments.folder / f"{arguments.scenario}-{seed}" for seed in seeds]
    for seed, folder in zip(seeds, folders, strict=True):
        if not (folder / "labels.json").exists():
            options = ("--seed", seed, "--days", 10, "--scenario", arguments.scenario)
            run_python(WORLD / "make_recording.py", *options, folder)
    with ProcessPoolExecutor(arguments.processes) as pool:
        weeks = list(pool.map(replayed, folders))
    print("\n".join(lines([after_others(weeks, number) for number in range(len(weeks))])))


if __name__ == "__main__":
    main()
