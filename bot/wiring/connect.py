"""Connect trnbot: find the account, the bill and a channel, and send a test that somebody sees."""

from __future__ import annotations

import asyncio
import os
import shlex
import sys
import webbrowser
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING

from adapters.terminal.progress import ProgressBar
from adapters.terminal.prompt import Prompt
from bot.answers.config.routes import SEEN, seen_card, trial_card
from bot.cards.card import Card
from bot.errors import Unavailable, WrongInput, nearest
from bot.grammar.line import effect_of
from bot.knowledge import load_knowledge
from bot.model.request import Request, User
from bot.model.window import parse_duration
from bot.ports import ChatPorts
from bot.settings.options import Options
from bot.settings.settings import Settings
from bot.wiring.drafts import Drafts
from bot.wiring.environment import HOME, wall_clock
from bot.wiring.surfaces import chats, command_hints

if TYPE_CHECKING:
    from adapters.aws.live.source import Live

_SECRETS = Path("trnbot.env")
_WAIT = timedelta(minutes=2)
"""How long a test waits for somebody who sees it."""
STACK_COMMAND = (
    "aws cloudformation deploy --region us-east-1 --stack-name trnbot --template-file"
    f" {shlex.quote(str(HOME / 'deploy/cloudformation/trnbot.yaml'))}"
    " --capabilities CAPABILITY_NAMED_IAM"
)


@dataclass
class Connecting:
    """Hold what every step of connecting needs."""

    drafts: Drafts
    prompt: Prompt
    wait: timedelta = _WAIT
    browse: Callable[[str], object] = lambda _: None
    """Opens an address in a browser, where there is one."""

    @property
    def settings(self) -> Settings:
        """Return the settings as they stand by now."""
        return self.drafts.settings()

    def say(self, *lines: str) -> None:
        """Write lines."""
        for line in lines:
            self.prompt.say(line)


def connect(options: Options) -> int:
    """Take every step, or the one that is named; return the exit code."""
    word = " ".join(options.words[1:]).lower()
    if word and word not in STEPS:
        raise WrongInput(f"'{word}' is no step of connecting{nearest(word, STEPS)}.")
    wait = parse_duration(options.values["wait"]) if "wait" in options.values else _WAIT
    config = options.values.get("config") or os.environ.get("TRNBOT_CONFIG") or "trnbot.toml"
    browse = (lambda _: None) if "no-browser" in options.switches else webbrowser.open
    drafts = Drafts(Path(config), _SECRETS, os.environ)
    return run(Connecting(drafts, Prompt(), wait, browse), [word] if word else STEPS)


def run(connecting: Connecting, names: Iterable[str]) -> int:
    """Take steps in turn; what each finds is written before the next begins."""
    steps = list(names)
    for number, name in enumerate(steps, 1):
        connecting.say("", f"{number} of {len(steps)}: {STEPS[name].title}")
        STEPS[name].take(connecting)

    drafts = connecting.drafts
    files = [path for path in (drafts.settings_path, drafts.secrets_path) if path.exists()]
    secrets = drafts.secrets_path
    sourced = f"set -a; . ./{secrets}; set +a; " if secrets.exists() else ""
    config = drafts.settings_path
    named = "" if config == Path("trnbot.toml") else f" --config {shlex.quote(str(config))}"
    connecting.say("", f"Written: {', '.join(map(str, files)) or 'nothing'}.")
    connecting.say(f"Next: {sourced}trnbot serve{named}")
    return 0


def connect_account(connecting: Connecting) -> None:
    """Find region and credentials, and look at what they open."""
    from adapters.aws.api.calls import own_region
    from adapters.aws.live.doctor import examine, failures
    from bot.wiring.checks import arns_of
    from bot.wiring.source import open_account

    regions = ", ".join(connecting.settings["aws.regions"]) or own_region()
    typed = connecting.prompt.ask("Regions of the fleet, such as us-west-2, us-east-1", regions)
    named = [region.strip() for region in typed.split(",") if region.strip()]
    if not named:
        raise WrongInput("Without a region nothing can be read; 'trnbot connect aws' asks again.")
    connecting.drafts.set({"source": "aws", "aws.regions": named})

    live = open_account(connecting.settings, load_knowledge().types())
    bar = ProgressBar(sys.stderr)
    bar("Asking AWS who this is", 0, 0)
    places = live.places()
    if not places:
        bar.close()
        problems = [*live.problems(), "AWS does not answer."]
        raise Unavailable(f"{problems[0]} Then 'trnbot connect' goes on.")
    connecting.say(f"  account {places[0].account}, {', '.join(named)}")

    bar("Asking AWS what runs, and what is allowed", 0, 0)
    checks = [*examine(live), *failures(live, arns_of(connecting.settings, places[0]))]
    bar.close()
    for check in checks:
        connecting.say(f"  {'ok     ' if check.ok else 'missing'} {check.name}: {check.found}")
        if not check.ok and check.remedy and not check.name.startswith("permission"):
            connecting.say(f"          {check.remedy}")
    if any(check.name.startswith("permission") for check in checks if not check.ok):
        offer_permissions(connecting)


