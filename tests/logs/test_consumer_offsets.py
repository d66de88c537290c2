"""What the coordinator stored, in the three prints of Kafka's tools and as raw bytes."""

from __future__ import annotations

import json
import lzma
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC
from itertools import islice
from pathlib import Path
from random import Random

import pytest

from fsm.logs.programs.consumer_offsets import FORMATS
from fsm.logs.reading.entries import records_of
from fsm.logs.reading.pieces import cut, from_bytes, reader_of
from fsm.logs.reading.segments import SegmentReader, begins_segment
from fsm.protocol.record_batches import Batch, read_batches, write_batch
from fsm.trace import Kind, TraceRecord

SEGMENT = Path(__file__).parent.parent / "cases" / "oracle" / "offsets-4.4.0.log.xz"
TOPIC = "8s1lnmxkSK2e4GljFsdRJw"
GROUP_KEY = {"groupId": "g"}
MEMBER_KEY = {"groupId": "g", "memberId": "m"}
CURRENT = {
    "memberEpoch": 3,
    "previousMemberEpoch": 2,
    "state": 1,
    "assignedPartitions": [{"topicId": TOPIC, "partitions": [1, 0]}],
    "partitionsPendingRevocation": [{"topicId": TOPIC, "partitions": [2]}],
}
CLASSIC = {
    "protocolType": "consumer",
    "generation": 4,
    "protocol": "range",
    "leader": "m",
    "currentStateTimestamp": 1795247580347,
    "members": [
        {
            "memberId": "m",
            "groupInstanceId": None,
            "clientId": "c",
            "clientHost": "/127.0.0.1",
            "rebalanceTimeout": 300000,
            "sessionTimeout": 6000,
            "subscription": "",
            "assignment": "AAMAAAABAANmb28AAAACAAAAAAAAAAH/////",
        }
    ],
}


def told(line: str) -> list[TraceRecord] | None:
    """The records of one line."""
    (entry,) = from_bytes(line.encode(), FORMATS)
    found = records_of(entry, UTC)
    return None if found is None else list(found)


def known(line: str) -> list[TraceRecord]:
    """The records of a line that is understood."""
    found = told(line)
    assert found is not None
    return found


def stored(type_: int, key: object, value: object) -> str:
    """A record as a JSON line."""
    place = {"partition": 0, "offset": 5, "timestamp": 1795247715932}
    return json.dumps({**place, "type": type_, "key": key, "value": value}, separators=(",", ":"))


def dumped(type_: int, key: object, value: object) -> str:
    """The same as DumpLogSegments prints it."""
    payload = "<DELETE>" if value is None else json.dumps({"version": "0", "data": value}, separators=(",", ":"))
    head = "| offset: 5 CreateTime: 1795247715932 keySize: 23 valueSize: 24 sequence: 0 headerKeys: [] key: "
    return f"{head}{json.dumps({'type': str(type_), 'data': key}, separators=(',', ':'))} payload: {payload}"


@pytest.mark.parametrize("print_", [stored, dumped])
def test_one_record_in_two_prints(print_: object) -> None:
    """Each type says the same in both, a tombstone among them."""
    assert callable(print_)
    (state,) = known(print_(8, MEMBER_KEY, CURRENT))
    assert (state.kind, state.group, state.member_id, state.epoch) == (Kind.MEMBER_STATE, "g", "m", 3)
    assert (state.next_state, state.ts_ms) == ("UNREVOKED_PARTITIONS", 1795247715932)
    assert (state.full, state.revoked) == (((TOPIC, 0), (TOPIC, 1)), ((TOPIC, 2),))
    (epoch,) = known(print_(3, GROUP_KEY, {"epoch": 9, "metadataHash": 1}))
    assert (epoch.kind, epoch.epoch) == (Kind.GROUP_EPOCH, 9)
    (target,) = known(print_(7, MEMBER_KEY, {"topicPartitions": [{"topicId": TOPIC, "partitions": [0]}]}))
    assert (target.kind, target.full) == (Kind.TARGET, ((TOPIC, 0),))
    (left,) = known(print_(5, MEMBER_KEY, None))
    assert (left.kind, left.member_id) == (Kind.LEFT, "m")
    (dead,) = known(print_(3, GROUP_KEY, None))
    assert (dead.kind, dead.machine, dead.next_state) == (Kind.GROUP_STATE, "consumer-group", "DEAD")
    assert told(print_(8, MEMBER_KEY, None)) == []


