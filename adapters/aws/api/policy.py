"""Write the least IAM policy from the operations that the adapter declares.

`python -m adapters.aws.api.policy`.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from adapters.aws.api.operations import NO_ACTION, Grant, Operation, grants, operations

_RESOURCES: dict[str, str | list[str]] = {
    "BUCKET": ["arn:aws:s3:::YOUR-BILLING-BUCKET", "arn:aws:s3:::YOUR-STREAM-BUCKET"],
    "OBJECTS": ["arn:aws:s3:::YOUR-BILLING-BUCKET/*", "arn:aws:s3:::YOUR-STREAM-BUCKET/*"],
    "RESULTS": "arn:aws:s3:::YOUR-ATHENA-RESULTS-BUCKET",
    "RESULT_OBJECTS": "arn:aws:s3:::YOUR-ATHENA-RESULTS-BUCKET/*",
    "LOGS": "arn:aws:logs:YOUR-REGION:YOUR-ACCOUNT:log-group:YOUR-LOG-GROUP:*",
    "KEYS": "arn:aws:kms:YOUR-REGION:YOUR-ACCOUNT:key/YOUR-BUCKETS-KEY",
    "QUEUES": "arn:aws:sqs:YOUR-REGION:YOUR-ACCOUNT:YOUR-EVENT-QUEUE",
    "WORKSPACE": "arn:aws:aps:YOUR-REGION:YOUR-ACCOUNT:workspace/YOUR-PROMETHEUS-WORKSPACE",
    "ROLES": [
        "arn:aws:iam::YOUR-FIRST-ACCOUNT:role/trnbot-reader",
        "arn:aws:iam::YOUR-SECOND-ACCOUNT:role/trnbot-reader",
    ],
}
"""What the reader of the policy has to fill in.

All other actions have no resource to narrow them to.
"""


def statements() -> list[tuple[str, dict[str, Any]]]:
    """Return the statements of the policy, one for each service and resource.

    Each beside the word of the table for its resource: "*", or a key of what the reader fills in.
    """
    actions_of: dict[tuple[str, str], set[str]] = defaultdict(set)
    allowed: list[Operation | Grant] = [*operations().values(), *grants()]
    for declared in allowed:
        if declared.resource != NO_ACTION:
            service = declared.action.partition(":")[0]
            actions_of[service, declared.resource].add(declared.action)

    found = []
    for (service, resource), actions in sorted(actions_of.items()):
        subject = "" if resource == "*" else resource.title().replace("_", "")
        statement = {
            "Sid": f"Trnbot{service.title()}{subject}",
            "Effect": "Allow",
            "Action": sorted(actions),
            "Resource": _RESOURCES.get(resource, resource),
        }
        found.append((resource, statement))
    return found


def statement(actions: Sequence[str], arns: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """Return the one statement that allows some actions of the policy.

    `arns` fills in what the policy leaves to its reader, by the words of the tables; what it does
    not name stays a placeholder, unless another resource of the same action is named.
    """
    allowed: list[Operation | Grant] = [*operations().values(), *grants()]
    words = dict.fromkeys(x.resource for x in allowed if x.action in actions)
    words.pop(NO_ACTION, None)
    resources: list[str] = []
    for word in [word for word in words if word in arns] or words:
        named = arns.get(word) or _RESOURCES.get(word, word)
        resources += [named] if isinstance(named, str) else named
    resource = resources[0] if len(resources) == 1 else resources
    return {"Effect": "Allow", "Action": list(actions), "Resource": resource}


def policy(partition: str = "aws") -> dict[str, Any]:
    """Return the policy document, its ARNs of a partition."""
    whole = {"Version": "2012-10-17", "Statement": [statement for _, statement in statements()]}
    document = json.dumps(whole)
    translated: dict[str, Any] = json.loads(document.replace("arn:aws:", f"arn:{partition}:"))
    return translated


def policy_text(partition: str = "aws") -> str:
    """Return the policy as the file in `deploy/` holds it.

    `aws-us-gov` and `aws-cn` are other partitions.
    """
    return json.dumps(policy(partition), indent=2) + "\n"


if __name__ == "__main__":
    sys.stdout.write(policy_text(*sys.argv[1:2]))
