"""The online migration of a group, step by step, by the design document and by Kafka.

The kind of `seed_migration.yaml`: `steps` are the document's scenario, each with its `stimulus` and the `expected`
group, target and members; `shipped_trace` is the same scenario in requests. Without a dialect, or under `document`, the
first runs by the document's rules. Under a release of Kafka the coordinator runs the second. A comparison of the two
pairs steps by their position in the document (`--dialect document --against 4.4`).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from fsm.coordinator.model.dialect import Dialect
from fsm.coordinator.model.dialect import dialect as release
from fsm.errors import InputError, LocalProtocolError
from fsm.nodes import Node, nearest
from fsm.scenario.migration import document as rules
from fsm.scenario.migration.document import DocumentGroup
from fsm.scenario.migration.shipped import STRATEGIES, ShippedGroup
from fsm.scenario.migration.view import Numbers, View, show_answer, show_fields, show_lines, show_value
from fsm.scenario.reading import EACH, Maybe, Only, read
from fsm.scenario.story import REFUSED, STEPS_LIMIT, Act, Expected, Replay, Seen, Stage, Step, play
from fsm.scenario.texts import NOTHING, show_list

NAME = "migration trace"
SCHEMA = "migration-scenario/"
DOCUMENT = "document"
"""The dialect of the design document."""
Answer = Mapping[str, object]
NO_ANSWER: Answer = {}


def reads(document: Node) -> bool:
    """Whether the document names the schema of migration scenarios."""
    meta = document.value.get("meta") if isinstance(document.value, dict) else None
    schema = meta[1].value.get("schema") if meta is not None and isinstance(meta[1].value, dict) else None
    return schema is not None and isinstance(schema[1].value, str) and schema[1].value.startswith(SCHEMA)


def replay(document: Node, file: str, dialect: str | None) -> Iterator[Replay]:
    """Runs the scenario. Raises `InputError` with the line for an invalid part."""
    head = _read_head(document)
    title = f"Online migration of a group of {head.topic}"
    if dialect in (None, DOCUMENT):
        steps = play(DocumentStory(head), document.mapping()["steps"][1].items())
        yield Replay(file, NAME, title, DOCUMENT, steps)
        return
    found = release(dialect)
    if "shipped_trace" not in document.mapping():
        raise InputError("no shipped_trace to be run by a release", document.where, "--dialect document")
    trace = document.mapping()["shipped_trace"][1]
    shipped = ShippedStory(trace, head, found)
    view = shipped.view()
    at_rest = Step(
        "0. A classic group at rest.", document.where, show_fields(view), lines=tuple(show_lines(view)), key="0"
    )
    steps = (at_rest, *play(shipped, trace.mapping()["steps"][1].items()))
    yield Replay(file, NAME, title, found.name, steps)


# The initial state of both

_NUMBERS = [int]
_META = {"meta": {"topic": str, "partitions": int, "classic_rebalance_protocol?": str}}
_TARGET = Maybe(Only({"epoch": int, "assignment": {EACH: _NUMBERS}}))
_STEP: Mapping[str, Any] = {
    "id": str,
    "narrative?": str,
    "seed_issues?": [str],
    "stimulus": {
        "actor?": Maybe(str),
        "event": str,
        "protocol?": str,
        "epoch?": int,
        "generation?": int,
        "owned?": Maybe(_NUMBERS),
    },
    "expected": Only(
        {
            "group": Only({"type": str, "epoch?": int, "generation?": int}),
            "members": {EACH: Only({"protocol": str, "classic_state?": str})},
            "target": _TARGET,
            "current": {EACH: Only({"epoch": int, "owned": _NUMBERS, "revoking": _NUMBERS, "waiting": _NUMBERS})},
        },
        unread=("note",),
    ),
}
"""A step of the document's scenario."""


class Head(NamedTuple):
    """The initial group."""

    topic: str
    partitions: int
    rebalance_protocol: str
    """The rebalance protocol of its classic members."""
    generation: int
    holds: Mapping[str, Numbers]


