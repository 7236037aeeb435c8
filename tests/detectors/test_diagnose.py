"""Who explains whom: one rule that holds half of a scope speaks for the rest of it."""

from types import SimpleNamespace

import numpy as np
import pytest

from bot.model.labels import Labels
from detectors.diagnose import _fold
from detectors.rule import RuleMatch


@pytest.mark.parametrize(
    ("sentence", "strong", "sizes", "folded"),
    [
        (
            "half of the scope explains what began with it, or at most three steps before",
            2,
            4,
            [True, True, False],
        ),
        ("less than half explains nothing", 2, 5, [False, False, False]),
        ("one node is no scope of which half is sick", 1, 1, [False, False, False]),
    ],
)
def test_what_holds_half_of_a_scope_explains_the_rest_of_it(sentence, strong, sizes, folded):
    roster = SimpleNamespace(
        scope=np.zeros(strong + 3, dtype=np.intp),
        sizes=np.array([sizes]),
        scopes=(Labels(cluster="llama"),),
    )
    view = SimpleNamespace(n=strong + 3, roster=roster)
    cause = np.arange(strong + 3) < strong
    steps = np.where(cause, 10.0, 0.0)
    steps[strong:] = 9.0, 13.0, 14.0
    rest, mask = _fold(RuleMatch(~cause, steps), [RuleMatch(cause, steps)], view)
    assert mask[strong:].tolist() == folded, sentence
    assert rest.hit[strong:].tolist() == [not one for one in folded]
