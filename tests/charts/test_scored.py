import io
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from PIL import Image

from adapters.charts.png import ScoredPlot, draw_scored

START = datetime(2026, 1, 1, tzinfo=UTC)
TIMES = [START + timedelta(minutes=5) * n for n in range(50)]


def drawn(values, *, flagged=(), truth=(), title="x_$y$.csv"):
    flags = np.isin(np.arange(50), flagged)
    return draw_scored(title, ScoredPlot(TIMES, values, np.full(50, 0.2), flags), 0.5, truth)


@pytest.mark.parametrize(
    "values",
    [
        np.arange(50.0),
        np.full(50, np.nan),
        np.zeros((50, 3)),
        np.random.default_rng(0).random((50, 19)),
    ],
)
def test_any_series_is_drawn(values):
    assert Image.open(io.BytesIO(drawn(values))).size == (1600, 700)
