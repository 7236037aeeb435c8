"""Draw cards as HTML, every text escaped by the template engine, and serve the files that pages load."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any, assert_never

from aiohttp import web
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from adapters.web.links import address, download
from adapters.web.svg import COLOURS, hue, opened, svg
from bot.cards import charts as axis
from bot.cards.card import (
    Attachment,
    Block,
    Buttons,
    Card,
    Chart,
    ChartKind,
    Code,
    Facts,
    Form,
    Link,
    Mention,
    Span,
    Strong,
    Table,
    Text,
    Tone,
    When,
)
from bot.model.window import age_text
from bot.ports.chat import Story

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


_KEY = Markup('<i class="swatch {}"></i>{}')
_ADDRESS = re.compile(r"(https?://|/(?!/))[^\s\"'<>\\]*\Z", re.IGNORECASE)


class PageRenderer:
    """Draw the console's templates.

    `token` lets forms without JavaScript prove that this console made them.

    Where it is `locked`, the pages show the way out.
    """

    def __init__(self, *, token: str, title: str, locked: bool = False) -> None:
        self._env = Environment(
            loader=PackageLoader("adapters.web", "templates"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._env.globals.update(token=token, title=title, locked=locked, static=static_root())
        self._env.globals.update(card=self.card, block=self.block, when=when)
        self._env.filters.update(spans=spans, headline=_headline, ago=age_text, usd=usd, utc=utc)
        self._env.filters.update(address=address, download=download)
        self._env.tests["tabled"] = _tabled

    def tell(self, story: Callable[[], Story] | None) -> None:
        """Show a story on every page from now on."""
        self._env.globals["story_told"] = story

    def page(self, template: str, /, **values: Any) -> str:
        """Return one template filled."""
        return self._env.get_template(template).render(**values)

    def card(self, card: Card, where: str = "") -> Markup:
        """Return a card; `where` is the id of the message that its buttons answer under."""
        groups = _laid_out(_joined(card.blocks))
        return Markup(self.page("card.html", it=card, groups=groups, where=where))  # noqa: S704  # the template escapes

    def block(self, block: Block, where: str) -> Markup:
        """Return one block of a card."""
        match block:
            case Text():
                return Markup('<p class="text {}">{}</p>').format(
                    block.style.value, spans(block.spans)
                )
            case Chart():
                drawn = Markup('<figure class="{}"><figcaption>{}</figcaption>{}{}</figure>')
                return drawn.format(block.kind.value, block.title, legend(block), svg(block))
            case Attachment():
                file = Markup('<p class="text"><a class="button" href="{}" download>{}</a></p>')
                return file.format(download(block.line), block.name)
            case Facts() | Table() | Buttons() | Form():
                name = f"{type(block).__name__.lower()}.html"
                return Markup(self.page(name, it=block, where=where))  # noqa: S704  # the template escapes
            case _:
                assert_never(block)


def legend(chart: Chart) -> Markup:
    """Return the names of a stack's colours with all their letters, the largest first.

    Each opens its part.
    """
    if chart.kind is not ChartKind.BAR or not axis.named(chart):
        return Markup("")
    names = [
        opened(each.line, _KEY.format(hue(each, i), each.name or "none"))
        for i, each in enumerate(chart.series[:COLOURS])
    ]
    partial = (
        [Markup('<i class="swatch partial"></i>part of its time only')] if chart.partial else []
    )
    return Markup('<ul class="legend">{}</ul>').format(
        Markup("").join(Markup("<li>{}</li>").format(x) for x in [*names, *partial])
    )


def spans(parts: tuple[Span, ...]) -> Markup:
    """Return spans as HTML, each text escaped."""
    return Markup("").join(_span(span) for span in parts)


def _span(span: Span) -> Markup:
    match span:
        case str():
            return Markup("{}").format(span)
        case Strong(text=words):
            return Markup("<strong>{}</strong>").format(words)
        case Code(text=words):
            return Markup("<code>{}</code>").format(words)
        case When(at=at):
            return when(at)
        case Mention(name=name):
            return Markup('<span class="mention">@{}</span>').format(name)
        case Link(text=words, url=url):
            return _link(words, url)
        case _:
            assert_never(span)


def _link(words: str, url: str) -> Markup:
    """Link to web addresses and own pages alone: a script or data address stays plain text."""
    if not _ADDRESS.match(url):
        return Markup("{}").format(words)
    return Markup('<a href="{}" rel="noreferrer noopener">{}</a>').format(url, words)


def when(at: datetime, form: str = "full") -> Markup:
    """Return an instant that the page's script writes in the reader's zone.

    UTC without it and on hover.
    """
    utc = at.astimezone(UTC)
    shown = f"{utc:%H:%M} UTC" if form == "clock" else f"{utc:%Y-%m-%d %H:%M} UTC"

    html = Markup('<time datetime="{}" data-form="{}" title="{}">{}</time>')
    return html.format(
        utc.isoformat(timespec="seconds"), form, f"{utc:%Y-%m-%d %H:%M:%S} UTC", shown
    )


def utc(at: datetime) -> str:
    """Write an instant where no script can: `2026-11-20 10:25 UTC`."""
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M} UTC"


def usd(amount: Decimal | float | str) -> str:
    """Write dollars whole: `$1,083`."""
    return f"${Decimal(str(amount)):,.0f}"


def _joined(blocks: tuple[Block, ...]) -> list[Block]:
    """Put rows of buttons that follow each other into one."""
    joined: list[Block] = []
    for block in blocks:
        if isinstance(block, Buttons) and joined and isinstance(joined[-1], Buttons):
            joined[-1] = Buttons((*joined[-1].buttons, *block.buttons))
        else:
            joined.append(block)
    return joined


@dataclass
class _Group:
    """Hold blocks that stand together.

    Below each other, side by side, or with a chart beside its words.
    """

    kind: str
    blocks: list[Block]
    chart: Chart | None = None
    after: list[Block] = field(default_factory=list)


def _laid_out(blocks: list[Block]) -> list[_Group]:
    """Put tables and charts that follow each other side by side.

    The one line chart of a card beside its words.
    """
    lines = [
        i
        for i, block in enumerate(blocks)
        if isinstance(block, Chart) and block.kind is ChartKind.LINE
    ]
    if len(lines) == 1 and lines[0] and not any(isinstance(block, Form) for block in blocks):
        at = lines[0]
        chart = blocks[at]
        assert isinstance(chart, Chart)
        return [_Group("split", blocks[:at], chart, blocks[at + 1 :])]
    groups: list[_Group] = []
    for block in blocks:
        kind = "beside" if isinstance(block, Chart | Table) else "below"
        if groups and groups[-1].kind == kind:
            groups[-1].blocks.append(block)
        else:
            groups.append(_Group(kind, [block]))
    return groups


def _tabled(card: Card) -> bool:
    return card.tone is not Tone.ERROR and any(isinstance(block, Table) for block in card.blocks)


def _headline(card: Card) -> tuple[str, str]:
    """Split the title of an incident at its first dot: its state in words, and the rest.

    Other titles stay whole.
    """
    state, dot, rest = card.title.partition(" · ")
    incident = card.tone in (Tone.CRITICAL, Tone.WARNING, Tone.OVER)
    return (state, rest) if dot and incident else ("", card.title)


def plain_json(value: Any) -> Any:
    """Return health facts as JSON holds them: money as decimal strings, times as ISO 8601 UTC."""
    if isinstance(value, Mapping):
        return {str(name): plain_json(x) for name, x in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain_json(x) for x in value]
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    return value if isinstance(value, str | int | float | bool) or value is None else str(value)
