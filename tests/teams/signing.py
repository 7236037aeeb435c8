"""Sign as Microsoft does: its service of keys and tokens, and tokens as the Bot Connector writes them."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field, replace
from typing import Any

import jwt
from aiohttp import web
from cryptography.hazmat.primitives.asymmetric import rsa

from adapters.chat.config import PUBLIC, Cloud

APP = "11111111-2222-3333-4444-555555555555"
SECRET = "s3cr3t-value"
ISSUER = "https://api.botframework.com"
KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)
OTHER = rsa.generate_private_key(public_exponent=65537, key_size=2048)


@dataclass
class Login:
    """Play Microsoft's key and token service."""

    url: str = ""
    asked: list[str] = field(default_factory=list)
    down: bool = False
    refuses: bool = False
    endorsements: list[str] = field(default_factory=lambda: ["msteams"])

    async def configuration(self, request: web.Request) -> web.Response:
        self.asked.append("configuration")
        return (
            web.Response(status=500)
            if self.down
            else web.json_response({"jwks_uri": f"{self.url}/keys"})
        )

    async def keys(self, request: web.Request) -> web.Response:
        key = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(KEY.public_key()))
        return web.json_response({"keys": [key | {"kid": "k1", "endorsements": self.endorsements}]})

    async def token(self, request: web.Request) -> web.Response:
        form = await request.post()
        self.asked.append(
            f"token {form['client_id']} {form['client_secret']} {request.match_info['tenant']}"
        )
        if self.refuses:
            return web.json_response(
                {"error": "invalid_client", "error_description": f"bad {SECRET}"}, status=401
            )
        return web.json_response({"access_token": "bearer-of-the-bot", "expires_in": 3600})


def cloud(login: Login) -> Cloud:
    keys = f"{login.url}/configuration"
    return replace(
        PUBLIC,
        channel_keys=keys,
        emulator_keys=keys,
        login=login.url,
        services=("http://127.0.0.1",),
    )


def token(
    bot: Any, *, key: Any = KEY, algorithm: str = "RS256", kid: str = "k1", **claims: Any
) -> str:
    """Return a token as the Bot Connector writes it, unless told otherwise."""
    now = int(time.time())
    usual = {
        "iss": ISSUER,
        "aud": APP,
        "nbf": now - 60,
        "exp": now + 600,
        "serviceurl": bot.service_url,
    }
    return jwt.encode(usual | claims, key, algorithm=algorithm, headers={"kid": kid})
