"""The classic member led through recordings of the Java client, and every point in which it does otherwise.

The member is given what is not its decision: the application's calls, the end of its callbacks, its positions, the
coordinator, answers, and as a leader the assignments it computed. What it decides is compared, each kind in its order:
callbacks and requests (JoinGroup with its metadata, SyncGroup, LeaveGroup), heartbeats with their generation and their
time, commits before a join and in close(), errors that poll() throws, and the log lines that tell of its state.

Not recorded, so free: the instants of poll() and of the heartbeat thread. Both act where the recording shows that they
did; where nothing is shown, they act when the time they are allowed is over, and the difference is reported.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from fsm.kafka.assignment import Partitions, partitions
from fsm.kafka.classic_messages import (
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    JoinGroupResponseMember,
    LeaveGroupRequest,
    LeaveGroupResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)
from fsm.kafka.consumer_protocol import decode_assignment, decode_subscription
from fsm.kafka.error_codes import ErrorCode
from fsm.kafka.events import (
    AsyncPollEvent,
    ConsumerRebalanceListenerCallbackCompletedEvent,
    ErrorEvent,
    PartitionsAssignedEvent,
    PartitionsRemovedEvent,
    TopicSubscriptionChangeEvent,
    UnsubscribeEvent,
)
from fsm.kafka.messages import OffsetCommitRequest, OffsetCommitResponse, Offsets
from fsm.member.classic import due_ms, new_member, poll_wanted_ms, step
from fsm.member.classic_state import (
    ClassicAnswered,
    ClassicConfig,
    ClassicEffect,
    ClassicInput,
    Close,
    PartitionCountsUpdated,
    Reported,
    Taken,
    UnsentClassicRequest,
)
from fsm.member.client_assignors import BUILT_IN, COOPERATIVE_STICKY, RANGE, ClientAssignor
from fsm.member.effects import Enqueued
from fsm.member.inputs import CoordinatorFound, Tick
from fsm.tables.classic_member import Effect, Event, State

Line = Mapping[str, Any]
NOISE_MS = 250
"""What a busy machine adds to `retry.backoff.ms`, the interval at which the heartbeat thread looks.

Nine in ten heartbeats of the recordings lie between 6 ms before and 70 ms after the time at which ours are due.
"""
POLL_MS = 400
"""Longest time between the instant at which a poll would do something and the poll that does it."""
THREADS_MS = 30
"""By so much a line of one thread, or of the wire, may stand before a line that it follows from."""
LOG_LAG_MS = 3
"""Lines of the log are stamped in whole milliseconds, and come before the wire sees their cause's end."""


class Seen(NamedTuple):
    """One thing that the client did."""

    t_ms: float
    kind: str
    says: Any


class Difference(NamedTuple):
    """Where the member does otherwise."""

    scenario: str
    member: str
    t_ms: float
    field: str
    expected: Any
    got: Any


@dataclass(frozen=True)
class Recording:
    """One process that ran the classic protocol."""

    lines: tuple[Line, ...]

    @property
    def head(self) -> Line:
        return self.lines[0]

    @property
    def conf(self) -> Mapping[str, Any]:
        return next(line["conf"] for line in self.lines if line.get("app") == "start")

    @property
    def is_classic(self) -> bool:
        return str(self.conf.get("group.protocol", "classic")) == "classic"

    @property
    def hung(self) -> bool:
        """close() never came back."""
        return not any(line.get("app") == "close_end" for line in self.lines)

    @property
    def has_listener(self) -> bool:
        return any(line.get("app") in CALLBACKS for line in self.lines)


# What a recording tells


CALLBACKS = {"assign": "assigned", "revoke": "revoked", "lost": "lost"}
ENDS = {"assign_done", "revoke_done", "lost", "listener_throw"}
LOG_LINES = {
    "(Re-)joining group": "join sent",
    "Successfully joined group": "joined",
    "Successfully synced group": "synced",
    "Resetting generation and member id due to": "reset both",
    "Resetting generation due to": "reset generation",
    "Request joining group due to": "rejoin requested",
}
IN_POLL = (
    "Executing onJoinPrepare",
    "Executing onJoinComplete",
    "(Re-)joining group",
    "Successfully joined group",
    "JoinGroup failed",
    "Giving away all assigned partitions",
    "Revoke previously assigned partitions",
    "Lost previously assigned partitions",
    "Adding newly assigned partitions",
)
"""What only the application's thread says, inside poll()."""
_GENERATION = re.compile(r"Generation\{generationId=(-?\d+), memberId='(.*?)', protocol='(.*?)'\}")
_POSITIONS = re.compile(r"([\w.-]+)-(\d+)=OffsetAndMetadata\{offset=(\d+)")


