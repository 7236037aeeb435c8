"""Find the least waste an hour that is worth a message, so that messages keep within a budget.

Of a promised number of messages a week, the floor follows what is left of the week.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import ROUND_UP, Decimal
from functools import cache, cached_property
from itertools import pairwise
from operator import attrgetter

import numpy as np

from bot.errors import WrongInput
from bot.model.alert import Alert, MutedBy, spent
from bot.model.causes import Severity
from bot.model.policy import Policy
from bot.model.window import HOUR, WEEK, Window, midnight
from bot.watch.mute import counted_with
from bot.watch.notify import group_key

FLOOR = "alert.least_usd_per_hour"
MOST = "alert.most_per_week"
LEAST = "alert.least_caught"
FLOORED, HELD = MutedBy.SETTING.mark(FLOOR), MutedBy.SETTING.mark(MOST)
"""The marks of alerts that a floor, or the messages left of a week, keep from notifying."""


@dataclass(frozen=True)
class Budget:
    """Promise at most so many messages a week, at least a share of wasted dollars, or both.

    0 promises nothing.
    """

    most_per_week: float = 0.0
    least_caught: float = 0.0

    @classmethod
    def of(cls, policy: Policy) -> Budget:
        """Return the budget that a policy promises."""
        return cls(policy.number(MOST), policy.number(LEAST))


_MESSAGES = re.compile(
    r"(\d{1,4}(?:\.\d+)?)\s*(?:messages?|alerts?)?\s*(?:a|per|each|every|/)\s*(day|week|month)s?"
)
_SHARE = re.compile(r"(\d{1,3}(?:\.\d+)?)\s*(?:%|percent|per cent)")
_WEEKS = {"day": 1 / 7, "week": 1, "month": 365.25 / 12 / 7}
_PLAIN = re.compile(
    r"\b(at|most|least|no|more|less|fewer|than|up|to|and|of|the|all|wasted|waste|dollars|money"
    r"|caught|catch|messages?|alerts?)\b"
)


def read_budget(words: str) -> Budget:
    """Read `at most 2 messages a week and at least 90% of wasted dollars`, or one of the two.

    Raises `WrongInput` that names what was not understood.
    """
    line = words.lower().replace('"', " ").replace("'", " ").replace(",", " ")
    messages, share = _MESSAGES.search(line), _SHARE.search(line)
    for match in (messages, share):
        line = line.replace(match[0], " ", 1) if match else line
    unread = _PLAIN.sub(" ", line).split()
    if unread or not (messages or share):
        wrong = f"'{' '.join(unread)}' is not part of a budget" if unread else "No number was given"
        raise WrongInput(
            f"{wrong}; for example: config budget at most 2 messages a week and at least 90% of wasted"
            " dollars."
        )

    most = float(int(float(messages[1]) / _WEEKS[messages[2]])) if messages else 0.0
    least = float(share[1]) / 100 if share else 0.0
    if least > 1:
        raise WrongInput(f"A share is at most 100 %; got '{share[0] if share else ''}'.")
    if messages and most < 1:
        raise WrongInput(
            "A budget allows at least one message a week; 'config set' turns rules off."
        )
    return Budget(most, least)


@dataclass(frozen=True)
class Point:
    """State the messages that one floor sends, and USD of the waste that they are about."""

    usd_per_hour: Decimal
    messages: int
    usd: Decimal


@dataclass(frozen=True)
class Frontier:
    """Hold the alerts that a window raised without a floor, to try each floor on them."""

    window: Window
    raised: Sequence[Alert]
    worths: Mapping[str, Decimal | None]
    """By id the USD an hour that a floor judges an alert by, None where it never holds one back."""
    floor: Decimal
    """The floor in force."""
    most: float = 0.0
    """Messages a week that are promised, 0 for none."""

    @cached_property
    def floors(self) -> list[Decimal]:
        """Return every floor that is worth a try, the highest first."""
        steps = sorted({worth for worth in self.worths.values() if worth is not None})
        # Between two worths every floor sends the same: the middle is the surest.
        between = (_rounded((low * high).sqrt(), high) for low, high in pairwise(steps))
        floors = {Decimal(0), *between, *(_rounded(x * 2, x * 3) for x in steps[-1:])}
        return sorted(floors, reverse=True)

    @cached_property
    def points(self) -> tuple[Point, ...]:
        """Return a point for each floor, the fewest messages first: of equal ones that of most waste."""
        fewest = {point.messages: point for point in map(self.at, self.floors)}
        return tuple(fewest[messages] for messages in sorted(fewest))

    @cached_property
    def current(self) -> Point:
        """Return the point of the floor in force."""
        return self.following(self.most) if self.most else self.at(self.floor)

    def at(self, floor: Decimal) -> Point:
        """Return the point of a floor."""
        sent = [a for a in self.raised if (worth := self.worths[a.id]) is None or worth >= floor]
        return Point(floor, messages_of(sent), spent(sent))

    @property
    def weeks(self) -> float:
        """Return the weeks that were replayed."""
        return self.window.length / WEEK

    @property
    def usd(self) -> Decimal:
        """Return the USD of all waste that the rules saw."""
        return self.points[-1].usd

    def per_week(self, point: Point) -> float:
        """Return the messages a week of a point."""
        return point.messages / self.weeks

    def caught(self, point: Point) -> float:
        """Return the share of wasted USD that a point's messages are about, 1 without waste."""
        return float(point.usd / self.usd) if self.usd else 1.0

    def following(self, most: float) -> Point:
        """Return the point of the floor that follows `most` messages a week.

        Its weeks learn from weeks like them before; its USD an hour are those of waste that lasts
        the whole week to come.
        """
        earlier = [
            replace(
                x,
                id=f"earlier {x.id}",
                opened=x.opened - LEARNT,
                closed=(x.closed or x.seen) - LEARNT,
                muted_by=HELD,
            )
            for x in self.raised
        ]
        sent = followed(self.raised, self.window, most, earlier)
        floor = Bids.of(self.raised).floor(int(most), WEEK / HOUR) / (WEEK // HOUR)
        return Point(_rounded(floor, floor), messages_of(sent), spent(sent))

    @cached_property
    def critical(self) -> int:
        """Return the messages that no promise counts or holds back."""
        return messages_of(self.raised) - promised_of(self.raised)

    def chosen(self, budget: Budget) -> Point:
        """Return the point that keeps to a budget of messages as they are used up.

        Of a share alone, that of the fewest messages that catch it.
        """
        if budget.most_per_week:
            return self.following(budget.most_per_week)
        enough = [x for x in self.points if self.caught(x) >= budget.least_caught]
        return enough[0] if enough else self.points[-1]

    def kept(self, point: Point, budget: Budget) -> bool:
        """Return whether a point keeps all that a budget promises."""
        most = budget.most_per_week
        within = not most or point.messages - self.critical <= most * self.weeks
        return within and self.caught(point) >= budget.least_caught


def frontier(alerts: Iterable[Alert], window: Window, policy: Policy) -> Frontier:
    """Return the frontier of alerts that were raised without a floor.

    `policy` has the floor in force.
    """
    raised = [alert for alert in alerts if not alert.muted_by]
    return Frontier(window, raised, worth_of(raised), policy.usd(FLOOR), policy.number(MOST))


def worth_of(
    alerts: Sequence[Alert],
    least: Decimal | None = None,
    of: Callable[[Alert], Decimal] = attrgetter("most_usd_per_hour"),
) -> dict[str, Decimal | None]:
    """Return by id the USD by which a floor judges each alert: an hour, where `of` is not told.

    None for what is sent however small it is. Within a promise of messages this is only what is
    urgent: all else that is sent however small competes, as if it wasted `least` at least.
    """
    worths: dict[str, Decimal | None] = {}
    for alert in alerts:
        is_free = _is_free(alert)
        if is_free and (least is None or _is_urgent(alert)):
            worths[alert.id] = None
            continue

        like = counted_with(alert, [x for x in alerts if _overlap(x, alert)])
        worth = sum(map(of, like), Decimal(0))
        worths[alert.id] = max(worth, least) if is_free and least is not None else worth
    return worths


def usd_within_a_week(alert: Alert) -> Decimal:
    """Return the USD that an alert is likely to waste, until the next week has its own messages.

    It goes on at its peak for as long as its cause usually does.
    """
    lasts = HOUR if alert.anomaly.lost_hours else min(alert.cause.facts.lasts, WEEK)
    return alert.most_usd_per_hour * (lasts // HOUR)


def messages_of(alerts: Iterable[Alert]) -> int:
    """Return how many messages tell of alerts: those of one group that overlap share theirs."""
    return sum(1 for _ in _firsts(alerts))


def promised_of(alerts: Iterable[Alert]) -> int:
    """Return how many of the messages a promise counts: all but those that begin as critical."""
    return sum(not _is_urgent(x) for x in _firsts(alerts))


def _firsts(alerts: Iterable[Alert]) -> Iterator[Alert]:
    """Yield the alerts that begin a message, oldest first."""
    groups: dict[str, list[Alert]] = {}
    for alert in sorted(alerts, key=lambda alert: alert.opened):
        earlier = groups.setdefault(group_key(alert), [])
        if not any(_overlap(alert, member) for member in earlier):
            yield alert
        earlier.append(alert)


LEARNT = 2 * WEEK
"""How far back the alerts lie from which a week is judged."""
BEYOND = 2
"""Times the dearest message of those weeks that an alert is worth to be sent past the promise."""


@dataclass(frozen=True)
class Bids:
    """Price a message of those left of a week by the waste that may need it later.

    `worths` are the USD of the messages of `LEARNT` that a promise counts, within a week, (n,).
    """

    worths: tuple[float, ...]

    @classmethod
    def of(cls, alerts: Sequence[Alert]) -> Bids:
        """Learn from alerts: the first of those that share a message stands for it."""
        competing = [x for x in _firsts(alerts) if not _is_urgent(x)]
        peaks = {x.id: usd_within_a_week(x) for x in competing}

        # What has no dollars comes after all that has, and before nothing.
        least = min((peaks[x.id] for x in competing if not _is_free(x)), default=Decimal(0))
        worths = (max(peaks[x.id], least) if _is_free(x) else peaks[x.id] for x in competing)
        return cls(tuple(map(float, worths)))

    @property
    def least(self) -> Decimal:
        """Return the USD within a week that an alert without dollars counts for."""
        return Decimal(repr(min(self.worths, default=0.0)))

    def floor(self, left: int, hours: float) -> Decimal:
        """Return the least USD worth one of `left` messages with `hours` of a week to come.

        It is the worth that the week is likely to lose with the message (a bid price; Talluri and
        van Ryzin, 2004): messages come by chance at the rate and of the worths that were learnt,
        each taken where it is worth more than the message is then.
        """
        worths = np.array(self.worths)
        if left < 1:
            # One message goes past the promise, for what is far dearer than all that was learnt.
            dearest = max(self.worths, default=0.0) if left == 0 else 0.0
            return BEYOND * Decimal(repr(dearest)) if dearest else Decimal("Infinity")
        if not worths.size:
            return Decimal(0)

        # The worth of a rest of the week with so many messages left, hour by hour from its end.
        comes = 1 - np.exp(-worths.size / (LEARNT / HOUR))
        losses = np.zeros(left + 1)
        for _ in range(int(np.ceil(hours))):
            price = np.diff(losses)
            losses[1:] += comes * np.maximum(worths[:, None] - price, 0).mean(axis=0)
        return Decimal(repr(float(losses[-1] - losses[-2])))


def week_at(now: datetime) -> Window:
    """Return the UTC week from Monday that a promise holds for."""
    monday = midnight(now) - timedelta(days=now.weekday())
    return Window(monday, monday + WEEK)


def hold(
    alerts: Sequence[Alert], recent: Sequence[Alert], most: float, week: Window, now: datetime
) -> list[Alert]:
    """Return alerts of a tick with those marked that are not worth a message of the rest of a week.

    `recent` are those of the tick before, and those that have ended since `LEARNT` ago. What was sent
    stays so; what shares a message, is urgent or explains what is urgent is sent; `notified` says
    since when.
    """
    before = {x.id: x for x in recent}
    sent = [x for x in before.values() if _was_sent(x)]
    notified = {x.id for x in sent}
    waiting = [x for x in alerts if x.speaking and x.id not in notified]
    if not waiting:
        return list(alerts)

    # An alert is no measure of itself.
    judged = {x.id for x in waiting}
    bids = Bids.of(
        [
            x
            for x in before.values()
            if x.id not in judged and x.muted_by in ("", FLOORED, HELD) and x.opened >= now - LEARNT
        ]
    )
    worths = worth_of([x for x in alerts if x.speaking], bids.least, usd_within_a_week)
    explains = {x.muted_by for x in alerts if _is_urgent(x)}

    @cache
    def price(used: int) -> Decimal:
        return bids.floor(int(most) - used, (week.end - now) / HOUR)

    changed: dict[str, Alert] = {}
    for alert in sorted(waiting, key=lambda x: -(worths[x.id] or 0)):
        used = promised_of(x for x in sent if x.notified_at in week)
        worth = worths[alert.id]
        is_sent = (
            worth is None
            or worth >= price(used)
            or alert.effect_mark in explains
            or messages_of([*sent, alert]) == messages_of(sent)
        )
        marked = replace(alert, notified=now) if is_sent else replace(alert, muted_by=HELD)
        changed[alert.id] = marked
        if is_sent:
            sent.append(marked)
    return [changed.get(x.id, x) for x in alerts]


def followed(
    alerts: Iterable[Alert], window: Window, most: float, earlier: Sequence[Alert] = ()
) -> list[Alert]:
    """Return the alerts that are sent as a floor follows `most` messages a week through a window.

    Its weeks begin where it does, and it is looked at hour by hour; `earlier` alerts are over.
    """
    coming = sorted(alerts, key=lambda x: x.opened)
    raised: dict[str, Alert] = {}
    for number in range(int(window.length / HOUR) + 1):
        now = window.start + number * HOUR
        while coming and coming[0].opened <= now:
            alert = coming.pop(0)
            raised[alert.id] = replace(alert, muted_by=HELD)
        firing = [
            replace(x, closed=None, muted_by="")
            for x in raised.values()
            if x.muted_by and (x.closed is None or x.closed > now - HOUR)
        ]
        if firing:
            # The end of the window is the end of its last week.
            passed = min(now, window.end - HOUR) - window.start
            week = window.start + passed // WEEK * WEEK
            recent = [*earlier, *raised.values()]
            for x in hold(firing, recent, most, Window(week, week + WEEK), now):
                raised[x.id] = replace(raised[x.id], muted_by=x.muted_by, notified=x.notified)
    return [x for x in raised.values() if not x.muted_by]


@dataclass(frozen=True)
class Week:
    """State the messages of a week, and USD of the waste that they covered, of all that they could.

    Those about what is critical stand apart: no promise counts them.
    """

    messages: int
    critical: int
    covered_usd: Decimal
    usd: Decimal
    held: Sequence[Alert] = ()
    """The alerts that waited for a message and never had one, the dearest first."""

    @property
    def caught(self) -> float:
        """Return the share of wasted USD that was told of, 1 without waste."""
        return float(self.covered_usd / self.usd) if self.usd else 1.0

    def keeps(self, budget: Budget) -> bool:
        """Return whether all that was promised held."""
        most = budget.most_per_week
        return (not most or self.messages <= most) and self.caught >= budget.least_caught


def week_of(alerts: Iterable[Alert], window: Window) -> Week:
    """Return the messages of a window's alerts, beside those that the floor alone held back."""
    within = [alert for alert in alerts if alert.notified_at in window]
    sent = [alert for alert in within if _was_sent(alert)]
    floored = [alert for alert in within if alert.muted_by in (FLOORED, HELD)]
    covered, held = spent(sent), [alert for alert in floored if alert.muted_by == HELD]
    messages = promised_of(sent)
    return Week(
        messages,
        messages_of(sent) - messages,
        covered,
        covered + spent(floored),
        sorted(held, key=lambda alert: -(alert.waste.so_far if alert.waste else 0)),
    )


def _was_sent(alert: Alert) -> bool:
    """Return whether an alert has notified, even if it has been muted since."""
    return not alert.muted_by or alert.notified is not None


def _is_free(alert: Alert) -> bool:
    """Return whether no floor holds an alert back."""
    return alert.waste is None or alert.cause.facts.however_small


def _is_urgent(alert: Alert) -> bool:
    """Return whether no promise of messages holds an alert back: critical, whatever it wastes."""
    return _is_free(alert) and alert.severity is Severity.CRITICAL


def _overlap(alert: Alert, beside: Alert) -> bool:
    ends = [x.closed or max(alert.seen, beside.seen) for x in (alert, beside)]
    return alert.opened <= ends[1] and beside.opened <= ends[0]


def _rounded(floor: Decimal, most: Decimal) -> Decimal:
    """Return a floor with two significant digits, no more than `most`."""
    # Cents are the least that a floor is written in.
    step = Decimal(1).scaleb(floor.adjusted() - 1) if floor else Decimal("0.01")
    step = max(step, Decimal("0.01"))
    return min(floor.quantize(step, ROUND_UP) if step < 1 else -(-floor // step) * step, most)
