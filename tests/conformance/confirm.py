"""Runs the checker's counterexamples on a real Kafka: `make confirm`.

    python tests/conformance/confirm.py [W8 W9 ...] [--disturb KINDS --disturbances K --client DIALECT]

For each weak spot the checker searches its shortest path. The requests of the path are sent to a broker on loopback in
order, with the ids and epochs of this broker; every answer must equal the model's. Then the harm is verified: a
partition without a user, or two users whose heartbeats and commits are accepted. A late request has a connection of its
own, and its answer is ignored. Exit status 1 if the broker deviates from the model, which is then wrong. With
`--disturb` the path of any counterexample is run. W4, which is fixed in the latest release, runs by the rules of the
broker's release (`KAFKA_RELEASE=4.1.2`). For W28, W29 and W33 the broker is started again, for W36 it leads its
partitions, another one does, and it does again. For W22, W23, W27, W32 and W35 Java clients are run, for W26 workers of
Connect: requests do not show what an application does.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
import uuid
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, is_dataclass, replace
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any

import loading
import numpy as np
from forgotten import confirm_forgotten
from full_group import SIZE, confirm_full
from hanging import NUMBER as HANGING
from hanging import confirm_hanging
from java_members import (
    EAGER,
    OTHER,
    OTHER_PARTITIONS,
    PARTITIONS,
    RECREATED_PARTITIONS,
    confirm_grown,
    confirm_recreated,
    confirm_resubscribed,
    confirm_woken,
)
from kafka_broker import RELEASE, STEPS, TOOLS, NoBrokerError, broker
from kafka_broker import Kafka as Node
from rejoining import NUMBER, confirm_rejoining
from workers import confirm_frozen

from fsm.check import Model, Property, Walk
from fsm.check.kafka.application import BROKER, App
from fsm.check.kafka.classic.group import classic_group
from fsm.check.kafka.consumer.group import consumer_group
from fsm.check.kafka.mixed.group import mixed_group
from fsm.check.kafka.topics import CLUSTER, GROWN
from fsm.check.model import Action, PairProperty, View
from fsm.check.search import Search
from fsm.check.verdict import states_on
from fsm.conformance.broker_peer import OFFSETS_TOPIC, Topics
from fsm.member.classic.state import ClassicMember
from fsm.protocol.error_codes import ErrorCode
from fsm.protocol.messages import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
    FindCoordinatorRequest,
    HeartbeatRequest,
    JoinGroupResponse,
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    SyncGroupResponse,
)
from fsm.wire.connection import Connection

PATIENCE_S, PARKED_S, READY_S, EXPIRY_S = 15.0, 1.0, 60.0, 180.0
ATTEMPTS, BY_CHANCE = 30, ("W5", "W16")
"""A broker creates random ids of classic members, which determine the assignment of two partitions: 11 of 30 attempts
followed the path of W16."""
BEATS, BEAT_S = 5, 0.5
"""Number of heartbeats without news that count as rest, and their interval."""
PASSING = (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
SETTINGS = {**STEPS, "group.initial.rebalance.delay.ms": "2000"}
POLICY = "group.consumer.migration.policy"
DELAY_S = 2.5
TOPIC, EVERYTHING = "foo", 3
"""A topic of two partitions, and the mask of both."""
Taken = Sequence[tuple[Action, Mapping[str, Any]]]
"""A path: each action, and the states after it."""
LONG_MS = {"rebalance_timeout_ms": 300_000, "session_timeout_ms": 45_000}
"""Timeouts that do not expire during a path: the model has no clock."""
REBALANCE_S = 10.0
"""Rebalance timeout of members for which it expires; longer than the path until then."""


def settings(policy: str) -> dict[str, str]:
    """Settings of a broker with that migration policy."""
    return {**SETTINGS, POLICY: policy}


# What is asked of the checker: states that last, with nothing under way


def is_quiet(view: View, names: Sequence[str]) -> Any:
    """No request or answer is in flight, except late ones."""
    lines = [view.on(*pair, "line") == 0 for name in names for pair in ((name, BROKER), (BROKER, name))]
    return np.logical_and.reduce(lines)


def one_user(names: Sequence[str], *, answered: bool) -> Property:
    """No partition has two users in good standing; with `answered` without requests and answers in flight."""

    def holds(view: View) -> Any:
        standing = np.ones(len(view), np.bool_)
        for name in names:
            epoch = view.of(name, "epoch")
            known = epoch == view.of(BROKER, f"epoch {name}")
            if not answered:
                known |= epoch == view.of(BROKER, f"previous {name}")
            standing &= known & (epoch > 0) & (view.of(BROKER, f"member {name}") == 1)
        used = (view.of(name, "using") for name in names)
        both = np.bitwise_and.reduce(list(used)) != 0
        quiet = is_quiet(view, names) if answered else True
        return ~(both & standing & quiet)

    return Property("no partition has two users", holds)


def uses_assigned(names: Sequence[str]) -> Property:
    """A group at rest uses what it is assigned."""

    def holds(view: View) -> Any:
        rests = is_quiet(view, names) & (view.of(BROKER, "rests") == 1)
        differs = np.zeros(len(view), np.bool_)
        for name in names:
            rests &= (view.of(name, "rests") == 1) & (view.of(BROKER, f"member {name}") == 1)
            differs |= view.of(name, "using") != view.of(BROKER, f"assigned {name}")
        return ~(rests & differs)

    return Property("a group at rest uses what it is assigned", holds)


def not_stranded(view: View) -> Any:
    """A consumer group of classic members alone comes to its target."""
    left = is_quiet(view, "ab") & (view.of(BROKER, "member a") == 0) & (view.of(BROKER, "consumer") == 1)
    some = (view.of("b", "using") != 0) & (view.of("b", "using") != EVERYTHING)
    return ~(left & (view.of(BROKER, "rests") == 0) & some & (view.of("b", "rests") == 1))


def everything_is_used(names: Sequence[str], *, classic: bool) -> Property:
    """A group at rest, of that type, leaves no partition unused that a member subscribes to."""

    def holds(view: View) -> Any:
        rests = is_quiet(view, names) & (view.of(BROKER, "rests") == 1) & (view.of(BROKER, "consumer") != classic)
        used, wants = np.zeros(len(view), np.int64), np.zeros(len(view), np.bool_)
        for name in names:
            is_it = view.of(name, "epoch") == view.of(BROKER, f"epoch {name}")
            is_it &= (view.of(name, "id") == view.of(BROKER, f"id {name}")) & (view.of(name, "wants") == 1)
            rests &= (view.of(name, "rests") == 1) & (is_it | (view.of(BROKER, f"member {name}") == 0))
            wants |= view.of(name, "wants") == 1
            used |= view.of(name, "using")
        return ~(rests & wants & (used != EVERYTHING))

    return Property("a group at rest uses everything", holds)


def nobody_is_ended(names: Sequence[str]) -> Property:
    """No application is ended whose member was in the group."""

    def holds(view: View) -> Any:
        ended = [(view.of(name, "crashed") == 1) & (view.of(name, "epoch") > 0) for name in names]
        return ~np.logical_or.reduce(ended)

    return Property("no member's application is ended", holds)


def questions(model: Model, asked: Property | PairProperty) -> Model:
    """The model with this property only."""
    ignored = frozenset(model.asked_of_steps)
    return replace(model, properties=[asked], goal=None, ignored_of_steps=ignored)


@dataclass(frozen=True)
class Spot:
    """A weak spot: where the checker finds it, and how the harm shows itself."""

    number: str
    what: str
    model: Model
    kinds: tuple[str, ...]
    disturbances: int = 1
    shows: str = "double"
    """`double`: two users; `stale double`: one of them has a stale epoch; `lost grant`: a partition that nobody uses;
    `stranded`: a group that never gets a target; `unused`: one that rests, and leaves a partition unused; empty: the
    answers are the harm."""
    policy: str = "upgrade"
    """`group.consumer.migration.policy` of the broker."""
    steps: str = ""
    """The steps of the path, if a search would take too long."""
    partitions: int = 2
    known: tuple[str, ...] = ()
    """Other hazards, which the search cuts off."""

    def find_path(self) -> Taken:
        """The given path, or the shortest one; empty if there is none."""
        if not self.steps:
            search = Search(self.model, frozenset(self.kinds), self.disturbances, self.known).run()
            return states_on(search, next(iter(search.found.values())).state) if search.found else ()
        walk = Walk(self.model)
        for step in self.steps.splitlines():
            walk.take(step)
        return walk.path if walk.list_broken() else ()


def spots() -> Iterator[Spot]:
    """The weak spots of the latest release, according to the checker."""
    both = ("a", "b")
    all_answered, some_lost = one_user(both, answered=True), one_user(both, answered=False)
    yield Spot(
        "W8",
        "A: a late request swallows a grant",
        questions(consumer_group(), uses_assigned(both)),
        ("late",),
        1,
        "lost grant",
    )
    yield Spot("W9", "B: two users, though every answer is heard", questions(consumer_group(), all_answered), ("lose",))
    yield Spot(
        "W5",
        "C: classic members among themselves strand partitions",
        questions(mixed_group(policy="upgrade"), Property("no group is stranded", not_stranded)),
        ("leave",),
        1,
        "stranded",
    )
    late = questions(consumer_group(client="fixed"), some_lost)
    yield Spot("W6", "a late join gives up what is used", late, ("late",), 1, "stale double")
    yield Spot(
        "W10",
        "a late report gives up what was assigned since",
        late,
        ("late", "poll_timeout"),
        2,
        "stale double",
        steps=read_steps("W10"),
    )
    lost = questions(consumer_group(), some_lost)
    yield Spot("W1", "two users, while an answer is lost", lost, ("unanswered",), 1, "stale double")
    grows = questions(consumer_group(topic_changes=True), some_lost)
    second = "an acknowledgement gives up what a second target assigns meanwhile"
    yield Spot("W11", second, grows, ("topic_grown",), 1, "stale double")
    mixed = mixed_group()
    crash = next(one for one in mixed.properties if one.name == "no error ends an application")
    early = "a consumer that joins a classic group before its first generation is ended"
    yield Spot("W12", early, questions(mixed, crash), (), 0, "")
    unused, used = (everything_is_used(both, classic=classic) for classic in (False, True))
    static = classic_group(protocol="cooperative", static=True)
    gives_up = "a cooperative static member restarts before it gives a partition up"
    yield Spot("W13", gives_up, questions(static, used), ("restart",), 1, "unused")
    begins = "a static member comes back with KIP-848 before its classic group has an assignment"
    yield Spot("W14", begins, questions(mixed_group(static=True), unused), ("convert",), 1, "unused")
    waits = "the last static member of KIP-848 comes back as a classic one, while another one waits for a partition"
    ends = questions(mixed_group(static=True, policy="bidirectional"), used)
    yield Spot("W15", waits, ends, ("convert",), 1, "unused", "bidirectional")
    trio = mixed_group(3, 2, client="fixed", protocol="cooperative", policy="bidirectional")
    gives_away = "a group that is converted gives away what a cooperative member still uses"
    yield Spot(
        "W16", gives_away, questions(trio, one_user(("a", "c"), answered=True)), (), 0, "stale double", "bidirectional"
    )
    removed = questions(
        mixed_group(client="fixed", protocol="cooperative", policy="bidirectional"), one_user(both, answered=False)
    )
    unaware = "a classic member whose time to join was over joins again, and goes on with what it had"
    yield Spot("W2", unaware, removed, ("rebalance_timeout",), 1, "stale double", "bidirectional")
    leaves = questions(consumer_group(client="fixed", static=True), some_lost)
    goes = "a static member's leave is handled late, and releases what it is to give up"
    kinds = ("expire", "late", "poll_timeout")
    yield Spot("W19", goes, leaves, kinds, 3, "stale double", steps=read_steps("W19"))
    again = questions(mixed_group(client="fixed"), one_user(both, answered=False))
    yield Spot("W20", "a late join of a classic member gives up what is used", again, ("late",), 1, "stale double")
    alone = consumer_group(1, static=True)
    crash = next(one for one in alone.properties if one.name == "no error ends an application")
    ended = "a static member whose answer is lost joins again, and is ended"
    yield Spot("W17", ended, questions(alone, crash), ("unanswered",), 1, "")
    taken = "a session ends, the group becomes a classic one, and its former member is ended"
    mixed = mixed_group(policy="bidirectional")
    yield Spot("W18", taken, questions(mixed, nobody_is_ended(both)), ("expire",), 1, "", "bidirectional")
    yield _late_report()
    yield from _static_members()
    yield Spot(
        "H17", "an assignment of an earlier life is used", questions(consumer_group(), all_answered), ("poll_timeout",)
    )


def _late_report() -> Spot:
    """W24, which takes three members."""
    model = questions(consumer_group(3, {TOPIC: 6}, client="fixed"), one_user(("b", "c"), answered=False))
    what = "a late report of a member's own epoch gives up what was assigned since"
    return Spot("W24", what, model, ("late",), 1, "stale double", steps=read_steps("W24"), partitions=6)


def _static_members() -> Iterator[Spot]:
    def asked(model: Model, name: str) -> Model:
        return questions(model, next(one for one in model.properties if one.name == name))

    ended = "no error ends an application"
    what = "the join of a process that was killed fences the next one"
    yield Spot("W25", what, asked(classic_group(static=True), ended), ("restart",), 1, "")
    what = "the join of a process that was killed takes the place of the next one, whose session has ended"
    kinds = ("expire", "restart")
    yield Spot("W30", what, asked(consumer_group(static=True), ended), kinds, 2, "", known=("unreleased",))
    cooperative = classic_group(static=True, protocol="cooperative")
    what = "a static member that was too late for a round goes on with what that gave to another one"
    yield Spot("W31", what, asked(cooperative, "no partition has two users"), ("rebalance_timeout",), 1, "")


def read_steps(number: str) -> str:
    """The path of a weak spot that is not searched for."""
    return (Path(__file__).parents[1] / "check" / "paths" / f"{number}.txt").read_text(encoding="utf-8")


# The broker


@dataclass
class Kafka:
    """A group of its own on a broker, with a connection for each member."""

    address: tuple[str, int]
    group: str
    names: dict[str, str]
    """Ids of the model -> ids of this broker."""
    topics: Topics
    timeouts_ms: Mapping[str, int] = field(default_factory=lambda: LONG_MS)
    """Timeouts of all members, in place of the model's."""
    connections: dict[str, Connection] = field(default_factory=dict)
    answers: dict[str, deque[Any]] = field(default_factory=dict)
    node: Node | None = None
    """The broker, if it may be started again."""

    def grow(self, changes: Sequence[str]) -> None:
        """The topic grows, and the broker knows it. Raises `NotImplementedError` for another change."""
        if tuple(changes) != (GROWN,):
            raise NotImplementedError(f"{changes}")
        self.topics.change("grow", self.names[TOPIC], 3)
        wait_for_partitions(self.topics, self.names[TOPIC], 3)

    def send(self, name: str, body: Any, *, late: bool) -> None:
        """Sends a request of a member, and waits until it was handled."""
        connection = Connection(*self.address, name, PATIENCE_S) if late else self._connect(name)
        connection.send(self.translate(body))
        waits = isinstance(body, ConsumerGroupHeartbeatRequest | HeartbeatRequest)
        arrived = connection.receive(PATIENCE_S if waits else PARKED_S)
        if late:
            connection.close()
        elif arrived is not None:
            self.answers.setdefault(name, deque()).append(arrived.response)

    def hear(self, name: str) -> Any:
        """The next answer of a member."""
        waiting = self.answers.setdefault(name, deque())
        if not waiting and name not in self.connections:
            return None  # it broke
        if not waiting:
            arrived = self.connections[name].receive(PATIENCE_S)
            waiting.append(None if arrived is None else arrived.response)
        return waiting.popleft()

    def restart(self, name: str) -> None:
        """Starts another process of a member, with a connection of its own."""
        if name in self.connections:
            self.connections.pop(name).close()
        self.answers.pop(name, None)

    def call(self, name: str, body: Any) -> Any:
        """A request of a member that the path does not have, and its answer."""
        return self._connect(name).call(self.translate(body))

    def _connect(self, name: str) -> Connection:
        """The connection of a member, a new one if it has none."""
        if name not in self.connections:
            self.connections[name] = Connection(*self.address, name, PATIENCE_S)
        return self.connections[name]

    def translate(self, value: Any) -> Any:
        """The value with the ids of this broker, and timeouts that do not expire."""
        if isinstance(value, str):
            return self.names.get(value, value)
        if isinstance(value, tuple):
            parts = [self.translate(part) for part in value]
            return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
        if is_dataclass(value) and not isinstance(value, type):
            found = {f.name: self.translate(getattr(value, f.name)) for f in fields(value)}
            found |= {name: ms for name, ms in self.timeouts_ms.items() if found.get(name, -1) not in (-1, None)}
            return replace(value, **found)
        return value

    def waits(self, kind: str) -> bool:
        """Lets time pass: until the first rebalance begins, a member's time to join is over, all sessions are, or the
        coordinator has failed over. Whether that is so."""
        if kind == "failover" and self.node is not None:
            self.close()
            self.connections.clear()
            self.node.stop()
            self.node.start()
            wait_for_coordinator(self.address, self.group)
            return True
        if kind != "expire":
            time.sleep(DELAY_S if not kind else REBALANCE_S + DELAY_S)
            return kind in ("", "rebalance_timeout")
        until = time.monotonic() + EXPIRY_S
        while self.describe().members and time.monotonic() < until:
            time.sleep(BEAT_S)
        return not self.describe().members

    def close(self) -> None:
        """Ends every connection."""
        for connection in self.connections.values():
            connection.close()

    def describe(self) -> Any:
        """The group, as a consumer group."""
        connection = Connection(*self.address, "confirm", PATIENCE_S)
        found = connection.call(ConsumerGroupDescribeRequest((self.group,))).groups[0]
        connection.close()
        return found


