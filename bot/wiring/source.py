"""Open the parts of a source, each when it is first asked.

A recording, a simulation, a live account, and replays of them; and the files that people may name.
"""

from __future__ import annotations

import re
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from functools import cache, lru_cache, partial
from hashlib import sha256
from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any, Protocol

from adapters.aws.config import ReadingConfig
from adapters.aws.inventory.ownership import TagNames
from bot.costs.pricing import settled_week
from bot.errors import TrnbotError, Unavailable, WrongInput, nearest, shortened
from bot.knowledge import load_knowledge
from bot.model.limits import CODE_FILES, POLICY_BYTES, TEXT_BYTES
from bot.model.notification import ReplayResult, ReplaySpan
from bot.model.policy import Policy
from bot.model.price import SelfCost
from bot.model.reading import HISTORY
from bot.model.request import Request
from bot.model.route import OwnerMap, Routes
from bot.model.window import NO_TIME, Window, midnight
from bot.ports import Ports, Prices, Site, Source, Stores, World
from bot.ports.world import Workers
from bot.settings.routes import OwnersFile, read_text
from bot.settings.settings import NO_SOURCE, Settings
from bot.watch.tick import SPEND_DAYS
from bot.wiring.bills import FOLDER, open_bill, open_outlook
from bot.wiring.environment import STATE, wall_clock
from bot.wiring.kept import Once, content_of, kept, lazy, packed, unpacked

if TYPE_CHECKING:
    from adapters.aws.live.acting import Actor
    from adapters.aws.live.source import Live
    from adapters.aws.recording.recording import Recording
    from adapters.aws.services import BedrockReader
    from bot.wiring.workers import Parcel


_DIGITS = 8
"""Of the name of a simulator."""


def folder_of(source: str) -> Path:
    """Return the folder of `recording:DIR`, or of `simulator:SEED[/SCENARIO]`, made when missing.

    A live account has none.
    """
    kind, _, name = source.partition(":")
    if not source:
        raise Unavailable(NO_SOURCE)
    if kind == "recording":
        return Path(name).expanduser()
    if kind == "simulator":
        seed, _, scenario = name.partition("/")
        if not re.fullmatch(r"\d{1,9}(/[\w-]+)?", name, re.ASCII):
            raise WrongInput(
                f"'{shortened(name)}' is not a seed; write simulator:7 or simulator:7/calm."
            )
        return _simulated(int(seed), scenario or "demo")
    raise Unavailable(
        "A live account is not a folder; record it first: trnbot record DIR, then recording:DIR."
    )


def size_of(folder: Path) -> int:
    """Return the bytes of all files under the folder, 0 where it is missing."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def _simulated(seed: int, scenario: str) -> Path:
    """Return the folder of a simulation, generated when missing.

    Its name holds the simulator that made it: what an older one made is made anew, and goes.
    """
    from adapters.simulator import generate

    name = f"{scenario}-{seed}"
    target = STATE / "simulator" / f"{name}-{_simulator_digest()}"
    if target.is_dir():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    for older in (target.parent / name, *target.parent.glob(f"{name}-{'?' * _DIGITS}")):
        shutil.rmtree(older, ignore_errors=True)

    # Half a minute, in which no bar is drawn where nobody watches a terminal.
    print(f"Simulating {name}; this is done once…", file=sys.stderr, flush=True)
    # Generated beside the target and renamed: half a recording is never taken for a whole one.
    with tempfile.TemporaryDirectory(dir=target.parent) as beside:
        generate(Path(beside) / "recording", seed, scenario)
        (Path(beside) / "recording").rename(target)
    return target


@cache
def _simulator_digest() -> str:
    """Return a name for the simulator as it is here: another one for other code or other tables."""
    import adapters.simulator

    files = sorted(
        path for path in Path(adapters.simulator.__path__[0]).iterdir() if path.is_file()
    )
    return sha256(b"".join(path.read_bytes() for path in files)).hexdigest()[:_DIGITS]


def reading_config(settings: Settings) -> ReadingConfig:
    """Return how metrics and inventory are read by these settings."""
    return ReadingConfig(
        interval=settings["interval"],
        types=load_knowledge().types(),
        lag=settings["metrics.lag"],
        history=HISTORY,
        tags=replace(TagNames(), **{name: tuple(names) for name, names in settings.tags().items()}),
        own=settings.own_names,
    )


def open_account(settings: Settings) -> Live:
    """Return the live source; nothing is called yet."""
    from adapters.aws.api.promql import PrometheusServer
    from adapters.aws.live.account import AccountAccess, LiveConfig, ReadTiming
    from adapters.aws.live.source import Live

    return Live(
        LiveConfig(
            reading=reading_config(settings),
            timing=ReadTiming(wall_clock),
            access=AccountAccess(
                settings["aws.regions"], settings["aws.roles"], settings["aws.external_id"]
            ),
            surface=settings["metrics.surface"],
            server=PrometheusServer(settings["metrics.url"], settings.text("metrics.token")),
            daily_usd=settings["aws.budget"],
            usage=FOLDER / "usage.json",
            streams=settings["aws.stream"],
            logs=settings["aws.logs"],
            events=settings["aws.events"],
            advisor=settings["aws.spot_advisor"],
            journal=FOLDER / "journal",
        )
    )


def open_actor(settings: Settings) -> Actor:
    """Return the actor that changes the fleet; its calls are counted apart from those that read."""
    from adapters.aws.api.calls import Calls
    from adapters.aws.live.acting import Actor

    # A change is asked for once: whether it came about is looked up at the next tick.
    calls = Calls(wall_clock, attempts=1, external_id=settings["aws.external_id"])
    return Actor(calls, settings["act.roles"])


def open_reader(settings: Settings) -> BedrockReader:
    """Return the model that is asked about unclear plain words; nothing is called yet."""
    from adapters.aws.services import BedrockReader

    region = next(iter(settings["aws.regions"]), "")
    return BedrockReader(settings["words"].removeprefix("bedrock:"), region)


_MANY_BYTES = 32 << 20
"""Bytes of metrics that take longer to read than the forest's library to load."""


