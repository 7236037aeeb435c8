"""Lay out one labelled incident of every cause over 14 days, far enough apart to be graded one by one."""

from __future__ import annotations

from datetime import UTC, datetime

from adapters.simulator.scenario import Kind, PlannedCluster, PlannedIncident, PlannedJob, Scenario
from bot.model.causes import Cause

DAY = 24.0

CAUSES = Scenario(
    "Fourteen days and seven clusters with one labelled incident of every cause.",
    days=14,
    period_seconds=300,
    start=datetime(2026, 11, 2, tzinfo=UTC),
    bill_days=35,
    clusters=(
        PlannedCluster(
            "llama",
            "trn1.32xlarge",
            "us-west-2",
            (
                PlannedJob(
                    "llama-8b",
                    16,
                    usual=0.90,
                    run_hours=400,
                    cores_reported=1,
                    parameters=8e9,
                    step_seconds=3,
                ),
            ),
            "pretraining",
            "llama-8b",
            "dana",
            14.4,
        ),
        PlannedCluster(
            "vision",
            "trn1n.32xlarge",
            "us-east-1",
            (
                PlannedJob("vit-2b", 8, usual=0.86, run_hours=400, parameters=2e9, step_seconds=2),
                PlannedJob(
                    "vit-probe", 1, usual=0.81, run_hours=400, parameters=2e8, step_seconds=1
                ),
            ),
            "vision",
            "vit",
            "ravi",
            7.2,
        ),
        PlannedCluster(
            "frontier",
            "trn2.48xlarge",
            "us-east-2",
            (
                PlannedJob(
                    "moe",
                    6,
                    usual=0.84,
                    efa=0.4,
                    checkpoint_minutes=60,
                    run_hours=400,
                    parameters=200e9,
                    step_seconds=11,
                ),
            ),
            "frontier",
            "moe",
            "mei",
            7.2,
        ),
        PlannedCluster(
            "lab",
            "trn1.32xlarge",
            "us-west-2",
            (
                PlannedJob(
                    "notebooks",
                    6,
                    Kind.RESEARCH,
                    usual=0.72,
                    memory=0.4,
                    efa=0,
                    run_hours=400,
                    checkpoint_minutes=60,
                ),
            ),
            "research",
            "",
            "noor",
            2.4,
        ),
        PlannedCluster(
            "serving",
            "inf2.48xlarge",
            "us-west-2",
            (PlannedJob("chat-api", 4, Kind.INFERENCE, usual=0.42, memory=0.55, efa=0),),
            "serving",
            "chat",
            "sam",
        ),
        PlannedCluster(
            "held",
            "trn1.32xlarge",
            "us-east-2",
            (
                PlannedJob(
                    "rl",
                    8,
                    usual=0.81,
                    run_hours=400,
                    leaves=tuple((n, 9 * DAY + 1) for n in range(4, 8)),
                ),
            ),
            "agents",
            "rl",
            "kai",
            2.4,
            reserved=8,
        ),
        PlannedCluster(
            "planned",
            "trn1n.32xlarge",
            "us-west-2",
            (
                PlannedJob(
                    "embed",
                    6,
                    usual=0.83,
                    run_hours=400,
                    market="savings-plan",
                    leaves=tuple((n, 10 * DAY) for n in range(3, 6)),
                ),
                PlannedJob("embed-xl", 6, usual=0.85, run_hours=400, begins=8 * DAY),
            ),
            "search",
            "embeddings",
            "ada",
            2.4,
        ),
    ),
    incidents=(
        PlannedIncident(
            Cause.COMPILING,
            "llama",
            3.0 * DAY + 4,
            0.6,
            "llama-8b",
            note="within its grace: a state, not a notice",
        ),
        PlannedIncident(Cause.STARVED, "llama", 4.0 * DAY + 9, 5.0, "llama-8b", level=0.20),
        PlannedIncident(Cause.CHECKPOINT_AT_RISK, "llama", 5.5 * DAY, 6.0, "llama-8b"),
        PlannedIncident(Cause.NO_DATA, "llama", 6.5 * DAY, 3.0, "llama-8b", (9, 12)),
        PlannedIncident(Cause.HUNG, "llama", 7.6 * DAY, 2.5, "llama-8b", level=0.0),
        PlannedIncident(
            Cause.COLD_CACHE, "llama", 9.2 * DAY, 1.7, "llama-8b", note="compiled before, on day 3"
        ),
        PlannedIncident(Cause.NETWORK_BOUND, "llama", 11.0 * DAY, 5.0, "llama-8b", level=0.45),
        PlannedIncident(
            Cause.HUNG,
            "llama",
            12.5 * DAY,
            2.0,
            "llama-8b",
            level=1.0,
            note="cores spin in a collective",
        ),
        PlannedIncident(
            Cause.LONG_COMPILE, "vision", 3.6 * DAY, 1.9, "vit-probe", note="a job of one node"
        ),
        PlannedIncident(
            Cause.MEMORY_PRESSURE, "vision", 6.0 * DAY, 8.0, "vit-2b", (2, 4), level=0.985
        ),
        PlannedIncident(
            Cause.EXECUTION_ERRORS, "vision", 8.3 * DAY, 3.0, "vit-2b", (5, 6), level=9
        ),
        PlannedIncident(Cause.ODD, "vision", 11.4 * DAY, 6.0, "vit-2b", (0, 2)),
        PlannedIncident(Cause.HARDWARE_FAULT, "frontier", 5.2 * DAY, 3.0, "moe", (3, 4)),
        PlannedIncident(
            Cause.STARVED,
            "frontier",
            10.3 * DAY,
            3.0,
            "moe",
            level=0.35,
            note="a shallower drop on Trainium2",
        ),
        PlannedIncident(
            Cause.STRAGGLER,
            "frontier",
            12.3 * DAY,
            5.0,
            "moe",
            level=0.42,
            note="five nodes wait for the sixth",
        ),
        PlannedIncident(Cause.IDLE, "lab", 4.6 * DAY, 14.0, "notebooks", (4, 6)),
        PlannedIncident(
            Cause.COLLECTIVE_PATH, "lab", 6.9 * DAY, 6.0, "notebooks", (0, 1), level=0.38
        ),
        PlannedIncident(Cause.ALLOCATED_UNUSED, "lab", 9.7 * DAY, 12.0, "notebooks", (2, 3)),
        PlannedIncident(
            Cause.ORPHANED_STORAGE,
            "lab",
            6.0 * DAY,
            8.0 * DAY,
            note="two volumes outlive their instances",
        ),
        PlannedIncident(
            Cause.ORPHANED_STORAGE,
            "held",
            5.0 * DAY,
            9.0 * DAY,
            level=9.6,
            note="a file system nobody mounts",
        ),
        PlannedIncident(
            Cause.SPEND_JUMP,
            "serving",
            7.0 * DAY,
            3.0 * DAY,
            level=900,
            note="S3 requests in a loop",
        ),
        PlannedIncident(
            Cause.SPEND_NEW,
            "serving",
            9.0 * DAY,
            4.0 * DAY,
            level=1320.96,
            note="a type in a region never used before",
        ),
        PlannedIncident(
            Cause.TRANSFER_ROUTE,
            "frontier",
            7.0 * DAY,
            4.0 * DAY,
            level=1100,
            note="S3 through the NAT gateway",
        ),
        PlannedIncident(
            Cause.UNUSED_CAPACITY,
            "held",
            9 * DAY + 1,
            5 * DAY - 1,
            level=4 * 21.5 * 24,
            note="half a reservation stands empty",
        ),
        PlannedIncident(
            Cause.COMMITMENT_UNUSED,
            "planned",
            10.0 * DAY,
            4.0 * DAY,
            level=1168,
            note="half of the Savings Plan's nodes are gone",
        ),
        PlannedIncident(
            Cause.BUDGET_BURN,
            "planned",
            8.0 * DAY,
            6.0 * DAY,
            level=3568,
            note="the team's fleet doubled, and is used: only a budget would tell that it is too much",
        ),
    ),
)
