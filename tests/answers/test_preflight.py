"""A job is read before it starts: by whom it would be launched, how many nodes it needs, and whether it would run."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from itertools import permutations
from pathlib import Path

import pytest

from adapters.store.memory import MemoryStore
from bot.answers.plan.preflight import (
    Ask,
    Launch,
    PreflightCheck,
    Priced,
    preflight_card,
    read_launch,
)
from bot.app import App
from bot.cards.card import Table, Tone
from bot.errors import WrongInput
from bot.grammar.access import Access
from bot.knowledge import load_knowledge
from bot.model.anomaly import Detection
from bot.model.fleet import Market, Quota, Refusal
from bot.model.labels import Labels
from bot.model.price import Basis
from bot.ports import NoFiles
from bot.wiring.source import OpenedSource
from tests.answers.advice_world import World, quote
from tests.answers.configuring import app, ask, buttons, refused
from tests.builders import NOON, ports_over, price

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
        "[" * 1_000,
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


async def card_of(world: World, line: str, source: str = SLURM):
    """Return the answer about a script of sixteen nodes in a world."""
    quiet = {"detect": lambda *_: Detection(), "compiles": lambda *_: ()}
    ports = ports_over(world, MemoryStore(), knowledge=load_knowledge(), **quiet)
    ports = replace(ports, site=replace(ports.site, files=Texts(source)))
    bot = App(ports, (), Access(), lambda: 0.0)
    return await ask(bot, line, surface="terminal", at=NOON)


async def check_of(name: str, world: World, line: str) -> str:
    """Return what a check says of the sixteen nodes of a script in a world."""
    card = await card_of(world, line)
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


async def test_the_speed_of_a_run_on_another_type_is_no_speed_of_this_job() -> None:
    world = World(
        ("east", "trn2.48xlarge", "us-west-2", 4, 0.8, 40.0), runs=[("a", "east", 10e6, 8e9)]
    )
    says = await length_of(world, "a")
    assert "a ran on trn2.48xlarge, and its speed says nothing of trn1.32xlarge" in says
    assert await length_of(world, "a", "hours=2") == "2.0 hours as typed"


async def test_a_quota_that_nobody_read_is_not_known_to_be_enough() -> None:
    world = World(("east", "trn1.32xlarge", "us-west-2", 1, 0.8, 40.0))
    card = await card_of(world, "preflight x.sh")
    (quota,) = [check for check in card.data["checks"] if check["name"] == "quota"]
    assert (quota["ok"], quota["known"]) == (True, False)
    assert card.tone is not Tone.GOOD


@pytest.mark.parametrize(
    ("array", "nodes", "hours"),
    [("0-9%3", 12, 40 / 3), ("1,3,8-9", 16, 4), ("0-31:4%99", 32, 4), ("7", 4, 4)],
)
def test_each_task_of_an_array_takes_its_nodes_for_its_time(array, nodes, hours) -> None:
    lines = ("--nodes=2-4", f"--array={array}", "--time=04:00:00", "-C trn1.32xlarge")
    launch = read_launch("\n".join(f"#SBATCH {line}" for line in lines))
    assert launch.asks[0].pods == nodes
    assert launch.limit / timedelta(hours=1) == pytest.approx(hours)


@pytest.mark.parametrize("array", ["some", "9-0", "0-9999999", "1;2"])
def test_what_is_no_array_of_tasks_is_refused(array) -> None:
    with pytest.raises(WrongInput, match="is not an array of tasks"):
        read_launch(f"#SBATCH --nodes=1 --array={array}")


def test_a_manifest_that_breaks_off_says_in_which_line() -> None:
    with pytest.raises(WrongInput, match="breaks off in line 3"):
        read_launch("kind: Job\nmetadata: {name: x\nspec: 1\n")


@pytest.mark.parametrize(
    ("written", "nodes", "kind"),
    [
        ("#SBATCH --nodes=4-8 --constraint=trn1.2xlarge", 8, "trn1.2xlarge"),
        ("#SBATCH -N1 -p trn2.48xlarge", 1, "trn2.48xlarge"),
        ("#SBATCH -N100000", 100_000, ""),
        ("#SBATCH --exclusive -N 3", 3, ""),
        ("#SBATCH --job-name=x", 1, ""),
        ("#SBATCH -N 0", None, ""),
        ("#SBATCH -N 100001", None, ""),
        ("#SBATCH --nodes=many", None, ""),
    ],
)
def test_a_slurm_script_may_take_as_many_nodes_as_its_range_allows(written, nodes, kind):
    if nodes is None:
        with pytest.raises(WrongInput, match="is not a number of nodes"):
            read_launch(written)
    else:
        assert read_launch(written).asks == (Ask(kind, nodes),)


def changed(kind: str, before: dict | None, after: dict | None) -> dict:
    return {"type": kind, "change": {"before": before, "after": after}}


def group(n: int, **more: str) -> dict:
    return {"instance_types": ["trn1.32xlarge"], "scaling_config": [{"desired_size": n}], **more}


@pytest.mark.parametrize(
    ("change", "added"),
    [
        (changed("aws_eks_node_group", group(4), group(4)), None),
        (changed("aws_eks_node_group", group(5), group(4)), None),
        (changed("aws_eks_node_group", group(4), group(5)), (1, Market.ON_DEMAND)),
        (
            changed("aws_eks_node_group", group(4), group(4, capacity_type="SPOT")),
            (4, Market.SPOT),
        ),
        (
            changed("aws_spot_instance_request", None, {"instance_type": "trn1.32xlarge"}),
            (1, Market.SPOT),
        ),
        (
            changed(
                "aws_ec2_capacity_reservation",
                None,
                {"instance_type": "trn1.32xlarge", "instance_count": 3},
            ),
            (3, Market.ON_DEMAND),
        ),
        (changed("aws_s3_bucket", None, {"instance_type": "trn1.32xlarge"}), None),
    ],
)
def test_a_plan_adds_the_growth_of_each_type_by_the_market_it_is_bought_in(change, added):
    source = json.dumps({"resource_changes": [change, 7]})
    if added is None:
        with pytest.raises(WrongInput, match="asks for no accelerated node"):
            read_launch(source)
    else:
        n, market = added
        assert read_launch(source).asks == (Ask("trn1.32xlarge", n, market=market),)


def pod(resources: str, rest: str = "") -> str:
    return f"kind: Job\nspec: {{template: {{spec: {{containers: [{{resources: {resources}}}]{rest}}}}}}}"


def test_a_selector_goes_before_an_affinity_and_requests_stand_where_there_are_no_limits():
    def affinity(operator: str) -> str:
        key = "node.kubernetes.io/instance-type"
        return f", affinity: {{x: [{{key: {key}, operator: {operator}, values: [trn2.48xlarge]}}]}}"

    selector = ", nodeSelector: {node.kubernetes.io/instance-type: trn1.32xlarge}"
    limits, requests = (f"{{{x}: {{aws.amazon.com/neuron: 2}}}}" for x in ("limits", "requests"))
    asked = [
        read_launch(pod(*parts)).asks
        for parts in (
            (limits, selector + affinity("In")),
            (requests, affinity("In")),
            (limits, affinity("NotIn")),
            ("{}", selector),
        )
    ]
    assert asked == [
        (Ask("trn1.32xlarge", 1, 2),),
        (Ask("trn2.48xlarge", 1, 2),),
        (Ask("", 1, 2),),
        (Ask("trn1.32xlarge", 1),),
    ]
    # The longest of several deadlines is the limit, and other documents name nothing.
    two = "\n---\n".join(
        pod(limits).replace("spec:", f"metadata: {{name: {x}}}\nspec:", 1)
        + f"\nactiveDeadlineSeconds: {n}"
        for x, n in (("a", 60), ("b", 90), ("c", 30))
    )
    launch = read_launch(two + "\n---\nkind: Service\nactiveDeadlineSeconds: 900\n")
    assert (launch.of, launch.limit) == ("Job a and Job b and Job c", timedelta(seconds=90))


def test_nodes_are_counted_by_devices_or_by_cores(types):
    kind = types["trn1.32xlarge"]
    assert (kind.chips, kind.cores) == (16, 32)
    counts = {(0, 0): 5, (16, 0): 5, (8, 0): 3, (5, 0): 2, (1, 0): 1, (0, 32): 5, (0, 17): 5}
    for (devices, cores), n in counts.items():
        assert Ask(kind.name, 5, devices, cores).nodes(kind) == n, (devices, cores)
    with pytest.raises(WrongInput, match="33 NeuronCores"):
        Ask(kind.name, 1, 0, 33).nodes(kind)


def test_the_card_adds_up_what_is_known_of_every_part_and_shows_what_fails_first():
    listed = price("20.00")
    dear, small = (
        Priced(Ask(name, n), n, replace(listed, instance_type=name), Decimal(3))
        for name, n in (("trn2.48xlarge", 2), ("trn1.32xlarge", 1))
    )
    checks = [PreflightCheck(f"c{n}", n % 2 == 0, "") for n in range(4)]

    def drawn(*parts, checks=checks):
        card = preflight_card(Launch("x", ()), parts, checks, ())
        return card, [block for block in card.blocks if isinstance(block, Table)]

    card, (parts, held) = drawn(dear, small)
    assert [card.data[x] for x in ("nodes", "usd_per_hour", "usd", "hours")] == [3, 60, 180, 3]
    assert [row[0] for row in held.rows] == ["c1", "c3", "c0", "c2"]
    assert [button.line for button in buttons(card).values()] == [
        f"{name} trn1.32xlarge" for name in ("quota", "capacity", "spot")
    ]
    assert (card.tone, drawn(small, checks=checks[::2])[0].tone) == (Tone.WARNING, Tone.GOOD)
    assert (bool(parts.total), bool(drawn(small)[1][0].total)) == (True, False)
    # A total without a part of it would look like a price.
    unpriced = replace(small, price=None)
    for some in permutations((dear, unpriced)):
        assert drawn(*some)[0].data["usd_per_hour"] is None
        assert "price not known" in drawn(*some)[0].title
    endless = drawn(replace(dear, hours=None))[0]
    assert (endless.data["usd_per_hour"], endless.data["usd"]) == (40, None)


async def test_only_a_cheaper_way_to_buy_the_same_nodes_is_offered_and_spot_is_no_promise() -> None:
    world = World(("east", "trn1.32xlarge", "us-west-2", 1, 0.8, 40.0))
    kind, west = "trn1.32xlarge", "us-west-2"

    async def offered(**usd: str) -> list[bool]:
        world.quoted = [quote(kind, "20.00", west)] + [
            quote(kind, value, west, Market(name.replace("_", "-")), Basis.LISTED)
            for name, value in usd.items()
        ]
        shown = str((await card_of(world, "preflight x.sh hours=1")).blocks)
        return [words in shown for words in ("50 % less", "25 % less", "not guaranteed")]

    assert await offered(spot="10.00", capacity_block="15.00") == [True, False, True]
    assert await offered(spot="30.00", capacity_block="15.00") == [False, True, False]
    assert await offered(spot="20.00", capacity_block="20.00") == [False, False, False]


async def test_a_refusal_of_the_type_fails_a_check_and_one_that_nobody_asked_about_is_none() -> (
    None
):
    world = World(("east", "trn1.32xlarge", "us-west-2", 1, 0.8, 40.0))

    async def capacity(refusals) -> list[bool]:
        world.reading = replace(world.reading, refusals=refusals)
        data = (await card_of(world, "preflight x.sh hours=1")).data
        return [x["ok"] for x in data["checks"] if x["name"] == "capacity"]

    labels = Labels(region="us-west-2", zone="us-west-2a", instance_type="trn1.32xlarge")
    refused_once = Refusal("r", NOON - timedelta(hours=1), labels, False)
    other = replace(refused_once, labels=replace(labels, instance_type="trn2.48xlarge"))
    assert [await capacity(x) for x in ((refused_once,), (other,), (), None)] == [
        [False],
        [True],
        [True],
        [],
    ]


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("hours=36.5", "36.5 hours as typed"),
        ("hours=36.6", "it needs 36.6 hours, and its own limit ends it after 36.5"),
        ("", "ended after 36.5 hours by its limit"),
        ("hours=100001", "hours is 0 to 100,000"),
        ("tokens=1", "tokens and run go together"),
        ("run=a", "tokens and run go together"),
    ],
)
async def test_the_length_is_what_was_typed_else_the_limit(line: str, says: str) -> None:
    world = World(("east", "trn1.32xlarge", "us-west-2", 1, 0.8, 40.0))
    assert says in await check_of("length", world, f"preflight x.sh {line}")
