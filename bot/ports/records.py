"""Give a command everything it may ask: the world, the stores and this site.

And replays of the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, Protocol

from bot.errors import WrongInput
from bot.model.notification import ReplayResult
from bot.model.policy import Policy
from bot.model.price import SelfCost
from bot.model.request import Check, Request
from bot.model.route import OwnerMap, Routes
from bot.policy.change import applied
from bot.ports.chat import People, Surface
from bot.ports.stores import AlertStore, DocumentStore, Outbox, Versions
from bot.ports.world import (
    Billing,
    Compiles,
    Detect,
    Inbox,
    Knowledge,
    NoInbox,
    NoOutlook,
    Outlook,
    Prices,
    Source,
)


class Replays(Protocol):
    """Run the watch over recorded time: of other recordings, and of the source being watched."""

    def open(self, source: str, policy: Policy) -> Ports:
        """Return ports over `recording:DIR` or `simulator:SEED` with an empty store.

        Raise `WrongInput` or `Unavailable`.
        """
        ...

    def again(self, policies: Sequence[Policy]) -> Sequence[Ports]:
        """Return ports over the watched source for each policy, with an empty store each.

        Asked alike, they read once.
        """
        ...

    def truth(self, source: str) -> Sequence[Mapping[str, Any]] | None:
        """Return the labelled incidents of a recording, None when it has none."""
        ...

    def grade(
        self, seen: ReplayResult, truth: Sequence[Mapping[str, Any]], clusters: int
    ) -> Mapping[str, Any]:
        """Return how well the alerts of a replay over so many clusters meet the truth."""
        ...


class Files(Protocol):
    """Find what a person names in the file system.

    By path in a terminal, elsewhere only by a name that the settings offer.

    Raise `WrongInput` for anything else, in a sentence that tells nothing of the file system but
    the names offered.
    """

    def recording(self, named: str, request: Request, /) -> str:
        """Return the source that is meant.

        `recording:DIR`, and for a terminal also `simulator:SEED`.
        """
        ...

    def policy(self, named: str, request: Request, /) -> str:
        """Return the text of a policy file."""
        ...

    def text(self, path: str, request: Request, /) -> str:
        """Return another text file; for a terminal alone."""
        ...


class NoFiles:
    """Implement `Files` where none are offered."""

    def recording(self, *_: object) -> str:
        """Refuse."""
        raise WrongInput("No recordings are offered here.")

    def policy(self, *_: object) -> str:
        """Refuse."""
        raise WrongInput("No policies are offered here.")

    def text(self, *_: object) -> str:
        """Refuse."""
        raise WrongInput("No files are read here.")


@dataclass(frozen=True)
class World:
    """Hold the world that is watched.

    Metrics, the bill, prices and dated facts, and the detector of their anomalies.
    """

    source: Source
    billing: Billing
    prices: Prices
    knowledge: Knowledge
    detect: Detect
    replays: Replays
    outlook: Outlook = field(default_factory=NoOutlook)
    inbox: Inbox = field(default_factory=NoInbox)
    billing_lag: timedelta = timedelta(hours=24)
    """How long after its usage a row of the bill is taken to have come."""
    compiles: Compiles = lambda *_: ()  # may block
    prepare: Callable[[], None] = lambda: (
        None
    )  # load what a replay needs beside metrics, while those are read; may block
    drill: Callable[[Sequence[str], datetime], None] = lambda *_: (
        None
    )  # read these instances in detail from now on; may block


@dataclass(frozen=True)
class Stores:
    """Hold the stores of everything that is remembered, in whichever database."""

    alerts: AlertStore
    versions: Versions
    documents: DocumentStore
    outbox: Outbox
    persistent: bool = True
    """Outlives this call: what people decided is asked without a replay."""


@dataclass(frozen=True)
class Site:
    """Hold the set-up of this installation, and its facts about itself."""

    base: Policy
    """The settings file's policy, under every stored change."""
    interval: timedelta
    channels: Sequence[str] = ("default",)
    """Channels that are notified of every alert."""
    routes: Routes = field(default_factory=Routes)
    """Who else is notified of which alerts, by the settings."""
    surfaces: Mapping[str, Surface] = field(default_factory=dict)
    people: Mapping[str, People] = field(default_factory=dict)
    """Who is in which group, by platform."""
    files: Files = field(default_factory=NoFiles)
    """What a person may name in the file system."""
    facts: Mapping[str, str] = field(default_factory=dict)
    """Facts about this installation that answers may show, secrets masked."""
    checks: Callable[[], Sequence[Check]] = tuple  # examine everything the bot needs; may block
    self_cost: Callable[[], SelfCost | None] = lambda: (
        None
    )  # of the bot's AWS calls, None where it makes none; may block
    health: Callable[[], Mapping[str, Any]] = (
        dict  # what this process's watch counted; empty where it does not watch
    )
    owners: Callable[[], OwnerMap] = OwnerMap  # the mapping file as it stands now
    permalink: Callable[[str], str] = lambda _: (
        ""
    )  # the address of the console that answers a line again, "" for none
    download: Callable[[str], str] = lambda _: (
        ""
    )  # the same of the file with the table of its answer

    def current_routes(self) -> Routes:
        """Return the routes of the settings with the mapping of owners as its file stands now."""
        return replace(self.routes, mapping=self.owners())


@dataclass(frozen=True)
class Ports:
    """Give a command everything it may ask."""

    world: World
    stores: Stores
    site: Site

    @property
    def policy(self) -> Policy:
        """Return the policy in force now, whoever changed it; may block."""
        newest = self.stores.versions.versions(1)
        return applied(self.site.base, newest[0].overrides) if newest else self.site.base
