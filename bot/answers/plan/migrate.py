"""Answer the cost of the same work on another instance type, or why it is too early to say."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date, timedelta
from decimal import Decimal
from typing import Any

from bot.answers.fleet.card import NodeRow
from bot.answers.fleet.command import look_over
from bot.answers.plan.comparison import (
    Alike,
    ClusterStanding,
    Migration,
    Option,
    Recompile,
    SpeedRange,
    SpeedScenario,
    break_even_hours,
    compare,
    default_target,
    doubts,
    refusals,
    speed_range,
)
from bot.answers.plan.fit import ANY, fit_blocks, fit_data, fit_of, measured
from bot.answers.runs.costed import measured_speeds
from bot.cards.card import (
    Align,
    Block,
    Button,
    Buttons,
    Card,
    Chart,
    ChartKind,
    Facts,
    Heading,
    Series,
    Table,
    Text,
    Tone,
    quiet,
    text,
)
from bot.cards.words import PriceAge, cited
from bot.costs.pricing import Offers, Pricing
from bot.errors import WrongInput
from bot.grammar.names import known_type, no_cluster
from bot.grammar.registry import Needs, Topic, arg, command
from bot.model.claims import Conflict
from bot.model.fleet import InstanceType, Market
from bot.model.labels import Labels
from bot.model.money import usd
from bot.model.price import Price
from bot.model.reading import Reading
from bot.model.request import Request
from bot.ports import Ports


def migration_data(
    migration: Migration, doubts: Sequence[str], port_usd: Decimal | None
) -> dict[str, Any]:
    """Return where the cluster stands, every option and its scenarios, whose speed-ups they rest on, and the doubts."""
    standing = migration.standing
    return {
        "cluster": standing.cluster,
        "from": standing.type.name,
        "to": migration.to.name,
        "nodes": standing.nodes,
        "utilization_ratio": standing.utilization,
        "usd_per_hour": standing.usd_per_hour,
        "speedup": _speed_data(migration.speeds),
        "options": [_option_data(option) for option in migration.options],
        "alike": _alike_data(migration.alike()),
        "doubts": [*doubts, *migration.cautions],
        "refused": [],
        "port_usd": port_usd,
        "recompile_usd": migration.recompile.usd(migration.moves()[0].scenarios[1])
        if migration.recompile and migration.moves()
        else None,
        "compile_usd_per_hour": migration.compile_on.usd_per_hour if migration.compile_on else None,
        "fit": fit_data(migration.fit) if migration.fit else None,
        "conflicts": [
            {"vendor_says": x.vendor_says, "aws_says": x.aws_says, "source": x.source}
            for x in migration.conflicts
        ],
    }


def _alike_data(alike: Alike | None) -> dict[str, Any] | None:
    if alike is None:
        return None
    return {
        "market": alike.market.value,
        "region": alike.region,
        "best": round(alike.best, 4),
        "worst": round(alike.worst, 4),
    }


def _speed_data(speeds: SpeedRange) -> dict[str, Any]:
    voices = [
        {
            "factor": x.factor,
            "kind": x.kind.value,
            "says": x.says,
            "source": x.source,
            "asof": x.asof,
        }
        for x in speeds.voices
    ]
    return {"low": speeds.low, "mid": speeds.mid, "high": speeds.high, "voices": voices}


def _option_data(option: Option) -> dict[str, Any]:
    price = option.price
    scenarios = [
        {
            "speedup": x.speedup,
            "nodes": x.nodes,
            "usd_per_hour": x.usd_per_hour,
            "relative_cost": round(x.relative_cost, 4),
        }
        for x in option.scenarios
    ]
    named = {
        "instance_type": price.instance_type,
        "market": price.market.value,
        "region": price.region,
        "basis": price.basis.value,
    }
    return named | {
        "node_usd_per_hour": price.usd_per_hour,
        "asof": price.asof,
        "stays": option.stays,
        "scenarios": scenarios,
    }


_COLUMNS = (
    Heading("how"),
    Heading("same work costs", Align.RIGHT),
    Heading("nodes", Align.RIGHT),
    Heading("cluster $/h", Align.RIGHT),
    Heading("node $/h", Align.RIGHT),
    Heading("region"),
    Heading("price of"),
)
_DAYS = 24


def refused_card(standing: ClusterStanding, to: InstanceType, reasons: Sequence[str]) -> Card:
    """Say why no comparison is made now."""
    lines = [text(f"{reason[0].upper()}{reason[1:]}.") for reason in reasons]
    buttons = Buttons((Button("Alerts", "alerts"), Button("Fleet", f"fleet {standing.cluster}")))
    data = {"cluster": standing.cluster, "to": to.name, "refused": list(reasons), "options": []}
    return Card(
        f"Too early to move {standing.cluster} to {to.name}",
        Tone.WARNING,
        (
            *lines,
            _today(standing),
            quiet(
                "Ask again once it works; an answer now would promise savings a faster chip cannot give."
            ),
            buttons,
        ),
        data,
    )


def migration_card(
    migration: Migration, doubts: Sequence[str], port_usd: Decimal | None, age: PriceAge
) -> Card:
    """Show every way to buy, each at the low, middle and high speed-up, with the sources of the numbers."""
    blocks: list[Block] = [
        text(_verdict(migration)),
        *(text(doubt) for doubt in (*doubts, *migration.cautions)),
    ]
    blocks += [_today(migration.standing), _table(migration, age)]
    if migration.options:
        blocks.append(_chart(migration))
    if port_usd is not None and migration.moves():
        blocks.append(_break_even(migration, port_usd))
    blocks += (
        [_migrate_card_recompile(migration)] if migration.recompile and migration.moves() else []
    )
    blocks += [_voices(migration, age.today), *_unused(migration)]
    blocks += [
        *(fit_blocks(migration.fit) if migration.fit else ()),
        text(_before_paying(migration, age)),
    ]
    blocks += [
        quiet(f"Vendors also say: {x.says} ({cited(x, age.today)}); not in the range above.")
        for x in migration.savings
    ]
    if migration.conflicts:
        blocks.append(_conflicts(migration.conflicts, age.today))
    blocks.append(
        Buttons(
            (
                Button("What it costs", f"cost 7d cluster={migration.standing.cluster}"),
                Button("Alerts", "alerts"),
            )
        )
    )
    return Card(
        _title(migration),
        _tone(migration),
        tuple(blocks),
        migration_data(migration, doubts, port_usd),
    )


def _title(migration: Migration) -> str:
    moves = migration.moves()
    if not moves:
        return f"{migration.standing.cluster} to {migration.to.name}: no price to compare"
    cost = f"the same work for {_percents(moves[0].best, moves[0].worst)} of today's cost"
    return f"{migration.standing.cluster} to {migration.to.name}: {cost}, bought as {_bought(moves[0].price.market)}"


def _tone(migration: Migration) -> Tone:
    """Praise a move only where it beats staying however the hour is bought."""
    moves, stays = migration.moves(), migration.stays()
    staying = min([1.0, *(option.middle for option in stays)])
    if not moves or moves[0].best < staying <= moves[0].worst:
        return Tone.INFO
    return Tone.GOOD if moves[0].worst < staying else Tone.WARNING


def _verdict(migration: Migration) -> str:
    moves, stays = migration.moves(), migration.stays()
    if not moves:
        return "Only the speed can be compared."
    sentences = [
        _alike(migration),
        "A part of the difference to today is how the hour is bought, not the chip."
        if _bought_otherwise(migration)
        else "",
    ]
    if stays and stays[0].middle < min(1.0, moves[0].middle):
        sentences.append(
            f"Staying and buying as {_bought(stays[0].price.market)} costs less than moving: {_span(stays[0])} of today's cost."
        )
    return " ".join(sentence for sentence in sentences if sentence)


def _alike(migration: Migration) -> str:
    alike = migration.alike()
    if alike is None:
        return f"No region is known to sell both types the same way, so {migration.to.name} cannot be compared like for like."
    span = _percents(alike.best, alike.worst)
    pays = (
        "cheaper at every speed"
        if alike.worst < 1
        else "dearer at every speed"
        if alike.best >= 1
        else "it depends on the speed your model gets"
    )
    where = f" in {alike.region}" if alike.region else ""
    return f"Like for like, both as {_bought(alike.market)}{where}, the same work costs {span} of staying: {pays}."


def _bought_otherwise(migration: Migration) -> bool:
    return bool(
        migration.standing.price
        and migration.moves()[0].price.market is not migration.standing.price.market
    )


def _today(standing: ClusterStanding) -> Facts:
    used = (
        "no reading"
        if standing.utilization is None
        else f"{standing.utilization * 100:.0f} % over 24 hours"
    )
    states = ", ".join(
        f"{n} {state.value}" for state, n in sorted(standing.states.items(), key=lambda x: -x[1])
    )
    pairs = [
        ("runs", f"{standing.nodes} x {standing.type.name}, {standing.region}"),
        ("used", used),
        ("now", states or "unknown"),
    ]
    if standing.price:
        price = standing.price
        each = f"{usd(price.usd_per_hour)} a node, {_bought(price.market)}, {price.basis}, {price.asof:%Y-%m-%d}"
        pairs.append(("costs", f"{usd(standing.usd_per_hour)} an hour ({each})"))
    return Facts(tuple(pairs))


def _table(migration: Migration, age: PriceAge) -> Table:
    standing, price = migration.standing, migration.standing.price
    assert price
    now = (
        "100 %",
        f"{standing.nodes}",
        usd(standing.usd_per_hour),
        usd(price.usd_per_hour),
        price.region,
    )
    rows: list[tuple[str, ...]] = [
        (f"today, {_bought(price.market)}", *now, f"{price.asof:%Y-%m-%d}, {price.basis}")
    ]
    rows += [_row(option, age) for option in migration.options]
    caption = f"Stay = {standing.type.name}, move = {migration.to.name}; the same work at today's pace, over the speed-ups below"
    return Table(_COLUMNS, tuple(rows), caption=caption)


def _row(option: Option, age: PriceAge) -> tuple[str, ...]:
    low, _, high = option.scenarios
    same = low.nodes == high.nodes
    return (
        _name(option),
        _span(option),
        f"{low.nodes}" if same else f"{high.nodes}-{low.nodes}",
        usd(low.usd_per_hour)
        if same
        else f"{usd(high.usd_per_hour)}-{usd(low.usd_per_hour).removeprefix('$')}",
        usd(option.price.usd_per_hour),
        option.price.region,
        f"{option.price.asof:%Y-%m-%d}, {option.price.basis}{age.of(option.price.asof)}",
    )


def _name(option: Option) -> str:
    return f"{'stay' if option.stays else 'move'}, {_bought(option.price.market)}"


def _bought(market: Market) -> str:
    """Say how an hour is bought, as people do."""
    return market.replace("capacity-block", "capacity block").replace(
        "savings-plan", "savings plan"
    )


def _span(option: Option) -> str:
    """Write the range of the same work's cost, with the middle where there is a range."""
    span = _percents(option.best, option.worst)
    return f"{span}, middle {option.middle * 100:.0f} %" if "-" in span else span


