"""Decide between Trainium and GPUs by ten yes-or-no questions: the same answers give the same advice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from bot.model.claims import Question

LEAST = 3
"""Points from which one side is advised; between the two, both."""
SMALL_PARAMETERS = 100_000_000
"""Parameters under which a full node's interconnect costs more than it helps: trnbot's own default."""


class Choice(StrEnum):
    """Name what is advised."""

    TRAINIUM = "trainium"
    GPU = "gpu"
    BOTH = "both"


@dataclass(frozen=True)
class Reason:
    """State what one answer adds: points for Trainium (> 0) or against it."""

    question: Question
    answer: bool
    points: int


@dataclass(frozen=True)
class Verdict:
    """State the advice, its points, and the reason of every answered question, the weightiest first."""

    choice: Choice
    points: int
    reasons: tuple[Reason, ...]
    open: tuple[Question, ...]


def decide(questions: Sequence[Question], answers: Mapping[str, bool]) -> Verdict:
    """Add the points of the answers: yes to a question for Trainium adds its weight, no takes half of it, rounded up, away.

    A model that is not stable yet but will be trained again and again goes both ways: research on GPUs, stable training on
    Trainium.
    """
    reasons = [Reason(q, answers[q.key], _points(q, answers[q.key])) for q in questions if q.key in answers]
    points = sum(x.points for x in reasons)
    middle = answers.get("stable") is False and answers.get("repeated") is True
    choice = Choice.TRAINIUM if points >= LEAST else Choice.GPU if points <= -LEAST else Choice.BOTH
    if middle and choice is Choice.TRAINIUM:
        choice = Choice.BOTH
    ordered = sorted(reasons, key=lambda x: -abs(x.points))
    return Verdict(choice, points, tuple(ordered), tuple(q for q in questions if q.key not in answers))


def _points(question: Question, answer: bool) -> int:
    if answer:
        return question.weight
    return -((question.weight + 1) // 2) if question.weight > 0 else 0
