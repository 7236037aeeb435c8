"""Write an account's bill as it stood at a moment, and what AWS's calls answered then."""

from __future__ import annotations

import csv
import gzip
import hashlib
import io
import itertools
import json
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np

from tests.months.accounts import (
    BLOCK_PRICE,
    BLOCK_TYPE,
    HOUR,
    PLAN_SHARE,
    PRICES,
    RESERVED_SHARE,
    Account,
    Block,
    Commitment,
    Group,
)

NUMBER = "111122223333"
PLAN = f"arn:aws:savingsplans::{NUMBER}:savingsplan/0b1c2d3e"
RESERVED = f"arn:aws:ec2:us-west-2:{NUMBER}:reserved-instances/5f6a7b8c"
LAG = 24
"""Hours after which a line of usage is in the export."""
TIERS = ((10_000, 0.10), (80_000, 0.07), (250_000, 0.05), (float("inf"), 0.03))
"""AWS Business Support by the month's charges: aws.amazon.com/premiumsupport/pricing, 2026-11-20."""
ENTERPRISE_USD = 15_000


@dataclass
class Line:
    """One line of a bill: USD of `hours` from hour `start`, and what it is when amortised."""

    kind: str
    service: str
    usage_type: str
    start: int
    cost: float
    amortised: float
    hours: int = 1
    amount: float = 1.0
    resource: str = ""
    instance_type: str = ""
    tags: dict[str, str] = field(default_factory=dict)
    columns: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Truth:
    """A month as it ended, in USD."""

    amortised: float
    net: float
    tax: float
    credits: float
    prepaid: float


@dataclass(frozen=True)
class Running:
    """One node from its launch to its end."""

    group: Group
    id: str
    start: int
    end: int


# Nodes


def running(account: Account) -> list[Running]:
    """Return every node that ever ran."""
    found = []
    for group in account.groups:
        for slot in range(int(group.nodes.max(initial=0))):
            on = np.concatenate(([0], (group.nodes > slot).astype(int), [0]))
            edges = np.flatnonzero(np.diff(on))
            for start, end in zip(edges[::2], edges[1::2], strict=True):
                # What ran at the first billed hour had been launched before, what runs at the last goes on.
                name = f"{account.seed}/{group.name}/{slot}/{start}"
                found.append(Running(group, _id(name), int(start), int(end)))
    return found


def _id(name: str) -> str:
    return "i-" + hashlib.sha256(name.encode()).hexdigest()[:17]


def _tags(group: Group) -> dict[str, str]:
    return {"user_team": group.team, "aws_eks_cluster_name": group.name}


# Lines


def lines(account: Account) -> list[Line]:
    """Return every line up to the month's end, in no order."""
    usage = [*_instances(account), *_extras(account), *_plans(account)]
    found = usage + [line for block in account.blocks for line in _block(account, block)]
    if account.discount:
        found += [_discounted(account, line) for line in usage if line.cost > 0 and _own(line)]
    found += list(_monthly(account, found))
    found += list(_credits(account, found))
    return found + list(_taxes(account, found))


def _own(line: Line) -> bool:
    return line.kind in ("Usage", "SavingsPlanRecurringFee")


