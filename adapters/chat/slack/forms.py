"""Draw forms as modals, and read from payloads the line that a person means, and who asks."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from typing import Any

from adapters.chat.config import Json
from adapters.chat.manifest import ASK
from adapters.chat.slack.markup import (
    INPUT,
    LABEL,
    OPTION_TEXT,
    OPTION_VALUE,
    OPTIONS,
    PLACEHOLDER,
    SECTION,
    VIEW_BLOCKS,
    VIEW_BUTTON,
    VIEW_METADATA,
    VIEW_TITLE,
    cut,
    one_line,
    plain_text,
    size,
)
from adapters.chat.slack.render import view_blocks
from bot.cards.card import Card, Field, FieldKind, Form, quiet
from bot.cards.lines import form_line
from bot.model.codec import decode
from bot.model.request import Belonging, Standing

_ON = ("true", "yes", "on")
_PICKED = "in your own time zone"
_NAME = 255
"""Characters of an action id."""
FORM, PRESS, SHOWN = "trn_form", "trn_press", "trn_shown"
"""What a modal is.

A form, the place to type a line, a card whose first button is pressed at its foot, a card to read.
"""


@dataclass(frozen=True)
class Origin:
    """Hold where a modal was opened and which line it completes, as its private metadata."""

    channel: str = ""
    thread: str = ""
    line: str = ""

    def dump(self) -> str:
        """Return the modal's private_metadata."""
        return json.dumps(asdict(self))

    @staticmethod
    def load(text: str) -> Origin:
        """Read private_metadata; raise `ValueError` when it is not ours."""
        if len(text) > VIEW_METADATA:
            raise ValueError("metadata longer than Slack keeps")
        try:
            return decode(Origin, json.loads(text))
        except RecursionError:
            raise ValueError("metadata too deep") from None


def working(name: str = "") -> Json:
    """Return the modal that stands while the answer is made.

    By its name (`external_id`) it can be found again.
    """
    blocks = [{"type": "section", "text": plain_text("Working on it …", 100)}]
    return _view(SHOWN, "trnbot", blocks, **({"external_id": name} if name else {}))


def answer_view(card: Card, origin: Origin) -> Json:
    """Return the modal for an answer.

    Its form to fill in, else the card to read, its main button at the foot.
    """
    form = next(card.each(Form), None)
    if form is not None:
        around = tuple(block for block in card.blocks if not isinstance(block, Form))
        return form_view(form, Card(card.title, card.tone, around), origin)

    main = card.primary
    if main is None or len(metadata := replace(origin, line=main.line).dump()) > VIEW_METADATA:
        return _view(SHOWN, card.title, _under(card.title, card), private_metadata=origin.dump())

    # Not every client sends a button inside: the main one becomes the modal's own.
    inside = card.without_buttons(lambda button: button == main)
    body = _under(card.title, Card(card.title, card.tone, inside.blocks))
    submit = plain_text(main.text, VIEW_BUTTON)
    return _view(PRESS, card.title, body, private_metadata=metadata, submit=submit)


def form_view(form: Form, around: Card, origin: Origin) -> Json:
    """Return a form as a modal, the card's other blocks above its inputs."""
    metadata = replace(origin, line=form.line).dump()
    if len(metadata) > VIEW_METADATA:
        refusal = quiet("This form's line is too long for Slack; type the command instead.")
        return _view(SHOWN, form.title, view_blocks(Card(form.title, blocks=(refusal,))))

    inputs = [_input(field) for field in form.fields]
    above = _under(form.title, around)[: max(0, VIEW_BLOCKS - len(inputs))] if around.blocks else []
    blocks = [*above, *inputs][:VIEW_BLOCKS] or [
        {"type": "section", "text": plain_text(form.title, SECTION)}
    ]
    submit = plain_text(form.submit, VIEW_BUTTON)
    return _view(FORM, form.title, blocks, private_metadata=metadata, submit=submit)


def _under(title: str, card: Card) -> list[Json]:
    """Return a card's blocks for a window of this title.

    It is not said twice where the window shows it whole.
    """
    blocks = view_blocks(card)
    same = one_line(card.title) == one_line(title)
    return blocks[1:] if same and size(title) <= VIEW_TITLE and len(blocks) > 1 else blocks


def ask_view(example: str, typed: str, origin: Origin) -> Json:
    """Return the modal of the shortcuts, where a line is typed."""
    field = Field(
        "line",
        "What do you want to know?",
        value=typed,
        hint=f"For example: {example}",
        required=True,
    )
    submit = plain_text("Ask", VIEW_BUTTON)
    return _view(ASK, "Ask trnbot", [_input(field)], private_metadata=origin.dump(), submit=submit)


