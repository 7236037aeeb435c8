"""What is shipped to run the bot is confined, pinned, and holds no build tools."""

import re
import shutil
import subprocess
import sys
import sysconfig
import threading
import tomllib
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import yaml

from bot.wiring.verbs import VERBS

ROOT = Path(__file__).parents[2]
UNIT, COMPOSE, IMAGE = (
    ROOT / "deploy" / name for name in ("trnbot.service", "compose.yaml", "Dockerfile")
)
EXPOSURE = 1.5
"""The most that the unit may score; systemd's own scale runs from 0 (confined) to 10."""


def locked(name: str) -> set[str]:
    return set(re.findall(r"^([a-z0-9][a-z0-9._-]*)==", (ROOT / name).read_text(), re.MULTILINE))


@pytest.mark.skipif(
    not shutil.which("systemd-analyze"), reason="systemd-analyze is not installed here"
)
def test_the_unit_is_confined():
    command = ["systemd-analyze", "security", "--offline=true", "--no-pager", str(UNIT)]
    said = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False).stdout
    scored = re.search(r"exposure level for trnbot\.service: ([\d.]+)", said)
    assert scored is not None, said
    assert float(scored[1]) <= EXPOSURE, said


@pytest.mark.skipif(
    not shutil.which("systemd-analyze"), reason="systemd-analyze is not installed here"
)
def test_the_unit_is_valid(tmp_path):
    unit = tmp_path / UNIT.name
    # The program that it starts is not installed here; another stands in for it.
    unit.write_text(UNIT.read_text().replace("/opt/trnbot/bin/trnbot", sys.executable))
    command = ["systemd-analyze", "verify", "--man=no", "--recursive-errors=no", str(unit)]
    said = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (said.returncode, said.stderr) == (0, "")


def test_unit_and_image_start_what_is_installed():
    image = IMAGE.read_text()
    (program,) = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    assert f'ENTRYPOINT ["{program}"]\nCMD ["serve"]' in image
    assert f"ExecStart=/opt/trnbot/bin/{program} serve" in UNIT.read_text().splitlines()
    assert "serve" in VERBS


def test_a_wrong_setting_is_not_tried_again_by_the_unit(tmp_path):
    """A setting that is wrong ends `serve` with 2, and nothing else does."""
    (status,) = re.findall(r"^RestartPreventExitStatus=(\d+)$", UNIT.read_text(), re.MULTILINE)
    command = [sys.executable, "-m", "bot", "serve"]
    environ = {"TRNBOT_PORT": "eighty", "PYTHONPATH": str(ROOT), "TRNBOT_CONFIG": ""}
    ended = subprocess.run(
        command, cwd=tmp_path, env=environ, capture_output=True, text=True, timeout=60, check=False
    )
    assert ended.returncode == int(status), ended.stderr


def test_the_container_is_the_image():
    service = yaml.safe_load(COMPOSE.read_text())["services"]["trnbot"]
    image, build = IMAGE.read_text(), service["build"]
    context = (COMPOSE.parent / build["context"]).resolve()
    assert (context / build["dockerfile"]).samefile(IMAGE)
    assert f"USER {service['user']}\n" in image
    assert [each.rpartition(":")[2] for each in service["ports"]] == re.findall(
        r"^EXPOSE (\d+)", image, re.MULTILINE
    )
    assert [each.rpartition(":")[2] for each in service["volumes"]] == re.findall(
        r"^VOLUME (\S+)", image, re.MULTILINE
    )


@pytest.mark.parametrize("path", sorted(UNIT.parent.iterdir()), ids=lambda path: path.name)
def test_every_file_to_deploy_with_is_tried_by_a_test(path):
    tests = (x.read_text() for x in (ROOT / "tests").rglob("*.py"))
    assert any(f'"{path.name}' in text or f"deploy/{path.name}" in text for text in tests)


class Metadata(BaseHTTPRequestHandler):
    """Answer as the metadata service of EC2 does, version 2."""

    def do_PUT(self):
        self.answer("token-1")

    def do_GET(self):
        known = {"instance-id": "i-0abc", "placement/region": "us-west-2"}
        assert self.headers["X-aws-ec2-metadata-token"] == "token-1"
        self.answer(known[self.path.partition("/meta-data/")[2]])

    def answer(self, text):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *_):
        """Stay quiet."""


