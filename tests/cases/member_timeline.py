"""A recording of a Java consumer as lanes: what it logged, what it sent, what came back, what its application saw.

Each lane keeps its own order. Between lanes the timeline is true to some milliseconds only: threads and the wire
are written down by different hands.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

from fsm.protocol.assignment import LocalAssignment, TopicNames, topic_partitions

Line = Mapping[str, Any]
Stops = tuple[tuple[float, float], ...]


class Seen(NamedTuple):
    """One thing seen: when, what kind of thing, and what it says."""

    t_ms: float
    kind: str
    content: Any
    line: Line = {}  # noqa: RUF012  # never changed


LANES = ("log", "request", "response", "app")
STAMP_MS = 3.0
"""Lines are stamped by several hands, some in whole milliseconds."""


@dataclass(frozen=True)
class Paced:
    """How fast a process went: what it shows of that itself."""

    own: tuple[float, ...]
    """When the process itself did something that is recorded."""
    noise_ms: float
    """The longest that this process took for something that it does at once."""
    stopped: tuple[tuple[float, float], ...]
    """From when to when a signal held the process."""

    def near(self, cause_ms: float, shown_ms: float, free_ms: float = 0) -> bool:
        """Whether something of one instant may be shown at another: within the noise, or after a silence.

        A process that was stopped or starved shows nothing meanwhile.
        """
        if shown_ms - cause_ms <= self.noise_ms + free_ms or self.held(cause_ms, shown_ms):
            return True
        between = self.own[bisect_right(self.own, cause_ms) : bisect_left(self.own, shown_ms)]
        silence = max(b - a for a, b in pairwise((cause_ms, *between, shown_ms)))
        return shown_ms - cause_ms - silence <= self.noise_ms + free_ms

    def held(self, since: float, until: float) -> bool:
        """Whether a signal held the process in this time."""
        return held(self.stopped, since, until)


@dataclass(frozen=True)
class Timeline(Paced):
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
    killed: bool
    """The process did not end by itself."""

    def matched_at(self, now_ms: float) -> dict[str, str]:
        """Topics that a pattern of the client may match: those its heartbeats have named by now, and the next one."""
        if not any("pattern" in seen.content for seen in self.lanes["app"] if seen.kind == "subscribe"):
            return {}
        naming = [seen for seen in self.lanes["request"] if seen.content["subscribed_topic_names"] is not None]
        due = [seen for n, seen in enumerate(naming) if n == 0 or naming[n - 1].t_ms < now_ms]
        return {f"of a pattern: {name}": name for seen in due for name in seen.content["subscribed_topic_names"]}


_TARGET = re.compile(r"arget assignment(?: updated)? from (LocalAssignment\{.*?\}\}) to (LocalAssignment\{.*?\}\})\.")
_LOCAL = re.compile(r"LocalAssignment\{localEpoch=(-?\d+), partitions=\{(.*)\}\}$")
_IDS = re.compile(r"([\w-]{22})=\[([\d, ]*)\]")
_INTERVAL = re.compile(r"received heartbeat interval (\d+)ms from the group coordinator")
_UNNAMED = re.compile(r"Topic Ids \[(.*?)\] received in target assignment were not found")
MARKS = "Marking partitions pending for revocation: "


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


Reader = Callable[[re.Match[str]], tuple[str, Any]]
LOG: tuple[tuple[str | re.Pattern[str], Reader], ...] = (
    (
        r"Member \S* with epoch (-?\d+) transitioned from ([A-Z_]+) to ([A-Z_]+)\.$",
        lambda found: ("transition", (found[2], found[3], int(found[1]))),
    ),
    (_TARGET, lambda found: ("target", (local_assignment(found[1]), local_assignment(found[2])))),
    (f"^{MARKS}(.*)", lambda found: ("marked", named_partitions(found[1]))),
    (r"^Auto-commit before reconciling new assignment completed", lambda _: ("commit", "ok")),
    (r"^Auto-commit request before reconciling new assignment failed", lambda _: ("commit", "failed")),
    (
        r"(?s)ConsumerGroupHeartbeatRequest failed because .* retry in (\d+) ?ms: (Failed to send)?",
        lambda found: ("failed", (int(found[1]), found[2] is not None)),
    ),
    (
        r"The event to trigger the ConsumerRebalanceListener\.onPartitions(\w+) method",
        lambda found: ("enqueued", found[1].lower()),
    ),
    (
        r"^The event to update the new assignment and trigger onPartitionsAssigned",
        lambda _: ("enqueued", "assigned"),
    ),
    (r"^Reconciliation failed\.$", lambda _: ("run ended", "failed")),
    (r"^Interrupting reconciliation", lambda _: ("run ended", "stale")),
    (
        r"received a (successful|failed) response to the heartbeat to leave the group and completed the leave",
        lambda found: ("left", found[1] == "successful"),
    ),
    (
        r"The ConsumerRebalanceListener\.onPartitions(\w+) method completed (successfully|with an error)",
        lambda found: ("completed", (found[1].lower(), found[2] == "successfully")),
    ),
)
"""What lines of the membership's log tell, if they tell anything that a member decides or is told."""


