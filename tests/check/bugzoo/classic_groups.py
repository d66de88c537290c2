"""Bugs of classic groups: members, eager and cooperative, and their coordinator."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from bugzoo.planting import Patches, beside, plant
from fsm.check.kafka.classic import member as classic
from fsm.check.mutation import cell_of, replace_function, rewrite_cells
from fsm.coordinator.classic import join
from fsm.coordinator.classic.draft import ClassicGroupDraft
from fsm.member.classic import assignors, decisions
from fsm.member.classic.assignors import COOPERATIVE_STICKY
from fsm.member.classic.effects import Effects
from fsm.member.classic.state import Purpose
from fsm.member.classic.step import ClassicMemberDraft
from fsm.protocol.assignment import without
from fsm.protocol.consumer_protocol import (
    Subscription,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from fsm.protocol.messages import OffsetCommitRequest, commit_topics
from fsm.table import Symbol
from fsm.tables.classic_group import TABLE as GROUP
from fsm.tables.classic_group import Event as GroupEvent
from fsm.tables.classic_group import State as Group
from fsm.tables.classic_member import TABLE, Effect, Event, State


def row(state: State, event: Event, *steps: Symbol) -> Patches:
    """What an event does in a state."""
    return [rewrite_cells(TABLE.compiled, {(state, event): cell_of(state, steps)})]


@plant("KAFKA-12890")
def no_deadline_for_syncs() -> Patches:
    return [replace_function(ClassicGroupDraft.arm_sync_timer, lambda _original, _draft: None)]


@plant("KAFKA-12983")
def prepares_once() -> Patches:
    def reset(original: Any, member: Any, reason: str) -> None:
        needed = member.prepare_needed
        original(member, reason)
        member.prepare_needed = needed

    return [replace_function(Effects.reset_generation, reset)]


@plant("KAFKA-5154")
def is_content_with_the_join() -> Patches:
    """The flag is down before the sync; when the sync fails, nobody raises it again."""

    def end(original: Any, member: Any, sent: Any, answer: Any) -> None:
        original(member, sent, answer)
        if member.state is State.COMPLETING_REBALANCE:
            member.rejoin_reason = None

    lost = row(State.COMPLETING_REBALANCE, Event.SYNC_COORDINATOR_LOST, Effect.FORGET_COORDINATOR)
    return [*lost, replace_function(Effects.end_join, end)]


@plant("KAFKA-8972")
def forgets_before_it_revokes() -> Patches:
    def revoke(original: Any, member: Any, reason: str) -> Any:
        if member.unsubscribing is not None:
            member.owned = ()
        return original(member, reason)

    return [replace_function(Effects.revoke_all_partitions, revoke)]


@plant("franz-go-a568b21")
def revokes_without_a_second_join() -> Patches:
    """The part of the client that ends a round takes itself for eager: who is eager has nothing more to do."""
    return [replace_function(decisions.decide_assigned, lambda _original, _member, _assigned: Event.SYNC_OK)]


@plant("KAFKA-14639")
def only_the_newest_generation_counts() -> Patches:
    """Who has missed a generation claims nothing, though nobody else claims it."""

    def claim(original: Any, members: Any, existing: Any) -> Any:
        newest = max(map(assignors._generation, members.values()))
        found = original(members, existing).items()
        return {p: [one for one in who if assignors._generation(members[one]) == newest] for p, who in found}

    return [replace_function(assignors._claims, claim)]


@plant("kafka-python-913eddc9")
def is_content_before_the_assignment_is_applied() -> Patches:
    def end(original: Any, member: Any, rest: Any, error: Any) -> None:
        if error is None:
            original(member, rest, error)
        else:
            member.completion, member.owned = None, ()

    return [replace_function(ClassicMemberDraft._end_completion, end)]


# Static members


@plant("KAFKA-10284")
def a_new_id_is_not_written() -> Patches:
    def take_place(original: Any, draft: Any, member: Any, holder: Any, stored: Any) -> None:
        before, stable = len(draft.records), draft.state is Group.STABLE
        original(draft, member, holder, stored)
        if stable:
            del draft.records[before:]

    return [replace_function(join._replace_static, take_place)]


@plant("KAFKA-9801")
def a_new_id_while_the_leader_assigns() -> Patches:
    """It is answered at once, as in a stable group; what the leader is about to send names the old id."""
    swapped = GroupEvent.STATIC_REPLACED_SAME_PROTOCOL, GroupEvent.STATIC_SWAP_STORED

    def take_place(original: Any, draft: Any, member: Any, holder: Any, stored: Any) -> None:
        if draft.state is not Group.COMPLETING_REBALANCE:
            original(draft, member, holder, stored)
            return
        draft.replaced = holder
        for event in swapped:
            draft.take_row(event)

    completing, stable = Group.COMPLETING_REBALANCE, GROUP.compiled.by_state[Group.STABLE]
    as_stable = {(completing, event): cell_of(completing, stable[event].steps) for event in swapped}
    return [rewrite_cells(GROUP.compiled, as_stable), replace_function(join._replace_static, take_place)]


# What members claim. Only a client that does not forget what it lost makes two claims of one partition.


@beside("stale_claims")
def claims_what_was_lost() -> Patches:
    """A client that has lost its membership claims what it was assigned last, with the generation of that."""

    def subscription(original: Any, member: Any, assignor: Any) -> Any:
        if member.owned or not member.assigned or not member.generation.is_reset:
            return original(member, assignor)
        metadata = Subscription(member.topics or (), None, member.assigned, member.assignor_generation)
        return encode_subscription(metadata)

    return [replace_function(Effects._subscription, subscription)]


def trusts(which: Callable[[Any, list[Any]], list[Any]]) -> Patches:
    """The assignor takes for holders of a partition those of its claimants."""

    def claim(_original: Any, members: Any, existing: Any) -> Any:
        found: dict[Any, list[Any]] = {p: [] for p in sorted(existing)}
        for one in sorted(members):
            for p in members[one].owned_partitions:
                if p in existing and p[0] in members[one].topics:
                    found[p].append(one)
        return {p: which(members, who) for p, who in found.items()}

    return [replace_function(assignors._claims, claim)]


@plant("KAFKA-12984")
def trusts_every_claim() -> Patches:
    """It does not look at generations: whoever claims a partition last in its walk has it."""
    return trusts(lambda _, who: who[-1:])


@plant("librdkafka-4252")
def trusts_the_oldest_claim() -> Patches:
    def oldest(members: Any, who: list[Any]) -> list[Any]:
        return sorted(who, key=lambda one: assignors._generation(members[one]))[:1]

    return trusts(oldest)


@plant("KAFKA-13419")
def claims_have_no_generation() -> Patches:
    """Nobody says when it was assigned what it claims, so that the first one is as good as any."""

    def untagged(original: Any, member: Any, assignor: Any) -> Any:
        metadata = decode_subscription(original(member, assignor))
        return encode_subscription(replace(metadata, generation_id=-1, user_data=None))

    return [replace_function(Effects._subscription, untagged), *trusts(lambda _, who: who[:1])]


@plant("franz-go-3ac2fff1")
def is_cooperative_while_the_group_is() -> Patches:
    """A client that goes by the protocol of its group: where that turns eager, it has kept everything."""

    def is_cooperative(member: Any) -> bool:
        return bool(member.generation.protocol_name == COOPERATIVE_STICKY.name)

    def prepare(original: Any, member: Any) -> Any:
        found = original(member)
        keeps = found is Event.JOIN_PREPARED_EAGER and is_cooperative(member)
        return Event.JOIN_PREPARED_COOPERATIVE if keeps else found

    def assigned(original: Any, member: Any, given: Any) -> Any:
        revokes = is_cooperative(member) and without(member.owned, given)
        return Event.SYNC_OK_REVOKING if revokes else original(member, given)

    return [replace_function(decisions.decide_prepare, prepare), replace_function(decisions.decide_assigned, assigned)]


# Commits and subscriptions


@plant("KAFKA-14024")
def begins_its_commit_anew() -> Patches:
    """A poll looks at no commit that is done, and sends another one; it waits for the one that is out."""

    def is_over(original: Any, member: Any) -> Any:
        if member.commit is not None and member.commit.done:
            member.commit = None
        return original(member)

    return [replace_function(ClassicMemberDraft._commit_is_over, is_over)]


@plant("librdkafka-5585")
def commits_what_it_has_lost() -> Patches:
    """The mark that the assignment is lost is gone before the commit is."""

    def start(original: Any, member: Any, offsets: Any, purpose: Any, call: int = 0) -> None:
        if purpose is not Purpose.PREPARE or not (offsets and member.coordinator_known and member.generation.is_reset):
            original(member, offsets, purpose, call)
            return
        config = member.config
        who = member.assignor_generation, member.generation.member_id, config.group_instance_id
        member.send(OffsetCommitRequest(config.group_id, *who, topics=commit_topics(offsets)), purpose, call)

    return [replace_function(Effects.start_commit, start)]


@plant("librdkafka-5cd6f53c4")
def joins_again_before_it_is_answered() -> Patches:
    """A subscription that changes is joined with at once, whatever is out."""

    def move(original: Any, member: Any) -> Any:
        if member.join_out and member.joined_topics not in (None, member.topics):
            member.send_join_group()
            return False
        return original(member)

    return [replace_function(ClassicMemberDraft._one_move, move)]


# One instance id twice, an assignor with a memory


@beside("one_instance")
def everybody_has_the_same_instance_id() -> Patches:
    return [replace_function(classic.config, lambda original, _name, *rest: original("a", *rest))]


@plant("KAFKA-8500")
def two_processes_share_an_id() -> Patches:
    """Who joins under an instance id that is known has the id of whoever had it, but in a stable group."""

    def take_place(original: Any, draft: Any, member: Any, holder: Any, stored: Any) -> None:
        if draft.state is Group.STABLE:
            original(draft, member, holder, stored)
            return
        draft.member_id = holder.member_id
        join._join_with_id(draft, draft.request)

    return [replace_function(join._replace_static, take_place)]


@beside("assignor_data")
def the_assignor_keeps_data() -> Patches:
    def assignments(original: Any, member: Any, found: Any) -> Any:
        made = original(member, found)
        data = ((one, replace(decode_assignment(one.assignment), user_data=b"mine")) for one in made)
        return tuple(one._replace(assignment=encode_assignment(assignment)) for one, assignment in data)

    return [replace_function(Effects._assignments, assignments)]


@plant("KAFKA-9815")
def joins_while_its_metadata_differs() -> Patches:
    """That it is to join again is not noted: where the join fails and topics are as before, it does not."""

    def rejoins(_original: Any, member: Any) -> Any:
        return member.rejoin_needed or decisions.find_rejoin_cause(member) is not None

    return [
        replace_function(ClassicMemberDraft._rejoins, rejoins),
        *row(State.PREPARING_REBALANCE, Event.JOIN_COORDINATOR_LOST, Effect.FORGET_COORDINATOR),
    ]
