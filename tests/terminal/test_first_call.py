"""What a person meets in the first minutes of a terminal: a bare machine, slips of the finger, files with a mistake, shells."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from bot.grammar.registry import commands_by_name
from bot.wiring.surfaces import SHELLS, words
from bot.wiring.verbs import VERBS, typed_line

ROOT = Path(__file__).parents[2]


def trnbot(*arguments: str, folder: Path, **environ: str) -> subprocess.CompletedProcess[str]:
    """Run one call on a machine without settings, without credentials and without a home."""
    bare = {
        "PATH": os.defpath,
        "PYTHONPATH": os.pathsep.join(map(str, [ROOT, *sys.path[1:]])),
        "HOME": "/nonexistent",
    }
    call = [sys.executable, "-m", "bot", *arguments]
    return subprocess.run(
        call,
        cwd=folder,
        env=bare | environ,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["root cause?"], "root cause?"),
        (["cost", "7d", "cluster=a b"], 'cost 7d cluster="a b"'),
        (["ack", "big run"], 'ack "big run"'),
        (["ack", 'a"b'], r'ack "a\"b"'),
        (["cost", "team=", "=x"], "cost team= =x"),
    ],
)
def test_one_argument_is_the_line_and_of_several_each_stays_whole(words, line):
    assert typed_line(words) == line


@pytest.mark.parametrize(("line", "code"), [("doctor", 1), ("about", 0)])
@pytest.mark.skipif(
    not Path("/proc/self").exists(),
    reason="needs a folder in which nobody may write, not even root",
)
def test_doctor_and_about_answer_where_nothing_may_be_written(line, code):
    done = trnbot(line, folder=Path("/proc"))
    assert (done.returncode, done.stderr) == (code, "")


def test_every_command_and_verb_is_completed():
    table = words()
    for name in (*VERBS, *(command.name for command in commands_by_name())):
        typed = name.split()
        for n, word in enumerate(typed):
            assert word in table[" ".join(typed[:n])], name
    assert {"window=", "--json"} <= {*table["cost"]}
    assert {*table["completion"]} == {*SHELLS}
    assert "--port" in table["serve"]


LINES = {
    "trnbot al": "alerts",
    "trnbot config ap": "apply",
    "trnbot serve --po": "--port",
    "trnbot cost --js": "--json",
}


@pytest.mark.parametrize(("typed", "offered"), LINES.items())
def test_bash_completes_from_the_registry(typed, offered, tmp_path):
    bash = shutil.which("bash") or pytest.skip("needs bash")
    made = trnbot("completion", "bash", folder=tmp_path)
    ask = f'{made.stdout}\nCOMP_LINE="{typed}" COMP_POINT={len(typed)}; _trnbot; printf "%s\\n" "${{COMPREPLY[@]}}"'
    done = subprocess.run([bash, "-c", ask], capture_output=True, text=True, check=True)
    assert offered in done.stdout.split()


@pytest.mark.parametrize(("typed", "offered"), LINES.items())
def test_fish_completes_from_the_registry(typed, offered, tmp_path):
    fish = shutil.which("fish") or pytest.skip("needs fish")
    (tmp_path / "c.fish").write_text(trnbot("completion", "fish", folder=tmp_path).stdout)
    done = subprocess.run(
        [fish, "-c", f"source c.fish; complete -C '{typed}'"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert offered in done.stdout.split()


@pytest.mark.parametrize(("typed", "offered"), LINES.items())
def test_zsh_completes_from_the_registry(typed, offered, tmp_path):
    zsh = shutil.which("zsh") or pytest.skip("needs zsh")
    made = trnbot("completion", "zsh", folder=tmp_path).stdout
    ask = f"compdef() {{ :; }}; compadd() {{ print -l -- $@ }}\n{made}\nLBUFFER='{typed}'; _trnbot"
    done = subprocess.run([zsh, "-fc", ask], capture_output=True, text=True, check=True)
    assert offered in done.stdout.split()


def test_help_loads_nothing_heavy():
    heavy = ("numpy", "duckdb", "sklearn", "boto3", "aiohttp", "sqlalchemy")
    code = "import sys; from bot.__main__ import main; sys.argv = ['trnbot', 'help']; main()"
    program = f"{code}; print([x for x in {heavy} if x in sys.modules], file=sys.stderr)"
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stderr.strip() == "[]"
