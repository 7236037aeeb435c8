"""Write counts, spans of time, money and dated claims as people say them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING

from bot.cards.card import MISSING, Align, Block, Card, Heading, Strong, Tone, text
from bot.model.claims import Note, Sourced, stale_days
from bot.model.labels import Labels
from bot.model.money import cents, counted, usd
from bot.model.notification import Coverage, Known
from bot.model.policy import Policy
from bot.model.price import Price
from bot.model.spend import Money, Tally
from bot.model.window import (
    Window,
    calendar_day,
    clock,
    day,
    duration_text,
    month_of,
    rounded_duration,
)

if TYPE_CHECKING:
    from bot.model.reading import Reading

_DAY, _HOUR = timedelta(days=1), timedelta(hours=1)


def doubted(calm: str, unknown: str, seen: Coverage) -> str:
    """Return what may be said where nothing is found: `calm`, that with a doubt, or `unknown`."""
    if seen.known is Known.UNKNOWN:
        return unknown
    return f"{calm}, as far as could be read" if seen.because else calm


def unseen(seen: Coverage) -> tuple[Block, ...]:
    """Say why no more of the fleet is known, nothing where all of it is."""
    return (text(seen.because),) if seen.because else ()


def as_read(card: Card, unknown: str, reading: Reading) -> Card:
    """Return a card that is well only as far as its reading tells, and says why no farther.

    `unknown` is its title where no node is known to run.
    """
    from bot.model.reading import coverage_of  # it needs numpy, which `help` does without

    seen = coverage_of(reading)
    card = replace(card, data={**card.data, **seen.data})
    if not seen.because or seen.because == reading.learning:
        return card
    runs = any(instance.running for instance in reading.inventory.instances.values())
    title = f"{card.title}, as far as could be read" if runs else unknown
    tone = Tone.WARNING if card.tone is Tone.GOOD else card.tone

    return replace(card, title=title, tone=tone, blocks=(*unseen(seen), *card.blocks))


def ended(sentence: str) -> str:
    """Return a sentence with its end: a full stop where it has none."""
    return sentence if sentence.endswith((".", "?")) else f"{sentence}."


def noted(note: str) -> str:
    """Return a note as it follows what it is about: `: moving data`, "" for none."""
    return f": {note}" if note else ""


def committed_words(per_hour: Decimal, committed: Decimal, lapses: date | None = None) -> str:
    """Say which part of an hour's USD stopping saves, "" where it saves all of it."""
    per_hour, committed = cents(per_hour), cents(committed)
    saved = per_hour - committed
    if committed * 100 < per_hour:
        return ""
    until = f" until {calendar_day(lapses)}" if lapses else ""
    saves = (
        f"stopping saves {usd(saved)} an hour"
        if saved * 100 > per_hour
        else "stopping saves nothing"
    )

    return (
        f"{usd(committed)} of the {usd(per_hour)} an hour is committed{until} and billed either"
        f" way: {saves}, more if other work uses the commitment."
    )


def period(window: Window) -> str:
    """Write a window.

    `November 2026`, `Nov 13 to 19, 2026`, `7 days to Nov 20, 12:00 UTC`, or two instants.
    """
    start, end = window.start.astimezone(UTC), window.end.astimezone(UTC)
    if start.time() == end.time() == time.min and end > start:
        last = end - _DAY
        if window == month_of(start):
            return f"{start:%B %Y}"
        if start == last:
            return calendar_day(start)
        if start.year != last.year:
            return f"{calendar_day(start)} to {calendar_day(last)}"
        return (
            f"{day(start)} to {last.day if start.month == last.month else day(last)}, {last.year}"
        )
    if window.length and not window.length % (_DAY if window.length > 2 * _DAY else _HOUR):
        return f"{rounded_duration(window.length)} to {clock(end)} UTC"

    return f"{clock(start)}{f' {start.year}' if start.year != end.year else ''} to {clock(end)} UTC"


def about(amount: Decimal) -> str:
    """Write an estimate to three digits, since more would be pretence: `$272,000`."""
    return usd(Decimal(f"{amount:.3g}"))


