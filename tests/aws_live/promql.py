"""Answer the part of PromQL that the bot asks, over samples in memory; a test compares the answers with Prometheus's own."""

from __future__ import annotations

import re
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

import numpy as np

from tests.aws_live.exporter import Sampled

Labels = frozenset[tuple[str, str]]
Vector = dict[Labels, np.ndarray]
_TOKEN = re.compile(
    r'\s*(?:(\d+(?:\.\d+)?)(s)?|"((?:[^"\\]|\\.)*)"|([A-Za-z_:][\w:]*)|(=~|!~|!=|[-+*/(){}\[\],=]))'
)
_LOOKBACK = 300
_AGGREGATES: Mapping[str, Callable[..., np.ndarray]] = {
    "sum": np.nansum,
    "avg": np.nanmean,
    "max": np.nanmax,
}


@dataclass
class PromqlStore:
    """Hold the series of a Prometheus server."""

    series: list[Sampled]
    most: int = 500
    """Series of an answer."""
    padded: int = 0
    """So many series are found at least."""
    samples: int = 0
    """Samples that queries looked at."""
    asked: Counter[str] = field(default_factory=Counter)
    by_name: dict[str, list[Sampled]] = field(init=False)

    def __post_init__(self) -> None:
        self.by_name = defaultdict(list)
        for one in self.series:
            self.by_name[one.name].append(one)

    def answer(
        self, path: str, given: Mapping[str, list[str]], shift: float, now: float
    ) -> dict[str, Any]:
        """Answer a call of the query API; `shift` seconds are added to the times of samples, none is newer than `now`."""
        operation = path.partition("/api/v1/")[2]
        self.asked[operation.split("/")[0]] += 1
        if label := re.fullmatch(r"label/(.+)/values", operation):
            return {"status": "success", "data": self._values(unquote(label[1]), given, shift, now)}
        start, end, step = (
            (float(given[x][0]) for x in ("start", "end", "step"))
            if operation == "query_range"
            else (0, 0, 1)
        )
        steps = (
            np.arange(start, end + 1, step)
            if operation == "query_range"
            else np.array([float(given["time"][0])])
        )
        found = _Evaluation(self, given["query"][0], steps - shift, now - shift).vector()
        result = []
        found |= {
            frozenset({("padding", str(n))}): steps * 0 for n in range(self.padded - len(found))
        }
        for labels, values in list(found.items())[: self.most]:
            pairs = [
                [at, f"{value:.12g}"]
                for at, value in zip(steps.tolist(), values.tolist(), strict=True)
                if not np.isnan(value)
            ]
            if pairs:
                result.append(
                    {"metric": dict(labels)}
                    | ({"values": pairs} if operation == "query_range" else {"value": pairs[0]})
                )
        kind = "matrix" if operation == "query_range" else "vector"
        return {"status": "success", "data": {"resultType": kind, "result": result}}

    def _values(
        self, label: str, given: Mapping[str, list[str]], shift: float, now: float
    ) -> list[str]:
        first, last = (
            float(given["start"][0]) - shift,
            min(float(given["end"][0]) - shift, now - shift),
        )
        wanted = {x.partition("{")[0] for x in given["match[]"]}
        there = [
            x
            for x in self.series
            if x.name in wanted and ((x.times >= first) & (x.times <= last)).any()
        ]
        return sorted({x.labels[label] for x in there if label in x.labels})


