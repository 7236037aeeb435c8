"""Tell which settings do not fit together: for any use, and for serving alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bot.model.metric_names import MetricsSurface

LOOPBACK = ("127.0.0.1", "localhost", "::1")
SHORTEST = 16
"""Characters of the console's token."""


def conflicts(values: Mapping[str, Any]) -> list[str]:
    """Return one sentence for each pair of settings that contradict each other."""
    sentences = []
    if values["slack.bot_token"] and values["slack.client_id"]:
        sentences.append(
            "SLACK_BOT_TOKEN is for one workspace and SLACK_CLIENT_ID for several; set one of them."
        )
    if values["teams.app_id"] and not values["teams.app_password"]:
        sentences.append("MicrosoftAppId also needs MicrosoftAppPassword.")
    if values["aws.billing"] and values["aws.athena"]:
        sentences.append(
            "TRNBOT_AWS_BILLING and TRNBOT_AWS_ATHENA are two ways to one export; set one of them."
        )
    if values["metrics.url"] and values["metrics.surface"] is MetricsSurface.CLOUDWATCH:
        sentences.append(
            "TRNBOT_METRICS_URL is asked by PromQL, which TRNBOT_METRICS_SURFACE=cloudwatch leaves out; set one of them."
        )
    if values["metrics.token"] and not values["metrics.url"]:
        sentences.append("TRNBOT_METRICS_TOKEN also needs TRNBOT_METRICS_URL.")
    if values["slack.client_id"]:
        needed = (
            ("SLACK_CLIENT_SECRET", "slack.client_secret"),
            ("TRNBOT_SLACK_WORKSPACES", "slack.workspaces"),
        )
        sentences += [
            f"SLACK_CLIENT_ID also needs {variable}."
            for variable, name in needed
            if not values[name]
        ]
    speaks = values["slack.bot_token"] or values["slack.client_id"]
    if speaks and not (values["slack.app_token"] or values["slack.signing_secret"]):
        variable = "SLACK_BOT_TOKEN" if values["slack.bot_token"] else "SLACK_CLIENT_ID"
        sentences.append(
            f"{variable} also needs SLACK_APP_TOKEN (Socket Mode) or SLACK_SIGNING_SECRET (HTTP)."
        )
    return sentences


def serving_conflicts(values: Mapping[str, Any], *, asked: bool) -> list[str]:
    """Return why nobody may be served so; `asked` = the Teams app id was set, even to nothing."""
    sentences, host = [], values["host"]
    if host not in LOOPBACK and not values["web.token"]:
        sentences.append(
            f"TRNBOT_HOST '{host}' lets others reach the console, so set TRNBOT_WEB_TOKEN."
        )
    if 0 < len(values["web.token"].reveal()) < SHORTEST:
        sentences.append(
            f"TRNBOT_WEB_TOKEN is short enough to be guessed; make it {SHORTEST} characters or longer."
        )
    if values["public_url"] and not values["web.token"]:
        sentences.append(
            "TRNBOT_PUBLIC_URL lets others reach the console, so set TRNBOT_WEB_TOKEN."
        )
    if values["slack.client_id"] and not values["secrets.key"]:
        sentences.append(
            "SLACK_CLIENT_ID stores a bot token of each workspace, so set TRNBOT_SECRETS_KEY to what 'trnbot secrets key' prints."
        )
    if values["teams.development"] and not values["teams.app_id"] and host not in LOOPBACK:
        sentences.append(
            f"TRNBOT_TEAMS_DEVELOPMENT lets anyone in, so it needs a loopback TRNBOT_HOST; got '{host}'."
        )
    if asked and not values["teams.app_id"] and not values["teams.development"]:
        sentences.append(
            "MicrosoftAppId is empty, which would let anyone in; set it, unset it, or set TRNBOT_TEAMS_DEVELOPMENT=1."
        )
    if values["teams.app_id"] and not (values["teams.tenant_id"] or values["teams.tenants"]):
        sentences.append(
            "MicrosoftAppId lets any tenant in; set MicrosoftAppTenantId or TRNBOT_TEAMS_TENANTS (* for every tenant)."
        )
    return sentences
