"""Answer whether a workload belongs on Trainium, on GPUs or on both, by yes-or-no questions."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from enum import StrEnum

from bot.answers.plan.comparison import default_target
from bot.answers.runs.costed import costed_runs, verdict_of
from bot.cards.card import (
    Block,
    Button,
    Buttons,
    Card,
    Field,
    FieldKind,
    Form,
    Tone,
    compose,
    quiet,
    text,
)
from bot.cards.columns import NUMBER, Column, Columns
from bot.cards.words import cited
from bot.costs.verdict import Verdict
from bot.errors import TrnbotError, WrongInput, shortened
from bot.grammar.names import known_type
from bot.grammar.registry import Needs, Topic, arg, command
from bot.model.claims import Claims, Question
from bot.model.fleet import is_neuron
from bot.model.limits import MOST_PARAMETERS
from bot.model.request import Request
from bot.ports import Ports

LEAST = 3
"""Points from which one side is advised; between the two, both."""
SMALL_PARAMETERS = 100_000_000
"""Parameters under which a full node's interconnect costs more than it helps: our default."""


class Choice(StrEnum):
    """Name the advice."""

    TRAINIUM = "trainium"
    GPU = "gpu"
    BOTH = "both"
    MEASURE = "measure"
    """What fits and what is cheaper contradict each other, and nothing is measured."""


