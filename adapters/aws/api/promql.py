"""Ask Prometheus's query API.

CloudWatch's OTel store and Amazon Managed Prometheus signed, any other server without.
"""

from __future__ import annotations

import os
import random
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, urlencode

import orjson
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.exceptions import ClientError, HTTPClientError, NoCredentialsError
from botocore.httpsession import URLLib3Session
from botocore.utils import get_environ_proxies

_MANAGED = re.compile(r"https://(?:[\w-]+\.)*aps-workspaces(?:-fips)?\.([a-z0-9-]+)\.")
OTEL, MANAGED, PLAIN = "promql", "aps", "prometheus"
"""The services that are asked by PromQL.

CloudWatch's OTel store, Amazon Managed Prometheus, any other server.
"""
SERVICES = (OTEL, MANAGED, PLAIN)
_PASSING = (429, 500, 502, 503, 504)
_CODES = {401: "AuthFailure", 403: "AccessDenied", 429: "Throttling"}


@dataclass(frozen=True)
class PrometheusServer:
    """Name the server that is asked by PromQL.

    CloudWatch's OTel store of each region where no address is given.
    """

    url: str = ""
    token: str = field(default="", repr=False)
    """Shown as a bearer token to a server that is not AWS's, "" for none."""

    @property
    def service(self) -> str:
        """Return the service that calls are declared and priced under."""
        if not self.url:
            return OTEL
        return MANAGED if _MANAGED.match(self.url) else PLAIN

    @property
    def surface(self) -> str:
        """Return whose names its metrics have: `otel` or `prometheus`."""
        return "prometheus" if self.url else "otel"

    def __str__(self) -> str:
        """Read as people call it."""
        return {OTEL: "CloudWatch's OTel store", MANAGED: "Amazon Managed Prometheus"}.get(
            self.service, f"Prometheus at {self.url}"
        )

    def signer(self, region: str, credentials: Any) -> Callable[[AWSRequest], None]:
        """Return the signature that tells the server who asks.

        A signature for AWS's own, a token for another.
        """
        if self.service == PLAIN:

            def show_token(request: AWSRequest) -> None:
                if self.token:
                    request.headers["Authorization"] = f"Bearer {self.token}"

            return show_token
        if credentials is None:
            raise NoCredentialsError
        managed = _MANAGED.match(self.url)
        service, where = (MANAGED, managed[1]) if managed else ("monitoring", region)
        return lambda request: SigV4Auth(credentials, service, where).add_auth(request)


OTEL_STORE = PrometheusServer()


@dataclass
class PromqlClient:
    """Ask one server; the methods are called as those of boto3's clients are.

    Fail as they do.
    """

    url: str
    sign: Callable[[AWSRequest], None]
    attempts: int
    pause: Callable[[float], None] = time.sleep

    def __post_init__(self) -> None:
        """Open a pool of connections."""
        self._session = URLLib3Session(
            verify=os.environ.get("AWS_CA_BUNDLE") or True,
            proxies=get_environ_proxies(self.url),
            timeout=(5, 30),
            max_pool_connections=16,
        )

    def query_range(self, **parameters: Any) -> Mapping[str, Any]:
        """Return the values of an expression at each step of a time."""
        return self._ask("query_range", "POST", "/api/v1/query_range", parameters)

    def query(self, **parameters: Any) -> Mapping[str, Any]:
        """Return the values of an expression at one time."""
        return self._ask("query", "POST", "/api/v1/query", parameters)

    def label_values(self, *, label: str, **parameters: Any) -> Mapping[str, Any]:
        """Return the values of a label among the series that some selectors match."""
        return self._ask(
            "label_values", "GET", f"/api/v1/label/{quote(label, safe='')}/values", parameters
        )

    def _ask(
        self, operation: str, method: str, path: str, parameters: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        """Return an answer; raise `ClientError` for a refusal, as boto3's clients do."""
        form = urlencode(parameters, doseq=True)
        for attempt in range(self.attempts):
            if method == "POST":
                headers = {"Content-Type": "application/x-www-form-urlencoded"}
                request = AWSRequest(method, self.url + path, headers=headers, data=form)
            else:
                request = AWSRequest(method, f"{self.url}{path}?{form}")
            self.sign(request)
            try:
                response = self._session.send(request.prepare())
            except HTTPClientError:
                if attempt + 1 == self.attempts:
                    raise
            else:
                if response.status_code not in _PASSING or attempt + 1 == self.attempts:
                    return _answer(operation, response, attempt)
            self.pause(random.uniform(0, min(20.0, 2.0**attempt)))  # noqa: S311 - not for secrets
        raise AssertionError("asked no time at all")


def _answer(operation: str, response: Any, retries: int) -> Mapping[str, Any]:
    """Return the members of an answer, none of a body that is no JSON."""
    try:
        parsed = orjson.loads(response.content)
    except orjson.JSONDecodeError:
        parsed = {}
    answer: dict[str, Any] = parsed if isinstance(parsed, dict) else {}
    if response.status_code == 200 and answer.get("status") != "error":
        return {**answer, "ResponseMetadata": {"RetryAttempts": retries}}

    # AWS names its error in a header or in `__type`, Prometheus in `errorType`.
    kind = response.headers.get("x-amzn-errortype") or answer.get("__type")
    code = str(kind or answer.get("errorType") or "").partition(":")[0].rpartition("#")[2]
    if not code or code == "unauthorized":
        code = _CODES.get(response.status_code, "") or f"HTTP {response.status_code}"
    raise ClientError({"Error": {"Code": code}}, operation)
