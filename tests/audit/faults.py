"""Faults planted into recorded logs: a seeded generator, so that the audit has something to find.

`plant(kind, logs, seed)` gives the logs with one fault of that kind, and what an audit must find: at least one finding
of an expected kind, about that member, at that time. Text is changed as a file on disk would be changed; where a fault
is told by new lines, they are in the words of the client that wrote the file. A kind that finds no place in the logs
raises `NoPlace`.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from typing import NamedTuple

from scene import (
    ADDING,
    CLASSIC,
    JAVA,
    RDKAFKA,
    Line,
    NoPlace,
    Scene,
    Spot,
    callback_line,
    callback_part,
    drops,
    group_of,
    java_line,
    java_step,
    later,
    listing,
    rdkafka_line,
    set_at,
    takes,
    with_states,
)

from fsm.audit.conformance import list_steps
from fsm.audit.findings import FindingKind
from fsm.trace import Kind, TraceRecord

ILLEGAL = (FindingKind.ILLEGAL_TRANSITION,)
_POLL_MS, _SESSION_MS = 300_000, 45_000
"""Kafka's defaults of what a group waits for: longer is too long."""


class Fault(NamedTuple):
    """What a planter did, and what it must look like."""

    file: str
    """The log of the member that the finding must be about."""
    what: str
    expected: tuple[FindingKind, ...]
    """One of these must be found; none of them may be found at that place in the untouched logs."""
    start_ms: int
    end_ms: int
    """The time of which the fault shows."""


class Planted(NamedTuple):
    """Logs with a fault."""

    logs: dict[str, bytes]
    kind: str
    fault: Fault


def plant(kind: str, logs: Mapping[str, bytes], seed: int) -> Planted:
    """The logs with one fault of that kind; the same seed gives the same fault. Raises `NoPlace`."""
    scene = Scene(logs, random.Random(f"{kind} {seed}"))  # noqa: S311
    fault = KINDS[kind](scene)
    return Planted(scene.logs(), kind, fault)


# -- lines of steps -----------------------------------------------------------------------------------------


def _step_of(scene: Scene, spot: Spot) -> TraceRecord:
    record = scene[spot].record(Kind.TRANSITION)
    if record is None:
        raise NoPlace
    return record


def _pairs(scene: Scene, *families: str) -> list[tuple[Spot, Spot]]:
    """Steps with the step that follows in their file."""
    return [pair for steps in scene.steps(*families) for pair in pairwise(steps)]


def step_dropped(scene: Scene) -> Fault:
    """The line of a step is missing; the next step does not begin where the last one ended."""
    told = ("COMPLETING_REBALANCE", "STABLE")
    pairs = [
        (a, b)
        for a, b in _pairs(scene)
        if scene.family(a.file) != CLASSIC or (_step_of(scene, a).next_state in told and _breaks(scene, a, b))
    ]
    here, after = scene.pick(pairs)
    shows_ms, what = scene[after].ts_ms, scene[here].data
    scene.put(here)
    return Fault(here.file, f"dropped {what!r}", ILLEGAL, scene[Spot(here.file, here.at)].ts_ms, shows_ms)


def _breaks(scene: Scene, here: Spot, after: Spot) -> bool:
    """True where a classic member's steps do not connect without this one."""
    before = [s for steps in scene.steps(CLASSIC) for s in steps if s.file == here.file and s.at < here.at]
    state = _step_of(scene, before[-1]).next_state if before else "UNJOINED"
    return (state, _step_of(scene, after).next_state) not in (list_steps(CLASSIC))


def rebalance_dropped(scene: Scene) -> Fault:
    """The steps of a whole rebalance are missing, and its callbacks are there."""
    turns = []
    for steps in scene.steps():
        rests = [i for i, s in enumerate(steps) if _step_of(scene, s).next_state in ("STABLE", "STEADY")]
        turns += [
            steps[a + 1 : b + 1]
            for a, b in pairwise(rests)
            if any(x.record(Kind.ASSIGN_BEGIN) for x in scene.files[steps[a].file][steps[a].at : steps[b].at])
        ]
    turn = scene.pick(turns)
    start_ms, end_ms = scene[turn[0]].ts_ms, scene[turn[-1]].ts_ms
    for spot in reversed(turn):
        scene.put(spot)
    return Fault(turn[0].file, f"dropped {len(turn)} steps", ILLEGAL, start_ms, end_ms)


def all_of_rebalance_dropped(scene: Scene) -> Fault:
    """Nothing is left of a whole rebalance but what the member owned before it and says that it owned after it."""
    turns = []
    for steps in scene.steps(JAVA):
        rests = [s for s in steps if _step_of(scene, s).next_state == "STABLE"]
        turns += [
            (a, b)
            for a, b, c in zip(rests, rests[1:], rests[2:], strict=False)
            if scene.owned(a) != scene.owned(b)
            and any(x.record(Kind.RECONCILING) for x in scene.files[a.file][b.at : c.at])
        ]
    here, there = scene.pick(turns)
    lines = scene.files[here.file]
    shows_ms = next(x.ts_ms for x in lines[there.at :] if x.record(Kind.RECONCILING))
    what, start_ms = f"dropped all from {scene[here].data!r} to {scene[there].data!r}", scene[there].ts_ms
    del lines[here.at + 1 : there.at + 1]
    return Fault(here.file, what, ILLEGAL, start_ms, shows_ms)


