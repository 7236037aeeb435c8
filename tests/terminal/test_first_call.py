"""What a person meets in the first minutes of a terminal: a bare machine, slips of the finger, files with a mistake, shells."""

import json
import os
import shutil
import subprocess
import sys
from datetime import datetime
from pathlib import Path

import pytest

from adapters.simulator.generate import generate
from bot.grammar.registry import commands_by_name
from bot.model.window import utc_text
from bot.wiring.surfaces import SHELLS, words
from bot.wiring.verbs import VERBS, typed_line
from tests.e2e.product import recording

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


@pytest.mark.parametrize("typed", ["--version", "version"])
def test_version_exits_0(typed, tmp_path):
    done = trnbot(typed, folder=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("trnbot ")


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["root cause?"], "root cause?"),
        (["cost", "7d", "cluster=a b"], 'cost 7d cluster="a b"'),
        (["ack", "big run"], 'ack "big run"'),
    ],
)
def test_one_argument_is_the_line_and_of_several_each_stays_whole(words, line):
    assert typed_line(words) == line


@pytest.mark.parametrize(("line", "code"), [("doctor", 1), ("about", 0)])
def test_doctor_and_about_answer_on_a_bare_machine(line, code, tmp_path):
    done = trnbot(line, folder=tmp_path)
    assert (done.returncode, done.stderr) == (code, "")
    assert "There is nothing to watch yet: set TRNBOT_SOURCE" in " ".join(done.stdout.split())
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("line", "code"), [("doctor", 1), ("about", 0)])
@pytest.mark.skipif(
    not Path("/proc/self").exists(),
    reason="needs a folder in which nobody may write, not even root",
)
def test_doctor_and_about_answer_where_nothing_may_be_written(line, code):
    done = trnbot(line, folder=Path("/proc"))
    assert (done.returncode, done.stderr) == (code, "")


def test_doctor_says_what_is_missing_where_aws_is_not_reachable(tmp_path):
    done = trnbot(
        "doctor",
        "--source",
        "aws",
        "--json",
        folder=tmp_path,
        AWS_EC2_METADATA_DISABLED="true",
        AWS_REGION="us-west-2",
    )
    assert done.returncode == 1
    (check,) = (
        x for x in json.loads(done.stdout)["data"]["checks"] if x["name"] == "AWS credentials"
    )
    assert "none are set" in check["remedy"]
    assert "renew" not in check["remedy"]


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        (("alerts", "--jsn"), "--json"),
        (("--jsn", "alerts"), "--json"),
        (("cost", "7d", "--sorce", "simulator:7"), "--source"),
        (("cost", "7d", "--windw", "3d"), "window"),
        (("serve", "--prt", "9"), "--port"),
        (("demo", "--no-browse"), "--no-browser"),
        (("score", "a", "b", "--plto", "c"), "--plot"),
        (("secrets", "key", "--km", "x"), "--kms"),
    ],
    ids=" ".join,
)
def test_a_mistyped_flag_gets_a_hint_of_the_nearest_flag(typed, meant, tmp_path):
    done = trnbot(*typed, folder=tmp_path)
    assert done.returncode == 2
    assert f"did you mean '{meant}'?" in done.stderr
    assert done.stdout == ""


MISTAKES = {
    "no TOML": ('port = 80\n[policy.idle\nfor = "3m"\n', 2, "is not TOML"),
    "an unknown threshold": (
        '# c\n[policy.idel]\nfor = "3m"\n',
        3,
        "'idel.for' is not a setting; did you mean 'idle.for'?",
    ),
    "a wrong threshold": (
        '[policy]\nidle.for = "3 parsecs"\n',
        2,
        "'3 parsecs' is not a length of time",
    ),
    "an unknown setting": (
        '# c\n\nsorce = "aws"\n',
        3,
        "'sorce' is not a setting; did you mean 'source'?",
    ),
    "a wrong setting": (
        '[metrics]\nlag = "soon"\n',
        2,
        "metrics.lag: 'soon' is not a length of time",
    ),
    "an override": (
        '[[policy.override]]\ncluster = "a"\n"idle.below" = "1%"\n[[policy.override]]\n"idle.belw" = 1\n',
        4,
        "idle.belw",
    ),
}


@pytest.mark.parametrize(("text", "line", "words"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_in_the_settings_file_names_file_and_line(text, line, words, tmp_path):
    (tmp_path / "mine.toml").write_text(text)
    done = trnbot("alerts", "--config", "mine.toml", folder=tmp_path)
    assert done.returncode == 2
    assert "mine.toml" in done.stderr
    assert f"line {line}" in done.stderr
    assert words in done.stderr


@pytest.mark.parametrize(
    ("text", "line"),
    [("[idle]\nfor = \n", 2), ('[idle]\nbelow = "5%"\nfor = "soon"\n', 3)],
    ids=["no TOML", "a wrong threshold"],
)
def test_a_mistake_in_a_policy_names_file_and_line(text, line, tmp_path):
    (tmp_path / "night.toml").write_text(text)
    done = trnbot("backtest", "simulator:7/tiny", "policy=night.toml", folder=tmp_path)
    assert done.returncode == 2
    assert "night.toml" in done.stderr
    assert f"line {line}" in done.stderr


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


def test_another_shell_is_refused_with_those_there_are(tmp_path):
    done = trnbot("completion", "powershell", folder=tmp_path)
    assert done.returncode == 2
    assert "bash, zsh, fish" in done.stderr


def test_a_second_call_keeps_what_the_first_has_opened(tmp_path):
    generate(tmp_path / "recording", 7, "tiny")
    for _ in range(2):
        done = trnbot("alerts", "--source", f"recording:{tmp_path}/recording", folder=tmp_path)
        assert (done.returncode, done.stderr) == (0, "")
    opened = sorted(path.name.split("-")[0] for path in (tmp_path / ".trnbot/opened").iterdir())
    assert opened == ["bill", "recording", "replay"]


def test_an_option_without_a_verb_is_refused_in_one_sentence(tmp_path):
    done = trnbot("--port", "3", folder=tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith("trnbot: 'trnbot' has no option '--port'")


def test_doctor_and_cost_name_one_instant_up_to_which_is_billed(tmp_path):
    """A simulation bills hours after its end, which no answer counts."""
    source = ("--source", f"recording:{recording('tiny')}", "--json")
    answers = [
        json.loads(trnbot(*line, *source, folder=tmp_path).stdout)["data"]
        for line in (["doctor"], ["cost", "7d"])
    ]
    billed = datetime.fromisoformat(answers[1]["billed_through"])
    (found,) = (check["found"] for check in answers[0]["checks"] if check["name"] == "billing")
    assert found == f"billed through {utc_text(billed)}"


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
