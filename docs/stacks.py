"""Write what deployments share with the code.

The permissions and the columns of the bill in the stacks for AWS, the rules of Prometheus.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import yaml

from adapters.aws.api.operations import statements
from adapters.aws.metrics.promql import RECORDED_SECONDS, node_queries
from adapters.billing.exports import CUR_NAMES

_BESIDE = (
    "bill_payer_account_name",
    "discount",
    "line_item_usage_account_name",
    "product",
    "product_instance_type",
    "product_region_code",
    "resource_tags",
)
"""Columns of CUR 2.0 that tell its form, and the maps that are read beside the named columns."""
_OTHER_FORMS = {"reservation_reservation_arn", "savings_plan_savings_plan_arn"}
"""Names that other forms have for a column of CUR 2.0 (Data Exports User Guide, table dictionary)."""


def _arn(rest: str) -> dict[str, str]:
    return {"Fn::Sub": f"arn:${{AWS::Partition}}:{rest}"}


def _where(condition: str, value: Any) -> dict[str, Any]:
    return {"Fn::If": [condition, value, {"Ref": "AWS::NoValue"}]}


_OPTIONAL: Mapping[str, tuple[str, Any]] = {
    "WORKSPACE": ("HasWorkspace", {"Ref": "Workspace"}),
    "RESULTS": ("HasAthenaResults", _arn("s3:::${AthenaResultsBucket}")),
    "RESULT_OBJECTS": ("HasAthenaResults", _arn("s3:::${AthenaResultsBucket}/*")),
    "LOGS": ("HasLogGroup", _arn("logs:*:${AWS::AccountId}:log-group:${LogGroup}:*")),
    "KEYS": ("HasKey", {"Ref": "Key"}),
}
"""What both stacks grant where a parameter names it, by the word of the table of operations."""
BOT: Mapping[str, tuple[str, Any]] = {
    **_OPTIONAL,
    "BUCKET": (
        "",
        [
            _arn("s3:::trnbot-${AWS::AccountId}-*"),
            _where("HasBillingBucket", _arn("s3:::${BillingBucket}")),
        ],
    ),
    "OBJECTS": (
        "",
        [
            _arn("s3:::trnbot-${AWS::AccountId}-*/*"),
            _where("HasBillingBucket", _arn("s3:::${BillingBucket}/*")),
        ],
    ),
    "QUEUES": ("", _arn("sqs:*:${AWS::AccountId}:trnbot-events")),
    "ROLES": ("HasRoles", {"Ref": "Roles"}),
}
"""The same and what the bot itself has; "" is no condition."""
MEMBER: Mapping[str, tuple[str, Any]] = {
    **_OPTIONAL,
    "BUCKET": ("HasBillingBucket", _arn("s3:::${BillingBucket}")),
    "OBJECTS": ("HasBillingBucket", _arn("s3:::${BillingBucket}/*")),
}
"""The same and what is read in another account: neither its queues, nor further roles."""


def with_permissions(text: str, resources: Mapping[str, tuple[str, Any]]) -> str:
    """Return a stack with its permissions made again."""
    granted = []
    for word, statement in statements():
        if word == "*":
            granted.append(statement)
        elif word in resources:
            condition, resource = resources[word]
            narrowed = {**statement, "Resource": resource}
            granted.append(_where(condition, narrowed) if condition else narrowed)
    written = yaml.dump(granted, Dumper=_Plain, sort_keys=False, width=1000)
    return _with_part(text, "the permissions", written.splitlines())


def with_columns(text: str, line: str) -> str:
    """Return a stack or a module with the columns of the bill made again, each as a line of it."""
    return _with_part(text, "the columns", [line.format(name) for name in columns()])


def columns() -> list[str]:
    """Return the columns of CUR 2.0 that are read."""
    named = {name for names in CUR_NAMES.values() for name in names} - _OTHER_FORMS
    return sorted(named.union(_BESIDE))


def _with_part(text: str, part: str, lines: Iterable[str]) -> str:
    """Return the text with new lines between the two marks of a part, as far in as these stand."""
    begin, end = f"# {part}: made by `make docs`, do not edit", f"# end of {part}"
    before, mark, rest = text.partition(begin)
    _, _, after = rest.partition(end)
    inset = " " * (len(before) - before.rfind("\n") - 1)
    return before + f"\n{inset}".join([mark, *lines, end]) + after


_RULES = """\
# Recording rules: what trnbot asks of each node, kept as one series a node in place of one a core.
# Made by `make docs` from adapters/aws/metrics/promql.csv, do not edit.
"""


def recording_rules() -> str:
    """Return the rules file by which a Prometheus server keeps what is asked of it about nodes."""
    rules = [{"record": name, "expr": query.rule()} for name, query in node_queries().items()]
    group = {"name": "trnbot-nodes", "interval": f"{RECORDED_SECONDS}s", "rules": rules}
    return _RULES + yaml.dump({"groups": [group]}, Dumper=_Plain, sort_keys=False, width=1000)


class _Plain(yaml.SafeDumper):
    """Write a thing that stands twice twice, without an anchor: CloudFormation reads none."""

    def ignore_aliases(self, _: Any) -> bool:
        """Return that nothing has an alias."""
        return True
