"""Make every AWS call: clients, bounded retries, counting, pricing, limits.

A check that answers are whole.
"""

from __future__ import annotations

import math
import os
import re
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from functools import cache, cached_property, partial
from pathlib import Path
from threading import Lock
from typing import Any, TypeVar

import boto3
from botocore.config import Config
from botocore.credentials import Credentials
from botocore.exceptions import BotoCoreError
from botocore.parsers import ResponseParserError
from botocore.session import get_session

from adapters.aws.api.operations import (
    ACTING,
    DETAIL_RANK,
    Operation,
    Place,
    changing,
    declared_as,
    grants,
    home_of,
    operations,
    price_of,
    stops_at,
)
from adapters.aws.api.outcomes import (
    FAILURES,
    CallCounts,
    CallState,
    CallStates,
    Standing,
    TimedOut,
    UsageMeter,
    code_of,
    exposition,
    refused_by,
    state_of,
    with_timeout,
)
from adapters.aws.api.promql import OTEL, OTEL_STORE, SERVICES, PrometheusServer, PromqlClient
from adapters.aws.api.responses import ResponseHistory, instant_of
from bot.errors import Refused, Unavailable, WrongInput
from bot.model.codec import table
from bot.ports import Clock

ATTEMPTS = 6
CALL_TIMEOUT_SECONDS = 45.0
"""How long one call may take, retries and all."""
WORKERS = 4
"""Calls under way at a time: enough to hide the network, below CloudWatch's 50 a second by far."""
TOKENS = {
    "NextContinuationToken": "ContinuationToken",
    "NextPageToken": "NextPageToken",
    "NextToken": "NextToken",
    "nextToken": "nextToken",
}
"""What answers call the token of their next page, and what the call for it does."""


T = TypeVar("T")
R = TypeVar("R")
_RENEWED = timedelta(minutes=5)
"""Credentials that end so soon are taken anew."""


class NoData(Unavailable):
    """Report that AWS answered well that it has no data.

    No Savings Plan, too little history for a forecast.
    """


class MalformedAnswer(Exception):
    """Report the member that an answer lacks: boto3 reads a broken body as an empty answer."""


def own_region() -> str:
    """Return the region of this process: what EKS, ECS and Lambda set, else what boto3 finds.

    boto3 reads AWS_DEFAULT_REGION and the profile, and not AWS_REGION. "" for none.
    """
    return os.environ.get("AWS_REGION") or boto3.Session().region_name or ""


