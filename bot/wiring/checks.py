"""Check everything that the bot needs, each with its remedy."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

from adapters.aws.api.operations import Place, partition_of
from bot.costs.tally import BilledBy
from bot.errors import TrnbotError, WrongInput
from bot.model.money import counted
from bot.model.window import NO_TIME, utc_text
from bot.ports import Check
from bot.settings.settings import Settings
from bot.wiring.bills import AskingCost, asking_cost, spark_table
from bot.wiring.environment import wall_clock
from bot.wiring.programs import installed
from bot.wiring.source import OpenedSource
from bot.wiring.surfaces import teams_config
from bot.wiring.workers import open_cluster

_ADDRESSES: Mapping[str, Check] = {
    "route": Check(
        "route",
        False,
        "alerts are shown on the console only",
        "Set TRNBOT_ROUTE, for example slack:C02FIN.",
    ),
    "finops": Check(
        "FinOps",
        True,
        "no channel of its own. Set TRNBOT_FINOPS to hear of money, idle nodes and orphaned "
        "storage in a channel of its own.",
    ),
    "admins": Check(
        "admins",
        False,
        "nobody in chat may change things",
        "Set TRNBOT_ADMINS, for example slack:U01ALICE.",
    ),
}
"""What is said of a setting of addresses that names none."""
_UNASKED = "not asked, as that costs {}; 'doctor paid' asks"


def examine(settings: Settings, opened: OpenedSource, paid: bool = False) -> list[Check]:
    """Return every check, an account's own too; a part that fails becomes its own sentence.

    What AWS bills by the call is asked only where `paid`.
    """
    cost, export = AskingCost(), "Put a CUR or FOCUS export under billing/ of it."
    if opened.live:
        export = "Set TRNBOT_AWS_BILLING to s3://BUCKET/PREFIX."
        from adapters.aws.live.doctor import examine as examine_account

        try:
            checks = [*examine_account(opened.account())]
        except TrnbotError as error:
            remedy = "Set TRNBOT_AWS_REGIONS, and credentials where boto3 finds them."
            checks, export = [Check("AWS", False, str(error), remedy)], ""
        checks += [*_roles(settings), *_spark(settings)]
        if not paid:
            with suppress(TrnbotError):  # told by the account's own check
                cost = asking_cost(settings, opened.account())
    else:
        metrics = _read(
            "metrics",
            lambda: str(opened.recording().measured()),
            lambda: opened.recording().problems(),
            missing="",  # the sentence says what to do
            partial="'about' names what could not be read; fetch it again.",
        )
        checks = [metrics]

    def billed() -> str:
        # As every answer counts it: a recording may hold charges that come after its end.
        at = wall_clock()
        with suppress(TrnbotError):
            extent = None if opened.live else opened.recording().extent()
            at = extent.end if extent else at
        bill = BilledBy(opened.bill(), at, settings["billing.lag"])
        newest = bill.tally(NO_TIME, ()).billed_through
        return f"billed through {utc_text(newest)}" if newest else "no billed row"

    # A file that is left out makes the bill smaller than the invoice, so it is not well.
    if cost.bill:
        billing = Check("billing", True, _UNASKED.format(cost.bill))
    else:
        billing = _read(
            "billing",
            billed,
            lambda: opened.bill().problems(),
            missing=export,
            partial="'about' names every file; have it delivered again as parquet or csv, "
            "or remove a second copy.",
        )
    if opened.live:
        if cost.outlook:
            checks.append(Check("AWS's outlook", True, _UNASKED.format(cost.outlook)))
        checks += _failures(settings, opened, paid=paid)
    owners = []
    if settings["owners_file"]:
        rules = f"{counted(len(opened.owners().rules), 'rule')} of {settings['owners_file']}"
        owners = [Check("owners", True, rules)]
    if problem := opened.owners.problem:
        remedy = "Fix the file; it is read again when it changes."
        owners = [Check("owners", False, problem, remedy)]
    unservable = [
        Check("serve", False, sentence, "Until then only single commands are answered.")
        for sentence in settings.unservable
    ]
    return [
        *checks,
        billing,
        *unservable,
        _slack(settings),
        _teams(settings),
        _addresses(settings, "route"),
        _addresses(settings, "finops"),
        *owners,
        *_dask(settings),
        _addresses(settings, "admins"),
        Check("MCP", True, _programs(settings)),
    ]


def _failures(settings: Settings, opened: OpenedSource, *, paid: bool) -> Sequence[Check]:
    """Return what was denied or failed of all that was asked of the account."""
    from adapters.aws.live.doctor import failures

    try:
        account = opened.account()
        if paid:
            opened.outlook().findings(wall_clock())
        home = next(iter(account.places()), None)
        return failures(account, arns_of(settings, home) if home else {})
    except TrnbotError:
        return ()  # told by the account's own check


def arns_of(settings: Settings, home: Place) -> Mapping[str, Sequence[str]]:
    """Return the ARNs of what the settings name, by the words of the policy for them."""
    arn, where = f"arn:{partition_of(home.region)}", f"{home.region}:{home.account}"
    buckets = [
        f"{arn}:s3:::{address.removeprefix('s3://').partition('/')[0]}"
        for address in (settings["aws.billing"], *settings["aws.stream"])
        if address
    ]
    results = settings["aws.athena_output"].removeprefix("s3://").partition("/")[0]
    queues = [
        f"{arn}:sqs:{region}:{account}:{name}"
        for url in settings["aws.events"]
        for _, _, host, account, name in [url.split("/")]
        for region in [host.split(".")[1]]
    ]
    groups = [
        f"{arn}:logs:{region or home.region}:{home.account}:log-group:{name}:*"
        for region, _, name in (group.rpartition(":") for group in settings["aws.logs"])
    ]
    workspace = settings["metrics.url"].rstrip("/").rpartition("/workspaces/")[2]
    roles = sorted({*settings["aws.roles"], settings["aws.billing_role"]} - {"", "self"})
    named = {
        "BUCKET": buckets,
        "OBJECTS": [f"{bucket}/*" for bucket in buckets],
        "RESULTS": [f"{arn}:s3:::{results}"] if results else [],
        "RESULT_OBJECTS": [f"{arn}:s3:::{results}/*"] if results else [],
        "QUEUES": queues,
        "LOGS": groups,
        "ROLES": roles,
        "WORKSPACE": [f"{arn}:aps:{where}:workspace/{workspace}"] if "ws-" in workspace else [],
    }
    return {word: arns for word, arns in named.items() if arns}


def _roles(settings: Settings) -> list[Check]:
    """Look at how roles are assumed.

    Without an external id, whoever learns an ARN may have another bot's role read here.
    """
    assumed = {*settings["aws.roles"], settings["aws.billing_role"]} - {"", "self"}
    if not assumed or settings["aws.external_id"]:
        return []
    sentence = f"{counted(len(assumed), 'role')} assumed without an external id"
    remedy = (
        "Ask for one in their trust policies (docs/aws.md), and set TRNBOT_AWS_EXTERNAL_ID to it."
    )
    return [Check("AWS roles", False, sentence, remedy)]


def _spark(settings: Settings) -> list[Check]:
    """Look whether Spark is there and sees the export, which reads none of its rows."""
    if not settings["spark.server"]:
        return []
    engine = spark_table(settings)
    try:
        columns, _ = engine.columns()
    except TrnbotError as error:
        return [Check("Spark", False, str(error))]
    seen = f"{engine.place} answers; {engine.table} has {counted(len(columns), 'column')}"
    return [Check("Spark", True, seen)]


def _read(
    name: str,
    look: Callable[[], str],
    problems: Callable[[], Sequence[str]],
    *,
    missing: str,
    partial: str,
) -> Check:
    """Look at what is read; `missing` and `partial` are the remedies where all or a part is not."""
    try:
        sentence = look()
    except TrnbotError as error:
        # What kept it from being read says more than that nothing is there.
        with suppress(TrnbotError):
            if because := problems():
                return Check(name, False, because[0])
        return Check(name, False, str(error), missing)

    unread = problems()
    if not unread:
        return Check(name, True, sentence)
    further = f" And {len(unread) - 1} more." if len(unread) > 1 else ""
    return Check(name, False, f"{sentence}; {unread[0]}{further}", partial)


def _slack(settings: Settings) -> Check:
    if not settings.slack:
        remedy = (
            "Create an app from manifest/slack.yaml, then set SLACK_BOT_TOKEN and SLACK_APP_TOKEN."
        )
        return Check("Slack", settings.teams, "not set up", "" if settings.teams else remedy)

    if settings["slack.client_id"]:
        page = f"{settings['public_url'] or 'the public address'}/slack/install"
        way = f"installed by OAuth at {page}, by {', '.join(settings['slack.workspaces'])}"
    elif settings["slack.app_token"]:
        way = "Socket Mode: outbound connections only, no public address needed"
    else:
        way = "signed HTTP: Slack must reach /slack/events at a public https address"
    return Check("Slack", True, way)


def _teams(settings: Settings) -> Check:
    if not settings.teams:
        remedy = (
            "Register a bot, set MicrosoftAppId and MicrosoftAppPassword, "
            "and upload the package of 'trnbot manifest'."
        )
        return Check("Teams", settings.slack, "not set up", "" if settings.slack else remedy)

    try:
        teams_config(settings)
    except WrongInput as error:
        return Check("Teams", False, "set up, but cannot start", str(error))
    way = "Teams must reach /api/messages"
    if settings["teams.development"]:
        way = "development: unsigned, this machine only"
    public = "there is no outbound-only mode, so production needs a public https address"
    return Check("Teams", True, f"{way}; {public}")


def _dask(settings: Settings) -> list[Check]:
    """Look at the cluster that long work goes to, where one is set."""
    if not settings["dask"]:
        return []
    remedy = "Until then long work is done in this process; docs/operate.md starts a cluster."
    return [
        _read(
            "Dask",
            lambda: open_cluster(settings["dask"]).check(),
            tuple,
            missing=remedy,
            partial="",
        )
    ]


def _addresses(settings: Settings, name: str) -> Check:
    """Return who is named by a setting, and whether a platform is set up that reaches them."""
    unset, named = _ADDRESSES[name], ", ".join(settings[name])
    served = {"web": True, "slack": settings.slack, "teams": settings.teams}
    lost = ", ".join(x for x in settings[name] if not served[x.partition(":")[0]])
    if lost:
        found = f"{lost}: not reached, as that platform is not set up"
        return Check(unset.name, False, found, "Set that platform up, or name one that is.")
    return Check(unset.name, True, named) if named else unset


def _programs(settings: Settings) -> str:
    """Return how programs are answered."""
    if not settings["mcp"]:
        return "TRNBOT_MCP=0: /mcp of the port is not there"
    if not installed():
        return "not installed: pip install 'trnbot[mcp]' offers every command as a tool"
    return "programs are answered at /mcp of the port, as the console is; TRNBOT_MCP=0 turns it off"
