import json
from decimal import Decimal

import pytest

from bot.model.fleet import Market
from bot.model.price import Basis


def product(name, usd, market="OnDemand", **attributes):
    of = {
        "instanceType": name,
        "regionCode": "us-west-2",
        "operatingSystem": "Linux",
        "tenancy": "Shared",
        "preInstalledSw": "NA",
        "capacitystatus": "Used",
        "marketoption": market,
        **attributes,
    }
    dimension = {"unit": "Hrs", "pricePerUnit": {"USD": usd}}
    term = {"effectiveDate": "2026-09-01T00:00:00Z", "priceDimensions": {"x": dimension}}
    return json.dumps({"product": {"attributes": of}, "terms": {"OnDemand": {"y": term}}})


def change(usd, at, zone="us-west-2a", **more):
    return {
        "InstanceType": "trn1.32xlarge",
        "AvailabilityZone": zone,
        "ProductDescription": "Linux/UNIX",
        "SpotPrice": usd,
        "Timestamp": at.isoformat(),
        **more,
    }


@pytest.fixture
def quotes(build, at):
    build.node("node_neuroncore_utilization", {m: (32, m) for m in range(120)})

    def of(name, minute=90, region="us-west-2"):
        return build.open().quotes(name, region, at(minute))

    return of


def test_only_plain_on_demand_hours_are_listed(build, quotes, at):
    listed = [
        product("trn1.32xlarge", "21.5000000000"),
        product("trn1.32xlarge", "0.0000000000", market="CapacityBlock"),
        product("trn1.32xlarge", "30.0", operatingSystem="Windows"),
        product("trn1.32xlarge", "23.0", tenancy="Dedicated"),
        product("trn2.48xlarge", "0.0000000000", market="CapacityBlock"),
        product("trn2.48xlarge", "0.0000000000"),
    ]
    build.api("pricing/get_products/us-east-1/20261117T120000Z.json", {"PriceList": listed})
    (price,) = quotes("trn1.32xlarge")
    assert (price.usd_per_hour, price.market, price.basis) == (
        Decimal("21.5"),
        Market.ON_DEMAND,
        Basis.LISTED,
    )
    assert (price.region, price.asof, "2026-09-01" in price.source) == (
        "us-west-2",
        at(0).date(),
        True,
    )
    assert quotes("trn2.48xlarge") == ()
    assert quotes("trn1.32xlarge", region="eu-west-1") == ()


def test_a_response_about_one_thing_carries_its_name(build, quotes):
    for name in ("trn1.32xlarge", "inf2.xlarge"):
        build.api(
            f"pricing/get_products/us-east-1/20261117T120000Z.{name}.json",
            {"PriceList": [product(name, "1.5")]},
        )
    assert [len(quotes(name)) for name in ("trn1.32xlarge", "inf2.xlarge")] == [1, 1]


def test_spot_prices_are_known_when_they_change(build, quotes, at):
    first = [
        change("8.10", at(-60)),
        change("7.50", at(-90), zone="us-west-2b"),
        change("99", at(-5), ProductDescription="Windows"),
    ]
    build.api(
        f"ec2/describe_spot_price_history/us-west-2/{at(0):%Y%m%dT%H%M%SZ}.json",
        {"SpotPriceHistory": first},
    )
    second = [change("8.90", at(40))]
    build.api(
        f"ec2/describe_spot_price_history/us-west-2/{at(60):%Y%m%dT%H%M%SZ}.json",
        [{"SpotPriceHistory": second}],
    )
    assert [(x.zone, x.usd_per_hour) for x in quotes("trn1.32xlarge", 50)] == [
        ("us-west-2b", Decimal("7.50")),
        ("us-west-2a", Decimal("8.10")),
    ]
    assert {(x.zone, x.usd_per_hour) for x in quotes("trn1.32xlarge", 90)} == {
        ("us-west-2b", Decimal("7.50")),
        ("us-west-2a", Decimal("8.90")),
    }
    history = build.open().spot_history("trn1.32xlarge", at(90))
    assert [when for when, _ in history] == [at(-90), at(-60), at(40)]


def test_a_capacity_block_costs_its_fee_over_instances_and_hours(build, quotes):
    offer = {
        "InstanceType": "trn2.48xlarge",
        "AvailabilityZone": "us-west-2a",
        "InstanceCount": 2,
        "CapacityBlockDurationHours": 24,
        "UpfrontFee": "1716.5184",
    }
    build.api(
        "ec2/describe_capacity_block_offerings/us-west-2/20261117T120000Z.json",
        {"CapacityBlockOfferings": [offer, {**offer, "UpfrontFee": "2000"}]},
    )
    (price,) = quotes("trn2.48xlarge")
    assert (price.usd_per_hour, price.basis) == (Decimal("35.7608"), Basis.CAPACITY_BLOCK)


def test_a_garbled_price_list_is_reported(build, quotes, at):
    build.api("pricing/get_products/us-east-1/20261117T120000Z.json", {"PriceList": ["{"]})
    build.api(
        "pricing/get_products/us-east-1/20261117T130000Z.json",
        {"PriceList": [product("trn1.32xlarge", "soon")]},
    )
    assert quotes("trn1.32xlarge") == ()
    assert len(build.open().problems()) == 2
