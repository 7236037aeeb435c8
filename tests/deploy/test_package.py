"""What is built installs beside distributions that own `adapters` and `detectors`, and answers from there."""

import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest

from adapters.simulator import generate
from bot.__main__ import main
from bot.wiring.surfaces import SHELLS
from tests.e2e.product import product
from tests.e2e.slackserver import free_port

ROOT = Path(__file__).parents[2]
TAKEN = ("adapters", "detectors")
"""Names of packages of the checkout that distributions of other people own."""
TOOLS = {
    "uv": ("tool", "install", "--quiet", "--python", sys.executable),
    "pipx": ("install", "--quiet", "--python", sys.executable),
}
"""What installs a wheel as an application of its own, and the words for it."""


def run(*command, folder, **environment):
    """Return what a command prints; nothing of the checkout is on its path, and no setting of this process reaches it."""
    kept = {x: y for x, y in os.environ.items() if not x.startswith(("TRNBOT_", "PYTHON", "AWS_"))}
    done = subprocess.run(
        command,
        cwd=folder,
        env={**kept, **environment},
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-1000:] + done.stderr[-2000:]
    return done.stdout


def foreign_wheel(folder, name):
    """Write a wheel of another distribution, whose only package refuses to be imported."""
    info, path = f"{name}-9.dist-info", folder / f"{name}-9-py3-none-any.whl"
    files = {
        f"{name}/__init__.py": f"raise RuntimeError('{name} of another distribution')\n",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 9\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(f"{x},,\n" for x in (*files, f"{info}/RECORD"))
    with zipfile.ZipFile(path, "w") as wheel:
        for inside, text in {**files, f"{info}/RECORD": record}.items():
            wheel.writestr(inside, text)
    return path


def build(source, folder, *kinds):
    run(sys.executable, "-m", "hatchling", "build", "-d", str(folder), *kinds, folder=source)


def contents(wheel):
    with zipfile.ZipFile(wheel) as opened:
        return {x: opened.read(x) for x in opened.namelist() if not x.endswith("/RECORD")}


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """Build both distributions of the checkout, and the wheel once more from what the sdist holds."""
    folder = tmp_path_factory.mktemp("built")
    build(ROOT, folder)
    with tarfile.open(next(folder.glob("*.tar.gz"))) as sdist:
        sdist.extractall(folder / "unpacked", filter="data")
    build(next((folder / "unpacked").iterdir()), folder / "again", "-t", "wheel")
    return folder


@pytest.fixture(scope="module")
def wheel(built):
    return next(built.glob("*.whl"))


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    folder = tmp_path_factory.mktemp("recorded") / "tiny"
    generate(folder, 7, "tiny")
    return folder


def environment(folder, *installed):
    """Return the programs of a new environment with these and the foreign wheels; the dependencies are those of the tests."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    dependencies = next(x for x in sys.path if x.endswith("site-packages"))
    (packages / "dependencies.pth").write_text(f"{dependencies}\n")
    programs = folder / "bin"
    foreign = [str(foreign_wheel(folder, name)) for name in TAKEN]
    pip = (sys.executable, "-m", "pip", "--python", str(programs / "python"), "install")
    offline = ("--no-index", "--no-deps", "--no-build-isolation", "--quiet")
    run(*pip, *offline, *foreign, *installed, folder=folder)
    return programs


def test_the_wheel_owns_one_package_and_the_sdist_builds_the_same(built, wheel):
    held = contents(wheel)
    assert {name.partition("/")[0].partition("-")[0] for name in held} == {"trnbot"}
    assert held == contents(next((built / "again").glob("*.whl")))


def test_the_image_copies_all_that_the_wheel_is_built_of(wheel, tmp_path):
    recipe = (ROOT / "deploy" / "Dockerfile").read_text()
    ignored = (ROOT / ".dockerignore").read_text().split()
    for line in re.findall(r"^COPY (?!--)(.+)", recipe, re.MULTILINE):
        *sources, target = line.split()
        assert not set(sources) & set(ignored)
        for source in sources:
            into = tmp_path / (source if target == "./" else target)
            if (ROOT / source).is_dir():
                shutil.copytree(ROOT / source, into, ignore=shutil.ignore_patterns("__pycache__"))
            elif (ROOT / source).is_file():
                shutil.copy(ROOT / source, into)
    build(tmp_path, tmp_path / "wheels", "-t", "wheel")
    assert contents(next((tmp_path / "wheels").iterdir())) == contents(wheel)


def test_the_wheel_holds_what_it_is_deployed_with(wheel):
    held = contents(wheel)
    shipped = [x for room in ("deploy", "manifest") for x in (ROOT / room).rglob("*")]
    for path in filter(Path.is_file, shipped):
        assert held[f"trnbot/{path.relative_to(ROOT)}"] == path.read_bytes()


def test_the_metadata_is_whole(wheel):
    (text,) = [y for x, y in contents(wheel).items() if x.endswith("/METADATA")]
    said = Parser().parsestr(text.decode())
    assert said["License-Expression"] == "Apache-2.0"
    assert said["License-File"] == "LICENSE"
    assert said["Description-Content-Type"] == "text/markdown"
    assert said["Author"]
    assert {"Homepage", "Documentation", "Changelog"} <= {
        url.partition(",")[0] for url in said.get_all("Project-URL")
    }
    assert "Programming Language :: Python :: 3.11" in said.get_all("Classifier")
    assert said.get_payload().startswith("# trnbot")


def test_templates_go_into_a_new_folder_alone(tmp_path, capsys):
    folder = tmp_path / "files"
    assert main(["templates", str(folder)]) == 0
    assert str(folder / "cloudformation" / "trnbot.yaml") in capsys.readouterr().out.splitlines()
    assert main(["templates", str(folder)]) == 2
    assert f"'{folder}' already exists" in capsys.readouterr().err


@pytest.mark.parametrize("installed", ["wheel", pytest.param("editable", marks=pytest.mark.slow)])
def test_it_answers_beside_packages_of_the_same_names(installed, wheel, recorded, tmp_path):
    what = [str(wheel)] if installed == "wheel" else ["-e", str(ROOT)]
    programs = environment(tmp_path / "env", *what)
    trnbot = str(programs / "trnbot")
    said = run(trnbot, "--version", folder=tmp_path)
    assert said == run(str(programs / "python"), "-m", "trnbot", "version", folder=tmp_path)
    assert said.startswith("trnbot ")
    assert "What you can type" in run(trnbot, "help", folder=tmp_path)
    cost = run(trnbot, "cost", "7d", "--source", f"recording:{recorded}", folder=tmp_path)
    assert "amortised" in cost
    for shell in SHELLS if installed == "editable" else ("bash",):
        assert "trnbot" in run(trnbot, "completion", shell, folder=tmp_path)
    run(trnbot, "templates", "files", folder=tmp_path)
    policy = (tmp_path / "files" / "iam-policy.json").read_text()
    assert policy == (ROOT / "deploy" / "iam-policy.json").read_text()
    # The other distributions are there, and trnbot was found before them.
    for name in TAKEN:
        foreign = subprocess.run(
            [programs / "python", "-I", "-c", f"import {name}"],
            capture_output=True,
            text=True,
            check=False,
        )
        assert f"{name} of another distribution" in foreign.stderr


@pytest.mark.slow
def test_the_demo_answers_beside_packages_of_the_same_names(wheel, tmp_path):
    programs = environment(tmp_path / "env", str(wheel))
    port, program = free_port(), (str(programs / "trnbot"),)
    words = ("demo", "--no-browser", "--source", "simulator:7/tiny")
    with product(tmp_path, port, {"PYTHONPATH": ""}, words, program) as demo:
        assert demo.health()["ok"]


@pytest.fixture(scope="module")
def tools(tmp_path_factory):
    """Return the folder of uv and pipx from the package index; skip where it does not answer."""
    folder = tmp_path_factory.mktemp("tools")
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    pip = [str(folder / "bin" / "pip"), "install", "--quiet", *TOOLS]
    if subprocess.run(pip, capture_output=True, timeout=110, check=False).returncode:
        pytest.skip("no package index that has uv and pipx answers here")
    return folder / "bin"


@pytest.mark.parametrize("tool", ["uv", pytest.param("pipx", marks=pytest.mark.slow)])
def test_it_is_an_application_of_its_own(tool, tools, wheel, tmp_path):
    programs = tmp_path / "programs"
    run(
        str(tools / tool),
        *TOOLS[tool],
        str(wheel),
        folder=tmp_path,
        UV_TOOL_DIR=str(tmp_path / "tools"),
        UV_TOOL_BIN_DIR=str(programs),
        PIPX_HOME=str(tmp_path / "pipx"),
        PIPX_BIN_DIR=str(programs),
    )
    assert run(str(programs / "trnbot"), "--version", folder=tmp_path).startswith("trnbot ")
    assert "What you can type" in run(str(programs / "trnbot"), "help", folder=tmp_path)
