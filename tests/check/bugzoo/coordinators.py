"""Bugs of coordinators of KIP-848: reconciliation, the ledger of partitions, the checks of a heartbeat."""

from __future__ import annotations

from typing import Any

from bugzoo.planting import Patches, plant
from fsm.check.mutation import replaced
from fsm.coordinator.consumer import heartbeat, membership, reconciliation
from fsm.coordinator.consumer.group_step import ConsumerGroupDraft
from fsm.coordinator.model import consumer_group
from fsm.coordinator.model.consumer_group import FREE, GroupMember
from fsm.coordinator.model.dialect import Choice


@plant("KAFKA-16249")
def a_new_target_before_the_report() -> Patches:
    """A newer target is computed while a revocation waits for its report, and the report is not looked at."""

    def unrevoked(original: Any, member: Any, given: Any) -> Any:
        if given.target_epoch > member.epoch + 1:
            return reconciliation._compute(member, given._replace(owned=None), member.epoch)
        return original(member, given)

    return [replaced(reconciliation._reconcile_unrevoked, unrevoked)]


@plant("KAFKA-16147")
def a_partition_given_back_is_free() -> Patches:
    """Assigned partitions are registered before the pending ones of before are taken out."""

    def register(_original: Any, holders: Any, old: GroupMember | None, new: GroupMember | None) -> Any:
        found = dict(holders)
        for member, side in ((old, "assigned"), (new, "assigned"), (old, "pending"), (new, "pending")):
            for partition, _ in () if member is None else getattr(member.current, side):
                if member is new and new is not None:
                    found[partition] = new.current.epoch
                else:
                    found.pop(partition, None)
        return consumer_group.FrozenMap(found)

    return [replaced(consumer_group._register, register)]


@plant("KAFKA-19449")
def the_own_pending_ones_block() -> Patches:
    def find(_original: Any, _member: Any, given: Any, wanted: Any) -> Any:
        return [partition for partition in wanted if given.partition_epoch(*partition) == FREE]

    return [replaced(reconciliation._find_granted, find)]


@plant("KAFKA-16367")
def a_full_request_is_like_any_other() -> Patches:
    def subscribes(original: Any, sent: Any) -> Any:
        return sent.member_epoch <= 0 and original(sent)

    return [replaced(heartbeat._subscribes, subscribes)]


@plant("KAFKA-19233")
def epoch_zero_is_fenced() -> Patches:
    def check(original: Any, member: Any, received: int, owned: Any, dialect: Any) -> None:
        original(member, received, owned, dialect.without_choices(Choice.EPOCH_ZERO_ALWAYS_PASSES))

    return [replaced(membership.check_epoch, check)]


@plant("KAFKA-20442")
def an_emptied_group_keeps_its_target_epoch() -> Patches:
    return [replaced(ConsumerGroupDraft.level_target_epoch, lambda _original, _draft: None)]
