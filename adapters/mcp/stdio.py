"""Serve the tools to the program that started this process, over its standard streams."""

from __future__ import annotations

from mcp.server.stdio import stdio_server

from adapters.mcp.server import tool_server
from bot.ports.chat import ToolPorts


async def serve_stdio(ports: ToolPorts, console: str) -> None:
    """Serve until the input ends; `console` is the address of the console, "" for none."""
    server = tool_server(ports, lambda _: console)
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())
