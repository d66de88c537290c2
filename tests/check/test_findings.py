"""What each release's consumer groups break by one disturbance of each kind, and at how many steps; the rest is clean.

Every path is taken by live objects, too. Releases with a `fixed` coordinator are left out: one poll timeout alone leads
them to more than a million and a half states.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from fsm.check import check
from fsm.check.kafka.consumer_group import consumer_group

SCENES: dict[str, dict[str, Any]] = {
    **{kind: {} for kind in consumer_group().kinds},
    "move": {"search": True},
    "topic_created": {"topic_changes": True},
    "topic_deleted": {"topic_changes": True},
    "topic_grown": {"topic_changes": True},
    "topic_recreated": {"topic_changes": True},
    "static close": {"static": True},
    "static restart": {"static": True},
    "undisturbed with a pattern": {"pattern": "fo.*"},
    "undisturbed with commits": {"commits": True},
    "undisturbed with an assignment interval": {"assignment_interval": True},
}
SHORT = {
    "held by the coordinator's book": "book",
    "one user": "users",
    "the group settles": "settles",
    "no application is ended": "ended",
    "a commit of an owner is accepted": "owner",
    "a commit of a former owner is refused": "former",
}
FOUND = """\
4.0.0 with 4.0.0, commit_async: owner 17
4.0.0 with 4.0.0, commit_sync: owner 17
4.0.0 with 4.0.0, expire: book 23, users 30
4.0.0 with 4.0.0, failover_losing: book 14, users 21
4.0.0 with 4.0.0, late: book 11, users 18, settles 8
4.0.0 with 4.0.0, lose: book 13, users 20
4.0.0 with 4.0.0, poll_timeout: book 15, users 18, settles 19
4.0.0 with 4.0.0, rebalance_timeout: book 26, users 33
4.0.0 with 4.0.0, restart: book 19, users 26
4.0.0 with 4.0.0, unanswered: book 14, users 21
4.0.0 with 4.0.0, move: book 16, users 27
4.0.0 with 4.0.0, topic_created: book 14, users 22
4.0.0 with 4.0.0, topic_deleted: book 21
4.0.0 with 4.0.0, topic_grown: book 16, users 23
4.0.0 with 4.0.0, topic_recreated: book 8, users 16
4.0.0 with 4.0.0, static restart: book 19, ended 9, users 26
4.0.0 with 4.0.0, undisturbed with a pattern: book 15, users 22
4.0.0 with 4.0.0, undisturbed with commits: owner 17
4.4.0 with 4.0.0, commit_async: owner 17
4.4.0 with 4.0.0, commit_sync: owner 17
4.4.0 with 4.0.0, expire: book 15, users 18
4.4.0 with 4.0.0, failover_losing: book 14, users 21
4.4.0 with 4.0.0, late: book 11, users 18, settles 8
4.4.0 with 4.0.0, lose: book 13, users 20
4.4.0 with 4.0.0, poll_timeout: book 14, users 17, settles 20
4.4.0 with 4.0.0, rebalance_timeout: book 18, users 25
4.4.0 with 4.0.0, restart: book 19, users 26
4.4.0 with 4.0.0, unanswered: book 14, users 21
4.4.0 with 4.0.0, move: book 16, users 27
4.4.0 with 4.0.0, topic_created: book 14, users 22
4.4.0 with 4.0.0, topic_deleted: book 21
4.4.0 with 4.0.0, topic_grown: book 16, users 23
4.4.0 with 4.0.0, topic_recreated: book 8, users 16
4.4.0 with 4.0.0, static restart: book 19, ended 9, users 26
4.4.0 with 4.0.0, undisturbed with a pattern: book 15, users 22
4.4.0 with 4.0.0, undisturbed with commits: owner 17
fixed with 4.0.0, commit_async: owner 17
fixed with 4.0.0, commit_sync: owner 17
fixed with 4.0.0, late: book 12, users 19, settles 9
fixed with 4.0.0, topic_recreated: book 8, users 16
fixed with 4.0.0, static restart: ended 9
fixed with 4.0.0, undisturbed with commits: owner 17
4.0.0 with 4.4.0, expire: book 23, users 30
4.0.0 with 4.4.0, failover_losing: book 14, users 21
4.0.0 with 4.4.0, late: book 11, users 18, settles 17
4.0.0 with 4.4.0, lose: book 13, users 20
4.0.0 with 4.4.0, poll_timeout: book 15, users 18
4.0.0 with 4.4.0, rebalance_timeout: book 26, users 33
4.0.0 with 4.4.0, restart: book 19, users 26
4.0.0 with 4.4.0, unanswered: book 14, users 21
4.0.0 with 4.4.0, move: book 16, users 27
4.0.0 with 4.4.0, topic_created: book 14, users 22
4.0.0 with 4.4.0, topic_deleted: book 21
4.0.0 with 4.4.0, topic_grown: book 16, users 23
4.0.0 with 4.4.0, topic_recreated: book 8, users 16
4.0.0 with 4.4.0, static restart: book 19, ended 9, users 26
4.0.0 with 4.4.0, undisturbed with a pattern: book 15, users 22
4.4.0 with 4.4.0, expire: book 15, users 18
4.4.0 with 4.4.0, failover_losing: book 14, users 21
4.4.0 with 4.4.0, late: book 11, users 18, settles 17
4.4.0 with 4.4.0, lose: book 13, users 20
4.4.0 with 4.4.0, poll_timeout: book 14, users 17
4.4.0 with 4.4.0, rebalance_timeout: book 18, users 25
4.4.0 with 4.4.0, restart: book 19, users 26
4.4.0 with 4.4.0, unanswered: book 14, users 21
4.4.0 with 4.4.0, move: book 16, users 27
4.4.0 with 4.4.0, topic_created: book 14, users 22
4.4.0 with 4.4.0, topic_deleted: book 21
4.4.0 with 4.4.0, topic_grown: book 16, users 23
4.4.0 with 4.4.0, topic_recreated: book 8, users 16
4.4.0 with 4.4.0, static restart: book 19, ended 9, users 26
4.4.0 with 4.4.0, undisturbed with a pattern: book 15, users 22
fixed with 4.4.0, late: book 12, users 19
fixed with 4.4.0, topic_recreated: book 8, users 16
fixed with 4.4.0, static restart: ended 9
fixed with fixed, topic_recreated: book 8, users 16
fixed with fixed, static restart: ended 9
"""


def found(client: str, coordinator: str, scene: str) -> str:
    """What one disturbance of that kind breaks, each with its steps."""
    kind = "" if scene.startswith("undisturbed") else scene.rpartition(" ")[2]
    model = consumer_group(client=client, coordinator=coordinator, **SCENES[scene])
    verdict = check(model, disturb=[kind] if kind else [], disturbances=int(bool(kind)), every=True)
    assert not verdict.stopped
    assert all(one.replayed is None or not one.replayed.differs for one in verdict.violations)
    return ", ".join(_told(verdict.violations))


def _told(violations: Any) -> Iterator[str]:
    for one in sorted(violations, key=lambda one: one.property):
        if one.property in SHORT:  # and not the invariants of steps, which have tests of their own
            yield f"{SHORT[one.property]} {one.doomed_at or len(one.path)}"


PAIRS = [(client, coordinator) for coordinator in ("4.0.0", "4.4.0") for client in ("4.0.0", "4.4.0", "fixed")]


@pytest.mark.slow
@pytest.mark.parametrize(("client", "coordinator"), [*PAIRS, ("fixed", "fixed")])
def test_each_release_breaks_what_is_known_of_it(client: str, coordinator: str) -> None:
    told = {f"{client} with {coordinator}, {scene}": found(client, coordinator, scene) for scene in SCENES}
    pinned = [line for line in FOUND.splitlines() if line.startswith(f"{client} with {coordinator},")]
    assert [f"{where}: {what}" for where, what in told.items() if what] == pinned