def quantity(value: float, unit: str, noun: str = "event") -> str:
    """Write a value of an anomaly with its unit.

    `20 %`, `4 h 32 min`, `$4,130 a day`, `16 ECC events`, `0.62`.
    """
    if unit in {"ratio", "%"}:
        return f"{100 * value:.0f} %"
    if unit == "seconds":
        return duration_text(timedelta(seconds=value)) if value >= 60 else f"{figures(value)} s"
    if unit.startswith("USD"):
        per = " an hour" if unit.endswith("hour") else " a day"
        return f"{usd(Decimal(str(round(value, 2))))}{per}"
    if unit == "count":
        return f"{figures(value)} {noun if value == 1 else plural(noun)}"

    return f"{figures(value)} {'' if unit == 'score' else unit}".rstrip()


def in_period(window: Window) -> str:
    """Write when something happened that a window holds.

    `in November 2026`, `on Nov 20, 2026`, `from Nov 13 to 19, 2026`, `in the 7 days to Nov 20,
    12:00 UTC`.
    """
    words = period(window)
    if words[0].isdigit():
        return f"in the {words}"
    if " to " in words:
        return f"from {words}"
    return f"on {words}" if "," in words else f"in {words}"


ALMOST_NOTHING = "from almost nothing"
_TOLD = 100
"""A change of more than so many times its base says nothing but that the base was small."""


def growth(ratio: Decimal | float, digits: int = 0, *, signed: bool = False) -> str:
    """Write a change as a share of what was before (0.12 = 12 % more).

    `12 %`, `under 1 %`, signed `+12 %`, `-3 %`, `0 %`; `from almost nothing` of such a base.
    """
    percent = Decimal(ratio) * 100
    if abs(percent) >= _TOLD * 100:
        return ALMOST_NOTHING
    is_slight = abs(percent) <= Decimal("0.5").scaleb(-digits)
    if signed:
        return "0 %" if is_slight else f"{percent:+,.{digits}f} %"

    return "under 1 %" if is_slight else f"{abs(percent):,.{digits}f} %"


def moved(ratio: Decimal | float) -> str:
    """Write a change to go on with what it is from: `up 12 % from`, `unchanged from`."""
    if abs(Decimal(ratio)) < Decimal("0.005"):
        return "unchanged from"
    share = growth(ratio)
    return f"{'up' if ratio > 0 else 'down'} {share} {'in' if share == ALMOST_NOTHING else 'from'}"


_EXACT = 1e-9
"""How far from all a share may lie by the rounding of floats."""


def percent(ratio: Decimal | float) -> str:
    """Write a share: `12 %`; more than nothing is `under 1 %`, less than all `over 99 %`."""
    written = f"{100 * ratio:,.0f} %"
    if written.lstrip("-") == "0 %" and ratio:
        return "under 1 %"
    return "over 99 %" if written == "100 %" and ratio < 1 - _EXACT else written


def plural(noun: str) -> str:
    """Write the plural of a noun of ours: `volumes`, `items of the bill`."""
    head, of, whole = noun.partition(" of ")
    return f"{head}s{of}{whole}"


def figures(value: float) -> str:
    """Write a number to three digits or as a whole one, never with an exponent.

    `16,320`, `0.62`, `0.0004`.
    """
    if abs(value) >= 100 or value == int(value):
        return f"{value:,.0f}"
    return f"{float(f'{value:.3g}'):.10f}".rstrip("0").rstrip(".")


def money_data(money: Money) -> dict[str, Decimal]:
    """Return the six amounts under the names scripts rely on."""
    return {
        "gross_usd": money.gross,
        "discounts_usd": money.discounts,
        "credits_usd": money.credits,
        "tax_usd": money.tax,
        "net_usd": money.net,
        "amortised_usd": money.amortised,
    }


