"""Write a response as AWS would send it, from botocore's own model of the service."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any
from xml.sax.saxutils import escape

import botocore.session
from botocore.model import ServiceModel, Shape
from botocore.validate import ParamValidator

_WORDS = re.compile(r"\((\d{4}-\d\d-\d\d \d\d:\d\d:\d\d) GMT\)")


@cache
def model(service: str) -> ServiceModel:
    return botocore.session.get_session().get_service_model(service)


def validated(service: str, operation: str, response: dict[str, Any]) -> dict[str, Any]:
    """Return the response where botocore's model allows it; raise AssertionError naming what it does not."""
    shape = model(service).operation_model(operation).output_shape
    report = ParamValidator().validate(
        {k: ends(v) for k, v in response.items() if k != "ResponseMetadata"}, shape
    )
    assert not report.has_errors(), f"{service} {operation}: {report.generate_report()}"
    return response


_ALIKE = 4
"""How many of a long list are looked at, at each of its ends: one loop made all of them."""


def both_ends(values: list[Any]) -> list[Any]:
    """Return the values, without those amid a long list."""
    if len(values) <= 2 * _ALIKE:
        return values
    return [*values[:_ALIKE], *values[-_ALIKE:]]


def ends(value: Any) -> Any:
    """Return a value whose long lists are cut to both ends: botocore looks at each part by its text."""
    match value:
        case dict():
            return {name: ends(part) for name, part in value.items()}
        case [int() | float() | str() | datetime(), _, _, *_]:
            return [value[0], value[-1]]
        case list():
            return [ends(part) for part in both_ends(value)]
    return value


def body_of(
    service: str, operation: str, response: dict[str, Any], shift: timedelta
) -> tuple[bytes, str]:
    """Return body and content type."""
    made = model(service).operation_model(operation)
    protocol = model(service).resolved_protocol
    if protocol in ("json", "rest-json"):
        return json.dumps(
            _json(response, made.output_shape, shift)
        ).encode(), "application/x-amz-json-1.0"
    inner = _members(response, made.output_shape, shift, protocol)
    if protocol == "ec2":
        return (
            f"<{operation}Response><requestId>r-1</requestId>{inner}</{operation}Response>".encode(),
            "text/xml",
        )
    result = f"<{operation}Result>{inner}</{operation}Result>"
    return (
        f"<{operation}Response>{result}<ResponseMetadata/></{operation}Response>".encode(),
        "text/xml",
    )


def _moment(value: Any, shift: timedelta) -> datetime:
    if isinstance(value, int | float):
        return datetime.fromtimestamp(value, UTC) + shift
    at = value if isinstance(value, datetime) else datetime.fromisoformat(str(value))
    return (at if at.tzinfo else at.replace(tzinfo=UTC)).astimezone(UTC) + shift


def _json(value: Any, shape: Shape, shift: timedelta) -> Any:
    match shape.type_name:
        case "structure":
            return {
                name: _json(value[name], of, shift)
                for name, of in shape.members.items()
                if value.get(name) is not None
            }
        case "list":
            return [_json(one, shape.member, shift) for one in value]
        case "timestamp":
            return _moment(value, shift).timestamp()
    return value


def _members(value: dict[str, Any], shape: Shape, shift: timedelta, protocol: str) -> str:
    return "".join(
        _xml(of.serialization.get("name", name), value[name], of, shift, protocol)
        for name, of in shape.members.items()
        if value.get(name) is not None
    )


def _xml(tag: str, value: Any, shape: Shape, shift: timedelta, protocol: str) -> str:
    match shape.type_name:
        case "structure":
            inner = _members(value, shape, shift, protocol)
        case "list":
            name = shape.member.serialization.get("name", "item" if protocol == "ec2" else "member")
            inner = "".join(_xml(name, one, shape.member, shift, protocol) for one in value)
        case "timestamp":
            inner = f"{_moment(value, shift):%Y-%m-%dT%H:%M:%S.000Z}"
        case "boolean":
            inner = str(value).lower()
        case _:
            inner = escape(
                _WORDS.sub(lambda m: f"({_moment(m[1], shift):%Y-%m-%d %H:%M:%S} GMT)", str(value))
            )
    return f"<{tag}>{inner}</{tag}>"