def logged(line: Line) -> Seen | None:
    """The line of the log as what it says of the state, if it does."""
    for start, kind in LOG_LINES.items():
        if line["text"].startswith(start):
            found = _GENERATION.search(line["text"]) if kind in ("joined", "synced") else None
            reason = line["text"].partition("due to: ")[2] if kind.startswith("reset") else None
            says = (int(found[1]), found[2], found[3]) if found else reason
            return Seen(line["t_ms"], kind, says)
    return None


def once(seen: list[Seen]) -> list[Seen]:
    """Explained: a rebalance that fails by an error that resets the member asks for a rejoin twice, in two lines.

    The handler of the answer asks, and `joinGroupIfNeeded` asks again; in the table it is one effect.
    """
    kept: list[Seen] = []
    for one in seen:
        if not (kept and one.kind == kept[-1].kind == "rejoin requested"):
            kept.append(one)
    return kept


def requested(line: Line) -> Seen | None:
    """A request on the wire as what the member decided in it."""
    body, t = line["body"], line["t_ms"]
    match line["api"]:
        case "JoinGroup":
            metadata = tuple((p["name"], decode_subscription(_bytes(p["metadata"]))) for p in body["protocols"])
            timeouts = (body["session_timeout"], body["rebalance_timeout"])
            return Seen(t, "JoinGroup", (body["member_id"], body["group_instance_id"], timeouts, metadata))
        case "SyncGroup":
            place = (body["generation_id"], body["member_id"], body["group_instance_id"])
            return Seen(t, "SyncGroup", (*place, body["protocol_name"], given_by_leader(body)))
        case "LeaveGroup":
            return Seen(t, "LeaveGroup", tuple((m["member_id"], m["group_instance_id"]) for m in body["members"]))
        case "Heartbeat":
            return Seen(t, "Heartbeat", (body["generation_id"], body["member_id"], body["group_instance_id"]))
        case "OffsetCommit":
            place = (body["generation_id_or_member_epoch"], body["member_id"], body["group_instance_id"])
            return Seen(t, "OffsetCommit", (*place, _offsets(body)))
    return None


def _offsets(body: Line) -> Offsets:
    found = ((t["name"], p["partition_index"], p["committed_offset"]) for t in body["topics"] for p in t["partitions"])
    return tuple(sorted(((topic, number), offset) for topic, number, offset in found))


def given_by_leader(body: Line) -> dict[str, Partitions]:
    return {a["member_id"]: decode_assignment(_bytes(a["assignment"])).partitions for a in body["assignments"]}


def _bytes(text: str) -> bytes:
    return base64.b64decode(text)


def answered(line: Line) -> Any:
    """A response on the wire as the member gets it."""
    body = line["body"]
    code = ErrorCode[(body.get("error_code") or "none").upper()]
    match line["api"]:
        case "JoinGroup":
            members = tuple(
                JoinGroupResponseMember(m["member_id"], _bytes(m["metadata"]), m["group_instance_id"])
                for m in body["members"]
            )
            names = (body["protocol_type"], body["protocol_name"], body["leader"], body["member_id"])
            return JoinGroupResponse(body["generation_id"], *names, members, body["skip_assignment"], code)
        case "SyncGroup":
            return SyncGroupResponse(
                _bytes(body["assignment"]), body["protocol_type"], body["protocol_name"], error_code=code
            )
        case "Heartbeat":
            return HeartbeatResponse(code)
        case "LeaveGroup":
            return LeaveGroupResponse(code)
    errors = ((t["name"], p["partition_index"], p["error_code"]) for t in body["topics"] for p in t["partitions"])
    return OffsetCommitResponse(tuple(((t, p), ErrorCode[e.upper()]) for t, p, e in errors if e))


BODIES: dict[type, str] = {
    JoinGroupRequest: "JoinGroup",
    SyncGroupRequest: "SyncGroup",
    HeartbeatRequest: "Heartbeat",
    LeaveGroupRequest: "LeaveGroup",
    OffsetCommitRequest: "OffsetCommit",
}


# What the member tells


