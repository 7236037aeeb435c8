"""Keep the house in order: who may import whom, no platform and no clock in the bot, small files and functions."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from tests.cases import in_one_run
from tests.house.trees import nodes_of

ROOT = Path(__file__).parents[2]
SOURCES = sorted(
    p for folder in ("bot", "detectors", "adapters") for p in (ROOT / folder).rglob("*.py")
)
STANDARD = set(sys.stdlib_module_names)
ROOMS: tuple[tuple[str, ...], ...] = (
    ("bot.__main__",),
    ("bot.wiring",),
    ("bot.app",),
    ("bot.answers",),
    ("bot.grammar",),
    ("bot.watch",),
    ("bot.costs", "bot.settings"),
    ("bot.ports",),
    ("bot.policy", "bot.cards", "bot.knowledge"),
    ("bot.model",),
    ("bot.errors",),
)
"""The rooms of the bot, from the roof to the ground: each imports itself and rooms on lower floors, never a neighbour."""
FLOOR = {room: floor for floor, rooms in enumerate(ROOMS) for room in rooms}
ADAPTERS = sorted(
    p.name for p in (ROOT / "adapters").iterdir() if p.is_dir() and p.name != "__pycache__"
)
SDK = {
    "aws": {"boto3", "botocore", "numpy", "duckdb", "orjson", "pyspark", "pyarrow", "grpc"},
    "billing": {"duckdb", "numpy"},
    "chat": {"aiohttp", "numpy", "yaml"},
    "chat.slack": {"slack_bolt", "slack_sdk", "aiohttp"},
    "chat.teams": {"botbuilder", "botframework", "microsoft_agents", "aiohttp", "jwt"},
    "charts": {"markupsafe", "numpy", "resvg_py"},
    "mcp": {"mcp", "mcp_types", "aiohttp"},
    "simulator": {"numpy", "duckdb", "yaml"},
    "store": {"sqlalchemy", "alembic", "psycopg", "cryptography"},
    "terminal": set(),
    "web": {"aiohttp", "jinja2", "markupsafe", "authlib", "joserfc", "requests"},
}

PARSERS = {"bot.answers.plan.preflight": {"yaml"}}
"""A text that people write is read where it is asked about, as `tomllib` reads a policy: no I/O."""

UNDER = {"web": {"adapters.charts.svg"}}
"""The one room that lies below another adapter: the console's pages and the pictures for chats are one drawing."""


TRANSPORTS = ("chat.slack", "chat.teams")
"""They import what both share, and never each other."""