def essence(answer: Any) -> Any:
    """The part of an answer that a member acts on."""
    match answer:
        case ConsumerGroupHeartbeatResponse():
            return answer.error_code, answer.member_epoch if not answer.error_code else 0, answer.assignment
        case JoinGroupResponse():
            return answer.error_code, answer.generation_id if not answer.error_code else 0
        case SyncGroupResponse():
            return answer.error_code, answer.assignment
    return (answer.error_code,) if answer is not None else None


def drive(kafka: Kafka, path: Taken) -> str:
    """Runs the path; returns the first difference of the broker, or an empty text."""
    for number, (action, _) in enumerate(path, 1):
        message = action.message
        if action.actor == CLUSTER:
            continue
        if action.actor == BROKER and action.sender and isinstance(message, tuple):
            kafka.grow(message)
        elif action.actor == BROKER and action.sender:
            late = action.what == "receives late"
            kafka.send(action.sender, message.body, late=late)
        elif isinstance(message, tuple) and action.sender:
            order, wanted = message
            got = kafka.hear(action.actor)
            if isinstance(wanted, JoinGroupResponse) and got is not None and wanted.member_id:
                static = {one.group_instance_id: one.member_id for one in wanted.members if one.group_instance_id}
                real = {one.group_instance_id: one.member_id for one in got.members}
                kafka.names |= {member_id: real[instance] for instance, member_id in static.items()}
                kafka.names[wanted.member_id] = got.member_id
            if not action.disturbance and essence(got) != essence(kafka.translate(wanted)):
                return f"step {number}: {type(order.body).__name__} is answered {essence(got)}, not {essence(wanted)}"
        elif "starts again" in action.what:
            kafka.restart(action.actor)
        elif action.actor == BROKER and not kafka.waits(action.disturbance):
            return f"step {number}: {action.what}, which is not driven, or does not come"
    return ""


