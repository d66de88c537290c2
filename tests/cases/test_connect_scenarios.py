"""The scenarios of the document on Connect's cooperative rebalancing, and what Kafka does in them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from case_file import each, listed
from known_keys import ANY, EACH, Of, refuse_unknown

from fsm.connect.assignor.scenario import ScenarioRound, reads, rounds
from fsm.connect.dialect import DOCUMENT, SHIPPED
from fsm.connect.dialect import profile as profile_of
from fsm.errors import InputError

__all__ = ["reads"]


RESULT = {"assigned": ANY, "holds_after": ANY, "revoked": ANY, "delay": ANY, "newly_assigned": ANY}
COMPARED = Of({"rounds": [Of({"expect": {EACH: RESULT}, "shipped_trunk": Of({"per_worker": {EACH: RESULT}})})]})


def cases(file: Any) -> Iterator[tuple[str, ScenarioRound]]:
    """Every round under both profiles, run from the start of its scenario."""
    return each(listed(file.head, "scenarios"), lambda found: documented(file, *found))


def documented(file: Any, at: tuple[Any, ...], scenario: Any) -> Iterator[tuple[str, ScenarioRound]]:
    refuse_unknown(file, at, scenario, COMPARED)
    for profile in (DOCUMENT, SHIPPED):
        run = rounds({"scenarios": [scenario]}, profile)
        yield from ((f"{r.scenario}-{r.number}-{profile.name}", r) for r in run)


def test_a_round_comes_out_as_stated(case: ScenarioRound) -> None:
    """Leader, delay, holdings and revocations of every worker are those of the file, in both profiles."""
    assert case.expected
    assert case.agrees, "\n".join([*map(str, case.computed), "expected:", *map(str, case.expected)])


@pytest.mark.our_copies
def test_symbols_follow_one_delay(files: tuple[Any, ...]) -> None:
    """Under the document's profile the delays have the document's own symbols, round after round."""
    document = next(file.head for file in files if reads(file.head))
    printed = {r.scenario: [] for r in rounds(document, DOCUMENT)}
    for r in rounds(document, DOCUMENT):
        assert [result.delay for result in r.computed] == [result.delay for result in r.expected]
        printed[r.scenario].append(r.computed[0].delay)
    assert printed["leader_bounces"] == ["d", "d'", "d''", "d'''", "0"]
    assert printed["leader_leaves"] == ["0"]


@pytest.mark.our_copies
def test_a_round_is_printed_as_the_document_prints_it(files: tuple[Any, ...]) -> None:
    """The lines of the first round are the document's."""
    document = next(file.head for file in files if reads(file.head))
    assert list(next(rounds(document, DOCUMENT)).lines()) == [
        "W2 joins (triggers the rebalance)",
        "W3 joins while that rebalance is still active",
        "W1 becomes leader",
        "W1 computes and sends assignments:",
        "W1(delay: 0, assigned: [AC0, AT1], revoked: [AT2, BC0, BT1])",
        "W2(delay: 0, assigned: [], revoked: [])",
        "W3(delay: 0, assigned: [], revoked: [])",
    ]


def test_unknown_profile_and_unit_are_told() -> None:
    """A profile that does not exist, a unit that is none and a missing field are refused in a sentence."""
    with pytest.raises(InputError, match="choose from shipped, document"):
        profile_of("trunk")
    stated = {"id": "x", "config_topic": ["A"], "initial_leader": "W1", "initial": {}, "rounds": []}
    with pytest.raises(InputError, match="'A' is no unit"):
        list(rounds({"scenarios": [stated]}, SHIPPED))
    del stated["initial"]
    stated["config_topic"] = []
    with pytest.raises(InputError, match="scenario x: no field 'initial'"):
        list(rounds({"scenarios": [stated]}, SHIPPED))
