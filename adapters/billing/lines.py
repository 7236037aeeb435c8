"""Say which cost line a charge belongs to: EC2, data transfer, FSx, S3, EBS, commitment, compile or other."""

from __future__ import annotations

import csv
from functools import cache
from importlib import resources

from adapters.billing.sql import text

COMPILE = "compile"
OTHER = "other"


@cache
def _rules() -> tuple[dict[str, str], ...]:
    words = resources.files(__package__).joinpath("lines.csv").read_text(encoding="utf-8")
    return tuple(csv.DictReader(words.splitlines()))


def line_case() -> str:
    """Return the SQL expression of the line, over the columns of the stage `s` and the tag set `t`; the first rule wins."""
    whens = " ".join(f"WHEN {_matches(rule)} THEN {_line(rule['line'])}" for rule in _rules())
    return f"CASE {whens} ELSE {text(OTHER)} END"


def _line(line: str) -> str:
    """Split EC2 by what its tags say: hours spent on compiling are a line of their own."""
    return f"CASE WHEN t.compiles THEN {text(COMPILE)} ELSE {text(line)} END" if line == "EC2" else text(line)


def _matches(rule: dict[str, str]) -> str:
    found = []
    if rule["service"]:
        found.append(f"regexp_matches(s.service, {text(rule['service'])})")
    if rule["usage_type"]:
        found.append(f"regexp_matches(s.usage_type, {text(rule['usage_type'])})")
    both = " AND ".join(found)
    if not rule["description"]:
        return both
    worded = f"s.usage_type = '' AND regexp_matches(coalesce(s.description, ''), {text(rule['description'])}, 'i')"
    return f"(({both}) OR ({worded}))"