def _read_head(document: Node) -> Head:
    meta = read(document, _META)["meta"]
    steps = document.fields(list(document.mapping()), ("steps",))["steps"].items()
    if not steps:
        raise InputError("no steps", document.mapping()["steps"][1].where, "a story has at least one")
    first = read(steps[0], _STEP)
    if first["stimulus"]["event"] != "initial" or "generation" not in first["expected"]["group"]:
        raise InputError("does not begin with a classic group at rest", steps[0].where, "event: initial")
    holds = {name: tuple(sorted(held["owned"])) for name, held in first["expected"]["current"].items()}
    _check_numbers(holds, meta["partitions"], steps[0].where)
    protocol = meta.get("classic_rebalance_protocol", "eager")
    return Head(meta["topic"], meta["partitions"], protocol, first["expected"]["group"]["generation"], holds)


def _check_numbers(holds: Mapping[str, Numbers], count: int, where: str) -> None:
    if not 0 < count <= 10_000:
        raise InputError(f"{count} partitions", where, "a topic of a story has 1 to 10000")
    held = sorted(number for numbers in holds.values() for number in numbers)
    if len(set(held)) < len(held) or (held and not 0 <= held[0] <= held[-1] < count):
        raise InputError("a partition is held twice, or does not exist", where)


class _Story(Stage):
    """A run of the migration: the answer to the last request, and the group after it."""

    implied: Mapping[str, str] = {REFUSED: NOTHING}
    answer: Answer = NO_ANSWER

    @abstractmethod
    def view(self) -> View:
        """The group as it is now."""

    def see(self) -> Seen:
        view = self.view()
        return Seen({**show_fields(view), **show_answer(view, self.answer)}, show_lines(view))

    def _expect_group(
        self, group: Mapping[str, Any], members: Iterable[str], where: Mapping[str, str]
    ) -> Iterator[Expected]:
        count = f"generation {group['generation']}" if "generation" in group else f"epoch {group.get('epoch')}"
        yield Expected("group", f"{group['type']}, {count}", where["group"])
        if "state" in group:
            yield Expected("group_state", group["state"], where["group"])
        yield Expected("members", show_list(sorted(members)), where["members"])

    def _expect_answer(self, answer: Answer, where: str) -> Iterator[Expected]:
        yield from (Expected(name, value, where) for name, value in show_answer(self.view(), answer).items())


# The document's scenario: its stimuli by its rules, its snapshots as expectations

_RESPONSE = Only({"epoch?": int, "generation?": int, "assignment?": Maybe(_NUMBERS)})
Outcome = tuple[DocumentGroup, Answer]


class DocumentStory(_Story):
    """The stage of the design document."""

    def __init__(self, head: Head) -> None:
        self.group = rules.begin(head.topic, head.generation, head.holds)

    def view(self) -> View:
        return rules.make_view(self.group)

    def parse(self, item: Node) -> Act:
        stated = read(item, _STEP)
        expected = stated["expected"]
        if expected["members"].keys() != expected["current"].keys():
            where = item.mapping()["expected"][1].where
            raise InputError("members and current assignments name different members", where)
        remarks = tuple(stated.get("seed_issues", ()))
        return Act(stated["stimulus"]["event"], item, item.where, expect=item, remarks=remarks, key=stated["id"])

    def title(self, act: Act, _begun_ms: int) -> str:
        return f"{act.key}. {read(act.value, _STEP).get('narrative', act.verb)}"

    def do(self, act: Act) -> None:
        stated, self.answer = read(act.value, _STEP), NO_ANSWER
        protocol = stated["stimulus"].get("protocol", "")
        event = EVENTS.get((act.verb, protocol)) or EVENTS.get((act.verb, ""))
        if event is None:
            known = tuple(name for name, _ in EVENTS)
            where = act.value.mapping()["stimulus"][1].where
            raise InputError(f"unknown event {act.verb[:60]!r}", where, nearest(act.verb, known))
        self.group, self.answer = event(self.group, stated)

    def expect(self, node: Node, _seen: Mapping[str, str]) -> Iterator[Expected]:
        given = node.mapping()["expected"][1].mapping()
        where = {name: value.where for name, (_, value) in given.items()}
        expected, view = read(node, _STEP)["expected"], self.view()
        yield from self._expect_group(expected["group"], expected["members"], where)
        target = expected["target"] or {"epoch": NOTHING, "assignment": {}}
        yield Expected("target_epoch", str(target["epoch"]), where["target"])
        yield Expected("target", show_list(sorted(target["assignment"])), where["target"])
        for name, numbers in target["assignment"].items():
            yield Expected(f"target.{name}", view.show(numbers), where["target"])
        for name, member in expected["members"].items():
            yield Expected(f"{name}.protocol", member["protocol"], where["members"])
            if "classic_state" in member:
                yield Expected(f"{name}.phase", member["classic_state"], where["members"])
        for name, current in expected["current"].items():
            place = given["current"][1].mapping()[name][1].where
            yield Expected(f"{name}.epoch", str(current["epoch"]), place)
            for field in ("owned", "revoking", "waiting"):
                yield Expected(f"{name}.{field}", view.show(current[field]), place)
        stimulus = node.mapping()["stimulus"][1].mapping()
        if "response" in stimulus:  # an error's name, or fields
            response = stimulus["response"][1]
            is_error = isinstance(response.value, str)
            yield from self._expect_answer(
                {"error": response.value} if is_error else read(response, _RESPONSE), response.where
            )


