"""Know who asks the console: by a provider of OpenID Connect, a trusted proxy, or a program's token."""

from __future__ import annotations

import hmac
import ipaddress
import json
import re
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from bot.errors import NotAllowed, Unavailable, WrongInput
from bot.model.request import GROUP, PROGRAM, UNNAMED, Role, RoleRule, User
from bot.ports.stores import Documents, DocumentStore

if TYPE_CHECKING:
    from aiohttp import web
    from authlib.integrations.requests_client import OAuth2Session

READER = User("web:local", UNNAMED)
"""Whoever opens a console that asks nobody who they are, or shows the token that all share."""
METRICS = "metrics"
"""The scope of a token that reads the counters and the health, and nothing else."""
SCOPES = (METRICS, "reader", "member", "admin")
"""What a program's token may do: its role, or less."""
_ROLES = {METRICS: Role.READER, "reader": Role.READER, "member": Role.ANYONE, "admin": Role.ADMIN}
_SEEN_BY_METRICS = ("/metrics", "/healthz")
_NAME = re.compile(r"[^\s\x00-\x1f\x7f,;=]{1,200}")
"""How a person may be called: what could begin another rule or line is no name."""
_PROVIDER_S = 10
"""Seconds that a provider has to answer."""
_DISCOVERED_S = 3_600.0
"""How long what a provider says of itself is believed; its keys are asked anew when one is new."""
_SIGNED_BY = ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512"]
"""Signatures by a key that only the provider has; a shared secret or none proves nothing."""

Networks = tuple[ipaddress.IPv4Network | ipaddress.IPv6Network, ...]


@dataclass(frozen=True)
class Visitor:
    """Hold who asks, whose share of the bot that uses, and how many lines a minute it has."""

    user: User
    share: str
    lines: int | None = None
    """None for what the site allows everybody."""
    scope: str = ""
    """Of a program's token; "" for a person."""

    def sees(self, path: str) -> bool:
        """Return whether the scope reaches a path."""
        return self.scope != METRICS or path in _SEEN_BY_METRICS


@dataclass(frozen=True)
class Roles:
    """Say the role of a person by name and groups; without a rule everybody known is a member."""

    rules: Sequence[RoleRule] = ()

    def of(self, name: str, groups: Sequence[str]) -> Role | None:
        """Return the highest role that a rule gives, None where none gives any."""
        if not self.rules:
            return Role.ANYONE
        names = {name.lower(), "*", *(f"{GROUP}{group.lower()}" for group in groups)}
        granted = [rule.role for rule in self.rules if rule.who in names]
        return max(granted, key=(Role.READER, Role.ANYONE, Role.ADMIN).index, default=None)

    def user(self, name: str, shown: str, groups: Sequence[str]) -> User:
        """Return the person under the console's address; raise `NotAllowed` for no role."""
        if (
            not _NAME.fullmatch(name)
            or name.lower() == "local"
            or name.lower().startswith("token-")
        ):
            raise NotAllowed(f"{name[:40]!r} cannot be the name of a person; nobody is signed in.")
        role = self.of(name, groups)
        if role is None:
            raise NotAllowed(
                f"{name} is known, and has no role here; an admin adds one to TRNBOT_WEB_ROLES."
            )
        email = name.lower() if "@" in name else ""
        return User(f"web:{name.lower()}", shown or name, role, email)


@dataclass(frozen=True)
class Proxy:
    """Trust headers of a proxy that has signed people in, by the address that it connects from."""

    networks: Networks
    user: str
    """The header that names the person."""
    groups: str
    """The header that names their groups, a comma list."""

    def trusts(self, address: str) -> bool:
        """Return whether this is the address of the proxy."""
        try:
            ip = ipaddress.ip_address(address)
        except ValueError:
            return False
        return any(ip in network for network in self.networks)

    def stranger(self, request: web.Request) -> str:
        """Return the address that names a person and is not trusted, "" where there is none."""
        address = request.remote or ""
        return address if self.user in request.headers and not self.trusts(address) else ""

    def named(self, request: web.Request, roles: Roles) -> User | None:
        """Return whom the proxy names, None for nobody; raise `NotAllowed` for no role."""
        # A header that came twice was sent by the browser too, and one of them is not the proxy's.
        names = request.headers.getall(self.user, [])
        if not self.trusts(request.remote or "") or len(names) != 1 or not names[0].strip():
            return None
        groups = [
            group.strip()
            for value in request.headers.getall(self.groups, [])
            for group in value.split(",")
        ]
        return roles.user(names[0].strip(), "", groups)

    def origin(self, request: web.Request) -> str:
        """Return the address that a request came from, before the proxies that are trusted."""
        hops = ",".join(request.headers.getall("X-Forwarded-For", [])).split(",")
        address = request.remote or ""
        for hop in reversed([hop.strip() for hop in hops if hop.strip()]):
            if not self.trusts(address):
                break
            address = hop
        return address