# The harm


def show_double(kafka: Kafka, path: Taken, *, answered: bool = True) -> tuple[bool, list[str]]:
    """Both users of a partition are members; with `answered` their heartbeats and commits are all accepted."""
    last = {name: state for _, after in path for name, state in after.items()}
    using = {name: set(state.using) for name, state in last.items() if getattr(state, "using", ())}
    users = next(pair for pair in combinations(sorted(using)[::-1], 2) if using[pair[0]] & using[pair[1]])
    topic, number = min(using[users[0]] & using[users[1]])
    members = {one.member_id[:1]: one.member_epoch for one in kafka.describe().members}
    accepted, lines = [], []
    for name, offset in zip(users, (500, 3), strict=True):
        member_id, epoch = standing_of(last[name].member)
        partition = OffsetCommitRequestPartition(number, offset)
        topics = (OffsetCommitRequestTopic(topic, kafka.names["id of foo"], (partition,)),)
        commit = OffsetCommitRequest("g", epoch, member_id, topics=topics)
        committed = kafka.call(name, commit).topics[0].partitions[0].error_code
        code = kafka.call(name, beat(name, last[name].member)).error_code
        accepted.append(code is committed is ErrorCode.NONE)
        lines.append(f"{name} uses {show(last[name].using)} at epoch {epoch}, for the broker {members.get(name)}")
        lines[-1] += f"; its commit of {topic}-{number}@{offset}: {committed.name}, then its heartbeat: {code.name}"
    return members.keys() >= set(users) and (all(accepted) if answered else any(accepted)), lines