def _percents(low: float, high: float) -> str:
    """Write a range of shares, one figure where both ends read alike."""
    ends = dict.fromkeys(f"{share * 100:.0f}" for share in (low, high))
    return f"{'-'.join(ends)} %"


def _chart(migration: Migration) -> Chart:
    bars = [("today", 1.0)]
    for option in migration.options:
        scenarios = option.scenarios[:1] if option.stays else tuple(dict.fromkeys(option.scenarios))
        bars += [(_bar(option, x, migration), x.relative_cost) for x in scenarios]
    shares = tuple(round(share * 100, 1) for _, share in bars)
    summary = (
        f"Cost of the same work, today = 100 %: from {min(shares):.0f} % to {max(shares):.0f} %."
    )
    series = (Series("cost of the same work", shares),)
    return Chart(
        ChartKind.BAR,
        "Cost of the same work",
        "%",
        series,
        categories=tuple(name for name, _ in bars),
        summary=summary,
    )


def _bar(option: Option, scenario: SpeedScenario, migration: Migration) -> str:
    """Name a bar as shortly as tells it from the others."""
    if option.stays:
        return _name(option)
    return f"move, {scenario.speedup:.1f}x" + (
        f", {_bought(option.price.market)}" if len(migration.moves()) > 1 else ""
    )


