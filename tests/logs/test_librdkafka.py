"""`fsm.logs.programs.librdkafka`: lines of librdkafka 2.16.0, and of releases before 1.6, and what they mean."""

from __future__ import annotations

import json
import tarfile
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC
from itertools import product
from pathlib import Path
from time import process_time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fsm.logs.message import Message
from fsm.logs.programs.librdkafka import FORMATS, understand
from fsm.logs.reading.pieces import from_bytes
from fsm.trace import DETAIL_LIMIT, Kind, TraceRecord, from_json, to_dict

STDERR, LOGGING = FORMATS
RECORDED = Path(__file__).parents[1] / "data" / "librdkafka-logs.tar.xz"
ID = "vo9syjv6T02DUv5WAzSTkQ"


def line(said: str, thread: str = "main") -> str:
    """`FACILITY|text` as librdkafka prints it on stderr."""
    facility, _, text = said.partition("|")
    return f"%7|1795220705.601|{facility}|A#consumer-1| [thrd:{thread}]: {text}"


def read(entry: str) -> Sequence[TraceRecord] | None:
    """What the first layout makes of a line that it must recognise and take for a candidate."""
    raw = entry.encode()
    assert STDERR.header.match(raw)
    assert STDERR.candidate.search(raw)
    return STDERR.parse(entry, UTC)


def told(said: str) -> list[dict[str, object]]:
    """The records of `FACILITY|text` without what the line's head says."""
    records = read(line(said))
    assert records is not None
    head = {"ts_ms": 1795220705601, "client_id": "A#consumer-1", "thread": "background"}
    found = [to_dict(record) for record in records]
    assert all(head.items() <= one.items() for one in found)
    return [{name: value for name, value in one.items() if name not in head} for one in found]


REQUEST = (
    'HEARTBEAT|GroupCoordinator/1: ConsumerGroupHeartbeat of member id "ySQf+9/g", group id "g1", generation id {}, '
    'group instance id "{}", current assignment "{}", subscribed topics "{}", subscribed topic regex "{}", '
    'remote assignor "NULL"'
)

