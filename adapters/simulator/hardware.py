"""Read what an instance is made of and costs: dated rows of `hardware.csv`, each with its source."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from importlib import resources

from bot.errors import WrongInput, nearest


@dataclass(frozen=True)
class Hardware:
    """State one instance type; `cores` as Neuron shows them by default (GPUs for GPU types)."""

    instance_type: str
    accelerator: str
    devices: int
    cores: int
    device_memory_bytes: float
    vcpus: int
    host_memory_gib: int
    nic_bytes_per_second: float
    efa_interfaces: int
    usd_per_hour: Decimal
    market: str

    @property
    def family(self) -> str:
        """Return the part before the dot."""
        return self.instance_type.partition(".")[0]


@cache
def catalogue() -> dict[str, Hardware]:
    """Return every known type by name."""
    text = resources.files(__package__).joinpath("hardware.csv").read_text(encoding="utf-8")
    return {row["instance_type"]: _parse(row) for row in csv.DictReader(text.splitlines())}


def hardware(instance_type: str) -> Hardware:
    """Return one type; raise `WrongInput` with the nearest known name."""
    if instance_type not in catalogue():
        raise WrongInput(f"The simulator has no '{instance_type}'{nearest(instance_type, catalogue())}.")
    return catalogue()[instance_type]


def _parse(row: dict[str, str]) -> Hardware:
    return Hardware(
        instance_type=row["instance_type"],
        accelerator=row["accelerator"],
        devices=int(row["devices"]),
        cores=int(row["cores"]),
        device_memory_bytes=int(row["device_memory_gib"]) * 2.0**30,
        vcpus=int(row["vcpus"]),
        host_memory_gib=int(row["host_memory_gib"]),
        nic_bytes_per_second=float(row["nic_gbps"]) * 1e9 / 8,
        efa_interfaces=int(row["efa_interfaces"]),
        usd_per_hour=Decimal(row["usd_per_hour"]),
        market=row["market"],
    )
