"""List the settings of an installation.

The schema that the file, the environment, `default.toml` and the docs page follow.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from bot.model.window import parse_duration, read_weekly
from bot.ports.work import LINES_A_MINUTE
from bot.settings.readers import (
    SOURCES,
    Secret,
    count,
    external_id,
    interval,
    lines,
    metric_names,
    metrics_surface,
    port,
    role,
    roles,
    server_address,
    source,
    speed,
    switch,
    teams_sdk,
    usd,
    web_address,
    words,
)
from bot.settings.routes import addresses, causes, read_owners, read_routes


@dataclass(frozen=True)
class SettingKey:
    """Describe one setting: name in the file, variable, default as text, meaning, and reader."""

    name: str
    variable: str
    default: str
    meaning: str
    read: Callable[[str], Any]

    @property
    def secret(self) -> bool:
        """Tell whether its value must never be shown."""
        return self.read is Secret


_addresses = partial(addresses, like="slack:C02FIN or teams:CONVERSATION")

KEYS: tuple[SettingKey, ...] = (
    SettingKey("source", "TRNBOT_SOURCE", "", f"the source to watch: {SOURCES}", source),
    SettingKey(
        "database_url",
        "TRNBOT_DATABASE_URL",
        "sqlite:///.trnbot/trnbot.db",
        "where state is kept; or postgresql://...",
        Secret,
    ),
    SettingKey(
        "host",
        "TRNBOT_HOST",
        "127.0.0.1",
        "the address to listen on; only this machine can reach the default",
        str,
    ),
    SettingKey("port", "TRNBOT_PORT", "8080", "the HTTP port; 0 = any free port", port),
    SettingKey(
        "public_url",
        "TRNBOT_PUBLIC_URL",
        "",
        "the public https address of the proxy in front of this port",
        web_address,
    ),
    SettingKey(
        "route",
        "TRNBOT_ROUTE",
        "",
        "channels notified of alerts that match no route: slack:C02FIN (a comma list)",
        _addresses,
    ),
    SettingKey(
        "routes",
        "TRNBOT_ROUTES",
        "",
        "channels notified by label: cluster=llama -> slack:C1; cause=idle -> slack:C2",
        read_routes,
    ),
    SettingKey(
        "finops",
        "TRNBOT_FINOPS",
        "",
        "channels also notified of money and of what is bought or kept for nothing (a comma list)",
        _addresses,
    ),
    SettingKey(
        "finops_causes",
        "TRNBOT_FINOPS_CAUSES",
        "",
        "the causes that those channels are notified of (a comma list); none = money, idle and unused nodes, unused capacity, "
        "orphaned storage",
        causes,
    ),
    SettingKey(
        "escalate",
        "TRNBOT_ESCALATE",
        "",
        "channels notified of critical alerts nobody acknowledged (a comma list)",
        _addresses,
    ),
    SettingKey(
        "digest",
        "TRNBOT_DIGEST",
        "",
        "channels that get the weekly digest (a comma list)",
        _addresses,
    ),
    SettingKey(
        "digest_at",
        "TRNBOT_DIGEST_AT",
        "mon 09:00 UTC",
        "when the digest is sent: mon 09:00 Europe/Berlin",
        read_weekly,
    ),
    SettingKey(
        "owners",
        "TRNBOT_OWNERS",
        "",
        "addresses of owners: dana = slack:U01DANA; namespace:nlp = teams:29:1x",
        read_owners,
    ),
    SettingKey(
        "owners_file",
        "TRNBOT_OWNERS_FILE",
        "",
        "TOML file that maps clusters, node groups, namespaces, tags and labels to owners; read anew when it changes",
        str,
    ),
    SettingKey(
        "admins",
        "TRNBOT_ADMINS",
        "",
        "people and groups who may change things: slack:U01ALICE, slack:S0123GROUP",
        _addresses,
    ),
    SettingKey(
        "guests",
        "TRNBOT_GUESTS",
        "0",
        "1 = guests of the Slack workspace or the Teams tenant are answered too",
        switch,
    ),
    SettingKey(
        "recordings",
        "TRNBOT_RECORDINGS",
        "",
        "folder whose recordings chats and the console may name; none = none",
        str,
    ),
    SettingKey(
        "policies",
        "TRNBOT_POLICIES",
        "",
        "folder whose policies (NAME.toml) chats and the console may name; none = none",
        str,
    ),
    SettingKey(
        "speed",
        "TRNBOT_SPEED",
        "1",
        "how many times faster than real time a recording or a simulation is replayed",
        speed,
    ),
    SettingKey(
        "interval", "TRNBOT_INTERVAL", "5m", "time from one tick of the watch to the next", interval
    ),
    SettingKey(
        "lines",
        "TRNBOT_LINES",
        str(LINES_A_MINUTE),
        "lines that one person may ask in a minute; the seconds that they may work grow with it",
        lines,
    ),
    SettingKey(
        "retention",
        "TRNBOT_RETENTION",
        "90d",
        "how long the notification log is kept; alerts are kept for ever",
        parse_duration,
    ),
    SettingKey(
        "mcp",
        "TRNBOT_MCP",
        "1",
        "0 = /mcp of the port is not there, though the package of the protocol (trnbot[mcp]) is",
        switch,
    ),
    SettingKey(
        "secrets.key",
        "TRNBOT_SECRETS_KEY",
        "",
        "keys that seal stored secrets, made by 'trnbot secrets key' (a comma list; the first seals, each opens)",
        Secret,
    ),
    SettingKey(
        "metrics.lag",
        "TRNBOT_METRICS_LAG",
        "1m",
        "time from the end of a metric's period until it can be read",
        parse_duration,
    ),
    SettingKey(
        "metrics.surface",
        "TRNBOT_METRICS_SURFACE",
        "auto",
        "where NeuronCore metrics are read: cloudwatch (GetMetricData), promql, or auto = promql for nodes that the first lacks",
        metrics_surface,
    ),
    SettingKey(
        "metrics.url",
        "TRNBOT_METRICS_URL",
        "",
        "a Prometheus server or a workspace of Amazon Managed Prometheus: asked by PromQL instead of CloudWatch's OTel store",
        server_address,
    ),
    SettingKey(
        "metrics.token",
        "TRNBOT_METRICS_TOKEN",
        "",
        "a bearer token for that server, where it asks for one",
        Secret,
    ),
    SettingKey(
        "billing.lag",
        "TRNBOT_BILLING_LAG",
        "24h",
        "time from the end of the usage until a replay sees its charge",
        parse_duration,
    ),
    SettingKey(
        "aws.regions", "TRNBOT_AWS_REGIONS", "", "regions to read; none = AWS_REGION", words
    ),
    SettingKey(
        "aws.roles",
        "TRNBOT_AWS_ROLES",
        "",
        "ARNs of the roles to assume, one per account; self = no role",
        roles,
    ),
    SettingKey(
        "aws.external_id",
        "TRNBOT_AWS_EXTERNAL_ID",
        "",
        "the external id that the trust policies of those roles ask for; none = it is not sent",
        external_id,
    ),
    SettingKey(
        "aws.billing_role",
        "TRNBOT_AWS_BILLING_ROLE",
        "",
        "ARN of the role under which the export, Athena and Cost Explorer are read; none = the bot's own",
        role,
    ),
    SettingKey(
        "aws.billing", "TRNBOT_AWS_BILLING", "", "the billing export, s3://BUCKET/PREFIX", str
    ),
    SettingKey(
        "aws.athena",
        "TRNBOT_AWS_ATHENA",
        "",
        "or the Athena table over the export, DATABASE.TABLE, rolled up by day",
        str,
    ),
    SettingKey(
        "aws.athena_workgroup",
        "TRNBOT_AWS_ATHENA_WORKGROUP",
        "primary",
        "the workgroup in which Athena's queries run",
        str,
    ),
    SettingKey(
        "aws.athena_output",
        "TRNBOT_AWS_ATHENA_OUTPUT",
        "",
        "where results are stored if the workgroup sets no location, s3://...",
        str,
    ),
    SettingKey(
        "aws.explorer_calls",
        "TRNBOT_AWS_EXPLORER_CALLS",
        "60",
        "calls to Cost Explorer allowed a day, $0.01 each; 0 = none",
        count,
    ),
    SettingKey(
        "aws.budget",
        "TRNBOT_AWS_BUDGET",
        "",
        "USD a day for the bot's own AWS calls; optional calls stop as it is used up",
        usd,
    ),
    SettingKey(
        "aws.spot_advisor",
        "TRNBOT_AWS_SPOT_ADVISOR",
        "",
        "file or https address of the Spot Advisor's interruption bands; none = they are not read",
        str,
    ),
    SettingKey(
        "aws.stream",
        "TRNBOT_AWS_STREAM",
        "",
        "metric streams in S3, each s3://BUCKET/PREFIX (a comma list)",
        words,
    ),
    SettingKey(
        "aws.logs",
        "TRNBOT_AWS_LOGS",
        "",
        "log groups with the output of the Neuron compiler, each GROUP or REGION:GROUP (a comma list); none = no log is read",
        words,
    ),
    SettingKey(
        "aws.events",
        "TRNBOT_AWS_EVENTS",
        "",
        "URLs of SQS queues that EventBridge sends interruption notices and AWS Health events to (a comma list)",
        words,
    ),
    SettingKey(
        "monitor.namespace",
        "TRNBOT_MONITOR_NAMESPACE",
        "",
        "CloudWatch namespace of neuron-monitor on plain EC2",
        str,
    ),
    SettingKey(
        "monitor.metrics",
        "TRNBOT_MONITOR_METRICS",
        "neuroncore_utilization -> neuroncore_utilization_ratio in percent, "
        "neuroncore_utilization_ratio -> neuroncore_utilization_ratio in ratio, "
        "neuron_runtime_memory_used_bytes -> neuron_runtime_memory_used_bytes in bytes, "
        "execution_errors_total -> neuron_execution_errors_count in count, "
        "execution_latency_seconds -> neuron_execution_latency_seconds in seconds, "
        "hardware_ecc_events_total -> neuron_hardware_ecc_events_count in count",
        "meaning of the metrics in that namespace, each NAME -> METRIC in UNIT",
        metric_names,
    ),
    SettingKey(
        "monitor.instance",
        "TRNBOT_MONITOR_INSTANCE",
        "InstanceId",
        "the dimension in that namespace that holds the instance id",
        str,
    ),
    SettingKey(
        "monitor.core",
        "TRNBOT_MONITOR_CORE",
        "NeuronCore",
        "the dimension in that namespace that holds the core, if there is one",
        str,
    ),
    SettingKey(
        "web.token",
        "TRNBOT_WEB_TOKEN",
        "",
        "the token that the console asks for; required wherever others can reach it",
        Secret,
    ),
    SettingKey(
        "tags.cluster",
        "TRNBOT_TAGS_CLUSTER",
        "eks:cluster-name, aws:eks:cluster-name, cluster",
        "tags that name the cluster; the first with a value counts",
        words,
    ),
    SettingKey("tags.team", "TRNBOT_TAGS_TEAM", "team", "tags that name the team", words),
    SettingKey(
        "tags.project", "TRNBOT_TAGS_PROJECT", "project", "tags that name the project", words
    ),
    SettingKey("tags.owner", "TRNBOT_TAGS_OWNER", "owner", "tags that name the owner", words),
    SettingKey("slack.bot_token", "SLACK_BOT_TOKEN", "", "enables Slack (xoxb-...)", Secret),
    SettingKey(
        "slack.app_token",
        "SLACK_APP_TOKEN",
        "",
        "Socket Mode: no public address needed (xapp-...)",
        Secret,
    ),
    SettingKey(
        "slack.signing_secret",
        "SLACK_SIGNING_SECRET",
        "",
        "HTTP instead of Socket Mode: verifies calls of /slack/events",
        Secret,
    ),
    SettingKey(
        "slack.client_id",
        "SLACK_CLIENT_ID",
        "",
        "instead of a bot token: several workspaces install the app by OAuth",
        str,
    ),
    SettingKey("slack.client_secret", "SLACK_CLIENT_SECRET", "", "the secret of that app", Secret),
    SettingKey(
        "slack.workspaces",
        "TRNBOT_SLACK_WORKSPACES",
        "",
        "workspaces that may install the app, the default workspace first: T0123, T0456",
        words,
    ),
    SettingKey(
        "slack.api_url", "SLACK_API_URL", "", "another address for Slack's API, for tests", str
    ),
    SettingKey("teams.app_id", "MicrosoftAppId", "", "enables Teams", str),
    SettingKey("teams.app_password", "MicrosoftAppPassword", "", "the app's client secret", Secret),
    SettingKey(
        "teams.tenant_id", "MicrosoftAppTenantId", "", "the tenant of a single-tenant app", str
    ),
    SettingKey(
        "teams.tenants",
        "TRNBOT_TEAMS_TENANTS",
        "",
        "further tenants to serve (a comma list; * = every tenant)",
        words,
    ),
    SettingKey(
        "teams.development",
        "TRNBOT_TEAMS_DEVELOPMENT",
        "0",
        "1 = allow an empty app id on a loopback host, for the Playground",
        switch,
    ),
    SettingKey(
        "teams.sdk",
        "TRNBOT_TEAMS_SDK",
        "botbuilder",
        "botbuilder, or agents = the Microsoft 365 Agents SDK (the extra trnbot[agents])",
        teams_sdk,
    ),
)