MEANINGS = [
    (
        "INIT|librdkafka v2.16.0 (0x21000ff) A#consumer-1 initialized (builtin.features gzip, debug 0x2a40)",
        {"kind": "started", "settings": {"client": "librdkafka", "version": "2.16.0"}},
    ),
    (
        'MEMBERID|Group "g1": updating member id "(not-set)" -> "3ES7vE0uRPi/kfkHDW5Rjw"',
        {"kind": "member_id", "group": "g1", "member_id": "3ES7vE0uRPi/kfkHDW5Rjw"},
    ),
    ('MEMBERID|Group "g1": updating member id "0x7f8f" -> ""', {"kind": "member_id", "group": "g1"}),
    (
        'CGRPSTATE|Group "g1" changed state wait-broker-transport -> up (join-state init)',
        {"kind": "coordinator_found", "group": "g1"},
    ),
    (
        'CGRPSTATE|Group "g1" changed state up -> query-coord (join-state steady)',
        {"kind": "coordinator_lost", "group": "g1"},
    ),
    ('CGRPSTATE|Group "g1" changed state up -> term (join-state init)', {"kind": "close_end", "group": "g1"}),
    (
        'SUBSCRIBE|Group "g1": subscribe to new unset subscription of 0 topics (join-state steady)',
        {"kind": "unsubscribed", "group": "g1"},
    ),
    (
        'HEARTBEAT|Sending new subscription "t1((null))[-1], t3((null))[-1]"',
        {"kind": "subscribed", "topics": ("t1", "t3")},
    ),
    (
        'HEARTBEAT|Sending new subscription "^t{1, 2}((null))[-1], zz((null))[-1], ^u((null))[-1]"',
        {"kind": "subscribed", "topics": ("zz",), "detail": "^t{1, 2}|^u"},
    ),
    (
        'SUBSCRIPTION|Group "g1": effective subscription list changed from 0 to 2 topic(s):',
        {"kind": "effective_topics", "group": "g1"},
    ),
    ("SUBSCRIPTION| Topic t1 with 8 partition(s)", {"kind": "effective_topics", "topics": ("t1",)}),
    (
        REQUEST.format(0, "iA", "", "zz((null))[-1]", "(^t.*)"),
        {
            "kind": "joining",
            "group": "g1",
            "member_id": "ySQf+9/g",
            "instance_id": "iA",
            "epoch": 0,
            "full": [],
            "topics": ("zz",),
        },
    ),
    (
        REQUEST.format(3, "NULL", "NULL", "NULL", "NULL"),
        {"kind": "heartbeat_sent", "group": "g1", "member_id": "ySQf+9/g", "epoch": 3},
    ),
    (
        REQUEST.format(5, "NULL", f"foo({ID})[5], foo({ID})[4]@17", "NULL", 'a"b'),
        {
            "kind": "heartbeat_sent",
            "group": "g1",
            "member_id": "ySQf+9/g",
            "epoch": 5,
            "full": [["foo", 4], ["foo", 5]],
        },
    ),
    (
        REQUEST.format(-2, "(null)", "NULL", "NULL", "NULL"),
        {"kind": "leave_sent", "group": "g1", "member_id": "ySQf+9/g", "epoch": -2},
    ),
    (
        'HEARTBEAT|ConsumerGroupHeartbeat response received for member id "3ES7" with epoch 2',
        {"kind": "heartbeat_ok", "member_id": "3ES7", "epoch": 2},
    ),
    (f'HEARTBEAT|ConsumerGroupHeartbeat received target assignment "(null)({ID})[3]"', {"kind": "target"}),
    (
        f'HEARTBEAT|ConsumerGroupHeartbeat received target assignment "b({ID})[3], a({ID})[10], a({ID})[2]"',
        {"kind": "target", "full": [["a", 2], ["a", 10], ["b", 3]]},
    ),
    (
        f'HEARTBEAT|Reconciliation starts with new target assignment "foo({ID})[1]". Next assignment not cleared',
        {"kind": "reconciling", "full": [["foo", 1]]},
    ),
    (
        f'HEARTBEAT|Reconciliation starts with new target assignment "t1({ID})[1], t2(Nb...". Next assignment cleared',
        {"kind": "reconciling"},
    ),
    (
        f'HEARTBEAT|Target assignment acked, new current assignment  "foo({ID})[1]"',
        {"kind": "owned", "full": [["foo", 1]]},
    ),
    ('HEARTBEAT|Target assignment acked, new current assignment  ""', {"kind": "owned", "full": []}),
    (
        "HEARTBEAT|Expediting next heartbeat, with backoff 0: app polled after poll interval exceeded",
        {"kind": "poll_late"},
    ),
    (
        "HEARTBEAT|ConsumerGroupHeartbeat failed due to: Broker: Unknown member: will rejoin the group",
        {"kind": "fenced", "detail": "UNKNOWN_MEMBER_ID"},
    ),
    (
        (
            "HEARTBEAT|ConsumerGroupHeartbeat failed due to coordinator (127.0.0.1:9/1) loading in progress: "
            "Broker: Coordinator load in progress: retrying"
        ),
        {"kind": "error", "detail": "COORDINATOR_LOAD_IN_PROGRESS"},
    ),
    (
        "HEARTBEAT|ConsumerGroupHeartbeat failed: Broker: Topic authorization failed: not for you",
        {"kind": "error", "detail": "TOPIC_AUTHORIZATION_FAILED"},
    ),
    (
        'HEARTBEAT|GroupCoordinator/1: Heartbeat for group "g1" generation id 2',
        {"kind": "heartbeat_sent", "group": "g1", "epoch": 2},
    ),
    (
        (
            'HEARTBEAT|Group "g1" heartbeat error response in state up (join-state steady, 3 partition(s) assigned): '
            "Broker: Specified group generation id is not valid"
        ),
        {"kind": "fenced", "group": "g1", "detail": "ILLEGAL_GENERATION"},
    ),
    (
        (
            'ASSIGN|Group "g1": delegating incremental assign of 0 partition(s) to application on queue '
            "rd_kafka_cgrp_new: cooperative assign after revoke"
        ),
        {"kind": "assign_begin", "group": "g1", "detail": "0 partition(s): cooperative assign after revoke"},
    ),
    (
        (
            'ASSIGN|Group "g1": delegating revoke of 13 partition(s) to application on queue rd_kafka_cgrp_new: '
            "rebalance in progress"
        ),
        {"kind": "revoke_begin", "group": "g1", "detail": "13 partition(s): rebalance in progress"},
    ),
    (
        (
            'ASSIGN|Group "g1": delegating incremental revoke of 3 partition(s) to application on queue '
            "rd_kafka_cgrp_new: member fenced - rejoining"
        ),
        {"kind": "lost_begin", "group": "g1", "detail": "3 partition(s): member fenced - rejoining"},
    ),
    (
        'ASSIGN|Group "g1": application *assign() call failed: Local: Erroneous state',
        {"kind": "error", "group": "g1", "detail": "Local: Erroneous state"},
    ),
    ('PARTADD|Group "g1": add foo [7]', {"kind": "added", "group": "g1", "partitions": [["foo", 7]]}),
    ('PARTDEL|Group "g1": delete foo.v1 [0]', {"kind": "dropped", "group": "g1", "partitions": [["foo.v1", 0]]}),
    (
        (
            'LOST|Group "g1": current assignment of 3 partition(s) lost: Fatal error in ConsumerGroupHeartbeat API '
            "response: revoking incremental assignment and rejoining"
        ),
        {
            "kind": "lost_decided",
            "group": "g1",
            "detail": "3 partition(s): Fatal error in ConsumerGroupHeartbeat API response: revoking incremental "
            "assignment and rejoining",
        },
    ),
    (
        'LOST|Group "g1": current assignment no longer considered lost: incremental unassign done',
        {"kind": "lost_end", "group": "g1", "detail": "incremental unassign done"},
    ),
    (
        (
            'REBALANCE|Group "g1" is rebalancing (EAGER) in state up (join-state steady) with 7 assigned partition(s): '
            "rebalance in progress"
        ),
        {"kind": "revoke_decided", "group": "g1", "detail": "7 partition(s): rebalance in progress"},
    ),
    (
        'REBALANCE|Group "g1": internal incremental assign of 2 partition(s) failed: Local: Conflict: unassigning',
        {
            "kind": "error",
            "group": "g1",
            "detail": "internal incremental assign of 2 partition(s) failed: Local: Conflict: unassigning",
        },
    ),
    (
        'JOIN|127.0.0.1:46523/1: Joining group "g1" with 2 subscribed topic(s) and member id "0x7f8f"',
        {"kind": "joining", "group": "g1", "member_id": "0x7f8f"},
    ),
    (
        'REJOIN|Group "g1": Rejoining group with 5 owned partition(s): Group is rebalancing',
        {"kind": "joining", "group": "g1", "detail": "Group is rebalancing"},
    ),
    (
        (
            "JOINGROUP|JoinGroup response: GenerationId 4, Protocol range, LeaderId my, client-1 (me), my MemberId "
            "my, client-1, member metadata count 2: (no error)"
        ),
        {"kind": "joined", "member_id": "my, client-1", "epoch": 4},
    ),
    (
        (
            "JOINGROUP|JoinGroup response: GenerationId -1, Protocol , LeaderId , my MemberId x, "
            "member metadata count 0: Broker: Unknown member"
        ),
        {"kind": "fenced", "detail": "UNKNOWN_MEMBER_ID"},
    ),
    ("SYNCGROUP|SyncGroup response: Success (78 bytes of MemberState data)", {"kind": "synced"}),
    (
        "SYNCGROUP|SyncGroup response: Broker: Not coordinator (0 bytes of MemberState data)",
        {"kind": "error", "detail": "NOT_COORDINATOR"},
    ),
    (
        (
            "SESSTMOUT|Consumer group session timed out (in join-state steady) after 6003 ms without a successful "
            "response from the group coordinator (broker 1, last error was Success): "
            "revoking assignment and rejoining group"
        ),
        {
            "kind": "generation_reset",
            "detail": "Consumer group session timed out (in join-state steady) after 6003 ms without a successful "
            "response from the group coordinator (broker 1, last error was Success)",
        },
    ),
    (
        (
            "FATAL|Fatal error: Broker: The instance ID is still used by another member in the consumer group: "
            "ConsumerGroupHeartbeat fatal error"
        ),
        {"kind": "fatal", "detail": "UNRELEASED_INSTANCE_ID"},
    ),
    (
        (
            "COMMIT|GroupCoordinator/1: OffsetCommit for 6 partition(s) in join-state wait-unassign-to-complete: "
            "unassigned partitions: returned: Broker: The member epoch is stale"
        ),
        {"kind": "commit_failed", "detail": "STALE_MEMBER_EPOCH"},
    ),
    ('LEAVE|Group "g1": leave (in state up)', {"kind": "leave_begin", "group": "g1"}),
    ("LEAVE|127.0.0.1:41697/1: Leaving group", {"kind": "leave_sent"}),
    ("LEAVEGROUP|LeaveGroup response received in state up", {"kind": "left"}),
    (
        "LEAVEGROUP|ConsumerGroupHeartbeat response error in state up: Broker: Unknown member",
        {"kind": "left", "detail": "UNKNOWN_MEMBER_ID"},
    ),
    ("CLOSE|Closing consumer", {"kind": "close_begin"}),
]


