"""What may happen to a member that is led through a recording, step by step.

A move takes a world and gives the next one; it raises `Mismatch` where the member then does what is not recorded. What
is recorded says itself which move it is; `choices` are the moves that a recording leaves free.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from member_recorded import BEGINS, METHODS, code_of, heartbeat_answer, heartbeat_fields, is_plain, order_of, shown
from member_world import Callback, Mismatch, World

from fsm.errors import ProtocolError
from fsm.kafka.assignment import TopicNames, partitions
from fsm.kafka.config import ConsumerConfig
from fsm.kafka.error_codes import ErrorCode
from fsm.kafka.events import (
    ApplyAssignmentEvent,
    AsyncPollEvent,
    ConsumerRebalanceListenerCallbackCompletedEvent,
    ErrorEvent,
    LeaveGroupOnCloseEvent,
    PartitionsAssignedEvent,
    PartitionsRemovedEvent,
    TopicPatternSubscriptionChangeEvent,
    TopicRe2JPatternSubscriptionChangeEvent,
    TopicSubscriptionChangeEvent,
    UnsubscribeEvent,
)
from fsm.kafka.messages import (
    DISCONNECTED,
    TIMED_OUT,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    OffsetCommitResponse,
    TransportFailure,
)
from fsm.member.consumer import step
from fsm.member.dialect import RELEASES, Dialect, dialect
from fsm.member.effects import (
    AssignmentUpdated,
    Enqueued,
    EpochUpdated,
    MemberEffect,
    Purpose,
    UnsentRequest,
)
from fsm.member.inputs import Answered, CloseFlush, CoordinatorFound, MemberInput, Tick
from fsm.member.queues import SKIPPED
from fsm.member.state import Member
from fsm.tables.consumer_member import State

AHEAD_MS = {"log": 250.0, "request": 1500.0, "app": 250.0}
"""How much earlier than its line something may have happened: logs come at once, requests may wait to be sent."""
DUE_MS = 100.0
"""How much later than its line something may be due: what a busy machine shows as noise."""
WAITING = {"response", "commit", "callback"}
"""Fields of choices that only come too early; another mismatch tells more."""
OFFSETS: Any = None


class Moves:
    """The moves of one recording."""

    def __init__(self, recorded: Any, in_order: Callable[[Any], Any], spoken: Dialect | None = None) -> None:
        self.recorded = recorded
        self.lanes = {lane: in_order(seen) for lane, seen in recorded.lanes.items()}
        conf = {k: str(v) for k, v in recorded.conf.items() if not k.startswith("__")}
        self.config = ConsumerConfig.of(conf)
        self.listener = "__nolistener" not in recorded.conf
        known = [r for r in RELEASES if order_of(r) <= order_of(recorded.version)]
        self.dialect = spoken or dialect(known[-1] if known else RELEASES[0])
        self.worst: Mismatch | None = None
        responses = {tuple(seen.line["corr"]) for seen in self.lanes["response"]}
        corr = [tuple(seen.line["corr"]) for seen in self.lanes["request"]]
        self.answered = {n for n, given in enumerate(corr) if given in responses}

    # Lanes

    def head(self, world: World, lane: str) -> Any:
        """The next thing of a lane, None at its end."""
        place = world.read(lane)
        return self.lanes[lane][place] if place < len(self.lanes[lane]) else None

    def take(self, world: World, lane: str, field: str, got: Any, now: float) -> World:
        """Past the head of a lane, which must be `got`."""
        head = self.head(world, lane)
        if head is None or head.t_ms > now + AHEAD_MS[lane]:
            raise Mismatch(field, "nothing at this time", got)
        if (head.kind, head.says) != (field, got):
            raise Mismatch(field, f"{head.kind} {head.says}", got)
        return world.past(lane)

    # The member

    def step(self, world: World, given: MemberInput, now: float) -> World:
        """One step of the member, everything it shows held against the recording."""
        try:
            member, effects = step(world.member, given, round(now))
        except ProtocolError as refused:
            raise Mismatch("refused", "a step", str(refused)) from refused
        before = world.member
        due_ms = max(before.heartbeat_due_ms, before.heartbeat_ready_ms)
        world = world._replace(member=member)
        if any(isinstance(e, UnsentRequest) and is_plain(e) for e in effects):
            world = world._replace(lateness=(*world.lateness, (now, now - due_ms)))
        for effect in effects:
            world = self.follow(world, effect, now)
        return self.left(world, before, given, now)

    def left(self, world: World, before: Member, given: MemberInput, now: float) -> World:
        """The answer to a leave ends it, well or not; the client says so."""
        if before.state is not State.UNSUBSCRIBED or before.leave is None or world.member.leave is not None:
            return world
        answer = given.answer if isinstance(given, Answered) else None
        well = isinstance(answer, ConsumerGroupHeartbeatResponse) and answer.error_code is ErrorCode.NONE
        return self.take(world, "log", "left", well, now)

    def follow(self, world: World, effect: MemberEffect, now: float) -> World:
        says = shown(effect)
        if says is not None:
            world = self.take(world, "log", *says, now)
        match effect:
            case Enqueued(event=event):
                return world._replace(background=(*world.background, event))
            case AssignmentUpdated(partitions=assigned):
                return world._replace(assignment=assigned)
            case EpochUpdated(epoch=int(epoch)):
                return world._replace(generation=epoch)
            case UnsentRequest(body=ConsumerGroupHeartbeatRequest() as body):
                return self.heartbeat(world, effect, body, now)
            case UnsentRequest(purpose=Purpose.RUN_COMMIT):
                return self.commit(world, effect)
        return world

    def heartbeat(self, world: World, sent: UnsentRequest, body: ConsumerGroupHeartbeatRequest, now: float) -> World:
        head = self.head(world, "request")
        if head is None or head.t_ms > now + AHEAD_MS["request"]:
            raise Mismatch("heartbeat", "none at this time", body)
        for field, expected in heartbeat_fields(head.says).items():
            if getattr(body, field) != expected:
                raise Mismatch(f"heartbeat {field}", expected, getattr(body, field))
        return world.past("request")._replace(asked=(*world.asked, sent))

    def commit(self, world: World, sent: UnsentRequest) -> World:
        """The commit before a run goes out with the epoch of this moment."""
        body = sent.body
        asked = self.recorded.commits[world.commit[0]][0].says
        if asked["generation_id_or_member_epoch"] != body.generation_id_or_member_epoch:  # type: ignore[union-attr]
            raise Mismatch("commit epoch", asked["generation_id_or_member_epoch"], body)
        return world

    def known_names(self, now: float) -> TopicNames:
        missing = {i for i, spans in self.recorded.unresolved.items() if any(a <= now <= b for a, b in spans)}
        named = {i: n for i, n in self.recorded.names.items() if i not in missing}
        return TopicNames({**named, **self.recorded.matched_at(now)})

    # What may happen unseen

    def choices(self, world: World, now: float) -> Iterator[Callable[[], World]]:
        """Steps that the recording leaves free, the likeliest first."""
        response, app = self.head(world, "response"), self.head(world, "app")
        if response is not None and response.t_ms <= now + 60:
            yield lambda: self.response(world, now)
        if app is not None and app.t_ms <= now + 60 and (app.kind != "close_end" or self.stops(world)):
            yield lambda: self.application(world, max(now, app.t_ms))
        if world.phase == "ready to leave":
            yield lambda: self.leave(world, now)
        if world.commit and world.member.commit is not None:
            yield lambda: self.commit_answer(world, now)
        yield lambda: self.step(world, Tick(), now)
        if world.may_poll:
            yield lambda: self.poll(world, now)
        if not self.listener and world.background and world.callback is None:
            yield lambda: self.pass_over(world, now)
        for place in self.without_response(world):
            yield lambda place=place: self.fail(world, place, DISCONNECTED, now)  # type: ignore[misc]
            yield lambda place=place: self.fail(world, place, TIMED_OUT, now)  # type: ignore[misc]
        for late in sorted({world.member.heartbeat_due_ms, world.member.poll_due_ms, world.member.heartbeat_ready_ms}):
            if now < late <= now + DUE_MS:
                yield lambda late=late: self.step(world, Tick(), late)  # type: ignore[misc]

    def stops(self, world: World) -> bool:
        """Whether the end of close() may come next: all that is left to log is what it fails by itself."""
        head = self.head(world, "log")
        return head is None or head.kind == "run ended"

    def without_response(self, world: World) -> list[int]:
        """Heartbeats that were sent and never answered: their connection was lost, or their time was over."""
        return [n for n in range(len(world.asked)) if n not in self.answered and n not in world.lost]

    def fail(self, world: World, place: int, failure: TransportFailure, now: float) -> World:
        failed = world._replace(lost=(*world.lost, place))
        return self.step(failed, Answered(world.asked[place], failure), now)

    def poll(self, world: World, now: float) -> World:
        """A poll, with the positions that the recorded commit of its run shows, if it starts one."""
        if world.member.commit is not None:
            return self.step(world, AsyncPollEvent(consumed=world.member.consumed), now)
        places = self.run_commits(world)
        consumed = self.consumed(world, places) if places else ()
        asked = world._replace(commit=places)
        done = self.step(asked, AsyncPollEvent(consumed=consumed), now)
        return done if done.member.commit is not None else done._replace(commit=())

    def run_commits(self, world: World) -> tuple[int, ...]:
        """Commits on the wire between the mark that begins a run and the line that ends its commit."""
        if not self.config.enable_auto_commit:
            return ()
        log, place = self.lanes["log"], world.read("log")
        ends = next((seen for seen in log[place:] if seen.kind == "commit"), None)
        if ends is None or place >= len(log) or log[place].kind != "marked":
            return ()
        begins = log[place].t_ms
        commits = enumerate(self.recorded.commits)
        return tuple(n for n, (asked, _) in commits if begins - 5 <= asked.t_ms <= ends.t_ms + 2)

    def consumed(self, world: World, places: tuple[int, ...]) -> Any:
        """Offsets of the commit on the wire; topics by id or, before 4.1, by name."""
        body = self.recorded.commits[places[0]][0].says
        offsets = {
            (t.get("name") or self.recorded.names.get(t.get("topic_id"), "?"), p["partition_index"]): p[
                "committed_offset"
            ]
            for t in body["topics"]
            for p in t["partitions"]
        }
        owned = world.member.ownership.owned
        return tuple(sorted((p, offset) for p, offset in offsets.items() if p in owned))

    def commit_answer(self, world: World, now: float) -> World:
        """The answer to the commit of the run."""
        first, *others = world.commit
        asked, answer = self.recorded.commits[first]
        if answer is None or answer.t_ms > now + 60:
            raise Mismatch("commit", "no answer yet", asked)
        errors = tuple(
            ((t.get("name") or str(t.get("topic_id")), p["partition_index"]), code_of(p["error_code"]))
            for t in answer.says["topics"]
            for p in t["partitions"]
        )
        request = UnsentRequest(OFFSETS, Purpose.RUN_COMMIT)
        return self.step(world._replace(commit=tuple(others)), Answered(request, OffsetCommitResponse(errors)), now)

    def leave(self, world: World, now: float) -> World:
        return self.step(world._replace(phase="leaving"), LeaveGroupOnCloseEvent(), now)

    # What is recorded of the wire

    def response(self, world: World, now: float) -> World:
        head = self.head(world, "response")
        world = world.past("response")
        if head.kind == "coordinator":
            found = head.says.get("coordinators", [head.says])[0]["error_code"] is None
            return self.step(world, CoordinatorFound(), now) if found else world
        answered = self.place_of_request(head)
        if answered >= len(world.asked):
            raise Mismatch("response", "to a heartbeat that was sent", head.says)
        return self.step(world, Answered(world.asked[answered], heartbeat_answer(head.says)), now)

    def place_of_request(self, response: Any) -> int:
        """Which of the heartbeats the response answers."""
        corr = response.line["corr"]
        return next(n for n, asked in enumerate(self.lanes["request"]) if asked.line["corr"] == corr)

    # What is recorded of the application

    def application(self, world: World, now: float) -> World:
        head = self.head(world, "app")
        world = world.past("app")
        match head.kind:
            case "subscribe":
                return self.subscribe(world, head.says, now)
            case "unsubscribe":
                return self.step(world._replace(phase="unsubscribing"), UnsubscribeEvent(), now)
            case "close_begin":
                return self.close_begin(world)
            case "close_end":
                return self.close_end(world, now)
            case "assign" | "revoke" | "lost":
                return self.callback_begins(world, BEGINS[head.kind], head.says, now)
            case "assign_done" | "revoke_done":
                return self.callback_ends(world, None)
            case "listener_throw":
                return self.callback_ends(world, "the listener raised")
            case "poll_stop":
                return self.renewed(world, now)._replace(stopped=True)
            case "poll_resume":
                return world._replace(stopped=False)
            case "poll_error":
                return self.poll_error(world, head.says)
            case "assignment":
                return self.assignment(world, head.says, now)
        raise AssertionError(head.kind)

    def subscribe(self, world: World, line: Any, now: float) -> World:
        if "re2" in line:
            asked = TopicRe2JPatternSubscriptionChangeEvent(line["re2"], self.listener)
            return self.step(world._replace(phase="running"), asked, now)
        if "pattern" in line:
            pattern = TopicPatternSubscriptionChangeEvent(line["pattern"], self.listener)
            return self.step(world._replace(phase="running"), pattern, now)
        topics = TopicSubscriptionChangeEvent(tuple(line["topics"]), self.listener)
        return self.step(world._replace(phase="running"), topics, now)

    def close_begin(self, world: World) -> World:
        """close() first runs the callback over the application's own record, if there is anything and a listener."""
        calls_back = bool(world.assignment) and self.listener
        method = "revoked" if world.generation > 0 else "lost"
        due = Callback(None, method) if calls_back else None
        return world._replace(phase="closing" if calls_back else "ready to leave", callback=due, finished=())

    def close_end(self, world: World, now: float) -> World:
        """The background thread stops: a leave that is still pending goes out, callbacks still awaited have failed."""
        if world.phase == "ready to leave":
            world = self.leave(world, now)
        world = self.step(world, CloseFlush(), now)
        for awaited in world.member.awaited:
            world = self.step(world, ConsumerRebalanceListenerCallbackCompletedEvent(awaited.ticket, "closed"), now)
        return world._replace(phase="closed")

    def callback_begins(self, world: World, method: str, line: Any, now: float) -> World:
        told = partitions((t, p) for t, p in line["parts"])
        if world.phase == "closing":
            self.must_be(
                "callback of close", (method, told), (world.callback and world.callback.method, world.assignment)
            )
            return world
        if world.callback is not None:
            world = self.callback_ends(world, None)  # a lost callback leaves no line when it ends
        errors = tuple(e for e in world.background if isinstance(e, ErrorEvent))
        events = [e for e in world.background if not isinstance(e, ErrorEvent)]
        if not events:
            raise Mismatch("callback", (method, told), "none asked for")
        event, *others = events
        world = self.polled(world, now)._replace(background=(*errors, *others))
        if isinstance(event, PartitionsAssignedEvent):
            self.must_be("callback", (method, told), ("assigned", event.added))
            if event.apply:
                world = self.step(world, ApplyAssignmentEvent(event.ticket, event.full, event.added), now)
            return world._replace(callback=Callback(event.ticket, "assigned"))
        assert isinstance(event, PartitionsRemovedEvent)
        self.must_be("callback", (method, told), (METHODS[event.method], event.partitions))
        return world._replace(callback=Callback(event.ticket, method))

    def must_be(self, field: str, expected: Any, got: Any) -> None:
        if expected != got:
            raise Mismatch(field, expected, got)

    def callback_ends(self, world: World, error: str | None) -> World:
        if world.phase == "closing":
            return world._replace(phase="ready to leave", callback=None)
        if world.callback is None:
            return world  # `listener_throw` and `..._done` of one callback
        return world._replace(callback=None, finished=(*world.finished, (world.callback, error)))

    def poll_error(self, world: World, line: Any) -> World:
        """The error that poll() threw: one that the member sent, or what follows from the application's own doings."""
        if line["err"].endswith(("IllegalStateException", "KafkaException")):
            return world
        sent = [e for e in world.background if isinstance(e, ErrorEvent)]
        thrown = line["err"].rpartition(".")[2]
        if not sent:
            raise Mismatch("error", thrown, "none")
        name = sent[0].error.name.title().replace("_", "")
        if not thrown.startswith(name):
            raise Mismatch("error", thrown, name)
        return world._replace(background=tuple(e for e in world.background if e is not sent[0]))

    def assignment(self, world: World, line: Any, now: float) -> World:
        """Members without listener print their assignment."""
        printed = partitions((t, p) for t, p in line["parts"])
        if world.member.ownership.owned != printed and world.background and world.callback is None:
            world = self.pass_over(world, now)
        self.must_be("assignment", printed, world.member.ownership.owned)
        return world

    def pass_over(self, world: World, now: float) -> World:
        """The application's pass without a listener: assignments are applied, and that is all."""
        event, *others = world.background
        world = world._replace(background=tuple(others))
        if not isinstance(event, PartitionsAssignedEvent):
            return world
        if event.apply:
            world = self.step(world, ApplyAssignmentEvent(event.ticket, event.full, event.added), now)
        return self.step(world, ConsumerRebalanceListenerCallbackCompletedEvent(event.ticket), now)

    # The log

    def completed(self, world: World, method: str, ok: bool, now: float) -> World:
        """The background hears that a callback has ended."""
        if world.callback is not None and world.callback.method == method and world.callback.ticket is not None:
            world = self.callback_ends(world, None)  # the line of its end comes some ms later, or there is none
        mine = [(c, e) for c, e in world.finished if c.method == method]
        skipped = next((e for e in world.background if isinstance(e, PartitionsAssignedEvent)), None)
        if not mine and world.phase == "unsubscribing" and method == "assigned" and skipped is not None:
            world = world._replace(background=tuple(e for e in world.background if e is not skipped))
            mine = [(Callback(skipped.ticket, method), SKIPPED)]
        if not mine:
            raise Mismatch("callback", f"{method} ended", "no such callback")
        (callback, error), *_ = mine
        self.must_be("callback ended well", ok, error is None)
        assert callback.ticket is not None
        world = world._replace(finished=tuple(f for f in world.finished if f[0] is not callback))
        return self.step(
            world.past("log"), ConsumerRebalanceListenerCallbackCompletedEvent(callback.ticket, error), now
        )

    # Polls that nobody recorded

    def renewed(self, world: World, now: float) -> World:
        """The application has polled just now: it does every 100 ms, unseen."""
        due = round(now) + self.config.max_poll_interval_ms
        return world._replace(member=world.member._replace(poll_due_ms=max(due, world.member.poll_due_ms)))

    def unseen_poll(self, world: World, now: float) -> World:
        """Polls that the recording does not show. A late one shows its effect, so it is left to the search."""
        return self.polled(world, now) if world.may_poll and now < world.member.poll_due_ms else world

    def polled(self, world: World, now: float) -> World:
        """After a poll, if it fits here; else with the poll timer renewed by one that was before."""
        polled = self.attempt(lambda: self.poll(world, now))
        return self.renewed(world, now) if polled is None else polled

    def attempt(self, choice: Callable[[], World]) -> World | None:
        try:
            return choice()
        except Mismatch as found:
            if self.worst is None or (self.worst.field in WAITING and found.field not in WAITING):
                self.worst = found
            return None
