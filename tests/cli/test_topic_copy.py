"""A topic that carries logs, copied from `fsm serve` over sockets: what is read, and what is said of the rest."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from google_crc32c import value as crc32c

from fsm.cli import topic_copy
from fsm.cli.topic_copy import Place, TopicCopy, TopicFiles, place_of, whole_batches
from fsm.errors import InputError
from fsm.protocol import messages as m
from fsm.protocol.record_batches import BEFORE_CRC, HEAD, Batch, LogRecord, write_batch

sys.path.append(str(Path(__file__).parents[1] / "serve"))

from live_broker import Wire, served

SNAPPY = 2


class Topic:
    """A topic of one partition, and its copy."""

    def __init__(self, port: int, work: Path) -> None:
        self.place = Place("127.0.0.1", port, "logs")
        self.folder = work / "copied"
        self.now_s = time.time()
        self.files = TopicFiles(self.folder, work / "marks", 3600, lambda: self.now_s)
        self.read: dict[str, int] = {}
        self.wire = Wire(port)

    def produce(self, *values: bytes, key: bytes | None = None) -> None:
        """One batch."""
        self.send(write_batch(Batch.of([LogRecord(i, 1_000, key, value) for i, value in enumerate(values)])))

    def send(self, data: bytes) -> None:
        sent = m.TopicProduceData("logs", partition_data=(m.PartitionProduceData(0, data),))
        (topic,) = self.wire.ask(m.ProduceRequest(acks=-1, topic_data=(sent,)), 9).responses
        assert not topic.partition_responses[0].error_code

    def send_unreadable(self, records: int) -> None:
        """A batch that says snappy, and is none: a broker does not look."""
        data = bytearray(write_batch(Batch.of([LogRecord(i, 1_000, None, b"x" * 90) for i in range(records)])))
        head = list(HEAD.unpack_from(data))
        head[5] = SNAPPY
        HEAD.pack_into(data, 0, *head)
        data[BEFORE_CRC : BEFORE_CRC + 4] = crc32c(bytes(data[BEFORE_CRC + 4 :])).to_bytes(4, "big")
        self.send(bytes(data))

    def make_again(self) -> None:
        self.wire.ask(m.DeleteTopicsRequest((m.DeleteTopicState("logs"),), timeout_ms=10_000))
        self.wire.ask(m.CreateTopicsRequest((m.CreatableTopic("logs", 1, 1),)))

    def copy(self) -> dict[str, bytes]:
        """What is copied by now, as a process tells it that begins anew."""
        copy = TopicCopy(self.place, self.files)
        copy.copy(self.read)
        copy.close()
        return {path.name: path.read_bytes() for path in self.folder.iterdir()}


@pytest.fixture
def topic(tmp_path: Path) -> Iterator[Topic]:
    """A topic that is empty."""
    with served("--records", "0", topics="logs=1") as broker:
        one = Topic(broker.port, tmp_path)
        yield one
        one.wire.socket.close()


def test_a_batch_that_cannot_be_read_is_said_once_and_left_out(
    topic: Topic, capsys: pytest.CaptureFixture[str]
) -> None:
    """What stands before and behind it is copied."""
    topic.produce(b"one")
    topic.send_unreadable(3)
    topic.produce(b"two")
    assert topic.copy() == {"0.log": b"one\ntwo\n"}
    (printed,) = capsys.readouterr().err.splitlines()
    assert "logs: partition 0: offsets 1 to 3 are left out: no snappy" in printed
    topic.produce(b"three")
    assert topic.copy() == {"0.log": b"one\ntwo\nthree\n"}
    assert not capsys.readouterr().err


def test_a_batch_that_was_damaged_ends_where_its_head_says() -> None:
    """Those behind it are read; one that is not there as a whole is fetched again."""
    one, two = (LogRecord(offset, 1_000, None, b"line") for offset in (4, 5))
    whole = write_batch(Batch.of((one, two)))
    damaged = whole[:-1] + b"\x07"
    last = write_batch(Batch.of((one._replace(offset=6),)))
    found = list(whole_batches(damaged + last + whole[:-1]))
    assert [(batch.start, batch.end, len(batch.records)) for batch in found] == [(4, 6, 0), (6, 7, 1)]
    assert [batch.problem for batch in found] == ["damaged: its checksum does not match", ""]
    assert not list(whole_batches(bytes(200)))


def test_a_topic_that_is_made_again_is_read_from_its_beginning(
    topic: Topic, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also where it is as long by then as the former one was."""
    topic.produce(b"one", b"two")
    topic.copy()
    topic.make_again()
    topic.produce(b"three", b"four", b"five")
    assert topic.copy() == {"0.log": b"one\ntwo\nthree\nfour\nfive\n"}
    (printed,) = capsys.readouterr().err.splitlines()
    assert "the topic was made again" in printed
    assert topic.copy() == {"0.log": b"one\ntwo\nthree\nfour\nfive\n"}
    assert not capsys.readouterr().err


