import copy
import dataclasses
import json
import logging
import pickle
import re
import tomllib
from datetime import timedelta
from pathlib import Path

import pytest

import bot
from bot.errors import WrongInput
from bot.model.labels import CLUSTER_TAGS
from bot.settings.keys import Secret
from bot.settings.settings import KEYS, read_settings, settings_text
from tests.cases import in_one_run

DEFAULT = (Path(bot.__file__).parent / "settings/default.toml").read_text()
OAUTH = {
    "SLACK_CLIENT_ID": "1.2",
    "SLACK_CLIENT_SECRET": "hunter2",
    "SLACK_SIGNING_SECRET": "hunter2",
    "TRNBOT_SLACK_WORKSPACES": "T1, T2",
}
TEAMS = {"MicrosoftAppId": "id", "MicrosoftAppPassword": "hunter2"}


def test_nothing_said_means_the_defaults():
    found = read_settings({})
    assert (found["host"], found["port"], found["interval"]) == (
        "127.0.0.1",
        8080,
        timedelta(minutes=5),
    )
    assert found.text("database_url") == "sqlite:///.trnbot/trnbot.db"
    assert (found["metrics.lag"], found["billing.lag"]) == (
        timedelta(minutes=1),
        timedelta(hours=24),
    )
    assert found.tags()["cluster"] == CLUSTER_TAGS
    assert (found["route"], found["admins"], found.slack, found.teams) == ((), (), False, False)


def test_without_a_source_it_says_what_to_set():
    with pytest.raises(
        WrongInput,
        match=r"set TRNBOT_SOURCE .* to aws, recording:DIR or simulator:SEED.*trnbot demo",
    ):
        read_settings({}).source  # noqa: B018 - reading it is what fails


def test_the_environment_wins_over_the_file_and_the_file_over_the_default():
    found = read_settings({"TRNBOT_PORT": "9000"}, 'port = 7000\nhost = "::1"')
    assert (found["port"], found["host"]) == (9000, "::1")


@pytest.mark.parametrize(
    "text",
    [
        "source = 'aws'\nroute = 'slack:C1, teams:19:x@thread.v2'",
        "source = 'aws'\nroute = ['slack:C1', 'teams:19:x@thread.v2']",
    ],
)
def test_a_list_is_written_with_commas_or_as_a_list(text):
    found = read_settings({}, text)
    assert found.source == "aws"
    assert found["route"] == ("slack:C1", "teams:19:x@thread.v2")


def test_an_empty_variable_stands_for_the_default():
    assert read_settings({"TRNBOT_PORT": " ", "SLACK_BOT_TOKEN": ""})["port"] == 8080


def test_what_kubernetes_says_of_a_service_is_not_a_setting():
    address = "tcp://10.0.0.1:8080"
    links = {
        "TRNBOT_PORT": address,
        "TRNBOT_SERVICE_HOST": "10.0.0.1",
        "TRNBOT_SERVICE_PORT_HTTP": "8080",
        "TRNBOT_WEB_PORT": address,
    }
    tcp = {f"TRNBOT_PORT_8080_TCP{part}": "8080" for part in ("", "_PROTO", "_PORT", "_ADDR")}
    assert read_settings(links | tcp)["port"] == 8080


