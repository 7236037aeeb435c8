"""The table of what `make test` samples names tests that there are."""

import csv
import re

from tests.conftest import SAMPLES


def test_every_row_names_a_test_once():
    rows = list(csv.DictReader(SAMPLES.open()))
    names = [row["test"] for row in rows]
    assert len(set(names)) == len(names)
    for name in names:
        path, _, test = name.partition("::")
        assert re.search(rf"def {test}\b", (SAMPLES.parent / path).read_text()), name
