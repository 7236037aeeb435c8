"""Classify the failures of AWS calls, bound the time of a call, and log each change of state once."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from queue import Empty, SimpleQueue
from threading import Lock, Thread
from typing import NoReturn, TypeVar

from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    CredentialRetrievalError,
    NoCredentialsError,
    PartialCredentialsError,
    RefreshWithMFAUnsupportedError,
    SSOError,
    TokenRetrievalError,
    UnknownCredentialError,
)

from adapters.aws.api.operations import Operation
from bot.ports import Clock

log = logging.getLogger("trnbot.aws")


class CallState(StrEnum):
    """Name how a call ended."""

    WELL = "well"
    DENIED = "denied"
    EXPIRED = "without valid credentials"
    THROTTLED = "throttled"
    BROKEN = "broken"
    SLOW = "slow"


_STATES = {
    CallState.WELL: ("DataUnavailable",),
    CallState.DENIED: (
        "AccessDenied",
        "KMS.",
        "UnauthorizedOperation",
        "OptInRequired",
        "SubscriptionRequired",
    ),
    CallState.EXPIRED: (
        "ExpiredToken",
        "RequestExpired",
        "InvalidClientTokenId",
        "UnrecognizedClient",
        "AuthFailure",
        "SignatureDoesNotMatch",
        "InvalidAccessKeyId",
    ),
    CallState.THROTTLED: (
        "Throttl",
        "RequestLimitExceeded",
        "TooManyRequests",
        "SlowDown",
        "PriorRequestNotComplete",
    ),
}
_PASSING = {CallState.THROTTLED, CallState.BROKEN, CallState.SLOW}
_SETTLED = timedelta(minutes=1)
_UNPROVEN = (
    NoCredentialsError,
    PartialCredentialsError,
    CredentialRetrievalError,
    TokenRetrievalError,
    UnknownCredentialError,
    RefreshWithMFAUnsupportedError,
    SSOError,
)
"""What botocore raises where no credentials can be had, without a word of AWS.

A login that ended, a provider that fails.
"""
FAILURES = (BotoCoreError, ClientError, OSError)
"""What a call may raise.

Their texts may carry addresses, ids and tokens, so only codes and class names are passed on.
"""


def state_of(error: Exception) -> CallState:
    """Return the kind of failure that an error is."""
    if isinstance(error, _UNPROVEN):
        return CallState.EXPIRED
    code = code_of(error)
    return next(
        (state for state, codes in _STATES.items() if code.startswith(codes)), CallState.BROKEN
    )


def code_of(error: Exception) -> str:
    """Return AWS's error code, or the class of the failure."""
    if isinstance(error, ClientError):
        return str(error.response.get("Error", {}).get("Code", "")) or type(error).__name__
    return type(error).__name__


def sentence(declared: Operation, where: str, state: CallState, code: str) -> str:
    """Return a sentence that names the failed call, its place, and the remedy."""
    again = "within the hour" if declared.optional else "at the next tick"
    sealed = (
        ", and kms:Decrypt of the key where the bucket is sealed with SSE-KMS"
        if declared.action == "s3:GetObject"
        else ""
    )
    remedy = {
        CallState.DENIED: f"allow {' and '.join(declared.allowed) or 'the bot there'} (deploy/iam-policy.json){sealed}",
        CallState.EXPIRED: "renew the credentials",
        CallState.THROTTLED: f"it is read again {again}",
    }.get(state, f"it is tried again {again}")
    return f"{declared.title} in {where} is {state} ({code}); {remedy}."


@dataclass
class CallStates:
    """Remember how each part (place and operation) stands.

    A change is logged, its repetition is not.

    Throttled, broken and slow are one trouble that passes by itself: going from one to the other is
    no news. A part has recovered when it answers and has not failed for a minute: of several calls
    of a tick some may fail.
    """

    clock: Clock
    _failed: dict[tuple[str, str], datetime] = field(default_factory=dict)
    _now: dict[tuple[str, str], tuple[CallState, str]] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)

    def set(self, declared: Operation, where: str, state: CallState, problem: str = "") -> None:
        """Take note of how a call ended."""
        key, now = (declared.name, where), self.clock()
        with self._lock:
            before = self._now.get(key, (CallState.WELL, ""))[0]
            if (
                state is CallState.WELL
                and now - self._failed.get(key, datetime.min.replace(tzinfo=UTC)) < _SETTLED
            ):
                return
            self._now[key] = (state, problem)
            if state is not CallState.WELL:
                self._failed[key] = now
        if state is before or {state, before} <= _PASSING:
            return
        if state is CallState.WELL:
            log.info("%s in %s has recovered (it was %s).", declared.title, where, before)
        else:
            log.warning("%s", problem)

    def troubles(self) -> tuple[str, ...]:
        """Return the sentence of every part that does not stand well."""
        with self._lock:
            return tuple(
                problem
                for _, (state, problem) in sorted(self._now.items())
                if state is not CallState.WELL
            )


Returned = TypeVar("Returned")


class TimedOut(Exception):
    """Report that no answer came in time."""


def with_timeout(ask: Callable[[], Returned], seconds: float) -> Returned:
    """Return or raise as `ask` does; raise `TimedOut` where it has done neither after `seconds`."""
    if math.isinf(seconds):
        return ask()
    outcomes: SimpleQueue[Callable[[], Returned]] = SimpleQueue()

    def run() -> None:
        try:
            answer = ask()
        except BaseException as error:
            outcomes.put(_raising(error))
        else:
            outcomes.put(lambda: answer)

    # Not a pool: the interpreter waits for a pool's threads before it ends, and a dead connection
    # would hold it up.
    Thread(target=run, name="aws", daemon=True).start()
    try:
        answer = outcomes.get(timeout=max(0.0, seconds))
    except Empty:
        raise TimedOut from None
    return answer()


def _raising(error: BaseException) -> Callable[[], NoReturn]:
    def fail() -> NoReturn:
        raise error

    return fail
