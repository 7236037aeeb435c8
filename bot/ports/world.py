"""Declare the ports to the watched world, and give a command everything it may ask."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any, NoReturn, Protocol, TypeVar

from bot.errors import WrongInput
from bot.model.action import Action, Progress
from bot.model.alert import Alert
from bot.model.anomaly import Detection
from bot.model.claims import Claims
from bot.model.fleet import InstanceType
from bot.model.notification import ReplayResult, ReplaySpan
from bot.model.policy import Policy
from bot.model.price import (
    AccountRates,
    CommitmentOffer,
    Interruption,
    PlacementScore,
    Price,
    SelfCost,
    StoragePrice,
)
from bot.model.reading import Reading
from bot.model.request import Check, Request
from bot.model.route import OwnerMap, Routes
from bot.model.run import Compile
from bot.model.spend import Commitment, Filter, Finding, Forecast, Tally
from bot.model.window import Window
from bot.policy.file import applied
from bot.ports.chat import People, Surface
from bot.ports.stores import AlertStore, DocumentStore, Outbox, Shards, Versions


class Source(Protocol):
    """Read metrics and inventory; the same for a recording and a live account."""

    def read(self, now: datetime) -> Reading:
        """Return everything visible at `now`, with frames that reach back over the history kept."""

    def extent(self) -> Window | None:
        """Return first to last metric, or None for a source without an end (a live account)."""

    def problems(self) -> Sequence[str]:
        """Return one sentence for each thing that could not be read: file, line, why."""


class Billing(Protocol):
    """Ask the bill."""

    def tally(
        self,
        window: Window,
        by: Sequence[str],
        where: Sequence[Filter] = (),
        most: int | None = None,
    ) -> Tally:
        """Sum the rows whose usage starts in the window, by dimensions.

        Rows beyond `most` may be folded: the newest times and then the dearest come first. Raise
        `WrongInput` for an unknown dimension.
        """

    def deltas(self, now: datetime, days: int) -> Reading:
        """Return a reading with the `spend` frame of the last `days`, of the rows seen at `now`."""

    def rates(self, now: datetime) -> AccountRates:
        """Return the account's own USD an hour by type, cluster and instance (Basis.BILLED)."""

    def problems(self) -> Sequence[str]:
        """Return one sentence for each file or row that could not be read."""


class CommitmentPrices(Protocol):
    """Quote commitments."""

    def commitment_offers(self, instance_type: str, now: datetime) -> Sequence[CommitmentOffer]:
        """Return the Savings Plans and reserved instances offered for a type, known at `now`.

        Empty where they are not read.
        """


class Prices(CommitmentPrices, Protocol):
    """Quote hours."""

    def quotes(self, instance_type: str, region: str, now: datetime) -> Sequence[Price]:
        """Return every known price at `now`, any basis and market; empty when none is known.

        A kind of storage (`ebs:gp3`, `fsx:125`) has the list price of an hour of one GiB.
        """

    def spot_history(self, instance_type: str, now: datetime) -> Sequence[tuple[datetime, Price]]:
        """Return the spot price changes known at `now`, oldest first."""

    def placement(self, instance_type: str, now: datetime) -> Sequence[PlacementScore]:
        """Return EC2's spot placement scores known at `now`, the best first.

        Empty where they are not read.
        """

    def interruptions(self, instance_type: str, now: datetime) -> Sequence[Interruption]:
        """Return the Spot Advisor's bands known at `now`, by region; empty where none are read."""


class Knowledge(Protocol):
    """Give dated facts."""

    def types(self) -> Mapping[str, InstanceType]:
        """Return the specification of every known instance type, by name."""

    def fallback_prices(self) -> Sequence[Price]:
        """Return the prices of last resort (Basis.FALLBACK)."""

    def storage_prices(self) -> Sequence[StoragePrice]:
        """Return the list prices of storage, each with its source."""

    def claims(self) -> Claims:
        """Return speed-ups, savings and contradictions as others state them."""


class Inbox(Protocol):
    """Take in the messages that the provider sends of its own accord.

    Only the watch does, before and after its ticks.
    """

    def receive(self, now: datetime) -> None:
        """Take in the messages that wait, so that a reading of `now` has them.

        What fails is a problem of the source.
        """

    def settle(self, now: datetime) -> None:
        """Take away the messages that a reading of `now` had: its tick is saved."""


class NoInbox:
    """Implement `Inbox` where nothing is sent."""

    def receive(self, _: datetime) -> None:
        """Take in nothing."""

    settle = receive


class Detect(Protocol):
    """Find anomalies."""

    def __call__(self, reading: Reading, policy: Policy, known: Sequence[Alert]) -> Detection:
        """Judge `reading.now` by the history before it; `known` alerts are not learnt from."""


class Compiles(Protocol):
    """Follow compiles."""

    def __call__(self, reading: Reading, policy: Policy, since: datetime) -> Sequence[Compile]:
        """Return every compile that went on at `since` or later, as far back as is read."""


class Outlook(Protocol):
    """Tell the provider's own view; each as it was known at `now`."""

    def forecast(self, now: datetime, /) -> Forecast | None:
        """Return the newest forecast of the rest of the month, None where there is none."""

    def commitments(self, now: datetime, /) -> Sequence[Commitment]:
        """Return how commitments were used, day by day, oldest first.

        Empty where nothing is committed.
        """

    def findings(self, now: datetime, /) -> Sequence[Finding]:
        """Return the anomalies of the last days that the provider found."""

    def problems(self) -> Sequence[str]:
        """Return one sentence for each answer that could not be had or read."""


