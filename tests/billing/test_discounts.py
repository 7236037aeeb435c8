"""One bill with every kind of commitment and a discount of 7 %, in five forms, the discount told in three ways: the same answers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import groupby

import pytest

from adapters.billing.bill import Bill
from bot.model.window import Window

D = Decimal
NOVEMBER = datetime(2026, 11, 1, tzinfo=UTC)
DAYS, EDP = 9, D("0.07")
HOUR, DAY, MONTH = timedelta(hours=1), timedelta(days=1), timedelta(days=30)
EVER = Window(NOVEMBER, NOVEMBER + MONTH)
A, B = "222222222222", "333333333333"
PLAN = "arn:aws:savingsplans::222222222222:savingsplan/sp-1"
PLAN_UPFRONT = "arn:aws:savingsplans::333333333333:savingsplan/sp-2"
RI_MONTHLY = "arn:aws:ec2:us-west-2:222222222222:reserved-instances/ri-monthly"
RI_UPFRONT = "arn:aws:ec2:us-west-2:333333333333:reserved-instances/ri-upfront"
BLOCK = "arn:aws:ec2:us-west-2:333333333333:capacity-reservation/cr-0ab"
SP_UPFRONT = "savings_plan_amortized_upfront_commitment_for_billing_period"
SP_RECURRING = "savings_plan_recurring_commitment_for_billing_period"
USAGE = ("Usage", "SavingsPlanCoveredUsage", "DiscountedUsage")
KEYS = (
    "team",
    "cluster",
    "resource",
    "service",
    "account",
    "purchase",
    "usage_type",
    "line",
    "day",
)


@dataclass(frozen=True)
class Charge:
    """State a charge before discounts: USD of list or contract price, and USD amortised."""

    kind: str
    start: datetime
    cost: Decimal
    amortised: Decimal
    usage_type: str = ""
    resource: str = ""
    team: str = ""
    account: str = A
    service: str = "AmazonEC2"
    purchase: str = ""
    length: timedelta = HOUR
    commitment: str = ""
    description: str = ""
    upfront: bool = False

    @property
    def discount(self) -> Decimal:
        """Return what the contract takes off the invoice for it, USD below zero."""
        return -self.cost * EDP if self.kind == "Usage" or self.kind.endswith("Fee") else D(0)

    @property
    def net(self) -> Decimal:
        """Return what it adds to the invoice: what a plan covers is paid for by the plan's fee."""
        if self.kind in ("SavingsPlanCoveredUsage", "SavingsPlanNegation"):
            return D(0)
        return self.cost + self.discount

    @property
    def net_amortised(self) -> Decimal:
        """Return its amortised cost after discounts: no credit, refund or tax has any."""
        return self.amortised * (1 - EDP)


