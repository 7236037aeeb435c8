"""Sessions of a shell show what they were last seen to show: each file holds the lines that are typed, and what they show.

`$` begins a line that is typed, `@` what happens to the world meanwhile, `#` what the reader is told. Below a line stands what
it shows: `!` before what went to the standard error output, `>` before the calls that AWS answered, `[2]` for an exit code.
Write the lines that you want, run `make goldens`, and read the diff.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests import goldens
from tests.aws_live.conftest import World
from tests.wiring.conftest import tiny
from tests.wiring.shell import INDENT, NOON, Shell

SESSIONS = sorted(Path(__file__).with_name("sessions").glob("*.txt"))
BARE = ("TRNBOT_", "SLACK_", "Microsoft", "AWS_REGION", "COLUMNS", "LINES", "LOGNAME")


@pytest.mark.parametrize("session", SESSIONS, ids=lambda path: path.stem)
def test_a_session_shows_what_it_was_last_seen_to_show(
    session: Path, world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in list(os.environ):
        if name.startswith(BARE):
            monkeypatch.delenv(name)
    monkeypatch.setenv("USER", "dana")
    monkeypatch.setenv("HOME", "/nonexistent")
    monkeypatch.setenv("COLUMNS", "100")
    world.now = NOON

    written = session.read_text(encoding="utf-8")
    # By a name of its own, as a long path would break lines elsewhere.
    (tmp_path / "tiny").symlink_to(tiny())
    monkeypatch.setenv("RECORDING", "recording:tiny")
    shell = Shell(tmp_path, world, {str(tiny()): "RECORDING", str(tmp_path): "~"})
    try:
        shown = transcript(written, shell)
    finally:
        shell.close()

    goldens.check(session, shown)


def transcript(script: str, shell: Shell) -> str:
    """Return a session with what its lines show now."""
    lines = list[str]()
    for line in script.splitlines():
        if not line or line.startswith(INDENT):
            continue
        lines.append(line)
        if line.startswith("@ "):
            shell.happens(os.path.expandvars(line[2:]))
        if line.startswith("$ "):
            lines += [f"{INDENT}{x}".rstrip() for x in shell.shown(os.path.expandvars(line[2:]))]
    return "\n".join(lines) + "\n"
