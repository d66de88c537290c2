"""The results of a comparison as text and as one JSON document."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fsm.conformance.peer import Peer
from fsm.conformance.steps import Response, WalkStep
from fsm.conformance.walk import FirstDifference, WalkResult
from fsm.coordinator.model.step import Happened
from fsm.protocol.error_codes import ErrorCode
from fsm.protocol.json_form import error_name, to_recorded

STEPS_BEFORE, FIELDS, WIDEST, SAME = 6, 12, 160, 40
"""Steps and fields shown, width of a value, and length of the equal part shown before a difference."""
FREEDOMS = ("ties", "reordered", "near a deadline", "old metadata")


def document(peer: Peer, results: Sequence[WalkResult], seed: int) -> dict[str, Any]:
    """All results as a JSON document."""
    return {
        "dialect": peer.release,
        "seed": seed,
        "records_compared": peer.keeps_log,
        "unspoken": dict(peer.unsupported),
        "families": [_family(one) for one in results],
    }


def _family(result: WalkResult) -> dict[str, Any]:
    return {
        "family": result.family,
        "group": result.group,
        "equal": result.equal,
        "requests": dict(result.requests),
        **result.freedoms._asdict(),
        "unspoken": dict(result.unsupported),
        "difference": _difference(result.difference) if result.difference else None,
    }


def _difference(found: FirstDifference) -> dict[str, Any]:
    request = found.step.request
    return {
        "step": found.step.n,
        "what": str(found.step),
        "request": request
        and {"api": request.api, "version": request.version, "body": to_recorded(request.message, request.version)},
        "fields": [one._asdict() for one in found.fields],
        "decided": [_decision(one) for one in found.decided],
        "group_before": found.group,
        "steps_before": [str(step) for step in found.before],
    }


def lines(peer: Peer, results: Sequence[WalkResult], seed: int) -> Iterator[str]:
    """One line per family, then the first difference of each in full."""
    for api, why in sorted(peer.unsupported.items()):
        yield f"not spoken: {api} {why}"
    if "DescribeConfigs" in peer.unsupported:
        yield "settings are not told: those of --set count, else Kafka's defaults"
    if not peer.keeps_log:
        yield "records are not compared: __consumer_offsets is not read"
    for one in results:
        yield _summary(one)
    for one in results:
        if one.difference:
            yield from ("", *_describe_difference(one, one.difference, seed, peer.release))


def _summary(result: WalkResult) -> str:
    if result.unsupported:
        return f"{result.family:15} not walked: {', '.join(result.unsupported)} not spoken"
    kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(result.requests.items(), key=lambda kind: -kind[1]))
    needed = ", ".join(f"{name} {count}" for name, count in zip(FREEDOMS, result.freedoms, strict=True) if count)
    verdict = f"differs at step {result.difference.step.n}" if result.difference else ""
    parts = [part for part in (verdict, kinds, needed) if part]
    return f"{result.family:15} {result.equal:6} steps equal: {'; '.join(parts) or 'none'}"


def _describe_difference(result: WalkResult, found: FirstDifference, seed: int, release: str) -> Iterator[str]:
    """Lines of the first difference: the step, earlier steps, the request, Kafka's decisions, the fields."""
    yield f"{result.family}, seed {seed}: first difference at step {found.step}"
    for step in found.before[-STEPS_BEFORE:]:
        errors = [_outcome(step, response) for response in step.responses]
        yield f"  before        {step}: {', '.join(errors) or 'no answer yet' if step.request else 'done'}"
    if found.group:
        yield f"  group before  {_describe_group(found.group)}"
    if request := found.step.request:
        yield f"  request       {request.api} v{request.version}"
        body = to_recorded(request.message, request.version)
        yield from (f"                {name} = {_short(value)}" for name, value in body.items() if value is not None)
    for decision in found.decided:
        yield f"  Kafka         {_decision(decision)}"
    for one in found.fields[:FIELDS]:
        yield f"  {one.field}"
        expected, got = _shorten(one.expected, one.got)
        yield f"    Kafka {release:8}{expected}"
        yield f"    got           {got}"
    if found.fields[FIELDS:]:
        yield f"  and {len(found.fields) - FIELDS} fields more"


def _outcome(step: WalkStep, response: Response) -> str:
    error = error_name(getattr(response.message, "error_code", ErrorCode.NONE))
    return f"{'' if response.to == step.n else f'{response.to} '}{error or 'ok'}"


def _describe_group(group: Mapping[str, Any]) -> str:
    epochs = f", epoch {group['epoch']}, target {group['assignment_epoch']}" if "epoch" in group else ""
    members = [f"{i}@{member['epoch']}" if "epoch" in member else i for i, member in group["members"].items()]
    return f"{group['type']} {group['state']}{epochs}; {', '.join(members) or 'no members'}"


def _decision(happened: Happened) -> str:
    who = happened.member_id or "the group"
    return f"{who}: {happened.event.name}, {happened.state.name} to {happened.target.name}"


def _shorten(expected: Any, got: Any) -> tuple[str, str]:
    """Both values as text; texts that are too long are cut around the first difference."""
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
