"""Mutants of tables and rules: which are made, which are killed, and that nothing of them stays."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain
from typing import Any

import pytest

from fsm.check import Component, Limits, Model, Step, compose
from fsm.check.kafka.application import ASSIGNS_NEW
from fsm.check.kafka.classic.group import classic_group
from fsm.check.kafka.classic.promises import ANSWERED, ANSWERED_ONCE, JOINED, TIMED
from fsm.check.kafka.connect.cluster import connect
from fsm.check.kafka.consumer.group import consumer_group
from fsm.check.kafka.consumer.shell import JOINS_EMPTY, ONE_HEARTBEAT
from fsm.check.kafka.mixed.group import mixed_group
from fsm.check.kafka.mutants import subject
from fsm.check.mutation import replace_function
from fsm.check.mutation_score import Outcome, Score, Subject, lines, score
from fsm.connect.simulation.invariants import (
    FORGETS_ID,
    JOINING_WAITS,
    LEAVES,
    ONE_JOIN,
    RECORDED,
    SAME_OUTPUT,
    SETTLED_MEMBER,
)
from fsm.coordinator.classic.invariants import COUNTS, STORED
from fsm.errors import InputError
from fsm.table import Symbol, Table, row


class State(Symbol):
    SHUT, OPEN = "Shut.", "Open."


class Event(Symbol):
    PUSHED, STOPPED = "Somebody pushes.", "The lift is there."


class Effect(Symbol):
    LEAVE = "The lift may go."


S, E, F = State, Event, Effect
DOOR = Table(
    "door",
    S.SHUT,
    (row(S.SHUT, E.STOPPED, S.OPEN), row(S.OPEN, E.PUSHED, S.SHUT, F.LEAVE)),
    effects=Effect,
)


class LiftState(Symbol):
    MOVING, WAITING = "Between two floors.", "At a floor."


class LiftEvent(Symbol):
    ARRIVED, LEAVE = "At a floor.", "The door is shut."


class LiftEffect(Symbol):
    STOPPED = "It has stopped."


LIFT = Table(
    "lift",
    LiftState.MOVING,
    (
        row(LiftState.MOVING, LiftEvent.ARRIVED, LiftState.WAITING, LiftEffect.STOPPED),
        row(LiftState.WAITING, LiftEvent.LEAVE, LiftState.MOVING),
    ),
    effects=LiftEffect,
)


def of_lift(*which: str) -> Score:
    return score(Subject(lambda: compose([DOOR, LIFT], ["door.OPEN,lift.MOVING"], "door.OPEN")), which)


def test_mutants_of_tables_are_killed_or_told() -> None:
    found = of_lift()
    violations = {one.mutant.name: (one.word, one.property) for one in found.outcomes}
    assert violations["lose:door.OPEN.PUSHED:LEAVE"] == ("killed", "no deadlock")
    assert violations["reorder:door.OPEN.PUSHED:SHUT-LEAVE"] == ("same", "")
    assert violations["target:lift.MOVING.ARRIVED:MOVING"] == ("killed", "never door.OPEN,lift.MOVING")
    assert found.count("killed") + found.count("survived") + found.count("stopped") == found.tried
    assert 0 < found.count("killed") <= found.tried
    assert next(lines(found)).startswith("door with lift: ")


def test_the_same_mutants_come_out_the_same() -> None:
    assert of_lift().document() == of_lift().document()


def test_steps_that_do_not_reach_a_mutant_are_looked_up() -> None:
    taken: list[str] = []

    def count(one: Component) -> Component:
        def step(state: Any, given: Any) -> Step:
            taken.append(one.name)
            return one.step(state, given)

        return replace(one, step=step)

    def make() -> Model:
        taken.clear()  # those of the last exploration remain
        model = compose([DOOR, LIFT], ["door.OPEN,lift.MOVING"], "door.OPEN")
        return replace(model, components=[count(one) for one in model.components])

    (found,) = score(Subject(make), ["ignore:lift.WAITING.LEAVE"]).outcomes
    assert (found.word, {*taken}) == ("killed", {"lift"})


def test_each_result_is_reported_at_once_and_an_interrupt_leaves_those_known() -> None:
    reported: list[Outcome] = []

    def report(one: Outcome) -> None:
        reported.append(one)
        if len(reported) == 3:
            raise KeyboardInterrupt

    found = score(Subject(lambda: compose([DOOR, LIFT], goal="door.OPEN")), report=report)
    assert found.outcomes == tuple(reported)
    assert found.untried > 0
    assert f"  ended by Ctrl-C: {found.untried} more mutants were not tried" in lines(found)


def test_a_mutant_with_many_more_steps_than_its_model_is_stopped() -> None:
    made = subject("classic-group", lambda: classic_group(1, coordinator="fixed"))
    (found,) = score(made, ["lose:classic-group.EMPTY.MEMBER_ID_GIVEN:REMEMBER_ID"]).outcomes
    assert (found.word, found.states < 10_000) == ("stopped", True)


def test_a_mutant_whose_cluster_never_settles_is_not_explored() -> None:
    made = subject("connect", lambda: connect(settled=True))
    (found,) = score(made, ["drop:connect-worker.DISCONNECTED.COORDINATOR_FOUND"]).outcomes
    assert (found.word, "has not settled after 200 steps" in found.property) == ("killed", True)


def test_nothing_of_a_mutant_stays() -> None:
    before = dict(DOOR.compiled), dict(LIFT.compiled)
    of_lift()
    assert (dict(DOOR.compiled), dict(LIFT.compiled)) == before
    assert type(DOOR.compiled).__getitem__ is dict.__getitem__


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("bend", "unknown operator 'bend'"),
        ("drop:door.AJAR.PUSHED", "unknown row, rule or choice 'door.AJAR.PUSHED'"),
        ("lose:door.SHUT.STOPPED", "'lose:door.SHUT.STOPPED' changes nothing"),
    ],
)
def test_what_changes_nothing_is_told(name: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        of_lift(name)


def test_a_model_that_does_not_hold_tells_nothing_of_mutants() -> None:
    broken = Subject(lambda: compose([DOOR, LIFT], ["door.SHUT,lift.MOVING"]))
    with pytest.raises(InputError, match="the model itself breaks"):
        score(broken)


def test_rules_of_a_consumer_group_are_mutated() -> None:
    made = subject("consumer-group", lambda: consumer_group(1, {"foo": 1}, "fixed"))
    rule = "fsm.member.consumer.decisions.is_current"
    (never,) = score(made, [f"never:{rule}"]).outcomes
    assert (never.word, never.property) == ("killed", "the group settles")
    (always,) = score(made, [f"always:{rule}"]).outcomes
    assert always.word == "not met"
    (flip,) = score(made, ["flip:coordinator.LEAVE_GROUP_REMOVES_ANY"]).outcomes
    assert flip.word == "not met"


SLOWER = (
    "target:consumer-member.RECONCILING.ASSIGNED_OK:STABLE",
    "lose:consumer-member.ACKNOWLEDGING.ACK_SENT:SEND_ACK_HEARTBEAT",
    "never:fsm.member.consumer.decisions.may_send_now",
    "timer:consumer-group.EMPTY.MEMBER_JOINED_ALL_STABLE:SET_METADATA_DEADLINE",
)
"""What is said at once is said on the interval: the model has no clock."""
DONE_BY_ANOTHER = (
    *(f"lose:consumer-member.JOINING.ERR_FENCE:{what}" for what in ("WIPE_SENT", "FAIL_REQUEST", "RESET_REQUEST")),
    "lose:consumer-member.UNSUBSCRIBED.APPLY_ASSIGNMENT:NOTIFY_ASSIGNMENT",
    "lose:consumer-member.FENCED.LOST_DONE_FENCE:MARK_REJOINED",
)
"""Another effect or rule of the dialect comes to the same."""
HARMLESS = ("repeat:consumer-group.ASSIGNING.LAST_MEMBERS_REMOVED:BUMP_GROUP_EPOCH",)
"""An epoch is passed over, of a group without members."""
ROWS = ("drop", "ignore", "stay", "target", "lose", "timer", "repeat", "reorder")
OPERATORS = ("drop", "stay", "target", "lose", "timer", "repeat", "reorder", "skip", "never", "epoch")


@pytest.mark.deep
def test_the_score_of_a_consumer_group() -> None:
    """What survives does so for a reason that is known; the table of `fsm/check/README.md` has the counts."""
    made = subject("consumer-group", lambda: consumer_group(1, client="fixed", coordinator="fixed"))
    limits = Limits(max_states=3_000)
    found = score(made, OPERATORS, disturb=["expire"], disturbances=1, limits=limits)
    survived = {one.mutant.name for one in found.outcomes if one.word == "survived"}
    assert survived == {*SLOWER, *DONE_BY_ANOTHER, *HARMLESS}
    assert [found.count(word) for word in ("killed", "survived", "stopped", "same")] == [92, 10, 0, 113]


ACK_SENT = "consumer-member.ACKNOWLEDGING.ACK_SENT"
OF_TWO_CONSUMERS = {
    "what is said at once is said on the interval: the model has no clock": (
        f"lose:{ACK_SENT}:SEND_ACK_HEARTBEAT",
        f"lose:{ACK_SENT}_TARGET_MOVED:SEND_ACK_HEARTBEAT",
        "never:fsm.member.consumer.decisions.may_send_now",
        "timer:consumer-group.EMPTY.MEMBER_JOINED_ALL_STABLE:SET_METADATA_DEADLINE",
    ),
    "it acknowledges first, and finds then that the target has moved": (
        "stay:consumer-member.ACKNOWLEDGING.RESP_NEW",
        "target:consumer-member.ACKNOWLEDGING.RESP_NEW:ACKNOWLEDGING",
    ),
    "another effect comes to the same": ("lose:consumer-member.UNSUBSCRIBED.APPLY_ASSIGNMENT:NOTIFY_ASSIGNMENT",),
    "the timer is for an epoch that the member has left: its expiry removes nobody": (
        "timer:consumer-group-member.UNREVOKED_PARTITIONS.NOTHING_TO_GRANT:CANCEL_REBALANCE_TIMER",
    ),
}
"""What survives of two consumers without a disturbance, by the reason."""
REMOVED_AGAIN_AND_AGAIN = (
    *(f"drop:consumer-member.RECONCILING.{event}" for event in ("COMMIT_DONE_REVOKE", "REVOKED_OK", "ASSIGNED_OK")),
    *(f"ignore:consumer-member.{state}.RESP_NEW" for state in ("RECONCILING", "ACKNOWLEDGING", "STABLE")),
    "ignore:consumer-member.RECONCILING.REC_START",
    *(f"stay:{event}" for event in (ACK_SENT, f"{ACK_SENT}_TARGET_MOVED")),
    f"target:{ACK_SENT}_TARGET_MOVED:ACKNOWLEDGING",
    "target:consumer-member.RECONCILING.COMMIT_DONE_REVOKE:ACKNOWLEDGING",
    "lose:consumer-member.RECONCILING.RESP_NEW:BUMP_TARGET",
    "never:fsm.member.consumer.decisions.is_current",
)
"""A member does not revoke, or does not say so: the coordinator's timer removes it, and it joins again, without end."""


