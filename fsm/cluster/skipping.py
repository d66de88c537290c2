"""A cluster that skips heartbeats that provably change nothing, so that a stable group of thousands costs little.

A client is *skipped* once a heartbeat and its answer leave it, its record at the coordinator and the rest of the group
in the state of one heartbeat before. Steps are functions of values and of elapsed time, so the next heartbeat does the
same. It is counted and not executed, until the coordinator does something that may change answers, the network is about
to lose a message, or an external event concerns the client. Then the client, its session at the coordinator and the
numbers of its messages are set to the state after execution, and pending messages are sent at their own times: the
clock goes back for them. `SkippingCluster(..., skips=False)` executes every heartbeat and every poll, with the same
result.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace
from functools import partial
from heapq import heappush
from operator import attrgetter
from typing import Any

from fsm.cluster.client import Client
from fsm.cluster.cluster import Cluster
from fsm.cluster.idle_members import heartbeat_due_ms, interval_ms, let_pass, member_of, timeless
from fsm.cluster.network import Network
from fsm.cluster.stale_uses import Change
from fsm.coordinator.model.classic_group import ClassicGroup
from fsm.coordinator.model.consumer_group import MEMBER_STABLE, ConsumerGroup
from fsm.coordinator.model.groups import Group
from fsm.coordinator.model.timers import TimerKind
from fsm.tables.classic_group import State

AHEAD = 64
"""How many heartbeats are searched at once for a lost one."""
FAR_MS = 1 << 52
"""The session of a client that is skipped does not end."""
OF_CONSUMERS = attrgetter(
    "epoch", "target_epoch", "target_time_ms", "metadata", "has_metadata_record", "regexes", "metadata_due",
    "resolution",
)  # fmt: skip
OF_CLASSIC = attrgetter(
    "state", "generation", "protocol_name", "leader", "members", "delayed_joins", "delayed_syncs",
    "pending_join_members", "pending_sync_members", "join_phase", "sync_phase",
)  # fmt: skip


@dataclass
class SkippedClient:
    """A client whose heartbeats are skipped, and its state after the last executed one."""

    client: Client
    member_id: str
    answered_ms: int
    """When the last executed heartbeat was answered."""
    due_ms: int
    """When the first skipped one is sent."""
    interval_ms: int
    deadline_ms: int
    """When its session ends, according to the executed heartbeats; on the coordinator's clock."""
    timeout_ms: int