def module(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def imports(path: Path) -> Iterator[str]:
    """Yield every imported module's dotted name, hidden imports included."""
    for node in nodes_of(path):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            base = node.module or ""
            yield from (f"{base}.{alias.name}" for alias in node.names)


def within(name: str, *prefixes: str) -> bool:
    return any(name == p or name.startswith(p + ".") for p in prefixes)


def room_of(name: str) -> str:
    return next((room for room in FLOOR if within(name, room)), "")


def allowed(importer: str, name: str) -> bool:
    """Say the table of the house, once."""
    top = name.partition(".")[0]
    if top in STANDARD or top == "__future__":
        return True
    if top == "bot" and importer.partition(".")[0] == "bot":
        here, there = room_of(importer), room_of(name)
        return here == there or (there in FLOOR and FLOOR[there] > FLOOR.get(here, -1))
    if within(importer, "bot.wiring", "bot.__main__"):
        return True
    if within(importer, "bot"):
        return within(name, "numpy") or top in PARSERS.get(importer, set())
    if within(importer, "detectors"):
        return within(
            name, "bot.model", "bot.errors", "detectors", "numpy", "sklearn", "scipy", "joblib"
        )
    if within(importer, "adapters"):
        return adapter_may(importer.split("."), name, top)
    return False


def adapter_may(importer: list[str], name: str, top: str) -> bool:
    house = ("bot.model", "bot.ports", "bot.cards", "bot.errors")
    if within(name, *house):
        return True
    if len(importer) < 2 or importer[1] not in ADAPTERS:
        sdk = {"distributed"} if importer == ["adapters", "dask"] else {"apscheduler", "aiohttp"}
        return within(name, "adapters.timer") or top in {*sdk, "numpy"}
    if importer[1] == "chat":
        return chat_may(".".join(importer[1:3]), name, top)
    rooms = {f"adapters.{importer[1]}", *UNDER.get(importer[1], ())}
    return within(name, *rooms) or top in SDK[importer[1]]


def chat_may(room: str, name: str, top: str) -> bool:
    """Keep both transports apart, and what they share above neither."""
    room = room if room in TRANSPORTS else "chat"
    if top != "adapters":
        return top in SDK[room]
    owner = next((t for t in TRANSPORTS if within(name, f"adapters.{t}")), "chat")
    return owner in {"chat", room} and within(name, "adapters.chat")


@in_one_run
@pytest.mark.parametrize("path", SOURCES, ids=lambda p: str(p.relative_to(ROOT)))
def test_imports_keep_to_the_table(path: Path) -> None:
    wrong = sorted(name for name in imports(path) if not allowed(module(path), name))
    assert not wrong, f"{module(path)} may not import {wrong}"


def test_microsofts_sdks_are_imported_behind_their_seam_alone() -> None:
    """Whoever replaces one touches its file and nothing else."""
    sdks = {"botbuilder", "botframework", "msrest", "microsoft_agents"}
    importers = [
        module(path)
        for path in SOURCES
        if sdks & {name.partition(".")[0] for name in imports(path)}
    ]
    assert importers == ["adapters.chat.teams.sdk_agents", "adapters.chat.teams.sdk_botbuilder"]


BOT = [
    p
    for p in SOURCES
    if p.is_relative_to(ROOT / "bot") and not within(module(p), "bot.wiring", "bot.__main__")
]


@in_one_run
@pytest.mark.parametrize("path", BOT, ids=lambda p: str(p.relative_to(ROOT)))
def test_the_bot_reads_no_clock_and_names_no_platform(path: Path) -> None:
    nodes = nodes_of(path)
    calls = {ast.unparse(node.func) for node in nodes if isinstance(node, ast.Call)}
    clocks = calls & {
        "datetime.now",
        "datetime.utcnow",
        "time.time",
        "time.monotonic",
        "date.today",
        "datetime.today",
    }
    assert not clocks
    docs = {
        id(n.value) for n in nodes if isinstance(n, ast.Expr) and isinstance(n.value, ast.Constant)
    }
    words = [
        n.value
        for n in nodes
        if isinstance(n, ast.Constant) and isinstance(n.value, str) and id(n) not in docs
    ]
    settings = within(module(path), "bot.settings")
    names = [w for w in words if re.search(r"slack|teams|telegram", w, re.IGNORECASE)]
    assert settings or not names, f"a platform is named: {names}"


@in_one_run
@pytest.mark.parametrize("path", SOURCES, ids=lambda p: str(p.relative_to(ROOT)))
def test_nothing_is_called_helper_or_manager(path: Path) -> None:
    vague = r"(Manager|Helper|Service|Util|Utils|Common)$"
    classes = [n.name for n in nodes_of(path) if isinstance(n, ast.ClassDef)]
    assert not [name for name in classes if re.search(vague, name)]
    assert path.stem not in {"utils", "util", "common", "helpers", "manager", "service"}


def test_ports_have_at_most_four_methods() -> None:
    files = sorted((ROOT / "bot/ports").glob("*.py"))
    assert files
    for node in (node for path in files for node in nodes_of(path)):
        if isinstance(node, ast.ClassDef) and any(ast.unparse(b) == "Protocol" for b in node.bases):
            methods = [
                n for n in node.body if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)
            ]
            assert len(methods) <= 4, node.name


def test_no_mock_patch_in_tests() -> None:
    for path in (ROOT / "tests").rglob("*.py"):
        assert "mock" + ".patch" not in path.read_text(), path


def edges() -> dict[str, set[str]]:
    """Return who imports whom, late imports and those for types alone included."""
    modules = {module(path) for path in SOURCES}
    found: dict[str, set[str]] = {}
    for path in SOURCES:
        names = {name if name in modules else name.rpartition(".")[0] for name in imports(path)}
        found[module(path)] = (names & modules) - {module(path)}
    return found


def test_no_module_imports_itself_in_a_circle() -> None:
    try:
        list(TopologicalSorter(edges()).static_order())
    except CycleError as error:
        pytest.fail(f"these import each other in a circle: {' -> '.join(error.args[1])}")


def test_the_root_of_the_bot_holds_few_files() -> None:
    assert len(list((ROOT / "bot").glob("*.py"))) <= 8