@dataclass(frozen=True)
class ProgramToken:
    """Hold what the database keeps of one program's token: of its secret only the digest."""

    digest: str
    scope: str
    until: datetime
    lines: int
    made: datetime
    by: str


TOKENS = Documents("web.tokens", ProgramToken)
_TOKEN = re.compile(r"trnbot_([a-z0-9-]{1,40})_([0-9a-f]{64})", re.ASCII)


def make_token(
    documents: DocumentStore, name: str, token: ProgramToken, *, replaces: bool = False
) -> str:
    """Write a token under its name and return it, the only time that it is seen.

    Raises `WrongInput` for a name that is taken, or for another scope.
    """
    if not re.fullmatch(r"[a-z0-9-]{1,40}", name):
        raise WrongInput(
            f"'{name[:40]}' is not a name for a token; write small letters, digits and '-'."
        )
    if token.scope not in SCOPES:
        raise WrongInput(f"'{token.scope}' is not a scope of a token; write {', '.join(SCOPES)}.")
    if not replaces and TOKENS.get(documents, name):
        raise WrongInput(f"There is a token '{name}' already; revoke it, or choose another name.")
    secret = secrets.token_hex(32)
    TOKENS.put(documents, name, replace(token, digest=_digest(secret)))
    return f"trnbot_{name}_{secret}"


def token_visitor(documents: DocumentStore, shown: str, seconds: float) -> Visitor | None:
    """Return the program of a token, None where it is unknown or over."""
    match = _TOKEN.fullmatch(shown)
    token = TOKENS.get(documents, match[1]) if match else None
    if match is None or token is None or not hmac.compare_digest(token.digest, _digest(match[2])):
        return None
    if token.until.timestamp() < seconds:
        return None
    user = User(f"{PROGRAM}{match[1]}", match[1], _ROLES[token.scope])
    return Visitor(user, f"{PROGRAM}{match[1]}", token.lines, token.scope)


def is_token(shown: str) -> bool:
    """Return whether a secret has the form of a program's token."""
    return _TOKEN.fullmatch(shown) is not None


def _digest(secret: str) -> str:
    # Its 256 random bits are not to be guessed, so one round is enough.
    return sha256(secret.encode()).hexdigest()


@dataclass(frozen=True)
class OidcConfig:
    """Name the provider that signs people in, and the claims that say who they are."""

    issuer: str
    client_id: str
    secret: str = field(repr=False)
    claim: str = "email"
    groups: str = "groups"


@dataclass(frozen=True)
class SigningIn:
    """Hold what the browser that began a sign-in keeps until the provider sends it back."""

    state: str
    nonce: str
    verifier: str
    target: str


