"""What an embedded member costs: bytes, time to make one, steps per second, beside a `transitions` model per member.

    python tests/bench/member.py [--members N] [--rounds N]

One process. Members are made and kept: fresh, and joined with partitions of their own (two each, and none, so that what
the assignment takes can be told from the rest). A heartbeat is a poll, a tick that sends, and the answer: three steps
that do all a member does. `transitions` knows nothing of that; it is given the same table, as one machine with a model
per member (its lightest way) and as `bind` with a machine per member (the way for one consumer), and takes the same
events with nothing to do for them. Steps are the median of the rounds, in which both take turns. Nobody passes or fails
here: the figures are for reading.
"""

import argparse
import gc
import logging
import statistics
import time
import tracemalloc
from collections.abc import Callable
from functools import partial
from typing import Any

import structlog
from transitions import Machine

from fsm.kafka.assignment import TopicNames, topic_partitions
from fsm.kafka.config import ConsumerConfig
from fsm.kafka.events import (
    ApplyAssignmentEvent,
    AsyncPollEvent,
    ConsumerRebalanceListenerCallbackCompletedEvent,
    PartitionsAssignedEvent,
    TopicSubscriptionChangeEvent,
)
from fsm.kafka.messages import ConsumerGroupHeartbeatResponse
from fsm.machine import bind
from fsm.member.consumer import step
from fsm.member.dialect import dialect
from fsm.member.effects import Enqueued, UnsentRequest
from fsm.member.inputs import Answered, CoordinatorFound, MetadataUpdated, Tick
from fsm.member.state import Member, new_member
from fsm.tables.consumer_member import TABLE, Event, State

CONFIG, RULES = ConsumerConfig("g", enable_auto_commit=False), dialect()
FOUND, KNOWN = CoordinatorFound(), MetadataUpdated(TopicNames({"T": "t"}))
SUBSCRIBED, POLL, TICK = TopicSubscriptionChangeEvent(("t",), listener=True), AsyncPollEvent(), Tick()
FINE = ConsumerGroupHeartbeatResponse(1, 1_000)
BEATS = 2_000


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--members", type=int, default=10_000, help="members made (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=7, help="rounds of heartbeats (default: %(default)s)")
    options = parser.parse_args()
    fresh(0)
    joined(0, 2)
    print(f"{options.members} members; of the library's machines a tenth")
    making(options.members)
    beating(options.rounds)


# Members


def fresh(number: int) -> Member:
    """A member that is in no group."""
    return new_member(CONFIG, f"member-{number}", RULES, 0)


def joined(number: int, partitions: int) -> Member:
    """A stable member with that many partitions, no two members with the same ones."""
    target = topic_partitions({"T": range(number * partitions, (number + 1) * partitions)})
    member = fresh(number)
    for given in (FOUND, KNOWN, SUBSCRIBED, POLL):
        member = step(member, given, 0).member
    member = answered(member, ConsumerGroupHeartbeatResponse(1, 1_000, target))
    done = step(member, POLL, 0)
    event = next(e.event for e in done.effects if isinstance(e, Enqueued))
    assert isinstance(event, PartitionsAssignedEvent)
    member = step(done.member, ApplyAssignmentEvent(event.ticket, event.full, event.added), 0).member
    member = step(member, ConsumerRebalanceListenerCallbackCompletedEvent(event.ticket), 0).member
    member = answered(member, FINE)
    assert member.state is State.STABLE
    return member


def answered(member: Member, response: ConsumerGroupHeartbeatResponse) -> Member:
    """After a tick that sends a heartbeat, and its answer."""
    member, effects = step(member, TICK, 0)
    request = next(e for e in effects if isinstance(e, UnsentRequest))
    return step(member, Answered(request, response), 0).member


def heartbeats(member: Member) -> Callable[[], None]:
    """Many heartbeats of a member, a second apart; each is three steps."""
    box = [member, 0]

    def run() -> None:
        now, now_ms = box
        for _ in range(BEATS):
            now_ms += 1_000
            now, effects = step(step(now, POLL, now_ms).member, TICK, now_ms)
            now = step(now, Answered(effects[0], FINE), now_ms).member
        box[:] = now, now_ms

    return run