def show_unused_grant(kafka: Kafka, path: Taken) -> tuple[bool, list[str]]:
    """Ordinary heartbeats get no assignment, and the broker counts the group as stable."""
    last = {name: state for _, after in path for name, state in after.items()}
    assigned = []
    for _ in range(BEATS):
        for name in ("a", "b"):
            member = last[name].member
            assigned.append(
                kafka.call(name, ConsumerGroupHeartbeatRequest("g", member.member_id, member.epoch)).assignment
            )
        time.sleep(BEAT_S)
    found = kafka.describe()
    given = {one.member_id[:1]: sorted(n for t in one.assignment for n in t.partitions) for one in found.members}
    used = {name: sorted(n for _, n in last[name].using) for name in ("a", "b")}
    silent = all(one is None for one in assigned)
    lines = [f"{len(assigned)} ordinary heartbeats: {'no assignment' if silent else 'an assignment'}"]
    lines.append(f"the group is {found.group_state}, assigned {given}, used {used}")
    return silent and found.group_state == "Stable" and given != used, lines


def show_stranded(kafka: Kafka, path: Taken) -> tuple[bool, list[str]]:
    """The remaining classic member gets no error, and the target stays behind."""
    last = {name: state for _, after in path for name, state in after.items()}
    joined = last["b"].member.generation
    errors = []
    for _ in range(BEATS):
        errors.append(kafka.call("b", HeartbeatRequest("g", joined.generation_id, joined.member_id)).error_code.name)
        time.sleep(BEAT_S)
    found = kafka.describe()
    behind = found.group_epoch > found.assignment_epoch
    lines = [f"{BEATS} heartbeats of the classic member: {', '.join(sorted(set(errors)))}"]
    lines.append(f"the group is {found.group_state}, epoch {found.group_epoch}, target {found.assignment_epoch}")
    return set(errors) == {"NONE"} and behind, lines


