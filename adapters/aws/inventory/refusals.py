"""Read from CloudTrail's events which launches were refused for want of capacity.

Keep of an event no more than that needs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import orjson

from adapters.aws.api.responses import MALFORMED, ResponseInfo, required
from bot.model.fleet import Refusal
from bot.model.labels import Labels

REFUSED_CALLS = ("RunInstances", "CreateFleet")
"""Calls that launch instances (CloudTrail's event names).

A fleet's answer names each refusal, though the call succeeds.
"""
_SHORT = "InsufficientInstanceCapacity"
"""With `Server.` or `Client.` before it, or alone (EC2 API Reference, error codes, 2026-11)."""
_MESSAGE = re.compile(
    r"sufficient ([a-z0-9-]{1,20}\.[a-z0-9-]{1,20}) capacity in the Availability Zone you requested \(([a-z0-9-]{1,30})\)"
)
_TYPE, _ZONE = "instanceType", "availabilityZone"


def refused_part(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return the part of a CloudTrail record that says what was refused, in CloudTrail's own form.

    {} where nothing was.
    """
    if _is_refusal(record.get("errorCode")):
        named = _MESSAGE.search(str(record.get("errorMessage", "")))
        asked = record.get("requestParameters")
        kind, zone = (
            _first(asked, _TYPE) or (named[1] if named else ""),
            _first(asked, _ZONE) or (named[2] if named else ""),
        )
        market = {"instanceMarketOptions": {"marketType": "spot"}} if _is_spot(record) else {}
        return {"requestParameters": {_TYPE: kind, _ZONE: zone} | market}
    errors = [_fleet_error(item) for item in _refused_items(record.get("responseElements"))]
    return (
        {"responseElements": {"CreateFleetResponse": {"errorSet": {"item": errors}}}}
        if errors
        else {}
    )


def refusals_in(event: Mapping[str, Any], answer: ResponseInfo) -> Iterator[Refusal]:
    """Yield the refusals that an event of LookupEvents names, one for each type and zone that a fleet could not have."""
    if event.get("EventName") not in REFUSED_CALLS:
        return
    record = _record(event)
    part = refused_part(record)
    asked = part.get("requestParameters")
    items = [asked] if asked else list(_refused_items(part.get("responseElements")))
    for number, item in enumerate(items):
        place = Labels(
            region=answer.region,
            account=answer.account,
            zone=_first(item, _ZONE),
            instance_type=_first(item, _TYPE),
        )
        name = str(event.get("EventId") or f"{event['EventName']} {event['EventTime']}")
        at = required(str(event["EventTime"]), "EventTime")
        yield Refusal(f"{name}/{number}", at, place, _is_spot(item), str(event["EventName"]))


def _record(event: Mapping[str, Any]) -> Mapping[str, Any]:
    try:
        record = orjson.loads(event.get("CloudTrailEvent") or "{}")
    except MALFORMED:
        return {}
    return record if isinstance(record, dict) else {}


def _is_refusal(code: object) -> bool:
    return str(code or "").rpartition(".")[2] == _SHORT


def _is_spot(value: Mapping[str, Any]) -> bool:
    told = (_first(value, "marketType"), _first(value, "lifecycle"))
    return "spot" in told or "Spot capacity" in str(value.get("errorMessage", ""))


def _fleet_error(item: Mapping[str, Any]) -> dict[str, Any]:
    kept = {
        _TYPE: _first(item, _TYPE),
        _ZONE: _first(item, _ZONE),
        "lifecycle": _first(item, "lifecycle"),
    }
    return {"errorCode": str(item["errorCode"])} | {
        name: value for name, value in kept.items() if value
    }


def _refused_items(value: Any) -> Iterator[Mapping[str, Any]]:
    """Yield the objects anywhere within a value that carry the error's code."""
    if isinstance(value, dict):
        if _is_refusal(value.get("errorCode")):
            yield value
        else:
            for inner in value.values():
                yield from _refused_items(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _refused_items(inner)


def _first(value: Any, name: str) -> str:
    """Return the first text under a name anywhere within a value, "" where there is none."""
    if isinstance(value, dict):
        own = value.get(name)
        if isinstance(own, str) and own:
            return own
        value = list(value.values())
    if isinstance(value, list):
        return next((found for inner in value if (found := _first(inner, name))), "")
    return ""
