"""Write a world as a recording: metric streams, what AWS's calls answered, the bill, the truth."""

from __future__ import annotations

import csv
import gzip
import io
import json
import zlib
from collections import defaultdict
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np

from tests.worlds.fleet import DAY, HOUR, STEP, Cluster, Instance, Pod, Run, World

SCRAPES = 5
"""Readings of the agent in a step: one a minute."""
PERCENT, BYTES, COUNT, SECONDS = "Percent", "Bytes", "Count", "Seconds"
RATE = "Bytes/Second"
PACKET_RATE = "Count/Second"
Statistic = tuple[np.ndarray, np.ndarray, np.ndarray]
"""Mean, highest and lowest sample of each step."""


def write(world: World, folder: Path) -> int:
    """Write the whole recording; return the number of metric records."""
    folder.mkdir(parents=True)
    records = write_metrics(world, folder / "metrics")
    write_inventory(world, folder / "api")
    write_bill(world, folder / "billing")
    for name, notes in (("labels.json", world.labels), ("labels_benign.json", world.benign)):
        (folder / name).write_text(json.dumps(notes, indent=1) + "\n")
    return records


# Metrics


def write_metrics(world: World, folder: Path) -> int:
    """Write a file for each cluster, series by series."""
    clusters = {group.cluster.name: group.cluster for group in world.groups.values()}
    records = 0
    for cluster in clusters.values():
        path = folder / cluster.region / f"{cluster.name}.jsonl.gz"
        path.parent.mkdir(parents=True, exist_ok=True)
        packer = zlib.compressobj(1, zlib.DEFLATED, 31)
        with path.open("wb") as file:
            for count, text in series_of(world, cluster):
                records += count
                file.write(packer.compress(text.encode()))
            file.write(packer.flush())
    return records


def series_of(world: World, cluster: Cluster) -> Iterator[tuple[int, str]]:
    """Yield the records of each series of a cluster, and how many they are."""
    series = Series(world, cluster)
    for instance in world.instances:
        if instance.group.cluster is cluster:
            yield from node_series(series, instance)
    for pod in world.pods:
        if pod.group.cluster is cluster and pod.end > pod.start:
            yield from pod_series(series, pod)
    for run in world.runs:
        if run.group.cluster is cluster:
            yield from run_series(series, run)


class Series:
    """Turn columns of one cluster's numbers into lines of a metric stream."""

    def __init__(self, world: World, cluster: Cluster) -> None:
        self.world, self.cluster = world, cluster
        epoch = int(world.start.timestamp() * 1000)
        self.times = epoch + np.arange(world.steps) * int(STEP.total_seconds() * 1000)

    def lines(
        self,
        name: str,
        unit: str,
        dimensions: dict[str, str],
        steps: np.ndarray,
        statistic: Statistic,
        samples: int = 1,
        namespace: str = "ContainerInsights",
    ) -> tuple[int, str]:
        """Return one record a step, of `samples` samples a scrape."""
        head = json.dumps(
            {
                "metric_stream_name": "fleet",
                "account_id": self.world.account,
                "region": self.cluster.region,
                "namespace": namespace,
                "metric_name": name,
                "dimensions": {"ClusterName": self.cluster.name} | dimensions,
            }
        )[:-1]
        count = SCRAPES * samples
        mean, high, low = (column.astype(float)[steps] for column in statistic)
        columns = (np.round(mean * count, 4), np.round(high, 4), np.round(low, 4))
        numbers = zip(self.times[steps].tolist(), *(x.tolist() for x in columns), strict=True)
        text = "".join(
            [
                f'{head}, "timestamp": {time}, "value": {{"count": {count}, "sum": {total}, '
                f'"max": {top}, "min": {bottom}}}, "unit": "{unit}"}}\n'
                for time, total, top, bottom in numbers
            ]
        )
        return len(steps), text


def same(mean: np.ndarray) -> Statistic:
    """Return the statistic of samples that are all alike."""
    return mean, mean, mean