def decided(request: UnsentClassicRequest, now_ms: float) -> Seen:
    """Our request in the words of `requested`."""
    match request.body:
        case JoinGroupRequest() as body:
            metadata = tuple((p.name, decode_subscription(p.metadata)) for p in body.protocols)
            timeouts = (body.session_timeout_ms, body.rebalance_timeout_ms)
            return Seen(now_ms, "JoinGroup", (body.member_id, body.group_instance_id, timeouts, metadata))
        case SyncGroupRequest() as body:
            place = (body.generation_id, body.member_id, body.group_instance_id)
            given = {a.member_id: decode_assignment(a.assignment).partitions for a in body.assignments}
            return Seen(now_ms, "SyncGroup", (*place, body.protocol_name, given))
        case LeaveGroupRequest() as body:
            return Seen(now_ms, "LeaveGroup", tuple((m.member_id, m.group_instance_id) for m in body.members))
        case HeartbeatRequest() as body:
            return Seen(now_ms, "Heartbeat", (body.generation_id, body.member_id, body.group_instance_id))
        case body:
            place = (body.generation_id_or_member_epoch, body.member_id, body.group_instance_id)
            return Seen(now_ms, "OffsetCommit", (*place, body.offsets))


SAID_BY_EVENT = {
    Event.JOIN_SENT: "join sent",
    Event.JOIN_OK_LEADER: "joined",
    Event.JOIN_OK_FOLLOWER: "joined",
    Event.SYNC_OK: "synced",
    Event.SYNC_OK_REVOKING: "synced",
}