class NoOutlook:
    """Implement `Outlook` where nobody is asked."""

    def forecast(self, _: datetime, /) -> Forecast | None:
        """Return none."""
        return None

    def problems(self, *_: datetime) -> Sequence[Any]:
        """Return none."""
        return ()

    commitments = findings = problems


class Actions(Protocol):
    """Change the fleet, where a role of its own lets the bot; every call may block."""

    def rehearse(self, action: Action, /) -> Sequence[str]:
        """Return a sentence for each call that the action would make, and change nothing.

        Raise `Unavailable` where the provider would refuse it, `WrongInput` where it makes no sense.
        """

    def advance(self, action: Action, /) -> Progress:
        """Take the next step that the things still need, and return how far they are.

        Asked again, it goes on from what it finds and from what was ordered: a step is never taken
        twice. Raise `Refused` where the provider refuses, `Unavailable` where it cannot be asked.
        """


class Replays(Protocol):
    """Run the watch over recorded time: of other recordings, and of the source being watched."""

    def open(self, source: str, policy: Policy) -> Ports:
        """Return ports over `recording:DIR` or `simulator:SEED` with an empty store.

        Raise `WrongInput` or `Unavailable`.
        """

    def again(self, policies: Sequence[Policy]) -> Sequence[Ports]:
        """Return ports over the watched source for each policy, with an empty store each.

        Asked alike, they read once.
        """

    def truth(self, source: str) -> Sequence[Mapping[str, Any]] | None:
        """Return the labelled incidents of a recording, None when it has none."""

    def grade(
        self, seen: ReplayResult, truth: Sequence[Mapping[str, Any]], clusters: int
    ) -> Mapping[str, Any]:
        """Return how well the alerts of a replay over so many clusters meet the truth."""


Result = TypeVar("Result")


class Workers(Protocol):
    """Work on other machines, with the result that it would have here; may block."""

    def replays(self, sides: Sequence[Ports], span: ReplaySpan, /) -> Sequence[ReplayResult] | None:
        """Return the replay of each side; None where it is to be worked out here."""

    def each(
        self,
        work: str,
        size: int,
        do: Callable[..., Result],
        parts: Callable[[], Sequence[tuple[Any, ...]]],
        /,
    ) -> Sequence[Result] | None:
        """Return the result of a module's function for the arguments of each part, in order.

        None where it is to be worked out here: `size` tells whether the kind of work pays elsewhere.
        """


class NoWorkers:
    """Implement `Workers` where there are none."""

    def replays(self, *_: object) -> None:
        """Leave it to this process."""

    each = replays


class Reader(Protocol):
    """Choose among lines of the grammar where plain words are unclear: a model of the customer's."""

    name: str

    def choose(self, words: str, lines: Sequence[tuple[str, str]]) -> str:
        """Return one of the lines, each given with its answer; "" for none. May block."""


class Files(Protocol):
    """Find the files that a person names.

    By path in a terminal, elsewhere only by a name that the settings offer.

    Raise `WrongInput` for anything else, in a sentence that tells nothing of the file system but
    the names offered.
    """

    def recording(self, named: str, request: Request, /) -> str:
        """Return the source that is meant.

        `recording:DIR`, and for a terminal also `simulator:SEED`.
        """

    def policy(self, named: str, request: Request, /) -> str:
        """Return the text of a policy file."""

    def text(self, path: str, request: Request, /) -> str:
        """Return another text file; for a terminal alone."""

    def code(self, path: str, request: Request, /) -> Mapping[str, str]:
        """Return the Python files under a folder, or the one named; for a terminal alone."""


class NoFiles:
    """Implement `Files` where none are offered."""

    def recording(self, *_: object) -> str:
        """Refuse."""
        raise WrongInput("No recordings are offered here.")

    def policy(self, *_: object) -> str:
        """Refuse."""
        raise WrongInput("No policies are offered here.")

    def text(self, *_: object) -> NoReturn:
        """Refuse."""
        raise WrongInput("No files are read here.")

    code = text


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
    actions: Actions | None = None
    """What may change the fleet, None where nobody lets the bot."""
    reader: Reader | None = None
    """What is asked about unclear plain words, None where nobody configured any."""
    billing_lag: timedelta = timedelta(hours=24)
    """How long after its usage a row of the bill is taken to have come."""
    compiles: Compiles = lambda *_: ()  # may block
    prepare: Callable[[], None] = lambda: (
        None
    )  # load what a replay needs beside metrics, while those are read; may block
    load_detectors: Callable[[], None] = lambda: None  # once, before they are needed; may block
    workers: Workers = field(default_factory=NoWorkers)
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
    shards: Shards | None = None
    """The processes that share the watch out, None where one process watches alone."""


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
    second_usd: Decimal = Decimal(0)
    """USD a month from which what is touched takes the presses of two admins."""
    facts: Mapping[str, str] = field(default_factory=dict)
    """Facts about this installation that answers may show, secrets masked."""
    checks: Callable[[bool], Sequence[Check]] = (
        lambda _: ()  # examine all that is needed, what AWS bills where told so; may block
    )
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
