"""What a request to the coordinator costs, as its group grows.

    python tests/bench/coordinator.py [--members N ...] [--rounds N]

One process, its CPU time, through a `Host`: after each request it is asked when the next timer is due, as whoever
drives it must. Groups have ten topics and a partition for everybody. A figure is the mean over all members, the best of
the rounds, which begin in the same state: microseconds a request; the same in Python calls (`f(1)` in this process), so
that machines and busy hours compare; the blocks of memory that stay allocated where the state of before is kept, as a
search keeps it; the growth against the smaller group, so that 1 is a cost that knows no group. Nobody passes or fails
here: the figures are for reading.

Classic: every member joins twice, as versions from 4 on do, and syncs; the last join and the leader's sync answer all.
Consumer: members join while the target waits for its interval (`join`), then one of them moves it and everybody comes
for its part (`settle`), then nothing changes (`heartbeat`). A join that computes a target (`join, target`) walks the
group as Kafka's does; the last line is one in a group of 10,000 with 100,000 partitions, against its assignor alone.
"""

import argparse
import gc
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any, NamedTuple

from fsm.coordinator import BrokerConfig, Context, GroupSpec, Host, Image, PersistentMap, Topic, dialect
from fsm.coordinator.assignors import Assignments
from fsm.protocol.consumer_protocol import Assignment, Subscription, encode_assignment, encode_subscription
from fsm.protocol.messages import (
    ConsumerGroupHeartbeatRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    LeaveGroupRequest,
    MemberIdentity,
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
)

INTERVAL_MS = 5_000
NAMED = "topic-{}".format


class Cost(NamedTuple):
    """Of one request."""

    us: float
    blocks: float


class Clients:
    """Everybody who talks to one coordinator, and their clock."""

    def __init__(self, members: int, rounds: int, topics: int = 10, partitions: int = 1) -> None:
        self.rounds = rounds
        self.names = tuple(map(NAMED, range(topics)))
        count = members * partitions // topics + 1
        found = {name: Topic(f"{i:021}A", count) for i, name in enumerate(self.names)}
        config = BrokerConfig(group_consumer_assignment_interval_ms=INTERVAL_MS)
        self.host = Host(Context(1_000_000, dialect("4.4.0"), config, Image(PersistentMap(found), 1)))
        self.answers: dict[int, Any] = {}

    def measure(self, requests: Iterable[Any]) -> tuple[Cost, list[int]]:
        """What these requests cost, and their tokens. The collector rests while they are handled."""
        given, begun = list(requests), self.host
        best_us = float("inf")
        for _ in range(self.rounds):
            host = begun.fork()
            gc.collect()
            gc.disable()
            start = time.process_time()
            for one in given:
                host.send("client", one)
                host.next_deadline_ms()
            best_us = min(best_us, time.process_time() - start)
            gc.enable()
        kept: list[Any] = [None] * len(given)
        self.host = host = begun.fork()
        before = sys.getallocatedblocks()
        for i, one in enumerate(given):
            kept[i] = host.send("client", one), host.state
        blocks = sys.getallocatedblocks() - before
        self.answers.update((answer.token, answer.body) for sent, _ in kept for answer in sent.answers)
        return Cost(1e6 * best_us / len(given), blocks / len(given)), [sent.token for sent, _ in kept]

    def pass_time(self, ms: int) -> None:
        """Whatever is due by then happens."""
        self.answers.update((answer.token, answer.body) for answer in self.host.advance(self.host.now_ms + ms))

    def check(self, tokens: Iterable[int]) -> None:
        """Figures of requests that were refused would say nothing."""
        found = [self.answers[token] for token in tokens]
        if any(one.errors if isinstance(one, OffsetCommitResponse) else one.error_code for one in found):
            raise SystemExit("a request was refused")

    def epochs(self) -> dict[str, int]:
        """Of the consumer group's members."""
        return {member_id: member.epoch for member_id, member in self.host.state.groups["g"].members.items()}


def measure_classic(members: int, rounds: int) -> Iterator[tuple[str, Cost]]:
    """A classic group: both joins, the syncs of followers and leader, and a Heartbeat of each."""
    clients = Clients(members, rounds)
    metadata = (JoinGroupRequestProtocol("range", encode_subscription(Subscription(clients.names), 1)),)

    def joining(member_id: str) -> JoinGroupRequest:
        return JoinGroupRequest("g", 45_000, 300_000, member_id, protocols=metadata)

    cost, tokens = clients.measure(joining("") for _ in range(members))
    yield "first join", cost
    ids = [clients.answers[token].member_id for token in tokens]
    cost, tokens = clients.measure(map(joining, ids))
    yield "join", cost
    while tokens[-1] not in clients.answers:
        clients.pass_time(3_000)
    leader = clients.answers[tokens[0]].leader
    part = encode_assignment(Assignment((("topic-0", 0),)), 1)
    followers = [i for i in ids if i != leader]
    syncs = [SyncGroupRequest("g", 1, i, None, "consumer", "range") for i in followers]
    given = tuple(SyncGroupRequestAssignment(i, part) for i in ids)
    syncs.append(SyncGroupRequest("g", 1, leader, None, "consumer", "range", given))
    yield "sync", clients.measure(syncs)[0]
    cost, tokens = clients.measure(HeartbeatRequest("g", 1, i) for i in ids)
    clients.check(tokens)
    yield "heartbeat", cost
    cost, tokens = clients.measure(map(joining, [leader, *followers]))
    clients.check(tokens[-1:])
    yield "rejoin", cost
    cost, tokens = clients.measure(LeaveGroupRequest("g", (MemberIdentity(i),)) for i in ids)
    clients.check(tokens)
    yield "leave", cost


