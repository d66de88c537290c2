"""What may happen to a member that is led through a recording, step by step.

A move takes a world and gives the next one; it raises `Mismatch` where the member then does what is not recorded. What
is recorded says itself which move it is; `choices` are the moves that a recording leaves free.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from member_recorded import (
    BEGINS,
    METHODS,
    commit_answer,
    commit_fields,
    heartbeat_answer,
    heartbeat_fields,
    named,
    order_of,
    shown,
)
from member_timeline import STAMP_MS
from member_world import Callback, GroupMetadata, Mismatch, World, must_be

from fsm.errors import ProtocolError
from fsm.member.consumer.decisions import heartbeat_at_ms
from fsm.member.consumer.state import Member
from fsm.member.consumer.step import step
from fsm.member.consumer.subscription import SubscriptionType
from fsm.member.dialect.dialect import Dialect, dialect
from fsm.member.effects import (
    AssignmentUpdated,
    CommitEnded,
    Enqueued,
    EpochUpdated,
    MemberEffect,
    Purpose,
    UnsentRequest,
)
from fsm.member.events import (
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
from fsm.member.inputs import (
    Answered,
    CloseFlush,
    CoordinatorFound,
    CoordinatorLost,
    MemberInput,
    MetadataUpdated,
    Tick,
)
from fsm.member.runtime.queues import SKIPPED
from fsm.protocol.assignment import TopicNames, partitions, without
from fsm.protocol.config import ConsumerConfig
from fsm.protocol.error_codes import ErrorCode
from fsm.protocol.messages import (
    DISCONNECTED,
    TIMED_OUT,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    OffsetCommitRequest,
    TransportFailure,
)
from fsm.protocol.releases import RELEASES
from fsm.tables.consumer_member import State

RETRIED = (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
POLL_MS = 100
"""Between two polls of the recorded programs."""
AFTER_ERROR_MS = 300
"""Between an error that poll() threw and the next poll of the recorded programs."""
IN_CALLBACKS = {"listener_throw", "commit_begin", "commit_sync"}
"""What an application does inside a callback."""
WAITING = {"response", "commit", "callback"}
"""Fields of choices that only come too early; another mismatch tells more."""


class Moves:
    """The moves of one recording."""

    def __init__(self, recorded: Any, in_order: Callable[[Any], Any], rules: Dialect | None = None) -> None:
        self.recorded = recorded
        self.lanes = {lane: in_order(seen) for lane, seen in recorded.lanes.items()}
        conf = {k: str(v) for k, v in recorded.conf.items() if not k.startswith("__")}
        self.config = ConsumerConfig.of(conf)
        self.listener = "__nolistener" not in recorded.conf
        known = [r for r in RELEASES if order_of(r) <= order_of(recorded.version)]
        self.dialect = rules or dialect(known[-1] if known else RELEASES[0])
        self.worst: Mismatch | None = None
        responses = {tuple(seen.line["corr"]) for seen in self.lanes["response"] if seen.kind == "heartbeat"}
        corr = [tuple(seen.line["corr"]) for seen in self.lanes["request"]]
        self.answered = {n for n, given in enumerate(corr) if given in responses}
        self.does: dict[str, Callable[[World, Any, float], World]] = {
            "subscribe": self.subscribe,
            "unsubscribe": self.unsubscribe,
            "unsubscribe_done": self.unsubscribed,
            "close_begin": self.close_begin,
            "close_end": self.close_end,
            "assign": self.callback_begins,
            "revoke": self.callback_begins,
            "lost": self.callback_begins,
            "assign_done": self.callback_done,
            "revoke_done": self.callback_done,
            "listener_throw": self.listener_throws,
            "poll_stop": self.poll_stops,
            "commit_begin": self.poll_stops,
            "poll_resume": self.poll_goes_on,
            "commit_sync": self.poll_goes_on,
            "poll_error": self.poll_error,
            "assignment": self.assignment,
        }
        """What else is recorded of an application tells, and does nothing."""
        self.found = [seen.t_ms for seen in self.lanes["response"] if seen.kind == "coordinator"]

    # Lanes

    def head(self, world: World, lane: str) -> Any:
        """The next thing of a lane, None at its end."""
        place = world.read(lane)
        return self.lanes[lane][place] if place < len(self.lanes[lane]) else None

    def soon(self, shown_ms: float, now: float, free_ms: float = 0) -> bool:
        """Whether a line of a later instant may tell of this one."""
        return bool(self.recorded.near(now, shown_ms, free_ms))

    def take(self, world: World, field: str, got: Any, now: float, free_ms: float = 0) -> World:
        """Past the next thing logged, which must be `got`."""
        head = self.head(world, "log")
        if head is None or not self.soon(head.t_ms, now, free_ms):
            raise Mismatch(field, "nothing at this time", got)
        if (head.kind, head.content) != (field, got):
            raise Mismatch(field, f"{head.kind} {head.content}", got)
        return world.past("log")

    # The member

    def step(self, world: World, given: MemberInput, now: float) -> World:
        """One step of the member, everything it shows held against the recording."""
        try:
            member, effects = step(world.member, given, round(now))
        except ProtocolError as refused:
            raise Mismatch("refused", "a step", str(refused)) from refused
        before, world = world.member, world._replace(member=member)
        free_ms = POLL_MS if isinstance(given, AsyncPollEvent) else 0
        for effect in effects:
            world = self.follow(world, effect, now, free_ms)
        return self.left(world, before, given, now)

    def left(self, world: World, before: Member, given: MemberInput, now: float) -> World:
        """The answer to a leave ends it, well or not; the client says so."""
        ended = before.leaving.calls is not None and world.member.leaving.calls is None
        if before.state is not State.UNSUBSCRIBED or not ended:
            return world
        answer = given.answer if isinstance(given, Answered) else None
        well = isinstance(answer, ConsumerGroupHeartbeatResponse) and answer.error_code is ErrorCode.NONE
        return self.take(world, "left", well, now)

    def follow(self, world: World, effect: MemberEffect, now: float, free_ms: float) -> World:
        text = shown(effect)
        if text is not None:
            world = self.take(world, *text, now, free_ms)
        match effect:
            case Enqueued(event=event):
                return world._replace(background=(*world.background, (now, event)))
            case AssignmentUpdated(partitions=assigned):
                return world._replace(assignment=assigned)
            case EpochUpdated(epoch=int(epoch)):
                identity = GroupMetadata(epoch, world.member.member_id, now)
                return world._replace(metadata=identity, metadata_before=world.metadata)
            case UnsentRequest(body=ConsumerGroupHeartbeatRequest() as body):
                return self.heartbeat(world, effect, body, now)
            case UnsentRequest(purpose=Purpose.RUN_COMMIT, body=OffsetCommitRequest() as body):
                return self.commit(world, effect, body)
            case CommitEnded(error=None) if world.commit is not None:
                raise Mismatch("commit", "its answer", "none waited for")
        return world

    def heartbeat(self, world: World, sent: UnsentRequest, body: ConsumerGroupHeartbeatRequest, now: float) -> World:
        head = self.head(world, "request")
        if self.fails_unsent(world, head):
            return world._replace(unsent=sent)
        if head is None or not self.soon(head.t_ms, now):
            raise Mismatch("heartbeat", "none at this time", body)
        for field, expected in heartbeat_fields(head.content).items():
            must_be(f"heartbeat {field}", expected, getattr(body, field))
        return world.past("request")._replace(asked=(*world.asked, sent))

    def fails_unsent(self, world: World, head: Any) -> bool:
        """Whether a heartbeat of this moment fails before it reaches the wire, as the log says then."""
        failed = next((seen for seen in self.lanes["log"][world.read("log") :] if seen.kind == "failed"), None)
        if failed is None or self.without_response(world) or world.unsent is not None:
            return False
        return head is None or failed.t_ms < head.t_ms

    def commit(self, world: World, sent: UnsentRequest, body: OffsetCommitRequest) -> World:
        """The commit before a run goes out as it is on the wire."""
        if not world.commits:
            raise Mismatch("commit", "none", body)
        asked = self.recorded.commits[world.commits[0]][0].content
        for field, expected in commit_fields(asked, self.recorded.names).items():
            must_be(f"commit {field}", expected, getattr(body, field))
        return world._replace(commit=sent)

    # What happens all the time, and what the recording shows of it only where it does something

    def meanwhile(self, world: World, now: float, *, polls: bool) -> World:
        """The application polls, the background thread turns: both whenever something is recorded."""
        names = self.known_names(now)
        if names != world.member.client.metadata:
            world = self.step(world, MetadataUpdated(names), now)
        if polls and world.may_poll(now):
            world = self.poll(world, now)
        return self.tick(world, now)

    def may_poll_later(self, world: World, now: float) -> bool:
        """Whether the next poll need not have come yet."""
        return world.may_poll(now) and self.soon(now, world.polled_ms, POLL_MS)

    def known_names(self, now: float) -> TopicNames:
        missing = {i for i, spans in self.recorded.unresolved.items() if any(a <= now < b for a, b in spans)}
        named = {i: n for i, n in self.recorded.names.items() if i not in missing}
        return TopicNames({**named, **self.recorded.matched_at(now)})

    def tick(self, world: World, now: float) -> World:
        """After a turn of the loop. What it sends is sent when the recording shows it; nothing else waits."""
        _, effects = step(world.member, Tick(), round(now))
        if any(isinstance(effect, UnsentRequest) for effect in effects):
            return world._replace(due_ms=self.due_since(world, now))
        return self.step(world, Tick(), now)._replace(due_ms=None)

    def sent(self, world: World, now: float, at_ms: float | None = None) -> World:
        """A turn that sends something, not too late for it: the client generated it some time from when it was due."""
        self.due_since(world, now)
        at_ms = at_ms or now
        earliest = max(heartbeat_at_ms(world.member, -1) - world.slack_ms, now - self.recorded.noise_ms)
        return self.step(world, Tick(), at_ms)._replace(due_ms=None, slack_ms=at_ms - min(earliest, now))

    def due_since(self, world: World, now: float) -> float:
        """Since when a heartbeat is due. Raises `Mismatch` if the recorded one is late beyond the noise."""
        at_ms = heartbeat_at_ms(world.member, -1)  # -1 stands for at once
        timed = 0 <= at_ms <= now
        due_ms = world.due_ms or (at_ms if timed else now)
        late_ms = now - due_ms - self.recorded.noise_ms
        on_time = late_ms <= 2 * STAMP_MS or (not timed and self.soon(now, due_ms, POLL_MS))
        since = due_ms if timed else due_ms - self.recorded.noise_ms
        searched = any(since <= t_ms <= now for t_ms in self.found)
        if on_time or searched or self.recorded.held(due_ms, now) or self.searches(world):
            return due_ms
        raise Mismatch("request", f"none by {now}", f"a heartbeat due {now - due_ms:.0f} ms earlier")

    def searches(self, world: World) -> bool:
        """Whether the client finds its coordinator again before it sends another heartbeat."""
        asked = self.head(world, "request")
        rest = self.lanes["response"][world.read("response") :]
        found = next((seen for seen in rest if seen.kind == "coordinator"), None)
        return found is not None and (asked is None or found.t_ms < asked.t_ms)

    # What may happen unseen

    def choices(self, world: World, now: float) -> Iterator[Callable[[], World]]:
        """Steps that the recording leaves free, the likeliest first."""
        response, app = self.head(world, "response"), self.head(world, "app")
        soon = now + self.recorded.noise_ms
        if response is not None and response.t_ms <= soon:
            yield lambda: self.response(world, now)
        if app is not None and app.t_ms <= soon and (app.kind != "close_end" or self.stops(world)):
            yield lambda: self.application(world, max(now, app.t_ms))
        if world.phase == "ready to leave":
            yield lambda: self.leave(world, now)
        if world.commit is not None:
            yield lambda: self.commit_answer(world, now)
        yield lambda: self.sent(world, now)
        if world.may_poll(now):
            yield lambda: self.poll(world, now)
        if not self.listener and world.background and world.callback is None:
            yield lambda: self.pass_over(world, now)
        for place in self.without_response(world):
            yield lambda place=place: self.fail(  # type: ignore[misc]
                world._replace(lost=(*world.lost, place)), world.asked[place], now
            )
        timers = (heartbeat_at_ms(world.member, round(now)), world.slack_ms), (world.member.poll_due_ms, POLL_MS)
        for late, free_ms in timers:
            if now < late <= soon + free_ms:
                yield lambda late=late: self.sent(world, now, late)  # type: ignore[misc]

    def stops(self, world: World) -> bool:
        """Whether the end of close() may come next: nothing is left to log."""
        return self.head(world, "log") is None

    def without_response(self, world: World) -> list[int]:
        """Heartbeats that were sent and never answered: their connection was lost, or their time was over."""
        return [n for n in range(len(world.asked)) if n not in self.answered and n not in world.lost]

    def failed(self, world: World, now: float) -> World:
        """A heartbeat failed, as the log says: it got no response, or it never reached the wire."""
        waiting = self.without_response(world)
        if waiting:
            return self.fail(world._replace(lost=(*world.lost, waiting[0])), world.asked[waiting[0]], now)
        if world.unsent is None:
            world = self.sent(world, now)
        if world.unsent is None:
            raise Mismatch("heartbeat", "one that fails", "none sent")
        return self.fail(world._replace(unsent=None), world.unsent, now)

    def fail(self, world: World, sent: UnsentRequest, now: float) -> World:
        head = self.head(world, "log")
        timed_out = head is not None and head.kind == "failed" and head.content[1]
        return self.answer(world, sent, TIMED_OUT if timed_out else DISCONNECTED, now)

    def answer(
        self, world: World, sent: UnsentRequest, answer: ConsumerGroupHeartbeatResponse | TransportFailure, now: float
    ) -> World:
        """What came of a heartbeat. The log says how long a failed one waits, if it says anything."""
        head, jitter = self.head(world, "log"), 0.0
        fails = isinstance(answer, TransportFailure) or answer.error_code in RETRIED
        if fails and head is not None and head.kind == "failed" and self.soon(head.t_ms, now):
            world, jitter = world.past("log"), self.jitter(world.member, sent, answer, now, head.content[0])
        return self.step(world, Answered(sent, answer, jitter), now)

    def jitter(self, member: Member, sent: UnsentRequest, answer: Any, now: float, wait_ms: int) -> float:
        """The one under which the next heartbeat waits that long."""
        low, high = -1.0, 1.0
        for _ in range(20):
            middle = (low + high) / 2
            after, _ = step(member, Answered(sent, answer, middle), round(now))
            low, high = (middle, high) if heartbeat_at_ms(after, -1) < now + wait_ms else (low, middle)
        return high

    def poll(self, world: World, now: float) -> World:
        """A poll, with the positions that the recorded commit of its run shows, if it starts one."""
        self.must_have_thrown(world, now)
        world = world._replace(polled_ms=now)
        if world.commit is not None:
            return self.step(world, AsyncPollEvent(consumed=world.consumed), now)
        places = self.run_commits(world)
        if not places:
            return self.step(world, AsyncPollEvent(), now)
        asked = self.recorded.commits[places[0]][0].content
        consumed = commit_fields(asked, self.recorded.names)["offsets"]
        world = self.step(world._replace(commits=places, consumed=consumed), AsyncPollEvent(consumed=consumed), now)
        if world.commit is None:
            raise Mismatch("commit", asked, "none")
        return world

    def poll_here(self, world: World, now: float) -> World:
        """A poll has just been made, if the application polls and nothing tells that it came before."""
        return (self.attempt(lambda: self.poll(world, now)) or world) if world.may_poll(now) else world

    def must_have_thrown(self, world: World, now: float) -> None:
        """What is queued for poll() to throw is thrown by the first poll after it."""
        noise_ms = self.recorded.noise_ms
        for since, event in world.errors:
            if world.polled_ms - since > noise_ms and now - world.polled_ms > noise_ms:
                raise Mismatch("error", "nothing thrown", event.error.name)

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

    def commit_answer(self, world: World, now: float) -> World:
        """The answer to the commit of the run; one without has lost its connection."""
        assert world.commit is not None
        place, *others = world.commits
        asked, answer = self.recorded.commits[place]
        if answer is not None and answer.t_ms > now + self.recorded.noise_ms:
            raise Mismatch("commit", "no answer yet", asked)
        given = DISCONNECTED if answer is None else commit_answer(answer.content)
        answered = world._replace(commits=tuple(others), commit=None)
        return self.step(answered, Answered(world.commit, given, -1.0), now)

    def leave(self, world: World, now: float) -> World:
        head = self.head(world, "request")
        if head is not None and head.content["member_epoch"] >= 0:  # generated before, and sent only after this
            world = self.sent(world, now)
        return self.step(world._replace(phase="leaving"), LeaveGroupOnCloseEvent(), now)

    # What is recorded of the wire

    def response(self, world: World, now: float) -> World:
        head = self.head(world, "response")
        if head is None:
            raise Mismatch("response", "one more", "none")
        world = world.past("response")
        if head.kind == "coordinator":
            return self.coordinator(world, head.content, now)
        answered = self.place_of_request(head)
        if answered >= len(world.asked):
            raise Mismatch("response", "to a heartbeat that was sent", head.content)
        return self.answer(world, world.asked[answered], heartbeat_answer(head.content), now)

    def coordinator(self, world: World, content: Any, now: float) -> World:
        """The client has looked for its coordinator: it had none, or a request that is not ours had lost it."""
        if world.member.client.coordinator_known:
            world = self.step(world, CoordinatorLost(), now)
        found = content.get("coordinators", [content])[0]["error_code"] is None
        return self.step(world, CoordinatorFound(), now) if found else world

    def place_of_request(self, response: Any) -> int:
        """Which of the heartbeats the response answers."""
        corr = response.line["corr"]
        return next(n for n, asked in enumerate(self.lanes["request"]) if asked.line["corr"] == corr)

    # What is recorded of the application

    def application(self, world: World, now: float) -> World:
        head = self.head(world, "app")
        if world.callback is not None and world.callback.method == "lost" and head.kind not in IN_CALLBACKS:
            world = self.callback_ends(world, None, now)  # it leaves no line when it ends
        world = self.compared(world.past("app"), head)
        does = self.does.get(head.kind)
        return does(world, head.content, now) if does else world

    def callback_done(self, world: World, _: Any, now: float) -> World:
        return self.callback_ends(world, None, now)

    def listener_throws(self, world: World, _: Any, now: float) -> World:
        return self.callback_ends(world, "the listener raised", now)._replace(raised=True)

    def poll_stops(self, world: World, _: Any, now: float) -> World:
        return self.poll_here(world, now)._replace(polls=False)

    def poll_goes_on(self, world: World, _: Any, now: float) -> World:
        return world._replace(polls=True, polled_ms=now)

    def unsubscribe(self, world: World, _: Any, now: float) -> World:
        return self.step(world._replace(phase="unsubscribing"), UnsubscribeEvent(), now)

    def unsubscribed(self, world: World, _: Any, now: float) -> World:
        return world._replace(metadata=GroupMetadata(since_ms=now), metadata_before=world.metadata)

    def compared(self, world: World, head: Any) -> World:
        """What a line tells beside its event: what is held, what consumer.assignment() is, and groupMetadata()."""
        if world.held is not None and head.kind != "revoke_done":
            for field in ("before", "owned"):
                if field in head.content:
                    must_be(field, named(head.content[field]), world.held)
        if head.kind == "mismatch":
            must_be("assignment", named(head.content["assignment"]), world.member.ownership.owned)
        if "epoch" in head.content and head.kind != "commit_sync":
            identity = (head.content["epoch"], head.content["member_id"])
            now = world.metadata
            if identity != now[:2] and (
                head.t_ms - now.since_ms > self.recorded.noise_ms or identity != world.metadata_before[:2]
            ):
                raise Mismatch("group metadata", identity, now[:2])
        return world

    def subscribe(self, world: World, line: Any, now: float) -> World:
        world = world._replace(phase="running", polled_ms=now)
        if "re2" in line:
            return self.step(world, TopicRe2JPatternSubscriptionChangeEvent(line["re2"], self.listener), now)
        if "pattern" in line:
            return self.step(world, TopicPatternSubscriptionChangeEvent(line["pattern"], self.listener), now)
        return self.step(world, TopicSubscriptionChangeEvent(tuple(line["topics"]), self.listener), now)

    def close_begin(self, world: World, _: Any, now: float) -> World:
        """close() first runs the callback over the application's own record, if there is anything and a listener."""
        self.must_have_thrown(world, now)
        calls_back = bool(world.assignment) and self.listener
        method = "revoked" if world.metadata.epoch > 0 else "lost"
        due = Callback(None, method, world.assignment) if calls_back else None
        return world._replace(phase="closing" if calls_back else "ready to leave", callback=due)

    def close_end(self, world: World, _: Any, now: float) -> World:
        """The background thread stops: a leave that is still pending goes out, callbacks still awaited have failed."""
        if world.phase == "ready to leave":
            world = self.leave(world, now)
        return self.unheard(self.step(world, CloseFlush(), now), now)._replace(phase="closed")

    def unheard(self, world: World, now: float) -> World:
        """When the leave is over, callbacks that nobody will run any more have failed."""
        for awaited in world.member.awaited:
            world = self.step(world, ConsumerRebalanceListenerCallbackCompletedEvent(awaited.ticket, "closed"), now)
        return world

    def callback_begins(self, world: World, line: Any, now: float) -> World:
        callback = (BEGINS[line["app"]], named(line["parts"]))
        if world.phase == "closing" and world.callback is not None:
            must_be("callback of close", callback, world.callback[1:])
            return world
        event = next((event for _, event in world.background if not isinstance(event, ErrorEvent)), None)
        if event is None:
            raise Mismatch("callback", callback, "none asked for")
        world = self.poll_here(world, now)
        world = world._replace(background=tuple(queued for queued in world.background if queued[1] is not event))
        if isinstance(event, PartitionsAssignedEvent):
            must_be("callback", callback, ("assigned", event.added))
            if event.apply:
                world = self.step(world, ApplyAssignmentEvent(event.ticket, event.full, event.added), now)
        else:
            assert isinstance(event, PartitionsRemovedEvent)
            must_be("callback", callback, (METHODS[event.method], event.partitions))
        return world._replace(callback=Callback(event.ticket, *callback))

    def callback_ends(self, world: World, error: str | None, now: float) -> World:
        if world.callback is None:
            return world  # `listener_throw` and `..._done` of one callback
        callback, held = world.callback, world.held
        if held is not None and callback.method == "assigned":
            held = None if error and callback.partitions else partitions((*held, *callback.partitions))
        elif held is not None:
            held = without(held, callback.partitions)
        world = world._replace(callback=None, held=held, polled_ms=now)
        if callback.ticket is None:
            return world._replace(phase="ready to leave")
        return world._replace(finished=(*world.finished, (callback, error)))

    def poll_error(self, world: World, line: Any, now: float) -> World:
        """The error that poll() threw: one that the member sent, or what follows from the application's own doings."""
        world = world._replace(polled_ms=now + AFTER_ERROR_MS)
        thrown = line["err"].rpartition(".")[2]
        if thrown == "IllegalStateException" and world.member.subscription.kind is SubscriptionType.NONE:
            return world
        if thrown == "KafkaException" and world.raised:
            return world._replace(raised=False)
        if not world.errors:
            raise Mismatch("error", thrown, "none")
        _, event = queued = world.errors[0]
        name = event.error.name.title().replace("_", "")
        if not thrown.startswith(name):
            raise Mismatch("error", thrown, name)
        return world._replace(background=tuple(other for other in world.background if other is not queued))

    def assignment(self, world: World, line: Any, now: float) -> World:
        """Members without listener print their assignment."""
        printed = named(line["parts"])
        if world.member.ownership.owned != printed and world.background and world.callback is None:
            world = self.pass_over(world, now)
        must_be("assignment", printed, world.member.ownership.owned)
        return world

    def pass_over(self, world: World, now: float) -> World:
        """The application's pass without a listener: assignments are applied, and that is all."""
        queued = next((queued for queued in world.background if not isinstance(queued[1], ErrorEvent)), None)
        if queued is None:
            raise Mismatch("callback", "one asked for", "none")
        _, event = queued
        world = world._replace(background=tuple(other for other in world.background if other is not queued))
        if not isinstance(event, PartitionsAssignedEvent):
            return world
        if event.apply:
            world = self.step(world, ApplyAssignmentEvent(event.ticket, event.full, event.added), now)
        return self.step(world, ConsumerRebalanceListenerCallbackCompletedEvent(event.ticket), now)

    # The log

    def completed(self, world: World, method: str, ok: bool, now: float) -> World:
        """The background hears that a callback has ended."""
        if world.callback is not None and world.callback.method == method and world.callback.ticket is not None:
            world = self.callback_ends(world, None, now)  # the line of its end comes some ms later, or there is none
        mine = [(c, e) for c, e in world.finished if c.method == method]
        if not mine and world.phase == "unsubscribing" and method == "assigned":
            must_be("callback ended well", expected=ok, got=False)
            return self.skipped(world.past("log"), now)
        if not mine:
            raise Mismatch("callback", f"{method} ended", "no such callback")
        (callback, error), *_ = mine
        must_be("callback ended well", ok, error is None)
        assert callback.ticket is not None
        world = world._replace(finished=tuple(f for f in world.finished if f[0] is not callback))
        return self.step(
            world.past("log"), ConsumerRebalanceListenerCallbackCompletedEvent(callback.ticket, error), now
        )

    def skipped(self, world: World, now: float) -> World:
        """unsubscribe() applies no assignment that it finds in the queue."""
        queued = next((queued for queued in world.background if isinstance(queued[1], PartitionsAssignedEvent)), None)
        if queued is None:
            raise Mismatch("callback", "an assignment to be skipped", "none")
        world = world._replace(background=tuple(other for other in world.background if other is not queued))
        return self.step(world, ConsumerRebalanceListenerCallbackCompletedEvent(queued[1].ticket, SKIPPED), now)

    def attempt(self, choice: Callable[[], World]) -> World | None:
        try:
            return choice()
        except Mismatch as found:
            if self.worst is None or (self.worst.field in WAITING and found.field not in WAITING):
                self.worst = found
            return None
