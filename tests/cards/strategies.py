"""Make any card at all, for every surface to draw: one strategy, with the words that the surface fears."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import strategies as st

from bot.cards.card import (
    Align,
    Attachment,
    Block,
    Button,
    Buttons,
    ButtonStyle,
    Card,
    Chart,
    ChartKind,
    Code,
    Facts,
    Field,
    FieldKind,
    Form,
    Heading,
    Link,
    Mention,
    Series,
    Span,
    Strong,
    Style,
    Table,
    Text,
    Tone,
    When,
)

Words = st.SearchStrategy[str]
START, END = datetime(1971, 1, 1), datetime(2100, 1, 1)  # noqa: DTZ001  # hypothesis adds the zone
INSTANTS = st.datetimes(min_value=START, max_value=END, timezones=st.just(UTC))
VALUES = st.lists(st.one_of(st.none(), st.floats()), max_size=90).map(tuple)
TIMES = st.integers(0, 90).map(
    lambda n: tuple(START.replace(tzinfo=UTC) + timedelta(minutes=i) for i in range(n))
)


def any_spans(words: Words, users: Words, urls: Words) -> st.SearchStrategy[tuple[Span, ...]]:
    """Return spans of every kind."""
    people = st.builds(Mention, users, words)
    links = st.builds(Link, words, urls)
    return st.lists(
        st.one_of(words, words.map(Strong), words.map(Code), INSTANTS.map(When), people, links),
        max_size=6,
    ).map(tuple)


def any_form(words: Words) -> st.SearchStrategy[Form]:
    """Return forms with fields of every kind; the names of one form's fields differ, as arguments do."""
    names = st.from_regex(r"[a-z]{1,9}", fullmatch=True)
    options = st.lists(st.tuples(words, words), max_size=4).map(tuple)
    fields = st.builds(Field, names, words, st.sampled_from(FieldKind), words, options, words)
    return st.builds(
        Form,
        words,
        words,
        st.lists(fields, max_size=5, unique_by=lambda field: field.name).map(tuple),
        words,
    )


def any_block(words: Words, users: Words, urls: Words) -> st.SearchStrategy[Block]:
    """Return blocks of every kind."""
    cells = st.lists(words, max_size=11).map(tuple)
    columns = st.lists(st.builds(Heading, words, st.sampled_from(Align)), max_size=11).map(tuple)
    series = st.lists(st.builds(Series, words, VALUES), max_size=10).map(tuple)
    bands = st.none() | st.just((1.0, 2.0))
    buttons = st.builds(Button, words, words, st.sampled_from(ButtonStyle), st.booleans())
    return st.one_of(
        st.builds(Text, any_spans(words, users, urls), st.sampled_from(Style)),
        st.builds(Facts, st.lists(st.tuples(words, words), max_size=30).map(tuple)),
        st.builds(Table, columns, st.lists(cells, max_size=50).map(tuple), cells, words, words),
        st.builds(
            Chart,
            st.sampled_from(ChartKind),
            words,
            words,
            series,
            TIMES,
            cells,
            bands,
            st.none(),
            words,
        ),
        st.builds(Buttons, st.lists(buttons, max_size=30).map(tuple)),
        any_form(words),
        st.builds(Attachment, words, words, words, urls),
    )


def any_card(words: Words, *, users: Words, urls: Words, most: int = 8) -> st.SearchStrategy[Card]:
    """Return cards of up to `most` blocks, made of the given words, people and addresses."""
    mentions = st.lists(st.builds(Mention, users, words), max_size=3).map(tuple)
    blocks = st.lists(any_block(words, users, urls), max_size=most).map(tuple)
    return st.builds(Card, words, st.sampled_from(Tone), blocks, st.just({}), mentions)