def charges() -> Iterator[Charge]:
    """Yield nine days of two accounts, hour by hour."""
    month = {"start": NOVEMBER, "length": MONTH}
    instance = "trn1.32xlarge"
    block = D("0.00")
    block_fee = D("2574.00")
    yield Charge("RIFee", cost=D("2160"), amortised=D(0), usage_type="USW2-HeavyUsage:inf2.48xlarge",
                 purchase="reserved", commitment=RI_MONTHLY, **month)  # fmt: skip
    yield Charge("Fee", NOVEMBER, D("26280"), D(0), "USW2-HeavyUsage:inf2.24xlarge", account=B, purchase="reserved",
                 commitment=RI_UPFRONT, upfront=True)  # fmt: skip
    yield Charge("RIFee", cost=D("432"), amortised=D(0), usage_type="USW2-HeavyUsage:inf2.24xlarge", account=B,
                 purchase="reserved", commitment=RI_UPFRONT, **month)  # fmt: skip
    yield Charge("SavingsPlanUpfrontFee", NOVEMBER, D("43800"), D(0), "ComputeSP:1yrAllUpfront", account=B,
                 service="ComputeSavingsPlans", purchase="savings-plan", commitment=PLAN_UPFRONT)  # fmt: skip
    yield Charge(
        "Fee",
        cost=D("812.5"),
        amortised=D("812.5"),
        usage_type="Dollar",
        service="AWSSupportBusiness",
        **month,
    )
    yield Charge("Fee", NOVEMBER, block_fee, D(0), "USW2-CapacityBlock:trn2.48xlarge", BLOCK, account=B,
                 purchase="capacity-block", length=DAYS * DAY, description="Capacity Block fee")  # fmt: skip
    for kind, cost in (("Credit", "-500"), ("Refund", "-120.55"), ("Tax", "310.07")):
        yield Charge(kind, cost=D(cost), amortised=D(0), description=kind, **month)
    for day in range(DAYS):
        at = NOVEMBER + day * DAY
        yield Charge("Usage", at, D("7.31"), D("7.31"), "USW2-TimedStorage-ByteHrs", "bucket", "search",
                     service="AmazonS3", purchase="on-demand", length=DAY)  # fmt: skip
    for hour in range(DAYS * 24):
        at = NOVEMBER + hour * HOUR
        covered = ("i-p1", "i-p2") if hour % 5 else ("i-p1",)
        for node in covered:
            yield Charge("SavingsPlanCoveredUsage", at, D("21.5"), D("12.5"), f"USW2-BoxUsage:{instance}", node,
                         "pretraining", purchase="savings-plan", commitment=PLAN)  # fmt: skip
        yield Charge("SavingsPlanNegation", at, D("-21.5") * len(covered), D(0), f"USW2-BoxUsage:{instance}",
                     purchase="savings-plan", commitment=PLAN)  # fmt: skip
        yield Charge("SavingsPlanRecurringFee", at, D("30"), 30 - D("12.5") * len(covered), "ComputeSP:1yrNoUpfront",
                     service="ComputeSavingsPlans", purchase="savings-plan", commitment=PLAN)  # fmt: skip
        yield Charge("SavingsPlanCoveredUsage", at, D("24.78"), D("3.5"), "USW2-BoxUsage:trn1n.32xlarge", "i-p3",
                     "frontier", B, purchase="savings-plan", commitment=PLAN_UPFRONT)  # fmt: skip
        yield Charge("SavingsPlanNegation", at, D("-24.78"), D(0), "USW2-BoxUsage:trn1n.32xlarge", account=B,
                     purchase="savings-plan", commitment=PLAN_UPFRONT)  # fmt: skip
        yield Charge("SavingsPlanRecurringFee", at, D(0), D("1.5"), "ComputeSP:1yrAllUpfront", account=B,
                     service="ComputeSavingsPlans", purchase="savings-plan", commitment=PLAN_UPFRONT, upfront=True)  # fmt: skip
        yield Charge("DiscountedUsage", at, D(0), D("3.00"), "USW2-BoxUsage:inf2.48xlarge", "i-r1", "serving",
                     purchase="reserved", commitment=RI_MONTHLY)  # fmt: skip
        yield Charge("DiscountedUsage", at, D(0), D("3.00"), "USW2-BoxUsage:inf2.24xlarge", "i-r2", "ranking",
                     account=B, purchase="reserved", commitment=RI_UPFRONT)  # fmt: skip
        yield Charge(
            "Usage",
            at,
            D("21.5"),
            D("21.5"),
            f"USW2-BoxUsage:{instance}",
            "i-o1",
            "search",
            purchase="on-demand",
        )
        yield Charge(
            "Usage",
            at,
            D("21.5"),
            D("21.5"),
            f"USW2-BoxUsage:{instance}",
            "i-o2",
            "vision",
            B,
            purchase="on-demand",
        )
        if hour % 3:
            yield Charge(
                "Usage",
                at,
                D("6.87"),
                D("6.87"),
                f"USW2-SpotUsage:{instance}",
                "i-s1",
                "vision",
                B,
                purchase="spot",
            )
        yield Charge("Usage", at, block, block_fee / (DAYS * 24), "USW2-BoxUsage:trn2.48xlarge", "i-c1", "frontier", B,
                     purchase="capacity-block", description="$0.00 per Capacity Block trn2.48xlarge Instance Hour")  # fmt: skip


def apart() -> Iterator[Charge]:
    """Yield the discounts as charges of their own: summed by account and SKU, of no resource and no team."""

    def sku(charge: Charge) -> tuple[str, ...]:
        return (
            charge.account,
            charge.service,
            charge.usage_type,
            str(charge.start),
            str(charge.length),
        )

    for _, alike in groupby(sorted((c for c in charges() if c.discount), key=sku), key=sku):
        same = list(alike)
        yield replace(same[0], kind="EdpDiscount", cost=sum(c.discount for c in same), amortised=D(0), resource="", team="",
                      commitment="", purchase="", description="Enterprise Program Discount")  # fmt: skip


