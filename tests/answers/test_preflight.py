"""A job is read before it starts: by whom it would be launched, how many nodes it needs, and whether it would run."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from adapters.store.memory import MemoryStore
from bot.answers.plan.preflight import read_launch
from bot.app import App
from bot.errors import WrongInput
from bot.grammar.access import Access
from bot.knowledge import load_knowledge
from bot.model.anomaly import Detection
from bot.model.fleet import Market, Quota
from bot.model.labels import Labels
from bot.ports import NoFiles
from bot.wiring.source import OpenedSource
from tests.answers.advice_world import World
from tests.answers.configuring import app, ask, refused
from tests.builders import NOON, ports_over

PYTORCH_JOB = """
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {name: llama-70b}
spec:
  runPolicy: {activeDeadlineSeconds: 43200}
  pytorchReplicaSpecs:
    Master:
      replicas: 1
      template: &pod
        spec:
          nodeSelector:
            node.kubernetes.io/instance-type: trn1.32xlarge
            karpenter.sh/capacity-type: spot
          containers:
          - name: train
            env: [{name: NEURON_COMPILE_CACHE_URL, value: "s3://graphs/llama"}]
            resources: {limits: {aws.amazon.com/neuron: 16}}
          - name: sidecar
    Worker:
      replicas: 15
      template: *pod
"""
JOB_SET = """
kind: JobSet
metadata: {name: sweep}
spec:
  replicatedJobs:
  - replicas: 4
    template:
      spec:
        parallelism: 3
        template:
          spec:
            affinity:
              nodeAffinity:
                requiredDuringSchedulingIgnoredDuringExecution:
                  nodeSelectorTerms:
                  - matchExpressions:
                    - {key: node.kubernetes.io/instance-type, operator: In, values: [trn1.32xlarge]}
            containers: [{name: a, resources: {limits: {aws.amazon.com/neuroncore: "8"}}}]
