"""What the coordinator prints, line by line, in the words of 0.11 to 4.4."""

from __future__ import annotations

import tarfile
from datetime import UTC
from pathlib import Path

import pytest

from fsm.audit.reading.piece import read_piece
from fsm.logs import formats
from fsm.logs.programs.broker import FORMATS
from fsm.logs.reading.entries import records_of
from fsm.logs.reading.pieces import WHOLE, Piece, from_bytes
from fsm.trace import Kind, TraceRecord

RECORDED = Path(__file__).parent.parent / "data" / "broker-logs.tar.xz"
SHARD = "[GroupCoordinator id=1 topic=__consumer_offsets partition=1] "
MANAGER = "org.apache.kafka.coordinator.group.GroupMetadataManager"
OFFSETS = "org.apache.kafka.coordinator.group.OffsetMetadataManager"
TOPIC, OTHER = "5Y6cx24zR4681KyGg4shiw", "8s1lnmxkSK2e4GljFsdRJw"


def told(message: str, logger: str = MANAGER, level: str = "INFO") -> list[TraceRecord] | None:
    """The records of one line of the coordinator."""
    return read(f"{SHARD}{message} ({logger})", level)


def read(message: str, level: str = "INFO") -> list[TraceRecord] | None:
    """The records of one line of a broker."""
    line = f"[2026-11-21 08:19:42,138] {level} {message}"
    (entry,) = from_bytes(line.encode(), FORMATS)
    found = records_of(entry, UTC)
    return None if found is None else list(found)


def one(message: str) -> TraceRecord:
    """The only record of a line."""
    found = told(message)
    assert found is not None
    (record,) = found
    assert (record.ts_ms, record.thread, record.client_id) == (1795249182138, "coordinator", "")
    return record


@pytest.mark.parametrize(
    ("message", "kind", "group", "member_id", "instance_id", "detail"),
    [
        (
            "[GroupId g 1] Member m joins the consumer group using the classic protocol.",
            "joined",
            "g 1",
            "m",
            "",
            "classic",
        ),
        (
            "[GroupId g] Static member m with instance id i joins the consumer group using the consumer protocol.",
            *("joined", "g", "m", "i", "consumer"),
        ),
        (
            (
                "[GroupId g] Static member with instance id i re-joins the consumer group using the consumer protocol. "
                "Created a new member n to replace the existing member m."
            ),
            *("joined", "g", "n", "i", "consumer"),
        ),
        (
            "[GroupId g] Static member m with instance id i temporarily left the consumer group.",
            *("left", "g", "m", "i", "STATIC_MEMBER_AWAY"),
        ),
        ("[GroupId g] Static Member m with instance id i left the consumer group.", "left", "g", "m", "i", ""),
        (
            "[Group g] Member m has left group through explicit `LeaveGroup` request; client reason: not provided",
            *("left", "g", "m", "", "not provided"),
        ),
        (
            "[GroupId g] Member m fenced from the group because the member session expired.",
            *("fenced", "g", "m", "", "SESSION_EXPIRED"),
        ),
        (
            "[GroupId g] Member m fenced from the group because it failed to transition from epoch 7 within 45000ms.",
            *("fenced", "g", "m", "", "REBALANCE_TIMEOUT"),
        ),
        ("Member m in group g h has failed, removing it from the group.", "fenced", "g h", "m", "", "SESSION_EXPIRED"),
        (
            (
                "Static member with groupInstanceId=i and unknown member id joins group g in Stable state. Replacing "
                "previously mapped member m with this groupInstanceId."
            ),
            *("fenced", "g", "m", "i", "FENCED_INSTANCE_ID"),
        ),
        (
            "Pending dynamic member with id m joins group g in CompletingRebalance state. Adding to the group now.",
            *("joined", "g", "m", "", "classic"),
        ),
        (
            (
                "[GroupId g] Static member n with instance id i cannot join the group because the instance id is owned "
                "by member m."
            ),
            *("error", "g", "n", "i", "UNRELEASED_INSTANCE_ID"),
        ),
        (
            "Cannot upgrade classic group g to consumer group because online upgrade is disabled.",
            *("error", "g", "", "", "online upgrade is disabled."),
        ),
    ],
)
def test_what_becomes_of_members(  # noqa: PLR0917  the columns of the cases
    message: str, kind: str, group: str, member_id: str, instance_id: str, detail: str
) -> None:
    """Joins, leaves, fences and refusals name group and member, whatever words the release uses."""
    record = one(message)
    assert (record.kind, record.group, record.member_id) == (kind, group, member_id)
    assert (record.instance_id, record.detail) == (instance_id, detail)