def opened_detector(name: str, **given: int) -> Any:
    """Return a detector that is made when it first judges: few lines need its libraries."""
    return lazy(Once(lambda: resolve_name(f"detectors:{name}")(**given)))


CONSOLE = ("web:alerts",)
"""Hears every alert; who else hears which is said by routes."""


class Metrics(Source, Prices, Protocol):
    """Read metrics and quote prices: a recording and an account do both."""


class OpenedSource:
    """Open a source's parts when they are first asked."""

    def __init__(self, source: str, settings: Settings) -> None:
        self._settings = settings
        self._folder = Once(lambda: folder_of(source))
        self._content = Once(lambda: content_of(self._folder()))
        self.live = source == "aws"
        self.account = Once(lambda: open_account(settings))
        self.recording = Once(self._open_recording)
        self.bill = Once(lambda: open_bill(settings, *self._place()))
        self.outlook = Once(lambda: open_outlook(settings, *self._place()))
        self.load_detectors = Once(self._load_detectors)
        self.owners = OwnersFile(settings["owners_file"])

    def ports(self, stores: Stores, base: Policy) -> Ports:
        """Return the ports over this source, of an installation that serves nobody."""
        settings = self._settings
        world = World(
            source=lazy(self.metrics),
            billing=lazy(self.bill),
            billing_lag=settings["billing.lag"],
            prices=lazy(self.metrics),
            knowledge=load_knowledge(),
            detect=opened_detector("Detector", replays=not self.live),
            replays=SourceReplays(settings, self),
            outlook=lazy(self.outlook),
            compiles=lazy(partial(resolve_name, "detectors:compiles_since")),
            load_detectors=self.load_detectors,
        )
        if self.live:
            account = lazy(self.account)
            world = replace(world, inbox=account, drill=account.drill)
            if settings["act.roles"]:
                world = replace(world, actions=lazy(Once(lambda: open_actor(settings))))
        else:
            world = replace(world, prepare=self._prepare)

        if settings["dask"]:
            world = replace(world, workers=lazy(Once(self._open_workers)))
        if settings["words"]:
            world = replace(world, reader=open_reader(settings))
        site = Site(
            base,
            settings["interval"],
            channels=CONSOLE,
            routes=settings.routes,
            files=OfferedFiles(settings),
            owners=self.owners,
            second_usd=settings["act.second_usd"],
        )
        return Ports(world, stores, site)

    def _load_detectors(self) -> None:
        """Load the detectors, and the library of the forest where metrics take longer to read."""
        from detectors.forest import load_library

        if self.live or size_of(self._folder() / "metrics") > _MANY_BYTES:
            load_library()

    def _prepare(self) -> None:
        """Load the detectors and the bill; whoever asks the bill next is told what is wrong with it."""
        with suppress(TrnbotError):
            self.load_detectors()
            self.bill().problems()

    def parcel(self, span: ReplaySpan) -> Parcel:
        """Return all that replays over a span ask, as it is now and can be sent."""
        from bot.wiring.workers import Answers, Parcel

        # The bill is asked for its rates by the first tick of a day, as `Pricing` does.
        days = {midnight(now): now for now in reversed(span.times)}
        bill = [
            *(("deltas", now, SPEND_DAYS) for now in span.times),
            *(("rates", now) for now in days.values()),
            *(("tally", settled_week(day), ("resource",)) for day in days),
        ]
        outlook = [(name, now) for name in ("commitments", "findings") for now in span.times]
        metrics: Any = self.metrics()
        if self.live:
            metrics = self.account().frozen(lambda ticked: unpacked(packed(ticked)))
        return Parcel(
            source=metrics,
            prices=metrics,
            billing=Answers(self.bill(), bill),
            outlook=Answers(self.outlook(), outlook),
            interval=self._settings["interval"],
            span=span,
        )

    def _open_workers(self) -> Workers:
        from bot.wiring.workers import DaskWorkers, open_cluster

        return DaskWorkers(open_cluster(self._settings["dask"]), self.parcel)

    def metrics(self) -> Metrics:
        """Return the source of metrics and prices: the account, or the recording."""
        return self.account() if self.live else self.recording()

    def self_cost(self) -> SelfCost | None:
        """Return the cost of the bot's own calls, None where no account is read."""
        return self.account().calls.meter.bill() if self.live else None

    def end(self) -> datetime | None:
        """Return the time that "now" means.

        The last metric of a recording, else the bill's last hour; None for an account.
        """
        extent = self.metrics().extent()
        return extent.end if extent else None

    def depends_on(self, now: datetime) -> tuple[object, ...]:
        """Return all that a replay of a folder up to a time depends on."""
        folder, settings = self._folder(), self._settings
        owners = Path(settings["owners_file"]).expanduser() if settings["owners_file"] else None
        return (
            str(folder.resolve()),
            self._content(),
            reading_config(settings),
            settings.policy,
            settings.routes,
            owners.read_bytes() if owners and owners.is_file() else None,
            settings["billing.lag"],
            now,
        )

    def _place(self) -> tuple[Live | None, Path]:
        """Return the account, None for a recording, and the folder of what it answered."""
        return (self.account(), FOLDER) if self.live else (None, self._folder())

    def _open_recording(self) -> Recording:
        """Return the recording; one without metrics is watched by its bill and its inventory."""
        from adapters.aws.recording.recording import open_recording

        folder, config = self._folder(), reading_config(self._settings)
        if not folder.is_dir():
            return open_recording(folder, config)  # it says what is missing

        def opened(config: ReadingConfig) -> Recording:
            depends_on = (str(folder.resolve()), self._content(), config)
            return kept("recording", depends_on, lambda: open_recording(folder, config))

        try:
            return opened(config)
        except Unavailable as no_metrics:
            try:
                end = self.bill().tally(NO_TIME, ()).billed_through
            except Unavailable as no_bill:
                raise Unavailable(f"{no_metrics} {no_bill}") from None
            if end is None:
                raise
            return opened(replace(config, billed=Window(end - HISTORY, end)))


