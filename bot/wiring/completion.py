"""Write the scripts by which a shell completes trnbot's lines.

From the registry of commands and the verbs' own options.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from bot.errors import WrongInput, nearest
from bot.grammar.registry import commands_by_name
from bot.settings.options import LINE_OPTIONS, Options
from bot.wiring.surfaces import arguments_of, command_hints
from bot.wiring.verbs import VERBS

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


def write_script(options: Options) -> int:
    """Print the script for the shell that is named; return the exit code."""
    if len(options.words) != 2:
        raise WrongInput(
            f"'completion' takes the name of a shell: {', '.join(SHELLS)}; "
            "for example: trnbot completion bash."
        )
    shell = options.words[1].lower()
    if shell not in SHELLS:
        raise WrongInput(
            f"'{shell}' is not a shell that trnbot can complete in{nearest(shell, SHELLS)}."
        )

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
    return 0


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