@pytest.mark.deep
def test_the_score_of_two_consumers() -> None:
    made = subject("consumer-group", lambda: consumer_group(client="fixed", coordinator="fixed"))
    found = score(made, [*ROWS, "skip", "never", "epoch"])
    by_word = {
        word: {one.mutant.name for one in found.outcomes if one.word == word} for word in ("survived", "stopped")
    }
    assert by_word == {"survived": {*chain(*OF_TWO_CONSUMERS.values())}, "stopped": {*REMOVED_AGAIN_AND_AGAIN}}
    assert [found.count(word) for word in ("killed", "survived", "stopped", "same")] == [128, 8, 13, 221]


@pytest.mark.deep
def test_events_that_liveness_does_not_count_on_are_not_mutated() -> None:
    """The rebalance timer of two consumers, without a disturbance: it never has to expire, unless it is one."""
    made = subject("consumer-group", lambda: consumer_group(client="fixed", coordinator="fixed"))
    name = "drop:consumer-group-member.UNREVOKED_PARTITIONS.REBALANCE_TIMEOUT_EXPIRED"
    (found,) = score(made, [name]).outcomes
    assert found.word == "same"
    (found,) = score(made, [name], disturb=["rebalance_timeout"], disturbances=1).outcomes
    assert found.word == "killed"