class SharedSource:
    """Implement `Source` for several replays side by side: a reading serves them all."""

    def __init__(self, source: Source) -> None:
        self.read = lru_cache(maxsize=1)(source.read)
        self.extent, self.problems = source.extent, source.problems


class SourceReplays:
    """Implement `bot.ports.Replays`: each replay has its own source, detector and store."""

    def __init__(self, settings: Settings, watched: OpenedSource) -> None:
        self._settings, self._watched = settings, watched

    def open(self, source: str, policy: Policy) -> Ports:
        """Return ports over another source with an empty store.

        No route of this installation speaks of it.
        """
        ports = OpenedSource(source, self._settings).ports(memory_stores(), policy)
        return replace(ports, site=replace(ports.site, routes=Routes(), owners=OwnerMap))

    def again(self, policies: Sequence[Policy]) -> Sequence[Ports]:
        """Return ports over the watched source for each policy.

        They go on side by side, read once and learn once.
        """
        replays = [self._watched.ports(memory_stores(), policy) for policy in policies]
        source = SharedSource(replays[0].world.source)
        detect = opened_detector("SharedDetector", policies=len(policies))
        return [replace(x, world=replace(x.world, source=source, detect=detect)) for x in replays]

    def truth(self, source: str) -> Sequence[Mapping[str, Any]] | None:
        """Return the labelled incidents of a recording, None when it has none."""
        import orjson

        path = folder_of(source) / "labels.json"
        try:
            return list(orjson.loads(path.read_bytes())) if path.is_file() else None
        except (orjson.JSONDecodeError, TypeError) as error:
            raise WrongInput(f"{path} is not a list of labeled incidents: {error}.") from None

    def grade(
        self, seen: ReplayResult, truth: Sequence[Mapping[str, Any]], clusters: int
    ) -> Mapping[str, Any]:
        """Return how well the alerts of a replay over so many clusters meet the truth."""
        from detectors.grade import grade

        return grade(list(seen.alerts.values()), truth, seen.notifications, seen.window, clusters)


