"""A path of a Connect cluster taken once more: workers whose clocks run, and a host with tokens and a log.

A timer that the path says is over is made due, in the worker as in the coordinator; whatever is left of a delay is then
a little less than the model says, which has no bearing but on the bytes that tell it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fsm.check.kafka.application import BROKER, NOW
from fsm.check.kafka.classic_replay import book
from fsm.check.kafka.connect_process import Life, Order, Process, hear, seen
from fsm.check.kafka.connect_topic import TOPIC
from fsm.check.kafka.connect_worker import WorkerModel
from fsm.check.kafka.live_broker import LiveBroker
from fsm.check.kafka.telling import Seen, tell_difference
from fsm.check.model import Action, Path, Received
from fsm.connect.worker.inputs import Send
from fsm.coordinator.host import Host
from fsm.coordinator.model.context import Context
from fsm.protocol.messages import TIMED_OUT


class _LiveWorker:
    """A worker with its own clock, its process and its connection."""

    def __init__(self, new: Process, now_ms: int) -> None:
        self.new = self.process = new
        self.now_ms = now_ms
        self.out: list[Order] = []
        self.late: list[Order] = []
        self.back: list[tuple[Order, Any]] = []

    def act(self, what: Any) -> None:
        """A choice, what the config topic says, or the end of a request."""
        if what == "starts":
            self.process = self.new._replace(lives=self.process.lives + 1, life=Life.ALIVE)
        elif self.process.life is Life.ALIVE and what == "is killed":
            self._hang_up(Life.GONE)
        elif self.process.life is Life.ALIVE:
            self.now_ms += 1
            process, effects, _ = hear(self.process, what, self.now_ms)
            sent = [Order(process.lives, one.number, one.body) for one in effects if isinstance(one, Send)]
            if what in ("stops", "is bounced"):
                self._hang_up(Life.AWAY if what == "is bounced" else Life.GONE)
            else:
                self.process = process
            self.out += sent

    def end(self, order: Order, answer: Any) -> None:
        """A request is answered, or given up."""
        self.act(Received(BROKER, (order, answer)))

    def _hang_up(self, life: Life) -> None:
        self.late += self.out
        self.out, self.back = [], []
        self.process = self.new._replace(lives=self.process.lives, life=life)


class ConnectReplay:
    """Live workers and a live coordinator, driven along a path of a model whose first wires are their requests."""

    def __init__(self, models: Sequence[WorkerModel], context: Context) -> None:
        self.models = {one.name: one for one in models}
        self.names = tuple(self.models)
        self.workers = {one.name: _LiveWorker(one.new, NOW + 1_000 * at) for at, one in enumerate(models, 1)}
        self.broker = LiveBroker(self.workers, context, _is_same, lambda _: False)

    def along(self, path: Path) -> str:
        """Takes the path. Gives what differs first from the model; empty where nothing does."""
        for number, (action, after) in enumerate(path, 1):
            self._take(action)
            for name, state in after.items():
                if name == TOPIC:
                    continue
                live, wanted = (
                    (_book(self.broker.host), _book(Host(state=state.state)))
                    if name == BROKER
                    else (seen(self.workers[name].process), seen(state))
                )
                if differs := tell_difference(name, live, wanted):
                    return f"step {number}, {action.actor} {action.what}: {differs}"
        return ""

    def _take(self, action: Action) -> None:
        self.broker.pass_time()
        many, wire = len(self.names), action.wire
        match action:
            case Action(actor="broker") if wire < 0:
                self.broker.act(action.what)
            case Action(actor=name, what=what) if wire < 0 and name != TOPIC:
                choices = self.models[name].choices(self.workers[name].process)
                self.workers[name].act(next((one.given for one in choices if one.label == what and one.given), what))
            case Action(what="receives" | "receives late") if 0 <= wire < many:
                self.broker.request(self.names[wire], action)
            case _ if 0 <= wire < many:
                worker = self.workers[action.actor]
                order = worker.out.pop(0)
                worker.late += [order] if action.what == "late" else []
                worker.end(order, TIMED_OUT)
            case Action(actor=name, message=(Order(), answer)) if wire >= 0:
                worker = self.workers[name]
                if worker.back:
                    order, answer = worker.back.pop(0)
                    worker.end(order, answer if action.what == "receives" else TIMED_OUT)
            case Action(actor=name, message=message) if wire >= 0 and name != TOPIC:
                self.workers[name].act(Received(TOPIC, message))


def _is_same(one: Order, asked: Order) -> bool:
    return one[:2] == asked[:2] and type(one.body) is type(asked.body)


def _book(host: Host) -> Seen:
    """The group without what its leader told: the bytes say what is left of a delay."""
    found = book(host.state)
    return {**found, "assignments": sorted(found["assignments"])} if "assignments" in found else found
