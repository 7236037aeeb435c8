"""Collect the parts that could not be read: named while few, counted when many."""

from __future__ import annotations

from collections import Counter

NAMED = 20
"""Sentences kept; more would hide the first."""


class Problems:
    """Hold one sentence for each thing that could not be read, at most `NAMED`, and count the rest by file."""

    def __init__(self) -> None:
        self._named: dict[str, str] = {}
        """The file of each sentence."""
        self._rest: Counter[str] = Counter()

    def add(self, file: str, why: str, line: int | None = None, times: int = 1) -> None:
        """Name a file (and its line, counted from 1) and why it was skipped."""
        sentence = f"{file}, line {line}: {why}" if line else f"{file}: {why}"
        if sentence in self._named:
            return
        if len(self._named) < NAMED:
            self._named[sentence] = file
            times -= 1
        self._rest[file] += times

    def take(self, later: Problems) -> None:
        """Add the problems collected after these, as if they had been added here."""
        for sentence, file in later._named.items():
            if len(self._named) < NAMED:
                self._named.setdefault(sentence, file)
            else:
                self._rest[file] += 1
        self._rest.update(later._rest)

    def sentences(self) -> tuple[str, ...]:
        """Return the named ones and, per file, how many more there were."""
        return (
            *self._named,
            *(f"{file}: {n} more of the kind." for file, n in sorted(self._rest.items()) if n > 0),
        )


def why(error: Exception, most: int = 160) -> str:
    """Return an error's first line, cut to `most` characters, for a sentence."""
    text = str(error).strip().splitlines()
    return (text[0] if text else type(error).__name__)[:most]
