"""Build the cards of the planning questions: spot, runs, break-even, the twelve questions, credits, roadmap."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import date, timedelta
from decimal import Decimal

from bot.answers.cost.commitments import Burn, credits_card
from bot.answers.fleet.carbon import Carbon, Factors, carbon_card
from bot.answers.plan.breakeven import Porting, breakeven_card
from bot.answers.plan.capacity import Demand, Ways, capacity_card
from bot.answers.plan.decide import advice_of, questions_card, verdict_card
from bot.answers.plan.fit import ClusterUse
from bot.answers.plan.porting import (
    Checklist,
    StepTick,
    audit,
    checklist_card,
    cuda_card,
    requirements,
)
from bot.answers.plan.roadmap import WaitTerms, roadmap_card, wait_card, waiting
from bot.answers.plan.sizing import Leaner, fits, right_size_card, serve_card, size_card
from bot.answers.plan.spot import SpotAnswer, spot_card
from bot.answers.plan.tco import Work, tco_card, total
from bot.answers.runs.card import compare_card, run_card, runs_card
from bot.answers.runs.costed import Costed
from bot.cards.card import Card
from bot.cards.words import PriceAge
from bot.costs.goodput import GoodputRow, RunGoodput
from bot.costs.node_time import GoodputClass
from bot.costs.spot import SpotJob, offer, ranked, zones
from bot.costs.training import Epoch, RunCost, Sample, compare
from bot.costs.verdict import Verdict
from bot.knowledge import load_knowledge
from bot.model.claims import ClaimKind, SpeedUp
from bot.model.fleet import Market, Scarcity
from bot.model.labels import Labels
from bot.model.price import Basis, Interruption, PlacementScore, Price
from bot.model.run import Run
from bot.model.spend import Money, Tally
from bot.model.window import Window, month_of
from tests.builders import NOON, price

CLAIMS = load_knowledge().claims()
KIND = "trn1.32xlarge"
_DAY = timedelta(days=1)


def _change(days: float, usd: str, zone: str) -> tuple[object, Price]:
    at = NOON - days * _DAY
    return at, Price(
        KIND,
        Decimal(usd),
        Market.SPOT,
        Basis.SPOT,
        zone[:-1],
        at.date(),
        "EC2 spot price history",
        zone,
    )


def spot() -> Card:
    window = Window(NOON - 14 * _DAY, NOON)
    changes = [
        _change(20, "6.10", "us-west-2a"),
        _change(3, "6.40", "us-west-2a"),
        _change(20, "2.15", "us-east-2c"),
    ]
    job = SpotJob(nodes=16, hours=Decimal(100), data_gb=Decimal(5000), home="us-west-2")
    bands = tuple(
        Interruption(KIND, region, band, 0.8, NOON - 90 * _DAY)
        for region, band in (("us-west-2", "<5%"), ("us-east-2", ">20%"))
    )
    scores = (
        PlacementScore((KIND, "trn1.2xlarge", "trn1n.32xlarge"), "us-east-2", "use2-az3", 9, NOON),
    )
    found = zones(changes, window)  # type: ignore[arg-type]
    route = CLAIMS.transfer("inter-region")
    offers = ranked(
        [offer(x, job, bands, scores, price(region=x.region), route.usd_per_gb) for x in found]
    )
    return spot_card(
        SpotAnswer(KIND, window, job, offers, bands, scores, route, Decimal("6.25"), NOON)
    )


def spot_bands() -> Card:
    bands = (
        Interruption(KIND, "us-west-2", "<5%", 0.69, NOON),
        Interruption(KIND, "us-east-2", "10-15%", 0.9, NOON),
    )
    window = Window(NOON - 14 * _DAY, NOON)
    return spot_card(
        SpotAnswer(
            KIND, window, SpotJob(), (), bands, (), CLAIMS.transfer("inter-region"), None, NOON
        )
    )


def breakeven() -> Card:
    port = Porting(Decimal(2), Decimal(200_000), Decimal(20_000), Decimal("0.3"), Decimal("0.4"))
    return breakeven_card(
        port, CLAIMS.efforts[0], CLAIMS.of("risk"), "JAX: vendor texts differ.", 12, NOON.date()
    )


def questions() -> Card:
    return questions_card(CLAIMS.questions, {"stable": True}, "llama", "7B")


def verdict() -> Card:
    answers = {
        q.key: q.key in {"standard", "repeated", "pytorch", "spend"} for q in CLAIMS.questions
    }
    return verdict_card(
        advice_of(CLAIMS.questions, answers),
        "llama",
        7e9,
        CLAIMS,
        NOON.date(),
    )


def cuda() -> Card:
    wanted = requirements("torch==2.5.1+cu124\nflash-attn==2.7\nnumpy==1.26\n<b>x==1")
    return cuda_card(wanted, audit(wanted, CLAIMS.packages, NOON.date()))


def credit() -> Card:
    total = Money(
        Decimal(415_924),
        Decimal(-10_271),
        Decimal(-2_250),
        Decimal(7_519),
        Decimal(410_922),
        Decimal(400_000),
    )
    month = month_of(NOON)
    burn = Burn(Decimal("150.00"), 12, date(2026, 11, 6), Decimal(3_000), date(2026, 12, 8))
    return credits_card(
        Tally(Window(month.start, NOON), (), (), total), burn, CLAIMS.programmes, NOON.date()
    )


def checklist() -> Card:
    stored = Checklist("devops", {1: StepTick("dana", NOON)})
    return checklist_card("llama", stored, CLAIMS.of("devops"))


def roadmap() -> Card:
    return roadmap_card(CLAIMS.of("roadmap"), CLAIMS.of("energy"), CLAIMS.of("claim"), NOON.date())


def wait() -> Card:
    now, later = CLAIMS.chips[1], CLAIMS.chips[2]
    terms = WaitTerms(Decimal(9), Decimal(80_000), Decimal(4), Decimal(20_000), "fp8")
    return wait_card(waiting(now, later, terms), now, later, terms, NOON.date())


def _cost(name: str = "llama-8b") -> RunCost:
    run = Run(
        Labels(cluster="llama", job=name),
        NOON - 9 * _DAY,
        NOON,
        epochs=9.4,
        tokens=4e11,
        parameters=8e9,
        loss=2.1,
        attempts=3,
    )
    epochs = tuple(Epoch(n, Decimal(1900 + 25 * n), 5.5 + n / 10) for n in range(4, 9))
    return RunCost(
        run,
        NOON - 2 * _DAY,
        NOON,
        False,
        16.0,
        Decimal("12384.00"),
        epochs,
        0.4,
        Decimal("702.10"),
        1.5e11,
        44,
        (),
    )


def runs() -> Card:
    vit = _cost("<!channel> vit")
    return runs_card([("llama-8b", _cost(), _goodput()), ("<!channel> vit", vit, None)])


def unpriced_runs() -> Card:
    """List one run of nodes whose price nobody knows, which has not finished an epoch."""
    return runs_card([("llama-8b", replace(_begun(), usd=None, tokens=None), None)])


def _begun() -> RunCost:
    """Return a run that was seen from its first step on, within its first epoch."""
    cost = replace(_cost(), whole=True, epochs=(), partial_epoch=0.999, checkpoints=None)
    return replace(cost, run=replace(cost.run, attempts=1, epochs=0.999), billed=0.25)


def begun() -> Card:
    return run_card(Costed(_begun(), (KIND,), "the job label", (price(),)), None)


def unpriced() -> Card:
    cost = replace(_begun(), usd=None, partial_usd=None)
    return run_card(Costed(cost, (KIND,), "1/2 of the cluster", (), 2), {}, None)


def run() -> Card:
    storage = {"FSx": Decimal("199.10"), "S3": Decimal("128.55"), "data-transfer": Decimal("27.40")}
    costed = Costed(_cost(), (KIND,), "the project tag", (price(),), 1)
    return run_card(costed, storage, _goodput())


def _goodput() -> RunGoodput:
    classes = {
        GoodputClass.PRODUCTIVE: Decimal(10526),
        GoodputClass.STARTING: Decimal(620),
        GoodputClass.LOST: Decimal(1238),
    }
    return RunGoodput(GoodputRow({"job": "llama-8b"}, classes), 0.83)


def compared() -> Card:
    gpu = Sample(
        "gpu-run",
        tuple(Decimal(x) for x in (2900, 2850, 3000, 2950)),
        (4.0, 4.1, 4.2, 4.0),
        2.5e10,
        Decimal("116.20"),
    )
    trn = Sample(
        "llama-8b",
        tuple(x.usd for x in _cost().epochs),
        tuple(x.hours for x in _cost().epochs),
        2.5e10,
        Decimal("82.56"),
    )
    speed = SpeedUp(
        "p5", "trn1", 0.56, ClaimKind.EQUAL_LOSS, "a test", source="own runs", asof=NOON.date()
    )
    prices = replace(price("55.04"), instance_type="p5.48xlarge"), price()
    return compare_card(compare(gpu, trn), Verdict(gpu.name, trn.name, (speed,), prices))


def too_few() -> Card:
    gpu, trn = Sample("gpu-run", (), ()), Sample("llama-8b", (Decimal(1),), (1.0,))
    unknown = "the nodes of gpu-run and llama-8b are not known apart from others"
    return compare_card(compare(gpu, trn), Verdict(gpu.name, trn.name, unknown=unknown))


def capacity() -> Card:
    prices = (
        price(),
        price("9.532", Market.CAPACITY_BLOCK, Basis.FALLBACK),
        price("6.02", Market.SPOT, Basis.SPOT),
    )
    zones = (
        Scarcity(
            "trn1.32xlarge", "us-west-2b", 5, 2, NOON - timedelta(days=1), NOON - timedelta(hours=2)
        ),
        Scarcity("trn1.32xlarge", "us-west-2c", 1, 0, *(NOON - timedelta(days=3),) * 2),
    )
    ways = Ways(prices, zones, NOON, CLAIMS.of("blocks"))
    return capacity_card(
        Demand(KIND, 16, 200, Decimal("0.8")), ways, PriceAge(date(2027, 6, 1), 90)
    )


def carbon() -> Card:
    factors, types = Factors.stated(CLAIMS), load_knowledge().types()
    ran = [
        ("p5.48xlarge", "us-east-1", 700),
        ("trn2.48xlarge", "us-east-2", 80),
        (KIND, "us-west-2", 2688),
    ]
    found = [factors.of(types[name], region, hours) for name, region, hours in ran]
    peaks = {
        types[name].accelerator: types[name].bf16_tflops / types[name].chips for name, _, _ in ran
    }
    return carbon_card(
        Carbon(
            found,
            Window(NOON - 7 * _DAY, NOON),
            factors,
            peaks,
            NOON.date(),
            "",
            CLAIMS.of("energy"),
        )
    )


def tco() -> Card:
    route, gpu = CLAIMS.transfer("internet"), replace(price("55.04"), instance_type="p5.48xlarge")
    work = Work(4, Decimal(500), 12, Decimal(1000), Decimal(10), route)
    options = [total(work, gpu, 1.0, False, Decimal(0))]
    options += [total(work, price(), x, True, Decimal(50_000)) for x in (0.85, 1.43)]
    verdict = Verdict("p5.48xlarge", "trn1.32xlarge", CLAIMS.speedups[:2], (gpu, price()))
    port = "Engineering: $50,000, as typed."
    return tco_card(work, options, verdict, port, PriceAge(NOON.date(), 90))


def size() -> Card:
    found = fits(7e9, load_knowledge().types().values())
    return size_card(
        7e9,
        found,
        {KIND: price()},
        [*CLAIMS.of("sizing"), *CLAIMS.of("advice")],
        PriceAge(NOON.date(), 90),
    )


def _usage(
    cluster: str, utilization: float | None, peak: float | None, trains: bool = False
) -> ClusterUse:
    return ClusterUse(
        cluster,
        load_knowledge().types()[KIND],
        4,
        "us-west-2",
        price(),
        utilization,
        0.01,
        peak,
        trains,
        False,
    )


def right_size() -> Card:
    small = load_knowledge().types()["trn1.2xlarge"]
    one = replace(price("1.34375"), instance_type=small.name)
    probe = _usage("probe", 0.04, 20.0)
    return right_size_card([Leaner(probe, small, 4, one), Leaner(_usage("<!channel>", None, None))])


def serve() -> Card:
    inf2 = load_knowledge().types()["inf2.48xlarge"]
    hour = replace(price("12.98127"), instance_type=inf2.name)
    rows = [Leaner(_usage("chat", 0.3, 200.0), inf2, 4, hour)]
    return serve_card(rows, CLAIMS.of("serve"), NOON.date())


ASKED: Mapping[str, Callable[[], Card]] = {
    "breakeven": breakeven,
    "capacity": capacity,
    "carbon": carbon,
    "checklist": checklist,
    "compare": compared,
    "compare-too-few": too_few,
    "credits": credit,
    "cuda": cuda,
    "decide": verdict,
    "decide-form": questions,
    "roadmap": roadmap,
    "run": run,
    "run-begun": begun,
    "run-unpriced": unpriced,
    "runs": runs,
    "runs-unpriced": unpriced_runs,
    "serve": serve,
    "serve-none": lambda: serve_card([], CLAIMS.of("serve"), NOON.date()),
    "size": size,
    "size-clusters": right_size,
    "spot": spot,
    "spot-bands": spot_bands,
    "tco": tco,
    "wait": wait,
}
