"""Connect from nothing to a test that somebody presses, against AWS and Slack that stand in."""

import asyncio
import json
import re
import stat
import threading
import tomllib
from contextlib import contextmanager
from datetime import timedelta

import pytest
from aiohttp import ClientSession, web
from aiohttp.test_utils import TestServer

from adapters.terminal.prompt import Prompt
from bot.__main__ import main
from bot.errors import Unavailable, WrongInput
from bot.settings.settings import read_settings
from bot.wiring.connect import FIRST_DAYS, STEPS, Connecting, Trial, run, send_trial
from bot.wiring.environment import Drafts, with_key
from tests.aws_live.serving import BUCKET
from tests.e2e.slackserver import free_port
from tests.slack.conftest import FakeSlack

BOT, APP = "xoxb-secret-bot", "xapp-secret-app"
CHANNELS = [
    {"id": "C1", "name": "general", "is_member": False},
    {"id": "C02FIN", "name": "finops", "is_member": True},
]
EXPORT = f"s3://{BUCKET}/billing"


class SocketSlack(FakeSlack):
    """Slack with Socket Mode, where somebody presses the first button of what is posted."""

    def __init__(self):
        super().__init__()
        self.sockets, self.presses, self.posted = [], True, []

    async def serve(self, request):
        if request.path == "/socket":
            socket = web.WebSocketResponse()
            await socket.prepare(request)
            self.sockets.append(socket)
            await socket.send_json({"type": "hello", "num_connections": 1})
            async for _ in socket:
                pass
            return socket
        return await super().serve(request)

    def _answer(self, method, body, team):
        if method == "apps.connections.open":
            return {"url": self.url.replace("http", "ws").replace("/api/", "/socket")}
        if method == "conversations.list":
            return {"channels": CHANNELS}
        if method == "chat.postMessage":
            self.posted.append(body)
            if self.presses:
                asyncio.get_running_loop().call_later(0.05, self._press, body)
        return super()._answer(method, body, team) | (
            {"team": "Acme"} if method == "auth.test" else {}
        )

    def _press(self, body):
        buttons = [
            x
            for block in body["blocks"]
            for x in block.get("elements", ())
            if x["type"] == "button"
        ]
        payload = {
            "type": "block_actions",
            "trigger_id": "t1",
            "user": {"id": "U01ALICE", "name": "alice", "team_id": "T1"},
            "team": {"id": "T1"},
            "channel": {"id": body["channel"]},
            "message": {"ts": "5.5"},
            "container": {"type": "message", "message_ts": "5.5"},
            "actions": [buttons[0] | {"block_id": "b", "action_ts": "1.1"}],
            "response_url": f"{self.url}response",
        }
        envelope = {"type": "interactive", "envelope_id": "e1", "payload": payload}
        self.pressed = asyncio.ensure_future(self.sockets[-1].send_json(envelope))


@contextmanager
def serving(slack):
    """Serve on a loop in a thread: who connects runs loops of its own."""
    loop, up = asyncio.new_event_loop(), threading.Event()

    async def begin():
        app = web.Application()
        app.router.add_route("*", "/{tail:.*}", slack.serve)
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        host, port = runner.addresses[0][:2]
        slack.url = f"http://{host}:{port}/api/"
        return runner

    started = []

    def serve():
        started.append(loop.run_until_complete(begin()))
        up.set()
        loop.run_forever()

    thread = threading.Thread(target=serve)
    thread.start()
    up.wait()
    yield slack
    asyncio.run_coroutine_threadsafe(started[0].cleanup(), loop).result(5)
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


class Hand:
    """Answer questions by a part of their words, and remember all that is shown."""

    def __init__(self, **answers):
        self.answers, self.shown, self.hidden = answers, [], []

    def prompt(self):
        return Prompt(self.type, self.type_unseen, self.shown.append)

    def type(self, question):
        self.shown.append(question)
        return self._answer(question)

    def type_unseen(self, question):
        self.hidden.append(question)
        return self._answer(question)

    def _answer(self, question):
        return next((x for words, x in self.answers.items() if words in question), "")

    @property
    def text(self):
        return "\n".join(self.shown)


@pytest.fixture
def slack():
    with serving(SocketSlack()) as fake:
        yield fake


