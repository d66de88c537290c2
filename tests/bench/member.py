"""What an embedded member costs: bytes, time to make one, steps per second, beside a `transitions` model per member.

    python tests/bench/member.py [--members N] [--rounds N]

One process, times of the CPU. Members of both protocols are made and kept: fresh, and joined with partitions of their
own (two each, and none, so that what the assignment takes can be told from the rest); they begin past a thousand
seconds, no two at once, so that no number is one that Python has anyway. With its two queues is a member in the shell
that an embedding turns. A heartbeat is a poll, a tick that sends, and the answer: three steps that do all a member
does. `transitions` knows nothing of that; it is given the same table, as one machine with a model per member (its
lightest way) and as `bind` with a machine per member (the way for one consumer), and takes the same events with nothing
to do for them. Of its models fewer are made, and their time is multiplied. Steps are the median of the rounds, in which
all take turns. What a heartbeat allocates is the peak of memory over it, and how many functions of `fsm` it passes is
counted in the shell, from the application's poll in the queue to the answer taken in. Nobody passes or fails here: the
figures are for reading.
"""

import argparse
import gc
import logging
import statistics
import sys
import time
import tracemalloc
from collections.abc import Callable
from functools import partial
from types import FrameType
from typing import Any

import structlog
from transitions import Machine

from fsm.machine import bind
from fsm.member.classic import step as classic
from fsm.member.classic.state import (
    ClassicAnswered,
    ClassicConfig,
    ClassicMember,
    PartitionCountsUpdated,
    UnsentClassicRequest,
)
from fsm.member.classic.state import new_member as new_classic_member
from fsm.member.consumer.state import Member, new_member
from fsm.member.consumer.step import step
from fsm.member.dialect.dialect import dialect
from fsm.member.effects import Enqueued, UnsentRequest
from fsm.member.events import (
    ApplyAssignmentEvent,
    AsyncPollEvent,
    ConsumerRebalanceListenerCallbackCompletedEvent,
    PartitionsAssignedEvent,
    TopicSubscriptionChangeEvent,
)
from fsm.member.inputs import Answered, CoordinatorFound, MetadataUpdated, Tick
from fsm.member.runtime.consumer_shell import ConsumerMember
from fsm.protocol.assignment import TopicNames, topic_partitions
from fsm.protocol.config import ConsumerConfig
from fsm.protocol.consumer_protocol import Assignment, encode_assignment
from fsm.protocol.messages import (
    ClassicResponse,
    ConsumerGroupHeartbeatResponse,
    HeartbeatResponse,
    JoinGroupResponse,
    SyncGroupResponse,
)
from fsm.tables.classic_member import State as ClassicState
from fsm.tables.consumer_member import TABLE, Event, State

CONFIG, RULES = ConsumerConfig("g", enable_auto_commit=False), dialect()
CLASSIC = ClassicConfig("g", enable_auto_commit=False)
FOUND, KNOWN = CoordinatorFound(), MetadataUpdated(TopicNames({"T": "t"}))
SUBSCRIBED, POLL, TICK = TopicSubscriptionChangeEvent(("t",), listener=True), AsyncPollEvent(), Tick()
FINE = ConsumerGroupHeartbeatResponse(1, 1_000)
COUNTS, WELL = PartitionCountsUpdated((("t", 1_000_000),)), HeartbeatResponse()
BEATS = 2_000


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--members", type=int, default=10_000, help="members made (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=7, help="rounds of heartbeats (default: %(default)s)")
    options = parser.parse_args()
    joined(0, 2), joined_classic(0, 2)
    making(options.members)
    beating(options.rounds)
    print(f"\na heartbeat allocates {allocated(joined(0, 2)):,} bytes, and passes {len(passed())} functions")


# Members


def fresh(number: int) -> Member:
    """A member that is in no group."""
    return new_member(CONFIG, f"member-{number}", RULES, begun_ms(number))


def begun_ms(number: int) -> int:
    """When a member of that number begins."""
    return 1_000_000 + number


def embedded(number: int) -> ConsumerMember:
    """The same in its shell."""
    return ConsumerMember(CONFIG, member_id=f"member-{number}", now_ms=begun_ms(number), dialect=RULES)


def joined(number: int, partitions: int) -> Member:
    """A stable member with that many partitions, no two members with the same ones."""
    target = topic_partitions({"T": range(number * partitions, (number + 1) * partitions)})
    member, now_ms = fresh(number), begun_ms(number)
    for given in (FOUND, KNOWN, SUBSCRIBED, POLL):
        member = step(member, given, now_ms).member
    member = answered(member, ConsumerGroupHeartbeatResponse(1, 1_000, target), now_ms)
    done = step(member, POLL, now_ms)
    event = next(e.event for e in done.effects if isinstance(e, Enqueued))
    assert isinstance(event, PartitionsAssignedEvent)
    member = step(done.member, ApplyAssignmentEvent(event.ticket, event.full, event.added), now_ms).member
    member = step(member, ConsumerRebalanceListenerCallbackCompletedEvent(event.ticket), now_ms).member
    member = answered(member, FINE, now_ms)
    assert member.state is State.STABLE
    return member


def answered(member: Member, response: ConsumerGroupHeartbeatResponse, now_ms: int) -> Member:
    """After a tick that sends a heartbeat, and its answer."""
    member, effects = step(member, TICK, now_ms)
    request = next(e for e in effects if isinstance(e, UnsentRequest))
    return step(member, Answered(request, response), now_ms).member


def fresh_classic(_number: int) -> ClassicMember:
    """A classic member that is in no group."""
    return new_classic_member(CLASSIC)