MONEY_FIGURES = {
    "gross_usd": (
        "gross: usage, fees and negations at unblended cost; summed over the rows of the "
        "bill that begin in the window and pass the filters"
    ),
    "discounts_usd": (
        "discounts; summed over the rows of the bill that begin in the window and pass the filters"
    ),
    "credits_usd": (
        "credits and refunds; summed over the rows of the bill that begin in the window and"
        " pass the filters"
    ),
    "tax_usd": (
        "tax; summed over the rows of the bill that begin in the window and pass the filters"
    ),
    "net_usd": "gross + discounts + credits + tax",
    "amortised_usd": (
        "amortised: commitments, and what is prepaid, spread over what they bought; summed "
        "over the rows of the bill that begin in the window and pass the filters"
    ),
}
"""How each of the amounts of `money_data` is made."""


def amount_of(amount: Decimal, tally: Tally) -> str:
    """Write an amount in the currency of its bill."""
    return amount_in(amount, tally.currency)


def amount_in(amount: Decimal, currency: str) -> str:
    """Write an amount in a currency."""
    return usd(amount) if currency == "USD" else f"{amount:,.2f} {currency}"


def about_in(amount: Decimal, currency: str) -> str:
    """Write an estimate in a currency: to three digits in USD, else as it is."""
    return about(amount) if currency == "USD" else amount_in(amount, currency)


@dataclass(frozen=True)
class PriceAge:
    """Write how old a price is on a day, where it is older than `advice.stale_days` allows."""

    today: date
    days: float

    @classmethod
    def on(cls, at: datetime, policy: Policy) -> PriceAge:
        """Return the age of prices at an instant, by the setting that holds everywhere."""
        return cls(at.date(), policy.at(Labels()).number("advice.stale_days"))

    def of(self, asof: date) -> str:
        """Return `, 121 days old: check it`, or nothing."""
        age = (self.today - asof).days
        return f", {age} days old: check it" if age > self.days else ""

    def dated(self, price: Price) -> str:
        """Return `Nov 20, 2026, price list`, and how old it is."""
        return f"{calendar_day(price.asof)}, {price.basis}{self.of(price.asof)}"


def cited(fact: Sourced, today: date) -> str:
    """Write where a fact was read and its date, and its age where it is too old for its kind."""
    old = stale_days(fact, today)
    return f"{fact.source}, {calendar_day(fact.asof)}" + (
        f", {old} days old: check it" if old else ""
    )


def note_lines(notes: Sequence[Note], today: date, heading: str = "") -> list[Block]:
    """Draw each note as a line of its own: a table would cut the words that matter."""
    head: list[Block] = [text(Strong(heading))] if heading and notes else []
    return head + [
        text(Strong(note.subject), f": {note.says} ({note.state}; {cited(note, today)}).")
        for note in notes
    ]


def spoken(dimension: str) -> str:
    """Write a dimension of the bill in words."""
    return dimension.removeprefix("tag:").replace("_", " ")


def grouped_words(by: Sequence[str]) -> str:
    """Say in a title how a cost is split, "" for not at all."""
    return f" · by {', '.join(map(spoken, by))}" if by else ""


def row_words(row: Sequence[str], columns: Sequence[Heading]) -> tuple[str, list[str]]:
    """Return the first cell of a table's row, and the others after the names of their columns.

    Of no value no name is said.
    """
    first, *cells = row[: len(columns)]
    # The only one after the first needs no name, nor do words right behind it.
    unnamed = [
        len(columns) == 2 or (n == 0 and x.align is Align.LEFT) for n, x in enumerate(columns[1:])
    ]
    facts = [
        cell if is_plain else f"{column.name} {cell}"
        for cell, column, is_plain in zip(cells, columns[1:], unnamed, strict=False)
        if cell not in ("", MISSING)
    ]
    return first or MISSING, facts


def short(text: str, most: int) -> str:
    """Return at most `most` characters, the last of them an ellipsis where something was cut."""
    return text if len(text) <= most else text[: most - 1] + "…"


def few(words: Sequence[str], most: int, noun: str = "") -> list[str]:
    """Return the first of some words, and how many more there are: `and 3 more rules`."""
    hidden = len(words) - most
    tail = counted(hidden, f"more {noun}") if noun else f"{hidden} more"
    return [*words[:most], f"and {tail}"] if hidden > 0 else list(words)