class SkippingCluster(Cluster):
    """One group over a `Network`, whose idle clients are skipped."""

    channel: Network

    def __init__(self, *given: Any, network: Network, skips: bool = True, **named: Any) -> None:
        super().__init__(*given, **named)
        self.channel = network
        self.skips = skips
        self.skipped: dict[str, SkippedClient] = {}
        self.on_passed: Callable[[int, int, int], None] = _ignore
        """Called with the time of the first skipped heartbeat, their interval and number, when they are counted."""
        self._skipped_ids: dict[str, str] = {}
        self._clients_by_id: dict[str, str] = {}
        self._before = self.host
        """The coordinator before the present step."""
        self._versions = 0
        """Counts the changes that may affect responses to all clients."""
        self._seen: dict[str, tuple[int, Any, Any]] = {}
        """The state of each client at the response to its last heartbeat."""
        self._handled_ms: dict[str, int] = {}
        """When the last request of each client was received, on the coordinator's clock."""

    def start(self, *given: Any, **named: Any) -> Client:
        client = super().start(*given, **named)
        client.skips = self.skips
        return client

    def kill(self, name: str) -> None:
        """Kills a process; a skipped one has to be woken before."""
        self._clients_by_id.pop(self.clients[name].member_id, None)
        super().kill(name)
        self._seen.pop(name, None)
        self._handled_ms.pop(name, None)

    # Which clients are skipped

    def enter(self, client: Client) -> None:
        is_late = self._due.get(client.name, self.now_ms) < self.now_ms  # it was woken, and acts at its own time
        if client.name not in self.skipped and not is_late:
            super().enter(client)

    def _act(self, client: Client) -> None:
        super()._act(client)
        self._clients_by_id[client.member_id] = client.name
        if client.is_idle and client.background.is_quiet and self.clients.get(client.name) is client:
            self._consider(client)

    def _consider(self, client: Client) -> None:
        """Begins to skip a client if everything is in the state of one heartbeat before, and only heartbeats
        are due.
        """
        name, group = client.name, self.group
        if group is None or not _is_settled(group) or name not in self._handled_ms:
            return
        record, member = group.members.get(client.member_id), member_of(client.member)
        now = self._versions, record, timeless(member)
        seen, self._seen[name] = self._seen.get(name), now
        if record is None or seen is None or seen[1] is not record or (seen[0], seen[2]) != (now[0], now[2]):
            return
        deadline_ms = _session_ms(group, client.member_id)
        if deadline_ms is None or not _is_served(group, record) or not self._may_skip(client):
            return
        times_ms = heartbeat_due_ms(member), interval_ms(member), deadline_ms, deadline_ms - self._handled_ms[name]
        skipped = SkippedClient(client, client.member_id, self.now_ms, *times_ms)
        self.skipped[name], self._skipped_ids[client.member_id] = skipped, name
        self._due.pop(name, None)
        self._set_sessions({client.member_id: self.host.now_ms + FAR_MS})
        if self.channel.loses:
            self._look_ahead(skipped, 0, self.now_ms)

    def _may_skip(self, client: Client) -> bool:
        """Whether the next heartbeat is its next action, and is answered before the one after it."""
        member, config = member_of(client.member), client.member.config
        due_ms, every_ms = heartbeat_due_ms(member), interval_ms(member)
        if not self.now_ms < due_ms == client.background.next_turn_ms:
            return False
        if client.name in self.channel.cut or client.name in self.deaf:
            return False
        is_answered = 2 * self.channel.latency.most_ms < min(every_ms, config.request_timeout_ms)
        return is_answered and client.poll_ms + every_ms < config.max_poll_interval_ms

    def _look_ahead(self, skipped: SkippedClient, ahead: int, _at_ms: int) -> None:
        """Finds the next heartbeat that is lost, or whose answer is: the client wakes for it."""
        name = skipped.client.name
        if self.skipped.get(name) is not skipped:
            return
        lost = self.channel.foresee_loss(name, ahead + AHEAD)
        if lost is None:
            next_ms = skipped.due_ms + (ahead + AHEAD) * skipped.interval_ms
            self.channel.at(next_ms, partial(self._look_ahead, skipped, ahead + AHEAD))
        else:
            self.channel.at(skipped.due_ms + lost * skipped.interval_ms, lambda _: self._wake_for_loss(skipped))

    def _wake_for_loss(self, skipped: SkippedClient) -> None:
        if self.skipped.get(skipped.client.name) is skipped:
            self.wake((skipped.client.name,))

    def wake(self, names: Iterable[str] | None = None) -> bool:
        """Wakes the skipped ones of these clients, or of all; returns whether there were any.

        Their messages in flight come next, before the event for which they are woken.
        """
        found = [name for name in sorted(self.skipped if names is None else names) if name in self.skipped]
        self._set_sessions({self.skipped[name].member_id: self._wake_one(self.skipped[name]) for name in found})
        for name in found:
            del self._skipped_ids[self.skipped.pop(name).member_id]
        return bool(found)

    def _wake_one(self, skipped: SkippedClient) -> int:
        """Sets the client to the state after execution; returns when its session ends."""
        client, count = skipped.client, 0
        if self.now_ms >= skipped.due_ms:
            count = (self.now_ms - skipped.due_ms) // skipped.interval_ms
            last = self.channel.foresee(client.name, count, skipped.due_ms + count * skipped.interval_ms)
            count += last is not None and last[1] < self.now_ms
        deadline_ms = skipped.deadline_ms
        if count:
            last = self.channel.foresee(client.name, count - 1, skipped.due_ms + (count - 1) * skipped.interval_ms)
            assert last is not None  # noqa: S101  # a client is not skipped over a loss
            arrived_ms, answered_ms = last
            let_pass(client.member, count * skipped.interval_ms, answered_ms - skipped.answered_ms)
            self.channel.pass_over(client.name, count)
            self._handled_ms[client.name] = self._started_ms + arrived_ms
            deadline_ms = self._handled_ms[client.name] + skipped.timeout_ms
            self.on_passed(skipped.due_ms, skipped.interval_ms, count)
        due_ms = skipped.due_ms + count * skipped.interval_ms
        client.background.next_turn_ms = self._due[client.name] = due_ms
        heappush(self._dues, (due_ms, client.name))
        return deadline_ms

    def _set_sessions(self, deadlines_ms: dict[str, int]) -> None:
        group = self.group
        if group is None or not deadlines_ms:
            return
        if isinstance(group, ClassicGroup):
            group = replace(group, heartbeat_deadlines_ms=group.heartbeat_deadlines_ms.set_all(deadlines_ms))
        else:
            timers = group.timers.set_all({(TimerKind.SESSION, i): at_ms for i, at_ms in deadlines_ms.items()})
            group = replace(group, timers=timers)
        self.host.state = self.host.state.with_group(group)

    # Steps of the coordinator are checked first: if one may matter to skipped clients, they are woken before

    def _receive(self, name: str, request: Any, on_response: Callable[[Any], None], *, is_duplicate: bool) -> bool:
        self._before = self.host.fork()
        handled_ms = self._started_ms + self.now_ms
        if not super()._receive(name, request, on_response, is_duplicate=is_duplicate):
            assert self.channel.taken is not None  # noqa: S101  # requests arrive by the channel
            self.channel.put(self.channel.taken)
            return False
        self._handled_ms[name] = handled_ms
        return True

    def _expire(self) -> None:
        self._before = self.host.fork()
        super()._expire()

    def _accept(self, before: Group | None) -> bool:
        """Undoes a step of the coordinator if it may matter to skipped clients, and wakes them."""
        after = self.group
        if before is after or not self._moves(before, after):
            return True
        self._versions += 1
        if not self.skipped:
            return True
        self.host = self._before
        self.wake()
        return False

    def _moves(self, before: Group | None, after: Group | None) -> bool:
        """Whether the step may change responses to other clients than the sender."""
        if isinstance(before, ClassicGroup) and isinstance(after, ClassicGroup):
            return _differ(OF_CLASSIC(before), OF_CLASSIC(after))
        if not isinstance(before, ConsumerGroup) or not isinstance(after, ConsumerGroup):
            return True
        if OF_CONSUMERS(before) != OF_CONSUMERS(after):
            return True
        changed = after.targets.differing(before.targets) | after.members.by_id.differing(before.members.by_id)
        return not self._skipped_ids.keys().isdisjoint(changed)

    def _find_concerned(self, change: Change) -> Collection[Client]:
        old, new = change.before, change.after
        if isinstance(old, ClassicGroup) and isinstance(new, ClassicGroup):
            if old.generation != new.generation or old.state is not new.state:
                return self.clients.values()
        elif not isinstance(old, ConsumerGroup) or not isinstance(new, ConsumerGroup):
            return self.clients.values()
        changed = {self._clients_by_id.get(i) for i in new.members.by_id.differing(old.members.by_id)}
        return [
            self.clients[name] for name in sorted({change.client, *(n for n in changed if n)} & self.clients.keys())
        ]

    def schedule(self, at_ms: int, act: Callable[[], None], concerned: Callable[[], Collection[str]]) -> None:
        """Schedules an external event; the clients it concerns are woken before."""

        def come(_at_ms: int) -> None:
            taken = self.channel.taken
            if self.wake(concerned()) and taken is not None:
                self.channel.put(taken)
            else:
                act()

        self.channel.at(at_ms, come)


