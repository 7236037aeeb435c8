"""Write the documentation of commands, settings and causes from their definitions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from bot.grammar.line import type_name
from bot.grammar.registry import Command, commands_by_name
from bot.model.causes import CAUSES, Cause, CauseFacts
from bot.model.window import BOUNDS, GRAMMAR
from bot.policy.schema import SETTINGS, Setting
from detectors.constants import CONSTANTS
from detectors.nodes.drop_cause import SIGNS


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
        'spaces stands in double quotes: `tag:owner="dana x"`. `share LINE` shows the answer to everyone in the channel.',
        "",
        f"A window is {GRAMMAR}:",
        f"{BOUNDS}.",
        "",
        "Plain words work too, in English and German: `what did llama cost last week?`, `kosten letzten monat nach team`. The",
        "answer says how they were read (*Read as* `cost last-week cluster=llama`), with buttons for the next nearest readings.",
        "Where that is not sure there are up to three buttons and no number; what would change something waits for a press. A",
        "line of the grammar below is never read otherwise. Words are looked up in tables of the bot: none leaves the process.",
        "",
        "In a terminal four options go with any line: `--source recording:DIR` (or `simulator:SEED`), `--at TIME`, `--json`, "
        "`--csv`.",
    ]
    return "\n".join([*head, *(line for made in every for line in _command(made))]) + "\n"


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


def detection_page(text: str) -> str:
    """Return docs/detection.md with its part about every cause made again.

    The rest is written by hand.
    """
    before, _, rest = text.partition(CAUSES_BEGIN)
    _, _, after = rest.partition(CAUSES_END)
    head = [
        "| cause | `CAUSE.on` | about | severity | muted by | part of a wide | told however small |",
        "|---|---|---|---|---|---|---|",
    ]
    return (
        before
        + "\n".join(
            [CAUSES_BEGIN, *head, *(_cause(facts) for facts in CAUSES.values()), CAUSES_END]
        )
        + after
    )


def numbers_page() -> str:
    """Return docs/numbers.md: what the detectors weigh and compare that is no setting."""
    signs = [
        f"| `{sign.cause}` | {sign.sign.replace('_', ' ') or 'any drop'} | {sign.weight:g}"
        f" | {sign.unless.replace('_', ' ') or '–'} | {sign.meaning or '–'} | {sign.source} |"
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
            "What is usual is learnt, and what an admin decides is a [setting](settings.md). The rest",
            "stands in two tables, `detectors/nodes/drop_signs.csv` and `detectors/constants.csv`; this",
            "page is made of them.",
            "",
            "## Signs of a drop",
            "",
            "Each sign that is present adds its weight to its cause; the shares of the weights are the",
            "confidence and the runners-up on the card. A sign that was not read is not present.",
            "",
            "| cause | sign | weight | unless | meaning | source |",
            "|---|---|---|---|---|---|",
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


def _cause(facts: CauseFacts) -> str:
    every = len(facts.explained_by) == len(CAUSES) - 1
    muted_by = "every other" if every else _causes(facts.explained_by)
    severity = "no alert" if facts.is_state else facts.severity.value
    small = "yes" if facts.however_small else "–"
    about = facts.about.name.lower()
    return f"| `{facts.cause}` | {facts.switch} | {about} | {severity} | {muted_by} | {_causes(facts.part_of)} | {small} |"


def _causes(causes: Iterable[Cause]) -> str:
    return " ".join(f"`{cause}`" for cause in causes) or "–"


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
                else "–"
            )
            yield f"| `{p.word}` | {type_name(p)} | {left_out} | {p.arg.meaning} |"
    yield ""
    yield from (f"    {example}" for example in made.examples)


def _setting(setting: Setting) -> str:
    low, high = setting.bounds()
    return f"| `{setting.key}` | {setting.show(setting.default)} | {low} | {high} | {setting.meaning} | {setting.source} |"
