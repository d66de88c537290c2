"""The log and the coordinator: what was written is what is known, whatever was compacted, wherever it was cut."""

from __future__ import annotations

import json
import random
import tarfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from recorded_walks import Recording, follow_step, follower_of, read
from stored_state import at, compacted, content, settled

from fsm.coordinator.coordinator import Coordinator
from fsm.coordinator.model.classic_group import ClassicGroup
from fsm.coordinator.model.consumer_group import ConsumerGroup, CurrentAssignment
from fsm.coordinator.model.context import BrokerConfig, Context
from fsm.coordinator.model.dialect import Dialect, dialect
from fsm.coordinator.model.timers import TimerKind
from fsm.coordinator.storage.load import keep_stored, load
from fsm.coordinator.storage.replay import replay, replay_segment
from fsm.protocol import records
from fsm.protocol.record_batches import CONTROL, TRANSACTIONAL, Batch, LogRecord, batch_of, write_batch
from fsm.protocol.records import ClassicGroupKey, GroupKey, MemberKey, OffsetKey, Record, RecordType
from fsm.tables.classic_group import State as ClassicState
from fsm.tables.consumer_group_member import State

T = RecordType
LATEST = dialect("4.4.0")
ORACLE = Path(__file__).parent.parent / "cases" / "oracle"
WALKS = ("plain", "static", "regex", "commit", "admin", "classic-static", "mixed", "migrate-static", "timers")
"""One walk of each of these families, in the oldest release and in the newest."""


@cache
def walks() -> dict[str, Recording]:
    """The recorded walks by name, the first seed of each family and release."""
    found: dict[str, Recording] = {}
    with tarfile.open(ORACLE / "coordinator.tar.xz") as archive:
        for member in sorted(archive.getmembers(), key=lambda member: member.name):
            release, _, walk = member.name.removeprefix("./").removesuffix(".jsonl").partition("/")
            name = f"{release}/{walk.rpartition('-')[0]}"
            stream = archive.extractfile(member) if release in {"4.0.0", "4.4.0"} and name not in found else None
            if stream is not None:
                found[name] = read(json.loads(line) for line in stream)
    return found


def steps(recording: Recording) -> Iterator[tuple[Coordinator, tuple[Record, ...]]]:
    """The coordinator along a walk: its state after each step, and what the step appended."""
    follower = follower_of(recording)
    for i in range(len(recording.steps)):
        assert not follow_step(follower, recording, i)
        yield follower.host.state, follower.log


@pytest.mark.parametrize("name", [f"{release}/{family}" for release in ("4.0.0", "4.4.0") for family in WALKS])
@pytest.mark.loop(6)
def test_state_is_what_its_log_says(name: str) -> None:
    """After every step of a walk, wherever the log is cut, replaying it gives the stored part of the state."""
    recording = walks()[name]
    replayed = Coordinator()
    for state, log in steps(recording):
        found = replay(log, dialect(recording.release), replayed)
        replayed = found.state
        assert found.remarks == ()
        assert at(replayed, list(settled(state))) == settled(state)
        assert replayed.offsets == state.offsets


@pytest.mark.parametrize("name", ["4.0.0/static", "4.4.0/plain", "4.4.0/regex", "4.4.0/mixed", "4.4.0/migrate-static"])
def test_compaction_changes_nothing(name: str) -> None:
    """A compacted log, cleaned up to any place, its old tombstones dropped or not, leads to the same state."""
    recording = walks()[name]
    log = [record for _, written in steps(recording) for record in written]
    whole = replay(log, dialect(recording.release)).state
    chance = random.Random(name)  # noqa: S311  # cuts are to be repeated
    for _ in range(15):
        cleaned = compacted(log, chance)
        assert content(replay(cleaned, dialect(recording.release)).state) == content(whole)


