"""The replay of a path of a model with classic members by production objects: members with clocks, and a host.

The host has the real log, real tokens and a clock; a timer that expires in the path is made due. The states of model
and live objects are compared after each step.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from fsm.check.kafka.application import BROKER, CLOSE_OVER, ENDED, GROUP, NOW, App
from fsm.check.kafka.classic.member import CALLBACK_INTERRUPTED, SESSION_OVER, ClassicModel
from fsm.check.kafka.classic.shell import ClassicConsumer, interrupt, list_pending, observe
from fsm.check.kafka.consumer.member import FIND
from fsm.check.kafka.consumer.shell import observe as observe_consumer
from fsm.check.kafka.descriptions import Seen, tell_difference
from fsm.check.kafka.live.broker import LiveBroker
from fsm.check.kafka.live.consumers import LiveMember
from fsm.check.kafka.live.replay import book_of_consumer_group
from fsm.check.kafka.live.tracing import go_on, tell_stored, topics_of
from fsm.check.kafka.mixed.member import CONVERTED
from fsm.check.kafka.topics import CLUSTER, Topics
from fsm.check.model import Action, Path
from fsm.coordinator.coordinator import Coordinator
from fsm.coordinator.model.classic_group import ClassicGroup
from fsm.coordinator.model.context import Context
from fsm.coordinator.model.step import Step
from fsm.member.classic.state import ClassicConfig
from fsm.member.runtime.classic_shell import ClassicConsumerMember
from fsm.member.runtime.trace import TraceTo
from fsm.protocol.assignment import Partitions, among, without
from fsm.protocol.messages import TIMED_OUT, JoinGroupRequest
from fsm.trace import TraceRecord

GONE = (App.DEAD, App.CRASHED)
"""States of an application that receives no more responses; one that has closed ended its connection in order."""
LATER_MS = 2
"""How much later than its scheduled time a step may be."""
Convert = Callable[[LiveMember], LiveMember]
Note = Callable[["ClassicReplay", str, str], None]
"""Called before a step with the action and its actor, and after it with empty strings."""


class LiveClassic(LiveMember):
    """A consumer of the classic protocol."""

    shell: ClassicConsumerMember

    def __init__(
        self,
        model: ClassicModel,
        now_ms: int,
        config: ClassicConfig | None = None,
        trace: TraceTo | None = None,
        *,
        life: int = 0,
    ) -> None:
        self.model, self.config, self.name, self.life = model, config or model.config, model.name, life
        self.trace, counts = trace, tuple(model.known.first.items())
        shell = ClassicConsumerMember(self.config, trace=trace, now_ms=now_ms)
        super().__init__(shell, model.setting, counts, now_ms)
        self.searches = model.setting.searches
        self.pending: Partitions = ()

    def next_life(self) -> LiveClassic:
        return LiveClassic(self.model, self.now_ms, self.config, self.trace, life=self.life + 1)

    @property
    def seen(self) -> Seen:
        return observe(self.app, self.shell.member, self.using)

    @property
    def heartbeat_due_ms(self) -> int:
        return self.shell.member.heartbeats.heartbeat_due_ms

    @property
    def poll_due_ms(self) -> int:
        return self.shell.member.heartbeats.poll_due_ms

    @property
    def poll_wanted_ms(self) -> int:
        member = self.shell.member
        retries = (member.commit and member.commit.retry_due_ms, member.closing and member.closing.retry_due_ms)
        return max(member.retry_due_ms, *(at_ms or 0 for at_ms in retries))

    def learn(self, changes: Sequence[str]) -> None:
        """Updates the metadata of its client."""
        if self.app not in ENDED:
            self.shell.learn(tuple(sorted(self.model.known.counts(changes).items())), self.now_ms)
            self.act("")

    def act(self, what: str) -> None:
        """Carries out an action; a closing consumer does not poll, so its commit is retried here.

        The deadline of close() and the session end at once, because heartbeats would be due meanwhile.
        """
        member = self.shell.member
        if self.app is App.CLOSING:
            self.now_ms = max(self.now_ms, self.poll_wanted_ms)
        if what == CLOSE_OVER and member.closing is not None:
            self.close_due_ms = self.now_ms
            self.shell.member = replace(member, closing=replace(member.closing, due_ms=self.now_ms))
        if what == CALLBACK_INTERRUPTED:
            self.shell.member, self.asked, self.running = interrupt(member), None, None
            self.pending = list_pending(self.shell.member)
        if what == SESSION_OVER:
            self.shell.member = replace(member, heartbeats=replace(member.heartbeats, session_due_ms=self.now_ms))
        super().act(what)
        if self.app is App.RUNNING:
            self.pending = among(self.shell.member.owned, self.pending)
            self.using = without(among(self.shell.member.owned, self.using), self.pending)


class ClassicReplay:
    """Live members and a live coordinator, driven along a path of a model whose first wires are their requests."""

    def __init__(
        self,
        members: dict[str, LiveMember],
        context: Context,
        convert: Convert | None = None,
        *,
        known: Topics | None = None,
    ) -> None:
        """`convert` returns the next process of a consumer if it uses the other protocol; `known` topics may change."""
        self.members, self.names, self.convert, self.known = members, tuple(members), convert, known
        self.broker = LiveBroker(
            members,
            context,
            lambda one, asked: bool(_describe(one) == _describe(asked)),
            lambda name: members[name].app in GONE,
            converts=convert is not None,
        )

    def along(self, path: Path, note: Note | None = None, times_ms: Sequence[int] = ()) -> str:
        """Takes the path;

        `State`s are those of the model after each step. Returns the first difference; empty if there is none. `note` is
        called before and after each step. With times all components share one clock.
        """
        is_untimed = note is None and not times_ms
        for number, (action, after) in enumerate(path, 1):
            if times_ms:
                self._set_clocks(NOW + times_ms[number - 1])
            if note is not None:
                note(self, action.what, action.actor if action.wire < 0 else "")
            self._take(action)
            if times_ms and any(one.now_ms > NOW + times_ms[number - 1] + LATER_MS for one in self.members.values()):
                return f"step {number}, {action.actor} {action.what}: its timer still runs"
            if note is not None:
                note(self, "", "")
            for name, state in after.items():
                if name == CLUSTER:
                    continue
                if name == BROKER:
                    live, wanted = (book(one, lengths=is_untimed) for one in (self.broker.host.state, state.state))
                else:
                    live, wanted = self.members[name].seen, _see(state)
                if differs := tell_difference(name, live, wanted):
                    return f"step {number}, {action.actor} {action.what}: {differs}"
        return ""

    def trace_coordinator(self, to: Callable[[TraceRecord], None]) -> None:
        """Traces what the coordinator stores from here on."""
        host = self.broker.host
        to(topics_of(host.context.image, host.now_ms))

        def note(step: Step[Coordinator]) -> None:
            for record in tell_stored(step.records, host.now_ms):
                to(record)

        host.on_step = note

    def go_on(self, now_ms: int) -> None:
        """Continues without disturbances."""
        go_on(self.members, self._serve, self._pass_time, now_ms)

    def _pass_time(self, now_ms: int) -> None:
        self._set_clocks(now_ms)
        self.broker.expire()

    def _serve(self, name: str) -> None:
        self.broker.pass_time()
        self.broker.request(name, Action(BROKER, "receives", message=self.members[name].out[0]))

    def _set_clocks(self, now_ms: int) -> None:
        """Sets all clocks to the same time; each component advances its own by a millisecond when it acts."""
        self.broker.host.context = self.broker.host.context.at(now_ms - 1)
        for one in self.members.values():
            one.now_ms = now_ms - 1

    def _take(self, action: Action) -> None:
        self.broker.pass_time()
        if action.actor == CLUSTER:
            return
        many = len(self.names)
        if action.wire >= 2 * many:
            if action.actor != BROKER:
                self.members[action.actor].learn(action.message)
            elif self.known is not None:
                self.broker.host.update(self.known.image(action.message))
            return
        name = self.names[action.wire % many] if action.wire >= 0 else action.actor
        match action:
            case Action(actor="broker", wire=wire) if wire < 0:
                self.broker.act(action.what)
            case Action(wire=wire, what=what) if wire < 0 and "starts again" in what:
                self._begin_life(name, action.what)
            case Action(wire=wire) if wire < 0:
                self.members[name].act(action.what)
            case Action(message=(_, _)):
                if self.members[name].app not in GONE and self.members[name].back:
                    order, answer = self.members[name].back.pop(0)
                    self.members[name].end(order, answer if action.what == "receives" else TIMED_OUT)
            case Action(what="receives" | "receives late") | Action(actor="broker", what="lost"):
                self.broker.request(name, action)
            case _:
                order = self.members[name].out.pop(0)
                self.members[name].late.add([order] if action.what == "late" else [])
                self.members[name].end(order, TIMED_OUT)

    def _begin_life(self, name: str, what: str) -> None:
        """Starts another process of a consumer; requests of the previous one become late."""
        before = self.members[name]
        converts = self.convert is not None and what.endswith(CONVERTED)
        after = self.convert(before) if self.convert is not None and converts else before.next_life()
        self.members[name] = before.hand_over(after)


def _see(state: Any) -> Seen:
    of_kind = observe if isinstance(state, ClassicConsumer) else observe_consumer
    return of_kind(state.app, state.member, state.using)


def _describe(order: Any) -> Any:
    """A request without its purpose and its rebalance timeout, which differs for live consumers."""
    if order == FIND:
        return order
    body = order.body
    if isinstance(body, JoinGroupRequest):
        return replace(body, reason="", session_timeout_ms=1, rebalance_timeout_ms=1)
    return replace(body, rebalance_timeout_ms=1) if getattr(body, "rebalance_timeout_ms", -1) > 0 else body


def book(state: Coordinator, *, lengths: bool = True) -> Seen:
    """The parts of a coordinator's state that the model and a live one share, with or without phase lengths."""
    group = state.groups.get(GROUP)
    if not isinstance(group, ClassicGroup):
        return book_of_consumer_group(group)
    join = group.join_phase and (group.join_phase[1:] if lengths else group.join_phase.is_initial)
    return {
        "group": group.state,
        "generation": group.generation,
        "protocol": group.protocol_name,
        "leader": group.leader,
        "assignments": {member_id: member.assignment for member_id, member in sorted(group.members.items())},
        "waiting joins": sorted(group.delayed_joins),
        "waiting syncs": sorted(group.delayed_syncs),
        "ids given out": sorted(group.pending_join_members),
        "missing syncs": sorted(group.pending_sync_members),
        "new members": sorted(group.new_members),
        "sessions": sorted(group.heartbeat_deadlines_ms),
        "join phase": join,
        "sync phase": group.sync_phase and group.sync_phase.generation,
    }
