"""Say what an AWS call ran into, in one sentence without secrets, and log each change of state once."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from threading import Lock

from botocore.exceptions import BotoCoreError, ClientError, NoCredentialsError, PartialCredentialsError

from adapters.aws.live.operations import Operation
from bot.ports import Clock

log = logging.getLogger("trnbot.aws")


class State(StrEnum):
    """Name how a call ended."""

    WELL = "well"
    DENIED = "denied"
    EXPIRED = "without valid credentials"
    THROTTLED = "throttled"
    BROKEN = "broken"
    SLOW = "slow"


_STATES = {
    State.WELL: ("DataUnavailable",),
    State.DENIED: ("AccessDenied", "UnauthorizedOperation", "OptInRequired", "SubscriptionRequired"),
    State.EXPIRED: (
        "ExpiredToken",
        "RequestExpired",
        "InvalidClientTokenId",
        "UnrecognizedClient",
        "AuthFailure",
        "SignatureDoesNotMatch",
        "InvalidAccessKeyId",
    ),
    State.THROTTLED: ("Throttl", "RequestLimitExceeded", "TooManyRequests", "SlowDown", "PriorRequestNotComplete"),
}
_PASSING = {State.THROTTLED, State.BROKEN, State.SLOW}
_SETTLED = timedelta(minutes=1)
FAILURES = (BotoCoreError, ClientError, OSError)
"""What a call may raise. Their texts may carry addresses, ids and tokens, so only codes and class names are passed on."""


def state_of(error: Exception) -> State:
    """Return what kind of failure an error is."""
    if isinstance(error, NoCredentialsError | PartialCredentialsError):
        return State.EXPIRED
    code = code_of(error)
    return next((state for state, codes in _STATES.items() if code.startswith(codes)), State.BROKEN)


def code_of(error: Exception) -> str:
    """Return AWS's error code, or the class of the failure."""
    if isinstance(error, ClientError):
        return str(error.response.get("Error", {}).get("Code", "")) or type(error).__name__
    return type(error).__name__


def sentence(declared: Operation, where: str, state: State, code: str) -> str:
    """Say what failed where, and what to do."""
    remedy = {
        State.DENIED: f"allow {declared.action} (deploy/iam-policy.json)",
        State.EXPIRED: "renew the credentials",
        State.THROTTLED: "it is read again at the next tick",
    }.get(state, "it is tried again at the next tick")
    return f"AWS {declared.name} in {where} is {state} ({code}); {remedy}."


@dataclass
class States:
    """Remember how each part (place and operation) stands; a change is logged, its repetition is not.

    Throttled, broken and slow are one trouble that passes by itself: going from one to the other is no news. A part has
    recovered when it answers and has not failed for a minute: of several calls of a tick some may fail.
    """

    clock: Clock
    _failed: dict[tuple[str, str], datetime] = field(default_factory=dict)
    _now: dict[tuple[str, str], tuple[State, str]] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)

    def set(self, declared: Operation, where: str, state: State, said: str = "") -> None:
        """Take note of how a call ended."""
        key, now = (declared.name, where), self.clock()
        with self._lock:
            before = self._now.get(key, (State.WELL, ""))[0]
            if state is State.WELL and now - self._failed.get(key, datetime.min.replace(tzinfo=UTC)) < _SETTLED:
                return
            self._now[key] = (state, said)
            if state is not State.WELL:
                self._failed[key] = now
        if state is before or {state, before} <= _PASSING:
            return
        if state is State.WELL:
            log.info("AWS %s in %s has recovered (it was %s).", declared.name, where, before)
        else:
            log.warning("%s", said)

    def troubles(self) -> tuple[str, ...]:
        """Return the sentence of every part that does not stand well."""
        with self._lock:
            return tuple(said for _, (state, said) in sorted(self._now.items()) if state is not State.WELL)