def member(member_id: str, *, session_ms: int | None = None) -> Record:
    """A record of type 5; with a session timeout, of a classic member."""
    classic = None if session_ms is None else records.ClassicMember(session_ms, ())
    value = records.Member(None, None, "c", "/127.0.0.1", ("foo",), "", 9_000, None, classic)
    return Record(MemberKey(T.CONSUMER_GROUP_MEMBER_METADATA, "g", member_id), value)


def current(member_id: str, state: int, *held: records.HeldTopic) -> Record:
    """A record of type 8 at epoch 7."""
    value = records.Current(7, 6, state, held)
    return Record(MemberKey(T.CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT, "g", member_id), value)


GROUP_AT_7, GROUP_AT_8 = (
    Record(GroupKey(T.CONSUMER_GROUP_METADATA, "g"), records.GroupEpoch(epoch)) for epoch in (7, 8)
)
TARGET_AT_7 = Record(GroupKey(T.CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA, "g"), records.TargetEpoch(7, 1_000))


def tombstone(kind: RecordType, member_id: str) -> Record:
    return Record(MemberKey(kind, "g", member_id), None)


def group_of(*given: Record, rules: Dialect = LATEST) -> ConsumerGroup:
    """The group that these records make."""
    group = replay(given, rules).state.groups["g"]
    assert isinstance(group, ConsumerGroup)
    return group


def test_a_group_may_begin_with_a_member() -> None:
    """Without records of types 3 and 6 the epochs are those of a fresh group: 1 since 4.3, 0 before (8.5, F1)."""
    assert (group_of(member("m")).epoch, group_of(member("m")).target_epoch) == (1, 1)
    old = group_of(member("m"), rules=dialect("4.2"))
    assert (old.epoch, old.target_epoch) == (0, 0)


def test_a_current_assignment_may_come_before_its_member() -> None:
    """After a compaction the record of type 8 may stand first; the member's own record keeps what it said (8.5)."""
    found = group_of(current("m", 0, records.HeldTopic("t" * 22, (1, 0), (5, 3))), member("m")).members["m"]
    assert found.metadata.subscribed_topic_names == ("foo",)
    assert found.current == CurrentAssignment(State.STABLE, 7, 6, ((("t" * 22, 0), 3), (("t" * 22, 1), 5)))


@pytest.mark.parametrize("epochs", [None, (5,)])
def test_missing_assignment_epochs_are_the_members_own(epochs: tuple[int, ...] | None) -> None:
    """Records of releases before 4.3 have none, and a list of another length does not count (8.3)."""
    found = group_of(member("m"), current("m", 2, records.HeldTopic("t" * 22, (0, 1), epochs)))
    assert [epoch for _, epoch in found.members["m"].current.assigned] == [7, 7]


def test_an_unknown_state_is_kept_as_unknown() -> None:
    """A state code that nobody wrote yet is UNKNOWN (2.5-11)."""
    assert group_of(member("m"), current("m", 9)).members["m"].current.state is State.UNKNOWN


def test_the_end_of_a_member_takes_three_tombstones() -> None:
    """Types 8, 7 and 5 in this order end a member; the group stays, empty (8.5)."""
    ends = [
        tombstone(kind, "m")
        for kind in (
            T.CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT,
            T.CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER,
            T.CONSUMER_GROUP_MEMBER_METADATA,
        )
    ]
    assert group_of(member("m"), current("m", 0), *ends).is_empty


def test_a_member_that_ends_too_early_is_remarked() -> None:
    """A tombstone of type 5 wants those of types 8 and 7 before it; the remark says where it stood (8.5)."""
    log = [member("m"), current("m", 0), tombstone(T.CONSUMER_GROUP_MEMBER_METADATA, "m")]
    (remark,) = replay(log, LATEST).remarks
    assert (remark.at, remark.text) == (2, "the end of member m, of which something is left")


def test_a_group_that_ends_too_early_is_remarked() -> None:
    """A tombstone of type 3 wants a group without members, targets and target epoch (8.5)."""
    log = [member("m"), Record(GroupKey(T.CONSUMER_GROUP_METADATA, "g"), None)]
    found = replay(log, LATEST)
    assert [remark.text for remark in found.remarks] == ["the end of consumer group g, of which something is left"]
    assert not found.state.groups


