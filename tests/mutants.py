"""Plant small faults in the product, and see whether a test notices.

    python -m tests.mutants detectors/nodes --tests tests/detectors tests/habits --sample 60 --seed 1

A fault is one changed operator, number, condition or statement of one function. Each is tried in a process forked from
one that has collected the tests and run none of them: there the function gets the changed code, and the tests that reach
the changed line run, the quickest first, until one fails. What lives is either code that nobody needs, a thought that
no test sees, or a fault that changes nothing.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import copy
import gc
import importlib
import inspect
import os
import pickle
import random
import resource
import signal
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FunctionType

import pytest

ROOT = Path(__file__).parent.parent
SWAPS: dict[type, type] = {
    ast.Lt: ast.GtE, ast.LtE: ast.Gt, ast.Gt: ast.LtE, ast.GtE: ast.Lt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In, ast.And: ast.Or, ast.Or: ast.And,
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd,
    ast.Break: ast.Continue, ast.Continue: ast.Break,
}  # fmt: skip
EDGES: dict[type, type] = {ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt}
"""Tried where whole numbers are compared: between measured ones an edge is met by chance alone."""
HANGS = 10
"""A trial is ended after so many times its seconds of the wall."""
NAMES = {
    "min": "max",
    "max": "min",
    "any": "all",
    "all": "any",
    "nanmin": "nanmax",
    "nanmax": "nanmin",
}


@dataclass(frozen=True)
class Mutant:
    """One fault: where it stands, how it reads, and the function's code with it."""

    path: str
    lines: range
    function: range
    name: str
    text: str
    code: CodeType


@dataclass
class Reach:
    """What the tests reach, as one process that ran them all has seen it."""

    lines: dict[tuple[str, int], set[int]] = field(default_factory=lambda: defaultdict(set))
    seconds: dict[int, float] = field(default_factory=dict)
    modules: list[str] = field(default_factory=list)
    failed: set[int] = field(default_factory=set)

    def tests(self, mutant: Mutant) -> set[int]:
        """Return the numbers of the tests that reach a fault and pass without it."""
        reaching = (self.lines.get((mutant.path, line), set()) for line in mutant.lines)
        return set().union(*reaching) - self.failed


# Faults of a file


def mutants(path: Path) -> Iterator[Mutant]:
    """Yield each fault of a file's functions; what does not compile to a like function is left out."""
    source = path.read_text()
    tree = ast.parse(source)
    filename = str(path.resolve())
    originals = codes(compile(source, filename, "exec", dont_inherit=True))

    for outer in functions(tree):
        key = (outer.name, first_line(outer))
        original = originals.get(key)
        if original is None:
            continue
        for node in inside(outer):
            for change, undo in changes(node):
                before = ast.unparse(node)
                change()
                after = ast.unparse(node)
                try:
                    code = codes(compile(tree, filename, "exec", dont_inherit=True)).get(key)
                except (SyntaxError, ValueError):
                    code = None
                undo()
                if code and code.co_freevars == original.co_freevars and before != after:
                    text = f"{short(before)}  ->  {short(after)}"
                    within = range(key[1], outer.end_lineno + 1)
                    yield Mutant(filename, lines_of(node), within, original.co_qualname, text, code)


