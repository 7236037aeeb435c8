"""Print the house as it stands: rooms with their files and lines, the arrows between them, floors, and what a newcomer trips over.

    python -m tests.house.floors [--rooms]

A room is a folder of `bot` or `adapters` with all below it, a file that stands loose beside those folders, or the whole of
`detectors`. It stands one floor above the highest room that it imports; imports within functions and for types alone count as
well. The last line is the measure; the exit code says whether the house keeps to its goals.
"""

from __future__ import annotations

import ast
import statistics
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDERS = ("bot", "detectors", "adapters")
GOALS = {
    "files at the root of bot": 8,
    "circles": 0,
    "single importers in 100": 30,
    "functions of 6 parameters": 35,
    "'what' in 100": 5,
    "numbers in detectors": 40,
}
"""The most that each may be."""
PLAIN = {0, 1, 2, 0.5}
UNITS = {7, 8, 24, 30, 60, 100, 1e3, 3_600, 86_400, 1e6, 1e9}
"""Numbers that need no source: a half, and how many of one unit another has; 2**30 is a GiB."""
ROUNDING = 1e-3
"""What is smaller guards a division."""
WIDTH = 100


@dataclass
class Module:
    """Hold one file: what it is called, how long it is, whom it imports."""

    name: str
    path: Path
    tree: ast.Module
    imports: set[str] = field(default_factory=set)

    @property
    def room(self) -> str:
        """Return the folder or the loose file that is this file's room."""
        top, *rest = self.name.split(".")
        return "/".join([top, *rest[:1]] if top != "detectors" else [top])

    @property
    def lines(self) -> int:
        """Return the number of lines."""
        return self.path.read_text().count("\n")

    def functions(self) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
        """Yield every function, methods and inner ones included."""
        return (
            node
            for node in ast.walk(self.tree)
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        )


def read_house(root: Path = ROOT) -> dict[str, Module]:
    """Return every module of the product by its dotted name, with the modules of the product that it imports."""
    house: dict[str, Module] = {}
    for path in sorted(p for folder in FOLDERS for p in (root / folder).rglob("*.py")):
        name = ".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__")
        house[name] = Module(name, path, ast.parse(path.read_text()))
    for module in house.values():
        module.imports = {x for x in _named(module.tree, house) if x != module.name}
    return house


def _named(tree: ast.Module, house: Mapping[str, Module]) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in house)
        elif isinstance(node, ast.ImportFrom) and node.module:
            whole = (f"{node.module}.{alias.name}" for alias in node.names)
            yield from (
                name if name in house else node.module
                for name in whole
                if name in house or node.module in house
            )


def arrows(house: Mapping[str, Module]) -> Counter[tuple[str, str]]:
    """Return how many imports lead from each room to each other one."""
    pairs = ((one.room, house[name].room) for one in house.values() for name in one.imports)
    return Counter(pair for pair in pairs if pair[0] != pair[1])


def circles(edges: Mapping[str, set[str]]) -> list[list[str]]:
    """Return the groups that import each other in a circle (Tarjan's strongly connected components)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(node: str) -> None:
        index[node] = low[node] = len(index)
        stack.append(node)
        for other in sorted(edges.get(node, ())):
            if other not in index:
                visit(other)
            if other in stack:
                low[node] = min(low[node], low[other])
        if low[node] == index[node]:
            group = stack[stack.index(node) :]
            del stack[stack.index(node) :]
            found.extend([sorted(group)] if len(group) > 1 else [])

    for node in edges:
        if node not in index:
            visit(node)
    return found


def floors(rooms: Mapping[str, set[str]]) -> dict[str, int]:
    """Return each room's floor; rooms that import each other in a circle share one."""
    group = {room: tuple(circle) for circle in circles(rooms) for room in circle}
    found: dict[str, int] = {}

    def floor(room: str) -> int:
        if room not in found:
            mine = group.get(room, (room,))
            below = [
                floor(other) for one in mine for other in rooms.get(one, ()) if other not in mine
            ]
            found.update(dict.fromkeys(mine, 1 + max(below, default=0)))
        return found[room]

    for room in rooms:
        floor(room)
    return found


def measure(house: Mapping[str, Module], root: Path = ROOT) -> dict[str, int]:
    """Return the figures that have goals."""
    importers = Counter(name for module in house.values() for name in module.imports)
    first_lines = [line for module in house.values() for line in _first_lines(module)]
    return {
        "files at the root of bot": sum(
            module.path.parent == root / "bot" for module in house.values()
        ),
        "circles": len(circles({name: module.imports for name, module in house.items()})),
        "single importers in 100": round(
            100 * sum(importers[name] == 1 for name in house) / len(house)
        ),
        "functions of 6 parameters": sum(
            _parameters(f) >= 6 for module in house.values() for f in module.functions()
        ),
        "'what' in 100": round(
            100 * sum(" what " in f" {line.lower()} " for line in first_lines) / len(first_lines)
        ),
        "numbers in detectors": sum(
            len(list(numbers(module.tree)))
            for module in house.values()
            if module.room == "detectors"
        ),
    }