def cur(charge: Charge, way: str) -> list[dict[str, str]]:
    """Return the rows of a Cost and Usage Report, the discount told as net columns, in `discount` or not at all."""
    itype = charge.usage_type.partition(":")[2] if "Usage:" in charge.usage_type else ""
    reserved = "reserved-instances" in charge.commitment
    row = {
        "bill_payer_account_id": "111111111111",
        "bill_billing_period_start_date": f"{NOVEMBER:%Y-%m-%dT%H:%M:%SZ}",
        "line_item_currency_code": "USD",
        "line_item_usage_account_id": charge.account,
        "line_item_line_item_type": charge.kind,
        "line_item_product_code": charge.service,
        "line_item_usage_type": charge.usage_type,
        "line_item_operation": "RunInstances" if itype else "",
        "line_item_resource_id": charge.resource,
        "line_item_usage_start_date": f"{charge.start:%Y-%m-%dT%H:%M:%SZ}",
        "line_item_usage_end_date": f"{charge.start + charge.length:%Y-%m-%dT%H:%M:%SZ}",
        "line_item_usage_amount": "1",
        "line_item_unblended_cost": str(charge.cost),
        "line_item_line_item_description": charge.description,
        "product_region_code": "us-west-2" if charge.usage_type.startswith("USW2") else "",
        "product_instance_type": itype,
        "reservation_reservation_a_r_n": charge.commitment if reserved else "",
        "reservation_effective_cost": "",
        "reservation_unused_recurring_fee": "0" if charge.kind == "RIFee" else "",
        "savings_plan_savings_plan_a_r_n": "" if reserved else charge.commitment,
        "savings_plan_savings_plan_effective_cost": "",
        "savings_plan_total_commitment_to_date": "",
        "savings_plan_used_commitment": "",
        SP_UPFRONT: "",
        SP_RECURRING: "",
        "split_line_item_parent_resource_id": "",
        "split_line_item_split_cost": "",
        "split_line_item_unused_cost": "",
        "split_line_item_split_usage_ratio": "",
    }
    if charge.kind == "SavingsPlanCoveredUsage":
        row["savings_plan_savings_plan_effective_cost"] = str(charge.amortised)
    if charge.kind == "DiscountedUsage":
        row["reservation_effective_cost"] = str(charge.amortised)
    if charge.kind == "SavingsPlanRecurringFee":
        committed = D(5) if charge.upfront else charge.cost
        row["savings_plan_total_commitment_to_date"] = str(committed)
        row["savings_plan_used_commitment"] = str(committed - charge.amortised)
        row[SP_UPFRONT] = str(committed) if charge.upfront else "0"
        row[SP_RECURRING] = "0" if charge.upfront else str(committed)

    if way == "net":
        net = charge.cost + charge.discount
        row["line_item_net_unblended_cost"] = str(net)
        row["savings_plan_net_savings_plan_effective_cost"] = ""
        for name in (SP_UPFRONT, SP_RECURRING):
            paid = row[name] and str(D(row[name]) * (1 - EDP))
            row[name.replace("savings_plan_", "savings_plan_net_")] = paid
        row["reservation_net_effective_cost"] = ""
        if charge.kind == "SavingsPlanCoveredUsage":
            row["savings_plan_net_savings_plan_effective_cost"] = str(charge.net_amortised)
        if charge.kind == "DiscountedUsage":
            row["reservation_net_effective_cost"] = str(charge.net_amortised)
    if way == "lines":  # a fixed set of columns holds these too, empty
        row["line_item_net_unblended_cost"] = ""
    if (
        charge.resource == "i-o1"
    ):  # split cost allocation: two pods share it, none of their cost is theirs alone
        return [
            row,
            *(
                _pod(row, name, share)
                for name, share in (("train", D("0.75")), ("eval", D("0.25")))
            ),
        ]
    return [row]