@pytest.mark.parametrize(("said", "record"), MEANINGS, ids=[said[:50] for said, _ in MEANINGS])
def test_a_line_says_one_thing(said: str, record: dict[str, object]) -> None:
    """Each kind of line gives the record of its documented meaning, with all that the line tells."""
    assert told(said) == [record]


@pytest.mark.parametrize("said", [said for said, _ in MEANINGS], ids=[said[:50] for said, _ in MEANINGS])
def test_a_text_means_the_same_without_its_facility(said: str) -> None:
    """As the log callbacks of wrappers hand it on: no text is taken for another facility's without a meaning."""
    message = Message(1795220705601, f"A#consumer-1: [thrd:main]: {said.partition('|')[2]}")
    assert understand(message) == read(line(said))


def test_leaving_a_state_that_waits_for_the_application_ends_the_callback() -> None:
    """The step out of `wait-unassign-call` is the end of the revoked callback, and a transition."""
    said = 'CGRPJOINSTATE|Group "g1" changed join state wait-unassign-call -> wait-incr-unassign-to-complete (state up)'
    assert told(said) == [
        {"kind": "revoke_end", "group": "g1"},
        {
            "kind": "transition",
            "group": "g1",
            "machine": "rdkafka-join-state",
            "state": "WAIT_UNASSIGN_CALL",
            "next_state": "WAIT_INCR_UNASSIGN_TO_COMPLETE",
        },
    ]


