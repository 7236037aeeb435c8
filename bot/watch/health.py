"""Keep the process sound.

Counters for `/healthz` and `/metrics`, a watchdog, and rounds that drop old documents.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from decimal import Decimal
from statistics import median
from typing import Any

from bot.errors import Refused, Standby, TrnbotError
from bot.model.alert import Alert, usd_per_hour_of
from bot.model.codec import by_key
from bot.model.money import counted
from bot.model.notification import Coverage, Delays, Known
from bot.model.reading import Shares
from bot.model.request import Check
from bot.model.window import age_text, utc_text
from bot.ports import Documents, DocumentStore
from bot.ports.work import Lane, LaneLoad
from bot.watch.deliver import Delivered

log = logging.getLogger("trnbot.health")
_METRICS = (
    (
        "trnbot_ok",
        "gauge",
        "1 while the watch goes on, 0 while it fails or no tick was run for too long.",
        "ok",
    ),
    (
        "trnbot_leading",
        "gauge",
        "1 in the process that watches, 0 in one that stands by.",
        "leading",
    ),
    (
        "trnbot_seconds_since_tick",
        "gauge",
        "Real seconds since the last complete tick; the leader's, in a process that stands by.",
        "silent_s",
    ),
    ("trnbot_ticks_total", "counter", "Ticks that completed.", "ticks"),
    ("trnbot_tick_failures_total", "counter", "Ticks that failed.", "failures"),
    ("trnbot_ticks_missed_total", "counter", "Ticks that did not run in time.", "missed"),
    ("trnbot_tick_duration_seconds", "gauge", "Length of the last tick.", "tick_seconds"),
    ("trnbot_alerts_open", "gauge", "Alerts firing and not muted.", "open_alerts"),
    ("trnbot_waste_usd_per_hour", "gauge", "Waste of the open alerts.", "usd_per_hour"),
    (
        "trnbot_notices_undelivered",
        "gauge",
        "Notifications that the last tick could not deliver.",
        "n_undelivered",
    ),
)
_GOODPUT = (
    (
        "trnbot_goodput_usd",
        "gauge",
        "USD of Neuron nodes in the last seven days, by what they went into.",
        "usd",
    ),
)
_DELAYS = (
    (
        "trnbot_delayed_by_limit_seconds_total",
        "counter",
        "Time that messages waited for a platform's limits.",
        "seconds",
    ),
    (
        "trnbot_messages_waiting",
        "gauge",
        "Messages that wait for a platform's limits now.",
        "waiting",
    ),
)
_LANES = (
    (
        "trnbot_lines_refused_total",
        "counter",
        "Lines refused: a share was used up, or too many waited.",
        "refused",
    ),
    (
        "trnbot_lines_stopped_total",
        "counter",
        "Lines that took too long, or whose asker left.",
        "stopped",
    ),
    ("trnbot_lines_waiting", "gauge", "Lines that wait for a turn now.", "waiting"),
    ("trnbot_work_seconds_total", "counter", "Time that threads worked.", "seconds"),
)


LEAST_S = 15.0
"""The shortest silence that is worth a word.

A recording that is played fast ticks several times a second.
"""
BLIND_TICKS = 3
"""Ticks in a row in which something is not read from which a person is told.

What passes by itself is gone by then.
"""
REMEMBERED = 20
"""Ticks whose length tells how long a tick usually takes."""


def by_process(clusters: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Return in words, by process, the clusters that `Health.clusters` says it looks at."""
    listed = by_key(
        (
            x["process"],
            f"{x['cluster']} ({x['known']}, {counted(x['nodes'], 'node')},"
            f" since {utc_text(x['since'])})",
        )
        for x in clusters
    )
    return {process: ", ".join(words) for process, words in sorted(listed.items())}


