"""`trnbot mcp` over standard streams, as a program starts it: real process, official client, a simulated fleet."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from adapters.store.open import open_store
from bot.answers.about.document import tools
from bot.cards.card import Tone
from bot.model.request import Effect
from bot.wiring import programs as wired
from bot.wiring.verbs import VERBS
from tests.house.fakes import Chat, Script, app, ask

if TYPE_CHECKING:  # imported where it is used: each worker would pay for it
    from mcp import Client

NEEDED = {
    "capacity": {"instance_type": "trn1.32xlarge"},
    "price": {"instance_type": "trn1.32xlarge"},
    "spot": {"instance_type": "trn1.32xlarge"},
    "tco": {"old": "p5.48xlarge", "new": "trn1.32xlarge"},
    "migrate": {"cluster": "tiny"},
}


def started(folder: Path, *words: str) -> Client:
    """Return a client that starts `trnbot mcp` in a folder of its own."""
    from mcp import Client, StdioServerParameters

    environment = {"TRNBOT_DATABASE_URL": address(folder), "USER": "dana"}
    arguments = ["-m", "bot", "mcp", *words]
    return Client(
        StdioServerParameters(command=sys.executable, args=arguments, cwd=folder, env=environment)
    )


def address(folder: Path) -> str:
    return f"sqlite:///{folder}/bot.db"


@pytest.mark.timeout(300)
async def test_a_program_lists_calls_and_is_refused_over_stdio(tmp_path: Path) -> None:
    """Every reading tool answers with a document of its schema, or refuses in one sentence."""
    from jsonschema import validate

    reading = [tool for tool in tools() if tool.effect is Effect.READS]
    answered, refused = [], {}
    async with started(tmp_path, "--source", "simulator:7/tiny") as programs:
        listed = {tool.name for tool in (await programs.list_tools()).tools}
        assert listed == {"ask", *(tool.name for tool in tools() if tool.listed)}
        for tool in reading:
            result = await programs.call_tool(tool.name, NEEDED.get(tool.name, {}))
            if result.is_error:
                refused[tool.name] = "".join(part.text for part in result.content)
            else:
                answered.append(tool.name)
                assert result.structured_content["command"] == tool.command
                validate(result.structured_content, tool.answer)
        wrong = await programs.call_tool("cost", {"windw": "7d"})
    assert {"alerts", "cost", "fleet", "doctor", "config_show", "price", "tco"} <= set(answered)
    assert len(answered) > len(refused), refused
    assert not [
        sentence
        for sentence in refused.values()
        if "\n" in sentence or "Something went wrong" in sentence
    ], refused
    assert wrong.is_error
    assert wrong.content[0].text == "'cost' has no argument 'windw'; did you mean 'window'?"
    assert not (tmp_path / "bot.db").exists(), "reading made a database"


@pytest.mark.timeout(300)
async def test_a_preview_over_stdio_is_applied_by_a_person_in_chat(tmp_path: Path) -> None:
    async with started(tmp_path, "--source", "simulator:7/tiny") as programs:
        result = await programs.call_tool("config_set", {"key": "idle.below", "value": "15%"})
    store, document = open_store(address(tmp_path)), result.structured_content
    assert document["changed"] is False
    assert document["data"]["edits"] == [
        {"key": "idle.below", "scope": {}, "from": "5%", "to": "15%"}
    ]
    assert not store.versions(9), "a program changed the policy"
    (attempt,) = store.attempts(9)
    assert (attempt.by, attempt.refused) == ("terminal:dana", "")

    chat = app(Script(), Chat(), store, ("chat:U1",))
    assert "is for admins" in str(
        (await chat.answer(ask(document["apply"]["line"], "chat:U2"))).data["error"]
    )
    card = await chat.answer(ask(document["apply"]["line"], "chat:U1"))
    assert card.tone is Tone.GOOD, card
    (version,) = store.versions(9)
    assert (version.by, [edit.key for edit in version.edits]) == ("chat:U1", ["idle.below"])


def test_the_verb_is_explained() -> None:
    assert "Model Context Protocol" in VERBS["mcp"].summary
    assert "--source" in VERBS["mcp"].explanation


def test_the_package_is_an_extra() -> None:
    assert wired.installed()