def step_garbled(scene: Scene) -> Fault:
    """A step was written over by something else."""
    here, after = scene.pick(_pairs(scene, JAVA, RDKAFKA))
    line, shows_ms = scene[here], scene[after].ts_ms
    half = line.data[: len(line.data) * 2 // 3].replace(b" transitioned ", b" tran").replace(b" changed ", b" ch")
    scene.put(here, Line(half, line.ts_ms))
    return Fault(here.file, f"cut short {line.data!r}", ILLEGAL, line.ts_ms, shows_ms)


def steps_swapped(scene: Scene) -> Fault:
    """Two steps that follow one another stand in the wrong order, each at the time of the other."""
    here, after = scene.pick(_pairs(scene, JAVA, RDKAFKA))
    first, second = scene[here], scene[after]
    scene.put(here, set_at(second, first.ts_ms))
    scene.put(after, set_at(first, second.ts_ms))
    return Fault(here.file, f"swapped {first.data!r} and {second.data!r}", ILLEGAL, first.ts_ms, second.ts_ms)


def lines_swapped(scene: Scene) -> Fault:
    """Two steps changed places in the file and kept their time stamps."""
    here, after = scene.pick(_pairs(scene, JAVA, RDKAFKA))
    first, second = scene[here], scene[after]
    scene.put(here, second)
    scene.put(after, first)
    return Fault(here.file, f"changed places {first.data!r} and {second.data!r}", ILLEGAL, first.ts_ms, second.ts_ms)


def next_state_forged(scene: Scene) -> Fault:
    """A step leads elsewhere than the next one begins."""
    here, after = scene.pick(_pairs(scene, JAVA, RDKAFKA))
    step, line = _step_of(scene, here), scene[here]
    others = {b for a, b in list_steps(step.machine) if b not in (step.next_state, step.state)}
    forged = scene.pick(sorted(others))
    scene.put(here, with_states(line, next_state=forged))
    return Fault(here.file, f"to {forged}: {line.data!r}", ILLEGAL, line.ts_ms, scene[after].ts_ms)


def previous_state_forged(scene: Scene) -> Fault:
    """A step begins where the member is not."""
    _, here = scene.pick(_pairs(scene, JAVA, RDKAFKA))
    step, line = _step_of(scene, here), scene[here]
    forged = scene.pick(sorted({a for a, _ in list_steps(step.machine)} - {step.state}))
    scene.put(here, with_states(line, state=forged))
    return Fault(here.file, f"from {forged}: {line.data!r}", ILLEGAL, line.ts_ms, line.ts_ms)


def step_inserted(scene: Scene) -> Fault:
    """A step that the table does not have stands between two others."""
    here, after = scene.pick(
        p for p in _pairs(scene) if scene.family(p[0].file) != CLASSIC or _step_of(scene, p[0]).next_state == "STABLE"
    )
    step, line = _step_of(scene, here), scene[here]
    legal = list_steps(step.machine)
    if step.machine == CLASSIC:
        forged = _before(scene, here, "COMPLETING_REBALANCE")
    else:
        wrong = scene.pick(sorted({b for _, b in legal if (step.next_state, b) not in legal}))
        forged = with_states(line, step.next_state, wrong)
    ts_ms = min(line.ts_ms + 1, scene[after].ts_ms)
    scene.insert(Spot(here.file, here.at + 1), set_at(forged, ts_ms))
    return Fault(here.file, f"{forged.data!r} after {line.data!r}", ILLEGAL, ts_ms, ts_ms)


def _before(scene: Scene, spot: Spot, next_state: str) -> Line:
    """The last step to that state before a place."""
    lines = scene.files[spot.file][: spot.at]
    return next(x for x in reversed(lines) if (r := x.record(Kind.TRANSITION)) and r.next_state == next_state)


def step_repeated(scene: Scene) -> Fault:
    """The line of a step stands there twice."""
    here, after = scene.pick(
        p for p in _pairs(scene) if (_step_of(scene, p[0]).next_state,) * 2 not in list_steps(scene.family(p[0].file))
    )
    line = scene[here]
    ts_ms = min(line.ts_ms + 1, scene[after].ts_ms)
    scene.insert(Spot(here.file, here.at + 1), set_at(line, ts_ms))
    return Fault(here.file, f"repeated {line.data!r}", ILLEGAL, ts_ms, ts_ms)


def foreign_step(scene: Scene) -> Fault:
    """A step of the other protocol."""
    here, after = scene.pick(_pairs(scene, JAVA, RDKAFKA))
    step, line = _step_of(scene, here), scene[here]
    modern = step.machine == JAVA or scene.spots(Kind.OWNED, RDKAFKA)
    wrong = "PREPARING_REBALANCE" if step.machine == JAVA else "WAIT_METADATA" if modern else "RECONCILING"
    scene.insert(Spot(here.file, here.at + 1), with_states(line, step.next_state, wrong))
    return Fault(here.file, f"to {wrong} after {line.data!r}", ILLEGAL, line.ts_ms, scene[after].ts_ms)


def fatal_then_steps(scene: Scene) -> Fault:
    """A fatal error, after which the member goes on as if nothing had been."""
    spot = scene.calm(500, JAVA)
    ts_ms = scene.files[spot.file][spot.at - 1].ts_ms + 100
    scene.insert(spot, java_step(scene, spot.file, ts_ms, "STABLE", "FATAL"))
    after = next(s for steps in scene.steps(JAVA) for s in steps if s.file == spot.file and s.at > spot.at)
    return Fault(spot.file, "STABLE to FATAL", ILLEGAL, ts_ms, scene[after].ts_ms)


def fatal_lived_on(scene: Scene) -> Fault:
    """A fatal error, after which the process lives on outside the group until it is closed."""
    spot = scene.calm(4000, JAVA, RDKAFKA, last=True)
    ts_ms = scene.files[spot.file][spot.at - 1].ts_ms + 100
    rest = scene.files[spot.file][spot.at :]
    if scene.family(spot.file) == JAVA:
        fatal = java_step(scene, spot.file, ts_ms, "STABLE", "FATAL")
        rest = [x for x in rest if not x.record(Kind.TRANSITION)]
    else:
        text = "Fatal error: Broker: Invalid request: ConsumerGroupHeartbeat fatal error: Broker: Invalid request"
        fatal = rdkafka_line(scene, spot.file, ts_ms, "FATAL", text)
        rest = [x for x in rest if not (x.record(Kind.HEARTBEAT_SENT) or x.record(Kind.HEARTBEAT_OK))]
    scene.files[spot.file][spot.at :] = [fatal, *rest]
    return Fault(spot.file, "a fatal error", (FindingKind.MEMBER_OUT_FOR_GOOD,), ts_ms, ts_ms)


# -- epochs -------------------------------------------------------------------------------------------------

_EPOCH = re.compile(rb"(?<=with epoch )\d+|(?<=generation id )\d+|(?<=generationId=)\d+|(?<=GenerationId )\d+")


def _epochs(scene: Scene) -> list[tuple[Spot, int]]:
    """Entries that tell a positive epoch or generation, with it."""
    return [
        (Spot(file, i), epoch)
        for file, lines in scene.files.items()
        for i, line in enumerate(lines)
        for epoch in [max((r.epoch or 0 for r in line.records), default=0)]
        if epoch > 0 and _EPOCH.search(line.data) and any(line.record(k) for k in _TELLS_EPOCH)
    ]


_TELLS_EPOCH = (Kind.TRANSITION, Kind.JOINED, Kind.SYNCED, Kind.HEARTBEAT_SENT, Kind.HEARTBEAT_OK)


def epoch_backwards(scene: Scene) -> Fault:
    """The member epoch or the generation is less than it was."""
    told = _epochs(scene)
    spot, epoch = scene.pick((b, e) for (a, before), (b, e) in pairwise(told) if a.file == b.file and before == e > 1)
    line = scene[spot]
    scene.put(spot, line._replace(data=_EPOCH.sub(b"%d" % (epoch - 1), line.data)))
    return Fault(spot.file, f"epoch {epoch - 1}: {line.data!r}", ILLEGAL, line.ts_ms, line.ts_ms)


def epoch_forward(scene: Scene) -> Fault:
    """One line tells a far greater epoch than those around it."""
    told = _epochs(scene)
    spot, after = scene.pick((a, b) for (a, _), (b, _) in pairwise(told) if a.file == b.file)
    line = scene[spot]
    scene.put(spot, line._replace(data=_EPOCH.sub(b"%d" % scene.chance.randrange(100, 900), line.data)))
    return Fault(spot.file, f"a far greater epoch: {line.data!r}", ILLEGAL, line.ts_ms, scene[after].ts_ms)


def epoch_gone(scene: Scene) -> Fault:
    """A line of a member in its group tells the epoch of one that joins or leaves."""
    spot, _ = scene.pick((s, e) for s, e in _epochs(scene) if _in_group(scene[s]))
    line, epoch = scene[spot], scene.pick([0, -1, -2])
    scene.put(spot, line._replace(data=_EPOCH.sub(b"%d" % epoch, line.data)))
    return Fault(spot.file, f"epoch {epoch}: {line.data!r}", ILLEGAL, line.ts_ms, line.ts_ms)


def _in_group(line: Line) -> bool:
    """The line is understood whatever its epoch, and tells of a member that stays one."""
    step = line.record(Kind.TRANSITION)
    if step is not None and step.machine == JAVA:
        return step.next_state in ("RECONCILING", "ACKNOWLEDGING", "STABLE")
    return any(line.record(k) for k in (Kind.JOINED, Kind.SYNCED)) or b"response received" in line.data


def member_id_forged(scene: Scene) -> Fault:
    """A line in the middle of a membership names another member than those around it."""
    kinds = {CLASSIC: (Kind.SYNCED,), RDKAFKA: (Kind.HEARTBEAT_SENT, Kind.HEARTBEAT_OK)}
    joined = {CLASSIC: Kind.JOINED, RDKAFKA: Kind.HEARTBEAT_OK}
    here = scene.pick(
        s
        for family, own in kinds.items()
        for kind in own
        for s in scene.spots(kind, family)
        if any(r.member_id for r in scene[s].records)
        and any((r := x.record(joined[family])) and r.member_id for x in scene.files[s.file][: s.at])
    )
    line = scene[here]
    own = next(r.member_id for r in line.records if r.member_id)
    forged = own[:-4] + own[-4:][::-1].swapcase().replace(own[-1], "_")
    scene.put(here, line._replace(data=line.data.replace(own.encode(), forged.encode())))
    return Fault(here.file, f"member id {forged}: {line.data!r}", ILLEGAL, line.ts_ms, line.ts_ms)


def identity_forged(scene: Scene) -> Fault:
    """A step names another member id than the lines around it, though nothing was restarted."""
    _, here = scene.pick(_pairs(scene, JAVA))
    line, own = scene[here], _step_of(scene, here).member_id
    scene.put(here, line._replace(data=line.data.replace(own.encode(), own[::-1].encode())))
    return Fault(here.file, f"member id {own[::-1]}: {line.data!r}", ILLEGAL, line.ts_ms, line.ts_ms)


# -- callbacks ----------------------------------------------------------------------------------------------


def double_assigned(scene: Scene) -> Fault:
    """A second member is given what another one owns, for some seconds."""
    spot = scene.calm(6000)
    ts_ms = scene.files[spot.file][spot.at - 1].ts_ms + 200
    old, partition = scene.pick(
        (file, p)
        for file, lines in scene.files.items()
        if file != spot.file
        for p in sorted(scene.owned(Spot(file, sum(x.ts_ms <= ts_ms for x in lines))))
    )
    lines = [*takes(scene, spot.file, ts_ms, [partition]), *drops(scene, spot.file, ts_ms + 4000, [partition])]
    if scene.family(spot.file) != RDKAFKA:  # the next callback tells that the revoked one is over
        lines += takes(scene, spot.file, ts_ms + 4050, [])
    scene.insert(spot, *lines)
    what = f"{partition} given to {spot.file}, too"
    return Fault(old, what, (FindingKind.DOUBLE_OWNERSHIP,), ts_ms, ts_ms + 4000)


def revoke_dropped(scene: Scene) -> Fault:
    """The line of a revoked callback is missing."""
    here = scene.pick(s for s in scene.spots(Kind.REVOKE_BEGIN) if _revokes(scene, s))
    line = scene[here]
    shows = _gone_without(scene, here)
    if scene.family(here.file) != RDKAFKA:
        end = scene.files[here.file][here.at + 1 :]
        scene.files[here.file][here.at + 1 :] = [x for x in end if not x.record(Kind.REVOKE_END) or x.ts_ms > shows]
    scene.put(here)
    expected = (FindingKind.LOST_WITHOUT_CALLBACK, *ILLEGAL)
    return Fault(here.file, f"dropped {line.data!r}", expected, line.ts_ms, shows)


def _revokes(scene: Scene, spot: Spot) -> bool:
    """True for a callback that was owed: a client without listener prints it at its close only, or not at all."""
    record = scene[spot].record(Kind.REVOKE_BEGIN)
    has_listener = any(x.record(Kind.ASSIGN_BEGIN) for x in scene.files[spot.file][: spot.at])
    return record is not None and has_listener and (bool(record.partitions) or not record.detail.startswith("0 "))


def _gone_without(scene: Scene, spot: Spot) -> int:
    """When it shows that a revoked callback is missing: with the next callback, or with the close."""
    rest = scene.files[spot.file][spot.at + 1 :]
    kinds = (Kind.DROPPED,) if scene.family(spot.file) == RDKAFKA else (Kind.ASSIGN_BEGIN, Kind.CLOSE_END)
    return next(x.ts_ms for x in rest if any(x.record(k) for k in kinds))


def revoke_forged(scene: Scene) -> Fault:
    """A revoked callback for partitions that the member never had."""
    spot = scene.calm(1000)
    ts_ms = scene.files[spot.file][spot.at - 1].ts_ms + 200
    scene.insert(spot, *drops(scene, spot.file, ts_ms, [("elsewhere", scene.chance.randrange(8))]))
    return Fault(spot.file, "a revocation of elsewhere", (FindingKind.CALLBACK_NOT_OWNED,), ts_ms, ts_ms)


def revoke_repeated(scene: Scene) -> Fault:
    """A revocation is told twice."""
    kinds = {JAVA: Kind.REVOKE_BEGIN, CLASSIC: Kind.REVOKE_BEGIN, RDKAFKA: Kind.DROPPED}
    here = scene.pick(
        s for family, kind in kinds.items() for s in scene.spots(kind, family) if scene[s].records[0].partitions
    )
    line = scene[here]
    scene.insert(here, line)
    return Fault(here.file, f"repeated {line.data!r}", (FindingKind.CALLBACK_NOT_OWNED,), line.ts_ms, line.ts_ms)


def lost_inserted(scene: Scene) -> Fault:
    """A lost callback for what the member owns."""
    spot = scene.calm(1000, owning=True)
    ts_ms = scene.files[spot.file][spot.at - 1].ts_ms + 200
    own = scene.owned(spot)
    scene.insert(spot, *drops(scene, spot.file, ts_ms, own, "member fenced - rejoining"))
    return Fault(spot.file, f"lost {listing(own)}", (FindingKind.PARTITIONS_LOST,), ts_ms, ts_ms)


def assign_repeated(scene: Scene) -> Fault:
    """An assignment is told twice."""
    kinds = {JAVA: Kind.ASSIGN_BEGIN, CLASSIC: Kind.ASSIGN_BEGIN, RDKAFKA: Kind.ADDED}
    here = scene.pick(
        s for family, kind in kinds.items() for s in scene.spots(kind, family) if scene[s].records[0].partitions
    )
    line = scene[here]
    scene.insert(here, line)
    return Fault(here.file, f"repeated {line.data!r}", ILLEGAL, line.ts_ms, line.ts_ms)


def partition_dropped(scene: Scene) -> Fault:
    """A partition is missing from what an assigned callback was told."""
    kinds = {JAVA: Kind.ASSIGN_BEGIN, CLASSIC: Kind.ASSIGN_BEGIN, RDKAFKA: Kind.ADDED}
    here = scene.pick(
        s for family, kind in kinds.items() for s in scene.spots(kind, family) if scene[s].records[0].partitions
    )
    line, told = scene[here], scene[here].records[0].partitions
    partition = scene.pick(told)
    part = callback_part(line)
    left = [p for p in told if p != partition]
    scene.put(here, *([callback_line(scene, here.file, line.ts_ms, ADDING, left)] if part else []))
    rest = scene.files[here.file][here.at :]
    gone_ms = next(x.ts_ms for x in rest for r in x.records if r.kind in _TAKES_AWAY and partition in r.partitions)
    expected = (*ILLEGAL, FindingKind.CALLBACK_NOT_OWNED)
    return Fault(here.file, f"{partition} taken out of {line.data!r}", expected, line.ts_ms, gone_ms)


_TAKES_AWAY = (Kind.REVOKE_BEGIN, Kind.DROPPED, Kind.LOST_BEGIN)


def count_forged(scene: Scene) -> Fault:
    """An assigned callback announces another number of partitions than are added."""
    spots = scene.spots(Kind.ASSIGN_BEGIN, RDKAFKA)
    here = scene.pick(
        s for s in spots if _next(scene, s, Kind.ADDED) < _next(scene, s, *_TAKES_AWAY, Kind.ASSIGN_BEGIN)
    )
    line = scene[here]
    count = int(line.records[0].detail.split()[0]) + scene.chance.randrange(1, 9)
    scene.put(here, line._replace(data=re.sub(rb"(?<=assign of )\d+", b"%d" % count, line.data)))
    rest = scene.files[here.file][here.at :]
    shows_ms = next(x.ts_ms for x in rest for k in (Kind.REVOKE_BEGIN, Kind.LOST_BEGIN, Kind.CLOSE_END) if x.record(k))
    return Fault(here.file, f"{count} announced: {line.data!r}", ILLEGAL, line.ts_ms, shows_ms)


def _next(scene: Scene, spot: Spot, *kinds: Kind) -> int:
    """How many lines further down such a line stands."""
    rest = scene.files[spot.file][spot.at + 1 :]
    return next((i for i, x in enumerate(rest) if any(x.record(k) for k in kinds)), len(rest))


def partition_forged(scene: Scene) -> Fault:
    """A partition was given to a member by another number than it was taken away with."""
    spots = scene.spots(Kind.ADDED, RDKAFKA)
    here = scene.pick(s for s in spots if _is_taken(scene, s))
    line, (partition,) = scene[here], scene[here].records[0].partitions
    scene.put(here, line._replace(data=line.data.replace(b"[%d]" % partition[1], b"[%d]" % (partition[1] + 90))))
    gone_ms = next(
        x.ts_ms
        for x in scene.files[here.file][here.at :]
        for r in x.records
        if r.kind in _TAKES_AWAY and partition in r.partitions
    )
    expected = (*ILLEGAL, FindingKind.CALLBACK_NOT_OWNED)
    return Fault(here.file, f"{partition} given as {partition[1] + 90}", expected, line.ts_ms, gone_ms)


def _is_taken(scene: Scene, spot: Spot) -> bool:
    (partition,) = scene[spot].records[0].partitions
    rest = scene.files[spot.file][spot.at :]
    return any(r.kind in _TAKES_AWAY and partition in r.partitions for x in rest for r in x.records)


def listener_failed(scene: Scene) -> Fault:
    """A listener raised an error."""
    here = scene.pick(s for s in scene.spots(Kind.ASSIGN_BEGIN, JAVA, CLASSIC) if callback_part(scene[s]))
    line = scene[here]
    told = (
        "User provided listener com.example.Listener failed on invocation of onPartitionsAssigned for partitions "
        + listing(line.records[0].partitions)
    )
    error = java_line(scene, here.file, line.ts_ms + 1, "ConsumerRebalanceListenerInvoker", told)
    scene.insert(Spot(here.file, here.at + 1), error)
    return Fault(here.file, "a listener failed", (FindingKind.LISTENER_ERROR,), line.ts_ms, line.ts_ms + 1)


# -- clocks and silence -------------------------------------------------------------------------------------


class _Handoff(NamedTuple):
    """A partition that went from one file's member to another's."""

    giver: str
    receiver: str
    ts_ms: int
    held_ms: int
    """How long the giver had it."""
    keeps_ms: int
    """How long the receiver keeps it."""
    first: bool
    """Nobody had it before the giver."""


def _handoffs(scene: Scene) -> list[_Handoff]:
    owners: dict[object, list[tuple[str, int, int]]] = {}
    for ts_ms, file, line in sorted((x.ts_ms, f, x) for f, own in scene.files.items() for x in own if x.records):
        for record in line.records:
            for partition in record.partitions:
                held = owners.setdefault(partition, [])
                if record.kind in (Kind.ASSIGN_BEGIN, Kind.ADDED):
                    held.append((file, ts_ms, _FOREVER_MS))
                elif record.kind in _TAKES_AWAY and held and held[-1][0] == file:
                    held[-1] = (file, held[-1][1], ts_ms)
    return sorted(
        _Handoff(giver, receiver, start_ms, end_ms - since_ms, until_ms - start_ms, first=not i)
        for held in owners.values()
        for i, ((giver, since_ms, end_ms), (receiver, start_ms, until_ms)) in enumerate(pairwise(held))
        if giver != receiver and 0 <= start_ms - end_ms < 1000
    )


_FOREVER_MS = 1 << 60


def clock_behind(scene: Scene) -> Fault:
    """The clock of a member that gets partitions is some seconds behind the others."""
    move = scene.pick(h for h in _handoffs(scene) if h.first and h.held_ms > 2000)
    by_ms = scene.chance.randrange(1500, min(9000, move.held_ms))
    scene.shift(move.receiver, 0, -by_ms)
    kinds = (FindingKind.DOUBLE_OWNERSHIP,)
    return Fault(move.giver, f"{move.receiver} is {by_ms} ms behind", kinds, move.ts_ms - by_ms, move.ts_ms)


def clock_ahead(scene: Scene) -> Fault:
    """The clock of a member that gets partitions is some seconds ahead of the others."""
    move = scene.pick(h for h in _handoffs(scene) if h.first and h.keeps_ms > 2500)
    by_ms = scene.chance.randrange(3000, 9000)
    scene.shift(move.receiver, 0, by_ms)
    kinds = (FindingKind.UNOWNED_PARTITION,)
    return Fault(move.giver, f"{move.receiver} is {by_ms} ms ahead", kinds, move.ts_ms, move.ts_ms + by_ms)


def clock_jumped_back(scene: Scene) -> Fault:
    """From one line on a file's clock is some seconds earlier."""
    here, after = scene.pick((a, b) for a, b in _pairs(scene) if scene[b].ts_ms - scene[a].ts_ms < 2500)
    ts_ms, by_ms = scene[here].ts_ms, scene.chance.randrange(3000, 9000)
    lines = scene.files[here.file]
    lines[after.at :] = [later(x, -by_ms) for x in lines[after.at :]]
    return Fault(
        here.file, f"{by_ms} ms back after {scene[here].data!r}", ILLEGAL, ts_ms - by_ms, scene[after].ts_ms + by_ms
    )


def heartbeats_removed(scene: Scene) -> Fault:
    """A member sends no heartbeat for longer than its session lasts."""
    here, after = scene.pick(
        (a, b)
        for a, b in pairwise(scene.spots(Kind.HEARTBEAT_SENT))
        if a.file == b.file and not any(_moves(x) for x in scene.files[a.file][a.at : b.at])
    )
    ts_ms, by_ms = scene[here].ts_ms, _SESSION_MS + 15_000
    scene.pause(ts_ms, by_ms)
    kinds = (FindingKind.HEARTBEAT_GAP,)
    return Fault(here.file, f"{by_ms} ms of silence", kinds, ts_ms, scene[after].ts_ms)


def _moves(line: Line) -> bool:
    return any(r.kind in (Kind.TRANSITION, Kind.CLOSE_BEGIN, Kind.COORDINATOR_LOST) for r in line.records)


def stuck(scene: Scene) -> Fault:
    """A member stays on its way to an assignment for longer than the group waits."""
    here, after = scene.pick(
        (a, b)
        for a, b in _pairs(scene)
        if _step_of(scene, a).next_state in _PASSING and scene[b].ts_ms > scene[a].ts_ms
    )
    ts_ms = scene[here].ts_ms
    scene.pause(ts_ms, _POLL_MS + 10_000)
    kinds = (FindingKind.STUCK_STATE,)
    return Fault(here.file, f"stuck after {scene[here].data!r}", kinds, ts_ms, scene[after].ts_ms)


_PASSING = ("RECONCILING", "JOINING", "PREPARING_REBALANCE", "WAIT_ASSIGN_CALL", "WAIT_UNASSIGN_CALL", "WAIT_JOIN")


def slow_callback(scene: Scene) -> Fault:
    """A revoked callback takes longer than the group waits."""
    here = scene.pick(s for s in scene.spots(Kind.REVOKE_BEGIN, JAVA, CLASSIC) if scene[s].records[0].partitions)
    ts_ms = scene[here].ts_ms
    lines = scene.files[here.file]
    for i in range(here.at + 1, len(lines)):  # what stands there in the same millisecond comes after it as well
        if lines[i].ts_ms == ts_ms:
            lines[i] = later(lines[i], 1)
    scene.pause(ts_ms, _POLL_MS + 10_000)
    kinds = (FindingKind.SLOW_CALLBACK,)
    return Fault(here.file, f"hours in {scene[here].data!r}", kinds, ts_ms, ts_ms + _POLL_MS + 10_000)


# -- membership ---------------------------------------------------------------------------------------------


def killed(scene: Scene) -> Fault:
    """A member's log ends some seconds before its partitions went to another one."""
    giver, receiver, ts_ms, *_ = scene.pick(h for h in _handoffs(scene) if _last_words(scene, h.giver) < h.ts_ms)
    lines = scene.files[giver]
    del lines[sum(x.ts_ms < ts_ms - 1500 for x in lines) :]
    scene.pause(ts_ms - 1000, 8000)
    kinds = (FindingKind.UNOWNED_PARTITION,)
    return Fault(giver, f"killed; {receiver} took over", kinds, ts_ms - 1500, ts_ms + 8000)


def _last_words(scene: Scene, file: str) -> int:
    """When a member closed."""
    closed = [x.ts_ms for x in scene.files[file] if x.record(Kind.CLOSE_BEGIN)]
    return min(closed) if closed else 1 << 60


def leave_late(scene: Scene) -> Fault:
    """A leave is announced, and sent some seconds later."""
    here = scene.pick(scene.spots(Kind.LEAVE_SENT, RDKAFKA))
    announced = max(s.at for s in scene.spots(Kind.LEAVE_BEGIN) if s.file == here.file and s.at < here.at)
    lines, by_ms = scene.files[here.file], scene.chance.randrange(2000, 9000)
    lines[announced + 1 :] = [later(x, by_ms) for x in lines[announced + 1 :]]
    ts_ms = lines[announced].ts_ms
    return Fault(here.file, f"left {by_ms} ms late", (FindingKind.LATE_LEAVE,), ts_ms, scene[here].ts_ms)


def poll_expired(scene: Scene) -> Fault:
    """A poll timeout is announced, and the member does not leave."""
    spot = scene.calm(5000, JAVA, CLASSIC, RDKAFKA)
    ts_ms = scene.files[spot.file][spot.at - 1].ts_ms + 200
    family = scene.family(spot.file)
    why = "This means the time between subsequent calls to poll() was longer than the configured max.poll.interval.ms."
    if family == RDKAFKA:
        text = "Application maximum poll interval (6500ms) exceeded by 203ms (adjust it): leaving group"
        line = rdkafka_line(scene, spot.file, ts_ms, "MAXPOLL", text)
    elif family == JAVA:
        said = f"Consumer poll timeout has expired. {why}"
        line = java_line(scene, spot.file, ts_ms, "ConsumerHeartbeatRequestManager", said)
    else:
        line = java_line(scene, spot.file, ts_ms, "ConsumerCoordinator", f"consumer poll timeout has expired. {why}")
    scene.insert(spot, line)
    expected = (FindingKind.LATE_LEAVE, *ILLEGAL) if family == RDKAFKA else ILLEGAL
    rest = [x for x in scene.files[spot.file][spot.at + 1 :] if x.records]
    if not rest:  # after its last word nobody knows what it did
        raise NoPlace
    return Fault(spot.file, "a poll timeout without a leave", expected, ts_ms, rest[-1].ts_ms)


def fenced_twice(scene: Scene) -> Fault:
    """A member is thrown out and comes back, twice within a minute."""
    spot = scene.calm(8000, owning=True)
    ts_ms = scene.files[spot.file][spot.at - 1].ts_ms + 200
    lines = [x for i in (0, 3000) for x in _fenced(scene, spot, ts_ms + i)]
    scene.insert(spot, *lines)
    return Fault(spot.file, "fenced twice", (FindingKind.FENCING_LOOP,), ts_ms, ts_ms + 3000)


def _fenced(scene: Scene, spot: Spot, ts_ms: int) -> Iterator[Line]:
    """A loss of the membership and the way back to the same assignment."""
    file, family, own = spot.file, scene.family(spot.file), scene.owned(spot)
    lost, given = drops(scene, file, ts_ms + 20, own, "member fenced - rejoining"), takes(scene, file, ts_ms + 200, own)
    if family == JAVA:
        yield java_step(scene, file, ts_ms, "STABLE", "FENCED")
        yield from lost
        yield java_step(scene, file, ts_ms + 50, "FENCED", "JOINING")
        yield java_step(scene, file, ts_ms + 150, "JOINING", "RECONCILING")
        yield from given
        yield java_step(scene, file, ts_ms + 250, "RECONCILING", "ACKNOWLEDGING")
        yield java_step(scene, file, ts_ms + 260, "ACKNOWLEDGING", "STABLE")
    elif family == CLASSIC:
        reset = "Resetting generation and member id due to: encountered UNKNOWN_MEMBER_ID from HEARTBEAT response"
        yield java_line(scene, file, ts_ms, "ConsumerCoordinator", reset)
        yield from lost
        yield set_at(_before(scene, spot, "PREPARING_REBALANCE"), ts_ms + 50)
        yield set_at(_before(scene, spot, "COMPLETING_REBALANCE"), ts_ms + 100)
        yield set_at(_before(scene, spot, "STABLE"), ts_ms + 150)
        yield from given
    else:
        yield from _fenced_rdkafka(scene, spot, ts_ms, lost, given)


def _fenced_rdkafka(scene: Scene, spot: Spot, ts_ms: int, lost: list[Line], given: list[Line]) -> Iterator[Line]:
    file, model = spot.file, next(x for x in scene.files[spot.file] if x.record(Kind.TRANSITION))
    answers = [x for x in scene.files[file][: spot.at] if x.record(Kind.HEARTBEAT_OK) or x.record(Kind.JOINED)]
    if scene.spots(Kind.OWNED):
        fenced = (
            "ConsumerGroupHeartbeat failed due to: Broker: The member epoch is fenced by the group coordinator: "
            "will rejoin the group"
        )
    else:
        fenced = (
            f'Group "{group_of(scene, file)}" heartbeat error response in state up (join-state steady, '
            "1 partition(s) assigned): Broker: Unknown member"
        )
    yield rdkafka_line(scene, file, ts_ms, "HEARTBEAT", fenced)
    yield set_at(with_states(model, "STEADY", "WAIT_UNASSIGN_CALL"), ts_ms + 10)
    yield from lost
    yield set_at(with_states(model, "WAIT_UNASSIGN_CALL", "INIT"), ts_ms + 50)
    yield set_at(answers[-1], ts_ms + 150)
    yield set_at(with_states(model, "INIT", "WAIT_ASSIGN_CALL"), ts_ms + 180)
    yield from given
    yield set_at(with_states(model, "WAIT_ASSIGN_CALL", "STEADY"), ts_ms + 250)


def rebalance_storm(scene: Scene) -> Fault:
    """A member rebalances thirty times within half a minute."""
    spot = scene.calm(32_000, owning=True)
    ts_ms = scene.files[spot.file][spot.at - 1].ts_ms + 200
    scene.insert(spot, *(x for i in range(30) for x in _rebalanced(scene, spot, ts_ms + 1000 * i)))
    return Fault(spot.file, "thirty rebalances", (FindingKind.REBALANCE_STORM,), ts_ms, ts_ms + 30_000)


def _rebalanced(scene: Scene, spot: Spot, ts_ms: int) -> Iterator[Line]:
    """Everything is taken away and given back."""
    file, family, own = spot.file, scene.family(spot.file), scene.owned(spot)
    gone, given = drops(scene, file, ts_ms + 100, own), takes(scene, file, ts_ms + 600, own)
    if family == JAVA:
        for at_ms, lines in ((ts_ms, gone), (ts_ms + 500, given)):
            yield java_step(scene, file, at_ms, "STABLE", "RECONCILING")
            yield from lines
            yield java_step(scene, file, at_ms + 200, "RECONCILING", "ACKNOWLEDGING")
            yield java_step(scene, file, at_ms + 210, "ACKNOWLEDGING", "STABLE")
    elif family == CLASSIC:
        yield from gone
        yield set_at(_before(scene, spot, "PREPARING_REBALANCE"), ts_ms + 200)
        yield set_at(_before(scene, spot, "COMPLETING_REBALANCE"), ts_ms + 300)
        yield set_at(_before(scene, spot, "STABLE"), ts_ms + 400)
        yield from given
    else:
        model = next(x for x in scene.files[file] if x.record(Kind.TRANSITION))
        told = (
            f'Group "{group_of(scene, file)}": delegating incremental assign of {len(own)} partition(s) '
            "to application on queue q: sync group assign"
        )
        yield set_at(with_states(model, "STEADY", "WAIT_UNASSIGN_CALL"), ts_ms + 50)
        yield from gone
        yield set_at(with_states(model, "WAIT_UNASSIGN_CALL", "STEADY"), ts_ms + 300)
        yield set_at(with_states(model, "STEADY", "WAIT_ASSIGN_CALL"), ts_ms + 500)
        yield rdkafka_line(scene, file, ts_ms + 550, "ASSIGN", told)
        yield from given
        yield set_at(with_states(model, "WAIT_ASSIGN_CALL", "STEADY"), ts_ms + 700)


def started_again(scene: Scene) -> Fault:
    """The lines of a start stand in the middle of a member's life."""
    spot = scene.calm(1000, owning=True)
    ts_ms = scene.files[spot.file][spot.at - 1].ts_ms + 200
    start = next(x for x in scene.files[spot.file] if x.record(Kind.STARTED))
    scene.insert(spot, set_at(start, ts_ms))
    rest = scene.files[spot.file][spot.at + 1 :]
    expected = (*ILLEGAL, FindingKind.CALLBACK_NOT_OWNED)
    return Fault(spot.file, "started again", expected, ts_ms, rest[-1].ts_ms)


KINDS: dict[str, Callable[[Scene], Fault]] = {
    planter.__name__: planter
    for planter in (
        step_dropped,
        rebalance_dropped,
        all_of_rebalance_dropped,
        step_garbled,
        steps_swapped,
        lines_swapped,
        next_state_forged,
        previous_state_forged,
        step_inserted,
        step_repeated,
        foreign_step,
        fatal_then_steps,
        fatal_lived_on,
        epoch_backwards,
        epoch_forward,
        epoch_gone,
        member_id_forged,
        identity_forged,
        double_assigned,
        revoke_dropped,
        revoke_forged,
        revoke_repeated,
        lost_inserted,
        assign_repeated,
        partition_dropped,
        count_forged,
        partition_forged,
        listener_failed,
        clock_behind,
        clock_ahead,
        clock_jumped_back,
        heartbeats_removed,
        stuck,
        slow_callback,
        killed,
        leave_late,
        poll_expired,
        fenced_twice,
        rebalance_storm,
        started_again,
    )
}
"""Every kind of fault by its name."""
