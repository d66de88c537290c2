"""The table of `diagrams/hazards.md`: how short the way to harm is, by dialects and by what disturbs."""

from __future__ import annotations

import pytest
from models import consumer_group

from fsm.check import check
from fsm.check.search import Limits
from fsm.reference.reports import KINDS, SHORTEST

ASKED = ("members use only assigned partitions", "no partition has two users", "the group settles")
CHEAP = ("lose", "unanswered", "late", "failover")
ENDLESS = Limits(400_000)
"""With a `fixed` coordinator members of releases can rejoin without end; the shortest paths come first."""
USUAL = Limits(3_000_000)


def shortest(client: str, coordinator: str, kind: str) -> str:
    model = consumer_group(client=client, coordinator=coordinator)
    limits = ENDLESS if (client, coordinator) == ("4.4.0", "fixed") else USUAL
    verdict = check(model, disturb=[kind], disturbances=1, properties=ASKED, every=True, limits=limits)
    assert not verdict.stopped or limits is ENDLESS
    steps = {one.property: one.doomed_at or len(one.path) for one in verdict.violations}
    assert set(steps) <= set(ASKED)
    assert steps or verdict.word == "holds"
    return ", ".join(str(steps[name]) for name in ASKED if name in steps)


@pytest.mark.parametrize("kind", ["unanswered", "failover"])
@pytest.mark.loop(1)
def test_the_table_is_what_the_checker_says(kind: str) -> None:
    """Where something is broken, and where nothing is."""
    assert shortest("4.4.0", "4.4.0", kind) == SHORTEST["4.4.0", "4.4.0"].get(kind, "")


@pytest.mark.deep
@pytest.mark.parametrize("kind", CHEAP)
@pytest.mark.parametrize("pair", [("fixed", "4.4.0"), ("fixed", "fixed")], ids="-".join)
def test_the_table_is_what_the_checker_says_of_dialects_that_are_fixed(pair: tuple[str, str], kind: str) -> None:
    assert shortest(*pair, kind) == SHORTEST[pair].get(kind, "")


@pytest.mark.deep
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("pair", SHORTEST, ids="-".join)
def test_the_whole_table_is_what_the_checker_says(pair: tuple[str, str], kind: str) -> None:
    assert shortest(*pair, kind) == SHORTEST[pair].get(kind, "")
