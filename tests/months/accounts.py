"""Draw an account: groups of nodes by the hour, what it committed to, and what else it is billed."""

from __future__ import annotations

import calendar
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import numpy as np

HOUR = timedelta(hours=1)
PRICES = {
    "trn1.32xlarge": 21.50,
    "trn1n.32xlarge": 24.78,
    "trn1.2xlarge": 1.34375,
    "inf2.48xlarge": 12.98127,
    "inf2.xlarge": 0.7582,
    "p5.48xlarge": 55.04,
    "c6i.8xlarge": 1.36,
}
BLOCK_TYPE, BLOCK_PRICE = "trn2.48xlarge", 35.7608
PLAN_SHARE, RESERVED_SHARE, SPOT_SHARE = 0.64, 0.60, 0.38
SETTLED_PART = 0.04
"""A change of level moves at least this part of what the account spends in an hour."""

Hours = np.ndarray
"""A number for each hour of the whole span."""


@dataclass
class Group:
    """Nodes of one kind in one cluster, and how many of them run in each hour."""

    name: str
    team: str
    instance_type: str
    market: str
    nodes: Hours

    @property
    def rate(self) -> float:
        """Return USD of a node-hour at list price, or the usual price of spot."""
        return PRICES[self.instance_type] * (SPOT_SHARE if self.market == "spot" else 1)


@dataclass
class Commitment:
    """USD an hour of a Savings Plan, or nodes of a reservation, in force in [start, end) hours."""

    kind: str
    size: float
    instance_type: str
    start: int
    end: int


@dataclass
class Block:
    """A Capacity Block in [start, end) hours, paid at the hour `bought`."""

    nodes: int
    bought: int
    start: int
    end: int


@dataclass
class Extra:
    """A line that is no node's: USD of each step of `step` hours."""

    service: str
    usage_type: str
    usd: Hours
    step: int = 1


@dataclass
class Account:
    """All that a bill is made of; hours count from the first billed hour."""

    seed: int
    month: datetime
    first: int
    hours: int
    groups: list[Group] = field(default_factory=list)
    commitments: list[Commitment] = field(default_factory=list)
    blocks: list[Block] = field(default_factory=list)
    extras: list[Extra] = field(default_factory=list)
    changes: list[tuple[int, str]] = field(default_factory=list)
    support: str = ""
    tax: float = 0.0
    discount: float = 0.0
    credits: float = 0.0
    refund: tuple[int, float] = (0, 0.0)

    @property
    def changes_level(self) -> bool:
        """Return whether spend goes on at another level from some hour of the month on."""
        return any(hour >= self.first for hour, _ in self.changes)

    @property
    def start(self) -> datetime:
        """Return the first billed hour."""
        return self.month - self.first * HOUR

    def at(self, hour: float) -> datetime:
        """Return the moment of an hour."""
        return self.start + hour * HOUR

    def run_rate(self) -> Hours:
        """Return what nodes and lines cost at list price by hour."""
        rate = sum((group.nodes * group.rate for group in self.groups), np.zeros(self.hours))
        for block in self.blocks:
            rate[max(0, block.start) : max(0, block.end)] += block.nodes * BLOCK_PRICE
        return rate + sum(np.repeat(x.usd / x.step, x.step)[: self.hours] for x in self.extras)


def draw(seed: int) -> Account:
    """Return the account of a seed: of level changes where the seed is even."""
    rng = np.random.default_rng([20, seed])
    month = datetime(2025, 7, 1, tzinfo=UTC)
    for _ in range(int(rng.integers(0, 15))):
        month += timedelta(days=calendar.monthrange(month.year, month.month)[1])
    days = calendar.monthrange(month.year, month.month)[1]
    history = int(rng.choice([12, 26, 45, 62, 80, 100], p=[0.08, 0.12, 0.2, 0.25, 0.2, 0.15]))
    account = Account(seed, month, history * 24, (history + days) * 24)

    for number in range(int(rng.integers(2, 7))):
        account.groups.append(_group(rng, account, number))
    _extras(rng, account)
    _commitments(rng, account)
    _account_lines(rng, account)

    restless = rng.random() < (0.8 if seed % 2 == 0 else 0.2)
    if restless:
        for _ in range(1 + rng.poisson(history / 45)):
            _change(rng, account, int(rng.integers(24, account.first)))
    if seed % 2 == 0:
        for _ in range(1 + int(rng.random() < 0.3)):
            _change(rng, account, account.first + int(rng.integers(24, (days - 2) * 24)))
    return account


# Groups


