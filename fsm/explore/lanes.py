"""The states of members and coordinators after every record, one lane each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from fsm.check.model import InState, Look
from fsm.errors import InputError
from fsm.explore.recording import Moment, Part, Shown
from fsm.table import Table
from fsm.tables import find
from fsm.trace import Kind, Partition, TraceRecord, by_partition

COORDINATOR = "coordinator"
OF_GROUP = ("group", "epoch", "target epoch")
"""Fields of a coordinator about the whole group."""
Changes = Callable[["Lane", TraceRecord], None]


@dataclass
class Lane:
    """The state of a member or coordinator, according to the records so far."""

    name: str
    role: str = "member"
    states: dict[tuple[str, str], str] = field(default_factory=dict)
    """States by table and owner of the machine."""
    fields: dict[str, str] = field(default_factory=dict)
    owned: tuple[Partition, ...] = ()
    called_for: tuple[Partition, ...] = ()
    """The partitions of the running callback."""
    machines: set[str] = field(default_factory=set)
    """All tables named in its records."""

    def show(self) -> Shown:
        """Its current display."""
        states = [InState(table, state, of) for (table, of), state in sorted(self.states.items())]
        fields = {**self.fields, "owns": show(self.owned)}
        if self.role == COORDINATOR:
            fields = {
                name: self.fields[name] for name in sorted(self.fields, key=lambda name: (name not in OF_GROUP, name))
            }
        texts = [state.state for state in states if not state.of]
        texts += [f"epoch {fields['epoch']}"] if "epoch" in fields else []
        return Shown(", ".join(texts), Look(states, tuple(fields.items())))

    def take(self, record: TraceRecord) -> None:
        for name, value in (
            ("group", record.group),
            ("member id", record.member_id if self.role != COORDINATOR else ""),
            ("instance id", record.instance_id),
        ):
            if value:
                self.fields[name] = value
        change = _CHANGES.get(record.kind)
        if change is not None:
            change(self, record)


def show(found: Iterable[Partition]) -> str:
    """Partitions on one line; those of Connect as units."""
    return ", ".join(topic if number < 0 else f"{topic}-{number}" for topic, number in found) or "nothing"


# What each kind of record changes


def _go(lane: Lane, record: TraceRecord) -> None:
    _set_state(lane, record.machine, record.next_state)
    _reach(lane, record)


def _set_state(lane: Lane, machine: str, state: str, of: str = "") -> None:
    """Sets the state of a machine; the table of another release, `consumer-member/4.0.2`, has the same states."""
    table = machine.partition("/")[0]
    lane.states[table, of] = state
    lane.machines.add(table)


def _reach(lane: Lane, record: TraceRecord) -> None:
    if record.epoch is not None:
        lane.fields["epoch"] = str(record.epoch)


def _subscribe(lane: Lane, record: TraceRecord) -> None:
    lane.fields["subscription"] = ", ".join(record.topics) or record.detail or "nothing"


def _target(lane: Lane, record: TraceRecord) -> None:
    _reach(lane, record)
    lane.fields["target"] = "told" if record.full is None else show(record.full)


def _reconcile(lane: Lane, record: TraceRecord) -> None:
    lane.fields["reconciles"] = f"+ {show(record.partitions)}, - {show(record.revoked)}"


def _call(lane: Lane, record: TraceRecord) -> None:
    """A callback begins; assigned partitions are owned from here on."""
    what = record.kind.value.partition("_")[0]
    lane.fields["callback"] = f"{what} {show(record.partitions)}"
    lane.called_for = record.partitions
    if record.kind is Kind.ASSIGN_BEGIN:
        _add(lane, record)


def _return(lane: Lane, record: TraceRecord) -> None:
    """A callback has ended; revoked and lost partitions are owned up to here."""
    lane.fields.pop("callback", None)
    lane.fields.pop("reconciles", None)
    if record.kind in (Kind.REVOKE_END, Kind.LOST_END):
        _drop(lane, record, record.partitions or lane.called_for)
    lane.called_for = ()


def _set_owned(lane: Lane, record: TraceRecord) -> None:
    lane.owned = by_partition(record.full or ())


def _add(lane: Lane, record: TraceRecord) -> None:
    lane.owned = by_partition((*lane.owned, *record.partitions))


def _drop(lane: Lane, record: TraceRecord, gone: Sequence[Partition] | None = None) -> None:
    taken = set(record.partitions if gone is None else gone)
    lane.owned = tuple(one for one in lane.owned if one not in taken)


def _fail(lane: Lane, record: TraceRecord) -> None:
    lane.fields["last error"] = f"{record.kind.value.replace('_', ' ')}: {record.detail}".removesuffix(": ")


def _forget(lane: Lane, _record: TraceRecord) -> None:
    lane.fields.pop("epoch", None)


def _set(field: str, text: str) -> Changes:
    def change(lane: Lane, _record: TraceRecord) -> None:
        lane.fields[field] = text

    return change


def _begin(lane: Lane, record: TraceRecord) -> None:
    """A new process begins; clears the state of the last one."""
    lane.states.clear()
    lane.fields = {name: value for name, value in lane.fields.items() if name in ("group", "member id", "instance id")}
    lane.owned, lane.called_for = (), ()
    lane.fields["process"] = f"runs {record.settings['version']}" if "version" in record.settings else "runs"


def _target_epoch(lane: Lane, record: TraceRecord) -> None:
    lane.fields["target epoch"] = str(record.epoch)


def _member_state(lane: Lane, record: TraceRecord) -> None:
    """Sets a member's state and partitions in the coordinator."""
    who = record.client_id or record.member_id
    _set_state(lane, record.machine or "consumer-group-member", record.next_state, who)
    lane.fields[f"{who} epoch"] = str(record.epoch)
    lane.fields[f"{who} assigned"] = show(record.full or ())
    if record.revoked:
        lane.fields[f"{who} to give up"] = show(record.revoked)
    else:
        lane.fields.pop(f"{who} to give up", None)


