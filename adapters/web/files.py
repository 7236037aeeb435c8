"""Serve the style sheets, the scripts and the icon where their address changes with them, so that a browser asks once."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import cache
from hashlib import sha256
from pathlib import Path

from aiohttp import web

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

_FOLDER = Path(__file__).parent / "static"
_TYPES = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
FOR_EVER = "max-age=31536000, immutable"
"""What lies at an address that names its content never changes there."""


def digest(content: bytes) -> str:
    """Return a short name of some content."""
    return sha256(content).hexdigest()[:12]


@cache
def static_root() -> str:
    """Return the address below which the files of this version lie.

    Scripts name each other relative to it.
    """
    files = sorted(path for path in _FOLDER.iterdir() if path.suffix in _TYPES)
    return f"/static/{digest(b''.join(path.read_bytes() for path in files))}"


async def static_file(request: web.Request) -> web.StreamResponse:
    """Serve one file; for ever where the address names this version, else to be asked for again."""
    name = request.match_info["name"]
    kind = _TYPES.get(Path(name).suffix)
    if kind is None or name not in {path.name for path in _FOLDER.iterdir()}:
        raise web.HTTPNotFound(text="There is no such file.\n")
    keeps = FOR_EVER if request.path == f"{static_root()}/{name}" else "no-cache"
    return web.FileResponse(
        _FOLDER / name, headers={"Content-Type": f"{kind}; charset=utf-8", "Cache-Control": keeps}
    )


def static_routes(
    guard: Callable[[Handler], Handler] = lambda handler: handler,
) -> list[web.RouteDef]:
    """Return the routes of the files, with their version and without."""
    return [
        web.get(f"/static/{path}", guard(static_file)) for path in ("{name}", "{version}/{name}")
    ]
