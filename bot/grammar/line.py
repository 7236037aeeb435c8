"""Read a typed line: one grammar for every surface, button and form."""

from __future__ import annotations

import re
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal, InvalidOperation
from typing import Any, Union, get_args, get_origin

from bot.cards.lines import DETAILS, PREFIX, filter_line, quote
from bot.errors import WrongInput, nearest, not_known, shortened
from bot.grammar.registry import Command, Parameter, find_command
from bot.model.limits import NUMBER_EXPONENT, NUMBER_LENGTH
from bot.model.request import Effect, LineWindow
from bot.model.spend import Filter
from bot.model.window import Window, parse_duration, read_moment

FILTERS = tuple[Filter, ...]
WORDS = tuple[str, ...]
_SWITCH = {"on": True, "yes": True, "true": True, "off": False, "no": False, "false": False}


@dataclass(frozen=True)
class Sizes:
    """Limit how much one line may ask for.

    Its rows and its time are limited in `bot.answers.budgets`.
    """

    words: int = 4
    """Values of a list, such as the dimensions of `by`."""
    filters: int = 20
    filter_values: int = 50
    """Values of one filter."""
    window: timedelta = timedelta(days=1_830)
    """Five years."""


SIZES = Sizes()


def convert(parameter: Parameter, text: str, now: datetime) -> Any:
    """Return the typed value of `text`; raise `WrongInput` with the argument and its right form."""
    kind = bare_type(parameter.type)
    if kind is not parameter.type and not text:
        return None  # it may be left out
    if kind not in _TYPES:
        raise TypeError(f"no reader for {kind} of '{parameter.name}'")
    try:
        value = _TYPES[kind].read(text, parameter.word, now)
    except WrongInput as error:
        error.argument = parameter.word
        raise

    choices = parameter.arg.choices
    for word in value if isinstance(value, tuple) else (value,):
        if choices and word not in choices:
            hint = nearest(str(word), filter(None, choices))
            raise WrongInput(f"'{word}' does not fit {parameter.word}{hint}.", parameter.word)
    return value


def filters_of(texts: Sequence[str]) -> tuple[Filter, ...]:
    """Read every filter of a line; raise `WrongInput` for too many."""
    if len(texts) > SIZES.filters:
        raise WrongInput(f"A line takes {SIZES.filters} filters at most; got {len(texts)}.")
    return tuple(filter_of(text) for text in texts)


def filter_of(text: str) -> Filter:
    """Read `dimension=value[,value]` or `dimension!=value`.

    Raise `WrongInput` when the dimension is missing.
    """
    name, _, value = text.partition("=")
    negated = name.endswith("!")
    name = name.removesuffix("!").lstrip("-")
    if not name:
        raise WrongInput(
            f"'{text}' is not a filter; write dimension=value, for example team=search."
        )
    values = tuple(part.strip() for part in value.split(","))
    if len(values) > SIZES.filter_values:
        raise WrongInput(
            f"A filter takes {SIZES.filter_values} values at most; {name[:40]} got {len(values)}."
        )
    return Filter(name, values, negated)


def type_name(parameter: Parameter) -> str:
    """Name the type for help and docs."""
    kind = bare_type(parameter.type)
    if parameter.arg.choices:
        return " or ".join(filter(None, parameter.arg.choices))
    if kind == FILTERS:
        return "filters"
    return _TYPES[kind].name if kind in _TYPES else getattr(kind, "__name__", str(kind))


def bare_type(kind: Any) -> Any:
    """Return the type of an argument that is given: without `| None`."""
    if get_origin(kind) not in {types.UnionType, Union}:
        return kind
    return next(part for part in get_args(kind) if part is not type(None))


def _number(text: str, name: str, _: datetime) -> Decimal:
    try:
        value = Decimal(text.strip().lstrip("$").replace(",", ""))
    except InvalidOperation:
        value = Decimal("NaN")
    if not value.is_finite():
        raise WrongInput(
            f"'{shortened(text)}' is not a number for {name}; write it like 12 or 2.5."
        )
    if len(text) > NUMBER_LENGTH or (value and abs(value.adjusted()) >= NUMBER_EXPONENT):
        limit = f"keep it within {NUMBER_LENGTH} characters and under 10^{NUMBER_EXPONENT}"
        raise WrongInput(f"'{shortened(text)}' is not a size that {name} can have; {limit}.")
    return value if value else Decimal(0)  # -0 is no number that people type


def _whole(text: str, name: str, now: datetime) -> int:
    value = _number(text, name, now)
    if value != value.to_integral_value():
        raise WrongInput(f"'{text}' is not a whole number for {name}.")
    return int(value)


