"""A Connect cluster: production workers, the production coordinator with their classic group, and the config topic.

Properties: no unit runs in two workers in good standing, no error ends a worker, the invariants of the assignor and of
workers hold, and, without further disturbance, all configured units come to run, in balance, including those of a lost
worker once the delay is over.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from fsm.check.kafka.application import BROKER, GROUP, NOW
from fsm.check.kafka.classic.coordinator import AnyCoordinator
from fsm.check.kafka.classic.group import (
    CLASSIC_SETTINGS,
    ClassicGroupProperties,
    count_syncs,
    describe_request,
    speaking,
)
from fsm.check.kafka.classic.promises import ASKED_OF_STEPS as ASKED_OF_GROUP
from fsm.check.kafka.connect.process import Order, list_units
from fsm.check.kafka.connect.replay import replay
from fsm.check.kafka.connect.topic import TOPIC, ConfigTopic, describe_reading
from fsm.check.kafka.connect.worker import ASKED_OF_STEPS, DELAY_OVER, WorkerModel
from fsm.check.kafka.consumer.group import ANSWERS, DUPLICATES, NAMES, REQUESTS, choose_names, one_each
from fsm.check.kafka.topics import NO_TOPICS
from fsm.check.model import Condition, Goal, Model, Path, Property, View, Wire
from fsm.check.walk import Walk
from fsm.connect.dialect import SHIPPED, Rule
from fsm.connect.dialect import profile as profile_of
from fsm.connect.protocol import decode_assignment
from fsm.connect.worker.config import ConnectConfig
from fsm.coordinator.model.context import Context
from fsm.coordinator.model.dialect import dialect as coordinator_dialect
from fsm.coordinator.model.persistent import PersistentMap
from fsm.errors import InputError
from fsm.protocol.messages import (
    JoinGroupResponse,
    LeaveGroupRequest,
    SyncGroupResponse,
    TransportFailure,
)
from fsm.protocol.releases import LATEST

if TYPE_CHECKING:
    from fsm.check.model import Mask

PROTOCOLS = ("eager", "compatible", "sessioned")
ROUNDS = 5
"""The number of rounds while a worker is behind in the config topic from which on `goes_round` holds."""
DISTURBANCES = (
    *("bounce", "config", "connector_paused", "connector_restarted", "connector_resumed", "connector_stopped"),
    *("crash", "early_delay", "expire", "failover", "freeze", "leave", "poll_timeout", "rebalance_timeout"),
    *("rejoin", "slow_read", "unreachable"),
)
NOT_MODELLED = (
    "tasks that keep running after their stop",
    "task configs that an instance publishes as it starts",
    "the work of a connector while it pauses",
    "a request that a leader forwards or refuses",
    "a second heartbeat before the first is answered",
    "the worker's session timer",
    DUPLICATES,
)


def connect(
    members: int = 2,
    connectors: Mapping[str, int] = PersistentMap({"A": 2}),
    protocol: str = "sessioned",
    delay: int = 300_000,
    coordinator: str = LATEST,
    *,
    profile: str = SHIPPED.name,
    scenario: str = "",
    settled: bool = False,
    loading: bool = False,
) -> Model:
    """Workers, connectors with their numbers of tasks, and `scheduled.rebalance.max.delay.ms`.

    It begins with workers that are not started, or, `settled`, with all of them started and the first one leading. A
    scenario is also settled, and has its own three workers and connectors. Workers may have one protocol each
    (`sessioned,eager`); `loading` is as in `consumer_group`. Raises `InputError` for too many workers, for an unknown
    protocol, profile or scenario.
    """
    chosen = scenario_of(scenario) if scenario else Scenario(NAMES[:members] if settled else "", {})
    members, connectors = (3, CONNECTORS) if scenario else (members, connectors)
    names = choose_names(members, "workers")
    protocols = one_each(
        protocol, members, "--protocol", "protocols", known=PROTOCOLS, kind="protocol of Connect", whose="worker"
    )
    topic = ConfigTopic(names, connectors)
    rules = profile_of(profile)
    config = ConnectConfig(GROUP, scheduled_rebalance_max_delay_ms=delay, profile=rules)
    workers = [
        WorkerModel(
            name, replace(config, connect_protocol=version), topic, chosen.story.get(name), waits=name in chosen.delayed
        )
        for name, version in zip(names, protocols, strict=True)
    ]
    context = Context(NOW, coordinator_dialect(coordinator), CLASSIC_SETTINGS)
    hub, asked = _Coordinator(names, NO_TOPICS, context, loads=loading), _ClusterProperties(names, NO_TOPICS)
    asked.balanced = ("units",) if Rule.TOTAL_BALANCE in rules else ("connectors", "tasks")
    if {*protocols} == {"eager"}:  # connectors and tasks are dealt in one go
        asked.balanced = "connectors", "tasks", "units"
    settings = ", ".join(f"{name} with {count} tasks" for name, count in sorted(connectors.items()))
    begins = scenario or ("from where they have settled" if settled else "")
    by = "" if rules is SHIPPED else f"profile {rules.name}"
    loads = "with a coordinator that loads" if loading else ""
    parts = (f"connect, {members} {protocol} workers", by, f"coordinator of {coordinator}", settings, begins, loads)
    model = Model(
        ", ".join(filter(None, parts)),
        [*(one.component() for one in workers), topic.component(), hub.component()],
        [*_wires(names)],
        asked.properties(),
        asked.goal(),
        asked.conditions(),
        {
            "deleted": asked.keeps_deleted,
            "rounds": asked.goes_round,
            "zombie": asked.has_zombie,
            **({"loading": asked.syncs_too_early} if loading else {}),
        },
        disturbances=DISTURBANCES,
        asked_of_steps=(*ASKED_OF_STEPS, *ASKED_OF_GROUP),
        not_modelled=NOT_MODELLED,
    )
    before = settle(model, chosen.there) if chosen.there else ()
    start = before[-1][1] if before else {}

    components = [replace(one, start=start.get(one.name, one.start)) for one in model.components]
    return replace(model, components=components, replay=partial(replay, workers, hub, before))


def _wires(names: Sequence[str]) -> Iterable[Wire]:
    features = {"ids": speaking, "syncs": count_syncs}
    yield from (Wire(name, BROKER, REQUESTS, features=features, describe=_describe) for name in names)
    yield from (Wire(BROKER, name, ANSWERS, features=features, describe=_describe) for name in names)
    for name in names:
        yield Wire(name, TOPIC)
        yield Wire(TOPIC, name, describe=describe_reading)


class _Coordinator(AnyCoordinator):
    """A coordinator that does not decode assignments."""

    of_members = ("member", "id", "epoch", "previous", "unjoined", "unsynced")

    def tell_assignment(self, assignment: bytes) -> str:
        """The assignment in a SyncGroup response, as text."""
        return list_units(decode_assignment(assignment).assigned) if assignment else "nothing"


class _ClusterProperties(ClassicGroupProperties):
    """The properties of a Connect cluster."""

    balanced: tuple[str, ...] = ()
    """The kinds of units that are balanced: numbers of workers differ by at most one."""

    def properties(self) -> list[Property]:
        """The properties; for a worker in good standing the units running in its process count, not those it holds."""
        return [
            Property("no connector or task runs twice", self._one_user, "no unit runs on two workers in good standing"),
            Property("no error ends a worker", self._nobody_crashes, "no worker is terminated by an error"),
        ]

    def goal(self) -> Goal:
        meaning = (
            "without further disturbances, exactly the configured units eventually run, balanced, and workers settle"
        )
        return Goal("the cluster settles", self._is_settled, (), meaning)

    def conditions(self) -> dict[str, Condition]:
        """The conditions under which timers expire without a disturbance."""
        return {**super().conditions(), DELAY_OVER: self._no_delay}

    def has_zombie(self, view: View) -> Mask:
        """Whether a worker that lost its membership still runs a unit that another one runs."""

        def is_fine(one: str, other: str) -> Any:
            apart = (view.of(one, "using") & view.of(other, "using")) == 0
            return apart | ((view.of(one, "zombie") == 0) & (view.of(other, "zombie") == 0))

        return ~self._all_pairs(view, is_fine)

    def keeps_deleted(self, view: View) -> Mask:
        """Whether all are idle while a worker keeps deleted units: the leader does not remember that they existed."""
        keeps = self._any(lambda name: (view.of(name, "using") & ~view.of(TOPIC, "configured")) != 0)
        found: Mask = keeps & (view.of(BROKER, "rests") == 1) & self._all(lambda name: view.of(name, "rests") == 1)
        return found

    def goes_round(self, view: View) -> Mask:
        """Whether rounds follow each other without pause until a worker that is behind reads the config topic."""
        behind = self._any(lambda name: view.on(TOPIC, name) > 0)
        return behind & self._any(lambda name: view.of(BROKER, f"epoch {name}") > ROUNDS)

    def _no_delay(self, view: View) -> Mask:
        return self._all(lambda name: view.of(name, "remembers") == 0)

    def _is_settled(self, view: View) -> Mask:
        good = (view.of(BROKER, "rests") == 1) & (view.of(TOPIC, "unwritten") == 0)
        running, anybody = np.zeros(len(view), np.int64), np.zeros(len(view), np.bool_)
        for name in self.names:
            wants, member = view.of(name, "wants") == 1, view.of(BROKER, f"member {name}") == 1
            good &= (view.of(name, "rests") == 1) & np.where(wants, member & self._stands_well(view, name), ~member)
            good &= ~wants | ((running & view.of(name, "using")) == 0)
            running |= np.where(wants, view.of(name, "using"), 0)
            anybody |= wants
        for kind in self.balanced:
            sizes = [(view.of(name, "wants") == 1, view.of(name, kind)) for name in self.names]
            most = np.max([np.where(wants, size, 0) for wants, size in sizes], axis=0)
            least = np.min([np.where(wants, size, 1 << 30) for wants, size in sizes], axis=0)
            good &= (most - least <= 1) | ~anybody
        settled: Mask = good & (~anybody | (running == view.of(TOPIC, "configured")))
        return settled


def _describe(message: Any) -> str:
    if not isinstance(message, Order):
        order, answer = message
        return _describe_answer(order.body, answer)
    return describe_request(message.body, _assignment)


def _describe_answer(asked: Any, answer: Any) -> str:
    if isinstance(answer, TransportFailure):
        return "the connection broke" if answer.disconnected else "is given up unanswered"
    code = "ok" if answer.error_code.name == "NONE" else answer.error_code.name
    match answer:
        case JoinGroupResponse(generation_id=int(generation), leader=leader, member_id=who) if code == "ok":
            return f"generation {generation} as {who}" + (", leads" if leader == who else "")
        case SyncGroupResponse(assignment=given) if code == "ok":
            return _assignment(given)
    return code if code != "ok" or not isinstance(asked, LeaveGroupRequest) else "left"


def _assignment(given: bytes) -> str:
    if not given:
        return "nothing"
    one = decode_assignment(given)
    taken = f", takes {list_units(one.revoked)}" if one.revoked else ""
    return f"+{list_units(one.assigned)}{taken}" + (f", delay {one.delay_ms} ms" if one.delay_ms else "")


CONNECTORS = {"A": 2, "B": 1}
"""The connectors of each scenario, with their numbers of tasks."""


class Scenario(NamedTuple):
    """The workers at the beginning, the leader first, and the single action of some of the three workers."""

    there: str
    story: Mapping[str, str]
    delayed: str = ""
    """The worker that acts while its scheduled rebalance delay is in progress."""


SCENARIOS = {
    "non_first_new_member_joins": Scenario("a", {"b": "starts", "c": "starts"}),
    "worker_leaves": Scenario("abc", {"b": "stops"}),
    "worker_bounces": Scenario("abc", {"b": "is bounced"}),
    "leader_leaves": Scenario("abc", {"a": "stops"}),
    "leader_bounces": Scenario("abc", {"a": "is bounced", "b": "is bounced"}, "a"),
}
LAST = "initial rebalance delay is over"
"""The step that is taken last, so that all workers have joined before."""
NOT_NOW = ("starts", "stops", "is bounced", "heartbeat interval is over")
SETTLED_AFTER = 200
"""The number of steps after which a cluster has settled; three workers take 35."""


def scenario_of(name: str) -> Scenario:
    """The scenario of that name. Raises `InputError` if there is none."""
    if name not in SCENARIOS:
        raise InputError(f"unknown scenario {name!r}", "--scenario", f"choose from {', '.join(SCENARIOS)}")
    return SCENARIOS[name]


def settle(model: Model, there: str) -> Path:
    """A path without disturbances to a stable cluster of these workers, led by the first one.

    Raises `InputError` if there is none: the rules of the workers may have been changed.
    """
    walk = Walk(model)
    for name in there:
        walk.take(f"{name} starts")
    while free := [one for one in walk.options() if not one.disturbance and one.action not in NOT_NOW]:
        if len(walk.path) > SETTLED_AFTER:
            raise InputError(f"has not settled after {SETTLED_AFTER} steps", model.name, "begin without --settled")
        walk.take(str(next((one for one in free if one.action != LAST), free[0])))
    return walk.path