def _break_even(migration: Migration, port_usd: Decimal) -> Table:
    rows = []
    named = zip(
        ("slowest voice", "middle", "fastest voice"), migration.moves()[0].scenarios, strict=True
    )
    one = len(migration.speeds.voices) == 1
    for words, scenario in (("the one voice", x[1]) for x in list(named)[:1]) if one else named:
        paid = port_usd + (migration.recompile.usd(scenario) if migration.recompile else 0)
        hours = break_even_hours(paid, migration.standing, scenario.relative_cost)
        payoff = (
            "never"
            if hours is None
            else f"{hours:,.0f} hours ({hours / _DAYS:,.0f} days) of today's work"
        )
        rows.append((f"{scenario.speedup:.1f}x, {words}", payoff))
    caption = f"When {usd(port_usd)} of porting pays{', compiling anew counted' if migration.recompile else ''}"
    return Table((Heading("speed-up"), Heading("pays after")), tuple(rows), caption=caption)


def _migrate_card_recompile(migration: Migration) -> Text:
    """State the cost of compiling anew: compiled artifacts do not move."""
    assert migration.recompile
    scenario, again = migration.moves()[0].scenarios[1], migration.recompile
    rests = (
        "as the longest compile seen here"
        if again.seen
        else "an assumption, as long as compiling.grace allows"
    )
    return quiet(
        f"Compiling anew once: about {usd(again.usd(scenario))} ({scenario.nodes} nodes for {again.hours * 60:.0f} min, {rests});"
        " compiled artifacts do not move to another family, nor to another compiler version."
        " Compile on one node first (neuron_parallel_compile), and the others wait for nothing."
    )