---
kind: Service
metadata: {name: sweep}
"""
SLURM = """#!/bin/bash
#SBATCH --job-name=vit --nodes=1
#SBATCH -N 16   # sixteen nodes
#SBATCH --time=1-12:30:00
#SBATCH --constraint="trn1.32xlarge"
export NEURON_CC_FLAGS="--cache_dir=/fsx/cache --model-type=transformer"
srun python train.py
"""
PLAN = {
    "resource_changes": [
        {
            "type": "aws_eks_node_group",
            "change": {
                "before": {
                    "instance_types": ["trn2.48xlarge"],
                    "capacity_type": "CAPACITY_BLOCK",
                    "scaling_config": [{"desired_size": 4}],
                },
                "after": {
                    "instance_types": ["trn2.48xlarge"],
                    "capacity_type": "CAPACITY_BLOCK",
                    "scaling_config": [{"desired_size": 16}],
                },
            },
        },
        *(
            {
                "type": "aws_instance",
                "change": {"before": None, "after": {"instance_type": kind}},
            }
            for kind in ("trn1.32xlarge", "trn1.32xlarge", "m5.large")
        ),
        {
            "type": "aws_instance",
            "change": {"before": {"instance_type": "inf2.48xlarge"}, "after": None},
        },
        {
            "type": "aws_sagemaker_cluster",
            "change": {
                "before": None,
                "after": {
                    "instance_groups": [
                        {"instance_type": "ml.trn1.32xlarge", "instance_count": 8},
                        {"instance_type": "ml.c5.xlarge", "instance_count": 1},
                    ]
                },
            },
        },
    ]
}


def nodes_of(source, types):
    launch = read_launch(source)
    return [(x.instance_type, x.nodes(types[x.instance_type]), x.market) for x in launch.asks]


@pytest.fixture
def types(bot: App):
    return bot.ports.world.knowledge.types()


def test_replicas_of_every_level_multiply_and_pods_share_nodes(types):
    assert nodes_of(PYTORCH_JOB, types) == [
        ("trn1.32xlarge", 1, Market.SPOT),
        ("trn1.32xlarge", 15, Market.SPOT),
    ]
    launch = read_launch(PYTORCH_JOB)
    assert (launch.of, launch.limit, launch.cache) == (
        "PyTorchJob llama-70b",
        timedelta(hours=12),
        "s3://graphs/llama",
    )
    # Twelve pods of 8 NeuronCores, four to a node of 32.
    assert nodes_of(JOB_SET, types) == [("trn1.32xlarge", 3, Market.ON_DEMAND)]
    five_more = JOB_SET.replace("replicas: 4", "replicas: 5")
    assert nodes_of(five_more, types) == [("trn1.32xlarge", 4, Market.ON_DEMAND)]


def test_a_slurm_script_counts_its_nodes_and_its_time(types):
    launch = read_launch(SLURM)
    assert nodes_of(SLURM, types) == [("trn1.32xlarge", 16, Market.ON_DEMAND)]
    assert (launch.limit, launch.cache) == (timedelta(hours=36, minutes=30), "/fsx/cache")


@pytest.mark.parametrize(
    ("written", "limit"),
    [
        ("90", timedelta(minutes=90)),
        ("90:30", timedelta(minutes=90, seconds=30)),
        ("2:00:00", timedelta(hours=2)),
        ("2-0", timedelta(days=2)),
        ("1-6:30", timedelta(days=1, hours=6, minutes=30)),
        ("soon", None),
    ],
)
def test_slurm_writes_time_in_six_ways(written, limit):
    assert read_launch(f"#SBATCH -N 2\n#SBATCH -t {written}\n").limit == limit


def test_a_plan_counts_what_it_adds(types):
    assert nodes_of(json.dumps(PLAN), types) == [
        ("trn2.48xlarge", 12, Market.CAPACITY_BLOCK),
        ("trn1.32xlarge", 2, Market.ON_DEMAND),
        ("ml.trn1.32xlarge", 8, Market.ON_DEMAND),
    ]


@pytest.mark.parametrize(
    "source",
    [
        "",
        "hello",
        "kind: Job\nspec: {template: {spec: {containers: [{name: web}]}}}",
        "a: &a [*a]",
        "[" * 5_000,
        "a: &a {x: 1}\nb: &b [*a, *a, *a, *a, *a, *a, *a, *a, *a]\n"
        + "".join(
            f"{c}: &{c} [{', '.join([f'*{p}'] * 9)}]\n"
            for p, c in zip("bcdefg", "cdefgh", strict=True)
        ),
        '{"resource_changes": 7}',
        "{" * 9_000 + '"resource_changes"',
        "kind: Job\nspec: {parallelism: -3, template: {spec: {containers: [7]}}}",
    ],
)
def test_anything_else_is_refused_in_one_sentence(source):
    with pytest.raises(WrongInput) as error:
        read_launch(source)
    assert "\n" not in str(error.value)


def test_a_pod_that_no_node_of_the_type_holds_is_refused(types):
    too_large = PYTORCH_JOB.replace("neuron: 16", "neuron: 17")
    with pytest.raises(WrongInput, match=r"asks for 17 Neuron devices; trn1\.32xlarge has 16"):
        nodes_of(too_large, types)


class Texts(NoFiles):
    def __init__(self, text: str) -> None:
        self._text = text

    def text(self, *_: object) -> str:
        return self._text


@pytest.fixture
def checked(opened: OpenedSource):
    """Ask a line about a file that holds a text."""

    async def ask_of(source: str, line: str = "preflight job.yaml"):
        bot = app(opened, MemoryStore(), files=Texts(source))
        return await ask(bot, line, surface="terminal")

    return ask_of


async def test_the_price_is_nodes_times_hours_and_the_checks_say_what_is_amiss(checked) -> None:
    card = await checked(PYTORCH_JOB)
    data = card.data
    assert data["nodes"] == 16
    for part in data["parts"]:
        assert part["usd_per_hour"] == part["nodes"] * part["node_usd_per_hour"]
    assert data["usd_per_hour"] == sum(part["usd_per_hour"] for part in data["parts"])
    assert data["usd"] == sum(part["usd"] for part in data["parts"])
    assert float(data["usd"]) == pytest.approx(float(data["usd_per_hour"]) * 12, abs=0.02)
    checks = {check["name"]: check["ok"] for check in data["checks"]}
    assert checks["length"]
    assert checks["compile cache"]

    bare = SLURM.replace("--cache_dir=/fsx/cache ", "").replace("#SBATCH --time=1-12:30:00\n", "")
    checks = {x["name"]: x for x in (await checked(bare)).data["checks"]}
    assert not checks["length"]["ok"]
    assert "no cache is named" in checks["compile cache"]["says"]
    local = SLURM.replace("/fsx/cache", "/tmp/cache")
    assert "is lost with the node" in str(await checked(local))


async def test_hours_and_a_type_may_be_typed(checked) -> None:
    card = await checked(SLURM.replace("trn1.32xlarge", "gpu"), "preflight x.sh hours=2")
    assert "type=trn1.32xlarge" in refused(card)
    line = "preflight x.sh hours=2 type=trn1.2xlarge"
    card = await checked(SLURM.replace("trn1.32xlarge", "gpu"), line)
    assert float(card.data["usd"]) == pytest.approx(float(card.data["usd_per_hour"]) * 2, abs=0.01)


async def test_a_job_that_needs_longer_than_it_may_run_is_said(checked) -> None:
    card = await checked(PYTORCH_JOB, "preflight job.yaml hours=20")
    (length,) = (x for x in card.data["checks"] if x["name"] == "length")
    assert not length["ok"]
    assert length["says"] == "it needs 20.0 hours, and its own limit ends it after 12.0"


async def test_a_chat_reads_no_file(bot: App) -> None:
    assert refused(await ask(bot, f"preflight {Path('/etc/hostname')}"))


async def check_of(name: str, world: World, line: str) -> str:
    """Return what a check says of the sixteen nodes of a script in a world."""
    quiet = {"detect": lambda *_: Detection(), "compiles": lambda *_: ()}
    ports = ports_over(world, MemoryStore(), knowledge=load_knowledge(), **quiet)
    ports = replace(ports, site=replace(ports.site, files=Texts(SLURM)))
    bot = App(ports, (), Access(), lambda: 0.0)
    card = await ask(bot, line, surface="terminal", at=NOON)
    (found,) = [x["says"] for x in card.data.get("checks", ()) if x["name"] == name] or [
        refused(card)
    ]
    return found


class Limited(World):
    """A world with a small quota for on-demand nodes and a large one for spot."""

    def read(self, now):
        reading = super().read(now)
        quotas = tuple(
            Quota("a quota", "L-1", Labels(region="us-west-2"), ("trn",), market, vcpus, NOON)
            for market, vcpus in ((Market.ON_DEMAND, 640), (Market.SPOT, 64_000))
        )
        types = load_knowledge().types()
        return replace(reading, inventory=replace(reading.inventory, types=types, quotas=quotas))


async def test_room_for_spot_is_none_for_nodes_on_demand() -> None:
    world = Limited(("east", "trn1.32xlarge", "us-west-2", 1, 0.8, 40.0))
    says = await check_of("quota", world, "preflight x.sh")
    assert says == "16 more trn1.32xlarge would be refused: room for 4 in us-west-2"


async def length_of(world: World, tokens_of: str, hours: str = "") -> str:
    """Return the finding on the length of sixteen nodes that do a billion tokens as a run does them."""
    line = f"preflight x.sh tokens=1 run={tokens_of} {hours}"
    return await check_of("length", world, line)


async def test_a_runs_speed_is_known_where_it_has_its_nodes_alone_and_asked_for() -> None:
    """Two runs of one cluster: of each of its nodes, nobody knows whose tokens it made."""
    clusters = [(name, "trn1.32xlarge", "us-west-2", 4, 0.8, 40.0) for name in ("east", "west")]
    runs = [
        (name, place, 10e6, 8e9) for name, place in (("a", "east"), ("b", "west"), ("c", "west"))
    ]
    world = World(*clusters, runs=runs)

    assert await length_of(world, "a") == "6.3 hours for 1 billion tokens at the speed of a"
    for shared in ("b", "c"):
        assert f"The speed of a node of {shared} is not known" in await length_of(world, shared)
    assert await length_of(world, "a", "hours=2") == "2.0 hours as typed"
