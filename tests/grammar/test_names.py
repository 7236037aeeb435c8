"""Names of types, regions, clusters and scopes: what is taken, what is refused, and in which words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from bot.errors import Unavailable, WrongInput
from bot.grammar import names
from bot.knowledge import load_knowledge
from bot.model.labels import Labels
from bot.model.reading import Gap, Reading
from bot.ports import Ports
from tests.builders import NOON, ports_over, reading, with_parts
from tests.cases import in_one_run
from tests.house.fakes import Fleet, ask


class Unread(Fleet):
    """A fleet that cannot be read."""

    def read(self, now: Any) -> Reading:
        raise Unavailable("away")


def ports(fleet: Fleet | None = None) -> Ports:
    return with_parts(ports_over(fleet or Fleet(), None), knowledge=load_knowledge())


TYPES = load_knowledge().types()
GAPS = (Gap("us-west-2 did not answer"),)
TAKEN: list[tuple[Callable[[], object], object]] = [
    (lambda: names.known_type("TRN1.32xlarge", TYPES).name, "trn1.32xlarge"),
    (lambda: names.known_region(" US-West-2 ", ports()), "us-west-2"),
    (lambda: names.known_region("", ports()), ""),
    (lambda: names.refuse_unseen("llama", reading()), None),
    (lambda: names.refuse_unseen("", reading()), None),
    (lambda: names.refuse_unseen("new", Reading(NOON, gaps=GAPS)), None),
    (lambda: names.refuse_misspelt(ports(Unread()), ask("x"), "new"), None),
    (lambda: names.scopes(ports(), ask("x")), {"cluster": ["llama"], "team": [], "account": []}),
    (lambda: names.scopes(ports(Unread()), ask("x")), {}),
    (lambda: names.unseen(ports(), ask("x"), Labels(cluster="llama", region="x")), []),
    (
        lambda: names.unseen(ports(), ask("x"), Labels(cluster="lama", team="ads")),
        ["Nothing runs under cluster=lama now; did you mean 'llama'?", "Nothing runs under team=ads now."],
    ),
    (lambda: names.unseen(ports(Unread()), ask("x"), Labels(cluster="lama")), []),
]  # fmt: skip
REFUSED: list[tuple[Callable[[], object], str]] = [
    (lambda: names.known_type("trn1.32xlage", TYPES), "'trn1.32xlage' is not an instance type known here; did you mean 'trn1.32xlarge'?"),
    (lambda: names.known_type("zzz", TYPES), "'zzz' is not an instance type known here; write it like trn1.32xlarge."),
    (lambda: names.known_region("us-wast-2", ports()), "'us-wast-2' is not an AWS region known here; did you mean 'us-west-2'?"),
    (lambda: names.refuse_unseen("lama", reading()), "No cluster is called 'lama'; did you mean 'llama'?"),
    (lambda: names.refuse_unseen("new", Reading(NOON)), "No cluster is called 'new'"),
    (lambda: names.refuse_misspelt(ports(), ask("x"), "lama"), "No cluster is called 'lama'; did you mean 'llama'?"),
    (lambda: (_ for _ in ()).throw(names.no_cluster("lama", ["llama"])), "No running cluster is called 'lama'; did you mean 'llama'?"),
]  # fmt: skip


@in_one_run
@pytest.mark.parametrize(("doing", "expected"), TAKEN)
def test_what_is_there_is_taken_and_what_may_come_is_noted(
    doing: Callable[[], object], expected: object
) -> None:
    assert doing() == expected


@in_one_run
@pytest.mark.parametrize(("doing", "sentence"), REFUSED)
def test_what_nothing_has_is_refused_with_the_nearest(
    doing: Callable[[], object], sentence: str
) -> None:
    with pytest.raises(WrongInput) as refused:
        doing()
    assert str(refused.value).startswith(sentence)
