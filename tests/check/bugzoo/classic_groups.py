"""Bugs of classic groups: members, eager and cooperative, and their coordinator."""

from __future__ import annotations

from typing import Any

from bugzoo.planting import Patches, plant
from fsm.check.mutation import cell_of, replaced, rewritten
from fsm.coordinator.classic import join
from fsm.coordinator.classic.draft import ClassicGroupDraft
from fsm.member.classic import assignors, decisions
from fsm.member.classic.effects import Effects
from fsm.member.classic.step import ClassicMemberDraft
from fsm.table import Symbol
from fsm.tables.classic_group import TABLE as GROUP
from fsm.tables.classic_group import Event as GroupEvent
from fsm.tables.classic_group import State as Group
from fsm.tables.classic_member import TABLE, Effect, Event, State


def row(state: State, event: Event, *steps: Symbol) -> Patches:
    """What an event does in a state."""
    return [rewritten(TABLE.compiled, {(state, event): cell_of(state, steps)})]


@plant("KAFKA-12890")
def no_deadline_for_syncs() -> Patches:
    return [replaced(ClassicGroupDraft.arm_sync_timer, lambda _original, _draft: None)]


@plant("KAFKA-12983")
def prepares_once() -> Patches:
    def reset(original: Any, member: Any, reason: str) -> None:
        needed = member.prepare_needed
        original(member, reason)
        member.prepare_needed = needed

    return [replaced(Effects.reset_generation, reset)]


@plant("KAFKA-5154")
def is_content_with_the_join() -> Patches:
    """The flag is down before the sync; when the sync fails, nobody raises it again."""

    def end(original: Any, member: Any, sent: Any, answer: Any) -> None:
        original(member, sent, answer)
        if member.state is State.COMPLETING_REBALANCE:
            member.rejoin_reason = None

    lost = row(State.COMPLETING_REBALANCE, Event.SYNC_COORDINATOR_LOST, Effect.FORGET_COORDINATOR)
    return [*lost, replaced(Effects.end_join, end)]


@plant("KAFKA-8972")
def forgets_before_it_revokes() -> Patches:
    def revoke(original: Any, member: Any, reason: str) -> Any:
        if member.unsubscribing is not None:
            member.owned = ()
        return original(member, reason)

    return [replaced(Effects.revoke_all_partitions, revoke)]


@plant("librdkafka-22c61bb78")
def goes_without_a_leave() -> Patches:
    def leave(original: Any, member: Any, reason: str) -> None:
        if not (member.config.is_cooperative and member.unsubscribing is not None):
            original(member, reason)

    return [replaced(Effects.send_leave_group, leave)]


@plant("franz-go-a568b21")
def revokes_without_a_second_join() -> Patches:
    """The part of the client that ends a round takes itself for eager: who is eager has nothing more to do."""
    return [replaced(decisions.decide_assigned, lambda _original, _member, _assigned: Event.SYNC_OK)]


@plant("KAFKA-14639")
def only_the_newest_generation_counts() -> Patches:
    """Who has missed a generation claims nothing, though nobody else claims it."""

    def claim(original: Any, members: Any, existing: Any) -> Any:
        newest = max(map(assignors._generation, members.values()))
        found = original(members, existing).items()
        return {p: [one for one in who if assignors._generation(members[one]) == newest] for p, who in found}

    return [replaced(assignors._claims, claim)]


@plant("kafka-python-913eddc9")
def is_content_before_the_assignment_is_applied() -> Patches:
    def end(original: Any, member: Any, rest: Any, error: Any) -> None:
        if error is None:
            original(member, rest, error)
        else:
            member.completion, member.owned = None, ()

    return [replaced(ClassicMemberDraft._end_completion, end)]


# Static members


@plant("KAFKA-10284")
def a_new_id_is_not_written() -> Patches:
    def replace(original: Any, draft: Any, member: Any, holder: Any, stored: Any) -> None:
        before, stable = len(draft.records), draft.state is Group.STABLE
        original(draft, member, holder, stored)
        if stable:
            del draft.records[before:]

    return [replaced(join._replace_static, replace)]


@plant("KAFKA-9801")
def a_new_id_while_the_leader_assigns() -> Patches:
    """It is answered at once, as in a stable group; what the leader is about to send names the old id."""
    swapped = GroupEvent.STATIC_REPLACED_SAME_PROTOCOL, GroupEvent.STATIC_SWAP_STORED

    def replace(original: Any, draft: Any, member: Any, holder: Any, stored: Any) -> None:
        if draft.state is not Group.COMPLETING_REBALANCE:
            original(draft, member, holder, stored)
            return
        draft.replaced = holder
        for event in swapped:
            draft.take_row(event)

    completing, stable = Group.COMPLETING_REBALANCE, GROUP.compiled.by_state[Group.STABLE]
    as_stable = {(completing, event): cell_of(completing, stable[event].steps) for event in swapped}
    return [rewritten(GROUP.compiled, as_stable), replaced(join._replace_static, replace)]