def _install_target(group: DocumentGroup, stated: Mapping[str, Any]) -> Outcome:
    """Installs the target, an input of the scenario: the document has no assignor."""
    target = stated["expected"]["target"] or {"assignment": {}}
    return rules.install_target(group, {name: tuple(p) for name, p in target["assignment"].items()}), NO_ANSWER


def _heartbeat(group: DocumentGroup, stated: Mapping[str, Any]) -> Outcome:
    stimulus, name = stated["stimulus"], _actor(stated)
    owned = stimulus.get("owned")
    epoch = stimulus.get("epoch", group.members[name].current.epoch if name in group.members else 0)
    return rules.send_heartbeat(group, name, epoch, None if owned is None else tuple(sorted(owned)))


def _join_group(group: DocumentGroup, stated: Mapping[str, Any]) -> Outcome:
    return rules.join_group(group, _actor(stated), tuple(sorted(stated["stimulus"].get("owned") or ())))


def _actor(stated: Mapping[str, Any]) -> str:
    actor = stated["stimulus"].get("actor")
    if actor is None:
        raise LocalProtocolError("the step names no member")
    return str(actor)


EVENTS: Mapping[tuple[str, str], Callable[[DocumentGroup, Mapping[str, Any]], Outcome]] = {
    ("initial", ""): lambda group, _: (group, NO_ANSWER),
    ("leave_and_rejoin", ""): lambda group, stated: (rules.upgrade_member(group, _actor(stated)), NO_ANSWER),
    ("leave", ""): lambda group, stated: (rules.leave(group, _actor(stated)), NO_ANSWER),
    ("install_target", ""): _install_target,
    ("heartbeat", "consumer"): _heartbeat,
    ("heartbeat", "classic"): lambda group, stated: (group, rules.send_classic_heartbeat(group, _actor(stated))),
    ("join_group", ""): _join_group,
    ("sync_group", ""): lambda group, stated: rules.sync_group(group, _actor(stated)),
}
"""By event and, if relevant, protocol."""


# Kafka's scenario: the requests of a trace, and the coordinator's answer and state after each

_MEMBER = Only(
    {
        "protocol?": str,
        "state?": str,
        "epoch?": int,
        "previous_epoch?": int,
        "assigned?": _NUMBERS,
        "pending_revocation?": _NUMBERS,
        "classic_phase?": str,
        "timers?": [str],
    }
)
_SHOWN_AS = {"pending_revocation": "revoking", "classic_phase": "phase"}
"""Other names for fields in the file."""
_REQUEST: Mapping[str, Any] = {
    "id": str,
    "seed_step": str,
    "request": Only(
        {"api": str, "from": str, "member_epoch?": int, "generation?": int, "owned?": Maybe(_NUMBERS)},
        unread=("protocol", "note"),
    ),
    "response": Only(
        {"error?": str, "member_epoch?": int, "generation?": int, "leader?": str, "assignment?": Maybe(_NUMBERS)},
        unread=("members", "note"),
    ),
    "after": Only(
        {
            "group": Only({"type": str, "epoch?": int, "generation?": int, "state?": str}),
            "target?": _TARGET,
            "members": {EACH: _MEMBER},
        },
        unread=("note",),
    ),
}
_TRACE: Mapping[str, Any] = {"scripted_targets": {EACH: {EACH: _NUMBERS}}, "steps": [_REQUEST]}


