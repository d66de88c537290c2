"""A recording of a Java consumer as lanes: what it logged, what it sent, what came back, what its application saw.

Each lane keeps its own order. Between lanes the timeline is true to some milliseconds only: threads and the wire
are written down by different hands.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

from fsm.kafka.assignment import LocalAssignment, TopicNames, topic_partitions

Line = Mapping[str, Any]


class Seen(NamedTuple):
    """One thing seen: when, what kind of thing, and what it says."""

    t_ms: float
    kind: str
    says: Any
    line: Line = {}  # noqa: RUF012  # never changed


LANES = ("log", "request", "response", "app")
WIRE_LAG_MS = 3.0
"""The client logs what it sends before the wire shows it; this much of the timeline's noise may hide that."""


@dataclass(frozen=True)
class Timeline:
    """One process from start to end."""

    scenario: str
    member: str
    version: str
    conf: Mapping[str, Any]
    member_id: str
    lanes: Mapping[str, tuple[Seen, ...]]
    commits: tuple[tuple[Seen, Seen | None], ...]
    """OffsetCommit requests with their responses."""
    unresolved: Mapping[str, tuple[tuple[float, float], ...]]
    """Topic ids that the client could not name, and from when to when."""
    names: TopicNames
    stopped: tuple[tuple[float, float], ...]
    """From when to when the process was stopped by a signal."""
    killed: bool
    """The process did not end by itself."""

    def matched_at(self, now_ms: float) -> dict[str, str]:
        """Topics that a pattern of the client may match: those its heartbeats have named by now, and the next one."""
        if not any("pattern" in seen.says for seen in self.lanes["app"] if seen.kind == "subscribe"):
            return {}
        naming = [seen for seen in self.lanes["request"] if seen.says["subscribed_topic_names"] is not None]
        due = [seen for n, seen in enumerate(naming) if n == 0 or naming[n - 1].t_ms < now_ms]
        return {f"of a pattern: {name}": name for seen in due for name in seen.says["subscribed_topic_names"]}


_BACKBONE = re.compile(r"Member (\S*) with epoch (-?\d+) transitioned from ([A-Z_]+) to ([A-Z_]+)\.$")
_TARGET = re.compile(r"arget assignment(?: updated)? from (LocalAssignment\{.*?\}\}) to (LocalAssignment\{.*?\}\})\.")
_LOCAL = re.compile(r"LocalAssignment\{localEpoch=(-?\d+), partitions=\{(.*)\}\}$")
_IDS = re.compile(r"([\w-]{22})=\[([\d, ]*)\]")
_COMPLETED = re.compile(
    r"The ConsumerRebalanceListener\.onPartitions(\w+) method completed (successfully|with an error)"
)
_LEFT = re.compile(
    r"received a (successful|failed) response to the heartbeat to leave the group and completed the leave"
)
_ENQUEUED = re.compile(r"The event to trigger the ConsumerRebalanceListener\.onPartitions(\w+) method")
_UNNAMED = re.compile(r"Topic Ids \[(.*?)\] received in target assignment were not found")


def named_partitions(text: str) -> tuple[tuple[str, int], ...]:
    """`[a-0, b-1]`, with brackets or without, as sorted pairs."""
    parts = (p.rpartition("-") for p in text.strip("[]").split(", ") if p)
    return tuple(sorted((topic, int(number)) for topic, _, number in parts))


def local_assignment(text: str) -> LocalAssignment:
    """Kafka's print of a LocalAssignment."""
    found = _LOCAL.match(text)
    assert found is not None, text
    assigned = {i: [int(n) for n in numbers.split(", ") if n] for i, numbers in _IDS.findall(found[2])}
    return LocalAssignment(int(found[1]), topic_partitions(assigned))


