"""List the charges of the simulated account: a rate, a quantity and a period each.

The bill cuts them into rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from decimal import Decimal
from math import ceil

from adapters.simulator.fleet import (
    ACCOUNT,
    BLOCK_DAYS,
    Fleet,
    SimulatedNode,
    billed_from,
    block_nodes,
    file_systems,
    rates,
    reservation_id,
    usage_of,
    usage_prefix,
    volumes,
)
from adapters.simulator.offers import SPOT_SHARE, commitments, savings_plan_arn, savings_plan_rate
from adapters.simulator.scenario import Kind, PlannedCluster, Scenario
from adapters.simulator.workload import generator

HOUR, DAY, MONTH = "1 hour", "1 day", "1 month"
GB_MONTH_DAYS = Decimal("30.4375")
MICRO = Decimal("0.000001")
CREDIT_USD_A_DAY = Decimal("-150")
SUPPORT_USD_A_MONTH = Decimal("4900")
"""These two are the invented account's own.

AWS's list prices are in `rates.csv` and `hardware.csv`.
"""


@dataclass(frozen=True)
class Charge:
    """Describe rows of one kind: `units` a step at `rate` USD each, from `starts` to `ends`."""

    kind: str
    product: str
    usage_type: str
    operation: str
    region: str
    starts: datetime
    ends: datetime
    units: Decimal
    rate: Decimal
    step: str = HOUR
    unit: str = "Hrs"
    resource: str = ""
    zone: str = ""
    instance_type: str = ""
    description: str = ""
    tags: Mapping[str, str] = field(default_factory=dict)
    plan: str = ""
    effective: Decimal = Decimal(0)
    parent: str = ""
    ratio: Decimal = Decimal(0)


def charges(scenario: Scenario, fleet: Fleet) -> Iterator[Charge]:
    """Yield every charge of the billed span."""
    begin = billed_from(scenario, fleet)
    end = fleet.at(fleet.minutes)
    for node in fleet.nodes:
        yield from _node(node, fleet, begin, end)
    for cluster in scenario.clusters:
        yield from _everyday(cluster, fleet, begin, end)
    yield from _storage(scenario, fleet, begin, end)
    yield from _commitments(scenario, fleet, begin, end)

    # Support and credits are the account's, no cluster's.
    support = Charge(
        kind="Fee",
        product="AWSSupportBusiness",
        usage_type="Dollar",
        operation="",
        region="us-east-1",
        starts=begin,
        ends=end,
        units=Decimal(1),
        rate=SUPPORT_USD_A_MONTH,
        step=MONTH,
        unit="Dollar",
        description="AWS Support (Business)",
    )
    yield support
    yield replace(
        support,
        kind="Credit",
        product="AmazonEC2",
        usage_type="BoxUsage",
        starts=begin.replace(hour=0),
        rate=CREDIT_USD_A_DAY,
        step=DAY,
        unit="Hrs",
        description="AWS Activate credit",
    )

    # An incident of money is usage that was not there before.
    by_name = {cluster.name: cluster for cluster in scenario.clusters}
    for incident in scenario.incidents:
        cluster = by_name[incident.cluster]
        usage = usage_of(incident, cluster)
        if usage is None or incident.at * 60 >= fleet.minutes:
            continue
        until = min(fleet.minutes, (incident.at + incident.hours) * 60)
        where = replace(cluster, region=usage.region)
        yield replace(
            _daily(where, fleet.at(incident.at * 60), fleet.at(until), usage.product, ""),
            usage_type=usage.usage_type,
            step=HOUR,
            units=(Decimal(str(incident.level)) / 24 / usage.rate).quantize(MICRO),
            rate=usage.rate,
            description=incident.note or usage.usage_type,
        )


def cluster_tags(cluster: PlannedCluster) -> dict[str, str]:
    """Return the cost allocation tags of a cluster's things; empty values are left out."""
    tags = {
        "team": cluster.team,
        "project": cluster.project,
        "owner": cluster.owner,
        "aws:eks:cluster-name": cluster.name,
    }
    return {key: value for key, value in tags.items() if value}


