"""Treat the documentation as a tested artefact: nothing undocumented, nothing stale, no link that leads nowhere."""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path

import numpy as np
import pytest

from bot.answers.all import ANSWERS
from bot.grammar.line import understand
from bot.grammar.plain.ranker import load_counts
from bot.grammar.plain.senses import load_glossary
from bot.grammar.registry import COMMANDS
from bot.model.causes import Cause
from bot.policy.schema import SETTINGS
from bot.settings.keys import KEYS, SettingKey
from bot.wiring.verbs import VERBS, read_options, typed_line
from detectors.numbers import CONSTANTS
from docs.generate import counted, pages
from docs.pages import FACTS_BEGIN
from tests.cases import in_one_run

assert ANSWERS
ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
LARGEST_PICTURE, ALL_PICTURES = 250_000, 3_000_000
WORDS_AT_MOST = {"tour": 940, "aws": 780, "slack": 660, "teams": 550, "config": 500}


def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def links(page: Path) -> Iterator[str]:
    """Yield the relative links of a page, pictures included."""
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
        if not re.match(r"[a-z]+:", target):
            yield target


def headings(page: Path) -> set[str]:
    """Return the anchors of a page."""
    found = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in found}


def shell_lines(page: Path) -> Iterator[str]:
    """Yield what a page tells people to type that begins with `trnbot `."""
    for block in re.findall(
        r"^```\w*\n(.*?)^```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
    ):
        yield from (
            line.partition("  #")[0].partition(" > ")[0].strip()
            for line in block.splitlines()
            if line[:7] == "trnbot "
        )


TYPED = sorted({line for page in PAGES for line in shell_lines(page)})


@in_one_run
@pytest.mark.parametrize("name", sorted(pages()))
def test_generated_pages_are_fresh(name: str) -> None:
    assert read(name) == pages()[name], "stale: run 'make docs' and commit what changed"


def test_lines_in_plain_words_are_counted_as_they_are() -> None:
    fresh, kept = vars(counted()), vars(load_counts())
    stale = [name for name, counts in fresh.items() if not np.array_equal(counts, kept[name])]
    assert not stale, "stale: run 'make docs' and commit what changed"


@in_one_run
@pytest.mark.parametrize(
    "name", sorted({c.name for c in COMMANDS.values() if c.handler.__module__.startswith("bot.")})
)
def test_every_command_is_documented(name: str) -> None:
    assert f"\n## {name}\n" in read("docs/commands.md")


@in_one_run
def test_no_sentence_of_help_shows_marks_of_a_page_as_they_are_typed() -> None:
    told = [*(setting.meaning for setting in SETTINGS.values()), *load_glossary().values()]
    for command in COMMANDS.values():
        told += [command.summary, *(parameter.arg.meaning for parameter in command.parameters)]
    assert [sentence for sentence in told if "`" in sentence] == []


@pytest.mark.parametrize("key", sorted(SETTINGS))
def test_every_threshold_is_documented(key: str) -> None:
    assert f"| `{key}` |" in read("docs/settings.md")


@in_one_run
@pytest.mark.parametrize("key", KEYS, ids=lambda key: key.name)
def test_every_setting_is_documented_as_it_is(key: SettingKey) -> None:
    default = f"`{key.default}`" if key.default else "–"
    row = f"| `{key.variable}` | `{key.name}` | {default} | {key.meaning} |"
    assert row in read("docs/operate.md")


@in_one_run
@pytest.mark.parametrize("cause", list(Cause))
def test_every_cause_has_a_page(cause: Cause) -> None:
    """The prose is written by hand: what it means, what trnbot checks, and an alert as it reads."""
    prose, made, _ = read(f"docs/causes/{cause}.md").partition(FACTS_BEGIN)
    assert made
    for heading in ("What it means", "What trnbot checks", "Example"):
        _, _, part = prose.partition(f"\n## {heading}\n")
        assert part.strip(), f"say by hand under '{heading}'; the generated part does not"
    assert re.search(r"^> .{40}", part, re.MULTILINE), "quote an alert"


def test_no_page_is_of_a_cause_that_is_gone() -> None:
    assert {path.stem for path in (ROOT / "docs/causes").glob("*.md")} == set(Cause)


DETECTION = ("docs/detection.md", "docs/accuracy.md", *(f"docs/causes/{c}.md" for c in Cause))


@in_one_run
@pytest.mark.parametrize("page", DETECTION)
def test_settings_of_rules_exist_where_detection_names_them(page: str) -> None:
    tables = {key.partition(".")[0] for key in SETTINGS}
    named = re.findall(r"`([a-z_]+)\.([a-z_*]+)`", read(page))
    wrong = [
        f"{t}.{k}" for t, k in named if t in tables and k != "*" and f"{t}.{k}" not in SETTINGS
    ]
    assert not wrong


@in_one_run
@pytest.mark.parametrize(
    "target", re.findall(r"^([a-z0-9]+):.*## ", read("Makefile"), re.MULTILINE)
)
def test_every_make_target_is_documented(target: str) -> None:
    assert f"make {target}" in read("docs/contributing.md")


@in_one_run
@pytest.mark.parametrize("verb", sorted(VERBS))
def test_every_verb_is_documented(verb: str) -> None:
    assert f"trnbot {verb}" in read("docs/operate.md")


@in_one_run
@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for link in links(page):
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), link
        assert not anchor or anchor in headings(target), link