@pytest.mark.parametrize(
    ("variable", "value", "words"),
    [
        ("TRNBOT_SOURCE", "simulater:7", "did you mean 'simulator'"),
        ("TRNBOT_SOURCE", "recording:", "Write aws, recording:DIR"),
        ("TRNBOT_PORT", "80a", "TRNBOT_PORT: '80a' is not a port"),
        ("TRNBOT_PORT", "65536", "not a port"),
        ("TRNBOT_SPEED", "0", "not a speed"),
        ("TRNBOT_SPEED", "NaN", "not a speed"),
        ("TRNBOT_INTERVAL", "7m", "does not divide a day"),
        ("TRNBOT_INTERVAL", "5", "'5' is not a length of time; write 30m"),
        ("TRNBOT_ROUTE", "C02FIN", "'C02FIN' names no platform; write it like slack:C02FIN"),
        ("TRNBOT_ROUTE", "discord:123", "'discord:123' names no platform; write it like slack:"),
        ("TRNBOT_ADMINS", "slack:U1,dana", "'dana' names no platform"),
        ("TRNBOT_ADMINS", "slak:U1", "'slak:U1' names no platform"),
        ("TRNBOT_TEAMS_DEVELOPMENT", "perhaps", "neither on nor off"),
        (
            "TRNBOT_TEAMS_SDK",
            "agent",
            "'agent' is neither botbuilder nor agents; did you mean 'agents'?",
        ),
        ("TRNBOT_SORCE", "aws", "TRNBOT_SORCE is not a setting; did you mean TRNBOT_SOURCE"),
        ("TRNBOT_QQQQQQQQQQQQ", "", "TRNBOT_QQQQQQQQQQQQ is not a setting"),
    ],
)
def test_a_wrong_variable_is_named(variable, value, words):
    with pytest.raises(WrongInput, match=words):
        read_settings({variable: value})


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("sorce = 'aws'", "'sorce' is not a setting; did you mean 'source'"),
        (
            "[slack]\nbot_tokn = 'xoxb-hunter2'",
            "'slack.bot_tokn' is not a setting; did you mean 'slack.bot_token'",
        ),
        ("[slack.bot_token]\nx = 'hunter2'", "slack.bot_token takes a text"),
        ("port = 2026-11-20", "port takes a text, a number"),
        ("port =", "The settings file 'trnbot.toml' is not TOML"),
        ("[policy.idle]\nbellow = '5%'", "did you mean 'idle.below'"),
        ("policy = 5", "'policy' is a table"),
    ],
)
def test_a_wrong_file_is_named_without_secrets(text, words):
    with pytest.raises(WrongInput, match=words) as caught:
        read_settings({}, text)
    assert "hunter2" not in str(caught.value)


def test_every_mistake_is_told_at_once():
    with pytest.raises(WrongInput) as caught:
        read_settings(
            {"TRNBOT_PORT": "x", "TRNBOT_HSOT": "y"}, "sorce = 1\n[policy.idle]\nbellow = 1"
        )
    assert all(
        word in str(caught.value)
        for word in ("TRNBOT_PORT", "TRNBOT_HSOT", "'sorce'", "'idle.bellow'")
    )


def test_mistakes_are_worked_off_down_the_file_a_line_each_and_then_the_environment(tmp_path):
    text = 'port = "x"\n[policy.idle]\nbelow = "fast"\nfro = 1\n[teams]\napp_idd = "x"\n'
    (tmp_path / "trnbot.toml").write_text("sorce = 1\n" + text)
    environ = {"TRNBOT_HSOT": "y", "TRNBOT_CONFIG": str(tmp_path / "trnbot.toml")}
    with pytest.raises(WrongInput) as caught:
        read_settings(environ, settings_text(environ, tmp_path))
    lines = re.findall(r"^[^\n]*?(?:line (\d)|HSOT)", str(caught.value), re.MULTILINE)
    assert lines == ["1", "2", "4", "5", "7", ""]


def test_the_policy_table_is_a_policy():
    text = '[policy.idle]\nbelow = "7%"\n[[policy.override]]\ncluster = "x"\n"idle.below" = "9%"'
    assert read_settings({}, text).policy.number("idle.below") == pytest.approx(0.07)
    assert len(read_settings({}, text).policy.overrides) == 1


@pytest.mark.parametrize("extra", [{"SLACK_APP_TOKEN": "xapp-1"}, {"SLACK_SIGNING_SECRET": "s"}])
def test_a_bot_token_and_a_way_to_listen_turn_the_first_platform_on(extra):
    assert read_settings({"SLACK_BOT_TOKEN": "xoxb-1"} | extra).slack


