"""Connect trnbot: find the account, the bill and a channel, and send a test that somebody sees."""

from __future__ import annotations

import asyncio
import os
import shlex
import sys
import webbrowser
from collections.abc import Callable, Iterable, Mapping
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from time import monotonic

from adapters.aws.api.calls import bucket_and_prefix, own_region
from adapters.aws.api.operations import Place, price_of
from adapters.aws.live.doctor import billing_exports, examine, failures, stack_outputs
from adapters.aws.live.source import Live
from adapters.charts.png import draw
from adapters.chat.manifest import TeamsApp, build_package, new_app_link
from adapters.chat.slack.client import SlackSetup
from adapters.http import Port
from adapters.store.open import open_store
from adapters.terminal.prompt import Prompt
from adapters.terminal.render import ProgressBar
from bot.answers.config.routes import SEEN, seen_card, trial_card
from bot.cards.card import Card, Tone, quiet
from bot.errors import Unavailable, WrongInput, not_known
from bot.grammar.line import effect_of
from bot.model.money import counted
from bot.model.request import Request, User
from bot.model.window import duration_text, parse_duration
from bot.ports import ChatPorts
from bot.settings.settings import Settings
from bot.wiring.checks import arns_of
from bot.wiring.environment import HOME, Drafts, settings_of, wall_clock
from bot.wiring.source import open_account
from bot.wiring.surfaces import chats, command_hints, teams_config
from bot.wiring.verbs import Options

_WAIT = timedelta(minutes=2)
"""How long a test waits for somebody who sees it."""
_ANOTHER = "another"
FIRST_DAYS: Mapping[str, str] = {
    "a minute": "what runs, what it costs an hour, what the last six hours show",
    "an hour": "what CloudWatch still holds of two weeks: what is usual; the bill so far",
    "a day": "yesterday's bill; the first files of a new export",
    "two weeks": "every kind of alert, and previews, where the metrics began with trnbot",
}
"""What a new installation knows after so long (docs/aws.md says more)."""
STACK_COMMAND = (
    "aws cloudformation deploy --region us-east-1 --stack-name trnbot --template-file"
    f" {shlex.quote(str(HOME / 'deploy/cloudformation/trnbot.yaml'))}"
    " --capabilities CAPABILITY_NAMED_IAM"
)


@dataclass
class Connecting:
    """Hold the needs of every step of connecting."""

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

    def secret(self, question: str, before: str) -> str:
        """Return the secret that is typed, else the one that was set before."""
        return self.prompt.secret(question, known=bool(before)) or before


def connect(options: Options) -> None:
    """Take every step, or the one that is named."""
    word = " ".join(options.words[1:]).lower()
    if word and word not in STEPS:
        raise not_known(f"'{word}' is not a step of 'connect'", word, STEPS)
    wait = waiting_time(options)
    config = options.values.get("config") or os.environ.get("TRNBOT_CONFIG") or "trnbot.toml"
    browse = (lambda _: None) if "no-browser" in options.switches else webbrowser.open
    drafts = Drafts(Path(config), os.environ)
    run(Connecting(drafts, Prompt(), wait, browse), [word] if word else STEPS)


def run(connecting: Connecting, names: Iterable[str]) -> None:
    """Take steps in turn; what each finds is written before the next begins."""
    steps = list(names)
    for number, name in enumerate(steps, 1):
        connecting.say("", f"{number} of {len(steps)}: {STEPS[name].title}")
        STEPS[name].take(connecting)

    config = connecting.drafts.settings_path
    files = [path for path in (config, connecting.drafts.secrets_path) if path.exists()]
    named = "" if config == Path("trnbot.toml") else f" --config {shlex.quote(str(config))}"
    written = ", ".join(map(str, files)) or "nothing"
    connecting.say("", f"Written: {written}.", f"Next: trnbot serve{named}")
    if len(steps) == len(STEPS):
        connecting.say(
            "What it knows after",
            *(f"  {f'{time}:':<11}{what}" for time, what in FIRST_DAYS.items()),
            "To leave: 'Leave' in docs/aws-reference.md of trnbot's folder says what stays, and how"
            " to remove it.",
        )


