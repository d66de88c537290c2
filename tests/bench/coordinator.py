"""What a request to the coordinator costs, as its group grows.

    python tests/bench/coordinator.py [--most N]

One process, its CPU time. Groups of 100, 1,000 and 10,000 members, with ten topics and a partition for everybody. After
each request the coordinator is asked when its next timer is due, as whoever drives it must. A figure is the mean over
all members, in microseconds a request; the growth is against a tenth of the members, so that 1 is a cost that knows no
group, and 10 one that walks it. Nobody passes or fails here: the figures are for reading.

Classic: every member joins twice, as versions from 4 on do, and syncs; the last join and the leader's sync answer all.
Consumer: members join while the target waits for its interval (`join`), then one of them moves it and everybody comes
for its part (`settle`), then nothing changes (`heartbeat`). A join that computes a target (`join, target`) walks the
group as Kafka's does, whose assignors are in `assignors.py`.
"""

import argparse
import gc
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from fsm.coordinator.coordinator import Coordinator, handle, handle_timer, next_deadline_ms
from fsm.coordinator.model.context import BrokerConfig, Context, Image, Topic
from fsm.coordinator.model.dialect import dialect
from fsm.coordinator.model.persistent import FrozenMap
from fsm.coordinator.model.step import Answer, Request
from fsm.protocol.codec import API_OF
from fsm.protocol.consumer_protocol import Assignment, Subscription, encode_assignment, encode_subscription
from fsm.protocol.error_codes import ErrorCode
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
    SyncGroupRequest,
    SyncGroupRequestAssignment,
)

TOPICS = 10
INTERVAL_MS = 5_000