OLDER_STATES = (
    ("Preparing to rebalance group g h with old generation 3 (__consumer_offsets-7)", "PREPARING_REBALANCE", 3, ""),
    (
        (
            "Preparing to rebalance group g h in state Stable with old generation 3 (__consumer_offsets-7) (reason: "
            "removing member m on heartbeat expiration)"
        ),
        *("PREPARING_REBALANCE", 3, "removing member m on heartbeat expiration"),
    ),
    ("Stabilized group g h generation 4 (__consumer_offsets-7)", "COMPLETING_REBALANCE", 4, ""),
    ("Stabilized group g h generation 4 (__consumer_offsets-7) with 2 members", "COMPLETING_REBALANCE", 4, "2 members"),
    ("Assignment received from leader for group g h for generation 4", "STABLE", 4, ""),
    (
        (
            "Assignment received from leader for group g h for generation 4. The group has 2 members, 0 of which are "
            "static."
        ),
        *("STABLE", 4, "2 members, 0 of which are static"),
    ),
    ("Group g h with generation 5 is now empty (__consumer_offsets-7)", "EMPTY", 5, ""),
    ("Unloading group metadata for g h with generation 5", "DEAD", 5, ""),
    ("Loading group metadata for g h with generation 5", "", 5, ""),
)
OLDER_MEMBERS = (
    ("Member m in group g h has failed, removing it from the group", "fenced", "", "SESSION_EXPIRED"),
    ("Member m in group g h has left, removing it from the group", "left", "", ""),
    (
        "Member[group.instance.id Some(i), member.id m] in group g h has left, removing it from the group",
        *("left", "i", ""),
    ),
    (
        (
            "Member MemberMetadata(memberId=m, groupInstanceId=None, clientId=c, clientHost=/10.0.0.1, "
            "sessionTimeoutMs=45000, rebalanceTimeoutMs=300000, supportedProtocols=List(range)) has left group g h "
            "through explicit `LeaveGroup`; client reason: the consumer is being closed"
        ),
        *("left", "", "the consumer is being closed"),
    ),
    (  # 3.0
        (
            "Member MemberMetadata(memberId=m, groupInstanceId=Some(i), clientId=c, clientHost=/10.0.0.1, "
            "sessionTimeoutMs=45000, rebalanceTimeoutMs=300000, supportedProtocols=List(range)) has left group g h "
            "through explicit `LeaveGroup` request"
        ),
        *("left", "i", ""),
    ),
    ("Pending member with memberId=m has left group g h through explicit `LeaveGroup` request", "left", "", ""),
    (
        (
            "Dynamic Member with unknown member id joins group g h in Empty state. Created a new member id m for this "
            "member and add to the group."
        ),
        *("joined", "", "classic"),
    ),
    ("Adding new static member Some(i) to group g h with member id m.", "joined", "i", "classic"),
    (
        (
            "Static member Some(i) of group g h with unknown member id rejoins, assigning new member id n, while old "
            "member id m will be removed."
        ),
        *("fenced", "i", "FENCED_INSTANCE_ID"),
    ),
)
OLDER = "[GroupCoordinator 3]: {} (kafka.coordinator.group.GroupCoordinator)"


@pytest.mark.parametrize(("message", "state", "epoch", "detail"), OLDER_STATES)
def test_states_of_groups_before_4_0(message: str, state: str, epoch: int, detail: str) -> None:
    """Kafka 0.11 to 3.9: `kafka.coordinator.group.GroupCoordinator`, without a group in brackets."""
    (record,) = read(OLDER.format(message)) or ()
    assert (record.kind, record.machine, record.next_state) == ("group_state", "classic-group", state)
    assert (record.group, record.epoch, record.detail, record.thread) == ("g h", epoch, detail, "coordinator")


@pytest.mark.parametrize(("message", "kind", "instance_id", "detail"), OLDER_MEMBERS)
def test_what_becomes_of_members_before_4_0(message: str, kind: str, instance_id: str, detail: str) -> None:
    (record,) = read(OLDER.format(message)) or ()
    assert (record.kind, record.group, record.member_id) == (kind, "g h", "m")
    assert (record.instance_id, record.detail) == (instance_id, detail)


@pytest.mark.parametrize(
    ("message", "detail"),
    [
        ("Group g remove dynamic members who haven't joined: Set(m)", "Set(m)"),  # 2.7
        ("Group g removed dynamic members who haven't joined: Set(m)", "Set(m)"),
        (
            "Group g could not complete rebalance because no members rejoined",
            "could not complete rebalance because no members rejoined",
        ),
    ],
)
def test_rebalances_that_failed_before_4_0(message: str, detail: str) -> None:
    (record,) = read(OLDER.format(message)) or ()
    assert (record.kind, record.group, record.detail) == ("error", "g", detail)


