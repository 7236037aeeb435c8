"""Hold what is made of AWS's answers, whole and odd ones, at times before, between and after them."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, fields, is_dataclass
from datetime import UTC, datetime, timedelta
from enum import Enum
from pathlib import Path

from adapters.aws.api.operations import Place
from adapters.aws.api.responses import ApiCall, RecordedResponses, Responses, file_of, json_of
from adapters.aws.bill.outlook import RecordedOutlook
from adapters.aws.events.notices import Notices
from adapters.aws.files import Problems
from adapters.aws.inventory.ownership import Aliases, TagNames
from adapters.aws.inventory.snapshots import Snapshots, capacity_blocks
from adapters.aws.prices.quoted import QuotedPrices
from bot.knowledge import load_knowledge
from bot.model.labels import Labels
from tests import goldens

HERE = Path(__file__).parent
DAY = datetime(2026, 11, 17, tzinfo=UTC)
HISTORY = timedelta(hours=2)
TIMES = ["07:10", "07:45", "08:00", "09:00", "10:00", "10:40", "12:15"]


def said(thing: object) -> str:
    """Write a thing with all of it that is not as by default."""
    if is_dataclass(thing):
        parts = [
            f"{x.name}={said(value)}"
            for x in fields(thing)
            for value in [getattr(thing, x.name)]
            for default in [x.default_factory() if x.default is MISSING and x.default_factory is not MISSING else x.default]
            if value != default
        ]  # fmt: skip
        return f"({' '.join(parts)})"
    if isinstance(thing, datetime):
        return f"{thing:%d-%H:%M}" if thing.second == 0 else f"{thing:%d-%H:%M:%S}"
    if isinstance(thing, Mapping):
        return f"{{{', '.join(f'{said(name)}: {said(x)}' for name, x in thing.items())}}}"
    if isinstance(thing, tuple | list):
        return f"[{', '.join(map(said, thing))}]"
    return str(thing.value if isinstance(thing, Enum) else thing)


def rows() -> Iterator[tuple[ApiCall, datetime, list[dict]]]:
    for clock, service, operation, region, about, answer in json.loads(
        (HERE / "answers.json").read_text(encoding="utf-8")
    ):
        place, _, nobody = region.partition(" of ")
        account = "" if nobody else "111122223333"
        call = ApiCall(service, operation, Place(place, account=account), about)
        yield call, at(clock), answer if isinstance(answer, list) else [answer]


def at(clock: str) -> datetime:
    return DAY + timedelta(hours=int(clock[:2]), minutes=int(clock[3:]))


class Looks:
    """Look at everything that the answers say."""

    def __init__(self, folder: Path, problems: Problems) -> None:
        responses: Responses = RecordedResponses(folder / "api", problems)
        self.snapshots = Snapshots(responses, TagNames(), load_knowledge().types(), HISTORY)
        self.prices, self.notices = QuotedPrices(responses), Notices(responses)
        self.outlook = RecordedOutlook(folder, {"Amazon FSx": "AmazonFSx"})
        self.blocks = capacity_blocks(responses, TagNames())

    def lines(self, now: datetime) -> Iterator[str]:
        described = self.snapshots.at(now)
        inventory = described.inventory
        yield f"asof {said(inventory.asof)}"
        for id, instance in inventory.instances.items():
            yield f"instance {id} {said(instance)}"
        for name in ("volumes", "file_systems", "reservations", "blocks", "scheduled", "eks", "quotas"):  # fmt: skip
            for thing in getattr(inventory, name):
                yield f"{name} {said(thing)}"
        refusals = self.snapshots.refusals(now)
        yield from [f"refusal {said(x)}" for x in refusals or ()] or [f"refusals {refusals}"]
        for place in (
            Labels(region="us-west-2", account="111122223333"),
            Labels(region="us-east-1", account="111122223333"),
        ):
            yield f"described {said(place)} {said(self.snapshots.described_at(place, now))}"  # fmt: skip
        for notice in self.notices.at(now, HISTORY):
            yield f"notice {said(notice)}"
        for name in ("trn1.2xlarge", "trn1.32xlarge", "trn2.48xlarge", "ebs:gp3", "ebs:io2", "fsx:125", "fsx:250"):  # fmt: skip
            for region in ("", "us-west-2"):
                for price in self.prices.quotes(name, region, now):
                    yield f"quote {region or 'anywhere'} {said(price)}"
            for change in self.prices.spot_history(name, now):
                yield f"spot {said(change)}"
            for about in ("placement", "interruptions", "commitment_offers"):
                for thing in getattr(self.prices, about)(name, now):
                    yield f"{about} {said(thing)}"
        for about in ("forecast", "commitments", "findings"):
            yield f"{about} {said(getattr(self.outlook, about)(now))}"


def recorded(folder: Path) -> None:
    for call, time, pages in rows():
        path = folder / file_of(call, time)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(pages), encoding="utf-8")


def test_it_says_what_aws_answered(tmp_path: Path) -> None:
    recorded(tmp_path)
    problems = Problems()
    looks, lines, before = Looks(tmp_path, problems), [], set()
    for time in [*map(at, TIMES), DAY + timedelta(days=4), DAY + timedelta(days=20)]:
        present = list(looks.lines(time))
        lines += [f"== {said(time)}", *(f"- {x}" for x in sorted(before - set(present)))]
        lines += [f"+ {x}" for x in present if x not in before]
        before = set(present)
    lines += ["== ever", *(f"block {said(x)}" for x in looks.blocks)]
    lines += [f"type {id} {name}" for id, name in looks.snapshots.instance_types().items()]
    lines += [*problems.sentences(), *looks.outlook.problems()]
    aliases = Aliases()
    for call, time, pages in rows():
        if call.service == "cloudtrail":
            text = aliases.in_events(json_of(pages)).decode()
            lines += [f"trimmed {call.argument} {said(time)}", *text.replace('{"EventId', '\n{"EventId').split("\n")]  # fmt: skip
    goldens.check(
        HERE / "goldens" / "answers.txt", "\n".join([*lines, f"{len(aliases)} people", ""])
    )
