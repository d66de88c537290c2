"""A real Apache Kafka and our coordinator, walked side by side: `make test-kafka`.

Every family is walked for thousands of seeded steps; after each one answers, records and description must be equal. A
worker has a broker of its own.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator

import pytest
from kafka_broker import RELEASE, STEPS, TIME, broker
from patience import PATIENCE_S

from fsm.cli import main
from fsm.conformance.broker_peer import Broker, Topics
from fsm.conformance.families import FAMILIES
from fsm.conformance.walk import compare, lines
from fsm.coordinator.model.dialect import dialect
from fsm.errors import InputError
from fsm.wire.connection import Connection
from fsm.wire.dialogue import PeerError

pytestmark = pytest.mark.kafka

SEED = int(os.environ.get("KAFKA_SEED", "1"))
COUNT = int(os.environ.get("KAFKA_STEPS", "2000"))
SLACK_MS = 500
"""A machine that does other things, too, fires a timer late."""
TIMEOUT_S = PATIENCE_S
"""For one answer: far above what a machine with other work needs."""
TOPIC_REQUESTS = {"CreateTopics", "CreatePartitions", "DeleteTopics"}
"""Counted as changes of topics."""
TIMED = [name for name, family in FAMILIES.items() if family.waits]

Address = tuple[str, int]


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Address]:
    """A broker in which nothing waits for a clock."""
    with broker(tmp_path_factory.mktemp("steps"), STEPS) as address:
        yield address


@pytest.fixture(scope="module")
def timed_kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Address]:
    """A broker with short timeouts."""
    with broker(tmp_path_factory.mktemp("time"), TIME) as address:
        yield address


def assert_equal(address: Address, family: str, count: int) -> None:
    peer = Broker(*address, RELEASE, {}, TIMEOUT_S)
    try:
        (result,) = compare(peer, (family,), SEED, count, slack_ms=SLACK_MS)
        assert result.difference is None, "\n".join(lines(peer, [result], SEED))
        assert result.equal == count
        assert set(FAMILIES[family].needs()) - set(result.requests) <= TOPIC_REQUESTS
        assert peer.keeps_log
        assert not peer.unsupported
    finally:
        peer.close()


@pytest.mark.parametrize("family", [name for name in FAMILIES if name not in TIMED])
def test_every_step_is_kafkas(kafka: Address, family: str) -> None:
    """Thousands of steps of one family: every answer, every record, every description is the one that we foretell."""
    assert_equal(kafka, family, COUNT)


@pytest.mark.xdist_group("time")
@pytest.mark.parametrize("family", TIMED)
def test_every_step_is_kafkas_while_time_passes(timed_kafka: Address, family: str) -> None:
    """The same with timers that run out; half a second around a deadline either is right."""
    assert_equal(timed_kafka, family, COUNT)


def test_a_walk_takes_its_topics_with_it(kafka: Address) -> None:
    """What it created is deleted when the broker is let go."""
    peer = Broker(*kafka, RELEASE, {}, TIMEOUT_S)
    (result,) = compare(peer, ("admin",), SEED + 1, 60, slack_ms=SLACK_MS)
    peer.close()
    after = Broker(*kafka, RELEASE, {}, TIMEOUT_S)
    after.close()
    assert result.requests["a change of topics"] > 0
    assert not [name for name in after.topics if name.startswith(result.group)]


def test_a_topic_that_is_another_one_stays(kafka: Address) -> None:
    """One with other partitions than a walk needs is for its owner to delete; what a broker refuses is told by name."""
    connection = Connection(*kafka, "c")
    topics = Topics(connection)
    topics.change("create", "odd", 2)
    topics.ensure("odd", 2)
    with pytest.raises(InputError, match="topic odd has 2 partitions, a walk needs 3"):
        topics.ensure("odd", 3)
    with pytest.raises(PeerError, match="cannot create topic odd: "):
        topics.change("create", "odd", 2)
    topics.remove_made()
    assert topics.partitions("odd") == 0
    connection.close()


def test_another_release_is_found_out(kafka: Address) -> None:
    """Compared with the rules of 4.0, the broker differs, and the first one is the epoch of a fresh group (F1)."""
    assert RELEASE != "4.0.0"
    peer = Broker(*kafka, dialect("4.0.0").name, {}, TIMEOUT_S)
    (result,) = compare(peer, ("static",), SEED + 1, 50)
    peer.close()
    assert result.difference is not None
    (epoch,) = (one for one in result.difference.fields if one.field.endswith("member_epoch"))
    assert (epoch.expected, epoch.got) == (1, 2)


def test_the_command_finds_settings_and_topics_itself(kafka: Address, capsys: pytest.CaptureFixture[str]) -> None:
    """`fsm conform --broker` needs no more than the address; its JSON says what was equal; exit status 0."""
    address = f"{kafka[0]}:{kafka[1]}"
    asked = [
        "conform",
        "--broker",
        address,
        "--dialect",
        RELEASE,
        "--family",
        "plain,classic",
        "--steps",
        "60",
        "--json",
    ]
    assert main(asked) == 0
    found = json.loads(capsys.readouterr().out)
    assert [(one["family"], one["equal"], one["difference"]) for one in found["families"]] == [
        ("plain", 60, None),
        ("classic", 60, None),
    ]
    assert found["records_compared"]
    assert found["unspoken"] == {}