class Calls:
    """Call AWS.

    Every call goes through `call` or `pages`, so that it is counted, priced, checked and reported
    alike.
    """

    def __init__(
        self,
        clock: Clock,
        *,
        daily_usd: Decimal | None = None,
        usage: Path | None = None,
        stopwatch: Callable[[], float] = time.monotonic,
        attempts: int = ATTEMPTS,
        external_id: str = "",
        server: PrometheusServer = OTEL_STORE,
    ) -> None:
        self.states = CallStates(clock)
        self.meter = UsageMeter(clock, daily_usd, usage)
        self.clock, self.stopwatch, self.until = clock, stopwatch, math.inf
        """`until`: when, by the stopwatch, nothing is waited for any more."""
        self.server = server
        """What is asked by PromQL."""
        self._attempts = attempts
        self._config = Config(
            # Standard, not adaptive: with a fifth of calls throttled adaptive's own rate limit made
            # a tick four times as long (10.8 s against 2.8 s); what is still missing after these
            # attempts is read at the next tick.
            retries={"mode": "standard", "total_max_attempts": attempts},
            connect_timeout=5,
            read_timeout=30,
            max_pool_connections=16,
            user_agent_extra="trnbot",
            parameter_validation=True,
        )
        self._external_id = external_id
        self._clients: dict[tuple[str, str, str, str], tuple[Any, datetime | None]] = {}
        self._lock = Lock()

    def call(
        self,
        place: Place,
        service: str,
        operation: str,
        *,
        units: int = 1,
        optional: int | None = None,
        **parameters: Any,
    ) -> Mapping[str, Any]:
        """Return one answer; raise `Unavailable` with one sentence where there is none.

        `optional` says how soon the budget stops this one, where that is not as declared of the
        operation.
        """
        declared = operations().get((service, operation)) or changing()[service, operation]
        rank = declared.optional if optional is None else optional
        if not self.meter.leaves(rank):
            self.meter.count(CallCounts(stopped=Counter({declared.action: 1})))
            share = f"{stops_at(rank)} % of " if rank > 1 else ""
            raise Unavailable(
                f"{declared.title} in {place} is not asked: {share}today's budget of"
                f" ${self.meter.budget} for the bot's own AWS calls is spent."
            )
        where, refused = str(place), ""
        wait = min(CALL_TIMEOUT_SECONDS, self.until - self.stopwatch())
        if wait <= 0:
            raise Unavailable(
                f"{declared.title} in {where} was not asked: this tick ran out of time before it."
            )
        try:
            answer = with_timeout(lambda: self._whole(declared, place, parameters, units), wait)
        except TimedOut:
            state, code = CallState.SLOW, f"no answer within {wait:.0f} s"
        except FAILURES as error:
            state, code, refused = state_of(error), code_of(error), refused_by(error)
            if state is CallState.WELL:
                self.states.set(Standing(declared, where, state))
                raise NoData(f"{declared.title} has nothing to say ({code}).") from error
            if state is CallState.EXPIRED:
                with self._lock:
                    for key in [key for key in self._clients if key[2] == place.role]:
                        del self._clients[key]
        except MalformedAnswer as error:
            state, code = CallState.BROKEN, f"an answer without {error}"
        else:
            self.states.set(Standing(declared, where, CallState.WELL))
            return answer

        # All that failed is told, counted and raised in the same words.
        standing = Standing(declared, where, state, code, refused)
        self.states.set(standing)
        self.meter.count(
            CallCounts(
                failed=Counter({declared.action: 1}), throttled=int(state is CallState.THROTTLED)
            )
        )
        failure = Refused if state is CallState.DENIED else Unavailable
        raise failure(standing.problem)

    def pages(
        self,
        place: Place,
        service: str,
        operation: str,
        *,
        units: int = 1,
        optional: int | None = None,
        **parameters: Any,
    ) -> Iterator[Mapping[str, Any]]:
        """Yield every page, of the declared size; raise `Unavailable` where one fails.

        Who takes all has all or nothing.
        """
        parameters = {**operations()[service, operation].page, **parameters}

        # A token that comes again would lead round in a circle.
        token: dict[str, str] = {}
        while True:
            page = self.call(
                place, service, operation, units=units, optional=optional, **parameters, **token
            )
            yield page
            following = next(
                ({name: str(page[called])} for called, name in TOKENS.items() if page.get(called)),
                {},
            )
            if not following or following == token:
                return
            token = following

    def download(
        self, place: Place, bucket: str, key: str, path: Path, what: str, **options: Any
    ) -> None:
        """Write an object of S3 into a file.

        Raise `Unavailable` where there is none, and where it breaks off on the way, as `what` says.
        """
        answer = self.call(place, "s3", "get_object", Bucket=bucket, Key=key, **options)
        try:
            with path.open("wb") as file:
                for block in answer["Body"].iter_chunks(1 << 20):
                    file.write(block)
        except (BotoCoreError, OSError) as error:
            path.unlink(missing_ok=True)
            raise Unavailable(f"{what} ({code_of(error)}).") from error

    @property
    def spent(self) -> bool:
        """Return whether the day's budget leaves no room for the details of a node."""
        return not self.meter.leaves(DETAIL_RANK)

    def refuse(self, place: Place, action: str) -> Unavailable:
        """Note that AWS was not allowed what it does in the caller's name; return that to raise."""
        declared = declared_as(action)
        assert declared
        standing = Standing(declared, str(place), CallState.DENIED, "refused by the policy")
        self.states.set(standing)
        return Unavailable(standing.problem)

    def allow(self, place: Place, under: str) -> None:
        """Note that all that AWS does under an action was allowed."""
        for grant in grants():
            declared = declared_as(grant.action)
            if grant.under == under and declared and declared.action != under:
                self.states.set(Standing(declared, str(place), CallState.WELL))

    def exposition(self) -> str:
        """Return the day's calls and their costs in Prometheus's text format."""
        return exposition(self.meter.bill())

    def _whole(
        self, declared: Operation, place: Place, parameters: Mapping[str, Any], units: int
    ) -> Mapping[str, Any]:
        """Ask again where an answer is not whole.

        Botocore takes a broken body of JSON for an empty one, of XML for an error.
        """
        ask = getattr(self._client(declared.service, place), declared.operation)
        # What changes something is asked for once, all else three times.
        for _ in range(1 if declared.policy == ACTING else 3):
            try:
                answer: Mapping[str, Any] = ask(**parameters)
            except ResponseParserError:
                answer = {}

            self.meter.count(
                CallCounts(
                    calls=Counter({declared.action: 1}),
                    units=Counter({declared.action: units}),
                    retries=int(answer.get("ResponseMetadata", {}).get("RetryAttempts", 0)),
                    usd=price_of(declared.service, declared.operation, units),
                )
            )

            if declared.member in answer:
                return answer
        raise MalformedAnswer(declared.member)

    def charge(self, service: str, operation: str, units: int) -> None:
        """Count units of a call whose size is known only after it: bytes that a query scanned."""
        charged = Counter({operations()[service, operation].action: units})
        self.meter.count(CallCounts(units=charged, usd=price_of(service, operation, units)))

    def _client(self, service: str, place: Place) -> Any:
        """Return a client: boto3's, or one of a server that is asked by PromQL."""
        region = home_of(service, place.region)
        key = (service, region, place.role, place.session)
        with self._lock:
            client, expires = self._clients.get(key, (None, None))
        if client is not None and (expires is None or expires > self.clock() + _RENEWED):
            return client

        # Keys of a role are taken anew before they end; the process's own are boto3's to renew.
        keys, expires = self._keys(place)
        with self._lock:
            client = self._opened(service, region, keys)
            # Sessions that have ended are not asked by again, as those of actions are not.
            for old, (_, end) in list(self._clients.items()):
                if end is not None and end <= self.clock():
                    del self._clients[old]
            self._clients[key] = (client, expires)
        return client

    def _keys(self, place: Place) -> tuple[dict[str, str], datetime | None]:
        """Return the keys of a place's role and their end; none for the process's own."""
        if not place.role:
            return {}, None
        session: dict[str, Any] = {
            "RoleArn": place.role,
            "RoleSessionName": place.session or "trnbot",
        }
        if self._external_id:
            session["ExternalId"] = self._external_id
        assumed = self.call(Place(place.region), "sts", "assume_role", **session)["Credentials"]
        return {
            "aws_access_key_id": assumed["AccessKeyId"],
            "aws_secret_access_key": assumed["SecretAccessKey"],
            "aws_session_token": assumed["SessionToken"],
        }, assumed["Expiration"]

    def credentials(self, place: Place) -> Any:
        """Return botocore's credentials of a place, for requests that it does not send itself."""
        return self._credentials(self._keys(place)[0])

    def _credentials(self, keys: Mapping[str, str]) -> Any:
        return Credentials(*keys.values()) if keys else self._session.get_credentials()

    @cached_property
    def _session(self) -> boto3.Session:
        """Return a session of its own: boto3's default one is not safe to share.

        Clients are opened one at a time. It reads times as aware UTC, and quickly.
        """
        inner = get_session()
        inner.register_component("data_loader", _loader())
        inner.get_component("response_parser_factory").set_parser_defaults(
            timestamp_parser=instant_of
        )
        return boto3.Session(botocore_session=inner)

    def _opened(self, service: str, region: str, keys: Mapping[str, str]) -> Any:
        boto_client = partial(self._session.client, region_name=region, config=self._config, **keys)
        if service not in SERVICES:
            return boto_client(service)

        url = boto_client("cloudwatch").meta.endpoint_url if service == OTEL else self.server.url
        return PromqlClient(
            url.rstrip("/"), self.server.signer(region, self._credentials(keys)), self._attempts
        )