def show_unused(kafka: Kafka, path: Taken) -> tuple[bool, list[str]]:
    """Heartbeats of all members get no error and no news."""
    last = {name: state for _, after in path for name, state in after.items()}
    running = {name: state for name, state in last.items() if getattr(state, "app", None) is App.RUNNING}
    answers = []
    for _ in range(BEATS):
        answers += [kafka.call(name, beat(name, state.member)) for name, state in running.items()]
        time.sleep(BEAT_S)
    good = all(one.error_code is ErrorCode.NONE and not getattr(one, "assignment", None) for one in answers)
    used = {place for state in running.values() for place in state.using}
    left = show(sorted({(TOPIC, 0), (TOPIC, 1)} - used))
    uses = "; ".join(f"{name} uses {show(state.using) or 'nothing'}" for name, state in sorted(running.items()))
    lines = [f"{len(answers)} heartbeats over {BEATS * BEAT_S:.0f} s: {'no news' if good else 'something else'}"]
    return good and bool(left), [*lines, f"{uses}; nobody uses {left}"]


def standing_of(member: Any) -> tuple[str, int]:
    """A member's id, and its epoch or generation."""
    if isinstance(member, ClassicMember):
        return member.generation.member_id, member.generation.generation_id
    return member.member_id, member.epoch


