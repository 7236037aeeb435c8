"""Check everything that the bot needs, each with its remedy."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from bot.errors import TrnbotError, WrongInput
from bot.model.money import counted
from bot.model.window import NO_TIME
from bot.ports import Billing, Check, Source
from bot.settings.routes import OwnersFile
from bot.settings.settings import Settings
from bot.wiring.programs import installed
from bot.wiring.surfaces import teams_config

if TYPE_CHECKING:
    from bot.wiring.source import OpenedSource


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


def examine(settings: Settings, opened: OpenedSource) -> list[Check]:
    """Return every check; a part that fails becomes its own sentence. An account examines itself."""
    if opened.live:
        checks = [*_account(opened), *_roles(settings)]
        export = "Set TRNBOT_AWS_BILLING to s3://BUCKET/PREFIX."
    else:
        checks = [_metrics(opened.recording)]
        export = "Put a CUR or FOCUS export under billing/ of it."

    checks += [
        _billing(opened.bill, export),
        *(
            Check("serve", False, sentence, "Until then only single commands are answered.")
            for sentence in settings.unservable
        ),
        _slack(settings),
        _teams(settings),
        _addresses(settings, "route"),
        _addresses(settings, "finops"),
        *_owners(settings, opened.owners),
        _addresses(settings, "admins"),
        _programs(settings),
    ]
    return checks


def _account(opened: OpenedSource) -> Sequence[Check]:
    from adapters.aws.live.doctor import examine as examine_account

    try:
        return examine_account(opened.account())
    except TrnbotError as error:
        return [
            Check(
                "AWS",
                False,
                str(error),
                "Set TRNBOT_AWS_REGIONS, and credentials where boto3 finds them.",
            )
        ]


def _roles(settings: Settings) -> list[Check]:
    """Look at how roles are assumed.

    Without an external id, whoever learns an ARN may have another bot's role read here.
    """
    others = {
        role
        for role in (*settings["aws.roles"], settings["aws.billing_role"])
        if role not in {"", "self"}
    }
    if not others or settings["aws.external_id"]:
        return []
    remedy = (
        "Ask for one in their trust policies (docs/aws.md), and set TRNBOT_AWS_EXTERNAL_ID to it."
    )
    return [
        Check(
            "AWS roles",
            False,
            f"{counted(len(others), 'role')} assumed without an external id",
            remedy,
        )
    ]


def _metrics(recording: Callable[[], Source]) -> Check:
    return _read(
        "metrics",
        lambda: str(recording().extent()),
        lambda: recording().problems(),
        missing="Set TRNBOT_SOURCE to recording:DIR or simulator:SEED.",
        partial="'about' names what could not be read; fetch it again.",
    )


def _billing(bill: Callable[[], Billing], export: str) -> Check:
    """Look at the bill.

    A file that is left out makes it smaller than the invoice, so it is not well.
    """

    def billed() -> str:
        newest = bill().tally(NO_TIME, ()).billed_through
        return f"billed through {newest:%Y-%m-%d %H:%M} UTC" if newest else "no billed row"

    return _read(
        "billing",
        billed,
        lambda: bill().problems(),
        missing=export,
        partial="'about' names every file; have it delivered again as parquet or csv, "
        "or remove a second copy.",
    )


def _read(
    name: str,
    look: Callable[[], str],
    problems: Callable[[], Sequence[str]],
    *,
    missing: str,
    partial: str,
) -> Check:
    """Look at what is read: `missing` is the remedy where nothing is, `partial` where a part is not."""
    try:
        found = look()
    except TrnbotError as error:
        return Check(name, False, str(error), missing)

    unread = problems()
    if not unread:
        return Check(name, True, found)
    more = f" And {len(unread) - 1} more." if len(unread) > 1 else ""
    return Check(name, False, f"{found}; {unread[0]}{more}", partial)


def _slack(settings: Settings) -> Check:
    if not settings.slack:
        remedy = (
            "Create an app from manifest/slack.yaml, then set SLACK_BOT_TOKEN and SLACK_APP_TOKEN."
        )
        return Check("Slack", False, "not set up", remedy)
    if settings["slack.client_id"]:
        where = f"{settings['public_url'] or 'the public address'}/slack/install"
        return Check(
            "Slack",
            True,
            f"installed by OAuth at {where}, by {', '.join(settings['slack.workspaces'])}",
        )
    if settings["slack.app_token"]:
        return Check(
            "Slack", True, "Socket Mode: outbound connections only, no public address needed"
        )
    return Check(
        "Slack", True, "signed HTTP: Slack must reach /slack/events at a public https address"
    )


def _teams(settings: Settings) -> Check:
    if not settings.teams:
        remedy = "Register a bot, set MicrosoftAppId and MicrosoftAppPassword, and upload the package of 'trnbot manifest'."
        return Check("Teams", False, "not set up", remedy)
    try:
        teams_config(settings)
    except WrongInput as error:
        return Check("Teams", False, "set up, but cannot start", str(error))
    how = (
        "development: unsigned, this machine only"
        if settings["teams.development"]
        else "Teams must reach /api/messages"
    )
    return Check(
        "Teams",
        True,
        f"{how}; there is no outbound-only mode, so production needs a public https address",
    )


def _addresses(settings: Settings, name: str) -> Check:
    unset = _ADDRESSES[name]
    return Check(unset.name, True, ", ".join(settings[name])) if settings[name] else unset


def _owners(settings: Settings, owners: OwnersFile) -> list[Check]:
    """Look at the mapping of owners, where one is named."""
    if not settings["owners_file"]:
        return []
    if problem := owners.problem:
        return [Check("owners", False, problem, "Mend the file; it is read anew when it changes.")]
    return [
        Check(
            "owners", True, f"{counted(len(owners().rules), 'rule')} of {settings['owners_file']}"
        )
    ]


def _programs(settings: Settings) -> Check:
    if not settings["mcp"]:
        return Check("MCP", True, "TRNBOT_MCP=0: /mcp of the port is not there")
    if not installed():
        return Check(
            "MCP", True, "not installed: pip install 'trnbot[mcp]' offers every command as a tool"
        )
    return Check(
        "MCP",
        True,
        "programs are answered at /mcp of the port, as the console is; TRNBOT_MCP=0 turns it off",
    )
