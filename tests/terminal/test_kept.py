"""What took long to open is kept on disk, and never believed where it may be another thing."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock

import numpy as np
import pytest

from bot.wiring import kept as keeping
from bot.wiring.kept import AtMostEvery, Once, content_of, kept


@dataclass
class Thing:
    values: np.ndarray
    lock: object = field(default_factory=Lock)


class Maker:
    """Counts how often the thing was made."""

    def __init__(self) -> None:
        self.made = 0

    def __call__(self) -> Thing:
        self.made += 1
        return Thing(np.arange(10_000, dtype=np.float32))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(keeping, "FOLDER", tmp_path / "opened")
    return tmp_path / "opened"


def test_a_thing_is_made_once_and_mapped_afterwards(folder: Path) -> None:
    make = Maker()
    first, second = kept("thing", ("a", 1), make), kept("thing", ("a", 1), make)
    assert make.made == 1
    assert np.array_equal(first.values, second.values)
    second.values[0] = 7  # a copy of its own: the file stays as it is
    assert kept("thing", ("a", 1), make).values[0] == 0


def test_other_dependencies_are_another_thing(folder: Path) -> None:
    make = Maker()
    kept("thing", ("a", 1), make)
    kept("thing", ("a", 2), make)
    assert make.made == 2


def test_a_damaged_copy_is_made_anew(folder: Path) -> None:
    make = Maker()
    kept("thing", (), make)
    (copy,) = folder.iterdir()
    copy.write_bytes(copy.read_bytes()[:200])
    assert kept("thing", (), make).values[3] == 3
    assert make.made == 2


@pytest.mark.parametrize(
    ("mode", "read"), [(0o600, True), (0o644, True), (0o620, False), (0o602, False)]
)
def test_a_copy_that_others_may_write_is_not_read(folder: Path, mode: int, read: bool) -> None:
    make = Maker()
    kept("thing", (), make)
    (copy,) = folder.iterdir()
    copy.chmod(mode)
    kept("thing", (), make)
    assert make.made == (1 if read else 2)


def test_the_copy_that_was_used_longest_ago_makes_room(folder: Path) -> None:
    for number in range(24):
        kept("thing", (number,), lambda: 1)
        os.utime(keeping.place_of("thing", number), (number, number))
    used = keeping.place_of("thing", 0)
    kept("thing", (0,), lambda: 1)
    kept("thing", ("new",), lambda: 1)
    left = set(folder.iterdir())
    assert len(left) == 24
    assert used in left
    assert keeping.place_of("thing", 1) not in left


def test_something_is_made_once_and_a_failure_is_not_kept() -> None:
    answers = iter([ValueError("not yet"), 1, 2])

    def make() -> int:
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    once = Once(make)
    with pytest.raises(ValueError, match="not yet"):
        once()
    assert [once(), once()] == [1, 1]


def test_something_is_due_at_first_and_when_its_time_has_passed() -> None:
    times = iter([5.0, 5.9, 6.0, 6.5, 7.0])
    due = AtMostEvery(1.0, lambda: next(times))
    assert [due() for _ in range(5)] == [True, False, True, False, True]


def test_what_cannot_be_kept_is_still_given(folder: Path) -> None:
    assert kept("thing", (), lambda: lambda: 3)() == 3
    folder.mkdir(exist_ok=True)
    folder.chmod(0o500)
    assert kept("other", (), Maker()).values.size == 10_000
    folder.chmod(0o700)


def test_old_copies_go(folder: Path) -> None:
    for number in range(40):
        kept("thing", (number,), lambda: 1)
    assert len(list(folder.iterdir())) == 24


def test_content_is_another_when_a_file_is_written_added_or_gone(tmp_path: Path) -> None:
    (tmp_path / "metrics").mkdir()
    file = tmp_path / "metrics/a.jsonl"
    names = [content_of(tmp_path)]
    file.write_text("1")
    names.append(content_of(tmp_path))
    file.write_text("22")
    names.append(content_of(tmp_path))
    file.unlink()
    assert len(set(names)) == 3
    assert content_of(tmp_path) == names[0]


def test_byte_code_and_links_that_lead_nowhere_are_no_content(tmp_path: Path) -> None:
    before = content_of(tmp_path)
    (tmp_path / "__pycache__").mkdir()
    (tmp_path / "__pycache__/a.pyc").write_bytes(b"1")
    (tmp_path / "gone").symlink_to(tmp_path / "nowhere")
    assert content_of(tmp_path) == before