def beat(name: str, member: Any) -> Any:
    """An ordinary heartbeat of a member."""
    member_id, epoch = standing_of(member)
    classic = isinstance(member, ClassicMember)
    instance = f"{name}-instance" if (member.config if classic else member.settings).is_static else None
    if classic:
        return HeartbeatRequest("g", epoch, member_id, instance)
    return ConsumerGroupHeartbeatRequest("g", member_id, epoch, instance)


SHOWS: Mapping[str, Callable[[Kafka, Taken], tuple[bool, list[str]]]] = {
    "double": show_double,
    "stale double": partial(show_double, answered=False),
    "lost grant": show_unused_grant,
    "stranded": show_stranded,
    "unused": show_unused,
}


def show(using: Sequence[tuple[str, int]]) -> str:
    return ", ".join(f"{topic}-{number}" for topic, number in using)


def confirm(spot: Spot, address: tuple[str, int], topics: Topics, node: Node | None = None) -> bool:
    """Runs a weak spot; returns whether the broker behaved as the checker predicts. With `node` it may fail over."""
    path = spot.find_path()
    print(f"{spot.number}  {spot.what}")
    if not path:
        print("    the checker finds no path")
        return False
    disturbed = f"{spot.disturbances} of {', '.join(spot.kinds)}" if spot.kinds else "undisturbed"
    print(f"    checker: {len(path)} steps, {disturbed}")
    for _ in range(ATTEMPTS if spot.number in BY_CHANCE else 1):
        group = f"confirm-{spot.number}-{uuid.uuid4().hex[:8]}"
        # One that grows, or is of another size, is of no use to others.
        topic = group if GROWN in spot.kinds or spot.partitions != Spot.partitions else TOPIC
        topics.ensure(topic, spot.partitions)
        wait_for_partitions(topics, topic, spot.partitions)
        topic_id = topics.all()[topic].topic_id
        names = {"g": group, TOPIC: topic, f"{0:020d}AA": topic_id, "id of foo": topic_id}
        short = {"rebalance_timeout_ms": int(REBALANCE_S * 1000)} if "rebalance_timeout" in spot.kinds else {}
        kafka = Kafka(address, group, names, topics, {**LONG_MS, **short}, node=node)
        wait_for_coordinator(address, group)
        differs = drive(kafka, path)
        if not differs:
            break
        kafka.close()
    if differs:
        print(f"    broker:  {differs}: NOT CONFIRMED")
        return False
    good, lines = SHOWS[spot.shows](kafka, path) if spot.shows else (True, ["every answer was the model's"])
    kafka.close()
    return _show(good, lines)


def rejoin(address: tuple[str, int], topics: Topics) -> bool:
    """The weak spot that is fixed in the latest release (W4)."""
    group = _new_group(NUMBER, address, topics)
    first, second = (Connection(*address, name, PATIENCE_S) for name in ("a", "b"))
    print(f"{NUMBER}  a fenced member that rejoins with its id is refused, which 4.2.0 has mended")
    try:
        return _show(*confirm_rejoining((first, second), group, TOPIC, RELEASE))
    finally:
        first.close()
        second.close()


def hang(address: tuple[str, int], topics: Topics) -> bool:
    """The weak spot that only a client with its timers shows (W22)."""
    group = _new_group(HANGING, address, topics)
    print(f"{HANGING}  a Java consumer whose unsubscribe() never returns from its callback keeps its partitions")
    return _show(*confirm_hanging(topics.connection, group, TOPIC))


def wake(address: tuple[str, int], topics: Topics) -> bool:
    """The weak spot that only an eager client with its callbacks shows (W27)."""
    groups = {scene: _new_group("W27", address, topics, PARTITIONS) for scene in EAGER}
    print("W27  an eager Java consumer that is woken up in its revoked callback reads on what another one has")
    return _show(*confirm_woken(address, groups))