class OidcProvider:
    """Sign people in by OpenID Connect's authorization code with PKCE; every method may block."""

    def __init__(self, config: OidcConfig, seconds: Callable[[], float] = time.monotonic) -> None:
        self._config, self._seconds = config, seconds
        self._discovered: tuple[float, Mapping[str, Any]] | None = None

    def begin(self, back: str, target: str) -> tuple[str, SigningIn]:
        """Return the provider's address to send a browser to, and what it keeps meanwhile.

        Raises `Unavailable` where the provider does not answer.
        """
        begun = SigningIn(
            secrets.token_urlsafe(24), secrets.token_urlsafe(24), secrets.token_urlsafe(48), target
        )
        with self._session(back) as session:
            address, _ = session.create_authorization_url(
                self._about(session)["authorization_endpoint"],
                state=begun.state,
                nonce=begun.nonce,
                code_verifier=begun.verifier,
            )
        return str(address), begun

    def finish(self, back: str, code: str, begun: SigningIn) -> tuple[str, str, tuple[str, ...]]:
        """Return name, name to show and groups of who was signed in.

        Raises `NotAllowed` for a token that proves nothing, `Unavailable` for a silent provider.
        """
        from authlib.common.errors import AuthlibBaseError
        from authlib.oidc.core import CodeIDToken
        from joserfc import errors, jwk, jwt
        from requests import RequestException

        config = self._config
        try:
            with self._session(back) as session:
                about = self._about(session)
                answer = session.fetch_token(
                    about["token_endpoint"],
                    code=code,
                    code_verifier=begun.verifier,
                    timeout=_PROVIDER_S,
                )
                keys = session.get(about["jwks_uri"], withhold_token=True, timeout=_PROVIDER_S)
                read = jwt.decode(
                    str(answer["id_token"]), jwk.KeySet.import_key_set(keys.json()), _SIGNED_BY
                )
            claims = CodeIDToken(
                read.claims,
                read.header,
                {
                    "iss": {"essential": True, "value": about["issuer"]},
                    "aud": {"essential": True, "value": config.client_id},
                },
                {
                    "nonce": begun.nonce,
                    "client_id": config.client_id,
                    "access_token": answer.get("access_token"),
                },
            )
            claims.validate(leeway=60)
        except RequestException as error:
            raise self._silent(error) from error
        except (AuthlibBaseError, errors.JoseError, KeyError, ValueError) as error:
            raise NotAllowed(
                f"The provider's answer does not prove who you are ({type(error).__name__}); sign in again."
            ) from error
        return self._named(claims)

    def _named(self, claims: Mapping[str, Any]) -> tuple[str, str, tuple[str, ...]]:
        config, name = self._config, str(claims.get(self._config.claim) or "")
        if not name:
            raise NotAllowed(
                f"The provider says no '{config.claim}' of you;"
                " TRNBOT_OIDC_CLAIM names the claim that says who a person is."
            )
        # Whoever may write an address into their own account would be whom they like.
        if config.claim == "email" and claims.get("email_verified") is not True:
            raise NotAllowed(
                "The provider does not say that your address is verified;"
                " set TRNBOT_OIDC_CLAIM to a claim that people cannot change, such as sub."
            )
        groups = claims.get(config.groups) or ()
        listed = (groups,) if isinstance(groups, str) else tuple(map(str, groups))
        return name, str(claims.get("name") or ""), listed

    def _session(self, back: str) -> OAuth2Session:
        from authlib.integrations.requests_client import OAuth2Session

        config = self._config
        return OAuth2Session(
            config.client_id,
            config.secret,
            scope="openid email profile",
            redirect_uri=back,
            code_challenge_method="S256",
            default_timeout=_PROVIDER_S,
        )

    def _about(self, session: OAuth2Session) -> Mapping[str, Any]:
        """Return what the provider says of itself; raise `Unavailable`."""
        from requests import RequestException

        if self._discovered and self._seconds() - self._discovered[0] < _DISCOVERED_S:
            return self._discovered[1]
        address = f"{self._config.issuer.rstrip('/')}/.well-known/openid-configuration"
        try:
            answer = session.get(address, withhold_token=True, timeout=_PROVIDER_S)
            answer.raise_for_status()
            about: Mapping[str, Any] = answer.json()
        except (RequestException, ValueError) as error:
            raise self._silent(error) from error

        # Its own name must be the one that was asked for, or another's tokens would pass for its.
        if str(about.get("issuer", "")).rstrip("/") != self._config.issuer.rstrip("/"):
            raise Unavailable(
                f"The provider at {self._config.issuer} calls itself {about.get('issuer')!r};"
                " set TRNBOT_OIDC_ISSUER to that, if it is yours."
            )
        self._discovered = self._seconds(), about
        return about

    def _silent(self, error: Exception) -> Unavailable:
        return Unavailable(
            f"The provider at {self._config.issuer} does not answer ({type(error).__name__});"
            " try again in a minute."
        )


@dataclass(frozen=True)
class Known:
    """Hold the ways by which the console knows people; without any it asks at most for its token."""

    roles: Roles = Roles()
    proxy: Proxy | None = None
    provider: OidcProvider | None = None
    secret: bytes = field(default=b"", repr=False)
    """What signs the sessions of people where there is no shared token."""

    @property
    def any(self) -> bool:
        """Return whether people are asked who they are."""
        return bool(self.proxy or self.provider)


def packed(parts: Sequence[Any]) -> str:
    """Return some texts as one word of a cookie."""
    return json.dumps(parts, separators=(",", ":")).encode().hex()


def unpacked(word: str) -> Any:
    """Return what `packed` was given, None for another word."""
    try:
        return json.loads(bytes.fromhex(word))
    except ValueError:
        return None
