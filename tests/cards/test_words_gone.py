"""Sentences that an editor changed do not come back: in code, tables, documents or sample cards."""

import ast
import csv
from collections.abc import Iterator
from pathlib import Path

from tests.house.trees import nodes_of

ROOT = Path(__file__).parents[2]
PLACES = ("bot", "detectors", "adapters")


def gone() -> dict[str, str]:
    """Return each phrase that is gone, and the words that stand in its place."""
    with (Path(__file__).parent / "words_gone.csv").open(encoding="utf-8") as file:
        return {row["was"]: row["now"] for row in csv.DictReader(file)}


def texts() -> Iterator[tuple[Path, str]]:
    """Yield each file with all of it that people may read, a line for each literal."""
    for path in (path for place in PLACES for path in (ROOT / place).rglob("*.py")):
        nodes = nodes_of(path)
        written = [node.value for node in nodes if isinstance(node, ast.Expr)]
        documented = {id(value) for value in written if isinstance(value, ast.Constant)}
        literals = []
        for node in nodes:
            if isinstance(node, ast.JoinedStr):
                parts = [part.value for part in node.values if isinstance(part, ast.Constant)]
                literals.append("{}".join(map(str, parts)))
            elif isinstance(node, ast.Constant) and id(node) not in documented:
                literals.append(str(node.value))
        yield path, "\n".join(literals)
    tables = [path for place in PLACES for path in (ROOT / place).rglob("*.csv")]
    pages = [
        ROOT / "README.md",
        *(ROOT / "docs").glob("*.md"),
        *(ROOT / "docs/causes").glob("*.md"),
    ]
    goldens = [*(ROOT / "tests" / "cards" / "goldens").glob("*.json")]
    for path in (*tables, *pages, *goldens):
        yield path, " ".join(path.read_text(encoding="utf-8").split())


def test_no_phrase_that_an_editor_changed_is_back() -> None:
    phrases = gone()
    assert len(phrases) > 400
    back = [
        f"{file}: '{was}'; write '{now}'"
        for file, text in texts()
        for was, now in phrases.items()
        if was in text
    ]
    assert back == []
