"""Scenarios of `fsm replay` in the explorer: a path as a walk through its model, all others as recordings, that of a
deployment with a lane for the coordinator of each group.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from pathlib import Path

from fsm.check import Walk, compose
from fsm.check.kafka.descriptions import list_partitions
from fsm.check.kafka.looks import OF_CLASSIC, OF_CONSUMERS, look_at_group
from fsm.check.model import InState, Look
from fsm.cluster.cluster import STARTED_MS
from fsm.cluster.stale_uses import Change
from fsm.errors import FsmError, InputError, LocalProtocolError
from fsm.explore import logs
from fsm.explore.documents import Session
from fsm.explore.lanes import COORDINATOR
from fsm.explore.recording import Moment, Part, Recording, Shown, check_members
from fsm.explore.session import ModelSession
from fsm.nodes import Node
from fsm.protocol.consumer_protocol import decode_assignment
from fsm.render.sequence import Arrow
from fsm.render.sequence import Look as ArrowLook
from fsm.scenario import Replay, Step, replay_document
from fsm.scenario.conversation.record import APPLICATION, APPLICATION_QUEUE, BACKGROUND, BACKGROUND_QUEUE
from fsm.scenario.files import read
from fsm.scenario.kinds import deployment
from fsm.scenario.kinds import path as paths
from fsm.scenario.story import parse_step, read_steps
from fsm.scenario.texts import NOTHING
from fsm.simulate.machines.deployment import Machines
from fsm.simulate.outcome import Changed, Truth
from fsm.simulate.reading import read_node
from fsm.simulate.run import simulate
from fsm.table import Table
from fsm.tables import (
    classic_group,
    classic_member,
    connect_worker,
    consumer_group,
    consumer_group_member,
    consumer_member,
)

HAPPENINGS = ("transitions", "sent", "committed", "callbacks", "events", "effects", "returned", "records")
"""Fields about a step's events, which are shown at their time."""
PROBLEMS = ("refused", "raised")
_DETAIL = re.compile(r"\w+ \d+ ")
"""A field of one of several messages or rounds, which are shown at their time."""
_TIME = re.compile(r" *(\d+) ms  (.*)", re.DOTALL)
MEMBER, REST = "member", "scenario"
THREADS, QUEUES = (APPLICATION, BACKGROUND), (APPLICATION_QUEUE, BACKGROUND_QUEUE)
OF_GROUP = ("group", "answer", "other_answers", "members", "target", "target_epoch")
"""First words of fields about the group and its coordinator's answers."""


def is_scenario(document: Node) -> bool:
    """Whether a document is a scenario of any kind."""
    from fsm.scenario import list_kinds  # noqa: PLC0415  # it loads every kind

    return any(kind.reads(document) for kind in list_kinds())


def open_scenario(file: Path, number: int = 1, group: str = "", path: Sequence[int] = ()) -> Session:
    """The scenario of that number in the file; of a deployment one group, if named, or of machines this path.

    Raises `InputError` for an invalid scenario or path.
    """
    document = read(file)
    if paths.reads(document):
        return _walk(document, file)
    if deployment.reads(document):
        return _simulate(document, file, group, path)
    found = replay_document(document, str(file))
    if not 0 < number <= len(found):
        raise InputError(f"no scenario {number}", str(file), f"it holds {len(found)}")
    return record(found[number - 1])


def _walk(document: Node, file: Path) -> ModelSession:
    """Walks the steps of a counterexample again. Raises `InputError` with the line of an impossible one."""
    given, model = paths.read_model(document, folder=file.parent)
    walk = Walk(model)
    for number, item in enumerate(read_steps(given["steps"]), 1):
        step = parse_step(item, paths.VERBS).value
        try:
            walk.take(step.text())
        except LocalProtocolError as problem:
            what = f"step {number}: {problem}"[:600]
            raise InputError(what, step.where, "it may be of another version; find it again with fsm check") from None
    return ModelSession(model, walk.indices, given[paths.NAME].text())


def _simulate(document: Node, file: Path, group: str, path: Sequence[int]) -> Session:
    """Opens a deployment: a model of your own machines, or a recording of Kafka's clients in virtual time."""
    found = read_node(document, file.parent)
    if isinstance(found, Machines):
        return ModelSession(compose(found.exchange.roles, found.never, found.goal), path, found.name)
    services = [one for one in found.services.values() if group in ("", one.group)]
    check_members(sum(one.processes * one.members for one in services), str(file))
    truth = Truth(changes=[])
    simulate(found, found.seed, truth=truth)
    if not truth.records:
        raise InputError("no member of a group writes a trace", str(file), "run it with fsm simulate")
    members = logs.record(truth.records, found.name, f"{file}, seed {found.seed}", group)
    return _add_coordinators(members, truth, group)


# What ran without a model


def record(found: Replay) -> Recording:
    """The recording of a scenario: each step, its messages, and its fields."""
    recorder = _Recorder(found)
    moments = [moment for step in found.steps for moment in recorder.list_moments(step)]
    parts = [Part(name, _role(name, tables), tuple(tables.values())) for name, tables in recorder.tables.items()]
    return Recording(found.title, f"{found.file}: {found.kind}, {found.dialect}", parts, moments)