@pytest.mark.parametrize(
    ("states", "kinds"),
    [
        ("wait-assign-call -> steady", ["assign_end", "transition"]),
        ("wait-assign-call -> wait-unassign-call", ["transition"]),
        ("steady -> init", ["transition"]),
    ],
)
def test_only_an_answer_ends_an_assigned_callback(states: str, kinds: list[str]) -> None:
    """An assignment that a close takes back before the application answered has no `ASSIGN_END`."""
    assert [one["kind"] for one in told(f'CGRPJOINSTATE|Group "g1" changed join state {states} (state up)')] == kinds


BEFORE_1_6 = [
    (
        'CGRPSTATE|Group "g1" changed state wait-broker-transport -> up (v1, join-state init)',
        [{"kind": "coordinator_found", "group": "g1"}],
    ),
    (
        'CGRPJOINSTATE|Group "g1" changed join state wait-assign-rebalance_cb -> assigned (v5, state up)',
        [{"kind": "assign_end", "group": "g1"}],
    ),
    (
        'CGRPJOINSTATE|Group "g1" changed join state wait-revoke-rebalance_cb -> wait-unassign (v5, state up)',
        [{"kind": "revoke_end", "group": "g1"}],
    ),
    ('CGRPJOINSTATE|Group "g1" changed join state init -> wait-join (v1, state up)', []),
    (
        (
            'ASSIGN|Group "g1": delegating assign of 2 partition(s) to application rebalance callback on queue '
            "rd_kafka_cgrp_new: new assignment"
        ),
        [{"kind": "assign_begin", "group": "g1", "detail": "2 partition(s): new assignment"}],
    ),
    (
        (
            'ASSIGN|Group "g1": delegating revoke of 2 partition(s) to application rebalance callback on queue '
            "rd_kafka_cgrp_new: max.poll.interval.ms exceeded"
        ),
        [{"kind": "revoke_begin", "group": "g1", "detail": "2 partition(s): max.poll.interval.ms exceeded"}],
    ),
    ('ASSIGN|Group "g1": assigning 2 partition(s) in join state wait-assign-rebalance_cb', []),
    (
        (
            'HEARTBEAT|Group "g1" heartbeat error response in state up (join state started, 2 partition(s) assigned): '
            "Broker: Unknown member"
        ),
        [{"kind": "fenced", "group": "g1", "detail": "UNKNOWN_MEMBER_ID"}],
    ),
    ("HEARTBEAT|Heartbeat failed: Broker: Unknown member: resetting member-id", []),
    ('REBALANCE|Group "g1" is rebalancing in state up (join-state started) with assignment: group rejoin', []),
    (
        'REJOIN|Group "g1" rejoining in join-state started with an assignment',
        [{"kind": "joining", "group": "g1"}],
    ),
    ('JOIN|b:9092/1: Joining group "g1" with 1 subscribed topic(s)', [{"kind": "joining", "group": "g1"}]),
    (
        (
            "JOINGROUP|JoinGroup response: GenerationId 7, Protocol range, LeaderId a-1 (me), my MemberId a-1, "
            "1 members in group: (no error)"
        ),
        [{"kind": "joined", "member_id": "a-1", "epoch": 7}],
    ),
    (
        "COMMIT|b:9092/1: OffsetCommit for 1 partition(s): cgrp auto commit timer: returned: Broker: Unknown member",
        [{"kind": "commit_failed", "detail": "UNKNOWN_MEMBER_ID"}],
    ),
    ("COMMIT|b:9092/1: OffsetCommit for 1 partition(s): cgrp auto commit timer: returned: Success", []),
    ('LEAVE|Group "g1": leave', [{"kind": "leave_begin", "group": "g1"}]),
]