def test_a_member_and_what_it_wants() -> None:
    """The record of a member tells its client id, which no broker log does, and its subscription."""
    value = {
        "instanceId": "i",
        "clientId": "c",
        "subscribedTopicNames": ["b", "a"],
        "subscribedTopicRegex": "",
        "classicMemberMetadata": None,
    }
    joined, subscribed = known(stored(5, MEMBER_KEY, value))
    assert (joined.kind, joined.instance_id, joined.detail) == (Kind.JOINED, "i", "consumer")
    assert joined.settings == {"client.id": "c"}
    assert (subscribed.kind, subscribed.topics) == (Kind.SUBSCRIBED, ("a", "b"))


def test_a_classic_generation() -> None:
    """Its members' assignments are read from the bytes of the embedded protocol."""
    group, member = known(stored(2, {"group": "g"}, CLASSIC))
    assert (group.kind, group.next_state, group.epoch) == (Kind.GROUP_STATE, "STABLE", 4)
    assert (member.kind, member.member_id, member.full) == (Kind.MEMBER_STATE, "m", (("foo", 0), ("foo", 1)))
    assert member.detail == "leader"
    (empty,) = known(stored(2, {"group": "g"}, {**CLASSIC, "members": []}))
    assert empty.next_state == "EMPTY"


def test_the_dump_tool_decodes_assignments_itself() -> None:
    """Then they are objects."""
    assignment = {"assignedPartitions": [{"topic": "foo", "partitions": [3]}], "userData": None}
    member = {**CLASSIC["members"][0], "assignment": assignment}  # type: ignore[index]
    _, state = known(dumped(2, {"group": "g"}, {**CLASSIC, "members": [member]}))
    assert state.full == (("foo", 3),)


def test_objects_of_a_console_formatter_follow_one_another() -> None:
    """Without a break between them, and with no other time than that of the classic group's state."""
    one = json.dumps(
        {"key": {"type": 2, "data": {"group": "g"}}, "value": {"version": 3, "data": CLASSIC}}, separators=(",", ":")
    )
    offset = '{"key":{"type":1,"data":{"group":"g","topic":"t","partition":0}},"value":null}'
    found = told(one + offset + one) or []
    assert [(r.kind, r.ts_ms) for r in found] == [
        (Kind.GROUP_STATE, 1795247580347),
        (Kind.MEMBER_STATE, 1795247580347),
    ] * 2


COMMIT_KEY = {"group": "g", "topic": "foo", "partition": 0}
COMMIT = {"offset": 5, "leaderEpoch": 0, "metadata": "", "commitTimestamp": 1, "topicId": TOPIC}


@pytest.mark.parametrize("printed", [stored, dumped])
@pytest.mark.parametrize(
    ("type_", "key", "value"),
    [
        (4, GROUP_KEY, {"topics": [{"topicId": TOPIC, "topicName": "foo", "numPartitions": 6}]}),
        (1, COMMIT_KEY, COMMIT),
    ],
    ids=["before 4.2", "from 4.2 on"],
)
def test_names_of_topics(printed: Callable[..., str], type_: int, key: object, value: object) -> None:
    """Records that name a topic beside its id tell how it is called elsewhere."""
    (record,) = known(printed(type_, key, value))
    assert (record.kind, record.group, record.settings) == (Kind.TOPIC_NAMES, "g", {TOPIC: "foo"})


@pytest.mark.parametrize("printed", [stored, dumped])
@pytest.mark.parametrize(
    ("key", "value"),
    [
        (COMMIT_KEY, None),
        (COMMIT_KEY, {**COMMIT, "topicId": "AAAAAAAAAAAAAAAAAAAAAA"}),
        (COMMIT_KEY, {k: v for k, v in COMMIT.items() if k != "topicId"}),
        ({**COMMIT_KEY, "partition": 1}, COMMIT),
    ],
    ids=["tombstone", "no id", "before 4.2", "another partition"],
)
def test_other_commits_tell_nothing(printed: Callable[..., str], key: object, value: object) -> None:
    """There are very many of them."""
    assert known(printed(1, key, value)) == []


