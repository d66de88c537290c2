"""A run as the logs of a deployment: one file for each process, in the words of its client."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain

from fsm.logs.java_layouts import kafka_line
from fsm.logs.java_writing import write_java
from fsm.logs.message import Message
from fsm.simulate.clients import classic_config
from fsm.simulate.deployment import CLASSIC, CONNECT, Deployment, Service
from fsm.simulate.run import Truth
from fsm.trace import TraceRecord

INFO, DEBUG = "info", "debug"
LEVELS = (INFO, DEBUG)


def log_files(deployment: Deployment, truth: Truth, level: str) -> Iterator[tuple[str, str]]:
    """Path and text of each process's log, by `HOST/PROCESS.log`; a process that is started again writes on."""
    told: dict[str, list[TraceRecord]] = {}
    for record in truth.records:
        told.setdefault(record.client_id, []).append(record)
    for service in deployment.services.values():
        if service.protocol != CONNECT:
            for number in range(service.processes):
                members = [told.get(service.member(number, i), []) for i in range(service.members)]
                text = "".join(map(kafka_line, _at(level, _messages(service, members, truth.topic_ids))))
                yield f"{service.host(number)}/{service.process(number)}.log", text


def _messages(
    service: Service, members: Iterable[Iterable[TraceRecord]], topic_ids: Mapping[str, str]
) -> list[Message]:
    settings = dict(service.settings)
    if service.protocol == CLASSIC:
        names = [assignor.name for assignor in classic_config(service).assignors]
        settings["partition.assignment.strategy"] = ",".join(names)
    told = chain.from_iterable(write_java(records, settings, topic_ids) for records in members)
    return sorted(told, key=lambda message: message.ts_ms)


def _at(level: str, messages: Iterable[Message]) -> Iterable[Message]:
    return (one for one in messages if level == DEBUG or one.level != "DEBUG")
