"""Find what an account has for the bot already: exports of the bill, and what its stack made."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import boto3
from botocore.config import Config

from adapters.aws.api.outcomes import FAILURES

HOME = "us-east-1"
"""Where Data Exports are made (AWS Data Exports user guide, 2026-11)."""
STACK = "trnbot"
_BRIEF = Config(connect_timeout=3, read_timeout=10, retries={"total_max_attempts": 2})


@dataclass(frozen=True)
class StackOutputs:
    """Hold what the stack made, "" for what is not there."""

    billing: str = ""
    events: str = ""
    stream: str = ""


def stack_outputs() -> StackOutputs:
    """Return the outputs of the stack; nothing where there is none, or it may not be looked at.

    Asked with the credentials of whoever sets the bot up: its own policy has no such permission.
    """
    try:
        client = boto3.Session().client("cloudformation", region_name=HOME, config=_BRIEF)
        stacks = client.describe_stacks(StackName=STACK).get("Stacks", ())
    except FAILURES:
        return StackOutputs()
    outputs = {x["OutputKey"]: x["OutputValue"] for stack in stacks for x in stack["Outputs"]}
    return StackOutputs(*(outputs.get(name, "") for name in ("Billing", "Events", "MetricsInS3")))


def billing_exports() -> list[str]:
    """Return where exports of the bill are delivered, `s3://BUCKET/PREFIX`; none where untold."""
    try:
        client = boto3.Session().client("bcm-data-exports", region_name=HOME, config=_BRIEF)
        return list(_exports(client))
    except FAILURES:
        return []


def _exports(client: Any) -> Iterator[str]:
    for listed in client.list_exports().get("Exports", ()):
        export: Mapping[str, Any] = client.get_export(ExportArn=listed["ExportArn"])["Export"]
        if "COST_AND_USAGE_REPORT" not in str(export["DataQuery"]["QueryStatement"]):
            continue
        target = export["DestinationConfigurations"]["S3Destination"]
        yield f"s3://{target['S3Bucket']}/{target['S3Prefix'].strip('/')}/{export['Name']}"
