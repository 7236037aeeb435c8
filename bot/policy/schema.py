"""List every setting that admins tune, and read and write its text.

Each has a unit, a default, a meaning, a source and bounds.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from decimal import Decimal
from enum import StrEnum

from bot.errors import WrongInput, nearest
from bot.model.causes import CAUSES, Cause
from bot.model.labels import Labels
from bot.model.policy import Policy, Value
from bot.model.window import OFF, parse_duration, read_quiet_hours, write_duration


class SettingUnit(StrEnum):
    """Name how a value is written."""

    RATIO = "%"
    NUMBER = "number"
    DURATION = "duration"
    USD = "USD"
    SWITCH = "on/off"
    WORD = "word"


@dataclass(frozen=True)
class Setting:
    """Describe one key.

    `low` and `high` are inclusive, in the value's own unit (seconds for a duration).
    """

    key: str
    unit: SettingUnit
    default: Value
    meaning: str
    source: str
    low: float = 0.0
    high: float = float("inf")
    scoped: bool = True
    """Can differ by cluster, team or account."""
    check: Callable[[str], object] | None = None
    """Reads a word that follows a form of its own; raises `WrongInput`."""

    def parse(self, text: str) -> Value:
        """Read a value as a person writes it (`15%`, `30m`, `$2.50`, `on`).

        Raise `WrongInput` naming the bound.
        """
        value = self._read(text.strip())
        size = value.total_seconds() if isinstance(value, timedelta) else value
        if not isinstance(size, str | bool) and not self.low <= float(size) <= self.high:
            raise WrongInput(
                f"{self.key} lies between {self._bound(self.low)} and {self._bound(self.high)};"
                f" got '{text}'."
            )
        return value

    def show(self, value: Value) -> str:
        """Write a value so that `parse` reads the same back."""
        if isinstance(value, bool):
            return "on" if value else "off"
        if isinstance(value, timedelta):
            return write_duration(value)
        if isinstance(value, Decimal):
            return f"${value}"
        if isinstance(value, str):
            return value
        return f"{value * 100:.10g}%" if self.unit is SettingUnit.RATIO else f"{value:.10g}"

    def fits(self, scope: Labels) -> None:
        """Raise `WrongInput` where a scope is asked for, and the setting holds for everything."""
        if not self.scoped and str(scope):
            raise WrongInput(f"{self.key} applies to everything at once; leave out {scope}.")

    def bounds(self) -> tuple[str, str]:
        """Return the least and the largest value as text, "–" where there is no bound."""
        if self.unit in {SettingUnit.SWITCH, SettingUnit.WORD}:
            return "–", "–"
        return self._bound(self.low), self._bound(self.high)

    def _read(self, text: str) -> Value:
        match self.unit:
            case SettingUnit.DURATION:
                return parse_duration(text)
            case SettingUnit.SWITCH:
                if text.lower() not in {"on", "off", "true", "false", "yes", "no"}:
                    raise WrongInput(f"{self.key} is on or off; got '{text}'.")
                return text.lower() in {"on", "true", "yes"}
            case SettingUnit.WORD:
                if self.check:
                    self.check(text)
                return text
            case SettingUnit.USD:
                return self._decimal(text.lstrip("$").replace(",", ""), text)
            case SettingUnit.RATIO:
                number = float(self._decimal(text.rstrip("%").strip(), text))
                return number / 100 if text.endswith("%") else number
            case SettingUnit.NUMBER:
                return float(self._decimal(text, text))

    def _decimal(self, digits: str, text: str) -> Decimal:
        if not re.fullmatch(r"-?\d{1,12}(\.\d{1,9})?", digits):
            raise WrongInput(
                f"'{text}' is not a value of {self.key}; write it like {self.show(self.default)}."
            )
        return Decimal(digits)

    def _bound(self, size: float) -> str:
        if size == float("inf"):
            return "any"
        if self.unit is SettingUnit.DURATION:
            return write_duration(timedelta(seconds=size))
        return self.show(Decimal(str(size)) if self.unit is SettingUnit.USD else size)


_OWN = "trnbot's own default"
_CWA = "amazon-cloudwatch-agent: a node without a runtime reports zeros, so zero is not silence"
_OPTIMUM = (
    "optimum-neuron logs say a compile may take up to one hour;"
    " vendor texts say 5-15 and 15-45 minutes"
)
_WARM = (
    "Neuron Persistent Cache: what was compiled is not compiled again,"
    " so 20m fits a job whose shapes are settled;"
    " the default is half the grace of a first compile, as a restart may change them"
)
_EFA = "AWS publishes the NIC's limit per type; a sustained share of it is trnbot's own default"
_SETTLE = "AWS rewrites the bill for days; only days that were wholly seen are judged"
_BURN = (
    "multi-window burn-rate alerts, Google's SRE Workbook chapter 5;"
    " the rates are trnbot's own, as money is meant to be spent"
)
_DAY = 86_400.0


def _after(
    key: str, minutes: float, meaning: str, source: str = _OWN, high: float = 7 * _DAY
) -> Setting:
    return Setting(key, SettingUnit.DURATION, timedelta(minutes=minutes), meaning, source, 60, high)


def _share(
    key: str, default: float, meaning: str, source: str = _OWN, high: float = 1.0
) -> Setting:
    return Setting(key, SettingUnit.RATIO, default, meaning, source, 0.0, high)


def _number(
    key: str, default: float, meaning: str, bounds: tuple[float, float], source: str = _OWN
) -> Setting:
    return Setting(key, SettingUnit.NUMBER, default, meaning, source, *bounds)


_THRESHOLDS: Mapping[Cause, tuple[Setting, ...]] = {
    Cause.IDLE: (
        _share("idle.below", 0.05, "utilization at or under which a node does nothing", high=0.5),
        _after("idle.for", 30, "how long it lasts before an alert is raised"),
        Setting(
            "idle.spared",
            SettingUnit.WORD,
            "standby,interactive,debug",
            "values of the tag `purpose` whose nodes may be idle",
            _OWN,
        ),
    ),
    Cause.ALLOCATED_UNUSED: (
        _after("allocated_unused.for", 30, "how long it lasts before an alert is raised"),
    ),
    Cause.HUNG: (
        _after("hung.for", 20, "how long without progress before an alert is raised", high=_DAY),
    ),
    Cause.NO_DATA: (
        Setting(
            "no_data.for",
            SettingUnit.DURATION,
            timedelta(minutes=15),
            "how long it lasts before an alert is raised",
            _CWA,
            300,
            _DAY,
        ),
    ),
    Cause.COMPILING: (
        _after(
            "compiling.grace",
            60,
            "how long a compile may take before it is reported, and how long a new node may be"
            " idle",
            _OPTIMUM,
            _DAY,
        ),
        _share(
            "compiling.cpu",
            0.35,
            "host CPU from which a node without executions counts as compiling",
        ),
    ),
    Cause.COLD_CACHE: (
        _share(
            "cold_cache.nodes",
            0.5,
            "share of a cluster's nodes that compile at the same time, for several jobs",
        ),
        _after(
            "cold_cache.again",
            30,
            "how long a job that ran before may compile at a start; the second such start, or the"
            " first after several without, is reported",
            _WARM,
            _DAY,
        ),
        _number(
            "compiling.nodes",
            4,
            "how many nodes must compile at once before compiling on one first is advised",
            (2, 1e5),
        ),
    ),
    Cause.KILLED_COMPILE: (
        _after(
            "killed_compile.after",
            15,
            "how long nothing executes after its process is gone before an alert is raised",
            high=_DAY,
        ),
    ),
    Cause.STARVED: (
        _share(
            "starved.deep", 0.50, "share of the usual utilization under which a drop is raised soon"
        ),
        _after(
            "starved.for", 10, "how long a deep drop lasts before an alert is raised", high=_DAY
        ),
        _share(
            "starved.below", 0.75, "share of the usual utilization under which a drop counts at all"
        ),
        _after(
            "starved.shallow_for",
            60,
            "how long a shallow drop lasts before an alert is raised; evaluations are shorter",
            high=_DAY,
        ),
        _share("starved.over", 0.83, "share of the usual utilization at which a drop ends"),
        _share("starved.cpu", 0.80, "host CPU that points to the data loader"),
    ),
    Cause.NETWORK_BOUND: (
        _share(
            "network_bound.above",
            0.75,
            "share of the NIC's limit that EFA must carry to be network bound",
            _EFA,
        ),
    ),
    Cause.COLLECTIVE_PATH: (
        _number(
            "collective_path.growth",
            3,
            "growth of ENA or EFA traffic over its usual that points to a wrong path",
            (1.2, 100),
        ),
    ),
    Cause.MEMORY_PRESSURE: (
        _share("memory_pressure.above", 0.95, "share of the device memory in use"),
        _after("memory_pressure.for", 15, "how long it lasts before an alert is raised", high=_DAY),
    ),
    Cause.EXECUTION_ERRORS: (
        _number(
            "execution_errors.above",
            5,
            "how many errors of one node within the span are reported",
            (1, 1e6),
        ),
        _after("execution_errors.within", 30, "the span that errors are counted in", high=_DAY),
    ),
    Cause.HARDWARE_FAULT: (
        _number(
            "hardware_fault.ecc_events",
            10,
            "how many ECC events of one node within the span are reported, where their kinds are"
            " not known",
            (1, 1e6),
        ),
        _after(
            "hardware_fault.within", 30, "the span that hardware events are counted in", high=_DAY
        ),
    ),
    Cause.CHECKPOINT_AT_RISK: (
        _number(
            "checkpoint_at_risk.factor",
            2,
            "age of the newest checkpoint that is reported, in its usual intervals",
            (1.1, 100),
        ),
    ),
    Cause.INTERRUPTION_NOTICE: (
        _after(
            "interruption_notice.ahead",
            2 * 1440,
            "how long before a planned event its alert is raised",
            high=30 * _DAY,
        ),
    ),
    Cause.ORPHANED_STORAGE: (
        _after(
            "orphaned_storage.for",
            3 * 1440,
            "how long without use before an alert is raised",
            high=90 * _DAY,
        ),
    ),
    Cause.UNUSED_CAPACITY: (
        _after("unused_capacity.for", 60, "how long after its start a reservation is judged"),
    ),
    Cause.SPEND_JUMP: (
        _share(
            "spend_jump.above", 0.30, "growth over the usual day that is reported", _SETTLE, 10.0
        ),
        Setting(
            "spend_jump.least",
            SettingUnit.NUMBER,
            20.0,
            "USD a day of growth under which nothing is reported",
            _SETTLE,
            0,
            1e7,
        ),
        _number(
            "spend_jump.hours",
            3,
            "how many hours in a row must be unusual to be reported before their day has settled",
            (1, 24),
            _SETTLE,
        ),
        _share(
            "spend_jump.along",
            0.10,
            "how much storage and requests may add for new nodes in use, as a share of the nodes'"
            " price",
        ),
    ),
    Cause.SPEND_NEW: (
        _number(
            "spend_new.least", 20, "USD a day under which nothing is reported", (0, 1e7), _SETTLE
        ),
    ),
    Cause.COMMITMENT_UNUSED: (
        _share(
            "commitment_unused.below",
            0.70,
            "share of a plan or reservation in use under which it is reported, however long that"
            " lasts",
        ),
        _number(
            "commitment_unused.days", 7, "how many settled days it must last", (2, 30), _SETTLE
        ),
    ),
    Cause.BUDGET_BURN: (
        Setting(
            "budget_burn.month_usd",
            SettingUnit.USD,
            Decimal(0),
            "budget of a UTC month, amortised, before credits and tax;"
            " $0 is none; one for each scope",
            _OWN,
            0,
            1e10,
        ),
        _number(
            "budget_burn.fast_rate",
            2,
            "pace on the newest settled day that is reported, as a multiple of what the rest of"
            " the budget allows",
            (1, 100),
            _BURN,
        ),
        _number(
            "budget_burn.slow_rate", 1.1, "the same multiple over the slow window", (1, 100), _BURN
        ),
        _number(
            "budget_burn.slow_days",
            7,
            "settled days of the slow window: a whole week evens out weekends",
            (2, 28),
            _BURN,
        ),
    ),
    Cause.ODD: (
        _number(
            "odd.false_alerts_per_week",
            0.1,
            "false alerts expected of the forest per cluster and week",
            (0.001, 50),
        ),
        replace(
            _after(
                "odd.for",
                30,
                "how long it lasts before an alert is raised: both halves of it must be odd",
                high=_DAY,
            ),
            scoped=False,
        ),
        replace(
            _number(
                "odd.silent_days", 2, "days of history before the forest raises anything", (1, 14)
            ),
            scoped=False,
        ),
    ),
}
"""The settings of each cause beside its switch, in the order of the table of causes."""

DETECTION: tuple[Setting, ...] = tuple(
    setting
    for cause, facts in CAUSES.items()
    for setting in (
        Setting(f"{cause}.on", SettingUnit.SWITCH, True, facts.switch, _OWN),
        *_THRESHOLDS.get(cause, ()),
    )
)


ALERTING: tuple[Setting, ...] = (
    Setting(
        "alert.least_usd_per_hour",
        SettingUnit.USD,
        Decimal("1"),
        "waste under this is not reported",
        _OWN,
        0,
        10_000,
    ),
    Setting(
        "alert.critical_usd_per_hour",
        SettingUnit.USD,
        Decimal("500"),
        "waste from which an alert is critical whatever its cause:"
        " reminded, escalated, sent in quiet hours",
        _OWN,
        1,
        1_000_000,
    ),
    Setting(
        "alert.resolve_after",
        SettingUnit.DURATION,
        timedelta(minutes=15),
        "quiet time before an alert ends",
        _OWN,
        0,
        86_400,
        scoped=False,
    ),
    Setting(
        "alert.worse_factor",
        SettingUnit.NUMBER,
        1.5,
        "growth of waste per hour that is worth a message",
        _OWN,
        1.1,
        10,
        scoped=False,
    ),
    Setting(
        "alert.remind_after",
        SettingUnit.DURATION,
        timedelta(hours=4),
        "when an unacknowledged critical alert is sent again",
        _OWN,
        900,
        604_800,
        scoped=False,
    ),
    Setting(
        "alert.escalate_after",
        SettingUnit.DURATION,
        timedelta(minutes=30),
        "when an unacknowledged critical alert is sent to a second route",
        _OWN,
        300,
        604_800,
        scoped=False,
    ),
    Setting(
        "alert.reopen_within",
        SettingUnit.DURATION,
        timedelta(minutes=30),
        "an alert that fires again so soon after its end is the same alert",
        _OWN,
        0,
        43_200,
        scoped=False,
    ),
    Setting(
        "alert.quiet_hours",
        SettingUnit.WORD,
        OFF,
        "when alerts that are not critical wait for the morning: 22:00-07:00 Europe/Berlin, or off",
        _OWN,
        check=read_quiet_hours,
    ),
    Setting(
        "alert.not_an_anomaly_for",
        SettingUnit.DURATION,
        timedelta(days=30),
        "how long alerts judged not an anomaly stay muted while they are no worse",
        _OWN,
        86_400,
        180 * 86_400,
        scoped=False,
    ),
    Setting(
        "alert.usual_days",
        SettingUnit.NUMBER,
        14.0,
        "days of history that make up the usual",
        _OWN,
        1,
        15,
        scoped=False,
    ),
    Setting(
        "alert.rare_weeks",
        SettingUnit.NUMBER,
        8.0,
        "how rare a pause must be for its job to be reported: once in so many weeks",
        _OWN,
        1,
        100,
        scoped=False,
    ),
    Setting(
        "alert.most_per_week",
        SettingUnit.NUMBER,
        0.0,
        "most messages a week that `config budget` promises: the floor follows those that are left;"
        " 0 promises nothing",
        _OWN,
        0,
        1_000,
        scoped=False,
    ),
    Setting(
        "alert.least_caught",
        SettingUnit.RATIO,
        0.0,
        "least share of wasted dollars that messages must cover; 0% promises nothing",
        _OWN,
        0.0,
        1.0,
        scoped=False,
    ),
    Setting(
        "alert.pause_limit",
        SettingUnit.DURATION,
        timedelta(hours=3),
        "how long a pause lasts before an alert is raised however usual it is for its job",
        _OWN,
        600,
        7 * 86_400,
    ),
)


ADVICE: tuple[Setting, ...] = (
    Setting(
        "advice.least_utilization",
        SettingUnit.RATIO,
        0.6,
        "utilization under which a faster chip is not advised",
        _OWN,
        0.0,
        1.0,
    ),
    Setting(
        "advice.least_usd_per_month",
        SettingUnit.USD,
        Decimal("100"),
        "least monthly saving of a suggestion",
        _OWN,
        0,
        1_000_000,
        scoped=False,
    ),
    Setting(
        "advice.credits_usd",
        SettingUnit.USD,
        Decimal(0),
        "credits left on the day on which this is set, as the billing console shows them; $0 is"
        " not known",
        _OWN,
        0,
        1e10,
        scoped=False,
    ),
    Setting(
        "advice.stale_days",
        SettingUnit.NUMBER,
        90.0,
        "age of a price in days from which it is flagged",
        _OWN,
        1,
        3650,
    ),
)


ACTING: tuple[Setting, ...] = (
    Setting(
        "acting.on",
        SettingUnit.SWITCH,
        True,
        "the bot may change things by press, where a role lets it",
        _OWN,
    ),
    Setting(
        "acting.spared",
        SettingUnit.WORD,
        "keep,protected,do-not-delete,do-not-stop",
        "words of tags, as key or as value, whose things the bot never changes",
        _OWN,
    ),
)


SETTINGS: Mapping[str, Setting] = {
    setting.key: setting for setting in (*DETECTION, *ALERTING, *ADVICE, *ACTING)
}


def setting_of(key: str) -> Setting:
    """Return the setting; raise `WrongInput` with the nearest key."""
    if key not in SETTINGS:
        raise WrongInput(f"'{key}' is not a setting{nearest(key, SETTINGS, most=0)}.")
    return SETTINGS[key]


def default_policy() -> Policy:
    """Return every setting at its default."""
    return Policy({key: setting.default for key, setting in SETTINGS.items()})