@in_one_run
@pytest.mark.parametrize("line", TYPED)
def test_lines_of_the_pages_can_be_typed(line: str) -> None:
    options = read_options(line.split()[1:])
    if options.verb not in VERBS:
        options.only("source", "at", "json", "csv", "config", "verbose")
        understand(typed_line(options.words), NOW)


def test_pages_do_tell_what_to_type() -> None:
    assert len(TYPED) > 10


@pytest.mark.parametrize(("page", "most"), WORDS_AT_MOST.items())
def test_a_page_for_newcomers_is_short(page: str, most: int) -> None:
    """What to do comes first; details belong in aws-reference.md, chat.md and operate.md."""
    assert len(read(f"docs/{page}.md").split()) <= most


def test_the_six_pages_for_newcomers_are_read_in_a_quarter_of_an_hour() -> None:
    pages = ["README.md", *(f"docs/{page}.md" for page in WORDS_AT_MOST)]
    assert sum(len(read(page).split()) for page in pages) <= 4_000


def test_what_comes_before_the_first_alert_is_short() -> None:
    """To install and connect, a newcomer reads README.md to the end of its first part."""
    first = read("README.md").partition("## Try it")[0]
    assert len(first.split()) <= 400


def test_pictures_are_small() -> None:
    sizes = {path.name: path.stat().st_size for path in (ROOT / "docs/pictures").glob("*.png")}
    assert sizes
    assert max(sizes.values()) < LARGEST_PICTURE
    assert sum(sizes.values()) < ALL_PICTURES


def test_every_picture_is_shown_somewhere() -> None:
    shown = {Path(link).name for page in PAGES for link in links(page)}
    assert {path.name for path in (ROOT / "docs/pictures").glob("*.png")} <= shown


def test_no_file_names_a_place_of_one_machine() -> None:
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=False
    ).stdout.decode()
    if not listed:
        pytest.skip("not a git work tree")
    places = re.compile(r"(?<![\w./-])/(?:root|home|Users|work)/\w")
    texts = [
        ROOT / name
        for name in listed.split("\0")
        if name.endswith((".py", ".md", ".toml", ".yaml", ".js", ".csv", ".sql"))
    ]
    assert not [
        p.name for p in texts if p.is_file() and places.search(p.read_text(encoding="utf-8"))
    ]


PATHS = re.compile(
    r"(?<![\w./])(?:bot|detectors|adapters|tests|benchmarks)/[\w./]*\.(?:py|csv|sql)\b"
)


@in_one_run
@pytest.mark.parametrize(
    "page",
    [page for page in PAGES if page.parent.name != "decisions"],  # those name files of their day
    ids=lambda p: str(p.relative_to(ROOT)),
)
def test_every_file_that_a_page_names_exists(page: Path) -> None:
    named = set(PATHS.findall(page.read_text(encoding="utf-8")))
    assert not sorted(path for path in named if not (ROOT / path).is_file())


def test_every_number_of_the_table_is_read_by_the_detectors_and_no_other() -> None:
    code = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "detectors").rglob("*.py"))
    asked = set(re.findall(r'(?<![.\w])(?:number|count|duration)\("([\w.]+)"\)', code))
    assert asked == set(CONSTANTS)
    assert all(row.meaning and row.source for row in CONSTANTS.values())
    assert "(numbers.md)" in read("docs/detection.md")


WALKS = "docs/architecture.md"
STEP = re.compile(r"^\d+\. \[([\w/.]+)\]\(\.\./([\w/.]+)\) `([\w.]+)`: ", re.MULTILINE)


def walks() -> dict[str, list[tuple[str, str, str]]]:
    """Return the steps of each walk through the code: the file as written, as linked, and the name that it is entered by."""
    part = read(WALKS).partition("## Three walks")[2].partition("\n## ")[0]
    titled = (section.partition("\n") for section in part.split("\n### ")[1:])
    return {title: STEP.findall(text) for title, _, text in titled}


def defined(path: str) -> set[str]:
    """Return the names that a file defines: functions, classes and constants, methods as `Class.method`."""
    found: set[str] = set()
    for node in ast.parse(read(path)).body:
        if isinstance(node, ast.Assign):
            found |= {target.id for target in node.targets if isinstance(target, ast.Name)}
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
        if isinstance(node, ast.ClassDef):
            found |= {
                f"{node.name}.{x.name}"
                for x in node.body
                if isinstance(x, ast.FunctionDef | ast.AsyncFunctionDef)
            }
    return found


@pytest.mark.parametrize("title", sorted(walks()))
def test_a_walk_leads_from_file_to_file(title: str) -> None:
    """Every step names a file, links to that very file, and enters it by a name that it defines; none goes back."""
    steps = walks()[title]
    assert len(steps) >= 7
    assert [shown for shown, _, _ in steps] == [linked for _, linked, _ in steps]
    unknown = [(path, name) for path, _, name in steps if name not in defined(path)]
    assert not unknown
    files = [path for path, _ in groupby(path for path, _, _ in steps)]
    assert len(set(files)) == len(files), "a walk goes back to a file"


def test_there_are_three_walks_and_every_step_is_read() -> None:
    part = read(WALKS).partition("## Three walks")[2].partition("\n## ")[0]
    assert len(walks()) == 3
    assert sum(map(len, walks().values())) == len(re.findall(r"^\d+\. ", part, re.MULTILINE))