def test_tombstones_of_what_is_not_there_mean_nothing() -> None:
    """A compacted log may begin with the ends of things (8.5)."""
    keys = (T.CONSUMER_GROUP_METADATA, T.CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA, T.CONSUMER_GROUP_PARTITION_METADATA)
    ends = [Record(GroupKey(kind, "g"), None) for kind in keys]
    ends += [tombstone(T.CONSUMER_GROUP_MEMBER_METADATA, "m"), Record(ClassicGroupKey(T.GROUP_METADATA, "g"), None)]
    assert replay(ends, LATEST) == (Coordinator(), ())


def classic(*member_ids: str) -> Record:
    """A record of type 2."""
    members = tuple(
        records.ClassicGroupMember(member_id, None, "c", "/127.0.0.1", -1, 6_000, b"", b"\1")
        for member_id in member_ids
    )
    leader = member_ids[0] if member_ids else None
    value = records.ClassicGroup("connect", 4, "sessioned" if members else None, leader, 1_000, members)
    return Record(ClassicGroupKey(T.GROUP_METADATA, "g"), value, 3)


def test_a_classic_group_is_stable_or_empty() -> None:
    """A loaded classic group has no rebalance under way; -1 stands for its session timeout (5.1, 8.3)."""
    group = replay([classic("a", "b")], LATEST).state.groups["g"]
    assert isinstance(group, ClassicGroup)
    assert (group.state, group.generation, group.leader) == (ClassicState.STABLE, 4, "a")
    assert [m.rebalance_timeout_ms for m in group.members.values()] == [6_000, 6_000]
    empty = replay([classic()], LATEST).state.groups["g"]
    assert isinstance(empty, ClassicGroup)
    assert empty.state is ClassicState.EMPTY


def offset(value: int | None, group: str = "g") -> Record:
    """A record of type 1."""
    key = OffsetKey(T.OFFSET_COMMIT, group, "foo", 0)
    return Record(key, None if value is None else records.OffsetCommit(value), 4)


def test_an_offset_makes_a_simple_group() -> None:
    """An offset of a group that nobody knows makes a classic group without members; a member takes its place (8.5)."""
    found = replay([offset(3)], LATEST).state
    assert isinstance(found.groups["g"], ClassicGroup)
    assert found.groups["g"].is_simple
    assert isinstance(replay([offset(3), member("m")], LATEST).state.groups["g"], ConsumerGroup)
    assert replay([offset(3), offset(None)], LATEST).state.offsets == Coordinator().offsets


def transaction(base: int, value: int, *, committed: bool) -> list[Batch]:
    """An offset committed in a transaction of producer 5, and the end of the transaction."""
    inside = batch_of(base, [offset(value)], 1_000, producer_id=5, attributes=TRANSACTIONAL)
    key, end = b"\0\0" + int(committed).to_bytes(2, "big"), b"\0\0\0\0\0\0"
    marker = LogRecord(base + 1, 1_000, key, end)
    return [inside, Batch(base + 1, (marker,), attributes=TRANSACTIONAL | CONTROL, producer_id=5)]


@pytest.mark.parametrize(("committed", "expected"), [(True, 8), (False, 3)])
def test_offsets_of_a_transaction_count_with_its_end(committed: bool, expected: int) -> None:
    """They are pending until the control record of their producer, which may abort them (8.7)."""
    batches = [batch_of(0, [offset(3)], 1_000), *transaction(1, 8, committed=committed)]
    found = replay_segment(b"".join(map(write_batch, batches)), LATEST).state.offsets["g"]
    assert found["foo", 0].offset == expected


