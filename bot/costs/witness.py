"""Note the questions that one answer asks of its ports, and their answers.

The command does not know that it is watched.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from datetime import datetime
from hashlib import blake2b
from typing import Any, TypeVar

import numpy as np

from bot.costs.pieces import pieces_of
from bot.model.alert import Alert, Decision
from bot.model.claims import Claims
from bot.model.codec import encode
from bot.model.fleet import InstanceType
from bot.model.frame import Frame
from bot.model.labels import Labels
from bot.model.notification import State, StateUpdate
from bot.model.price import (
    AccountRates,
    CommitmentOffer,
    Interruption,
    PlacementScore,
    Price,
    StoragePrice,
)
from bot.model.reading import Reading
from bot.model.receipt import AskedPort, Piece, PortQuestion, TallyTerms
from bot.model.spend import Commitment, Filter, Finding, Forecast, Tally
from bot.model.window import Window
from bot.ports import AlertStore, Billing, Knowledge, Outlook, Ports, Prices, Source

T = TypeVar("T")


@dataclass
class Witness:
    """Collect the questions of one answer, each once.

    And of some the content itself, for whoever recomputes.
    """

    questions: dict[tuple[AskedPort, str], PortQuestion] = field(default_factory=dict)
    tallies: dict[str, Tally] = field(default_factory=dict)
    pieces: dict[str, tuple[Piece, ...]] = field(default_factory=dict)
    rates: AccountRates = field(default_factory=AccountRates)
    alerts: dict[str, Alert] = field(default_factory=dict)
    spot: list[tuple[datetime, Price]] = field(default_factory=list)

    def watched(self, ports: Ports) -> Ports:
        """Return the same ports, of which each question is noted here."""
        world = ports.world
        watched = replace(
            world,
            source=_Source(world.source, self),
            billing=_Billing(world.billing, self),
            prices=_Prices(world.prices, self),
            outlook=_Outlook(world.outlook, self),
            knowledge=_Knowledge(world.knowledge, self),
        )
        return replace(
            ports,
            world=watched,
            stores=replace(ports.stores, alerts=_Alerts(ports.stores.alerts, self)),
        )

    def note(self, port: AskedPort, asked: str, came: Any, **more: Any) -> None:
        """Note a question with its answer."""
        rows = len(came) if isinstance(came, Sequence | Mapping) else int(came is not None)
        question = PortQuestion(port, asked, more.pop("rows", rows), digest_of(came), **more)
        self.questions.setdefault(question.key, question)


def digest_of(came: Any) -> str:
    """Return a short digest of a port's answer.

    The same for the same content, whatever its order of keys.
    """
    document = json.dumps(_document(came), sort_keys=True, ensure_ascii=False, default=str)
    return blake2b(document.encode(), digest_size=8).hexdigest()


def _document(came: Any) -> Any:
    """Return content as JSON has it; an array by a digest of its own."""
    match came:
        case np.ndarray():
            came = blake2b(np.ascontiguousarray(came).tobytes(), digest_size=8).hexdigest()
        case Frame():
            things = [dict(thing) for thing in came.things]
            came = [came.kind, things, str(came.window), list(came.metrics), _document(came.values)]
        case Reading():
            came = {each.name: _document(getattr(came, each.name)) for each in fields(came)}
        case Mapping():
            came = {str(name): _document(inner) for name, inner in came.items()}
        case tuple() | list():
            came = [_document(inner) for inner in came]
        case frozenset():
            came = sorted(map(str, came))
        case _ if is_dataclass(came):
            came = encode(came)
    return came


@dataclass(frozen=True)
class _Billing:
    """Implement `Billing` over a watched one."""

    billing: Billing
    witness: Witness

    def tally(self, window: Window, by: Sequence[str], where: Sequence[Filter] = ()) -> Tally:
        tally = self.billing.tally(window, by, where)
        terms = TallyTerms(window, tuple(by), tuple(where))
        if str(terms) not in self.witness.tallies:
            self.witness.tallies[str(terms)] = tally
            came = sorted((tuple(row.key.items()), encode(row.money)) for row in tally.rows)
            more = {
                "total": tally.total,
                "through": tally.billed_through,
                "terms": terms,
                "pieces": self._pieces(terms),
            }
            self.witness.note(AskedPort.BILL, str(terms), came, **more)
        return tally

    def _pieces(self, terms: TallyTerms) -> tuple[Piece, ...]:
        """Return the pieces of a sum, which are those of every question over the same rows."""
        rows = str(replace(terms, by=()))
        if rows not in self.witness.pieces:
            self.witness.pieces[rows] = pieces_of(self.billing, terms)
        return self.witness.pieces[rows]

    def deltas(self, now: datetime, days: int) -> Reading:
        reading = self.billing.deltas(now, days)
        self.witness.note(AskedPort.BILL, f"daily spend of {days} days", reading)
        return reading

    def rates(self, now: datetime) -> AccountRates:
        rates = self.billing.rates(now)
        self.witness.rates = rates
        count = (
            len(rates.by_type)
            + sum(map(len, rates.by_cluster.values()))
            + sum(map(len, rates.by_instance.values()))
        )
        self.witness.note(
            AskedPort.RATES, "the account's own rates", rates, rows=count, prices=rates.by_type
        )
        return rates

    def problems(self) -> Sequence[str]:
        return self.billing.problems()


@dataclass(frozen=True)
class _Prices:
    """Implement `Prices` over watched ones."""

    prices: Prices
    witness: Witness

    def quotes(self, instance_type: str, region: str, now: datetime) -> Sequence[Price]:
        quotes = self.prices.quotes(instance_type, region, now)
        asked = f"{instance_type}{f' in {region}' if region else ''}"
        self.witness.note(AskedPort.PRICES, asked, tuple(quotes), prices=tuple(quotes))
        return quotes

    def spot_history(self, instance_type: str, now: datetime) -> Sequence[tuple[datetime, Price]]:
        changes = self.prices.spot_history(instance_type, now)
        newest = {(price.region, price.zone): price for _, price in changes}
        self.witness.spot.extend(changes)
        came = [(at.isoformat(), price) for at, price in changes]
        self.witness.note(AskedPort.SPOT, instance_type, came, prices=tuple(newest.values()))
        return changes

    def placement(self, instance_type: str, now: datetime) -> Sequence[PlacementScore]:
        scores = self.prices.placement(instance_type, now)
        self.witness.note(AskedPort.SPOT, f"placement scores of {instance_type}", tuple(scores))
        return scores

    def interruptions(self, instance_type: str, now: datetime) -> Sequence[Interruption]:
        bands = self.prices.interruptions(instance_type, now)
        self.witness.note(AskedPort.SPOT, f"interruptions of {instance_type}", tuple(bands))
        return bands

    def commitment_offers(self, instance_type: str, now: datetime) -> Sequence[CommitmentOffer]:
        offers = self.prices.commitment_offers(instance_type, now)
        self.witness.note(AskedPort.PRICES, f"commitments to {instance_type}", tuple(offers))
        return offers


@dataclass(frozen=True)
class _Source:
    """Implement `Source` over a watched one."""

    source: Source
    witness: Witness

    def read(self, now: datetime) -> Reading:
        reading = self.source.read(now)
        asked = f"everything visible at {now:%Y-%m-%d %H:%M} UTC"
        rows = sum(len(frame.things) for frame in reading.frames.values()) + len(
            reading.inventory.instances
        )
        self.witness.note(AskedPort.METRICS, asked, reading, rows=rows, through=reading.now)
        return reading

    def extent(self) -> Window | None:
        return self.source.extent()

    def problems(self) -> Sequence[str]:
        return self.source.problems()


@dataclass(frozen=True)
class _Outlook:
    """Implement `Outlook` over a watched one."""

    outlook: Outlook
    witness: Witness

    def forecast(self, now: datetime, /) -> Forecast | None:
        forecast = self.outlook.forecast(now)
        self.witness.note(
            AskedPort.OUTLOOK,
            "forecast of the month",
            forecast,
            through=forecast.asof if forecast else None,
        )
        return forecast

    def commitments(self, now: datetime, /) -> Sequence[Commitment]:
        commitments = self.outlook.commitments(now)
        self.witness.note(AskedPort.OUTLOOK, "use of commitments", tuple(commitments))
        return commitments

    def findings(self, now: datetime, /) -> Sequence[Finding]:
        findings = self.outlook.findings(now)
        self.witness.note(AskedPort.OUTLOOK, "anomalies found", tuple(findings))
        return findings

    def problems(self) -> Sequence[str]:
        return self.outlook.problems()


@dataclass(frozen=True)
class _Knowledge:
    """Implement `Knowledge` over a watched one."""

    knowledge: Knowledge
    witness: Witness

    def types(self) -> Mapping[str, InstanceType]:
        return self._noted("instance types", self.knowledge.types)

    def fallback_prices(self) -> Sequence[Price]:
        prices = self.knowledge.fallback_prices()
        self.witness.note(
            AskedPort.FACTS, "prices of last resort", tuple(prices), prices=tuple(prices)
        )
        return prices

    def storage_prices(self) -> Sequence[StoragePrice]:
        return self._noted("storage prices", self.knowledge.storage_prices)

    def claims(self) -> Claims:
        return self._noted("statements of others", self.knowledge.claims)

    def _noted(self, asked: str, ask: Callable[[], T]) -> T:
        facts = ask()
        self.witness.note(AskedPort.FACTS, asked, facts)
        return facts


@dataclass(frozen=True)
class _Alerts:
    """Implement `AlertStore` over a watched one."""

    alerts: AlertStore
    witness: Witness

    def load(self, now: datetime) -> State:
        state = self.alerts.load(now)
        self.witness.alerts |= {alert.id: alert for alert in state.alerts}
        self.witness.note(
            AskedPort.ALERTS, "alerts that the watch knows", state.alerts, through=state.ticked_at
        )
        return state

    def save(self, changes: StateUpdate) -> None:
        self.alerts.save(changes)

    def history(self, window: Window, selector: Labels) -> Sequence[Alert]:
        alerts = self.alerts.history(window, selector)
        self.witness.alerts |= {alert.id: alert for alert in alerts}
        self.witness.note(AskedPort.ALERTS, f"alerts open within {window}", tuple(alerts))
        return alerts

    def decisions(self, *alerts: str) -> Sequence[Decision]:
        decisions = self.alerts.decisions(*alerts)
        self.witness.note(
            AskedPort.ALERTS, f"decisions about {', '.join(sorted(alerts))}", tuple(decisions)
        )
        return decisions
