"""Configure a live account: places, limits of calls, extra sources, and clocks."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

import boto3

from adapters.aws.api.calls import ATTEMPTS, Place
from adapters.aws.api.promql import OTEL_STORE, PrometheusServer
from adapters.aws.config import ReadingConfig
from bot.errors import WrongInput
from bot.model.frame import MetricsSurface
from bot.ports import Clock

OWN = "self"
"""Stands among roles for the credentials of the process."""


@dataclass(frozen=True)
class AccountAccess:
    """Name the accounts that are read: those behind `roles` (ARNs to assume.

    `self` = no role), each in `regions`.
    """

    regions: Sequence[str] = ()
    roles: Sequence[str] = ()
    external_id: str = ""
    """Shown to every role that is assumed, so that nobody else can have the bot assume it.

    "" where no role asks.
    """

    def places(self) -> tuple[Place, ...]:
        """Return each role in each region, the process's own region where none is named.

        Raise `WrongInput` for none at all.
        """
        default = boto3.Session().region_name
        regions = tuple(self.regions) or ((default,) if default else ())
        if not regions:
            raise WrongInput(
                "No AWS region is set; set TRNBOT_AWS_REGIONS (a comma list such as us-west-2, us-east-1) or AWS_REGION."
            )
        return tuple(
            Place(region, "" if role == OWN else role)
            for role in (self.roles or (OWN,))
            for region in regions
        )


@dataclass(frozen=True)
class CallLimits:
    """Limit the bot's own calls."""

    daily_usd: Decimal | None = None
    """The cost of a UTC day at which optional calls stop, None for no limit."""
    usage: Path | None = None
    """A file that counts calls over restarts."""
    attempts: int = ATTEMPTS
    """How often a call is tried."""


@dataclass(frozen=True)
class ExtraSources:
    """Name the sources that are read beside the APIs of metrics, inventory and prices."""

    streams: Sequence[str] = ()
    """Addresses of metric streams (s3://BUCKET/PREFIX)."""
    logs: Sequence[str] = ()
    """Log groups (GROUP or REGION:GROUP) that hold compilers' lines."""
    events: Sequence[str] = ()
    """URLs of the SQS queues that EventBridge sends notices to."""
    advisor: str = ""
    """Where the Spot Advisor's data is: a file or an address."""


@dataclass(frozen=True)
class MetricsSource:
    """Say where NeuronCore metrics are read, and which server answers PromQL."""

    surface: MetricsSurface = MetricsSurface.AUTO
    server: PrometheusServer = OTEL_STORE


@dataclass(frozen=True)
class ReadTiming:
    """Hold the clocks, and the share of an interval that a tick may take."""

    clock: Clock
    stopwatch: Callable[[], float] = time.monotonic
    pause: Callable[[float], None] = time.sleep
    haste: float = 1.0
    """Divides the time that a tick's reading may take."""


@dataclass(frozen=True)
class LiveConfig:
    """Configure a live account."""

    reading: ReadingConfig
    timing: ReadTiming
    access: AccountAccess = AccountAccess()
    limits: CallLimits = CallLimits()
    extra: ExtraSources = ExtraSources()
    metrics: MetricsSource = MetricsSource()
    journal: Path | None = None
    """A folder where changed answers are kept over restarts, and for recordings."""