COMPUTING = ("always", "never", "same", "empty")
SYNC_PHASE_ENDS = "classic-group.COMPLETING_REBALANCE.SYNC_PHASE_EXPIRED_NOBODY_LEFT"
OF_A_CLASSIC_GROUP = {
    "the coordinator refuses the old id, and the member resets it then": (
        "lose:classic-member.PREPARING_REBALANCE.HEARTBEAT_UNKNOWN_MEMBER_ID:RESET_GENERATION",
        "lose:classic-member.COMPLETING_REBALANCE.SYNC_UNKNOWN_MEMBER_ID:RESET_GENERATION",
    ),
    "another timer ends the phase, or the first join creates the group": (
        "ignore:classic-group.EMPTY.GROUP_CREATED",
        "ignore:classic-group.PREPARING_REBALANCE.SESSION_EXPIRED_NOBODY_LEFT",
        f"timer:{SYNC_PHASE_ENDS}:CANCEL_HEARTBEAT_TIMERS",
        f"reorder:{SYNC_PHASE_ENDS}:REMOVE_UNSYNCED_MEMBERS-CANCEL_HEARTBEAT_TIMERS",
    ),
    "the second time there is nothing left to do": (
        "repeat:classic-member.UNJOINED.JOIN_PREPARED_LOST:LOSE_ALL_PARTITIONS",
        "target:classic-member.UNJOINED.JOIN_PREPARED_LOST:PREPARING_REBALANCE",
        "repeat:classic-member.COMPLETING_REBALANCE.SYNC_OK:ASSIGN_PARTITIONS",
        f"repeat:{SYNC_PHASE_ENDS}:REMOVE_UNSYNCED_MEMBERS",
    ),
    "it takes a second member, or a second disturbance": (
        "ignore:classic-member.UNJOINED.JOIN_PREPARED_LOST",
        "lose:classic-group.PREPARING_REBALANCE.SESSION_EXPIRED_NOBODY_LEFT:CLEAR_PROTOCOL",
    ),
}
"""What survives in a group of one classic member, by the reason."""
COUNTING_UP = (
    "lose:classic-member.PREPARING_REBALANCE.JOIN_OK_LEADER:SEND_SYNC_GROUP",
    "target:classic-member.COMPLETING_REBALANCE.SYNC_OK:UNJOINED",
    "lose:classic-group.EMPTY.MEMBER_ID_GIVEN:REMEMBER_ID",
    "never:fsm.member.classic.decisions.matches_subscription",
)
"""Its members join again and again, so that its generations or ids never end: its states do not, either."""


