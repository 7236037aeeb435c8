"""Hold how the Slack app is set up, and refuse a setup that cannot work."""

from __future__ import annotations

from dataclasses import dataclass

from bot.errors import WrongInput

REDIRECT_PATH = "/slack/oauth_redirect"
INSTALLATIONS = "slack.installations"
"""The collection of documents that hold the workspaces' bot tokens: secrets, which the store seals."""


@dataclass(frozen=True)
class SlackConfig:
    """Hold one app's tokens and addresses.

    Raise `WrongInput` where neither Socket Mode nor signed HTTP is possible.
    """

    bot_token: str = ""
    app_token: str = ""
    signing_secret: str = ""
    api_url: str = ""
    """The Web API's address, "" for Slack's own."""
    client_id: str = ""
    """The app's id for OAuth; with it, workspaces install the app, and no bot token is needed."""
    client_secret: str = ""
    workspaces: tuple[str, ...] = ()
    """Who may install; an address without a workspace means the first of them."""
    public_url: str = ""
    interval_s: float = 1.0
    """Seconds between two messages of one channel."""

    def __post_init__(self) -> None:
        """Refuse a missing or mistaken token by the name of its variable."""
        if not self.client_id and not self.bot_token.startswith("xox"):
            raise WrongInput(
                "SLACK_BOT_TOKEN is missing or no bot token; copy it from the app's page, it begins with xoxb-."
            )
        if self.app_token and not self.app_token.startswith("xapp-"):
            raise WrongInput(
                "SLACK_APP_TOKEN is no app token; it begins with xapp- and needs the scope connections:write."
            )
        if not self.app_token and not self.signing_secret:
            raise WrongInput(
                "Set SLACK_APP_TOKEN for Socket Mode, or SLACK_SIGNING_SECRET to serve Slack's requests over HTTP."
            )

    def __repr__(self) -> str:
        """Show no secret."""
        return f"SlackConfig({self.client_id or 'one workspace'})"

    @property
    def redirect_uri(self) -> str:
        """Return the address that Slack sends people back to after OAuth, "" for the one set on the app's page."""
        return f"{self.public_url.rstrip('/')}{REDIRECT_PATH}" if self.public_url else ""