def submitted_line(view: Mapping[str, Any]) -> tuple[str, Origin]:
    """Return the line a submitted modal stands for, and where it was opened.

    Raise `ValueError` for another app's, and for more or longer values than people can fill in.
    """
    origin = Origin.load(view.get("private_metadata") or "null")
    values = (view.get("state") or {}).get("values") or {}
    filled = {name: _value(state) for block in values.values() for name, state in block.items()}
    if len(filled) > VIEW_BLOCKS or any(
        len(name) > _NAME or len(value) > INPUT for name, value in filled.items()
    ):
        raise ValueError("more than a modal of ours holds")

    is_typed = view.get("callback_id") == ASK
    line = filled.get("line", "").strip() if is_typed else form_line(origin.line, filled)
    return line, origin


def _value(state: Mapping[str, Any]) -> str:
    """Return the value of one input as a person would type it, "" for an empty one."""
    if state.get("type") == "checkboxes":
        return "on" if state.get("selected_options") else "off"
    if picked := state.get("selected_date_time"):
        return f"{datetime.fromtimestamp(int(picked), UTC):%Y-%m-%d %H:%M}"
    if person := state.get("selected_user"):
        return f"slack:{person}"
    chosen = state.get("selected_option")
    return str((chosen or {}).get("value") or state.get("value") or "").strip()


def blamed_input(view: Mapping[str, Any], argument: str) -> str:
    """Return the block id of the input that fills an argument, else of the first one.

    "" when there is none.
    """
    inputs = [
        str(block["block_id"])
        for block in view.get("blocks", [])
        if block.get("type") == "input" and "block_id" in block
    ]
    return argument if argument in inputs else next(iter(inputs), "")


def _view(callback: str, title: str, blocks: list[Json], **parts: Any) -> Json:
    """Return a modal, with other `parts` of it under Slack's names."""
    return {
        "type": "modal",
        "callback_id": callback,
        "title": plain_text(title, VIEW_TITLE),
        "close": plain_text("Close", VIEW_BUTTON),
        "blocks": blocks,
        **parts,
    }


def _input(field: Field) -> Json:
    """Return one input; its block id and action id are the argument's name."""
    label = field.label or field.name
    drawn: Json = {
        "type": "input",
        "block_id": field.name,
        "label": plain_text(label, min(LABEL, 150)),
        "element": {"action_id": field.name, **_element(field, label)},
        "optional": not field.required or field.kind is FieldKind.SWITCH,
    }
    if hint := _PICKED if field.kind is FieldKind.WHEN else field.hint:
        drawn["hint"] = plain_text(hint, min(LABEL, 500))
    return drawn


def _element(field: Field, label: str) -> Json:
    """Return the element to fill in.

    A choice without usable options is a text, so that it can still be answered.
    """
    choose = plain_text("Choose", PLACEHOLDER)
    match field.kind:
        case FieldKind.TEXT | FieldKind.NUMBER:
            # A number_input would refuse `70%`, `$5,000` and `2h`; the command knows better.
            initial = {"initial_value": cut(field.value, INPUT)} if field.value else {}
            return {"type": "plain_text_input", **initial}
        case FieldKind.WHEN:
            return {"type": "datetimepicker"}
        case FieldKind.PERSON:
            return {"type": "users_select", "placeholder": choose}
        case FieldKind.SWITCH:
            on = _option("on", label)
            checked = {"initial_options": [on]} if field.value.lower() in _ON else {}
            return {"type": "checkboxes", "options": [on], **checked}
        case FieldKind.CHOICE:
            options = [
                _option(value, name or value)
                for value, name in field.options
                if 0 < len(value) <= OPTION_VALUE
            ][:OPTIONS]
            if not options:
                return {"type": "plain_text_input"}
            chosen = [option for option in options if option["value"] == field.value]
            picked = {"initial_option": chosen[0]} if chosen else {}
            return {"type": "static_select", "options": options, "placeholder": choose, **picked}


def _option(value: str, label: str) -> Json:
    return {"text": plain_text(label, OPTION_TEXT), "value": value}