@pytest.mark.deep
def test_the_score_of_a_classic_group() -> None:
    made = subject("classic-group", lambda: classic_group(1, coordinator="fixed"))
    kinds = ["expire", "rebalance_timeout"]
    found = score(made, disturb=kinds, disturbances=1, limits=Limits(max_states=1_000))
    by_word = {
        word: {one.mutant.name for one in found.outcomes if one.word == word} for word in ("survived", "stopped")
    }
    assert by_word == {"survived": {*chain(*OF_A_CLASSIC_GROUP.values())}, "stopped": {*COUNTING_UP}}
    assert [found.count(word) for word in ("killed", "survived", "stopped", "same")] == [134, 12, 4, 194]


@pytest.mark.parametrize(
    ("name", "killer"),
    [
        ("lose:classic-group.STABLE.SESSION_EXPIRED_NOBODY_LEFT:BUMP_GENERATION", COUNTS),
        ("lose:classic-group.COMPLETING_REBALANCE.LEADER_SYNCED_LAST:WRITE_GROUP", STORED),
        ("repeat:classic-group.COMPLETING_REBALANCE.HEARTBEAT:ANSWER_OK", ANSWERED_ONCE),
        ("lose:classic-group.STABLE.SESSION_EXPIRED_NOBODY_LEFT:CLEAR_PROTOCOL", "EMPTY has no protocol"),
        (
            "lose:classic-member.PREPARING_REBALANCE.HEARTBEAT_UNKNOWN_MEMBER_ID:RESET_MEMBER_ID",
            "a member forgets an id that the coordinator does not know",
        ),
        (
            "lose:classic-member.UNJOINED.JOIN_MEMBER_ID_REQUIRED:ADOPT_MEMBER_ID",
            "a member takes the id that it is given",
        ),
    ],
)
@pytest.mark.loop(1)
def test_what_survived_once_in_a_classic_group_is_killed(name: str, killer: str) -> None:
    made = subject("classic-group", lambda: classic_group(1, coordinator="fixed"))
    (found,) = score(made, [name], disturb=["expire"], disturbances=1).outcomes
    assert (found.word, found.property) == ("killed", killer)


