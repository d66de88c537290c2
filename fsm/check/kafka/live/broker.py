"""The live coordinator of a replay: a host with the real log, real tokens and a clock.

A timer that expires in the path is made due. A response is sent to the requesting client; a request without one ends
when its client abandons it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from fsm.check.kafka.application import GROUP
from fsm.check.kafka.classic.coordinator import (
    end_delayed,
    find_unanswered,
    is_used,
    next_number,
)
from fsm.check.kafka.consumer.compaction import FROM_CLEANED, FROM_COMPACTED, append, load_from
from fsm.check.kafka.consumer.coordinator import (
    FAILS_OVER,
    LOADED,
    MOVES,
    RESOLVED,
    TAKES_OVER,
    Broker,
    CoordinatorModel,
    answer_for_group,
    end_task,
    run_out,
    version_of,
)
from fsm.check.kafka.consumer.member import FIND, FOUND
from fsm.check.kafka.live.consumers import Abandoned
from fsm.check.model import Action, Received
from fsm.coordinator.host import Host
from fsm.coordinator.model.classic_group import ClassicGroup
from fsm.coordinator.model.context import Context
from fsm.coordinator.model.groups import Group
from fsm.coordinator.model.timers import TimerKind
from fsm.protocol.messages import TIMED_OUT


class Client(Protocol):
    """A client: its requests in flight, its abandoned requests, and the responses in flight."""

    out: list[Any]
    late: Abandoned
    back: list[tuple[Any, Any]]


class LiveBroker:
    """The live coordinator of a replay."""

    def __init__(
        self,
        clients: Mapping[str, Client],
        context: Context,
        model: CoordinatorModel,
        is_same: Callable[[Any, Any], bool],
        is_gone: Callable[[str], bool] = lambda _: False,
        *,
        converts: bool = False,
    ) -> None:
        """`is_same` identifies the late request of a path; a client for which `is_gone` holds gets no response.

        The `model` is that of the path's coordinator.
        """
        self.host = Host(context, resolves=False)
        self._clients, self._is_same, self._is_gone = clients, is_same, is_gone
        self._model, self._converts = model, converts
        self._made = dict.fromkeys(clients, 0)
        self._asked: dict[int, tuple[str, Client, Any, bool]] = {}
        self._at = Broker()
        """Has the clients that still send requests to the former coordinator's broker, and whether it loads its log."""

    def pass_time(self) -> None:
        """Advances the clock by a millisecond."""
        self.host.context = self.host.context.at(self.host.now_ms + 1)

    def request(self, name: str, action: Action) -> None:
        """Handles a request of a client, or loses it together with the broker that handled it; nothing happens if the
        live client has no such request in flight.
        """
        client, late = self._clients[name], action.what == "receives late"
        if late:
            found = client.late.take(lambda one: self._is_same(one, action.message))
        else:
            found = (client.late.connection, client.out.pop(0)) if client.out else None
        if found is None:
            return
        connection, order = found
        if action.what == "lost":
            self._fail_over(FAILS_OVER)
            client.back.append((order, FOUND if order == FIND else self._model.lost))
            return
        answered = answer_for_group(self._at, Received(name, order, late), self.host.context)
        if answered is not None:
            self._at = answered.state
            client.back += [answer for _, answer in answered.sends]
            return
        token = len(self._asked) + 1
        self._asked[token] = name, client, order, late
        number = next_number(self._made[name], action.message, converts=self._converts)
        fresh = f"{name}{number}"
        before = self.host.state.groups.get(GROUP)
        version = version_of(order.body, self.host.context)
        sent = self.host.send(name, order.body, version, fresh_id=fresh, token=token, connection=connection)
        if is_used(fresh, order.body, sent.answers, self.host.state.groups.get(GROUP)):
            self._made[name] = number + 1
        self._answer(before, sent.answers)

    def learn(self, changes: tuple[str, ...]) -> None:
        """Updates its metadata after these changes of topics."""
        self.host.update(self._model.known.image(changes))

    def act(self, what: str) -> None:
        """Takes a step of the coordinator: a failover, or a timer that expires."""
        group: Any = self.host.state.groups[GROUP]
        if what in TAKES_OVER:
            self._fail_over(what)
            return
        if what == LOADED:
            self._at = self._at._replace(loading=False)
            return
        if what == RESOLVED:
            self.host.resolve()
            return
        choices = self._model.choices(self._at._replace(state=self.host.state))
        timer: Any = next((choice.given for choice in choices if choice.label == what), None)
        if timer is None:
            self.host.state = end_task(self.host.state, what, self.host.context).state
            return
        self.host.state = self.host.state.with_group(run_out(group, timer, self.host.now_ms))
        self._answer(group, self.host.expire(self.host.now_ms))

    def _fail_over(self, what: str) -> None:
        """Lets another broker take over; delayed requests end."""
        ended = end_delayed(self.host.state.groups.get(GROUP), what, self.host.context)
        if what in (FROM_COMPACTED, FROM_CLEANED):
            log = append((), self.host.records)
            self.host.state = load_from(log, what, self.host.context)
        else:
            self.host.fail_over()
        self._at = self._at._replace(loading=self._model.loads)
        if what == MOVES:
            self._at = self._at._replace(elsewhere=frozenset(self._clients))
        self._answer(None, ended)

    def expire(self) -> None:
        """Fires the timers that are due; it has loaded its log by then."""
        self._at = self._at._replace(loading=False)
        before = self.host.state.groups.get(GROUP)
        self._answer(before, self.host.expire(self.host.now_ms))

    def timers(self) -> dict[str, int]:
        """When each of its timers expires, by its name in a path."""
        group = self.host.state.groups.get(GROUP)
        due_ms: dict[Any, int] = {}
        if isinstance(group, ClassicGroup):
            waits = {*group.delayed_joins, *group.delayed_syncs}  # their sessions are kept
            sessions = group.heartbeat_deadlines_ms.in_order()
            due_ms = {(TimerKind.SESSION, who): at_ms for who, at_ms, _ in sessions if who not in waits}
            for kind, phase in ((TimerKind.JOIN, group.join_phase), (TimerKind.SYNC, group.sync_phase)):
                if phase is not None:
                    due_ms[kind, ""] = phase.deadline_ms
        elif group is not None:
            due_ms = {timer: at_ms for timer, at_ms, _ in group.timers.in_order()}
        choices = self._model.choices(self._at._replace(state=self.host.state))
        return {one.label: due_ms[one.given] for one in choices if one.given in due_ms}

    def _answer(self, before: Group | None, answers: Sequence[tuple[int, Any]]) -> None:
        given_up = find_unanswered(before, self.host.state.groups.get(GROUP), answers)
        for token, body in (*answers, *((token, TIMED_OUT) for token in given_up)):
            name, client, order, late = self._asked[token]
            if not late and not self._is_gone(name):
                client.back.append((order, body))
