"""Random runs of clusters, of every kind of member: whatever happens, all converge, and no double is unexplained."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

import pytest
from cluster_scene import WITHOUT_EPOCH, Watched, cluster, without_callback
from cluster_watch import watch
from disturbances import disturb, leave_to_the_classic, settle

from fsm.cluster.client import BOTH, COOPERATIVE, EAGER
from fsm.cluster.stale_uses import CAUSES
from fsm.member.dialect.dialect import DOCUMENT, FIXED
from fsm.protocol.releases import RELEASES

KINDS: Mapping[str, tuple[str, ...]] = {
    "consumer": RELEASES,
    "fixed": (FIXED,),
    "document": (DOCUMENT,),
    "eager": (EAGER, BOTH),
    "cooperative": (COOPERATIVE, BOTH),
    "mixed-eager": (FIXED, FIXED, EAGER, BOTH),
    "mixed-cooperative": (FIXED, FIXED, COOPERATIVE, BOTH),
    "mixed-document": (DOCUMENT, DOCUMENT, EAGER, BOTH),
    "mixed-releases": (*RELEASES, *4 * (COOPERATIVE, BOTH)),
}
POLICIES = ("bidirectional", "upgrade", "downgrade", "disabled")
FAULTS = {"untold"}
"""What is a fault of released clients, and of no other."""
ALWAYS: Mapping[str, set[str]] = {
    "consumer": {"A5", "expired"},
    "fixed": {"A5", "expired"},
    "document": {"expired"},
    "eager": {"A5", "expired", "late join", "replaced"},
    "cooperative": {"A5", "expired", "late join", "replaced"},
    "mixed-eager": {"expired", "replaced"},
    "mixed-cooperative": {"expired", "replaced"},
    "mixed-document": {"expired"},
    "mixed-releases": {"expired"},
}
"""Causes that a long walk of that kind meets."""
LATE_COMMITS = {"W1", "W2", "W6", WITHOUT_EPOCH}
"""Whose membership goes on, in an epoch that is the member's, may commit what it uses beyond its right."""


class Walked(NamedTuple):
    """What came of some runs."""

    steps: int
    causes: Counter[str | None]
    stranded: Counter[str | None]
    late_commits: Counter[str | None]


def ran(kind: str, seed: int, until_ms: int = 40_000) -> tuple[Watched, str | None]:
    """One run: whatever may happen, then a quiet and fair time. Why it was stranded, if it was.

    The seed chooses the release, the policy, and whether the members of the consumer protocol go in the end.
    """
    release, policy = RELEASES[seed % len(RELEASES)], POLICIES[seed % len(POLICIES)]
    found = cluster(seed, release, policy=policy if kind.startswith("mixed") else POLICIES[0])
    watch(found)
    disturb(found, KINDS[kind], until_ms)
    if seed // len(POLICIES) % 2 == 0:
        leave_to_the_classic(found)
    settled = settle(found)
    title = f"{kind}, seed {seed}, {release}, {policy}"
    released = not set(RELEASES).isdisjoint(KINDS[kind])
    assert not settled.problems, f"{title}: {settled.problems}\n{found.story.text(80)}"
    for double in found.doubles:
        assert double.cause is not None, f"{title}: {double}\n{double.events}"
        assert double.cause in CAUSES.keys() - (set() if released else FAULTS), f"{title}: {double}"
    assert released or not without_callback(found), f"{title}: {without_callback(found)}\n{found.story.text(80)}"
    assert found.late_commits.keys() <= LATE_COMMITS, f"{title}: {found.late_commits}"
    return found, settled.stranded


def walk(kind: str, first_seed: int, steps: int) -> Walked:
    """Runs of that kind, from that seed on, up to so many steps."""
    walked, seed = Walked(0, Counter(), Counter(), Counter()), first_seed
    while walked.steps < steps:
        found, stranded = ran(kind, seed)
        walked.causes.update(double.cause for double in found.doubles)
        walked.stranded[stranded] += 1
        walked.late_commits.update(found.late_commits)
        walked, seed = walked._replace(steps=walked.steps + found.steps), seed + 1
    return walked


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.deep)])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.loop(4)
def test_disturbed_clusters_converge_and_share_nothing_unexplained(kind: str, seed: int) -> None:
    """Loss, delays, frozen, dead, slow and silent members, restarts; then everybody holds what it shall, once."""
    found, _ = ran(kind, seed, 20_000)
    assert found.steps > 800


def test_a_generation_that_begins_without_a_static_member_is_the_cause_of_a_double() -> None:
    """Its members are the same, so that the beginning of the generation is all that tells."""
    found, _ = ran("eager", 11_011, 16_000)
    assert [double.cause for double in found.doubles] == ["late join"]


@pytest.mark.slow
@pytest.mark.parametrize("part", range(2))
@pytest.mark.parametrize("kind", KINDS)
def test_a_million_steps(kind: str, part: int) -> None:
    """One part of them: all releases, dialects, assignors and policies; every invariant watched in every step."""
    walked = walk(kind, 1_000 + 10_000 * part, 84_000)
    assert ALWAYS[kind] <= walked.causes.keys()