@pytest.mark.parametrize(
    ("environ", "words"),
    [
        ({"SLACK_BOT_TOKEN": "xoxb-1"}, "SLACK_APP_TOKEN .* or SLACK_SIGNING_SECRET"),
        ({"MicrosoftAppId": "id"}, "also needs MicrosoftAppPassword"),
        (
            {"SLACK_BOT_TOKEN": "xoxb-1", **OAUTH},
            "SLACK_BOT_TOKEN is for one workspace and SLACK_CLIENT_ID for several",
        ),
        (OAUTH | {"SLACK_CLIENT_SECRET": ""}, "SLACK_CLIENT_ID also needs SLACK_CLIENT_SECRET"),
        (
            OAUTH | {"TRNBOT_SLACK_WORKSPACES": ""},
            "SLACK_CLIENT_ID also needs TRNBOT_SLACK_WORKSPACES",
        ),
        (OAUTH | {"SLACK_SIGNING_SECRET": ""}, "SLACK_CLIENT_ID also needs SLACK_APP_TOKEN"),
        ({"TRNBOT_PUBLIC_URL": "trnbot.example.com"}, "not an address of a site"),
    ],
)
def test_a_platform_that_could_not_work_is_refused(environ, words):
    with pytest.raises(WrongInput, match=words) as caught:
        read_settings(environ)
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    ("environ", "words"),
    [
        ({"MicrosoftAppId": ""}, "MicrosoftAppId is empty, which would let anyone in"),
        ({"MicrosoftAppId": "", "TRNBOT_TEAMS_DEVELOPMENT": "0"}, "would let anyone in"),
        (
            {
                "TRNBOT_TEAMS_DEVELOPMENT": "1",
                "TRNBOT_HOST": "0.0.0.0",
                "TRNBOT_WEB_TOKEN": "correct horse battery",
            },
            "needs a loopback TRNBOT_HOST; got '0.0.0.0'",
        ),
        (
            {"TRNBOT_HOST": "0.0.0.0"},
            "TRNBOT_HOST '0.0.0.0' lets others reach the console, so set TRNBOT_WEB_TOKEN",
        ),
        ({"TRNBOT_PUBLIC_URL": "https://x.example"}, "lets others reach the console"),
        ({"TRNBOT_WEB_TOKEN": "hunter2"}, "short enough to be guessed"),
        (TEAMS, "lets any tenant in; set MicrosoftAppTenantId or TRNBOT_TEAMS_TENANTS"),
    ],
)
def test_what_would_let_anyone_in_is_not_served_and_a_line_is_answered_all_the_same(environ, words):
    (sentence,) = read_settings(environ).unservable
    assert words in sentence
    assert "hunter2" not in sentence


@pytest.mark.parametrize(
    "environ",
    [
        {},
        TEAMS | {"MicrosoftAppTenantId": "t"},
        TEAMS | {"TRNBOT_TEAMS_TENANTS": "*"},
        OAUTH | {"TRNBOT_SECRETS_KEY": "k" * 43 + "="},
        {
            "TRNBOT_HOST": "0.0.0.0",
            "TRNBOT_WEB_TOKEN": "correct horse battery",
            "TRNBOT_PUBLIC_URL": "https://x.example/",
        },
    ],
)
def test_what_keeps_strangers_out_is_served(environ):
    assert read_settings(environ).unservable == ()


@pytest.mark.parametrize(
    "environ",
    [
        TEAMS,
        TEAMS | {"TRNBOT_HOST": "0.0.0.0"},
        {"TRNBOT_TEAMS_DEVELOPMENT": "1"},
        {"TRNBOT_TEAMS_DEVELOPMENT": "1", "MicrosoftAppId": "", "TRNBOT_HOST": "localhost"},
    ],
)
def test_an_app_id_or_development_on_loopback_turns_the_second_platform_on(environ):
    assert read_settings(environ).teams


