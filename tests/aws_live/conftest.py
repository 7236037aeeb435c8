"""Start a stand-in for AWS over a small simulated recording, and a live source that talks to it."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from datetime import UTC, datetime, timedelta
from functools import cache, partial
from pathlib import Path
from typing import Any

import botocore.handlers
import pytest
from botocore.loaders import JSONFileLoader, Loader
from botocore.useragent import UserAgentString

from adapters.aws.config import ReadingConfig
from adapters.aws.live.account import AccountAccess, LiveConfig, ReadTiming
from adapters.aws.live.source import Live
from adapters.aws.recording.recording import Recording, open_recording
from adapters.billing.bill import Bill, open_billing
from bot.knowledge import load_knowledge
from bot.model.window import Window
from tests.aws_live.requests import Requests
from tests.aws_live.standin import StandIn
from tests.e2e.product import recording

FIVE = timedelta(minutes=5)
TYPES = load_knowledge().types()


@pytest.fixture(scope="session", autouse=True)
def models_are_read_once() -> Iterator[None]:
    """Let every session of boto3 share the descriptions of the services, which take longer to read than a test to run.

    Nor does each client look through the folders of all services, or each of thousands of requests
    put the name of its sender together anew.
    """
    read = cache(partial(JSONFileLoader.load_file, JSONFileLoader()))
    services = cache(partial(Loader.list_available_services, Loader()))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(JSONFileLoader, "load_file", lambda _, path: read(path))
        patch.setattr(Loader, "list_available_services", lambda _, type_name: services(type_name))
        patch.setattr(UserAgentString, "to_string", lambda _: "Boto3")
        yield


@pytest.fixture(scope="session", autouse=True)
def requests() -> Iterator[Requests]:
    """Hold every request of every test against what AWS takes."""
    seen = Requests()
    handlers = [*botocore.handlers.BUILTIN_HANDLERS, ("before-parameter-build", seen)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(botocore.handlers, "BUILTIN_HANDLERS", handlers)
        yield seen
    assert seen.faults == []


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder, without = tmp_path_factory.mktemp("tiny"), shutil.ignore_patterns("neuron-monitor")
    return Path(shutil.copytree(recording("tiny"), folder / "recording", ignore=without))


def live_config(**given: Any) -> LiveConfig:
    """Give each keyword to the record that has a field of its name."""

    def of(record: type) -> Any:
        return record(
            **{field.name: given.pop(field.name) for field in fields(record) if field.name in given}
        )

    parts = of(ReadingConfig), of(ReadTiming), of(AccountAccess)
    return LiveConfig(*parts, **given)


@dataclass
class World:
    """Hold the stand-in and its time."""

    standin: StandIn
    extent: Window
    now: datetime
    endpoint: str = ""

    def live(self, **more: Any) -> Live:
        given = {
            "interval": FIVE,
            "types": TYPES,
            "regions": ["us-west-2"],
            "clock": lambda: self.now,
            "pause": _no_pause,
        } | more
        return Live(live_config(**given))

    def ticks(self, start_hours: float, end_hours: float) -> Iterator[datetime]:
        """Move the world's time from tick to tick."""
        at = self.extent.start + timedelta(hours=start_hours)
        while at <= self.extent.start + timedelta(hours=end_hours):
            self.now = at
            yield at
            at += FIVE


@contextmanager
def served(tiny: Path) -> Iterator[World]:
    """Serve the recording, and let boto3 ask there, for as long as this lasts."""
    recording = open_tiny(tiny)
    made = World(None, recording.extent(), datetime(2026, 11, 17, tzinfo=UTC))  # type: ignore[arg-type]  # set below
    made.standin = StandIn(tiny, lambda: made.now)
    with pytest.MonkeyPatch.context() as patch:
        made.endpoint = made.standin.start()
        patch.setenv("AWS_ENDPOINT_URL", made.endpoint)
        patch.setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "wJalrXUtnFEMI")
        patch.setenv("AWS_CONFIG_FILE", "/nonexistent")
        patch.delenv("AWS_SESSION_TOKEN", raising=False)
        yield made
    made.standin.stop()


@pytest.fixture
def world(tiny: Path) -> Iterator[World]:
    with served(tiny) as made:
        yield made


@pytest.fixture(scope="session")
def export(tiny: Path) -> Iterator[Bill]:
    """Return the bill of the export behind the stand-in, opened once."""
    bill = open_billing(tiny)
    yield bill
    bill.close()


def _no_pause(_: float) -> None:
    """Do not wait between lookups: the stand-in has no limit of calls a second."""


@cache
def open_tiny(folder: Path) -> Recording:
    """Return the recording behind the stand-in, which no test changes, opened once."""
    return open_recording(folder, ReadingConfig(FIVE, TYPES))