def utilization(world: World, slot: int) -> Statistic:
    """Return a node's utilization with its busiest and its laziest core."""
    mean, spread, peak, floor = (
        world.signals[x][slot] for x in ("util", "spread", "peak", "floor")
    )
    works = (mean > 0) & (mean < 100)
    high = np.where(np.isnan(peak), mean + spread * works, peak)
    low = np.where(np.isnan(floor), mean - spread * works, floor)
    return mean, np.clip(high, mean, 100), np.clip(low, 0, mean)


def node_series(series: Series, instance: Instance) -> Iterator[tuple[int, str]]:
    """Yield the series of one node."""
    world, slot, hardware = series.world, instance.slot, instance.group.hardware
    here = np.zeros(world.steps, bool)
    here[max(0, instance.start) : max(0, instance.end)] = True
    steps = np.flatnonzero(here & world.read[slot])
    if not len(steps):
        return

    signals = {name: values[slot] for name, values in world.signals.items()}
    memory = hardware.memory_gib * 2.0**30
    core = memory / hardware.cores
    tensors = np.round(signals["tensors"] * core / 65536) * 65536
    code = np.round(signals["code"] * core / 65536) * 65536
    loaded = (signals["tensors"] > 0).astype(float)
    cores, devices = hardware.cores, hardware.devices
    ecc = signals["ecc"] / SCRAPES / devices
    errors = signals["errors"] / SCRAPES
    tables = [
        ("neuroncore_utilization", PERCENT, utilization(world, slot), cores),
        ("neuroncore_memory_usage_total", BYTES, same(tensors + code), cores),
        ("neuroncore_memory_usage_tensors", BYTES, same(tensors), cores),
        ("neuroncore_memory_usage_model_code", BYTES, same(np.round(code * 0.4)), cores),
        ("neurondevice_runtime_memory_used_bytes", BYTES, same((tensors + code) * cores), 1),
        ("neuron_execution_errors_total", COUNT, (errors, np.ceil(errors), errors * 0), 1),
        ("neurondevice_hw_ecc_events_total", COUNT, (ecc, ecc * devices, ecc * 0), devices),
        ("neuroncore_limit", COUNT, same(loaded * 0 + cores), 1),
        ("neuroncore_usage_total", COUNT, same(signals["reserved"]), 1),
        ("cpu_utilization", PERCENT, same(signals["cpu"]), 1),
        ("memory_utilization", PERCENT, same(signals["host"]), 1),
    ]
    if hardware.interfaces:
        sent = signals["efa"] * hardware.efa_bytes_per_second / hardware.interfaces
        sent = np.round(sent / 1e4) * 1e4
        tables += [
            ("efa_rx_bytes", RATE, same(sent), hardware.interfaces),
            ("efa_tx_bytes", RATE, same(sent), hardware.interfaces),
            ("efa_rx_dropped", PACKET_RATE, same(signals["dropped"]), hardware.interfaces),
            ("efa_retrans_pkts", COUNT, same(signals["resent"]), hardware.interfaces),
        ]
    dimensions = {"InstanceId": instance.id, "NodeName": instance.node}
    for name, unit, statistic, samples in tables:
        yield series.lines(f"node_{name}", unit, dimensions, steps, statistic, samples)

    # An execution that never ends has no latency; without a runtime the agent writes 0.
    told = steps[(signals["latency"][steps] > 0) | (loaded[steps] == 0)]
    latency = same(signals["latency"])
    yield series.lines("node_neuron_execution_latency", SECONDS, dimensions, told, latency)


def pod_series(series: Series, pod: Pod) -> Iterator[tuple[int, str]]:
    """Yield the series of one pod."""
    world = series.world
    here = np.zeros(world.steps, bool)
    here[pod.start : pod.end] = True
    steps = np.flatnonzero(here & world.read[pod.slot])
    if not len(steps):
        return

    node = next(x for x in world.instances if x.slot == pod.slot and x.end > steps[0])
    dimensions = {"Namespace": pod.group.team, "PodName": pod.name}
    dimensions["FullPodName"] = f"{pod.name}-{node.id[-5:]}"
    if pod.utilization is None:
        busy = utilization(world, pod.slot)
    else:
        busy = same(pod.utilization)
    yield series.lines("pod_neuroncore_utilization", PERCENT, dimensions, steps, busy, pod.cores)
    cores = same(np.full(world.steps, float(pod.cores)))
    for name in ("pod_neuroncore_request", "pod_neuroncore_usage_total"):
        yield series.lines(name, COUNT, dimensions, steps, cores)


