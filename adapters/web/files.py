"""Serve the files of the console's pages."""

from __future__ import annotations

from pathlib import Path

from aiohttp import web

_STATIC = Path(__file__).parent / "static"
_TYPES = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}


async def static_file(request: web.Request) -> web.StreamResponse:
    """Serve the style sheets, the scripts and the icon."""
    name = request.match_info["name"]
    kind = _TYPES.get(Path(name).suffix)
    if kind is None or name not in {path.name for path in _STATIC.iterdir()}:
        raise web.HTTPNotFound(text="There is no such file.\n")
    return web.FileResponse(_STATIC / name, headers={"Content-Type": f"{kind}; charset=utf-8", "Cache-Control": "no-cache"})