@pytest.mark.parametrize(("said", "records"), BEFORE_1_6, ids=[said[:60] for said, _ in BEFORE_1_6])
def test_words_of_releases_before_1_6(said: str, records: list[dict[str, object]]) -> None:
    """0.11 to 1.5: eager only, with other join states. A callback begins and ends as it does today."""
    assert told(said) == records


def test_an_expired_poll_announces_a_leave() -> None:
    """The warning tells two things: the poll interval is over, and the client says that it leaves."""
    said = (
        "MAXPOLL|Application maximum poll interval (3000ms) exceeded by 252ms "
        "(adjust max.poll.interval.ms for long-running message processing): leaving group"
    )
    assert told(said) == [
        {"kind": "poll_expired", "detail": "252", "settings": {"max.poll.interval.ms": "3000"}},
        {"kind": "leave_begin", "detail": "max.poll.interval.ms exceeded"},
    ]


def test_both_layouts_tell_the_same() -> None:
    """The text passed through Python's logging gives the record that stderr gives, to the millisecond."""
    text = 'Group "g1": add foo [7]'
    passed = f"1795247667.039|DEBUG|PARTADD [my app#consumer-2] [thrd:main]: {text}"
    assert LOGGING.header.match(passed.encode())
    assert LOGGING.candidate.search(passed.encode())
    (printed,) = LOGGING.parse(passed, UTC) or ()
    (direct,) = STDERR.parse(f"%7|1795247667.039|PARTADD|my app#consumer-2| [thrd:main]: {text}", UTC) or ()
    assert printed == direct
    assert (printed.ts_ms, printed.client_id) == (1795247667039, "my app#consumer-2")


@pytest.mark.parametrize(
    ("prefix", "thread"), [("[thrd:app]: ", "app"), ("[thrd:[::1]:9092/1]: ", "background"), ("", "")]
)
def test_the_thread_is_the_applications_or_the_background(prefix: str, thread: str) -> None:
    """librdkafka's own threads are the background; without `log.thread.name` nothing tells."""
    (record,) = STDERR.parse(f"%7|1795220705.601|CLOSE|A#consumer-1| {prefix}Closing consumer", UTC) or ()
    assert record.thread == thread


@pytest.mark.parametrize(
    "said",
    [
        'MEMBERID|Group "g1": updating member id "(not-set)" -> ""',
        'MEMBERID|Group "g1": updating member id "3ES7" -> "(not-set)"',
        'CGRPSTATE|Group "g1" changed state init -> query-coord (join-state init)',
        'SUBSCRIBE|Group "g1": subscribe to new subscription of 2 topics (join-state init)',
        "HEARTBEAT|Expediting next heartbeat, with backoff 0: rejoining",
        'HEARTBEAT|Target assignment acked, new current assignment  "t1(dav7)[7], t1(da..."',
        (
            'HEARTBEAT|Group "g1" heartbeat error response in state up (join-state steady, 1 partition(s) assigned): '
            "Broker: Group rebalance in progress"
        ),
        "HEARTBEAT|ShareGroupHeartbeat response received assigned_topic_partitions size 1",
        'ASSIGN|  Member "A-1" (me) assigned 13 partition(s):',
        'ASSIGN|Group "g1": Consumer is terminating: treating assign as unassign',
        (
            'REBALANCE|Group "g1" initiating rebalance (NONE) in state up (join-state wait-metadata) with 0 assigned '
            "partition(s): Metadata for subscribed topic(s) has changed"
        ),
        (
            'REBALANCE|Group "g1" initiating rebalance (COOPERATIVE) in state up (join-state steady) with 3 assigned '
            "partition(s) (lost): member fenced - rejoining"
        ),
        (
            "JOINGROUP|JoinGroup response: GenerationId -1, Protocol , LeaderId , my MemberId A-1, member metadata "
            "count 0: Broker: Group member needs a valid member ID"
        ),
        (
            "COMMIT|GroupCoordinator/1: OffsetCommit for 4 partition(s) in join-state steady: cgrp auto commit timer: "
            "returned: Success"
        ),
        "COMMIT|OffsetCommit for 4 partition(s) in join-state steady: manual: returned: Local: No offset stored",
        'LEAVE|Group "g1": leave (in state up): LeaveGroupRequest already in-transit',
        "CLOSE|Consumer closed",
    ],
)
def test_what_a_neighbour_says_is_not_said_twice(said: str) -> None:
    """Known lines without bearing on the membership, or that a neighbouring line repeats, give no record."""
    assert told(said) == []