def offer_permissions(connecting: Connecting) -> None:
    """Print the one command that makes what the account lacks."""
    ways = {
        "stack": STACK_COMMAND,
        "terraform": f"terraform -chdir={shlex.quote(str(HOME / 'deploy/terraform'))} apply",
        "policy": f"aws iam create-policy --policy-name trnbot --policy-document"
        f" file://{shlex.quote(str(HOME / 'deploy/iam-policy.json'))}",
        "none": "",
    }
    words = {
        "stack": "CloudFormation: the bill's export, a queue of notices and the permissions",
        "terraform": "Terraform: the same",
        "policy": "the permissions alone",
        "none": "none: go on with what is allowed",
    }
    way = connecting.prompt.choose(
        "What shall give the permissions that are missing", list(words.items()), "none"
    )
    if ways[way]:
        connecting.say(
            f"  Run: {ways[way]}",
            "  Attach its policy to the role or user of the bot, and run 'trnbot connect' again.",
        )


def connect_bill(connecting: Connecting) -> None:
    """Find where the bill is delivered, and the queue and the stream that the stack made."""
    from adapters.aws.setup import billing_exports, stack_outputs

    bar = ProgressBar(sys.stderr)
    bar("Looking for an export of the bill", 0, 0)
    outputs = stack_outputs()
    known = connecting.settings["aws.billing"]
    found = list(dict.fromkeys(filter(None, [known, outputs.billing, *billing_exports()])))
    bar.close()
    made = {"aws.events": [outputs.events], "aws.stream": [outputs.stream]}
    connecting.drafts.set({key: value for key, value in made.items() if value != [""]})

    choices = [(address, address) for address in found]
    choices.append(("", "none: Cost Explorer, by day, which bills $0.01 a call"))
    address = choices[0][0]
    if found:
        address = connecting.prompt.choose("Where the bill is delivered", choices, address)
    else:
        address = connecting.prompt.ask("Where the bill is delivered (s3://…, empty: none)")
    if not address:
        connecting.say(
            "  Without an export the bill is Cost Explorer's. The stack makes one:",
            f"  {STACK_COMMAND}",
        )
        return
    connecting.drafts.set({"aws.billing": address})
    with_files = _delivered(connecting.settings, address)
    connecting.say(f"  {address}: {with_files}")


def _delivered(settings: Settings, address: str) -> str:
    """Return how the place of an export stands; raise `WrongInput` for what is no address."""
    from adapters.aws.api.calls import bucket_and_prefix
    from adapters.aws.api.operations import Place
    from bot.wiring.source import open_account

    bucket, prefix = bucket_and_prefix(address, "a billing export")
    live: Live = open_account(settings, load_knowledge().types())
    where = Place(live.home, settings["aws.billing_role"])
    try:
        page = live.calls.call(where, "s3", "list_objects_v2", Bucket=bucket, Prefix=prefix)
    except Unavailable as error:
        return str(error)
    if page["KeyCount"]:
        return "files are there"
    return "nothing is delivered yet; AWS takes up to a day for the first files"


def connect_slack(connecting: Connecting) -> None:
    """Make the app, take its tokens, and pick the channel."""
    from adapters.chat.slack.setup import SlackSetup, new_app_link

    settings, prompt = connecting.settings, connecting.prompt
    if not settings.slack and prompt.ask("Connect Slack? (yes, no)", "yes").lower() != "yes":
        return
    slack = SlackSetup(settings.text("slack.api_url"))
    if not settings.slack:
        link = new_app_link(command_hints())
        connecting.say(
            "  Make the app on this page, filled in already, and install it:", f"  {link}"
        )
        connecting.browse(link)

    held = settings.text("slack.bot_token")
    token = prompt.secret("Bot token, OAuth & Permissions (xoxb-…)", known=bool(held)) or held
    workspace = asyncio.run(slack.workspace(token))
    connecting.drafts.keep_secret({"SLACK_BOT_TOKEN": token})
    connecting.say(f"  the bot is in {workspace}")

    held = settings.text("slack.app_token")
    question = "App token, Basic Information, scope connections:write (xapp-…)"
    app_token = prompt.secret(question, known=bool(held)) or held
    asyncio.run(slack.check_app(app_token))
    connecting.drafts.keep_secret({"SLACK_APP_TOKEN": app_token})

    while True:
        channels = {channel.id: channel for channel in asyncio.run(slack.channels(token))}
        routed = next(iter(settings["route"]), "").removeprefix("slack:")
        words = [
            (x.id, f"#{x.name}{'' if x.joined else ' (the bot is not in it)'}")
            for x in channels.values()
        ]
        picked = prompt.choose("Channel of the alerts", words, routed)
        if channels[picked].joined:
            break
        prompt.ask(f"Type /invite @trnbot in #{channels[picked].name}, then press Enter")
    connecting.drafts.set({"route": [f"slack:{picked}"]})


