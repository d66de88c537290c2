"""The coordinators of a deployment, next to its members: a step for each change of a group in its coordinator."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from operator import attrgetter

from fsm.check.kafka.coordinator_looks import OF_CLASSIC, OF_CONSUMERS, look_at_group
from fsm.check.kafka.descriptions import list_partitions
from fsm.check.model import Look
from fsm.cluster.cluster import STARTED_MS
from fsm.cluster.stale_uses import Change
from fsm.errors import FsmError
from fsm.explore.lanes import COORDINATOR
from fsm.explore.recording import Moment, Part, Recording, Shown
from fsm.protocol.consumer_protocol import decode_assignment
from fsm.simulate.outcome import Changed, Truth


def add_coordinators(members: Recording, truth: Truth, group: str = "") -> Recording:
    """The recording of a deployment's members with a lane for the coordinator of each group, or of the named one."""
    clients = {one.member_id: one.client_id for one in truth.records if one.member_id and one.client_id}
    groups: dict[str, list[Changed]] = {}
    for one in truth.changes or ():
        if group in ("", one.group):
            groups.setdefault(one.group, []).append(one)
    is_alone = group or len({one.group for one in truth.records if one.group}) == 1
    parts, moments = [*members.parts], [*members.moments]
    for group_id, changes in sorted(groups.items()):
        name = COORDINATOR if is_alone else f"{group_id}: {COORDINATOR}"
        parts.append(Part(name, COORDINATOR, (*OF_CONSUMERS, *OF_CLASSIC)))
        moments += _moments(name, changes, clients)
    return Recording(members.title, members.source, parts, sorted(moments, key=attrgetter("at_ms")))


def _moments(name: str, changes: Iterable[Changed], clients: Mapping[str, str]) -> Iterator[Moment]:
    """A step for each visible change; a heartbeat that only restarts a session timer is none."""
    last = Shown()
    for _, at_ms, change in changes:
        shown = _show(change, clients)
        if shown == last:
            continue
        last = shown
        why = f"answers {type(change.request).__name__.removesuffix('Request')} of {change.client}"
        action = why if change.request is not None else "acts as a timer runs out"
        yield Moment(f"{name} {action}", at_ms + STARTED_MS, name, action, components={name: shown})


def _show(change: Change, clients: Mapping[str, str]) -> Shown:
    """The group after the change, with clients for members."""
    look = look_at_group(change.after, change.image.names, _describe_assignment)
    if change.after is None:
        return Shown("no group", look)
    many = Counter(clients.get(who, who) for who in change.after.members)
    names = {who: _name(who, clients, many) for who in change.after.members}
    states = [state._replace(of=names.get(state.of, state.of)) for state in look.states]
    fields = [(_rename(field, names), _rename(value, names)) for field, value in look.fields]
    queues = [(queue, [_rename(item, names) for item in items]) for queue, items in look.queues]
    epoch = next(f"{field} {value}" for field, value in fields if field in ("group epoch", "generation"))
    return Shown(f"{look.states[0].state}, {epoch}", Look(states, fields, queues))


def _name(who: str, clients: Mapping[str, str], many: Counter[str]) -> str:
    """The client of a member, plus the beginning of the member id if the client has several members."""
    client = clients.get(who, who)
    return client if many[client] == 1 else f"{client} ({who.removeprefix(client)[:6]})"


def _rename(text: str, names: Mapping[str, str]) -> str:
    for who, name in names.items():
        text = text.replace(who, name)
    return text


def _describe_assignment(assignment: bytes) -> str:
    """The assignment of a classic member."""
    try:
        return list_partitions(decode_assignment(assignment).partitions) if assignment else "nothing"
    except FsmError:
        return f"{len(assignment)} bytes"
