"""Topic patterns: valid where RE2 takes them, and matching what RE2 matches."""

from __future__ import annotations

import random

import pytest
import re2

from fsm.coordinator.consumer.patterns import check, matching
from fsm.coordinator.model.step import Refused

NAMES = ("foo", "bar", "baz", "a.b", "A_1", "-x", "foo-1", "FOO", "aaa", "0", "__x", "ab", "Foo.Bar")


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("foo", ("foo",)),
        ("fo+.*", ("foo", "foo-1")),
        ("ba[rz]", ("bar", "baz")),
        ("(?i)foo", ("FOO", "foo")),
        ("f(?i)OO", ("foo",)),
        ("(?i:f)oo|bar", ("bar", "foo")),
        ("[[:upper:]]+", ("FOO",)),
        ("[^[:alpha:]]+", ("0",)),
        (r"\p{Lu}\PL\d", ("A_1",)),
        (r"\Qa.b\E", ("a.b",)),
        (r"\x66oo\z", ("foo",)),
        (r"a{2,}", ("aaa",)),
        (r"a{,2}", ()),
        ("(?P<n>a)b", ("ab",)),
        ("nothing", ()),
        ("", ()),
    ],
)
def test_a_pattern_matches_whole_names(pattern: str, names: tuple[str, ...]) -> None:
    """Sorted, and in full."""
    check(pattern)
    assert matching(pattern, NAMES) == names


@pytest.mark.parametrize(
    "pattern",
    [
        *(
            "[",
            "(",
            "a(b",
            ")",
            "*",
            "a**",
            "a++",
            "(?=a)",
            "(?!a)",
            "(?<=a)",
            "(?>a)",
            "(?#a)",
            r"(a)\1",
            r"\k",
            r"a\Z",
        ),
        *("a{1001}", "a{2,1}", r"\p{Nonsense}", "[[:nonsense:]]", "(?P<n>a)(?P<n>b)", "[z-a]", "\\"),
    ],
)
def test_what_re2_does_not_have_is_refused(pattern: str) -> None:
    """Unbalanced, without an operand, or beyond regular languages."""
    with pytest.raises(Refused) as refused:
        check(pattern)
    assert refused.value.code.name == "INVALID_REGULAR_EXPRESSION"
    assert matching(pattern, NAMES) == ()


PIECES = (
    *'abfo.x1A-_()[]*+?|^$"{}# ',
    *("(?:", "(?i:", "(?P<n>", "[^", "a-z", "[a-c]", "[[:alpha:]]", "[^[:digit:]]", "ba[rz]"),
    *(r"\d", r"\D", r"\w", r"\W", r"\s", r"\pL", r"\p{Lu}", r"\PN", r"\p{Latin}", r"\p{^L}", r"\Q.", r"\E", r"\."),
    *(r"\-", r"\z", r"\A", r"\Z", r"\b", r"\B", r"\1", r"\x41", r"\x{61}", r"\07", r"\101", r"\G", r"\C", r"\k"),
    *("*?", "+?", "??", "{2}", "{1,2}", "{,2}", "{2,}", "{1001}", "{2,1}", "(?=a)", "(?!a)", "(?<=a)", "(?>a)"),
)


def test_random_patterns_mean_what_they_mean_to_re2() -> None:
    """Whether they compile, and which names they match: five thousand of up to five pieces.

    Beside two groups of one name, of which RE2 itself thinks otherwise than RE2/J.
    """
    options = re2.Options()
    options.log_errors = False
    generator = random.Random(5)  # noqa: S311  # reproducible on purpose
    for _ in range(5_000):
        pattern = "".join(generator.choice(PIECES) for _ in range(generator.randint(1, 5)))
        if pattern.count("(?P<n>") > 1:
            continue
        try:
            expected = tuple(sorted(name for name in NAMES if re2.compile(pattern, options).fullmatch(name)))
        except re2.error:
            with pytest.raises(Refused):
                check(pattern)
        else:
            check(pattern)
            assert matching(pattern, NAMES) == expected, pattern