def _group_state(lane: Lane, record: TraceRecord) -> None:
    if record.machine and record.next_state:
        _set_state(lane, record.machine, record.next_state)
    _reach(lane, record)


_CHANGES: Mapping[Kind, Changes] = {
    Kind.TRANSITION: _go,
    Kind.STARTED: _begin,
    Kind.CLOSE_BEGIN: _set("process", "closes"),
    Kind.CLOSE_END: _set("process", "is closed"),
    Kind.SUBSCRIBED: _subscribe,
    Kind.EFFECTIVE_TOPICS: _subscribe,
    Kind.UNSUBSCRIBED: _subscribe,
    Kind.JOINED: _reach,
    Kind.SYNCED: _reach,
    Kind.HEARTBEAT_OK: _reach,
    Kind.TARGET: _target,
    Kind.RECONCILING: _reconcile,
    Kind.REVOKE_BEGIN: _call,
    Kind.ASSIGN_BEGIN: _call,
    Kind.LOST_BEGIN: _call,
    Kind.REVOKE_END: _return,
    Kind.ASSIGN_END: _return,
    Kind.LOST_END: _return,
    Kind.OWNED: _set_owned,
    Kind.ADDED: _add,
    Kind.DROPPED: _drop,
    Kind.UNITS_STARTED: _add,
    Kind.UNITS_STOPPED: _drop,
    Kind.UNITS_FAILED: _drop,
    Kind.CALLBACK_FAILED: _fail,
    Kind.FENCED: _fail,
    Kind.FATAL: _fail,
    Kind.ERROR: _fail,
    Kind.COMMIT_FAILED: _fail,
    Kind.COORDINATOR_LOST: _set("coordinator", "lost"),
    Kind.COORDINATOR_FOUND: _set("coordinator", "known"),
    Kind.GENERATION_RESET: _forget,
    Kind.LEFT: _forget,
    Kind.GROUP_EPOCH: _reach,
    Kind.TARGET_COMPUTED: _target_epoch,
    Kind.MEMBER_STATE: _member_state,
    Kind.GROUP_STATE: _group_state,
}