def connect_account(connecting: Connecting) -> None:
    """Find region and credentials, and look at what they open."""
    regions = ", ".join(connecting.settings["aws.regions"]) or own_region()
    typed = connecting.prompt.ask("Regions of the fleet, such as us-west-2, us-east-1", regions)
    named = [region.strip() for region in typed.split(",") if region.strip()]
    if not named:
        raise WrongInput("Without a region nothing can be read; 'trnbot connect aws' asks again.")
    connecting.drafts.set({"source": "aws", "aws.regions": named})

    live = open_account(connecting.settings)
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
    connecting.say(f"  {metrics_cost(live, connecting.settings['interval'])}")


def metrics_cost(live: Live, interval: timedelta) -> str:
    """Say what reading the metrics costs a month, before the first of them is read."""
    series = 0
    for place in live.places():
        with suppress(Unavailable):  # what is denied was said already
            series += len(live.lister.discover(place, live.fleet(place), recent=True))
    ticks = round(timedelta(days=30) / interval)
    usd = price_of("cloudwatch", "get_metric_data", series * ticks)
    return (
        f"reading {counted(series, 'metric')} every {duration_text(interval)} will cost about"
        f" ${usd:,.2f} a month at CloudWatch; TRNBOT_AWS_BUDGET caps a day"
    )


def offer_permissions(connecting: Connecting) -> None:
    """Print the one command that makes what the account lacks."""
    ways = {
        "stack": (
            "CloudFormation: the bill's export, a queue of notices and the permissions",
            STACK_COMMAND,
        ),
        "terraform": (
            "Terraform: the same",
            f"terraform -chdir={shlex.quote(str(HOME / 'deploy/terraform'))} apply",
        ),
        "policy": (
            "the permissions alone",
            "aws iam create-policy --policy-name trnbot --policy-document"
            f" file://{shlex.quote(str(HOME / 'deploy/iam-policy.json'))}",
        ),
        "none": ("none: continue with what is allowed", ""),
    }
    choices = [(way, words) for way, (words, _) in ways.items()]
    way = connecting.prompt.choose("How should the missing permissions be granted", choices, "none")
    if command := ways[way][1]:
        connecting.say(
            f"  Run: {command}",
            "  Attach its policy to the role or user of the bot, and run 'trnbot connect' again.",
        )


def connect_bill(connecting: Connecting) -> None:
    """Find where the bill is delivered, and the queue and the stream that the stack made."""
    settings = connecting.settings
    bar = ProgressBar(sys.stderr)
    bar("Looking for an export of the bill", 0, 0)
    outputs = stack_outputs()
    exports = [settings["aws.billing"], outputs.billing, *billing_exports()]
    found = list(dict.fromkeys(filter(None, exports)))
    bar.close()
    made = {"aws.events": [outputs.events], "aws.stream": [outputs.stream]}
    connecting.drafts.set({key: value for key, value in made.items() if value != [""]})

    address = _ANOTHER
    if found:
        choices = [
            *((address, address) for address in found),
            ("", "none: Cost Explorer, by day, which bills $0.01 a call"),
            (_ANOTHER, "another place: type its address"),
        ]
        address = connecting.prompt.choose("Where the bill is delivered", choices, found[0])
    if address == _ANOTHER:
        address = connecting.prompt.ask("Where the bill is delivered (s3://…, empty: none)")
    if not address:
        most = price_of("ce", "get_cost_and_usage", settings["aws.explorer_calls"])
        connecting.say(
            f"  Without an export Cost Explorer is asked, for ${most:.2f} a day at most once"
            " trnbot runs.",
            f"  The stack makes an export, for nothing: {STACK_COMMAND}",
        )
        return
    connecting.say(f"  {address}: {_delivered(settings, address)}")
    connecting.drafts.set({"aws.billing": address})