def _group(rng: np.random.Generator, account: Account, number: int) -> Group:
    kinds = ("flat", "office", "users", "spot", "jobs", "grows", "monthly")
    kind = str(rng.choice(kinds, p=(0.34, 0.1, 0.16, 0.1, 0.12, 0.06, 0.12)))
    types = {
        "flat": ("trn1.32xlarge", "trn1n.32xlarge", "p5.48xlarge", "inf2.48xlarge"),
        "office": ("trn1.2xlarge", "trn1.32xlarge", "inf2.xlarge"),
        "users": ("inf2.48xlarge", "inf2.xlarge", "c6i.8xlarge"),
        "spot": ("trn1.32xlarge", "c6i.8xlarge"),
        "jobs": ("trn1.32xlarge", "trn1.2xlarge"),
        "grows": ("trn1.32xlarge", "inf2.48xlarge"),
        "monthly": ("trn1.32xlarge", "p5.48xlarge"),
    }
    instance_type = str(rng.choice(types[kind]))
    size = int(rng.integers(2, 9)) if PRICES[instance_type] > 5 else int(rng.integers(3, 15))
    nodes = np.clip(np.round(_shape(rng, account, kind, size)), 0, None).astype(int)
    team = str(rng.choice(["search", "ads", "research", "vision"]))
    market = "spot" if kind == "spot" else "on-demand"
    return Group(f"{kind}-{number}", team, instance_type, market, nodes)


