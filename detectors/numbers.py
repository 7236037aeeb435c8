"""Read `constants.csv`, the numbers neither set nor learnt, and put numbers in words."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from datetime import timedelta
from functools import cache
from importlib.resources import files
from typing import NamedTuple

from bot.model.window import Days, duration_text


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


@cache
def number(name: str) -> float:
    """Return a share, factor or level."""
    return float(CONSTANTS[name].value)


@cache
def count(name: str) -> int:
    """Return a number of things."""
    return int(CONSTANTS[name].value)


@cache
def duration(name: str) -> timedelta:
    """Return a length of time."""
    amount, unit = CONSTANTS[name].value.split()
    return timedelta(**{unit: float(amount)})


HOUR, DAY, WEEK = timedelta(hours=1), timedelta(days=1), timedelta(weeks=1)
NAMED = count("words.NAMED")
LISTED = count("words.LISTED")


def percent(ratio: float) -> str:
    """Read as `20 %`."""
    return f"{100 * ratio:.0f} %"


def span(low: float, high: float) -> str:
    """Read as `85-95 %`."""
    return (
        percent(low)
        if round(100 * low) == round(100 * high)
        else f"{100 * low:.0f}-{100 * high:.0f} %"
    )


def lasted(length: timedelta) -> str:
    """Write how long something has lasted, to the nearest minute.

    `25 min`, `1 h 10 min` or `3 days`.
    """
    return duration_text(timedelta(minutes=round(length.total_seconds() / 60)), Days.WHOLE)


def size(bytes_: float) -> str:
    """Read as `410 GiB` or `3.2 GiB`."""
    gib = bytes_ / 2**30
    return f"{gib:,.0f} GiB" if gib >= 10 else f"{gib:.1f} GiB"


def rate(bytes_per_second: float) -> str:
    """Read as `320 Gbps`."""
    gbps = bytes_per_second * 8 / 1e9
    return f"{gbps:,.0f} Gbps" if gbps >= 10 else f"{gbps:.1f} Gbps"


def volume_rate(used: float, of: float) -> str:
    """Read as `1.9 of 2.0 GB/s` or `90 of 240 MB/s`.

    What is used of a limit, both in bytes a second.
    """
    if of >= 1e9:
        return f"{used / 1e9:,.1f} of {of / 1e9:,.1f} GB/s"
    return f"{used / 1e6:,.0f} of {of / 1e6:,.0f} MB/s"


def seconds(length: float) -> str:
    """Read as `1.4 s` or `46 ms`."""
    return f"{length:.2g} s" if length >= 0.1 else f"{1000 * length:.2g} ms"
