"""Lines in a known layout with words of clients that do not print in it: quotes, unless they are many."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

from fsm.logs import Format
from fsm.logs.layouts.layout import marks_of
from fsm.logs.reading.blocks import Words, words

FEWEST_PRINTED = 5
"""Lines of a client from which on they are no quotes."""


def find_related(names: frozenset[str], known: Sequence[Format]) -> frozenset[str]:
    """The clients that may print in one of these layouts: those that share another layout with them."""
    shared = {one.header for one in known if one.name in names}
    return frozenset(one.name for one in known if one.header in shared)


class Strange(NamedTuple):
    """Words of clients that do not print in a known layout."""

    related: Words
    """All words of those that print in another layout of the clients that do."""
    others: Words
    """The own words of the others."""


@lru_cache(maxsize=256)
def find_strange(names: frozenset[str], formats: tuple[Format, ...]) -> Strange:
    """The words of clients that do not print in a known layout, which is that of the clients `names`."""
    related = find_related(names, [one for one in formats if one.client is None])
    strange = [one.client for one in formats if one.client is not None and one.name not in names]
    others = (mark for one in strange if one.name not in related for mark in one.own_marks)
    return Strange(marks_of(tuple(one for one in strange if one.name in related)), words(*sorted(others)))


@lru_cache(maxsize=256)
def find_strange_words(owners: frozenset[frozenset[str]], formats: tuple[Format, ...]) -> Words:
    """A search for the words of `find_strange` in several layouts."""
    found = [find_strange(names, formats) for names in owners if names]
    return words(*sorted({word for one in found for word in (*one.related.words, *one.others.words)}))


def count_quotes(lines: Iterable[tuple[bytes, frozenset[str]]], formats: tuple[Format, ...]) -> int | None:
    """How many lines quote clients, if no layout is learned from lines with words of clients, each in a known layout of
    other clients, or in none, and without a message of these; else None."""
    quotes = 0
    for line, names in lines:
        strange = find_strange(names, formats)
        quotes += strange.others.search(line)
        if not names or quotes == FEWEST_PRINTED or strange.related.search(line):
            return None
    return quotes