def _delivered(settings: Settings, address: str) -> str:
    """Return how the place of an export stands; raise `WrongInput` for what is no address."""
    bucket, prefix = bucket_and_prefix(address, "a billing export")
    live = open_account(settings)
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
    settings, prompt = connecting.settings, connecting.prompt
    if not settings.slack and prompt.ask("Connect Slack? (yes, no)", "yes").lower() != "yes":
        return
    slack = SlackSetup(settings.text("slack.api_url"))
    if not settings.slack:
        link = new_app_link(command_hints())
        connecting.say(
            "  Create the app on this page, already filled in, and install it:", f"  {link}"
        )
        connecting.browse(link)

    token = connecting.secret(
        "Bot token, OAuth & Permissions (xoxb-…)", settings.text("slack.bot_token")
    )
    workspace = asyncio.run(slack.workspace(token))
    connecting.drafts.keep_secret({"SLACK_BOT_TOKEN": token})
    connecting.say(f"  the bot is in the workspace {workspace}")

    app_token = connecting.secret(
        "App token, Basic Information, scope connections:write (xapp-…)",
        settings.text("slack.app_token"),
    )
    asyncio.run(slack.check_app(app_token))
    connecting.drafts.keep_secret({"SLACK_APP_TOKEN": app_token})

    while True:
        channels = {channel.id: channel for channel in asyncio.run(slack.channels(token))}
        routed = address_of(settings, "slack").removeprefix("slack:")
        words = [
            (x.id, f"#{x.name}{'' if x.joined else ' (the bot is not in it)'}")
            for x in channels.values()
        ]
        picked = prompt.choose("Channel of the alerts", words, routed)
        if channels[picked].joined:
            break
        prompt.ask(f"Type /invite @trnbot in #{channels[picked].name}, then press Enter")
    connecting.drafts.set({"route": routed_to(settings, f"slack:{picked}")})


def connect_teams(connecting: Connecting) -> None:
    """Take the registration of the bot, and write the package to upload."""
    settings, prompt = connecting.settings, connecting.prompt
    usual = "yes" if settings.teams else "no"
    if prompt.ask("Connect Teams? (yes, no)", usual).lower() != "yes":
        return
    app = prompt.ask("Application (client) id of the Azure Bot", settings.text("teams.app_id"))
    password = connecting.secret("Its client secret", settings.text("teams.app_password"))
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
        "  Set the Azure Bot's messaging endpoint to https://YOUR-ADDRESS/api/messages, which leads"
        f" to port {settings['port']} here (a proxy, or for a trial a tunnel).",
    )


def address_of(settings: Settings, platform: str) -> str:
    """Return where alerts go on a platform, "" for nowhere."""
    return next((x for x in settings["route"] if x.startswith(f"{platform}:")), "")


def routed_to(settings: Settings, address: str) -> list[str]:
    """Return the default route with this address for its platform, and the others as they were."""
    prefix = f"{address.partition(':')[0]}:"
    return [address, *(x for x in settings["route"] if not x.startswith(prefix))]


def send_test(connecting: Connecting) -> None:
    """Send a test to where alerts go on each platform, and wait until somebody presses."""
    settings = connecting.settings
    if not (settings.slack or settings.teams):
        connecting.say("  No chat is connected: 'trnbot connect slack', or teams, does it.")
    if settings.slack:
        test_platform(connecting, "slack", address_of(settings, "slack"))
    if settings.teams:
        test_platform(connecting, "teams", address_of(settings, "teams"))


def test_platform(connecting: Connecting, platform: str, address: str) -> None:
    """Send a test to an address, or to the channel that speaks first, and say who pressed."""
    settings = connecting.settings
    if not address:
        connecting.prompt.ask(
            "Once the bot is in the team, press Enter, and then type @trnbot hello in the channel"
            " of the alerts"
        )
    trial = Trial(address)
    asyncio.run(send_trial(trial, settings, platform, connecting.wait, connecting.say))
    if not trial.address:
        connecting.say("  No channel was heard. 'trnbot connect test' listens again.")
        return
    if trial.address != address:
        connecting.drafts.set({"route": routed_to(settings, trial.address)})
    if not trial.presser:
        connecting.say(
            "  Nobody pressed; the message is there. 'trnbot connect test' sends another."
        )
        return

    who = trial.presser.name or trial.presser.id
    connecting.say(f"  {who} pressed after {trial.seconds:.0f} s: alerts arrive, and presses too")
    question = f"May {who} change things, as the first admin? (yes, no)"
    has_admins = connecting.settings["admins"]
    if not has_admins and connecting.prompt.ask(question, "yes").lower() == "yes":
        connecting.drafts.set({"admins": [trial.presser.id]})