class ShippedStory(_Story):
    """The stage of a release of Kafka."""

    def __init__(self, node: Node, head: Head, dialect: Dialect) -> None:
        trace = read(node, _TRACE)
        if len(trace["steps"]) > STEPS_LIMIT:
            raise InputError(f"{len(trace['steps'])} steps", node.where, f"at most {STEPS_LIMIT}")
        protocol = head.rebalance_protocol
        if protocol not in STRATEGIES:
            known = ", ".join(STRATEGIES)
            raise InputError(f"unknown rebalance protocol {protocol[:60]!r}", node.where, f"one of {known}")
        places = node.mapping()["scripted_targets"][1].mapping()
        epochs = sorted(trace["scripted_targets"], key=lambda epoch: places[epoch][0].number())
        targets = [{n: tuple(p) for n, p in trace["scripted_targets"][epoch].items()} for epoch in epochs]
        self.group = ShippedGroup(head.topic, head.partitions, dialect, STRATEGIES[protocol], targets)
        self.group.begin(head.generation, head.holds)
        self._last = {step["seed_step"]: step["id"] for step in trace["steps"]}
        """The last request of each step of the document."""
        self._refused = NOTHING

    def view(self) -> View:
        return self.group.make_view()

    def parse(self, item: Node) -> Act:
        stated = read(item, _REQUEST)
        is_last = self._last[stated["seed_step"]] == stated["id"]
        key = stated["seed_step"].split("+")[-1] if is_last else stated["id"]
        return Act(stated["request"]["api"], item, item.where, expect=item, key=key)

    def title(self, act: Act, _begun_ms: int) -> str:
        stated = read(act.value, _REQUEST)
        return f"{stated['id']}. {stated['request']['from']} sends {act.verb}"

    def do(self, act: Act) -> None:
        request, self.answer, self._refused = read(act.value, _REQUEST)["request"], NO_ANSWER, NOTHING
        if act.verb not in APIS:
            where = act.value.mapping()["request"][1].where
            raise InputError(f"unknown api {act.verb[:60]!r}", where, nearest(act.verb, tuple(APIS)))
        try:
            self.answer = APIS[act.verb](self.group, request)
        except LocalProtocolError as problem:
            self._refused = str(problem)

    def see(self) -> Seen:
        fields, lines, _ = super().see()
        answered = ", ".join(f"{name} {show_value(self.view(), value)}" for name, value in self.answer.items())
        return Seen({REFUSED: self._refused, **fields}, (f"answered: {answered}", *lines))

    def expect(self, node: Node, _seen: Mapping[str, str]) -> Iterator[Expected]:
        stated, view = read(node, _REQUEST), self.view()
        after, where = stated["after"], node.mapping()["after"][1].where
        yield from self._expect_group(after["group"], after["members"], {"group": where, "members": where})
        if after.get("target") is not None:
            yield Expected("target_epoch", str(after["target"]["epoch"]), where)
            for name, numbers in after["target"]["assignment"].items():
                yield Expected(f"target.{name}", view.show(numbers), where)
        for name, member in after["members"].items():
            for key, value in member.items():
                shown = show_list(sorted(value)) if key == "timers" else show_value(view, value)
                yield Expected(f"{name}.{_SHOWN_AS.get(key, key)}", shown, where)
        yield from self._expect_answer(stated["response"], node.mapping()["response"][1].where)


def _sender(group: ShippedGroup, request: Mapping[str, Any]) -> str:
    name = str(request["from"])
    if name not in group.ids:
        raise LocalProtocolError(f"{name} is not a member of the group")
    return name


def _read_owned(request: Mapping[str, Any]) -> Numbers | None:
    owned = request.get("owned")
    return None if owned is None else tuple(sorted(owned))


def _send_consumer_heartbeat(group: ShippedGroup, request: Mapping[str, Any]) -> Answer:
    epoch = request.get("member_epoch", 0)
    name = str(request["from"]) if epoch == 0 else _sender(group, request)
    return group.send_consumer_heartbeat(name, epoch, () if epoch == 0 else _read_owned(request))


APIS: Mapping[str, Callable[[ShippedGroup, Mapping[str, Any]], Answer]] = {
    "ConsumerGroupHeartbeat": _send_consumer_heartbeat,
    "LeaveGroup": lambda group, request: group.leave_group(_sender(group, request)),
    "Heartbeat": lambda group, request: group.send_heartbeat(_sender(group, request), request.get("generation", -1)),
    "JoinGroup": lambda group, request: group.join_group(_sender(group, request), _read_owned(request) or ()),
    "SyncGroup": lambda group, request: group.sync_group(_sender(group, request), request.get("generation", -1)),
}
