"""Answer with changes that would save money, and remember how people decided about them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import Decimal
from enum import StrEnum

from bot.answers.plan.candidates import candidates
from bot.cards.card import (
    Block,
    Button,
    Buttons,
    Card,
    Facts,
    Strong,
    Text,
    Tone,
    compose,
    quiet,
    text,
)
from bot.cards.columns import DAY, USD, Column, Columns, datum
from bot.cards.words import about, as_read, period
from bot.costs.suggestions import Suggestion
from bot.errors import WrongInput, find_named
from bot.grammar.registry import Needs, Topic, arg, command
from bot.model.money import counted, usd
from bot.model.request import Request
from bot.ports import Documents, Ports

WEEKLY = 3
"""Suggestions that are shown unasked in a week."""
_LISTED = 8
_MOST = 500


class Verdict(StrEnum):
    """Name the decisions about a suggestion."""

    DECLINED = "declined"
    DONE = "done"


@dataclass(frozen=True)
class SuggestionVerdict:
    """State a person's decision about a suggestion, and the saving that it promised then."""

    verdict: Verdict
    todo: str
    usd_per_month: Decimal
    at: datetime
    by: str
    by_name: str
    note: str = ""


VERDICTS = Documents("suggestions", SuggestionVerdict)


@dataclass(frozen=True)
class Shortlist:
    """Hold the dearest suggestions as they were weighed last, for pages that may not wait."""

    at: datetime
    suggestions: tuple[Suggestion, ...]


_SHORTLISTS = Documents("suggestions.weighed", Shortlist)
_NEWEST = "newest"
_WEIGHED_EVERY = timedelta(days=1)


@dataclass(frozen=True)
class Suggestions:
    """Hold the suggestions of now, the dearest first, and the decisions about them and earlier ones."""

    suggestions: Sequence[Suggestion]
    verdicts: Mapping[str, SuggestionVerdict]

    @property
    def open(self) -> list[Suggestion]:
        """Return those that nobody decided about yet."""
        return [suggestion for suggestion in self.suggestions if suggestion.id not in self.verdicts]

    def saved(self, name: str) -> Decimal:
        """Return USD a month that a change saved: its promise less the saving that is left."""
        remaining = sum((x.usd_per_month for x in self.suggestions if x.id == name), Decimal(0))
        return self.verdicts[name].usd_per_month - remaining


def suggestions_of(ports: Ports, now: datetime) -> Suggestions:
    """Weigh every kind of suggestion; an unreadable source suggests nothing. May block."""
    least = ports.policy.usd("advice.least_usd_per_month")
    worth = [x for x in candidates(ports, now) if x.usd_per_month >= least]
    worth.sort(key=lambda suggestion: (-suggestion.usd_per_month, suggestion.id))
    if ports.world.actions is None:
        worth = [replace(suggestion, act="") for suggestion in worth]
    return Suggestions(worth, dict(VERDICTS.newest(ports.stores.documents, _MOST)))


def weigh_daily(ports: Ports, now: datetime) -> None:
    """Weigh once a day for those who look; may block."""
    documents = ports.stores.documents
    shortlist = _SHORTLISTS.get(documents, _NEWEST)
    if shortlist is None or not timedelta() <= now - shortlist.at < _WEIGHED_EVERY:
        listed = suggestions_of(ports, now).open[:_LISTED]
        _SHORTLISTS.put(documents, _NEWEST, Shortlist(now, tuple(listed)))


def shortlisted(ports: Ports, now: datetime) -> list[Suggestion]:
    """Return the three dearest of the last day that nobody decided about since."""
    documents = ports.stores.documents
    shortlist = _SHORTLISTS.get(documents, _NEWEST)
    if shortlist is None or not timedelta() <= now - shortlist.at <= 2 * _WEIGHED_EVERY:
        return []
    verdicts = VERDICTS.keys(documents, _MOST)
    return [x for x in shortlist.suggestions if x.id not in verdicts][:WEEKLY]


COLUMNS = Columns[Suggestion](
    datum("id", lambda x: x.id),
    datum("kind", lambda x: x.kind.value),
    datum("subject", lambda x: x.subject),
    datum("todo", lambda x: x.todo),
    datum(
        "usd_per_month",
        lambda x: x.usd_per_month,
        "as its steps have it: suggestions show ID lists them",
    ),
    datum("low_usd", lambda x: x.low_usd, "the low end, as its steps have it"),
    datum("high_usd", lambda x: x.high_usd, "the high end, as its steps have it"),
    datum("window", lambda x: x.window),
    datum("saves", lambda x: x.kind.saves),
    datum("holds_if", lambda x: x.holds_if),
    datum("line", lambda x: x.line),
)
_DECIDED = Columns[tuple[str, SuggestionVerdict, Decimal]](
    datum("id", lambda x: x[0]),
    Column("decision", lambda x: x[1].verdict.value, key="verdict"),
    Column("what", lambda x: x[1].todo),
    Column("by", lambda x: x[1].by_name or x[1].by),
    datum("by", lambda x: x[1].by),
    Column("on", lambda x: x[1].at, DAY, "at"),
    Column(
        "promised $/month",
        lambda x: x[1].usd_per_month,
        USD,
        "usd_per_month",
        "its promise when it was decided about",
    ),
    Column(
        "saved $/month",
        lambda x: x[2] if x[1].verdict is Verdict.DONE else None,
        USD,
        "saved_usd_per_month",
        "what it promised - what the same suggestion would still save",
    ),
    Column("why", lambda x: x[1].note, key="note", missing=""),
)


