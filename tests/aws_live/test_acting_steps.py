"""Whatever AWS says of a thing, an action takes the step that its golden has: what it says, what it asks for, how far it is."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from adapters.aws.api.calls import NoData
from adapters.aws.api.operations import Place
from adapters.aws.live.acting import Actor
from bot.errors import TrnbotError
from bot.model.action import ActionKind
from bot.model.labels import Labels
from tests.aws_live.test_acting import ROLE, Answers, action
from tests.goldens import check

GOLDEN = Path(__file__).with_name("goldens") / "acting.txt"
CHANGES = ("stop", "update", "create", "delete")


@dataclass(frozen=True)
class Case:
    """Hold what AWS says, and whether the bot asked for the change before."""

    title: str
    kind: ActionKind
    targets: Sequence[str]
    answers: Mapping[str, Any]
    ordered: Sequence[str] = ()
    size: int | None = None


class Provider(Answers):
    """Answer as Answers do; a dry run that is allowed ends in an error of its own."""

    def call(self, place: Place, service: str, operation: str, **given: Any) -> Mapping[str, Any]:
        if operation.startswith(CHANGES):
            self.answers = {operation: {}, **self.answers}
        answer = super().call(place, service, operation, **given)
        if given.get("DryRun"):
            raise NoData("DryRunOperation")
        if operation == "describe_snapshots":
            (wanted,) = given["Filters"][0]["Values"]
            return {"Snapshots": [x for x in answer["Snapshots"] if x["of"] in wanted]}
        return answer


def instances(**states: str) -> Mapping[str, Any]:
    found = [
        {"InstanceId": name.replace("_", "-"), "State": {"Name": state}}
        for name, state in states.items()
    ]
    return {
        "describe_instances": {"Reservations": [{"Instances": found[:1]}, {"Instances": found[1:]}]}
    }


def group(desired: int, *states: str, least: int = 1, most: int = 8) -> Mapping[str, Any]:
    scaling = {"minSize": least, "maxSize": most, "desiredSize": desired}
    names = {f"i_{n}": state for n, state in enumerate(states)}
    return {"describe_nodegroup": {"nodegroup": {"scalingConfig": scaling}}, **instances(**names)}


def volumes(snapshots: Sequence[Mapping[str, str]] = (), **states: str) -> Mapping[str, Any]:
    found = [{"VolumeId": name.replace("_", "-"), "State": state} for name, state in states.items()]
    return {"describe_volumes": {"Volumes": found}, "describe_snapshots": {"Snapshots": snapshots}}


def notebook(status: str) -> Mapping[str, Any]:
    return {"describe_notebook_instance": {"NotebookInstanceStatus": status}}


def snapshot(of: str, state: str, progress: str = "") -> Mapping[str, str]:
    return {"of": of, "State": state, **({"Progress": progress} if progress else {})}


STOP, SCALE, DELETE, NOTEBOOK = (
    ActionKind.STOP,
    ActionKind.SCALE,
    ActionKind.DELETE,
    ActionKind.NOTEBOOK,
)
TWO, VOLUMES, GROUP = ("i-1", "i-2"), ("vol-1", "vol-2"), ("llama/trn",)
CASES = (
    Case("both run", STOP, TWO, instances(i_1="running", i_2="pending")),
    Case("one runs", STOP, TWO, instances(i_1="stopped", i_2="running")),
    Case("one is stopping", STOP, TWO, instances(i_1="stopped", i_2="stopping"), ordered=TWO),
    Case(
        "one is shutting down",
        STOP,
        TWO,
        instances(i_1="shutting-down", i_2="stopped"),
        ordered=TWO,
    ),
    Case("both ended", STOP, TWO, instances(i_1="stopped", i_2="terminated"), ordered=TWO),
    Case("one runs again", STOP, TWO, instances(i_1="running", i_2="stopped"), ordered=TWO),
    Case(
        "one runs that was not ordered",
        STOP,
        TWO,
        instances(i_1="stopped", i_2="running"),
        ordered=TWO[:1],
    ),
    Case("one is not known", STOP, TWO, instances(i_2="stopped")),
    Case("as it was weighed", SCALE, GROUP, group(8, *["running"] * 8), size=4),
    Case("more than it was", SCALE, GROUP, group(9, most=10), size=4),
    Case("fewer than it was", SCALE, GROUP, group(7), size=4),
    Case("under its least", SCALE, GROUP, group(8, least=2), size=1),
    Case("its least", SCALE, GROUP, group(8, least=2), size=2),
    Case("its most", SCALE, GROUP, group(8, most=10), size=10),
    Case("over its most", SCALE, GROUP, group(8), size=9),
    Case(
        "nodes still go",
        SCALE,
        GROUP,
        group(2, "running", "pending", "running", "stopping"),
        ordered=GROUP,
        size=2,
    ),
    Case(
        "so many run",
        SCALE,
        GROUP,
        group(2, "running", "pending", "terminated"),
        ordered=GROUP,
        size=2,
    ),
    Case("changed back", SCALE, GROUP, group(8, "running"), ordered=GROUP, size=2),
    Case("no snapshot yet", DELETE, VOLUMES, volumes(vol_1="available", vol_2="available")),
    Case(
        "one snapshot is under way, one failed",
        DELETE,
        VOLUMES,
        volumes(
            [snapshot("vol-1", "pending", "40%"), snapshot("vol-2", "error")],
            vol_1="available",
            vol_2="available",
        ),
    ),
    Case(
        "a snapshot has no progress",
        DELETE,
        VOLUMES[:1],
        volumes([snapshot("vol-1", "pending")], vol_1="available"),
    ),
    Case(
        "snapshots are whole",
        DELETE,
        VOLUMES,
        volumes(
            [snapshot("vol-1", "completed"), snapshot("vol-2", "completed")],
            vol_1="available",
            vol_2="deleting",
        ),
    ),
    Case(
        "one is attached",
        DELETE,
        VOLUMES,
        volumes([snapshot("vol-1", "completed")], vol_1="available", vol_2="in-use"),
    ),
    Case(
        "both are gone",
        DELETE,
        VOLUMES,
        volumes([snapshot("vol-1", "completed"), snapshot("vol-2", "completed")]),
        ordered=VOLUMES,
    ),
    Case(
        "one is gone without a snapshot",
        DELETE,
        VOLUMES,
        volumes([snapshot("vol-1", "completed"), snapshot("vol-2", "error")]),
        ordered=VOLUMES,
    ),
    Case("it runs", NOTEBOOK, ("trial",), notebook("InService")),
    Case("it runs again", NOTEBOOK, ("trial",), notebook("InService"), ordered=("trial",)),
    Case("it stops", NOTEBOOK, ("trial",), notebook("Stopping"), ordered=("trial",)),
    Case("it stopped", NOTEBOOK, ("trial",), notebook("Stopped"), ordered=("trial",)),
    Case("it failed", NOTEBOOK, ("trial",), notebook("Failed"), ordered=("trial",)),
)


def told(case: Case) -> Iterator[str]:
    """Yield what an action would do, what it does, and what it asks of AWS for it."""
    begun = replace(action(case.kind, *case.targets, size=case.size), ordered=tuple(case.ordered))
    yield f"== {case.kind}: {case.title}"
    for name in ("rehearse", "advance"):
        provider = Provider(**case.answers)
        try:
            result = getattr(Actor(provider, [ROLE]), name)(begun)  # type: ignore[arg-type]
            lines = (
                result
                if name == "rehearse"
                else [f"{result.state}: {result.words} {list(result.ordered)}"]
            )
        except TrnbotError as error:
            lines = [f"{type(error).__name__}: {error}"]
        yield from (f"{name}: {line}" for line in lines)
        yield from (f"  {operation} {json.dumps(given)}" for operation, given in provider.asked)


def test_each_step_follows_from_what_aws_says() -> None:
    check(GOLDEN, "".join(f"{line}\n" for case in CASES for line in told(case)))


def test_no_region_or_account_that_is_not_known_is_acted_in() -> None:
    for place in (Labels(account="123456789012"), Labels(region="us-east-1"), Labels()):
        stop = replace(action(STOP, "i-1"), place=place)
        for step in (Actor(Provider(), [ROLE]).rehearse, Actor(Provider(), [ROLE]).advance):  # type: ignore[arg-type]
            try:
                step(stop)
            except TrnbotError as error:
                assert "No role may change anything in a" in str(error)
            else:
                raise AssertionError("acted")
