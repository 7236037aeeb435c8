"""Join settings and the chat platforms.

The surfaces that are configured, the commands that they announce, and those that a shell completes;
and the people of a demonstration, who act as a surface's own do.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Protocol

from adapters.chat.config import SlackConfig, TeamsConfig, TeamsSdk
from bot.answers.alerts.alerts import WHICH
from bot.app import App
from bot.cards.card import Code, quiet
from bot.errors import WrongInput, require_known
from bot.grammar.registry import Command, Topic, commands_by_name
from bot.model.notification import Delays
from bot.model.request import LOCAL, Request
from bot.model.spend import Filter
from bot.ports import ChatPorts, CommandHint, Listener, People, Surface, Tell
from bot.ports.chat import Story
from bot.settings.settings import Settings
from bot.watch.story import MEI, NOTHING_SEEN, Line, Seen
from bot.watch.tick import TickResult
from bot.wiring.verbs import LINE_OPTIONS, VERBS, Options

SOURCE = "simulator:7/story"
"""What a demonstration replays where nothing else is said."""
STORY_SHOWN = timedelta(hours=2, minutes=45)
"""How much of the recording's end the story takes: 83 seconds at the speed of a demonstration."""
ADMINS = (MEI.id,)
MADE_UP = (
    "Simulated: the fleet, its bill, and the people named here. "
    "Alerts, dollars and answers are what trnbot makes of them."
)
_CHANNEL = "alerts"
log = logging.getLogger("trnbot.story")


class ChatSurface(Surface, Listener, People, Protocol):
    """Post to people, listen to them, and know their groups, on one chat platform."""

    @property
    def delays(self) -> Delays:
        """Return how long the platform makes messages wait."""


def chats(settings: Settings, ports: ChatPorts, tell: Tell) -> dict[str, ChatSurface]:
    """Return the chat surfaces that are configured, by name."""
    # Each platform's library loads only where it is configured.
    surfaces: dict[str, ChatSurface] = {}
    if settings.slack:
        from adapters.chat.slack.surface import SlackSurface

        config = SlackConfig(
            bot_token=settings.text("slack.bot_token"),
            app_token=settings.text("slack.app_token"),
            signing_secret=settings.text("slack.signing_secret"),
            api_url=settings.text("slack.api_url"),
            client_id=settings.text("slack.client_id"),
            client_secret=settings.text("slack.client_secret"),
            workspaces=tuple(settings["slack.workspaces"]),
            public_url=settings["public_url"],
        )
        surfaces["slack"] = SlackSurface(config, ports)
    if settings.teams:
        from adapters.chat.teams.surface import TeamsSurface

        surfaces["teams"] = TeamsSurface(teams_config(settings), ports, tell)
    return surfaces


def teams_config(settings: Settings) -> TeamsConfig:
    """Return the configuration of the Teams app."""
    return TeamsConfig(
        app_id=settings.text("teams.app_id"),
        app_password=settings.text("teams.app_password"),
        tenant_id=settings.text("teams.tenant_id"),
        development=settings["teams.development"],
        tenants=tuple(settings["teams.tenants"]),
        sdk=TeamsSdk(settings["teams.sdk"]),
    )


def command_hints() -> tuple[CommandHint, ...]:
    """Return every command that people type, for hints and manifests."""
    return tuple(
        CommandHint(
            command.name,
            command.summary,
            command.examples[0],
            command.changes,
            command.topic.value,
            list(Topic).index(command.topic),
            # Outside of an alert's thread the alert must be named.
            needed=any(
                parameter.arg.default is None or parameter.arg.meaning == WHICH.meaning
                for parameter in command.parameters
            ),
            examples=command.examples,
            arguments=tuple(arguments_of(command)),
        )
        for command in commands_by_name()
    )


def arguments_of(command: Command) -> list[tuple[str, str]]:
    """Return the words that may follow a command, each with its meaning.

    Its choices, then its arguments by name.
    """
    choices: list[tuple[str, str]] = []
    named: dict[str, str] = {}
    for parameter in command.parameters:
        described = parameter.arg
        if not described.keyword:
            choices += [(word, described.meaning) for word in filter(None, described.choices)]
        if not described.rest and not parameter.takes(Filter):
            values = (described.choices if described.keyword else ()) or ("",)
            named |= {f"{parameter.word}={value}": described.meaning for value in values}
    return [*choices, *named.items()]


_LINE_OPTIONS = [f"--{name}" for name in LINE_OPTIONS]
_BASH = r"""# trnbot's completion for bash: source <(trnbot completion bash)
_trnbot() {
  local cur words line
  cur="${COMP_LINE:0:COMP_POINT}"
  line="${cur#* }"; [ "$line" = "$cur" ] && line=""
  cur="${line##* }"
  line="${line%"$cur"}"; line="${line%"${line##*[! ]}"}"
  case "$line" in
@WORDS@
  esac
  COMPREPLY=($(compgen -W "$words" -- "$cur"))
  case "$cur" in *=*) COMPREPLY=("${COMPREPLY[@]#"${cur%%=*}="}") ;; esac
  case "${COMPREPLY[0]}" in *=) compopt -o nospace 2>/dev/null ;; esac
}
complete -o default -F _trnbot trnbot
"""
_ZSH = r"""#compdef trnbot
# trnbot's completion for zsh: source <(trnbot completion zsh)
_trnbot() {
  local line words_before words
  words_before=("${(@)${(z)LBUFFER}[2,-1]}")
  [[ "$LBUFFER" == *" " ]] || words_before=("${(@)words_before[1,-2]}")
  line="${(j: :)words_before}"
  case "$line" in
@WORDS@
  esac
  local -a found
  found=(${=words})
  compadd -S '' -- ${(M)found:#*=}
  compadd -- ${found:#*=}
}
if [[ "${funcstack[1]}" = _trnbot ]]; then _trnbot "$@"; else compdef _trnbot trnbot; fi
"""
_FISH = """# trnbot's completion for fish: trnbot completion fish | source
function __trnbot_line
    set -l typed (commandline -opc)
    echo (string join ' ' -- $typed[2..-1])
end
@WORDS@
"""
SHELLS: Mapping[str, str] = {"bash": _BASH, "zsh": _ZSH, "fish": _FISH}
"""The script for each shell, in which what may follow each line stands for @WORDS@."""


