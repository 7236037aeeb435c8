"""Note the questions that one answer asks of its ports, and their answers.

The command does not know that it is watched.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from hashlib import blake2b
from typing import Any

import numpy as np

from bot.costs.tally import known_rows
from bot.errors import OverBudget, WrongInput
from bot.model.codec import encode
from bot.model.frame import Frame
from bot.model.price import AccountRates, Price
from bot.model.reading import Reading
from bot.model.receipt import AskedPort, Piece, PortQuestion, TallyTerms
from bot.model.spend import Filter, Tally
from bot.model.window import Window, utc_text
from bot.ports import Billing, Ports

_BY_DAY = timedelta(days=92)
"""The longest window that is taken apart by days; longer ones by months."""


class _Watched:
    """Stand before a port: every method answers as the port's own, and some are noted."""

    def __init__(self, port: Any, **notes: Callable[..., None]) -> None:
        self._port, self._notes = port, notes

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._port, name)
        note = self._notes.get(name)
        if note is None:
            return method

        def noted(*asked: Any, **named: Any) -> Any:
            answer = method(*asked, **named)
            note(answer, *asked, **named)
            return answer

        return noted


@dataclass
class Witness:
    """Collect the questions of one answer, each once, and the sums of the bill themselves."""

    questions: dict[tuple[AskedPort, str], PortQuestion] = field(default_factory=dict)
    tallies: dict[str, Tally] = field(default_factory=dict)
    pieces: dict[str, tuple[Piece, ...]] = field(default_factory=dict)
    rates: AccountRates = field(default_factory=AccountRates)

    def watched(self, ports: Ports) -> Ports:
        """Return the same ports, of which each question is noted here."""
        world, bill = ports.world, ports.world.billing

        def plainly(port: AskedPort, asked: str) -> Callable[..., None]:
            return lambda answer, *_: self.note(port, asked, answer)

        watched = replace(
            world,
            source=_Watched(
                world.source,
                read=lambda reading, now: self.note(
                    AskedPort.METRICS,
                    f"everything visible at {utc_text(now)}",
                    reading,
                    rows=sum(len(frame.things) for frame in reading.frames.values())
                    + len(reading.inventory.instances),
                    through=reading.now,
                ),
            ),
            billing=_Watched(
                bill,
                tally=partial(self._tally, bill),
                deltas=lambda reading, _, days: self.note(
                    AskedPort.BILL, f"daily spend of {days} days", reading
                ),
                rates=self._rates,
            ),
            prices=_Watched(
                world.prices,
                quotes=self._quotes,
                spot_history=self._spot,
                placement=lambda scores, kind, _: self.note(
                    AskedPort.SPOT, f"placement scores of {kind}", tuple(scores)
                ),
                interruptions=lambda bands, kind, _: self.note(
                    AskedPort.SPOT, f"interruptions of {kind}", tuple(bands)
                ),
                commitment_offers=lambda offers, kind, _: self.note(
                    AskedPort.PRICES, f"commitments to {kind}", tuple(offers)
                ),
            ),
            outlook=_Watched(
                world.outlook,
                forecast=lambda asked, _: self.note(
                    AskedPort.OUTLOOK, "forecast of the month", asked, through=asked and asked.asof
                ),
                commitments=plainly(AskedPort.OUTLOOK, "use of commitments"),
                findings=plainly(AskedPort.OUTLOOK, "anomalies found"),
            ),
            knowledge=_Watched(
                world.knowledge,
                types=plainly(AskedPort.FACTS, "instance types"),
                fallback_prices=lambda prices: self.note(
                    AskedPort.FACTS, "prices of last resort", tuple(prices), prices=tuple(prices)
                ),
                storage_prices=plainly(AskedPort.FACTS, "storage prices"),
                claims=plainly(AskedPort.FACTS, "statements of others"),
            ),
        )
        alerts = _Watched(
            ports.stores.alerts,
            load=lambda state, _: self.note(
                AskedPort.ALERTS,
                "alerts that the watch knows",
                state.alerts,
                through=state.ticked_at,
            ),
            history=lambda alerts, window, _: self.note(
                AskedPort.ALERTS, f"alerts open within {window}", tuple(alerts)
            ),
            decisions=lambda decisions, *ids: self.note(
                AskedPort.ALERTS, f"decisions about {', '.join(sorted(ids))}", tuple(decisions)
            ),
        )

        return replace(ports, world=watched, stores=replace(ports.stores, alerts=alerts))

    def note(self, port: AskedPort, asked: str, answer: Any, **more: Any) -> None:
        """Note a question with its answer."""
        rows = len(answer) if isinstance(answer, Sequence | Mapping) else int(answer is not None)
        question = PortQuestion(port, asked, more.pop("rows", rows), digest_of(answer), **more)
        # What is asked twice in one answer is one question.
        self.questions.setdefault(question.key, question)

    def _tally(
        self,
        billing: Billing,
        tally: Tally,
        window: Window,
        by: Sequence[str],
        where: Sequence[Filter] = (),
        *_: object,
    ) -> None:
        terms = TallyTerms(window, tuple(by), tuple(where))
        if str(terms) in self.tallies:
            return
        self.tallies[str(terms)] = tally

        # Every question over the same rows has the same pieces.
        rows = str(replace(terms, by=()))
        if rows not in self.pieces:
            self.pieces[rows] = pieces_of(billing, terms)

        self.note(
            AskedPort.BILL,
            str(terms),
            sorted((tuple(row.key.items()), encode(row.money)) for row in tally.rows),
            total=tally.total,
            through=tally.billed_through,
            terms=terms,
            pieces=self.pieces[rows],
        )

    def _rates(self, rates: AccountRates, _: datetime) -> None:
        self.rates = rates
        by_thing = (*rates.by_cluster.values(), *rates.by_instance.values())
        rows = len(rates.by_type) + sum(map(len, by_thing))
        self.note(
            AskedPort.RATES, "the account's own rates", rates, rows=rows, prices=rates.by_type
        )

    def _quotes(self, quotes: Sequence[Price], kind: str, region: str, _: datetime) -> None:
        asked_for = f"{kind or 'all types'} in {region}" if region else kind
        self.note(AskedPort.PRICES, asked_for, tuple(quotes), prices=tuple(quotes))

    def _spot(self, changes: Sequence[tuple[datetime, Price]], kind: str, _: datetime) -> None:
        # Of each zone the last change is the price now.
        newest = {(price.region, price.zone): price for _, price in changes}
        dated = [(changed_at.isoformat(), price) for changed_at, price in changes]
        self.note(AskedPort.SPOT, kind, dated, prices=tuple(newest.values()))