@pytest.mark.parametrize(
    "said",
    [
        "HEARTBEAT|A text of a later release",
        'PARTADD|Group "g1": add foo [99999999999]',
        "JOINGROUP|JoinGroup response: GenerationId 4, Protocol range, LeaderId A-1",
        REQUEST.format(12345678901, "NULL", "NULL", "NULL", "NULL"),
        'CGRPJOINSTATE|Group "g1" changed join state steady',
        'LOST|Group "g1": cur%7|1795220705.602|PARTADD|B#consumer-1| [thrd:main]: Group "g1": add foo [0]',
        'REBALANCE|Group "g1" is rebalancing in%7|1795220705.602|LOST|B#consumer-1| [thrd:main]: Group "g1": current',
    ],
)
def test_a_candidate_of_unknown_shape_is_not_understood(said: str) -> None:
    """A facility that matters with a text that is unknown, cut, or out of range is reported, not guessed at."""
    assert read(line(said)) is None


def test_a_line_within_another_one_is_not_the_others() -> None:
    """Two processes wrote into each other's: whose thread and whose text stand there is not known."""
    whole = line('PARTADD|Group "g1": add foo [0]')
    torn = whole.partition("main")[0] + whole.replace("A#", "B#")
    assert STDERR.parse(torn, UTC) is None
    assert understand(Message(1, torn.partition("| ")[2])) is None
    assert STDERR.parse(whole.partition("PARTADD")[0] + "SEND|A#consumer-1| [thrd:main]: " + whole, UTC) is None


def test_producers_have_no_membership() -> None:
    """A producer prints some of the same facilities; its lines are known and mean nothing here."""
    said = "%0|1795220705.092|FATAL|MOCK#producer-1| [thrd:app]: Fatal error: Broker: Invalid request"
    assert read(said) == ()


@pytest.mark.parametrize(
    "raw",
    [
        b"%7|1795220705.602|CGRPQUERY|A#consumer-1| [thrd:main]: Group: no broker available for coordinator query",
        b"%7|1795220705.605|GRPASSIGNMENT|A#consumer-1| [thrd:main]:  foo [0] offset INVALID",
        b"%7|1795220705.603|SEND|A#consumer-1| [thrd:main]: GroupCoordinator/1: Sent HeartbeatRequest (v3)",
    ],
)
def test_noise_is_known_without_being_decoded(raw: bytes) -> None:
    """Lines of other facilities have the header of a known entry and are no candidates."""
    assert STDERR.header.match(raw)
    assert not STDERR.candidate.search(raw)


@pytest.mark.parametrize(
    "raw",
    [
        b"1795221485.377|DEBUG|kafka.net.manager|MainThread|Next idle connections check in 539 secs",
        b"1795221517.118|INFO|aiokafka.consumer.consumer|MainThread|Subscribed to topic(s): {'foo'}",
        b"2026-11-21 09:00:00,123 DEBUG [Consumer clientId=c, groupId=g] HEARTBEAT (org.apache.kafka)",
        b'{"v":1,"ts_ms":1,"kind":"closed"}',
        b"%PDF-1.7",
        b"",
    ],
)
def test_other_programs_are_not_librdkafka(raw: bytes) -> None:
    """Neither layout claims a line of another client, not even of one that prints the same time stamp."""
    assert not STDERR.header.match(raw)
    assert not LOGGING.header.match(raw)