def run_series(series: Series, run: Run) -> Iterator[tuple[int, str]]:
    """Yield what a run says: steps fall back to the last checkpoint at a restart."""
    world = series.world
    saved_at, restarts = set(run.checkpoints()), set(run.restarts)
    done = saved = 2e5
    finished, age, ages = np.empty(world.steps), 0, np.empty(world.steps)
    for step, speed in enumerate(np.nan_to_num(run.speed)):
        if step in restarts:
            done = saved
        done += speed * run.steps_per_minute * SCRAPES
        age += 1
        if step in saved_at:
            saved, age = done, 0
        finished[step], ages[step] = np.floor(done), age
    loss = 1.4 + 3 * (finished / 2e5) ** -0.6 + 0.01 * world.noise(1, world.steps)[0]

    steps = np.flatnonzero(~np.isnan(run.speed))
    step_seconds = STEP.total_seconds()
    columns = {
        "Step": (finished, COUNT),
        "Tokens": (finished * run.tokens_per_step, COUNT),
        "Epoch": (np.floor(finished / 1e5), COUNT),
        "Loss": (loss, "None"),
        "CheckpointAgeSeconds": (ages * step_seconds, SECONDS),
    }
    for name, (values, unit) in columns.items():
        yield series.lines(name, unit, {"Run": run.name}, steps, same(values), 1, "Trn/Training")


# Inventory


def write_inventory(world: World, folder: Path) -> None:
    """Write what EC2 and SageMaker said each day and at each change."""

    def put(
        service: str, operation: str, region: str, step: int, body: dict, about: str = ""
    ) -> None:
        place = folder / service / operation / region
        place.mkdir(parents=True, exist_ok=True)
        moment = world.start + step * STEP
        body |= {"ResponseMetadata": {"HTTPStatusCode": 200, "RetryAttempts": 0}}
        (place / f"{moment:%Y%m%dT%H%M%SZ}{about}.json").write_text(json.dumps(body) + "\n")

    clusters = {group.cluster.name: group.cluster for group in world.groups.values()}
    by_region = defaultdict(list)
    for instance in world.instances:
        cluster = instance.group.cluster
        by_region[cluster.name if cluster.hyperpod else cluster.region].append(instance)

    for place, instances in sorted(by_region.items()):
        for step in polls(world, instances):
            if place not in clusters:
                put("ec2", "describe_instances", place, step, reservations(world, instances, step))
                continue
            region = clusters[place].region
            nodes = [hyperpod_node(world, x) for x in instances if x.start <= step < x.end]
            body = {"ClusterNodeSummaries": nodes}
            put("sagemaker", "list_cluster_nodes", region, step, body, f".{place}")
            put(
                "sagemaker",
                "list_clusters",
                region,
                step,
                {"ClusterSummaries": [pod_cluster(world, clusters[place])]},
            )

    region = world.groups["block"].cluster.region
    for step in polls(world, [x for x in world.instances if x.group.name == "block"]):
        body = {"CapacityReservations": [capacity_block(world, step)]}
        put("ec2", "describe_capacity_reservations", region, step, body)


def polls(world: World, instances: Iterable[Instance]) -> list[int]:
    """Return the steps in which the inventory was asked for."""
    changes = {x for instance in instances for x in (instance.start, instance.end)}
    return sorted({x for x in changes if 0 <= x < world.steps} | set(range(0, world.steps, DAY)))


def moment(world: World, step: int) -> str:
    """Return a step's time as boto3's answers are written."""
    return f"{world.start + step * STEP:%Y-%m-%dT%H:%M:%S+00:00}"


