"""Answer whether a cluster serves its tokens for less than Bedrock would."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date
from decimal import Decimal

from bot.answers.plan.fit import ClusterUse, usages
from bot.answers.runs.costed import costed_runs
from bot.cards.card import Block, Card, Tone, compose, quiet, text
from bot.cards.columns import COUNT, USD_CENTS, Column, Columns, Unit, datum
from bot.cards.words import cited, note_lines
from bot.errors import WrongInput, not_known, refuse
from bot.grammar.names import no_cluster
from bot.grammar.registry import Needs, Topic, arg, command
from bot.model.claims import Note, TokenPrice
from bot.model.money import cents, usd
from bot.model.request import Request
from bot.ports import Ports

MILLION = 10**6
HOUR_S = 3600


@dataclass(frozen=True)
class TokenCost:
    """State a cluster's USD an hour, and of a million tokens where their number is known."""

    cluster: str
    usd_per_hour: Decimal
    committed: bool
    """Whether its hours are billed although nothing runs in them."""
    usd_per_million: Decimal | None = None
    run: str = ""
    """The run that reports the tokens; "" where the asker states how many they are."""


def token_cost(used: Sequence[ClusterUse], cluster: str, tokens_per_second: Decimal) -> TokenCost:
    """Price the cluster's hour, and a million tokens where it is said how many it serves.

    Raise `WrongInput` for a cluster that does not run, or whose price is not known.
    """
    use = {x.cluster: x for x in used}.get(cluster)
    if use is None:
        raise no_cluster(cluster, sorted({x.cluster for x in used} - {""}))
    if use.price is None:
        raise WrongInput(f"No price is known for {use.type.name}, which {cluster} runs.")
    per_hour = tokens_per_second * HOUR_S
    usd_per_million = cents(use.usd_per_hour / per_hour * MILLION) if per_hour else None

    return TokenCost(cluster, use.usd_per_hour, use.price.market.is_committed, usd_per_million)


@dataclass(frozen=True)
class TokenOffer:
    """State a model's price beside a cluster's, `output_ratio` of the tokens being written."""

    price: TokenPrice
    output_ratio: Decimal
    here: TokenCost | None

    @property
    def usd_per_million(self) -> Decimal:
        """Return USD of a million tokens, read and written."""
        written = self.price.usd_per_million_output * self.output_ratio
        return written + self.price.usd_per_million_input * (1 - self.output_ratio)

    @property
    def breakeven_tokens_per_second(self) -> int | None:
        """Return how many tokens the cluster must serve each second to cost no more."""
        if self.here is None:
            return None
        return round(self.here.usd_per_hour / self.usd_per_million * MILLION / HOUR_S)


_LISTED = Unit(lambda price: usd(price, digits=2 if price == cents(price) else 3))
"""A price as it is listed, with tenths of a cent where it has them: `$0.035`."""
OFFERS = Columns[TokenOffer](
    Column("model", lambda x: x.price.model, key="model"),
    Column(
        "read",
        lambda x: x.price.usd_per_million_input,
        _LISTED,
        "usd_per_million_input",
        "price of a million tokens read, as listed",
    ),
    Column(
        "written",
        lambda x: x.price.usd_per_million_output,
        _LISTED,
        "usd_per_million_output",
        "price of a million tokens written, as listed",
    ),
    Column(
        "together",
        lambda x: x.usd_per_million,
        USD_CENTS,
        "usd_per_million",
        "price of tokens read x (1 - output) + price of tokens written x output",
    ),
    Column(
        "cheaper here above, tokens/s",
        lambda x: x.breakeven_tokens_per_second,
        COUNT,
        "breakeven_tokens_per_second",
        "USD an hour of the cluster / USD a million tokens on Bedrock, a second",
        missing="",
    ),
    datum("region", lambda x: x.price.region),
    datum("source", lambda x: x.price.source),
    datum("asof", lambda x: x.price.asof),
)


