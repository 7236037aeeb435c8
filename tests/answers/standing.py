"""How a cluster stands, what it costs and which alerts it has: what tests of advice begin with."""

from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal

from bot.answers.plan.comparison import ClusterStanding
from bot.knowledge import load_knowledge
from bot.model.alert import Alert
from bot.model.anomaly import Anomaly, NodeState
from bot.model.fleet import Market
from bot.model.labels import Labels
from bot.model.price import Basis, Price
from bot.model.window import Window

NOW = datetime(2026, 11, 20, 9, tzinfo=UTC)
TYPES, CLAIMS = load_knowledge().types(), load_knowledge().claims()
FALLBACK = load_knowledge().fallback_prices()
TRN1, TRN2, P5 = TYPES["trn1.32xlarge"], TYPES["trn2.48xlarge"], TYPES["p5.48xlarge"]


def price(
    usd="21.50",
    kind="trn1.32xlarge",
    market=Market.ON_DEMAND,
    basis=Basis.LISTED,
    region="us-east-2",
    asof=date(2026, 11, 1),
):
    return Price(kind, Decimal(usd), market, basis, region, asof, "a test")


def standing(**changes):
    made = ClusterStanding("llama", TRN1, 64, "us-east-2", price(), 0.9, {NodeState.BUSY: 64})
    return replace(made, **changes)


def told(cause, things=64):
    labels = Labels(cluster="llama")
    names = tuple(f"i-{n}" for n in range(things))
    return Alert(
        "a", Anomaly("r", cause, labels, labels, names, Window(NOW, NOW), 0.9, 0.2, "%"), NOW, NOW
    )