def log_seen(line: Line) -> Iterator[Seen]:
    """What a line of the membership's log says, if it says anything that a member decides or is told."""
    text, t = line["text"].strip(), line["t_ms"]
    if found := _BACKBONE.search(text):
        yield Seen(t, "transition", (found[3], found[4], int(found[2])), line)
    elif found := _TARGET.search(text):
        yield Seen(t, "target", (local_assignment(found[1]), local_assignment(found[2])), line)
    elif text.startswith("Marking partitions pending for revocation: "):
        yield Seen(t, "marked", named_partitions(text.partition(": ")[2]), line)
    elif text.startswith("Auto-commit before reconciling new assignment completed"):
        yield Seen(t, "commit", "ok", line)
    elif text.startswith("Auto-commit request before reconciling new assignment failed"):
        yield Seen(t, "commit", "failed", line)
    elif found := _ENQUEUED.search(text):
        yield Seen(t, "enqueued", found[1].lower(), line)
    elif text.startswith("The event to update the new assignment and trigger onPartitionsAssigned"):
        yield Seen(t, "enqueued", "assigned", line)
    elif text == "Reconciliation failed.":
        yield Seen(t, "run ended", "failed", line)
    elif text.startswith("Interrupting reconciliation"):
        yield Seen(t, "run ended", "stale", line)
    elif found := _LEFT.search(text):
        yield Seen(t, "left", found[1] == "successful", line)
    elif found := _COMPLETED.search(text):
        yield Seen(t, "completed", (found[1].lower(), found[2] == "successfully"), line)


APP = {
    "subscribe", "unsubscribe", "close_begin", "close_end", "assign", "assign_done", "revoke", "revoke_done", "lost",
    "listener_throw", "poll_stop", "poll_resume", "poll_error", "assignment",
}  # fmt: skip


def lanes_of(lines: Iterable[Line]) -> dict[str, tuple[Seen, ...]]:
    """The four lanes, each in the order of the recording."""
    lanes: dict[str, list[Seen]] = {lane: [] for lane in LANES}
    for line in lines:
        if "log" in line:
            lanes["log"] += log_seen(line)
        elif line.get("app") in APP:
            lanes["app"].append(Seen(line["t_ms"], line["app"], line, line))
        elif line.get("api") == "ConsumerGroupHeartbeat":
            lanes[line["wire"]].append(Seen(line["t_ms"] + WIRE_LAG_MS, "heartbeat", line["body"], line))
        elif line.get("api") == "FindCoordinator" and line["wire"] == "response":
            lanes["response"].append(Seen(line["t_ms"], "coordinator", line["body"], line))
    lanes["log"] = list(without_second_line(lanes["log"]))
    return {lane: tuple(seen) for lane, seen in lanes.items()}


def without_second_line(log: list[Seen]) -> Iterator[Seen]:
    """Explained: a failed commit before a run is logged twice, the second time as `Reconciliation failed.`

    The run goes on all the same (facts from real logs, A13), so the second line tells of nothing.
    """
    owed = 0
    for seen in log:
        if seen.kind == "commit" and seen.says == "failed":
            owed += 1
        if owed and seen.kind == "run ended" and seen.says == "failed":
            owed -= 1
            continue
        yield seen


def commits_of(lines: Iterable[Line]) -> tuple[tuple[Seen, Seen | None], ...]:
    """OffsetCommit requests, each with its response."""
    asked: dict[tuple[int, ...], tuple[Seen, Seen | None]] = {}
    for line in lines:
        if line.get("api") != "OffsetCommit":
            continue
        seen, corr = Seen(line["t_ms"], "commit", line["body"], line), tuple(line["corr"])
        asked[corr] = (seen, None) if line["wire"] == "request" else (asked[corr][0], seen)
    return tuple(asked.values())


def unresolved_of(lines: Iterable[Line]) -> dict[str, tuple[tuple[float, float], ...]]:
    """From when to when the client had no name for a topic id, as its lines say at each attempt."""
    spans: dict[str, list[tuple[float, float]]] = {}
    for line in lines:
        if "log" not in line or not (found := _UNNAMED.search(line["text"])):
            continue
        t = line["t_ms"]
        for topic_id in found[1].split(", "):
            mine = spans.setdefault(topic_id, [])
            if mine and t - mine[-1][1] < SAID_AGAIN_MS:
                mine[-1] = (mine[-1][0], t)
            else:
                mine.append((t - BEFORE_SAID_MS, t))
    return {topic_id: tuple(mine) for topic_id, mine in spans.items()}


SAID_AGAIN_MS = 500.0
"""Lines nearer than this belong to one time without a name."""
BEFORE_SAID_MS = 250.0
"""The name was missing before the line that says so."""


Named = tuple[dict[str, frozenset[int]], dict[str, frozenset[int]]]