def reservations(world: World, instances: list[Instance], step: int) -> dict:
    """Return DescribeInstances: who runs, and who ended within the last hour."""
    listed = []
    for instance in instances:
        if not instance.start <= step < instance.end + HOUR:
            continue
        group, cluster = instance.group, instance.group.cluster
        tags = {"eks:cluster-name": cluster.name, "team": group.team} | group.tags
        if group.name == "karpenter":
            tags |= {"karpenter.sh/nodepool": "trainium"}
        described = {
            "InstanceId": instance.id,
            "InstanceType": group.instance_type,
            "LaunchTime": moment(world, instance.start),
            "Placement": {"AvailabilityZone": f"{cluster.region}b"},
            "PrivateDnsName": instance.node,
            "State": {"Code": 16, "Name": "running"},
            "Tags": [{"Key": key, "Value": value} for key, value in tags.items()],
        }
        if step >= instance.end:
            ended = world.start + instance.end * STEP
            described["State"] = {"Code": 48, "Name": "terminated"}
            described["StateTransitionReason"] = f"User initiated ({ended:%Y-%m-%d %H:%M:%S} GMT)"
        if group.name == "block":
            described["InstanceLifecycle"] = "capacity-block"
            described["CapacityReservationId"] = BLOCK
        listed.append({"OwnerId": world.account, "Instances": [described]})
    return {"Reservations": listed}


BLOCK = "cr-0b10c0b10c0b10c0b"


def capacity_block(world: World, step: int) -> dict:
    """Return the Capacity Block as DescribeCapacityReservations tells of it."""
    first, last = world.block
    state = "scheduled" if step < first else "active" if step < last else "expired"
    used = any(x.group.name == "block" and x.start <= step < x.end for x in world.instances)
    return {
        "CapacityReservationId": BLOCK,
        "OwnerId": world.account,
        "InstanceType": world.groups["block"].instance_type,
        "AvailabilityZone": f"{world.groups['block'].cluster.region}b",
        "TotalInstanceCount": 1,
        "AvailableInstanceCount": 0 if used else 1,
        "State": state,
        "ReservationType": "capacity-block",
        "StartDate": moment(world, first),
        "EndDate": moment(world, last),
        "EndDateType": "limited",
        "CreateDate": moment(world, -5 * DAY),
        "Tags": [{"Key": "team", "Value": world.groups["block"].team}],
    }


def pod_cluster(world: World, cluster: Cluster) -> dict:
    """Return one summary of ListClusters."""
    arn = f"arn:aws:sagemaker:{cluster.region}:{world.account}:cluster/{cluster.name}"
    created = moment(world, -90 * DAY)
    names = {"ClusterName": cluster.name, "ClusterArn": arn}
    return names | {"CreationTime": created, "ClusterStatus": "InService"}


def hyperpod_node(world: World, instance: Instance) -> dict:
    """Return one summary of ListClusterNodes."""
    return {
        "InstanceGroupName": "workers",
        "InstanceId": instance.id,
        "InstanceType": instance.group.instance_type,
        "LaunchTime": moment(world, instance.start),
        "InstanceStatus": {"Status": "Running", "Message": ""},
    }


# The bill

PREFIXES = {"us-east-1": "", "us-east-2": "USE2-", "us-west-2": "USW2-", "eu-central-1": "EUC1-"}
HISTORY = 14 * DAY
LATE = 8 * HOUR
"""The last hours of a recording have not been billed yet."""
COLUMNS = [
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
    "line_item_unblended_rate",
    "line_item_unblended_cost",
    "line_item_currency_code",
    "pricing_public_on_demand_cost",
    "product_region_code",
    "product_instance_type",
    "resource_tags",
]