class _Evaluation:
    """Evaluate one query at some steps, by descent."""

    def __init__(self, store: PromqlStore, text: str, steps: np.ndarray, now: float) -> None:
        self.store, self.steps, self.now = store, steps, now
        self.tokens = [m.groups() for m in _TOKEN.finditer(text)]
        assert "".join(m.group(0) for m in _TOKEN.finditer(text)).strip() == text.strip(), (
            f"not understood: {text}"
        )
        self.at = 0

    def vector(self) -> Vector:
        with np.errstate(all="ignore"):
            found = self._either()
        assert self.at == len(self.tokens), f"left over: {self.tokens[self.at :]}"
        return found

    def _peek(self) -> str:
        token = self.tokens[self.at] if self.at < len(self.tokens) else (None,) * 5
        return token[3] or token[4] or ""

    def _take(self, *wanted: str) -> str:
        token = self.tokens[self.at]
        value = next(x for x in (token[0], token[2], token[3], token[4]) if x is not None)
        assert not wanted or value in wanted, f"{value} where {wanted} was expected"
        self.at += 1
        return value

    def _either(self) -> Vector:
        left: Vector = self._sum()
        while self._peek() == "or":
            self._take()
            right = self._sum()
            left = {
                key: np.where(np.isnan(left[key]), right[key], left[key])
                if key in left and key in right
                else {**right, **left}[key]
                for key in {**left, **right}
            }
        return left

    def _sum(self) -> Any:
        left = self._product()
        while self._peek() in ("+", "-"):
            left = _combined(self._take(), left, self._product())
        return left

    def _product(self) -> Any:
        left = self._one()
        while self._peek() in ("*", "/"):
            left = _combined(self._take(), left, self._one())
        return left

    def _one(self) -> Any:
        if self.tokens[self.at][0] is not None:
            return float(self._take())
        if self._peek() == "(":
            self._take()
            inner = self._either()
            self._take(")")
            return inner
        if self._peek() == "{":
            return self._selected("")
        name = self._take()
        following = self._peek()
        if following == "by":
            self._take()
            return self._aggregated(name, self._names())
        if following == "(" and name in (*_AGGREGATES, "count"):
            return self._aggregated(name, [])
        if following == "(":
            return self._called(name)
        return self._selected(name)

    def _names(self) -> list[str]:
        self._take("(")
        names = []
        while self._peek() != ")" or self.tokens[self.at][2] is not None:
            names.append(self._take())
            if self._peek() == ",":
                self._take()
        self._take(")")
        return names

    def _aggregated(self, how: str, by: list[str]) -> Vector:
        self._take("(")
        inner = self._either()
        self._take(")")
        groups: dict[Labels, list[np.ndarray]] = defaultdict(list)
        for labels, values in inner.items():
            groups[frozenset((k, v) for k, v in labels if k in by)].append(values)
        return {key: _of(how, np.array(many)) for key, many in groups.items()}

    def _called(self, name: str) -> Vector:
        self._take("(")
        if name == "clamp_min":
            inner = self._either()
            self._take(",")
            least = float(self._take())
            self._take(")")
            return {labels: np.fmax(values, least) + values * 0 for labels, values in inner.items()}
        chosen = self._matching(self._take())
        self._take("[")
        window = float(self._take())
        self._take("]")
        self._take(")")
        return {frozenset(x.labels.items()): self._over(name, x, window) for x in chosen}

    def _selected(self, name: str) -> Vector:
        chosen = self._matching(name)
        offset = 0.0
        if self._peek() == "offset":
            self._take()
            offset = float(self._take())
        named = {x.name: {} if name else {"__name__": x.name} for x in chosen}
        return {
            frozenset((named[x.name] | {**x.labels}).items()): self._newest(x, offset)
            for x in chosen
        }

    def _matching(self, name: str) -> list[Sampled]:
        matchers: list[tuple[str, str, str]] = []
        if self._peek() == "{":
            self._take()
            while self._peek() != "}" or self.tokens[self.at][2] is not None:
                matchers.append(
                    (
                        self._take(),
                        self._take("=", "!=", "=~", "!~"),
                        self._take().replace("\\\\", "\\"),
                    )
                )
                if self._peek() == ",":
                    self._take()
            self._take("}")
        return [
            x
            for x in (self.store.by_name[name] if name else self.store.series)
            if all(
                _matches(x.labels.get(k, x.name if k == "__name__" else ""), how, v)
                for k, how, v in matchers
            )
        ]

    def _newest(self, one: Sampled, offset: float) -> np.ndarray:
        wanted = np.minimum(self.steps, self.now) - offset
        last = np.searchsorted(one.times, wanted, side="right") - 1
        there = (last >= 0) & (one.times[np.maximum(last, 0)] > self.steps - offset - _LOOKBACK)
        self.store.samples += int(there.sum())
        return np.where(there, one.values[np.maximum(last, 0)], np.nan)

    def _over(self, name: str, one: Sampled, window: float) -> np.ndarray:
        high = np.searchsorted(one.times, np.minimum(self.steps, self.now), side="right")
        low = np.searchsorted(one.times, self.steps - window, side="right")
        counts = np.maximum(high - low, 0)
        self.store.samples += int(counts.sum())
        if name == "count_over_time":
            return np.where(counts > 0, counts, np.nan)
        each = np.arange(int(counts.max(initial=0)) or 1)[None, :]
        there = each < counts[:, None]
        read = np.where(
            there, one.values[np.minimum(low[:, None] + each, len(one.values) - 1)], np.nan
        )
        return _of({"avg_over_time": "avg", "max_over_time": "max"}[name], read.T)


def _of(how: str, many: np.ndarray) -> np.ndarray:
    there = ~np.isnan(many)
    counted = there.sum(axis=0)
    if how == "count":
        return np.where(counted > 0, counted, np.nan)
    with warnings.catch_warnings(action="ignore", category=RuntimeWarning):
        return np.where(counted > 0, _AGGREGATES[how](many, axis=0), np.nan)


def _combined(how: str, left: Any, right: Any) -> Any:
    act = {"+": np.add, "-": np.subtract, "*": np.multiply, "/": np.divide}[how]
    if isinstance(left, float) and isinstance(right, float):
        return float(act(left, right))
    if isinstance(left, float):
        return {key: act(left, values) for key, values in right.items()}
    if isinstance(right, float):
        return {key: act(values, right) for key, values in left.items()}
    return {key: act(left[key], right[key]) for key in left if key in right}


def _matches(value: str, how: str, wanted: str) -> bool:
    if how in ("=", "!="):
        return (value == wanted) == (how == "=")
    return bool(re.fullmatch(wanted, value)) == (how == "=~")
