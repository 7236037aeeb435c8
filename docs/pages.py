"""Write the documentation of commands, settings and causes from their definitions."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator

from bot.cards.card import MISSING
from bot.grammar.line import type_name
from bot.grammar.plain.senses import load_glossary
from bot.grammar.registry import Command, commands_by_name
from bot.model.causes import CAUSES, Cause, CauseFacts
from bot.model.window import BOUNDS, GRAMMAR, write_duration
from bot.policy.schema import SETTINGS, Setting
from detectors.numbers import CONSTANTS
from detectors.rule import SIGNS


def index_page() -> str:
    """Return bot/grammar/commands.csv, the table of all commands, from those that are imported."""
    written = io.StringIO()
    writer = csv.writer(written, lineterminator="\n")
    writer.writerow(["name", "module", "topic", "hidden", "aliases", "example", "summary"])
    for entry in commands_by_name(hidden=True):
        module, topic = entry.handler.__module__, entry.topic.name
        hidden, aliases = "yes" if entry.hidden else "", " ".join(entry.aliases)
        example = entry.examples[0] if entry.examples else entry.name
        writer.writerow([entry.name, module, topic, hidden, aliases, example, entry.summary])
    return written.getvalue()


def commands_page() -> str:
    """Return docs/commands.md."""
    every = [
        made for made in commands_by_name(hidden=True) if made.handler.__module__.startswith("bot.")
    ]
    head = [
        "# Commands",
        "",
        "Made by `make docs` from the signatures of the commands; do not edit.",
        "",
        "The same line works in Slack (`/trn …`, or a mention in a thread), in Teams, in the console and in a terminal",
        "(`trnbot …`). `cost 7d by team`, `cost window=7d by=team` and `cost 7d --by team` are one and the same. A value with",
        'spaces stands in double quotes: `tag:owner="dana x"`. `share LINE` shows the answer to everyone in the channel, '
        "`details LINE` with the notes that a message of chat folds.",
        "",
        f"A window is {GRAMMAR}:",
        f"{BOUNDS}.",
        "",
        "Plain words work too, in English, German, French, Spanish and Japanese: `what did llama cost last week?`,",
        "`kosten letzten monat nach team`. The answer says how they were read (*Read as* `cost last-week cluster=llama`), with",
        "buttons for the next nearest readings.",
        "Where that is not sure there are up to three buttons and no number; what would change something waits for a press. A",
        "line of the grammar below is never read otherwise. Words are looked up in tables of the bot: "
        "none leaves the process, unless you name a model by `TRNBOT_WORDS`.",
        "",
        "In a terminal five options go with any line: `--source recording:DIR` (or `simulator:SEED`), `--at TIME`, `--json`, "
        "`--csv`, `--markdown` (for a comment on a pull request); with `cuda FILE.py` also `--sarif`.",
    ]
    return "\n".join([*head, *(line for made in every for line in _command(made))]) + "\n"


def glossary_page() -> str:
    """Return docs/glossary.md."""
    head = [
        "# Glossary",
        "",
        'Made by `make docs`; do not edit. `help TERM` explains one of them, and so does "what is a TERM?".',
        "",
        "| term | meaning |",
        "|---|---|",
    ]
    return "\n".join([*head, *(f"| {x} | {y} |" for x, y in load_glossary().items())]) + "\n"


def settings_page() -> str:
    """Return docs/settings.md: the thresholds that admins tune."""
    head = [
        "# Thresholds",
        "",
        "Made by `make docs` from the schema; do not edit. Change them with `trnbot config set`, which previews (see",
        "[config.md](config.md)), or in the `[policy]` part of the settings file.",
        "",
        "| setting | default | from | to | meaning | source |",
        "|---|---|---|---|---|---|",
    ]
    return "\n".join([*head, *(_setting(setting) for setting in SETTINGS.values())]) + "\n"


CAUSES_BEGIN, CAUSES_END = (
    "<!-- causes: made by `make docs`, do not edit -->",
    "<!-- end of causes -->",
)
FACTS_BEGIN = "<!-- facts: made by `make docs`, do not edit below -->"


def detection_page(text: str) -> str:
    """Return docs/detection.md with its list of causes made again; the rest is written by hand."""
    before, _, rest = text.partition(CAUSES_BEGIN)
    _, _, after = rest.partition(CAUSES_END)
    rows = [
        f"| [{facts.words}](causes/{facts.cause}.md) | `{facts.cause}.on` | {facts.switch}"
        f" | {facts.about.name.lower()} | {_severity(facts)} |"
        for facts in CAUSES.values()
    ]
    head = ["| cause | switch | what it does | about | severity |", "|---|---|---|---|---|"]
    return before + "\n".join([CAUSES_BEGIN, *head, *rows, CAUSES_END]) + after


def cause_page(cause: Cause, text: str) -> str:
    """Return docs/causes/CAUSE.md: prose written by hand, then what to do, settings and rank."""
    facts = cause.facts
    prose = text.partition(FACTS_BEGIN)[0] or f"# {facts.words.capitalize()}\n\n"
    steps = [f"{n}. {step}" for n, step in enumerate(facts.suggestions, start=1)]
    settings = [
        f"| `{setting.key}` | {setting.show(setting.default)} | {setting.meaning} |"
        for setting in SETTINGS.values()
        if setting.key.partition(".")[0] == cause
    ]
    parts = [FACTS_BEGIN, ""]
    if steps:
        parts += ["## What to do", "", *steps, ""]
    parts += [
        "## Settings",
        "",
        "| setting | default | meaning |",
        "|---|---|---|",
        *settings,
        "",
        "Bounds and sources: [settings](../settings.md).",
        "",
        "## Among the causes",
        "",
        "| | |",
        "|---|---|",
        *(f"| {name} | {value} |" for name, value in _rank(facts)),
        "",
        "What each row means: [who explains whom](../detection.md#who-explains-whom).",
        "",
    ]
    return prose + "\n".join(parts)


def numbers_page() -> str:
    """Return docs/numbers.md: what the detectors weigh and compare that is no setting."""
    signs = [
        f"| `{sign.cause}` | {sign.sign.replace('_', ' ')} | {sign.weight:g}"
        f" | {sign.score or MISSING} | {sign.unless.replace('_', ' ') or MISSING}"
        f" | {sign.meaning or MISSING} | {sign.source} |"
        for sign in SIGNS
    ]
    constants = [
        f"| `{row.name}` | {row.value} | {row.meaning} | {row.source} |"
        for row in CONSTANTS.values()
    ]
    return "\n".join(
        [
            "# Numbers that are not settings",
            "",
            "What is usual is learned, and what an admin decides is a [setting](settings.md). All other",
            "numbers are in two tables, `detectors/signs.csv` and `detectors/constants.csv`, from which",
            "this page is made.",
            "",
            "## Signs of causes",
            "",
            "Each sign that is present adds its weight to its cause. The shares of the weights are the",
            "confidence and the runners-up on the card. If the weights add up to less than 1, the rest is",
            "for causes that no row knows. A sign that was not read counts as absent. The score is how",
            "strange a stretch with this sign is, `–` where the rule measures it.",
            "",
            "| cause | sign | weight | score | unless | meaning | source |",
            "|---|---|---|---|---|---|---|",
            *signs,
            "",
            "## Constants",
            "",
            "| name | value | meaning | source |",
            "|---|---|---|---|",
            *constants,
            "",
        ]
    )


def _severity(facts: CauseFacts) -> str:
    return "no alert" if facts.is_state else facts.severity.value


def _rank(facts: CauseFacts) -> Iterator[tuple[str, str]]:
    """Yield how a cause stands to the others, each fact with its name."""
    every = len(facts.explained_by) == len(CAUSES) - 1
    yield "about", facts.about.name.lower()
    yield "severity", _severity(facts)
    if facts.precedence is not None:
        yield "precedence among rules about nodes", str(facts.precedence)
    yield "muted by", "every other cause" if every else _causes(facts.explained_by)
    yield "part of a wide incident of", _causes(facts.part_of)
    yield "raised however small", "yes" if facts.however_small else "no"
    yield "usual length", write_duration(facts.lasts)


def _causes(causes: Iterable[Cause]) -> str:
    return ", ".join(f"[{cause.facts.words}]({cause}.md)" for cause in causes) or MISSING


def _command(made: Command) -> Iterator[str]:
    yield from ("", f"## {made.name}", "", made.summary)
    notes = [f"Also typed `{', '.join(made.aliases)}`."] if made.aliases else []
    notes += ["For admins."] if made.who.value == "admin" else []
    notes += ["Typed by the home page." if made.hidden else ""] if made.hidden else []
    if notes:
        yield from ("", " ".join(notes))
    if made.parameters:
        yield from ("", "| argument | is a | when left out | meaning |", "|---|---|---|---|")
        for p in made.parameters:
            left_out = (
                "needed"
                if p.arg.default is None
                else f"`{p.arg.default}`"
                if p.arg.default
                else MISSING
            )
            yield f"| `{p.word}` | {type_name(p)} | {left_out} | {p.arg.meaning} |"
    yield ""
    yield from (f"    {example}" for example in made.examples)


def _setting(setting: Setting) -> str:
    low, high = (bound or MISSING for bound in setting.bounds())
    return f"| `{setting.key}` | {setting.show(setting.default)} | {low} | {high} | {setting.meaning} | {setting.source} |"
