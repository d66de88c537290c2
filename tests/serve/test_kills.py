"""A broker that is killed at any instant, or whose disk is full, has lost nothing that it answered."""

from __future__ import annotations

from pathlib import Path
from random import Random
from threading import Timer

import pytest
from live_broker import Served, Wire, served
from patience import wait_until

from fsm.protocol import messages as m
from fsm.protocol.error_codes import ErrorCode

GROUPS = 4
FEW_KILLS, KILLS, MANY_KILLS = 4, 12, 250
QUICK = ("--set", "group.consumer.assignment.interval.ms=0", "--set", "offset.metadata.max.bytes=30000")
LONG = "x" * 30_000
"""Metadata of a commit, so that logs grow and are compacted."""
MOST_ANSWERS, LATEST_MS = 160, 2
"""A broker is killed after it gave up to so many answers, at any time of the next ones."""
DISK = 400_000
"""Bytes that a file may have."""


class Group:
    """What one group was told, and what it asked: a member that stays, another one that comes and goes."""

    def __init__(self, number: int) -> None:
        self.name = f"group-{number}"
        self.tried = self.committed = -1
        self.epoch = 0
        """Of the member that stays."""
        self.newest_epoch = 0
        """The greatest that anybody was told."""
        self.owned: m.TopicPartitions = ()

    def next(self, turn: int) -> tuple[m.OffsetCommitRequest | m.ConsumerGroupHeartbeatRequest, int]:
        """A request and its version."""
        match turn % 4:
            case 0 | 2:
                self.tried += 1
                place = m.OffsetCommitRequestPartition(0, self.tried, committed_metadata=LONG)
                topics = (m.OffsetCommitRequestTopic("foo", partitions=(place,)),)
                return m.OffsetCommitRequest(self.name + "-offsets", topics=topics), 9
            case 1:
                return self.stay(), 1
            case _:
                joins = turn % 8 == 3
                return self._beat("comes and goes", 0 if joins else -1, () if joins else None), 1

    def stay(self) -> m.ConsumerGroupHeartbeatRequest:
        """The heartbeat of the member that stays."""
        return self._beat("stays", self.epoch, self.owned)

    def _beat(self, member: str, epoch: int, owned: m.TopicPartitions | None) -> m.ConsumerGroupHeartbeatRequest:
        if epoch < 0:
            return m.ConsumerGroupHeartbeatRequest(self.name, member, epoch)
        return m.ConsumerGroupHeartbeatRequest(
            self.name, member, epoch, None, None, 60_000, ("foo",), topic_partitions=owned
        )

    def hear(self, turn: int, answer: m.OffsetCommitResponse | m.ConsumerGroupHeartbeatResponse) -> None:
        """An answer."""
        if isinstance(answer, m.OffsetCommitResponse):
            assert answer.errors == ()
            self.committed = self.tried
            return
        if turn % 4 == 1:
            assert answer.error_code is ErrorCode.NONE, answer
            self.epoch = answer.member_epoch
            self.owned = self.owned if answer.assignment is None else answer.assignment
        elif answer.error_code is not ErrorCode.NONE:
            # It left, and was not answered before the kill.
            assert answer.error_code is ErrorCode.UNKNOWN_MEMBER_ID, answer
        self.newest_epoch = max(self.newest_epoch, answer.member_epoch)


def work(broker: Served, groups: list[Group], then: tuple[int, Timer] | None = None) -> int:
    """Asks for all that is to be kept until the broker has gone; answers that came. `then` starts after so many."""
    wires: list[Wire] = []
    answers = turn = 0
    try:
        wires += [broker.connect() for _ in groups]
        while True:
            if then is not None and answers >= then[0]:
                then[1].start()
                then = None
            sent = [group.next(turn) for group in groups]
            for wire, (request, version) in zip(wires, sent, strict=True):
                wire.send(request, version)
            for wire, group, (request, version) in zip(wires, groups, sent, strict=True):
                group.hear(turn, wire.take(request, version))
                answers += 1
            turn += 1
    except OSError:
        return answers
    finally:
        for wire in wires:
            wire.close()


def assert_kept(wire: Wire, group: Group) -> None:
    """Everything that was answered is there."""
    asked = m.OffsetFetchRequest(groups=(m.OffsetFetchRequestGroup(group.name + "-offsets"),))
    topics = wire.ask(asked, 9).groups[0].topics
    found = topics[0].partitions[0].committed_offset if topics else -1
    assert group.committed <= found <= group.tried
    group.committed = found
    described = wire.ask(m.ConsumerGroupDescribeRequest((group.name,))).groups[0]
    if group.newest_epoch:
        assert described.group_epoch >= group.newest_epoch
    if group.epoch:
        answer = wire.ask(group.stay(), 1)
        assert answer.error_code is ErrorCode.NONE, (answer, group.epoch, described)
        assert answer.member_epoch >= group.epoch
        group.epoch = answer.member_epoch
        group.owned = group.owned if answer.assignment is None else answer.assignment