def write_script(options: Options) -> None:
    """Print the script for the shell that is named."""
    if len(options.words) != 2:
        raise WrongInput(
            f"'completion' takes the name of a shell: {', '.join(SHELLS)}; "
            "for example: trnbot completion bash."
        )
    shell = options.words[1].lower()
    require_known(f"'{shell}' is not a shell that trnbot can complete in", shell, SHELLS)

    table = words()
    if shell == "fish":
        lines = [
            f"complete -c trnbot -f -n 'test (__trnbot_line) = \"{name}\"' -a '{' '.join(after)}'"
            for name, after in table.items()
            if after
        ]
    else:
        # The branches of a `case` on the words before the cursor, the longest command first.
        commands = sorted(filter(None, table), key=lambda name: -len(name.split()))
        lines = [
            *(f'    "{x}"|"{x} "*) words="{" ".join(table[x])}" ;;' for x in commands),
            f'    "") words="{" ".join(table[""])}" ;;',
            f'    *) words="{" ".join(_LINE_OPTIONS)}" ;;',
        ]
    print(SHELLS[shell].replace("@WORDS@", "\n".join(lines)), end="")


def words() -> Mapping[str, Sequence[str]]:
    """Return every word that may follow each verb and command, "" being the empty line.

    Commands of several words are found by their first words too.
    """
    command_hints()  # every command is registered
    arguments = {
        command.name: [*(word for word, _ in arguments_of(command)), *_LINE_OPTIONS]
        for command in commands_by_name()
    }
    options = {
        name: sorted(set(re.findall(r"(?m)^  (--[\w-]+)", verb.explanation)))
        for name, verb in VERBS.items()
    }
    first = sorted({name.split()[0] for name in arguments} | options.keys())

    table = {"": [*first, "--help", "--version"]}
    for name in sorted(arguments.keys() | options.keys()):
        longer = _following(name, arguments)
        table[name] = [*dict.fromkeys(longer), *arguments.get(name, ()), *options.get(name, ())]
    # A group of commands, such as `migration`, is no command itself.
    for name in arguments:
        group = name.split()[0]
        table.setdefault(group, sorted(set(_following(group, arguments))))
    return {**table, "completion": [*SHELLS]}


def _following(name: str, commands: Iterable[str]) -> list[str]:
    """Return the next word of each command that begins with these words and is longer."""
    begun = f"{name} "
    return [
        command.removeprefix(begun).split()[0] for command in commands if command.startswith(begun)
    ]


def tells(source: str) -> bool:
    """Return whether a source holds the story."""
    return re.fullmatch(r"simulator:\d+/story", source) is not None


class StoryTeller:
    """Follow the ticks of a story, and act for its people as a surface acts for its own."""

    app: App
    surface: Surface
    """Where everyone reads; both are named before the first tick."""

    def __init__(self, again: Callable[[], None] | None) -> None:
        self.again = again
        self._seen = NOTHING_SEEN
        self._typing: asyncio.Task[None] | None = None
        self._typed: set[str] = set()
        self._end = False

    def told(self) -> Story:
        """Return the story as it stands."""
        return Story(
            MADE_UP,
            self._seen.chapters(),
            self._seen is not NOTHING_SEEN,
            self._end,
            self.again is not None,
        )

    async def ticked(self, result: TickResult, *, last: bool) -> None:
        """Note what a tick has seen, and let a person act on it, one line at a time."""
        if self._seen is NOTHING_SEEN:
            grace = self.app.ports.site.base.duration("compiling.grace")
            self._seen = Seen(result.reading.now, result.reading.now, grace)
        self._seen = self._seen.after(result)
        self._end = last
        line = self._seen.next_line()
        if line and line.text not in self._typed and (self._typing is None or self._typing.done()):
            self._typed.add(line.text)
            self._typing = asyncio.create_task(self._type(line), name="story")

    async def _type(self, line: Line) -> None:
        """Have a line answered as the console does, and show the answer where everyone reads it."""
        request = Request(line.text, line.by, self._seen.now, "web", LOCAL, f"web:{_CHANNEL}")
        try:
            card = await self.app.answer(request)
            if error := card.data.get("error"):
                log.warning("%s typed '%s', and was refused: %s", line.by.name, line.text, error)
            elif card.public and line.by is MEI:
                typed = quiet(f"{line.by.name} typed ", Code(line.text))
                await self.surface.post(_CHANNEL, replace(card, blocks=(typed, *card.blocks)), "")
                self._seen = replace(self._seen, preview=card.title)
        except Exception:
            log.exception("what a simulated person typed was not shown")
