"""Write the scripts by which a shell completes trnbot's lines.

From the registry of commands and the verbs' own options.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from bot.errors import WrongInput, nearest
from bot.grammar.registry import Command, commands_by_name
from bot.settings.options import LINE_OPTIONS
from bot.wiring.surfaces import arguments_of, command_hints

Words = Mapping[str, Sequence[str]]
"""What may follow each line: "" is the empty one."""


def script(shell: str, verbs: Mapping[str, str]) -> str:
    """Return the script for a shell.

    `verbs` are the explanations of the terminal's own, which name their options.
    """
    if shell not in SHELLS:
        raise WrongInput(
            f"'{shell}' is not a shell that trnbot can complete in{nearest(shell, SHELLS)}."
        )
    return SHELLS[shell](words(verbs))


def words(verbs: Mapping[str, str]) -> Words:
    """Return every word that may follow each verb and command, longer commands by their first words too."""
    command_hints()  # every command is registered
    every = {command.name: _arguments(command) for command in commands_by_name()}
    own = {
        verb: sorted(set(re.findall(r"(?m)^  (--[\w-]+)", text))) for verb, text in verbs.items()
    }
    first = sorted({name.split()[0] for name in every} | own.keys())
    table = {"": [*first, "--help", "--version"]}
    for name in sorted(every.keys() | own.keys()):
        longer = [
            other.removeprefix(f"{name} ").split()[0]
            for other in every
            if other.startswith(f"{name} ")
        ]
        table[name] = [*dict.fromkeys(longer), *every.get(name, ()), *own.get(name, ())]
    for name in every:
        table.setdefault(
            name.split()[0],
            sorted({x.split()[1] for x in every if x.startswith(f"{name.split()[0]} ")}),
        )
    return {**table, "completion": [*SHELLS]}


def _arguments(command: Command) -> list[str]:
    """Return the words that may follow a command.

    Its choices, its arguments by name, and the options of every line.
    """
    return [*(word for word, _ in arguments_of(command)), *(f"--{name}" for name in LINE_OPTIONS)]


def _cases(table: Words) -> str:
    """Return the branches of a `case` on the words before the cursor, the longest command first."""
    rows = [
        (name, " ".join(after))
        for name, after in sorted(table.items(), key=lambda row: -len(row[0].split()))
        if name
    ]
    branches = [f'    "{name}"|"{name} "*) words="{after}" ;;' for name, after in rows]
    return "\n".join(
        [*branches, f'    "") words="{" ".join(table[""])}" ;;', f'    *) words="{_options()}" ;;']
    )


def _options() -> str:
    return " ".join(f"--{name}" for name in LINE_OPTIONS)


def _bash(table: Words) -> str:
    return f"""# trnbot's completion for bash: source <(trnbot completion bash)
_trnbot() {{
  local cur words line
  cur="${{COMP_LINE:0:COMP_POINT}}"
  line="${{cur#* }}"; [ "$line" = "$cur" ] && line=""
  cur="${{line##* }}"
  line="${{line%"$cur"}}"; line="${{line%"${{line##*[! ]}}"}}"
  case "$line" in
{_cases(table)}
  esac
  COMPREPLY=($(compgen -W "$words" -- "$cur"))
  case "$cur" in *=*) COMPREPLY=("${{COMPREPLY[@]#"${{cur%%=*}}="}}") ;; esac
  case "${{COMPREPLY[0]}}" in *=) compopt -o nospace 2>/dev/null ;; esac
}}
complete -o default -F _trnbot trnbot
"""


def _zsh(table: Words) -> str:
    return f"""#compdef trnbot
# trnbot's completion for zsh: source <(trnbot completion zsh)
_trnbot() {{
  local line words_before words
  words_before=("${{(@)${{(z)LBUFFER}}[2,-1]}}")
  [[ "$LBUFFER" == *" " ]] || words_before=("${{(@)words_before[1,-2]}}")
  line="${{(j: :)words_before}}"
  case "$line" in
{_cases(table)}
  esac
  local -a found
  found=(${{=words}})
  compadd -S '' -- ${{(M)found:#*=}}
  compadd -- ${{found:#*=}}
}}
if [[ "${{funcstack[1]}}" = _trnbot ]]; then _trnbot "$@"; else compdef _trnbot trnbot; fi
"""


def _fish(table: Words) -> str:
    """Return a script whose conditions read the words typed so far: one line for each of them."""
    rows = [
        f"complete -c trnbot -f -n 'test (__trnbot_line) = \"{name}\"' -a '{' '.join(after)}'"
        for name, after in table.items()
        if after
    ]
    first = """# trnbot's completion for fish: trnbot completion fish | source
function __trnbot_line
    set -l typed (commandline -opc)
    echo (string join ' ' -- $typed[2..-1])
end"""
    return "\n".join([first, *rows]) + "\n"


SHELLS: Mapping[str, Callable[[Words], str]] = {"bash": _bash, "zsh": _zsh, "fish": _fish}