def _pod(row: dict[str, str], name: str, share: Decimal) -> dict[str, str]:
    """Return the row of a pod's share of an instance: no cost of its own."""
    cost = D(row["line_item_unblended_cost"]) * share
    return {
        **row,
        "line_item_usage_type": "USW2-EKS-EC2-Accelerator-Hours",
        "line_item_operation": "EKSPod-EC2",
        "line_item_resource_id": f"arn:aws:eks:us-west-2:{A}:pod/c-search/{name}/{name}-0/uid",
        "line_item_unblended_cost": "",
        **({"line_item_net_unblended_cost": ""} if "line_item_net_unblended_cost" in row else {}),
        "product_instance_type": "",
        "split_line_item_parent_resource_id": row["line_item_resource_id"],
        "split_line_item_split_cost": str(cost),
        "split_line_item_unused_cost": "0",
        "split_line_item_split_usage_ratio": str(share),
    }


def cur2(charge: Charge, way: str) -> list[dict[str, object]]:
    """Return rows of CUR 2.0: maps of tags and discounts."""
    tags = (
        {"user_team": charge.team, "aws_eks_cluster_name": f"c-{charge.team}"}
        if charge.team
        else {}
    )
    rows = [{**row, "resource_tags": tags} for row in cur(charge, way)]
    if way == "map":
        rows = [
            {**row, "discount": {"edp_discount": str(charge.discount)} if charge.discount else {}}
            for row in rows
        ]
    return rows


def legacy(charge: Charge, way: str) -> list[dict[str, object]]:
    """Return rows of the legacy report: a column for each tag and each discount."""
    groups = ("bill", "line_item", "product", "savings_plan", "reservation", "split_line_item")
    rows = []
    for row in cur(charge, way):
        named: dict[str, object] = {}
        for name, value in row.items():
            group = next(g for g in groups if name.startswith(g + "_"))
            words = name.removeprefix(group + "_").split("_")
            head, *tail = group.split("_")
            column = "".join(word.capitalize() for word in words)
            if group == "product":
                column = column[0].lower() + column[1:]
            named[f"{head}{''.join(map(str.capitalize, tail))}/{column}"] = value
        named["resourceTags/user:team"] = charge.team
        named["resourceTags/aws:eks:cluster-name"] = f"c-{charge.team}" if charge.team else ""
        if way == "map":
            named["discount/EdpDiscount"] = str(charge.discount) if charge.discount else ""
        rows.append(named)
    return rows


@dataclass(frozen=True)
class Focus:
    """Write rows of a version of FOCUS: billed and effective cost are after discounts unless those have rows of their own."""

    added: Mapping[str, str]
    meter: str
    names: Mapping[str, str] = field(
        default_factory=lambda: {"savings-plan": "Savings Plan", "reserved": "Reserved"}
    )

    def __call__(self, charge: Charge, way: str) -> list[dict[str, object]]:
        if charge.kind == "SavingsPlanNegation":
            return []
        net, amortised = charge.net, charge.net_amortised
        if way == "lines":
            net, amortised = net - charge.discount, charge.amortised
        categories = {"Credit": "Credit", "Tax": "Tax", "EdpDiscount": "Adjustment"}
        category = categories.get(charge.kind, "Usage")
        unused = charge.kind == "SavingsPlanRecurringFee"
        tags = (
            {"user_team": charge.team, "aws_eks_cluster_name": f"c-{charge.team}"}
            if charge.team
            else {}
        )
        # An hour, where a Capacity Block was bought: no line says which hours it buys.
        ends = charge.start + (HOUR if charge.resource == BLOCK else charge.length)
        described = "EDP discount" if charge.kind == "EdpDiscount" else charge.description
        row: dict[str, object] = {
            "BillingAccountId": "111111111111",
            "SubAccountId": charge.account,
            "BillingCurrency": "USD",
            "BillingPeriodStart": f"{NOVEMBER:%Y-%m-%dT%H:%M:%SZ}",
            "ChargePeriodStart": f"{charge.start:%Y-%m-%dT%H:%M:%SZ}",
            "ChargePeriodEnd": f"{ends:%Y-%m-%dT%H:%M:%SZ}",
            "ChargeCategory": "Purchase" if charge.kind.endswith("Fee") else category,
            "ChargeClass": "Correction" if charge.kind == "Refund" else "",
            "ChargeDescription": described,
            "ServiceName": charge.service,
            "x_ServiceCode": charge.service,
            "RegionId": "us-west-2" if charge.usage_type.startswith("USW2") else "",
            "ResourceId": charge.resource,
            "BilledCost": str(net),
            "EffectiveCost": "0" if unused else str(amortised),
            "PricingCategory": {"spot": "Dynamic", "on-demand": "Standard", "": "Standard"}.get(
                charge.purchase, "Committed"
            ),
            "CommitmentDiscountType": self.names.get(charge.purchase, ""),
            "CommitmentDiscountCategory": "",
            "CommitmentDiscountId": charge.commitment,
            "CommitmentDiscountStatus": "",
            "ConsumedQuantity": "1",
            "ConsumedUnit": "Hours",
            "x_Operation": "RunInstances" if "Usage:" in charge.usage_type else "",
            self.meter: charge.usage_type,
            "Tags": tags,
            **self.added,
        }
        if charge.kind in ("Credit", "Refund", "Tax", "EdpDiscount"):
            row["PricingCategory"] = ""
        if way == "map":
            row["x_Discounts"] = {"edp": str(charge.discount)} if charge.discount else {}
        if not unused:
            return [row]
        idle = {"ChargeCategory": "Usage", "BilledCost": "0", "CommitmentDiscountStatus": "Unused",
                "EffectiveCost": str(amortised)}  # fmt: skip
        # Which is the resource itself from 1.2 on.
        if "InvoiceId" in self.added:
            idle["ResourceId"] = charge.commitment
        if "x_Discounts" in row:
            idle["x_Discounts"] = {}
        return [row, {**row, **idle}]