@pytest.mark.skipif(not shutil.which("curl"), reason="curl is not installed here")
@pytest.mark.parametrize(
    ("context", "told", "call"),
    [
        ("prolog_slurmd", {}, "create-tags"),
        ("prolog_slurmd", {"SLURM_JOB_NAME": "llama-7b"}, "create-tags"),
        ("epilog_slurmd", {}, "delete-tags"),
    ],
)
def test_slurm_tags_a_node_with_its_job(context, told, call, tmp_path):
    program = "#!/bin/sh\necho {}\n"
    for name, words in {
        "scontrol": "JobId=12 JobName=llama-7b UserId=dana Partition=trn1",
        "aws": '"$@" >> calls',
    }.items():
        (tmp_path / name).write_text(program.format(words))
        (tmp_path / name).chmod(0o755)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Metadata)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    given = {"SLURM_JOB_ID": "12", "SLURM_SCRIPT_CONTEXT": context, "PATH": str(tmp_path)} | told
    given["IMDS"] = f"http://127.0.0.1:{server.server_port}/latest"
    script = [shutil.which("sh"), ROOT / "deploy/slurm-prolog.sh"]
    subprocess.run(script, env=given, cwd=tmp_path, check=True, timeout=30)
    server.shutdown()
    server.server_close()
    tags = "--region us-west-2 --resources i-0abc --tags Key=job,Value=llama-7b"
    assert (tmp_path / "calls").read_text() == f"ec2 {call} {tags}\n"


@pytest.mark.skipif(not shutil.which("curl"), reason="curl is not installed here")
def test_without_metadata_slurm_goes_on(tmp_path):
    """A node whose prolog fails is drained."""
    given = {"SLURM_JOB_ID": "12", "IMDS": "http://127.0.0.1:9/latest", "PATH": str(tmp_path)}
    script = [shutil.which("sh"), ROOT / "deploy/slurm-prolog.sh"]
    subprocess.run(script, env=given, cwd=tmp_path, check=True, timeout=30)


@pytest.mark.parametrize(
    "line",
    [
        "CapabilityBoundingSet=",
        "NoNewPrivileges=yes",
        "RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX",
        "SystemCallFilter=@system-service",
        "SystemCallFilter=~@privileged @resources",
        "ProtectSystem=strict",
        "UMask=0077",
    ],
)
def test_the_unit_filters_syscalls_address_families_and_capabilities(line):
    assert line in UNIT.read_text().splitlines()


def test_the_container_is_confined():
    service = yaml.safe_load(COMPOSE.read_text())["services"]["trnbot"]
    assert service["cap_drop"] == ["ALL"]
    assert "cap_add" not in service
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert service["read_only"] is True
    assert {"mem_limit", "pids_limit", "cpus"} <= service.keys()
    assert all(published.startswith("127.0.0.1:") for published in service["ports"])


def test_the_base_image_is_named_by_digest_everywhere():
    image = IMAGE.read_text()
    assert re.search(r"^ARG PYTHON=\S+@sha256:[0-9a-f]{64}$", image, re.MULTILINE)
    assert set(re.findall(r"^FROM (\S+)", image, re.MULTILINE)) == {"${PYTHON}"}