def _switch(text: str, name: str, _: datetime) -> bool:
    if text.lower() not in _SWITCH:
        raise WrongInput(f"{name} is on or off; got '{text}'.")
    return _SWITCH[text.lower()]


def _list(text: str, name: str, _: datetime) -> tuple[str, ...]:
    words = tuple(part.strip() for part in text.split(",") if part.strip())
    if len(words) > SIZES.words:
        raise WrongInput(f"'{name}' takes {SIZES.words} values at most; got {len(words)}.")
    return words


def _window(text: str, _: str, now: datetime) -> Window:
    window = Window.parse(text, now)
    if window.length > SIZES.window:
        raise WrongInput(
            f"A window is {SIZES.window.days:,} days long at most; "
            f"'{text}' has {window.length.days:,}."
        )
    return window


@dataclass(frozen=True)
class _Type:
    """Hold how a type is called in help, and how its text is read, for an argument, at a time."""

    name: str
    read: Callable[[str, str, datetime], Any]


_TYPES: Mapping[Any, _Type] = {
    str: _Type("text", lambda text, _, __: text),
    int: _Type("whole number", _whole),
    float: _Type("number", lambda text, name, now: float(_number(text, name, now))),
    bool: _Type("on/off", _switch),
    Decimal: _Type("amount", _number),
    Window: _Type("window", _window),
    timedelta: _Type("duration", lambda text, _, __: parse_duration(text)),
    datetime: _Type("time", lambda text, _, now: read_moment(text, now)),
    WORDS: _Type("list", _list),
}


_QUOTES = {'"': '"', "'": "'", "\u201c": "\u201d", "\u201d": "\u201d", "\u201e": "\u201c"}
PREFIXES = {"/trn", "/trnbot", "trn", "trnbot"}
_SHARE, _DETAILS = PREFIX.strip(), DETAILS.strip()
_HELP = {"--help", "-h"}
LONGEST = 3_000


@dataclass(frozen=True)
class Word:
    """Hold one word, quotes taken off.

    `equals` is where its first unquoted `=` stands, -1 for none.
    """

    text: str
    equals: int = -1
    quoted: bool = False
    start: int = 0
    """Where it begins in its line."""

    @property
    def name(self) -> str:
        """Return the text before `=` (or `!=`), without leading dashes."""
        return self.text[: self.equals].removesuffix("!").lstrip("-") if self.equals > 0 else ""

    @property
    def value(self) -> str:
        """Return the text after `=`."""
        return self.text[self.equals + 1 :]

    @property
    def negated(self) -> bool:
        """Return whether it reads `name!=value`."""
        return self.equals > 0 and self.text[self.equals - 1] == "!"


@dataclass(frozen=True)
class CommandLine:
    """Hold the command that a line begins with and the words after it, not typed yet."""

    command: Command
    words: list[Word]
    text: str
    """The line without a bot's name, and without `share` or `details`."""
    rest: str
    """What follows the command as it was typed, its lines and quotes kept."""
    shared: bool = False
    """The answer is for everyone."""
    detailed: bool = False
    """Its details are shown."""

    @property
    def asks_help(self) -> bool:
        """Return whether the line asks how the command is used, and does nothing else."""
        return bool(self.words) and self.words[-1].text in _HELP

    @property
    def runs(self) -> Command:
        """Return the command that answers: `help` where the line asks how its own is used."""
        return find_command(["help"])[0] if self.asks_help else self.command

    @property
    def carried(self) -> CommandLine | None:
        """Return the line that this one is about, None for none or one that is not understood."""
        if not self.runs.carries:
            return None
        try:
            return read_line(self.rest)
        except WrongInput:
            return None

    @property
    def effect(self) -> Effect:
        """Return how far the line reaches."""
        return Effect.SHARES if self.shared else self.runs.effect


@dataclass(frozen=True)
class Call:
    """Hold a line understood: the command and its typed arguments."""

    command: Command
    arguments: dict[str, Any]


def split(line: str) -> list[Word]:
    """Cut a line into words; raise `WrongInput` for an open quote or an overlong line."""
    if len(line) > LONGEST:
        raise WrongInput(f"The line has {len(line)} characters; keep it under {LONGEST}.")
    return list(_words(line))


def read_line(line: str) -> CommandLine:
    """Return the command that a line means.

    Raise `WrongInput` with the nearest one where there is none.

    Guard, audit, permission, budgets and buttons all go by this, so that none of them reads a line
    otherwise.
    """
    return _command_line(line, split(line))