def memory_stores() -> Stores:
    """Return empty stores that live as long as this process."""
    from adapters.store.memory import MemoryStore

    store = MemoryStore()
    return Stores(store, store, store, store)


_NAME = re.compile(r"[A-Za-z0-9][\w.-]{0,99}", re.ASCII)
_MOST = 200
"""Names of a folder that are offered."""
_PATHS_FROM = "terminal"
"""The one surface whose people can read the file system themselves."""


class OfferedFiles:
    """Implement `bot.ports.Files` over the folders of `TRNBOT_RECORDINGS` and `TRNBOT_POLICIES`."""

    def __init__(self, settings: Settings) -> None:
        self._recordings, self._policies = settings["recordings"], settings["policies"]

    def recording(self, named: str, request: Request) -> str:
        """Return the source that is meant.

        A terminal may name a folder, `recording:DIR` or `simulator:SEED` too.
        """
        offered = _offered(self._recordings)
        if named not in offered and request.surface == _PATHS_FROM:
            return named if ":" in named else f"recording:{named}"
        return f"recording:{_chosen(named, offered, 'recording', 'TRNBOT_RECORDINGS')}"

    def policy(self, named: str, request: Request) -> str:
        """Return the text of a policy; a terminal may name a file too."""
        offered = _offered(self._policies, ".toml")
        name = named.removesuffix(".toml")
        if name not in offered and request.surface == _PATHS_FROM:
            path, title = Path(named).expanduser(), f"The policy file '{shortened(named)}'"
        else:
            path = _chosen(name, offered, "policy", "TRNBOT_POLICIES")
            title = f"The policy '{name}'"
        return read_text(path, title, POLICY_BYTES)

    def text(self, path: str, request: Request) -> str:
        """Return another text file of a terminal."""
        if request.surface != _PATHS_FROM:
            raise WrongInput("Files are read in a terminal; paste the text itself.")
        return read_text(Path(path).expanduser(), f"The file '{shortened(path)}'", TEXT_BYTES)

    def code(self, path: str, request: Request) -> Mapping[str, str]:
        """Return the Python files under a path of a terminal; nothing hidden, and no links."""
        home = Path(path).expanduser()
        if request.surface != _PATHS_FROM or not home.is_dir():
            return {path: self.text(path, request)}
        found = sorted(
            file
            for file in home.rglob("*.py")
            if file.is_file()
            and file.resolve() == home.resolve() / file.relative_to(home)
            and not any(part.startswith(".") for part in file.relative_to(home).parts)
        )
        count = f"{len(found):,} Python files" if found else "no Python file"
        if not 0 < len(found) <= CODE_FILES:
            raise WrongInput(
                f"The folder '{shortened(path)}' holds {count}; name one with 1 to {CODE_FILES:,}."
            )
        return {str(file): self.text(str(file), request) for file in found}


def _offered(folder: str, suffix: str = "") -> Mapping[str, Path]:
    """Return by name the files of a suffix in a folder, without one the folders.

    Nothing hidden, and nothing that a link leads out of it.
    """
    if not folder:
        return {}
    try:
        home = Path(folder).expanduser().resolve()
        # A link out of the folder resolves to another parent.
        paths = sorted(path for path in home.iterdir() if path.resolve().parent == home)
    except (OSError, RuntimeError):
        return {}

    by_name = {
        path.name.removesuffix(suffix): path
        for path in paths
        if (path.suffix == suffix and path.is_file() if suffix else path.is_dir())
    }
    safe = {
        name: path for name, path in by_name.items() if _NAME.fullmatch(name) and ".." not in name
    }
    return dict(list(safe.items())[:_MOST])


def _chosen(named: str, offered: Mapping[str, Path], kind: str, variable: str) -> Path:
    """Return the one of that name; raise `WrongInput` with the names there are."""
    if named in offered:
        return offered[named]
    if not offered:
        raise WrongInput(
            f"No {kind} is offered here by name; set {variable} to a folder of them. "
            "Paths are for a terminal."
        )
    hint = nearest(named, offered, most=_MOST) or f"; known: {', '.join(offered)}"
    raise WrongInput(
        f"'{shortened(named)}' is no {kind} offered here (paths are for a terminal){hint}."
    )