def test_the_recipe_of_the_image_has_no_finding():
    command = [Path(sysconfig.get_path("scripts")) / "hadolint", "--failure-threshold", "style"]
    checked = subprocess.run(
        [*command, IMAGE], capture_output=True, text=True, timeout=60, check=False
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_build_tools_are_not_locked_beside_the_bot():
    """The lock of the running bot named hatchling and its friends, so an image held tools that build packages."""
    groups = tomllib.loads((ROOT / "pyproject.toml").read_text())["dependency-groups"]
    tools = {re.split(r"[<>=\[]", each)[0] for each in groups["build"]}
    assert tools <= locked("requirements-build.lock")
    assert not tools & (locked("requirements.lock") | locked("requirements-agents.lock"))


def test_the_extra_of_teams_is_locked_beside_the_bot_only_where_it_is_asked_for():
    added = locked("requirements-agents.lock") - locked("requirements.lock")
    assert "microsoft-agents-hosting-aiohttp" in added
    assert (
        locked("requirements.lock")
        < locked("requirements-agents.lock")
        < locked("requirements-dev.lock")
    )
    assert added.isdisjoint({"openai", "azure-identity", "msal"})


def test_the_extra_of_signing_in_is_locked_beside_the_bot_only_where_it_is_asked_for():
    added = locked("requirements-oidc.lock") - locked("requirements.lock")
    assert added == {"authlib", "joserfc"}
    assert locked("requirements-oidc.lock") < locked("requirements-dev.lock")
    assert "requirements-oidc.lock" in IMAGE.read_text()


def test_the_extra_of_programs_is_locked_beside_the_bot_only_where_it_is_asked_for():
    added = locked("requirements-mcp.lock") - locked("requirements.lock")
    assert {"mcp", "starlette"} <= added
    assert (
        locked("requirements.lock")
        < locked("requirements-mcp.lock")
        < locked("requirements-dev.lock")
    )
    assert "requirements-mcp.lock" in IMAGE.read_text()


@pytest.mark.parametrize(
    ("extra", "package"), [("dask", "distributed"), ("spark", "pyspark-client")]
)
def test_an_engine_s_packages_are_locked_beside_the_bot_only_where_it_is_asked_for(extra, package):
    lock = f"requirements-{extra}.lock"
    assert package in locked(lock) - locked("requirements.lock")
    assert locked("requirements.lock") < locked(lock) < locked("requirements-dev.lock")
    assert lock in IMAGE.read_text()


@pytest.mark.parametrize(
    "lock",
    [
        "requirements.lock",
        "requirements-agents.lock",
        "requirements-dask.lock",
        "requirements-mcp.lock",
        "requirements-oidc.lock",
        "requirements-spark.lock",
        "requirements-build.lock",
        "requirements-dev.lock",
        "requirements-helm.lock",
    ],
)
def test_every_pin_has_hashes_and_no_address(lock):
    text = (ROOT / lock).read_text()
    assert "://" not in text
    assert all("--hash=sha256:" in pin for pin in re.split(r"\n(?=\S)", text.strip()))


@pytest.mark.parametrize("line", ["help", "about", "--source simulator:7/tiny cost 1d"])
def test_the_forest_s_library_is_imported_only_where_a_forest_is_grown(line):
    program = (
        "import sys; from bot.__main__ import main\n"
        f"sys.argv = ['trnbot', *{line.split()!r}]\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "print('imported:', sorted({'sklearn', 'scipy'} & set(sys.modules)))"
    )
    said = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        timeout=110,
        cwd=ROOT,
        check=False,
    )
    assert said.stdout.endswith("imported: []\n"), said.stdout[-300:] + said.stderr[-300:]


def test_checksums_of_a_release_are_signed_as_the_security_page_verifies_them(tmp_path):
    """By a key that is made here: another file, another key or another purpose proves nothing."""
    dist, sh = tmp_path / "dist", {"shell": True, "capture_output": True, "timeout": 60}
    dist.mkdir()
    (dist / "trnbot.whl").write_text("wheel")
    for name in ("key", "other"):
        subprocess.run(
            ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", tmp_path / name], check=True
        )
    subprocess.run(
        ["make", "-s", "sign", f"DIST={dist}", f"KEY={tmp_path / 'key'}"], cwd=ROOT, check=True
    )
    (verify,) = re.findall(r"^ssh-keygen -Y verify .*$", (ROOT / "SECURITY.md").read_text(), re.M)

    def verified(key="key", command=verify):
        signer = (tmp_path / f"{key}.pub").read_text()
        (dist / "signers").write_text(f"release {signer}")
        return subprocess.run(command, cwd=dist, check=False, **sh).returncode == 0

    assert verified()
    assert not verified(key="other")
    assert not verified(command=verify.replace("-n trnbot", "-n other"))
    (dist / "trnbot.whl").write_text("another wheel")
    assert not verified()