def numbers(tree: ast.Module) -> Iterator[ast.Constant]:
    """Yield the numbers that code compares with, reckons with or names in a module: they should be learnt, or a row of a table."""
    for statement in tree.body:
        is_name = isinstance(statement, ast.Assign | ast.AnnAssign)
        for node in ast.walk(statement):
            if is_name or isinstance(node, ast.Compare | ast.BinOp):
                inside = ast.walk(statement) if is_name else _operands(node)
                yield from (x for x in inside if isinstance(x, ast.Constant) and _is_own(x.value))
            if is_name:
                break


def _operands(node: ast.AST) -> Iterator[ast.AST]:
    """Yield what an operator stands between, without its sign."""
    for child in ast.iter_child_nodes(node):
        yield child.operand if isinstance(child, ast.UnaryOp) else child


def _is_own(value: object) -> bool:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and value not in PLAIN | UNITS and abs(value) >= ROUNDING


def report(house: Mapping[str, Module]) -> dict[str, str]:
    """Return the figures that are told and have no goal: how the house reads."""
    once, functions, statements = 0, 0, 0
    inside, blank, lines, comments, wide = 0, 0, 0, 0, 0
    for module in house.values():
        text = module.path.read_text().split("\n")
        lines += len(text)
        comments += sum(line.lstrip().startswith("#") for line in text)
        wide += sum(len(line) > WIDTH for line in text)
        statements += sum(
            isinstance(node, ast.stmt)
            and not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))
            for node in ast.walk(module.tree)
        )
        called = Counter(_named_in(module.tree))
        for function in module.functions():
            functions += 1
            body = text[function.lineno - 1 : function.end_lineno]
            inside += len(body)
            blank += sum(not line.strip() for line in body)
            private = function.name.startswith("_") and not function.name.startswith("__")
            once += private and called[function.name] == 1
    return {
        "statements": f"{statements:,}",
        "private functions called from one place": f"{once / functions:.0%} of all functions",
        "blank lines inside functions": f"{blank / inside:.1%}",
        "comment lines": f"{comments / lines:.1%}",
        f"lines over {WIDTH} columns": f"{wide / lines:.1%}",
    }


def _named_in(tree: ast.Module) -> Iterator[str]:
    """Yield every name that is read, and every attribute."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            yield node.attr
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            yield node.id


def _parameters(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    given = function.args
    return len(
        [
            x
            for x in (*given.posonlyargs, *given.args, *given.kwonlyargs)
            if x.arg not in {"self", "cls"}
        ]
    )


def _first_lines(module: Module) -> Iterator[str]:
    for node in ast.walk(module.tree):
        if isinstance(
            node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
        ) and (text := ast.get_docstring(node)):
            yield text.splitlines()[0]


def main() -> int:
    """Print the rooms, from the ground up, and the measure."""
    house = read_house()
    between = arrows(house)
    rooms: dict[str, set[str]] = {module.room: set() for module in house.values()}
    for here, there in between:
        rooms[here].add(there)
    if "--rooms" in sys.argv:
        _print_rooms(house, between, floors(rooms))
    lengths = sorted(
        (f.end_lineno or 0) - f.lineno + 1 for module in house.values() for f in module.functions()
    )
    found = measure(house)
    level = floors(rooms)
    print(
        f"{len(house)} files, {sum(m.lines for m in house.values()):,} lines; {len(rooms)} rooms on {max(level.values())} floors, ",
        end="",
    )
    print(
        f"{len(between)} arrows between rooms; functions {statistics.median(lengths):.0f} lines in the middle, longest {lengths[-1]}"
    )
    print("; ".join(f"{name} {value}" for name, value in report(house).items()))
    print("; ".join(f"{name} {value} (at most {GOALS[name]})" for name, value in found.items()))
    return 0 if all(value <= GOALS[name] for name, value in found.items()) else 1


def _print_rooms(
    house: Mapping[str, Module], between: Mapping[tuple[str, str], int], level: Mapping[str, int]
) -> None:
    inside: dict[str, list[Module]] = defaultdict(list)
    for module in house.values():
        inside[module.room].append(module)
    for room in sorted(inside, key=lambda name: (level[name], name)):
        files = inside[room]
        to = ", ".join(
            f"{there} {n}" for (here, there), n in sorted(between.items()) if here == room
        )
        print(
            f"{level[room]:>2}  {room:<22} {len(files):>3} files {sum(m.lines for m in files):>6,} lines  -> {to or '-'}"
        )


if __name__ == "__main__":
    sys.exit(main())
