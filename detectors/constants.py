"""Read the table of the numbers that are neither settings nor learnt: `constants.csv`."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from datetime import timedelta
from importlib.resources import files
from typing import NamedTuple


class Constant(NamedTuple):
    """Hold one row of the table; a length of time is written with its unit."""

    name: str
    value: str
    meaning: str
    source: str


def _table() -> Mapping[str, Constant]:
    text = (files("detectors") / "constants.csv").read_text(encoding="utf-8")
    rows = (Constant(**row) for row in csv.DictReader(text.splitlines()))
    return {row.name: row for row in rows}


CONSTANTS = _table()


def number(name: str) -> float:
    """Return a share, factor or level."""
    return float(CONSTANTS[name].value)


def count(name: str) -> int:
    """Return a number of things."""
    return int(CONSTANTS[name].value)


def duration(name: str) -> timedelta:
    """Return a length of time."""
    amount, unit = CONSTANTS[name].value.split()
    return timedelta(**{unit: float(amount)})
