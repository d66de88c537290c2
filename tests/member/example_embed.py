"""The embedded member of the README: joins, is given partitions, revokes, is fenced, rejoins and leaves."""

from fsm.member.runtime.threads import Consumer, ConsumerRebalanceListener
from fsm.protocol.config import ConsumerConfig
from fsm.testing.coordinator import ScriptedCoordinator

called = []


class Listener(ConsumerRebalanceListener):
    def on_partitions_assigned(self, partitions):
        called.append(("assigned", partitions))

    def on_partitions_revoked(self, partitions):
        called.append(("revoked", partitions))

    def on_partitions_lost(self, partitions):
        called.append(("lost", partitions))


a, b = ("orders", 0), ("orders", 1)
coordinator = ScriptedCoordinator(["orders"], heartbeat_interval_ms=5)  # or your own: a transport has three methods
with Consumer(ConsumerConfig("shop"), coordinator, member_id="m-1") as consumer:
    consumer.subscribe(["orders"], Listener())
    coordinator.give({"m-1": [a, b]})
    while coordinator.get_owned() != {"m-1": (a, b)}:
        consumer.poll(timeout_ms=10)  # callbacks run here; heartbeats go on in the background
    coordinator.give({"m-1": [a]})
    while coordinator.get_owned() != {"m-1": (a,)}:
        consumer.poll(timeout_ms=10)
    coordinator.fence("m-1")
    while called[-1] != ("assigned", (a,)):  # it has joined again
        consumer.poll(timeout_ms=10)
assert [method for method, given in called if given] == ["assigned", "revoked", "lost", "assigned", "revoked"]