def _voices(migration: Migration, today: date) -> Table:
    rows = tuple(
        (f"{x.factor:.2f}x", x.kind.value, x.says, cited(x, today)) for x in migration.speeds.voices
    )
    names = f"one {migration.to.name} against one {migration.standing.type.name}"
    own = bool(migration.speeds.unused)
    caption = (
        f"Work of {names}, as your own runs measured it"
        if own
        else f"Work of {names} in BF16, as others state it; yours will differ"
    )
    return Table(
        (Heading("speed-up"), Heading("kind"), Heading("says"), Heading("source")),
        rows,
        caption=caption,
    )


def _unused(migration: Migration) -> list[Block]:
    return [
        quiet(f"Not used, as the own runs tell: {x.factor:.2f}x, {x.kind}: {x.says}.")
        for x in migration.speeds.unused
    ]


def _conflicts(conflicts: Sequence[Conflict], today: date) -> Table:
    rows = tuple((x.vendor_says, x.aws_says, cited(x, today)) for x in conflicts)
    columns = (Heading("vendor texts say"), Heading("AWS says"), Heading("source"))
    return Table(
        columns,
        rows,
        caption="Where vendor texts contradict AWS's own documents; AWS's figures are used",
    )


def _before_paying(migration: Migration, age: PriceAge) -> str:
    cheapest = migration.compile_on
    node, price = "one node", ""
    if cheapest:
        node = f"one {cheapest.instance_type}"
        dated = f"{cheapest.asof}{age.of(cheapest.asof)}"
        price = f": {usd(cheapest.usd_per_hour)} an hour, {_bought(cheapest.market)} in {cheapest.region}, {dated}"
    compile_first = (
        f"compile on {node} (neuron_parallel_compile{price}), " if migration.to.has_neuron else ""
    )
    return f"Before paying: {compile_first}train a short run on both, and compare the loss curve and the cost of an epoch."


