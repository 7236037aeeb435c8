"""State what a demonstration has shown so far: chapters, each of something that was seen to happen."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Chapter:
    """State one thing that a demonstration shows.

    `words` of what was seen, "" before it is, and the page that has more.
    """

    title: str
    words: str = ""
    page: str = ""


@dataclass(frozen=True)
class Story:
    """State a demonstration as it stands.

    What is made up in it, its chapters, whether it plays yet, and whether it has ended.
    """

    made_up: str
    chapters: tuple[Chapter, ...]
    begun: bool = False
    ended: bool = False
    repeats: bool = True
    """Whether it can begin again: not where its database is kept."""

    @property
    def newest(self) -> Chapter | None:
        """Return the last chapter that was seen, None before the first."""
        return next((one for one in reversed(self.chapters) if one.words), None)

    @property
    def whole(self) -> bool:
        """Return whether every chapter was seen."""
        return all(one.words for one in self.chapters)
