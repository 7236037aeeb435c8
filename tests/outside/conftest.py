"""Run the command line as a stranger does: words in, text and an exit code out."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bot.__main__ import main

Told = tuple[int, str, str]


@pytest.fixture
def trnbot(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Told]:
    """Return a call of trnbot: the words -> exit code, what it printed, what it said went wrong."""

    monkeypatch.chdir(tmp_path)

    def call(*words: str) -> Told:
        code = main([*words])
        told = capsys.readouterr()
        return code, told.out, told.err

    return call


@pytest.fixture
def data(trnbot: Callable[..., Told]) -> Callable[..., Any]:
    """Return the same with --json, that must succeed: the parsed answer."""

    def call(*words: str) -> Any:
        code, out, err = trnbot(*words, "--json")
        assert code == 0, err
        return json.loads(out)

    return call
