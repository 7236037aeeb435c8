"""Write counts with their nouns, the same way in every sentence."""

from __future__ import annotations


def counted(n: int, noun: str, plural: str = "") -> str:
    """Write how many: `1 node`, `1,024 nodes`."""
    return f"{n:,} {noun if n == 1 else plural or noun + 's'}"
