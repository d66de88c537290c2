"""Kafka's telling of a migration: the requests of a trace, and what the coordinator answers and keeps after each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from fsm.coordinator.model.dialect import Dialect
from fsm.errors import InputError, LocalProtocolError
from fsm.nodes import Node, nearest
from fsm.scenario.migration.head import Head, answer_fields, shown
from fsm.scenario.migration.shipped import STRATEGIES, Story
from fsm.scenario.migration.view import Numbers, View, fields, lines
from fsm.scenario.shape import EACH, Maybe, Only, read
from fsm.scenario.steps import NOTHING, Expected, Step
from fsm.scenario.words import listed

_NUMBERS = [int]
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
_SEEN_AS = {"pending_revocation": "revoking", "classic_phase": "phase"}
"""Names of the file that are other words for a field."""
TRACE: Mapping[str, Any] = {
    "scripted_targets": {EACH: {EACH: _NUMBERS}},
    "steps": [
        {
            "id": str,
            "seed_step": str,
            "request": Only(
                {
                    "api": str,
                    "from": str,
                    "member_epoch?": int,
                    "generation?": int,
                    "owned?": Maybe(_NUMBERS),
                },
                unread=("protocol", "note"),
            ),
            "response": Only(
                {
                    "error?": str,
                    "member_epoch?": int,
                    "generation?": int,
                    "leader?": str,
                    "assignment?": Maybe(_NUMBERS),
                },
                unread=("members", "note"),
            ),
            "after": Only(
                {
                    "group": Only({"type": str, "epoch?": int, "generation?": int, "state?": str}),
                    "target?": Maybe(Only({"epoch": int, "assignment": {EACH: _NUMBERS}})),
                    "members": {EACH: _MEMBER},
                },
                unread=("note",),
            ),
        }
    ],
}
_MOST_STEPS = 2_000


def shipped_steps(document: Node, head: Head, dialect: Dialect) -> Iterator[Step]:
    """The group at rest, then every request. Raises `InputError` with the line for what is no request."""
    if "shipped_trace" not in document.mapping():
        raise InputError("no shipped_trace to be run by a release", document.where, "--dialect document")
    node = document.mapping()["shipped_trace"][1]
    trace = read(node, TRACE)
    if len(trace["steps"]) > _MOST_STEPS:
        raise InputError(f"{len(trace['steps'])} steps", node.where, f"at most {_MOST_STEPS}")
    story = _story(trace, head, dialect, node)
    yield Step(
        "0. A classic group at rest.", document.where, fields(story.view()), lines=tuple(lines(story.view())), key="0"
    )
    nodes = node.mapping()["steps"][1].items()
    lasts = {stated["seed_step"]: stated["id"] for stated in trace["steps"]}
    for stated, place in zip(trace["steps"], nodes, strict=True):
        is_last = lasts[stated["seed_step"]] == stated["id"]
        yield _step(story, stated, place, key=stated["seed_step"].split("+")[-1] if is_last else stated["id"])


def _story(trace: Mapping[str, Any], head: Head, dialect: Dialect, node: Node) -> Story:
    if head.rebalance_protocol not in STRATEGIES:
        known = tuple(STRATEGIES)
        raise InputError(
            f"no rebalance protocol {head.rebalance_protocol[:60]!r}", node.where, f"one of {', '.join(known)}"
        )
    targets: list[Mapping[str, Numbers]] = [
        {n: tuple(p) for n, p in target.items()} for _, target in _by_epoch(trace["scripted_targets"], node)
    ]
    story = Story(head.topic, head.partitions, dialect, STRATEGIES[head.rebalance_protocol], targets)
    story.begin(head.generation, head.holds)
    return story


def _by_epoch(targets: Mapping[str, Any], node: Node) -> list[tuple[int, Any]]:
    place = node.mapping()["scripted_targets"][1].mapping()
    return sorted((place[epoch][0].number(), target) for epoch, target in targets.items())


def _step(story: Story, stated: Mapping[str, Any], node: Node, *, key: str) -> Step:
    request, refused, answer = stated["request"], NOTHING, dict[str, object]()
    if request["api"] not in APIS:
        place = node.mapping()["request"][1].where
        raise InputError(f"unknown api {request['api'][:60]!r}", place, nearest(request["api"], tuple(APIS)))
    try:
        answer = APIS[request["api"]](story, request)
    except LocalProtocolError as problem:
        refused = str(problem)
    view = story.view()
    seen = {"refused": refused, **fields(view), **dict(answer_fields(view, answer))}
    said = ", ".join(f"{name} {shown(view, value)}" for name, value in answer.items())
    expected = (Expected("refused", NOTHING, node.where, implied=True), *_expected(view, stated, node))
    title = f"{stated['id']}. {request['from']} sends {request['api']}"
    return Step(title, node.where, seen, expected, (f"answered: {said}", *lines(view)), key=key)


def _name(story: Story, request: Mapping[str, Any]) -> str:
    name = str(request["from"])
    if name not in story.ids:
        raise LocalProtocolError(f"{name} is no member of the group")
    return name


def _owned(request: Mapping[str, Any]) -> tuple[int, ...] | None:
    owned = request.get("owned")
    return None if owned is None else tuple(sorted(owned))


def _consumer_heartbeat(story: Story, request: Mapping[str, Any]) -> dict[str, object]:
    epoch = request.get("member_epoch", 0)
    name = str(request["from"]) if epoch == 0 else _name(story, request)
    return story.consumer_heartbeat(name, epoch, () if epoch == 0 else _owned(request))


APIS: Mapping[str, Callable[[Story, Mapping[str, Any]], dict[str, object]]] = {
    "ConsumerGroupHeartbeat": _consumer_heartbeat,
    "LeaveGroup": lambda story, request: story.leave_group(_name(story, request)),
    "Heartbeat": lambda story, request: story.classic_heartbeat(_name(story, request), request.get("generation", -1)),
    "JoinGroup": lambda story, request: story.join_group(_name(story, request), _owned(request) or ()),
    "SyncGroup": lambda story, request: story.sync_group(_name(story, request), request.get("generation", -1)),
}


def _expected(view: View, stated: Mapping[str, Any], node: Node) -> Iterator[Expected]:
    after = stated["after"]
    where = node.mapping()["after"][1].where
    group = after["group"]
    count = f"generation {group['generation']}" if "generation" in group else f"epoch {group.get('epoch')}"
    yield Expected("group", f"{group['type']}, {count}", where)
    if "state" in group:
        yield Expected("group_state", group["state"], where)
    yield Expected("members", listed(sorted(after["members"])), where)
    if after.get("target") is not None:
        yield Expected("target_epoch", str(after["target"]["epoch"]), where)
        for name, numbers in after["target"]["assignment"].items():
            yield Expected(f"target.{name}", view.named(tuple(numbers)), where)
    for name, member in after["members"].items():
        for key, value in member.items():
            yield Expected(f"{name}.{_SEEN_AS.get(key, key)}", _value(view, key, value), where)
    place = node.mapping()["response"][1].where
    yield from (Expected(f"answer.{n}", shown(view, value), place) for n, value in stated["response"].items())


def _value(view: View, key: str, value: Any) -> str:
    if key == "timers":
        return listed(sorted(value))
    return view.named(tuple(value)) if isinstance(value, list) else str(value)
