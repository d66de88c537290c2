"""Compares a broker with our coordinator, step by step, in seeded walks.

    broker = Broker("127.0.0.1", 9092, "4.4.0", {})
    (result,) = compare(broker, ("plain",), seed=1, steps=500)
    result.difference    # None, or the first difference: step, fields, what our tables decided

Each family walks one group. A step is sent to the peer, and our coordinator follows the observation in the peer's
dialect. `expected` is Kafka's behaviour, `got` the peer's. The results are shown as text and as one JSON document.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fsm.conformance.comparison import FieldDifference
from fsm.conformance.families import FAMILIES, TOPICS
from fsm.conformance.follower import NO_FREEDOMS, SLACK_MS, Follower, Freedoms, Verdict
from fsm.conformance.peer import Observed, Peer
from fsm.conformance.steps import Response, WalkRequest, WalkStep
from fsm.conformance.walker import Move, Wait, Walker
from fsm.coordinator.model.step import Happened
from fsm.protocol.error_codes import ErrorCode
from fsm.protocol.json_form import error_name, to_recorded
from fsm.wire.dialogue import PeerError

NOTHING_OBSERVED = Observed((), (), None)
UNDER_WAY_MS = 100
"""Delay of a response or a record after the description that shows its step."""


@dataclass(frozen=True)
class FirstDifference:
    """A deviation of a peer from Kafka."""

    step: WalkStep
    fields: tuple[FieldDifference, ...]
    """`expected` is Kafka's, `got` the peer's."""
    decided: tuple[Happened, ...]
    """Kafka's decisions in this step, according to our tables."""
    before: tuple[WalkStep, ...]
    """The earlier steps of the walk."""
    group: Mapping[str, Any] | None
    """The description of the group before this step."""


@dataclass(frozen=True)
class WalkResult:
    """The result of one family's walk."""

    family: str
    group: str
    requests: Mapping[str, int]
    """Number of equal steps by kind."""
    freedoms: Freedoms
    difference: FirstDifference | None
    unsupported: Mapping[str, str]
    """APIs that the family needs and the peer does not support, and why; not empty if the family was not walked."""

    @property
    def equal(self) -> int:
        """Number of equal steps."""
        return sum(self.requests.values())


Progress = Callable[[str, int], None]


def compare(
    peer: Peer,
    families: Sequence[str],
    seed: int,
    steps: int,
    *,
    slack_ms: int = SLACK_MS,
    progress: Progress = lambda _family, _step: None,
) -> list[WalkResult]:
    """Walks each family for `steps` steps, or up to its first difference.

    A closed connection, a timeout or an invalid answer is a difference. Raises `PeerError` if the peer cannot be
    reached for the next family.
    """
    return [_Walk(peer, family, seed, slack_ms).run(steps, progress) for family in families]


class _Walk:
    """One family on one peer."""

    def __init__(self, peer: Peer, family: str, seed: int, slack_ms: int) -> None:
        self.peer = peer
        self.family = family
        self.seed = seed
        self.slack_ms = slack_ms
        self.group = f"conform-{family}-{seed}"
        self.lacks = {api: peer.unsupported[api] for api in FAMILIES[family].needs() if api in peer.unsupported}
        self.steps: list[WalkStep] = []
        self.counted: dict[str, int] = {}

    def run(self, steps: int, progress: Progress) -> WalkResult:
        if self.lacks:
            return self._finish(None, None)
        self.group = self.peer.begin(self.group)
        follower, walker = self._make_follower(), self._make_walker()
        for n in range(1, steps + 1):
            difference = self._step(n, walker.next(n), follower)
            if difference:
                return self._finish(follower, difference)
            walker.learn(self.steps[-1])
            progress(self.family, n)
        return self._finish(follower, None)

    def _make_follower(self) -> Follower:
        peer = self.peer
        describes = {"ConsumerGroupDescribe", "DescribeGroups"}.isdisjoint(peer.unsupported)
        ignored = (*(() if peer.keeps_log else ("records",)), *(() if describes else ("group",)))
        return Follower(self.group, peer.release, peer.settings, peer.topics, slack_ms=self.slack_ms, ignored=ignored)

    def _make_walker(self) -> Walker:
        chance, forms = (
            random.Random(f"{self.family}/{self.seed}{what}")  # noqa: S311  # a walk is to be repeated, not secret
            for what in ("", "/forms")
        )
        topics = {name: topic for name, topic in self.peer.topics.items() if name in TOPICS}
        return Walker(chance, FAMILIES[self.family], self.group, topics, forms=forms, versions=self.peer.versions)

    def _step(self, n: int, move: Move, follower: Follower) -> FirstDifference | None:
        before = follower.described
        try:
            step, verdict = self._compare(self._take(n, move, follower), follower)
        except PeerError as problem:
            step = self._record(n, self.peer.now_ms(), move, NOTHING_OBSERVED)
            fields = (FieldDifference("connection", "an answer", str(problem)),)
            return FirstDifference(step, fields, (), tuple(self.steps), before)
        if verdict.differences:
            # The follower expects the observation, but here our coordinator represents Kafka.
            differences = tuple(FieldDifference(one.field, one.got, one.expected) for one in verdict.differences)
            return FirstDifference(step, differences, verdict.happened, tuple(self.steps), before)
        follower.accept(verdict)
        self.steps.append(step)
        kind = step.request.api if step.request else "a change of topics" if step.admin else "a wait"
        self.counted[kind] = self.counted.get(kind, 0) + 1
        return None

    def _compare(self, step: WalkStep, follower: Follower) -> tuple[WalkStep, Verdict]:
        """The step and its verdict; an incomplete one is compared again with late observations, as of the same time."""
        until_ms = self.peer.now_ms()
        verdict = follower.compare(step, until_ms, step.answer)
        if verdict.is_complete:
            return step, verdict
        late = self.peer.wait(UNDER_WAY_MS)
        responses, records = (*step.responses, *late.responses), (*step.records, *late.records)
        step = step._replace(responses=responses, records=records, described=late.described or {})
        return step, follower.compare(step, until_ms, step.answer)

    def _take(self, n: int, move: Move, follower: Follower) -> WalkStep:
        t_ms = self.peer.now_ms()
        if isinstance(move, WalkRequest):
            return self._record(n, t_ms, move, self.peer.ask(n, move, follower.expect(n, move, t_ms)))
        if isinstance(move, Wait):
            return self._record(n, t_ms, move, self.peer.wait(move.wait_ms))
        admin = self.peer.administer(*move)
        return self._record(n, t_ms, move, self.peer.wait(0))._replace(admin=admin)

    def _record(self, n: int, t_ms: int, move: Move, observed: Observed) -> WalkStep:
        request = move if isinstance(move, WalkRequest) else None
        wait_ms = move.wait_ms if isinstance(move, Wait) else 0
        described = {} if observed.described is None else observed.described
        return WalkStep(n, t_ms, request, wait_ms, None, observed.responses, observed.records, described)

    def _finish(self, follower: Follower | None, difference: FirstDifference | None) -> WalkResult:
        freedoms = follower.freedoms if follower else NO_FREEDOMS
        return WalkResult(self.family, self.group, self.counted, freedoms, difference, self.lacks)


# Results as text and as a JSON document


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
        yield from (
            f"                {name} = {_cut(_text(value), 0)}" for name, value in body.items() if value is not None
        )
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


def _text(value: Any) -> str:
    return repr(value) if isinstance(value, str) else str(value)