def _instances(account: Account) -> Iterator[Line]:
    """Yield the hours of nodes, bought as commitments leave them."""
    plan = next((x for x in account.commitments if x.kind == "plan"), None)
    reserved = next((x for x in account.commitments if x.kind == "reserved"), None)
    rng = np.random.default_rng([21, account.seed])
    left = np.full(account.hours, plan.size if plan else 0.0)
    for node in running(account):
        group, spot = node.group, node.group.market == "spot"
        noise = np.ones(0)
        if spot:
            noise = np.exp(rng.normal(0, 0.03, account.hours // 24 + 1))
        first, last = rng.uniform(0.1, 1), rng.uniform(0.1, 1)
        for hour in range(node.start, node.end):
            amount = 1.0
            if hour == node.start > 0:
                amount = first
            elif hour == node.end - 1 < account.hours - 1:
                amount = last
            if spot:
                yield _node_line(node, hour, amount, group.rate * float(noise[hour // 24]), "Spot")
            elif reserved and _is_reserved(account, reserved, node, hour):
                yield _reserved_line(node, hour, amount)
            elif plan and plan.start <= hour < plan.end and left[hour] > 1e-6:
                whole = amount * group.rate * PLAN_SHARE
                part = min(1.0, left[hour] / whole)
                left[hour] -= whole * part
                yield from _covered(node, hour, amount * part, whole * part)
                if part < 1:
                    yield _node_line(node, hour, amount * (1 - part), group.rate)
            else:
                yield _node_line(node, hour, amount, group.rate)


def _is_reserved(account: Account, reserved: Commitment, node: Running, hour: int) -> bool:
    if node.group.instance_type != reserved.instance_type or not hour < reserved.end:
        return False
    first = next(x for x in account.groups if x.instance_type == reserved.instance_type)
    slots = {
        _id(f"{account.seed}/{first.name}/{slot}/{node.start}")
        for slot in range(int(reserved.size))
    }
    return node.group is first and node.id in slots


def _node_line(node: Running, hour: int, amount: float, rate: float, purchase: str = "Box") -> Line:
    cost, name = amount * rate, node.group.instance_type
    return Line(
        "Usage",
        "AmazonEC2",
        f"USW2-{purchase}Usage:{name}",
        hour,
        cost,
        cost,
        amount=amount,
        resource=node.id,
        instance_type=name,
        tags=_tags(node.group),
    )


def _reserved_line(node: Running, hour: int, amount: float) -> Line:
    effective = amount * node.group.rate * RESERVED_SHARE
    line = _node_line(node, hour, amount, 0)
    line.kind, line.amortised = "DiscountedUsage", effective
    line.columns = {
        "reservation_effective_cost": f"{effective:.8f}",
        "reservation_reservation_a_r_n": RESERVED,
    }
    return line


def _covered(node: Running, hour: int, amount: float, effective: float) -> Iterator[Line]:
    line = _node_line(node, hour, amount, node.group.rate)
    line.kind, line.amortised = "SavingsPlanCoveredUsage", effective
    line.columns = {
        "savings_plan_savings_plan_effective_cost": f"{effective:.8f}",
        "savings_plan_savings_plan_a_r_n": PLAN,
    }
    yield line
    columns = {"savings_plan_savings_plan_a_r_n": PLAN}
    negation = Line(
        "SavingsPlanNegation", line.service, line.usage_type, hour, -line.cost, 0, amount=amount
    )
    negation.columns, negation.instance_type = columns, line.instance_type
    yield negation


def _plans(account: Account) -> Iterator[Line]:
    """Yield each hour's fee of a plan, and each month's of a reservation."""
    used: dict[int, float] = defaultdict(float)
    for line in _instances(account):
        if line.kind == "SavingsPlanCoveredUsage":
            used[line.start] += line.amortised
    for commitment in account.commitments:
        ends = account.at(commitment.end)
        if commitment.kind == "plan":
            for hour in range(min(commitment.end, account.hours)):
                size = commitment.size
                yield Line(
                    "SavingsPlanRecurringFee",
                    "ComputeSavingsPlans",
                    "ComputeSP:1yrNoUpfront",
                    hour,
                    size,
                    size - used[hour],
                    resource=PLAN,
                    columns={
                        "savings_plan_savings_plan_a_r_n": PLAN,
                        "savings_plan_total_commitment_to_date": f"{size:.8f}",
                        "savings_plan_used_commitment": f"{used[hour]:.8f}",
                        "savings_plan_end_time": f"{ends:%Y-%m-%dT%H:%M:%S.000Z}",
                    },
                )
        else:
            yield from _reservation_fees(account, commitment)


def _reservation_fees(account: Account, reserved: Commitment) -> Iterator[Line]:
    """Yield the fee of each month, billed on its 1st."""
    name = reserved.instance_type
    for start, end in months(account):
        hours = max(0, min(end, reserved.end) - start)
        if hours:
            cost = hours * reserved.size * PRICES[name] * RESERVED_SHARE
            fee = Line("RIFee", "AmazonEC2", f"USW2-HeavyUsage:{name}", start, cost, 0)
            fee.amount, fee.instance_type, fee.resource = hours * reserved.size, name, RESERVED
            fee.columns = {
                "reservation_reservation_a_r_n": RESERVED,
                "reservation_unused_recurring_fee": "0",
                "reservation_end_time": f"{account.at(reserved.end):%Y-%m-%dT%H:%M:%S.000Z}",
            }
            yield fee


def _extras(account: Account) -> Iterator[Line]:
    for extra in account.extras:
        for step, usd in enumerate(extra.usd):
            if usd > 0:
                start = step * extra.step
                cost = float(usd)
                yield Line(
                    "Usage", extra.service, extra.usage_type, start, cost, cost, extra.step, cost
                )


def _block_id(block: Block) -> str:
    return f"cr-{hashlib.sha256(f'{block.bought}/{block.start}'.encode()).hexdigest()[:17]}"


def _block(account: Account, block: Block) -> Iterator[Line]:
    """Yield a block's price in the hour it was bought, and its instances' hours at nothing."""
    if block.bought >= account.hours:
        return
    hours = (block.end - block.start) * block.nodes
    arn = f"arn:aws:ec2:us-east-2:{NUMBER}:capacity-reservation/{_block_id(block)}"
    cost = hours * BLOCK_PRICE
    fee = Line("Fee", "AmazonEC2", f"USE2-CapacityBlock:{BLOCK_TYPE}", block.bought, cost, 0)
    fee.amount, fee.instance_type, fee.resource = hours, BLOCK_TYPE, arn
    yield fee
    for node in range(block.nodes):
        for hour in range(block.start, min(block.end, account.hours)):
            line = Line("Usage", "AmazonEC2", f"USE2-BoxUsage:{BLOCK_TYPE}", hour, 0, BLOCK_PRICE)
            line.resource = _id(f"{account.seed}/{_block_id(block)}/{node}")
            line.instance_type, line.tags = BLOCK_TYPE, {"user_team": "research"}
            line.columns = {"reservation_reservation_a_r_n": arn}
            yield line


def _discounted(account: Account, line: Line) -> Line:
    usd = -line.cost * account.discount
    return Line(
        "EdpDiscount",
        line.service,
        line.usage_type,
        line.start,
        usd,
        usd,
        line.hours,
        line.amount,
        line.resource,
        line.instance_type,
        line.tags,
    )


# The account's own lines


def months(account: Account) -> list[tuple[int, int]]:
    """Return the [start, end) hours of each calendar month, cut to the bill."""
    firsts = [
        hour
        for hour in range(account.hours)
        if account.at(hour).day == 1 and account.at(hour).hour == 0
    ]
    edges = sorted({0, *firsts, account.hours})
    return list(itertools.pairwise(edges))


def _monthly(account: Account, found: list[Line]) -> Iterator[Line]:
    """Yield support, billed over the whole month when it ends, and a refund."""
    for start, end in months(account):
        if account.support == "enterprise":
            cost = float(ENTERPRISE_USD)
        elif account.support == "business":
            cost = _tiered(sum(line.cost for line in found if start <= line.start < end))
        else:
            continue
        service = f"AWSSupport{account.support.capitalize()}"
        yield Line("Fee", service, "Dollar", start, cost, cost, end - start)
    hour, usd = account.refund
    if usd:
        yield Line("Refund", "AmazonEC2", "USW2-BoxUsage:trn1.32xlarge", hour, usd, 0)


def _tiered(charges: float) -> float:
    usd, under = 0.0, 0.0
    for until, share in TIERS:
        usd += max(0.0, min(charges, until) - under) * share
        under = until
    return max(usd, 100.0)


def _credits(account: Account, found: list[Line]) -> Iterator[Line]:
    """Yield each day's credit for usage, until the credits have run out."""
    days = np.zeros(account.hours // 24 + 1)
    for line in found:
        if line.kind in ("Usage", "SavingsPlanRecurringFee", "EdpDiscount"):
            days[line.start // 24] += line.cost
    left = account.credits
    for day, usd in enumerate(days):
        used = min(left, float(usd) * 0.6)
        if used > 0.005:
            left -= used
            yield Line("Credit", "AmazonEC2", "USW2-BoxUsage", day * 24, -used, 0, 24)


def _taxes(account: Account, found: list[Line]) -> Iterator[Line]:
    for start, end in months(account):
        usd = account.tax * sum(line.cost for line in found if start <= line.start < end)
        if usd > 0:
            yield Line("Tax", "AmazonEC2", "", start, usd, 0, end - start)


def truth(account: Account, found: list[Line]) -> Truth:
    """Add up the month as it ended."""
    month = [line for line in found if line.start >= account.first]
    prepaid = sum(x.cost for x in month if x.kind == "Fee" and "CapacityBlock" in x.usage_type)
    return Truth(
        sum(line.amortised for line in month),
        sum(line.cost for line in month),
        sum(line.cost for line in month if line.kind == "Tax"),
        sum(line.cost for line in month if line.kind in ("Credit", "Refund")),
        prepaid,
    )


# Files

COLUMNS = (
    "bill_billing_period_start_date",
    "bill_payer_account_id",
    "identity_line_item_id",
    "line_item_line_item_type",
    "line_item_usage_account_id",
    "line_item_product_code",
    "line_item_usage_type",
    "line_item_operation",
    "line_item_resource_id",
    "line_item_usage_start_date",
    "line_item_usage_end_date",
    "line_item_usage_amount",
    "line_item_unblended_cost",
    "line_item_currency_code",
    "product_region_code",
    "product_instance_type",
    "product",
    "resource_tags",
)
COMMITMENT_COLUMNS = (
    "savings_plan_savings_plan_a_r_n",
    "savings_plan_savings_plan_effective_cost",
    "savings_plan_total_commitment_to_date",
    "savings_plan_used_commitment",
    "savings_plan_end_time",
    "reservation_reservation_a_r_n",
    "reservation_effective_cost",
    "reservation_unused_recurring_fee",
    "reservation_end_time",
)


def write(account: Account, found: list[Line], moment: datetime, folder: Path) -> Path:
    """Write the recording of a moment: the lines billed by then, and what AWS's calls answer."""
    seen = (moment - account.start) / HOUR - LAG
    files: dict[str, list[Line]] = defaultdict(list)
    for line in found:
        if line.start + line.hours <= seen or _billed_at_once(line, seen):
            files[f"{account.at(line.start):%Y-%m}"].append(line)
    for month, some in files.items():
        path = folder / "billing" / f"BILLING_PERIOD={month}" / "part-1.csv.gz"
        path.parent.mkdir(parents=True)
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(COLUMNS + COMMITMENT_COLUMNS)
        writer.writerows(_cells(account, line, n) for n, line in enumerate(some))
        path.write_bytes(gzip.compress(text.getvalue().encode(), 1, mtime=0))
    _answers(account, moment, folder)
    return folder


def _billed_at_once(line: Line, seen: float) -> bool:
    """Return whether a line of a whole month is there from its first day on: a reservation's fee."""
    return line.kind == "RIFee" and line.start + 1 <= seen


def _cells(account: Account, line: Line, number: int) -> list[str]:
    stamp = "%Y-%m-%dT%H:%M:%SZ"
    start = account.at(line.start)
    region = "us-east-2" if line.usage_type.startswith("USE2") else "us-west-2"
    return [
        f"{start:%Y-%m}-01T00:00:00Z",
        "999988887777",
        f"row{number}",
        line.kind,
        NUMBER,
        line.service,
        line.usage_type,
        "RunInstances" if line.instance_type else "",
        line.resource,
        f"{start:{stamp}}",
        f"{start + line.hours * HOUR:{stamp}}",
        f"{line.amount:.6f}",
        f"{line.cost:.8f}",
        "USD",
        region,
        line.instance_type,
        json.dumps({"marketoption": _market(line)} if line.instance_type else {}),
        json.dumps(line.tags),
        *(line.columns.get(name, "") for name in COMMITMENT_COLUMNS),
    ]


def _market(line: Line) -> str:
    if BLOCK_TYPE in line.usage_type:
        return "CapacityBlock"
    return "Spot" if "SpotUsage" in line.usage_type else "OnDemand"


def _answers(account: Account, moment: datetime, folder: Path) -> None:
    """Write who runs, what is reserved, which plans there are, and the last days' utilization."""
    now = (moment - account.start) / HOUR
    answered = moment - timedelta(minutes=10)
    alive = [node for node in running(account) if node.start <= now < node.end]
    instances = [
        {
            "OwnerId": NUMBER,
            "Instances": [
                {
                    "InstanceId": node.id,
                    "InstanceType": node.group.instance_type,
                    "LaunchTime": f"{account.at(node.start):%Y-%m-%dT%H:%M:%S+00:00}",
                    "Placement": {"AvailabilityZone": "us-west-2b"},
                    "PrivateDnsName": f"ip-{node.id[2:10]}.us-west-2.compute.internal",
                    "State": {"Code": 16, "Name": "running"},
                    "Tags": [
                        {"Key": "eks:cluster-name", "Value": node.group.name},
                        {"Key": "team", "Value": node.group.team},
                    ],
                    **({"InstanceLifecycle": "spot"} if node.group.market == "spot" else {}),
                }
            ],
        }
        for node in alive
    ]
    blocks = [_block_answer(account, x, now) for x in account.blocks if x.bought <= now]
    plans = [_plan_answer(account, x, now) for x in account.commitments if x.kind == "plan"]
    answers: dict[str, dict[str, object]] = {
        "ec2/describe_instances/us-west-2": {"Reservations": instances},
        "ec2/describe_capacity_reservations/us-east-2": {"CapacityReservations": blocks},
        "savingsplans/describe_savings_plans/us-east-1": {"savingsPlans": plans},
    }
    for call, body in answers.items():
        path = folder / "api" / call / f"{answered:%Y%m%dT%H%M%SZ}.json"
        path.parent.mkdir(parents=True)
        path.write_text(json.dumps({**body, "ResponseMetadata": {"HTTPStatusCode": 200}}))
    _metrics(account, moment, folder / "metrics" / "fleet.jsonl")


def _block_answer(account: Account, block: Block, now: float) -> dict[str, object]:
    state = "scheduled" if now < block.start else "active" if now < block.end else "expired"
    return {
        "CapacityReservationId": _block_id(block),
        "OwnerId": NUMBER,
        "InstanceType": BLOCK_TYPE,
        "AvailabilityZone": "us-east-2b",
        "TotalInstanceCount": block.nodes,
        "AvailableInstanceCount": 0,
        "State": state,
        "ReservationType": "capacity-block",
        "StartDate": f"{account.at(block.start):%Y-%m-%dT%H:%M:%S+00:00}",
        "EndDate": f"{account.at(block.end):%Y-%m-%dT%H:%M:%S+00:00}",
        "EndDateType": "limited",
        "CreateDate": f"{account.at(block.bought):%Y-%m-%dT%H:%M:%S+00:00}",
        "Tags": [{"Key": "team", "Value": "research"}],
    }


def _plan_answer(account: Account, plan: Commitment, now: float) -> dict[str, object]:
    return {
        "savingsPlanId": PLAN.rpartition("/")[2],
        "savingsPlanArn": PLAN,
        "start": f"{account.at(plan.start):%Y-%m-%dT%H:%M:%S.000Z}",
        "end": f"{account.at(plan.end):%Y-%m-%dT%H:%M:%S.000Z}",
        "state": "active" if now < plan.end else "retired",
        "savingsPlanType": "Compute",
        "paymentOption": "No Upfront",
        "commitment": f"{plan.size:.2f}",
        "currency": "USD",
        "termDurationInSeconds": 31_536_000,
    }


MEASURED = 8 * 24
"""Hours of metrics in a recording, a point an hour."""


def _metrics(account: Account, moment: datetime, path: Path) -> None:
    """Write the utilization of every Neuron node that ran in the last days."""
    path.parent.mkdir(parents=True)
    now = int((moment - account.start) / HOUR)
    with path.open("w") as file:
        for node in running(account):
            if not node.group.instance_type.startswith(("trn", "inf")):
                continue
            for hour in range(max(node.start, now - MEASURED), min(node.end, now)):
                record = {
                    "account_id": NUMBER,
                    "region": "us-west-2",
                    "namespace": "ContainerInsights",
                    "metric_name": "node_neuroncore_utilization",
                    "dimensions": {
                        "ClusterName": node.group.name,
                        "InstanceId": node.id,
                        "NodeName": f"ip-{node.id[2:10]}.us-west-2.compute.internal",
                    },
                    "timestamp": int(account.at(hour + 0.9).timestamp() * 1000),
                    "value": {"count": 32, "sum": 2720.0, "max": 90.0, "min": 80.0},
                    "unit": "Percent",
                }
                file.write(json.dumps(record) + "\n")
