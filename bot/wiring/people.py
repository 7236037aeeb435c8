"""Give programs tokens of their own; hand out and erase what is kept of a person."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import timedelta

from adapters.store.open import open_store
from adapters.store.sql import SqlStore
from adapters.web.people import TOKENS, ProgramToken, make_token
from bot.answers.about.document import as_json
from bot.errors import WrongInput, nearest
from bot.model.money import counted
from bot.model.request import User
from bot.model.window import parse_duration
from bot.ports.work import audit
from bot.wiring.environment import settings_of, terminal_user, wall_clock
from bot.wiring.logs import audit_to
from bot.wiring.verbs import Options

_LASTS = "90d"
_LONGEST = timedelta(days=366)
_LINES = "60"
_TOKENS_MOST = 1_000


@contextmanager
def opened_store(options: Options) -> Iterator[SqlStore]:
    """Open the database of the settings, also while a bot serves with it."""
    settings = settings_of(options.values)
    audit_to(settings["audit"])
    with closing(open_store(settings.text("database_url"))) as store:
        yield store


def manage_tokens(options: Options) -> int:
    """Make a program's token, revoke one, or list them; return the exit code."""
    doing: dict[str, Callable[..., None]] = {"make": _make, "revoke": _revoke, "list": _list}
    word = options.words[1].lower() if len(options.words) > 1 else "list"
    if word not in doing:
        raise WrongInput(
            f"'tokens' takes make NAME, revoke NAME or list{nearest(word, doing, most=0)}."
        )
    names = options.words[2:]
    if len(names) != (word != "list"):
        raise WrongInput(f"'tokens {word}' takes one name, such as 'trnbot tokens {word} grafana'.")

    with opened_store(options) as store:
        doing[word](store, options, *names)
    if word != "list":
        audit(f"token {word}", "done", User(terminal_user()), name=names[0])
    return 0


def _make(store: SqlStore, options: Options, name: str) -> None:
    length = parse_duration(options.values.get("expires", _LASTS))
    if not timedelta(0) < length <= _LONGEST:
        raise WrongInput(f"A token lasts a year at most; write --expires {_LASTS}.")
    lines = options.values.get("lines", _LINES)
    if not lines.isdecimal() or not 0 < int(lines) <= 100_000:
        raise WrongInput(f"'{lines}' is not a number of lines a minute; write --lines {_LINES}.")

    now = wall_clock()
    scope = options.values.get("scope", "reader")
    token = ProgramToken("", scope, now + length, int(lines), now, terminal_user())
    print(make_token(store, name, token))


def _revoke(store: SqlStore, _: Options, name: str) -> None:
    if TOKENS.get(store, name) is None:
        raise WrongInput(
            f"There is no token '{name}'{nearest(name, TOKENS.keys(store, _TOKENS_MOST))}."
        )
    TOKENS.drop(store, name)
    print(f"{name} no longer opens anything.")


def _list(store: SqlStore, _: Options) -> None:
    for name, token in TOKENS.newest(store, _TOKENS_MOST):
        over = "over" if token.until < wall_clock() else f"until {token.until:%Y-%m-%d}"
        print(f"{name}  {token.scope}  {token.lines} lines a minute  {over}  made by {token.by}")


def manage_people(options: Options) -> int:
    """Print what is kept of a person as JSON, or erase the person; return the exit code."""
    word = options.words[1].lower() if len(options.words) > 1 else ""
    if word not in ("export", "erase") or len(options.words) != 3:
        raise WrongInput(
            "'people' takes a word and an address:"
            " trnbot people export slack:U01DANA, or trnbot people erase slack:U01DANA."
        )
    person = options.words[2]
    with opened_store(options) as store:
        if word == "export":
            print(as_json(store.kept_of(person)))
            return 0
        rows = counted(store.erase(person), "row")
    audit("people erase", "done", User(terminal_user()))
    print(
        f"{person} is 'someone' in {rows}. Messages that were sent stay in their channels, and"
        " backups and logs from before hold what they held."
    )
    return 0
