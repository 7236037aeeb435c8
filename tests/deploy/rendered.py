"""Render the Helm chart without a cluster, by Helm itself where its library is installed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
CHART = ROOT / "deploy/helm/trnbot"
PLAIN = {
    "sqlite": {},
    "postgresql": {"store": "postgresql", "replicas": 2},
}
"""What stands rendered in deploy/kubernetes, and by which values."""
HEAD = "# The chart deploy/helm/trnbot, rendered by `make manifests`; docs/kubernetes.md says how it is applied.\n"


def helm() -> Any:
    """Return the module of Helm's library, or skip."""
    return pytest.importorskip(
        "helm_python", reason="Helm's library (helm-python-sdk, 244 MB) is not installed: make helm"
    )


def rendered(values: Mapping[str, Any]) -> list[str]:
    """Return the text of every object, in the order of the templates' names."""
    with helm().Chart.load(str(CHART)) as chart:
        files = chart.render(dict(values), name="trnbot", namespace="trnbot")
    texts = [files[name] for name in sorted(files) if name.endswith(".yaml")]
    return [text.strip() for file in texts for text in file.split("\n---\n") if text.strip()]


def objects(texts: list[str]) -> dict[str, dict[str, Any]]:
    """Return the objects by kind and name, such as `Service trnbot`."""
    found = [yaml.safe_load(text) for text in texts]
    return {f"{each['kind']} {each['metadata']['name']}": each for each in found}


def plain_text(values: Mapping[str, Any]) -> str:
    """Return the text of a plain manifest."""
    return HEAD + "".join(f"---\n{text}\n" for text in rendered(values))


def plain(store: str) -> dict[str, dict[str, Any]]:
    """Return the objects of a plain manifest as it is shipped."""
    text = (ROOT / f"deploy/kubernetes/{store}.yaml").read_text()
    return objects([part for part in text.removeprefix(HEAD).split("---\n") if part.strip()])


def workload(found: Mapping[str, dict[str, Any]]) -> dict[str, Any]:
    """Return the object that makes pods."""
    return next(x for x in found.values() if x["kind"] in ("StatefulSet", "Deployment"))


def check_schema(found: Mapping[str, Any], version: str) -> None:
    """Raise for an object that does not fit the schema of a version of Kubernetes, or of the newest known."""
    import kubernetes_validate  # it compiles grammars for seconds, which each worker would pay

    known = kubernetes_validate.latest_version() if version == "newest" else version
    kubernetes_validate.validate(found, known, strict=True)
