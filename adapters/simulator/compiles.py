"""Describe the scenario `compiles`: what a compile may come to."""

from __future__ import annotations

from adapters.simulator.scenario import Cluster, Incident, Job, Scenario
from bot.model.anomaly import Cause

COMPILES = Scenario(
    "Three days of compiles: one within its grace, one past it, a cache that went cold, and one that somebody cut off.",
    days=3,
    period_seconds=300,
    clusters=(
        Cluster(
            "llama",
            "trn1.32xlarge",
            "us-west-2",
            (Job("llama-8b", 8, run_hours=400, parameters=8e9),),
            "pretraining",
            owner="dana",
        ),
        Cluster("vision", "trn1n.32xlarge", "us-east-1", (Job("vit-2b", 4, usual=0.85, run_hours=400),), "vision", owner="ravi"),
        Cluster("probe", "trn1.32xlarge", "us-west-2", (Job("vit-probe", 1, efa=0, run_hours=400),), "vision", owner="ravi"),
    ),
    incidents=(
        Incident(Cause.COMPILING, "llama", 20, 0.6, "llama-8b", note="within its grace: a state, not a notice"),
        Incident(Cause.LONG_COMPILE, "probe", 26, 1.9, "vit-probe"),
        Incident(Cause.KILLED_COMPILE, "vision", 34, 1.2, "vit-2b", level=40, note="cancelled, and launched again"),
        Incident(Cause.COLD_CACHE, "llama", 44, 1.6, "llama-8b", note="compiled before, at hour 20"),
    ),
)
