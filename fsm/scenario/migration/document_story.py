"""The document's telling of a migration: its stimuli by the document's rules, its snapshots as expectations."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from fsm.errors import InputError, LocalProtocolError
from fsm.nodes import Node, nearest
from fsm.scenario.migration import document as notes
from fsm.scenario.migration.document import DocumentGroup
from fsm.scenario.migration.head import STEP, Head, answer_fields, shown
from fsm.scenario.migration.view import View, fields, lines
from fsm.scenario.shape import Maybe, Only, read
from fsm.scenario.steps import NOTHING, Expected, Step
from fsm.scenario.words import listed

DOCUMENT = "document"
"""The dialect."""

Answer = Mapping[str, object]
Outcome = tuple[DocumentGroup, Answer]
_NOTHING_SAID: Answer = {}


def document_steps(document: Node, head: Head) -> Iterator[Step]:
    """Every step of the story. Raises `InputError` with the line for what is no step."""
    group = notes.initial(head.topic, head.generation, head.holds)
    for node in document.mapping()["steps"][1].items():
        stated = read(node, STEP)
        _check_expected(stated["expected"], node)
        group, step = _step(group, stated, node)
        yield step


def _check_expected(expected: Mapping[str, Any], node: Node) -> None:
    if expected["members"].keys() != expected["current"].keys():
        where = node.mapping()["expected"][1].where
        raise InputError("members and current assignments name different members", where)


def _step(group: DocumentGroup, stated: Mapping[str, Any], node: Node) -> tuple[DocumentGroup, Step]:
    refused, answer = NOTHING, _NOTHING_SAID
    stimulus = stated["stimulus"]
    event = EVENTS.get((stimulus["event"], stimulus.get("protocol", ""))) or EVENTS.get((stimulus["event"], ""))
    if event is None:
        known = tuple(name for name, _ in EVENTS)
        place = node.mapping()["stimulus"][1].where
        raise InputError(f"unknown event {stimulus['event'][:60]!r}", place, nearest(stimulus["event"], known))
    try:
        group, answer = event(group, stated)
    except LocalProtocolError as problem:
        refused = str(problem)
    view = notes.view(group)
    seen = {"refused": refused, **fields(view), **dict(answer_fields(view, answer))}
    expected = (Expected("refused", NOTHING, node.where, implied=True), *_expected(view, stated, node))
    title = f"{stated['id']}. {stated.get('narrative', stimulus['event'])}"
    issues = tuple(f"# {issue}" for issue in stated.get("seed_issues", ()))
    failure = (f"cannot be done: {refused}",) if refused != NOTHING else ()
    return group, Step(title, node.where, seen, expected, (*issues, *failure, *lines(view)), key=stated["id"])


# What happens


def _initial(group: DocumentGroup, _: Mapping[str, Any]) -> Outcome:
    return group, _NOTHING_SAID


def _come_back(group: DocumentGroup, stated: Mapping[str, Any]) -> Outcome:
    return notes.come_back(group, _actor(stated)), _NOTHING_SAID


def _leave(group: DocumentGroup, stated: Mapping[str, Any]) -> Outcome:
    return notes.leave(group, _actor(stated)), _NOTHING_SAID


def _install_target(group: DocumentGroup, stated: Mapping[str, Any]) -> Outcome:
    """The target is an input of the story: the document leaves the assignor out."""
    target = stated["expected"]["target"] or {"assignment": {}}
    return notes.install_target(group, {name: tuple(p) for name, p in target["assignment"].items()}), _NOTHING_SAID


def _heartbeat(group: DocumentGroup, stated: Mapping[str, Any]) -> Outcome:
    stimulus, name = stated["stimulus"], _actor(stated)
    owned = stimulus.get("owned")
    epoch = stimulus.get("epoch", group.members[name].current.epoch if name in group.members else 0)
    return notes.heartbeat(group, name, epoch, None if owned is None else tuple(sorted(owned)))


def _classic_heartbeat(group: DocumentGroup, stated: Mapping[str, Any]) -> Outcome:
    return group, notes.classic_heartbeat(group, _actor(stated))


def _join_group(group: DocumentGroup, stated: Mapping[str, Any]) -> Outcome:
    return notes.join_group(group, _actor(stated), tuple(sorted(stated["stimulus"].get("owned") or ())))


def _sync_group(group: DocumentGroup, stated: Mapping[str, Any]) -> Outcome:
    return notes.sync_group(group, _actor(stated))


def _actor(stated: Mapping[str, Any]) -> str:
    actor = stated["stimulus"].get("actor")
    if actor is None:
        raise LocalProtocolError("nobody is named who does it")
    return str(actor)


EVENTS: Mapping[tuple[str, str], Callable[[DocumentGroup, Mapping[str, Any]], Outcome]] = {
    ("initial", ""): _initial,
    ("leave_and_rejoin", ""): _come_back,
    ("leave", ""): _leave,
    ("install_target", ""): _install_target,
    ("heartbeat", "consumer"): _heartbeat,
    ("heartbeat", "classic"): _classic_heartbeat,
    ("join_group", ""): _join_group,
    ("sync_group", ""): _sync_group,
}
"""By event and, where it matters, protocol."""


# What is expected


def _expected(view: View, stated: Mapping[str, Any], node: Node) -> Iterator[Expected]:
    said = node.mapping()["expected"][1].mapping()
    places = {name: value.where for name, (_, value) in said.items()}
    expected = stated["expected"]
    yield Expected("group", _group(expected["group"]), places["group"])
    yield Expected("members", listed(sorted(expected["members"])), places["members"])
    yield from _target(view, expected["target"], places["target"])
    for name, member in expected["members"].items():
        yield Expected(f"{name}.protocol", member["protocol"], places["members"])
        if "classic_state" in member:
            yield Expected(f"{name}.phase", member["classic_state"], places["members"])
    for name, current in expected["current"].items():
        where = said["current"][1].mapping()[name][1].where
        yield Expected(f"{name}.epoch", str(current["epoch"]), where)
        yield from (Expected(f"{name}.{f}", view.named(current[f]), where) for f in ("owned", "revoking", "waiting"))
    yield from _answer(view, node.mapping()["stimulus"][1])


def _group(group: Mapping[str, Any]) -> str:
    if "generation" in group:
        return f"{group['type']}, generation {group['generation']}"
    return f"{group['type']}, epoch {group.get('epoch')}"


def _target(view: View, target: Mapping[str, Any] | None, where: str) -> Iterator[Expected]:
    yield Expected("target_epoch", NOTHING if target is None else str(target["epoch"]), where)
    given = target["assignment"] if target is not None else {}
    yield Expected("target", listed(sorted(given)), where)
    yield from (Expected(f"target.{name}", view.named(numbers), where) for name, numbers in given.items())


_RESPONSE = Only({"epoch?": int, "generation?": int, "assignment?": Maybe([int])})


def _answer(view: View, stimulus: Node) -> Iterator[Expected]:
    """A response is an error's name, or fields."""
    said = stimulus.mapping().get("response")
    if said is None:
        return
    node = said[1]
    stated = {"error": node.value} if isinstance(node.value, str) else read(node, _RESPONSE)
    yield from (Expected(f"answer.{name}", shown(view, value), node.where) for name, value in stated.items())
