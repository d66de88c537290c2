"""The classic member led through recordings of the Java client, and every point in which it does otherwise.

The member is given what is not its decision: the application's calls, the end of its callbacks, its positions, the
coordinator, answers, and as a leader the assignments it computed. What it decides is compared, each kind in its order:
callbacks and requests (JoinGroup with its metadata, SyncGroup, LeaveGroup), heartbeats with their generation and their
time, commits before a join and in close(), those of the interval, errors that poll() throws, and the log lines that
tell of its state.

Not recorded, so free: the instants of poll() and of the heartbeat thread. Both act where the recording shows that they
did; where nothing is shown, they act when the time they are allowed is over, and the difference is reported.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

from member_timeline import STAMP_MS, Paced, held, own_times, stopped_of

from fsm.member.classic.assignors import BUILT_IN, COOPERATIVE_STICKY, RANGE, ClientAssignor
from fsm.member.classic.state import (
    ClassicAnswered,
    ClassicConfig,
    ClassicEffect,
    ClassicInput,
    Close,
    EnforceRebalance,
    PartitionCountsUpdated,
    Purpose,
    Reported,
    Taken,
    UnsentClassicRequest,
    new_member,
)
from fsm.member.classic.step import due_ms, poll_wanted_ms, step
from fsm.member.effects import Enqueued
from fsm.member.events import (
    AsyncPollEvent,
    ConsumerRebalanceListenerCallbackCompletedEvent,
    ErrorEvent,
    ListenerMethod,
    PartitionsAssignedEvent,
    PartitionsRemovedEvent,
    TopicSubscriptionChangeEvent,
    UnsubscribeEvent,
)
from fsm.member.inputs import CoordinatorFound, CoordinatorLost, Tick
from fsm.protocol.assignment import Partitions, partitions, without
from fsm.protocol.consumer_protocol import decode_assignment, decode_subscription
from fsm.protocol.error_codes import ErrorCode
from fsm.protocol.messages import (
    DISCONNECTED,
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    JoinGroupResponseMember,
    LeaveGroupRequest,
    LeaveGroupResponse,
    OffsetCommitRequest,
    OffsetCommitResponse,
    Offsets,
    SyncGroupRequest,
    SyncGroupResponse,
    commit_results,
)
from fsm.tables.classic_member import Effect, Event, State

Line = Mapping[str, Any]
POLL_MS = 100
"""Between two polls of the recorded programs."""
WAITED_FOR = ("coordinator_load_in_progress", "coordinator_not_available", "not_coordinator")
"""Errors of a join after which the client waits before it tries again."""
TEXT_OF_ANSWERS = {"JoinGroup": "Successfully joined group", "SyncGroup": "Successfully synced group"}
"""What the log says of an answer, and says at once unless the application has yet to poll."""
LOG_LAG_MS = 1
"""Lines of the log are stamped in whole milliseconds, rounded down."""


class Seen(NamedTuple):
    """One thing that the client did."""

    t_ms: float
    kind: str
    content: Any


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

    @cached_property
    def pace(self) -> Paced:
        """How fast the process went: a heartbeat is logged when the interval since the last one is over, and an answer
        by the poll that goes on when it is there."""
        lines, interval_ms = self.lines[1:], int(self.conf.get("heartbeat.interval.ms", 3_000))
        stopped, since, late = tuple(stopped_of(lines)), None, [STAMP_MS]
        answered: dict[str, float] = {}
        for line in lines:
            text, t_ms = line.get("text", ""), line["t_ms"]
            if line.get("wire") == "response":
                answered[line["api"]] = t_ms
            for api, words in TEXT_OF_ANSWERS.items():
                if text.startswith(words) and (lag_ms := t_ms - answered.pop(api, t_ms)) < POLL_MS:
                    late.append(lag_ms)
            if text.startswith("Sending Heartbeat request"):
                if since is not None and not held(stopped, since, t_ms):
                    late.append(t_ms - since - interval_ms)
                since = t_ms
            elif text.startswith(("Enabling heartbeat thread", "Disabling", "Resetting generation", "(Re-)joining")):
                since = t_ms if text.startswith("Enabling") else None
        return Paced(own_times(lines), max(late), stopped)

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
WITH_METADATA = {"assign", "revoke", "lost", "close_begin"}
"""Lines of the application that tell of groupMetadata() and of what is held."""
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
_BEAT = re.compile(r"Sending Heartbeat request with generation (-?\d+) and member id (\S*) to coordinator")
_LOST = re.compile(r"Group coordinator .* is unavailable or invalid")
_POSITIONS = re.compile(r"([\w.-]+)-(\d+)=OffsetAndMetadata\{offset=(\d+)")


def logged(line: Line) -> Seen | None:
    """The line of the log as what it says of the state, if it does."""
    for start, kind in LOG_LINES.items():
        if line["text"].startswith(start):
            found = _GENERATION.search(line["text"]) if kind in ("joined", "synced") else None
            reason = line["text"].partition("due to: ")[2] if kind.startswith("reset") else None
            value = (int(found[1]), found[2], found[3]) if found else reason
            return Seen(line["t_ms"], kind, value)
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
                JoinGroupResponseMember(m["member_id"], m["group_instance_id"], _bytes(m["metadata"]))
                for m in body["members"]
            )
            names = (body["protocol_type"], body["protocol_name"], body["leader"], body["member_id"])
            return JoinGroupResponse(
                body["generation_id"], *names, members, skip_assignment=body["skip_assignment"], error_code=code
            )
        case "SyncGroup":
            return SyncGroupResponse(
                _bytes(body["assignment"]),
                protocol_type=body["protocol_type"],
                protocol_name=body["protocol_name"],
                error_code=code,
            )
        case "Heartbeat":
            return HeartbeatResponse(code)
        case "LeaveGroup":
            return LeaveGroupResponse(code)
    errors = ((t["name"], p["partition_index"], p["error_code"]) for t in body["topics"] for p in t["partitions"])
    return OffsetCommitResponse(commit_results(((t, p), ErrorCode[e.upper()]) for t, p, e in errors if e))


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


KIND_OF_EVENT = {
    Event.JOIN_SENT: "join sent",
    Event.JOIN_OK_LEADER: "joined",
    Event.JOIN_OK_FOLLOWER: "joined",
    Event.SYNC_OK: "synced",
    Event.SYNC_OK_REVOKING: "synced",
}


class Replay:
    """The member beside the recording."""

    def __init__(self, recording: Recording) -> None:
        self.recording, self.pace = recording, recording.pace
        self.lines = sorted(recording.lines[1:], key=_when)
        conf = {key: str(value) for key, value in recording.conf.items()}
        self.member = new_member(replace(ClassicConfig.of(conf), assignors=self.assignors(conf)))
        self.now_ms = self.wanted_ms = 0.0
        self.shown_ms = -1_000.0
        self.logs: list[Seen] = []
        self.acts: list[Seen] = []
        self.beats: list[Seen] = []
        self.intervals: list[Seen] = []
        self.errors: list[Seen] = []
        self.late: list[Difference] = []
        self.ends: list[str | None] = []
        """Of the callbacks so far: what each raised."""
        self.polling = self.threw = False
        self.early = 0
        """Heartbeats of ours that the log tells of a little later."""
        self.group_metadata: tuple[int, str] = (-1, "")
        """The last generation that was not reset, and who was in it."""
        self.held: Partitions | None = ()
        """What the callbacks have given the application."""
        self.ended = 0
        """How many of them the member has heard of."""
        self.asked = [
            (seen, tuple(line["corr"]))
            for line in self.lines
            if line.get("wire") == "request" and (seen := requested(line))
        ]
        """Their requests, as long as none of ours is the same."""
        self.open: dict[tuple[int, ...], UnsentClassicRequest] = {}
        """Ours, by the number that theirs has on the wire."""
        self.joins = [_when(line) for line in self.lines if line.get("text") == "(Re-)joining group"]
        """When the client joins, as long as ours does not."""
        self.retries = False
        """The last join failed, and is tried again in the same poll()."""
        self.unsent: list[UnsentClassicRequest] = []
        """Ours that never reached the wire."""
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
        self.take(given, due_ms if due_ms <= self.now_ms + self.pace.noise_ms else 0)
        self.settle()
        while corr := next((corr for corr in self.open if corr in self.answers), None):
            self.give(ClassicAnswered(self.open.pop(corr), self.answers.pop(corr)))

    def take(self, given: ClassicInput, due_ms: float = 0) -> None:
        taken = step(self.member, given, int(max(self.now_ms, due_ms)))
        self.member = taken.member
        for effect in taken.effects:
            self.note(effect)

    def note(self, effect: ClassicEffect) -> None:
        match effect:
            case UnsentClassicRequest():
                self.sends(decided(effect, self.now_ms), effect)
            case Taken(source, event, _) if event in KIND_OF_EVENT and source is not State.UNJOINED:
                content = tuple(self.member.generation) if event is not Event.JOIN_SENT else None
                self.logs.append(Seen(self.now_ms, KIND_OF_EVENT[event], content))
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

    def sends(self, ours: Seen, request: UnsentClassicRequest) -> None:
        if ours.kind == "JoinGroup":
            if any(asked.purpose is Purpose.PREPARE for asked in self.open.values()):
                self.missed(self.now_ms, "the answer to a commit", "a join before it", field="commits")
            theirs_ms = self.joins.pop(0) if self.joins else self.now_ms
            if self.retries and theirs_ms - self.now_ms > self.pace.noise_ms:
                self.missed(self.now_ms, f"a join at {theirs_ms}", "one before")
        if request.purpose is Purpose.INTERVAL:
            self.intervals.append(ours)
        else:
            (self.beats if ours.kind == "Heartbeat" else self.acts).append(ours)
        self.match(ours, request)

    def match(self, ours: Seen, request: UnsentClassicRequest) -> None:
        """Theirs is the next one of its kind; of commits the next one that says the same, from about now on.

        A heartbeat that is not on the wire soon never reached it.
        """
        soon = self.now_ms - self.pace.noise_ms
        for place, (theirs, corr) in enumerate(self.asked):
            if theirs.kind != ours.kind or (ours.kind == "OffsetCommit" and ours.content != theirs.content):
                continue
            if ours.kind in ("OffsetCommit", "Heartbeat") and theirs.t_ms < soon:
                continue
            if ours.kind == "Heartbeat" and not self.pace.near(self.now_ms, theirs.t_ms):
                break
            del self.asked[place]
            self.open[corr] = request
            return
        self.unsent.append(request)

    def poll(self, *, commits: bool = False) -> None:
        """The commit of the interval is made ahead of its time only where theirs is: a rebalance may come first."""
        due = poll_wanted_ms(self.member)
        is_early = due == self.member.commit_due_ms and not commits
        self.give(AsyncPollEvent(consumed=self.positions()), 0 if is_early else due)

    def positions(self) -> Offsets:
        """As the next automatic commit has them."""
        for line in self.lines:
            if (
                _when(line) + self.pace.noise_ms >= self.now_ms
                and "auto-commit of offsets" in line.get("text", "")
                and line["text"].startswith("Sending")
            ):
                return _positions(line["text"])
        return ()

    def settle(self) -> None:
        """Callbacks end as theirs did, one by one; where nobody listens, at once."""
        while (awaited := self.member.awaited) is not None:
            if self.recording.has_listener and self.ended >= len(self.ends):
                return
            error = self.ends[self.ended] if self.recording.has_listener else None
            self.ended += 1
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
            elif line.get("wire") == "response":
                self.response(line)
            elif "log" in line:
                self.log(line)
        self.now_ms += 60_000
        self.give(Tick())

    def overdue(self) -> None:
        """What should have happened before this line and was not shown."""
        now_ms, due = self.now_ms, due_ms(self.member)
        if poll_wanted_ms(self.member) > now_ms:
            self.wanted_ms = now_ms
        just_shown = self.shown_ms + self.pace.noise_ms >= now_ms
        if self.polling and (just_shown or self.wanted_ms == now_ms or self.wanted_ms + POLL_MS < now_ms):
            self.poll()  # shows that the application is alive; or does what no line showed in all that time
        if due < now_ms and not self.pace.near(due, now_ms, self.member.config.retry_backoff_ms):
            self.missed(due, "nothing that was due", "nothing shown until " + str(now_ms))
            self.give(Tick())

    def missed(self, t_ms: float, expected: str, got: str, field: str = "time") -> None:
        head = self.recording.head
        self.late.append(Difference(head["scenario"], head["member"], t_ms, field, expected, got))

    def app(self, line: Line) -> None:
        match line["app"]:
            case "subscribe":
                self.polling = True
                self.give(TopicSubscriptionChangeEvent(tuple(line["topics"])))
            case "unsubscribe":
                self.give(UnsubscribeEvent(call=1))
            case "enforce_rebalance":
                self.give(EnforceRebalance())
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
        self.compare(line)
        if line["app"] in ENDS and not (line["app"] == "revoke_done" and self.threw):
            self.ends.append(line.get("err", "raised") if line["app"] == "listener_throw" else None)
            self.change_hands(self.member.awaited, line)
            self.settle()
        self.threw = line["app"] == "listener_throw"

    def compare(self, line: Line) -> None:
        """What a line tells beside its event: groupMetadata(), which a reset leaves as it was, and what is held."""
        place = self.member.generation
        self.group_metadata = self.group_metadata if place.is_reset else (place.generation_id, place.member_id)
        if line["app"] in WITH_METADATA and (line["epoch"], line["member_id"]) != self.group_metadata:
            self.missed(
                line["t_ms"], str((line["epoch"], line["member_id"])), str(self.group_metadata), field="group metadata"
            )
        if line["app"] in WITH_METADATA and self.held is not None and self.recording.has_listener:
            held = _parts(line, "owned" if line["app"] == "close_begin" else "before")
            if held != self.held:
                self.missed(line["t_ms"], str(held), str(self.held), field="held")

    def change_hands(self, awaited: Any, line: Line) -> None:
        """The application has what a callback of ours gave it; a listener that raised leaves it open."""
        if awaited is None or self.held is None:
            return
        if awaited.method is not ListenerMethod.ASSIGNED:
            self.held = without(self.held, awaited.partitions)
        elif line["app"] == "listener_throw" and awaited.partitions:
            self.held = None
        else:
            self.held = partitions((*self.held, *awaited.partitions))

    def beat(self, line: Line) -> None:
        """A heartbeat of the client is one of ours, if ours is due by now."""
        due = self.member.heartbeats.heartbeat_due_ms
        if not self.member.heartbeats.enabled or due > self.now_ms + self.pace.noise_ms:
            self.missed(self.now_ms, f"a heartbeat at {line['t_ms']}", f"due at {due}")
        self.give(Tick(), due)

    def before_close_goes_on(self) -> None:
        """The heartbeat thread goes on until close() has stopped it: what is due may be sent until then."""
        due = self.member.heartbeats.heartbeat_due_ms
        if self.member.closing is None or not self.member.heartbeats.enabled or due > self.now_ms or self.early:
            return
        ahead = (line["t_ms"] for line in self.lines if line.get("text", "").startswith("Sending Heartbeat request"))
        if any(self.now_ms <= t_ms + LOG_LAG_MS <= self.now_ms + self.pace.noise_ms for t_ms in ahead):
            self.early += 1
            self.give(Tick(), due)

    def response(self, line: Line) -> None:
        self.before_close_goes_on()
        if line["api"] == "FindCoordinator":
            self.give(CoordinatorFound())
        elif line["api"] in BODIES.values():
            corr = tuple(line["corr"])
            self.answers[corr] = answered(line)
            if line["api"] == "JoinGroup":
                self.retries = str(line["body"]["error_code"]) in WAITED_FOR
            if corr in self.open:
                self.give(ClassicAnswered(self.open.pop(corr), self.answers.pop(corr)))

    def log(self, line: Line) -> None:
        if line["text"].startswith(IN_POLL) and not self.member.closing:
            self.shown_ms = self.now_ms
            self.poll()
        elif line["text"].startswith("Sending asynchronous auto-commit") and not self.member.closing:
            self.poll(commits=True)
        elif line["text"].startswith("consumer poll timeout has expired"):
            due = self.member.heartbeats.poll_due_ms  # counted from a poll that was not recorded
            self.take(Tick(), due if due <= self.now_ms + self.pace.noise_ms + POLL_MS else 0)
            self.settle()
        elif line["text"].startswith("Sending Heartbeat request"):
            if self.early:
                self.early -= 1
            else:
                self.beat(line)
        elif _LOST.match(line["text"]):
            self.disconnected()

    def disconnected(self) -> None:
        """What was sent to the coordinator and got no response has failed; so has the coordinator."""
        answered = {tuple(line["corr"]) for line in self.lines if line.get("wire") == "response"}
        lost = [self.open.pop(corr) for corr in [corr for corr in self.open if corr not in answered]]
        self.unsent, unsent = [], self.unsent
        for request in (*lost, *unsent):
            self.give(ClassicAnswered(request, DISCONNECTED))
        if self.member.coordinator_known:
            self.give(CoordinatorLost())


def _positions(text: str) -> Offsets:
    return tuple(sorted(((topic, int(p)), int(offset)) for topic, p, offset in _POSITIONS.findall(text)))


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
    return found


def commits(recording: Recording, *, of_rebalances: bool) -> Iterator[Seen]:
    """Commits on the wire that come before a join or in close(), as the log says, or the others: of the interval.

    What is tried again on the wire without another word is the same commit.
    """
    preparing, announced = False, []
    for line in recording.lines:
        text = line.get("text", "")
        if text.startswith("Executing onJoinPrepare"):
            preparing = True
        elif text.startswith("(Re-)joining group"):
            preparing = False
        elif text.startswith("Sending") and "auto-commit of offsets" in text:
            announced.append(
                (preparing or "synchronous auto" in text.split(" of ")[0].replace("asynchronous", ""), text)
            )
        elif line.get("api") == "OffsetCommit" and line["wire"] == "request" and (seen := requested(line)):
            place = next(
                (n for n, (_, content) in enumerate(announced) if _positions(content) == seen.content[-1]), None
            )
            if place is not None:
                is_of_rebalance, _ = announced[place]
                del announced[: place + 1]
                if is_of_rebalance is of_rebalances:
                    yield seen


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
    thrown = [seen for seen in thrown if seen.content != "ILLEGAL_STATE"]  # not subscribed
    errors = [
        seen._replace(content=_code(seen.content) if seen.content.endswith("Exception") else seen.content)
        for seen in replay.errors
    ]
    ours = [seen for seen in replay.acts if seen.kind != "OffsetCommit"]
    if not recording.has_listener:
        ours = [seen for seen in ours if seen.kind not in CALLBACKS.values()]
    yield "log", once(log), once(until_hang(recording, replay.logs))
    yield "acts", acts, until_hang(recording, ours)
    beats = [(x["t_ms"], _BEAT.match(x["text"])) for x in lines if "log" in x]
    answers = [Seen(t_ms, "Heartbeat", (int(found[1]), found[2])) for t_ms, found in beats if found]
    committed = [seen for seen in replay.acts if seen.kind == "OffsetCommit"]
    theirs = commits(recording, of_rebalances=True)
    yield "commits", until_hang(recording, [*theirs]), until_hang(recording, committed)
    yield "interval", [*commits(recording, of_rebalances=False)], replay.intervals
    yield "heartbeats", answers, [seen._replace(content=seen.content[:2]) for seen in replay.beats]
    sent = {seen.content for seen in replay.beats}
    yield "sent", [s for s in wire if s.kind == "Heartbeat" and s.content not in sent], []
    yield "thrown", thrown, errors


def until_hang(recording: Recording, ours: list[Seen]) -> list[Seen]:
    """Explained: a close() that hangs (B12) never comes to its callback and its leave; ours does."""
    if not recording.hung:
        return ours
    began = next((x["t_ms"] for x in recording.lines if x.get("app") == "close_begin"), recording.lines[-1]["t_ms"])
    return [seen for seen in ours if seen.t_ms < began]


def _parts(line: Line, field: str = "parts") -> Partitions:
    return partitions((topic, number) for topic, number in line[field])


def _code(name: str) -> str:
    """FENCED_INSTANCE_ID for org.apache.kafka.common.errors.FencedInstanceIdException."""
    return "_".join(re.findall("[A-Z][a-z]*", name.rpartition(".")[2].removesuffix("Exception"))).upper()


def _first_difference(head: Line, lane: str, theirs: list[Seen], ours: list[Seen]) -> Iterator[Difference]:
    for number in range(max(len(theirs), len(ours))):
        expected = theirs[number] if number < len(theirs) else None
        got = ours[number] if number < len(ours) else None
        if expected is None or got is None or (expected.kind, expected.content) != (got.kind, got.content):
            t_ms = (expected or got or Seen(0, "", None)).t_ms
            yield Difference(head["scenario"], head["member"], t_ms, f"{lane}[{number}]", expected, got)
            return