@dataclass
class Health:
    """Hold the counters of one process, and whether its watch goes on.

    Of a process that stands by it is the leader's watch.
    """

    ticks: int = 0
    failures: int = 0
    missed: int = 0
    """Ticks that did not run in time."""
    last_tick: datetime | None = None
    last_error: str = ""
    tick_seconds: float = 0.0
    open_alerts: int = 0
    usd_per_hour: Decimal = Decimal(0)
    undelivered: tuple[str, ...] = ()
    gaps: tuple[str, ...] = ()
    learning: str = ""
    """How much of the history that alerts are judged by is known, while that is not all."""
    delays: Mapping[str, Delays] = field(default_factory=dict)
    """What each platform's limits hold up."""
    lanes: Mapping[Lane, LaneLoad] = field(
        default_factory=lambda: {lane: LaneLoad() for lane in Lane}
    )
    """What the threads of the watch, of quick lines and of heavy ones did."""
    goodput: Mapping[str, object] = field(default_factory=dict)
    """What took the dollars of the last seven days, by class, each with its `usd`."""
    stopwatch: Callable[[], float] = lambda: 0.0
    """Returns real seconds."""
    interval_s: float | None = None
    """Real seconds from tick to tick; None where no tick is due.

    Before the watch began, and at the end of a recording.
    """
    setup_problem: Callable[[], str] = lambda: ""
    """Returns the mistake in a file that is read anew while the watch goes on, "" for none."""
    leading: bool | None = None
    """Whether this process watches, or stands by for one that does; None while nobody knows."""
    failed_in_a_row: int = 0
    """Failures since the last tick that was run whole."""
    unread_in_a_row: int = 0
    """Ticks, up to the last one, without a reading by which to tell what runs or works."""
    seen: Coverage = field(default_factory=lambda: Coverage(Known.UNKNOWN))
    """How much of the fleet the last tick knew."""
    shares: Callable[[], Shares | None] = lambda: None
    """Returns which process looks at which clusters, None where one looks at all."""
    awaited: set[str] = field(default_factory=set)
    """What has to begin before people are answered, in words: chats, the first look."""
    _whole_at: float = 0.0
    """When the stopwatch showed the last complete tick, or the beginning."""
    _begun_at: float = 0.0
    _lengths: deque[float] = field(default_factory=lambda: deque(maxlen=REMEMBERED))

    def __post_init__(self) -> None:
        """Begin to wait for the first tick."""
        self._whole_at = self._begun_at = self.stopwatch()

    @property
    def n_undelivered(self) -> int:
        """Return how many notifications the last tick could not deliver."""
        return len(self.undelivered)

    @property
    def ok(self) -> bool:
        """Return whether the watch goes on."""
        return not self.fault

    @property
    def starting(self) -> str:
        """Return what people wait for since the start, "" once they are answered."""
        return f"Starting: {', '.join(sorted(self.awaited))}." if self.awaited else ""

    @property
    def ended(self) -> bool:
        """Return whether no tick is due any more: the recording is played to its end."""
        return self.leading is not None and self.interval_s is None

    @property
    def fault(self) -> str:
        """Return why the watch does not go on, "" while it does."""
        return self.last_error or self.overdue or self.blind

    @property
    def blind(self) -> str:
        """Return a sentence on gaps of several ticks, "" while a tick or two may mend them."""
        if self.unread_in_a_row < BLIND_TICKS:
            return ""
        ticks = counted(self.unread_in_a_row, "tick")
        if not self.gaps:
            return f"Nothing is known of the fleet for {ticks}: {self.seen.because}"
        others = f" (and {counted(len(self.gaps) - 1, 'more gap')})" if self.gaps[1:] else ""
        return f"Not read for {ticks}, so alerts may be missing: {self.gaps[0]}{others}"

    @property
    def overdue(self) -> str:
        """Return since when no tick was run whole.

        "" while that is shorter than two intervals and a tick's usual length.
        """
        usual = median(self._lengths) if self._lengths else 0.0
        if self.interval_s is None or self.silent_s <= max(2 * self.interval_s, LEAST_S) + usual:
            return ""
        last = f"that of {utc_text(self.last_tick)}" if self.last_tick else "the start"
        whose = "The leader has run no tick" if self.leading is False else "No tick was run"
        return (
            f"{whose} since {last}, {age_text(self.silent_s)} ago;"
            " see its log, and restart it if it is stuck."
        )

    @property
    def silent_s(self) -> float:
        """Return the real seconds since the last complete tick."""
        return self.stopwatch() - self._whole_at

    def ticked(
        self,
        now: datetime,
        seconds: float,
        alerts: Sequence[Alert],
        gaps: tuple[str, ...],
        seen: Coverage,
    ) -> None:
        """Note a tick that was run whole, and how much of the fleet it knew."""
        self.seen = seen
        speaking = [a for a in alerts if a.speaking]
        self.ticks, self.last_tick, self.tick_seconds = self.ticks + 1, now, seconds
        self.recovered()
        unread = gaps or seen.known is Known.UNKNOWN
        self.gaps, self.unread_in_a_row = gaps, self.unread_in_a_row + 1 if unread else 0
        self._whole_at = self.stopwatch()
        self._lengths.append(seconds)
        self.open_alerts = len(speaking)
        self.usd_per_hour = usd_per_hour_of(speaking)

    @contextmanager
    def noting(self) -> Iterator[None]:
        """Note a tick that fails in here, wherever it does."""
        try:
            yield
        except Standby:
            raise
        except Exception as error:
            self.failed(sentence_of(error))
            raise

    def failed(self, sentence: str) -> None:
        """Note a tick that failed."""
        self.failures += 1
        self.hindered(sentence)

    def hindered(self, sentence: str) -> None:
        """Note that the lead could not be asked for, so that no tick was tried."""
        self.failed_in_a_row += 1
        self.last_error = sentence

    def recovered(self) -> None:
        """Note that the watch works again."""
        self.last_error, self.failed_in_a_row = "", 0

    def leads(self, interval_s: float | None) -> None:
        """Note that this process watches from now on, every so many seconds.

        None where no tick is due any more.
        """
        if not self.leading or self.interval_s is None:
            self._whole_at = self.stopwatch()
        self.leading, self.interval_s = True, interval_s

    def stands_by(
        self, ticked_at: datetime | None, interval_s: float | None, age_s: float = 0.0
    ) -> None:
        """Note that another process watches.

        Its last tick, `age_s` old at least, and how often one is due.
        """
        if self.leading is not False or ticked_at != self.last_tick:
            self._whole_at = self.stopwatch() - age_s
        self.leading, self.last_tick, self.interval_s = False, ticked_at, interval_s
        self.recovered()

    def facts(self) -> dict[str, Any]:
        """Return how the watch stands."""
        problem = (
            self.fault
            or "; ".join(self.undelivered[:1])
            or "; ".join(self.gaps[:1])
            or self.setup_problem()
        )
        return {
            "ok": self.ok,
            "problem": problem,
            **(self.seen.data if self.leading is not False else {}),
            "learning": self.learning,
            **({"clusters": clusters} if (clusters := self.clusters) else {}),
            "leading": self.leading,
            "ended": self.ended,
            "ticked_at": self.last_tick,
            "seconds_since_tick": round(self.silent_s, 1),
            "up_seconds": round(self.stopwatch() - self._begun_at, 1),
            "ticks": self.ticks,
            "missed": self.missed,
            "failures": self.failures,
            "tick_seconds": self.tick_seconds,
            "undelivered": self.n_undelivered,
            "open_alerts": self.open_alerts,
            "usd_per_hour": self.usd_per_hour,
            **{
                f"delayed_by_{name}_seconds": round(delays.seconds, 1)
                for name, delays in self.delays.items()
            },
            **{f"waiting_for_{name}": delays.waiting for name, delays in self.delays.items()},
        }

    @property
    def clusters(self) -> list[dict[str, Any]]:
        """Return who looks at each cluster, and since when; nothing where one process watches.

        One that nobody looked at on the last tick is unknown, and so are all once the watch fails.
        """
        shares = self.shares()
        if shares is None:
            return []
        unknown = set(shares.holders if self.fault else shares.unseen)
        return [
            {
                "cluster": cluster,
                "process": process,
                "since": shares.since.get(cluster, shares.at),
                "nodes": shares.nodes.get(cluster, 0),
                "known": Known.UNKNOWN if cluster in unknown else Known.WHOLE,
            }
            for cluster, process in sorted(shares.holders.items())
        ]

    @property
    def checks(self) -> list[Check]:
        """Return for `doctor` which clusters each process looks at."""
        blind = {x["process"] for x in self.clusters if x["known"] is Known.UNKNOWN}
        remedy = "Others take them over within two ticks; if none does, see its log."
        return [
            Check(f"watch by {process}", process not in blind, words, remedy)
            for process, words in by_process(self.clusters).items()
        ]

    def exposition(self) -> str:
        """Return the counters in Prometheus's text format."""
        tables: tuple[tuple[Sequence[tuple[str, ...]], Mapping[str, object]], ...] = (
            (_METRICS, {"": self}),
            (_GOODPUT, {f'{{class="{name}"}}': row for name, row in self.goodput.items()}),
            (_DELAYS, {f'{{platform="{name}"}}': delays for name, delays in self.delays.items()}),
            (_LANES, {f'{{lane="{lane}"}}': load for lane, load in self.lanes.items()}),
        )
        lines = []
        for rows, sources in tables:
            for name, kind, meaning, attribute in rows if sources else ():
                lines += [f"# HELP {name} {meaning}", f"# TYPE {name} {kind}"]
                for labels, source in sources.items():
                    value = getattr(source, attribute)
                    number = int(value or 0) if value is None or isinstance(value, bool) else value
                    lines.append(f"{name}{labels} {number}")
        return "\n".join(lines) + "\n"


