"""Describe a day and some hours with several incidents, small enough to be watched tick by tick."""

from __future__ import annotations

from adapters.simulator.scenario import Kind, PlannedCluster, PlannedIncident, PlannedJob, Scenario
from bot.model.causes import Cause

DAY = Scenario(
    "Six nodes for twenty-eight hours: an input that is too slow, idle nodes, a broken device, and one that falls silent.",
    days=28 / 24,
    period_seconds=60,
    clusters=(
        PlannedCluster(
            "tiny",
            "trn1.32xlarge",
            "us-west-2",
            (
                PlannedJob(
                    "llama", 3, usual=0.9, eval_hours=0, run_hours=400, pods=1, cores_reported=3
                ),
                PlannedJob(
                    "bert",
                    3,
                    Kind.RESEARCH,
                    efa=0,
                    eval_hours=0,
                    run_hours=400,
                    pods=1,
                    cores_reported=0,
                ),
            ),
            "search",
            "ranker",
            "ada",
            1.2,
        ),
    ),
    incidents=(
        PlannedIncident(Cause.IDLE, "tiny", 2, 1.5, "bert", (1, 3)),
        PlannedIncident(Cause.STARVED, "tiny", 5, 2, "llama", level=0.25),
        PlannedIncident(Cause.HARDWARE_FAULT, "tiny", 12, 2, "llama", (1, 2), level=2),
        PlannedIncident(Cause.NO_DATA, "tiny", 17, 1.5, "bert", (0, 1)),
        PlannedIncident(Cause.IDLE, "tiny", 22, 2, "bert", (1, 3)),
    ),
)
