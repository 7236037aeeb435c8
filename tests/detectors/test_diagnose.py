"""Who explains whom: one rule that holds half of a scope speaks for the rest of it."""

from types import SimpleNamespace

import numpy as np
import pytest

from bot.model.labels import Labels
from detectors.diagnose import _fold
from detectors.nodes.drop import DROP
from detectors.rule import RuleMatch
from detectors.usual import MEMORY


@pytest.mark.parametrize(
    ("sentence", "strong", "sizes", "memory", "loaded", "folded"),
    [
        (
            "half of the scope explains what began with it, or at most three steps before",
            *(2, 4, [40, 40, 40], False),
            [True, True, False],
        ),
        ("less than half explains nothing", 2, 5, [40] * 3, True, [False, False, False]),
        ("one node is no scope of which half is sick", 1, 1, [40] * 3, True, [False] * 3),
        (
            "a node that another job left waits for nothing",
            2,
            4,
            [40, 20, 20],
            False,
            [True, False, False],
        ),
        ("another role of the job waits", 2, 4, [40, 20, 20], True, [True, True, False]),
        ("what is not known may be of the job", 2, 4, [np.nan] * 3, False, [True, True, False]),
    ],
)
def test_what_holds_half_of_a_scope_explains_the_rest_of_it(
    sentence, strong, sizes, memory, loaded, folded
):
    n = strong + 3
    roster = SimpleNamespace(
        scope=np.zeros(n, dtype=np.intp),
        sizes=np.array([sizes]),
        scopes=(Labels(cluster="llama"),),
        labels=(Labels(cluster="llama"),) * n,
    )
    memory = np.array([40.0] * strong + memory, dtype=np.float32)
    view = SimpleNamespace(
        n=n,
        roster=roster,
        usual=SimpleNamespace(medians={MEMORY: memory}),
        jobs=np.array([""] * n),
        of_owner=lambda rows: np.ones(n, dtype=bool),
        held=np.full((n, 1), float(loaded)),
        newest=lambda holds: holds[:, -1],
        opened=lambda *rules: [],
    )
    cause = np.arange(n) < strong
    steps = np.where(cause, 10.0, 0.0)
    steps[strong:] = 9.0, 13.0, 14.0
    rest, mask = _fold(DROP, RuleMatch(~cause, steps), [RuleMatch(cause, steps)], view)
    assert mask[strong:].tolist() == folded, sentence
    assert rest.hit[strong:].tolist() == [not one for one in folded]
