"""A simulated recording is kept for the next call, and made anew where another simulator made it."""

import pytest

from bot.wiring import source


@pytest.fixture
def state(monkeypatch, tmp_path):
    monkeypatch.setattr(source, "STATE", tmp_path)
    return tmp_path / "simulator"


def test_a_simulation_is_made_once(state):
    first = source.folder_of("simulator:7/tiny")
    made = (first / "labels.json").stat().st_mtime_ns
    assert source.folder_of("simulator:7/tiny") == first
    assert (first / "labels.json").stat().st_mtime_ns == made


@pytest.mark.parametrize("older", ["tiny-7", "tiny-7-0000abcd"])
def test_what_an_older_simulator_made_is_made_anew(state, older):
    (state / older).mkdir(parents=True)
    (state / "tiny-71-0000abcd").mkdir()
    made = source.folder_of("simulator:7/tiny")
    assert (made / "metrics").is_dir()
    assert sorted(path.name for path in state.iterdir()) == sorted([made.name, "tiny-71-0000abcd"])
