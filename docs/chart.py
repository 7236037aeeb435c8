"""Say what values the Helm chart takes: a misspelt setting is refused before anything is installed."""

from __future__ import annotations

import json
from typing import Any

from bot.settings.keys import KEYS

FIXED = frozenset({"TRNBOT_HOST", "TRNBOT_PORT", "TRNBOT_OWNERS_FILE"})
"""Variables that the image or the chart sets by itself."""

_TEXT = {"type": "string"}
_WORD = {"type": "string", "minLength": 1}
_SWITCH = {"type": "boolean"}
_ANY = {"type": "object"}
_TEXTS = {"type": "object", "additionalProperties": _TEXT}
_OBJECTS = {"type": "array", "items": _ANY}
_SIZE = {"type": "string", "pattern": "^[1-9][0-9]*(Mi|Gi|Ti)$"}


def _part(**properties: object) -> dict[str, Any]:
    return {"type": "object", "additionalProperties": False, "properties": properties}


def _when(condition: dict[str, Any], demand: dict[str, Any]) -> dict[str, Any]:
    return {"if": {"properties": condition}, "then": {"properties": demand}}


def values_schema() -> str:
    """Return the text of the chart's values.schema.json."""
    settings = {
        key.variable: _TEXT | {"description": key.meaning}
        for key in KEYS
        if not key.secret and key.variable not in FIXED
    }
    settings["AWS_REGION"] = _TEXT | {"description": "the region of whoever names no other"}

    schema = {"$schema": "https://json-schema.org/draft-07/schema#", "title": "trnbot"} | _part(
        **{"global": _ANY},
        image=_part(
            repository=_WORD,
            tag=_TEXT,
            pullPolicy={"enum": ["Always", "IfNotPresent", "Never"]},
            pullSecrets=_OBJECTS,
        ),
        store={"enum": ["sqlite", "postgresql"]},
        replicas={"type": "integer", "minimum": 1, "maximum": 5},
        persistence=_part(size=_SIZE, storageClass=_TEXT),
        secret=_WORD,
        settings=_part(**settings),
        config=_TEXT,
        owners=_TEXT,
        serviceAccount=_part(create=_SWITCH, name=_WORD, annotations=_TEXTS),
        service=_part(port={"type": "integer", "minimum": 1, "maximum": 65535}),
        ingress=_part(
            enabled=_SWITCH, host=_TEXT, className=_TEXT, annotations=_TEXTS, tlsSecret=_TEXT
        ),
        networkPolicy=_part(enabled=_SWITCH, **{"from": _OBJECTS}, egress=_OBJECTS),
        podDisruptionBudget=_part(maxUnavailable={"type": ["integer", "string"]}),
        monitoring=_part(
            serviceMonitor=_SWITCH,
            prometheusRule=_SWITCH,
            recordingRules=_SWITCH,
            dashboard=_SWITCH,
            labels=_TEXTS,
        ),
        resources=_ANY,
        nodeSelector=_TEXTS,
        tolerations=_OBJECTS,
        affinity=_ANY,
        podAnnotations=_TEXTS,
        podLabels=_TEXTS,
    )

    # One process writes SQLite's file, and an ingress leads from a name.
    one_pod = _when({"store": {"const": "sqlite"}}, {"replicas": {"const": 1}})
    open_to_all = {"properties": {"enabled": {"const": True}}}
    named = {"properties": {"host": _WORD}}
    schema["allOf"] = [one_pod, _when({"ingress": open_to_all}, {"ingress": named})]
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"
