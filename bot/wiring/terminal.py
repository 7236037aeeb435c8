"""Open the bot for the lines of one terminal.

Each command with the source and the stores that it needs, and no more.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import Enum, auto
from threading import Lock

from bot.answers.registry import Command, Needs
from bot.app import App
from bot.errors import Unavailable
from bot.ports import Stores
from bot.settings.settings import Settings
from bot.wiring.build import stores_in, terminal_app
from bot.wiring.environment import wall_clock
from bot.wiring.lazy import Once
from bot.wiring.source import OpenedSource, memory_stores


class _Keeps(Enum):
    """Name where a command finds its state."""

    REPLAY = auto()
    """In a replay of the source, up to the time asked about."""
    NOTHING = auto()
    """Nowhere: there is no database yet."""
    DATABASE = auto()


@dataclass(frozen=True)
class OpenedApp:
    """Hold the bot as one command needs it."""

    app: App
    source: OpenedSource
    needs: Needs

    def now(self) -> datetime:
        """Return the time that "now" means for the command.

        The end of a recording, else that of the wall.
        """
        return (
            self._end() if self.needs.watched and not self.source.live else None
        ) or wall_clock()

    def _end(self) -> datetime | None:
        """Return the end of the source; None where nothing of it need be readable, and nothing is."""
        try:
            return self.source.end()
        except Unavailable:
            if Needs.SOURCE in self.needs:
                return None
            raise


class TerminalApps:
    """Open the bot for commands, and keep it for the next command of its kind."""

    def __init__(self, settings: Settings, named: str) -> None:
        self._settings = settings
        self._named = named
        """The source that the call itself names, "" for that of the settings."""
        self._database = Once(self._open_database)
        self._kept: dict[tuple[str, _Keeps], tuple[App, OpenedSource]] = {}
        self._lock = Lock()

    def open(self, command: Command) -> OpenedApp:
        """Return the bot for a command; may block."""
        settings, needs = self._settings, command.needs
        watches = needs.watched and Needs.SOURCE not in needs
        source = settings.source if watches else self._named or settings["source"]
        with self._lock:
            keeps = self._keeps(command)
            if (source, keeps) not in self._kept:
                console = "" if self._named else settings["public_url"]
                self._kept[source, keeps] = terminal_app(
                    settings, source, self._stores(keeps), console
                )
            app, opened = self._kept[source, keeps]
            if keeps is _Keeps.REPLAY and opened.live:  # a replay is of one time
                del self._kept[source, keeps]
        return OpenedApp(app, opened, needs)

    def _keeps(self, command: Command) -> _Keeps:
        """Return where a command finds its state.

        A named source is not the one whose watch the database remembers: a replay tells its state.
        A command that only reads makes no database.
        """
        needs = command.needs
        if Needs.DATABASE not in needs and (
            self._named or Needs.STATE not in command.opens or not needs.watched
        ):
            return _Keeps.REPLAY
        from adapters.store.open import file_of, read_address

        address = read_address(self._settings.text("database_url"))
        missing = address.drivername == "sqlite" and not file_of(address).exists()
        return _Keeps.NOTHING if missing and not command.changes else _Keeps.DATABASE

    def _stores(self, keeps: _Keeps) -> Stores | None:
        match keeps:
            case _Keeps.REPLAY:
                return None
            case _Keeps.NOTHING:
                return memory_stores()
            case _Keeps.DATABASE:
                return self._database()

    def _open_database(self) -> Stores:
        from adapters.store.open import open_store

        return stores_in(open_store(self._settings.text("database_url")))