def _shape(rng: np.random.Generator, account: Account, kind: str, size: int) -> Hours:
    """Return the nodes of a group by hour, before anything changes."""
    hours = np.arange(account.hours)
    clock = hours + int(rng.choice([0, -7, -5, 1]))
    hour_of_day = (clock + account.start.hour) % 24
    weekend = ((clock + account.start.hour) // 24 + account.start.weekday()) % 7 >= 5
    match kind:
        case "office":
            open_ = ~weekend & (hour_of_day >= 8) & (hour_of_day < 19)
            return np.where(open_, size, int(size * rng.uniform(0, 0.25)))
        case "users":
            day = 1 - rng.uniform(0.15, 0.4) * (
                1 + np.cos((hour_of_day - 15) / 24 * 2 * np.pi + np.pi)
            )
            noise = np.repeat(rng.normal(1, 0.06, len(hours) // 6 + 1), 6)[: len(hours)]
            return size * day * np.where(weekend, rng.uniform(0.6, 0.95), 1) * noise
        case "spot":
            nodes = np.full(len(hours), size)
            for start in np.flatnonzero(rng.random(len(hours)) < 1 / 90):
                nodes[start : start + int(rng.integers(1, 14))] -= int(rng.integers(1, size + 1))
            return nodes
        case "jobs":
            nodes = np.zeros(len(hours))
            for start in np.flatnonzero(rng.random(len(hours)) < 1 / rng.uniform(10, 30)):
                length = int(np.clip(rng.lognormal(2.3, 0.8), 2, 96))
                nodes[start : start + length] += int(rng.integers(1, max(2, size // 2) + 1))
            return np.minimum(nodes, 2 * size)
        case "grows":
            return size * (1 + rng.uniform(0.04, 0.15) * (hours - account.first) / (30 * 24))
        case "monthly":
            return _monthly(rng, account, size)
    return np.full(len(hours), size)


def _monthly(rng: np.random.Generator, account: Account, size: int) -> Hours:
    """Return a run about the same day of each month, for about as long."""
    nodes = np.zeros(account.hours)
    day, length = int(rng.integers(2, 25)), float(rng.uniform(24, 120))
    for hour in range(0, account.hours, 24):
        if account.at(hour).day == day:
            start = hour + int(rng.integers(-12, 30))
            nodes[max(0, start) : start + int(length * rng.uniform(0.9, 1.1))] = size
    return nodes


# What else is billed


def _extras(rng: np.random.Generator, account: Account) -> None:
    nodes = sum((group.nodes for group in account.groups), np.zeros(account.hours))
    days = account.hours // 24
    growth = 1 + rng.uniform(0, 0.06) * np.arange(days) / 30
    fsx = np.full(account.hours, rng.uniform(2, 25))
    noise = np.exp(rng.normal(0, 0.15, account.hours))
    volumes = nodes * 200 * 0.08 / 730
    transfer = nodes.reshape(days, 24).mean(axis=1) * rng.uniform(1, 8)
    account.extras += [
        Extra("AmazonFSx", "USW2-Storage.SSD.250", fsx),
        Extra("AmazonEC2", "USW2-EBS:VolumeUsage.gp3", volumes),
        Extra("AmazonS3", "USW2-TimedStorage-ByteHrs", rng.uniform(20, 300) * growth, 24),
        Extra("AmazonEC2", "USW2-NatGateway-Bytes", rng.uniform(0.5, 4) * noise),
        Extra(
            "AmazonEC2",
            "USW2-DataTransfer-Regional-Bytes",
            transfer * np.exp(rng.normal(0, 0.1, days)),
            24,
        ),
    ]


def _commitments(rng: np.random.Generator, account: Account) -> None:
    long = (-200 * 24, account.hours + 150 * 24)
    flat = [x for x in account.groups if x.market == "on-demand" and x.name.startswith("flat")]
    if flat and rng.random() < 0.35:
        usual = sum(float(np.median(x.nodes)) * x.rate for x in flat)
        size = round(usual * PLAN_SHARE * rng.uniform(0.4, 1.0), 2)
        account.commitments.append(Commitment("plan", size, "", *long))
    elif flat and rng.random() < 0.25:
        reserved = flat[0]
        size = int(np.median(reserved.nodes) * rng.uniform(0.5, 1.0)) or 1
        account.commitments.append(Commitment("reserved", size, reserved.instance_type, *long))


def _account_lines(rng: np.random.Generator, account: Account) -> None:
    account.support = str(rng.choice(["", "business", "enterprise"], p=(0.45, 0.4, 0.15)))
    account.tax = float(rng.choice([0, 0.08, 0.2], p=(0.6, 0.2, 0.2)))
    account.discount = float(rng.choice([0, 0.05, 0.08], p=(0.85, 0.1, 0.05)))
    daily = float(account.run_rate().mean()) * 24
    if rng.random() < 0.4:
        account.credits = daily * rng.uniform(0.3, 1.6) * account.hours / 24
    if rng.random() < 0.08:
        at = account.first + int(rng.integers(0, account.hours - account.first))
        account.refund = (at, -daily * float(rng.uniform(0.05, 0.5)))


# Changes of level


def _change(rng: np.random.Generator, account: Account, hour: int) -> None:
    """Change the level of spend from an hour on, by enough to be seen."""
    kinds = ("join", "leave", "begins", "ends", "block", "commitment ends", "charge")
    weights = (0.3, 0.26, 0.12, 0.08, 0.12, 0.06, 0.06)
    rate = account.run_rate()
    least = SETTLED_PART * float(rate[max(0, hour - 168) : hour].mean())
    for _ in range(40):
        kind = str(rng.choice(kinds, p=weights))
        if _apply(rng, account, hour, kind, least):
            account.changes.append((hour, kind))
            return
    _apply(rng, account, hour, "begins", 0)
    account.changes.append((hour, "begins"))


def _apply(rng: np.random.Generator, account: Account, hour: int, kind: str, least: float) -> bool:
    """Return whether the change could be made: there is what it needs, and it moves enough."""
    steady = [x for x in account.groups if not x.name.startswith(("monthly", "jobs"))]
    match kind:
        case "join" | "leave" | "ends":
            if not steady:
                return False
            group = steady[int(rng.integers(len(steady)))]
            factor = {"join": rng.uniform(1.15, 1.9), "leave": rng.uniform(0.4, 0.9), "ends": 0}
            after = np.round(group.nodes[hour:] * factor[kind]).astype(int)
            moved = abs(float((after - group.nodes[hour:]).mean())) * group.rate
            if moved < max(least, 1e-9) or not group.nodes[max(0, hour - 168) : hour].any():
                return False
            group.nodes[hour:] = after
        case "begins":
            group = _group(rng, account, len(account.groups))
            group.nodes[:hour] = 0
            if float(group.nodes[hour:].mean()) * group.rate < least:
                return False
            account.groups.append(group)
        case "block":
            nodes, days = int(rng.integers(1, 5)), int(rng.choice([1, 2, 3, 5, 7, 10, 14, 28]))
            bought = max(0, hour - int(rng.integers(20, 15 * 24)))
            if nodes * BLOCK_PRICE < least:
                return False
            account.blocks.append(Block(nodes, bought, hour, hour + days * 24))
        case "commitment ends":
            current = [x for x in account.commitments if x.end > account.hours]
            if not current or _saved(current[0]) < least:
                return False
            current[0].end = hour
        case _:
            usd = np.zeros(account.hours)
            size = float(account.run_rate()[max(0, hour - 168) : hour].mean())
            usd[hour:] = size * rng.uniform(0.05, 0.2) * np.exp(rng.normal(0, 0.1, len(usd) - hour))
            account.extras.append(Extra("AmazonEC2", "USW2-DataTransfer-Out-Bytes", usd))
    return True


def _saved(commitment: Commitment) -> float:
    """Return USD an hour by which the bill rises at the end of a commitment."""
    if commitment.kind == "plan":
        return commitment.size * (1 / PLAN_SHARE - 1)
    return commitment.size * PRICES[commitment.instance_type] * (1 - RESERVED_SHARE)


def changed_months(seeds: Sequence[int]) -> dict[int, list[tuple[int, str]]]:
    """Return what changes in the month of each seed: (day of the month, kind)."""
    return {
        seed: [
            ((hour - account.first) // 24 + 1, kind)
            for hour, kind in account.changes
            if hour >= account.first
        ]
        for seed in seeds
        for account in (draw(seed),)
    }
