"""A coordinator's group in detail: its members, timers, and delayed requests."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from fsm.check.kafka.descriptions import list_partitions, show_partitions
from fsm.check.model import InState, Look
from fsm.coordinator.model.classic_group import ClassicGroup
from fsm.coordinator.model.consumer_group import ConsumerGroup, Held
from fsm.coordinator.model.groups import Group
from fsm.coordinator.model.timers import TimerKind
from fsm.tables import classic_group, consumer_group, consumer_group_member

Fields = Iterator[tuple[str, str]]
OF_CONSUMERS = (consumer_group.TABLE, consumer_group_member.TABLE)
"""The tables of a consumer group."""
OF_CLASSIC = (classic_group.TABLE,)


def look_at_group(group: Group | None, names: Mapping[str, str], show: Callable[[bytes], str] = str) -> Look:
    """A group; `names` are those of topics by id, `show` decodes the bytes of a classic assignment."""
    if isinstance(group, ConsumerGroup):
        return _look_at_consumer_group(group, names)
    return _look_at_classic_group(group, show) if isinstance(group, ClassicGroup) else Look(fields=[("group", "none")])


def _look_at_consumer_group(group: ConsumerGroup, names: Mapping[str, str]) -> Look:
    members = [
        InState(consumer_group_member.TABLE.name, group.members[who].current.state.name, who)
        for who in sorted(group.members)
    ]
    fields = [
        ("group epoch", str(group.epoch)),
        ("target epoch", str(group.target_epoch)),
        *(field for who in sorted(group.members) for field in _member(group, who, names)),
        ("timers", ", ".join(f"{_WORDS[kind]} of {who}" for kind, who in group.timers) or "none"),
        *([("resolves", "regular expressions")] if group.resolution is not None else []),
    ]
    return Look([InState(consumer_group.TABLE.name, group.state.name), *members], fields)


_WORDS = {
    TimerKind.SESSION: "session",
    TimerKind.REBALANCE: "rebalance timeout",
    TimerKind.JOIN: "time to join",
    TimerKind.SYNC: "time to sync",
}


def _member(group: ConsumerGroup, who: str, names: Mapping[str, str]) -> Fields:
    member = group.members[who]
    current = member.current
    yield f"{who} epoch", f"{current.epoch}, before that {current.previous_epoch}"
    yield f"{who} assigned", _show_held(current.assigned, names)
    if current.pending:
        yield f"{who} to give up", _show_held(current.pending, names)
    yield f"{who} target", show_partitions(group.target_of(who, member.instance_id), names)
    if member.is_classic:
        yield f"{who} speaks", "the classic protocol"


def _show_held(found: Held, names: Mapping[str, str]) -> str:
    return list_partitions(sorted((names[topic], number) for (topic, number), _ in found))


def _look_at_classic_group(group: ClassicGroup, show: Callable[[bytes], str]) -> Look:
    fields = [
        ("generation", str(group.generation)),
        ("protocol", group.protocol_name or "none"),
        ("leader", group.leader or "nobody"),
        *((f"{who} assigned", show(group.members[who].assignment)) for who in sorted(group.members)),
        *([("has not joined", ", ".join(unjoined))] if (unjoined := _list_unjoined(group)) else []),
        *([("has not synced", ", ".join(sorted(group.pending_sync_members)))] if group.pending_sync_members else []),
        ("timers", ", ".join(_timers(group)) or "none"),
    ]
    queues = [
        ("joins that wait", sorted(group.delayed_joins)),
        ("syncs that wait", sorted(group.delayed_syncs)),
    ]
    return Look([InState(classic_group.TABLE.name, group.state.name)], fields, queues)


def _list_unjoined(group: ClassicGroup) -> list[str]:
    """The members for which a join phase waits."""
    if group.join_phase is None:
        return []
    return sorted({*group.pending_join_members, *(who for who in group.members if who not in group.delayed_joins)})


def _timers(group: ClassicGroup) -> Iterable[str]:
    yield from (f"session of {who}" for who in sorted(group.heartbeat_deadlines_ms))
    if group.join_phase is not None:
        yield "initial rebalance delay" if group.join_phase.is_initial else "join phase"
    if group.sync_phase is not None:
        yield "sync phase"
