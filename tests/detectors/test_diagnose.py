"""Who explains whom: one rule that holds half of a job's nodes speaks for the rest of them."""

from types import SimpleNamespace

import numpy as np
import pytest

from bot.model.labels import Labels
from detectors.diagnose import _fold
from detectors.rule import RuleMatch
from detectors.usual import MEMORY


@pytest.mark.parametrize(
    ("sentence", "strong", "memory", "folded"),
    [
        (
            "half of the job explains what began with it, or at most three steps before",
            3,
            [40, 40, 40],
            [True, True, False],
        ),
        ("less than half explains nothing", 2, [40, 40, 40], [False, False, False]),
        ("another job in the same cluster is no effect", 3, [40, 20, 20], [True, False, False]),
        (
            "a node of which nothing is known may be of the job",
            3,
            [np.nan] * 3,
            [True, True, False],
        ),
        ("one node is no job of which half is sick", 1, [20, 20, 20], [False, False, False]),
    ],
)
def test_what_holds_half_of_a_job_explains_the_rest_of_it(sentence, strong, memory, folded):
    n = strong + 3
    roster = SimpleNamespace(
        scope=np.zeros(n, dtype=np.intp),
        scopes=(Labels(cluster="llama"),),
        labels=(Labels(cluster="llama"),) * n,
    )
    held = np.array([40.0] * strong + memory, dtype=np.float32)
    view = SimpleNamespace(n=n, roster=roster, usual=SimpleNamespace(medians={MEMORY: held}))
    cause = np.arange(n) < strong
    steps = np.where(cause, 10.0, 0.0)
    steps[strong:] = 9.0, 13.0, 14.0
    rest, mask = _fold(RuleMatch(~cause, steps), [RuleMatch(cause, steps)], view)
    assert mask[strong:].tolist() == folded, sentence
    assert rest.hit[strong:].tolist() == [not one for one in folded]
