"""The invariants of rounds of Connect, and between rounds, as functions that return the names of broken ones.

Each check gives the names of the invariants that do not hold, by their numbers in `diagrams/hazards.md`:
I1 to I23 for one computation of the assignor, G1 for a group at rest, W1, W2, W6 for workers; or by the clause of a row
of the worker's table. An empty result is a clean bill. W7 is asked of profiles that promise it; the shipped one does
not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import takewhile
from typing import NamedTuple

from fsm.connect.assignor.incremental import Derived, Memory, Outcome, Round, derive, recall
from fsm.connect.dialect import SHIPPED, Profile, Rule
from fsm.connect.simulation.process import SeenRound
from fsm.connect.units import Unit, Units, UnitsByWorker, kinds, list_all
from fsm.connect.worker.config import version_of
from fsm.connect.worker.inputs import (
    Answered,
    ConfigTopicAdvanced,
    Send,
    Stop,
    StopEverything,
    UnitsStarted,
    WorkerEffect,
    WorkerInput,
)
from fsm.connect.worker.state import Worker
from fsm.protocol.error_codes import ErrorCode
from fsm.protocol.messages import JoinGroupRequest, LeaveGroupRequest, SyncGroupRequest
from fsm.tables.connect_worker import SETTLED, State


@dataclass(frozen=True)
class Computation:
    """One run of the assignor: its input and output."""

    before: Memory
    round_: Round
    outcome: Outcome
    max_delay_ms: int
    profile: Profile = SHIPPED

    @cached_property
    def recalled(self) -> Memory:
        """The valid part of the memory."""
        return recall(self.before, self.round_, self.profile)

    @cached_property
    def derived(self) -> Derived:
        """The sets of the round."""
        return derive(self.recalled, self.round_)

    @cached_property
    def given(self) -> frozenset[Unit]:
        """All assigned units."""
        return list_all(self.outcome.assigned)

    @cached_property
    def taken(self) -> frozenset[Unit]:
        """All revoked units."""
        return list_all(self.outcome.revoked)

    @property
    def expired(self) -> bool:
        """Whether a delay was over."""
        deadline_ms = self.recalled.deadline_ms
        return deadline_ms is not None and self.round_.now_ms >= deadline_ms and self.max_delay_ms > 0

    @property
    def had_history(self) -> bool:
        """Whether the leader had a valid memory."""
        return self.before != Memory() and self.before.previous_generation == self.round_.last_completed_generation


def _find_repeated(given: UnitsByWorker) -> set[Unit]:
    counts = Counter(unit for units in given.values() for unit in units)
    return {unit for unit, count in counts.items() if count > 1}


def _one_owner(c: Computation) -> bool:
    return not _find_repeated(c.outcome.after) and not c.derived.duplicated & list_all(c.outcome.after)


def _stops_what_is_held(c: Computation) -> bool:
    extra = {w: set(units) - set(c.round_.owned[w]) for w, units in c.outcome.revoked.items()}
    allowed = c.derived.lost if c.expired else frozenset()
    return all(not more or (more <= allowed and w in c.recalled.candidates) for w, more in extra.items())


def _lost_is_held_back(c: Computation) -> bool:
    nobody_left = c.recalled.deadline_ms is None and c.recalled.previous_members <= c.round_.owned.keys()
    return not (c.outcome.delay_ms > 0 and c.derived.lost & c.given) or nobody_left


def _no_balance_during_delay(c: Computation) -> bool:
    return c.outcome.delay_ms == 0 or c.taken <= c.derived.deleted | c.derived.duplicated


def _delay_in_bounds(c: Computation) -> bool:
    delay_ms, deadline_ms = c.outcome.delay_ms, c.outcome.memory.deadline_ms
    due = c.round_.now_ms + delay_ms if delay_ms > 0 else None
    return 0 <= delay_ms <= c.max_delay_ms and deadline_ms == due


def _deadline_stands(c: Computation) -> bool:
    due, now_ms = c.recalled.deadline_ms, c.round_.now_ms
    if due is None or now_ms >= due or c.outcome.delay_ms == 0:
        return True
    return c.outcome.memory.deadline_ms == due


def _expiry_is_total(c: Computation) -> bool:
    if not c.expired or not c.derived.lost or c.outcome.memory.successive > c.before.successive:
        return True
    return c.outcome.delay_ms == 0 and c.derived.lost <= c.given | c.taken


def _departure_waits(c: Computation) -> bool:
    departed = not c.recalled.previous_members <= c.round_.owned.keys()
    waits = c.had_history and c.recalled.deadline_ms is None and departed and c.derived.lost and c.max_delay_ms > 0
    return not waits or c.outcome.delay_ms == c.max_delay_ms


def _no_departure(c: Computation) -> bool:
    stayed = c.recalled.deadline_ms is None and c.recalled.previous_members <= c.round_.owned.keys()
    return not stayed or c.derived.lost <= c.given


def _new_leader(c: Computation) -> bool:
    if c.before != Memory():
        return True
    left_ms, unowned = c.round_.remaining_delay_ms, c.round_.configured - c.derived.active
    if Rule.DELAY_SURVIVES_LEADER in c.profile and left_ms > 0:
        return c.outcome.delay_ms in {0, left_ms} and (c.outcome.delay_ms == 0 or not unowned & c.given)
    return c.outcome.delay_ms == 0 and unowned <= c.given


def _sticky(c: Computation) -> bool:
    return all(set(owned) - set(c.outcome.revoked[w]) <= set(c.outcome.after[w]) for w, owned in c.round_.owned.items())


def _minimal(c: Computation) -> bool:
    """A balanced group loses only deleted or duplicated units."""
    if c.expired:
        return True
    gone = c.derived.deleted | c.derived.duplicated
    loads = {w: tuple(u for u in units if u not in gone) for w, units in c.round_.owned.items()}
    measured = [(loads, c.round_.configured)]
    if Rule.TOTAL_BALANCE not in c.profile:
        wanted = kinds(c.round_.configured)
        measured = [({w: kinds(u)[k] for w, u in loads.items()}, frozenset(wanted[k])) for k in (0, 1)]
    within = all(_within(held, len(total)) for held, total in measured)
    return not within or c.taken <= gone


def _within(held: Mapping[str, Units], total: int) -> bool:
    low, extra = divmod(total, len(held))
    sizes = [len(units) for units in held.values()]
    return max(sizes) <= low + 1 and sizes.count(low + 1) <= extra


def _never_twice_in_a_row(c: Computation) -> bool:
    if not (c.before.revoked_last and c.max_delay_ms > 0) or c.expired:
        return True
    return c.taken <= c.derived.deleted | c.derived.duplicated or c.recalled.deadline_ms is not None


def _nothing_to_wait_for(c: Computation) -> bool:
    """Rule L0 of `handle_lost`: without lost work a delay ends, unless it is the pause after a revoking round."""
    return bool(c.derived.lost) or c.recalled.revoked_last or c.outcome.delay_ms == 0


def _nothing_is_lost(c: Computation) -> bool:
    held_back = c.derived.lost if c.outcome.delay_ms > 0 else frozenset()
    return c.round_.configured <= list_all(c.outcome.after) | c.taken | held_back


def _for_the_members(c: Computation) -> bool:
    members = tuple(c.round_.owned)
    return all(tuple(each) == members for each in (c.outcome.assigned, c.outcome.revoked, c.outcome.after))


def _merges(c: Computation) -> bool:
    return all(
        set(c.outcome.after[w]) == (set(owned) - set(c.outcome.revoked[w])) | set(c.outcome.assigned[w])
        for w, owned in c.round_.owned.items()
    )


ROUND: Mapping[str, Callable[[Computation], bool]] = {
    "I1 new units are unique": lambda c: not _find_repeated(c.outcome.assigned),
    "I2 revoke before assign": lambda c: not c.given & list_all(c.round_.owned),
    "I3 no unit both given and taken": lambda c: not c.given & c.taken,
    "I4 single owner": _one_owner,
    "I5 stop only what is held": _stops_what_is_held,
    "I6 deleted units are gone": lambda c: not list_all(c.outcome.after) & c.derived.deleted,
    "I7 creation never waits": lambda c: c.derived.created <= c.given,
    "I8 lost work is held back": _lost_is_held_back,
    "I9 no balance move during a delay": _no_balance_during_delay,
    "I10 delay within bounds": _delay_in_bounds,
    "I11 the deadline stands": _deadline_stands,
    "I12 expiry is total": _expiry_is_total,
    "I13 a departure waits": _departure_waits,
    "I14 nobody departed": _no_departure,
    "I15 delays disabled": lambda c: c.max_delay_ms > 0 or (c.outcome.delay_ms == 0 and c.derived.lost <= c.given),
    "I16 new leader": _new_leader,
    "I17 sticky": _sticky,
    "I18 minimal": _minimal,
    "I19 never two revoking rounds in a row": _never_twice_in_a_row,
    "L0 nothing waits for nothing": _nothing_to_wait_for,
    "I20 outputs for the members": _for_the_members,
    "G2 nothing is lost": _nothing_is_lost,
    "I21 accounting": lambda c: c.outcome.memory.previous == list_all(c.outcome.after) | c.derived.lost,
    "W1 merge": _merges,
}
"""The invariants of one computation. I22 (purity) and I23 (a failed round) are tests of their own."""


SAME_OUTPUT = "I22 the same input gives the same output"


def broken_in_round(computation: Computation) -> list[str]:
    """The invariants that one computation breaks."""
    return [name for name, holds in ROUND.items() if not holds(computation)]


class Group(NamedTuple):
    """The observable state of a group between rounds."""

    configured: Collection[Unit]
    held: Mapping[str, Units]
    """The units that each living worker holds."""
    running: Mapping[str, Collection[Unit]]
    """The units that really run in each living process."""
    zombies: Collection[str] = ()
    """Processes that run units without being members, or that could not stop one."""


def broken_at_rest(group: Group, profile: Profile = SHIPPED) -> Iterator[str]:
    """The violated invariants of a settled group: no delay, no revocation, all members stable."""
    if list_all(group.held) != frozenset(group.configured):
        yield "G1 everything configured is held, and nothing else"
    for name, sizes in _sizes(group.held, profile):
        if sizes and max(sizes) - min(sizes) > 1:
            yield f"G1 balance of {name}"
    for worker, units in group.held.items():
        if worker not in group.zombies and set(units) != set(group.running.get(worker, ())):
            yield f"W what {worker} holds is what it runs"


def _sizes(held: Mapping[str, Units], profile: Profile) -> Iterable[tuple[str, list[int]]]:
    if Rule.TOTAL_BALANCE in profile:
        return [("units", [len(units) for units in held.values()])]
    return [(name, [len(kinds(u)[k]) for u in held.values()]) for k, name in enumerate(("connectors", "tasks"))]


def broken_at_once(group: Group) -> Iterator[str]:
    """W6: at every instant a unit runs on at most one worker, ignoring zombies."""
    counts = Counter(u for worker, units in group.running.items() if worker not in group.zombies for u in units)
    for unit in sorted(unit for unit, count in counts.items() if count > 1):
        yield f"W6 {unit} runs on two workers"


def broken_between(
    before: SeenRound | None, now: SeenRound, advertised: Mapping[str, Collection[int]]
) -> Iterator[str]:
    """The violated invariants of a round, given the previous round and the versions of each worker.

    A leader that joins again before its sync computes the same generation again.
    """
    if now.leader not in now.assigned:
        yield "G5 the leader is a member"
    if any(now.version not in advertised[worker] for worker in now.assigned):
        yield "G5 everybody speaks the elected protocol"
    if before is None:
        return
    if now.generation < before.generation or (now.generation == before.generation and now.leader != before.leader):
        yield "G4 generations increase"
    if before.leader_id in now.member_ids and before.leader_id != now.leader_id:
        yield "G6 a leader that is there stays leader"


def broken_by_start(worker: Worker, running: Collection[Unit], stubborn: Collection[Unit]) -> Iterator[str]:
    """The violated invariants of a worker that is about to start units, except tasks that outlive their stop."""
    held = worker.held
    if held is None or held.failed:
        yield "W4 nothing starts without a good assignment"
        return
    if worker.configs.offset != held.offset:
        yield "W4 nothing starts before the configs agree"
    if not (set(held.revoked) & set(running)).issubset(stubborn):
        yield "W2 stops come before starts"


def broken_in_step(before: Worker, after: Worker, now_ms: int) -> Iterator[str]:
    """The violated invariants of a worker after an input."""
    if before.state is State.DELAYED and before.deadline_ms is not None and before.deadline_ms < now_ms:
        yield "W3 a delay is not waited for any longer"
    if after.held is not None and not set(after.held.revoked).isdisjoint(after.held.assigned):
        yield "W2 a join reports nothing that was revoked"
    if after.is_member and after.last_completed_generation > after.generation:
        yield "G4 no generation is completed before it was joined"
    has_begun_to_pause = before.state is not State.BACKING_OFF and after.state is State.BACKING_OFF
    longest_ms = after.config.scheduled_rebalance_max_delay_ms // 10
    if has_begun_to_pause and after.is_cooperative and (after.timer_ms or 0) > now_ms + longest_ms:
        yield "a worker backs off for at most a tenth of scheduled.rebalance.max.delay.ms"
    has_waited = before.state is after.state is State.DISCONNECTED and before.timer_ms != after.timer_ms
    if has_waited and after.held is not None and not after.held.failed:
        yield "a worker without a coordinator gives up its units"


BETWEEN_ROUNDS = frozenset({State.ASSIGNED, State.DELAYED, State.UNJOINED, State.JOINING, State.BACKING_OFF})
"""States of a worker whose round is over, and the next one has not reached it."""


def broken_by_change(
    before: Worker, after: Worker, given: WorkerInput, ran: Collection[Unit], runs: Collection[Unit]
) -> Iterator[str]:
    """What an input breaks that found these units running, and leaves those."""
    is_cooperative = version_of(before.protocol) > 0  # not as the worker believes
    changed = {unit.connector for unit in {*ran} ^ {*runs}} if is_cooperative and before.state in BETWEEN_ROUNDS else ()
    changes = (*before.changes, *given.changes) if isinstance(given, ConfigTopicAdvanced) else before.changes
    if changed and not isinstance(given, Stop) and not changed <= {one.connector for one in changes}:
        yield "W5 between rounds nothing starts or stops by itself"
    has_settled = before.state not in SETTLED and after.state in SETTLED and not after.is_cooperative
    if has_settled and Rule.EAGER_STEP_STOPS in after.config.profile and not set(runs) <= {*after.holds}:
        yield "W7 after an eager round nothing runs that is not held"


def goes_on(computation: Computation) -> bool:
    """Whether nothing has happened since the round before, whose assignments everybody has carried out."""
    before, derived = computation.before, computation.derived
    same = before.previous_members == computation.round_.owned.keys() and computation.had_history
    new = derived.created - before.previous_revocation
    carried_out = not before.previous_revocation & derived.active
    return same and carried_out and not (computation.expired or derived.lost or derived.deleted or new)


def works(computation: Computation) -> bool:
    """Whether a round moves something, or waits for something."""
    return bool(computation.given or computation.taken) or computation.outcome.delay_ms > 0


# A worker's membership: the requests that it sends, and what it keeps after answers and starts.

ONE_JOIN = "a step sends at most one join or sync"
LEAVES = "a worker that stops leaves its group once"
STOPS_FIRST = "a worker that stops stops its units before it leaves"
RECORDED = "a worker whose starts have ended records as running what it holds"
SETTLED_MEMBER = "a settled worker is a member"
JOINING_WAITS = "a worker in JOINING waits for an answer"
FORGETS_ID = "a worker forgets a member id that the coordinator does not know"
OF_MEMBERSHIP = (ONE_JOIN, LEAVES, STOPS_FIRST, RECORDED, SETTLED_MEMBER, JOINING_WAITS, FORGETS_ID)


def broken_in_membership(
    before: Worker, after: Worker, given: WorkerInput, effects: Collection[WorkerEffect]
) -> Iterator[str]:
    """What a step on this input breaks: by the requests that it sends, and by what it keeps of its membership."""
    sent = [effect.body for effect in effects if isinstance(effect, Send)]
    if sum(isinstance(body, JoinGroupRequest | SyncGroupRequest) for body in sent) > 1:
        yield ONE_JOIN
    can_leave = before.coordinator_known and bool(before.member_id)
    if isinstance(given, Stop) and sum(isinstance(body, LeaveGroupRequest) for body in sent) != can_leave:
        yield LEAVES
    stays = takewhile(lambda one: not (isinstance(one, Send) and isinstance(one.body, LeaveGroupRequest)), effects)
    stops = isinstance(given, Stop) and before.state is not State.DOWN
    if stops and not any(isinstance(effect, StopEverything) for effect in stays):
        yield STOPS_FIRST
    if (
        isinstance(given, UnitsStarted)
        and after.is_cooperative
        and (after.running, after.resolved) != (after.holds, True)
    ):
        yield RECORDED
    if after.state in SETTLED and not after.is_member:
        yield SETTLED_MEMBER
    if after.state is State.JOINING and not after.awaited:
        yield JOINING_WAITS
    if isinstance(given, Answered) and given.number == before.heartbeat_sent[0] and before.state in SETTLED:
        unknown = getattr(given.answer, "error_code", None) is ErrorCode.UNKNOWN_MEMBER_ID
        if unknown and not before.stale and before.member_id and after.member_id == before.member_id:
            yield FORGETS_ID
