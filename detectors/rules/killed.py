"""Find compiles that were cut off before anything executed: what they cost is lost, and Neuron remembers them as failed."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

import numpy as np
import numpy.typing as npt

from bot.model.anomaly import Anomaly, Cause
from bot.model.compile import Compile, Ending
from detectors.compiles import compiles
from detectors.limits import Limits
from detectors.roster import build_roster
from detectors.rules.compile import FAMILY
from detectors.rules.found import Found, Words, anomaly_of
from detectors.usual import NOTHING
from detectors.view import View
from detectors.words import count, lasted

TOLD = timedelta(hours=1)
"""How long after its end a compile that was cut off is told: then it is history, which `fleet` and `cost` hold."""
_BACK = timedelta(days=1)
"""How far back the beginning of a compile is looked for."""
_SUGGESTIONS = (
    "Before the next launch add `--retry_failed_compilation` to NEURON_CC_FLAGS: Neuron caches an interrupted compile as failed"
    " and skips it later (Neuron's documentation of its persistent cache).",
    "If the next launch only waits (`Another process must be compiling`), remove the `.lock` files that the killed one left in"
    " the compile cache.",
    "If a time limit or a health check ended it, raise it: a first compile may take an hour.",
    "If it was a pre-compile (`neuron_parallel_compile`) that ended well, nothing is lost: launch the job.",
)


def find_killed(view: View) -> list[Anomaly]:
    """Return one anomaly for each scope whose compiles were cut off within `TOLD`; what executes after all takes it back."""
    lately = view.compiling[:, -view.window.steps(TOLD + view.window.step) :].any(axis=1)
    over = (view.compile_steps == 0) | ~view.roster.running
    rows = np.flatnonzero(lately & over & ~view.executing[:, -1:].any(axis=1))
    if not len(rows) or not view.limits.on("killed_compile.on")[rows].any():
        return []
    cut = [x for x in compiles(_of_rows(view, rows)) if x.ending is Ending.CUT and _lately(view, x) and _on(view, x)]
    return [_told(view, [x for x in cut if x.scope == scope]) for scope in dict.fromkeys(x.scope for x in cut)]


def _of_rows(view: View, rows: npt.NDArray[np.intp]) -> View:
    """Return a day's view of some nodes alone: few compile, and a day of all of them is long."""
    part = view.whole.last(max(_BACK, view.window.window.length)).pick(rows)
    limits = Limits(view.policy, build_roster(part.things, view.reading.inventory))
    return View(view.reading, view.policy, limits, NOTHING, part, part, {})


def _lately(view: View, one: Compile) -> bool:
    return view.now - one.window.end < TOLD


def _on(view: View, one: Compile) -> bool:
    return bool(view.limits.on("killed_compile.on")[view.roster.row[one.instance]])


def _told(view: View, cut: Sequence[Compile]) -> Anomaly:
    hours: dict[str, float] = {}
    for one in cut:
        hours[one.instance] = hours.get(one.instance, 0.0) + one.hours
    rows = np.array(sorted(view.roster.row[name] for name in hours), dtype=np.intp)
    start, end = min(x.window.start for x in cut), max(x.window.end for x in cut)
    steps = np.full(view.n, (view.now - start) / view.window.step)
    found = Found(Cause.KILLED_COMPILE, np.isin(np.arange(view.n), rows), steps, np.zeros(view.n))
    longest = max(x.window.length for x in cut)
    words = Words(
        why=f"A compile on {count(len(rows), 'node')} ended after {lasted(longest)}, at {end:%H:%M} UTC,"
        " before anything executed; its process is gone.",
        value=longest.total_seconds(),
        unit="seconds",
        score=0.8,
        evidence=(f"{sum(hours.values()):,.1f} node-hours of compiling lost", "no execution since"),
        confidence=0.7,
        suggestions=_SUGGESTIONS,
        lost_hours=hours,
        family=_taken_over(view, rows),
    )
    return anomaly_of(view, found, rows, words)


def _taken_over(view: View, rows: npt.NDArray[np.intp]) -> tuple[str, ...]:
    """Return the rules whose open alert this one goes on with: what a long compile cost is not counted twice."""
    here = view.roster.scope == view.roster.scope[rows[0]]
    return () if (view.compile_steps[here] > 0).any() else FAMILY
