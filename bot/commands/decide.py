"""Answer whether a workload belongs on Trainium, on GPUs, or on both."""

from __future__ import annotations

import re

from bot.advice.decide import decide as judge
from bot.cards.card import Card
from bot.cards.decide import questions_card, verdict_card
from bot.commands.registry import arg, command
from bot.errors import WrongInput
from bot.model.request import Request
from bot.ports import Ports

_SCALE = {"": 1.0, "k": 1e3, "m": 1e6, "b": 1e9, "t": 1e12}


@command(
    "decide",
    "Trainium or GPUs: ten questions, one answer with its reasons.",
    examples=(
        "decide",
        "decide llama standard=yes stable=no repeated=yes",
    ),
)
async def decide(
    ports: Ports,
    request: Request,
    workload: str = arg("", "what it is about, for the title"),
    standard: bool | None = arg("", "a known architecture?", keyword=True),
    stable: bool | None = arg("", "architecture and shapes stay for weeks?", keyword=True),
    repeated: bool | None = arg("", "trained again and again, or for months?", keyword=True),
    pytorch: bool | None = arg("", "PyTorch or JAX without own CUDA kernels?", keyword=True),
    spend: bool | None = arg("", "$20,000 a month or more?", keyword=True),
    control_flow: bool | None = arg("", "control flow or shapes that depend on the data?", keyword=True),
    rl: bool | None = arg("", "a reinforcement-learning loop?", keyword=True),
    gnn: bool | None = arg("", "a graph neural network?", keyword=True),
    moe: bool | None = arg("", "experts routed dynamically?", keyword=True),
    cuda_only: bool | None = arg("", "CUDA-only libraries?", keyword=True),
    parameters: str = arg("", "how many parameters, such as 7B", keyword=True),
) -> Card:
    """Ask until all ten are answered, then decide; the same answers give the same advice."""
    given = {
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
    }
    answers = {key: value for key, value in given.items() if value is not None}
    count = parameter_count(parameters) if parameters else None
    claims = ports.knowledge.claims()
    if len(answers) < len(claims.questions):
        return questions_card(claims.questions, answers, workload, parameters)
    return verdict_card(judge(claims.questions, answers), workload, count, claims.of("managed"), claims.of("sizing"))


def parameter_count(text: str) -> float:
    """Read `7B`, `350M` or a plain number; raise `WrongInput` for anything else."""
    found = re.fullmatch(r"([\d.,_]+)\s*([kmbt]?)", text.strip().lower())
    try:
        count = float(re.sub("[,_]", "", found[1])) * _SCALE[found[2]] if found else 0.0
    except ValueError:
        count = 0.0
    if count <= 0:
        raise WrongInput(f"'{text}' is not a count of parameters; write it like 7B or 350M.")
    return count
