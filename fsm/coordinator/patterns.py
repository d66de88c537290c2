"""Topic patterns: which are valid, and which topics they match. Kafka's are those of RE2/J, matched in full.

They are translated into Python's: what RE2 does not have is refused as RE2 refuses it. Topic names are letters,
digits, dots, dashes and underscores of ASCII, so a Unicode class is the list of those that belong to it.

Source: section 7.3 of the coordinator reference; the syntax of RE2 (https://github.com/google/re2/wiki/Syntax).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

from fsm.coordinator.messages import Refused
from fsm.kafka.error_codes import ErrorCode

_NOT_IN_RE2 = re.compile(r"\(\?(?:[=!>#(|]|<[=!]|P=|P>)|[*+?}]\+|\\[1-9]|\\[GKRXZhkv]|\(\?[^)]*[xuL][^)]*\)")
"""Look-around, atomic groups, comments, conditions, back references, possessive quantifiers."""


def check(pattern: str) -> None:
    """Raises `Refused` for a pattern that does not compile."""
    try:
        _compiled(pattern)
    except (re.error, OverflowError) as problem:
        raise Refused(ErrorCode.INVALID_REGULAR_EXPRESSION, f"{pattern!r}: {problem}") from None


def matching(pattern: str, names: Iterable[str]) -> tuple[str, ...]:
    """The names that the pattern matches in full, sorted; none for one that does not compile."""
    try:
        compiled = _compiled(pattern)
    except (re.error, OverflowError):
        return ()
    return tuple(sorted(name for name in names if compiled.fullmatch(name)))


@lru_cache(maxsize=1024)
def _compiled(pattern: str) -> re.Pattern[str]:
    if _NOT_IN_RE2.search(pattern):
        raise re.error("not in the syntax of RE2")
    return re.compile(pattern, re.ASCII)
