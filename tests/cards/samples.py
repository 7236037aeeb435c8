"""Build one realistic card of every kind through the functions that build them in the product."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

import numpy as np

from bot.answers.about.about import (
    about_card,
    brief_help_card,
    command_card,
    doctor_card,
    help_card,
)
from bot.answers.alerts.alerts import alerts_card, decided_card, snooze_form
from bot.answers.alerts.assign import assign_form
from bot.answers.alerts.why import why_card
from bot.answers.all import ANSWERS
from bot.answers.config.preview import backtest_card
from bot.answers.config.show import config_card, export_card
from bot.answers.cost.card import CostAnswer, cost_card
from bot.answers.fleet.card import NodeRow, fleet_card, idle_card
from bot.answers.plan.comparison import ClusterStanding, compare, doubts, refusals
from bot.answers.plan.fit import fit_of
from bot.answers.plan.migrate import migration_card, refused_card
from bot.app import error_card
from bot.cards.alert import Reach, notification_card
from bot.cards.card import (
    Attachment,
    Button,
    Buttons,
    ButtonStyle,
    Card,
    Chart,
    ChartKind,
    Link,
    Series,
    Tone,
    detail,
    text,
)
from bot.cards.charts import alert_chart
from bot.cards.words import PriceAge
from bot.costs.nowcast import Nowcast
from bot.costs.tally import Change
from bot.costs.verdict import Verdict, stated_speeds
from bot.errors import WrongInput
from bot.grammar.registry import COMMANDS
from bot.knowledge import load_knowledge
from bot.model.alert import Alert, Decision, DecisionKind, Silence, Waste
from bot.model.anomaly import NodeState
from bot.model.causes import Cause, Severity
from bot.model.fleet import Instance, Market
from bot.model.frame import Frame
from bot.model.labels import Labels
from bot.model.notification import Coverage, Notification, Reason, ReplayResult
from bot.model.price import Basis, Price
from bot.model.reading import Gap, Reading
from bot.model.request import User
from bot.model.spend import Filter, Money, Spend, Tally
from bot.model.window import Window, month_of
from bot.policy.file import write_policy
from bot.policy.schema import SETTINGS, default_policy
from bot.ports import Check
from tests import builders
from tests.builders import FIVE, NOON, quoted
from tests.cards.asked import ASKED
from tests.cards.leads import leads
from tests.cards.tuning import TUNING

HOSTILE = (
    "<!channel> *b* [x](http://evil.example) <script>alert(1)</script> @everyone <at>all</at> `c` "
    + "long" * 40
)
ONSET = NOON - timedelta(minutes=25)
ALICE, BOB = "slack:U01ALICE", "slack:U02BOB"
TYPES, CLAIMS = load_knowledge().types(), load_knowledge().claims()


def waste(per_hour: str = "1083.40", so_far: str = "451.42") -> Waste:
    hour, far = Decimal(per_hour), Decimal(so_far)
    end = hour * 252
    return Waste(
        hour, far, end, end * Decimal("0.89"), end * Decimal("1.11"), "billed", date(2026, 11, 18)
    )


def starved(**more: Any) -> Alert:
    """Return the incident of the design: 64 nodes wait for their data loader."""
    found = builders.anomaly(
        n=64,
        cluster="llama-70b",
        window=Window(ONSET, NOON),
        severity=Severity.CRITICAL,
        why="NeuronCore utilization 20 %, usually 85-95 % at this hour. Runtime loaded, steps run at 22 % of their usual rate, host CPU 96 %.",
        evidence=(
            "64 nodes at 22 % of the usual utilization",
            "host CPU 96 %, usually 11 %",
            "data arrives at 22 % of its usual rate",
        ),
        confidence=0.86,
        runners_up=((Cause.NETWORK_BOUND, 0.09), (Cause.COLLECTIVE_PATH, 0.05)),
        suggestions=(
            "Give the data loader more workers and prefetch.",
            "Stage preprocessed data on FSx for Lustre.",
        ),
    )
    made: dict[str, Any] = {
        "opened": ONSET + timedelta(minutes=15),
        "waste": waste(),
        "owner": "dana",
        "things_at_peak": 64,
    } | more
    return replace(builders.alert(found, name="a9ba409518"), **{"seen": NOON, **made})


def idle(n: int = 3, cluster: str = "vision", **more: Any) -> Alert:
    found = builders.anomaly(
        Cause.IDLE,
        n=n,
        cluster=cluster,
        window=Window(NOON - timedelta(hours=5), NOON),
        value=0.0,
        why=f"NeuronCore utilization 0 % for 5 h on {n} nodes; no runtime is loaded.",
        suggestions=(
            "Stop the nodes or scale the node group down.",
            "If they wait for a job on purpose, silence them.",
        ),
    )
    made: dict[str, Any] = {
        "opened": NOON - timedelta(hours=4),
        "waste": waste("64.50", "322.50"),
        "things_at_peak": n,
    } | more
    return replace(builders.alert(found, name=f"a{cluster}{n}"), **{"seen": NOON, **made})


def decision(doing: DecisionKind = DecisionKind.ACKNOWLEDGE, note: str = "") -> Decision:
    return Decision("d1", "a9ba409518", doing, ALICE, "alice", NOON - timedelta(minutes=4), note)


def given() -> Decision:
    """Return the decision by which alice assigned the incident to bob."""
    return replace(
        decision(DecisionKind.ASSIGN, "before the standup"), assignee=BOB, assignee_name="bob"
    )


def frames(n: int = 64, cluster: str = "llama-70b") -> Mapping[str, Frame]:
    """Return six hours that fall to 20 % at the onset, with two steps without a reading."""
    line = np.array([90 + 4 * math.sin(i / 3.1) for i in range(72)], np.float32) / 100
    line[67:] = 0.20
    line[30:32] = np.nan
    things = tuple(Labels(cluster=cluster, instance=name) for name in builders.nodes(n, cluster))
    values = np.repeat(line[None, :, None], n, axis=0).astype(np.float32)
    return {
        "node": Frame(
            "node", things, NOON - FIVE * 72, FIVE, ("neuroncore_utilization_ratio",), values
        )
    }


def chart() -> Chart | None:
    return alert_chart(starved(), frames())


def notice(
    *alerts: Alert,
    silences: tuple[Silence, ...] = (),
    drawn: Chart | None = None,
    reason: Reason = Reason.FIRST,
) -> Card:
    mapped = {"dana": "slack:U01DANA", HOSTILE: ""}
    return notification_card(
        Notification("n1", "slack:C02FIN", reason, NOON, alerts),
        drawn,
        silences,
        Reach(lambda owner: mapped.get(owner, "")),
    )


def snoozed() -> Card:
    sleep = Silence(
        "s1",
        Labels(),
        NOON,
        NOON + timedelta(hours=6),
        ALICE,
        "alice",
        "migration until noon",
        ceiling_usd=Decimal(500),
    )
    return notice(
        starved(muted_by="silence:s1"), silences=(sleep,), drawn=chart(), reason=Reason.DECIDED
    )


def storm() -> Card:
    """Return the worst: 500 nodes starved and 39 more alerts of the same incident."""
    first = starved(
        anomaly=replace(
            starved().anomaly, things=builders.nodes(500, "llama-70b"), wasted_shares=(0.75,) * 500
        ),
        waste=waste("8464.00", "3526.70"),
        things_at_peak=512,
    )
    rest = [
        idle(n, f"pool-{n:02}", waste=None if n == 40 else waste(f"{n * 21}.50", f"{n * 80}"))
        for n in range(2, 41)
    ]
    return notice(first, *rest, drawn=chart())


def came_with(closed: datetime | None = None) -> Card:
    """Return a wide incident with two symptoms on a few of its nodes, or its end."""
    firing = starved(anomaly=replace(starved().anomaly, wide=True), closed=closed)
    errors, silent = (
        builders.alert(
            builders.anomaly(cause, n=8, cluster="llama-70b"),
            name=f"a{cause}",
            muted_by=f"inhibit:{firing.key}",
            waste=waste("20"),
        )
        for cause in (Cause.EXECUTION_ERRORS, Cause.NO_DATA)
    )
    return notice(firing, errors, replace(silent, closed=NOON), drawn=chart(), reason=Reason.MORE)


def odd() -> Card:
    found = builders.anomaly(
        Cause.ODD,
        n=1,
        cluster="lab",
        score=0.71,
        usual=None,
        wasted_shares=(),
        why="This combination of device memory, EFA and latency was not seen in 14 days; each alone is usual.",
        suggestions=("Check whether the job changed; if it did, mark this as not an anomaly.",),
    )
    return notice(builders.alert(found, name="a0dd"), reason=Reason.FIRST)


def hostile() -> Card:
    labels = Labels(cluster=HOSTILE, instance_type="trn1.32xlarge", region="us-west-2")
    ours = HOSTILE.replace(
        "`", ""
    )  # what stands between grave accents is code, in these sentences of ours alone
    found = replace(
        starved().anomaly,
        labels=labels,
        things=(HOSTILE, "`i-1`"),
        why=HOSTILE,
        suggestions=(ours,),
    )
    ack = replace(decision(note=HOSTILE), by_name=HOSTILE)
    return notice(starved(anomaly=found, owner=HOSTILE, acknowledged=ack), idle(cluster=HOSTILE))


def alerts(n: int) -> Card:
    every = [
        starved(),
        starved(id="amute", muted_by="silence:s1"),
        *(idle(i, f"pool-{i:02}") for i in range(2, 40)),
    ]
    week = Window(NOON - timedelta(days=7), NOON)
    return alerts_card(every[:n], week if n == 30 else None, Coverage())


def why() -> Card:
    said = [decision(note="looking at the loader"), decision(DecisionKind.USEFUL)]
    return why_card(starved(acknowledged=decision()), said, chart(), NOON)


def rows(
    cluster: str,
    n: int,
    kind: str,
    states: tuple[NodeState, ...],
    used: float | None,
    usd: str | None,
) -> list[NodeRow]:
    price = (
        Price(
            kind,
            Decimal(usd),
            Market.ON_DEMAND,
            Basis.BILLED,
            "us-west-2",
            date(2026, 11, 18),
            "CUR",
        )
        if usd
        else None
    )
    made = []
    for i in range(n):
        labels = Labels(
            cluster=cluster, instance=f"i-{cluster}{i:03}", instance_type=kind, region="us-west-2"
        )
        state = states[i % len(states)]
        lower = 0.0 if used and state is NodeState.IDLE else used
        made.append(NodeRow(Instance(labels, NOON - timedelta(days=3)), state, lower, price))
    return made


def fleet(name: str = "") -> Card:
    busy, still = NodeState.BUSY, NodeState.IDLE
    every = [
        *rows("llama-70b", 64, "trn1.32xlarge", (NodeState.STARVED,), 0.2, "21.50"),
        *rows("vision", 16, "trn1n.32xlarge", (busy, busy, busy, still), 0.86, "24.78"),
        *rows("frontier", 8, "trn2.48xlarge", (busy,), 0.81, None),
        *rows("lab", 1, "trn1.32xlarge", (NodeState.LOADED_IDLE,), 0.0, "21.50"),
        *rows("", 2, "inf2.48xlarge", (NodeState.NO_DATA,), None, "12.98"),
    ]
    chosen = [row for row in every if not name or row.instance.labels.cluster == name]
    return fleet_card(
        chosen,
        name,
        Reading(NOON, gaps=() if name else (Gap("FSx metrics: access denied in us-east-1."),)),
    )


def idle_nodes() -> Card:
    found = rows("vision", 3, "trn1n.32xlarge", (NodeState.IDLE,), 0.0, "24.78")
    return idle_card(
        [*found, *rows("lab", 1, "trn1.32xlarge", (NodeState.LOADED_IDLE,), 0.0, "21.50")],
        "",
        Reading(NOON),
    )


def money(net: str, amortised: str) -> Money:
    one, two = Decimal(net), Decimal(amortised)
    return Money(
        gross=one * Decimal("1.03"), credits=one * Decimal("-0.03"), net=one, amortised=two
    )


TEAMS = {
    "pretraining": ("41776", "187412"),
    "vision": ("67850", "67850"),
    "": ("168558", "23897"),
    "serving": ("161.88", "161.88"),
}


def tally(window: Window, by: tuple[str, ...], keys: Mapping[Any, Money]) -> Tally:
    found = tuple(Spend(dict(zip(by, key, strict=True)), one) for key, one in keys.items())
    total = sum((row.money for row in found), Money())
    return Tally(
        window, by, found, total, billed_through=NOON - timedelta(hours=15), sources=("CUR 2.0",)
    )


def cost() -> Card:
    window = Window(NOON - timedelta(days=7), NOON)
    by_team = {(team,): money(*sums) for team, sums in TEAMS.items()}
    days = [f"2026-11-{day}" for day in range(13, 21)]
    each = {
        (day, team): money(f"{float(a) / 8:.2f}", f"{float(b) / 8:.2f}")
        for day in days
        for team, (a, b) in TEAMS.items()
    }
    settled = NOON.replace(day=18, hour=0)
    change = Change(
        Window(window.start, settled),
        Window(window.previous().start, settled),
        Decimal(189060),
        Decimal(168800),
    )
    return cost_card(
        CostAnswer(
            tally(window, ("team",), by_team),
            (),
            tally(window, ("day", "team"), each),
            change,
            nameless={"team": by_team["",].amortised},
        )
    )


def cost_month() -> Card:
    month = month_of(NOON)
    by_service = {
        (f"Service{n:02}",): money(f"{90000 / n**2:.2f}", f"{80000 / n**2:.2f}")
        for n in range(1, 16)
    }
    forecast = Nowcast(
        month, NOON, Decimal(120000), Decimal(183456), Decimal(177777), Decimal(190123), 14
    )
    kept = (Filter("team", ("search",)), Filter("region", ("us-east-1",), negated=True))
    return cost_card(CostAnswer(tally(month, ("service",), by_service), kept, None, None, forecast))


def standing(**more: Any) -> ClusterStanding:
    price = Price(
        "trn1.32xlarge",
        Decimal("21.50"),
        Market.ON_DEMAND,
        Basis.LISTED,
        "us-east-2",
        date(2026, 11, 18),
        "list",
    )
    return replace(
        ClusterStanding(
            "llama-70b", TYPES["trn1.32xlarge"], 64, "us-east-2", price, 0.9, {NodeState.BUSY: 64}
        ),
        **more,
    )


def migrate() -> Card:
    now, target = standing(alerts=(idle(3, "llama-70b"),)), TYPES["trn2.48xlarge"]
    speeds = stated_speeds(now.type, target, TYPES, CLAIMS)
    prices = load_knowledge().fallback_prices()
    bought = [
        next(x for x in prices if (x.instance_type, x.market, x.region) == (name, block, region))
        for name, block, region in (
            (now.type.name, Market.CAPACITY_BLOCK, "us-east-2"),
            (target.name, Market.CAPACITY_BLOCK, "us-east-2"),
        )
    ]
    verdict = Verdict(now.type.name, target.name, speeds, (bought[0], bought[1]))
    found = compare(now, target, quoted(prices), CLAIMS, verdict)
    cheapest = next(x for x in prices if x.instance_type == "trn2.3xlarge")
    found = replace(found, fit=fit_of(now.type, target), compile_on=cheapest)
    return migration_card(found, doubts(now, 0.5), Decimal(40000), PriceAge(NOON.date(), 30))


def refused() -> Card:
    now = standing(alerts=(starved(),), utilization=0.2, states={NodeState.STARVED: 64})
    return refused_card(now, TYPES["trn2.48xlarge"], refusals(now))


def help_of(name: str) -> Card:
    return command_card(COMMANDS[name])


def help_brief() -> Card:
    made = [
        COMMANDS[name]
        for name in ("alerts", "why", "snooze", "cost", "savings", "fleet", "runs", "config")
    ]
    return brief_help_card({"": [(each.name, each.summary, each.examples[0]) for each in made]})


def help_all() -> Card:
    """Return a few commands, so that a new one does not change how help looks."""
    assert ANSWERS
    chosen = [
        COMMANDS[name]
        for name in ("alerts", "backtest", "cost", "fleet", "idle", "migrate", "snooze", "why")
    ]
    return help_card({"": [(made.name, made.summary, made.examples[0]) for made in chosen]})


def backtest() -> Card:
    seen = ReplayResult(Window(NOON - timedelta(days=3), NOON), 864)
    over = replace(idle(), closed=NOON - timedelta(hours=1), seen=NOON - timedelta(hours=1))
    seen.alerts = {
        a.id: a for a in (starved(), over, idle(2, "lab", muted_by="inhibit:hung/cluster=lab"))
    }
    seen.notifications = [Notification("n1", "default", Reason.FIRST, NOON, (starved(),))]
    return backtest_card(
        "recording:var/demo",
        seen,
        {
            "incidents": 15,
            "alerts": 16,
            "recall": 1.0,
            "precision": 0.9375,
            "cause_top1": 0.8,
            "cause_any": 0.933,
            "median_delay_minutes": 5.0,
            "false_alerts": 1,
            "false_alerts_per_cluster_week": None,
            "messages_per_incident": 1.07,
            "notices_per_incident": 2.2,
        },
    )


def doctor() -> Card:
    return doctor_card(
        [
            Check("metrics", True, "3 days to Nov 20, 12:00 UTC"),
            Check("Chat", True, "outbound connections only, no public address needed"),
            Check("admins", False, "nobody in chat may change things", "Set TRNBOT_ADMINS."),
        ]
    )


def about() -> Card:
    settings = {
        "version": "0.1.0",
        "source": "recording:var/demo",
        "route": "",
        "interval": "5 min",
    }
    return about_card(
        settings | {"metrics": "Nov 17, 12:00 to Nov 20, 12:00 UTC"},
        NOON,
        [f"billing/2026-11.csv: line {n} has no cost." for n in range(7, 17)],
    )


FILE = Attachment(
    "trnbot-cost-7d.csv",
    "team,net_usd\r\nvision,5\r\n",
    "cost 7d",
    "https://trn.example.com/download?line=cost%207d",
)


def every_part() -> Card:
    """Return the parts of a card that few answers have: a link, a heat map, a button that is red."""
    starts = tuple(NOON - timedelta(hours=n) for n in range(6, 0, -1))
    rows = (
        Series("llama-70b", (90.0, 91.0, 88.0, None, 86.0, 20.0)),
        Series("vision", (50.0, 0.0, 50.0, 50.0, 100.0, 50.0)),
    )
    heat = Chart(
        ChartKind.HEAT,
        "Utilization by hour",
        "%",
        rows,
        starts,
        summary="llama-70b 20 %, vision 50 %.",
    )
    flow = Chart(
        ChartKind.FLOW,
        "Where $100 went, by cluster",
        "$",
        (Series("productive", (60.0, 20.0)), Series("idle", (5.0, 15.0))),
        categories=("llama-70b", "vision"),
        summary="80 % went into work.",
    )
    remove = Button("Remove", "silences drop s1", ButtonStyle.DANGER)
    return Card(
        "Every part",
        Tone.INFO,
        (
            text("Ask for more at ", Link("Service Quotas", "https://example.com/q?a=b&c=d"), "."),
            heat,
            flow,
            detail("A quota counts vCPUs, not nodes."),
            Buttons((remove,)),
            FILE,
        ),
    )


SAMPLES: Mapping[str, Callable[[], Card]] = {
    "every_part": every_part,
    "notice_first": lambda: notice(starved(), drawn=chart()),
    "notice_acknowledged": lambda: notice(
        starved(acknowledged=decision(note="on it")), drawn=chart(), reason=Reason.DECIDED
    ),
    "notice_snoozed": snoozed,
    "notice_storm": storm,
    "notice_came_with": came_with,
    "notice_came_with_over": lambda: came_with(NOON),
    "notice_over": lambda: notice(
        starved(closed=NOON, acknowledged=decision()), reason=Reason.OVER
    ),
    "notice_committed": lambda: notice(
        idle(
            waste=replace(
                waste("64.50", "322.50"), committed_share=Decimal("0.92"), lapses=date(2027, 3, 1)
            )
        )
    ),
    "notice_no_price": lambda: notice(starved(waste=None, owner="")),
    "notice_odd": odd,
    "notice_hostile": hostile,
    "alerts_none": lambda: alerts(0),
    "alerts_3": lambda: alerts(3),
    "alerts_30": lambda: alerts(30),
    "why": why,
    "snooze_form": lambda: snooze_form(starved()),
    "assign_form": lambda: assign_form(
        starved(assignment=given()), User(ALICE, "alice"), (User(BOB, "bob"),)
    ),
    "notice_assigned": lambda: notice(
        starved(assignment=given()), drawn=chart(), reason=Reason.DECIDED
    ),
    "decided": lambda: decided_card(starved(), "Snoozed until Nov 20, 18:00 UTC"),
    "fleet_none": lambda: fleet_card([], "", Reading(NOON)),
    "fleet": fleet,
    "fleet_cluster": lambda: fleet("llama-70b"),
    "fleet_one_node": lambda: fleet("lab"),
    "idle": idle_nodes,
    "idle_none": lambda: idle_card([], "vision", Reading(NOON)),
    "idle_unread": lambda: idle_card(
        [], "vision", Reading(NOON, gaps=(Gap("DescribeInstances: access denied in us-east-1."),))
    ),
    "fleet_unread": lambda: fleet_card(
        [], "", Reading(NOON, gaps=(Gap("DescribeInstances: access denied in us-east-1."),))
    ),
    "help": help_all,
    "help_brief": help_brief,
    "help_cost": lambda: help_of("cost"),
    "about": about,
    "config_show": lambda: config_card(
        [s for key, s in SETTINGS.items() if key.startswith("idle.")],
        default_policy(),
        "idle",
        Labels(cluster="llama-70b"),
        None,
    ),
    **TUNING,
    **ASKED,
    "config_export": lambda: export_card(
        "\n".join(write_policy(default_policy()).splitlines()[:12]) + "\n"
    ),
    "cost": cost,
    "cost_month": cost_month,
    **leads(starved, idle),
    "cost_nothing": lambda: cost_card(
        CostAnswer(tally(Window(NOON - timedelta(hours=5), NOON), ("team",), {}))
    ),
    "migrate": migrate,
    "migrate_refused": refused,
    "backtest": backtest,
    "doctor": doctor,
    "error": lambda: error_card(
        WrongInput("'servise' is not a dimension; did you mean 'service'?")
    ),
}
