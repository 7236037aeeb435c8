"""Every story of `stories_*.py` is told as it was last seen to be told, look by look.

A golden holds the stories of one topic. Of each look it has what has changed since the one before: the alerts that are open, with
their things, onset, dollars, certainty and sentences, and the state of the nodes. `make goldens` writes them anew: read
`git diff tests/detectors/goldens` before you keep it. Where a branch is reached by no story, tell one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from importlib import import_module
from itertools import groupby
from pathlib import Path

import numpy as np
import pytest
from builder import START, World, grown
from stories import STORIES, Story
from stories_scores import SERIES, times

from bot.model.alert import Alert
from bot.model.anomaly import Anomaly, NodeState
from bot.policy.schema import SETTINGS
from bot.watch.track import at_peak, track, value
from detectors import Detector, compiles_since
from detectors.series.score import score_series
from tests.builders import price
from tests.cards.test_goldens import compare

GOLDENS = Path(__file__).with_name("goldens")
for module in sorted(Path(__file__).parent.glob("stories_*.py")):
    import_module(module.stem)
HOURLY = {"vol": price("0.44"), "fs": price("3.1"), "cr": price("21.50"), "i": price("21.50")}
"""The price of an hour of a thing, by how its name begins."""


@pytest.mark.parametrize("topic", STORIES)
def test_it_tells_what_it_was_last_seen_to_tell(topic: str) -> None:
    stories = (f"# {story.title}\n{retold(story)}" for story in STORIES[topic])
    compare("\n".join(stories), GOLDENS / f"{topic}.txt")


def test_a_cause_that_is_switched_off_is_not_told() -> None:
    """Of each cause the look at which a golden first has it."""
    of_cause: dict[str, tuple[Story, datetime]] = {}
    for topic, stories in STORIES.items():
        text = (GOLDENS / f"{topic}.txt").read_text("utf-8")
        for story in stories:
            told = text.partition(f"# {story.title}\n")[2].partition("\n# ")[0]
            for look in story.looks:
                for rule in re.findall(rf"^{look:%d %H:%M} (\w+)/", told, re.MULTILINE):
                    if f"{rule}.on" in SETTINGS:
                        of_cause.setdefault(rule, (story, look))

    assert len(of_cause) > 20
    for cause, (story, look) in of_cause.items():
        world = story.world()
        switched_off = replace(world.policy, values={**world.policy.values, f"{cause}.on": False})
        for policy, is_told in ((world.policy, True), (switched_off, False)):
            found = Detector(grown)(world.reading(look), policy, ())
            assert (cause in {x.rule for x in found.anomalies}) is is_told, (cause, story.title)


def test_series_are_scored_as_they_were_last_seen_to_be_scored() -> None:
    """Of each series the rows that speak, and every hundredth score."""
    written = ""
    for title, make in SERIES.items():
        values, minutes = make()
        scores, speaks = score_series(times(len(values), minutes), values)
        rows = ", ".join(f"{row} {scores[row]:.4f}" for row in np.flatnonzero(speaks))
        sampled = " ".join(f"{score:.4f}" for score in scores[99::100])
        written += f"# {title}\nspeaks at {rows or 'no row'}\n{sampled}\n\n"
    compare(written, GOLDENS / "scores.txt")


def test_no_golden_is_left_over() -> None:
    assert {path.stem for path in GOLDENS.iterdir()} == {*STORIES, "scores"}


def retold(story: Story) -> str:
    """Return what the watch tells of a story, look by look, and of each look only what is new."""
    world, written, before, now = story.world(), "", {"nodes": ("all busy",)}, START
    for now in story.looks:
        said = looked(world, now, last=now == story.looks[-1] != story.looks[0])
        for name, lines in said.items():
            if lines != before.get(name):
                written += f"{now:%d %H:%M} {name}\n"
                written += "".join(f"    {x}\n" for x in lines if x not in before.get(name, ()))
        before = said
    return (written or "nothing\n") + "".join(f"{line}\n" for line in compiled(world, now))


def compiled(world: World, now: datetime) -> Iterator[str]:
    """Yield the compiles that a story has seen by its end."""
    for each in compiles_since(world.reading(now), world.policy, START):
        span, told = each.window, ", by its log" if each.told else ""
        yield f"{each.instance} compiled {span.start:%d %H:%M} to {span.end:%d %H:%M}: {each.ending}{told}"


def looked(world: World, now: datetime, last: bool) -> Mapping[str, tuple[str, ...]]:
    """Let the watch look once, and return its lines by alert, and those of the nodes' states."""
    reading = world.reading(now)
    detection = world.detector(reading, world.policy, world.known)
    if last:
        # What a process remembers changes nothing: one that just began finds the same.
        assert detection == Detector(grown)(reading, world.policy, world.known)
    earlier = {alert.id: alert for alert in world.known}
    ended = [alert for alert in world.known if alert.closed]
    firing = [alert for alert in world.known if alert.firing]
    patience = world.policy.duration("alert.resolve_after")
    tracked = [
        at_peak(
            value(x, earlier.get(x.id), lambda thing: HOURLY.get(thing.split("-")[0]), now), now
        )
        for x in track(firing, detection, reading, patience)
    ]
    world.known = [*ended, *tracked]
    return {alert.key: tuple(lines_of(alert, now)) for alert in tracked} | states_of(
        detection.states
    )


