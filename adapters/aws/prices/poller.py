"""Poll prices once a day.

Price List, spot history, Capacity Blocks, commitments, spot scores and the Spot Advisor.
"""

from __future__ import annotations

import re
import urllib.request
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import orjson

from adapters.aws.api.calls import WORKERS, Poller
from adapters.aws.api.operations import Place, home_of, is_sold_in
from adapters.aws.api.responses import ApiCall
from adapters.aws.prices.quoted import (
    ADVISOR_OPERATION,
    ADVISOR_SERVICE,
    ANY_OF,
    FEWEST_TYPES,
    LINUX,
    PLAIN_HOURS,
)
from bot.errors import Unavailable


def read_advisor(place: str) -> Mapping[str, Any]:
    """Return the parts of the file that mean something.

    Raise `Unavailable` with one sentence where it cannot be had.
    """
    try:
        if place.startswith(("https://", "http://")):
            with urllib.request.urlopen(place, timeout=20) as answer:  # noqa: S310
                document = orjson.loads(answer.read(64 << 20))
        else:
            document = orjson.loads(Path(place).read_bytes())
        return {name: document[name] for name in ("ranges", "spot_advisor")}
    except OSError as error:
        raise Unavailable(
            f"The Spot Advisor's data cannot be read ({type(error).__name__});"
            " see TRNBOT_AWS_SPOT_ADVISOR."
        ) from None
    except (ValueError, KeyError, TypeError):
        raise Unavailable(
            "TRNBOT_AWS_SPOT_ADVISOR does not lead to the Spot Advisor's data."
        ) from None


_DAILY, _AGAIN = timedelta(hours=23, minutes=59), timedelta(hours=1)
_SPOT_DAYS = timedelta(days=14)
_BLOCKS = re.compile(r"(trn\d|p[456])")
"""Families that Capacity Blocks are sold of (EC2 User Guide, Capacity Blocks for ML, 2026-11)."""
_MOST_REGIONS = 10
"""GetSpotPlacementScores takes so many; further ones stay without a score."""


@dataclass
class PricePoller(Poller):
    """Keep price answers fresh; a missing one is tried again after an hour."""

    advisor: str = ""
    """A file or an address of the Spot Advisor's data, "" where it is not read."""
    _asked: datetime | None = None
    _tried: datetime | None = None
    _failed: frozenset[ApiCall] = frozenset()
    """Asked again after an hour, and nothing else: a type that AWS refuses costs no other price."""

    def due(self, now: datetime) -> bool:
        """Return whether it is time to ask again."""
        if self._asked is None or self._tried is None or now - self._asked >= _DAILY:
            return True
        return bool(self._failed) and now - self._tried >= _AGAIN

    def refresh(
        self,
        places: Sequence[Place],
        types: Collection[str],
        running: Collection[str],
        now: datetime,
    ) -> Iterator[str]:
        """Ask for all prices of `types` and the offers of `running` ones, or the failed ones.

        Yield a sentence a failure.
        """
        # Within the day only what failed is asked for again.
        again = self._failed if self._asked and now - self._asked < _DAILY else frozenset()
        self._asked, self._tried = self._asked if again else now, now
        failed: set[ApiCall] = set()

        def ask(wanted: tuple[ApiCall, Mapping[str, Any]]) -> Sequence[Mapping[str, Any]] | str:
            call, given = wanted
            try:
                if call.service == ADVISOR_SERVICE:
                    return [read_advisor(self.advisor)]
                return list(self.calls.pages(call.place, call.service, call.operation, **given))
            except Unavailable as error:
                return str(error)

        wanted_calls = [*_calls(places, sorted({*types, *running}), sorted(running), now)]
        if self.advisor and places:
            wanted_calls.append(
                (ApiCall(ADVISOR_SERVICE, ADVISOR_OPERATION, _everywhere(places[0])), {})
            )
        due = [
            x
            for x in wanted_calls
            if is_sold_in(x[0].service, x[0].place.region) and (not again or x[0] in again)
        ]
        with ThreadPoolExecutor(WORKERS, thread_name_prefix="prices") as pool:
            for (call, _), answer in zip(due, pool.map(ask, due), strict=True):
                if isinstance(answer, str):
                    failed.add(call)
                    yield answer
                else:
                    self.responses.put(call, now, answer)
        self._failed = frozenset(failed)


