"""Bugs of other implementations of the protocols: clients and brokers that share no code with Kafka's."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from bugzoo.classic_groups import row
from bugzoo.consumer_members import no_effect
from bugzoo.planting import Patches, plant
from fsm.check.mutation import replace_function
from fsm.coordinator.classic import timers
from fsm.coordinator.consumer import heartbeat
from fsm.coordinator.model.classic_group import ClassicGroup
from fsm.coordinator.model.step import Refused
from fsm.member.classic import decisions as classic
from fsm.member.classic.effects import Effects
from fsm.member.consumer import decisions
from fsm.protocol.error_codes import ErrorCode
from fsm.tables.classic_group import Event as GroupEvent
from fsm.tables.classic_member import Effect, Event, State

# Members of classic groups


@plant("kafka-go-1432")
def throws_the_id_away() -> Patches:
    return [no_effect(Effects.adopt_member_id)]


@plant("librdkafka-5569")
def throws_the_id_of_an_outdated_answer_away() -> Patches:
    return row(State.UNJOINED, Event.JOIN_MEMBER_ID_REQUIRED, Effect.REQUEST_REJOIN)


@plant("kafka-go-1351")
def watches_what_it_subscribes_to() -> Patches:
    def watched(original: Any, member: Any) -> Any:
        return tuple(one for one in original(member) if one[0] in (member.topics or ()))

    return [replace_function(classic.list_watched, watched)]


@plant("crabka-344")
def leaves_with_its_first_id() -> Patches:
    def leave(original: Any, draft: Any, reason: str) -> None:
        known = draft.generation
        if known.member_id:
            draft.generation = known._replace(member_id=f"{known.member_id.rstrip('0123456789')}0")
        original(draft, reason)
        draft.generation = known

    return [replace_function(Effects.send_leave_group, leave)]


# Coordinators of classic groups


@plant("crabka-212")
def who_is_static_never_expires() -> Patches:
    def missing(original: Any, group: ClassicGroup, who: str) -> Any:
        is_static = who in group.members.static.values()
        return GroupEvent.SESSION_EXCUSED if is_static else original(group, who)

    return [replace_function(timers._heartbeat_missing, missing)]


@plant("kfake-7825098b")
def one_common_protocol_with_anybody_is_enough() -> Patches:
    def supports(_original: Any, group: Any, protocol_type: str, names: Any) -> bool:
        if not group.members:
            return bool(protocol_type and names)
        known = {name for member in group.members.values() for name, _ in member.protocols}
        return group.protocol_type == protocol_type and not known.isdisjoint(names)

    return [replace_function(ClassicGroup.supports, supports)]


# Members of KIP-848


@plant("Dekaf-1348")
def who_is_static_leaves_for_good() -> Patches:
    return [replace_function(decisions.leave_epoch, lambda _original, _member: -1)]


# Coordinators of KIP-848


@plant("crabka-301")
def an_id_is_the_coordinators_to_give() -> Patches:
    def find(original: Any, draft: Any, sent: Any, member_id: str) -> Any:
        if sent.member_epoch == 0 and sent.member_id and sent.member_id not in draft.stored.members.by_id:
            raise Refused(ErrorCode.UNKNOWN_MEMBER_ID)
        return original(draft, sent, member_id)

    return [replace_function(heartbeat._find_sender, find)]


@plant("kfake-109ecd03")
def who_leaves_for_a_while_keeps_nothing() -> Patches:
    def leave(original: Any, group: Any, member: Any, request: Any, context: Any) -> Any:
        bare = replace(member, current=replace(member.current, assigned=()))
        return original(group, bare, request, context)

    return [replace_function(heartbeat.leave_for_a_while, leave)]