def bedrock_card(offers: Sequence[TokenOffer], notes: Sequence[Note], today: date) -> Card:
    """Draw Bedrock's prices beside the cluster's, if one is named; the cheapest first."""
    here, ratio = offers[0].here, offers[0].output_ratio
    measured: list[Block] = []
    if here:
        amount = f"{usd(here.usd_per_million or 0, digits=2)} a million tokens"
        words = (
            f"{here.cluster} costs {usd(here.usd_per_hour, digits=2)} an hour: {amount} at the load"
            " that you state."
        )
        if here.usd_per_million is None:
            words = (
                "How many tokens it serves is not known: tokens=N says how many a second, and a"
                " trainer or server may publish them (docs/recording.md)."
            )
        elif here.run:
            # Tokens of a run are trained: nothing is concluded from them about serving.
            words = (
                f"{amount} by run {here.run}, all that it lost included. A run trains its tokens"
                " and Bedrock serves them: compare the two only where this run serves."
            )
        measured.append(text(words))
        if here.committed:
            measured.append(text("Its hours are committed: they are paid either way."))

    return Card(
        _title(offers, here),
        Tone.INFO,
        compose(
            measured,
            Columns(*(OFFERS.drawn if here else OFFERS.drawn[:-1])).table(offers),
            quiet(
                f"USD a million tokens, on demand; together, {ratio * 100:.0f} % of them are"
                " written (output= sets it). A model that two sources price differently is listed"
                " twice."
            ),
            quiet(f"Prices: {'; '.join(dict.fromkeys(cited(x.price, today) for x in offers))}."),
            note_lines(notes, today),
        ),
        {
            "models": OFFERS.data(offers),
            "cluster": here and here.cluster,
            "usd_per_hour": here and cents(here.usd_per_hour),
            "usd_per_million": here and here.usd_per_million,
        },
    )


def _title(offers: Sequence[TokenOffer], here: TokenCost | None) -> str:
    """Say which is cheaper, by all offers or by none."""
    prices = sorted({x.usd_per_million for x in offers})
    span = " to ".join(usd(x, digits=2) for x in dict.fromkeys((prices[0], prices[-1])))
    if here is None:
        return f"Bedrock charges {span} a million tokens"
    if here.usd_per_million is None or here.run:
        return (
            f"{here.cluster} costs {usd(here.usd_per_hour)} an hour; Bedrock charges {span} a"
            " million tokens"
        )
    verdict = "it depends on the model"
    if here.usd_per_million < prices[0]:
        verdict = f"{here.cluster} is cheaper"
    elif here.usd_per_million > prices[-1]:
        # What is paid for a term is paid whether anything runs there or not.
        term = f" once {here.cluster}'s commitment ends" if here.committed else ""
        verdict = f"Bedrock is cheaper{term}"

    return (
        f"{usd(here.usd_per_million, digits=2)} a million tokens here, {span} on Bedrock: {verdict}"
    )


@command(
    "bedrock",
    "What a cluster's tokens cost against Bedrock's prices, and the load from which serving them"
    " yourself pays.",
    needs=Needs.METRICS,
    may=Needs.BILL,
    topic=Topic.PLANS,
    examples=("bedrock llama model=qwen3-32b tokens=12000", "bedrock"),
    figures={
        **OFFERS.sources("models"),
        "usd_per_hour": "price of an hour of a node x running nodes",
        "usd_per_million": "USD an hour / tokens an hour x 1,000,000, else as a run measures it",
    },
)
def bedrock(
    ports: Ports,
    request: Request,
    cluster: str = arg("", "the cluster that serves"),
    model: str = arg("", "a model that Bedrock offers", keyword=True),
    tokens: Decimal = arg("0", "tokens a second that the cluster serves", keyword=True),
    output: Decimal = arg("25", "percent of the tokens that are written", keyword=True),
) -> Card:
    """Weigh every model that a price is known of, or the one that is named."""
    refuse(
        (
            not 0 <= output <= 100 or not 0 <= tokens < 10**12,
            "output is 0 to 100 percent, and tokens 0 or more a second.",
        )
    )
    claims = ports.world.knowledge.claims()
    listed = [x for x in claims.tokens if not model or _plain(x.model) == _plain(model)]
    if not listed:
        raise not_known(
            f"No price of a model '{model}' on Bedrock is known",
            _plain(model),
            {_plain(x.model) for x in claims.tokens},
            most=5,
            otherwise="'bedrock' lists them",
        )

    here = None
    if cluster:
        here = token_cost(usages(ports, request.at), cluster, tokens)
        # What the asker states counts before what a run reports.
        for run in () if tokens else costed_runs(ports, request.at):
            measured = run.cost.usd_per_billion_tokens
            if run.cost.run.labels.cluster == cluster and measured is not None:
                here = replace(here, usd_per_million=cents(measured / 1000), run=run.name)
                break

    return bedrock_card(
        sorted(
            (TokenOffer(x, output / 100, here) for x in listed),
            key=lambda x: (x.usd_per_million, x.price.model),
        ),
        claims.of("bedrock"),
        request.at.date(),
    )


def _plain(model: str) -> str:
    """Return a model's name as it is typed: `llama-3.3-70b`."""
    return "-".join(model.lower().split())
