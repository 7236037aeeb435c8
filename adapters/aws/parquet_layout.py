"""Bring any layout of a metric stream's Parquet to one.

`dimensions` may be MAP, STRUCT or JSON text; `value` a STRUCT, a MAP, JSON text, or flattened (`value_sum`, `value.sum` or
`sum`); `timestamp` milliseconds or a TIMESTAMP.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson


def dimensions(value: Any) -> Mapping[str, str] | None:
    """Return the said (name, value) pairs; a STRUCT has a field for every name and null where it is not said."""
    try:
        pairs = orjson.loads(value) if isinstance(value, str) else value
        return {name: said for name, said in (pairs or {}).items() if said is not None}
    except (TypeError, ValueError, AttributeError):
        return None


def picked(columns: Mapping[str, str]) -> str:
    """Return the SELECT list that brings any layout to one; raise `KeyError` naming the column that is missing."""
    for name in ("namespace", "metric_name", "dimensions", "timestamp"):
        if name not in columns:
            raise KeyError(name)
    optional = [name if name in columns else f"'' AS {name}" for name in ("region", "account_id")]
    values = [_value(columns, name) for name in ("count", "sum", "max")]
    return ", ".join(
        ["namespace", "metric_name", "dimensions", *optional, f"{_seconds(columns['timestamp'])} AS seconds", *values]
    )


def _seconds(kind: str) -> str:
    return 'epoch("timestamp")' if kind.startswith(("TIMESTAMP", "DATE")) else 'CAST("timestamp" AS BIGINT) // 1000'


def _value(columns: Mapping[str, str], name: str) -> str:
    for flat in (f"value_{name}", f"value.{name}", name):
        if flat in columns:
            return f'CAST("{flat}" AS DOUBLE) AS "{name}"'
    kind = columns.get("value", "")
    if kind.startswith(("STRUCT", "MAP")):
        return f'CAST("value"[\'{name}\'] AS DOUBLE) AS "{name}"'
    if kind in ("VARCHAR", "JSON"):
        return f'CAST(json_extract_string("value", \'$.{name}\') AS DOUBLE) AS "{name}"'
    raise KeyError("value")
