"""Hold every request against what AWS takes: botocore's validator, the largest values of its models, and a table of other limits."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from botocore.model import OperationModel, Shape
from botocore.validate import ParamValidator

from adapters.aws.api.calls import limit_of
from tests.aws_live.serialize import both_ends, ends


@dataclass(frozen=True)
class Limit:
    """A row of the table."""

    operation: str
    parameter: str
    limit: str
    value: str

    def broken(self, given: Any) -> bool:
        """Return whether one value of the parameter is beyond the limit."""
        match self.limit:
            case "at most":
                return int(given) > int(self.value)
            case "at least":
                return int(given) < int(self.value)
            case "count at most":
                return len(given) > int(self.value)
            case "count at least":
                return len(given) < int(self.value)
            case "multiple of":
                return int(given) % int(self.value) != 0
            case "one of":
                return given not in self.value.split("|")
        raise AssertionError(f"{self.limit} is no kind of limit")


@cache
def limits() -> tuple[Limit, ...]:
    """Return every row, and the limits that the adapter itself goes by."""
    with Path(__file__).with_name("requests.csv").open(newline="") as file:
        rows = tuple(
            Limit(*(row[name] for name in ("operation", "parameter", "limit", "value")))
            for row in csv.DictReader(file)
        )
    queries = limit_of("cloudwatch", "get_metric_data", "queries")
    return (Limit("GetMetricData", "MetricDataQueries", "count at most", str(queries)), *rows)


def faults(model: OperationModel, params: Mapping[str, Any]) -> list[str]:
    """Return a sentence for each thing of a request that AWS would not take."""
    # Botocore itself looks at what is between the ends of a long list.
    found = ParamValidator().validate(ends(params), model.input_shape)
    told = [found.generate_report()] if found.has_errors() else []
    told += [
        f"{path} is {value!r}: the model says {bound}"
        for path, value, bound in _beyond(model.input_shape, params, "")
    ]
    mine = [limit for limit in limits() if limit.operation == model.name]
    told += [
        f"{limit.parameter} is to be {limit.limit} {limit.value}"
        for limit in mine
        for value in _values(params, limit.parameter.split("."))
        if limit.broken(value)
    ]
    return [f"{model.name}: {one}" for one in told]


def _values(given: Any, path: list[str]) -> Iterator[Any]:
    """Yield what stands at a path, of every member of the lists on the way."""
    if not path:
        yield given
    elif isinstance(given, list):
        for one in given:
            yield from _values(one, path)
    elif path[0] in given:
        yield from _values(given[path[0]], path[1:])


def _beyond(shape: Shape, value: Any, path: str) -> Iterator[tuple[str, Any, str]]:
    """Yield what is larger than the model allows, or not among its words: the validator looks at neither."""
    most, words = shape.metadata.get("max"), shape.metadata.get("enum")
    size = (
        value
        if shape.type_name in ("integer", "long")
        else len(value)
        if hasattr(value, "__len__")
        else None
    )
    if most is not None and size is not None and size > most:
        yield path, value, f"at most {most}"
    if words and value not in words:
        yield path, value, f"one of {', '.join(words)}"
    if shape.type_name == "structure":
        for name, one in value.items():
            yield from _beyond(shape.members[name], one, f"{path}.{name}")
    if shape.type_name == "list":
        for one in both_ends(value):
            yield from _beyond(shape.member, one, f"{path}[]")


class Requests:
    """Look at every request before it is sent; a botocore event handler."""

    def __init__(self) -> None:
        self.asked: Counter[str] = Counter()
        self.faults: list[str] = []

    def __call__(self, params: Mapping[str, Any], model: OperationModel, **_: Any) -> None:
        """Count the request, and keep what is wrong with it."""
        self.asked[f"{model.service_model.service_name}:{model.name}"] += 1
        self.faults += faults(model, params)