@dataclass
class Poller:
    """Ask AWS by `calls`, and keep what it answers."""

    calls: Calls
    responses: ResponseHistory


@cache
def _loader() -> Any:
    """Return the one reader of botocore's service models.

    Each takes a good part of a second to parse.
    """
    return get_session().get_component("data_loader")


_OURS = 0.75
"""Share of a quota that the bot takes.

Dashboards and exporters of the same account and region have the rest.
"""


@cache
def limit_of(service: str, operation: str, limit: str) -> int:
    """Return one limit of an operation."""
    return next(
        int(x["most"])
        for x in table(__package__, "limits.csv")
        if (x["service"], x["operation"], x["limit"]) == (service, operation, limit)
    )


def in_time(
    work: Callable[[T], R], pieces: Sequence[T], seconds: float, name: str
) -> list[tuple[T, R | None]]:
    """Return each piece with its result, None where it is not there in time or `Unavailable`.

    The work goes on in parallel.
    """
    pool = ThreadPoolExecutor(WORKERS, thread_name_prefix=name)
    futures = [pool.submit(work, piece) for piece in pieces]
    done, _ = wait(futures, timeout=max(0.0, seconds))
    # What is under way may end after its tick: nobody takes it, and the next tick asks again.
    pool.shutdown(wait=False, cancel_futures=True)
    answered = {future for future in done if not isinstance(future.exception(), Unavailable)}
    return [
        (piece, future.result() if future in answered else None)
        for piece, future in zip(pieces, futures, strict=True)
    ]


@dataclass
class DatapointPace:
    """Spread the points asked of GetMetricData over time.

    CloudWatch counts all that a range could hold.
    """

    stopwatch: Callable[[], float]
    pause: Callable[[float], None]
    _free: dict[tuple[str, str], float] = field(default_factory=lambda: defaultdict(float))
    """When the next call of an account and region may be made, by the stopwatch."""
    _lock: Lock = field(default_factory=Lock)

    def wait(self, place: Place, points: int, age: float, deadline: float) -> bool:
        """Wait until so many points may be asked for, the oldest of that age.

        Return False where that is after the deadline.
        """
        # Older points are stored elsewhere, and CloudWatch gives fewer of them a second.
        tier = "recent" if age <= 3 * 3600 else "older"
        rate = limit_of("cloudwatch", "get_metric_data", f"{tier}_datapoints_per_second") * _OURS
        place_key = (place.account, place.region)
        with self._lock:
            current = self.stopwatch()
            begin = max(current, self._free[place_key])
            if begin >= deadline:
                return False
            self._free[place_key] = begin + points / rate
        if begin > current:
            self.pause(begin - current)
        return True


def bucket_and_prefix(address: str, what: str) -> tuple[str, str]:
    """Return the two parts of `s3://BUCKET/PREFIX`.

    Raise `WrongInput` naming `what` it should lead to.
    """
    if not (parts := re.fullmatch(r"s3://([a-z0-9.-]{3,63})(?:/(.*))?", address)):
        raise WrongInput(f"'{address}' is not an address of {what}; write s3://BUCKET/PREFIX.")
    return parts[1], parts[2] or ""