def test_long_reasons_are_cut() -> None:
    """A reason of any length leaves a detail within the limit of the record."""
    said = 'LOST|Group "g1": current assignment of 3 partition(s) lost: ' + "x" * 2000
    assert [len(str(one["detail"])) for one in told(said)] == [DETAIL_LIMIT]


# ---------------------------------------------------------------------------- anything at all


def holds(entry: str) -> None:
    """Nothing is raised, and every record survives its JSON form."""
    for format_ in FORMATS:
        for record in format_.parse(entry, UTC) or ():
            assert from_json(record.to_json()) == record


LINES = st.sampled_from([line(said) for said, _ in MEANINGS])
SNIPPETS = st.sampled_from(
    ["", '"', ": ", "...", "(null)", "[-1]", "[0]", "\r", "\n", "%7|", "|", "\x00", "é", "٣", "9" * 30]
)


@given(st.binary(max_size=300))
def test_any_bytes_are_read_without_an_error(raw: bytes) -> None:
    """Arbitrary bytes raise nothing, whether or not they look like a line."""
    list(from_bytes(raw, FORMATS))
    holds(raw.decode("utf-8", "replace"))


@given(LINES, st.data())
def test_damaged_lines_are_read_without_an_error(entry: str, data: st.DataObject) -> None:
    """A real line with a part replaced, cut out or doubled gives valid records, none, or is not understood."""
    start = data.draw(st.integers(0, len(entry)))
    end = data.draw(st.integers(start, len(entry)))
    holds(entry[:start] + data.draw(SNIPPETS | st.just(entry[start:end] * 2)) + entry[end:])


