"""Open a live account: from settings to the source that reads it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from decimal import Decimal
from pathlib import Path

import boto3

from adapters.aws.api.calls import ATTEMPTS, Calls, Place
from adapters.aws.api.s3 import S3Lister
from adapters.aws.inventory.ownership import TagNames
from adapters.aws.live.account import Means
from adapters.aws.live.source import Live
from adapters.aws.live.stream import FIRST
from adapters.aws.logs.poller import LogPoller, read_log_group
from adapters.aws.metrics.catalogue import catalogue_with
from adapters.aws.metrics.time_grid import TimeGrid
from bot.errors import WrongInput
from bot.model.fleet import InstanceType
from bot.model.names import OwnNames
from bot.ports import Clock

OWN = "self"
"""Stands among roles for the credentials of the process."""


def open_live(
    *,
    interval: timedelta,
    lag: timedelta = timedelta(minutes=1),
    history: timedelta = timedelta(days=15),
    types: Mapping[str, InstanceType],
    tags: TagNames | None = None,
    own: OwnNames | None = None,
    streams: Sequence[str] = (),
    logs: Sequence[str] = (),
    regions: Sequence[str] = (),
    roles: Sequence[str] = (),
    clock: Clock,
    daily_usd: Decimal | None = None,
    journal: Path | None = None,
    usage: Path | None = None,
    advisor: str = "",
    stopwatch: Callable[[], float] = time.monotonic,
    pause: Callable[[float], None] = time.sleep,
    attempts: int = ATTEMPTS,
    haste: float = 1.0,
) -> Live:
    """Return the account(s) behind the process's credentials, or behind `roles` (ARNs to assume; `self` = no role).

    `own` names the metrics of a namespace of the installation's own; `streams` are addresses (s3://BUCKET/PREFIX) of metric
    streams, `logs` log groups (GROUP or REGION:GROUP) that hold compilers' lines. `daily_usd` caps what the bot's own calls
    may cost a UTC day before optional ones stop; `journal` is a folder where changed answers are kept over restarts and for
    recordings, `usage` a file that counts calls, `advisor` where the Spot Advisor's data is, `attempts` how often a call is
    tried, `haste` divides the time that a tick's reading may take.
    Nothing is called yet. Raise `WrongInput` where no region is known.
    """
    asked = _places(regions, roles)
    calls = Calls(clock, daily_usd=daily_usd, usage=usage, stopwatch=stopwatch, attempts=attempts)
    grid = TimeGrid(int(interval.total_seconds()), int(lag.total_seconds()))
    walks = [S3Lister(calls, address, Place(asked[0].region), FIRST) for address in streams]
    book = LogPoller(calls, tuple(map(read_log_group, logs)), asked[0].region)
    means = Means(stopwatch, pause, journal, advisor, haste)
    return Live(calls, grid, history, types, tags or TagNames(), catalogue_with(own), walks, asked, means, book)


def _places(regions: Sequence[str], roles: Sequence[str]) -> tuple[Place, ...]:
    """Return each role in each region; the process's own region where none is named."""
    default = boto3.Session().region_name
    named = tuple(regions) or ((default,) if default else ())
    if not named:
        raise WrongInput(
            "No AWS region is set; set TRNBOT_AWS_REGIONS (a comma list such as us-west-2, us-east-1) or AWS_REGION."
        )
    return tuple(Place(region, "" if role == OWN else role) for role in (roles or (OWN,)) for region in named)