class _Recorder:
    """The components of a scenario and their states during the recording."""

    def __init__(self, found: Replay) -> None:
        self.tables: dict[str, dict[str, Table]] = {}
        """The tables of a component's states."""
        self._shown: dict[str, Shown] = {}
        self._queues: dict[str, list[str]] = {}
        for step in found.steps:
            for name, fields in _group(step.seen).items():
                table = _table_of(fields)
                self.tables.setdefault(name, {}).update({table.name: table} if table else {})
            for arrow in step.arrows:
                for lane in arrow[:2]:
                    self.tables.setdefault(_component(lane), {})
                    if lane in QUEUES:
                        self._queues[lane] = []

    def list_moments(self, step: Step) -> Iterator[Moment]:
        """The moments of a step: the action, its events, and with the last of them the changed states."""
        timed = _TIME.fullmatch(step.title)
        at_ms, title = (float(timed[1]), timed[2]) if timed else (None, step.title)
        moments = [Moment(f"{title} ({step.note})" if step.note else title, at_ms, action=title)]
        moments += [self._happens(arrow, at_ms) for arrow in step.arrows]
        moments += [Moment(line[2], float(line[1])) for line in map(_TIME.fullmatch, step.lines) if line]
        shown = {name: self._with_queues(name, _show(fields)) for name, fields in _group(step.seen).items()}
        changed = {name: one for name, one in shown.items() if self._shown.get(name) != one}
        self._shown |= changed
        broken = tuple(f"{one.field}: {one.got_in(step)}" for one in step.expected if one.got_in(step) != one.value)
        yield from moments[:-1]
        yield moments[-1]._replace(components={**moments[-1].components, **changed}, broken=broken)

    def _happens(self, arrow: Arrow, at_ms: float | None) -> Moment:
        """Applies a message, a queue operation, or a change of state."""
        source, target = _component(arrow.source), _component(arrow.target)
        if arrow.target in QUEUES:
            self._queues[arrow.target].append(arrow.text)
        if arrow.source in QUEUES and arrow.text in self._queues[arrow.source]:
            self._queues[arrow.source].remove(arrow.text)
        if source != target:
            text = f"{source} to {target}: {arrow.text}"
            lost = arrow.look is ArrowLook.RAISE
            return Moment(text, at_ms, source, "sends", source, target, arrow.text, is_disturbance=lost)
        shown = self._with_queues(source, self._shown.get(source, Shown()))
        states = _states(arrow.text, tuple(self.tables[source].values()))
        if arrow.look is ArrowLook.STATE and states:
            shown = Shown(arrow.text, shown.look._replace(states=states))
        self._shown[source] = shown
        inside = f"{arrow.source} to {arrow.target}: " if arrow.source != arrow.target else f"{arrow.source}: "
        return Moment(inside + arrow.text, at_ms, source, arrow.text, components={source: shown})

    def _with_queues(self, name: str, shown: Shown) -> Shown:
        if name != MEMBER or not self._queues:
            return shown
        queues = [(lane, tuple(self._queues[lane])) for lane in QUEUES if lane in self._queues]
        return shown._replace(look=shown.look._replace(queues=queues))


def _component(lane: str) -> str:
    """The component of a lane in a sequence diagram: threads and queues belong to a member."""
    return MEMBER if lane in (*QUEUES, *THREADS) else lane


def _group(seen: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """The fields of a step by owner: `A epoch`, `A.epoch`, `group state`; others belong to the only member."""
    whose = {re.split(r"[ .]", key, maxsplit=1)[0] for key in seen if re.search(r"\w[ .]\w", key)}
    found: dict[str, dict[str, str]] = {}
    for key, value in seen.items():
        if _DETAIL.match(key) or key in HAPPENINGS or (key in PROBLEMS and value == NOTHING):
            continue
        who, *rest = re.split(r"[ .]", key, maxsplit=1)
        if who in OF_GROUP:
            name, field = COORDINATOR, " ".join(rest) if who == "group" and rest else key
        elif rest and who in whose and not who.isdigit():
            name, field = who, rest[0]
        else:
            name, field = MEMBER if "state" in seen else REST, key
        found.setdefault(name, {})[field] = value
    return found


def _show(fields: Mapping[str, str]) -> Shown:
    table, state = _table_of(fields), fields.get("state", "")
    text = state or ", ".join(f"{name} {value}" for name, value in list(fields.items())[:3])
    return Shown(text, Look(_states(state, (table,) if table else ()), tuple(fields.items())))


def _states(state: str, tables: Sequence[Table]) -> list[InState]:
    """The state of that name, of the table that has it."""
    return [
        InState(table.name, leaf.name)
        for table in tables
        for leaf in table.leaves()
        if _plain(leaf.name) == _plain(state)
    ]


def _plain(state: str) -> str:
    """The common form of PreparingRebalance and PREPARING_REBALANCE."""
    return state.replace("_", "").casefold()


def _table_of(fields: Mapping[str, str]) -> Table | None:
    """The table of a state among these fields."""
    if "type" in fields:
        return _OF_TYPE.get(fields["type"])
    return next((table for field, table in _BY_FIELD.items() if field in fields and "state" in fields), None)


_OF_TYPE: Mapping[str, Table] = {"consumer": consumer_group.TABLE, "classic": classic_group.TABLE}
_BY_FIELD: Mapping[str, Table] = {
    "holds": connect_worker.TABLE,
    "previous_epoch": consumer_group_member.TABLE,
    "generation": classic_member.TABLE,
    "epoch": consumer_member.TABLE,
}


def _role(name: str, tables: Mapping[str, Table]) -> str:
    if name == COORDINATOR:
        return COORDINATOR
    return "worker" if connect_worker.TABLE.name in tables else "member" if tables or name == MEMBER else "component"


# The coordinators of a deployment, after every step that changed their group.


def _add_coordinators(members: Recording, truth: Truth, group: str = "") -> Recording:
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
        shown = _show_group(change, clients)
        if shown == last:
            continue
        last = shown
        why = f"answers {type(change.request).__name__.removesuffix('Request')} of {change.client}"
        action = why if change.request is not None else "acts as a timer runs out"
        yield Moment(f"{name} {action}", at_ms + STARTED_MS, name, action, components={name: shown})


def _show_group(change: Change, clients: Mapping[str, str]) -> Shown:
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
