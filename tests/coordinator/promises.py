"""Promises of the coordinator that a group's state alone does not show: sizes, conversions, Heartbeats, commits.

They are among those that `diagrams/hazards.md` numbers from `group-1` on.

Questions are put to the coordinator as it stands, and what they would change is forgotten: the walk goes on unchanged.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from random import Random
from typing import Any

from consumer_scene import Scene, message

from fsm.coordinator.coordinator import Coordinator, Group
from fsm.coordinator.model.classic_group import ClassicGroup
from fsm.coordinator.model.consumer_group import ConsumerGroup, GroupMember
from fsm.coordinator.model.context import Context
from fsm.coordinator.model.dialect import Choice
from fsm.protocol.assignment import flatten
from fsm.protocol.consumer_protocol import decode_assignment
from fsm.protocol.json_form import to_recorded
from fsm.tables.classic_group import State

Place = tuple[str, int]


def answer(scene: Scene, api: str, version: int, body: Mapping[str, Any]) -> Mapping[str, Any]:
    """What would be answered now."""
    probe = scene.host.fork()
    probe.on_step = None
    (found,) = probe.send("client", message(api, version, body), version, fresh_id="", token=-1).answers
    return to_recorded(found.body, version)


def sizes(before: Group | None, after: Group, context: Context) -> Iterator[str]:
    """14: nobody joins a full group, and no conversion makes one that is over its limit."""
    config, grown = context.config, before is None or len(after.members) > len(before.members)
    limit = config.group_max_size if isinstance(after, ClassicGroup) else config.group_consumer_max_size
    converted = before is not None and type(before) is not type(after)
    if (converted or (isinstance(after, ConsumerGroup) and grown)) and len(after.members) > limit:
        yield f"14 {len(after.members)} members, allowed are {limit}"


def upgrade(before: ClassicGroup, after: ConsumerGroup, context: Context) -> Iterator[str]:
    """29: former classic members have what they had, at the generation; the group is there, too, or one further."""
    epochs = {before.generation + 1}
    if Choice.UPGRADE_FILLS_METADATA in context.dialect:
        epochs.add(before.generation)
    if after.epoch not in epochs:
        yield f"29 generation {before.generation} became epoch {after.epoch}"
    for member_id, member in before.members.items():
        became = after.members.by_id.get(member_id)
        if became is None or not became.is_classic:
            continue
        if became.epoch != before.generation or set(flatten(became.assigned)) != given(member.assignment, context):
            yield f"29 {member} became {became}"


def downgrade(before: ConsumerGroup, after: ClassicGroup, context: Context) -> Iterator[str]:
    """30: the generation is the group epoch; members keep their targets; a removal always prepares a rebalance.

    Timers of one instant are one step here: whoever was removed before the last one may have bumped.
    """
    newcomers = after.members.keys() - before.members.by_id.keys()
    bumps = after.generation - before.epoch
    is_next = 0 <= bumps < max(1, len(before.members) - len(after.members))
    if not newcomers and not (is_next and after.state is State.PREPARING_REBALANCE):
        yield f"30 epoch {before.epoch} became {after.state} in generation {after.generation}"
    for member_id in after.members.keys() - newcomers if not newcomers else ():
        target = set(flatten(before.targets.get(member_id, ())))
        if given(after.members[member_id].assignment, context) != {p for p in target if p[0] in context.image.names}:
            yield f"30 {member_id} had the target {target}"


def given(assignment: bytes, context: Context) -> set[Place]:
    """An assignment of the classic protocol with the ids of topics that exist."""
    topics = context.image.topics
    found = decode_assignment(assignment).partitions if assignment else ()
    return {(topics[name].topic_id, number) for name, number in found if name in topics}


def heartbeats(scene: Scene, group: ConsumerGroup) -> Iterator[str]:
    """31: a classic member that is behind is never told that all is well."""
    behind_target = Choice.CLASSIC_REJOINS_BEHIND_TARGET in scene.context.dialect
    now = group.target_epoch if behind_target else group.epoch
    for member_id, member in group.members.items():
        if not member.is_classic or not 0 <= member.epoch < now:
            continue
        body = {"member_id": member_id, "generation_id": member.epoch, "group_instance_id": member.instance_id}
        if answer(scene, "Heartbeat", 4, body)["error_code"] is None:
            yield f"31 {member_id} at {member.epoch}, the group at {now}"


def commits(scene: Scene, members: Iterable[GroupMember], chance: Random) -> Iterator[str]:
    """32: a commit is accepted at the member's epoch, and at an older one of assignment epochs that are no newer."""
    topics = scene.context.image.names
    for member in members:
        if member.is_classic or member.epoch <= 0:
            continue
        places = [place for place in {**held(member), **{(i, 0): -1 for i in topics}} if place[0] in topics]
        for back in (0, 1, 2) if places else ():
            place, epoch = chance.choice(places), member.epoch - back
            if accepted(scene, member, place, epoch) != may(scene.context, member, place, epoch):
                yield f"32 {place} at {epoch} by {member}"


def held(member: GroupMember) -> dict[Place, int]:
    """Everything that the member may still use, with its assignment epoch."""
    return dict((*member.current.assigned, *member.current.pending))


def may(context: Context, member: GroupMember, place: Place, epoch: int) -> bool:
    """The rule, as the reference states it."""
    if epoch == member.epoch:
        return True
    oldest = held(member).get(place)
    return Choice.ASSIGNMENT_EPOCHS in context.dialect and oldest is not None and epoch >= oldest


def accepted(scene: Scene, member: GroupMember, place: Place, epoch: int) -> bool:
    """Whether the offset would be taken."""
    name = scene.context.image.names[place[0]]
    topics = [{"name": name, "partitions": [{"partition_index": place[1], "committed_offset": 1}]}]
    body = {"generation_id_or_member_epoch": epoch, "member_id": member.member_id, "topics": topics}
    fields = {**body, "group_instance_id": member.instance_id}
    return answer(scene, "OffsetCommit", 9, fields)["topics"][0]["partitions"][0]["error_code"] is None


def conversions(before: Group | None, after: Group, context: Context) -> Iterator[str]:
    """29 and 30 where the group has changed its type."""
    if isinstance(before, ClassicGroup) and isinstance(after, ConsumerGroup) and before.members:
        yield from upgrade(before, after, context)
    if isinstance(before, ConsumerGroup) and isinstance(after, ClassicGroup) and before.members.by_id:
        yield from downgrade(before, after, context)


def broken(scene: Scene, chance: Random) -> list[str]:
    """Those that do not hold, of the steps since the last call."""
    found: list[str] = []
    earliest = scene.moves[0][0] if scene.moves else scene.state
    for before, after in scene.moves:
        if "g" in after.groups:
            groups = before.groups.get("g"), after.groups["g"]
            found += [*sizes(*groups, scene.context), *conversions(*groups, scene.context)]
    scene.moves.clear()
    group = scene.state.groups.get("g")
    if isinstance(group, ConsumerGroup):
        found += [*heartbeats(scene, group), *commits(scene, changed(earliest, group), chance)]
    return found


def changed(before: Coordinator | None, group: ConsumerGroup) -> list[GroupMember]:
    """Members that are not as they were: what may be committed hangs on nothing else."""
    old = before.groups.get("g") if before else None
    known = old.members.by_id if isinstance(old, ConsumerGroup) else {}
    return [member for member_id, member in group.members.items() if known.get(member_id) is not member]