def understand(line: str, now: datetime) -> Call:
    """Find the command of a line and type its arguments.

    Raise `WrongInput` with the nearest right form.
    """
    return typed(read_line(line), now)


def typed(line: CommandLine, now: datetime) -> Call:
    """Type the arguments of a line; raise `WrongInput` with the nearest right form."""
    command = line.command
    if line.asks_help:
        return understand(f'help "{command.name}"', now)

    texts = _assigned(command, line.words)
    arguments: dict[str, Any] = {}
    for parameter in command.parameters:
        words = texts.get(parameter.name)
        if parameter.type == FILTERS:
            arguments[parameter.name] = filters_of(words or ())
            continue
        if words is None and parameter.arg.default is None:
            example = f", for example '{command.examples[0]}'" if command.examples else ""
            raise WrongInput(
                f"'{command.name}' needs {parameter.arg.meaning}{example}.",
                parameter.word,
            )
        text = parameter.arg.default or "" if words is None else " ".join(words)
        arguments[parameter.name] = convert(parameter, text, now)
    return Call(command, arguments)


def effect_of(line: str) -> Effect:
    """Return how far a line reaches; `NOTHING` where it means no command."""
    try:
        return read_line(line).effect
    except WrongInput:
        return Effect.NOTHING


def window_of(line: str, now: datetime) -> LineWindow | None:
    """Return the window of a line; None where its command takes none, or the line is refused."""
    try:
        parsed = read_line(line)
        arguments = typed(parsed, now).arguments
    except WrongInput:
        return None
    parameter = next((p for p in parsed.command.parameters if p.takes(Window)), None)
    if parsed.asks_help or parameter is None:
        return None

    window = arguments[parameter.name]
    for word in parsed.words:
        words = word.value if word.name == parameter.word else word.text
        try:
            names_it = Window.parse(words, now) == window
        except WrongInput:
            continue
        if names_it:
            begin = line.index(words, word.start)
            return LineWindow(window, line[:begin], line[begin + len(words) :])
    return LineWindow(window, f"{line} {parameter.word}=")


def amended(line: str, values: Mapping[str, str], filters: Sequence[Filter] = ()) -> str:
    """Return a line with other values of some arguments, "" where its command takes none of these.

    A filter takes the place of the line's own of its dimension. Where a command has no filters, it
    is the value of the argument of that name. Raises `WrongInput` for a line that is none.
    """
    parsed = read_line(line)
    parameters = {parameter.word: parameter for parameter in parsed.command.parameters}
    texts, values = _assigned(parsed.command, parsed.words), dict(values)
    conditions = next((p.name for p in parameters.values() if p.type == FILTERS), "")
    for pair in filters:
        if conditions:
            others = [
                x for x in texts.get(conditions, []) if filter_of(x).dimension != pair.dimension
            ]
            texts[conditions] = [*others, filter_line(pair)]
        elif pair.negated:
            return ""
        else:
            values[pair.dimension] = ",".join(pair.values)
    if set(values) - set(parameters) or any(p.arg.rest for p in parameters.values()):
        return ""

    texts |= {parameters[word].name: [value] for word, value in values.items()}
    words, by_position = [parsed.command.name], True
    for parameter in parameters.values():
        if parameter.name not in texts:
            by_position = by_position and parameter.arg.keyword
        elif parameter.type == FILTERS:
            words += [filter_line(filter_of(condition)) for condition in texts[parameter.name]]
        else:
            value = quote(" ".join(texts[parameter.name]))
            joint = " " if parameter.word == "by" else "="
            named = parameter.arg.keyword or not by_position
            words.append(f"{parameter.word}{joint}{value}" if named else value)
    return " ".join(words)


def attempted(line: str) -> Command | None:
    """Return the command that a line would run, None for none.

    Also where a quote is left open or the line is too long.
    """
    begun = line.lstrip()[:LONGEST]
    try:
        return _command_line(begun, list(_words(begun, open_too=True))).runs
    except WrongInput:
        return None


def _command_line(line: str, words: list[Word]) -> CommandLine:
    words = _unprefixed(words)
    begins = words[0].text.lower() if len(words) > 1 else ""
    shared, detailed = begins == _SHARE, begins == _DETAILS
    words = _unprefixed(words[1:]) if shared or detailed else words
    if not words:
        words = [Word("help", start=len(line))]
    command, after = find_command([word.text for word in words])
    arguments = words[len(words) - len(after) :]
    text = line[words[0].start :] or "help"
    typed_after = line[arguments[0].start :] if arguments else ""
    return CommandLine(command, arguments, text, typed_after, shared, detailed)


