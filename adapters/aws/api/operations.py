"""Declare every AWS operation that a live account may be asked, its reason, price and place.

`python -m adapters.aws.api.operations` writes the least IAM policy that allows what reads;
`... aws deploy/iam-policy-act.json` the one of the role that may change something.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import cache
from itertools import chain
from typing import Any

from bot.model.codec import table
from bot.model.reading import Gap

_HOMES = {
    "aws": {"pricing": "us-east-1", "ce": "us-east-1", "savingsplans": "us-east-1"},
    "aws-cn": {
        "pricing": "cn-northwest-1",
        "ce": "cn-northwest-1",
        "savingsplans": "cn-northwest-1",
    },
    "aws-us-gov": {"ce": "us-gov-west-1"},
}
"""Where each partition answers for all of its regions (endpoints of botocore 1.44.5, 2026-11).

STS answers in every region.
"""


@dataclass(frozen=True, order=True)
class Place:
    """Name one region as seen by one role; role "" stands for the process's own credentials."""

    region: str
    role: str = ""
    account: str = ""
    session: str = ""
    """The name of the role's session in CloudTrail, "" for trnbot's own."""

    def gap(self, sentence: str) -> Gap:
        """Return a gap of this place.

        An account not asked for yet is the one its role's ARN names, "" where none does.
        """
        return Gap(sentence, self.account or (self.role.split(":") + [""] * 5)[4], self.region)

    def __str__(self) -> str:
        """Read as `us-west-2 of account 111122223333`."""
        return f"{self.region} of account {self.account}" if self.account else self.region


def home_of(service: str, region: str) -> str:
    """Return the region where a service answers for another.

    Its own, but for those that answer once for a partition.
    """
    return _HOMES.get(partition_of(region), {}).get(service, region)


def is_sold_in(service: str, region: str) -> bool:
    """Return whether the partition of a region has a service that answers once for a partition.

    Others are everywhere.
    """
    return service not in _HOMES["aws"] or service in _HOMES.get(partition_of(region), {})


_PARTITIONS = {"cn-": "aws-cn", "us-gov-": "aws-us-gov", "eusc-": "aws-eusc"}


def partition_of(region: str) -> str:
    """Return the partition of a region, by its name.

    Credentials, ARNs and endpoints of one mean nothing in another.
    """
    return next((name for begin, name in _PARTITIONS.items() if region.startswith(begin)), "aws")


DETAIL_RANK = 5
"""Rank of looking at the parts of one node.

The first to stop, as each series costs as much as any other.
"""


READING, ACTING = "deploy/iam-policy.json", "deploy/iam-policy-act.json"
"""The policies: of the role that reads, and of the one that may change something."""
NO_ACTION = "NONE"
"""Stands for the resource of an operation that IAM has no action for.

What it needs stands in `grants.csv`.
"""


@dataclass(frozen=True)
class Permission:
    """State an action that must be allowed, as IAM writes it, such as `ec2:DescribeInstances`."""

    action: str
    resource: str
    why: str


@dataclass(frozen=True)
class Operation(Permission):
    """Declare one operation: `member` must be in every answer.

    The higher `optional`, the sooner the budget stops it.

    0 never stops: without metrics and inventory there is no watch.
    """

    service: str
    operation: str
    member: str
    optional: int
    page: Mapping[str, int] = field(default_factory=dict)
    """Parameter and size of a page; none where AWS cuts the pages itself."""
    policy: str = READING
    """The file that allows it."""

    @property
    def title(self) -> str:
        """Return the operation as a sentence names it, such as `AWS ec2:DescribeInstances`."""
        return f"AWS {self.action}" if self.allowed else self.action

    @property
    def allowed(self) -> tuple[str, ...]:
        """Return the actions that IAM must allow for it: some operations have none of their own."""
        if self.resource != NO_ACTION:
            return (self.action,)
        return tuple(x.action for x in grants() if x.under == self.action)


@cache
def operations() -> Mapping[tuple[str, str], Operation]:
    """Return every operation that reads, by (service, operation) as boto3 spells them."""
    return _declared("operations.csv", READING)


@cache
def changing() -> Mapping[tuple[str, str], Operation]:
    """Return the operations that change something, and those that see whether it worked.

    A role of its own may do it, and nothing else.
    """
    return _declared("actions.csv", ACTING)


def _declared(name: str, policy: str) -> Mapping[tuple[str, str], Operation]:
    declared = {}
    for row in table(__package__, name):
        # A page is written as `MaxResults=100`.
        parameter, _, size = row.pop("page").partition("=")
        page = {parameter: int(size)} if parameter else {}
        optional = int(row.pop("optional"))
        declared[row["service"], row["operation"]] = Operation(
            **row, optional=optional, page=page, policy=policy
        )
    return declared


@dataclass(frozen=True)
class Grant(Permission):
    """State an action of AWS itself in the caller's name under an operation (`under`).

    Allowed, but never called here.
    """

    under: str


@cache
def grants() -> tuple[Grant, ...]:
    """Return the actions that must be allowed beside the operations that are called."""
    return tuple(Grant(**row) for row in table(__package__, "grants.csv"))


@cache
def declared_as(action: str) -> Operation | None:
    """Return what is declared of an action: its call, else what AWS does under one as if called.

    None for an action that the policy does not have.
    """
    declared = operations().values()
    called = (x for x in declared if x.action == action and x.resource != NO_ACTION)
    beside = (
        replace(x, action=grant.action, resource=grant.resource, why=grant.why)
        for grant in grants()
        for x in declared
        if grant.action == action and grant.under == x.action
    )
    return next(chain(called, beside), None)


