"""Draw cards as HTML, every text escaped by the template engine; serve the files that pages load."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from hashlib import sha256
from itertools import groupby
from pathlib import Path
from typing import Any, assert_never

from aiohttp import web
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from adapters.charts.svg import COLOURS, SHEET, Canvas, hue, svg
from adapters.web.links import ROWS, address, download
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
from bot.cards.lines import visible
from bot.cards.words import doubted
from bot.model.money import usd
from bot.model.window import age_text, utc_text
from bot.ports.chat import Story

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

_TYPES = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
_FILES = {
    path.name: path
    for path in (SHEET, *sorted((Path(__file__).parent / "static").iterdir()))
    if path.suffix in _TYPES
}
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
    return f"/static/{digest(b''.join(path.read_bytes() for path in _FILES.values()))}"


async def static_file(request: web.Request) -> web.StreamResponse:
    """Serve one file; for ever where the address names this version, else to be asked for again."""
    path = _FILES.get(request.match_info["name"])
    if path is None:
        raise web.HTTPNotFound(text="There is no such file.\n")

    keeps = FOR_EVER if request.path == f"{static_root()}/{path.name}" else "no-cache"
    return web.FileResponse(
        path,
        headers={"Content-Type": f"{_TYPES[path.suffix]}; charset=utf-8", "Cache-Control": keeps},
    )


def static_routes(
    guard: Callable[[Handler], Handler] = lambda handler: handler,
) -> list[web.RouteDef]:
    """Return the routes of the files, with their version and without."""
    return [
        web.get(path, guard(static_file)) for path in ("/static/{name}", "/static/{version}/{name}")
    ]


_CANVAS = Canvas(address=address)
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
        self._env.globals.update(
            token=token,
            title=title,
            locked=locked,
            static=static_root(),
            card=self.card,
            most=ROWS,
            block=self.block,
            when=when,
        )
        self._env.filters.update(
            spans=spans,
            headline=_headline,
            ago=age_text,
            usd=usd,
            utc=utc_text,
            address=address,
            download=download,
            doubted=doubted,
        )
        self._env.tests["tabled"] = lambda card: (
            card.tone is not Tone.ERROR and any(card.each(Table))
        )

    def tell(self, story: Callable[[], Story] | None) -> None:
        """Show a story on every page from now on."""
        self._env.globals["story_told"] = story

    def page(self, template: str, /, **values: Any) -> str:
        """Return one template filled, of it what a reader can see."""
        return visible(self._env.get_template(template).render(**values))

    def response(self, template: str, /, status: int = 200, **values: Any) -> web.Response:
        """Return one template filled, as the answer to a request."""
        return web.Response(
            status=status, text=self.page(template, **values), content_type="text/html"
        )

    def card(self, card: Card, where: str = "") -> Markup:
        """Return a card; `where` is the id of the message that its buttons answer under."""
        # Rows of buttons that follow each other are one row.
        blocks: list[Block] = []
        for block in card.blocks:
            if isinstance(block, Buttons) and blocks and isinstance(blocks[-1], Buttons):
                blocks[-1] = Buttons((*blocks[-1].buttons, *block.buttons))
            else:
                blocks.append(block)

        page = self.page("card.html", it=card, groups=_groups(blocks), where=where)
        return Markup(page)  # noqa: S704  # the template escapes

    def block(self, block: Block, where: str) -> Markup:
        """Return one block of a card."""
        match block:
            case Text():
                return Markup('<p class="text {}">{}</p>').format(
                    block.style.value, spans(block.spans)
                )
            case Chart():
                return Markup('<figure class="{}"><figcaption>{}</figcaption>{}{}</figure>').format(
                    block.kind.value, block.title, legend(block), svg(block, _CANVAS)
                )
            case Attachment():
                return Markup(
                    '<p class="text"><a class="button" href="{}" download>{}</a></p>'
                ).format(download(block.line), block.name)
            case Facts() | Table() | Buttons() | Form():
                part = Table if isinstance(block, Table) else type(block)
                name = f"{part.__name__.lower()}.html"
                return Markup(self.page(name, it=block, where=where))  # noqa: S704  # the template escapes
            case _:
                assert_never(block)


def legend(chart: Chart) -> Markup:
    """Return the names of a stack's colours with all their letters, the largest first.

    Each opens its part.
    """
    if chart.kind is not ChartKind.BAR or not axis.named(chart):
        return Markup("")

    swatch = Markup('<i class="swatch {}"></i>{}')
    items = [
        _CANVAS.opened(series.line, swatch.format(hue(series, i), series.name or "none"))
        for i, series in enumerate(chart.series[:COLOURS])
    ]
    if chart.partial:
        items.append(swatch.format("partial", "part of its time only"))

    return Markup('<ul class="legend">{}</ul>').format(
        Markup("").join(Markup("<li>{}</li>").format(item) for item in items)
    )


def spans(parts: tuple[Span, ...]) -> Markup:
    """Return spans as HTML, each text escaped."""
    drawn = Markup("")
    for span in parts:
        match span:
            case str():
                drawn += span
            case Strong(text=words):
                drawn += Markup("<strong>{}</strong>").format(words)
            case Code(text=words):
                drawn += Markup("<code>{}</code>").format(words)
            case When(at=at):
                drawn += when(at)
            case Mention(name=name):
                drawn += Markup('<span class="mention">@{}</span>').format(name)
            case Link(text=words, url=url) if _ADDRESS.match(url):
                drawn += Markup('<a href="{}" rel="noreferrer noopener">{}</a>').format(url, words)
            case Link(text=words):
                # A script or data address stays plain text.
                drawn += words
            case _:
                assert_never(span)
    return drawn


def when(at: datetime, form: str = "full") -> Markup:
    """Return an instant that the page's script writes in the reader's zone.

    UTC without it and on hover.
    """
    instant = at.astimezone(UTC)
    words = f"{instant:%H:%M} UTC" if form == "clock" else utc_text(at)
    return Markup('<time datetime="{}" data-form="{}" title="{}">{}</time>').format(
        instant.isoformat(timespec="seconds"), form, f"{instant:%Y-%m-%d %H:%M:%S} UTC", words
    )


@dataclass
class _Group:
    """Hold blocks that stand together.

    Below each other, side by side, or with a chart beside its words.
    """

    kind: str
    blocks: list[Block]
    chart: Chart | None = None
    after: list[Block] = field(default_factory=list)


def _groups(blocks: list[Block]) -> list[_Group]:
    """Put tables and charts that follow each other side by side.

    The one line chart of a card stands beside its words.
    """
    lines = [
        (i, block)
        for i, block in enumerate(blocks)
        if isinstance(block, Chart) and block.kind is ChartKind.LINE
    ]
    if len(lines) == 1 and lines[0][0] and not any(isinstance(block, Form) for block in blocks):
        index, chart = lines[0]
        return [_Group("split", blocks[:index], chart, blocks[index + 1 :])]

    runs = groupby(blocks, lambda x: "beside" if isinstance(x, Chart | Table) else "below")
    return [_Group(kind, list(run)) for kind, run in runs]


def _headline(card: Card) -> tuple[str, str]:
    """Split the title of an incident at its first dot: its state in words, and what follows.

    Other titles stay whole.
    """
    state, dot, subject = card.title.partition(" · ")
    incident = card.tone in (Tone.CRITICAL, Tone.WARNING, Tone.OVER)
    return (state, subject) if dot and incident else ("", card.title)


def plain_json(value: Any) -> Any:
    """Return health facts as JSON holds them: money as decimal strings, times as ISO 8601 UTC."""
    if isinstance(value, Mapping):
        return {str(name): plain_json(item) for name, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain_json(item) for item in value]
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    return value if isinstance(value, str | int | float | bool) or value is None else str(value)
