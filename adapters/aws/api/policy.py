"""Write the least IAM policy from the operations that the adapter declares.

`python -m adapters.aws.api.policy`.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from typing import Any

from adapters.aws.api.operations import NO_ACTION, grants, operations

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


def policy(partition: str = "aws") -> dict[str, Any]:
    """Return the policy document.

    One statement for each service and resource, its ARNs of a partition.
    """
    actions_of: dict[tuple[str, str], set[str]] = defaultdict(set)
    for declared in operations().values():
        if declared.resource != NO_ACTION:
            actions_of[declared.action.partition(":")[0], declared.resource].add(declared.action)
    for grant in grants():
        actions_of[grant.action.partition(":")[0], grant.resource].add(grant.action)
    statements = [
        {
            "Sid": "Trnbot"
            + service.title()
            + ("" if resource == "*" else resource.title().replace("_", "")),
            "Effect": "Allow",
            "Action": sorted(actions),
            "Resource": _of_partition(_RESOURCES.get(resource, resource), partition),
        }
        for (service, resource), actions in sorted(actions_of.items())
    ]
    return {"Version": "2012-10-17", "Statement": statements}


def _of_partition(resource: str | list[str], partition: str) -> str | list[str]:
    if isinstance(resource, list):
        return [each.replace("arn:aws:", f"arn:{partition}:") for each in resource]
    return resource.replace("arn:aws:", f"arn:{partition}:")


def policy_text(partition: str = "aws") -> str:
    """Return the policy as the file in `deploy/` holds it.

    `aws-us-gov` and `aws-cn` are other partitions.
    """
    return json.dumps(policy(partition), indent=2) + "\n"


if __name__ == "__main__":
    sys.stdout.write(policy_text(*sys.argv[1:2]))
