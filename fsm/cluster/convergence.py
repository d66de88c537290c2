"""Whether a group has converged: everybody is a member, and uses what its coordinator gave it, and all is used.

Two groups stay as they are until one of their members joins, though some partition has no owner: they are *stranded*.

* W5: the classic members of a consumer group are left among themselves, it may not become a classic group, and none of
  them is told to join, so nobody computes the next target.
* A static member of a classic group came back with another subscription, under the protocol that it had: its group does
  not rebalance for that, whoever leads it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from fsm.cluster.client import Client
from fsm.cluster.stale_uses import find_assigned
from fsm.coordinator.migration import conversion as migration
from fsm.coordinator.model.classic_group import ClassicGroup
from fsm.coordinator.model.consumer_group import ConsumerGroup
from fsm.coordinator.model.context import Context
from fsm.coordinator.model.dialect import Choice
from fsm.coordinator.model.groups import Group
from fsm.protocol.assignment import Partitions, partitions


def explain_stranding(group: Group | None, context: Context, swapped: int | None) -> str | None:
    """Why the group is stranded, if it is; `swapped` is the generation of such a return of a static member."""
    if isinstance(group, ClassicGroup) and group.generation == swapped:
        return "static swap"
    # In dialects where classic members look at the target that nobody computes, not at the group's epoch.
    if not {Choice.CLASSIC_REJOINS_BEHIND_TARGET, Choice.ASSIGNMENT_INTERVAL} <= context.dialect.choices:
        return None
    if not isinstance(group, ConsumerGroup) or group.members.classic != len(group.members):
        return None
    waits = group.epoch > group.target_epoch and not migration.may_downgrade(len(group.members), context)
    return "W5" if waits else None


def find_problems(
    group: Group | None, clients: Collection[Client], context: Context, *, is_stranded: bool
) -> Iterator[str]:
    """What is not as it should be once everybody was heard for long enough; nothing where it converged.

    Of a group that is stranded, its state and what is unowned are no news.
    """
    if not clients:
        return
    if group is None:
        yield "there is no group"
        return
    if group.state.name != "STABLE" and not is_stranded:
        yield f"the group is {group.state.name}"
    for client in clients:
        if client.member_id not in group.members:
            yield f"{client.name} is no member"
        elif client.member.owned != (assigned := _assigned(group, client.member_id, context)):
            yield f"{client.name} owns {client.member.owned}, and is assigned {assigned}"
    if not is_stranded:
        names = {name for client in clients for name in client.topics}
        wanted = {(name, i) for name in names for i in range(context.image.topics[name].partitions)}
        unowned = partitions(wanted - {one for client in clients for one in client.member.owned})
        yield from (f"nobody owns {one}" for one in unowned)


def _assigned(group: Group, member_id: str, context: Context) -> Partitions:
    if isinstance(group, ClassicGroup):
        return find_assigned(group, member_id)
    names, current = context.image.names, group.members[member_id].current
    return partitions((names[topic_id], number) for (topic_id, number), _ in current.assigned)
