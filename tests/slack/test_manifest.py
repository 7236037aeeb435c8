"""The manifest follows Slack's schema (slackapi/manifest-schema, version 1.0.0) and the file is the generated one."""

from pathlib import Path

import pytest

from adapters.chat.manifest import manifest_yaml, usage_hint
from adapters.chat.manifest import slack_manifest as manifest
from bot.ports import CommandHint
from bot.wiring.surfaces import command_hints

HINTS = (
    CommandHint("cost", "What Trainium costs.", "cost 7d by team", changes=False),
    CommandHint("ack", "Acknowledge.", "ack a1"),
)


def text(longest, shortest=1, **more):
    return {"type": "string", "minLength": shortest, "maxLength": longest, **more}


def closed(required=(), **properties):
    return {
        "type": "object",
        "additionalProperties": False,
        "required": list(required),
        "properties": properties,
    }


def many(items, most, least=1):
    return {"type": "array", "items": items, "minItems": least, "maxItems": most}


FLAG, URL = {"type": "boolean"}, text(3000, pattern="^https?://")
SHORTCUT = closed(
    ("name", "type", "callback_id", "description"),
    name=text(24),
    type={"enum": ["message", "global"]},
    callback_id=text(255),
    description=text(150),
)
COMMAND = closed(
    ("command", "description"),
    command=text(32, 2, pattern="^/"),
    url=URL,
    description=text(2000),
    usage_hint=text(1000),
    should_escape=FLAG,
)
SCHEMA = closed(
    ("display_information",),
    display_information=closed(
        ("name",),
        name=text(35),
        description=text(140),
        background_color=text(7, 4, pattern="^#[0-9a-fA-F]{3}([0-9a-fA-F]{3})?$"),
    ),
    features=closed(
        # not in that schema yet: docs.slack.dev, "Migrating to the Agent messaging experience" and the manifest's reference
        agent_view=closed(
            agent_description=text(300),
            suggested_prompts=many(
                closed(("title", "message"), title=text(100), message=text(300)), 4
            ),
        ),
        app_home=closed(
            home_tab_enabled=FLAG, messages_tab_enabled=FLAG, messages_tab_read_only_enabled=FLAG
        ),
        bot_user=closed(("display_name",), display_name=text(80), always_online=FLAG),
        shortcuts=many(SHORTCUT, 10),
        slash_commands=many(COMMAND, 50),
        unfurl_domains=many(text(255), 5),
    ),
    oauth_config=closed(redirect_urls=many(URL, 1000), scopes=closed(bot=many(text(50), 255))),
    settings=closed(
        event_subscriptions=closed(request_url=URL, bot_events=many(text(50), 100)),
        interactivity=closed(("is_enabled",), is_enabled=FLAG, request_url=URL),
        org_deploy_enabled=FLAG,
        socket_mode_enabled=FLAG,
        token_rotation_enabled=FLAG,
    ),
)


@pytest.mark.parametrize("url", ["", "https://trnbot.example.com/"])
def test_the_manifest_follows_slacks_schema(url):
    from jsonschema import validate

    validate(manifest(HINTS, url), SCHEMA)


def test_without_a_public_address_everything_comes_by_socket_mode():
    made = manifest(HINTS)
    assert made["settings"]["socket_mode_enabled"] is True
    assert "url" not in str(made)


def test_with_a_public_address_all_three_kinds_of_request_go_there():
    made = manifest(HINTS, "https://trnbot.example.com/")
    assert str(made).count("https://trnbot.example.com/slack/events") == 3
    assert made["settings"]["socket_mode_enabled"] is False


def test_the_usage_hint_shows_the_questions_that_fit():
    assert usage_hint(HINTS) == "cost 7d by team"
    assert 80 < len(usage_hint(HINTS * 30)) <= 100
    assert usage_hint(()) == "help"


def test_the_committed_manifest_is_the_generated_one():
    committed = Path(__file__).parents[2] / "manifest" / "slack.yaml"
    assert committed.read_text() == manifest_yaml(command_hints()), (
        "write manifest_yaml(command_hints()) to manifest/slack.yaml"
    )
