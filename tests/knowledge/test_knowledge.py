import csv
import json
from decimal import Decimal
from importlib.resources import files
from pathlib import Path

import pytest

from bot.knowledge import _each, load_knowledge
from bot.model.fleet import Market, hardware_of
from bot.model.price import Basis
from tests.cases import in_one_run

OWN = {"figures.csv"}
"""How trnbot computes its own figures: no fact of others, so without source and date."""
DATA = sorted(
    x.name
    for x in files("bot.knowledge").iterdir()
    if x.name.endswith(".csv") and x.name not in OWN
)
FACTS = load_knowledge()
SHARED = Path(__file__).parents[3] / "shared" / "data" / "prices"
captured = pytest.mark.skipif(
    not SHARED.exists(), reason="the captured AWS responses are not beside this repository"
)


@in_one_run
@pytest.mark.parametrize("name", DATA)
def test_every_row_has_a_source_a_date_and_no_stray_comma(name):
    rows = list(csv.DictReader((files("bot.knowledge") / name).read_text().splitlines()))
    assert rows
    for row in rows:
        assert None not in row
        assert row["source"].strip()
        assert "2022-01-01" <= row["asof"] <= "2026-12-31"


@pytest.mark.parametrize(
    ("name", "chips", "cores", "memory", "network", "bf16"),
    [
        ("trn1.2xlarge", 1, 2, 32, 12.5, 190),
        ("trn1.32xlarge", 16, 32, 512, 800, 3040),
        ("trn1n.32xlarge", 16, 32, 512, 1600, 3040),
        ("trn2.48xlarge", 16, 64, 1536, 3200, 10700),
        ("p5.48xlarge", 8, 8, 640, 3200, 7912),
    ],
)
def test_specifications_are_the_documented_ones(name, chips, cores, memory, network, bf16):
    found = FACTS.types()[name]
    assert (found.chips, found.cores, found.accelerator_memory_gib) == (chips, cores, memory)
    assert (found.network_gbps, found.bf16_tflops) == (network, bf16)


@captured
def test_hosts_and_accelerators_agree_with_ec2_except_where_a_note_says_so():
    described = json.loads(
        (SHARED / "ec2_describe_instance_types_from_moto_5.2.5.json").read_text()
    )
    every = described["InstanceTypes"] if "InstanceTypes" in described else described.values()
    compared = 0
    for ec2 in every if isinstance(described, dict) else described:
        if found := FACTS.types().get(ec2["InstanceType"]):
            compared += 1
            assert found.vcpus == ec2["VCpuInfo"]["DefaultVCpus"]
            assert found.host_memory_gib == ec2["MemoryInfo"]["SizeInMiB"] / 1024
            memory = ec2.get("NeuronInfo", ec2.get("GpuInfo", {}))
            mib = (
                memory.get("TotalNeuronDeviceMemoryInMiB") or memory.get("TotalGpuMemoryInMiB") or 0
            )
            assert found.accelerator_memory_gib == mib // 1024 or "EC2" in found.note
    assert compared >= 18


@captured
def test_on_demand_prices_are_those_captured():
    with (SHARED / "ondemand_us_east_1.csv").open() as file:
        expected = {
            row["instance_type"]: Decimal(row["usd_per_hour"]) for row in csv.DictReader(file)
        }
    found = {
        x.instance_type: x.usd_per_hour
        for x in FACTS.fallback_prices()
        if x.market is Market.ON_DEMAND
    }
    # The capture is of EC2: SageMaker's `ml.` types are not in it.
    assert {name: x for name, x in found.items() if not name.startswith(("g", "ml."))} == expected


def test_fallback_prices_say_that_they_are():
    prices = FACTS.fallback_prices()
    assert {price.basis for price in prices} == {Basis.FALLBACK}
    assert all(price.usd_per_hour > 0 for price in prices)


def test_trn2_has_no_on_demand_price():
    found = [
        (x.market, x.region, x.usd_per_hour)
        for x in FACTS.fallback_prices()
        if x.instance_type == "trn2.48xlarge"
    ]
    assert found == [(Market.CAPACITY_BLOCK, "us-east-2", Decimal("35.7608"))]


def test_every_priced_type_is_specified():
    priced = {hardware_of(price.instance_type) for price in FACTS.fallback_prices()}
    assert priced <= set(FACTS.types())


def test_vendors_disagree_on_trn2_and_each_voice_is_kept():
    factors = [
        x.factor
        for x in FACTS.claims().speedups
        if (x.from_family, x.to_family) == ("trn1", "trn2")
    ]
    assert factors == [2.0, 3.4, 4.0]


def test_conflicts_are_found_by_family_or_type():
    about = [x.vendor_says for x in FACTS.claims().conflicts if x.about("trn2.48xlarge")]
    assert any("768 GB" in words for words in about)
    assert not any(
        x.about("trn2.48xlarge") for x in FACTS.claims().conflicts if x.subject == "trn1"
    )


def test_the_facts_are_read_once():
    assert load_knowledge() is FACTS
    assert FACTS.types() is FACTS.types()


def test_a_row_that_does_not_fit_is_named_by_file_and_line():
    with pytest.raises(ValueError, match=r"prices.csv, line 2: 'chips'"):
        list(_each("prices.csv", lambda row: int(row["chips"])))