def lines_of(alert: Alert, now: datetime) -> Iterator[str]:
    """Yield what an alert says: its facts, its sentence and what supports it."""
    if alert.closed:
        yield f"over since {alert.seen:%d %H:%M}, {dollars(alert)}"
        return
    if alert.seen != now:
        yield "not seen"
        return
    anomaly = alert.anomaly
    yield anomaly.why
    yield f"{named(anomaly)} since {anomaly.window.start:%d %H:%M}"
    yield dollars(alert)
    low, high = anomaly.usual or (None, None)
    usual = "" if low is None else f", usually {figure(low)} to {figure(high)}"
    yield f"{anomaly.cause} {anomaly.confidence:g}, score {figure(anomaly.score)}: {figure(anomaly.value)} {anomaly.unit}{usual}"
    assert len({*anomaly.evidence}) == len(anomaly.evidence), "evidence is said twice"
    yield from (f"| {line}" for line in anomaly.evidence)
    yield from (f"or {cause} {share:g}" for cause, share in anomaly.runners_up)
    facts = anomaly.cause.facts
    if anomaly.suggestions != facts.suggestions:
        yield from (f"> {line}" for line in anomaly.suggestions)
    if anomaly.at_risk:
        yield f"at risk: {anomaly.at_risk.hours:.2f} h of {things(anomaly.at_risk.things)}, {alert.at_risk_usd} USD"
    shown = f"{anomaly.kind} {anomaly.metric}".strip()
    if shown != f"{facts.about.value} {facts.metric}".strip():
        yield f"chart of {shown}"
    marks = [anomaly.severity.value] * (anomaly.severity is not facts.severity)
    marks += ["wide"] * anomaly.wide + [f"suspect {anomaly.suspect}"] * bool(anomaly.suspect)
    if marks:
        yield ", ".join(marks)
    yield f"of {anomaly.labels}"


def named(anomaly: Anomaly) -> str:
    """Return the things of an anomaly, and what share of each is lost."""
    shares = anomaly.wasted_shares
    lost = f" lose {span(shares)}" if shares else ""
    before = f", lost {span(anomaly.lost_hours)} h" if any(anomaly.lost_hours) else ""
    return f"{things(anomaly.things) or 'nothing'}{lost}{before}"


def span(shares: Sequence[float]) -> str:
    low, high = f"{min(shares):.2f}", f"{max(shares):.2f}"
    return low if low == high else f"{low}-{high}"


def things(names: Iterable[str]) -> str:
    """Return names in order, such as `i-llama000-003 i-llama007`."""
    parts = sorted(re.fullmatch(r"(.*?)(\d*)", name).groups() for name in names)
    counted = enumerate(parts)
    runs = groupby(counted, lambda x: (x[1][0], int(x[1][1]) - x[0] if x[1][1] else x[0]))
    written = []
    for (stem, _), run in runs:
        numbers = [number for _, (_, number) in run]
        last = f"-{numbers[-1]}" if len(numbers) > 1 else ""
        written.append(f"{stem}{numbers[0]}{last}")
    return " ".join(written)


def dollars(alert: Alert) -> str:
    """Return what an alert wastes an hour and has wasted, and how much of that the bill shows."""
    if alert.waste is None:
        return "no dollars"
    said = f"${alert.waste.per_hour:,.2f} an hour, ${alert.waste.so_far:,.2f} so far"
    if billed := alert.anomaly.billed:
        until = f", until {billed.until:%d %H:%M}" if billed.until else ""
        said += f", ${billed.usd:,.2f} billed through {billed.through:%d %H:%M}{until}"
        said += f" (${billed.low:,}-{billed.high:,} an hour)"
    return said


def figure(number: float) -> str:
    return f"{number:.3g}" if abs(number) < 1000 else f"{number:,.0f}"


def states_of(states: Mapping[str, NodeState]) -> Mapping[str, tuple[str, ...]]:
    """Return the nodes in each state but the usual one."""
    by_state = {
        state: things(name for name, x in states.items() if x is state)
        for state in NodeState
        if state is not NodeState.BUSY
    }
    said = "; ".join(f"{state}: {names}" for state, names in by_state.items() if names)
    return {"nodes": (said or "all busy",)}
