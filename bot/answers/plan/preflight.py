"""Read a job before it starts, and say its cost and whether it would start at all."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

from bot.answers.plan.capacity import launch_verdict, refused_of, use_of
from bot.answers.runs.costed import costed_runs, find_run, sample
from bot.cards.card import Button, Buttons, Card, Strong, Text, Tone, compose, quiet, text
from bot.cards.columns import COUNT, USD, Column, Columns, datum
from bot.cards.lines import quote
from bot.costs.pricing import Offers, Pricing
from bot.errors import Unavailable, WrongInput, refuse
from bot.grammar.names import known_region, known_type
from bot.grammar.registry import Needs, Topic, arg, command
from bot.model.fleet import InstanceType, Market, is_neuron
from bot.model.money import cents, counted, usd
from bot.model.price import Price
from bot.model.reading import Reading
from bot.model.request import Request
from bot.ports import Ports

_DEPTH, _VISITS = 60, 50_000
"""How deep a document is looked into, and at how many of its parts: anchors may multiply both."""
_TYPE_LABEL = "node.kubernetes.io/instance-type"
_MARKET_LABELS = ("karpenter.sh/capacity-type", "eks.amazonaws.com/capacityType")
_DEVICES = ("aws.amazon.com/neuron", "aws.amazon.com/neurondevice")
_CORES = "aws.amazon.com/neuroncore"
_COUNTS = ("replicas", "parallelism", "size")
"""Counts that multiply the pods below them: of a replica spec, a Job, a LeaderWorkerSet."""
_CACHE = re.compile(r"(?:NEURON_COMPILE_CACHE_URL=|--cache_dir[= ])[\"']?([^\s\"']+)")
_LOCAL = re.compile(r"/(?:var/)?tmp\b")
_SBATCH = re.compile(r"^#SBATCH\s+(.+)$", re.MULTILINE)
_SLURM = {
    "-N": "--nodes",
    "-t": "--time",
    "-C": "--constraint",
    "-p": "--partition",
    "-J": "--job-name",
    "-a": "--array",
}
_SLURM_TIME = re.compile(r"(?:(\d+)-)?(\d+)(?::(\d+))?(?::(\d+))?")
_SLURM_ARRAY = re.compile(r"(\d{1,6})(?:-(\d{1,6})(?::(\d{1,6}))?)?")
_TYPE = re.compile(r"\b(?:ml\.)?(?:trn|inf|p|g)\d\w*\.\w+\b")
_SPOT = {"spot": Market.SPOT, "capacity_block": Market.CAPACITY_BLOCK}

TERRAFORM: Mapping[str, tuple[str, str, str]] = {
    "aws_instance": ("instance_type", "", "instance_market_options"),
    "aws_spot_instance_request": ("instance_type", "", "spot"),
    "aws_ec2_capacity_reservation": ("instance_type", "instance_count", ""),
    "aws_eks_node_group": ("instance_types", "scaling_config.desired_size", "capacity_type"),
    "aws_sagemaker_cluster": (
        "instance_groups.instance_type",
        "instance_groups.instance_count",
        "",
    ),
}
"""Where a resource names its type, its number of nodes ("" = one), and its market."""


@dataclass(frozen=True)
class Ask:
    """State nodes that a job asks for; `pods` on nodes of a type that it may leave open."""

    instance_type: str
    pods: int
    devices: int = 0
    """Neuron devices of each pod; 0 with no `cores` = a whole node."""
    cores: int = 0
    market: Market = Market.ON_DEMAND

    def nodes(self, kind: InstanceType) -> int:
        """Return how many nodes of a type hold the pods; raise `WrongInput` where none fits."""
        units, has, noun = self.devices, kind.chips, "Neuron devices"
        if self.cores:
            units, has, noun = self.cores, kind.cores, "NeuronCores"
        if not units:
            return self.pods
        if units > has:
            raise WrongInput(f"A pod asks for {units} {noun}; {kind.name} has {has}.")

        return math.ceil(self.pods / (has // units))


@dataclass(frozen=True)
class Launch:
    """State a job or plan as read from its file."""

    of: str
    asks: tuple[Ask, ...]
    limit: timedelta | None = None
    """The time after which it is ended, None where it names none."""
    cache: str = ""
    """Where it keeps compiled graphs, "" where it does not say."""
    compiles: bool = True


def read_launch(source: str) -> Launch:
    """Return a Kubernetes manifest, a Slurm script or a Terraform plan (JSON) as a launch.

    Raise `WrongInput` for anything else, and where it asks for no Neuron node.
    """
    if _SBATCH.search(source):
        launch = _slurm(source)
    elif source.lstrip().startswith("{") and '"resource_changes"' in source:
        launch = _terraform(source)
    else:
        launch = _kubernetes(source)
    if not launch.asks:
        raise WrongInput(
            "The file asks for no accelerated node. A pod asks by aws.amazon.com/neuron or a node"
            " selector, a Slurm script by --nodes and --constraint, a plan by new instances."
        )

    return launch


def _slurm(source: str) -> Launch:
    options: dict[str, str] = {}
    for written in _SBATCH.findall(source):
        words = re.findall(r"[^\s\"']+(?:[\"'][^\"']*[\"'])?", written.partition(" #")[0])
        while words:
            name, equals, value = words.pop(0).partition("=")
            if len(name) > 2 and not name.startswith("--"):  # -N16
                name, equals, value = name[:2], "=", name[2:]
            if not equals and words and not words[0].startswith("-"):
                value = words.pop(0)
            options[_SLURM.get(name, name)] = value.strip("\"'")
    kind = _TYPE.search(f"{options.get('--constraint', '')} {options.get('--partition', '')}")
    # `--nodes=4-8` may take eight.
    nodes = options.get("--nodes", "1").partition("-")[2] or options.get("--nodes", "1")
    if not nodes.isdecimal() or not 0 < int(nodes) <= 100_000:
        raise WrongInput(f"'--nodes={nodes[:20]}' is not a number of nodes.")
    limit = None
    if match := _SLURM_TIME.fullmatch(options.get("--time", "")):
        days, first, second, third = (int(part) if part else 0 for part in match.groups())
        # Slurm: M, M:S, H:M:S, D-H, D-H:M and D-H:M:S.
        hours_first = match[1] is not None or match[4] is not None
        limit = (
            timedelta(days=days, hours=first, minutes=second, seconds=third)
            if hours_first
            else timedelta(minutes=first, seconds=second)
        )
    name, pods = f"Slurm job {options.get('--job-name', '')}".strip(), int(nodes)
    if written := options.get("--array", ""):
        tasks, at_once = _array(written)
        name, pods = f"{name}, {tasks:,} tasks, {at_once:,} at a time", pods * at_once
        # Each task may take the limit, and those that wait begin as others end.
        limit = limit * tasks / at_once if limit else None

    return Launch(name, (Ask(kind[0] if kind else "", pods),), limit, _cache(source))


def _array(written: str) -> tuple[int, int]:
    """Return how many tasks `--array` names, and how many of them run at a time at most."""
    indices, _, most = written.partition("%")
    tasks = 0
    for part in indices.split(","):
        match = _SLURM_ARRAY.fullmatch(part)
        if not match:
            raise WrongInput(f"'--array={written[:20]}' is not an array of tasks.")
        first, last, step = int(match[1]), int(match[2] or match[1]), int(match[3] or 1)
        tasks += max(0, (last - first) // max(1, step) + 1)
    at_once = min(tasks, int(most)) if most.isdecimal() and int(most) else tasks
    if not 0 < tasks <= 100_000:
        raise WrongInput(f"'--array={written[:20]}' is not an array of tasks.")

    return tasks, at_once


def _terraform(source: str) -> Launch:
    """Read the nodes that a plan adds; a node group that grows counts by its growth."""
    try:
        changes = json.loads(source)["resource_changes"]
    except (ValueError, RecursionError, TypeError, KeyError) as error:
        raise WrongInput("The plan is not JSON; write it with 'terraform show -json'.") from error
    added: Counter[tuple[str, Market]] = Counter()
    for change in changes if isinstance(changes, list) else ():
        paths = TERRAFORM.get(str(change.get("type"))) if isinstance(change, dict) else None
        states = change.get("change") if paths else None
        if not paths or not isinstance(states, dict):
            continue
        # A group that grows adds the difference; one that is replaced adds nothing.
        for key, sign in (("after", 1), ("before", -1)):
            state = states.get(key)
            kinds, counts = _at(state, paths[0]), _at(state, paths[1]) if paths[1] else [1]
            bought = str(_at(state, paths[2])).lower()
            market = next((x for name, x in _SPOT.items() if name in bought), Market.ON_DEMAND)
            # A request of spot instances says so by its type alone.
            market = Market.SPOT if paths[2] == "spot" else market
            for kind, count in zip(kinds, counts, strict=False):
                if isinstance(kind, str) and isinstance(count, int):
                    added[kind, market] += sign * count
    asks = (
        Ask(kind, n, market=market)
        for (kind, market), n in added.items()
        if n > 0 and _TYPE.fullmatch(kind)
    )

    return Launch("Terraform plan", tuple(asks), compiles=False)


def _at(state: object, path: str) -> list[Any]:
    """Return the values at a dotted path, through every block of a list."""
    states = [state]
    for name in path.split("."):
        inner = [part.get(name) for part in states if isinstance(part, dict)]
        states = [x for part in inner for x in (part if isinstance(part, list) else [part])]
    return states


def _kubernetes(source: str) -> Launch:
    """Read every pod that a manifest makes: whatever holds `containers`, times the counts above it."""
    import yaml

    try:
        documents = [x for x in yaml.safe_load_all(source) if isinstance(x, dict)]
    except (yaml.YAMLError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        breaks = f" As YAML it breaks off in line {mark.line + 1}." if mark else ""
        raise WrongInput(
            "The file is not a Kubernetes manifest, a Slurm script (#SBATCH) or a Terraform plan"
            f" (terraform show -json).{breaks}"
        ) from error
    asks: list[Ask] = []
    limits: list[int] = []
    names = []
    for document in documents:
        before = len(asks)
        pods = (x for x in _parts(document) if isinstance(x[0].get("containers"), list))
        asks += filter(None, (_pod_ask(pod, above) for pod, above in pods))
        if len(asks) > before:
            deadlines = [part.get("activeDeadlineSeconds") for part, _ in _parts(document)]
            limits += [seconds for seconds in deadlines if isinstance(seconds, int)]
            metadata = document.get("metadata")
            name = metadata.get("name", "") if isinstance(metadata, dict) else ""
            names.append(f"{document.get('kind', 'Job')} {name}".strip())
    limit = timedelta(seconds=max(limits)) if limits else None
    env = "\n".join(
        f"{part['name']}={part['value']}"
        for part, _ in _parts(documents)
        if isinstance(part.get("name"), str) and isinstance(part.get("value"), str)
    )

    return Launch(" and ".join(names[:3]), tuple(asks), limit, _cache(env))


def _parts(document: object) -> Iterator[tuple[dict[str, Any], tuple[dict[str, Any], ...]]]:
    """Yield every mapping of a document with those above it; raise `WrongInput` for too many."""
    stack: list[tuple[object, tuple[dict[str, Any], ...]]] = [(document, ())]
    # Anchors of YAML share parts, so that few lines may unfold to any number.
    for _ in range(_VISITS):
        if not stack:
            return
        part, above = stack.pop()
        if isinstance(part, dict):
            yield part, above
        inner = part.values() if isinstance(part, dict) else part if isinstance(part, list) else ()
        if len(above) < _DEPTH:
            below = (*above, part) if isinstance(part, dict) else above
            stack += [(x, below) for x in reversed(list(inner)) if isinstance(x, (dict, list))]
    raise WrongInput(f"The file has more than {_VISITS:,} parts; give only the job's.")


def _pod_ask(pod: Mapping[str, Any], above: Sequence[Mapping[str, Any]]) -> Ask | None:
    """Return the devices that pods of a spec ask for, None where they need no accelerator.

    There are as many pods as the counts of the parts above it come to.
    """
    count = math.prod(x[name] for x in above for name in _COUNTS if isinstance(x.get(name), int))
    amounts: Counter[str] = Counter()
    for container in pod["containers"]:
        resources = container.get("resources") if isinstance(container, dict) else None
        # A device is the same in limits and requests; Kubernetes refuses any other manifest.
        limits = (resources or {}).get("limits") or (resources or {}).get("requests") or {}
        for name, amount in limits.items() if isinstance(limits, dict) else ():
            if str(amount).isdecimal():
                amounts[name] += int(str(amount))
    # A selector is sure; of an affinity the first type that it admits is priced.
    selector = pod.get("nodeSelector")
    labels = dict(selector) if isinstance(selector, dict) else {}
    for part, _ in _parts(pod.get("affinity")):
        if isinstance(part.get("values"), list) and part.get("operator") == "In":
            labels.setdefault(part.get("key"), part["values"][0] if part["values"] else "")
    kind = str(labels.get(_TYPE_LABEL, ""))
    devices, cores = sum(amounts[name] for name in _DEVICES), amounts[_CORES]
    if not (devices or cores or _TYPE.fullmatch(kind)):
        return None
    bought = " ".join(str(labels.get(name, "")) for name in _MARKET_LABELS).lower()
    market = next((x for name, x in _SPOT.items() if name in bought), Market.ON_DEMAND)

    return Ask(kind, count, devices, cores, market) if count > 0 else None


def _cache(source: str) -> str:
    match = _CACHE.search(source)
    return match[1][:200] if match else ""


@dataclass(frozen=True)
class Priced:
    """State a part of a launch with its nodes and their price, None where nobody knows it."""

    ask: Ask
    nodes: int
    price: Price | None
    hours: Decimal | None

    @property
    def usd_per_hour(self) -> Decimal | None:
        """Return the USD an hour of all its nodes."""
        return self.price.usd_per_hour * self.nodes if self.price else None

    @property
    def usd(self) -> Decimal | None:
        """Return the USD in all, None where no length or no price is known."""
        hour = self.usd_per_hour
        return cents(hour * self.hours) if hour is not None and self.hours is not None else None


@dataclass(frozen=True)
class PreflightCheck:
    """State one check of a launch; `ok` is False where it would fail or waste.

    And whether it could be made at all: one that could not fails nothing, and reassures nobody.
    """

    name: str
    ok: bool
    says: str
    is_known: bool = True


PARTS = Columns[Priced](
    Column("nodes", lambda x: x.nodes, COUNT, "nodes", "pods / pods that fit one node, rounded up"),
    Column("type", lambda x: x.ask.instance_type, key="instance_type"),
    Column("bought", lambda x: x.ask.market.value, key="market"),
    Column(
        "node $/h",
        lambda x: x.price.usd_per_hour if x.price else None,
        USD,
        "node_usd_per_hour",
        "best-founded price of the type and market: the account's own, else listed",
        missing="not known",
    ),
    Column(
        "$/h",
        lambda x: x.usd_per_hour,
        USD,
        "usd_per_hour",
        "nodes x the price of a node's hour",
        total=True,
    ),
    Column("in all", lambda x: x.usd, USD, "usd", "USD an hour x hours", total=True),
    datum("region", lambda x: x.price.region if x.price else ""),
    datum("price_asof", lambda x: x.price.asof if x.price else None),
)
CHECKS = Columns[PreflightCheck](
    Column("check", lambda x: x.name, key="name"),
    Column("result", lambda x: ("ok" if x.is_known else "not known") if x.ok else "look"),
    datum("ok", lambda x: x.ok),
    datum("known", lambda x: x.is_known),
    Column("finding", lambda x: x.says, key="says"),
)


def _sum(amounts: Sequence[Decimal | None]) -> Decimal | None:
    """Return the sum, None where one of the amounts is not known."""
    # A total that leaves out a part would look like a price.
    priced = [amount for amount in amounts if amount is not None]
    return sum(priced, Decimal(0)) if len(priced) == len(amounts) else None


def preflight_card(
    launch: Launch,
    parts: Sequence[Priced],
    checks: Sequence[PreflightCheck],
    cheaper: Sequence[Text],
) -> Card:
    """Draw price and checks, those that fail first."""
    per_hour = _sum([part.usd_per_hour for part in parts])
    total = _sum([part.usd for part in parts])
    nodes = sum(part.nodes for part in parts)
    price = "price not known" if per_hour is None else f"{usd(per_hour)} an hour"
    if total is not None:
        price += f", {usd(total)} in all"

    tone = Tone.GOOD if all(check.is_known for check in checks) else Tone.INFO
    if not all(check.ok for check in checks):
        tone = Tone.WARNING

    return Card(
        f"Preflight of {launch.of or 'the job'}: {counted(nodes, 'node')}, {price}",
        tone,
        compose(
            PARTS.table(parts, total="total" if len(parts) > 1 else ""),
            CHECKS.table(sorted(checks, key=lambda check: (check.ok, check.is_known))),
            cheaper,
            quiet(
                "Prices are estimates of nodes alone, without storage and transfer. Nothing is"
                " started, and AWS is not asked."
            ),
            Buttons(
                tuple(
                    Button(f"{name.capitalize()} {kind}", f"{name} {quote(kind)}")
                    for kind in sorted({part.ask.instance_type for part in parts})[:1]
                    for name in ("quota", "capacity", "spot")
                )
            ),
        ),
        {
            "of": launch.of,
            "nodes": nodes,
            "usd_per_hour": per_hour,
            "usd": total,
            "hours": parts[0].hours,
            "parts": PARTS.data(parts),
            "checks": CHECKS.data(checks),
        },
    )


def _checks(
    launch: Launch, parts: Sequence[Priced], reading: Reading, length: PreflightCheck
) -> Iterator[PreflightCheck]:
    """Yield the verdict on quota, capacity, length, cache and price."""
    launched = Counter[tuple[str, Market]]()
    for part in parts:
        launched[part.ask.instance_type, part.ask.market] += part.nodes
    for (kind, market), nodes in launched.items():
        quotas = [
            use_of(quota, reading.inventory, kind)
            for quota in reading.inventory.quotas
            if quota.counts(kind) and (quota.market is Market.SPOT) is (market is Market.SPOT)
        ]
        if market is Market.CAPACITY_BLOCK:
            yield PreflightCheck("quota", True, "a Capacity Block counts against no quota")
        elif quotas:
            tone, says = launch_verdict(quotas, kind, nodes)
            yield PreflightCheck("quota", tone is Tone.GOOD, says)
        else:
            says = f"no reading of a quota for {kind}: whether it would start is not known"
            yield PreflightCheck("quota", True, says, is_known=False)

        refused = refused_of(reading, kind)
        if refused:
            zones = ", ".join(f"{zone.zone} {zone.refused:,}" for zone in refused[:3])
            yield PreflightCheck("capacity", False, f"refused within 7 days: {zones}")
        elif refused is not None:
            yield PreflightCheck(
                "capacity", True, f"no request for {kind} was refused within 7 days"
            )

    yield length
    if launch.compiles:
        local = bool(_LOCAL.match(launch.cache))
        says = f"compiled graphs are kept in {launch.cache}"
        if not launch.cache:
            says = "no cache is named: every node compiles; set NEURON_COMPILE_CACHE_URL"
        elif local:
            says += ", which is lost with the node"
        yield PreflightCheck("compile cache", bool(launch.cache) and not local, says)
    if unpriced := sorted({part.ask.instance_type for part in parts if part.price is None}):
        yield PreflightCheck("price", False, f"no price is known for {', '.join(unpriced)}")


def _length(
    ports: Ports,
    request: Request,
    launch: Launch,
    nodes: Counter[str],
    work: tuple[Decimal, Decimal, str],
) -> tuple[Decimal, PreflightCheck]:
    """Return the hours that a launch takes, 0 where nobody knows, and the check of them.

    As typed, else by the speed of a run that did so many tokens, else as long as it may run.
    """
    limit = Decimal(str(launch.limit.total_seconds())) / 3600 if launch.limit else Decimal(0)
    typed, tokens, run = work
    hours = typed
    if run:
        measured = sample(find_run(costed_runs(ports, request.at), run))
        if not measured.millions:
            raise Unavailable(
                f"The speed of a node of {run} is not known: it reports no tokens, or shares its"
                " nodes with other runs."
            )
        elsewhere = sorted(set(nodes) - set(measured.types))
        if elsewhere and not typed:
            raise WrongInput(
                f"{run} ran on {', '.join(measured.types)}, and its speed says nothing of"
                f" {', '.join(elsewhere)}: name a run on that type, or give hours=N."
            )
        hours = typed or tokens * 1000 / (Decimal(str(measured.millions)) * nodes.total())

    if hours and limit and hours > limit:
        says = f"it needs {hours:,.1f} hours, and its own limit ends it after {limit:,.1f}"
        return hours, PreflightCheck("length", False, says)
    if hours:
        by = " as typed" if typed else f" for {tokens:,} billion tokens at the speed of {run}"
        return hours, PreflightCheck("length", True, f"{hours:,.1f} hours{by}")
    if limit:
        return limit, PreflightCheck("length", True, f"ended after {limit:,.1f} hours by its limit")
    says = "no time limit: it runs until somebody ends it; give hours=N for a total"

    return hours, PreflightCheck("length", False, says)


def _cheaper(part: Priced, offers: Offers, region: str) -> Text | None:
    """Return a sentence on the cheapest other way to buy the same nodes; None where none is."""
    if part.price is None:
        return None
    ways = [
        price
        for price in offers.each(part.ask.instance_type, region or part.price.region)
        if price.market is not part.ask.market and price.usd_per_hour < part.price.usd_per_hour
    ]
    if not ways:
        return None
    best = min(ways, key=lambda price: price.usd_per_hour)
    share = 1 - best.usd_per_hour / part.price.usd_per_hour
    sure = ", not guaranteed" if best.market is Market.SPOT else ""

    return text(
        Strong(f"{100 * share:.0f} % less"),
        f" for {part.ask.instance_type} as {best.market.value}: {usd(best.usd_per_hour)} a"
        f" node-hour in {best.region} ({best.origin}){sure}.",
    )


@command(
    "preflight",
    "Check a job before it starts (Kubernetes manifest, Slurm script, Terraform plan): its price,"
    " quota, capacity, compile cache, and cheaper ways to run it.",
    needs=Needs.METRICS | Needs.STATE,
    may=Needs.BILL,
    topic=Topic.PLANS,
    examples=("preflight job.yaml", "preflight train.sbatch hours=12", "preflight plan.json"),
    rows=("parts",),
    figures={
        **PARTS.sources("parts"),
        "nodes": "sum over the parts",
        "usd_per_hour": "sum over the parts",
        "usd": "sum over the parts",
        "hours": "as typed, else tokens / (tokens of the run a node-hour x nodes), else the limit",
    },
)
def preflight(
    ports: Ports,
    request: Request,
    path: str = arg(None, "the file (in a terminal)"),
    hours: Decimal = arg("0", "how long it will run", keyword=True),
    type_: str = arg("", "the instance type where the file names none", keyword=True),
    region: str = arg("", "where prices are looked up first", keyword=True),
    tokens: Decimal = arg("0", "tokens to train on, in billions, with run=", keyword=True),
    run: str = arg("", "a run whose measured speed per node is assumed here too", keyword=True),
) -> Card:
    """Price the nodes that a file asks for, and hold them against quota, refusals and settings."""
    refuse(
        (
            not 0 <= hours <= 100_000 or not 0 <= tokens <= 1_000_000,
            "hours is 0 to 100,000, tokens (billions) 0 to 1,000,000.",
        ),
        (
            bool(tokens) is not bool(run),
            f"tokens and run go together; write for example tokens=100 run={run or 'llama-8b'}.",
        ),
    )
    types, region = ports.world.knowledge.types(), known_region(region, ports)
    default = known_type(type_, types).name if type_ else ""
    if request.surface != "terminal":
        raise WrongInput(
            f"'{path[:60]}' can only be read in a terminal; write there 'trnbot preflight"
            f" {path[:60]}'."
        )
    launch = read_launch(ports.site.files.text(path, request))
    asks = [replace(ask, instance_type=ask.instance_type or default) for ask in launch.asks]
    if any(not ask.instance_type for ask in asks):
        raise WrongInput("The file names no instance type; give one, such as type=trn1.32xlarge.")
    nodes = [ask.nodes(known_type(ask.instance_type, types)) for ask in asks]

    by_type = Counter[str]()
    for ask, n in zip(asks, nodes, strict=True):
        by_type[ask.instance_type] += n

    hours, length = _length(ports, request, launch, by_type, (hours, tokens, run))
    reading = ports.world.source.read(request.at)
    offers = Offers(Pricing(ports).at(request.at))
    parts = [
        Priced(ask, n, offers.of(ask.instance_type, ask.market, region), hours or None)
        for ask, n in zip(asks, nodes, strict=True)
    ]
    options = (
        _cheaper(part, offers, region) for part in parts if is_neuron(part.ask.instance_type)
    )

    return preflight_card(
        launch,
        parts,
        list(_checks(launch, parts, reading, length)),
        list(dict.fromkeys(filter(None, options))),
    )