def survives(folder: Path, kills: int, seed: int) -> None:
    chance = Random(seed)  # noqa: S311
    groups = [Group(number) for number in range(GROUPS)]
    answers = 0
    for kill in range(kills + 1):
        broker = Served("--data", str(folder), "--records", "0", *QUICK)
        try:
            assert broker.port, broker.end()
            wire = broker.connect("checks")
            for group in groups:
                assert_kept(wire, group)
            names = [f"made-{number}" for number in range(kill)]
            assert {topic.name for topic in wire.ask(m.MetadataRequest()).topics} >= set(names)
            assert wire.ask(m.CreateTopicsRequest((m.CreatableTopic(f"made-{kill}", 1, 1),))).topics[0].error_code == 0
            timer = Timer(chance.uniform(0, LATEST_MS) / 1000, broker.process.kill)
            answers += work(broker, groups, (chance.randrange(MOST_ANSWERS), timer))
            timer.join()
        finally:
            broker.kill()
    assert answers > 5 * kills
    committed = sum(group.committed for group in groups) * len(LONG)
    kept = sum(path.stat().st_size for path in folder.glob("*.log"))
    assert kept < GROUPS * 2_500_000
    assert kept < committed  # it was compacted, more than once where there were many kills


@pytest.mark.parametrize("kills", [FEW_KILLS, pytest.param(KILLS, marks=pytest.mark.deep)])
def test_a_broker_that_is_killed_has_lost_nothing_that_it_answered(tmp_path: Path, kills: int) -> None:
    survives(tmp_path, kills, seed=1)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [2, 3])
def test_hundreds_of_kills(tmp_path: Path, seed: int) -> None:
    survives(tmp_path, MANY_KILLS, seed)


def limit(size: int) -> str:
    """What writes beyond it fails, as on a disk that is full. No bytecode is written: it would be cut, too, and
    break whoever reads it next."""
    limited = f"resource.setrlimit(resource.RLIMIT_FSIZE, ({size}, {size}))"
    return f"import resource, sys; sys.dont_write_bytecode = True; {limited}"


def test_a_disk_that_is_full_ends_the_broker_and_nothing_is_answered_that_is_not_kept(tmp_path: Path) -> None:
    groups = [Group(number) for number in range(GROUPS)]
    broker = Served("--data", str(tmp_path), "--records", "0", *QUICK, prepare=limit(DISK))
    assert broker.port, broker.end()
    assert work(broker, groups) > 20
    code, errors = broker.end()
    assert (code, errors.count("\n")) == (2, 1), errors
    assert "cannot be written: File too large" in errors
    with served("--data", str(tmp_path), "--records", "0", *QUICK) as again:
        wire = again.connect()
        for group in groups:
            assert_kept(wire, group)


def test_a_disk_that_is_full_from_the_beginning(tmp_path: Path) -> None:
    code, errors = Served("--data", str(tmp_path), prepare=limit(0)).end()
    assert (code, errors.count("\n")) == (2, 1), errors
    assert "cannot be written: File too large" in errors


def test_a_consumer_keeps_its_membership_over_a_kill(tmp_path: Path) -> None:
    """confluent-kafka's consumer goes on with its member id, its epoch and its partitions when the broker is back."""
    from confluent_kafka import Consumer  # noqa: PLC0415

    seen: list[str] = []
    broker = Served("--data", str(tmp_path), "--records", "100")
    consumer = Consumer(
        {
            "bootstrap.servers": f"127.0.0.1:{broker.port}",
            "group.id": "g",
            "group.protocol": "consumer",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "reconnect.backoff.max.ms": 200,
            "logger": None,
        }
    )
    consumer.subscribe(
        ["foo"],
        on_assign=lambda *_: seen.append("assigned"),
        on_revoke=lambda *_: seen.append("revoked"),
        on_lost=lambda *_: seen.append("lost"),
    )

    def consume(records: int) -> None:
        found = 0

        def consume_one() -> None:
            nonlocal found
            message = consumer.poll(0.1)
            if message is not None and message.error() is None:
                found += 1
                if found % 10 == 0:
                    consumer.commit(message, asynchronous=False)

        wait_until(lambda: found >= records, consume_one)

    try:
        consume(50)
        before = broker.connect().ask(m.ConsumerGroupDescribeRequest(("g",))).groups[0]
        broker.kill()
        consumer.poll(0.3)
        broker = Served("--data", str(tmp_path), "--records", "100", "--port", str(broker.port))
        assert broker.port, broker.end()
        consume(50)
        after = broker.connect().ask(m.ConsumerGroupDescribeRequest(("g",))).groups[0]
        assert after.group_epoch == before.group_epoch
        assert after.members == before.members
        assert seen == ["assigned"]
    finally:
        consumer.close()
        broker.kill()
