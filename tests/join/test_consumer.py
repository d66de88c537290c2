"""Our member on sockets beside our own coordinator: it joins, reads, commits, shares, and lives through faults."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
from join_scene import LIMIT_S, Noted, batch_of_values, produce

from fsm.errors import InputError, LocalProtocolError
from fsm.join import LATEST, AsyncMessageConsumer, Message, MessageConsumer, ReadingOptions, transport
from fsm.kit import positions
from fsm.member import (
    AsyncConsumerRebalanceListener,
    ClassicConfig,
    ConsumerConfig,
    ConsumerRebalanceListener,
    KafkaException,
    SubscriptionPattern,
)
from fsm.member.classic.assignors import COOPERATIVE_STICKY, RANGE
from fsm.protocol.messages import APIS
from fsm.protocol.record_batches import read_batches
from fsm.testing import LiveBroker
from fsm.trace import Kind, TraceRecord

ALL = tuple(("foo", number) for number in range(4))
SHORT = {"retry_backoff_ms": 20, "retry_backoff_max_ms": 100}


def config_of(protocol: str = "consumer", **settings: Any) -> ConsumerConfig:
    if protocol == "consumer":
        return ConsumerConfig("g", **{**SHORT, **settings})
    assignors = (COOPERATIVE_STICKY if protocol == "cooperative" else RANGE,)
    timers = {"session_timeout_ms": 6_000, "heartbeat_interval_ms": 200}
    return ClassicConfig("g", assignors=assignors, **{**SHORT, **timers, **settings})


@pytest.fixture
def join(broker: LiveBroker) -> Iterator[Callable[..., MessageConsumer]]:
    """Makes consumers of the group g; those that are still open are closed."""
    made: list[MessageConsumer] = []

    def make(name: str = "A", protocol: str = "consumer", **more: Any) -> MessageConsumer:
        config = config_of(protocol, client_id=name, **more.pop("settings", {}))
        made.append(MessageConsumer(broker.bootstrap, config, **more))
        return made[-1]

    yield make
    for consumer in made:
        consumer.close()


def read(consumer: MessageConsumer, count: int) -> list[Message]:
    """So many messages."""
    found: list[Message] = []
    for _ in range(int(LIMIT_S * 5)):
        found += consumer.poll(200)
        if len(found) >= count:
            return found
    raise AssertionError(f"{len(found)} of {count} messages")


def wait(broker: LiveBroker, condition: Callable[[], Any], *consumers: MessageConsumer) -> None:
    broker.wait_until(condition, LIMIT_S, lambda: [consumer.poll(20) for consumer in consumers])


def share(consumers: list[MessageConsumer]) -> list[Any]:
    """What they own together, sorted: disjoint where nothing is there twice."""
    return sorted(partition for consumer in consumers for partition in consumer.assignment())


@pytest.mark.parametrize("protocol", ["consumer", "range", "cooperative"])
def test_it_reads_commits_and_goes_on_where_it_was(broker: LiveBroker, join: Any, protocol: str) -> None:
    """Two lives of one group read every record once; what was read last is committed at the end."""
    for partition in range(4):
        produce(broker, partition, *(b"%d.%d" % (partition, i) for i in range(5)))
    listener = Noted()
    first = join("A", protocol)
    first.subscribe(["foo"], listener)
    seen = read(first, 20)
    first.close()
    assert sorted((m.partition, m.offset, m.value) for m in seen) == [
        (partition, i, b"%d.%d" % (partition, i)) for partition in range(4) for i in range(5)
    ]
    assert listener.called == [("assigned", ALL), ("revoked", ALL)]
    assert broker.get_assignment("g") == {}
    produce(broker, 2, b"new")
    second = join("B", protocol)
    second.subscribe(["foo"])
    (message,) = read(second, 1)
    assert (message.partition, message.offset, message.value) == (2, 5, b"new")


MANUAL = {"enable_auto_commit": False}


@pytest.mark.parametrize("protocol", ["consumer", "range", "cooperative"])
def test_an_application_commits_itself(broker: LiveBroker, join: Any, protocol: str) -> None:
    """At any time, and within its callbacks, the one of close() included; nothing else commits."""
    produce(broker, 0, b"a", b"b", b"c")

    def listen(consumer: MessageConsumer) -> ConsumerRebalanceListener:
        class Committing(ConsumerRebalanceListener):
            def on_partitions_revoked(self, partitions: Any) -> None:
                assert partitions == ALL
                consumer.commit_sync()

        return Committing()

    def read_one(*, commits: bool, listens: bool = False) -> bytes | None:
        with join(protocol=protocol, settings=MANUAL) as consumer:
            consumer.subscribe(["foo"], listen(consumer) if listens else None)
            found: list[Message] = []
            while not found:
                found = consumer.poll(200, most=1)
            if commits:
                consumer.commit_sync(((("foo", 0), found[0].offset + 1),))
            return found[0].value

    assert read_one(commits=False) == b"a"
    assert read_one(commits=True) == b"a"
    assert read_one(commits=False, listens=True) == b"b"
    assert read_one(commits=False) == b"c"


@pytest.mark.parametrize("protocol", ["consumer", "range"])
def test_a_commit_is_retried_or_fails(broker: LiveBroker, join: Any, protocol: str) -> None:
    """By the error; a closed consumer cannot commit at all."""
    consumer = join(protocol=protocol, settings=MANUAL)
    consumer.subscribe(["foo"])
    wait(broker, lambda: consumer.assignment() == ALL, consumer)
    at_two = ((("foo", 0), 2),)
    broker.refuse("COORDINATOR_LOAD_IN_PROGRESS", api="OffsetCommit", times=2)
    consumer.commit_sync(at_two)
    assert [
        exchange.response.topics[0].partitions[0].error_code.name for exchange in broker.exchanges("OffsetCommit")
    ] == [
        "COORDINATOR_LOAD_IN_PROGRESS",
        "COORDINATOR_LOAD_IN_PROGRESS",
        "NONE",
    ]
    broker.refuse("UNKNOWN_TOPIC_OR_PARTITION", api="OffsetCommit")
    consumer.commit_sync(at_two)
    for code in ("GROUP_AUTHORIZATION_FAILED", *(["STALE_MEMBER_EPOCH"] if protocol == "consumer" else [])):
        broker.refuse(code, api="OffsetCommit")
        with pytest.raises(KafkaException, match=code):
            consumer.commit_sync(at_two)
    broker.mute(api="OffsetCommit", times="always")
    with pytest.raises(KafkaException, match="TimeoutException"):
        consumer.commit_sync(at_two, timeout_ms=300)
    with pytest.raises(LocalProtocolError, match="offsets is 2; give a tuple of"):
        consumer.commit_sync(2)  # type: ignore[arg-type]
    consumer.close(timeout_ms=100)
    with pytest.raises(LocalProtocolError, match="the consumer is closed"):
        consumer.commit_sync(at_two)


def test_on_asyncio_it_is_the_same(broker: LiveBroker) -> None:
    """Reads, commits and leaves; callbacks may be coroutines."""
    produce(broker, 1, b"a", b"b", b"c")

    class Awaiting(Noted):
        async def on_partitions_assigned(self, partitions: Any) -> None:  # type: ignore[override]
            await asyncio.sleep(0)
            self.called.append(("assigned", partitions))

    listener = Awaiting()

    async def live(count: int) -> list[bytes | None]:
        found: list[bytes | None] = []
        async with AsyncMessageConsumer(broker.bootstrap, config_of()) as consumer:
            await consumer.subscribe(["foo"], listener)
            while len(found) < count:
                found += [message.value for message in await consumer.poll(200, most=count - len(found))]
            assert consumer.assignment() == ALL
        return found

    async def both() -> None:
        async with asyncio.timeout(LIMIT_S):
            assert await live(2) == [b"a", b"b"]
            assert await live(1) == [b"c"]

    asyncio.run(both())
    assert listener.called == 2 * [("assigned", ALL), ("revoked", ALL)]
    assert broker.get_assignment("g") == {}


@pytest.mark.parametrize("protocols", [("consumer", "consumer"), ("range", "range"), ("consumer", "cooperative")])
def test_two_share_without_overlap(broker: LiveBroker, join: Any, protocols: tuple[str, str]) -> None:
    """Also a member of each protocol in one group; the first gives up what the second gets, and gets it back."""
    first, second = (join(name, protocol) for name, protocol in zip("AB", protocols, strict=True))
    first.subscribe(["foo"])
    wait(broker, lambda: first.assignment() == ALL, first)
    second.subscribe(["foo"])
    wait(broker, lambda: len(second.assignment()) == 2 == len(first.assignment()), first, second)
    assert share([first, second]) == list(ALL)
    second.close()
    wait(broker, lambda: first.assignment() == ALL, first)


def test_a_pattern_is_matched_by_the_coordinator(broker: LiveBroker, join: Any) -> None:
    """Metadata are then of all topics."""
    consumer = join()
    consumer.subscribe(SubscriptionPattern("f.*"))
    wait(broker, lambda: consumer.assignment() == ALL, consumer)


@pytest.mark.parametrize(
    "fault",
    [
        lambda broker: broker.refuse("NOT_COORDINATOR", api="ConsumerGroupHeartbeat", times=3),
        lambda broker: broker.refuse("COORDINATOR_LOAD_IN_PROGRESS", api="ConsumerGroupHeartbeat", times=3),
        lambda broker: broker.lose(api="ConsumerGroupHeartbeat"),
        lambda broker: broker.close(api="ConsumerGroupHeartbeat", times=2),
        lambda broker: broker.refuse("COORDINATOR_NOT_AVAILABLE", api="FindCoordinator", times=3),
        lambda broker: broker.close(api="FindCoordinator"),
        lambda broker: broker.refuse("FENCED_MEMBER_EPOCH", api="ConsumerGroupHeartbeat"),
        lambda broker: broker.refuse("NOT_LEADER_OR_FOLLOWER", api="Fetch", times=2),
        lambda broker: broker.close(api="Fetch", times=2),
        lambda broker: broker.close(api="OffsetFetch", times=2),
        lambda broker: broker.refuse("UNSTABLE_OFFSET_COMMIT", api="OffsetFetch", times=2),
        lambda broker: broker.close(api="ListOffsets", times=2),
        lambda broker: broker.lose(api="OffsetCommit"),
    ],
    ids=[
        "another coordinator",
        "loading",
        "lost answer",
        "closed",
        "no coordinator",
        "closed look-up",
        "fenced",
        "another leader",
        "closed fetch",
        "closed read of offsets",
        "unstable offsets",
        "closed look for an end",
        "lost commit",
    ],
)
def test_it_lives_through_what_goes_wrong(broker: LiveBroker, join: Any, fault: Callable[[LiveBroker], Any]) -> None:
    """It joins, reads everything and commits, whatever was refused, lost or closed meanwhile."""
    rule = fault(broker)
    produce(broker, 0, b"a", b"b")
    consumer = join(settings={"auto_commit_interval_ms": 50})
    consumer.subscribe(["foo"])
    assert [message.value for message in read(consumer, 2)] == [b"a", b"b"]
    wait(broker, lambda: rule.done >= 1 and consumer.assignment() == ALL, consumer)
    wait(broker, lambda: committed(broker).get(("foo", 0)) == 2, consumer)
    consumer.close()
    assert broker.get_assignment("g") == {}


def committed(broker: LiveBroker) -> dict[tuple[str, int], int]:
    """The last commit of each partition that was answered well."""
    names = {one.topic_id: one.name for asked in broker.exchanges("Metadata") for one in asked.response.topics}
    found: dict[tuple[str, int], int] = {}
    for one in broker.exchanges("OffsetCommit"):
        if one.is_answered and not one.fault and not one.response.errors:
            found |= positions.read_commit(one.request, names)
    return found


@pytest.mark.parametrize(
    ("protocol", "version"),
    [("consumer", 9), ("consumer", 10), *(("range", version) for version in (2, 5, 7, 8, 9, 10))],
)
def test_offsets_in_every_version(broker: LiveBroker, join: Any, protocol: str, version: int) -> None:
    """In the newest that the broker takes; from 9 on a member of KIP-848 asks in its own name."""
    for name in ("OffsetCommit", "OffsetFetch"):
        broker._call(partial(set_newest, broker, name, version))
    produce(broker, 0, b"a", b"b")
    for values in ([b"a", b"b"], [b"c"]):
        consumer = join(protocol=protocol)
        consumer.subscribe(["foo"])
        assert [message.value for message in read(consumer, len(values))] == values
        consumer.close()
        produce(broker, 0, b"c")
    assert committed(broker)["foo", 0] == 3
    asked = broker.exchanges("OffsetFetch")
    assert {one.version for one in (*asked, *broker.exchanges("OffsetCommit"))} == {version}
    if version >= 9:
        members = {
            (group.member_id is not None, group.member_epoch > 0) for one in asked for group in one.request.groups
        }
        assert members == {(True, True) if protocol == "consumer" else (False, False)}


def set_newest(broker: LiveBroker, name: str, version: int) -> None:
    """The broker speaks no newer version of it."""
    versions = broker._edge.brokers.cluster.versions
    versions[APIS[name].key] = (versions[APIS[name].key][0], version)


def test_a_topic_that_is_deleted_holds_up_nothing(broker: LiveBroker, join: Any) -> None:
    """Its offsets cannot be committed before it is given up; the rest of the group's topics goes on."""
    broker.change_topic("bar", 1)
    produce(broker, 0, b"a")
    produce(broker, 0, b"b", topic="bar")
    consumer = join()
    consumer.subscribe(["bar", "foo"])
    read(consumer, 2)
    broker.change_topic("bar", 0)
    wait(broker, lambda: consumer.assignment() == ALL, consumer)
    produce(broker, 0, b"c")
    assert [message.value for message in read(consumer, 1)] == [b"c"]