def pieces_of(billing: Billing, terms: TallyTerms) -> tuple[Piece, ...]:
    """Return the parts of a sum by day, or by month where the window is long.

    None where the bill does not tell them.
    """
    step = "day" if terms.window.length <= _BY_DAY else "month"
    rows = known_rows(billing, terms.window, (step,), terms.where, (WrongInput, OverBudget))
    return tuple(
        Piece(row.key[step], row.money) for row in sorted(rows, key=lambda row: row.key[step])
    )


def digest_of(content: Any) -> str:
    """Return a short digest of a port's answer.

    The same for the same content, whatever its order of keys.
    """
    document = json.dumps(_document(content), sort_keys=True, ensure_ascii=False, default=str)
    return blake2b(document.encode(), digest_size=8).hexdigest()


def _document(content: Any) -> Any:
    """Return content as JSON has it; an array by a digest of its own."""
    document = content
    match content:
        case np.ndarray():
            document = blake2b(np.ascontiguousarray(content).tobytes(), digest_size=8).hexdigest()
        case Frame():
            document = [
                content.kind,
                [dict(thing) for thing in content.things],
                str(content.window),
                list(content.metrics),
                _document(content.values),
            ]
        case Reading():
            document = {x.name: _document(getattr(content, x.name)) for x in fields(content)}
        case Mapping():
            document = {str(name): _document(inner) for name, inner in content.items()}
        case tuple() | list():
            document = [_document(inner) for inner in content]
        case frozenset():
            document = sorted(map(str, content))
        case _ if is_dataclass(content):
            document = encode(content)

    return document
