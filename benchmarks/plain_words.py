"""Measure the understanding of a line in plain words at 5,000 known names, beside the plain grammar.

    python -m benchmarks.plain_words

prints milliseconds a line, the slowest of the lines, and how many times a line of the grammar that
is.
"""

from __future__ import annotations

import csv
import json
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from statistics import median

from bot.answers.all import ANSWERS
from bot.grammar.line import understand
from bot.grammar.plain.readings import read_plain
from bot.grammar.plain.senses import Names, families_of
from bot.knowledge import load_knowledge

assert ANSWERS, "every command is known once its module is imported"
NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
LINES = Path(__file__).parents[1] / "tests" / "answers" / "plain_lines.csv"
NAMES = 5_000
TURNS = 5


def names() -> Names:
    """Return as many names as a large account has.

    Clusters, runs, teams and people, beside types and regions.
    """
    knowledge = load_knowledge()
    kinds = {
        "cluster": tuple(f"train-{n:04d}-prod" for n in range(NAMES // 4)),
        "run": tuple(f"llama-{n:04d}b-sweep" for n in range(NAMES // 4)),
        "team": tuple(f"team{n:04d}research" for n in range(NAMES // 4)),
        "owner": tuple(f"person.{n:04d}" for n in range(NAMES // 4)),
        "type": tuple(knowledge.types()),
        "region": tuple(knowledge.claims().regions),
    }
    return Names(kinds, families_of(knowledge.types()), "trn1.32xlarge")


def milliseconds(job: Callable[[], object]) -> float:
    """Return the median time of a call."""
    times = []
    for _ in range(TURNS):
        began = time.perf_counter()
        job()
        times.append(time.perf_counter() - began)
    return 1_000 * median(times)


def main() -> None:
    """Print the figures as JSON."""
    known = names()
    began = time.perf_counter()
    read_plain("cost of trian-0001-prod", known, NOW)
    first = 1_000 * (time.perf_counter() - began)
    rows = csv.DictReader(LINES.read_text("utf-8").splitlines(), delimiter=";")
    lines = [
        row["line"].replace("llama", "train-0001-prod").replace("vision", "trian-0002-prod")
        for row in rows
    ]
    plain = {line: milliseconds(lambda line=line: read_plain(line, known, NOW)) for line in lines}  # type: ignore[misc]
    grammar = milliseconds(lambda: understand("cost last-week by team,service cluster=llama", NOW))
    slowest = max(plain, key=lambda line: plain[line])
    figures = {
        "names": NAMES,
        "lines": len(lines),
        "plain_ms": round(median(plain.values()), 3),
        "slowest_ms": round(plain[slowest], 3),
        "slowest": slowest,
        "grammar_ms": round(grammar, 3),
        "ratio": round(median(plain.values()) / grammar, 1),
        "first_ms": round(first, 1),
    }
    print(json.dumps(figures, indent=1))


if __name__ == "__main__":
    main()