# The lane of each record


class Lanes:
    """The lanes of some records, in order of appearance."""

    def __init__(self, records: Sequence[TraceRecord]) -> None:
        groups = {record.group for record in records if record.group}
        self._many = len(groups) > 1
        self._shared = _shared_clients(records)
        self.found: dict[str, Lane] = {}

    def of(self, record: TraceRecord) -> Lane:
        """The lane of a record."""
        if record.thread == COORDINATOR:
            name, role = COORDINATOR, COORDINATOR
        else:
            is_shared = (record.group, record.client_id) in self._shared and record.member_id
            name = self._short(record) if is_shared else record.client_id or record.member_id
            role = "worker" if record.machine.startswith("connect") else "member"
        name = name or "somebody"
        if self._many and record.group:
            name = f"{record.group}: {name}"
        lane = self.found.setdefault(name, Lane(name, role))
        lane.role = role if role == "worker" else lane.role
        return lane

    def _short(self, record: TraceRecord) -> str:
        """The client id with the beginning of the member id, as `fsm capture` prints them, if that is unique."""
        client, member = record.client_id, record.member_id
        begins = [_behind(one, client) for one in self._shared[record.group, client]]
        return f"{client} ({_behind(member, client) if begins.count(_behind(member, client)) == 1 else member})"

    def parts(self) -> list[Part]:
        """All lanes, members before coordinators."""
        ordered = sorted(self.found.values(), key=lambda lane: lane.role == COORDINATOR)
        return [Part(lane.name, lane.role, tuple(_tables(lane.machines))) for lane in ordered]


def _tables(names: Iterable[str]) -> Iterator[Table]:
    """The shipped tables of these names."""
    for name in sorted(names):
        try:
            yield find(name)
        except InputError:  # not one of the shipped tables
            continue


def _shared_clients(records: Iterable[TraceRecord]) -> dict[tuple[str, str], list[str]]:
    """The members of each client id that has several at the same time: a member appears again after another one."""
    order: dict[tuple[str, str], list[str]] = {}
    shared = set()
    for record in records:
        if record.client_id and record.member_id and record.thread != COORDINATOR:
            key = record.group, record.client_id
            known = order.setdefault(key, [])
            if record.member_id in known[:-1]:
                shared.add(key)
            elif record.member_id not in known:
                known.append(record.member_id)
    return {key: order[key] for key in shared}


def _behind(member_id: str, client_id: str) -> str:
    """The beginning of a member id, behind its client id."""
    return member_id.removeprefix(client_id).removeprefix("-")[:8]


def make_moment(record: TraceRecord, lane: Lane) -> Moment:
    """The step of a record, after its lane has applied it."""
    action = _words(record)
    return Moment(f"{lane.name} {action}", record.ts_ms, lane.name, action, components={lane.name: lane.show()})


def _words(record: TraceRecord) -> str:
    if record.kind is Kind.TRANSITION:
        event = f" ({record.event})" if record.event else ""
        return f"{record.state or '?'} to {record.next_state}{event}"
    words = record.kind.value.replace("_", " ")
    about = [
        (record.client_id or record.member_id) if record.kind is Kind.MEMBER_STATE else "",
        record.next_state,
        "" if record.epoch is None else f"epoch {record.epoch}",
        show(record.partitions) if record.partitions else "",
        f"revoked {show(record.revoked)}" if record.revoked else "",
        "" if record.full is None else f"all of {show(record.full)}",
        ", ".join(record.topics),
        record.event,
        record.detail,
    ]
    return ": ".join(filter(None, (words, "; ".join(filter(None, about)))))
