"""Our brokers beside a real Apache Kafka: the same odd requests, the same answers, but for what is named here."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from live_broker import Wire, served
from odd_requests import answers, cases

sys.path.append(str(Path(__file__).parents[1] / "conformance"))

import kafka_broker

pytestmark = [pytest.mark.kafka, pytest.mark.xdist_group("served beside kafka")]

Both = tuple[dict[str, str], dict[str, str]]

DIFFERENCES = {
    "versions that are served": "there are no transactions: AddOffsetsToTxn, EndTxn and TxnOffsetCommit are missing",
    "alter a topic": "topics have no settings",
}
"""What is answered otherwise, and why."""


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    """What ours answers, and what Kafka does, with the same settings."""
    rules = {key: value for key, value in kafka_broker.TIME.items() if not key.endswith(".linger.ms")}
    settings = [word for key, value in rules.items() for word in ("--set", f"{key}={value}")]
    with served("--records", "0", settings=settings) as broker:
        ours = answers(Wire(broker.port))
    with kafka_broker.broker(tmp_path_factory.mktemp("kafka"), kafka_broker.TIME) as (_, port):
        yield ours, answers(Wire(port))


@pytest.mark.parametrize("name", [name for name, _ in cases()])
def test_odd_requests_are_answered_as_by_kafka(both: Both, name: str) -> None:
    ours, theirs = both
    if name in DIFFERENCES:
        assert ours[name] != theirs[name], f"it is no difference any more: {DIFFERENCES[name]}"
    else:
        assert ours[name] == theirs[name]


def test_every_difference_is_of_a_case() -> None:
    assert {*DIFFERENCES} <= {name for name, _ in cases()}