def _is_settled(group: Group) -> bool:
    """Whether no target computation is due, and no rebalance is in progress."""
    if isinstance(group, ConsumerGroup):
        return group.epoch == group.target_epoch and not group.metadata_due
    return group.state is State.STABLE and group.sync_phase is None


def _is_served(group: Group, record: Any) -> bool:
    """Whether a member has its whole target assignment, so that other members do not change its next response."""
    if isinstance(group, ClassicGroup):
        return True
    return record.epoch == group.target_epoch and record.current.state is MEMBER_STABLE


def _session_ms(group: Group, member_id: str) -> int | None:
    """When a member's session ends; None if it has none, or if another timer of it runs as well."""
    if isinstance(group, ClassicGroup):
        found: int | None = group.heartbeat_deadlines_ms.get(member_id)
        return found
    others = (TimerKind.REBALANCE, TimerKind.JOIN, TimerKind.SYNC)
    if any((kind, member_id) in group.timers for kind in others):
        return None
    return group.timers.get((TimerKind.SESSION, member_id))


def _differ(these: tuple[Any, ...], those: tuple[Any, ...]) -> bool:
    """Whether values differ: numbers are compared by value, other values by identity."""
    return any(a is not b and not (type(a) is int and a == b) for a, b in zip(these, those, strict=True))


def _ignore(*_: Any) -> None: ...
