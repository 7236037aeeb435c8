"""Answer which packages of a code base need CUDA."""

from __future__ import annotations

import re
from pathlib import Path

from bot.advice.cuda import audit, requirements
from bot.cards.card import Card
from bot.cards.cuda import cuda_card, cuda_help_card
from bot.commands.registry import arg, command
from bot.errors import WrongInput
from bot.model.request import Request
from bot.ports import Ports

_FILE = re.compile(r"[^\s=<>]*(?:/|\.txt$|\.in$|\.lock$)[^\s=<>]*")


@command(
    "cuda",
    "Which packages of a requirements file or 'pip freeze' need CUDA.",
    examples=("cuda torch==2.5.1+cu124 flash-attn==2.7.0 numpy", "cuda requirements.txt"),
)
async def cuda(
    ports: Ports, request: Request, packages: str = arg("", "the packages, or in a terminal the name of a file", rest=True)
) -> Card:
    """Look every package up."""
    if not packages.strip():
        return cuda_help_card()
    wanted = requirements(_text(request, packages))
    if not wanted:
        raise WrongInput("No package stands there; paste what 'pip freeze' prints, such as torch==2.5.1 flash-attn==2.7.0.")
    return cuda_card(wanted, audit(wanted, ports.knowledge.claims().packages))


def _text(request: Request, words: str) -> str:
    """Return what was pasted, its lines kept, or the text of a file where a terminal asks."""
    if not _FILE.fullmatch(words.strip()):
        return re.split(r"\bcuda\b", request.line, maxsplit=1, flags=re.IGNORECASE)[1].strip().strip("`")
    if request.surface != "terminal":
        raise WrongInput("Files are read in a terminal; paste what 'pip freeze' prints.")
    try:
        return Path(words.strip()).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise WrongInput(
            f"The file '{words}' cannot be read ({type(error).__name__}); give a path to a requirements file."
        ) from None
