"""The image is put together from Debian's packages, and runs as a pod runs it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from tests.deploy.rendered import ROOT, plain, workload

TOOLS = ("mmdebstrap", "buildah", "umoci", "runc")
ABSENT = [tool for tool in TOOLS if not shutil.which(tool)]
ID = f"trnbot-{os.getpid()}"
LONGEST_S = 60
pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.skipif(bool(ABSENT), reason=f"not installed here: {', '.join(ABSENT)} (apt-get)"),
    pytest.mark.skipif(os.geteuid() != 0, reason="an image is put together as root"),
]


def done(*command: str | Path, check: bool = True) -> str:
    """Run a command and return all that it printed."""
    run = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    assert not check or run.returncode == 0, run.stdout[-3000:]
    return run.stdout


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    """Yield the folder that a runtime starts, with the manifest's user, rights, folders and variables."""
    folder = tmp_path_factory.mktemp("image")
    done("sh", ROOT / "deploy/image.sh", folder / "image")
    done("umoci", "unpack", "--image", f"{folder}/image:trnbot", folder / "bundle")
    shutil.rmtree(folder / "image")

    pod = workload(plain("sqlite"))["spec"]["template"]["spec"]
    (box,) = pod["containers"]
    variables = {each["name"]: each["value"] for each in box["env"]}
    variables |= {"TRNBOT_SOURCE": "simulator:7/tiny", "TRNBOT_WEB_TOKEN": "token-of-a-test-image"}
    folders = {mount["mountPath"]: mount["name"] for mount in box["volumeMounts"]}

    config = json.loads((folder / "bundle/config.json").read_text())
    process = config["process"]
    assert process["user"] == {
        "uid": pod["securityContext"]["runAsUser"],
        "gid": pod["securityContext"]["runAsGroup"],
    }
    process["terminal"] = False
    process["capabilities"] = {kind: [] for kind in process["capabilities"]}
    process["env"] += [f"{name}={value}" for name, value in variables.items()]
    config["root"]["readonly"] = box["securityContext"]["readOnlyRootFilesystem"]
    config["mounts"] = [
        mount
        for mount in config["mounts"]
        if mount["destination"] not in {*folders, "/sys/fs/cgroup"}
    ]
    for path, name in folders.items():
        (folder / name).mkdir()
        os.chown(folder / name, process["user"]["uid"], process["user"]["gid"])
        bound = {"type": "bind", "source": str(folder / name), "options": ["bind", "rw"]}
        config["mounts"].append(bound | {"destination": path})
    (folder / "bundle/config.json").write_text(json.dumps(config))
    yield folder / "bundle"
    shutil.rmtree(folder)


def inside(*command: str, check: bool = True) -> str:
    return done("runc", "exec", ID, *command, check=check)


def answered(path: str) -> str:
    ask = f"import urllib.request as r; print(r.urlopen('http://127.0.0.1:8080{path}').status)"
    return inside("python", "-c", ask, check=False).strip()


@pytest.fixture(scope="module")
def running(bundle):
    """Yield the log of the started image, which has a network of its own."""
    log = bundle.parent / "log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            ["runc", "run", "--bundle", bundle, ID], stdout=out, stderr=subprocess.STDOUT
        )
    try:
        end = time.monotonic() + LONGEST_S
        while answered("/healthz") != "200":
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < end, log.read_text()
            time.sleep(0.5)
        yield process
    finally:
        done("runc", "delete", "--force", ID, check=False)
        process.wait(timeout=30)


def test_the_image_runs_as_a_pod_runs_it(running):
    """One test, since the image takes minutes."""
    assert inside("id", "-u").strip() == "10001"
    status = inside("cat", "/proc/1/status")
    assert "CapEff:\t0000000000000000" in status
    assert "NoNewPrivs:\t1" in status

    # It answers probes and lines, and writes its state and nothing else.
    assert answered("/static/icon.svg") == "200"
    assert json.loads(inside("trnbot", "fleet", "--json"))["data"]["nodes"]
    assert "Read-only file system" in inside("touch", "/opt/trnbot/x", check=False)
    assert "trnbot.db" in inside("ls", "/var/lib/trnbot/.trnbot")

    # It holds its bill of materials and no build tools.
    for tool in ("pip", "hatchling", "cyclonedx_py"):
        assert "No module named" in inside("python", "-c", f"import {tool}", check=False)
    bill = json.loads(inside("cat", "/opt/trnbot/sbom.cdx.json"))
    assert {"boto3", "trnbot"} <= {each["name"] for each in bill["components"]}

    done("runc", "kill", ID, "TERM")
    assert running.wait(timeout=60) == 0
