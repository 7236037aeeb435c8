"""Draw a scored series for people who look into it: values, score, what spoke, and the truth where it is known."""

from __future__ import annotations

import io
from collections.abc import Sequence
from datetime import datetime

import numpy as np
import numpy.typing as npt
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

_INK, _GREY, _SPOKE, _TRUTH = "#4184d8", "#808893", "#e0513f", "#d99a1e"
"""Of middle lightness, on no background: a page may be light or dark."""

Values = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]
Span = tuple[datetime, datetime]


def draw_scored(
    title: str,
    times: Sequence[datetime],
    values: Values,
    scores: Values,
    flags: Flags,
    threshold: float,
    truth: Sequence[Span] = (),
) -> bytes:
    """Return a PNG of 1600 x 700 pixels: the metrics (n, m) above, each in its own range, and the score (n,) below.

    Rows that spoke are marked in both, above and behind the line; `truth` is shaded. nan is a gap in the line.
    """
    figure = Figure(figsize=(16, 7), dpi=100, layout="constrained", facecolor="none")
    FigureCanvasAgg(figure)
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=(3, 1))
    _metrics(above, times, values)
    below.plot(np.asarray(times), scores, color=_GREY, linewidth=0.8)
    below.axhline(threshold, color=_GREY, linewidth=0.8, linestyle="--")
    below.set(ylim=(0, 1.02), ylabel="score", yticks=(0, threshold, 1))
    for axes in (above, below):
        _mark(axes, [at for at, spoke in zip(times, flags, strict=True) if spoke], truth)
        _soften(axes)
    above.set_title(title, loc="left", parse_math=False, color=_GREY, fontsize=13)
    figure.legend(handles=_legend(bool(len(truth))), loc="outside upper right", ncols=2, frameon=False, labelcolor=_GREY)
    out = io.BytesIO()
    figure.savefig(out, format="png", metadata={"Software": None})
    return out.getvalue()


def _metrics(axes: Axes, times: Sequence[datetime], values: Values) -> None:
    """Draw one metric as it is, and several each from 0 to 1 of its own range."""
    columns = values.reshape(len(values), -1).T
    for column in columns:
        known = column[np.isfinite(column)]
        shown = (column - known.min()) / (np.ptp(known) or 1.0) if len(columns) > 1 and len(known) else column
        axes.plot(np.asarray(times), shown, linewidth=0.8, **({"color": _INK} if len(columns) == 1 else {"alpha": 0.6}))
    axes.set_ylabel("value" if len(columns) == 1 else "part of each range")


def _mark(axes: Axes, spoke: Sequence[datetime], truth: Sequence[Span]) -> None:
    for start, end in truth:
        axes.axvspan(start, end, color=_TRUTH, alpha=0.25, linewidth=0, zorder=0)  # type: ignore[arg-type]  # dates are as good as floats here
    for at in spoke:
        axes.axvline(at, color=_SPOKE, linewidth=0.9, alpha=0.6, zorder=1)  # type: ignore[arg-type]  # the same
        axes.plot([at], [1], "v", color=_SPOKE, markersize=7, transform=axes.get_xaxis_transform(), clip_on=False)  # type: ignore[arg-type]


def _soften(axes: Axes) -> None:
    """Let the frame stand back on any page."""
    axes.set_facecolor("none")
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["bottom", "left"]].set_color(_GREY)
    axes.tick_params(colors=_GREY)
    axes.yaxis.label.set_color(_GREY)


def _legend(labelled: bool) -> list[Artist]:
    """Return what the marks mean."""
    spoke = Line2D([], [], color=_SPOKE, marker="v", linewidth=0.9, label="spoke")
    return [spoke, Patch(color=_TRUTH, alpha=0.25, linewidth=0, label="labelled")] if labelled else [spoke]
