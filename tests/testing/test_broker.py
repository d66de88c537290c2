"""The broker for tests of clients, with a real client: librdkafka's, in the consumer protocol."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition
from patience import PATIENCE_S

from fsm.errors import FsmError, InputError
from fsm.testing import LiveBroker

pytest_plugins = ("pytester",)


class Watched:
    """A consumer, and what its listener heard."""

    def __init__(self, broker: LiveBroker, client_id: str = "A") -> None:
        self.calls: list[tuple[str, int]] = []
        self.consumer = Consumer(
            {
                "bootstrap.servers": broker.bootstrap,
                "group.id": "g",
                "client.id": client_id,
                "group.protocol": "consumer",
                "auto.offset.reset": "earliest",
                "log_level": 0,
            }
        )
        self.consumer.subscribe(
            ["foo"],
            on_assign=lambda _, given: self.calls.append(("assigned", len(given))),
            on_revoke=lambda _, taken: self.calls.append(("revoked", len(taken))),
            on_lost=lambda _, gone: self.calls.append(("lost", len(gone))),
        )

    def poll(self) -> None:
        self.consumer.poll(0.05)

    def has_heard(self, *words: tuple[str, int]) -> bool:
        return [one for one in self.calls if one[1]] == [*words]


@pytest.fixture
def watched(broker):
    made = Watched(broker)
    broker.wait_until(lambda: made.has_heard(("assigned", 4)), each=made.poll)
    yield made
    made.consumer.close()


def test_a_listener_hears_of_fencing(broker, watched):
    broker.refuse("FENCED_MEMBER_EPOCH", api="ConsumerGroupHeartbeat")
    expected = ("assigned", 4), ("lost", 4), ("assigned", 4)
    broker.wait_until(lambda: watched.has_heard(*expected), each=watched.poll)
    assert [one.response.member_epoch for one in broker.exchanges("ConsumerGroupHeartbeat") if one.fault] == [0]


LONG = {"group.consumer.max.session.timeout.ms": "600000", "group.consumer.session.timeout.ms": "600000"}


@pytest.mark.broker(settings=LONG)
def test_time_is_skipped(broker, watched):
    """A session of ten minutes ends by the broker's clock; the client's own has not moved."""
    broker.skip(600_000)
    (removed,) = broker.wait_until(lambda: broker.notes("removed"))
    assert removed.about["group"] == "g"
    broker.wait_until(lambda: ("lost", 4) in watched.calls, each=watched.poll)


def test_two_members_share_and_one_hears_that_it_gives_up(broker, watched):
    other = Watched(broker, "B")

    def both() -> None:
        watched.poll()
        other.poll()

    broker.wait_until(lambda: other.has_heard(("assigned", 2)), each=both)
    assert watched.has_heard(("assigned", 4), ("revoked", 2))
    assert sorted(len(given) for given in broker.get_assignment("g").values()) == [2, 2]
    other.consumer.close()


@pytest.mark.broker(topics={"foo": 4}, brokers=2, dialect="4.1")
def test_a_coordinator_moves_and_the_member_follows(broker, watched):
    watched.consumer.commit(offsets=[TopicPartition("foo", 0, 3)], asynchronous=False)
    broker.move("g")
    watched.consumer.commit(offsets=[TopicPartition("foo", 1, 7)], asynchronous=False)
    found = watched.consumer.committed([TopicPartition("foo", 0), TopicPartition("foo", 1)], timeout=PATIENCE_S)
    assert [one.offset for one in found] == [3, 7]
    assert watched.has_heard(("assigned", 4))


def test_a_commit_that_is_refused(broker, watched):
    broker.refuse("STALE_MEMBER_EPOCH", api="OffsetCommit", partition=("foo", 2))
    watched.consumer.commit(offsets=[TopicPartition("foo", 1, 7)], asynchronous=False)
    with pytest.raises(KafkaException, match="STALE_MEMBER_EPOCH"):
        watched.consumer.commit(offsets=[TopicPartition("foo", 2, 7)], asynchronous=False)


def test_what_cannot_be_is_refused(broker):
    with pytest.raises(InputError, match="unknown error 'FENCED_EPOCH'; did you mean"):
        broker.refuse("FENCED_EPOCH")
    with pytest.raises(InputError, match=r"unknown condition 'epcoh'; did you mean epoch\?"):
        broker.lose(epcoh=3)
    with pytest.raises(InputError, match="unknown API 'Heartbaet'; did you mean Heartbeat"):
        broker.lose(api="Heartbaet")
    with pytest.raises(InputError, match="answers of Heartbeat have no number, flag or text 'member_epoch'"):
        broker.rewrite({"member_epoch": 3}, api="Heartbeat")
    with pytest.raises(InputError, match="there is no broker 2"):
        broker.move("g", 2)
    with pytest.raises(InputError, match="it can only get more"):
        broker.change_topic("foo", 2)
    with pytest.raises(TimeoutError, match=r"the condition did not hold within 0 s; the last exchanges: none"):
        broker.wait_until(lambda: False, timeout_s=0)
    with pytest.raises(FsmError, match="not running"):
        LiveBroker().heal()
    with pytest.raises(
        InputError, match=r"unknown group setting 'group.consumer.max.sise'; did you mean group.consumer"
    ):
        LiveBroker(settings={"group.consumer.max.sise": "1"})


def test_the_readme_names_methods_that_exist():
    page = Path("fsm/testing/README.md").read_text(encoding="utf-8").partition("`LiveBroker` is a context")[2]
    called = re.findall(r"`(\w+)(?:\(\w*\))?`", page)
    conditions = {*re.findall(r"`(\w+)`", re.search(r"match requests by ([^;]*);", page)[1])}
    methods = [name for name in called if name not in conditions]
    assert {"refuse", "exchanges"} < set(methods)
    assert [name for name in methods if not hasattr(LiveBroker, name)] == []


def test_brokers_have_ports_of_their_own_and_end_for_good():
    with LiveBroker({"bar": 1}) as one, LiveBroker() as two:
        assert one.port != two.port
    with pytest.raises(FsmError):
        one.describe("g")


def test_the_fixture_comes_with_the_plugin(pytester):
    pytester.makepyfile(
        """
        import socket
        import pytest

        @pytest.mark.broker({"bar": 2}, brokers=2)
        def test_mine(broker):
            host, _, port = broker.bootstrap.partition(":")
            socket.create_connection((host, int(port)), 2).close()
            broker.wait_until(lambda: broker.notes("disconnected"))
            assert broker.notes("topics")[0].about["topics"][0][0] == "bar"
        """
    )
    result = pytester.runpytest_subprocess("-p", "fsm.testing.plugin", "-p", "no:cacheprovider", "--strict-markers")
    result.assert_outcomes(passed=1)
