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


_TEXT = (files("detectors") / "constants.csv").read_text(encoding="utf-8")
CONSTANTS: Mapping[str, Constant] = {
    row["name"]: Constant(**row) for row in csv.DictReader(_TEXT.splitlines())
}


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