def recreate(address: tuple[str, int], topics: Topics) -> bool:
    """The weak spot that only a client that reads shows (W23)."""
    group = _new_group("W23", address, topics, RECREATED_PARTITIONS)
    print("W23  a Java consumer that owns a topic which is made anew reads of the new one what another one has")
    return _show(*confirm_recreated(address, group))


def grow(address: tuple[str, int], topics: Topics) -> bool:
    """The weak spot that only a leader that assigns shows (W32)."""
    group = _new_group("W32", address, topics, 1)
    print("W32  a static Java consumer that leads, and returns after its topic has grown, leaves the rest unread")
    return _show(*confirm_grown(address, group))


def resubscribe(address: tuple[str, int], topics: Topics) -> bool:
    """The weak spot of static members that return with another subscription (W35)."""
    group = _new_group("W35", address, topics, 1)
    topics.ensure(group + OTHER, OTHER_PARTITIONS)
    wait_for_partitions(topics, group + OTHER, OTHER_PARTITIONS)
    print("W35  static Java consumers that return with a subscription to one topic more do not read it")
    return _show(*confirm_resubscribed(address, group))


def freeze(address: tuple[str, int], _topics: Topics) -> bool:
    """The weak spot that only workers of Connect show (W26)."""
    print(f"W26  a Connect worker {TOOLS} that stood still for its session runs what another one was given")
    with tempfile.TemporaryDirectory() as folder:
        return _show(*confirm_frozen(address, f"confirm-W26-{uuid.uuid4().hex[:8]}", Path(folder)))


def failing_over() -> Iterator[Spot]:
    """The weak spots that take a failover."""
    policy, names = "bidirectional", ("a", "b")
    model = questions(mixed_group(policy=policy), everything_is_used(names, classic=True))
    what = "a failover loses the rebalance of a downgrade, and what the last consumer had stays unused"
    yield Spot("W28", what, model, ("failover", "leave"), 2, "unused", policy)
    static = classic_group(static=True)
    crash = next(one for one in static.properties if one.name == "no error ends an application")
    what = "a static member that came back in a round which a failover loses is fenced"
    yield Spot("W29", what, questions(static, crash), ("failover", "restart"), 2, "", policy, known=("late_join",))


def fail_over(spot: Spot) -> bool:
    """Runs it on a broker of its own, which is started again."""
    with _node(settings(spot.policy)) as (node, topics):
        return confirm(spot, _address(topics), topics, node)


def forget() -> bool:
    """The weak spot that the next broker shows (W33)."""
    with _node(settings(Spot.policy)) as (node, topics):
        group = _new_group("W33", _address(topics), topics, 1)
        print("W33  a classic join that is refused makes an empty consumer group disappear, but not from the log")

        def restart() -> Connection:
            node.stop()
            node.start()
            wait_for_coordinator(_address(topics), group)
            return Connection(*_address(topics), "confirm", PATIENCE_S)

        return _show(*confirm_forgotten(topics.connection, group, group, restart))


def fill() -> bool:
    """The weak spot that only a broker with a limit shows (W34)."""
    with _node({**STEPS, "group.max.size": str(SIZE)}) as (_, topics):
        group = _new_group("W34", _address(topics), topics, 1)
        print("W34  a full group refuses the last member that a join phase waits for, and the others wait on")
        first, second = (Connection(*_address(topics), name, PATIENCE_S) for name in ("first", "second"))
        return _show(*confirm_full(first, second, group))


def load() -> bool:
    """The weak spot that only a broker shows which loads its log anew (W36)."""
    with _node(loading.SETTINGS) as (first, topics), _node(loading.SETTINGS, first) as (second, of_second):
        both = (CreatableReplicaAssignment(0, (2, 1)),)
        topics.connection.call(CreateTopicsRequest((CreatableTopic(OFFSETS_TOPIC, -1, -1, both),)))
        group = _new_group("W36", _address(of_second), topics, loading.PARTITIONS)
        print("W36  a broker that loads its log anew answers SyncGroup with an error that clients do not expect")

        def take_turns() -> None:
            second.stand_still(loading.STANDS_STILL_S)
            loading.elect_preferred(_address(topics), OFFSETS_TOPIC)

        member = Connection(*_address(of_second), "member", PATIENCE_S)
        return _show(*loading.confirm_loading(member, of_second.connection, group, take_turns))


@contextmanager
def _node(configs: Mapping[str, str], joins: Node | None = None) -> Iterator[tuple[Node, Topics]]:
    """A broker of its own, which can be started again, or the second one of that one's cluster."""
    with tempfile.TemporaryDirectory() as folder:
        node = Node(Path(folder), configs, joins)
        try:
            node.start()
            yield node, Topics(Connection("127.0.0.1", node.port, "confirm", PATIENCE_S))
        finally:
            node.stop()