# The library


class Model:
    """Obeys every effect by doing nothing."""

    state: Any

    def on_effect(self, effect: Any) -> None:
        """The least a model can do."""


def shared_machine() -> Machine:
    """One machine, to which models are added."""
    machine = Machine(None, list(TABLE.leaves()), initial=State.UNSUBSCRIBED, auto_transitions=False)
    for (state, event), cell in TABLE.compiled.items():
        machine.add_transition(event.name.lower(), state, cell.target if cell.path else None)
    return machine


def added(machine: Machine) -> Model:
    """A model more for the one machine."""
    model = Model()
    machine.add_model(model)
    return model


def bound() -> Model:
    """A model with a machine of its own."""
    model = Model()
    bind(TABLE, model, logger=structlog.wrap_logger(None, wrapper_class=QUIET))
    return model


QUIET = structlog.make_filtering_bound_logger(logging.ERROR)


def triggered(model: Model) -> Callable[[], None]:
    """The events of as many heartbeats, with nothing to do for them."""
    model.state = State.STABLE
    sent, answered = (getattr(model, event.name.lower()) for event in (Event.HB_SENT, Event.RESP_EPOCH))

    def run() -> None:
        for _ in range(BEATS):
            sent()
            answered()

    return run


# Measuring


def making(members: int) -> None:
    """Bytes and time of each kind."""
    machine = shared_machine()
    kinds: dict[str, tuple[Callable[[int], Any], int]] = {
        "member, fresh": (fresh, members),
        "member, joined, no partitions": (partial(joined, partitions=0), members),
        "member, joined, two partitions": (partial(joined, partitions=2), members),
        "transitions: a model of one machine": (lambda _: added(machine), members // 10),
        "bind: a machine per model": (lambda _: bound(), members // 100),
    }
    print(f"\n{'':38} {'bytes each':>10} {'x fresh':>8} {'us each':>9} {'s for ' + str(members):>12}")
    reference = 0.0
    for name, (make, count) in kinds.items():
        size, seconds = weighed(make, count), timed(make, count)
        reference = reference or size
        print(
            f"{name:38} {size:10,.0f} {size / reference:8.1f} {seconds / count * 1e6:9.1f} "
            f"{seconds / count * members:12.2f}"
        )


def weighed(make: Callable[[int], Any], count: int) -> float:
    """Bytes of each of so many, all kept at once."""
    gc.collect()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    kept = [make(number) for number in range(count)]
    gc.collect()
    size = (tracemalloc.get_traced_memory()[0] - before) / len(kept)
    tracemalloc.stop()
    return size


def timed(make: Callable[[int], Any], count: int) -> float:
    """Seconds for so many, all kept at once, without the collector, which has nothing to find."""
    gc.collect()
    gc.disable()
    start = time.perf_counter()
    kept = [make(number) for number in range(count)]
    seconds = time.perf_counter() - start
    gc.enable()
    del kept
    return seconds


def beating(rounds: int) -> None:
    """Steps of a member, and ticks that have nothing to do, beside events of the library."""
    member = joined(0, 2)

    def idle() -> None:
        for _ in range(BEATS):
            step(member, TICK, 0)

    runs = {
        "member: heartbeat (poll, tick, answer)": (heartbeats(member), 3 * BEATS),
        "member: tick with nothing to do": (idle, BEATS),
        "transitions: its two events, no effects": (triggered(added(shared_machine())), 2 * BEATS),
        "bind: its two events, effects obeyed": (triggered(bound()), 2 * BEATS),
    }
    each: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(rounds):
        for name, (run, steps) in runs.items():
            start = time.perf_counter()
            run()
            each[name].append((time.perf_counter() - start) / steps)
    print(f"\n{'':42} {'steps/s':>10} {'us/step':>9} {'x':>6}")
    reference = next(iter(each.values()))
    for name, times in each.items():
        ratio = statistics.median(mine / ours for mine, ours in zip(times, reference, strict=True))
        print(f"{name:42} {1 / statistics.median(times):10,.0f} {statistics.median(times) * 1e6:9.2f} {ratio:6.2f}")


if __name__ == "__main__":
    main()
