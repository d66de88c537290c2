"""Recorded exchanges of real clients under scripted faults, as exchanges and notes.

A line of a recording is `{"t": seconds, "ev": "req" | "open" | "closed" | "fault" | "expired" | "admin", ...}`; a
request has `conn`, `api`, `v`, `client`, `body`, its answer as `ans` at the time `at`.
"""

from __future__ import annotations

import json
import tarfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from fsm.protocol.json_form import from_recorded, recorded_label
from fsm.protocol.messages import APIS, ConsumerGroupHeartbeatRequest, FetchPartition, FetchRequest, FetchTopic
from fsm.protocol.schema import struct_of
from fsm.wire.exchange import Exchange, Note

TRACES = Path(__file__).parent.parent / "data" / "kit-traces.tar.xz"
TOPICS = [["bar", "uE7Y7aexUC-D9pATLmit7w", 4], ["foo", "6NXPbd4PXneao5EJPN-_Yg", 4]]
SESSION_MS = 6_000
BEAT = "ConsumerGroupHeartbeat"
SUBSCRIPTION = ("subscribed_topic_names", "subscribed_topic_regex", "server_assignor")
UNANSWERED = ("lose", "mute", "swallow")


def traces(archive: Path) -> Iterator[tuple[str, str, list[str]]]:
    """The recordings of an archive: scenario, client, lines."""
    with tarfile.open(archive) as found:
        for member in found:
            data = found.extractfile(member)
            assert data is not None
            scenario, client = member.name.removeprefix("kit-").removesuffix(".trace.jsonl").split("-")
            yield scenario, client, data.read().decode().splitlines()


def load(lines: Iterable[str]) -> Iterator[Exchange | Note]:
    """The exchanges of recorded lines.

    Of a heartbeat that was not answered a recording has only the fault that it met. What it said is taken from its
    neighbours: of a join from the one that follows, else it owned what the next one says. The one that no other follows
    was a goodbye, if its answer was lost.
    """
    yield Note(0, "topics", {"topics": TOPICS})
    yield Note(0, "settings", {"session_timeout_ms": SESSION_MS})
    recorded = [json.loads(line) for line in lines]
    beats: dict[str, Exchange] = {}
    for number, entry in enumerate(recorded):
        at_ms = entry["t"] * 1000
        match entry["ev"]:
            case "req" if "body" in entry:
                exchange = _exchange(entry)
                if exchange.api == BEAT:
                    beats[entry["client"]] = exchange
                yield exchange
            case "open":
                yield Note(at_ms, "connected", {"connection": entry["conn"]})
            case "closed":
                yield Note(at_ms, "disconnected", {"connection": entry["conn"]})
            case "fault" if entry["rule"] in UNANSWERED and entry["api"] == BEAT:
                yield _unanswered(entry, beats.get(entry["client"]), recorded[number:])


def _unanswered(fault: Mapping[str, Any], last: Exchange | None, rest: list[Any]) -> Exchange:
    found = (one for one in rest if one.get("api") == BEAT and "body" in one and one["client"] == fault["client"])
    follows = next((_exchange(one).request for one in found), None)
    if last is None:
        assert follows is not None
        request = follows
    elif follows is None or follows.member_epoch < 0:
        epoch = -1 if fault["rule"] == "lose" else last.request.member_epoch
        request = ConsumerGroupHeartbeatRequest(last.request.group_id, last.request.member_id, epoch)
    else:
        request = replace(
            follows, member_epoch=last.response.member_epoch, rebalance_timeout_ms=-1, **dict.fromkeys(SUBSCRIPTION)
        )
    return Exchange(fault["t"] * 1000, fault["conn"], fault["client"], BEAT, 1, request, fault=fault["rule"])


def _exchange(line: Mapping[str, Any]) -> Exchange:
    api, version, answer = line["api"], line["v"], line.get("ans")
    known = APIS.get(api)
    request = response = None
    if api == "Fetch":
        request = FetchRequest(
            topics=tuple(_fetched(topic, numbers, version) for topic, numbers in line["body"]["topics"])
        )
    elif known is not None and known.oldest <= version <= known.newest:
        request = from_recorded(known.request, line["body"], version)
        fields = {recorded_label(field.name) for field in struct_of(known.response).fields if field.is_in(version)}
        body = {name: value for name, value in (answer or {}).items() if name in fields}
        response = from_recorded(known.response, body, version) if answer else None
    answered_ms = line["at"] * 1000 if "at" in line else None
    return Exchange(line["t"] * 1000, line["conn"], line["client"], api, version, request, answered_ms, response)


def _fetched(topic: str, numbers: list[list[int]], version: int) -> FetchTopic:
    found = tuple(FetchPartition(number, fetch_offset=offset) for number, offset in numbers)
    return FetchTopic(topic_id=topic, partitions=found) if version > 12 else FetchTopic(topic, partitions=found)