@pytest.mark.parametrize(
    ("message", "records"),
    [
        ("Startup complete.", []),
        ("Removed 2 offsets associated with deleted partitions: t-0.", []),
        ("Static member joins during Stable stage will not trigger rebalance.", []),
        ("The following groups were deleted: g, h. A total of 3 offsets were removed.", []),
        (
            (
                "Static member Some(i) with unknown member id rejoins, assigning new member id n, while old member m "
                "will be removed."
            ),
            [],
        ),
        (
            (
                "Request memberId=m for static member with groupInstanceId=i is fenced by current memberId=n during "
                "operation static-member-heartbeat"
            ),
            [],
        ),
        ("Member m in group g was seen in a new light", None),
    ],
)
def test_other_lines_before_4_0(message: str, records: list[TraceRecord] | None) -> None:
    assert read(OLDER.format(message)) == records


@pytest.mark.parametrize(
    ("message", "machine", "state", "epoch", "detail"),
    [
        (
            (
                "Preparing to rebalance group g in state PreparingRebalance with old generation 3 (reason: removing "
                "member m on heartbeat expiration.)."
            ),
            *("classic-group", "PREPARING_REBALANCE", 3, "removing member m on heartbeat expiration."),
        ),
        ("Stabilized group g generation 4 with 2 members.", "classic-group", "COMPLETING_REBALANCE", 4, "2 members"),
        (
            (
                "Assignment received from leader m for group g for generation 4. The group has 2 members, 0 of which "
                "are static."
            ),
            *("classic-group", "STABLE", 4, "2 members, 0 of which are static"),
        ),
        ("Group g with generation 5 is now empty.", "classic-group", "EMPTY", 5, ""),
        ("[GroupId g] Converted the classic group to a consumer group.", "consumer-group", "", None, ""),
        ("[GroupId g] Converted the empty consumer group to a classic group.", "classic-group", "", None, ""),
        ("[GroupId=g] Unloaded group metadata for group epoch 9.", "consumer-group", "DEAD", 9, ""),
        ("Loaded classic group g with 3 members.", "classic-group", "", None, "3 members"),
    ],
)
def test_states_of_groups(message: str, machine: str, state: str, epoch: int | None, detail: str) -> None:
    """A classic group's states are printed, a consumer group's have to be derived; conversions tell the machine."""
    record = one(message)
    assert (record.kind, record.group) == (Kind.GROUP_STATE, "g")
    assert (record.machine, record.next_state, record.epoch, record.detail) == (machine, state, epoch, detail)


def test_epochs() -> None:
    """The group epoch with or without hash, and the target's."""
    assert one("[GroupId g] Bumped group epoch to 2.").epoch == 2
    assert one("[GroupId g] Bumped group epoch to 3 with metadata hash -12.").kind is Kind.GROUP_EPOCH
    short = one("[GroupId g] Computed a new target assignment for epoch 3 with 'uniform' assignor in 1ms.")
    assert (short.kind, short.epoch, short.detail) == (Kind.TARGET_COMPUTED, 3, "uniform")


def test_the_target_of_each_member() -> None:
    """At DEBUG the broker prints the map of them; ids of classic members may hold blanks and equals signs."""
    found = told(
        "[GroupId g] Computed a new target assignment for epoch 3 with 'uniform' assignor in 1ms: "
        f"{{a b=c-1=MemberAssignment(partitions={{{TOPIC}=[1, 0], {OTHER}=[7]}}), "
        "m=MemberAssignment(partitions={})}."
    )
    assert found is not None
    computed, first, second = found
    assert (computed.kind, computed.epoch, computed.detail) == (Kind.TARGET_COMPUTED, 3, "uniform")
    assert {(r.kind, r.group, r.epoch, r.detail) for r in (first, second)} == {(Kind.TARGET, "g", 3, "")}
    assert (first.member_id, first.full) == ("a b=c-1", ((TOPIC, 0), (TOPIC, 1), (OTHER, 7)))
    assert (second.member_id, second.full) == ("m", ())


def test_a_map_of_targets_that_was_cut() -> None:
    """What is whole is read."""
    found = told(
        "[GroupId g] Computed a new target assignment for epoch 3 with 'range' assignor in 1ms: "
        f"{{m=MemberAssignment(partitions={{{TOPIC}=[1]}}), n=MemberAssignment(partitions={{{TOPIC}=[2, 3"
    )
    assert [(r.kind, r.member_id) for r in found or ()] == [(Kind.TARGET_COMPUTED, ""), (Kind.TARGET, "m")]


@pytest.mark.parametrize(
    ("message", "logger"),
    [
        (
            (
                f"[GroupId g] Computed new subscription metadata: {{foo=TopicMetadata(id={TOPIC}, name=foo, "
                "numPartitions=6)}."
            ),
            MANAGER,
        ),
        (f"[GroupId g] Committing offsets 5 for partition {TOPIC}-foo-0 from member m with leader epoch 0.", OFFSETS),
    ],
    ids=["before 4.2", "from 4.2 on"],
)
def test_names_of_topics(message: str, logger: str) -> None:
    """Lines that name a topic beside its id tell how it is called elsewhere."""
    (record,) = told(message, logger) or ()
    assert (record.kind, record.group, record.settings) == (Kind.TOPIC_NAMES, "g", {TOPIC: "foo"})