def functions(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Yield functions and methods, not those within them, whose code stands in theirs."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node
        elif isinstance(node, ast.ClassDef | ast.If | ast.Try):
            yield from functions(node)


def lines_of(node: ast.AST) -> range:
    """Return the lines of a node; of a condition, those of what is asked."""
    asked = node.test if isinstance(node, ast.If | ast.IfExp) else node
    return range(asked.lineno, asked.end_lineno + 1)  # type: ignore[attr-defined]


def first_line(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    return min([function.lineno, *(decorator.lineno for decorator in function.decorator_list)])


def codes(module: CodeType) -> dict[tuple[str, int], CodeType]:
    found = {}
    for constant in module.co_consts:
        if isinstance(constant, CodeType):
            found[constant.co_name, constant.co_firstlineno] = constant
            found |= codes(constant)
    return found


def inside(function: ast.AST) -> Iterator[ast.AST]:
    """Yield what a function's body holds, without its signature, docstrings and annotations."""
    for statement in function.body:  # type: ignore[attr-defined]
        for node in ast.walk(statement):
            if isinstance(node, ast.expr | ast.stmt):
                yield node


def changes(node: ast.AST) -> Iterator[tuple[Callable[[], None], Callable[[], None]]]:
    """Yield ways to change a node in place, each with its way back."""

    def attribute(name: str, value: object) -> tuple[Callable[[], None], Callable[[], None]]:
        old = getattr(node, name)
        return lambda: setattr(node, name, value), lambda: setattr(node, name, old)

    match node:
        case ast.Compare(ops=[operator]) if type(operator) in SWAPS:
            yield attribute("ops", [SWAPS[type(operator)]()])
            if type(operator) in EDGES and any(map(whole, [node.left, *node.comparators])):
                yield attribute("ops", [EDGES[type(operator)]()])
        case ast.BoolOp(op=operator, values=values):
            yield attribute("op", SWAPS[type(operator)]())
            for index in range(len(values)):
                if len(values) > 2:
                    yield attribute("values", values[:index] + values[index + 1 :])
        case ast.BinOp(op=operator) | ast.AugAssign(op=operator) if type(operator) in SWAPS:
            yield attribute("op", SWAPS[type(operator)]())
        case ast.Constant(value=bool(value)):
            yield attribute("value", not value)
        case ast.Constant(value=int(value) | float(value)):
            yield attribute("value", value + 1 if abs(value) < 2 else value * 2)
        case ast.Call(func=ast.Name(id=name)) if name in NAMES:
            yield attribute("func", ast.Name(NAMES[name], ast.Load(), **position(node)))
        case ast.UnaryOp(op=ast.Not() | ast.Invert(), operand=operand):
            yield attribute("operand", ast.UnaryOp(node.op, operand, **position(node)))
        case ast.If(test=test) | ast.IfExp(test=test):
            yield attribute("test", ast.UnaryOp(ast.Not(), copy.copy(test), **position(test)))
        case ast.Expr(value=ast.Call() | ast.Await()):
            yield attribute("value", ast.Constant(None, **position(node)))
        case ast.Return(value=ast.expr()):
            if not isinstance(node.value, ast.Constant):
                yield attribute("value", ast.Constant(None, **position(node)))
        case ast.ListComp(generators=[only]) | ast.SetComp(generators=[only]) | ast.GeneratorExp(generators=[only]) | ast.DictComp(generators=[only]):  # fmt: skip
            for index, test in enumerate(only.ifs):

                def kept(index: int = index) -> None:
                    del only.ifs[index]

                def put_back(index: int = index, test: ast.expr = test) -> None:
                    only.ifs.insert(index, test)

                yield kept, put_back


def whole(node: ast.expr) -> bool:
    """Say whether an expression is a whole number, or how many of something there are."""
    match node:
        case ast.Constant(value=int()) | ast.Call(func=ast.Name(id="len")):
            return True
    return False


def position(node: ast.AST) -> dict[str, int]:
    names = ("lineno", "col_offset", "end_lineno", "end_col_offset")
    return {name: getattr(node, name) for name in names}


def short(text: str, width: int = 70) -> str:
    line = " ".join(text.split())
    return line if len(line) <= width else line[: width - 1] + "…"


# Trying them


class Trial:
    """A plugin of pytest that tries faults in place of running the tests."""

    def __init__(self, wanted: argparse.Namespace) -> None:
        self.wanted = wanted
        self.failed = False
        self.seen: set[tuple[str, int]] = set()
        self.made: dict[pytest.FixtureDef, set[tuple[str, int]]] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note a failure."""
        self.failed = self.failed or report.failed

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(
        self, fixturedef: pytest.FixtureDef
    ) -> Generator[None, object, object]:
        """Note what the making of a fixture reaches, as every test that uses it depends on that."""
        before, self.seen = self.seen, set()
        try:
            return (yield)
        finally:
            self.made[fixturedef] = self.seen
            before |= self.seen
            self.seen = before

    def pytest_runtest_teardown(self, item: pytest.Item) -> None:
        """Add what was reached when the fixtures of a test were made, be it for an earlier one."""
        for fixture in item._request._fixture_defs.values():
            self.seen |= self.made.get(fixture, set())

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Draw faults, see which of them the tests reach, then try a sample of those."""
        files = [path for name in self.wanted.files for path in sources(ROOT / name)]
        planted = [mutant for path in files for mutant in mutants(path)]
        random.Random(self.wanted.seed).shuffle(planted)
        drawn = planted if self.wanted.unreached else planted[: 20 + self.wanted.sample * 3 // 2]
        reach = self.reach(session, drawn)
        for name in reach.modules:
            with contextlib.suppress(Exception):
                importlib.import_module(name)
        if reach.failed:
            print(
                "fail without a fault:", *(session.items[number].nodeid for number in reach.failed)
            )

        reached = [mutant for mutant in drawn if reach.tests(mutant)]
        print(
            f"{len(planted)} faults in {len(files)} files; "
            f"tests reach the lines of {len(reached)} of {len(drawn)} drawn"
        )
        chosen = drawn if self.wanted.unreached else reached
        chosen = sorted(chosen[: self.wanted.sample], key=where)
        lives = [mutant for mutant, alive in self.tried(session, chosen, reach) if alive]
        print(f"{len(chosen) - len(lives)} of {len(chosen)} noticed (seed {self.wanted.seed})")
        return True

    def reach(self, session: pytest.Session, drawn: Sequence[Mutant]) -> Reach:
        """Run every test once in a process of its own, and say which lines each reaches.

        Only functions that hold a drawn fault are followed line by line, as that takes long.
        """
        followed: dict[str, set[int]] = defaultdict(set)
        for mutant in drawn:
            followed[mutant.path].update(mutant.function)
        followed.default_factory = None

        reading, writing = os.pipe()
        if child := os.fork():
            os.close(writing)
            with os.fdopen(reading, "rb") as pipe:
                sent = pipe.read()
            os.waitpid(child, 0)
            return pickle.loads(sent)

        os.close(reading)
        known, reach = set(sys.modules), Reach()

        def lines(frame, event, argument):
            self.seen.add((frame.f_code.co_filename, frame.f_lineno))
            return lines

        def calls(frame, event, argument):
            code = frame.f_code
            if code.co_firstlineno in followed.get(code.co_filename, ()):
                self.seen.add((code.co_filename, frame.f_lineno))
                return lines
            return None

        silence()
        for number, item in enumerate(session.items):
            self.seen = set()
            self.failed = False
            threading.settrace(calls)
            sys.settrace(calls)
            began = time.perf_counter()
            run(item, following(session.items, number))
            reach.seconds[number] = time.perf_counter() - began
            sys.settrace(None)
            threading.settrace(None)  # type: ignore[arg-type]
            if self.failed:
                reach.failed.add(number)
            for place in tuple(self.seen):
                reach.lines[place].add(number)
        reach.modules = sorted(
            name for name in set(sys.modules) - known if not name.startswith("tests.")
        )
        with os.fdopen(writing, "wb") as pipe:
            reach.lines = dict(reach.lines)
            pickle.dump(reach, pipe)
        os._exit(0)

    def tried(
        self, session: pytest.Session, chosen: Sequence[Mutant], reach: Reach
    ) -> Iterator[tuple[Mutant, bool]]:
        """Yield each fault with whether it lives, in the order in which their processes end."""
        gc.unfreeze()
        found: dict[tuple[str, str, int], list[FunctionType]] = defaultdict(list)
        for function in gc.get_objects():
            if type(function) is FunctionType:
                code = function.__code__
                found[code.co_filename, code.co_qualname, code.co_firstlineno].append(function)
        gc.freeze()

        running: dict[int, tuple[Mutant, threading.Timer]] = {}
        for mutant in [*chosen, None]:
            while running and (mutant is None or len(running) >= self.wanted.processes):
                child, status = os.wait()
                done, limit = running.pop(child)
                limit.cancel()
                end = {0: "lives", signal.SIGXCPU: "takes too long", signal.SIGKILL: "hangs"}.get(
                    status
                )
                if end:
                    place = f"{Path(done.path).relative_to(ROOT)}:{done.lines.start}"
                    print(f"{end}: {place} {done.name}: {done.text}", flush=True)
                yield done, status == 0
            if mutant is None:
                return

            numbers = reach.tests(mutant)
            functions = found[mutant.path, mutant.name, mutant.code.co_firstlineno]
            if child := os.fork():
                limit = threading.Timer(HANGS * self.wanted.seconds, kill, [child])
                running[child] = mutant, limit
                limit.start()
                continue
            silence()
            for function in functions:
                function.__code__ = mutant.code
            # Of its processor: the timer of the wall's seconds is that of each test's own timeout.
            most = self.wanted.seconds
            resource.setrlimit(resource.RLIMIT_CPU, (most, most + 5))
            ordered = sorted(numbers, key=lambda number: reach.seconds[number])
            items = [session.items[number] for number in ordered]
            for number, item in enumerate(items):
                run(item, following(items, number))
                if self.failed:
                    os._exit(1)
            os._exit(0)


def following(items: Sequence[pytest.Item], number: int) -> pytest.Item | None:
    return items[number + 1] if number + 1 < len(items) else None


def run(item: pytest.Item, following: pytest.Item | None) -> None:
    item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)


def silence() -> None:
    """Send what tests print to nowhere."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nowhere, descriptor)


def kill(process: int) -> None:
    os.kill(process, signal.SIGKILL)


def where(mutant: Mutant) -> tuple[str, int]:
    return mutant.path, mutant.lines.start


def sources(path: Path) -> list[Path]:
    return sorted(path.rglob("*.py")) if path.is_dir() else [path]


def main() -> int:
    """Read the command line, and let pytest collect."""
    parser = argparse.ArgumentParser(description=inspect.getdoc(sys.modules[__name__]), formatter_class=argparse.RawDescriptionHelpFormatter)  # fmt: skip
    parser.add_argument("files", nargs="+", help="files or folders of the product")
    parser.add_argument("--tests", nargs="+", required=True, help="files or folders of tests")
    parser.add_argument("--sample", type=int, default=60, help="how many faults to try (60)")
    parser.add_argument("--seed", type=int, default=1, help="which ones (1)")
    parser.add_argument(
        "--seconds",
        type=int,
        default=60,
        help="of processor of one trial; a fault that takes longer is noticed (60)",
    )
    parser.add_argument("--processes", type=int, default=1, help="at a time (1)")
    parser.add_argument(
        "--unreached",
        action="store_true",
        help="try faults on lines that no test reaches, too: they live",
    )
    parser.add_argument("-k", default="", help="only tests whose name fits, as pytest takes it")
    wanted = parser.parse_args()
    options = [
        "-p",
        "no:xdist",
        "-p",
        "no:randomly",
        "-m",
        "not e2e and not slow",
        "--timeout",
        "0",
        "-s",
    ]
    return pytest.main(
        [*wanted.tests, *options, *(["-k", wanted.k] if wanted.k else [])], plugins=[Trial(wanted)]
    )


if __name__ == "__main__":
    sys.exit(main())
