"""Parse each file of the project once for all tests that look at its code."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path


@cache
def nodes_of(path: Path) -> tuple[ast.AST, ...]:
    """Return every node of a file, its module first."""
    return tuple(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
