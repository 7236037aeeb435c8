import io
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from adapters.charts.png import HEIGHT, SCALE, WIDTH, draw
from adapters.chat.teams.render import ANSWER_BYTES
from bot.cards.card import Chart, ChartKind, Series
from tests.e2e import samples

EMPTY = Chart(ChartKind.LINE, "Nothing read", "%", (Series("a", ()),))
SHAPES = {
    "line": samples.line_chart(),
    "bars": samples.bar_chart(),
    "one bar": Chart(ChartKind.BAR, "One", "$", (Series("a", (0.0,)),), categories=("",)),
    "negative": Chart(
        ChartKind.BAR, "Credits", "$", (Series("a", (-5.0, 3.0)),), categories=("x", "y")
    ),
    "one point": replace(
        samples.line_chart(), times=samples.line_chart().times[:1], series=(Series("a", (3.0,)),)
    ),
    "no reading": replace(samples.line_chart(), series=(Series("a", (None,) * 73),)),
    "fifty days": Chart(
        ChartKind.BAR,
        "t",
        "$",
        (Series("a", (1.0,) * 50),),
        categories=tuple(f"day {i}" for i in range(50)),
    ),
    "heat": samples.heat_chart(),
    "empty": EMPTY,
}


def pixels(png):
    return np.asarray(Image.open(io.BytesIO(png)).convert("RGBA")).astype(int)


@pytest.mark.parametrize("chart", SHAPES.values(), ids=SHAPES.keys())
def test_every_chart_is_a_whole_picture(chart):
    seen = pixels(draw(chart))
    assert seen.shape == (HEIGHT * SCALE, WIDTH * SCALE, 4)
    assert (seen[seen.shape[0] // 2, :, 3] > 0).mean() > 0.99, (
        "opaque, for light and dark chats alike"
    )


def test_a_flow_of_as_many_bands_as_an_answer_has_fits_a_message_of_teams():
    shares = np.random.default_rng(7).dirichlet(np.full(8, 0.3), 7).T * 1e5
    series = tuple(Series(f"class {i}", tuple(row)) for i, row in enumerate(shares.tolist()))
    flow = Chart(ChartKind.FLOW, "", "$", series, categories=tuple(f"team {i}" for i in range(7)))
    assert len(draw(flow)) * 4 / 3 < ANSWER_BYTES - 17_000, "what stands beside it"


def test_threads_draw_what_one_thread_draws():
    charts = [samples.line_chart(), samples.bar_chart()] * 3
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(draw, charts)) == [draw(chart) for chart in charts]


def test_the_incident_is_red_and_the_calm_is_not():
    def reds(chart):
        red, green, blue = (pixels(draw(chart))[..., i] for i in range(3))
        return int(((red > 170) & (green < 80) & (blue < 80)).sum())

    assert reds(samples.line_chart()) > 500
    assert reds(replace(samples.line_chart(), shaded=None)) == 0


@pytest.mark.parametrize(
    "title", [r"$\frac{a}$ costs $5", "$x^2$", "<b>&amp;", "漢字 ✓", "a" * 500]
)
def test_texts_are_never_read_as_markup(title):
    chart = replace(samples.bar_chart(), title=title, categories=(title,) * 7)
    assert draw(chart).startswith(b"\x89PNG")