def measure_consumer(members: int, rounds: int) -> Iterator[tuple[str, Cost]]:
    """A consumer group, with a target for all that is computed when everybody is there."""
    clients = Clients(members, rounds)
    ids = [f"member-{i:05}" for i in range(members)]
    yield "join", clients.measure(joining(clients, i) for i in ids)[0]
    yield "join, target", move_target(clients, "newcomer")
    epochs = clients.epochs()
    cost, tokens = clients.measure(beat(m, epochs[m], ()) for m in ids)
    clients.check(tokens)
    yield "settle", cost
    settle(clients)
    epochs = clients.epochs()
    cost, tokens = clients.measure(beat(m, epochs[m]) for m in ids)
    clients.check(tokens)
    yield "heartbeat", cost
    cost, tokens = clients.measure(commit(m, epochs[m], i) for i, m in enumerate(ids))
    clients.check(tokens)
    yield "commit", cost
    cost, tokens = clients.measure(beat(m, -1) for m in ids)
    clients.check(tokens)
    yield "leave", cost


def joining(clients: Clients, member_id: str) -> ConsumerGroupHeartbeatRequest:
    """The first heartbeat of a member."""
    return ConsumerGroupHeartbeatRequest("g", member_id, 0, None, None, 300_000, clients.names, topic_partitions=())


def move_target(clients: Clients, member_id: str) -> Cost:
    """A member joins when the interval is over, so that a target is computed."""
    clients.pass_time(INTERVAL_MS)
    return clients.measure([joining(clients, member_id)])[0]


def settle(clients: Clients) -> None:
    """Everybody reports what it was handed until nobody lacks anything."""
    for _ in range(3):
        for member_id in clients.epochs():
            member = clients.host.state.groups["g"].members[member_id]
            clients.host.send("client", beat(member_id, member.epoch, member.assigned))
    if not all(member.assigned for member in clients.host.state.groups["g"].members.values()):
        raise SystemExit("a member has nothing")


def beat(member_id: str, epoch: int, owned: Any = None) -> ConsumerGroupHeartbeatRequest:
    """A heartbeat, with what its member owns where that is said."""
    return ConsumerGroupHeartbeatRequest("g", member_id, epoch, topic_partitions=owned)


def commit(member_id: str, epoch: int, number: int) -> OffsetCommitRequest:
    """A commit of one offset."""
    partition = OffsetCommitRequestPartition(number // 10, 17)
    topic = OffsetCommitRequestTopic(topic_id=f"{number % 10:021}A", partitions=(partition,))
    return OffsetCommitRequest("g", epoch, member_id, topics=(topic,))


def compare_with_assignor(members: int, rounds: int) -> tuple[float, float]:
    """Milliseconds of a join that computes the target of ten partitions for each, and of the assignor alone."""
    clients = Clients(members, rounds, topics=100, partitions=10)
    for i in range(members):
        clients.host.send("client", joining(clients, f"member-{i:05}"))
    move_target(clients, "newcomer")
    settle(clients)
    specs = []

    def note(_assignor: str, spec: GroupSpec, found: Assignments) -> Assignments:
        specs.append(spec)
        return found

    clients.host.context = replace(clients.host.context, adopt=note)
    cost = move_target(clients, "late")
    return cost.us / 1_000, best_ms(lambda: clients.host.context.assignors["uniform"](specs[-1]), rounds)


def best_ms(call: Callable[[], object], rounds: int) -> float:
    """Of so many."""
    found = []
    for _ in range(rounds):
        gc.collect()
        start = time.process_time()
        call()
        found.append(1e3 * (time.process_time() - start))
    return min(found)


def call_us() -> float:
    """What a Python call takes in this process."""

    def one(x: int) -> int:
        return x

    def many() -> None:
        for _ in range(100_000):
            one(1)

    return best_ms(many, 10) / 100


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--members", type=int, nargs="+", default=[100, 10_000], help="default: 100 10000")
    parser.add_argument("--rounds", type=int, default=5, help="the best of so many (default: %(default)s)")
    args = parser.parse_args()
    call = call_us()
    print(f"{'group':<10}{'request':<14}{'members':>8}{'us':>12}{'calls':>10}{'blocks':>9}{'growth':>9}")
    for kind, measure in (("classic", measure_classic), ("consumer", measure_consumer)):
        before = dict[str, Cost]()
        for members in args.members:
            for request, cost in measure(members, args.rounds):
                growth = f"x{cost.us / before[request].us:.1f}" if request in before else ""
                print(
                    f"{kind:<10}{request:<14}{members:>8}{cost.us:>12.1f}{cost.us / call:>10.0f}{cost.blocks:>9.0f}"
                    f"{growth:>9}"
                )
                before[request] = cost
    join_ms, assignor_ms = compare_with_assignor(10_000, args.rounds)
    ratio = join_ms / assignor_ms
    print(
        f"10,000 x 100,000: a join with a new target {join_ms:.0f} ms, uniform alone {assignor_ms:.0f} ms, {ratio:.2f}"
    )


if __name__ == "__main__":
    main()
