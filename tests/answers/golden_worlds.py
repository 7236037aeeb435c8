"""Small, rich recordings that every line can be asked of."""

from __future__ import annotations

import gzip
import hashlib
import inspect
import shutil
import sys
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from adapters.simulator import generate
from adapters.simulator.generate import Files, SimulationTiming
from adapters.simulator.scenario import (
    Kind,
    PlannedCluster,
    PlannedIncident,
    PlannedJob,
    Scenario,
)
from bot.model.causes import Cause
from tests.e2e.product import CACHE, made_once
from tests.months.accounts import Account, Block, Commitment, Extra, Group
from tests.months.bill import NUMBER, Line, lines, write

OTHER_ACCOUNT = "444455556666"


def account_of_clusters(folder: Path) -> None:
    """Write nine days of seven clusters: each way to buy, to work and to waste, and five weeks of bill."""
    llama = PlannedJob(
        "llama-8b",
        4,
        market="savings-plan",
        cores_reported=1,
        parameters=8e9,
        step_seconds=3,
        steps_per_epoch=12_000,
        run_hours=50,
        compile_minutes=20,
        checkpoint_minutes=30,
    )
    vit = PlannedJob(
        "vit-2b",
        3,
        usual=0.86,
        parameters=2e9,
        step_seconds=2,
        steps_per_epoch=16_000,
        run_hours=60,
        market="spot",
        replaced=((1, 190.0),),
        leaves=((2, 120.0),),
    )
    gpu = PlannedJob(
        "gpu-run",
        2,
        usual=0.87,
        efa=0.2,
        parameters=8e9,
        step_seconds=4,
        tokens_per_step=1_048_576,
        steps_per_epoch=12_000,
        run_hours=60,
    )
    chat = PlannedJob("chat-api", 2, Kind.INFERENCE, usual=0.42, memory=0.55, efa=0)
    moe = PlannedJob(
        "moe", 2, usual=0.84, memory=0.86, efa=0.4, step_seconds=11, parameters=2e11, run_hours=100
    )
    rl = PlannedJob("rl", 4, usual=0.81, run_hours=400, leaves=((2, 190.0), (3, 190.0)))
    notebooks = PlannedJob(
        "notebooks", 3, Kind.RESEARCH, usual=0.7, memory=0.4, efa=0, run_hours=16
    )
    clusters = (
        PlannedCluster(
            "llama", "trn1.32xlarge", "us-west-2", (llama,), "pretraining", "llama-8b", "dana", 4.8
        ),
        PlannedCluster(
            "vision",
            "trn1n.32xlarge",
            "us-east-1",
            (vit,),
            "vision",
            "vit",
            "ravi",
            2.4,
            waits=((170.0, 2.5, 3), (213.5, 4, 2)),
        ),
        PlannedCluster(
            "gpu", "p5.48xlarge", "us-east-2", (gpu,), "pretraining", "llama-8b", "dana"
        ),
        PlannedCluster("serving", "inf2.48xlarge", "us-west-2", (chat,), "serving", "chat", "sam"),
        PlannedCluster(
            "frontier", "trn2.48xlarge", "us-east-2", (moe,), "frontier", "moe", "mei", 2.4
        ),
        PlannedCluster(
            "held", "trn1.32xlarge", "us-east-2", (rl,), "agents", "rl", "kai", 2.4, reserved=4
        ),
        PlannedCluster("lab", "trn1.32xlarge", "us-east-2", (notebooks,), file_system_tib=1.2),
    )
    incidents = (
        PlannedIncident(Cause.HUNG, "llama", 180, 2.5, "llama-8b"),
        PlannedIncident(Cause.STARVED, "llama", 213.5, 3, "llama-8b", level=0.2),
        PlannedIncident(Cause.LONG_COMPILE, "vision", 200, 1.7, "vit-2b"),
        PlannedIncident(Cause.IDLE, "lab", 205, 20, "notebooks", (1, 3)),
        PlannedIncident(Cause.ALLOCATED_UNUSED, "lab", 190, 26, "notebooks", (0, 1)),
        PlannedIncident(Cause.HARDWARE_FAULT, "frontier", 206, 1.6, "moe", (1, 2)),
        PlannedIncident(Cause.EXECUTION_ERRORS, "gpu", 209, 1.5, "gpu-run", (0, 1), level=7),
        PlannedIncident(Cause.SPEND_JUMP, "serving", 150, 72, level=900),
        PlannedIncident(Cause.ORPHANED_STORAGE, "held", 20, 200, level=9.6),
        PlannedIncident(Cause.ORPHANED_STORAGE, "lab", 30, 190),
        PlannedIncident(Cause.UNUSED_CAPACITY, "held", 190, 30, level=1032.0),
    )
    scenario = Scenario(
        "Each command has something to say.",
        9,
        300,
        clusters,
        incidents,
        bill_days=50,
        start=datetime(2026, 11, 10, 12, tzinfo=UTC),
    )
    generate(folder, 7, scenario)