@pytest.mark.parametrize(
    ("name", "kinds", "killer"),
    [
        ("repeat:consumer-member.RECONCILING.HB_SENT:SEND_DELTA_HEARTBEAT", [], ONE_HEARTBEAT),
        (
            "lose:consumer-group.ASSIGNING.LAST_MEMBERS_REMOVED:BUMP_GROUP_EPOCH",
            ["expire"],
            "33 whoever goes bumps the group epoch",
        ),
        ("never:fsm.member.consumer.decisions.needs_callback", ["expire"], JOINS_EMPTY),
    ],
)
@pytest.mark.loop(1)
def test_what_survived_once_is_killed(name: str, kinds: list[str], killer: str) -> None:
    made = subject("consumer-group", lambda: consumer_group(1, client="fixed", coordinator="fixed"))
    (found,) = score(made, [name], disturb=kinds, disturbances=len(kinds)).outcomes
    assert (found.word, found.property) == ("killed", killer)


def test_a_callback_that_assigns_what_is_in_use_is_found() -> None:
    made = subject("consumer-group", lambda: consumer_group(1, client="fixed", coordinator="fixed"))
    name = "lose:consumer-member.UNSUBSCRIBED.APPLY_ASSIGNMENT:SET_OWNED"
    (found,) = score(made, [name], disturb=["expire"], disturbances=1, properties=[ASSIGNS_NEW]).outcomes
    assert (found.word, found.property) == ("killed", ASSIGNS_NEW)


PREPARED = "classic-member.STABLE.JOIN_PREPARED_EAGER"
OF_A_MIXED_GROUP = {
    "what is said at once is said on the interval: the model has no clock": (
        "target:consumer-member.RECONCILING.ASSIGNED_OK:STABLE",
        f"lose:{ACK_SENT}:SEND_ACK_HEARTBEAT",
        "never:fsm.member.consumer.decisions.may_send_now",
        "timer:consumer-group.EMPTY.MEMBER_JOINED_ALL_STABLE:SET_METADATA_DEADLINE",
        "timer:consumer-group.ASSIGNING.MEMBER_JOINED_RECONCILING:SET_METADATA_DEADLINE",
    ),
    "another effect comes to the same, or the first join creates the group": (
        "lose:consumer-member.UNSUBSCRIBED.APPLY_ASSIGNMENT:NOTIFY_ASSIGNMENT",
        "ignore:classic-group.EMPTY.GROUP_CREATED",
    ),
    "the member joins again: as a follower after the upgrade, from either state, or when it abandons its request": (
        "ignore:classic-member.PREPARING_REBALANCE.JOIN_OK_LEADER",
        "target:classic-member.UNJOINED.SYNC_REBALANCE_IN_PROGRESS:PREPARING_REBALANCE",
        "ignore:classic-group.PREPARING_REBALANCE.UPGRADED",
        "lose:classic-group.PREPARING_REBALANCE.UPGRADED:ANSWER_JOINS_REBALANCE",
    ),
    "the upgrade answers the syncs": (
        "ignore:classic-group.COMPLETING_REBALANCE.ASSIGNMENT_STORED",
        "stay:classic-group.COMPLETING_REBALANCE.ASSIGNMENT_STORED",
    ),
    "the coordinator's timer removes the member, and it joins again": (
        "ignore:classic-member.STABLE.HEARTBEAT_REBALANCE_IN_PROGRESS",
    ),
    "its join names what it still owns, and the coordinator waits for that, as for a cooperative member": (
        f"ignore:{PREPARED}",
    ),
    "the second time there is nothing left to do, the state is left at once, or an epoch is passed over": (
        f"repeat:{PREPARED}:REVOKE_ALL_PARTITIONS",
        f"target:{PREPARED}:UNJOINED",
        "repeat:classic-member.COMPLETING_REBALANCE.SYNC_OK:ASSIGN_PARTITIONS",
        "repeat:consumer-group.ASSIGNING.MEMBER_JOINED_RECONCILING:BUMP_GROUP_EPOCH",
    ),
    "it takes a later rebalance, or a late commit": (
        "lose:classic-member.PREPARING_REBALANCE.JOIN_OK_FOLLOWER:START_HEARTBEATS",
        "epoch:fsm.coordinator.migration.conversion._assignment_epoch:-1",
    ),
}
"""What survives of a consumer and an eager member in one group without a disturbance, by the reason."""
OF_MIXED_REMOVED_AGAIN_AND_AGAIN = (
    "drop:consumer-member.RECONCILING.ASSIGNED_OK",
    "ignore:consumer-member.JOINING.RESP_NEW",
    "ignore:consumer-member.RECONCILING.REC_START",
    f"stay:{ACK_SENT}",
    "never:fsm.member.consumer.decisions.is_current",
    "ignore:classic-member.UNJOINED.JOIN_SENT",
    "stay:classic-member.UNJOINED.JOIN_SENT",
    "ignore:classic-member.PREPARING_REBALANCE.JOIN_OK_FOLLOWER",
    "lose:classic-member.PREPARING_REBALANCE.JOIN_OK_FOLLOWER:SEND_SYNC_GROUP",
    "ignore:classic-member.COMPLETING_REBALANCE.SYNC_OK",
)


