"""Stand in for AWS: serve a recording over HTTP in AWS's own protocols.

`python -m tests.aws_live.standin RECORDING --port 5055` prints what to export. Without a recording it simulates one that
ends soon after now. `AWS_ENDPOINT_URL` is all that boto3 needs. `--run trnbot serve` serves against it at once.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tests.aws_live.cloudwatch import CloudWatch
from tests.aws_live.costs import Costs
from tests.aws_live.exporter import EXPORTER, OTEL, samples
from tests.aws_live.faults import Faults
from tests.aws_live.grouped import LogGroups
from tests.aws_live.promql import PromqlStore
from tests.aws_live.queues import Queue
from tests.aws_live.serialize import model
from tests.aws_live.serving import ACCOUNT, BUCKET, Handler, Server

BOT = f"arn:aws:iam::{ACCOUNT}:user/bot"
UNDER_ATHENA = {
    "glue:GetDatabase",
    "glue:GetPartitions",
    "glue:GetTable",
    "s3:GetBucketLocation",
    "s3:PutObject",
}
"""What Athena does in the caller's name."""


class StandIn:
    """Serve one recording; `clock` is the time of the world, `shift` is added to recorded times."""

    def __init__(
        self, folder: Path, clock: Callable[[], datetime], shift: timedelta = timedelta(0)
    ) -> None:
        self.folder, self.clock, self.shift = folder, clock, shift
        self.cloudwatch = CloudWatch.of(folder)
        self.costs = Costs(folder)
        self.faults = Faults()
        self.logs = LogGroups({"jobs": []})
        self.queue = Queue()
        self.trail: list[dict[str, Any]] = []
        """Events that are found by their name alone: they made nothing."""
        self.published: set[str] = {"classic"}
        """Where NeuronCore metrics are: classic, otel, prometheus."""
        self._stores: dict[tuple[str, str], PromqlStore] = {}
        self.objects: dict[str, tuple[bytes, datetime]] = {}
        """What lies in the bucket of metric streams: body and time by key."""
        self.exports: list[dict[str, Any]] = []
        """Data Exports of the bill, as GetExport answers."""
        self.called: Counter[str] = Counter()
        self.assumed: list[dict[str, Any]] = []
        """What was shown for each role that was assumed."""
        """Calls answered well, as IAM writes them."""
        self.failed: Counter[str] = Counter()
        self.spans: set[tuple[float, float]] = set()
        """Of which times metrics were asked for, in recorded seconds."""
        self._lock = threading.Lock()
        self._server: ThreadingHTTPServer | None = None

    def start(self, port: int = 0) -> str:
        """Listen on loopback and return the endpoint."""
        handler = type("Handler", (Handler,), {"world": self})
        self._server = Server(("127.0.0.1", port), handler)
        threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True
        ).start()
        return f"http://127.0.0.1:{self._server.server_port}"

    def stop(self) -> None:
        assert self._server
        self._server.shutdown()
        self._server.server_close()
        self.costs.db.close()

    @property
    def now(self) -> float:
        """Return the recorded now, seconds."""
        return (self.clock() - self.shift).timestamp()

    def shift_to(self, now: datetime, hours_left: float) -> timedelta:
        """Return what brings the recording's end `hours_left` after `now`, in whole steps of five minutes."""
        last = max(
            one.rows[-1, 0] for region in self.cloudwatch.series.values() for one in region.values()
        )
        return timedelta(seconds=(now.timestamp() + hours_left * 3600 - last) // 300 * 300)

    def publish(self, *surfaces: str) -> None:
        """Let NeuronCore metrics be there alone: classic (GetMetricData), otel (CloudWatch by PromQL), prometheus."""
        self.published = set(surfaces)
        if "classic" not in surfaces:
            for region, series in self.cloudwatch.series.items():
                self.store("otel", region), self.store("prometheus", region)
                self.cloudwatch.series[region] = {
                    key: x for key, x in series.items() if key[0] != "ContainerInsights"
                }

    def store(self, surface: str, region: str) -> PromqlStore:
        """Return what a Prometheus has of a region."""
        if (surface, region) not in self._stores:
            published = self.cloudwatch.series.get(region, {})
            self._stores[surface, region] = PromqlStore(
                list(samples(published, OTEL if surface == "otel" else EXPORTER))
            )
        return self._stores[surface, region]

    def query(
        self, signed: str, region: str, path: str, given: dict[str, list[str]]
    ) -> dict[str, Any]:
        surface = "otel" if signed == "monitoring" else "prometheus"
        with self._lock:
            store = (
                self.store(surface, region or min(self.cloudwatch.series))
                if surface in self.published
                else PromqlStore([])
            )
            return store.answer(path, given, self.shift.total_seconds(), self.clock().timestamp())

    def answer(
        self, service: str, operation: str, region: str, key: str, given: dict[str, Any]
    ) -> dict[str, Any]:
        with self._lock:
            return self._answer(service, operation, region, key, given)

    def _answer(
        self, service: str, operation: str, region: str, key: str, given: dict[str, Any]
    ) -> dict[str, Any]:
        account = key.removeprefix("ASIA") if key.startswith("ASIA") else ACCOUNT
        match operation:
            case "ListMetrics":
                return self.cloudwatch.list_metrics(region, given, self.now)
            case "GetMetricData":
                moved = {
                    name: _seconds(given[name]) - self.shift.total_seconds()
                    for name in ("StartTime", "EndTime")
                }
                self.spans.add((moved["StartTime"], moved["EndTime"]))
                return self.cloudwatch.get_metric_data(region, given | moved, self.now)
            case "GetCallerIdentity":
                return {
                    "Account": account,
                    "UserId": "AID",
                    "Arn": f"arn:aws:iam::{account}:user/bot",
                }
            case "AssumeRole":
                self.assumed.append(given)
                return {"Credentials": self._credentials(given["RoleArn"].split(":")[4])}
            case "FilterLogEvents":
                return self.logs.filter(given, self.now)
            case "LookupEvents":
                return {"Events": self._events(region, given)}
            case "ListExports":
                named = (
                    {"ExportArn": x["ExportArn"], "ExportName": x["Name"]} for x in self.exports
                )
                return {"Exports": [x | {"ExportStatus": {"StatusCode": "HEALTHY"}} for x in named]}
            case "GetExport":
                return {
                    "Export": next(x for x in self.exports if x["ExportArn"] == given["ExportArn"])
                }
            case "GetSpotPlacementScores":
                return {
                    "SpotPlacementScores": [
                        {"Region": region, "AvailabilityZoneId": "usw2-az3", "Score": 9}
                    ]
                }
        if (service, operation) == ("sagemaker", "ListClusters"):
            about = {
                "ClusterName": "pod",
                "ClusterArn": f"arn:aws:sagemaker:{region}:{account}:cluster/pod",
                "ClusterStatus": "InService",
                "CreationTime": 0,
            }
            return {"ClusterSummaries": [about]}
        if service == "sagemaker" and operation.endswith(("TrainingJobs", "TrainingJob")):
            job = training_job(region, account)
            summary = {name: job[name] for name in list(job)[:5]}
            return {"TrainingJobSummaries": [summary]} if operation.startswith("List") else job
        if service == "sqs":
            return self.queue.answer(operation, given, self.now)
        if service in ("athena", "ce"):
            return self._billed(operation, given)
        return self._recorded(service, operation, region, given, account)

    def _events(self, region: str, given: dict[str, Any]) -> list[dict[str, Any]]:
        """Return the events that name a resource, or were refused under a name, within the time asked for."""
        ((by, wanted),) = (
            (x["AttributeKey"], x["AttributeValue"]) for x in given["LookupAttributes"]
        )
        first, last = (
            _seconds(given[name]) - self.shift.total_seconds() for name in ("StartTime", "EndTime")
        )
        if by == "EventName":
            named = [event for event in self.trail if event["EventName"] == wanted]
            return [event for event in named if first <= _seconds(event["EventTime"]) <= last]
        files = (self.folder / "api/cloudtrail/lookup_events" / region).glob("*.json")
        events = [event for path in files for event in json.loads(path.read_text())["Events"]]
        within = [event for event in events if first <= _seconds(event["EventTime"]) <= last]
        return [
            event
            for event in within
            if any(x["ResourceName"] == wanted for x in event["Resources"])
        ]

    def _billed(self, operation: str, given: dict[str, Any]) -> dict[str, Any]:
        today = datetime.fromtimestamp(self.now, UTC).date()
        match operation:
            case "GetCostAndUsage":
                return self.costs.cost_and_usage(given, today)
            case "GetTableMetadata":
                return self.costs.table_metadata()
            case "StartQueryExecution":
                return {"QueryExecutionId": self.costs.start(given["QueryString"])}
            case "GetQueryExecution":
                for action in sorted(self.faults.denied & UNDER_ATHENA):
                    self.costs.failing = (
                        f"Insufficient permissions to execute the query. User: {BOT} is not"
                        f" authorized to perform: {action} on resource: x because no"
                        f" identity-based policy allows the {action} action"
                    )
                return self.costs.execution(given["QueryExecutionId"])
            case "GetQueryResults":
                return self.costs.results(given["QueryExecutionId"], given.get("NextToken", ""))
        return self.costs.said(operation, given, today)

    def _credentials(self, account: str) -> dict[str, Any]:
        until = self.clock() - self.shift + timedelta(hours=1)
        return {
            "AccessKeyId": f"ASIA{account}",
            "SecretAccessKey": "s",
            "SessionToken": "t",
            "Expiration": until,
        }

    def _recorded(
        self, service: str, operation: str, region: str, given: dict[str, Any], account: str
    ) -> dict[str, Any]:
        """Return the newest recorded answer at or before now; another account has things of its own ids."""
        name = _snake(operation)
        folder = self.folder / "api" / service / name / region
        now = f"{datetime.fromtimestamp(self.now, UTC):%Y%m%dT%H%M%SZ}"
        about = ".".join(given[name] for name in ("about", "group") if name in given)
        files = (
            sorted(
                path
                for path in folder.glob(f"*.{about}.json" if about else "*.json")
                if path.name[:16] <= now
            )
            or sorted(folder.glob("*.json"))[:1]
        )
        if not files:
            return {
                name: {} if operation == "DescribeCluster" else []
                for name in [_outer_member(service, operation)]
            }
        text = files[-1].read_text()
        if account != ACCOUNT:
            text = re.sub(
                r'"(i|vol|fs|cr)-0?', rf'"\1-{account[:4]}', text.replace(ACCOUNT, account)
            )
        found = json.loads(text)
        return _about(name, found, given)


def training_job(region: str, account: str) -> dict[str, Any]:
    """Return a training job on a host without an accelerator, which is nobody's node here."""
    return {
        "TrainingJobName": "prepare",
        "TrainingJobArn": f"arn:aws:sagemaker:{region}:{account}:training-job/prepare",
        "TrainingJobStatus": "InProgress",
        "SecondaryStatus": "Training",
        "CreationTime": 0,
        "TrainingStartTime": 0,
        "ModelArtifacts": {"S3ModelArtifacts": "s3://models/prepare"},
        "AlgorithmSpecification": {"TrainingInputMode": "File"},
        "ResourceConfig": {
            "InstanceType": "ml.m5.large",
            "InstanceCount": 1,
            "VolumeSizeInGB": 30,
        },
        "StoppingCondition": {"MaxRuntimeInSeconds": 86400},
    }


def _about(name: str, found: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    """Keep what the call is about."""
    if name == "get_products":
        wanted = [
            f["Value"] for f in given["Filters"] if f["Field"] in ("instanceType", "productFamily")
        ]
        return found | {
            "PriceList": [
                x for x in found["PriceList"] if all(f'"{value}"' in x for value in wanted)
            ]
        }
    if name == "describe_savings_plans_offering_rates":
        (wanted,) = next(x["values"] for x in given["filters"] if x["name"] == "instanceType")
        of_type = {"name": "instanceType", "value": wanted}
        return {"searchResults": [x for x in found["searchResults"] if of_type in x["properties"]]}
    if name == "describe_capacity_block_offerings":
        return {
            "CapacityBlockOfferings": [
                x
                for x in found["CapacityBlockOfferings"]
                if x["InstanceType"] == given["InstanceType"]
            ]
        }
    return found


def _outer_member(service: str, operation: str) -> str:
    """Return what an empty answer holds: an empty list, or one thing of which nothing is told."""
    members = model(service).operation_model(operation).output_shape.members
    lists = (name for name, of in members.items() if of.type_name == "list")
    return str(next(lists, next(iter(members))))


def _snake(operation: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", operation).lower()


def _seconds(value: Any) -> float:
    return (
        float(value)
        if isinstance(value, int | float)
        else datetime.fromisoformat(str(value)).timestamp()
    )


def main() -> None:
    p = argparse.ArgumentParser("python -m tests.aws_live.standin", description=__doc__)
    p.add_argument(
        "recording",
        type=Path,
        nargs="?",
        help="a recording with Parquet metrics; without one, one is simulated",
    )
    p.add_argument("--port", type=int, default=5055)
    p.add_argument(
        "--hours-left",
        type=float,
        default=2.25,
        help="how much of the recording lies ahead at the start",
    )
    p.add_argument("--throttled", type=float, default=0.0, help="share of calls that are throttled")
    p.add_argument("--reset", type=float, default=0.0, help="share of connections that are reset")
    p.add_argument(
        "--surface",
        choices=["classic", "otel", "prometheus"],
        default="classic",
        help="where NeuronCore metrics are",
    )
    p.add_argument(
        "--spark", action="store_true", help="the bill by a Spark Connect server in place of S3"
    )
    p.add_argument(
        "--run",
        nargs=argparse.REMAINDER,
        help="a command to run against it, in a folder of its own",
    )
    said = p.parse_args()
    began = datetime.now(UTC)
    with tempfile.TemporaryDirectory(prefix="standin-") as made:
        folder = (
            said.recording.resolve()
            if said.recording
            else simulated(Path(made), began, said.hours_left)
        )
        world = StandIn(folder, lambda: datetime.now(UTC))
        world.shift = world.shift_to(began, said.hours_left) if said.recording else timedelta(0)
        world.publish(said.surface)
        world.faults.throttled, world.faults.reset = said.throttled, said.reset
        told = environment(world, world.start(said.port))
        if said.spark:
            from pysail.spark import SparkConnectServer

            # It runs for as long as it is held.
            spark = SparkConnectServer("127.0.0.1", 0)
            spark.start(background=True)
            server = "sc://{}:{}".format(*spark.listening_address)
            del told["TRNBOT_AWS_BILLING"]
            told |= {"TRNBOT_SPARK": server, "TRNBOT_SPARK_TABLE": str(folder / "billing")}
        print(
            "AWS stands in; to use it:",
            *(f"export {name}={value}" for name, value in told.items()),
            sep="\n",
            flush=True,
        )
        if not said.run:
            threading.Event().wait()
        running = subprocess.Popen(said.run, env=os.environ | told, cwd=made)
        # Ctrl-C in a terminal reaches both: what runs ends by itself, with AWS there until then.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        ended = running.wait()
        world.stop()
        sys.exit(ended)


def environment(world: StandIn, endpoint: str) -> dict[str, str]:
    """Return what makes boto3 and trnbot use the stand-in."""
    server = (
        {"TRNBOT_METRICS_URL": f"{endpoint}/prometheus"} if "prometheus" in world.published else {}
    )
    return server | {
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_ACCESS_KEY_ID": "AKIASTANDIN",
        "AWS_SECRET_ACCESS_KEY": "standin",
        "TRNBOT_SOURCE": "aws",
        "TRNBOT_AWS_REGIONS": ",".join(sorted(world.cloudwatch.series)),
        "TRNBOT_AWS_BILLING": f"s3://{BUCKET}/billing",
    }


def simulated(folder: Path, now: datetime, hours_left: float) -> Path:
    """Simulate three nodes over six hours, two of them idle from the third on."""
    from adapters.simulator.generate import SimulationTiming, generate

    start = now.replace(minute=now.minute // 5 * 5, second=0, microsecond=0) - timedelta(
        hours=6 - hours_left
    )
    generate(folder / "recording", 7, "tiny", SimulationTiming(start))
    return folder / "recording"


if __name__ == "__main__":
    main()
