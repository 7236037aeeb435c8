"""Read the SQL templates that stand beside the code."""

from __future__ import annotations

from functools import cache
from importlib import resources


@cache
def _template(name: str) -> str:
    return resources.files(__package__).joinpath("sql", f"{name}.sql").read_text(encoding="utf-8")


def sql(name: str, **parts: str) -> str:
    """Return one template with its named parts filled in.

    Parts are SQL made here, values travel as parameters.
    """
    return _template(name).format_map(parts) if parts else _template(name)


def text(value: str) -> str:
    """Write a string literal."""
    return "'" + value.replace("'", "''") + "'"


def name(value: str) -> str:
    """Write an identifier."""
    return '"' + value.replace('"', '""') + '"'
