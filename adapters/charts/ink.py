"""Hold the colours of pictures, and write words on them."""

from __future__ import annotations

from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

INK, GREY = "#1f2328", "#6b7280"


def say(on: Axes | Figure, x: float, y: float, words: str, **style: Any) -> None:
    """Write text that is never read as TeX: a `$` from data stays a `$`."""
    style = {"color": INK, "fontsize": style.pop("size", 8.5), "fontweight": style.pop("weight", "normal"), **style}
    on.text(x, y, words, parse_math=False, clip_on=False, **style)