def owned_by_id_and_name(lines: list[Line]) -> Iterator[Named]:
    """One assignment by id and by name: what a heartbeat acknowledged or a response gave, what callbacks had given."""
    owned: set[tuple[str, int]] = set()
    target: dict[str, frozenset[int]] = {}
    for line in lines:
        parts = {(t, p) for t, p in line.get("parts", ())} if line.get("app") else set()
        match line.get("app"):
            case "assign":
                owned |= parts
                yield target, _by_topic(owned)
            case "revoke" | "lost":
                owned -= parts
            case "assignment":
                owned = parts
        body = line.get("body", {})
        if line.get("api") != "ConsumerGroupHeartbeat" or "wire" not in line:
            continue
        if line["wire"] == "response" and body["assignment"]:
            target = _by_id(body["assignment"]["topic_partitions"])
        elif line["wire"] == "request" and body["topic_partitions"] and body["member_epoch"] > 0:
            yield _by_id(body["topic_partitions"]), _by_topic(owned)


def _by_id(topics: Iterable[Any]) -> dict[str, frozenset[int]]:
    return {t["topic_id"]: frozenset(t["partitions"]) for t in topics}


def _by_topic(owned: set[tuple[str, int]]) -> dict[str, frozenset[int]]:
    return {topic: frozenset(p for t, p in owned if t == topic) for topic, _ in owned}


def names_of(lines: list[Line]) -> TopicNames:
    """Topic names by id, as far as the recording tells: an id's partitions are those of its name.

    Where two topics always had the same partitions, either way of naming them fits everything seen. A topic that was
    deleted and made again has two ids and one name.
    """
    possible: dict[str, set[str]] = {}
    beside: dict[str, set[str]] = {}
    for by_id, by_name in owned_by_id_and_name(lines):
        if sorted(map(sorted, by_id.values())) != sorted(map(sorted, by_name.values())):
            continue
        for topic_id, numbers in by_id.items():
            fits = {name for name, owned in by_name.items() if owned == numbers}
            possible[topic_id] = (possible.get(topic_id, fits) & fits) or possible[topic_id]
            beside.setdefault(topic_id, set()).update(by_id.keys() - {topic_id})
    named: dict[str, str] = {}
    while left := {i: ns - {named.get(o) for o in beside[i]} for i, ns in possible.items() if i not in named}:
        topic_id = min(left, key=lambda i: (len(left[i]), i))
        named[topic_id] = min(left[topic_id] or {topic_id})
    return TopicNames(named)


def timeline(lines: list[Line]) -> Timeline:
    """The recording of one process."""
    head, body = lines[0], lines[1:]
    start = next(line for line in body if line.get("app") == "start")
    ids = [line["body"]["member_id"] for line in body if line.get("api") == "ConsumerGroupHeartbeat" and "wire" in line]
    drivers = {line["driver"] for line in body if "driver" in line}
    return Timeline(
        head["scenario"],
        head["member"],
        head["client"].rpartition(" ")[2],
        start["conf"],
        ids[0] if ids else "",
        lanes_of(body),
        commits_of(body),
        unresolved_of(body),
        names_of(body),
        tuple(stopped_of(body)),
        killed="kill9" in drivers or not any(line.get("app") == "close_end" for line in body),
    )


def stopped_of(lines: Iterable[Line]) -> Iterator[tuple[float, float]]:
    """From when to when a SIGSTOP held the process."""
    since = None
    for line in lines:
        if line.get("driver") == "sigstop":
            since = line["t_ms"]
        elif line.get("driver") == "sigcont" and since is not None:
            yield since, line["t_ms"]
            since = None


def merged(lines: Timeline) -> Iterator[tuple[str, int]]:
    """Every lane's places in the order of time, those of one moment in the order of `LANES`."""
    lanes = [(rank, lane, in_order(lines.lanes[lane])) for rank, lane in enumerate(LANES)]
    at = sorted((seen.t_ms, rank, n, lane) for rank, lane, read in lanes for n, seen in enumerate(read))
    return ((lane, n) for _, _, n, lane in at)


def in_order(lane: tuple[Seen, ...]) -> list[Seen]:
    """The lane with times that never fall."""
    times = [lane[0]] if lane else []
    for before, after in pairwise(lane):
        times.append(after._replace(t_ms=max(times[-1].t_ms, after.t_ms)))
        del before
    return times