@pytest.mark.slow
def test_the_score_of_a_mixed_group() -> None:
    made = subject("mixed-group", lambda: mixed_group(topics={"foo": 1}, client="fixed", coordinator="fixed"))
    found = score(made, [*ROWS, "skip", "never", "epoch"])
    by_word = {
        word: {one.mutant.name for one in found.outcomes if one.word == word} for word in ("survived", "stopped")
    }
    stopped = {*COUNTING_UP, *OF_MIXED_REMOVED_AGAIN_AND_AGAIN}
    assert by_word == {"survived": {*chain(*OF_A_MIXED_GROUP.values())}, "stopped": stopped}
    assert [found.count(word) for word in ("killed", "survived", "stopped", "same")] == [195, 21, 14, 484]


@pytest.mark.deep
@pytest.mark.parametrize("which", ["two consumers", "mixed"])
def test_without_the_coordinators_timer_nothing_is_removed_again_and_again(which: str) -> None:
    """The mutants that were stopped are killed where liveness does not count on the timer."""

    def make() -> Model:
        is_mixed, fixed = which == "mixed", {"client": "fixed", "coordinator": "fixed"}
        model = mixed_group(topics={"foo": 1}, **fixed) if is_mixed else consumer_group(**fixed)
        assert model.goal is not None
        return replace(model, goal=replace(model.goal, by=()))

    names = OF_MIXED_REMOVED_AGAIN_AND_AGAIN if which == "mixed" else REMOVED_AGAIN_AND_AGAIN
    found = score(subject(f"{which}-group" if which == "mixed" else "consumer-group", make), names)
    assert {(one.word, one.property) for one in found.outcomes} == {("killed", "the group settles")}


CONNECT_SURVIVED_ONCE = {
    "lose:connect-worker.DISCONNECTED.STOP:LEAVE_GROUP": LEAVES,
    "repeat:connect-worker.UNJOINED.JOIN_DUE_COOPERATIVE:SEND_JOIN": ONE_JOIN,
    "repeat:connect-worker.JOINING.JOINED_LEADER:RUN_ASSIGNOR": SAME_OUTPUT,
    "lose:connect-worker.STARTING.STARTED:RECORD_RUNNING": RECORDED,
    "stay:connect-worker.ASSIGNED.HEARTBEAT_UNKNOWN_MEMBER": SETTLED_MEMBER,
    "target:connect-worker.ASSIGNED.HEARTBEAT_UNKNOWN_MEMBER:JOINING": JOINING_WAITS,
    "lose:connect-worker.ASSIGNED.HEARTBEAT_UNKNOWN_MEMBER:RESET_MEMBERSHIP": FORGETS_ID,
    "never:fsm.connect.worker.state.Worker.is_cooperative": "W5 between rounds nothing starts or stops by itself",
    "lose:classic-group.PREPARING_REBALANCE.MEMBER_JOINED_ALL_JOINED:PARK_JOIN": ANSWERED,
    "lose:classic-group.PREPARING_REBALANCE.FOLLOWER_REJOINED:UPDATE_MEMBER": JOINED,
}


