"""Let the stand-in misbehave: each call's fate hangs on a seed, its operation and how often that was called."""

from __future__ import annotations

import json
import random
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

_CODES = {
    "throttled": "ThrottlingException",
    "denied": "AccessDeniedException",
    "expired": "ExpiredTokenException",
}
_EC2_CODES = {
    "throttled": "RequestLimitExceeded",
    "denied": "UnauthorizedOperation",
    "expired": "RequestExpired",
}
_TOKENS = ("NextToken", "nextToken", "continuation-token")


@dataclass
class Faults:
    """Say which share of calls is throttled, reset, broken off or answered with garbage; and what is denied, expired or slow."""

    throttled: float = 0.0
    reset: float = 0.0
    garbled: float = 0.0
    """A 200 without a body."""
    garbage: float = 0.0
    """A 200 with a body that is none of AWS's."""
    broken: float = 0.0
    """A 503 with a page of HTML."""
    truncated: float = 0.0
    """A body that ends half way."""
    pages: float = 0.0
    """Share of second and later pages that are throttled."""
    denied: set[str] = field(default_factory=set)
    """`ec2:DescribeVolumes`, or only `...@ACCOUNT` or `...@REGION`."""
    slow: dict[str, float] = field(default_factory=dict)
    """Seconds that an operation takes."""
    expired: bool = False
    dead: bool = False
    seed: int = 7
    _calls: Counter[str] = field(default_factory=Counter)

    def of(self, action: str, account: str, region: str, given: dict[str, Any]) -> str:
        """Return what goes wrong with a call, "" for nothing."""
        time.sleep(self.slow.get(action, 0))
        if {action, f"{action}@{account}", f"{action}@{region}"} & self.denied:
            return "denied"
        if self.dead or self.expired:
            return "reset" if self.dead else "expired"
        self._calls[action] += 1
        chance = random.Random(f"{self.seed} {action} {self._calls[action]}")
        if self.pages and any(name in given for name in _TOKENS) and chance.random() < self.pages:
            return "throttled"
        x = chance.random()
        for kind in ("reset", "throttled", "garbled", "garbage", "broken", "truncated"):
            share = getattr(self, kind)
            if x < share:
                return kind
            x -= share
        return ""

    def end(self) -> None:
        """Let all be well again."""
        well = Faults()
        for name in (
            "throttled",
            "reset",
            "garbled",
            "garbage",
            "broken",
            "truncated",
            "pages",
            "expired",
            "dead",
        ):
            setattr(self, name, getattr(well, name))
        self.denied.clear()
        self.slow.clear()


def error_of(service: str, fault: str) -> tuple[int, bytes, str]:
    """Return status, body and content type of a failure, in the protocol of the service."""
    if fault == "garbled":
        return 200, b"", "application/x-amz-json-1.0"
    if fault == "garbage":
        return 200, b"<html><p>It works!</p>", "text/html"
    if fault == "broken":
        return 503, b"<html><p>Service unavailable</p></html>", "text/html"
    if service not in ("ec2", "sts", "s3"):
        return (
            400,
            json.dumps({"__type": _CODES[fault], "message": "no"}).encode(),
            "application/x-amz-json-1.0",
        )
    inner = f"<Error><Code>{_EC2_CODES[fault]}</Code><Message>no</Message></Error>"
    wrapped = {
        "ec2": f"<Response><Errors>{inner}</Errors><RequestID>r</RequestID></Response>",
        "s3": inner,
    }
    return (
        503 if fault == "throttled" else 403,
        wrapped.get(service, f"<ErrorResponse>{inner}</ErrorResponse>").encode(),
        "text/xml",
    )