def log_seen(line: Line) -> Iterator[Seen]:
    """The line as what it tells."""
    for pattern, read in LOG:
        if found := re.search(pattern, line["text"].strip()):
            yield Seen(line["t_ms"], *read(found), line)
            return


APP = {
    "subscribe", "unsubscribe", "close_begin", "close_end", "assign", "assign_done", "revoke", "revoke_done", "lost",
    "listener_throw", "poll_stop", "poll_resume", "poll_error", "assignment", "unsubscribe_done", "mismatch",
    "mismatch_end", "commit_begin", "commit_sync",
}  # fmt: skip


def handled_at(lines: Iterable[Line]) -> dict[tuple[int, ...], float]:
    """When the client handled a response, where its log says so: it does of another heartbeat interval."""
    intervals = [(line["t_ms"], int(found[1])) for line in lines if (found := _INTERVAL.search(line.get("text", "")))]
    answers = [line for line in lines if line.get("api") == "ConsumerGroupHeartbeat" and line["wire"] == "response"]
    at = {}
    for line, after in pairwise([*answers, {"t_ms": float("inf")}]):
        given_ms, until = line["body"]["heartbeat_interval"], after["t_ms"]
        if intervals and intervals[0][1] == given_ms and line["t_ms"] - STAMP_MS <= intervals[0][0] < until:
            at[tuple(line["corr"])] = intervals.pop(0)[0]
    return at


def lanes_of(lines: list[Line]) -> dict[str, tuple[Seen, ...]]:
    """The four lanes, each in the order of the recording."""
    lanes: dict[str, list[Seen]] = {lane: [] for lane in LANES}
    handled = handled_at(lines)
    for line in lines:
        if "log" in line:
            lanes["log"] += log_seen(line)
        elif line.get("app") in APP:
            lanes["app"].append(Seen(line["t_ms"], line["app"], line, line))
        elif line.get("api") == "ConsumerGroupHeartbeat":
            t_ms = handled.get(tuple(line["corr"])) if line["wire"] == "response" else None
            seen = Seen(line["t_ms"] if t_ms is None else t_ms, "heartbeat", line["body"], line)
            lanes[line["wire"]].append(seen)
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
        if seen.kind == "commit" and seen.content == "failed":
            owed += 1
        if owed and seen.kind == "run ended" and seen.content == "failed":
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
    """From when to when the client had no name for a topic id, as it says: from a target or a run to the next one."""
    spans: dict[str, list[tuple[float, float]]] = {}
    since, missing = 0.0, set[str]()
    for line in lines:
        if "log" not in line:
            continue
        if found := _UNNAMED.search(line["text"]):
            for topic_id in set(found[1].split(", ")) - missing:
                spans.setdefault(topic_id, []).append((since, float("inf")))
                missing.add(topic_id)
        elif _TARGET.search(line["text"]) or line["text"].startswith(MARKS):
            since = line["t_ms"]
            for topic_id in missing:
                spans[topic_id][-1] = (spans[topic_id][-1][0], since)
            missing = set()
    return {topic_id: tuple(mine) for topic_id, mine in spans.items()}


# The noise of a process


