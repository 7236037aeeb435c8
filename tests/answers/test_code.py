"""The lines of code that have to change: thirty scripts, half of them clean, each line marked that must be found."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from bot.__main__ import main
from bot.answers.plan.code import findings
from bot.errors import WrongInput
from bot.knowledge import load_knowledge
from bot.model.request import Request, User
from bot.settings.settings import read_settings
from bot.wiring.source import OfferedFiles
from tests.belonging import MEMBER
from tests.builders import NOON

CLAIMS = load_knowledge().claims()
SCRIPTS = {
    name: text
    for name, _, text in (
        part.partition("\n")
        for part in Path(__file__).with_name("scripts.txt").read_text().split("=== ")[1:]
    )
}


def marked(text: str) -> set[tuple[int, str]]:
    return {
        (number, mark[1])
        for number, line in enumerate(text.splitlines(), 1)
        if (mark := re.search(r"#! (\w+)$", line))
    }


def test_half_are_clean_and_half_are_not() -> None:
    assert [sum(name.startswith(kind) for name in SCRIPTS) for kind in ("clean", "planted")] == [
        15,
        15,
    ]


@pytest.mark.parametrize("name", SCRIPTS)
def test_every_marked_line_is_found_and_no_other(name: str) -> None:
    found = findings(name, SCRIPTS[name], CLAIMS.code, CLAIMS.packages)
    assert {(x.line, x.kind) for x in found} == marked(SCRIPTS[name])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in {**SCRIPTS, ".venv/hidden.py": "import triton\n"}.items():
        path = tmp_path / "src" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (tmp_path / "outside.py").write_text("import triton\n")
    (tmp_path / "src" / "link.py").symlink_to(tmp_path / "outside.py")
    return tmp_path / "src"


def test_a_folder_is_read_but_for_what_is_hidden_or_linked(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["audit", f"{folder}/", "--json"]) == 1
    data = json.loads(capsys.readouterr().out)["data"]
    found = {(x["file"].removeprefix(f"{folder}/"), x["line"], x["kind"]) for x in data["findings"]}
    assert data["files"] == len(SCRIPTS)
    assert found == {(name, *mark) for name, text in SCRIPTS.items() for mark in marked(text)}


def test_a_pull_request_gets_sarif_and_an_exit_code(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    assert main(["cuda", "planted/no_step.py", "--sarif"]) == 1
    (run,) = json.loads(capsys.readouterr().out)["runs"]
    (result,) = run["results"]
    place = result["locations"][0]["physicalLocation"]
    assert place["artifactLocation"]["uri"] == "planted/no_step.py"
    assert place["region"]["startLine"] == 11
    assert [rule["id"] for rule in run["tool"]["driver"]["rules"]] == [result["ruleId"]]
    assert main(["cuda", "clean/native.py", "--sarif"]) == 0
    assert main(["cuda", "torch==2.5.1", "--sarif"]) == 2


def test_what_is_no_python_is_named_and_nothing_is_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "broken.py").write_text("def (\n")
    (tmp_path / "runs.py").write_text("open('ran', 'w')\nraise SystemExit(7)\n")
    assert main(["cuda", "./"]) == 1
    said = " ".join(capsys.readouterr().out.split())
    assert "1 file could not be read" in said
    assert "broken.py is not Python" in said
    assert main(["cuda", "runs.py"]) == 0
    assert sorted(x.name for x in tmp_path.iterdir()) == ["broken.py", "runs.py"]


def test_a_folder_needs_no_slash_at_its_end(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(["audit", f"{folder}/", "--json"]) == main(["audit", str(folder), "--json"])
    monkeypatch.chdir(folder.parent)
    assert main(["audit", folder.name, "--json"]) == main(["audit", f"{folder}/", "--json"])


def test_chat_reads_no_file_of_the_server(folder: Path) -> None:
    files = OfferedFiles(read_settings({}))
    request = Request("cuda x.py", User("slack:U1"), NOON, "slack", MEMBER)
    with pytest.raises(WrongInput, match="Files are read in a terminal"):
        files.code(f"{folder}/", request)
