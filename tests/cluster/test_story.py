"""What a cluster tells of its last events: to the reader of a failed test, and as a picture."""

from __future__ import annotations

from dataclasses import replace

import pytest
from cluster_scene import LATEST, cluster
from disturbances import disturb

from fsm.cluster.client import COOPERATIVE
from fsm.member.classic.state import ClassicMember
from fsm.member.dialect.dialect import FIXED
from fsm.render.sequence import mermaid, svg


def test_a_join_is_told_in_lines() -> None:
    """Who said what to whom, what the group is then, and what the application is called back for."""
    found = cluster()
    found.join("a", FIXED, ("bar",))
    found.run(200)
    lines = [line.partition(" ms  ")[2] for line in found.story.text().splitlines()[:7]]
    assert [line.partition(" rebalance_timeout")[0] for line in lines] == [
        "a: starts, speaks fixed",
        "a: subscribes to bar",
        "a -> coordinator: ConsumerGroupHeartbeat member_id=a-0, member_epoch=0,",
        "coordinator: has consumer group STABLE, epoch 2, target 2: a-0 STABLE at 2",
        "coordinator -> a: answers member_id=a-0, member_epoch=2, heartbeat_interval=500, assignment=bar[0, 1, 2]",
        "a: has ended on_partitions_assigned (('bar', 0), ('bar', 1), ('bar', 2))",
        "a -> coordinator: ConsumerGroupHeartbeat member_id=a-0, member_epoch=2,",
    ]


def test_only_those_concerned_are_told_of() -> None:
    """Events of two clients and the coordinator, without what a third one said."""
    found = cluster()
    for name in ("a", "b", "c"):
        found.join(name, FIXED, ("foo",))
    found.run(3_000)
    assert {e.source for e in found.story.last(1_000, ["a", "b"])} == {"a", "b", "coordinator"}
    assert len(found.story.last(10)) == 10


def test_lost_messages_are_marked() -> None:
    """What never arrived, and what a deaf client did not hear."""
    found = cluster()
    found.deaf.add("a")
    found.join("a", FIXED, ("foo",))
    found.run(500)
    assert "heartbeat_interval=500, assignment=foo[0, 1, 2, 3] (lost)" in found.story.text()


def test_an_unexplained_double_ownership_comes_with_its_story() -> None:
    """A client that takes what is another's: no cause, and the last events of both."""
    found = cluster()
    found.join("a", FIXED, ("foo",))
    found.run(3_000)
    found.join("b", COOPERATIVE, ("bar",))
    found.run(8_000)
    thief = found.clients["b"]
    classic: ClassicMember = thief.member.member  # type: ignore[attr-defined]
    thief.member.member = replace(classic, owned=(*classic.owned, ("foo", 0)))  # type: ignore[attr-defined]
    thief.using = (*thief.using, ("foo", 0))
    found._note_use(thief, ())
    assert [(double.partition, double.users, double.cause) for double in found.doubles] == [
        (("foo", 0), ("a", "b"), None)
    ]
    assert "b: starts, speaks cooperative-sticky" in found.doubles[0].events
    assert found.doubles[0].events.endswith("coordinator: ('foo', 0) is used by a and b: None")


@pytest.mark.parametrize("dialect", [FIXED, COOPERATIVE])
def test_the_last_events_are_a_sequence_diagram(dialect: str) -> None:
    """One lane for each client and one for the coordinator; the same seed draws the same bytes."""

    def drawn() -> tuple[str, str]:
        found = cluster(9, LATEST)
        disturb(found, (dialect,), 6_000)
        diagram = found.story.diagram("seed 9", 30)
        assert diagram.lanes[-1] == "coordinator"
        return svg(diagram), mermaid(diagram)

    assert drawn() == drawn()
    assert drawn()[0].startswith("<svg")
    assert "participant" in drawn()[1]
