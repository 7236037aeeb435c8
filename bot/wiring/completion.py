"""Write the scripts by which a shell completes trnbot's lines.

From the registry of commands and the verbs' own options.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence

from bot.errors import WrongInput, nearest
from bot.grammar.registry import commands_by_name
from bot.settings.options import LINE_OPTIONS
from bot.wiring.surfaces import arguments_of, command_hints

Words = Mapping[str, Sequence[str]]
"""What may follow each line: "" is the empty one."""
_LINE_OPTIONS = [f"--{name}" for name in LINE_OPTIONS]


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
    arguments = {
        command.name: [*(word for word, _ in arguments_of(command)), *_LINE_OPTIONS]
        for command in commands_by_name()
    }
    options = {
        verb: sorted(set(re.findall(r"(?m)^  (--[\w-]+)", text))) for verb, text in verbs.items()
    }
    first = sorted({name.split()[0] for name in arguments} | options.keys())

    table = {"": [*first, "--help", "--version"]}
    for name in sorted(arguments.keys() | options.keys()):
        longer = _following(name, arguments)
        table[name] = [*dict.fromkeys(longer), *arguments.get(name, ()), *options.get(name, ())]
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


def _cases(table: Words) -> str:
    """Return the branches of a `case` on the words before the cursor, the longest command first."""
    rows = [
        (name, " ".join(after))
        for name, after in sorted(table.items(), key=lambda row: -len(row[0].split()))
        if name
    ]
    branches = [f'    "{name}"|"{name} "*) words="{after}" ;;' for name, after in rows]
    return "\n".join(
        [
            *branches,
            f'    "") words="{" ".join(table[""])}" ;;',
            f'    *) words="{" ".join(_LINE_OPTIONS)}" ;;',
        ]
    )


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