@pytest.fixture
def hand():
    return Hand(
        **{
            "Regions": "us-west-2",
            "(s3": EXPORT,
            "Bot token": BOT,
            "App token": APP,
            "Channel": "finops",
        }
    )


@pytest.fixture
def take(world, slack, hand, tmp_path, monkeypatch):
    """Return a function that takes steps in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("AWS_REGION", raising=False)
    next(world.ticks(0.25, 0.25))
    environ = {"SLACK_API_URL": slack.url}

    def taken(*names, wait=timedelta(seconds=20)):
        drafts = Drafts(tmp_path / "trnbot.toml", environ)
        return run(Connecting(drafts, hand.prompt(), wait), names or STEPS)

    return taken


def test_from_nothing_to_a_test_that_somebody_presses(take, hand, slack, tmp_path):
    take()
    settings = tomllib.loads((tmp_path / "trnbot.toml").read_text())
    assert settings == {
        "source": "aws",
        "route": ["slack:C02FIN"],
        "admins": ["slack:U01ALICE"],
        "aws": {"regions": ["us-west-2"], "billing": EXPORT},
    }
    secrets = tmp_path / "trnbot.env"
    assert secrets.read_text() == f"SLACK_BOT_TOKEN={BOT}\nSLACK_APP_TOKEN={APP}\n"
    assert stat.S_IMODE(secrets.stat().st_mode) == 0o600

    assert "3 nodes, read" in hand.text
    assert "files are there" in hand.text
    assert "https://api.slack.com/apps?new_app=1&manifest_json=%7B" in hand.text
    assert "alice pressed after" in hand.text
    assert f"Next: trnbot serve --config {tmp_path / 'trnbot.toml'}" in hand.shown
    assert "will cost about $" in hand.text
    assert [f"  {time}:" in hand.text for time in FIRST_DAYS] == [True] * len(FIRST_DAYS)
    assert [body["channel"] for body in slack.posted] == ["C02FIN"]
    assert "This is a test" in json.dumps(slack.posted)
    assert not {BOT, APP} & set(" ".join(hand.shown).split())
    assert [question.partition(",")[0] for question in hand.hidden] == ["Bot token", "App token"]

    # A step that is taken again keeps what was answered.
    before = [(tmp_path / name).read_text() for name in ("trnbot.toml", "trnbot.env")]
    hand.answers = {}
    take("slack")
    assert [(tmp_path / name).read_text() for name in ("trnbot.toml", "trnbot.env")] == before


def export_of(name, table, prefix=""):
    target = {"S3Bucket": BUCKET, "S3Prefix": prefix, "S3Region": "us-east-1"}
    output = {
        "OutputType": "CUSTOM",
        "Format": "PARQUET",
        "Compression": "PARQUET",
        "Overwrite": "OVERWRITE_REPORT",
    }
    return {
        "ExportArn": f"arn:aws:bcm-data-exports:us-east-1:111122223333:export/{name}",
        "Name": name,
        "DataQuery": {"QueryStatement": f"SELECT line_item_usage_type FROM {table}"},
        "DestinationConfigurations": {"S3Destination": target | {"S3OutputConfigurations": output}},
        "RefreshCadence": {"Frequency": "SYNCHRONOUS"},
    }


def account_connected(folder):
    """Leave what the first step leaves, which asks the whole account."""
    (folder / "trnbot.toml").write_text('source = "aws"\n\n[aws]\nregions = ["us-west-2"]\n')


def test_exports_of_the_bill_are_found_and_others_are_not_offered(take, hand, world, tmp_path):
    account_connected(tmp_path)
    world.standin.exports = [
        export_of("billing", "COST_AND_USAGE_REPORT"),
        export_of("carbon", "CARBON_EMISSIONS", "other/"),
    ]
    take("bill")
    assert f"   1. {EXPORT}" in hand.shown
    assert "carbon" not in hand.text
    assert EXPORT in (tmp_path / "trnbot.toml").read_text()


def test_what_is_left_out_is_said_with_what_it_costs(take, hand, world, slack, tmp_path):
    account_connected(tmp_path)
    hand.answers = {"Where the bill": "2", "Connect Slack": "no"}
    world.standin.exports = [export_of("billing", "COST_AND_USAGE_REPORT")]
    take("bill", "slack", "test")
    assert "   2. none: Cost Explorer, by day" in hand.text
    assert "Without an export Cost Explorer is asked, for $" in hand.text
    assert "No chat is connected: 'trnbot connect slack', or teams, does it." in hand.text
    assert "billing" not in (tmp_path / "trnbot.toml").read_text()
    assert slack.posted == []


def test_a_place_of_the_bill_that_is_none_empty_or_closed_is_said(take, hand, world, tmp_path):
    account_connected(tmp_path)
    # What is no address is refused before it is written.
    hand.answers["(s3"] = "billing-exports"
    with pytest.raises(WrongInput, match="write s3://BUCKET/PREFIX"):
        take("bill")
    assert "billing" not in (tmp_path / "trnbot.toml").read_text()

    hand.answers["(s3"] = "s3://billing-exports/nothing"
    take("bill")
    assert "nothing is delivered yet; AWS takes up to a day for the first files" in hand.text
    # One that was typed before stands in the list, and another one may be typed.
    hand.answers |= {"(s3": EXPORT, "Where the bill is delivered [": "another"}
    take("bill")
    assert f"  {EXPORT}: files are there" in hand.text
    world.standin.faults.denied = {"s3:ListBucket"}
    take("bill")
    assert "allow s3:ListBucket" in hand.text


def test_a_route_is_tested_from_the_terminal(take, hand, slack, monkeypatch, capsys):
    take("slack")
    monkeypatch.setenv("SLACK_API_URL", slack.url)
    line = ["routes", "test", "cluster=llama", "cause=idle", "--source", "simulator:7/tiny"]
    assert main([*line, "--send", "--wait", "1m"]) == 0
    said = capsys.readouterr().out
    assert "It goes to web:alerts, slack:C02FIN." in said
    assert "slack:C02FIN: alice pressed after" in said
    assert "An alert of cluster=llama cause=idle would come here." in json.dumps(slack.posted)


def test_only_a_test_of_routes_is_sent(capsys):
    assert main(["fleet", "--send"]) == 2
    assert "'--send' goes with 'routes test'" in capsys.readouterr().err


def test_a_refused_token_is_not_written(take, slack, tmp_path):
    slack.failing["auth.test"] = ["invalid_auth"]
    with pytest.raises(Unavailable, match="does not accept the token"):
        take("slack")
    assert not (tmp_path / "trnbot.env").exists()


def test_a_channel_without_the_bot_asks_for_an_invitation(take, hand, slack, monkeypatch):
    hand.answers["Channel"] = "general"
    typed = hand.type

    def invited(question):
        if "/invite" in question:
            monkeypatch.setitem(CHANNELS[0], "is_member", True)
        return typed(question)

    hand.type = invited
    take("slack")
    assert "Type /invite @trnbot in #general" in hand.text


def test_nobody_who_presses_is_said_and_changes_nothing(take, hand, slack, tmp_path):
    take("slack")
    slack.presses = False
    take("test", wait=timedelta(seconds=0.2))
    assert "Nobody pressed" in hand.text
    assert "admins" not in (tmp_path / "trnbot.toml").read_text()


def test_a_team_in_which_nobody_speaks_is_said(hand, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    drafts = Drafts(tmp_path / "trnbot.toml", {"TRNBOT_TEAMS_DEVELOPMENT": "1", "TRNBOT_PORT": "0"})
    run(Connecting(drafts, hand.prompt(), timedelta(seconds=0.01)), ["test"])
    assert "type @trnbot hello in the channel" in hand.text
    assert "No channel was heard" in hand.text
    assert "Nobody pressed" not in hand.text
    assert not (tmp_path / "trnbot.toml").exists()


def test_permissions_that_are_missing_offer_one_command(take, hand, world):
    world.standin.faults.denied = {"ec2:DescribeVolumes"}
    hand.answers["permissions"] = "stack"
    take("aws")
    assert "missing permission ec2:DescribeVolumes" in hand.text
    (command,) = (line for line in hand.shown if line.startswith("  Run: "))
    assert "deploy/cloudformation/trnbot.yaml" in command
    assert "YOUR" not in command


def test_no_credentials_are_said_and_nothing_is_lost(take, hand, monkeypatch, tmp_path):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    with pytest.raises(Unavailable, match="none are set"):
        take("aws")
    assert tomllib.loads((tmp_path / "trnbot.toml").read_text())["aws"] == {
        "regions": ["us-west-2"]
    }


async def test_a_test_goes_to_the_channel_of_teams_that_speaks_first(tmp_path, monkeypatch):
    """Teams lets a bot speak only where it was heard, so a channel is heard before it is routed to."""
    monkeypatch.chdir(tmp_path)
    port, taken, said = free_port(), [], []

    async def connector(request):
        taken.append(await request.json())
        return web.json_response({"id": f"m{len(taken)}"}, status=201)

    async def member(_):
        return web.json_response({"id": "29:1x", "tenantId": "T1", "userRole": "user"})

    application = web.Application()
    application.router.add_get("/v3/conversations/{conversation}/members/{user}", member)
    application.router.add_route("*", "/{tail:.*}", connector)
    server = TestServer(application)
    await server.start_server()
    given = {
        "TRNBOT_TEAMS_DEVELOPMENT": "1",
        "TRNBOT_PORT": str(port),
        "TRNBOT_DATABASE_URL": f"sqlite:///{tmp_path}/trnbot.db",
    }

    async def write(number, **more):
        activity = {
            "type": "message",
            "id": f"in{number}",
            "channelId": "msteams",
            "serviceUrl": str(server.make_url("")),
            "from": {"id": "29:1x", "name": "Dana"},
            "recipient": {"id": "28:bot"},
            "conversation": {"id": "19:c@thread.tacv2", "conversationType": "channel"},
            "channelData": {"tenant": {"id": "T1"}},
        }
        address = f"http://127.0.0.1:{port}/api/messages"
        async with ClientSession() as session, session.post(address, json=activity | more) as got:
            assert got.status < 300, await got.text()

    wait = timedelta(seconds=20)
    trial = Trial("")
    going = asyncio.ensure_future(
        send_trial(trial, read_settings(given), "teams", wait, said.append)
    )
    while not said:
        await asyncio.sleep(0.02)
    await write(1, text="<at>trnbot</at> hello")
    while len(said) < 2:
        await asyncio.sleep(0.02)
        assert not going.done(), going
    card = next(x for x in taken if "This is a test" in json.dumps(x))
    (line,) = re.findall(
        r'"title": "I see it", "verb": "line", "data": (\{.*?\})', json.dumps(card)
    )
    pressed = {"type": "Action.Execute", "verb": "line", "data": json.loads(line)}
    value = {"action": pressed}
    await write(2, type="invoke", name="adaptiveCard/action", value=value, replyToId="m1")
    await going
    assert (trial.address, trial.presser.name) == ("teams:19:c@thread.tacv2", "Dana")
    assert "Dana has seen the test" in json.dumps(taken)
    await server.close()


def test_teams_takes_a_registration_and_writes_the_package(take, hand, tmp_path):
    hand.answers = {
        "Teams?": "yes",
        "client) id": "11111111-2222-3333-4444-555555555555",
        "secret": "s3cret",
        "tenant": "t",
    }
    take("teams")
    assert (tmp_path / "manifest/teams.zip").is_file()
    assert "MicrosoftAppPassword=s3cret" in (tmp_path / "trnbot.env").read_text()


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", '[aws]\nregions = ["us-west-2"]\n'),
        (
            "# mine\nsource = 'aws'\n",
            "# mine\nsource = 'aws'\n\n[aws]\nregions = [\"us-west-2\"]\n",
        ),
        (
            "[aws]\nregions = []  # none\nbudget = '1'\n[monitor]\n",
            "[aws]\nregions = [\"us-west-2\"]\nbudget = '1'\n[monitor]\n",
        ),
        (
            "[aws]\nbudget = '1'\n\n[monitor]\n",
            "[aws]\nbudget = '1'\nregions = [\"us-west-2\"]\n\n[monitor]\n",
        ),
    ],
)
def test_a_key_is_set_and_every_other_line_stays(before, after):
    assert with_key(before, "aws.regions", ["us-west-2"]) == after


def test_a_file_that_cannot_be_changed_by_line_is_left_alone():
    with pytest.raises(WrongInput, match=r"set aws\.regions yourself"):
        with_key("aws.regions = [\n]\n", "aws.regions", ["us-west-2"])