class Replay:
    """The member beside the recording."""

    def __init__(self, recording: Recording) -> None:
        self.recording = recording
        self.lines = sorted(recording.lines[1:], key=_when)
        conf = {key: str(value) for key, value in recording.conf.items()}
        self.member = new_member(replace(ClassicConfig.of(conf), assignors=self.assignors(conf)))
        self.now_ms = self.wanted_ms = 0.0
        self.shown_ms = -1_000.0
        self.logs: list[Seen] = []
        self.acts: list[Seen] = []
        self.beats: list[Seen] = []
        self.errors: list[Seen] = []
        self.late: list[Difference] = []
        self.ends: list[str | None] = []
        """Of the callbacks so far: what each raised."""
        self.polling = False
        self.asked = [
            (seen, tuple(line["corr"]))
            for line in self.lines
            if line.get("wire") == "request" and (seen := requested(line))
        ]
        """Their requests, as long as none of ours is the same."""
        self.open: dict[tuple[int, ...], UnsentClassicRequest] = {}
        """Ours, by the number that theirs has on the wire."""
        self.answers: dict[tuple[int, ...], Any] = {}
        """Responses that came before our request was sent."""

    def assignors(self, conf: Mapping[str, str]) -> tuple[ClientAssignor, ...]:
        """The configured ones; what a leader computes is taken from the recording."""
        strategies = conf.get("partition.assignment.strategy")
        chosen = (RANGE, COOPERATIVE_STICKY)
        if strategies is not None:
            classes = {"RangeAssignor": "range", "CooperativeStickyAssignor": "cooperative-sticky"}
            chosen = tuple(BUILT_IN[classes[s.strip(" []").rpartition(".")[2]]] for s in strategies.split(","))
        bodies = [line["body"] for line in self.lines if line.get("api") == "SyncGroup" and line["wire"] == "request"]
        led = iter([given for body in bodies if (given := given_by_leader(body))])
        return tuple(replace(assignor, assign=lambda *_: next(led, {})) for assignor in chosen)

    # Steps

    def give(self, given: ClassicInput, due_ms: float = 0) -> None:
        """A step; one that is due within the noise is taken as of that time."""
        self.take(given, due_ms if due_ms <= self.now_ms + NOISE_MS else 0)
        self.settle()
        for corr in [corr for corr in self.open if corr in self.answers]:
            self.give(ClassicAnswered(self.open.pop(corr), self.answers.pop(corr)))

    def take(self, given: ClassicInput, due_ms: float = 0) -> None:
        taken = step(self.member, given, int(max(self.now_ms, due_ms)))
        self.member = taken.member
        for effect in taken.effects:
            self.note(effect)

    def note(self, effect: ClassicEffect) -> None:
        match effect:
            case UnsentClassicRequest():
                ours = decided(effect, self.now_ms)
                (self.beats if ours.kind == "Heartbeat" else self.acts).append(ours)
                self.match(ours, effect)
            case Taken(source, event, _) if event in SAID_BY_EVENT and source is not State.UNJOINED:
                says = tuple(self.member.generation) if event is not Event.JOIN_SENT else None
                self.logs.append(Seen(self.now_ms, SAID_BY_EVENT[event], says))
            case Taken(State.UNJOINED, Event.JOIN_SENT):
                self.logs.append(Seen(self.now_ms, "join sent", None))
            case Reported(Effect.RESET_GENERATION, reason):
                self.logs.append(Seen(self.now_ms, "reset generation", reason))
            case Reported(Effect.RESET_MEMBER_ID, reason):
                self.logs[-1] = Seen(self.now_ms, "reset both", reason)
            case Reported(Effect.REQUEST_REJOIN):
                self.logs.append(Seen(self.now_ms, "rejoin requested", None))
            case Enqueued(PartitionsRemovedEvent(_, method, gone)):
                self.acts.append(Seen(self.now_ms, method.name.lower(), gone))
            case Enqueued(PartitionsAssignedEvent(_, _, added)):
                self.acts.append(Seen(self.now_ms, "assigned", added))
            case Enqueued(ErrorEvent(error)):
                self.errors.append(Seen(self.now_ms, "thrown", error.name))

    def match(self, ours: Seen, request: UnsentClassicRequest) -> None:
        """Theirs is the next one of its kind; of commits the next one that says the same, from about now on."""
        for place, (theirs, corr) in enumerate(self.asked):
            same = ours.kind != "OffsetCommit" or (ours.says == theirs.says and theirs.t_ms + NOISE_MS >= self.now_ms)
            if theirs.kind == ours.kind and same:
                del self.asked[place]
                self.open[corr] = request
                return

    def poll(self) -> None:
        self.give(AsyncPollEvent(consumed=self.positions()), poll_wanted_ms(self.member))

    def positions(self) -> Offsets:
        """As the next automatic commit has them."""
        for line in self.lines:
            if (
                _when(line) + THREADS_MS >= self.now_ms
                and "auto-commit of offsets" in line.get("text", "")
                and line["text"].startswith("Sending")
            ):
                found = _POSITIONS.findall(line["text"])
                return tuple(sorted(((topic, int(p)), int(offset)) for topic, p, offset in found))
        return ()

    def settle(self) -> None:
        """Callbacks end as theirs did, one by one; where nobody listens, at once."""
        while (awaited := self.member.awaited) is not None:
            if self.recording.has_listener and awaited.ticket > len(self.ends):
                return
            error = self.ends[awaited.ticket - 1] if self.recording.has_listener else None
            self.take(ConsumerRebalanceListenerCallbackCompletedEvent(awaited.ticket, error))

    # The recording, line by line

    def run(self) -> None:
        topics = tuple((topic, count) for topic, count in self.recording.head["topics"])
        self.give(PartitionCountsUpdated(topics))
        for line in self.lines:
            self.now_ms = max(self.now_ms, _when(line))
            self.overdue()
            if "app" in line:
                self.app(line)
            elif "wire" in line:
                (self.request if line["wire"] == "request" else self.response)(line)
            elif "log" in line:
                self.log(line)
        self.now_ms += 60_000
        self.give(Tick())

    def overdue(self) -> None:
        """What should have happened before this line and was not shown."""
        now_ms, due = self.now_ms, due_ms(self.member)
        if poll_wanted_ms(self.member) > now_ms:
            self.wanted_ms = now_ms
        just_shown = self.shown_ms + THREADS_MS >= now_ms
        if self.polling and (just_shown or self.wanted_ms == now_ms or self.wanted_ms + POLL_MS < now_ms):
            self.poll()  # shows that the application is alive; or does what no line showed in all that time
        if due + NOISE_MS + self.member.config.retry_backoff_ms < now_ms:
            self.missed(due, "nothing that was due", "nothing shown until " + str(now_ms))
            self.give(Tick())

    def missed(self, t_ms: float, expected: str, got: str) -> None:
        head = self.recording.head
        self.late.append(Difference(head["scenario"], head["member"], t_ms, "time", expected, got))

    def app(self, line: Line) -> None:
        match line["app"]:
            case "subscribe":
                self.polling = True
                self.give(TopicSubscriptionChangeEvent(tuple(line["topics"])))
            case "unsubscribe":
                self.give(UnsubscribeEvent(call=1))
            case "poll_stop":
                self.polling = False
            case "poll_resume" | "poll_error":
                self.polling = True
                self.poll()
            case "assign" | "revoke" | "lost" if self.member.awaited is None and self.member.closing is None:
                self.poll()
            case "close_begin":
                self.polling = False
                self.give(Close(call=1, timeout_ms=10_000, consumed=self.positions()))
        if line["app"] in ENDS:
            self.ends.append(line.get("err", "raised") if line["app"] == "listener_throw" else None)
            self.settle()

    def request(self, line: Line) -> None:
        if line["api"] == "Heartbeat":
            self.beat(line)

    def beat(self, line: Line) -> None:
        """A heartbeat of the client is one of ours, if ours is due by now."""
        due = self.member.heartbeats.heartbeat_due_ms
        if not self.member.heartbeats.enabled or due > self.now_ms + NOISE_MS:
            self.missed(self.now_ms, f"a heartbeat at {line['t_ms']}", f"due at {due}")
        self.give(Tick(), due)

    def response(self, line: Line) -> None:
        if line["api"] == "FindCoordinator":
            self.give(CoordinatorFound())
        elif line["api"] in BODIES.values():
            corr = tuple(line["corr"])
            self.answers[corr] = answered(line)
            if corr in self.open:
                self.give(ClassicAnswered(self.open.pop(corr), self.answers.pop(corr)))

    def log(self, line: Line) -> None:
        if line["text"].startswith(IN_POLL) and not self.member.closing:
            self.shown_ms = self.now_ms
            self.poll()
        elif line["text"].startswith("consumer poll timeout has expired"):
            self.give(Tick(), self.member.heartbeats.poll_due_ms)


