"""The leader between its join and its sync: who may assign, from which configs, what everyone is told."""

from __future__ import annotations

from fsm.connect.assignor.incremental import Memory
from fsm.connect.assignor.leader import ConfigSnapshot, Election, Performed, perform
from fsm.connect.dialect import DOCUMENT
from fsm.connect.protocol import Assignment, WorkerMetadata
from fsm.connect.units import Unit
from fsm.connect.worker.config import ConnectConfig

CONFIG = ConnectConfig("g", scheduled_rebalance_max_delay_ms=1_000)
A, A0, A1 = Unit("A"), Unit("A", 0), Unit("A", 1)


def snapshot(offset: int) -> ConfigSnapshot:
    return ConfigSnapshot(offset, (("A", 2),))


def performed(
    members: dict[str, WorkerMetadata], offsets: tuple[int, int], protocol: str = "sessioned", **kwargs: ConnectConfig
) -> Performed:
    election = Election("w1", protocol, 5, members)
    config = kwargs.get("config", CONFIG)
    snapshots = (snapshot(offsets[0]), snapshot(offsets[1]))
    return perform(election, Memory(), snapshots, config, now_ms=100, last_completed_generation=-1)


def test_everyone_hears_the_same_leader_offset_and_delay() -> None:
    """Two fresh workers share a connector with two tasks; version, leader, url and offset are the round's."""
    done = performed({"w1": WorkerMetadata("u1", 3), "w2": WorkerMetadata("u2", 3)}, (3, 3))
    assert done.assignments == {
        "w1": Assignment(2, "w1", "u1", 3, (A, A0)),
        "w2": Assignment(2, "w1", "u1", 3, (A1,)),
    }
    assert done.memory.previous == {A, A0, A1}
    assert done.memory.previous_generation == 5


def test_a_member_that_read_further_makes_the_leader_look_again() -> None:
    """The fresh snapshot is used, with its offset, where the one in hand is behind a member."""
    done = performed({"w1": WorkerMetadata("u1", 3), "w2": WorkerMetadata("u2", 4)}, (3, 6))
    assert {a.offset for a in done.assignments.values()} == {6}
    assert done.assignments["w1"].assigned


def test_a_leader_that_stays_behind_fails_the_round() -> None:
    """Everyone is told error 1 and nothing else, under either protocol, and the memory stays."""
    members = {"w1": WorkerMetadata("u1", 3), "w2": WorkerMetadata("u2", 9)}
    for protocol, version in (("sessioned", 2), ("default", 0)):
        done = performed(members, (3, 8), protocol)
        assert set(done.assignments.values()) == {Assignment(version, "w1", "u1", 9, error=1)}
        assert done.memory == Memory()
        assert done.assignments["w2"].failed


def test_the_eager_protocol_deals_everything_anew() -> None:
    """Connectors, then tasks, to the members by id, with no memory of it."""
    done = performed({"w2": WorkerMetadata("u2", 3), "w1": WorkerMetadata("u1", 3)}, (3, 3), "default")
    assert {m: a.assigned for m, a in done.assignments.items()} == {"w1": (A, A1), "w2": (A0,)}
    assert (done.memory, done.outcome) == (Memory(), None)


def test_only_the_documents_leader_goes_on_with_a_reported_delay() -> None:
    """Members report 300 ms left of a delay: a new leader of the document waits for it, a shipped one does not."""
    held = Assignment(1, "w0", "u0", 3, (A, A0), (), 300)
    members = {"w1": WorkerMetadata("u1", 3, held), "w2": WorkerMetadata("u2", 3)}
    shipped = performed(members, (3, 3), "compatible")
    assert {a.delay_ms for a in shipped.assignments.values()} == {0}
    assert shipped.assignments["w2"].assigned == (A1,)
    config = ConnectConfig("g", "compatible", scheduled_rebalance_max_delay_ms=1_000, profile=DOCUMENT)
    document = performed(members, (3, 3), "compatible", config=config)
    assert {a.delay_ms for a in document.assignments.values()} == {300}
    assert {a.assigned for a in document.assignments.values()} == {()}
    assert document.memory.deadline_ms == 400