def _node(node: SimulatedNode, fleet: Fleet, begin: datetime, end: datetime) -> Iterator[Charge]:
    """Yield the hours of a node as they were bought, and the shares of the pods on it."""
    starts = max(begin, fleet.at(node.launched_minute))
    ends = end if node.ended_minute is None else fleet.at(node.ended_minute)
    if starts >= ends:
        return
    machine, name, region = node.hardware, node.cluster.instance_type, node.cluster.region
    hours = Charge(
        kind="Usage",
        product="AmazonEC2",
        usage_type=f"{usage_prefix(region)}BoxUsage:{name}",
        operation="RunInstances",
        region=region,
        starts=starts,
        ends=ends,
        units=Decimal(1),
        rate=machine.usd_per_hour,
        resource=node.id,
        zone=node.zone,
        instance_type=name,
        description=f"${machine.usd_per_hour} per On Demand Linux {name} Instance Hour",
        tags=cluster_tags(node.cluster),
    )
    match node.market:
        case "savings-plan":
            yield replace(
                hours,
                kind="SavingsPlanCoveredUsage",
                plan=savings_plan_arn(name, fleet.seed),
                effective=savings_plan_rate(machine),
            )
        case "spot":
            yield replace(
                hours,
                rate=(hours.rate * Decimal(str(SPOT_SHARE))).quantize(Decimal("0.0001")),
                usage_type=hours.usage_type.replace("BoxUsage", "SpotUsage"),
                operation="RunInstances:SV001",
                description=f"{name} Linux/UNIX Spot Instance-hour in {node.zone}",
            )
        case "capacity-block":
            text = f"$0.00 per Capacity Block {name} Instance Hour"
            yield replace(hours, rate=Decimal(0), description=text)
        case _:
            yield hours

    if node.job.kind not in (Kind.INFERENCE, Kind.RESEARCH):
        return

    # What the pods do not share among them stays the node's own.
    namespace = node.cluster.team or "default"
    for service, ratio in (("worker", "0.55"), ("router", "0.30")):
        workload = f"{node.job.name}-{service}"
        pod = f"{node.cluster.name}/{namespace}/{workload}-{node.row}/{node.id[2:]}"
        tags = {
            "aws:eks:namespace": namespace,
            "aws:eks:workload-name": workload,
            "aws:eks:node": node.name,
        }
        yield replace(
            hours,
            operation="EKSPod-EC2",
            usage_type=f"{usage_prefix(region)}EKS-EC2-vCPU-Hours",
            unit="vCPU-Hours",
            resource=f"arn:aws:eks:{region}:{ACCOUNT}:pod/{pod}",
            parent=node.id,
            ratio=Decimal(ratio),
            effective=hours.rate,
            rate=Decimal(0),
            description="EKS split cost allocation",
            tags={**hours.tags, **tags},
        )


def _daily(
    cluster: PlannedCluster, begin: datetime, end: datetime, product: str, usage_type: str
) -> Charge:
    return Charge(
        kind="Usage",
        product=product,
        usage_type=usage_prefix(cluster.region) + usage_type,
        operation="",
        region=cluster.region,
        starts=begin,
        ends=end,
        units=Decimal(1),
        rate=Decimal(1),
        step=DAY,
        unit="GB",
        description=usage_type,
        tags=cluster_tags(cluster),
    )


def _rated(cluster: PlannedCluster, begin: datetime, end: datetime, usage_type: str) -> Charge:
    """Return a daily charge at the list's rate."""
    rate = rates()[usage_type]
    charge = _daily(cluster, begin, end, rate.product, usage_type)
    return replace(charge, unit=rate.unit, operation=rate.operation, rate=rate.usd)