@pytest.mark.parametrize(
    "line",
    [
        stored(3, {"groupId": "\ud800"}, None),
        stored(4, GROUP_KEY, {"topics": [{"topicId": TOPIC, "topicName": "\udfff"}]}),
        stored(4, GROUP_KEY, {"topics": [{"topicId": TOPIC, "topicName": "n" * 250}]}),
        stored(7, MEMBER_KEY, {"topicPartitions": [{"topicId": TOPIC * 12, "partitions": [1]}]}),
        stored(8, MEMBER_KEY, {"memberEpoch": 3}),
        stored(3, GROUP_KEY, {"epoch": "nine"}),
        stored(2, {"group": "g"}, {**CLASSIC, "members": 7}),
        stored(3, "g", None),
        stored(2, {"group": "g"}, {**CLASSIC, "members": [{**CLASSIC["members"][0], "assignment": "AA=="}]}),  # type: ignore[index]
        dumped(3, GROUP_KEY, {"epoch": 1 << 40}),
        stored(3, GROUP_KEY, {"epoch": 9})[:-4],
    ],
    ids=[
        "half a character",
        "in a name",
        "long name",
        "long id",
        "fields",
        "text",
        "number",
        "key",
        "bytes",
        "large",
        "cut",
    ],
)
def test_what_kafka_would_not_write_is_not_understood(line: str) -> None:
    """It is counted, and nothing raises."""
    assert told(line) is None


def test_garbage_is_counted_and_nothing_raises() -> None:
    """Whatever type a record claims and whatever stands in its place, it is records, nothing, or not understood."""
    values = (None, 0, "", [], {}, {"members": [None]}, {"epoch": {}}, {"topics": [[]]}, CURRENT, CLASSIC, COMMIT)
    seen = set()
    for type_ in range(-3, 30):
        for key in (
            None,
            "g",
            [],
            {},
            GROUP_KEY,
            MEMBER_KEY,
            COMMIT_KEY,
            {"groupId": 7},
            {"groupId": "g", "memberId": []},
        ):
            for value in values:
                found = told(stored(type_, key, value))
                seen.add(None if found is None else bool(found))
    assert seen == {None, False, True}


@pytest.mark.deep
def test_a_raw_segment_says_what_its_dump_says(tmp_path: Path) -> None:
    """Every record of the recorded segment is read, none is unknown; the places are the offsets of the log."""
    path = tmp_path / "__consumer_offsets-3" / "00000000000000000000.log"
    path.parent.mkdir()
    path.write_bytes(lzma.decompress(SEGMENT.read_bytes()))
    (piece,) = cut(path, 1000)
    reader = reader_of(piece, FORMATS)
    assert isinstance(reader, SegmentReader)
    entries = list(reader.entries())
    assert (len(entries), reader.lines, entries[1].number) == (20639, 20639, 2)
    assert json.loads(entries[0].data)["partition"] == 3
    found = [records_of(entry, UTC) for entry in entries]
    assert None not in found
    assert sum(r.kind is Kind.MEMBER_STATE for records in found for r in records or ()) > 1000


def test_a_damaged_segment_is_read_up_to_the_damage(tmp_path: Path) -> None:
    """What came before stands, then the reason is raised as for any file that cannot be read."""
    whole = lzma.decompress(SEGMENT.read_bytes())
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(whole[:5000])
    reader = SegmentReader(str(path), FORMATS)
    with pytest.raises(OSError, match="ends inside a batch"):
        list(reader.entries())
    assert reader.lines > 5


@pytest.mark.parametrize(
    "start", [b"", b"[2026-11-21 08:19:42,138] INFO hello" * 9, b"\0" * 200, b"\x1f\x8b" + b"\2" * 99]
)
def test_other_files_are_no_segments(start: bytes) -> None:
    """Neither text, nor nothing, nor another binary file."""
    assert not begins_segment(start)


def test_no_bytes_of_a_record_break_a_segment(tmp_path: Path) -> None:
    """Whatever keys and values hold, of whatever version, every record is an entry: understood, silent, or counted."""
    whole = lzma.decompress(SEGMENT.read_bytes())
    batches = list(islice(read_batches(whole), 60))
    chance = Random(848)  # noqa: S311
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(b"".join(write_batch(_spoiled(batch, chance)) for batch in batches))
    reader = SegmentReader(str(path), FORMATS)
    found = [records_of(entry, UTC) for entry in reader.entries()]
    assert len(found) == sum(len(batch.records) for batch in batches)
    assert found.count(None) > 10
    assert any(found)


def _spoiled(batch: Batch, chance: Random) -> Batch:
    """The batch with some bytes of some keys and values changed, or cut off."""

    def spoil(part: bytes | None) -> bytes | None:
        if not part or chance.random() < 0.5:
            return part
        changed = bytearray(part)
        changed[chance.randrange(len(changed))] = chance.randrange(256)
        return bytes(changed[: chance.randrange(len(changed))] if chance.random() < 0.2 else changed)

    return replace(batch, records=tuple(r._replace(key=spoil(r.key), value=spoil(r.value)) for r in batch.records))