def _address(topics: Topics) -> tuple[str, int]:
    return topics.connection.host, topics.connection.port


def _new_group(number: str, address: tuple[str, int], topics: Topics, partitions: int = 0) -> str:
    """A group with a coordinator. With `partitions` it has a topic of its name, else `TOPIC` is there."""
    group = f"confirm-{number}-{uuid.uuid4().hex[:8]}"
    topic = group if partitions else TOPIC
    topics.ensure(topic, partitions or Spot.partitions)
    wait_for_partitions(topics, topic, partitions or Spot.partitions)
    wait_for_coordinator(address, group)
    return group


def _show(good: bool, lines: Sequence[str]) -> bool:
    for line in lines:
        print(f"    broker:  {line}")
    print(f"    {'confirmed' if good else 'NOT CONFIRMED'}")
    return good


def wait_for_coordinator(address: tuple[str, int], group: str) -> None:
    """Waits until the group has a coordinator that serves it."""
    connection, until = Connection(*address, "confirm", PATIENCE_S), time.monotonic() + READY_S
    nobody = ConsumerGroupHeartbeatRequest(group, uuid.uuid4().hex, 5)
    while time.monotonic() < until:
        found = connection.call(FindCoordinatorRequest(coordinator_keys=(group,))).coordinators
        if found and not found[0].error_code and connection.call(nobody).error_code not in PASSING:
            break
        time.sleep(0.2)
    connection.close()


def wait_for_partitions(topics: Topics, topic: str, partitions: int) -> None:
    """Waits until the coordinators know that many partitions, which is later than Metadata shows them."""
    until = time.monotonic() + READY_S
    while time.monotonic() < until:
        group, member = f"probe-{uuid.uuid4().hex}", uuid.uuid4().hex
        wait_for_coordinator((topics.connection.host, topics.connection.port), group)
        join = ConsumerGroupHeartbeatRequest(group, member, 0, None, None, 300_000, (topic,), topic_partitions=())
        answer = topics.connection.call(join)
        topics.connection.call(ConsumerGroupHeartbeatRequest(group, member, -1))
        if sum(len(numbers) for _, numbers in answer.assignment or ()) == partitions:
            return
        time.sleep(0.2)


def main(argv: Sequence[str] | None = None) -> int:
    """Returns exit status 1 if something is not confirmed, 2 if there is no broker."""
    parser = argparse.ArgumentParser(description="Drive a real Kafka along the checker's paths.")
    parser.add_argument("numbers", nargs="*", metavar="NUMBER", help="weak spots, as W8; all without")
    parser.add_argument("--disturb", metavar="LIST", help="instead, the path to any counterexample of these kinds")
    parser.add_argument("--disturbances", type=int, default=1, metavar="K", help="at most so many")
    parser.add_argument("--client", default=RELEASE, metavar="DIALECT", help="the rules of the members")
    args = parser.parse_args(argv)
    chosen = [spot for spot in spots() if not args.numbers or spot.number in args.numbers]
    if args.disturb:
        kinds = tuple(args.disturb.split(","))
        model = replace(consumer_group(client=args.client), goal=None)
        chosen = [Spot("path", f"the shortest with {args.disturb}", model, kinds, args.disturbances, "")]
    clients = {"W23": recreate, "W26": freeze, "W27": wake, "W32": grow, "W35": resubscribe}
    beside = {NUMBER: rejoin, HANGING: hang, **clients}
    failing = [] if args.disturb else [one for one in failing_over() if not args.numbers or one.number in args.numbers]
    others = [
        act for number, act in beside.items() if not args.disturb and (not args.numbers or number in args.numbers)
    ]
    policies = dict.fromkeys([*(spot.policy for spot in chosen), *([Spot.policy] if others else [])])
    good: list[bool] = []
    try:
        for policy in policies:
            with tempfile.TemporaryDirectory() as folder, broker(Path(folder), settings(policy)) as address:
                topics = Topics(Connection(*address, "confirm", PATIENCE_S))
                print(f"Apache Kafka {RELEASE}, {POLICY}={policy}")
                good += [confirm(spot, address, topics) for spot in chosen if spot.policy == policy]
                if policy == Spot.policy:
                    good += [act(address, topics) for act in others]
        good += map(fail_over, failing)
        alone = {} if args.disturb else {"W33": forget, "W34": fill, "W36": load}
        good += [act() for number, act in alone.items() if not args.numbers or number in args.numbers]
    except NoBrokerError as problem:
        print(f"confirm: {problem}", file=sys.stderr)
        return 2
    print(f"{sum(good)} of {len(good)} confirmed")
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