def _everyday(
    cluster: PlannedCluster, fleet: Fleet, begin: datetime, end: datetime
) -> Iterator[Charge]:
    """Yield a day's S3 requests, storage and transfer, with the wobble of real days.

    S3's last day has not arrived yet.
    """
    rng = generator(fleet.seed, cluster.name, "everyday")
    bucket = f"{cluster.name}-datasets"
    first = begin.replace(hour=0)
    for day in range(ceil((end - first) / timedelta(days=1))):
        midnight = first + timedelta(days=day)
        until = midnight + timedelta(days=1)
        minute = (midnight - fleet.start).total_seconds() / 60
        alive = sum(node.launched_minute <= minute for node in fleet.of(cluster.name))
        size = alive * float(rng.normal(1, 0.06))
        for usage_type, units in (
            ("Requests-Tier1", 21_000 * size),
            ("Requests-Tier2", 900_000 * size),
            ("TimedStorage-ByteHrs", 160 * alive + 3 * day),
            ("DataTransfer-Regional-Bytes", 45 * size),
            ("NatGateway-Bytes", 6 * size),
            ("DataTransfer-Out-Bytes", 1.5 * size),
        ):
            # S3 tells of a day only when the next one has begun.
            charge = _rated(cluster, midnight, until, usage_type)
            stored = charge.product == "AmazonS3"
            if not stored or until < end:
                resource = bucket if stored else ""
                yield replace(charge, units=Decimal(f"{max(units, 0):.3f}"), resource=resource)


def _storage(scenario: Scenario, fleet: Fleet, begin: datetime, end: datetime) -> Iterator[Charge]:
    for system in file_systems(scenario, fleet):
        arn = f"arn:aws:fsx:{system.cluster.region}:{ACCOUNT}:file-system/{system.id}"
        charge = _rated(system.cluster, begin, end, "Storage.SSD.250")
        gb_months = (Decimal(str(system.tib)) * 1000 / GB_MONTH_DAYS).quantize(MICRO)
        yield replace(charge, units=gb_months, resource=arn)

    # Every node has a root volume, and some have one for data.
    roots = [
        (node.id.replace("i-", "vol-"), node.cluster, 200, node.launched_minute, node.ended_minute)
        for node in fleet.nodes
    ]
    data = [
        (volume.id, volume.cluster, volume.gib, -(10**6), None)
        for volume in volumes(scenario, fleet)
    ]
    for volume, cluster, gib, launched, ended in roots + data:
        starts, ends = max(begin, fleet.at(launched)), end if ended is None else fleet.at(ended)
        if starts < ends:
            charge = _rated(cluster, starts, ends, "EBS:VolumeUsage.gp3")
            yield replace(charge, units=(gib / GB_MONTH_DAYS).quantize(MICRO), resource=volume)


def _commitments(
    scenario: Scenario, fleet: Fleet, begin: datetime, end: datetime
) -> Iterator[Charge]:
    """Yield the hourly fee of each Savings Plan, and each Capacity Block's price.

    The price of a block is charged up front on the first billed day, for 60 days.
    """
    for instance_type, hourly in commitments(scenario).items():
        region = next(
            cluster.region
            for cluster in scenario.clusters
            if cluster.instance_type == instance_type
            and any(job.market == "savings-plan" for job in cluster.jobs)
        )
        family = instance_type.partition(".")[0]
        yield Charge(
            kind="SavingsPlanRecurringFee",
            product="ComputeSavingsPlans",
            usage_type=f"{usage_prefix(region)}EC2SP:{family}.1yrNoUpfront",
            operation="",
            region=region,
            starts=begin,
            ends=end,
            units=Decimal(1),
            rate=hourly,
            description="1 year No Upfront EC2 Instance Savings Plan",
            plan=savings_plan_arn(instance_type, fleet.seed),
        )

    for cluster in scenario.clusters:
        if not (nodes := block_nodes(cluster, fleet)):
            continue
        name, until = cluster.instance_type, begin + timedelta(hours=1)
        reservation = reservation_id(cluster, fleet.seed)
        yield replace(
            _daily(cluster, begin, until, "AmazonEC2", f"CapacityBlock:{name}"),
            kind="Fee",
            step=HOUR,
            unit="Hrs",
            units=Decimal(len(nodes) * BLOCK_DAYS * 24),
            rate=nodes[0].hardware.usd_per_hour,
            description=f"Capacity Block upfront fee, {len(nodes)} x {name}, {BLOCK_DAYS} days",
            instance_type=name,
            resource=f"arn:aws:ec2:{cluster.region}:{ACCOUNT}:capacity-reservation/{reservation}",
        )
