"""Topic patterns of subscriptions (KIP-848): RE2 syntax, full matches, in linear time.

Kafka's coordinator uses RE2/J, which has the syntax of RE2 (https://github.com/google/re2/wiki/Syntax) and, other
than RE2, refuses two groups of one name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

import re2

_OPTIONS = re2.Options()
_OPTIONS.log_errors = False
_NAMES = re.compile(r"\\Q.*?(?:\\E|$)|\\.|\[\^?\]?(?:\[:\^?\w+:\]|\\.|[^\]])*\]|\(\?P?<(\w+)>", re.DOTALL)
"""Finds names of groups; skips quoted, escaped and bracketed text."""


def find_problem(pattern: str) -> str | None:
    """RE2's error message for the pattern; None if it compiles."""
    compiled = _compile(pattern)
    return compiled if isinstance(compiled, str) else None


def matches(pattern: str, name: str) -> bool:
    """Whether the pattern matches the whole name; False if it does not compile."""
    return bool(select(pattern, (name,)))


def select(pattern: str, names: Iterable[str]) -> tuple[str, ...]:
    """The names that the pattern matches in full, sorted; empty if it does not compile."""
    compiled = _compile(pattern)
    return () if isinstance(compiled, str) else tuple(sorted(name for name in names if compiled.fullmatch(name)))


@lru_cache(maxsize=1024)
def _compile(pattern: str) -> Any:
    names = [name for name in _NAMES.findall(pattern) if name]
    if len(names) > len(set(names)):
        return f"two groups of one name: {', '.join(names)}"
    try:
        return re2.compile(pattern, _OPTIONS)
    except (re2.error, UnicodeEncodeError) as problem:
        words = problem.args[0]
        return words.decode() if isinstance(words, bytes) else str(problem)
