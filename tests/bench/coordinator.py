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
from base64 import b64encode
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from fsm.coordinator.context import BrokerConfig, Context, Image, Topic
from fsm.coordinator.coordinator import Coordinator, handle, handle_timer, next_deadline_ms
from fsm.coordinator.dialect import dialect
from fsm.coordinator.frozen import FrozenMap
from fsm.coordinator.messages import Answer, Request
from fsm.kafka.consumer_protocol import Assignment, Subscription, encode_assignment, encode_subscription

TOPICS = 10
INTERVAL_MS = 5_000
Ask = tuple[str, int, dict[str, Any]]
"""API, version and body."""


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

    def ask(self, api: str, version: int, body: dict[str, Any]) -> int:
        """The token of a request that was handled."""
        self.asked += 1
        request = Request(self.asked, "client", "/127.0.0.1", api, version, {"group_id": "g", **body}, str(self.asked))
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


def timed(requests: Iterable[Ask], clients: Clients) -> tuple[float, list[int]]:
    """Microseconds a request, and the requests' tokens; the collector rests while they are handled."""
    given = list(requests)
    gc.collect()
    gc.disable()
    start = time.process_time()
    tokens = [clients.ask(*one) for one in given]
    took = time.process_time() - start
    gc.enable()
    return 1e6 * took / len(given), tokens


def classic(members: int) -> dict[str, float]:
    """A classic group: both joins, the syncs of followers and leader, and a Heartbeat of each."""
    clients, found = Clients(members), {}
    said = b64encode(encode_subscription(Subscription(tuple(clients.names)), 1)).decode()
    body = {
        "session_timeout": 45_000,
        "rebalance_timeout": 300_000,
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": said}],
    }
    found["first join"], tokens = timed((("JoinGroup", 9, {**body, "member_id": ""}) for _ in range(members)), clients)
    ids = [clients.answers[token]["member_id"] for token in tokens]
    found["join"], tokens = timed((("JoinGroup", 9, {**body, "member_id": i}) for i in ids), clients)
    while tokens[-1] not in clients.answers:
        clients.pass_time(3_000)
    leader = clients.answers[tokens[0]]["leader"]
    part = b64encode(encode_assignment(Assignment((("topic-0", 0),)), 1)).decode()
    say = {"generation_id": 1, "protocol_type": "consumer", "protocol_name": "range"}
    followers = [i for i in ids if i != leader]
    asks = [("SyncGroup", 5, {**say, "member_id": i, "assignments": []}) for i in followers]
    given = [{"member_id": i, "assignment": part} for i in ids]
    found["sync"], _ = timed([*asks, ("SyncGroup", 5, {**say, "member_id": leader, "assignments": given})], clients)
    beats = (("Heartbeat", 4, {"generation_id": 1, "member_id": i}) for i in ids)
    found["heartbeat"], tokens = timed(beats, clients)
    check(all(clients.answers[token]["error_code"] is None for token in tokens))
    found["rejoin"], tokens = timed((("JoinGroup", 9, {**body, "member_id": i}) for i in [leader, *followers]), clients)
    check(clients.answers[tokens[-1]]["generation_id"] == 2)
    leaves = (("LeaveGroup", 5, {"members": [{"member_id": i, "group_instance_id": None}]}) for i in ids)
    found["leave"], tokens = timed(leaves, clients)
    check(clients.answers[tokens[-1]]["members"][0]["error_code"] is None)
    return found


def consumer(members: int) -> dict[str, float]:
    """A consumer group, with a target for all that is computed when everybody is there."""
    clients, found = Clients(members), {}
    ids = [f"member-{i:05}" for i in range(members)]

    def joining(member_id: str) -> Ask:
        body = {"rebalance_timeout": 300_000, "subscribed_topic_names": clients.names, "topic_partitions": []}
        return "ConsumerGroupHeartbeat", 1, {**body, "member_id": member_id, "member_epoch": 0}

    found["join"], _ = timed((joining(i) for i in ids), clients)
    clients.pass_time(INTERVAL_MS)
    clients.ask(*joining("newcomer"))
    epochs = {m: clients.state.groups["g"].members[m].epoch for m in ids}
    found["settle"], tokens = timed((beat(m, epochs[m], []) for m in ids), clients)
    check(all(clients.answers[token]["error_code"] is None for token in tokens))
    for _ in range(3):
        for member_id in (*ids, "newcomer"):
            clients.ask(*report(clients, member_id))
    check(all(member.assigned for member in clients.state.groups["g"].members.values()))
    epochs = {m: clients.state.groups["g"].members[m].epoch for m in ids}
    found["heartbeat"], tokens = timed((beat(m, epochs[m]) for m in ids), clients)
    check(all(clients.answers[token]["error_code"] is None for token in tokens))
    found["join, target"] = min(_with_target(clients, joining, f"late-{i}") for i in range(3))
    found["leave"], tokens = timed((beat(m, -1) for m in ids), clients)
    check(all(clients.answers[token]["error_code"] is None for token in tokens))
    return found


def _with_target(clients: Clients, joining: Callable[[str], Ask], member_id: str) -> float:
    clients.pass_time(INTERVAL_MS)
    found, _ = timed([joining(member_id)], clients)
    return found


def beat(member_id: str, epoch: int, owned: list[Any] | None = None) -> Ask:
    """A heartbeat, with what its member owns where that is said."""
    body: dict[str, Any] = {"member_id": member_id, "member_epoch": epoch}
    return "ConsumerGroupHeartbeat", 1, body if owned is None else {**body, "topic_partitions": owned}


def report(clients: Clients, member_id: str) -> Ask:
    """A heartbeat that reports exactly what its member was handed."""
    member = clients.state.groups["g"].members[member_id]
    owned = [{"topic_id": topic_id, "partitions": list(numbers)} for topic_id, numbers in member.assigned]
    return beat(member_id, member.epoch, owned)


def check(holds: bool) -> None:
    """Figures of requests that were refused would say nothing."""
    if not holds:
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