@pytest.mark.parametrize("partition", ["foo-0", f"{TOPIC}-foo-1"], ids=["without id", "another partition"])
def test_other_commits_tell_nothing(partition: str) -> None:
    """There are very many of them."""
    message = f"[GroupId g] Committing offsets 5 for partition {partition} from member m with leader epoch 0."
    assert told(message, OFFSETS) == []


@pytest.mark.parametrize("epochs", ["", "@7"])
def test_the_coordinators_view_of_a_member(epochs: str) -> None:
    """Assigned and pending partitions are named by topic id, with or without their epochs."""
    record = one(
        f"[GroupId g] Member m new assignment state: epoch=7, previousEpoch=6, state=UNREVOKED_PARTITIONS, "
        f"assignedPartitions=[{TOPIC}-1{epochs}, {TOPIC}-0{epochs}] and revokedPartitions=[{TOPIC}-12{epochs}]."
    )
    assert (record.kind, record.machine, record.next_state) == (
        Kind.MEMBER_STATE,
        "consumer-group-member",
        "UNREVOKED_PARTITIONS",
    )
    assert (record.epoch, record.full, record.revoked) == (7, ((TOPIC, 0), (TOPIC, 1)), ((TOPIC, 12),))


@pytest.mark.parametrize(
    "message",
    [
        "[GroupId g] Member m joins the consumer group on foot.",
        (
            "[GroupId g] Member m new assignment state: epoch=1, previousEpoch=0, state=STABLE, assignedPartitions="
            "[foo] and revokedPartitions=[]."
        ),
        "Group g is in the garden.",
    ],
)
def test_unknown_words_are_not_understood(message: str) -> None:
    """What the coordinator says of a group, and no rule knows, is counted."""
    assert told(message) is None


@pytest.mark.parametrize(
    ("message", "logger"),
    [
        ("[GroupId g][MemberId m] Member joins the streams group.", MANAGER),
        ("[GroupId g] Member m joins the share group using the share protocol.", MANAGER),
        (
            "[GroupId g] Committing offsets 5 for partition t-0.",
            OFFSETS,
        ),
    ],
)
def test_other_groups_have_no_bearing(message: str, logger: str) -> None:
    """Share and streams groups keep other machines; offsets say nothing of rebalances."""
    assert told(message, logger) == []


def test_every_line_of_the_recorded_brokers_is_understood() -> None:
    """Brokers 4.0.0, 4.3.1 and 4.4.0 in 161 scenarios: no line of the coordinator is unknown, under all the formats."""
    counts: dict[Kind, int] = {}
    with tarfile.open(RECORDED) as archive:
        for member in archive:
            opened = archive.extractfile(member)
            for entry in from_bytes(opened.read() if opened else b"", formats()):
                if b" [GroupCoordinator id=" in entry.data:
                    found = records_of(entry, UTC)
                    assert found is not None, entry.data[:300]
                    for record in found:
                        assert record.group, entry.data[:300]
                        counts[record.kind] = counts.get(record.kind, 0) + 1
    assert counts[Kind.FENCED] == 83
    assert counts[Kind.MEMBER_STATE] > 1000
    assert counts[Kind.GROUP_EPOCH] > 500
    assert counts[Kind.TARGET] > 500
    assert counts[Kind.TOPIC_NAMES] > 100


def test_half_a_line_is_told(tmp_path: Path) -> None:
    """Of which a terminal wrote the rest on the next line, behind the reason or in the logger."""
    line = (
        "[2026-11-21 08:04:07,092] INFO [GroupCoordinator 1]: Preparing to rebalance group g in state "
        "PreparingRebalance with old generation 320 (__consumer_offsets-25) (reason: removing member m-1-{}\n"
        "on heartbeat expiration) (kafka.coordinator.group.GroupCoordinator)\n"
        "[2026-11-21 08:04:07,092] INFO [GroupCoordinator 1]: Member m-{} in group g has failed, removing it from the "
        "group (kafka.coordinator.group.GroupCoordi\nnator)\n"
    )
    whole = "[2026-11-21 08:04:09,098] INFO [GroupCoordinator 1]: Group g with generation 321 is now empty {}\n"
    path = tmp_path / "server.log"
    where = "(__consumer_offsets-25) (kafka.coordinator.group.GroupCoordinator)"
    path.write_text("".join(line.format(i, i) for i in range(3)) + whole.format(where))
    summary = read_piece(Piece(str(path), 0, WHOLE), formats(), UTC).summary
    assert (summary.understood, summary.missed) == (1, 6)
