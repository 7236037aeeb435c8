"""Run all cases of a test as one, where a single case is no news: collecting each costs more than trying it."""

from __future__ import annotations

import functools
import inspect
import itertools
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest


def in_one_run(test: Callable[..., Any]) -> Callable[..., Any]:
    """Turn the `parametrize` marks beneath into loops; what fails is named with its case.

    Fixtures are made once for all cases.
    """
    marks = list(getattr(test, "pytestmark", ()))
    grids = [mark.args for mark in marks if mark.name == "parametrize"]
    cases = [dict(itertools.chain(*each)) for each in itertools.product(*map(_grid, grids))]
    names = {name for case in cases for name in case}
    signature = inspect.signature(test)

    @functools.wraps(test)
    async def run_async(**fixtures: Any) -> None:
        failed = {}
        for number, case in enumerate(cases):
            try:
                await test(**fixtures, **case)
            except pytest.skip.Exception:
                continue
            except Exception as error:
                failed[number] = error
        _report(cases, failed)

    @functools.wraps(test)
    def run(**fixtures: Any) -> None:
        failed = {}
        for number, case in enumerate(cases):
            try:
                test(**fixtures, **case)
            except pytest.skip.Exception:
                continue
            except Exception as error:
                failed[number] = error
        _report(cases, failed)

    whole: Any = run_async if inspect.iscoroutinefunction(test) else run
    fixtures = [x for name, x in signature.parameters.items() if name not in names]
    whole.__signature__ = signature.replace(parameters=fixtures)
    whole.pytestmark = [mark for mark in marks if mark.name != "parametrize"]
    return whole


def _grid(args: tuple[Any, ...]) -> Iterator[list[tuple[str, Any]]]:
    """Yield each set of a `parametrize` mark as pairs of name and value."""
    names = [name.strip() for name in args[0].split(",")] if isinstance(args[0], str) else args[0]
    for values in args[1]:
        yield list(zip(names, [values] if len(names) == 1 else values, strict=True))


def _report(cases: list[dict[str, Any]], failed: Mapping[int, Exception]) -> None:
    if failed:
        number, error = next(iter(failed.items()))
        raise AssertionError(
            f"{len(failed)} of {len(cases)} cases, first {cases[number]}"
        ) from error