def test_offsets_that_are_refused_to_an_old_epoch_are_asked_for_again(broker: LiveBroker, join: Any) -> None:
    """With the epoch that the member has by then, and nobody need be told."""
    lines: list[str] = []
    rule = broker.refuse("STALE_MEMBER_EPOCH", api="OffsetFetch", times=2)
    produce(broker, 0, b"a")
    consumer = join(reading=ReadingOptions(tell=lines.append))
    consumer.subscribe(["foo"])
    assert [message.value for message in read(consumer, 1)] == [b"a"]
    assert rule.done == 2
    assert lines == []


@pytest.mark.parametrize("fault", ["mute", "swallow"])
def test_a_broker_that_is_silent_is_left_and_asked_again(
    broker: LiveBroker, join: Any, fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the request timeout the connection is closed, the coordinator looked for, and a full heartbeat sent."""
    monkeypatch.setattr(transport, "PATIENCE", 0.4 / LIMIT_S)  # well before the member itself gives the request up
    consumer = join(settings={"request_timeout_ms": int(LIMIT_S * 1000)})
    consumer.subscribe(["foo"])
    wait(broker, lambda: consumer.assignment() == ALL, consumer)
    rule = getattr(broker, fault)(api="ConsumerGroupHeartbeat")
    wait(broker, lambda: rule.done == 1, consumer)
    count = len(broker.exchanges("ConsumerGroupHeartbeat"))
    wait(broker, lambda: len(broker.exchanges("ConsumerGroupHeartbeat")) > count + 1, consumer)
    silent = next(one for one in broker.exchanges("ConsumerGroupHeartbeat") if one.fault)
    later = [one for one in broker.exchanges("ConsumerGroupHeartbeat") if one.at_ms > silent.at_ms]
    assert {one.connection for one in later}.isdisjoint({silent.connection})
    assert later[0].request.rebalance_timeout_ms > 0
    look_ups = [one.at_ms for one in broker.exchanges("FindCoordinator")]
    assert any(silent.at_ms < look_up < later[0].at_ms for look_up in look_ups)
    assert consumer.assignment() == ALL


def test_an_answer_that_comes_too_late_is_ignored(broker: LiveBroker, join: Any) -> None:
    """It is of a connection that is closed by then; the member goes on with the next."""
    consumer = join(settings={"request_timeout_ms": 300})
    consumer.subscribe(["foo"])
    wait(broker, lambda: consumer.assignment() == ALL, consumer)
    rule = broker.delay_answer(700, api="ConsumerGroupHeartbeat")
    wait(broker, lambda: rule.done == 1, consumer)
    count = len(broker.exchanges("ConsumerGroupHeartbeat"))
    wait(broker, lambda: len(broker.exchanges("ConsumerGroupHeartbeat")) > count + 4, consumer)
    assert consumer.assignment() == ALL
    assert len({one.request.member_id for one in broker.exchanges("ConsumerGroupHeartbeat")}) == 1


@pytest.mark.broker(brokers=3)
@pytest.mark.parametrize("protocol", ["consumer", "range"])
def test_it_follows_its_coordinator(broker: LiveBroker, join: Any, protocol: str) -> None:
    """Each time the group moves it is found again, and nothing is lost."""
    lost = Noted()
    consumer = join("A", protocol)
    consumer.subscribe(["foo"], lost)
    wait(broker, lambda: consumer.assignment() == ALL, consumer)
    api = "ConsumerGroupHeartbeat" if protocol == "consumer" else "Heartbeat"
    for _ in range(3):
        broker.move("g")
        moved_ms = broker.notes("moved")[-1].at_ms

        def is_back(moved_ms: float = moved_ms) -> bool:
            good = (one for one in broker.exchanges(api) if one.is_answered and not one.response.error_code)
            return any(one.at_ms > moved_ms for one in good)

        wait(broker, is_back, consumer)
    assert consumer.assignment() == ALL
    assert lost.called == [("assigned", ALL)]
    spoken_to = {one.broker for one in broker.exchanges(api) if not one.response.error_code}
    assert len(spoken_to) > 1


@pytest.mark.parametrize("codec", [2, 3, 4])
def test_records_of_every_codec_are_read(broker: LiveBroker, join: Any, codec: int) -> None:
    """snappy, lz4 and zstd, as any producer packs them."""
    values = [b"%d" % i * 100 for i in range(50)]
    produce(broker, 0, *values, codec=codec)
    produce(broker, 0, b"end", codec=codec)
    consumer = join()
    consumer.subscribe(["foo"])
    assert [message.value for message in read(consumer, 51)] == [*values, b"end"]


def test_records_that_cannot_be_read_are_passed_over_and_told(
    broker: LiveBroker, join: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of what cannot be unpacked one line tells, and the offsets behind it are committed."""
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    produce(broker, 0, b"plain")
    produce(broker, 0, b"in", b"gzip", codec=1)
    produce(broker, 0, b"in", b"snappy", codec=2)
    produce(broker, 0, b"end")
    lines: list[str] = []
    consumer = join(reading=ReadingOptions(tell=lines.append))
    consumer.subscribe(["foo"])
    assert [(m.offset, m.value) for m in read(consumer, 4)] == [(0, b"plain"), (1, b"in"), (2, b"gzip"), (5, b"end")]
    (line,) = lines
    assert line.startswith("foo-0: offsets 3 to 4 are passed over: they are compressed with snappy; install pyarrow")
    consumer.close()
    assert committed(broker)["foo", 0] == 6


def test_batches_of_this_test_are_batches() -> None:
    """Of the producer here."""
    for codec in (0, 1):
        (batch,) = read_batches(batch_of_values((b"a", b"b"), codec))
        assert [record.value for record in batch.records] == [b"a", b"b"]


def test_it_may_begin_at_the_end(broker: LiveBroker, join: Any) -> None:
    """What was there before is not read; an offset that is out of range begins anew and is told."""
    produce(broker, 0, b"old")
    consumer = join(reading=ReadingOptions(LATEST))
    consumer.subscribe(["foo"])
    wait(broker, lambda: len(committed_positions(consumer)) == 4, consumer)
    produce(broker, 0, b"new")
    assert [message.value for message in read(consumer, 1)] == [b"new"]


def committed_positions(consumer: MessageConsumer) -> dict[Any, int]:
    return consumer._positions


def test_no_more_is_given_than_is_asked_for(broker: LiveBroker, join: Any) -> None:
    """The rest comes with the next poll, and only what was given is committed."""
    produce(broker, 0, *(b"%d" % i for i in range(10)))
    consumer = join()
    consumer.subscribe(["foo"])
    found: list[Message] = []
    while len(found) < 3:
        found += consumer.poll(200, most=3 - len(found))
    consumer.close()
    assert [message.offset for message in found] == [0, 1, 2]
    assert committed(broker)["foo", 0] == 3


def test_a_static_member_comes_back_to_its_place(broker: LiveBroker, join: Any) -> None:
    """Its close keeps the place; a second life under the instance id gets the same partitions."""
    for name in ("A", "B"):
        consumer = join(name, settings={"group_instance_id": "i1"})
        consumer.subscribe(["foo"])
        wait(broker, lambda consumer=consumer: consumer.assignment() == ALL, consumer)
        consumer.close()
    leaves = [
        one.request.member_epoch for one in broker.exchanges("ConsumerGroupHeartbeat") if one.request.member_epoch < 0
    ]
    assert leaves == [-2, -2]


@pytest.mark.broker(topics={"foo": 2, "bar": 2})
@pytest.mark.parametrize("protocol", ["range", "cooperative"])
def test_a_classic_leader_assigns_topics_that_are_not_its_own(broker: LiveBroker, join: Any, protocol: str) -> None:
    """Whoever leads, each member gets what it has subscribed to, also when its metadata have been learned anew."""
    first, second = (join(name, protocol, reading=ReadingOptions(metadata_max_age_ms=50)) for name in "AB")
    first.subscribe(["foo"])
    wait(broker, lambda: len(first.assignment()) == 2 and len(broker.exchanges("Metadata", "A")) > 5, first)
    second.subscribe(["bar"])
    wait(broker, lambda: len(first.assignment()) == 2 == len(second.assignment()), first, second)
    assert share([first, second]) == [("bar", 0), ("bar", 1), ("foo", 0), ("foo", 1)]


def test_a_topic_that_grows_is_noticed_by_a_classic_leader(broker: LiveBroker, join: Any) -> None:
    """Metadata are looked at from time to time; news go to the member."""
    consumer = join("A", "range", reading=ReadingOptions(metadata_max_age_ms=100))
    consumer.subscribe(["foo"])
    wait(broker, lambda: consumer.assignment() == ALL, consumer)
    broker.change_topic("foo", 6)
    wait(broker, lambda: len(consumer.assignment()) == 6, consumer)


def test_metadata_are_of_the_topics_it_needs(broker: LiveBroker, join: Any) -> None:
    """A cluster may have many: those of the subscription are asked for, by name, and no others."""
    consumer = join()
    consumer.subscribe(["foo"])
    wait(broker, lambda: consumer.assignment() == ALL, consumer)
    asked = {tuple(topic.name for topic in one.request.topics) for one in broker.exchanges("Metadata")}
    assert asked <= {(), ("foo",)}


def test_what_the_member_did_is_written_down(broker: LiveBroker) -> None:
    """The trace names the client as the broker hears it, and ends with the close."""
    records: list[TraceRecord] = []
    with MessageConsumer(broker.bootstrap, config_of(), trace=records.append) as consumer:
        consumer.subscribe(["foo"])
        wait(broker, lambda: consumer.assignment() == ALL, consumer)
    (client_id,) = {record.client_id for record in records}
    assert {one.client_id for one in broker.exchanges()} == {client_id}
    kinds = [record.kind for record in records]
    assert kinds[0] is Kind.STARTED
    assert kinds[-1] is Kind.CLOSE_END
    assert {Kind.JOINED, Kind.ASSIGN_BEGIN, Kind.REVOKE_BEGIN, Kind.LEFT} <= {*kinds}


def test_a_text_is_not_a_list_of_topics(join: Any) -> None:
    """Else it would be topics of one letter each."""
    with pytest.raises(LocalProtocolError, match="subscribe to a list of topic names, not to 'foo'"):
        join().subscribe("foo")


@pytest.mark.parametrize("protocol", ["consumer", "range"])
def test_a_commit_that_runs_out_of_time_says_so(broker: LiveBroker, join: Any, protocol: str) -> None:
    """Whatever the last error was: an application tells one that was tried for long enough from one that is final."""
    consumer = join(protocol=protocol, settings=MANUAL)
    consumer.subscribe(["foo"])
    wait(broker, lambda: consumer.assignment() == ALL, consumer)
    broker.refuse("COORDINATOR_LOAD_IN_PROGRESS", api="OffsetCommit", times="always")
    with pytest.raises(KafkaException, match="TimeoutException: not committed within 1500 ms, last because of COORD"):
        consumer.commit_sync(((("foo", 0), 2),), timeout_ms=1_500)


def test_on_asyncio_an_application_commits_itself(broker: LiveBroker) -> None:
    """At any time, and within the callback of close()."""
    produce(broker, 1, b"a", b"b", b"c")

    async def read_one(*, commits: bool) -> bytes | None:
        async with AsyncMessageConsumer(broker.bootstrap, config_of(**MANUAL)) as consumer:

            class Committing(AsyncConsumerRebalanceListener):
                async def on_partitions_revoked(self, partitions: Any) -> None:
                    assert partitions == ALL
                    await consumer.commit_sync()

            await consumer.subscribe(["foo"], None if commits else Committing())
            found: list[Message] = []
            while not found:
                found = await consumer.poll(200, most=1)
            if commits:
                await consumer.commit_sync()
            return found[0].value

    assert [asyncio.run(read_one(commits=commits)) for commits in (True, False, True)] == [b"a", b"b", b"c"]


def test_a_listener_that_would_not_be_called_is_refused(join: Any) -> None:
    """A coroutine that nobody awaits, or a callback that is not there: the callbacks would be lost without a word."""

    class Awaiting(Noted):
        async def on_partitions_assigned(self, partitions: Any) -> None:  # type: ignore[override]
            raise AssertionError(partitions)

    consumer = join()
    with pytest.raises(LocalProtocolError, match="has coroutines: on_partitions_assigned; only AsyncConsumer awaits"):
        consumer.subscribe(["foo"], Awaiting())
    with pytest.raises(LocalProtocolError, match="the listener object has no on_partitions_revoked"):
        consumer.subscribe(["foo"], object())


def test_an_error_for_good_comes_out_of_poll(broker: LiveBroker, join: Any) -> None:
    """As Kafka's consumer throws it."""
    broker.refuse("GROUP_MAX_SIZE_REACHED", api="ConsumerGroupHeartbeat", times=9)
    consumer = join()
    consumer.subscribe(["foo"])
    with pytest.raises(KafkaException, match="GROUP_MAX_SIZE_REACHED"):
        read(consumer, 1)


def test_the_broker_goes_away_for_good(join: Any, broker: LiveBroker) -> None:
    """close() is bounded all the same."""
    consumer = join(settings={"request_timeout_ms": 500})
    consumer.subscribe(["foo"])
    wait(broker, lambda: consumer.assignment() == ALL, consumer)
    broker.close(times=1_000_000)
    began = threading.Event()
    closing = threading.Thread(target=lambda: (began.set(), consumer.close(1_000)))
    closing.start()
    closing.join(LIMIT_S)
    assert began.is_set()
    assert not closing.is_alive()


@pytest.mark.parametrize("text", ["", "localhost", "h:0", "h:99999", "h:1,", ":9"])
def test_addresses_that_are_none(text: str) -> None:
    """Nothing is started for them."""
    with pytest.raises(InputError, match="must be HOST:PORT"):
        MessageConsumer(text, config_of())