FORMS = {
    "CUR 2.0": cur2,
    "legacy CUR": legacy,
    "FOCUS 1.0": Focus({}, "x_UsageType"),
    "FOCUS 1.1": Focus({"SkuPriceDetails": ""}, "SkuMeter"),
    "FOCUS 1.2": Focus({"SkuPriceDetails": "", "InvoiceId": "INV"}, "SkuMeter"),
}
WAYS = ("net", "map", "lines")


@pytest.fixture(
    scope="module", params=[(form, way) for form in FORMS for way in WAYS], ids="-".join
)
def told(request, tmp_path_factory) -> tuple[str, str, Bill]:
    """Return form, way and the bill that was written so."""
    from tests.billing.conftest import Exports

    form, way = request.param
    exports = Exports(tmp_path_factory.mktemp("told"))
    listed = [*charges(), *apart()] if way == "lines" else list(charges())
    name = "bill.csv" if form == "legacy CUR" else "bill.parquet"
    exports.put(name, [row for charge in listed for row in FORMS[form](charge, way)])
    return form, way, exports.bill()


def expected(key: str) -> dict[str, tuple[Decimal, Decimal]]:
    """Add up the charges by one of their words: net and amortised USD."""
    sums: dict[str, list[Decimal]] = defaultdict(lambda: [D(0), D(0)])
    words = {
        "cluster": lambda c: f"c-{c.team}" if c.team else "",
        "day": lambda c: f"{c.start:%Y-%m-%d}",
    }
    word = words.get(key, lambda c: getattr(c, key))
    for charge in charges():
        sums[word(charge)][0] += charge.net
        sums[word(charge)][1] += charge.net_amortised
    return {key: (net, amortised) for key, (net, amortised) in sums.items()}


@pytest.mark.parametrize("key", [key for key in KEYS if key != "line"])
def test_every_row_is_what_was_charged(told, key):
    form, _way, bill = told
    tally = bill.tally(EVER, (key,))
    assert tally.sources == (form,)
    assert not bill.problems()
    found = {row.key[key]: (row.money.net, row.money.amortised) for row in tally.rows}
    wanted = expected(key)
    for name in {*found, *wanted}:
        for got, want in zip(
            found.get(name, (D(0), D(0))), wanted.get(name, (D(0), D(0))), strict=True
        ):
            assert abs(got - want) < D("0.01"), (name, got, want)


def test_pods_share_what_their_node_nets(told):
    form, _, bill = told
    if form.startswith("FOCUS"):
        pytest.skip("an export of FOCUS has no split cost")
    rows = {row.key["namespace"]: row.money for row in bill.tally(EVER, ("namespace",)).rows}
    node = sum(c.net_amortised for c in charges() if c.resource == "i-o1")
    for name, share in (("train", D("0.75")), ("eval", D("0.25"))):
        assert abs(rows[name].amortised - node * share) < D("0.01")
        assert abs(rows[name].net - node * share) < D("0.01")


