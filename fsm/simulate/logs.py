"""A run as the logs of a deployment: a file for each process, in the words of its client, and the coordinators' log."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain

from fsm.cluster.cluster import STARTED_MS
from fsm.logs.layouts.java_layouts import kafka_line
from fsm.logs.message import Message
from fsm.logs.writing.connect_writing import write_connect
from fsm.logs.writing.java_writing import write_java
from fsm.protocol.record_batches import batch_of, write_batch
from fsm.protocol.records import OffsetCommit, OffsetKey, Record, RecordType
from fsm.simulate.clients import classic_config
from fsm.simulate.deployment import CLASSIC, CONNECT, Deployment, Service
from fsm.simulate.outcome import Stored, Truth
from fsm.trace import TraceRecord

DEBUG = "debug"


SEGMENT = "brokers/__consumer_offsets-0/00000000000000000000.log"
"""The path of the coordinators' log, as if one partition had all groups."""


def log_files(deployment: Deployment, truth: Truth, level: str) -> Iterator[tuple[str, bytes]]:
    """Path and content of each process's log, `HOST/PROCESS.log`, and of the coordinators'.

    A restarted process appends.
    """
    by_client: dict[str, list[TraceRecord]] = {}
    for record in truth.records:
        by_client.setdefault(record.client_id, []).append(record)
    for service in deployment.services.values():
        for number in range(service.processes):
            if service.protocol == CONNECT:
                messages = [*write_connect(by_client.get(f"connect-{service.process(number)}", ()))]
            else:
                members = [by_client.get(service.member(number, i), []) for i in range(service.members)]
                messages = _messages(service, members, truth.topic_ids)
            text = "".join(map(kafka_line, _at(level, messages)))
            yield f"{service.host(number)}/{service.process(number)}.log", text.encode()
    if truth.stored:
        yield SEGMENT, b"".join(_batches(deployment, truth))


def _batches(deployment: Deployment, truth: Truth) -> Iterator[bytes]:
    """Record batches, first the earlier commits of each group for its topics: since Kafka 4.2 no other record names
    these.
    """
    wanted = sorted({(one.group, topic) for one in deployment.services.values() for topic in one.topics})
    commits = tuple(
        Record(OffsetKey(RecordType.OFFSET_COMMIT, *one, 0), OffsetCommit(0, topic_id=truth.topic_ids[one[1]]), 4)
        for one in wanted
    )
    offset = 0
    for one in (Stored(-1, STARTED_MS, commits), *sorted(truth.stored, key=lambda stored: stored.at_ms)):
        yield write_batch(batch_of(offset, one.records, one.stamp_ms))
        offset += len(one.records)


def _messages(
    service: Service, members: Iterable[Iterable[TraceRecord]], topic_ids: Mapping[str, str]
) -> list[Message]:
    settings = dict(service.settings)
    if service.protocol == CLASSIC:
        names = [assignor.name for assignor in classic_config(service).assignors]
        settings["partition.assignment.strategy"] = ",".join(names)
    messages = chain.from_iterable(write_java(records, settings, topic_ids) for records in members)
    return sorted(messages, key=lambda message: message.ts_ms)


def _at(level: str, messages: Iterable[Message]) -> Iterable[Message]:
    return (one for one in messages if level == DEBUG or one.level != "DEBUG")