def suggestion_words(suggestion: Suggestion) -> Text:
    """Say a suggestion in one line, dollars first."""
    return text(
        Strong(f"{about(suggestion.usd_per_month)} a month"),
        f" ({_range(suggestion)}): {suggestion.todo}.",
    )


def _range(suggestion: Suggestion) -> str:
    basis = "estimated" if suggestion.kind.saves else "at stake, estimated"
    return ", ".join(filter(None, (_span([suggestion]), basis)))


def _span(suggestions: Sequence[Suggestion]) -> str:
    """Return how far their savings may lie from the expected ones, "" where there is no range."""
    low, expected, high = (
        about(sum(amounts, Decimal(0)))
        for amounts in zip(
            *((x.low_usd, x.usd_per_month, x.high_usd) for x in suggestions), strict=True
        )
    )
    if low == high:
        return ""
    if expected == high:
        return f"as little as {low}"
    return f"as much as {high}" if expected == low else f"{low} to {high}"


def _buttons(suggestion: Suggestion, *, calculated: bool = False) -> Buttons:
    name = suggestion.id
    return Buttons(
        (
            *([Button("Do it…", suggestion.act)] if suggestion.act else []),
            *([] if calculated else [Button("Calculate", f"suggestions show {name}")]),
            Button("Try", suggestion.line),
            Button("Done", f"suggestions done {name}"),
            Button("Not again", f"suggestions decline {name}"),
        )
    )


def shortlist_blocks(suggestions: Sequence[Suggestion]) -> list[Block]:
    """Draw a quiet line for each; none where there are none."""
    lines: list[Block] = [quiet(*suggestion_words(x).spans) for x in suggestions]
    return [*lines, Buttons((Button("Suggestions", "suggestions"),))] if lines else []


def suggestions_card(seen: Suggestions) -> Card:
    """List open suggestions with their buttons, and below them the decisions about others."""
    saving = [suggestion for suggestion in seen.open if suggestion.kind.saves]
    total = sum((suggestion.usd_per_month for suggestion in saving), Decimal(0))
    decided = [(name, verdict, seen.saved(name)) for name, verdict in seen.verdicts.items()]
    listed: list[Block] = [
        block for x in seen.open[:_LISTED] for block in (suggestion_words(x), _buttons(x))
    ]
    if len(seen.open) > _LISTED:
        listed.append(quiet(f"And {len(seen.open) - _LISTED} that save less."))
    title = "No suggestion"
    if seen.open:
        title = counted(len(seen.open), "suggestion")
        if saving:
            span = _span(saving)
            title += f": about {about(total)} a month in all{f' ({span})' if span else ''}"
    return Card(
        title,
        Tone.INFO,
        compose(
            listed or text("Nothing that is known here would save enough to be worth a change."),
            _DECIDED.table(decided, most=10, caption="Decided before") if decided else None,
            quiet(
                "Estimates, from list or billed prices; never part of an alert. 'Not again'"
                " dismisses one for good. After 'Done', what was promised is compared with what"
                " could still be saved."
            ),
        ),
        {
            "suggestions": COLUMNS.data(seen.open),
            "usd_per_month": total,
            "decided": _DECIDED.data(decided),
        },
    )


def weekly_card(seen: Suggestions) -> Card | None:
    """List what is suggested unasked: the dearest of the week; None where nothing is."""
    listed = seen.open[:WEEKLY]
    return suggestions_card(Suggestions(listed, {})) if listed else None


def suggestion_card(suggestion: Suggestion) -> Card:
    """Draw every step from readings to dollars a month."""
    return Card(
        f"{suggestion.kind.value.capitalize()}: {usd(suggestion.usd_per_month)} a month",
        Tone.INFO,
        compose(
            text(f"{suggestion.todo}."),
            Facts((*suggestion.steps, ("a month", usd(suggestion.usd_per_month, digits=2)))),
            text(f"True if {suggestion.holds_if}."),
            quiet(f"Seen in {period(suggestion.window)}; {_range(suggestion)}."),
            _buttons(suggestion, calculated=True),
        ),
        {"suggestion": {**COLUMNS.record(suggestion), "steps": dict(suggestion.steps)}},
    )


