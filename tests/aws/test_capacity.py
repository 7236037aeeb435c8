"""Capacity that is paid for and stands empty: from a recorded reservation to the dollars of its alert."""

import json
from datetime import timedelta
from decimal import Decimal

import pytest

from adapters.billing.bill import open_billing
from adapters.store.memory import MemoryStore
from bot.knowledge import load_knowledge
from bot.model.causes import Cause
from bot.watch.tick import Watch
from detectors import Detector
from tests.aws_live.serialize import validated
from tests.builders import ports_over


@pytest.fixture
def watch(build, at, tmp_path):
    """Return the watch over a Capacity Block of eight, some empty, at $9.532 an hour each."""

    def made(available):
        build.node("node_neuroncore_utilization", dict.fromkeys(range(400), (32, 32 * 90)))
        one = {"CapacityReservationId": "cr-0123456789abcdef0", "InstanceType": "trn1.32xlarge", "TotalInstanceCount": 8,
               "AvailableInstanceCount": available, "StartDate": at(0), "EndDate": at(6000), "State": "active",
               "ReservationType": "capacity-block", "AvailabilityZone": "us-west-2b"}  # fmt: skip
        offer = {"CapacityBlockOfferingId": "cb-0123456789abcdef0", "InstanceType": "trn1.32xlarge", "InstanceCount": 1,
                 "CapacityBlockDurationHours": 24, "UpfrontFee": "228.768", "AvailabilityZone": "us-west-2b"}  # fmt: skip
        for operation, name, response in (
            (
                "DescribeCapacityReservations",
                "describe_capacity_reservations",
                {"CapacityReservations": [one]},
            ),
            (
                "DescribeCapacityBlockOfferings",
                "describe_capacity_block_offerings",
                {"CapacityBlockOfferings": [offer]},
            ),
        ):
            text = json.dumps(validated("ec2", operation, response), default=str)
            build.api(f"ec2/{name}/us-west-2/{at(0):%Y%m%dT%H%M%SZ}.json", text)
        (tmp_path / "none").mkdir(exist_ok=True)
        seen, state = build.open(), MemoryStore()
        ports = ports_over(
            seen,
            state,
            billing=open_billing(tmp_path / "none"),
            knowledge=load_knowledge(),
            detect=Detector(),
        )
        return Watch(ports, ("web:alerts",))

    return made


@pytest.mark.parametrize("available", [1, 4, 8])
def test_empty_places_cost_what_they_are_paid(watch, at, available):
    look = watch(available).tick(at(140))
    (alert,) = (x for x in look.outcome.alerts if x.cause is Cause.UNUSED_CAPACITY)
    assert alert.waste is not None
    assert alert.waste.per_hour == available * Decimal("9.532")
    hours = Decimal(str((at(140) - alert.anomaly.window.start) / timedelta(hours=1)))
    assert abs(alert.waste.so_far - available * Decimal("9.532") * hours) < Decimal("0.01")


def test_a_full_reservation_is_no_waste(watch, at):
    assert not [
        x for x in watch(0).tick(at(140)).outcome.alerts if x.cause is Cause.UNUSED_CAPACITY
    ]