def write_bill(world: World, folder: Path) -> None:
    """Write a CUR 2.0 file for each month."""
    files: dict[str, list[list[str]]] = defaultdict(list)
    for number, row in enumerate(bill_rows(world)):
        begin: datetime = row.pop("begin")
        month = f"{begin:%Y-%m}"
        cost = row["usage"] * row["rate"]
        cells = (
            f"{month}-01T00:00:00Z",
            world.account,
            f"row{number}",
            row.get("kind", "Usage"),
            world.account,
            row["service"],
            row["type"],
            row["operation"],
            row.get("resource", ""),
            f"{begin:%Y-%m-%dT%H:%M:%SZ}",
            f"{begin + timedelta(hours=1):%Y-%m-%dT%H:%M:%SZ}",
            f"{row['usage']:.6f}",
            f"{row['rate']:.8f}",
            f"{cost:.8f}",
            "USD",
            f"{cost:.8f}",
            row["region"],
            row.get("hardware", ""),
            json.dumps(row.get("tags", {})),
        )
        files[month].append(list(cells))
    for month, rows in files.items():
        path = folder / f"BILLING_PERIOD={month}" / "part-1.csv.gz"
        path.parent.mkdir(parents=True)
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows([COLUMNS, *rows])
        path.write_bytes(gzip.compress(text.getvalue().encode(), 6, mtime=0))


def bill_rows(world: World) -> Iterator[dict]:
    """Yield what each hour cost: nodes, then the account's small lines."""
    for instance in world.instances:
        first = max(-HISTORY, instance.start)
        last = min(world.steps - LATE, instance.end)
        for hour in range(first // HOUR, -(-last // HOUR)):
            share = (min(last, (hour + 1) * HOUR) - max(first, hour * HOUR)) / HOUR
            yield node_row(world, instance, hour) | {"usage": share}

    begin = world.start - HISTORY * STEP
    fee = {"kind": "Fee", "service": "AmazonEC2", "type": "USE2-CapacityBlock:trn2.48xlarge"}
    hours = (world.block[1] - world.block[0]) / HOUR
    rate = world.groups["block"].hardware.usd_per_hour
    fee |= {"operation": "RunInstances", "resource": BLOCK, "usage": hours, "rate": rate}
    yield fee | {"begin": begin, "region": "us-east-2"}

    region = world.groups["karpenter"].cluster.region
    lines = {
        "requests": ("AmazonS3", "Requests-Tier1", "PutObject", 5e-6, 2.0),
        "transfer": ("AmazonEC2", "DataTransfer-Regional-Bytes", "InterZone-Out", 0.01, 1.5),
    }
    for hour in range(-HISTORY // HOUR, (world.steps - 2 * DAY) // HOUR):
        for line, (service, usage_type, operation, price, usual) in lines.items():
            cost = usual * float(world.rng.uniform(0.85, 1.15))
            for jumped, start, end, usd in world.jumps:
                if jumped == line and start <= hour * HOUR < end:
                    cost += usd
            row = {"service": service, "operation": operation, "rate": price, "region": region}
            row |= {"type": PREFIXES[region] + usage_type, "usage": cost / price}
            yield row | {"begin": world.start + timedelta(hours=hour)}


def node_row(world: World, instance: Instance, hour: int) -> dict:
    """Return one hour of one node, without its share of the hour."""
    group, cluster = instance.group, instance.group.cluster
    row = {
        "begin": world.start + timedelta(hours=hour),
        "service": "AmazonEC2",
        "type": f"{PREFIXES[cluster.region]}BoxUsage:{group.instance_type}",
        "operation": "RunInstances",
        "resource": instance.id,
        "rate": group.hardware.usd_per_hour,
        "region": cluster.region,
        "hardware": group.instance_type,
        "tags": {"user_team": group.team, "aws_eks_cluster_name": cluster.name},
    }
    if group.name == "block":
        row["rate"] = 0.0  # paid by its fee
    if cluster.hyperpod:
        arn = f"arn:aws:sagemaker:{cluster.region}:{world.account}:cluster/{cluster.name}"
        usage_type = f"{PREFIXES[cluster.region]}Cluster:{group.instance_type}"
        hidden = {"service": "AmazonSageMaker", "operation": "RunInstance", "resource": arn}
        row |= hidden | {"type": usage_type, "tags": {}}
    return row