@dataclass(frozen=True)
class CallPrice:
    """State the price of one `unit` of a call, with source and date."""

    unit: str
    usd: Decimal
    source: str
    asof: str


@cache
def call_prices() -> Mapping[tuple[str, str], CallPrice]:
    """Return the price of each call that costs anything.

    `*` stands for every operation of a service.
    """
    return {
        (row["service"], row["operation"]): CallPrice(
            row["unit"], Decimal(row["usd"]), row["source"], row["asof"]
        )
        for row in table(__package__, "prices.csv")
    }


def stops_at(optional: int) -> int:
    """Return the percent of the day's budget at which operations of a rank stop: 100, 90, 80 ..."""
    return 100 - 10 * (optional - 1)


FREE = CallPrice("request", Decimal(0), "", "")


def call_price(service: str, operation: str) -> CallPrice:
    """Return the price of a unit of a call, `FREE` for one that costs nothing."""
    prices = call_prices()
    return prices.get((service, operation)) or prices.get((service, "*"), FREE)


def price_of(service: str, operation: str, units: int) -> Decimal:
    """Return USD for `units` of a call."""
    return call_price(service, operation).usd * units


_RESOURCES: dict[str, str | list[str]] = {
    "BUCKET": ["arn:aws:s3:::YOUR-BILLING-BUCKET", "arn:aws:s3:::YOUR-STREAM-BUCKET"],
    "OBJECTS": ["arn:aws:s3:::YOUR-BILLING-BUCKET/*", "arn:aws:s3:::YOUR-STREAM-BUCKET/*"],
    "RESULTS": "arn:aws:s3:::YOUR-ATHENA-RESULTS-BUCKET",
    "RESULT_OBJECTS": "arn:aws:s3:::YOUR-ATHENA-RESULTS-BUCKET/*",
    "LOGS": "arn:aws:logs:YOUR-REGION:YOUR-ACCOUNT:log-group:YOUR-LOG-GROUP:*",
    "KEYS": "arn:aws:kms:YOUR-REGION:YOUR-ACCOUNT:key/YOUR-BUCKETS-KEY",
    "QUEUES": "arn:aws:sqs:YOUR-REGION:YOUR-ACCOUNT:YOUR-EVENT-QUEUE",
    "INSTANCES": "arn:aws:ec2:*:YOUR-ACCOUNT:instance/*",
    "VOLUMES": "arn:aws:ec2:*:YOUR-ACCOUNT:volume/*",
    "SNAPSHOTS": ["arn:aws:ec2:*:YOUR-ACCOUNT:volume/*", "arn:aws:ec2:*::snapshot/*"],
    "CLUSTERS": "arn:aws:eks:*:YOUR-ACCOUNT:cluster/*",
    "NODEGROUPS": "arn:aws:eks:*:YOUR-ACCOUNT:nodegroup/*",
    "NOTEBOOKS": "arn:aws:sagemaker:*:YOUR-ACCOUNT:notebook-instance/*",
    "WORKSPACE": "arn:aws:aps:YOUR-REGION:YOUR-ACCOUNT:workspace/YOUR-PROMETHEUS-WORKSPACE",
    "ROLES": [
        "arn:aws:iam::YOUR-FIRST-ACCOUNT:role/trnbot-reader",
        "arn:aws:iam::YOUR-SECOND-ACCOUNT:role/trnbot-reader",
    ],
}
"""What the reader of the policy has to fill in.

All other actions have no resource to narrow them to.
"""


def statements(file: str = READING) -> list[tuple[str, dict[str, Any]]]:
    """Return the statements of a policy, one for each service and resource.

    Each beside the word of the table for its resource: "*", or a key of what the reader fills in.
    """
    allowed: Iterable[Operation | Grant] = changing().values()
    if file == READING:
        allowed = [*operations().values(), *grants()]
    actions_of: dict[tuple[str, str], set[str]] = defaultdict(set)
    for declared in allowed:
        if declared.resource != NO_ACTION:
            service = declared.action.partition(":")[0]
            actions_of[service, declared.resource].add(declared.action)

    return [
        (
            resource,
            {
                "Sid": f"Trnbot{service.title()}{resource.strip('*').title().replace('_', '')}",
                "Effect": "Allow",
                "Action": sorted(actions),
                "Resource": _RESOURCES.get(resource, resource),
            },
        )
        for (service, resource), actions in sorted(actions_of.items())
    ]


def statement(actions: Sequence[str], arns: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """Return the one statement that allows some actions of the policy.

    `arns` fills in what the policy leaves to its reader, by the words of the tables; what it does
    not name stays a placeholder, unless another resource of the same action is named.
    """
    allowed = (x for x in (*operations().values(), *grants()) if x.action in actions)
    words = dict.fromkeys(x.resource for x in allowed if x.resource != NO_ACTION)
    resources: list[str] = []
    for word in [word for word in words if word in arns] or words:
        arn = arns.get(word) or _RESOURCES.get(word, word)
        resources += [arn] if isinstance(arn, str) else arn
    return {
        "Effect": "Allow",
        "Action": list(actions),
        "Resource": resources[0] if len(resources) == 1 else resources,
    }


def policy_text(partition: str = "aws", file: str = READING) -> str:
    """Return a policy as its file in `deploy/` holds it.

    `aws-us-gov` and `aws-cn` are other partitions.
    """
    policy = {"Version": "2012-10-17", "Statement": [x for _, x in statements(file)]}
    return json.dumps(policy, indent=2).replace("arn:aws:", f"arn:{partition}:") + "\n"


if __name__ == "__main__":
    sys.stdout.write(policy_text(*sys.argv[1:3]))
