"""Call Slack's Web API: with patience, and with an error of Slack's SDK whatever answers in Slack's place."""

from __future__ import annotations

from typing import Any

from aiohttp import ClientConnectorError
from slack_sdk.errors import SlackRequestError
from slack_sdk.http_retry.builtin_async_handlers import AsyncConnectionErrorRetryHandler
from slack_sdk.web.async_client import AsyncWebClient

from adapters.slack.patience import Patience
from adapters.slack.redact import sdk_logger
from bot.model.delays import Delays


class Client(AsyncWebClient):
    """Be the SDK's client, which trips over a proxy's page in plain text."""

    async def api_call(self, api_method: str, **asked: Any) -> Any:
        """Call a method; raise `SlackRequestError` where the answer is none of Slack's."""
        try:
            return await super().api_call(api_method, **asked)
        except (AttributeError, TypeError, ValueError) as error:
            raise SlackRequestError(f"What answered {api_method} is not Slack ({type(error).__name__}).") from None


def open_client(bot_token: str, api_url: str, delays: Delays | None) -> AsyncWebClient:
    """Return a client that tries again only what surely never arrived, and waits as long as a 429 says.

    Without `delays` it does not wait: an alert goes without its picture rather than later.
    """
    patient = [Patience(delays)] if delays else []
    return Client(
        token=bot_token or None,
        base_url=f"{(api_url or AsyncWebClient.BASE_URL).rstrip('/')}/",
        logger=sdk_logger(),
        retry_handlers=[*patient, AsyncConnectionErrorRetryHandler(max_retry_count=2, error_types=[ClientConnectorError])],
    )