def test_what_was_deleted_before_it_was_read_is_said(topic: Topic, capsys: pytest.CaptureFixture[str]) -> None:
    """By its offsets."""
    topic.produce(b"one")
    assert topic.copy() == {"0.log": b"one\n"}
    for number in range(8):  # of which the broker keeps 4 MiB
        topic.produce(b"%d" % number + b"." * 900_000)
    copied = topic.copy()["0.log"]
    kept = [int(line[:1]) for line in copied.splitlines()[1:]]
    assert kept == list(range(kept[0], 8))
    assert kept[0] > 0
    (printed,) = capsys.readouterr().err.splitlines()
    assert f"partition 0: offsets 1 to {kept[0]} are left out: they were deleted" in printed


def test_a_copy_begins_like_lines_whatever_the_first_record_is(topic: Topic) -> None:
    """One that begins as gzip does would be taken for a packed file, and not be read."""
    topic.produce(b"\x1f\x8b\x08 is how gzip begins", b"one")
    assert topic.copy() == {"0.log": b"\n\x1f\x8b\x08 is how gzip begins\none\n"}


def test_what_is_large_or_idle_and_was_read_is_removed(topic: Topic, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its key goes on in another file; what was not read stays, and of a topic nothing is lost or there twice."""
    monkeypatch.setattr(topic_copy, "CLOSED_BYTES", 20)
    topic.produce(b"one", key=b"a")
    topic.produce(b"two", key=b"b")
    assert topic.copy() == {"0-a.log": b"one\n", "0-b.log": b"two\n"}
    topic.produce(b"three" * 5, key=b"a")
    assert topic.copy()["0-a.log"] == b"one\n" + b"three" * 5 + b"\n"
    topic.produce(b"four", key=b"a")
    there = topic.copy()
    assert there["0-a.00000000000000000003.log"] == b"four\n"
    assert "0-a.log" in there, "nobody has read it"
    topic.read = {str(topic.folder / name): len(data) for name, data in there.items()}
    assert sorted(topic.copy()) == ["0-a.00000000000000000003.log", "0-b.log"]
    topic.now_s += 7200
    assert topic.copy() == {}
    topic.produce(b"five", key=b"b")
    assert topic.copy() == {"0-b.00000000000000000004.log": b"five\n"}


def test_a_file_that_a_kill_left_too_long_is_not_closed_before_it_holds_no_more(
    topic: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The records that are copied again go where they were: somebody may have read them there."""
    monkeypatch.setattr(topic_copy, "CLOSED_BYTES", 20)
    topic.produce(b"one" * 9, key=b"a")
    topic.folder.mkdir(exist_ok=True)
    (topic.folder / "0-a.log").write_bytes(b"one" * 9 + b"\ntwo\n")
    topic.copy()
    topic.produce(b"two", key=b"a")
    assert topic.copy() == {"0-a.log": b"one" * 9 + b"\ntwo\n"}
    topic.produce(b"three", key=b"a")
    assert topic.copy()["0-a.00000000000000000002.log"] == b"three\n"


@pytest.mark.parametrize("address", ["kafka://h:9092/.", "kafka://h:9092/..", "kafka://h:0/a", "kafka://h/a"])
def test_what_is_no_topic(address: str) -> None:
    """Kafka has no topic of these names, and they are folders."""
    with pytest.raises(InputError, match="is no topic"):
        place_of(address)


def test_topics_of_one_name_in_two_clusters_have_folders_of_their_own() -> None:
    """By host, port and topic."""
    addresses = ("kafka://h:1/a", "kafka://h:2/a", "kafka://i:1/a", "kafka://[::1]:1/a", "kafka://h:1/b")
    folders = [place_of(address).folder for address in addresses]
    assert folders == ["h+1+a", "h+2+a", "i+1+a", "__1+1+a", "h+1+b"]