_LINK = re.compile(r"<(?:https?://[^|<>]*|mailto:[^|<>]*|#\w+|!\w+)\|([^<>]*)>")
_URL = re.compile(r"<((?:https?://|mailto:)[^|<>]*)>")
_USER = re.compile(r"<@([UW]\w+)(?:\|[^<>]*)?>")
_FIRST_USER = re.compile(r"\s*<@[UW]\w+(?:\|[^<>]*)?>[\s,:]*")
_PARSER_PICKED = re.compile(r"(?<![\w:/])slack:([UW][A-Z0-9]+)(?![\w/])")
_QUOTES = str.maketrans({"“": '"', "”": '"', "„": '"', "‘": "'", "’": "'", "\u00a0": " "})
_LONGEST_LINE = 3_000
_LONGEST_TYPED = 4 * _LONGEST_LINE
"""Slack's escapes and addresses are longer than what they stand for.

No pattern sees more than this.
"""


@dataclass(frozen=True)
class Claim:
    """Hold who asks from where, as a payload says it.

    `private` answers are shown to them alone unless the card is public.
    """

    user: str
    name: str = ""
    channel: str = ""
    thread: str = ""
    response_url: str = ""
    private: bool = True
    pressed_share: bool = False
    """The person pressed Share on a message only they see: it is taken away once it is shared."""
    team: str = ""
    """The workspace or organization of the person, where the payload names one."""
    shared: bool | None = None
    """The channel is shared with another organization, None where the payload does not say."""


@dataclass(frozen=True, kw_only=True)
class Requester(Claim):
    """Hold who asks from where, and how they belong."""

    belonging: Belonging
    address: str
    """The person's own: `slack:U01ALICE`, `slack:T0456/U01BOB`."""
    email: str = ""

    @property
    def stranger(self) -> bool:
        """Return whether the person is of no organization that is served, or nobody can tell."""
        return self.belonging.standing is Standing.STRANGER

    @property
    def among_people(self) -> bool:
        """Return whether others read where the person asks: a direct message is of one."""
        return bool(self.channel) and not self.channel.startswith("D")


def parse_line(text: str) -> str:
    """Return the line: Slack's escapes undone, typographic quotes and dashes as on a keyboard.

    `help` when empty.
    """
    plain = _USER.sub(r"slack:\1", _URL.sub(r"\1", _LINK.sub(r"\1", text[:_LONGEST_TYPED])))
    plain = plain.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&").translate(_QUOTES)
    plain = re.sub(r"(^|\s)[—–](?=[a-z])", r"\1--", plain)
    return " ".join(plain.split())[:_LONGEST_LINE] or "help"


def with_workspace(line: str, prefix: str) -> str:
    """Return the line with each person as one of the workspace whose addresses begin so."""
    return _PARSER_PICKED.sub(rf"slack:{prefix}\1", line) if prefix else line


def without_mention(text: str) -> str:
    """Return the text after the mention of the bot it begins with."""
    first = _FIRST_USER.match(text[:_LONGEST_TYPED])
    return text[first.end() :] if first else text


def is_person(event: Json) -> bool:
    """Return whether a person wrote a message just now.

    Bots, edits and deletions carry a subtype or a bot's id.
    """
    return (
        bool(event.get("user"))
        and not event.get("bot_id")
        and event.get("subtype") in (None, "file_share")
    )


def parse_claim(body: Json, channel: str, *, thread: str = "", private: bool = True) -> Claim:
    """Return who asks by a command, press or modal."""
    user = body.get("user") or {}
    return Claim(
        str(body.get("user_id") or user.get("id") or ""),
        one_line(str(body.get("user_name") or user.get("username") or user.get("name") or "")),
        str(channel or ""),
        str(thread or ""),
        str(body.get("response_url") or ""),
        private,
        team=str(user.get("team_id") or body.get("team_id") or ""),
    )


def parse_presser(body: Json) -> Claim:
    """Return who pressed, in the thread where the button stands.

    A modal names where it was opened; App Home and views of another time name nowhere.
    """
    container, message = body.get("container") or {}, body.get("message") or {}
    channel = (body.get("channel") or {}).get("id") or container.get("channel_id", "")
    thread = container.get("thread_ts") or message.get("thread_ts", "")
    if view := body.get("view"):
        origin = Origin()
        with suppress(ValueError, TypeError):
            origin = Origin.load(view.get("private_metadata") or "{}")
        channel, thread = origin.channel, origin.thread
    return parse_claim(body, channel, thread=thread)


def parse_author(body: Json, thread: str = "") -> Claim:
    """Return who caused an event: wrote a message, opened App Home."""
    event = body.get("event") or {}
    shared = body.get("is_ext_shared_channel")
    return Claim(
        str(event.get("user") or ""),
        channel=str(event.get("channel") or ""),
        thread=str(thread or ""),
        private=False,
        team=str(event.get("user_team") or event.get("source_team") or ""),
        shared=shared if isinstance(shared, bool) else None,
    )