@pytest.mark.deep
def test_what_survived_once_in_a_connect_cluster_is_killed() -> None:
    made = subject("connect", lambda: connect(settled=True))
    kinds = ["expire", "leave"]
    found = score(made, [*CONNECT_SURVIVED_ONCE], disturb=kinds, disturbances=1, known=["zombie"])
    assert {one.mutant.name: one.property for one in found.outcomes} == CONNECT_SURVIVED_ONCE


@pytest.mark.parametrize(
    "name",
    [
        "timer:consumer-group-member.STABLE.CLASSIC_JOIN_STORED:CANCEL_JOIN_TIMER",
        "timer:consumer-group-member.STABLE.CLASSIC_JOIN_STORED:ARM_SYNC_TIMER",
        "ignore:consumer-group-member.STABLE.CLASSIC_SYNC_REFUSED",
    ],
)
@pytest.mark.loop(1)
def test_what_survived_once_in_a_mixed_group_is_killed(name: str) -> None:
    made = subject("mixed-group", lambda: mixed_group(topics={"foo": 1}, client="fixed", coordinator="fixed"))
    (found,) = score(made, [name]).outcomes
    assert (found.word, found.property) == ("killed", TIMED)


OF_A_CONNECT_WORKER = {
    "the next heartbeat is answered in the same way": ("ignore:connect-worker.REVOKING.HEARTBEAT_REBALANCE",),
    "a cooperative worker prepares a join by nothing else": (
        "lose:connect-worker.UNJOINED.JOIN_DUE_COOPERATIVE:DROP_LEADER_STATE",
    ),
    "in UNJOINED it joins, whether it has asked for that or not": (
        "lose:connect-worker.ASSIGNED.HEARTBEAT_REBALANCE:REQUEST_REJOIN",
        "lose:connect-worker.ASSIGNED.HEARTBEAT_UNKNOWN_MEMBER:REQUEST_REJOIN",
        "lose:connect-worker.DELAYED.DELAY_REACHED:REQUEST_REJOIN",
    ),
    "the next assignment sets the deadline anew": ("timer:connect-worker.DELAYED.DELAY_REACHED:CLEAR_DEADLINE",),
}
"""What survives of the workers of a Connect cluster, by the reason."""


@pytest.mark.deep
def test_the_score_of_connect_workers() -> None:
    made = subject("connect", lambda: connect(settled=True))
    names = [f"{one}:connect-worker" for one in ROWS] + [f"{one}:fsm.connect" for one in COMPUTING]
    kinds = ["crash", "expire", "leave", "rebalance_timeout"]
    found = score(made, names, disturb=kinds, disturbances=1, known=["deleted", "rounds", "zombie"])
    survived = {one.mutant.name for one in found.outcomes if one.word == "survived"}
    assert survived == {*chain(*OF_A_CONNECT_WORKER.values())}
    assert [found.count(word) for word in ("killed", "survived", "stopped", "same")] == [123, 6, 0, 94]


@pytest.mark.deep
def test_what_connects_assignor_computes_is_mutated() -> None:
    """A set that stays empty, a memory that is not changed, and rules of the document."""
    made = subject("connect", lambda: connect(settled=True))
    assignor = "fsm.connect.assignor.incremental"
    names = [f"empty:{assignor}.derive:{name}" for name in ("lost", "deleted")]
    names += [f"same:{assignor}._delay", f"empty:{assignor}.find_excess", "flip:profile.TAIL_REVOKED"]
    found = score(made, names, disturb=["leave"], disturbances=1, known=["zombie"])
    assert {one.mutant.name.rpartition(".")[2]: (one.word, one.property) for one in found.outcomes} == {
        "derive:lost": ("killed", "G2 nothing is lost"),
        "derive:deleted": ("same", ""),
        "_delay": ("killed", "G2 nothing is lost"),
        "find_excess": ("same", ""),
        "TAIL_REVOKED": ("not met", ""),
    }


def half(number: int, by: int = 2) -> int:
    return number // by


def test_a_function_is_replaced_wherever_it_is_held() -> None:
    held = {"half": half}
    with replace_function(half, lambda original, number, **named: original(number, **named) + 100):
        assert (held["half"](4), half(9, by=3)) == (102, 103)
    assert (held["half"](4), half(9, by=3)) == (2, 3)
    with pytest.raises(TypeError, match="cannot be replaced"):
        replace_function(len, half).__enter__()