def test_lines_hold_the_same_in_every_form(told):
    _, _, bill = told
    lines = {
        row.key["line"]: row.money.amortised
        for row in bill.tally(EVER, ("line",)).rows
        if row.money.amortised
    }
    commitment = sum(c.net_amortised for c in charges() if c.kind == "SavingsPlanRecurringFee")
    s3 = sum(c.net_amortised for c in charges() if c.service == "AmazonS3")
    assert {name: round(usd, 2) for name, usd in lines.items() if name != "EC2"} == {
        "commitment": round(commitment, 2), "S3": round(s3, 2), "other": round(D("812.5") * (1 - EDP), 2)}  # fmt: skip


def test_discounts_are_told_beside_what_they_are_taken_off(told):
    form, way, bill = told
    if form.startswith("FOCUS") and way == "net":
        pytest.skip("a row of FOCUS without x_Discounts does not say what was taken off")
    total = bill.tally(EVER, ()).total
    assert abs(total.discounts - sum(c.discount for c in charges())) < D("0.01")
    assert abs(
        total.gross
        - sum(c.net - c.discount for c in charges() if c.kind not in ("Credit", "Refund", "Tax"))
    ) < D("0.01")


def test_an_hour_of_a_node_costs_its_net_effective_cost(told):
    _, _, bill = told
    rates = bill.rates(NOVEMBER + (DAYS + 1) * DAY)
    hours: dict[str, list[Decimal]] = defaultdict(list)
    for charge in charges():
        if charge.kind in USAGE and charge.resource.startswith("i-"):
            hours[charge.resource].append(charge.net_amortised)
    for node, costs in hours.items():
        mean = sum(costs) / len(costs)
        for price in rates.by_instance[node]:
            assert abs(price.usd_per_hour - mean) < mean / 1000, node


def test_discounts_of_rows_and_of_their_own_are_not_counted_twice(exports):
    """An export may hold net columns beside discounts' own rows: each was taken off once."""
    rows = []
    for charge in [*charges(), *apart()]:
        written = cur2(charge, "net")
        if charge.kind == "EdpDiscount":
            written[0]["line_item_net_unblended_cost"] = "0"
        rows += written
    exports.put("bill.parquet", rows)
    total = exports.bill().tally(EVER, ()).total
    assert abs(total.net - sum(c.net for c in charges())) < D("0.01")
    assert abs(total.amortised - sum(c.net_amortised for c in charges())) < D("0.01")
    assert abs(total.discounts - sum(c.discount for c in charges())) < D("0.01")


def test_a_fee_that_does_not_say_what_was_unused_is_discounted_once(exports):
    fee = exports.line(NOVEMBER, "2160", "RIFee", 30 * 24, discount={"edp_discount": "-151.20"},
                       reservation_reservation_a_r_n=RI_MONTHLY)  # fmt: skip
    exports.put("bill.parquet", [fee])
    total = exports.bill().tally(EVER, ()).total
    assert (total.discounts, total.net, total.amortised) == (
        D("-151.20"),
        D("2008.80"),
        D("2008.80"),
    )


@pytest.mark.parametrize("form", ["CUR 2.0", "legacy CUR", "FOCUS 1.0", "FOCUS 1.1", "FOCUS 1.2"])
@pytest.mark.parametrize("taken", ["0.5", "1"])
def test_gross_is_before_a_discount_of_all_or_of_a_part(exports, form, taken):
    """A bundle gives some traffic away: its row bills nothing, and says what it would have been."""
    usd, traffic = D("24"), ("Usage", NOVEMBER, D("24"), D("24"), "USW2-DataTransfer-Out-Bytes")
    row = FORMS[form](Charge(*traffic, "i-o1", "search", purchase="on-demand"), "map")[0]
    left = str(usd * (1 - D(taken)))
    row |= {
        name: {"bundled": str(-usd * D(taken))} if isinstance(value, dict) else str(-usd * D(taken))
        for name, value in row.items()
        if name in ("discount", "discount/EdpDiscount", "x_Discounts")
    }
    row |= {name: left for name in ("BilledCost", "EffectiveCost") if name in row}
    exports.put("bill.csv", [row])
    total = exports.bill().tally(EVER, ()).total
    assert (total.gross, total.discounts, total.net) == (usd, -usd * D(taken), D(left))