def joined_classic(number: int, partitions: int) -> ClassicMember:
    """A stable follower of a classic group with that many partitions."""
    given = tuple(("t", n) for n in range(number * partitions, (number + 1) * partitions))
    answers: tuple[ClassicResponse, ...] = (
        JoinGroupResponse(1, "consumer", "range", "leader", f"member-{number}"),
        SyncGroupResponse(encode_assignment(Assignment(given))),
    )
    member, now_ms = fresh_classic(number), begun_ms(number)
    for received in (FOUND, COUNTS, SUBSCRIBED):
        member = classic.step(member, received, now_ms).member
    for answer in answers:
        member, effects = classic.step(member, POLL, now_ms)
        request = next(e for e in effects if isinstance(e, UnsentClassicRequest))
        member = classic.step(member, ClassicAnswered(request, answer), now_ms).member
    member = classic.step(member, POLL, now_ms).member
    assert member.awaited is not None
    member = classic.step(member, ConsumerRebalanceListenerCallbackCompletedEvent(member.awaited.ticket), now_ms).member
    assert (member.state, member.owned, member.awaited) == (ClassicState.STABLE, given, None)
    return member


def heartbeats(member: Member, count: int = BEATS) -> Callable[[], None]:
    """Many heartbeats of a member, a second apart; each is three steps."""
    box: list[Any] = [member, begun_ms(0)]

    def run() -> None:
        now, now_ms = box
        for _ in range(count):
            now_ms += 1_000
            now, effects = step(step(now, POLL, now_ms).member, TICK, now_ms)
            now = step(now, Answered(effects[0], FINE), now_ms).member
        box[:] = now, now_ms

    return run


def classic_heartbeats(member: ClassicMember) -> Callable[[], None]:
    """The same of a classic member, on its interval."""
    box: list[Any] = [member, begun_ms(0)]

    def run() -> None:
        now, now_ms = box
        for _ in range(BEATS):
            now_ms += CLASSIC.heartbeat_interval_ms
            now, effects = classic.step(classic.step(now, POLL, now_ms).member, TICK, now_ms)
            now = classic.step(now, ClassicAnswered(effects[0], WELL), now_ms).member
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
        "member, fresh, with its two queues": (embedded, members),
        "classic member, fresh": (fresh_classic, members),
        "classic member, joined, no partitions": (partial(joined_classic, partitions=0), members),
        "classic member, joined, two partitions": (partial(joined_classic, partitions=2), members),
        "transitions: a model of one machine": (lambda _: added(machine), members // 10),
        "bind: a machine per model": (lambda _: bound(), members // 100),
    }
    print(f"\n{'':42} {'bytes each':>10} {'x':>7} {'us each':>9} {'x':>9} {'s for ' + str(members):>12}")
    first: tuple[float, float] | None = None
    for name, (make, count) in kinds.items():
        size, each_s = weighed(make, count), timed(make, count) / count
        first = first or (size, each_s)
        print(
            f"{name:42} {size:10,.0f} {size / first[0]:7.1f} {each_s * 1e6:9.1f} {each_s / first[1]:9.1f} "
            f"{each_s * members:12.2f}"
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
    start = time.process_time()
    kept = [make(number) for number in range(count)]
    seconds = time.process_time() - start
    gc.enable()
    del kept
    return seconds


def beating(rounds: int) -> None:
    """Steps of a member, and ticks that have nothing to do, beside events of the library."""
    member = joined(0, 2)

    def idle() -> None:
        for _ in range(BEATS):
            step(member, TICK, begun_ms(0))

    runs = {
        "member: heartbeat (poll, tick, answer)": (heartbeats(member), 3 * BEATS),
        "member: tick with nothing to do": (idle, BEATS),
        "classic member: heartbeat (the same three)": (classic_heartbeats(joined_classic(0, 2)), 3 * BEATS),
        "transitions: its two events, no effects": (triggered(added(shared_machine())), 2 * BEATS),
        "bind: its two events, effects obeyed": (triggered(bound()), 2 * BEATS),
    }
    each: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(rounds):
        for name, (run, steps) in runs.items():
            start = time.process_time()
            run()
            each[name].append((time.process_time() - start) / steps)
    print(f"\n{'':42} {'steps/s':>10} {'us/step':>9} {'x':>6}")
    reference = next(iter(each.values()))
    for name, times in each.items():
        ratio = statistics.median(mine / ours for mine, ours in zip(times, reference, strict=True))
        print(f"{name:42} {1 / statistics.median(times):10,.0f} {statistics.median(times) * 1e6:9.2f} {ratio:6.2f}")


def allocated(member: Member) -> int:
    """The peak of memory that one heartbeat takes, in bytes."""
    run = heartbeats(member, 1)
    run()
    gc.collect()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    tracemalloc.reset_peak()
    run()
    peak = tracemalloc.get_traced_memory()[1] - before
    tracemalloc.stop()
    return peak


def passed() -> set[tuple[str, str]]:
    """The functions of `fsm`, those that `fsm.step` writes included, through which an idle heartbeat goes."""
    shell, seen = embedded(0), set()
    shell.member = joined(0, 2)

    def beat(now_ms: int) -> None:
        shell.submit(POLL)
        (request,) = shell.poll(now_ms).unsent_requests
        shell.receive_answer(request, FINE, 0.0, now_ms)

    def note(frame: FrameType, event: str, _given: object) -> None:
        code = frame.f_code
        if event == "call" and ("/fsm/" in code.co_filename or code.co_filename == "<fsm>"):
            seen.add((code.co_filename, code.co_qualname))

    beat(begun_ms(0) + 1_000)
    sys.setprofile(note)
    beat(begun_ms(0) + 2_000)
    sys.setprofile(None)
    return seen


if __name__ == "__main__":
    main()
