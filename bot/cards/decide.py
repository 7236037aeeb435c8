"""Show the ten questions as a form, and the advice with the reason of every answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bot.advice.decide import LEAST, SMALL_PARAMETERS, Choice, Reason, Verdict
from bot.cards.card import (
    Align,
    Block,
    Button,
    Buttons,
    Card,
    Column,
    Field,
    FieldKind,
    Form,
    Table,
    Tone,
    quiet,
    text,
)
from bot.model.claims import Note, Question

_TITLES = {
    Choice.TRAINIUM: "Train it on Trainium",
    Choice.GPU: "Stay on GPUs",
    Choice.BOTH: "Both: research on GPUs, stable training on Trainium",
}
_YES_NO = (("yes", "yes"), ("no", "no"))


def questions_card(questions: Sequence[Question], answers: Mapping[str, bool], workload: str, parameters: str) -> Card:
    """Ask what is not answered yet; the answers so far are filled in."""
    fields = [
        Field(q.key, q.asks, FieldKind.CHOICE, _word(answers.get(q.key)), _YES_NO, hint=q.why, required=True) for q in questions
    ]
    fields.append(Field("parameters", "How many parameters has the model?", FieldKind.TEXT, parameters, hint="such as 7B"))
    line = f"decide {workload}".strip()
    left = sum(q.key not in answers for q in questions)
    count = "Ten questions" if left == len(questions) else f"{left} of {len(questions)} questions are open"
    typed = " ".join(f"{q.key}={_word(answers.get(q.key)) or 'yes'}" for q in questions)
    blocks = (
        Form("Trainium or GPUs", line, tuple(fields), "Decide"),
        quiet(f"Or type them: {line} {typed}"),
    )
    data = {"choice": None, "open": [q.key for q in questions if q.key not in answers]}
    return Card(f"Trainium or GPUs? {count}", Tone.INFO, blocks, data)


def verdict_card(
    verdict: Verdict, workload: str, parameters: float | None, managed: Sequence[Note], sizing: Sequence[Note]
) -> Card:
    """Draw the advice; every reason carries its source."""
    blocks: list[Block] = [text(_summary(verdict)), _reasons(verdict.reasons)]
    if parameters is not None and parameters < SMALL_PARAMETERS:
        blocks.append(
            text(
                f"With {parameters / 1e6:,.0f} million parameters one core or a trn1.2xlarge is enough: "
                "over many chips the interconnect eats the gain."
            )
        )
    elif verdict.choice is not Choice.GPU:
        blocks += [quiet(f"Size, {x.subject}: {x.says} ({x.source}, {x.asof}).") for x in sizing]
    blocks += [quiet(f"Managed instead, {x.subject}: {x.says} ({x.source}, {x.asof}).") for x in managed]
    blocks.append(
        Buttons((Button("Does porting pay?", "breakeven"), Button("First steps", "checklist"), Button("CUDA packages", "cuda")))
    )
    title = f"{workload}: {_TITLES[verdict.choice]}" if workload else _TITLES[verdict.choice]
    tone = Tone.GOOD if verdict.choice is Choice.TRAINIUM else Tone.INFO
    return Card(title, tone, tuple(blocks), _data(verdict, workload, parameters))


def _summary(verdict: Verdict) -> str:
    rule = f"{LEAST} and more speak for Trainium, {-LEAST} and fewer for GPUs, between them for both"
    return f"{verdict.points:+d} points: {rule}. A rule of thumb, not a measurement: a short run on both tells."


def _reasons(reasons: Sequence[Reason]) -> Table:
    rows = tuple(
        (f"{x.points:+d}" if x.points else "0", x.question.key.replace("_", " "), _word(x.answer), _because(x.question))
        for x in reasons
    )
    return Table((Column("points", Align.RIGHT), Column("question"), Column("answer"), Column("why, and who says so")), rows)


def _because(question: Question) -> str:
    return f"{question.why} ({question.source}, {question.asof})"


def _word(answer: bool | None) -> str:
    return "" if answer is None else "yes" if answer else "no"


def _data(verdict: Verdict, workload: str, parameters: float | None) -> dict[str, object]:
    return {
        "workload": workload,
        "choice": verdict.choice.value,
        "points": verdict.points,
        "parameters": parameters,
        "reasons": [{"key": x.question.key, "answer": x.answer, "points": x.points} for x in verdict.reasons],
        "open": [],
    }