class Clients:
    """Everybody who talks to one coordinator, and their clock."""

    def __init__(self, members: int) -> None:
        names = [f"topic-{i}" for i in range(TOPICS)]
        topics = {name: Topic(f"{i:021}A", members // TOPICS + 1) for i, name in enumerate(names)}
        config = BrokerConfig(group_consumer_assignment_interval_ms=INTERVAL_MS)
        self.names = names
        self.context = Context(1_000_000, dialect("4.4.0"), config, Image(FrozenMap(topics), 1))
        self.state = Coordinator()
        self.answers: dict[int, Any] = {}
        self.asked = 0

    def ask(self, message: Any) -> int:
        """The token of a request that was handled."""
        self.asked += 1
        version = API_OF[type(message)].newest
        request = Request(self.asked, "client", "/127.0.0.1", version, message, str(self.asked))
        step = handle(self.state, request, self.context)
        self.state = step.state
        self._note(step.answers)
        next_deadline_ms(self.state)
        return self.asked

    def pass_time(self, ms: int) -> None:
        """Whatever is due by then happens."""
        self.context = replace(self.context, now_ms=self.context.now_ms + ms)
        step = handle_timer(self.state, self.context)
        self.state = step.state
        self._note(step.answers)

    def _note(self, answers: Iterable[Answer]) -> None:
        self.answers.update((answer.token, answer.body) for answer in answers)


def timed(requests: Iterable[Any], clients: Clients) -> tuple[float, list[int]]:
    """Microseconds a request, and the requests' tokens; the collector rests while they are handled."""
    given = list(requests)
    gc.collect()
    gc.disable()
    start = time.process_time()
    tokens = [clients.ask(one) for one in given]
    took = time.process_time() - start
    gc.enable()
    return 1e6 * took / len(given), tokens


def classic(members: int) -> dict[str, float]:
    """A classic group: both joins, the syncs of followers and leader, and a Heartbeat of each."""
    clients, found = Clients(members), {}
    said = (JoinGroupRequestProtocol("range", encode_subscription(Subscription(tuple(clients.names)), 1)),)

    def joining(member_id: str) -> JoinGroupRequest:
        return JoinGroupRequest("g", 45_000, 300_000, member_id, protocols=said)

    found["first join"], tokens = timed((joining("") for _ in range(members)), clients)
    ids = [clients.answers[token].member_id for token in tokens]
    found["join"], tokens = timed(map(joining, ids), clients)
    while tokens[-1] not in clients.answers:
        clients.pass_time(3_000)
    leader = clients.answers[tokens[0]].leader
    part = encode_assignment(Assignment((("topic-0", 0),)), 1)
    followers = [i for i in ids if i != leader]
    syncs = [SyncGroupRequest("g", 1, i, None, "consumer", "range") for i in followers]
    given = tuple(SyncGroupRequestAssignment(i, part) for i in ids)
    syncs.append(SyncGroupRequest("g", 1, leader, None, "consumer", "range", given))
    found["sync"], _ = timed(syncs, clients)
    found["heartbeat"], tokens = timed((HeartbeatRequest("g", 1, i) for i in ids), clients)
    check(clients, tokens)
    found["rejoin"], tokens = timed(map(joining, [leader, *followers]), clients)
    check(clients, tokens[-1:])
    leaves = (LeaveGroupRequest("g", (MemberIdentity(i),)) for i in ids)
    found["leave"], tokens = timed(leaves, clients)
    check(clients, tokens)
    return found


def consumer(members: int) -> dict[str, float]:
    """A consumer group, with a target for all that is computed when everybody is there."""
    clients, found = Clients(members), {}
    ids = [f"member-{i:05}" for i in range(members)]

    def joining(member_id: str) -> ConsumerGroupHeartbeatRequest:
        names = tuple(clients.names)
        return ConsumerGroupHeartbeatRequest("g", member_id, 0, None, None, 300_000, names, topic_partitions=())

    found["join"], _ = timed((joining(i) for i in ids), clients)
    clients.pass_time(INTERVAL_MS)
    clients.ask(joining("newcomer"))
    epochs = {m: clients.state.groups["g"].members[m].epoch for m in ids}
    found["settle"], tokens = timed((beat(m, epochs[m], ()) for m in ids), clients)
    check(clients, tokens)
    for _ in range(3):
        for member_id in (*ids, "newcomer"):
            clients.ask(report(clients, member_id))
    if not all(member.assigned for member in clients.state.groups["g"].members.values()):
        raise SystemExit("a member has nothing")
    epochs = {m: clients.state.groups["g"].members[m].epoch for m in ids}
    found["heartbeat"], tokens = timed((beat(m, epochs[m]) for m in ids), clients)
    check(clients, tokens)
    found["commit"], tokens = timed((commit(m, epochs[m], i) for i, m in enumerate(ids)), clients)
    found["join, target"] = min(_with_target(clients, joining, f"late-{i}") for i in range(3))
    found["leave"], tokens = timed((beat(m, -1) for m in ids), clients)
    check(clients, tokens)
    return found


def _with_target(clients: Clients, joining: Callable[[str], Any], member_id: str) -> float:
    clients.pass_time(INTERVAL_MS)
    found, _ = timed([joining(member_id)], clients)
    return found


def beat(member_id: str, epoch: int, owned: Any = None) -> ConsumerGroupHeartbeatRequest:
    """A heartbeat, with what its member owns where that is said."""
    return ConsumerGroupHeartbeatRequest("g", member_id, epoch, topic_partitions=owned)


def report(clients: Clients, member_id: str) -> ConsumerGroupHeartbeatRequest:
    """A heartbeat that reports exactly what its member was handed."""
    member = clients.state.groups["g"].members[member_id]
    return beat(member_id, member.epoch, member.assigned)


def commit(member_id: str, epoch: int, number: int) -> OffsetCommitRequest:
    """A commit of one offset."""
    partition = OffsetCommitRequestPartition(number // TOPICS, 17)
    topic = OffsetCommitRequestTopic(topic_id=f"{number % TOPICS:021}A", partitions=(partition,))
    return OffsetCommitRequest("g", epoch, member_id, topics=(topic,))


def check(clients: Clients, tokens: Iterable[int]) -> None:
    """Figures of requests that were refused would say nothing."""
    if any(clients.answers[token].error_code is not ErrorCode.NONE for token in tokens):
        raise SystemExit("a request was refused")


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--most", type=int, default=10_000, help="the largest group (default: %(default)s)")
    sizes = [size for size in (100, 1_000, 10_000, 100_000) if size <= parser.parse_args().most]
    print(f"{'group':<10}{'request':<14}{'members':>8}{'us':>12}{'growth':>9}")
    for kind, measure in (("classic", classic), ("consumer", consumer)):
        figures = {size: measure(size) for size in sizes}
        for request in figures[sizes[0]]:
            before = None
            for size in sizes:
                now = figures[size][request]
                growth = "" if before is None else f"x{now / before:.1f}"
                print(f"{kind:<10}{request:<14}{size:>8}{now:>12.1f}{growth:>9}")
                before = now


if __name__ == "__main__":
    main()
