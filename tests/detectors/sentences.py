"""Read the sentences of an anomaly as a lead would, and say what is wrong with them."""

from __future__ import annotations

import re

from bot.model.anomaly import Anomaly
from bot.model.causes import Cause, Family

NO_WORDS = re.compile(r"\b(nan|inf|None|NaT|dtype|array)\b|[{}]|  |,,|\.\.(?!\.)|^\s|\s$")
LASTED = re.compile(r"for ((?:\d+ days?|\d+ h|\d+ min| )+)")
PACE = re.compile(r"(?:steps|executions) run at (\d+) % of their usual rate")
LEVEL = re.compile(r"utilization (\d+) %(?:, usually (\d+)(?:-(\d+))? %)?")
AS_BEFORE = re.compile(r"(\w[\w ]+) is as before \((\d+) %, usual (\d+) %\)")
CHANGED = re.compile(
    r"(?:, but|,|:) ([A-Za-z ]+) ([\d,.]+ \S+) instead of ([\d,.]+ \S+?)(?=[,.]|$)"
)
SINCE = {"day": 1440, "days": 1440, "h": 60, "min": 1}


def minutes_of(words: str) -> int:
    """Return the minutes of `1 h 10 min`."""
    parts = words.split()
    return sum(int(n) * SINCE[unit] for n, unit in zip(parts[::2], parts[1::2], strict=True))


def faults_of(anomaly: Anomaly, serves: bool = False) -> list[str]:
    """Return what is wrong with the sentences of an anomaly, one line each."""
    faults = []
    sentences = (anomaly.why, *anomaly.evidence)
    for sentence in sentences:
        if NO_WORDS.search(sentence):
            faults.append(f"no words: {sentence!r}")
        if "at this hour" in sentence and not serves:
            faults.append(f"hours are learnt of services only: {sentence!r}")
    if not anomaly.why.endswith("."):
        faults.append(f"no full stop: {anomaly.why!r}")

    # A length is of the stretch that the sentence is about: never longer than the anomaly's.
    whole = anomaly.window.length.total_seconds() / 60
    lengths = [minutes_of(found[1]) for found in LASTED.finditer(anomaly.why)]
    if anomaly.cause.facts.about.value == "node" and max(lengths, default=0) > whole + 16:
        faults.append(f"longer than its {whole:.0f} min: {anomaly.why!r}")

    level = LEVEL.search(anomaly.why)
    dropped = anomaly.cause.facts.family is Family.DROP
    if level and level[2] and dropped:
        share = int(level[1]) / max(1, int(level[3] or level[2]))
        pace = PACE.search(anomaly.why)
        if pace and float(pace[1]) > 105:
            faults.append(f"steps go on faster than usual: {anomaly.why!r}")
        if share > 0.95 and not (pace and float(pace[1]) < 90):
            faults.append(f"nothing is lost: {anomaly.why!r}")
    if anomaly.cause is Cause.STARVED and any("rests" in x for x in anomaly.evidence):
        faults.append(f"evidence against its cause: {anomaly.evidence!r}")
    faults += contradictions_of(anomaly.why)
    if len(set(sentences)) < len(sentences):
        faults.append(f"said twice: {sentences!r}")
    return faults


def contradictions_of(why: str) -> list[str]:
    """Return where a sentence says two things of one metric, or that a change is none."""
    faults = []
    changed = {found[1].removeprefix("but "): found for found in CHANGED.finditer(why)}
    for found in AS_BEFORE.finditer(why):
        if abs(int(found[2]) - int(found[3])) > 0.15 * int(found[3]) + 2:
            faults.append(f"not as before: {why!r}")
        if any(found[1].endswith(name) for name in changed):
            faults.append(f"as before and changed: {why!r}")
    faults += [f"no change: {why!r}" for found in changed.values() if found[2] == found[3]]
    return faults
