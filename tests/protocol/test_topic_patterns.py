"""Topic patterns: valid where RE2/J takes them, and matching whole names."""

from __future__ import annotations

import pytest

from fsm.protocol.topic_patterns import find_problem, select

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
    assert find_problem(pattern) is None
    assert select(pattern, NAMES) == names


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
    assert find_problem(pattern)
    assert select(pattern, NAMES) == ()


@pytest.mark.parametrize("pattern", [r"[(?P<n>](?P<n>b)", r"\Q(?P<n>\E(?P<n>b)", r"\(?P<n>(?P<n>b)", "(?P<n>)(?P<m>)"])
def test_what_only_looks_like_a_group_has_no_name(pattern: str) -> None:
    """In brackets, quoted or escaped."""
    assert find_problem(pattern) is None


def test_hostile_patterns_and_names_end() -> None:
    """Matching takes linear time, and what is no text is no pattern."""
    assert select("(a+)+(a*)*b", ["a" * 10_000]) == ()
    assert find_problem("\ud800")
