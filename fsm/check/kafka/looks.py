"""What `fsm explore` shows of members with their applications, and of a coordinator's group."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from fsm.check.kafka.application import NOW, App
from fsm.check.kafka.classic.shell import ClassicConsumer
from fsm.check.kafka.consumer.shell import Consumer
from fsm.check.kafka.descriptions import describe_calling, list_partitions, list_present, show_partitions
from fsm.check.model import InState, Look
from fsm.coordinator.model.classic_group import ClassicGroup
from fsm.coordinator.model.consumer_group import ConsumerGroup, Held
from fsm.coordinator.model.groups import Group
from fsm.coordinator.model.timers import TimerKind
from fsm.member.consumer.state import Member
from fsm.member.consumer.subscription import Subscription
from fsm.member.events import BackgroundEvent, ErrorEvent, PartitionsAssignedEvent, PartitionsRemovedEvent
from fsm.protocol.assignment import LocalAssignment, Partitions
from fsm.tables import classic_group, classic_member, consumer_group, consumer_group_member, consumer_member

Fields = Iterator[tuple[str, str]]
APPLICATION_QUEUE, BACKGROUND_QUEUE = "application event queue", "background event queue"
"""The names of the two queues; each step empties the application event queue."""


def look_at_consumer(consumer: Consumer, names: Mapping[str, str]) -> Look:
    """A consumer of KIP-848; `names` are those of topics by their ids."""
    member, run = consumer.member, consumer.member.run
    states = [InState(consumer_member.TABLE.name, member.state.name)]
    fields = [
        *_application(consumer.app, consumer.using, consumer.calling),
        ("member id", member.member_id),
        ("member epoch", str(member.epoch)),
        ("subscription", _subscription(member.subscription)),
        ("target", _assignment(member.target, names)),
        ("assignment", _assignment(member.current, names)),
        ("owned", list_partitions(member.ownership.owned)),
        ("to be revoked", _list_any(member.ownership.pending_revocation)),
        ("until its assigned callback ends", _list_any(member.ownership.pending_on_assigned)),
        ("reconciles", "" if run is None else f"+ {list_partitions(run.added)}, - {list_partitions(run.revoked)}"),
        ("commit", "before it reconciles" if member.commit else ""),
        ("callbacks awaited", ", ".join(one.origin.value for one in member.awaited)),
        ("heartbeat", _heartbeat(member)),
        ("coordinator", "" if member.client.coordinator_known else "not known"),
        ("leaves", "" if member.leaving.calls is None else f"by {member.leaving.operation.name}"),
        ("closing", f"waits for its {consumer.closing}" if consumer.closing else ""),
    ]
    return Look(states, list_present(fields), _queues(consumer.events))


def look_at_classic(consumer: ClassicConsumer) -> Look:
    """A consumer of the classic protocol."""
    member, generation = consumer.member, consumer.member.generation
    fields = [
        *_application(consumer.app, consumer.using, consumer.calling),
        ("member id", generation.member_id or "none"),
        ("generation", "none" if generation.is_reset else str(generation.generation_id)),
        ("protocol", generation.protocol_name or "none"),
        ("subscription", ", ".join(member.topics or ()) or "nothing"),
        ("assigned", list_partitions(member.assigned)),
        ("owned", list_partitions(member.owned)),
        ("rejoins", "no" if member.rejoin_reason is None else "yes"),
        ("join", "is out" if member.join_out else ""),
        ("callback", f"waits for its {member.awaited.method.name.lower()} callback" if member.awaited else ""),
        ("heartbeat", "is out" if consumer.beats else "interval runs" if member.heartbeats.enabled else "none"),
        ("coordinator", "" if member.coordinator_known else "not known"),
        ("commit", "before it joins" if member.commit else ""),
        ("closing", member.closing.stage.name.lower().replace("_", " ") if member.closing else ""),
    ]
    return Look([InState(classic_member.TABLE.name, member.state.name)], list_present(fields), _queues(consumer.events))


def _application(app: App, using: Partitions, calling: BackgroundEvent | None) -> Fields:
    yield "application", app.value + describe_calling(calling)
    yield "uses", list_partitions(using)


def _subscription(known: Subscription) -> str:
    return known.regex or known.pattern or ", ".join(known.topics) or "nothing"


def _assignment(found: LocalAssignment, names: Mapping[str, str]) -> str:
    return "none yet" if found.is_none else show_partitions(found.partitions, names)


def _list_any(found: Partitions) -> str:
    return list_partitions(found) if found else ""


def _heartbeat(member: Member) -> str:
    if member.heartbeat_in_flight:
        return "is out"
    if member.heartbeat_interval_ms == 0:
        return "none yet"
    return "is due" if member.heartbeat_due_ms <= NOW else "interval runs"


def _queues(events: Iterable[BackgroundEvent]) -> list[tuple[str, list[str]]]:
    return [(APPLICATION_QUEUE, []), (BACKGROUND_QUEUE, [_tell(one) for one in events])]


def _tell(event: BackgroundEvent) -> str:
    """A background event as text."""
    match event:
        case PartitionsAssignedEvent(full=full, added=added):
            about = f"full {list_partitions(full)}; added {list_partitions(added)}"
        case PartitionsRemovedEvent(method=method, partitions=removed):
            about = f"{method.name.lower()} {list_partitions(removed)}"
        case ErrorEvent(error=error):
            about = error.name
        case _:
            about = ""
    return f"{type(event).__name__}({about})"


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
        ("resolves", "regular expressions" if group.resolution is not None else ""),
    ]
    return Look([InState(consumer_group.TABLE.name, group.state.name), *members], list_present(fields))


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
    yield f"{who} to give up", _show_held(current.pending, names) if current.pending else ""
    yield f"{who} target", show_partitions(group.target_of(who, member.instance_id), names)
    yield f"{who} speaks", "the classic protocol" if member.is_classic else ""


def _show_held(found: Held, names: Mapping[str, str]) -> str:
    return list_partitions(sorted((names[topic], number) for (topic, number), _ in found))


def _look_at_classic_group(group: ClassicGroup, show: Callable[[bytes], str]) -> Look:
    fields = [
        ("generation", str(group.generation)),
        ("protocol", group.protocol_name or "none"),
        ("leader", group.leader or "nobody"),
        *((f"{who} assigned", show(group.members[who].assignment)) for who in sorted(group.members)),
        ("has not joined", ", ".join(_list_unjoined(group))),
        ("has not synced", ", ".join(sorted(group.pending_sync_members))),
        ("timers", ", ".join(_timers(group)) or "none"),
    ]
    queues = [
        ("joins that wait", sorted(group.delayed_joins)),
        ("syncs that wait", sorted(group.delayed_syncs)),
    ]
    return Look([InState(classic_group.TABLE.name, group.state.name)], list_present(fields), queues)


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