def two_accounts(folder: Path) -> None:
    """Write eleven weeks of bill with every kind of commitment and discount, two accounts in it."""
    first = 61 * 24
    payer = Account(1, datetime(2026, 11, 1, tzinfo=UTC), first, first + 30 * 24)
    hours = np.arange(payer.hours)
    office = (hours % 24 >= 8) & (hours % 24 < 19) & (hours // 24 % 7 < 5)
    payer.groups = [
        Group("ranker", "search", "trn1.32xlarge", "on-demand", 2 + (hours > first + 200)),
        Group("chat", "ads", "inf2.48xlarge", "on-demand", 1 + office.astype(int)),
        Group("crawl", "research", "trn1.2xlarge", "spot", 1 + (hours % 190 < 100)),
    ]
    payer.commitments = [
        Commitment("plan", 24.0, "", 0, first + 24 * 24),
        Commitment("reserved", 1, "inf2.48xlarge", 0, payer.hours + 900),
    ]
    payer.blocks = [Block(2, first + 150, first + 200, first + 200 + 14 * 24)]
    payer.extras = [
        Extra(
            "AmazonS3", "USW2-TimedStorage-ByteHrs", 40.0 * 1.02 ** np.arange(payer.hours // 24), 24
        ),
        Extra(
            "AmazonEC2",
            "USW2-DataTransfer-Out-Bytes",
            np.where(hours < first + 300, 2.0, 9.0),
        ),
    ]
    payer.support, payer.tax, payer.discount = "business", 0.08, 0.07
    payer.credits, payer.refund = 30_000.0, (first + 100, -250.0)
    charged = [*lines(payer), *notebooks(payer)]
    write(payer, charged, payer.at(first + 18 * 24 + 12), folder)

    member = Account(2, payer.month, first, payer.hours)
    member.groups = [Group("gpu", "vision", "p5.48xlarge", "on-demand", 1 - (hours % 31 < 6))]
    written = folder.with_name(f"{folder.name}-member")
    write(member, lines(member), payer.at(first + 18 * 24 + 12), written)
    for file in (written / "billing").rglob("*.csv.gz"):
        told = gzip.decompress(file.read_bytes()).decode().replace(NUMBER, OTHER_ACCOUNT)
        target = folder / file.relative_to(written).with_name("part-2.csv.gz")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(gzip.compress(told.replace("row", "member").encode(), 1, mtime=0))
    shutil.rmtree(written)


def notebooks(account: Account) -> list[Line]:
    """Return the hours of a notebook of one name in each of two regions: one is never stopped."""
    begun = account.hours - 40 * 24
    return [
        Line(
            "Usage",
            "AmazonSageMaker",
            "Notebk:ml.g5.xlarge",
            hour,
            usd,
            usd,
            resource=f"arn:aws:sagemaker:{region}:{NUMBER}:notebook-instance/trial",
        )
        for region, usd, often in (("us-west-2", 1.41, 1), ("us-east-1", 1.34, 3))
        for hour in range(begun, account.hours, often)
    ]


def bill_alone(folder: Path) -> None:
    """Write a FOCUS export, and nothing that runs."""
    generate(folder, 7, "tiny", SimulationTiming(days=0.5), Files(bill="focus1.2"))
    for part in ("metrics", "neuron-monitor", "api"):
        shutil.rmtree(folder / part, ignore_errors=True)


def metrics_alone(folder: Path) -> None:
    """Write three nodes of which two idle, and no bill."""
    generate(folder, 7, "tiny")
    shutil.rmtree(folder / "billing")


WORLDS: Mapping[str, Callable[[Path], None]] = {
    "clusters": account_of_clusters,
    "accounts": two_accounts,
    "bill": bill_alone,
    "metrics": metrics_alone,
}
"""The recordings by name."""


def recorded(world: str) -> Path:
    """Return the folder of a world, which outlives the run until these definitions change."""
    version = hashlib.sha256(inspect.getsource(sys.modules[__name__]).encode()).hexdigest()[:8]
    return made_once(CACHE / f"answers-{world}-{version}", WORLDS[world])