_SEEN = timedelta(days=14)


_MIGRATE_FIGURES = {
    "nodes": "count of the cluster's running nodes of its type",
    "utilization_ratio": "mean of the nodes over the days read",
    "usd_per_hour": "sum over the nodes of the price of an hour",
    "speedup/*": "the slowest, middle and fastest speed-up that somebody states, or the run's own",
    "voices/factor": "as its source states it, by the share of a full node",
    "node_usd_per_hour": (
        "price of the way to buy: the account's own, else listed, offered, of last resort"
    ),
    "scenarios/speedup": "one of the stated speed-ups; 1 where the type stays",
    "scenarios/nodes": "today's nodes / speed-up, rounded up",
    "scenarios/usd_per_hour": "nodes x price of a node's hour",
    "scenarios/relative_cost": "price of the new hour / (speed-up x price of today's hour)",
    "alike/*": (
        "cost of the same work against staying, bought alike, at the fastest and the "
        "slowest speed-up"
    ),
    "port_usd": "as typed",
    "recompile_usd": "cost an hour of the new nodes x hours of compiling",
    "compile_usd_per_hour": "price of the type that the work would be compiled on",
    "fit/*": "peak figures of the new type / those of today's, by the makers' pages",
    "by_matmul/*": "by Amdahl's law over the share of matrix multiplication",
}


@command(
    "migrate",
    "The cost of a cluster's work on another instance type.",
    needs=Needs.METRICS | Needs.DETECTOR | Needs.STATE,
    may=Needs.BILL,
    topic=Topic.PLANS,
    examples=(
        "migrate llama",
        "migrate llama to trn2.48xlarge",
        "migrate llama port_usd=40000 precision=bf16 matmul=70",
    ),
    figures=_MIGRATE_FIGURES,
)
async def migrate(
    ports: Ports,
    request: Request,
    cluster: str = arg(None, "the cluster"),
    to: str = arg(
        "",
        "the instance type; those that published sources compare with today's when left out",
        keyword=True,
    ),
    port_usd: Decimal | None = arg(
        "", "cost of porting the code in USD, to compute when it has paid for itself", keyword=True
    ),
    precision: str = arg(
        "",
        "the precision that it trains in; bf16 when left out",
        choices=("", "fp32", "bf16", "fp8"),
        keyword=True,
    ),
    matmul: Decimal | None = arg(
        "", "percent of a step's time in matrix multiplications, from neuron-profile", keyword=True
    ),
) -> Card:
    """Compare by the cost of the same work, or say why it is too early."""
    if matmul is not None and not 0 <= matmul <= 100:
        raise WrongInput(f"matmul is a share of 0 to 100 percent, such as 70; got {matmul}.")
    return await asyncio.to_thread(
        _answer, ports, request, (cluster, to), port_usd, (precision, matmul)
    )


def _answer(
    ports: Ports,
    request: Request,
    names: tuple[str, str],
    port_usd: Decimal | None,
    told: tuple[str, Decimal | None],
) -> Card:
    cluster, to = names
    types, claims = ports.world.knowledge.types(), ports.world.knowledge.claims()
    if port_usd is not None and not 0 <= port_usd < 10**12:
        raise WrongInput(f"port_usd is an amount of USD, such as 40000; got {port_usd}.")
    standing = _standing(ports, request, cluster)
    target = _target(to, standing, types) if to else default_target(standing.type, types, claims)
    speeds = speed_range(
        standing.type,
        target,
        types,
        claims,
        measured_speeds(ports, request.at, standing.type, target),
    )
    if reasons := refusals(standing):
        return refused_card(standing, target, reasons)
    policy = ports.policy.at(Labels(cluster=cluster))
    offers = Offers(Pricing(ports).at(request.at))
    quotes = [*offers.quotes(target.name), *offers.quotes(standing.type.name)]
    migration = compare(standing, target, speeds, quotes, claims)
    migration = replace(
        migration,
        fit=fit_of(standing.type, target, *told),
        compile_on=_cheapest(offers, target, types, standing),
    )
    if target.family != standing.type.family:
        migration = replace(migration, recompile=_recompile(ports, request, cluster))
    against = doubts(standing, policy.number("advice.least_utilization"))
    return migration_card(
        migration,
        against,
        port_usd,
        PriceAge(request.at.date(), policy.number("advice.stale_days")),
    )


