"""Read the rows of the bill and of price lists anew, as terms of formulas."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import cached_property
from typing import Any

from bot.costs.formulas import UnknownTerm
from bot.costs.pieces import MEASURES
from bot.costs.pricing import Offers, Pricing
from bot.costs.tally import comparable
from bot.errors import TrnbotError
from bot.model.fleet import Instance
from bot.model.price import CommitmentOffer, Price
from bot.model.spend import Filter, Forecast
from bot.model.window import Window
from bot.ports import Ports

Row = Mapping[str, Any]


class BillRows:
    """Name the rows of the bill, of prices, and of offers."""

    def __init__(self, ports: Ports, at: datetime) -> None:
        self._ports, self._at = ports, at
        self._asked: dict[tuple[Any, ...], list[Row]] = {}

    def names(self) -> Mapping[str, Any]:
        """Return the terms by name."""
        return {
            "bill": self.bill,
            "rows_of": self.rows_of,
            "compared": lambda window, through: list(
                comparable(_window(window), min(through, self._at)) or ()
            ),
            "provider": self.provider,
            "offer": self.offer,
            "hour_of": hour_of,
            "hour_after": lambda at: hour_of(at) + timedelta(hours=1),
            "price_of": self.price_of,
            "price_alike": self.price_alike,
            "hours_between": hours_between,
            "tail": lambda text, mark: text.rpartition(mark)[2],
        }

    def bill(
        self, start: datetime, end: datetime, by: str, *where: str | Sequence[Filter]
    ) -> list[Row]:
        """Return the rows of the bill by dimensions, `day resource`, filtered by `line=S3,EC2` or `pod!=`; all of it for ""."""
        asked = (start, end, by, where)
        if asked not in self._asked:
            filters = [
                x
                for each in where
                if each
                for x in ([_filter(each)] if isinstance(each, str) else each)
            ]
            try:
                rows = self._ports.world.billing.tally(
                    Window(start, end), tuple(by.split()), filters
                ).rows
            except TrnbotError as error:
                raise UnknownTerm(str(error)) from None
            self._asked[asked] = [
                {
                    **row.key,
                    **{each: getattr(row.money, each) for each in MEASURES},
                    "hours": row.hours,
                }
                for row in rows
            ]
        return self._asked[asked]

    def rows_of(
        self, window: Mapping[str, datetime], by: str, texts: Sequence[str], where: Sequence[Filter]
    ) -> list[Row]:
        """Return the rows of a window that pass the filters written in an answer, and those of its line."""
        return self.bill(window["start"], window["end"], by, *texts, tuple(where))

    def provider(self) -> Forecast:
        """Return the provider's own forecast of the rest of the month."""
        forecast = self._ports.world.outlook.forecast(self._at)
        if forecast is None:
            raise UnknownTerm("provider")
        return forecast

    def offer(
        self, instance_type: str, region: str, plan: str, years: Decimal, payment: str
    ) -> CommitmentOffer:
        """Return the one offer of a commitment."""
        every = self._ports.world.prices.commitment_offers(instance_type, self._at)
        wanted = (region, plan, int(years), payment)
        found = [x for x in every if (x.region, x.plan, x.years, x.payment.value) == wanted]
        if len(found) != 1:
            raise UnknownTerm(plan)
        return found[0]

    def price_of(self, node: Instance) -> Decimal:
        """Return the price of an hour of a node."""
        return _usd(self.pricing.instance(node))

    def price_alike(self, kind: str, nodes: Sequence[Instance]) -> Decimal:
        """Return the price of an hour of another type, bought as nodes are, else without a commitment."""
        offers, today = Offers(self.pricing), self.pricing.mean(nodes)
        region = nodes[0].labels.region if nodes else ""
        alike = offers.here(kind, today.market, region) if today else None
        return _usd(alike or offers.plain(kind, region))

    @cached_property
    def pricing(self) -> Pricing:
        """Return the prices of the day of the question."""
        return Pricing(self._ports).at(self._at)


def hour_of(at: datetime) -> datetime:
    """Return the UTC hour that a time lies in."""
    return at.astimezone(UTC).replace(minute=0, second=0, microsecond=0)


def _window(of: Window | Mapping[str, datetime]) -> Window:
    return of if isinstance(of, Window) else Window(of["start"], of["end"])


def _usd(price: Price | None) -> Decimal:
    if price is None:
        raise UnknownTerm("price")
    return price.usd_per_hour


def _filter(text: str) -> Filter:
    name, _, values = text.partition("=")
    return Filter(name.removesuffix("!"), tuple(values.split(",")), negated=name.endswith("!"))


def hours_between(start: datetime, end: datetime) -> Decimal:
    """Return the hours of a time."""
    return Decimal(str((end - start).total_seconds())) / 3600