def test_no_secret_shows_in_any_way(caplog):
    found = read_settings(TEAMS | {"TRNBOT_DATABASE_URL": "postgresql://dana:hunter2@db/x"})
    logging.getLogger("t").warning("%s %r %s", found, found.values, found["teams.app_password"])
    shown = [
        repr(found),
        str(dataclasses.asdict(found)),
        json.dumps(found.values, default=str),
        str(found.facts()),
        caplog.text,
    ]
    assert not [text for text in shown if "hunter2" in text]
    assert found.facts()["database"] == "postgresql"


def test_every_setting_that_is_called_a_secret_is_read_as_one():
    called = [key for key in KEYS if re.search("token|secret|password", key.name)]
    assert called
    assert [key.name for key in called if not isinstance(key.read(key.default), Secret)] == []


@pytest.mark.parametrize(
    "shown", [str, repr, "{}".format, "{:>9}".format, lambda s: f"{s!r:8}", lambda s: str([s])]
)
def test_a_secret_prints_as_stars(shown):
    assert "hunter2" not in shown(Secret("hunter2"))
    assert "****" in shown(Secret("hunter2"))


def test_a_secret_is_compared_and_copied_but_neither_hashed_pickled_nor_listed():
    secret = Secret("hunter2")
    assert secret == Secret("hunter2") != Secret("other")
    assert copy.deepcopy(secret).reveal() == "hunter2"
    assert not Secret("")
    assert not hasattr(secret, "__dict__")
    for forbidden in (hash, pickle.dumps):
        with pytest.raises(TypeError):
            forbidden(secret)


def test_the_documented_file_is_the_schema():
    document, flat = tomllib.loads(DEFAULT), {}
    for name, value in document.items():
        flat |= (
            {f"{name}.{inner}": x for inner, x in value.items()}
            if isinstance(value, dict)
            else {name: value}
        )
    assert list(flat) == [key.name for key in KEYS]
    assert read_settings({}, DEFAULT) == read_settings({})


@in_one_run
@pytest.mark.parametrize("key", KEYS, ids=lambda key: key.name)
def test_every_key_stands_under_its_meaning_and_variable(key):
    assert f"# {key.meaning} ({key.variable})\n{key.name.rpartition('.')[2]} = " in DEFAULT


def test_the_file_in_the_folder_is_read_only_where_there_is_one(tmp_path):
    assert settings_text({}, tmp_path) is None
    (tmp_path / "trnbot.toml").write_text("port = 1")
    (tmp_path / "other.toml").write_text("port = 2")
    assert settings_text({}, tmp_path) == "port = 1"
    assert settings_text({"TRNBOT_CONFIG": "other.toml"}, tmp_path) == "port = 2"


def test_a_file_that_was_named_must_be_there(tmp_path):
    with pytest.raises(WrongInput, match=r"missing.toml' cannot be read: no such file"):
        settings_text({"TRNBOT_CONFIG": "missing.toml"}, tmp_path)
    (tmp_path / "trnbot.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(WrongInput, match="not UTF-8"):
        settings_text({}, tmp_path)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"TRNBOT_SPARK": "https://spark:443/;token=hush-hush"}, "sc://HOST:PORT/;token=TOKEN"),
        ({"TRNBOT_SPARK": "sc://spark"}, "TRNBOT_SPARK and TRNBOT_SPARK_TABLE need each other"),
        ({"TRNBOT_SPARK_TABLE": "cur"}, "TRNBOT_SPARK and TRNBOT_SPARK_TABLE need each other"),
        ({"TRNBOT_SPARK_TABLE": "a b; DROP"}, "write CATALOG.SCHEMA.TABLE or s3://BUCKET/PREFIX"),
        (
            {
                "TRNBOT_SPARK": "sc://spark",
                "TRNBOT_SPARK_TABLE": "cur",
                "TRNBOT_AWS_ATHENA": "a.b",
            },
            "TRNBOT_SPARK is another way to the export",
        ),
    ],
)
def test_a_mistaken_spark_is_named(given, said):
    with pytest.raises(WrongInput) as refused:
        read_settings(given)
    assert said in str(refused.value)
    assert "hush" not in str(refused.value)