def test_a_later_commit_wins_over_a_transaction() -> None:
    """An offset stored by a record behind the transaction's own stays when that commits afterwards (8.7)."""
    inside, end = transaction(1, 8, committed=True)
    later = batch_of(2, [offset(9)], 1_000)
    moved = Batch(3, (end.records[0]._replace(offset=3),), attributes=end.attributes, producer_id=5)
    found = replay_segment(b"".join(map(write_batch, [inside, later, moved])), LATEST).state.offsets["g"]
    assert found["foo", 0].offset == 9


def test_a_fail_over_arms_sessions_and_revocations() -> None:
    """Every member gets the broker's session timeout, also a classic one; who must give up, a rebalance timer (4)."""
    state = replay([member("a"), current("a", 1), member("b", session_ms=6_000), current("b", 0)], LATEST).state
    group = load(state, Context(1_000)).state.groups["g"]
    assert isinstance(group, ConsumerGroup)
    found = dict(group.timers)
    assert found == {
        (TimerKind.SESSION, "a"): 46_000,
        (TimerKind.REBALANCE, "a"): 10_000,
        (TimerKind.SESSION, "b"): 46_000,
    }
    assert group.metadata_due


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (
            [member("a"), current("a", 0), GROUP_AT_7, TARGET_AT_7],
            [("", "LOADED_STABLE", "STABLE"), ("a", "LOADED_STABLE", "STABLE")],
        ),
        (
            [member("a"), current("a", 1), GROUP_AT_7, TARGET_AT_7],
            [("", "LOADED_RECONCILING", "RECONCILING"), ("a", "LOADED_UNREVOKED", "UNREVOKED_PARTITIONS")],
        ),
        (
            [member("a"), current("a", 2), GROUP_AT_8, TARGET_AT_7],
            [("", "LOADED_ASSIGNING", "ASSIGNING"), ("a", "LOADED_UNRELEASED", "UNRELEASED_PARTITIONS")],
        ),
        (
            [member("a"), current("a", 99), GROUP_AT_7, TARGET_AT_7],
            [("", "LOADED_RECONCILING", "RECONCILING"), ("a", "LOADED_UNKNOWN", "UNKNOWN")],
        ),
        ([GROUP_AT_7, TARGET_AT_7], [("", "LOADED_EMPTY", "EMPTY")]),
    ],
)
def test_a_fail_over_takes_the_rows_of_loading(given: list[Record], expected: list[tuple[str, str, str]]) -> None:
    """The group's own row leads to the state that its epochs and members give; nothing is written (7.2, 8.5)."""
    step = load(replay(given, LATEST).state, Context(1_000))
    assert [(one.member_id, one.event.name, one.target.name) for one in step.happened] == expected
    group = step.state.groups["g"]
    assert isinstance(group, ConsumerGroup)
    assert (group.state.name, group.metadata_due, step.records) == (expected[0][2], True, ())


def test_a_fail_over_restarts_classic_sessions() -> None:
    """Members of a classic group get their own session timeout, and nothing is written (4, 5.1)."""
    step = load(replay([classic("a")], LATEST).state, Context(1_000))
    group = step.state.groups["g"]
    assert isinstance(group, ClassicGroup)
    assert dict(group.heartbeat_deadlines_ms) == {"a": 7_000}
    assert (group.state, step.records) == (ClassicState.STABLE, ())


def test_a_classic_group_that_is_too_large_rebalances() -> None:
    """A loaded group with more members than allowed goes into PREPARING_REBALANCE (4)."""
    context = Context(1_000, config=BrokerConfig(group_max_size=1))
    group = load(replay([classic("a", "b")], LATEST).state, context).state.groups["g"]
    assert isinstance(group, ClassicGroup)
    assert group.state is ClassicState.PREPARING_REBALANCE
    assert group.join_phase is not None
    assert group.join_phase.deadline_ms == 7_000


def test_a_loaded_coordinator_goes_on() -> None:
    """What is stored of a loaded coordinator is what was replayed."""
    found = replay([member("a"), current("a", 0), offset(1, "other")], LATEST).state
    assert keep_stored(load(found, Context(1_000)).state) == keep_stored(found)