def send_trials(options: Options, addresses: Iterable[str], conditions: str) -> None:
    """Send a test of an alert to each chat among the addresses, and say who pressed."""
    settings, wait = settings_of(options.values), waiting_time(options)
    for address in addresses:
        platform = address.partition(":")[0]
        if platform == "web":  # the console shows alerts without being sent any
            continue
        if not {"slack": settings.slack, "teams": settings.teams}.get(platform):
            print(f"  {address}: no chat that is connected here, so nothing is sent")
            continue
        trial = Trial(address, conditions)
        asyncio.run(send_trial(trial, settings, platform, wait, print))
        seen = "nobody pressed in time; where trnbot serves, it may have taken the press"
        if trial.presser:
            seen = f"{trial.presser.name or trial.presser.id} pressed after {trial.seconds:.0f} s"
        print(f"  {address}: {seen}")


def waiting_time(options: Options) -> timedelta:
    """Return how long a test waits for a press."""
    return parse_duration(options.values["wait"]) if "wait" in options.values else _WAIT


@dataclass
class Trial:
    """Hold how a test goes: where it was sent, and who pressed when."""

    address: str
    conditions: str = ""
    """Of which alerts it is a test, "" for all."""
    presser: User | None = None
    seconds: float = 0.0
    _heard: asyncio.Event = field(default_factory=asyncio.Event)
    _pressed: asyncio.Event = field(default_factory=asyncio.Event)

    async def answer(self, request: Request) -> Card:
        """Take the press; the first channel that says anything is where the test goes."""
        if request.line == SEEN:
            self.presser = self.presser or request.user
            self._pressed.set()
            # The message itself says it to the channel.
            return replace(seen_card(request.user.name), public=False)

        self.address = self.address or request.channel
        if self.address:
            self._heard.set()
        return Card(
            "trnbot hears you", Tone.GOOD, (quiet("A test message will come to this channel."),)
        )

    async def hears(self, wait: timedelta) -> bool:
        """Return whether a channel is known in time."""
        if self.address:
            return True
        with suppress(TimeoutError):
            await asyncio.wait_for(self._heard.wait(), wait.total_seconds())
        return bool(self.address)

    async def sees_press(self, wait: timedelta) -> None:
        """Wait until somebody presses, and no longer than this."""
        began = monotonic()
        with suppress(TimeoutError):
            await asyncio.wait_for(self._pressed.wait(), wait.total_seconds())
        self.seconds = monotonic() - began


async def send_trial(
    trial: Trial, settings: Settings, platform: str, wait: timedelta, say: Callable[[str], None]
) -> None:
    """Post a test to its address on a platform, and wait for who presses.

    Without an address it goes to the first channel where somebody speaks to the bot. What is learnt
    of that channel is kept in the database, for Teams lets a bot speak only where it was heard.
    """

    async def untold(_: str) -> None:
        """Tell nobody: who connects sees what happens."""

    store = open_store(settings.text("database_url"))
    ports = ChatPorts(trial.answer, wall_clock, draw, store, store, effect=effect_of)
    surface = chats(settings, ports, untold)[platform]
    async with AsyncExitStack() as running:
        if surface.routes():
            port = Port(settings["host"], settings["port"])
            running.push_async_callback(port.cleanup)
            await port.answer_by([surface])
            say(f"  listening at {port.address}, for what the platform sends")
        await surface.start()
        running.push_async_callback(surface.stop)
        if not await trial.hears(wait):
            return

        channel, key = trial.address.partition(":")[2], f"trnbot-test-{wall_clock():%Y%m%dT%H%M%S}"
        message = await surface.post(channel, trial_card(trial.conditions), key)
        say(f"  sent to {trial.address}; press 'I see it' there")
        await trial.sees_press(wait)
        if trial.presser:
            # The press is answered by then, and nobody presses twice.
            await surface.edit(channel, message, seen_card(trial.presser.name), key)


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