def sentence_of(error: Exception) -> str:
    """Return a sentence that may be shown of an error: the bot's own, or the kind of any other."""
    if isinstance(error, TrnbotError):
        return str(error)
    return f"{getattr(error, 'strerror', None) or type(error).__name__}; the log says where."


@dataclass(frozen=True)
class Outage:
    """State since when nothing reaches a channel, and whether a person was told."""

    since: datetime
    reported: bool = field(default=False, metadata={"stored": "told"})


OUTAGES = Documents("troubles", Outage)
PATIENCE = timedelta(minutes=15)
"""How long a platform may be away before a person is told.

What only a person can mend is told at once.
"""
MOST = 100


async def watch_channels(
    delivered: Delivered,
    store: DocumentStore,
    now: datetime,
    tell: Callable[[str], Awaitable[None]],
) -> None:
    """Tell of channels that nothing reaches, each once, and of those that messages reach again."""
    if not delivered.entries and not delivered.failures:
        return
    outages = dict(await asyncio.to_thread(OUTAGES.newest, store, MOST))
    for channel, error in delivered.failures.items():
        outage = outages.get(channel, Outage(now))
        due = not outage.reported and (now - outage.since >= PATIENCE or isinstance(error, Refused))
        if channel not in outages or due:
            await asyncio.to_thread(
                OUTAGES.put, store, channel, replace(outage, reported=outage.reported or due)
            )
        if due:
            await tell(f"Nothing reaches {channel}: {error}")
    for channel in {entry.channel for entry in delivered.entries} & outages.keys():
        await asyncio.to_thread(OUTAGES.drop, store, channel)
        if outages[channel].reported:
            await tell(f"Messages reach {channel} again.")