def _recompile(ports: Ports, request: Request, cluster: str) -> Recompile:
    """Return how long compiling anew takes.

    As the cluster's longest compile of 14 days, else as its grace allows.
    """
    reading = ports.world.source.read(request.at)
    seen = [
        x.hours
        for x in ports.world.compiles(reading, ports.policy, request.at - _SEEN)
        if x.scope.cluster == cluster
    ]
    grace = ports.policy.at(Labels(cluster=cluster)).duration("compiling.grace")
    return Recompile(max(seen), seen=True) if seen else Recompile(grace / timedelta(hours=1))


def _target(
    name: str, standing: ClusterStanding, types: Mapping[str, InstanceType]
) -> InstanceType:
    target = known_type(name, types)
    if target.name == standing.type.name:
        raise WrongInput(f"{standing.cluster} already runs {target.name}; name another type.")
    return target


def _standing(ports: Ports, request: Request, cluster: str) -> ClusterStanding:
    """Return how the cluster runs now.

    Raise `WrongInput` for one that does not run, or of unknown types.
    """
    rows, reading = look_over(ports, request)
    mine = [row for row in rows if row.instance.labels.cluster == cluster]
    if not mine:
        raise no_cluster(cluster, sorted({row.instance.labels.cluster for row in rows} - {""}))
    types = ports.world.knowledge.types()
    counts = Counter(row.instance.labels.instance_type for row in mine)
    accelerated = [name for name, _ in counts.most_common() if name in types]
    if not accelerated:
        raise WrongInput(
            f"'{cluster}' runs no instance type known here ({', '.join(sorted(counts))})."
        )
    chosen = [row for row in mine if row.instance.labels.instance_type == accelerated[0]]
    memory = ports.stores.alerts.load(request.at)
    return ClusterStanding(
        cluster,
        types[accelerated[0]],
        len(chosen),
        Counter(row.instance.labels.region for row in chosen).most_common(1)[0][0],
        _price(chosen),
        _utilization(reading, cluster),
        Counter(row.state for row in chosen),
        tuple(
            x
            for x in memory.alerts
            if x.firing and _label(x.anomaly.scope, x.anomaly.labels) == cluster
        ),
        tuple(sorted(set(counts) - {accelerated[0]})),
    )


def _label(scope: Labels, labels: Labels) -> str:
    return scope.cluster or labels.cluster


def _price(rows: Sequence[NodeRow]) -> Price | None:
    """Return the price that most of the nodes have."""
    prices = Counter(row.price for row in rows if row.price)
    return prices.most_common(1)[0][0] if prices else None


def _utilization(reading: Reading, cluster: str) -> float | None:
    """Return the mean of the readings of 24 hours, None where there is none."""
    frame = reading.frame("node")
    rows = [i for i, thing in enumerate(frame.things) if thing.cluster == cluster] if frame else []
    return measured(frame, rows, timedelta(days=1), ANY).mean


def _cheapest(
    offers: Offers,
    target: InstanceType,
    types: Mapping[str, InstanceType],
    standing: ClusterStanding,
) -> Price | None:
    """Return the cheapest node with the target's chip.

    What it compiles, the others load from the cache.
    """
    same = (
        kind.name
        for kind in types.values()
        if kind.accelerator == target.accelerator and kind.has_neuron
    )
    prices = [price for name in same if (price := offers.plain(name, standing.region))]
    return min(prices, key=lambda price: price.usd_per_hour, default=None)
