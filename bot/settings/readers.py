"""Read the text of one setting: each reader returns the typed value or raises one sentence."""

from __future__ import annotations

import re
from datetime import timedelta
from decimal import Decimal, InvalidOperation

from bot.errors import WrongInput, nearest
from bot.model.durations import parse_duration
from bot.model.metric_names import UNITS, Meaning, MetricsSurface
from bot.model.reading import NODE_METRICS

SOURCES = "aws, recording:DIR or simulator:SEED"
TEAMS_SDKS = ("botbuilder", "agents")


def words(text: str) -> tuple[str, ...]:
    """Read a comma list."""
    return tuple(word.strip() for word in text.split(",") if word.strip())


def roles(text: str) -> tuple[str, ...]:
    """Read the ARNs of roles, each of one account, or `self`.

    Raise `WrongInput` for a pattern or another text.
    """
    named = words(text)
    for one in named:
        if one != "self" and not re.fullmatch(r"arn:aws[\w-]*:iam::\d+:role/[\w+=,.@/-]+", one):
            raise WrongInput(
                f"'{one}' is not the ARN of a role; write arn:aws:iam::111122223333:role/trnbot-reader, or self."
            )
    return named


def role(text: str) -> str:
    """Read the ARN of one role, "" and `self` for none; raise `WrongInput` for another text."""
    named = roles(text)
    if len(named) > 1:
        raise WrongInput(f"One role reads the bill; got {len(named)}.")
    return "" if named in ((), ("self",)) else named[0]


def external_id(text: str) -> str:
    """Read an external id as AWS allows it; raise `WrongInput`."""
    if text and not re.fullmatch(r"[\w+=,.@:/-]{2,1224}", text):
        raise WrongInput(
            "An external id has 2 to 1224 letters, digits and + = , . @ : / - without a space."
        )
    return text


def source(text: str) -> str:
    """Read the address of a source; raise `WrongInput` for another kind."""
    kind, _, rest = text.partition(":")
    if text and text != "aws" and not (kind in ("recording", "simulator") and rest):
        raise WrongInput(
            f"'{text}' is not a source{nearest(kind, ('aws', 'recording', 'simulator'), most=0)}; write {SOURCES}."
        )
    return text


def teams_sdk(text: str) -> str:
    """Read which SDK serves Teams; raise `WrongInput` for another word."""
    if text not in TEAMS_SDKS:
        raise WrongInput(
            f"'{text}' is neither {' nor '.join(TEAMS_SDKS)}{nearest(text, TEAMS_SDKS, most=0)}."
        )
    return text


def metrics_surface(text: str) -> MetricsSurface:
    """Read where NeuronCore metrics are read; raise `WrongInput` for another word."""
    if text not in list(MetricsSurface):
        raise WrongInput(
            f"'{text}' is none of auto, cloudwatch and promql{nearest(text, list(MetricsSurface), most=0)}."
        )
    return MetricsSurface(text)


def server_address(text: str) -> str:
    """Read the address of a Prometheus server, with the path before `/api/v1` where it has one.

    Raise `WrongInput`.
    """
    address = text.rstrip("/").removesuffix("/api/v1/query").removesuffix("/api/v1")
    if text and not re.fullmatch(r"https?://[^/\s?#@]+(/[^\s?#@]*)?", address):
        raise WrongInput(
            "A Prometheus server is named by its address, such as http://prometheus.monitoring:9090, without a name or password."
        )
    return address


def metric_names(text: str) -> tuple[Meaning, ...]:
    """Read the meanings of metrics of a chosen namespace: `NAME -> METRIC in UNIT`, a comma list.

    Raise `WrongInput`.
    """
    return tuple(_meaning(one) for one in words(text))


def _meaning(text: str) -> Meaning:
    name, arrow, rest = text.partition("->")
    metric, _, unit = rest.strip().partition(" in ")
    metric, unit = metric.strip(), unit.strip().lower()
    if not arrow or not name.strip():
        raise WrongInput(
            f"'{text}' names no metric; write NAME -> METRIC in UNIT, such as {_EXAMPLE}."
        )
    if metric not in NODE_METRICS:
        raise WrongInput(
            f"'{metric}' is not a metric of a node{nearest(metric, NODE_METRICS, most=0)}."
        )
    units = UNITS[metric.rpartition("_")[2]]
    if unit not in units and (unit or len(units) > 1):
        raise WrongInput(
            f"'{text}' needs its unit: write {name.strip()} -> {metric} in {' or '.join(units)}."
        )
    return Meaning(name.strip(), metric, unit or next(iter(units)))


_EXAMPLE = "nc_util -> neuroncore_utilization_ratio in percent"


_WHOLE = re.compile(r"\d{1,9}")


def port(text: str) -> int:
    """Read a port; raise `WrongInput`."""
    if not _WHOLE.fullmatch(text) or int(text) > 65_535:
        raise WrongInput(
            f"'{text}' is not a port; write a number up to 65535, such as 8080 (0 = any that is free)."
        )
    return int(text)


def web_address(text: str) -> str:
    """Read the address of a site, without a path; raise `WrongInput`."""
    if text and not re.fullmatch(r"https?://[^/\s?#@]+/?", text):
        raise WrongInput(f"'{text}' is not an address of a site; write https://trnbot.example.com.")
    return text.rstrip("/")


def speed(text: str) -> float:
    """Read how much faster than life time runs; raise `WrongInput`."""
    try:
        speed = Decimal(text.removesuffix("x"))
    except InvalidOperation:
        speed = Decimal(0)
    if not (speed.is_finite() and 0 < speed <= 1_000_000):
        raise WrongInput(f"'{text}' is not a speed; write how much faster than life, such as 60.")
    return float(speed)


def interval(text: str) -> timedelta:
    """Read a length of time that divides a day; raise `WrongInput`."""
    length = parse_duration(text)
    if not timedelta(minutes=1) <= length <= timedelta(hours=1) or timedelta(days=1) % length:
        raise WrongInput(
            f"'{text}' does not divide a day evenly; write 1m, 5m, 10m, 15m, 30m or 1h."
        )
    return length


def usd(text: str) -> Decimal | None:
    """Read an amount, None where nothing is said; raise `WrongInput`."""
    amount = text.removeprefix("$")
    if text and not re.fullmatch(r"\d{1,12}(\.\d{0,9})?|\.\d{1,9}", amount):
        raise WrongInput(f"'{text}' is not an amount; write USD such as 5.")
    return Decimal(amount) if text else None


def count(text: str) -> int:
    """Read a whole number of things; raise `WrongInput`."""
    if not _WHOLE.fullmatch(text) or int(text) > 100_000:
        raise WrongInput(
            f"'{text}' is not a number of things; write one such as 60, or 0 for none."
        )
    return int(text)


def lines(text: str) -> int:
    """Read how many lines a minute; raise `WrongInput`."""
    if not _WHOLE.fullmatch(text) or not 1 <= int(text) <= 100_000:
        raise WrongInput(
            f"'{text}' is no number of lines a minute; write one such as 60, up to 100,000."
        )
    return int(text)


def switch(text: str) -> bool:
    """Read on or off; raise `WrongInput`."""
    words = {
        "1": True,
        "true": True,
        "on": True,
        "yes": True,
        "0": False,
        "false": False,
        "off": False,
        "no": False,
        "": False,
    }
    if text.lower() not in words:
        raise WrongInput(f"'{text}' is neither on nor off; write 1 or 0.")
    return words[text.lower()]
