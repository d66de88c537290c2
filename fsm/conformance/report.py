"""What was found when a peer was held against Kafka: as text for a reader of the KIP, and as one JSON document."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fsm.conformance.live_walk import FirstDifference, Held
from fsm.conformance.peer import Peer
from fsm.conformance.recording import RecordedStep
from fsm.coordinator.model.step import Happened

STEPS_BEFORE, FIELDS, WIDEST, SAME = 6, 12, 160, 40
"""How many steps and fields are told, how wide a value is, and how much of it may be the same on both sides."""
FREEDOMS = ("ties", "reordered", "near a deadline", "old metadata")


def document(peer: Peer, held: Sequence[Held], seed: int) -> dict[str, Any]:
    """Everything, for other programs."""
    return {
        "dialect": peer.release,
        "seed": seed,
        "records_compared": peer.keeps_log,
        "unspoken": dict(peer.unspoken),
        "families": [_family(one) for one in held],
    }


def _family(held: Held) -> dict[str, Any]:
    return {
        "family": held.family,
        "group": held.group,
        "equal": held.equal,
        "requests": dict(held.requests),
        **held.freedoms._asdict(),
        "unspoken": dict(held.unspoken),
        "difference": _difference(held.difference) if held.difference else None,
    }


def _difference(found: FirstDifference) -> dict[str, Any]:
    asked = found.step.request
    return {
        "step": found.step.n,
        "what": str(found.step),
        "request": {"api": asked.api, "version": asked.version, "body": dict(asked.body)} if asked else None,
        "fields": [one._asdict() for one in found.fields],
        "decided": [_decision(one) for one in found.decided],
        "group_before": found.group,
        "steps_before": [str(step) for step in found.before],
    }


def lines(peer: Peer, held: Sequence[Held], seed: int) -> Iterator[str]:
    """A line for each family, then the first difference of each in full."""
    for api, why in sorted(peer.unspoken.items()):
        yield f"not spoken: {api} {why}"
    if "DescribeConfigs" in peer.unspoken:
        yield "settings are not told: those of --set count, else Kafka's defaults"
    if not peer.keeps_log:
        yield "records are not compared: __consumer_offsets is not read"
    for one in held:
        yield _summary(one)
    for one in held:
        if one.difference:
            yield from ("", *_story(one, one.difference, seed, peer.release))


def _summary(held: Held) -> str:
    if held.unspoken:
        return f"{held.family:15} not walked: {', '.join(held.unspoken)} not spoken"
    kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(held.requests.items(), key=lambda kind: -kind[1]))
    needed = ", ".join(f"{name} {count}" for name, count in zip(FREEDOMS, held.freedoms, strict=True) if count)
    verdict = f"differs at step {held.difference.step.n}" if held.difference else ""
    parts = [part for part in (verdict, kinds, needed) if part]
    return f"{held.family:15} {held.equal:6} steps equal: {'; '.join(parts) or 'none'}"


def _story(held: Held, found: FirstDifference, seed: int, release: str) -> Iterator[str]:
    """The first difference: where, after what, the request, what Kafka decides, field by field."""
    yield f"{held.family}, seed {seed}: first difference at step {found.step}"
    yield from _before(found.before)
    if found.group:
        yield f"  group before  {_described(found.group)}"
    if found.step.request:
        yield f"  request       {found.step.request.api} v{found.step.request.version}"
        yield from (f"                {name} = {_short(value)}" for name, value in _said(found.step.request.body))
    for decision in found.decided:
        yield f"  Kafka         {_decision(decision)}"
    for one in found.fields[:FIELDS]:
        yield f"  {one.field}"
        expected, got = _where_they_part(one.expected, one.got)
        yield f"    Kafka {release:8}{expected}"
        yield f"    got           {got}"
    if found.fields[FIELDS:]:
        yield f"  and {len(found.fields) - FIELDS} fields more"


def _before(steps: Sequence[RecordedStep]) -> Iterator[str]:
    for step in steps[-STEPS_BEFORE:]:
        errors = [f"{'' if r.to == step.n else f'{r.to} '}{r.body.get('error_code') or 'ok'}" for r in step.responses]
        yield f"  before        {step}: {', '.join(errors) or 'no answer yet' if step.request else 'done'}"


def _said(body: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """The fields of a request that say something."""
    return ((name, value) for name, value in body.items() if value is not None)


def _described(group: Mapping[str, Any]) -> str:
    parts = [group["type"], group["state"]]
    if "epoch" in group:
        parts.append(f"epoch {group['epoch']}, target {group['assignment_epoch']}")
    members = [_who(member_id, member) for member_id, member in group["members"].items()]
    return f"{' '.join(parts[:2])}{', ' + parts[2] if parts[2:] else ''}; {', '.join(members) or 'no members'}"


def _who(member_id: str, member: Mapping[str, Any]) -> str:
    return f"{member_id}@{member['epoch']}" if "epoch" in member else member_id


def _decision(happened: Happened) -> str:
    who = happened.member_id or "the group"
    return f"{who}: {happened.event.name}, {happened.state.name} to {happened.target.name}"


def _where_they_part(expected: Any, got: Any) -> tuple[str, str]:
    """Both in short; what is too long for a line begins a little before the first difference."""
    one, other = _text(expected), _text(got)
    if max(len(one), len(other)) <= WIDEST:
        return one, other
    pairs = enumerate(zip(one, other, strict=False))
    same = next((i for i, (a, b) in pairs if a != b), min(len(one), len(other)))
    return _cut(one, max(0, same - SAME)), _cut(other, max(0, same - SAME))


def _cut(text: str, begins: int) -> str:
    ends = begins + WIDEST
    return f"{'...' if begins else ''}{text[begins:ends]}{'...' if text[ends:] else ''}"


def _short(value: Any) -> str:
    return _cut(_text(value), 0)


def _text(value: Any) -> str:
    return repr(value) if isinstance(value, str) else str(value)
