"""Dialects of the coordinator: the presets against a matrix that was made by hand."""

from __future__ import annotations

import pickle

import pytest

from fsm.coordinator.model.dialect import FIXED, Choice, Dialect, dialect, presets
from fsm.errors import InputError
from fsm.protocol.releases import RELEASES

# 1 = new rule, b = F20's middle value (if the joiner changed the subscription), 0 = older rule.
COLUMNS = [
    "s24",
    "4.0.0",
    "4.0.1",
    "4.0.2",
    "4.1.0",
    "4.1.1",
    "4.1.2",
    "4.2.0",
    "4.2.1",
    "4.3.0",
    "4.3.1",
    "4.4.0",
    "fixed",
]
MATRIX = """
F1 F3 F7b F8 F18 F24    0 0 0 0 0 0 0 0 0 1 1 1 1
F2                      0 0 0 0 0 0 0 0 0 1 1 1 1
F4 F13 F14 F15 F17 F27 F28  0 0 0 0 0 0 0 0 0 0 0 1 1
F5 F7 F9                0 0 0 0 0 0 0 1 1 1 1 1 1
F6 F10d F22             0 0 0 1 0 0 1 1 1 1 1 1 1
F10 F11 F19 F21         0 1 1 1 1 1 1 1 1 1 1 1 1
F10b F12 F23            0 0 0 0 1 1 1 1 1 1 1 1 1
F10c                    0 0 0 0 0 0 1 1 1 1 1 1 1
F16                     0 0 0 0 0 0 0 0 0 0 1 1 1
F20                     0 0 0 b 0 b b b b 1 1 1 1
F21b F25 F26            0 0 1 1 1 1 1 1 1 1 1 1 1
F29 F31 F33 F34 F35 F36 F37 F38 F40 F41 F42 F43 F44 F45 F46 F47 F48 F49  0 0 0 0 0 0 0 0 0 0 0 0 1
"""


def differences(one: Dialect, other: Dialect) -> tuple[Choice, ...]:
    """The choices that only one of the two has, in the order of their flags."""
    return tuple(choice for choice in Choice if choice in one.choices ^ other.choices)


def value(flag: str, name: str) -> str:
    """What the matrix would say about a flag in a preset."""
    has = [choice for choice in Choice if choice.flag == flag and choice in dialect(name)]
    return {(): "0", (Choice.REPLACEMENT_REBALANCES_IF_BUMPED,): "b"}.get(tuple(has), "1")


@pytest.mark.parametrize("line", MATRIX.strip().splitlines(), ids=lambda line: line.split()[0])
def test_presets_are_those_of_the_reference(line: str) -> None:
    """What follows from the releases that brought a choice is what the reference lists for each preset."""
    *flags, expected = line.split(maxsplit=line.split().index(next(w for w in line.split() if not w.startswith("F"))))
    for flag in flags:
        assert [value(flag, name) for name in COLUMNS] == expected.split(), flag


def test_the_matrix_names_every_flag() -> None:
    """Every flag of a choice stands in the matrix, every flag of the matrix has a choice.

    A later release is not in the matrix: what it brought is judged by `test_flags`.
    """
    named = {word for word in MATRIX.split() if word.startswith("F")}
    assert {choice.flag for choice in Choice if not set(COLUMNS).isdisjoint(choice.since)} == named
    assert len(named) == 51


def test_every_choice_is_documented() -> None:
    """Each has a rule, what went before, a ticket, and begins with a release that exists; or it is one of `fixed`."""
    for choice in Choice:
        assert choice.rule
        assert choice.older
        assert (choice.since == (FIXED,)) is not choice.ticket.startswith(("KAFKA-", "KIP-"))
        assert choice.since == (FIXED,) or set(choice.since) <= set(RELEASES), choice


@pytest.mark.parametrize(
    ("branch", "release"), [("4.0", "4.0.2"), ("4.2", "4.2.1"), ("4.4", "4.4.0"), ("s24", "s24"), ("fixed", "fixed")]
)
def test_a_branch_means_its_latest_release(branch: str, release: str) -> None:
    """A name of two numbers is the latest patch; it is the same object as the release itself."""
    assert dialect(branch).name == release
    assert dialect(branch).choices == dialect(release).choices


@pytest.mark.parametrize("name", ["3.9", "4.2.7", "4", "", "latest", "document"])
def test_an_unknown_name_is_refused_with_those_there_are(name: str) -> None:
    """The error names the presets."""
    with pytest.raises(InputError, match=r"one of s24, 4\.0\.0"):
        dialect(name)


def test_choices_can_be_flipped_one_by_one() -> None:
    """A dialect with or without a choice differs in that choice and says so in its name."""
    latest = dialect("4.4.0")
    without = latest.without_choices(Choice.EXTRA_SLOT_STAYS)
    assert (without.name, differences(latest, without)) == ("4.4.0-F25", (Choice.EXTRA_SLOT_STAYS,))
    assert without.with_choices(Choice.EXTRA_SLOT_STAYS).choices == latest.choices


def test_a_name_may_add_and_remove_rules() -> None:
    """Every command takes such a name; a dialect has the same one however it was made."""
    assert dialect("4.2+F29-F25") == dialect("4.2.1").with_choices(Choice.OLDER_CONNECTION_IS_CLOSED).without_choices(
        Choice.EXTRA_SLOT_STAYS
    )
    assert dialect("fixed-OLDER_CONNECTION_IS_CLOSED").name == "fixed-F29"
    latest = dialect("4.4.0").without_choices(Choice.REPLACEMENT_REBALANCES_IF_STALE)
    assert (latest.name, dialect("4.4-F20")) == ("4.4.0-F20", latest)
    older = dialect("4.2.1").without_choices(Choice.REPLACEMENT_REBALANCES_IF_BUMPED)
    assert (older.name, dialect(older.name)) == ("4.2.1-REPLACEMENT_REBALANCES_IF_BUMPED", older)


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("4.4+F99", "unknown rule 'F99' of a dialect; `fsm dialects` lists the rules of each"),
        ("4.4+", "unknown rule '' of a dialect"),
        ("4.4+F28", r"\+F28: the dialect has the rule already; leave it out"),
        ("4.4-F29", "-F29: the dialect does not have the rule; leave it out"),
        ("4.4+F29+F29", r"\+F29: the dialect has the rule already"),
        ("+F29", r"unknown coordinator dialect '\+F29'"),
    ],
)
def test_a_change_that_is_none_is_refused(name: str, problem: str) -> None:
    """A misspelt rule would be checked without it."""
    with pytest.raises(InputError, match=problem):
        dialect(name)


def test_two_releases_part_where_the_reference_says() -> None:
    """4.3.1 and 4.4.0 differ in seven flags."""
    assert [c.flag for c in differences(dialect("4.3.1"), dialect("4.4.0"))] == [
        "F4",
        "F13",
        "F14",
        "F15",
        "F17",
        "F27",
        "F28",
    ]


def test_dialects_travel_between_processes() -> None:
    """A pickled dialect is equal to itself and holds the same choices."""
    for preset in presets():
        assert pickle.loads(pickle.dumps(preset)) == preset  # noqa: S301