@command(
    "suggestions",
    "Changes that would save money, the largest saving first.",
    needs=Needs.METRICS | Needs.STATE | Needs.DETECTOR,
    may=Needs.BILL,
    topic=Topic.PLANS,
    examples=("suggestions",),
    rows=("suggestions",),
    figures={
        **COLUMNS.sources("suggestions"),
        "usd_per_month": "sum over what is listed and saves; what is at stake is not added",
        **_DECIDED.sources("decided"),
    },
)
def suggestions(ports: Ports, request: Request) -> Card:
    """Weigh all kinds, and leave out those that people decided about."""
    weighed = suggestions_of(ports, request.at)
    card, reading = suggestions_card(weighed), ports.world.source.read(request.at)
    limited = f"{card.title}, as far as could be read"  # the bill alone shows some too
    return as_read(card, limited if weighed.open else "It is not known what would save", reading)


@command(
    "suggestions show",
    "One suggestion, with its arithmetic and its assumptions.",
    needs=Needs.METRICS | Needs.STATE | Needs.DETECTOR,
    may=Needs.BILL,
    topic=Topic.PLANS,
    examples=("suggestions show s1234abcd",),
    figures=COLUMNS.sources("suggestion"),
    hidden=True,
)
def suggestions_show(
    ports: Ports, request: Request, name: str = arg(None, "the suggestion's id")
) -> Card:
    """Show one by its id."""
    return suggestion_card(_named(ports, request, name))


def _named(ports: Ports, request: Request, name: str) -> Suggestion:
    """Return a suggestion by its id, or raise `WrongInput`."""
    by_id = {x.id: x for x in suggestions_of(ports, request.at).suggestions}
    return find_named(
        f"There is no suggestion '{name}' now",
        name,
        by_id,
        most=5,
        otherwise="'suggestions' lists them",
    )


def _decide(ports: Ports, request: Request, name: str, verdict: Verdict, note: str) -> Card:
    """Keep a person's decision about a suggestion; the newest one holds."""
    suggestion, who = _named(ports, request, name), request.user
    VERDICTS.put(
        ports.stores.documents,
        name,
        SuggestionVerdict(
            verdict,
            suggestion.todo,
            suggestion.usd_per_month,
            request.at,
            who.id,
            who.name,
            note,
        ),
    )
    later = "It is not suggested again."
    if verdict is Verdict.DONE:
        later = (
            f"It promised {usd(suggestion.usd_per_month)} a month; 'suggestions' compares that with"
            " what could still be saved."
        )
    return Card(
        f"{verdict.value.capitalize()} by {who.name or who.id}",
        Tone.GOOD,
        (
            text(f"{suggestion.todo}."),
            quiet(later),
            Buttons((Button("Undo", f"suggestions reopen {name}"),)),
        ),
        {"id": name, "verdict": verdict.value, "usd_per_month": suggestion.usd_per_month},
        public=True,
    )


@command(
    "suggestions decline",
    "Dismiss a suggestion for good, with a reason.",
    needs=Needs.METRICS | Needs.STATE | Needs.DETECTOR,
    may=Needs.BILL,
    topic=Topic.PLANS,
    examples=("suggestions decline s1234abcd we move to trn2 in May",),
    hidden=True,
    changes=True,
)
def suggestions_decline(
    ports: Ports,
    request: Request,
    name: str = arg(None, "the suggestion's id"),
    reason: str = arg("", "why not", rest=True),
) -> Card:
    """Keep that it is not wanted."""
    return _decide(ports, request, name, Verdict.DECLINED, reason)


@command(
    "suggestions done",
    "Mark a suggestion as followed: its saving is compared with its promise.",
    needs=Needs.METRICS | Needs.STATE | Needs.DETECTOR,
    may=Needs.BILL,
    topic=Topic.PLANS,
    examples=("suggestions done s1234abcd",),
    hidden=True,
    changes=True,
)
def suggestions_done(
    ports: Ports, request: Request, name: str = arg(None, "the suggestion's id")
) -> Card:
    """Write that it was followed."""
    return _decide(ports, request, name, Verdict.DONE, "")


@command(
    "suggestions reopen",
    "Withdraw the decision on a suggestion.",
    needs=Needs.STATE,
    topic=Topic.PLANS,
    examples=("suggestions reopen s1234abcd",),
    hidden=True,
    changes=True,
)
def suggestions_reopen(
    ports: Ports, request: Request, name: str = arg(None, "the suggestion's id")
) -> Card:
    """Forget the decision."""
    documents = ports.stores.documents
    decision = VERDICTS.get(documents, name)
    if decision is None:
        raise WrongInput(f"Nobody has decided on '{name}'; 'suggestions' lists the decisions.")
    VERDICTS.drop(documents, name)
    return Card(
        "Suggested again", Tone.GOOD, (text(f"{decision.todo}."),), {"id": name}, public=True
    )
