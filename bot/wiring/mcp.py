"""Serve the Model Context Protocol over standard streams.

Whoever started the process is the user of this terminal.
"""

from __future__ import annotations

import asyncio
import sys
from datetime import datetime

from bot.answers.registry import Command
from bot.app import App
from bot.errors import Unavailable
from bot.model.request import User
from bot.settings.options import Options
from bot.wiring.environment import settings_of, terminal_user
from bot.wiring.programs import ToolCalls, installed, tool_ports
from bot.wiring.terminal import TerminalApps


def serve_tools(options: Options) -> int:
    """Serve the tools over the standard streams until the input ends; return the exit code."""
    if not installed():
        raise Unavailable(
            "'mcp' needs the package of that protocol; install it with: pip install 'trnbot[mcp]'."
        )
    from adapters.mcp.stdio import serve_stdio

    settings = settings_of(options.values)
    apps = TerminalApps(settings, options.values.get("source", ""))

    def at_now(command: Command) -> tuple[App, datetime]:
        opened = apps.open(command)
        return opened.app, opened.now()

    async def opened(command: Command) -> tuple[App, datetime]:
        return await asyncio.to_thread(at_now, command)

    calls = ToolCalls(opened, User(terminal_user(), ""), "terminal")
    if sys.stdin.isatty():
        print(
            "trnbot waits for a program that speaks the Model Context Protocol (docs/mcp.md); Ctrl+C ends it.",
            file=sys.stderr,
        )
    asyncio.run(serve_stdio(tool_ports(calls), settings["public_url"]))
    return 0