def _when(line: Line) -> float:
    return float(line["t_ms"]) + (LOG_LAG_MS if "log" in line else 0)


# The comparison


def differences(recording: Recording) -> list[Difference]:
    """Every point in which the member does otherwise, of each lane the first one."""
    replay = Replay(recording)
    replay.run()
    found = list(replay.late)
    for name, theirs, ours in lanes(recording, replay):
        found += _first_difference(recording.head, name, theirs, ours)
    return [*found, *_commits_not_seen(recording, replay)]


def _commits_not_seen(recording: Recording, replay: Replay) -> Iterator[Difference]:
    """Each commit of ours, before a join or in close(), is one of theirs; others of theirs are of the interval."""
    theirs = iter([seen for seen in requests(recording) if seen.kind == "OffsetCommit"])
    for ours in until_hang(recording, [seen for seen in replay.acts if seen.kind == "OffsetCommit"]):
        if not any(seen.says == ours.says for seen in theirs):
            head = recording.head
            yield Difference(head["scenario"], head["member"], ours.t_ms, "commits", "a commit like ours", ours)
            return


def requests(recording: Recording) -> list[Seen]:
    lines = (line for line in recording.lines if line.get("wire") == "request")
    return [seen for line in lines if (seen := requested(line))]


def lanes(recording: Recording, replay: Replay) -> Iterator[tuple[str, list[Seen], list[Seen]]]:
    lines = recording.lines[1:]
    log = [seen for line in lines if "log" in line and (seen := logged(line))]
    wire = requests(recording)
    calls = [Seen(x["t_ms"], CALLBACKS[x["app"]], _parts(x)) for x in lines if x.get("app") in CALLBACKS]
    acts = sorted(
        (*(s for s in wire if s.kind not in ("Heartbeat", "OffsetCommit")), *calls), key=lambda seen: seen.t_ms
    )
    thrown = [Seen(x["t_ms"], "thrown", _code(x["err"])) for x in lines if x.get("app") == "poll_error"]
    ours = [seen for seen in replay.acts if seen.kind != "OffsetCommit"]
    if not recording.has_listener:
        ours = [seen for seen in ours if seen.kind not in CALLBACKS.values()]
    yield "log", once(log), once(until_hang(recording, replay.logs))
    yield "acts", acts, until_hang(recording, ours)
    yield "heartbeats", [s for s in wire if s.kind == "Heartbeat"], replay.beats
    yield "thrown", thrown, replay.errors


def until_hang(recording: Recording, ours: list[Seen]) -> list[Seen]:
    """Explained: a close() that hangs (B12) never comes to its callback and its leave; ours does."""
    if not recording.hung:
        return ours
    began = next((x["t_ms"] for x in recording.lines if x.get("app") == "close_begin"), recording.lines[-1]["t_ms"])
    return [seen for seen in ours if seen.t_ms < began]


def _parts(line: Line) -> Partitions:
    return partitions((topic, number) for topic, number in line["parts"])


def _code(name: str) -> str:
    """FENCED_INSTANCE_ID for org.apache.kafka.common.errors.FencedInstanceIdException."""
    return "_".join(re.findall("[A-Z][a-z]*", name.rpartition(".")[2].removesuffix("Exception"))).upper()


def _first_difference(head: Line, lane: str, theirs: list[Seen], ours: list[Seen]) -> Iterator[Difference]:
    for number in range(max(len(theirs), len(ours))):
        expected = theirs[number] if number < len(theirs) else None
        got = ours[number] if number < len(ours) else None
        if expected is None or got is None or (expected.kind, expected.says) != (got.kind, got.says):
            t_ms = (expected or got or Seen(0, "", None)).t_ms
            yield Difference(head["scenario"], head["member"], t_ms, f"{lane}[{number}]", expected, got)
            return
