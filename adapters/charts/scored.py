"""Draw a scored series for people who examine it.

Values, score, flagged rows, and the truth where it is known.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import numpy as np
import numpy.typing as npt
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

_INK, _GREY, _FLAGGED, _TRUTH = "#4184d8", "#808893", "#e0513f", "#d99a1e"
"""Of middle lightness, on no background: a page may be light or dark."""

Values = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]
LabelledWindow = tuple[datetime, datetime]


@dataclass(frozen=True)
class ScoredPlot:
    """Hold the metrics (n, m) of a series at n times, with the score and the flag (n,) of each row."""

    times: Sequence[datetime]
    values: Values
    scores: Values
    flags: Flags


def draw_scored(
    title: str, series: ScoredPlot, threshold: float, truth: Sequence[LabelledWindow] = ()
) -> bytes:
    """Return a PNG of 1600 x 700 pixels.

    The metrics above, each in its own range, and the score below.

    Flagged rows are marked in both, above and behind the line; `truth` is shaded. nan is a gap in
    the line.
    """
    figure = Figure(figsize=(16, 7), dpi=100, layout="constrained", facecolor="none")
    FigureCanvasAgg(figure)
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=(3, 1))
    _metrics(above, series.times, series.values)
    below.plot(np.asarray(series.times), series.scores, color=_GREY, linewidth=0.8)
    below.axhline(threshold, color=_GREY, linewidth=0.8, linestyle="--")
    below.set(ylim=(0, 1.02), ylabel="score", yticks=(0, threshold, 1))
    for axes in (above, below):
        _mark(
            axes, [at for at, flag in zip(series.times, series.flags, strict=True) if flag], truth
        )
        _soften(axes)
    above.set_title(title, loc="left", parse_math=False, color=_GREY, fontsize=13)
    figure.legend(
        handles=_legend(bool(len(truth))),
        loc="outside upper right",
        ncols=2,
        frameon=False,
        labelcolor=_GREY,
    )
    out = io.BytesIO()
    figure.savefig(out, format="png", metadata={"Software": None})
    return out.getvalue()


def _metrics(axes: Axes, times: Sequence[datetime], values: Values) -> None:
    """Draw one metric as it is, and several each from 0 to 1 of its own range."""
    columns = values.reshape(len(values), -1).T
    for column in columns:
        finite = column[np.isfinite(column)]
        shown = (
            (column - finite.min()) / (np.ptp(finite) or 1.0)
            if len(columns) > 1 and len(finite)
            else column
        )
        axes.plot(
            np.asarray(times),
            shown,
            linewidth=0.8,
            **({"color": _INK} if len(columns) == 1 else {"alpha": 0.6}),
        )
    axes.set_ylabel("value" if len(columns) == 1 else "part of each range")


def _mark(axes: Axes, flagged: Sequence[datetime], truth: Sequence[LabelledWindow]) -> None:
    for start, end in truth:
        axes.axvspan(start, end, color=_TRUTH, alpha=0.25, linewidth=0, zorder=0)  # type: ignore[arg-type]  # dates are as good as floats here
    for at in flagged:
        axes.axvline(at, color=_FLAGGED, linewidth=0.9, alpha=0.6, zorder=1)  # type: ignore[arg-type]  # the same
        axes.plot(
            [at],  # type: ignore[arg-type]
            [1],
            "v",
            color=_FLAGGED,
            markersize=7,
            transform=axes.get_xaxis_transform(),
            clip_on=False,
        )


def _soften(axes: Axes) -> None:
    """Let the frame stand back on any page."""
    axes.set_facecolor("none")
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["bottom", "left"]].set_color(_GREY)
    axes.tick_params(colors=_GREY)
    axes.yaxis.label.set_color(_GREY)


def _legend(labelled: bool) -> list[Artist]:
    """Return the meaning of each mark."""
    spoke = Line2D([], [], color=_FLAGGED, marker="v", linewidth=0.9, label="spoke")
    return (
        [spoke, Patch(color=_TRUTH, alpha=0.25, linewidth=0, label="labelled")]
        if labelled
        else [spoke]
    )