@dataclass(frozen=True)
class AnswerReason:
    """Hold one answer to a question."""

    question: Question
    answer: bool

    @property
    def points(self) -> int:
        """Return the points that it adds for Trainium (> 0) or against it."""
        weight = self.question.weight
        if self.answer:
            return weight
        # No to a question against Trainium is no argument for it.
        return -((weight + 1) // 2) if weight > 0 else 0


@dataclass(frozen=True)
class Advice:
    """State the advice, its points, and the reason of each answered question, weightiest first."""

    choice: Choice
    points: int
    reasons: tuple[AnswerReason, ...]
    verdict: Verdict | None = None
    """Which type costs less, where that is known."""


def advice_of(
    questions: Sequence[Question], answers: Mapping[str, bool], verdict: Verdict | None = None
) -> Advice:
    """Add the points of the answers.

    Yes to a question for Trainium adds its weight, no takes half of it, rounded up, away.

    A model that is not stable yet but will be trained again and again goes both ways: research on
    GPUs, stable training on Trainium. The points say what fits; which side is cheaper by the
    account's own runs decides over them, and one that is only stated asks for a measurement.
    """
    reasons = [AnswerReason(x, answers[x.key]) for x in questions if x.key in answers]
    points = sum(reason.points for reason in reasons)
    researched = answers.get("stable") is False and answers.get("repeated") is True
    choice = Choice.BOTH
    if points >= LEAST and not researched:
        choice = Choice.TRAINIUM
    elif points <= -LEAST:
        choice = Choice.GPU

    if verdict and verdict.cheaper:
        side = Choice.TRAINIUM if is_neuron(verdict.cheaper) else Choice.GPU
        choice = side if verdict.measured or choice is side else Choice.MEASURE

    return Advice(
        choice,
        points,
        tuple(sorted(reasons, key=lambda reason: -abs(reason.points))),
        verdict,
    )


_TITLES = {
    Choice.TRAINIUM: "Train it on Trainium",
    Choice.GPU: "Stay on GPUs",
    Choice.BOTH: "Both: research on GPUs, stable training on Trainium",
    Choice.MEASURE: "What fits is not what is cheaper: measure a short run on both",
}
_YES_NO = {True: "yes", False: "no"}


def questions_card(
    questions: Sequence[Question], answers: Mapping[str, bool], workload: str, parameters: str
) -> Card:
    """Ask the questions that are not answered yet; the answers so far are filled in."""
    words = {
        question.key: _YES_NO[answers[question.key]] if question.key in answers else ""
        for question in questions
    }
    fields = [
        Field(
            question.key,
            question.asks,
            FieldKind.CHOICE,
            words[question.key],
            (("yes", "yes"), ("no", "no")),
            hint=question.why,
            required=True,
        )
        for question in questions
    ]
    size = Field(
        "parameters",
        "How many parameters does the model have?",
        FieldKind.TEXT,
        parameters,
        hint="such as 7B",
    )

    unanswered = [key for key, word in words.items() if not word]
    count = f"{len(unanswered)} of {len(questions)} questions are open"
    if len(unanswered) == len(questions):
        count = f"{len(questions)} questions"
    line = f"decide {workload}".strip()

    return Card(
        f"Trainium or GPUs? {count}",
        Tone.INFO,
        (Form("Trainium or GPUs", line, (*fields, size), "Decide"),),
        {"choice": None, "open": unanswered},
    )


def verdict_card(
    advice: Advice, workload: str, parameters: float | None, claims: Claims, today: date
) -> Card:
    """Draw the advice; every reason carries its source."""
    verdict = advice.verdict
    rule = f"{LEAST} or more points favor Trainium, {-LEAST} or fewer GPUs, anything between, both"
    summary = (
        f"{advice.points:+d} points: {rule}. A rule of thumb, not a measurement: a short run on"
        " both gives the answer."
    )
    if verdict and verdict.measured:
        summary = f"{advice.points:+d} points: {rule}. What your own runs cost outweighs them."
    reasons = Columns[AnswerReason](
        Column("points", lambda reason: f"{reason.points:+d}" if reason.points else "0", NUMBER),
        Column("question", lambda reason: reason.question.key.replace("_", " ")),
        Column("answer", lambda reason: _YES_NO[reason.answer]),
        Column(
            "why, and who says so",
            lambda reason: f"{reason.question.why} ({cited(reason.question, today)})",
        ),
    )

    sizes: list[Block] = []
    if parameters is not None and parameters < SMALL_PARAMETERS:
        sizes = [
            text(
                f"With {parameters / 1e6:,.0f} million parameters one core or a trn1.2xlarge is"
                " enough: on many chips the interconnect outweighs the gain."
            )
        ]
    elif advice.choice is not Choice.GPU:
        sizes = [
            quiet(f"Size, {note.subject}: {note.says} ({cited(note, today)}).")
            for note in claims.of("sizing")
        ]

    return Card(
        f"{workload}: {_TITLES[advice.choice]}" if workload else _TITLES[advice.choice],
        Tone.GOOD if advice.choice is Choice.TRAINIUM else Tone.INFO,
        compose(
            verdict is not None and text(str(verdict)),
            text(summary),
            reasons.table(advice.reasons),
            sizes,
            [
                quiet(f"Managed instead, {note.subject}: {note.says} ({cited(note, today)}).")
                for note in claims.of("managed")
            ],
            Buttons(
                (
                    Button("Does porting pay?", "breakeven"),
                    Button("First steps", "checklist"),
                    Button("CUDA packages", "cuda"),
                )
            ),
        ),
        {
            "workload": workload,
            "choice": advice.choice.value,
            "points": advice.points,
            "parameters": parameters,
            "reasons": [
                {"key": reason.question.key, "answer": reason.answer, "points": reason.points}
                for reason in advice.reasons
            ],
            "open": [],
        },
    )


_SCALE = {"": 1.0, "k": 1e3, "m": 1e6, "b": 1e9, "t": 1e12}


@command(
    "decide",
    "Trainium or GPUs: twelve questions, one answer with its reasons.",
    needs=Needs.NOTHING,
    may=Needs.METRICS | Needs.BILL | Needs.STATE,
    topic=Topic.PLANS,
    examples=(
        "decide",
        "decide llama standard=yes stable=no repeated=yes",
    ),
    figures={
        "parameters": "as typed",
        "points": (
            "sum over the answers: yes adds the question's weight, no to one for Trainium takes"
            " half of it, rounded up, away"
        ),
    },
)
def decide(
    ports: Ports,
    request: Request,
    workload: str = arg("", "the workload: a cluster or a run, or any name for the title"),
    to: str = arg("", "the instance type to weigh a cluster's or a run's against", keyword=True),
    standard: bool | None = arg("", "a known architecture?", keyword=True),
    stable: bool | None = arg("", "architecture and shapes stay for weeks?", keyword=True),
    repeated: bool | None = arg("", "trained again and again, or for months?", keyword=True),
    pytorch: bool | None = arg("", "PyTorch or JAX without custom CUDA kernels?", keyword=True),
    spend: bool | None = arg("", "$20,000 a month or more?", keyword=True),
    control_flow: bool | None = arg(
        "", "control flow or shapes that depend on the data?", keyword=True
    ),
    rl: bool | None = arg("", "a reinforcement-learning loop?", keyword=True),
    gnn: bool | None = arg("", "a graph neural network?", keyword=True),
    moe: bool | None = arg("", "experts routed dynamically?", keyword=True),
    cuda_only: bool | None = arg("", "CUDA-only libraries?", keyword=True),
    fastest: bool | None = arg("", "one run as fast as possible, at any cost?", keyword=True),
    on_aws: bool | None = arg("", "stays on AWS, with help for the port?", keyword=True),
    parameters: str = arg("", "how many parameters, such as 7B", keyword=True),
) -> Card:
    """Ask until all are answered, then decide; the same answers give the same advice."""
    typed = {
        "standard": standard,
        "stable": stable,
        "repeated": repeated,
        "pytorch": pytorch,
        "spend": spend,
        "control_flow": control_flow,
        "rl": rl,
        "gnn": gnn,
        "moe": moe,
        "cuda_only": cuda_only,
        "fastest": fastest,
        "on_aws": on_aws,
    }
    answers = {key: value for key, value in typed.items() if value is not None}
    count = parameter_count(parameters) if parameters else None
    if to:
        known_type(to, ports.world.knowledge.types())
    claims = ports.world.knowledge.claims()
    if len(answers) < len(claims.questions):
        return questions_card(claims.questions, answers, workload, parameters)

    verdict = _verdict(ports, request.at, workload, to) if workload else None
    advice = advice_of(claims.questions, answers, verdict)
    return verdict_card(advice, workload, count, claims, request.at.date())


def _verdict(ports: Ports, at: datetime, workload: str, to: str) -> Verdict | None:
    """Return which of GPUs and Trainium does a cluster's or a run's work for less; may block.

    None for a name that nothing runs under, and where neither is cheaper at every speed. Raise
    `WrongInput` where both sides have the same kind of chip.
    """
    kinds, claims = ports.world.knowledge.types(), ports.world.knowledge.claims()
    try:
        reading = ports.world.source.read(at)
        nodes = [x.labels for x in reading.inventory.instances.values()]
        counts = Counter(x.instance_type for x in nodes if x.cluster == workload)
        if not counts:
            runs = (x.instance_types for x in costed_runs(ports, at) if x.name == workload)
            counts = Counter(next(runs, ()))
        old = next(kinds[name] for name, _ in counts.most_common() if name in kinds)

        # Unless the asker says against what: against what runs beside it, else what sources name.
        beside = Counter(x.instance_type for x in nodes if x.instance_type in kinds)
        across = (x for x, _ in beside.most_common() if kinds[x].has_neuron != old.has_neuron)
        name = to or next(across, "")
        new = known_type(name, kinds) if name else default_target(old, kinds, claims)
        is_alike = old.has_neuron == new.has_neuron
        verdict = None if is_alike else verdict_of(ports, reading, (old, new))
    except (TrnbotError, StopIteration):
        return None

    if is_alike and to:
        raise WrongInput(
            f"'decide' weighs Trainium against GPUs, and {workload} runs on {old.name}, which is of"
            f" the same kind as {to}; 'migrate' compares two of a kind.",
            "to",
        )
    return verdict if verdict and verdict.cheaper else None


def parameter_count(text: str) -> float:
    """Read `7B`, `350M` or a plain number; raise `WrongInput` for anything else."""
    match = re.fullmatch(r"([\d.,_]+)\s*([kmbt]?)", text.strip().lower())
    try:
        count = float(re.sub("[,_]", "", match[1])) * _SCALE[match[2]] if match else 0.0
    except ValueError:
        count = 0.0

    if not count > 0:
        raise WrongInput(
            f"'{shortened(text)}' is not a count of parameters; write it like 7B or 350M.",
            "parameters",
        )
    if count > MOST_PARAMETERS:
        raise WrongInput(
            f"'{shortened(text)}' is more parameters than any model has; keep it under"
            f" {MOST_PARAMETERS / 1e12:g}T.",
            "parameters",
        )

    return count
