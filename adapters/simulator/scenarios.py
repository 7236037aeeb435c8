"""List the scenarios that can be asked for by name."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

from adapters.simulator.every_cause import CAUSES
from adapters.simulator.scenario import Kind, PlannedCluster, PlannedIncident, PlannedJob, Scenario
from bot.errors import WrongInput, nearest
from bot.model.causes import Cause

COMPILES = Scenario(
    "Three days of compiles: one within its grace, one past it, a cache that went cold, and one that somebody cut off.",
    days=3,
    period_seconds=300,
    clusters=(
        PlannedCluster(
            "llama",
            "trn1.32xlarge",
            "us-west-2",
            (PlannedJob("llama-8b", 8, run_hours=400, parameters=8e9),),
            "pretraining",
            owner="dana",
        ),
        PlannedCluster(
            "vision",
            "trn1n.32xlarge",
            "us-east-1",
            (PlannedJob("vit-2b", 4, usual=0.85, run_hours=400),),
            "vision",
            owner="ravi",
        ),
        PlannedCluster(
            "probe",
            "trn1.32xlarge",
            "us-west-2",
            (PlannedJob("vit-probe", 1, efa=0, run_hours=400),),
            "vision",
            owner="ravi",
        ),
    ),
    incidents=(
        PlannedIncident(
            Cause.COMPILING,
            "llama",
            20,
            0.6,
            "llama-8b",
            note="within its grace: a state, not a notice",
        ),
        PlannedIncident(Cause.LONG_COMPILE, "probe", 26, 1.9, "vit-probe"),
        PlannedIncident(
            Cause.KILLED_COMPILE,
            "vision",
            34,
            1.2,
            "vit-2b",
            level=40,
            note="cancelled, and launched again",
        ),
        PlannedIncident(
            Cause.COLD_CACHE, "llama", 44, 1.6, "llama-8b", note="compiled before, at hour 20"
        ),
    ),
)


LLAMA = PlannedJob("llama-70b", 64, usual=0.90, cores_reported=1, market="savings-plan")
CHAT = PlannedJob("chat-api", 6, Kind.INFERENCE, usual=0.42, memory=0.55, efa=0)


LLAMA_CLUSTER = PlannedCluster(
    "llama", "trn1.32xlarge", "us-west-2", (LLAMA,), "pretraining", "llama-70b", "dana", 48.0
)


DEMO_CLUSTERS = (
    LLAMA_CLUSTER,
    PlannedCluster(
        "vision",
        "trn1n.32xlarge",
        "us-east-1",
        (
            PlannedJob(
                "vit-22b",
                12,
                usual=0.86,
                efa=0.28,
                parameters=22e9,
                step_seconds=3.2,
                checkpoint_minutes=30,
                run_hours=40,
            ),
            PlannedJob(
                "sweeps",
                4,
                Kind.RESEARCH,
                usual=0.74,
                memory=0.5,
                efa=0,
                run_hours=14,
                eval_hours=5,
            ),
        ),
        "vision",
        "vit",
        "ravi",
        14.4,
    ),
    PlannedCluster(
        "frontier",
        "trn2.48xlarge",
        "us-east-2",
        (
            PlannedJob(
                "moe-400b",
                8,
                usual=0.84,
                efa=0.4,
                memory=0.86,
                parameters=400e9,
                step_seconds=11,
                checkpoint_minutes=60,
            ),
        ),
        "frontier",
        "moe",
        "mei",
        28.8,
    ),
    PlannedCluster("serving", "inf2.48xlarge", "us-west-2", (CHAT,), "serving", "chat", "", 0),
    PlannedCluster(
        "gpu-baseline",
        "p5.48xlarge",
        "us-east-2",
        (
            PlannedJob(
                "llama-70b-gpu",
                4,
                usual=0.87,
                efa=0.2,
                step_seconds=14,
                tokens_per_step=1_048_576,
                run_hours=60,
            ),
        ),
        "pretraining",
        "llama-70b",
        "dana",
        4.8,
    ),
    PlannedCluster(
        "lab",
        "trn1.32xlarge",
        "us-west-2",
        (PlannedJob("notebooks", 6, Kind.RESEARCH, usual=0.7, memory=0.4, efa=0, run_hours=16),),
    ),
)


DEMO = Scenario(
    "Five clusters of about 110 nodes over three days; things go wrong throughout, and still do at the end.",
    days=3,
    period_seconds=60,
    start=datetime(2026, 11, 17, 12, tzinfo=UTC),
    bill_days=35,
    clusters=DEMO_CLUSTERS,
    incidents=(
        PlannedIncident(
            Cause.LONG_COMPILE,
            "vision",
            17.5,
            1.7,
            "vit-22b",
            note="a new graph after a batch size change",
        ),
        PlannedIncident(
            Cause.STARVED, "vision", 27.0, 2.2, "vit-22b", level=0.31, note="reads straight from S3"
        ),
        PlannedIncident(
            Cause.IDLE, "lab", 31.0, 9.0, "notebooks", (3, 6), note="left running after the sweep"
        ),
        PlannedIncident(
            Cause.SPEND_JUMP, "serving", 36.0, 36.0, level=1900, note="a loop of PUT requests"
        ),
        PlannedIncident(
            Cause.ALLOCATED_UNUSED,
            "lab",
            44.0,
            28.0,
            "notebooks",
            (0, 1),
            note="a notebook holds the cores",
        ),
        PlannedIncident(Cause.EXECUTION_ERRORS, "frontier", 50.0, 1.5, "moe-400b", (2, 3), level=7),
        PlannedIncident(
            Cause.HARDWARE_FAULT, "frontier", 63.0, 1.6, "moe-400b", (5, 6), note="a device decays"
        ),
        PlannedIncident(
            Cause.IDLE,
            "vision",
            66.0,
            6.0,
            "sweeps",
            (1, 4),
            note="the sweep is over, the nodes are not",
        ),
        PlannedIncident(
            Cause.STARVED,
            "llama",
            70.4,
            1.6,
            "llama-70b",
            level=0.20,
            note="an inefficient data loader",
        ),
    ),
)

STORY = Scenario(
    "The demo's clusters for a day; its last three hours are a story: starvation, a compile, a bill that jumps.",
    days=1,
    period_seconds=60,
    start=datetime(2026, 11, 19, 12, tzinfo=UTC),
    bill_days=35,
    clusters=DEMO_CLUSTERS,
    incidents=(
        PlannedIncident(
            Cause.SPEND_JUMP, "serving", -4.0, 28.0, level=1900, note="a loop of PUT requests"
        ),
        PlannedIncident(
            Cause.LONG_COMPILE,
            "vision",
            4.0,
            1.7,
            "vit-22b",
            note="a new graph after a batch size change",
        ),
        PlannedIncident(
            Cause.ALLOCATED_UNUSED,
            "lab",
            6.0,
            18.0,
            "notebooks",
            (0, 1),
            note="a notebook holds the cores",
        ),
        PlannedIncident(
            Cause.HARDWARE_FAULT, "frontier", 12.0, 1.6, "moe-400b", (5, 6), note="a device decays"
        ),
        PlannedIncident(
            Cause.STARVED,
            "llama",
            21.2,
            1.0,
            "llama-70b",
            level=0.20,
            note="an inefficient data loader",
        ),
        PlannedIncident(
            Cause.COMPILING,
            "frontier",
            22.55,
            0.7,
            "moe-400b",
            note="within its grace: a state, not a notice",
        ),
    ),
)

REFERENCE = Scenario(
    "64 nodes at 85-95 %; an inefficient loader holds them at 20 % for six hours after two days.",
    days=2.5,
    period_seconds=60,
    clusters=(LLAMA_CLUSTER,),
    incidents=(
        PlannedIncident(
            Cause.STARVED,
            "llama",
            48,
            6,
            "llama-70b",
            level=0.20,
            note="an inefficient data loader",
        ),
    ),
)

STORM = Scenario(
    "64 nodes; one device decays and the whole job shows it: errors, low utilization, silent nodes, an ageing checkpoint.",
    days=2,
    period_seconds=60,
    clusters=(LLAMA_CLUSTER,),
    incidents=(
        PlannedIncident(
            Cause.HARDWARE_FAULT, "llama", 36, 4, "llama-70b", (17, 18), note="the cause of all"
        ),
        PlannedIncident(Cause.CHECKPOINT_AT_RISK, "llama", 36, 4, "llama-70b", labelled=False),
        PlannedIncident(
            Cause.EXECUTION_ERRORS,
            "llama",
            37.5,
            2.5,
            "llama-70b",
            (16, 24),
            level=4,
            labelled=False,
        ),
        PlannedIncident(Cause.NO_DATA, "llama", 38.5, 1.5, "llama-70b", (18, 20), labelled=False),
    ),
)

TINY = Scenario(
    "Three nodes for six hours, the last two of them idle for one.",
    days=0.25,
    period_seconds=60,
    clusters=(
        PlannedCluster(
            "tiny",
            "trn1.32xlarge",
            "us-west-2",
            (
                PlannedJob(
                    "bert",
                    3,
                    Kind.RESEARCH,
                    efa=0,
                    eval_hours=0,
                    run_hours=400,
                    pods=3,
                    cores_reported=1,
                ),
            ),
            "search",
            "ranker",
            "ada",
            1.2,
        ),
    ),
    incidents=(PlannedIncident(Cause.IDLE, "tiny", 3, 1, "bert", (1, 3)),),
)

CALM = Scenario(
    "Fourteen days without an incident, full of what looks like one: compiles, evaluations, planned stops, used scale-ups.",
    days=14,
    period_seconds=300,
    start=datetime(2026, 10, 25, tzinfo=UTC),
    bill_days=35,
    missing=0.002,
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
                    run_hours=70,
                    market="savings-plan",
                    cores_reported=1,
                    parameters=8e9,
                    step_seconds=3,
                ),
                PlannedJob(
                    "extra",
                    6,
                    usual=0.87,
                    begins=150,
                    compile_minutes=40,
                    run_hours=400,
                    checkpoint_minutes=30,
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
                PlannedJob(
                    "vit-2b",
                    8,
                    usual=0.85,
                    run_hours=50,
                    compile_minutes=25,
                    parameters=2e9,
                    joins=((6, 90), (7, 90)),
                    leaves=((0, 240),),
                    step_seconds=2,
                ),
                PlannedJob("old-run", 4, usual=0.80, ends=200, run_hours=400),
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
                    4,
                    usual=0.84,
                    efa=0.4,
                    memory=0.86,
                    checkpoint_minutes=60,
                    run_hours=100,
                    parameters=200e9,
                ),
            ),
            "frontier",
            "moe",
            "mei",
            7.2,
        ),
        PlannedCluster(
            "serving", "inf2.48xlarge", "us-west-2", (CHAT,), "serving", "chat", "sam", 0
        ),
        PlannedCluster(
            "spot",
            "trn1.32xlarge",
            "us-east-1",
            (
                PlannedJob(
                    "tuning",
                    6,
                    usual=0.82,
                    market="spot",
                    replaced=((2, 100), (4, 260)),
                    run_hours=60,
                    checkpoint_minutes=20,
                ),
            ),
            "search",
            "ranker",
            "ada",
            2.4,
        ),
    ),
)

WIDE = Scenario(
    "Two hundred nodes for fourteen days, and nothing wrong with them: how fast is a backtest?",
    days=14,
    period_seconds=300,
    bill_days=21,
    missing=0.002,
    clusters=tuple(
        PlannedCluster(
            name,
            kind,
            "us-west-2",
            (PlannedJob(f"{name}-run", 40, usual=usual, run_hours=80, compile_minutes=15),),
            name,
        )
        for name, kind, usual in (
            ("ash", "trn1.32xlarge", 0.91),
            ("birch", "trn1n.32xlarge", 0.86),
            ("cedar", "trn2.48xlarge", 0.83),
            ("elm", "trn1.32xlarge", 0.78),
            ("fir", "trn1.32xlarge", 0.70),
        )
    ),
)

SCENARIOS: Mapping[str, Scenario] = {
    "demo": DEMO,
    "story": STORY,
    "calm": CALM,
    "reference": REFERENCE,
    "storm": STORM,
    "causes": CAUSES,
    "compiles": COMPILES,
    "wide": WIDE,
    "tiny": TINY,
}


def scenario_named(name: str) -> Scenario:
    """Return a scenario; raise `WrongInput` with the nearest name."""
    if name not in SCENARIOS:
        raise WrongInput(f"'{name}' is not a scenario{nearest(name, SCENARIOS)}.")
    return SCENARIOS[name]
