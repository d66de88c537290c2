"""A path of a model with classic members taken once more by production objects: members with clocks, and a host.

The host has the real log, real tokens and a clock; a timer that the path says is over is made due. What the model and
the live objects have is compared after each step.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from fsm.check.kafka.application import BROKER, GROUP, App
from fsm.check.kafka.classic import ClassicConsumer, ClassicModel, seen
from fsm.check.kafka.consumer_shell import seen as seen_of_consumer
from fsm.check.kafka.live import LiveMember
from fsm.check.kafka.live_broker import LiveBroker
from fsm.check.model import Action, Path
from fsm.coordinator.coordinator import Coordinator
from fsm.coordinator.model.classic_group import ClassicGroup
from fsm.coordinator.model.context import Context
from fsm.member.events import AsyncPollEvent
from fsm.member.runtime.classic_shell import ClassicConsumerMember
from fsm.protocol.messages import TIMED_OUT, JoinGroupRequest

GONE = (App.DEAD, App.CRASHED)
"""Nobody answers these; one that has closed left its connection in order."""


class LiveClassic(LiveMember):
    """A consumer of the classic protocol."""

    shell: ClassicConsumerMember

    def __init__(self, model: ClassicModel, now_ms: int) -> None:
        self.model = model
        counts = tuple(model.known.first.items())
        super().__init__(ClassicConsumerMember(model.config), model.setting.topics, counts, now_ms)

    def next_life(self) -> LiveClassic:
        """Another process of the same consumer; what this one sent is late."""
        after = LiveClassic(self.model, self.now_ms)
        after.late = [*self.late, *self.out]
        return after

    def polls(self) -> AsyncPollEvent:
        return self.model.setting.polls(self.using)

    @property
    def seen(self) -> tuple[Any, ...]:
        return seen(self.app, self.shell.member, self.using)

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

    def act(self, what: str) -> None:
        """One that closes polls no more: its commit is tried again by itself."""
        if self.app is App.CLOSING:
            self.now_ms = max(self.now_ms, self.poll_wanted_ms)
        super().act(what)


class ClassicReplay:
    """Live members and a live coordinator, driven along a path of a model whose first wires are their requests."""

    def __init__(self, members: dict[str, LiveMember], context: Context) -> None:
        self.members, self.names = members, tuple(members)
        self.broker = LiveBroker(
            members,
            context,
            lambda one, asked: bool(_said(one.body) == _said(asked.body)),
            lambda name: members[name].app in GONE,
        )

    def along(self, path: Path) -> str:
        """Takes the path; `State`s are those of the model after each step. What differs first; empty where nothing."""
        for number, (action, after) in enumerate(path, 1):
            self._take(action)
            for name, state in after.items():
                if name == BROKER:
                    live, wanted = book(self.broker.host.state), book(state.state)
                else:
                    live, wanted = self.members[name].seen, _seen(state)
                if live != wanted:
                    return f"step {number}, {action.actor} {action.what}: {name} is {live}, and was to be {wanted}"
        return ""

    def _take(self, action: Action) -> None:
        self.broker.pass_time()
        name = self.names[action.wire % len(self.names)] if action.wire >= 0 else action.actor
        match action:
            case Action(actor="broker", wire=wire) if wire < 0:
                self.broker.act(action.what)
            case Action(wire=wire, what=what) if wire < 0 and "starts again" in what:
                self.members[name] = self.members[name].next_life()
            case Action(wire=wire) if wire < 0:
                self.members[name].act(action.what)
            case Action(message=(_, _)):
                if self.members[name].app not in GONE:
                    order, answer = self.members[name].back.pop(0)
                    self.members[name].end(order, answer if action.what == "receives" else TIMED_OUT)
            case Action(what="receives" | "receives late"):
                self.broker.request(name, action)
            case _:
                order = self.members[name].out.pop(0)
                self.members[name].late += [order] if action.what == "late" else []
                self.members[name].end(order, TIMED_OUT)


def _seen(state: Any) -> tuple[Any, ...]:
    of_kind = seen if isinstance(state, ClassicConsumer) else seen_of_consumer
    return of_kind(state.app, state.member, state.using)


def _said(body: Any) -> Any:
    """A request without why it is sent; where live consumers name a rebalance timeout, it is another."""
    if isinstance(body, JoinGroupRequest):
        return replace(body, reason="")
    return replace(body, rebalance_timeout_ms=1) if getattr(body, "rebalance_timeout_ms", -1) > 0 else body


def book(state: Coordinator) -> Any:
    """What the coordinator of the model and a live one have in common."""
    group = state.groups.get(GROUP)
    if group is None:
        return None
    if not isinstance(group, ClassicGroup):
        members = tuple((member_id, member.current) for member_id, member in sorted(group.members.items()))
        timers = sorted((kind.value, who) for (kind, who), _, _ in group.timers.in_order())
        targets = tuple(sorted(group.targets.items()))
        return group.epoch, group.target_epoch, group.state, members, targets, tuple(timers)
    held = tuple((member_id, member.assignment) for member_id, member in sorted(group.members.items()))
    phases = (group.join_phase and group.join_phase[1:], group.sync_phase and group.sync_phase.generation)
    ids = (group.delayed_joins, group.delayed_syncs, group.pending_join_members, group.pending_sync_members)
    waits = tuple(tuple(sorted(found)) for found in (*ids, group.new_members, group.heartbeat_deadlines_ms))
    return group.state, group.generation, group.protocol_name, group.leader, held, waits, phases
