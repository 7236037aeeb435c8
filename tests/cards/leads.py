"""Sample answers to a lead's questions, and to plain words."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import date, timedelta
from decimal import Decimal

from bot.answers.about.summary import Part, Summary, home_card, summary_card
from bot.answers.cost.month_end import MonthEnd, month_end_card
from bot.answers.cost.why import CostChange, change_card
from bot.answers.plan.act import action_card, progress_card
from bot.answers.plan.roadmap import price_card
from bot.answers.plan.suggestions import (
    Suggestions,
    SuggestionVerdict,
    Verdict,
    suggestion_card,
    suggestions_card,
)
from bot.cards.card import Card
from bot.cards.words import PriceAge
from bot.costs.capacity import credits_end
from bot.costs.drivers import Driver, DriverKind
from bot.costs.nowcast import Nowcast
from bot.costs.suggestions import Suggestion, checkpoints, unused_storage
from bot.grammar.plain.ask import with_reading
from bot.grammar.plain.readings import PlainReading
from bot.knowledge import load_knowledge
from bot.model.action import Action, ActionKind, ActionState
from bot.model.alert import Alert
from bot.model.fleet import Market
from bot.model.labels import Labels
from bot.model.notification import Coverage
from bot.model.price import Basis, Price
from bot.model.spend import Filter, Money, Spend, Tally
from bot.model.window import Window, month_of
from tests.builders import NOON

WEEK = Window(NOON.replace(hour=0) - timedelta(days=10), NOON.replace(hour=0) - timedelta(days=3))
NOWCAST = Nowcast(
    month_of(NOON),
    NOON - timedelta(days=3),
    Decimal("412345.67"),
    Decimal(731000),
    Decimal(689000),
    Decimal(802000),
    37,
    Decimal(4900),
)


def sum_of(window: Window, amortised: str) -> Tally:
    money = Money(
        gross=Decimal(amortised),
        net=Decimal(amortised),
        credits=Decimal("-1200"),
        amortised=Decimal(amortised),
    )
    return Tally(window, (), (Spend({}, money),), money, billed_through=NOON - timedelta(days=1))


def change(*filters: Filter, alerts: tuple[Alert, ...] = ()) -> CostChange:
    rates = Decimal("13.54"), Decimal("21.50")
    drivers = (
        Driver(
            DriverKind.COMMITMENT,
            "trn1.32xlarge, us-west-2",
            Decimal("71200.10"),
            Decimal("71200.10"),
            rates=rates,
            covered=(0.92, 0.0),
        ),
        Driver(
            DriverKind.HOURS,
            "vision · trn1n.32xlarge",
            Decimal("9511.28"),
            Decimal("9511.28"),
            hours=(1344.0, 1728.0),
            rates=rates,
        ),
        Driver(
            DriverKind.FEE,
            "AWSSupportBusiness Dollar",
            Decimal("4900.00"),
            Decimal("4900.00"),
            costs=(Decimal(0), Decimal(4900)),
        ),
        Driver(
            DriverKind.ENDED,
            "cluster probe",
            Decimal("-3612.00"),
            Decimal("-3612.00"),
            costs=(Decimal(3612), Decimal(0)),
        ),
        Driver(
            DriverKind.PRICE,
            "p5.48xlarge, us-east-2",
            Decimal("910.22"),
            Decimal("910.22"),
            rates=(Decimal("55.04"), Decimal("55.72")),
        ),
        Driver(
            DriverKind.USAGE,
            "AmazonS3 USW2-Requests-Tier1 · serving",
            Decimal("880.10"),
            Decimal("880.10"),
            costs=(Decimal("54.2"), Decimal("934.3")),
        ),
        Driver(
            DriverKind.NEW,
            "AmazonSageMaker Notebook",
            Decimal("310.30"),
            Decimal("310.30"),
            costs=(Decimal(0), Decimal("310.3")),
        ),
        Driver(
            DriverKind.USAGE,
            "AmazonS3 USW2-TimedStorage-ByteHrs",
            Decimal("12.00"),
            Decimal("12.00"),
            costs=(Decimal(400), Decimal(412)),
        ),
    )
    moved = sum((one.net for one in drivers), Decimal(0))
    return CostChange(
        WEEK,
        sum_of(WEEK.previous(), "342672.11"),
        sum_of(WEEK, f"{Decimal('342672.11') + moved}"),
        drivers,
        alerts,
        True,
        filters,
    )


def price() -> Card:
    kind = load_knowledge().types()["trn1.32xlarge"]
    quoted = (
        (Market.ON_DEMAND, Basis.BILLED, "us-west-2", "21.50"),
        (Market.SPOT, Basis.SPOT, "us-west-2", "7.78"),
        (Market.CAPACITY_BLOCK, Basis.FALLBACK, "us-east-2", "9.53"),
        (Market.CAPACITY_BLOCK, Basis.FALLBACK, "us-west-2", "9.53"),
        (Market.SAVINGS_PLAN, Basis.BILLED, "us-west-2", "13.545"),
    )
    prices = [
        Price(kind.name, Decimal(usd), market, basis, region, date(2026, 11, 18), "")
        for market, basis, region, usd in quoted
    ]
    return price_card(kind, prices, PriceAge(NOON.date(), 90))


def week(*firing: Alert) -> Summary:
    return Summary(
        NOON, firing, Coverage(), (), change(), NOWCAST, sum_of(month_of(NOON), "412345.67")
    )


def home(of: Summary) -> Card:
    parts = {("AmazonEC2",): "381856", ("AmazonS3",): "4120.5", ("",): "300"}
    rows = tuple(
        Spend({"service": name}, Money(net=Decimal(net), amortised=Decimal(net)))
        for (name,), net in parts.items()
    )
    total = Money(net=Decimal("386276.5"), amortised=Decimal("386276.5"))
    return home_card(
        of,
        Tally(month_of(NOON), ("service",), rows, total, billed_through=NOON - timedelta(days=1)),
        weighed(),
    )


def weighed() -> list[Suggestion]:
    """Return suggestions, one of them of a name that would ping and link."""
    job = "<!channel> [x](http://evil.example) <script>alert(1)</script>"
    saving = checkpoints(job, Decimal(1960), Decimal(310), WEEK)
    assert saving
    volumes = [("vol-1", Decimal("310.40")), ("vol-2", Decimal("88.10"))]
    daily = {NOON.date() - timedelta(days=n): Decimal(40 + n) for n in range(14)}
    ending = credits_end(daily, NOON.date() + timedelta(days=9), NOON)
    assert ending
    return [saving, ending, unused_storage(volumes, WEEK.start, WEEK.end)]


def suggested() -> Card:
    """Return open ones beside one that was done and one that was declined."""
    done, declined = (
        SuggestionVerdict(verdict, todo, Decimal(usd), NOON, "slack:U01ALICE", "alice", note)
        for verdict, todo, usd, note in (
            (Verdict.DONE, "Renew what ends on November 30", "7300", ""),
            (Verdict.DECLINED, "Move llama-70b to trn2.48xlarge", "41000", "in May"),
        )
    )
    return suggestions_card(Suggestions(weighed(), {"s1": done, "s2": declined}))


def acting() -> Action:
    """Return two idle nodes that are to be stopped, half of whose cost is committed."""
    place = Labels(account="111122223333", region="us-west-2", cluster="llama")
    price = Decimal("43.00")
    nodes = ("i-0a1b2c3d4e5f60718", "i-0b1b2c3d4e5f60718")
    return Action(
        "x1234abcd", ActionKind.STOP, nodes, place, None, price, price / 2, NOON, "chat:U1", "dana"
    )


def leads(
    starved: Callable[..., Alert], idle: Callable[..., Alert]
) -> Mapping[str, Callable[[], Card]]:
    """Return the samples; the alerts are made by who holds them."""
    read = PlainReading(("cost last-week by team",), True, ("cost last-week", "why cost last-week"))
    return {
        "forecast": lambda: month_end_card(
            MonthEnd(NOWCAST, None, sum_of(month_of(NOON).previous(), "698210.00"))
        ),
        "price": price,
        "suggestions": suggested,
        "suggestions_none": lambda: suggestions_card(Suggestions((), {})),
        "act": lambda: action_card(acting(), ["EC2 would stop both."], Decimal(20_000), may=True),
        "act_off": lambda: action_card(acting(), (), Decimal(20_000), may=False),
        "act_worked": lambda: progress_card(
            replace(acting(), state=ActionState.WORKED, confirmed_by=("dana", "lee"))
        ),
        "suggestion": lambda: suggestion_card(weighed()[0]),
        "why_cost": lambda: change_card(change(alerts=(starved(),))),
        "why_cost_team": lambda: change_card(change(Filter("team", ("vision",)))),
        "home": lambda: home(week(starved(), idle())),
        "home_quiet": lambda: home_card(Summary(NOON, (), Coverage()), None),
        "summary": lambda: summary_card(week(starved(), idle())),
        "summary_money": lambda: summary_card(week(starved(), idle()), Part.MONEY),
        "summary_quiet": lambda: summary_card(Summary(NOON, (), Coverage())),
        "read_as": lambda: with_reading(change_card(change()), read),
    }
