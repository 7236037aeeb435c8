"""Every colour of the console against what it stands on, in both themes, as WCAG 2.2 AA asks (1.4.3 and 1.4.11)."""

import re
from itertools import pairwise
from pathlib import Path

import pytest

import adapters.web
from adapters.charts.svg import SHEET as CHARTS
from tests.cases import in_one_run

SHEET = (Path(adapters.web.__file__).parent / "static" / "console.css").read_text()
SHEET += CHARTS.read_text()
COLOURS = {
    name: (light, dark)
    for name, light, dark in re.findall(r"--([\w-]+): light-dark\((#\w{6}), (#\w{6})\)", SHEET)
}
TEXTS = [
    *(
        (ink, ground)
        for ink in ("ink", "soft", "grey")
        for ground in ("page", "rail", "card", "tint")
    ),
    *(
        (tone, ground)
        for tone in ("critical", "warning", "info", "good")
        for ground in ("page", "card", f"{tone}-wash")
    ),
    ("brand", "brand-wash"),
    ("on-brand", "brand"),
    ("soft", "over-wash"),
    ("usual-ink", "card"),
]
SHAPES = [
    (name, "card")
    for name in (*(f"s{i}" for i in range(8)), "t-critical", "t-warning", "t-error", "t-over")
]


def luminance(colour):
    """Return the relative luminance of `#rrggbb`, 0 to 1, as WCAG defines it."""
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one, other):
    darker, lighter = sorted((luminance(one), luminance(other)))
    return (lighter + 0.05) / (darker + 0.05)


@in_one_run
@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
@pytest.mark.parametrize(("ink", "ground"), TEXTS)
def test_words_are_legible(ink, ground, theme):
    assert contrast(COLOURS[ink][theme], COLOURS[ground][theme]) >= 4.5


@in_one_run
@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
@pytest.mark.parametrize(("shape", "ground"), SHAPES)
def test_shapes_stand_out(shape, ground, theme):
    assert contrast(COLOURS[shape][theme], COLOURS[ground][theme]) >= 3


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
def test_a_heat_map_is_told_by_lightness_alone(theme):
    """From idle to busy, away from the card's own lightness."""
    shades = [luminance(COLOURS[name][theme]) for name in ("h0", "h1", "h2", "h3", "s0")]
    assert shades == sorted(shades, reverse=theme == 0)
    assert all((max(pair) + 0.05) / (min(pair) + 0.05) > 1.2 for pair in pairwise(shades))
