"""Which addresses the bot may answer to, and which tenants it serves."""

from __future__ import annotations

import pytest

from adapters.chat.config import TeamsConfig, is_loopback, on_loopback
from bot.errors import WrongInput
from tests.cases import in_one_run

APP = {"app_id": "id", "app_password": "p", "tenant_id": "t"}


@in_one_run
@pytest.mark.parametrize(
    ("host", "loopback"),
    [
        ("localhost", True),
        ("127.0.0.1", True),
        ("127.9.9.9", True),
        ("::1", True),
        ("[::1]", True),
        ("10.0.0.1", False),
        ("localhost.example", False),
        ("", False),
    ],
)
def test_a_loopback_host_is_known(host: str, loopback: bool) -> None:
    assert is_loopback(host) is loopback
    shown = f"[{host}]" if host == "::1" else host
    assert on_loopback(f"http://{shown}:3978/x") is loopback


@in_one_run
@pytest.mark.parametrize(
    ("url", "served"),
    [
        ("https://smba.trafficmanager.net/emea/", True),
        ("https://smba.trafficmanager.net:443/emea/", True),
        ("https://europe.botframework.com", True),
        ("https://a.b.teams.microsoft.com", True),
        ("http://smba.trafficmanager.net", False),
        ("https://smba.trafficmanager.net:8443", False),
        ("https://evil.smba.trafficmanager.net", False),
        ("https://botframework.com", False),
        ("https://evilbotframework.com", False),
        ("https://smba.trafficmanager.net@evil.example", False),
        ("https://smba.trafficmanager.net\\.evil.example", False),
        ("https://evil.example/smba.trafficmanager.net", False),
        ("https://x.botframework.com /", False),
        ("https://[x", False),
        ("http://127.0.0.1:3978", False),
    ],
)
def test_only_microsofts_addresses_are_answered_to(url: str, served: bool) -> None:
    assert TeamsConfig(**APP).serves(url) is served
    assert TeamsConfig(development=True).serves(url) is on_loopback(url)
    assert TeamsConfig(**APP, development=True).serves(url) is (served or on_loopback(url))


def test_the_tenants_that_are_served() -> None:
    assert TeamsConfig(**APP, tenants=("u", "")).served_tenants == {"t", "u"}
    assert TeamsConfig(**APP, tenants=("*",)).served_tenants is None
    assert TeamsConfig(development=True, tenant_id="t").served_tenants is None


@in_one_run
@pytest.mark.parametrize("missing", ["app_id", "app_password"])
def test_who_could_prove_itself_to_nobody_is_refused(missing: str) -> None:
    with pytest.raises(WrongInput, match="MicrosoftApp"):
        TeamsConfig(**{**APP, missing: ""})
    assert TeamsConfig(**{**APP, "app_id": ""}, development=True)
