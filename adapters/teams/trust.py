"""Decide whom to believe: tokens by botbuilder's rules, every failure a refusal and never a crash."""

from __future__ import annotations

import logging
from typing import Any

from botbuilder.schema import Activity
from botframework.connector.auth import (
    AuthenticateRequestResult,
    BotFrameworkAuthentication,
    BotFrameworkAuthenticationFactory,
    ClaimsIdentity,
    ConnectorFactory,
    PasswordServiceClientCredentialFactory,
)
from botframework.connector.auth.jwt_token_extractor import JwtTokenExtractor

from adapters.teams.cloud import Cloud
from adapters.teams.connector import Connector, Wire
from adapters.teams.keys import SigningKeys
from bot.errors import Unavailable

log = logging.getLogger("trnbot.teams")


class Connectors(ConnectorFactory):  # type: ignore[misc]  # botbuilder ships no types
    """Make the connector of a service URL."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    async def create(self, service_url: str, audience: str = "") -> Connector:  # noqa: ARG002  # botbuilder passes both
        """Return a connector."""
        return Connector(self._wire, service_url)


class Trust(BotFrameworkAuthentication):  # type: ignore[misc]  # botbuilder ships no types
    """Check requests; with an empty app id (development) nobody signs, and the door lets in this machine alone."""

    def __init__(self, cloud: Cloud, app_id: str, wire: Wire) -> None:
        self._app_id = app_id
        self._wire = wire
        for url in (cloud.channel_keys, cloud.emulator_keys):
            JwtTokenExtractor.metadataCache[url] = SigningKeys(url)
        self._rules = BotFrameworkAuthenticationFactory.create(
            validate_authority=True,
            to_channel_from_bot_login_url=f"{cloud.login}/{cloud.home}",
            to_channel_from_bot_oauth_scope=cloud.scope,
            to_bot_from_channel_token_issuer=cloud.issuer,
            oauth_url=cloud.issuer,
            to_bot_from_channel_open_id_metadata_url=cloud.channel_keys,
            to_bot_from_emulator_open_id_metadata_url=cloud.emulator_keys,
            credential_factory=PasswordServiceClientCredentialFactory(app_id),
        )

    async def authenticate_request(self, activity: Activity, auth_header: str) -> AuthenticateRequestResult:
        """Return who speaks; raise `PermissionError` for whatever is wrong with the token, `Unavailable` without keys."""
        try:
            result = await self._rules.authenticate_request(activity, auth_header if self._app_id else None)
        except Unavailable:
            raise
        except Exception as error:  # botbuilder and PyJWT raise a dozen kinds for a bad token, bare Exception among them
            log.warning("teams: a request was refused: %s", type(error).__name__)
            raise PermissionError("the request carries no valid token") from None
        result.connector_factory = Connectors(self._wire)
        return result

    async def authenticate_streaming_request(
        self,
        auth_header: str,  # noqa: ARG002
        channel_id_header: str,  # noqa: ARG002
    ) -> AuthenticateRequestResult:
        """Refuse: nothing streams here."""
        raise PermissionError("streaming is not offered")

    def create_connector_factory(self, claims_identity: ClaimsIdentity) -> ConnectorFactory:  # noqa: ARG002
        """Return the factory for messages that the bot begins."""
        return Connectors(self._wire)

    async def create_user_token_client(self, claims_identity: ClaimsIdentity) -> Any:  # noqa: ARG002
        """Return nothing: nobody signs in through the bot."""
        return None