def _unprefixed(words: list[Word]) -> list[Word]:
    """Return the words after the bot's name, where they begin with it."""
    return words[1:] if words and words[0].text.lower() in PREFIXES else words


def _words(line: str, *, open_too: bool = False) -> Iterator[Word]:
    """Yield words.

    A small state machine, because quotes may stand inside a word (`reason="on leave"`).

    Raises `WrongInput` for a quote left open, unless `open_too`: the line's end closes it then.
    """
    buffer, equals, quoted, inside = "", -1, False, ""
    begun, escaped = -1, False
    for index, char in enumerate(line):
        if escaped:
            buffer, escaped = buffer + char, False
        elif inside and char == "\\":
            escaped = True
        elif inside:
            buffer, inside = (buffer, "") if char == inside else (buffer + char, inside)
        elif char in _QUOTES and (not buffer or buffer.endswith(("=", ","))):
            inside, quoted, begun = _QUOTES[char], True, index if begun < 0 else begun
        elif char.isspace():
            if begun >= 0:
                yield Word(buffer, equals, quoted, begun)
            buffer, equals, quoted, begun = "", -1, False, -1
        else:
            equals = len(buffer) if char == "=" and equals < 0 else equals
            buffer, begun = buffer + char, index if begun < 0 else begun
    if inside and not open_too:
        raise WrongInput(f"A quote is open in '{line[-60:]}'; close it with {inside}.")
    if begun >= 0:
        yield Word(buffer, equals, quoted, begun)


def _assigned(command: Command, words: list[Word]) -> dict[str, list[str]]:
    """Give each word to the parameter it names, or to the next free one in order."""
    parameters = {parameter.word: parameter for parameter in command.parameters}
    filters = next((p.name for p in command.parameters if p.type == FILTERS), None)
    takes_text = bool(command.parameters) and command.parameters[0].arg.rest
    texts: dict[str, list[str]] = {}
    queue = list(words)
    while queue:
        # The order decides: a parameter's own name comes before a filter's dimension.
        word = queue.pop(0)
        name, bare = word.name.replace("-", "_"), word.text.lstrip("-").replace("-", "_").lower()
        if name in parameters and not word.negated:
            parameter, values = parameters[name], [word.value, *_commas(word.value, queue)]
        elif filters and word.equals > 0:
            # The one parameter that is given by many words.
            texts.setdefault(filters, []).append(" ".join([word.text, *_commas(word.value, queue)]))
            continue
        elif (
            not takes_text
            and word.equals > 0
            and re.fullmatch(r"-*[a-z_-]+", word.text[: word.equals])
        ):
            raise not_known(
                f"'{command.name}' has no argument '{word.name}'", word.name, parameters
            )
        elif bare in parameters and not word.quoted and not parameters[bare].arg.rest:
            # Named without `=`: `by team`, `--by team`.
            parameter = parameters[bare]
            if not queue:
                raise WrongInput(f"'{bare}' needs a value after it ({parameter.arg.meaning}).")
            value = queue.pop(0).text
            values = [value, *_commas(value, queue)]
        elif not takes_text and word.text.startswith("--") and not word.quoted:
            raise not_known(
                f"'{command.name}' has no option '{word.text}'", word.text.lstrip("-"), parameters
            )
        else:
            parameter, values = _by_position(command, texts, word, queue)

        if parameter.name in texts:
            raise WrongInput(f"'{parameter.name}' is given twice to '{command.name}'; keep one.")
        texts[parameter.name] = values
    return texts


def _by_position(
    command: Command, texts: Mapping[str, list[str]], word: Word, queue: list[Word]
) -> tuple[Parameter, list[str]]:
    """Return the first free parameter that takes words by position, and the words for it."""
    for parameter in command.parameters:
        if parameter.arg.keyword or parameter.name in texts or parameter.type == FILTERS:
            continue
        if not parameter.arg.rest:
            return parameter, [word.text, *_commas(word.text, queue)]
        values = [word.text, *(following.text for following in queue)]
        queue.clear()
        return parameter, values
    takes = ", ".join(parameter.word for parameter in command.parameters) or "no arguments"
    raise WrongInput(f"'{word.text}' is one word too many; '{command.name}' takes {takes}.")


def _commas(value: str, queue: list[Word]) -> list[str]:
    """Take the words that go on after a comma: `team, cluster`."""
    values: list[str] = []
    while value.endswith(",") and queue:
        value = queue.pop(0).text
        values.append(value)
    return values
