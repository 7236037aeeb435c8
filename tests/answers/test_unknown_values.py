"""Every parameter of every command refuses what it does not know, or says so: walked over the registry with nonsense values."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from adapters.store.memory import MemoryStore
from bot.answers.all import ANSWERS
from bot.app import App
from bot.cards.card import Tone
from bot.grammar.line import FILTERS
from bot.grammar.registry import Command, Parameter, commands_by_name
from bot.model.request import Request, User
from bot.settings.settings import read_settings
from bot.wiring.source import OfferedFiles, OpenedSource
from tests.answers.advice_world import words
from tests.answers.configuring import ADMIN, app, end, refused
from tests.belonging import MEMBER
from tests.cases import in_one_run
from tests.e2e.product import recording

assert ANSWERS
NONSENSE = "qzxv"
FREE: dict[tuple[str, str], str] = {
    ("ack", "note"): "a note of one's own",
    ("backtest", "channel"): "the name under which every notification is counted",
    ("baseline keep", "as"): "the new baseline's name",
    ("checklist", "name"): "the migration's name: a new one has no tick",
    ("checklist done", "name"): "the migration's name",
    ("cuda", "packages"): "any package may need CUDA or not; the card says that none is known to",
    ("decide", "workload"): "the title",
    ("routes test", "owner"): "an imagined alert's; the card says that it has no address",
    ("routes test", "launcher"): "an imagined alert's",
    ("routes test", "node_group"): "an imagined alert's, for patterns of the mapping file",
    ("snooze", "reason"): "why, in one's own words",
}
"""Parameters that take any text, and why."""
GIVEN = {
    "instance_type": "trn1.32xlarge", "old": "p5.48xlarge", "new": "trn1.32xlarge", "cluster": "tiny", "number": "1", "toml": "[idle]",
    "line": "fleet", "recording": "tiny-7", "key": "idle.below", "value": "15%",
}  # fmt: skip
AHEAD = {
    (name, scope)
    for name in ("config", "config set", "config show")
    for scope in ("cluster", "team", "account")
}
"""What may be set up ahead of the first node: accepted, and said to be carried by nothing."""
FILTERED = {
    "cost": ("line", "service", "team", "region", "usage_type", "tag:team", "qzxv"), "config set": ("qzxv",),
    "goodput": ("service", "team", "cluster", "qzxv"),
    "commitments": ("purchase", "service", "qzxv"),
    "forecast": ("service", "team", "qzxv"), "why cost": ("service", "team", "qzxv"),
    "routes test": ("cause", "severity", "qzxv"), "subscribe": ("cause", "severity", "qzxv"), "unsubscribe": ("cause", "qzxv"),
}  # fmt: skip


@dataclass(frozen=True)
class Slip:
    """A line with one value that nothing has."""

    line: str
    command: str
    parameter: str


def slips() -> list[Slip]:
    product = [
        made for made in commands_by_name(hidden=True) if made.handler.__module__.startswith("bot.")
    ]
    return [
        slip
        for made in product
        for parameter in made.parameters
        for slip in _slips(made, parameter)
    ]


def _slips(made: Command, parameter: Parameter) -> list[Slip]:
    others = [x for x in made.parameters if x is not parameter]
    need = [
        x
        for x in others
        if x.arg.default is None or (made.name == "config set" and x.word in {"key", "value"})
    ]
    start = [made.name, *(f"{x.word}={GIVEN.get(x.word, 'one')}" for x in need if not x.arg.rest)]
    if parameter.type == FILTERS:
        return [
            Slip(" ".join([*start, f"{name}={NONSENSE}"]), made.name, name)
            for name in FILTERED[made.name]
        ]
    word = NONSENSE if parameter.arg.rest else f"{parameter.word}={NONSENSE}"
    return [Slip(" ".join([*start, word]), made.name, parameter.word)]


SLIPS = [slip for slip in slips() if (slip.command, slip.parameter) not in FREE]


@pytest.fixture(scope="module")
def walked(opened: OpenedSource, tmp_path_factory: pytest.TempPathFactory) -> App:
    """A bot that offers one recording and one policy by name."""
    folders = {
        "TRNBOT_RECORDINGS": str(recording("tiny").parent),
        "TRNBOT_POLICIES": str(tmp_path_factory.mktemp("policies")),
    }
    (Path(folders["TRNBOT_POLICIES"]) / "night.toml").write_text("[idle]\n")
    return app(opened, MemoryStore(), files=OfferedFiles(read_settings(folders)))


def kept(bot: App) -> str:
    """Return all that is remembered but who was refused, as text."""
    return repr(
        {
            name: value
            for name, value in vars(bot.ports.stores.documents).items()
            if name != "_attempts"
        }
    )


@in_one_run
@pytest.mark.parametrize("slip", SLIPS, ids=[slip.line for slip in SLIPS])
async def test_a_value_that_nothing_has_is_named_with_what_is_right(
    walked: App, slip: Slip
) -> None:
    before = kept(walked)
    card = await walked.answer(
        Request(slip.line, User(ADMIN, "dana"), end(walked), "chat", MEMBER, "chat:ops")
    )
    if (slip.command, slip.parameter) in AHEAD:
        assert f"Nothing runs under {slip.parameter}={NONSENSE} now" in words(card)
        return
    assert card.tone is Tone.ERROR, (slip.line, card.title)
    sentence = refused(card)
    assert "\n" not in sentence
    assert sentence.endswith((".", "?"))
    assert len(sentence) < 400
    assert NONSENSE in sentence or "'one'" in sentence, sentence
    assert any(sign in sentence for sign in SIGNS), sentence
    assert kept(walked) == before


SIGNS = (
    "did you mean",
    "known: ",
    "write ",
    "for example",
    "lists ",
    "list them",
    "type ",
    "is on or off",
    "such as",
    "Preview it",
    " by '",
)
"""Each names the nearest right thing, or how to find it."""


def test_every_text_that_is_free_is_a_parameter_still() -> None:
    every = {(slip.command, slip.parameter) for slip in slips()}
    assert set(FREE) <= every
    assert every >= AHEAD