def connect_teams(connecting: Connecting) -> None:
    """Take the registration of the bot, and write the package to upload."""
    from adapters.chat.manifest import TeamsApp, build_package
    from bot.wiring.surfaces import teams_config

    settings, prompt = connecting.settings, connecting.prompt
    answer = "yes" if settings.teams else "no"
    if prompt.ask("Connect Teams? (yes, no)", answer).lower() != "yes":
        return
    app = prompt.ask("Application (client) id of the Azure Bot", settings.text("teams.app_id"))
    held = settings.text("teams.app_password")
    password = prompt.secret("Its client secret", known=bool(held)) or held
    tenant = prompt.ask("Directory (tenant) id", settings.text("teams.tenant_id"))
    connecting.drafts.keep_secret(
        {"MicrosoftAppId": app, "MicrosoftAppPassword": password, "MicrosoftAppTenantId": tenant}
    )
    teams_config(connecting.settings)  # refuses what cannot work

    package = Path("manifest/teams.zip")
    package.parent.mkdir(exist_ok=True)
    build_package(package, TeamsApp(app, command_hints(), ""))
    connecting.say(
        f"  Upload {package} in Teams (Apps, Manage your apps), and add it to a team.",
        "  Teams must reach /api/messages: give the Azure Bot the public address of trnbot.",
        "  'about' typed in a channel says its address, for TRNBOT_ROUTE.",
    )


def send_test(connecting: Connecting) -> None:
    """Send a test to where alerts go, and wait until somebody presses."""
    settings = connecting.settings
    address = next((x for x in settings["route"] if x.startswith("slack:")), "")
    if not address or not settings.slack:
        connecting.say(
            "  No channel of Slack is picked. Once trnbot serves: trnbot routes test --send"
        )
        return
    began = monotonic()
    pressed = asyncio.run(tested(settings, address, connecting.wait, connecting.say))
    if pressed is None:
        connecting.say(
            "  Nobody pressed; the message is there. 'trnbot connect test' sends another."
        )
        return
    who = pressed.name or pressed.id
    connecting.say(
        f"  {who} pressed after {monotonic() - began:.0f} s: alerts arrive, and presses too"
    )
    if not settings["admins"]:
        question = f"May {who} change things, as the first admin? (yes, no)"
        if connecting.prompt.ask(question, "yes").lower() == "yes":
            connecting.drafts.set({"admins": [pressed.id]})


async def tested(
    settings: Settings, address: str, wait: timedelta, say: Callable[[str], None]
) -> User | None:
    """Post a test to an address of Slack; return who pressed, None where nobody did in time."""
    from adapters.charts.png import draw
    from adapters.store.memory import MemoryStore

    pressed: asyncio.Future[User] = asyncio.get_running_loop().create_future()

    async def answer(request: Request) -> Card:
        if request.line == SEEN and not pressed.done():
            pressed.set_result(request.user)
        return seen_card(request.user.name)

    async def untold(_: str) -> None:
        """Tell nobody: who connects sees what happens."""

    store = MemoryStore()
    ports = ChatPorts(answer, wall_clock, draw, store, store, effect=effect_of)
    surface = chats(settings, ports, untold)["slack"]
    await surface.start()
    try:
        await surface.post(address.removeprefix("slack:"), trial_card(""), "trnbot-test")
        say(f"  sent to {address}; press 'I see it' there")
        with suppress(TimeoutError):
            return await asyncio.wait_for(pressed, wait.total_seconds())
        return None
    finally:
        await surface.stop()


@dataclass(frozen=True)
class Step:
    """Hold one step of connecting, which can be taken again."""

    title: str
    take: Callable[[Connecting], None]


STEPS: Mapping[str, Step] = {
    "aws": Step("the AWS account, its fleet and its metrics", connect_account),
    "bill": Step("the bill", connect_bill),
    "slack": Step("Slack", connect_slack),
    "teams": Step("Microsoft Teams", connect_teams),
    "test": Step("a test alert", send_test),
}
