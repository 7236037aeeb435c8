"""Hand a command everything it may ask, and open the same over recorded time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Protocol

from bot.model.check import Check
from bot.model.own import OwnBill
from bot.model.policy import Policy
from bot.model.route import Routes
from bot.model.state import ReplayResult
from bot.policy.change import applied
from bot.ports.chat import People, Surface
from bot.ports.outlook import NoOutlook, Outlook
from bot.ports.state import DocumentStore, Store, Versions
from bot.ports.world import Billing, Compiles, Detect, Knowledge, Prices, Source


class Replays(Protocol):
    """Run the watch over recorded time: of other recordings, and of the source being watched."""

    def open(self, source: str, policy: Policy) -> Ports:
        """Return ports over `recording:DIR` or `simulator:SEED` with an empty store; raise `WrongInput` or `Unavailable`."""
        ...

    def again(self, policies: Sequence[Policy]) -> Sequence[Ports]:
        """Return ports over the watched source for each policy, with an empty store each; asked alike, they read once."""
        ...

    def truth(self, source: str) -> Sequence[Mapping[str, Any]] | None:
        """Return the labelled incidents of a recording, None when it has none."""
        ...

    def grade(self, seen: ReplayResult, truth: Sequence[Mapping[str, Any]], clusters: int) -> Mapping[str, Any]:
        """Return how well the alerts of a replay over so many clusters meet the truth."""
        ...


@dataclass(frozen=True)
class Ports:
    """Give a command everything it may ask."""

    source: Source
    billing: Billing
    prices: Prices
    knowledge: Knowledge
    store: Store
    detect: Detect
    base: Policy
    """The settings file's policy, under every stored change."""
    versions: Versions
    shelf: DocumentStore
    replays: Replays
    interval: timedelta
    channels: Sequence[str] = ("default",)
    """Channels that hear every alert."""
    routes: Routes = field(default_factory=Routes)
    """Who else hears which alerts, by the settings."""
    surfaces: Mapping[str, Surface] = field(default_factory=dict)
    people: Mapping[str, People] = field(default_factory=dict)
    """Who is in which group, by platform."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """Facts about this installation that answers may show, secrets masked."""
    remembers: bool = True  # the store outlives this call: what people decided is asked without a replay
    outlook: Outlook = field(default_factory=NoOutlook)
    compiles: Compiles = lambda *_: ()  # what compiled; may block
    checks: Callable[[], Sequence[Check]] = tuple  # look at everything the bot needs; may block
    prepare: Callable[[], None] = lambda: None  # load what a replay needs beside metrics, while those are read; may block
    own_bill: Callable[[], OwnBill | None] = lambda: None
    """Return what the bot's own AWS calls cost, None where no account is read; may block."""
    standing: Callable[[], Mapping[str, Any]] = dict  # what this process's watch counted; empty where it does not watch
    drill: Callable[[Sequence[str], datetime], None] = lambda *_: None  # look closer at these instances from now on; may block

    @property
    def policy(self) -> Policy:
        """Return the policy in force now, whoever changed it; may block."""
        newest = self.versions.versions(1)
        return applied(self.base, newest[0].overrides) if newest else self.base
