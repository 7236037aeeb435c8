"""Read the arguments of a terminal, and list its verbs that are no lines with their options."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches

from bot.cards.lines import quote
from bot.errors import WrongInput, not_known, require_known

_VALUED = frozenset(
    [
        "source",
        "at",
        "seed",
        "scenario",
        "config",
        "port",
        "period",
        "days",
        "form",
        "bill",
        "plot",
        "truth",
        "history",
        "kms",
        "wait",
        "scope",
        "expires",
        "lines",
    ]
)
_SWITCHES = frozenset(
    [
        "json",
        "csv",
        "sarif",
        "markdown",
        "verbose",
        "no-browser",
        "light",
        "keep-identities",
        "send",
        "check",
        "replace",
    ]
)
LINE_OPTIONS = ("source", "at", "json", "csv", "markdown", "config", "verbose")
"""What goes with any command line; every verb has its own."""
_CLOSE = 0.7
"""How like an option a word must be to be taken for a slip of the finger."""


@dataclass
class Options:
    """Hold the arguments of a terminal: words, options with a value, switches."""

    words: list[str] = field(default_factory=list)
    values: dict[str, str] = field(default_factory=dict)
    switches: set[str] = field(default_factory=set)

    @property
    def verb(self) -> str:
        """Return the first word, "" for none."""
        return self.words[0].lower() if self.words else ""

    def only(self, *names: str) -> None:
        """Refuse options that this verb does not know."""
        asked, known = " ".join(self.words[:1]) or "trnbot", [f"--{name}" for name in names]
        for flag in (f"--{name}" for name in (*self.values, *self.switches)):
            require_known(f"'{asked}' has no option '{flag}'", flag, known)

    def refuse_unread(self, *names: str, alone: bool = False) -> None:
        """Refuse the first `--name` that no option reads, with the nearest of a verb's own.

        After a verb that stands `alone` any word is refused.
        """
        for flag in self._flags():
            raise not_known(
                f"'{self.words[0]}' has no option '{flag}'",
                flag,
                [f"--{name}" for name in names],
                otherwise="it has none",
            )
        if alone and self.words[1:]:
            raise WrongInput(
                f"'{self.verb}' takes no word, and '{self.words[1]}' is one; "
                f"'trnbot help {self.verb}' lists its options."
            )

    def refuse_mistyped(self) -> None:
        """Refuse a `--name` that is almost an option of every line, and name that one."""
        options = [f"--{name}" for name in LINE_OPTIONS]
        for flag in self._flags():
            if close := get_close_matches(flag, options, n=1, cutoff=_CLOSE):
                raise WrongInput(f"'{flag}' is not an option; did you mean '{close[0]}'?")

    def _flags(self) -> list[str]:
        """Return the words that look like options, without their values."""
        return [word.partition("=")[0] for word in self.words if re.match("--.", word, re.DOTALL)]


def read_options(arguments: Sequence[str]) -> Options:
    """Split options of the terminal from the words of the line.

    Unknown `--name` stay with the line.
    """
    options, queue = Options(), list(arguments)
    while queue:
        word = queue.pop(0)
        name, equals, value = word.removeprefix("--").partition("=")
        if word.startswith("--") and name in _SWITCHES and not equals:
            options.switches.add(name)
        elif word.startswith("--") and name in _VALUED:
            if not equals and not queue:
                raise WrongInput(f"'--{name}' needs a value after it.")
            options.values[name] = value if equals else queue.pop(0)
        else:
            options.words.append(word)
    if options.words[:1] in (["--help"], ["-h"], ["--version"]):
        options.words[0] = "version" if options.words[0] == "--version" else "help"
    return options


def typed_line(words: Sequence[str]) -> str:
    """Return the words of a terminal as one line.

    An argument that the shell kept together stays together; one alone is the line.
    """
    if len(words) == 1 and " " in words[0]:
        return words[0]
    quoted = []
    for word in words:
        name, equals, value = word.partition("=")
        if equals and name and " " not in name:
            quoted.append(f"{name}={quote(value)}" if value else word)
        else:
            quoted.append(quote(word) if " " in word or '"' in word else word)
    return " ".join(quoted)


@dataclass(frozen=True)
class Verb:
    """Hold one verb of the terminal."""

    summary: str
    carried_out_by: str
    """`module:function`, imported when the verb runs: the servers load only to serve."""
    takes: tuple[str, ...] | None = ()
    """Its options; None where what carries it out reads and refuses options itself."""
    explanation: str = ""
    """Its options as `--help` writes them, "" where what carries it out explains itself."""
    private: bool = True
    """What it writes is for this user alone, for it is not made to be handed on."""
    alone: bool = False
    """Whether no word follows it: one that does would be a source or a port without its name."""


VERBS: Mapping[str, Verb] = {
    "connect": Verb(
        "Connect an AWS account and a chat: find, check, write the settings, send a test.",
        "bot.wiring.connect:connect",
        ("config", "wait", "no-browser", "verbose"),
        "  trnbot connect         every step; each can be taken again\n"
        "  trnbot connect slack   one step: aws, bill, slack, teams or test\n"
        "  --config FILE   the settings file to write, over TRNBOT_CONFIG (trnbot.toml)\n"
        "  --wait TIME     how long the test waits for a press (2m)\n"
        "  --no-browser    only print the addresses",
    ),
    "serve": Verb(
        "Run trnbot from the settings.",
        "bot.wiring.serve:run",
        ("source", "port", "config", "verbose"),
        "  --source SRC    aws, recording:DIR or simulator:SEED, over TRNBOT_SOURCE\n"
        "  --port N        the HTTP port, over TRNBOT_PORT\n"
        "  --config FILE   the settings file, over TRNBOT_CONFIG\n"
        "  --verbose       log more",
        alone=True,
    ),
    "demo": Verb(
        "Replay a simulated fleet (or a recording) faster than life, "
        "with the console in a browser.",
        "bot.wiring.serve:run",
        ("source", "port", "config", "verbose", "no-browser"),
        "  --source SRC    what to replay (simulator:7/story when nothing says otherwise)\n"
        "  --port N        the HTTP port, over TRNBOT_PORT\n"
        "  --no-browser    only print the console's address",
        alone=True,
    ),
    "mcp": Verb(
        "Serve every command as a tool of the Model Context Protocol, "
        "over standard input and output.",
        "bot.wiring.cli:serve_tools",
        ("source", "config", "verbose"),
        "  --source SRC    aws, recording:DIR or simulator:SEED, over TRNBOT_SOURCE\n"
        "  --config FILE   the settings file, over TRNBOT_CONFIG",
        alone=True,
    ),
    "score": Verb(
        "Score CSVs of metrics.",
        "bot.wiring.cli:score_files",
        ("plot", "truth", "history"),
        "  trnbot score IN OUT    a CSV (timestamp,value,...) into a CSV, "
        "or a folder into a folder\n"
        "  --history PATH  rows before IN (a file, or a folder of the same shape): learned from,"
        " not written"
        "\n"
        "  --plot DIR      leave a picture of each series with its score\n"
        "  --truth FILE    shade its labels in the pictures: "
        'JSON {"folder/name.csv": [[start, end], ...]}',
        private=False,
    ),
    "simulate": Verb(
        "Write a simulated recording.",
        "bot.wiring.cli:write_simulation",
        takes=None,
        private=False,
    ),
    "record": Verb(
        "Write a recording of the live account.",
        "bot.wiring.cli:record_account",
        ("days", "keep-identities", "config", "verbose"),
        "  trnbot record DIR    metrics, inventory and prices of the AWS account, "
        "into a new folder\n"
        "  --days N        how many days back (7; CloudWatch keeps minutes for 15)\n"
        "  --keep-identities   people by their names; without it, aliases stand for them",
    ),
    "manifest": Verb(
        "Write the manifests of Slack and Teams.",
        "bot.wiring.cli:write_manifests",
        ("config",),
        "  trnbot manifest [DIR]    slack.yaml and teams.zip, "
        "into manifest/ when no folder is named",
        private=False,
    ),
    "templates": Verb(
        "Write the files to deploy trnbot with: IAM policy, AWS stacks, containers, systemd.",
        "bot.wiring.cli:write_templates",
        (),
        "  trnbot templates [DIR]    into a new folder, trnbot-deploy/ when none is named",
        private=False,
    ),
    "secrets": Verb(
        "Make the key that seals stored secrets, or change it.",
        "bot.wiring.secrets:manage_secrets",
        ("kms", "config", "verbose"),
        "  trnbot secrets key       print a fresh key for TRNBOT_SECRETS_KEY\n"
        "  trnbot secrets rotate    seal every stored secret with the first key of the list\n"
        "  trnbot secrets forget    drop the stored secrets that no key of the list opens\n"
        "  --kms NAME      with key: one that this key of AWS KMS wraps (an id, ARN or alias)",
    ),
    "tokens": Verb(
        "Make, rotate, revoke and list the tokens that programs use to ask the console.",
        "bot.wiring.cli:manage_tokens",
        ("scope", "expires", "lines", "config", "verbose"),
        "  trnbot tokens make NAME      print a token, once; the database keeps its digest\n"
        "  trnbot tokens rotate NAME    print a new one, once, with the same rights and as long; the"
        " old one\n                               opens nothing from the next request on\n"
        "  trnbot tokens revoke NAME    it opens nothing from the next request on\n"
        "  trnbot tokens list           names, scopes, budgets and ends\n"
        "  --scope WORD    metrics, reader (the default), member or admin\n"
        "  --expires TIME  how long it lasts (90d; a year at most)\n"
        "  --lines N       its lines a minute (60)",
    ),
    "people": Verb(
        "Print what is kept of a person, or erase the person.",
        "bot.wiring.cli:manage_people",
        ("config", "verbose"),
        "  trnbot people export ADDRESS    as JSON: slack:U01DANA, teams:29:1x,"
        " web:dana@example.com\n"
        "  trnbot people erase ADDRESS     decisions stay, made by 'someone'",
    ),
    "backup": Verb(
        "Write the database into one file, also while a bot serves with it.",
        "bot.wiring.cli:back_up",
        ("config", "verbose"),
        "  trnbot backup FILE    a new file, of SQLite and of PostgreSQL alike",
    ),
    "restore": Verb(
        "Restore a backup in place of the database.",
        "bot.wiring.cli:restore",
        ("replace", "config", "verbose"),
        "  trnbot restore FILE    into SQLite or PostgreSQL, whichever the settings name\n"
        "  --replace       what the database holds now is dropped",
    ),
    "upgrade": Verb(
        "Show what this version would change in the database, or do it after a backup.",
        "bot.wiring.cli:upgrade",
        ("check", "config", "verbose"),
        "  trnbot upgrade --check    show it, write nothing\n"
        "  trnbot upgrade [FILE]     back up a file of SQLite, then add to its tables",
    ),
    "completion": Verb(
        "Print the script that completes trnbot's lines in a shell.",
        "bot.wiring.surfaces:write_script",
        (),
        "  trnbot completion bash    a script for bash; also zsh and fish (see docs/operate.md)",
        private=False,
    ),
    "version": Verb(
        "Print the version.",
        "bot.wiring.environment:print_version",
        (),
        "  trnbot version    the same as trnbot --version",
        private=False,
    ),
}
LINE = Verb("Answer any command line in the terminal.", "bot.wiring.terminal:answer_line", None)
"""What is carried out for words that begin with no verb."""