def delays(lines: list[Line], stopped: Stops) -> Iterator[float]:
    """How long the client took for what it does at once, wherever the recording shows both ends of it.

    A heartbeat goes out when the interval since the last one is over, or when the log has said that one is generated.
    """
    due_ms, sent_ms, said_ms = None, 0.0, None
    for line in lines:
        t_ms, heartbeat = line["t_ms"], line.get("api") == "ConsumerGroupHeartbeat"
        generated, sent = line.get("text", "").endswith(GENERATED), heartbeat and line["wire"] == "request"
        if due_ms is not None and (generated or sent) and not held(stopped, due_ms, t_ms):
            yield t_ms - due_ms
        if generated:
            due_ms = said_ms = t_ms
        elif sent:
            due_ms, sent_ms, said_ms = None, said_ms or t_ms, None
        elif heartbeat:
            due_ms = sent_ms + line["body"]["heartbeat_interval"] if line["body"]["member_epoch"] > 0 else None
    for cause, effect in AT_ONCE:
        related = [line for line in lines if re.match(f"{cause}|{effect}", words(line))]
        for line, after in pairwise(related):
            if re.match(cause, words(line)) and re.match(effect, words(after)):
                yield after["t_ms"] - line["t_ms"]


def held(stopped: Stops, since: float, until: float) -> bool:
    """Whether a signal held the process in this time."""
    return any(begins < until and since < ends for begins, ends in stopped)


def words(line: Line) -> str:
    """A line as the text that tells what it is."""
    return str(line.get("text") or line.get("app") or "")


GENERATED = ("from ACKNOWLEDGING to STABLE.", "from ACKNOWLEDGING to RECONCILING.")
AT_ONCE = (
    (r"(assign|revoke)_done$", r"The ConsumerRebalanceListener\.onPartitions(Assigned|Revoked) method completed"),
    (r"subscribe$", r"Subscrib(ed to topic|ing to regular)"),
    (r"Leaving the consumer group during consumer close", r"Member .* transitioned from [A-Z]+ to PREPARE_LEAVING"),
)
"""What one thread says at once after another, or as soon as it hears of it."""


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


def names_of(lines: list[Line], topics: Mapping[str, int]) -> TopicNames:
    """Topic names by id, as far as the recording tells: an id's partitions are those of its name.

    Where two topics always had the same partitions, either way of naming them fits everything seen. A topic that was
    deleted and made again has two ids and one name. An id of which no callback tells is the one topic left that fits.
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
    for topic_id, numbers in sorted(unheard_of(lines, named).items()):
        fits = [name for name, count in topics.items() if name not in named.values() and max(numbers) < count]
        if len(fits) == 1:
            named[topic_id] = fits[0]
    return TopicNames(named)


def unheard_of(lines: list[Line], named: Mapping[str, str]) -> dict[str, set[int]]:
    """The partitions of topic ids that were assigned and are not named yet."""
    given = [
        line["body"]["assignment"]
        for line in lines
        if line.get("api") == "ConsumerGroupHeartbeat" and line["wire"] == "response"
    ]
    found: dict[str, set[int]] = {}
    for topic in (topic for assignment in given if assignment for topic in assignment["topic_partitions"]):
        if topic["topic_id"] not in named and topic["partitions"]:
            found.setdefault(topic["topic_id"], set()).update(topic["partitions"])
    return found


def timeline(lines: list[Line]) -> Timeline:
    """The recording of one process."""
    head, body = lines[0], lines[1:]
    start = next(line for line in body if line.get("app") == "start")
    ids = [line["body"]["member_id"] for line in body if line.get("api") == "ConsumerGroupHeartbeat" and "wire" in line]
    stopped = tuple(stopped_of(body))
    drivers = {line["driver"] for line in body if "driver" in line}
    return Timeline(
        own_times(body),
        max((STAMP_MS, *delays(body, stopped))),
        stopped,
        head["scenario"],
        head["member"],
        head["client"].rpartition(" ")[2],
        start["conf"],
        ids[0] if ids else "",
        lanes_of(body),
        commits_of(body),
        unresolved_of(body),
        names_of(body, dict(head["topics"])),
        killed="kill9" in drivers or not any(line.get("app") == "close_end" for line in body),
    )


def own_times(lines: Iterable[Line]) -> tuple[float, ...]:
    """When the process itself did something."""
    return tuple(line["t_ms"] for line in lines if "driver" not in line and line.get("wire") != "response")


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