@pytest.mark.deep
@pytest.mark.parametrize(
    "repeated",
    [
        '"',
        " ",
        "a(",
        "(a)[1], ",
        ": ",
        ": returned: ",
        ") loading in progress: ",
        "]: ",
        "#consumer-1",
        ", my MemberId ",
        ", member metadata count ",
        '" changed join state a -> ',
        "((null))[-1]",
    ],
)
def test_work_grows_no_faster_than_a_line(repeated: str) -> None:
    """Whatever it says: one made to mislead the patterns is read in passing, at 30,000 characters and at ten times as
    many.

    The bound is a thousand times what a linear pattern takes, and less than a quadratic one needs for the shorter line.
    """
    for said, length in product(sorted({said[:70] for said, _ in MEANINGS}), (30_000, 300_000)):
        entry = line(said) + repeated * (length // len(repeated))
        raw, begun = entry.encode(), process_time()
        for format_ in FORMATS:
            format_.header.match(raw)
            format_.candidate.search(raw)
            format_.parse(entry, UTC)
        assert process_time() - begun < 2
        begun = process_time()
        list(from_bytes(raw, FORMATS))
        assert process_time() - begun < 2


# ---------------------------------------------------------------------------- recorded logs


@pytest.fixture(scope="module")
def recorded() -> dict[str, tuple[list[TraceRecord], list[dict[str, object]]]]:
    """For each librdkafka member of the recorded scenarios: the records of its log, and what its application saw."""
    with tarfile.open(RECORDED) as archive:
        files = {one.name: handle.read() for one in archive if (handle := archive.extractfile(one)) is not None}
    found = {}
    for name, data in sorted(files.items()):
        folder, _, member = name.removesuffix(".log").rpartition("/")
        if name.endswith(".log") and member != "broker" and not Path(folder).name.startswith("k_p"):
            truth = [json.loads(one) for one in files[f"{folder}/truth.jsonl"].splitlines()]
            found[f"{Path(folder).name}/{member}"] = (
                list(_records(data)),
                [one for one in truth if one["member"] == member],
            )
    return found


def _records(data: bytes) -> Iterator[TraceRecord]:
    for entry in from_bytes(data, FORMATS):
        assert entry.format is STDERR, entry.data
        assert b"\n" not in entry.data
        if STDERR.candidate.search(entry.data):
            records = STDERR.parse(entry.data.decode(), UTC)
            assert records is not None, entry.data
            yield from records


Recorded = dict[str, tuple[list[TraceRecord], list[dict[str, object]]]]
FATAL_MEMBERS = ["f06_unsupported_assignor/A", "f08_unreleased_instance/B", "f10_invalid_request/A"]
ASSIGNED_WHILE_CLOSING = "f02_unknown_member/B"


def test_every_line_of_the_recorded_logs_is_understood(recorded: Recorded) -> None:
    """All members of 50 scenarios are read, and every line is an entry of its own."""
    assert len(recorded) == 133
    assert all(records for records, _ in recorded.values())


def test_queued_callbacks_are_the_ones_the_applications_got(recorded: Recorded) -> None:
    """Kind, size and order of the queued callbacks equal what the applications saw, for every member."""
    queued = {Kind.ASSIGN_BEGIN: "assign", Kind.REVOKE_BEGIN: "revoke", Kind.LOST_BEGIN: "lost"}
    for member, (records, truth) in recorded.items():
        said = [(queued[one.kind], int(one.detail.split()[0])) for one in records if one.kind in queued]
        seen = [(one["ev"], len(one["parts"])) for one in truth if one["ev"] in queued.values()]  # type: ignore[arg-type]
        assert said == seen, member


def test_added_and_dropped_are_what_the_applications_got_and_lost(recorded: Recorded) -> None:
    """Sums per partition equal the callbacks', but for a fatal error (no callback) and an assignment cut by a close."""
    for member, (records, truth) in recorded.items():
        added = Counter(p for one in records if one.kind is Kind.ADDED for p in one.partitions)
        dropped = Counter(p for one in records if one.kind is Kind.DROPPED for p in one.partitions)
        got, gone = _summed(truth, "assign"), _summed(truth, "revoke", "lost")
        if member in FATAL_MEMBERS:
            assert added == got
            assert (len(dropped - gone), len(gone - dropped)) == (3, 0)
        elif member == ASSIGNED_WHILE_CLOSING:
            never = {("foo", 0): 1, ("foo", 1): 1, ("foo", 2): 1}
            assert (got - added, gone - dropped, added - got, dropped - gone) == (never, never, {}, {})
        else:
            assert (added, dropped) == (got, gone), member


def _summed(truth: list[dict[str, object]], *events: str) -> Counter[tuple[str, int]]:
    parts = [one["parts"] for one in truth if one["ev"] in events]
    return Counter((topic, number) for each in parts for topic, number in each)  # type: ignore[attr-defined]


def test_a_loss_ends_unless_the_error_was_fatal(recorded: Recorded) -> None:
    """After `LOST_DECIDED` comes `LOST_BEGIN` and `LOST_END`, or `FATAL` stands before and neither comes."""
    fatal = []
    for member, (records, _) in recorded.items():
        kinds = [one.kind for one in records if one.kind in (Kind.LOST_DECIDED, Kind.LOST_BEGIN, Kind.LOST_END)]
        if any(one.kind is Kind.FATAL for one in records):
            assert kinds in ([Kind.LOST_DECIDED], []), member
            fatal.append(member)
        else:
            assert kinds == [Kind.LOST_DECIDED, Kind.LOST_BEGIN, Kind.LOST_END] * (len(kinds) // 3), member
    assert fatal == [*FATAL_MEMBERS, "k_c08_static_restart/C2"]


def test_a_closed_member_ends_with_its_close(recorded: Recorded) -> None:
    """One `CLOSE_BEGIN` and one `CLOSE_END` for each close the application made, and nothing after them."""
    for member, (records, truth) in recorded.items():
        kinds = [one.kind for one in records]
        closes = sum(one["ev"] == "close_end" for one in truth)
        assert kinds.count(Kind.CLOSE_BEGIN) == kinds.count(Kind.CLOSE_END) == closes, member
        assert not closes or kinds[-1] is Kind.CLOSE_END, member


def test_acknowledged_assignments_are_the_applications(recorded: Recorded) -> None:
    """Whenever a log says what is owned, the application owned exactly that, within 3 ms."""
    checked = 0
    for member, (records, truth) in recorded.items():
        owned = list(_owned_over_time(truth))
        for one in records:
            if one.kind is Kind.OWNED:
                before = [held for at, held in owned if at < one.ts_ms - 1][-1:]
                near = [held for at, held in owned if one.ts_ms - 1 <= at <= one.ts_ms + 2]
                assert set(one.full or ()) in before + near, (member, one)
                checked += 1
    assert checked > 150


def _owned_over_time(truth: list[dict[str, object]]) -> Iterator[tuple[float, set[tuple[str, int]]]]:
    held: set[tuple[str, int]] = set()
    for one in truth:
        if one["ev"] in ("assign", "revoke", "lost"):
            parts = {(topic, number) for topic, number in one["parts"]}  # type: ignore[attr-defined]
            held = held | parts if one["ev"] == "assign" else held - parts
            yield one["ts"] * 1000, held  # type: ignore[operator]
