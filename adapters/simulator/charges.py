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
    yield from _plans(scenario, fleet, begin, end)
    yield from _account(begin, end)
    yield from _incidents(scenario, fleet)


def cluster_tags(cluster: PlannedCluster) -> dict[str, str]:
    """Return the cost allocation tags of a cluster's things; empty values are left out."""
    named = {
        "team": cluster.team,
        "project": cluster.project,
        "owner": cluster.owner,
        "aws:eks:cluster-name": cluster.name,
    }
    return {key: value for key, value in named.items() if value}


def _node(node: SimulatedNode, fleet: Fleet, begin: datetime, end: datetime) -> Iterator[Charge]:
    starts = max(begin, fleet.at(node.launched_minute))
    ends = end if node.ended_minute is None else fleet.at(node.ended_minute)
    if starts >= ends:
        return
    machine, name = node.hardware, node.cluster.instance_type
    hours = Charge(
        kind="Usage",
        product="AmazonEC2",
        usage_type=f"{usage_prefix(node.cluster.region)}BoxUsage:{name}",
        operation="RunInstances",
        region=node.cluster.region,
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
    yield _bought(hours, node, fleet.seed)
    if node.job.kind in (Kind.INFERENCE, Kind.RESEARCH):
        yield from _pods(hours, node)


def _bought(hours: Charge, node: SimulatedNode, seed: int) -> Charge:
    if node.market == "savings-plan":
        arn = savings_plan_arn(hours.instance_type, seed)
        return replace(
            hours,
            kind="SavingsPlanCoveredUsage",
            plan=arn,
            effective=savings_plan_rate(node.hardware),
        )
    if node.market == "spot":
        rate = (hours.rate * Decimal(str(SPOT_SHARE))).quantize(Decimal("0.0001"))
        text = f"{hours.instance_type} Linux/UNIX Spot Instance-hour in {node.zone}"
        usage_type = hours.usage_type.replace("BoxUsage", "SpotUsage")
        return replace(
            hours,
            rate=rate,
            usage_type=usage_type,
            operation="RunInstances:SV001",
            description=text,
        )
    if node.market == "capacity-block":
        return replace(
            hours,
            rate=Decimal(0),
            description=f"$0.00 per Capacity Block {hours.instance_type} Instance Hour",
        )
    return hours


def _pods(hours: Charge, node: SimulatedNode) -> Iterator[Charge]:
    for service, ratio in (("worker", "0.55"), ("router", "0.30")):
        pod = f"{node.job.name}-{service}-{node.row}"
        arn = f"arn:aws:eks:{hours.region}:{ACCOUNT}:pod/{node.cluster.name}/{node.cluster.team or 'default'}/{pod}/{node.id[2:]}"
        yield replace(
            hours,
            operation="EKSPod-EC2",
            usage_type=f"{usage_prefix(hours.region)}EKS-EC2-vCPU-Hours",
            unit="vCPU-Hours",
            resource=arn,
            parent=node.id,
            ratio=Decimal(ratio),
            effective=hours.rate,
            rate=Decimal(0),
            description="EKS split cost allocation",
            tags=dict(hours.tags)
            | {
                "aws:eks:namespace": node.cluster.team or "default",
                "aws:eks:workload-name": f"{node.job.name}-{service}",
                "aws:eks:node": node.name,
            },
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
        at = first + timedelta(days=day)
        until = min(at + timedelta(days=1), end)
        alive = sum(
            n.launched_minute <= (at - fleet.start).total_seconds() / 60
            for n in fleet.of(cluster.name)
        )
        size = alive * float(rng.normal(1, 0.06))
        for usage_type, units in (
            ("Requests-Tier1", 21_000 * size),
            ("Requests-Tier2", 900_000 * size),
            ("TimedStorage-ByteHrs", 160 * alive + 3 * day),
            ("DataTransfer-Regional-Bytes", 45 * size),
            ("NatGateway-Bytes", 6 * size),
            ("DataTransfer-Out-Bytes", 1.5 * size),
        ):
            charge = _rated(cluster, at, at + timedelta(days=1), usage_type)
            stored = charge.product == "AmazonS3"
            if not stored or until < end:
                resource = bucket if stored else ""
                yield replace(charge, units=Decimal(f"{max(units, 0):.3f}"), resource=resource)


def _storage(scenario: Scenario, fleet: Fleet, begin: datetime, end: datetime) -> Iterator[Charge]:
    for system in file_systems(scenario, fleet):
        arn = f"arn:aws:fsx:{system.cluster.region}:{ACCOUNT}:file-system/{system.id}"
        charge = _rated(system.cluster, begin, end, "Storage.SSD.250")
        gb_months = (Decimal(str(system.tib)) * 1000 / GB_MONTH_DAYS).quantize(Decimal("0.000001"))
        yield replace(charge, units=gb_months, resource=arn)
    roots = [
        (f"{n.id.replace('i-', 'vol-')}", n.cluster, 200, n.launched_minute, n.ended_minute)
        for n in fleet.nodes
    ]
    data = [(v.id, v.cluster, v.gib, -(10**6), None) for v in volumes(scenario, fleet)]
    for volume, cluster, gib, launched, ended in roots + data:
        starts, ends = max(begin, fleet.at(launched)), end if ended is None else fleet.at(ended)
        if starts < ends:
            charge = _rated(cluster, starts, ends, "EBS:VolumeUsage.gp3")
            units = (gib / GB_MONTH_DAYS).quantize(Decimal("0.000001"))
            yield replace(charge, units=units, resource=volume)


def _plans(scenario: Scenario, fleet: Fleet, begin: datetime, end: datetime) -> Iterator[Charge]:
    for instance_type, hourly in commitments(scenario).items():
        region = next(
            c.region for c in scenario.clusters if c.instance_type == instance_type and _covered(c)
        )
        yield Charge(
            kind="SavingsPlanRecurringFee",
            product="ComputeSavingsPlans",
            usage_type=f"{usage_prefix(region)}EC2SP:{instance_type.partition('.')[0]}.1yrNoUpfront",
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
        yield from _blocks(cluster, fleet, begin)


def _covered(cluster: PlannedCluster) -> bool:
    return any(job.market == "savings-plan" for job in cluster.jobs)


def _blocks(cluster: PlannedCluster, fleet: Fleet, begin: datetime) -> Iterator[Charge]:
    """Yield a Capacity Block's price, charged up front on the first billed day for 60 days."""
    nodes = block_nodes(cluster, fleet)
    if nodes:
        instance_type = cluster.instance_type
        charge = _daily(
            cluster,
            begin,
            begin + timedelta(hours=1),
            "AmazonEC2",
            f"CapacityBlock:{instance_type}",
        )
        yield replace(
            charge,
            kind="Fee",
            step=HOUR,
            unit="Hrs",
            units=Decimal(len(nodes) * BLOCK_DAYS * 24),
            rate=nodes[0].hardware.usd_per_hour,
            description=f"Capacity Block upfront fee, {len(nodes)} x {instance_type}, {BLOCK_DAYS} days",
            instance_type=instance_type,
            resource=f"arn:aws:ec2:{cluster.region}:{ACCOUNT}:capacity-reservation/{reservation_id(cluster, fleet.seed)}",
        )


def _account(begin: datetime, end: datetime) -> Iterator[Charge]:
    blank = Charge(
        "Fee",
        "AWSSupportBusiness",
        "Dollar",
        "",
        "us-east-1",
        begin,
        end,
        Decimal(1),
        SUPPORT_USD_A_MONTH,
        step=MONTH,
    )
    yield replace(blank, description="AWS Support (Business)", unit="Dollar")
    credit = replace(blank, kind="Credit", product="AmazonEC2", rate=CREDIT_USD_A_DAY, step=DAY)
    yield replace(
        credit,
        usage_type="BoxUsage",
        starts=begin.replace(hour=0),
        description="AWS Activate credit",
    )


def _incidents(scenario: Scenario, fleet: Fleet) -> Iterator[Charge]:
    by_name = {c.name: c for c in scenario.clusters}
    for incident in scenario.incidents:
        cluster = by_name[incident.cluster]
        usage = usage_of(incident, cluster)
        if usage is None or incident.at * 60 >= fleet.minutes:
            continue
        starts, ends = (
            fleet.at(incident.at * 60),
            fleet.at(min(fleet.minutes, (incident.at + incident.hours) * 60)),
        )
        charge = _daily(replace(cluster, region=usage.region), starts, ends, usage.product, "")
        units = (Decimal(str(incident.level)) / 24 / usage.rate).quantize(Decimal("0.000001"))
        text = incident.note or usage.usage_type
        yield replace(
            charge,
            usage_type=usage.usage_type,
            step=HOUR,
            units=units,
            rate=usage.rate,
            description=text,
        )
