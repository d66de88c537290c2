"""A verdict as text, and a counterexample as numbered steps and a sequence diagram."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from fsm.check.model import Fault, Replayed
from fsm.check.verdict import Verdict, Violation, count_steps
from fsm.render.wording import many

if TYPE_CHECKING:
    from fsm.check.walk import PathStep
    from fsm.render.sequence import Arrow, Diagram

MANY = 100_000
"""The number of states from which on tables take less memory than the states themselves."""


def lines(verdict: Verdict) -> Iterator[str]:
    """The verdict on a few lines, then each counterexample."""
    yield f"{verdict.model}: {_WORDS[verdict.word]}"
    yield from (f"  {line}" for line in _coverage(verdict))
    for one in verdict.violations:
        yield ""
        yield from tell(one)


_WORDS = {
    "holds": "every property that was checked holds",
    "violated": "a property is violated",
    "stopped": "no violation found, but the search is incomplete",
}


def _coverage(verdict: Verdict) -> Iterator[str]:
    keys = "exact keys" if verdict.exact else "hashed keys: two states may have been confused"
    yield f"{verdict.states:,} states, {verdict.transitions:,} transitions, depth {verdict.depth}, {keys}"
    parts = ", ".join(f"{name} {count:,}" for name, count in verdict.components.items())
    yield f"distinct states of {parts}; {verdict.memo_steps:,} steps computed, {verdict.memo_hits:,} looked up"
    each = f", {verdict.bytes_per_state:,.0f} bytes per state" if verdict.states >= MANY else ""
    yield f"{verdict.cpu_s:.1f} CPU s{each}"
    if verdict.symmetry:
        yield f"interchangeable, verified on every step: {', '.join(verdict.symmetry)}"
    if verdict.stopped:
        yield f"stopped at {verdict.stopped}: states beyond were not explored"
    if verdict.disturbances:
        yield f"disturbances, at most {verdict.disturbances}: {', '.join(verdict.disturbed)}"
    if verdict.never:
        yield f"disturbances that were never possible: {', '.join(verdict.never)}"
    yield f"checked: {', '.join(verdict.checked) or 'only the steps themselves'}"
    if verdict.of_steps:
        yield f"on each step: {len(verdict.of_steps)} invariants, the first is {verdict.of_steps[0]!r}"
    if verdict.not_asked:
        yield f"known not to hold, not checked: {', '.join(verdict.not_asked)}"
    if verdict.cut:
        yield f"cut off at known hazards: {', '.join(f'{name} {count:,}' for name, count in verdict.cut.items())}"
    if verdict.uncovered:
        yield f"not modelled: {', '.join(verdict.uncovered)}"


def tell(one: Violation) -> Iterator[str]:
    """The counterexample, step by step."""
    disturbances, steps = many(one.disturbances, "disturbance"), many(count_steps(one), "step")
    yield f"broken: {one.property}, after {disturbances} (!) and {steps}"
    if one.meaning:
        yield f"  {one.meaning}"
    if one.hazards:
        yield f"  known hazard: {', '.join(one.hazards)} (--known excludes it)"
    if one.replayed is not None:
        yield f"  {_replay(one.replayed)}"
    yield "  start"
    yield from (f"       {name}: {state}" for name, state in one.start.items())
    if one.doomed_at == 0:
        yield _DOOMED
    times_ms = () if one.replayed is None else one.replayed.times_ms
    for number, (step, at_ms) in enumerate(zip_longest(one.path, times_ms), 1):
        if one.replayed is not None:
            yield from (
                f"      {idle_ms / 1000:9.3f} s  {what}, with no effect"
                for before, idle_ms, what in one.replayed.idle
                if before == number
            )
        at = f"{at_ms / 1000:9.3f} s " if at_ms is not None else " " * 12 if times_ms else ""
        yield f"{number:>5}{'!' if step.disturbance else ' '}{at} {step}"
        yield from (f"       {name}: {state}" for name, state in step.state.items())
        if number == one.doomed_at:
            yield _DOOMED


_DOOMED = "  from here on, the goal cannot be reached without another disturbance; one continuation:"


def _replay(done: Replayed) -> str:
    if done.differs:
        return f"live objects behave differently, so the model is wrong: {done.differs}"
    if done.stopped:
        return f"it was not replayed to its end: that {done.stopped}"
    if not done.times_ms:
        why = f": {done.untimed}" if done.untimed else ""
        return f"live objects also take this path; no times were found at which it can happen{why}"
    settings = ", ".join(f"{name} {value}" for name, value in done.settings.items())
    return f"live objects with running clocks also take this path, at these times, with {settings}"


def diagram(one: Violation) -> Diagram:
    """The counterexample as lanes and arrows: one lane for each component, steps numbered and disturbances marked as in
    `tell`, with their times; what is broken last."""
    from fsm.render.sequence import Arrow, Diagram, Look, Part  # noqa: PLC0415

    lanes = tuple(one.start)
    arrows: list[Arrow] = []
    doomed = "the goal cannot be reached from here on"
    if one.doomed_at == 0:
        arrows.append(Arrow(lanes[0], lanes[0], doomed, Look.RAISE))
    begun = late_steps(enumerate(one.path, 1))
    ended = {sent: number for number, sent in begun.items()}
    times_ms = () if one.replayed is None else one.replayed.times_ms
    for number, (step, at_ms) in enumerate(zip_longest(one.path, times_ms), 1):
        at = f" at {at_ms / 1000:.3f} s" if at_ms is not None else ""
        mark = f"{number}{'!' if step.disturbance else ''}{at}: "
        lane = step.actor or step.receiver
        arrows.append(arrow_of(step, mark, begun.get(number), ended.get(number)))
        arrows += [Arrow(name, name, state, Look.STATE) for name, state in step.state.items()]
        if number == one.doomed_at:
            arrows.append(Arrow(lane, lane, doomed, Look.RAISE))
    last = arrows[-1].target if arrows else lanes[0]
    broken = Part(f"broken: {one.property}", (Arrow(last, last, one.meaning or one.property, Look.RAISE),))
    title = f"{one.property}: {many(one.disturbances, 'disturbance')}, {many(count_steps(one), 'step')}"
    return Diagram(title, lanes, (Part("", tuple(arrows)), broken))


def arrow_of(step: PathStep, mark: str = "", sent_in: int | None = None, arrives_in: int | None = None) -> Arrow:
    """A step as an arrow, without the states that it changes; a late message has the number of its other step."""
    from fsm.render.sequence import Arrow, Look  # noqa: PLC0415

    if not step.sender:
        lane = step.actor or step.receiver
        return Arrow(lane, lane, f"{mark}{step.action}", Look.RAISE if step.disturbance else Look.NOTE)
    if step.action.startswith("receives"):
        late = f"late, of step {sent_in}: " if sent_in else ""
        return Arrow(step.sender, step.receiver, f"{mark}{late}{step.message}")
    when = f", until step {arrives_in}" if arrives_in else ""
    looks = {Fault.LOSE.value: Look.RAISE, Fault.LATE.value: Look.DELAY}
    text = f"{mark}{step.action} on its way{when}: {step.message}"
    return Arrow(step.sender, step.receiver, text, looks.get(step.action, Look.CALL))


def late_steps(path: Iterable[tuple[int, PathStep]]) -> dict[int, int]:
    """Of each step that receives a late message the one in which it was held up or sent twice; steps by number."""
    under_way: dict[tuple[str, str, str], deque[int]] = {}
    begun: dict[int, int] = {}
    for number, step in path:
        held = under_way.setdefault((step.sender, step.receiver, step.message), deque())
        if step.action in (Fault.LATE.value, Fault.DUPLICATE.value):
            held.append(number)
        elif step.action == "receives late" and held:
            begun[number] = held.popleft()
    return begun


def scenario(one: Violation, made_by: Mapping[str, Any]) -> str:
    """The counterexample as a scenario in YAML, which `fsm replay` walks: each step, and the states that it changes.

    If it ends where it begins, because the goal can never be reached, the steps are those of its continuation.
    """
    import yaml  # noqa: PLC0415

    path = one.path[: one.doomed_at or None]
    steps = [{"do": str(step), **({"expect": step.state} if step.state else {})} for step in path]
    options = {name: dict(value) if isinstance(value, Mapping) else value for name, value in made_by.items()}
    model = options.pop("check", "")
    document = {"path": one.property, "model": model, **({"options": options} if options else {}), "steps": steps}
    return str(yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=2**31))
