"""Bound the cost of hostile or broken content.

One place for the size of what people and files hand in.

Each is far above what an honest file holds; what goes over it ends in one sentence that names the
limit and the remedy.
"""

from __future__ import annotations

from typing import Any, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Newest(dict[K, V]):
    """Keep the `most` values that were set last."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self._most = most

    def __setitem__(self, key: K, value: V) -> None:
        """Set a value as the newest; the oldest one makes room for it."""
        self.pop(key, None)
        super().__setitem__(key, value)
        if len(self) > self._most:
            del self[next(iter(self))]

    def __reduce__(self) -> tuple[Any, ...]:
        """Return how to make it again, as for another process: its bound comes first."""
        return Newest, (self._most,), None, None, iter(self.items())


POLICY_BYTES = 64 << 10
"""Of a policy as TOML; with every setting explained it takes a fifth of that."""
SETTINGS_BYTES = 256 << 10
"""Of the settings file."""
OWNERS_BYTES = 256 << 10
"""Of the mapping of owners: some three thousand rules."""
POLICY_MISTAKES = 20
"""Named in one answer: each is compared with every setting, to suggest the nearest."""
TEXT_BYTES = 16 << 20
"""Of another text file that a terminal names.

A receipt of ten thousand numbers takes a fifth of that.
"""
CODE_FILES = 5_000
"""Of a folder whose code is looked through."""
TOML_DEPTH = 16
"""Tables and lists within one another."""
TOML_DOTS = 500
"""Dots on one line: reading a dotted key takes time and memory by the square of its parts."""
TOML_BITS = 63
"""Of a whole number."""
NUMBER_LENGTH = 30
"""Characters of a number that a person types."""
NUMBER_EXPONENT = 15
"""Powers of ten of a number that a person types: a quadrillion, and as small a part."""
MOST_PARAMETERS = 1e15
"""Of a model: a thousand trillion."""
YEARS = range(1970, 2200)
"""In which a time lies that anybody asks about."""
UNPACKED_BYTES = 16 << 30
"""Of a zip or a gzip file, unpacked."""
UNPACKED_RATIO = 100
"""Bytes that one packed byte may become.

Exports and metrics reach 10 to 30, what is made to fill a disk over 1,000.
"""
UNPACKED_FREE = 64 << 20
"""Bytes that may come of any packed file, however small it is."""
ZIP_MEMBERS = 1_000
"""Files within a zip."""
BILL_COLUMNS = 1_000
"""Of an export.

AWS activates at most 500 tags (AWS Billing User Guide, quotas, 2026-11), and has some 300 columns
beside.
"""
BILL_TAGS = 2_000_000
"""Of the distinct tag sets of one export file, added up."""
BILL_BATCH_ROWS = 1_000_000
"""Of an export, read at once."""
BILL_SPILL = "8GiB"
"""Written to disk by queries of the bill that need more than their share of memory."""
BILL_MEMORY = "50%"
"""The share of the machine's (or container's) memory that the bill takes at most."""
BILL_MEMORY_GIB = 2.0
"""The most on a machine that has more: a hundred million rows leave the rest on disk."""
BILL_COPIES_BYTES = 16 << 30
"""Of all copies of bills on disk: one of a hundred million rows takes some three."""
LINE_BYTES = 16 << 20
"""Of one line of JSON."""
RESPONSE_BYTES = 256 << 20
"""Of one response of AWS, unpacked."""
PARQUET_ROWS = 100_000_000
"""Of one Parquet file of metrics: a run of one value costs it a few bytes, however long."""


def unpacked_limit(packed: int) -> int:
    """Return how many bytes may come of so many packed ones."""
    return min(UNPACKED_BYTES, max(UNPACKED_FREE, packed * UNPACKED_RATIO))


def too_much(noun: str, packed: int) -> str:
    """Return the sentence about a file that unpacks to more than that."""
    return (
        f"{noun} has {packed:,} bytes and unpacks to over {unpacked_limit(packed):,};"
        " unpack it yourself, or have it exported again"
    )