def _calls(
    places: Sequence[Place], types: Sequence[str], running: Sequence[str], now: datetime
) -> Iterator[tuple[ApiCall, Mapping[str, Any]]]:
    """Yield every price call; places of one region and several accounts are asked once."""
    regions = {place.region: place for place in reversed(places)}
    if not regions:
        return
    first, linux = next(iter(regions.values())), list(LINUX)
    for name in types:
        filters = _terms({**PLAIN_HOURS, "instanceType": name})
        call = ApiCall("pricing", "get_products", _everywhere(first), name)
        yield call, {"ServiceCode": "AmazonEC2", "Filters": filters}

    # Each account tells of the plans that it has bought.
    for place in dict.fromkeys(_everywhere(place) for place in places):
        yield ApiCall("savingsplans", "describe_savings_plans", place), {}

    # The rates of a type under Savings Plans of either kind, of both terms, however they are paid.
    for name in running:
        fields = {
            "instanceType": [name],
            "region": list(regions),
            "productDescription": ["Linux/UNIX"],
            "tenancy": ["shared"],
        }
        yield (
            ApiCall(
                "savingsplans", "describe_savings_plans_offering_rates", _everywhere(first), name
            ),
            {
                "products": ["EC2"],
                "serviceCodes": ["AmazonEC2"],
                "filters": [{"name": field, "values": values} for field, values in fields.items()],
            },
        )
    for region, place in regions.items():
        # EBS volumes are products of EC2.
        for service in ("AmazonEC2", "AmazonFSx"):
            filters = _terms({"productFamily": "Storage", "regionCode": region})
            call = ApiCall("pricing", "get_products", _everywhere(place), f"{service}-{region}")
            yield call, {"ServiceCode": service, "Filters": filters}
        yield (
            ApiCall("ec2", "describe_spot_price_history", place),
            {
                "StartTime": now - _SPOT_DAYS,
                "Filters": [
                    {"Name": "instance-type", "Values": list(types)},
                    {"Name": "product-description", "Values": linux},
                ],
            },
        )
        if place is first:
            yield from _placements(place, types, running, list(regions))
        if running:
            yield (
                ApiCall("ec2", "describe_reserved_instances_offerings", place),
                {
                    "Filters": [
                        {"Name": "instance-type", "Values": list(running)},
                        {"Name": "product-description", "Values": linux},
                        {"Name": "scope", "Values": ["Region"]},
                    ],
                    "InstanceTenancy": "default",
                    "IncludeMarketplace": False,
                },
            )
        for name in filter(_BLOCKS.match, running):
            yield (
                ApiCall("ec2", "describe_capacity_block_offerings", place, name),
                {"InstanceType": name, "InstanceCount": 1, "CapacityDurationHours": 24},
            )


def _terms(fields: Mapping[str, str]) -> list[dict[str, str]]:
    """Return the filters of the Price List for products with these fields."""
    return [
        {"Type": "TERM_MATCH", "Field": field, "Value": value} for field, value in fields.items()
    ]


def _placements(
    place: Place, types: Sequence[str], running: Sequence[str], regions: Sequence[str]
) -> Iterator[tuple[ApiCall, Mapping[str, Any]]]:
    """Yield the calls for the scores of each family that runs, such as trn1.

    One instance of any type, each zone: EC2 limits how many kinds are asked a day. Families of too
    few types have no score worth asking for.
    """
    for family in sorted({_family(name) for name in running}):
        fellows = [name for name in types if _family(name) == family]
        if len(fellows) >= FEWEST_TYPES:
            scope = {"InstanceTypes": fellows, "RegionNames": list(regions[:_MOST_REGIONS])}
            yield (
                ApiCall("ec2", "get_spot_placement_scores", place, ANY_OF.join(fellows)),
                {**scope, "TargetCapacity": 1, "SingleAvailabilityZone": True},
            )


def _family(name: str) -> str:
    """Return the family of a type, the same for all variants: `trn1` of trn1n.32xlarge."""
    return re.sub(r"(\d).*", r"\1", name)


def _everywhere(place: Place) -> Place:
    """Return the place of the one Price List, the same for every region."""
    return Place(home_of("pricing", place.region), place.role, place.account)
