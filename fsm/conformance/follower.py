"""Our coordinator, led along the steps of another one: each step held against what that showed.

What is not the machine's decision comes from the other side: ids that the broker made, the time, when a background task
was done. What neither side can know exactly may have gone in several ways, and each that shows what was seen is kept as
a candidate until a later step tells them apart:

- a timer that is due within the slack of a step's end has fired or has not;
- a background task is done up to `BACKGROUND_MS` after it was started;
- a request within the slack of an instant from which requests are decided otherwise came before it or after;
- an answer may be in flight for as long as the slack;
- up to `BACKGROUND_MS` after a change of topics the coordinator may still work with the metadata image before it;
- where an assignor may break a tie either way, the recorded target is taken if the same assignor gives it for another
  order of members or topics.

How many steps needed which of these is counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from itertools import zip_longest
from typing import Any, NamedTuple

from fsm.conformance.comparison import FieldDifference, Hashes, Shown, differences, labels
from fsm.conformance.recording import Admin, Asked, RecordedStep, recorded_group
from fsm.conformance.ties import Ties
from fsm.coordinator.coordinator import (
    Coordinator,
    describe,
    handle,
    handle_resolution,
    handle_timer,
    image_changed,
    next_deadline_ms,
    resolutions,
    turns_ms,
)
from fsm.coordinator.model.context import Context, Image, Topic
from fsm.coordinator.model.dialect import Choice
from fsm.coordinator.model.persistent import FrozenMap
from fsm.coordinator.model.step import Happened, Request, Step
from fsm.protocol.json_form import to_recorded
from fsm.protocol.printed_records import as_dumped
from fsm.protocol.records import Record

SLACK_MS = 150
BACKGROUND_MS = 5_000
"""How long it may take until a resolution of regular expressions is done, or until the coordinator knows a new image.

A broker shows new metadata first and hands it to its coordinators later, when it has applied it to its own replicas
(`BrokerMetadataPublisher.onMetadataUpdate`, `CoordinatorRuntime.onMetadataUpdate` of apache/kafka 4.4).
"""
STARTED_MS = 1_700_000_000_000
"""When walks begin: instants of a broker are never near 0, which means unknown."""
A_YEAR_MS = 365 * 24 * 3_600_000
MOST_CANDIDATES = 16
MOST_EVENTS = 100
"""How many timers, tasks and requests are handled in one step."""
HOST = "/127.0.0.1"


class Freedoms(NamedTuple):
    """How many steps needed something that a recording cannot fix."""

    ties: int = 0
    """A target that the assignor might as well have computed."""
    reordered: int = 0
    """Records of one type in another order of a hash map."""
    early_or_late: int = 0
    """A decision on the other side of an instant near it, or an answer in flight."""
    old_images: int = 0
    """The metadata image before a change of topics."""


NO_FREEDOMS = Freedoms()


class Update(NamedTuple):
    """A metadata image that has yet to reach the coordinator."""

    image: Image
    until_ms: int
    """When it has reached the coordinator, at the latest."""
    is_old: bool = False
    """The topics were changed in an earlier step."""


class InFlight(NamedTuple):
    """An answer that was given and has not been seen."""

    body: Mapping[str, Any]
    until_ms: int
    """When it is seen, at the latest."""


class Candidate(NamedTuple):
    """What the coordinator may be between two steps."""

    state: Coordinator
    image: Image
    """The metadata it works with."""
    pending: tuple[Update, ...] = ()
    """The images after that, which it does not know yet."""
    hashes: Hashes = Hashes()
    in_flight: FrozenMap[int, InFlight] = FrozenMap()
    """By the step that is answered."""
    freedoms: Freedoms = NO_FREEDOMS

    def updated(self, context: Context) -> Candidate:
        """When the next image has reached it."""
        image = self.pending[0].image
        state = image_changed(self.state, self.image, replace(context, image=image))
        return self._replace(state=state, image=image, pending=self.pending[1:])

    def with_old_image(self) -> Candidate:
        """After a step that shows that the newest image had not reached it."""
        return self._replace(freedoms=self.freedoms._replace(old_images=self.freedoms.old_images + 1))


class Run(NamedTuple):
    """One way a step may have gone."""

    state: Coordinator
    context: Context
    pending: tuple[Update, ...] = ()
    answers: FrozenMap[int, Any] = FrozenMap()
    log: tuple[Record, ...] = ()
    happened: tuple[Happened, ...] = ()
    events: int = 0
    """How many timers, tasks and requests were handled."""
    ties: int = 0
    is_natural: bool = True
    """Every instant was as the clock says."""
    has_old_image: bool = False
    """Something was decided, or is described, by the metadata before an earlier change of topics."""
    just_before: Coordinator | None = None
    """Before its last timer or task, where that was about when the step was over: a description may still show it."""
    described: Mapping[str, Any] | None = None

    def then(self, step: Step[Coordinator]) -> Run:
        """With what one more event brought."""
        return self._replace(
            state=step.state,
            answers=self.answers.merged({answer.token: answer.body for answer in step.answers}),
            log=(*self.log, *step.records),
            happened=(*self.happened, *step.happened),
            events=self.events + 1,
            has_old_image=self.has_old_image or any(update.is_old for update in self.pending),
        )

    def updated(self) -> Run:
        """When the next image has reached the coordinator."""
        after = Candidate(self.state, self.context.image, self.pending).updated(self.context)
        context = replace(self.context, image=after.image)
        return self._replace(state=after.state, context=context, pending=after.pending)


class Fit(NamedTuple):
    """A run that shows what was seen, and what the coordinator is after it."""

    run: Run
    after: Candidate


class Verdict(NamedTuple):
    """A step held against ours."""

    fits: tuple[Fit, ...]
    differences: tuple[FieldDifference, ...]
    """Where nothing fits: the fields in which the most natural run differs."""
    happened: tuple[Happened, ...]
    """What our tables decide in the most natural run."""
    described: Mapping[str, Any] | None
    image: Image

    @property
    def is_complete(self) -> bool:
        """Whether a run fits that leaves no answer in flight."""
        return any(not fit.after.in_flight for fit in self.fits)


class Expectation(NamedTuple):
    """What a request brings for certain."""

    answered: frozenset[int]
    """The steps that are answered."""
    records: int
    """At least so many."""


class Follower:
    """Our coordinator and what it may be."""

    def __init__(self, group: str, context: Context, *, slack_ms: int = SLACK_MS, unseen: tuple[str, ...] = ()) -> None:
        """The image of the context is what the broker's metadata shows; `unseen` of `records`, `group` is not held."""
        self.group = group
        self.context = context
        self.slack_ms = slack_ms
        self.unseen = unseen
        self.candidates: tuple[Candidate, ...] = (Candidate(Coordinator(), context.image),)
        """Those that needed the least freedom first, and of those the ones that know the newest image."""
        self.described: Mapping[str, Any] | None = None
        self._versions: dict[int, int] = {}
        """Of each request, by its step."""
        """As seen after the last step."""
        self.log: tuple[Record, ...] = ()
        """What the last step appended."""

    @property
    def state(self) -> Coordinator:
        """What the coordinator most probably is."""
        return self.candidates[0].state

    @property
    def freedoms(self) -> Freedoms:
        """What was needed so far, at least."""
        return self.candidates[0].freedoms

    def follow(self, step: RecordedStep, until_ms: int, answer: Mapping[str, Any] | None) -> Sequence[FieldDifference]:
        """Follows one step; gives what differs, and stays where it was if anything does."""
        verdict = self.compare(step, until_ms, answer)
        if verdict.fits:
            self.accept(verdict)
        return verdict.differences

    def compare(self, step: RecordedStep, until_ms: int, answer: Mapping[str, Any] | None) -> Verdict:
        """Holds one step against ours; nothing changes.

        `answer` is what the step's request was answered with, now or later; `until_ms` when the step was over.
        """
        described = self.described if step.described is None else step.described or None
        expected = Shown({r.to: r.body for r in step.responses}, step.records, described)
        image = _changed(self.context.image, step.admin)
        updates = () if step.admin is None else (Update(image, until_ms + BACKGROUND_MS),)
        starts = self._starts(self.candidates, updates, step.t_ms)
        fits: list[Fit] = []
        first: tuple[tuple[FieldDifference, ...], tuple[Happened, ...]] | None = None
        for ties in (Ties(()), Ties(step.records, Choice.EXTRA_SLOT_STAYS in self.context.dialect)):
            for start in starts:
                for run in self._described(start, step, until_ms, answer, ties):
                    after, found = self._compared(start, run, expected, until_ms)
                    first = first or (found, run.happened)
                    if not found:
                        fits.append(Fit(run, after))
            if fits:
                break
        if all(fit.run.has_old_image for fit in fits):
            fits = [fit._replace(after=fit.after.with_old_image()) for fit in fits]
        found, happened = first or ((), ())
        return Verdict(tuple(fits), () if fits else found, happened, described, image)

    def _compared(
        self, start: Candidate, run: Run, expected: Shown, until_ms: int
    ) -> tuple[Candidate, tuple[FieldDifference, ...]]:
        """What the coordinator is after the run, and what differs."""
        given = start.in_flight.merged(
            {to: InFlight(body, until_ms + self.slack_ms) for to, body in run.answers.items()}
        )
        may_come = {to: one for to, one in given.items() if to not in expected.answers and one.until_ms >= until_ms}
        seen = {to: to_recorded(one.body, self._versions[to]) for to, one in given.items() if to not in may_come}
        records = tuple(as_dumped(record) for record in run.log)
        found = differences(expected, Shown(seen, records, run.described), start.hashes)
        differing = tuple(one for one in found if not one.field.startswith(self.unseen))
        if differing:
            return start, differing
        needed = start.freedoms
        needed = needed._replace(
            ties=needed.ties + run.ties,
            reordered=needed.reordered + (labels(expected.records) != labels(records)),
            early_or_late=needed.early_or_late + (not run.is_natural or bool(may_come)),
        )
        pending = tuple(update._replace(is_old=True) for update in run.pending)
        hashes = start.hashes.knowing(expected.records, records)
        return Candidate(run.state, run.context.image, pending, hashes, FrozenMap(may_come), needed), ()

    def accept(self, verdict: Verdict) -> None:
        """Goes on from all that fits."""
        self.candidates = self._starts((fit.after for fit in verdict.fits), (), 0)
        best = min(verdict.fits, key=lambda fit: sum(fit.after.freedoms))
        self.log = best.run.log
        self.described = verdict.described
        self.context = replace(self.context, image=verdict.image)

    def expect(self, n: int, sent: Asked, t_ms: int) -> Expectation:
        """What this request brings for certain if it is step `n`; nothing changes."""
        imagined = RecordedStep(n, t_ms, sent, 0, None, (), (), None)
        starts = self._starts(self.candidates, (), t_ms)
        runs = [(start, run) for start in starts for run in self._runs(start, imagined, t_ms, None, Ties(()))]
        answered = (frozenset({*start.in_flight, *run.answers}) for start, run in runs)
        return Expectation(frozenset.intersection(*answered), min(len(run.log) for _, run in runs))

    def _starts(self, candidates: Iterable[Candidate], updates: tuple[Update, ...], t_ms: int) -> tuple[Candidate, ...]:
        """What the coordinator may be as a step begins: images that are due have reached it, others may have."""
        found: list[Candidate] = []
        for candidate in candidates:
            known = [candidate._replace(pending=(*candidate.pending, *updates))]
            while known[-1].pending:
                is_due = known[-1].pending[0].until_ms < t_ms
                known = [*(() if is_due else known), known[-1].updated(self.context)]
            found += known
        found.sort(key=lambda one: (sum(one.freedoms), -one.image.version))
        distinct: list[Candidate] = []
        for one in found:
            if not any(_are_alike(one, other, self.slack_ms) for other in distinct):
                distinct.append(one)
        return tuple(distinct[:MOST_CANDIDATES])

    def _described(
        self, start: Candidate, step: RecordedStep, until_ms: int, answer: Mapping[str, Any] | None, ties: Ties
    ) -> Iterator[Run]:
        """Every run as it is described: when all is done, after the next images, a moment before the last event."""
        for way in self._runs(start, step, until_ms, answer, ties):
            runs = [way]
            while runs[-1].pending:
                runs.append(runs[-1].updated())
            described = [recorded_group(describe(run.state, self.group, run.context)) for run in runs]
            for i, run in enumerate(runs):
                if described[i] not in described[:i]:
                    is_old = run.has_old_image or described[i] != described[-1]
                    yield run._replace(described=described[i], has_old_image=is_old)
            if way.just_before is not None:
                earlier = recorded_group(describe(way.just_before, self.group, way.context))
                yield way._replace(described=earlier, is_natural=False)

    def _runs(
        self, start: Candidate, step: RecordedStep, until_ms: int, answer: Mapping[str, Any] | None, ties: Ties
    ) -> Iterator[Run]:
        """Ways the step may have gone, the one that follows from the clock alone first."""
        run = Run(start.state, replace(self.context, image=start.image, adopt=ties.adopt), start.pending)
        if step.request is None:
            yield from self._background(run, until_ms)
            return
        request = request_of(step.n, step.request, answer, self._new_members(step))
        self._versions[step.n] = request.version
        for before in self._background(run, handled_ms(step)):
            for after in self._handled(before._replace(just_before=None), request, STARTED_MS + handled_ms(step), ties):
                yield from self._background(after, until_ms)

    def _handled(self, before: Run, request: Request, now_ms: int, ties: Ties) -> Iterator[Run]:
        """After the request; also on the other side of an instant near it from which it is decided otherwise."""
        near = [turn for turn in turns_ms(before.state, before.context) if abs(turn - now_ms) <= self.slack_ms]
        decided: list[Any] = []
        for at_ms in (now_ms, *(turn if now_ms < turn else turn - 1 for turn in near)):
            ties.begin()
            step = handle(before.state, request, replace(before.context, now_ms=at_ms))
            decision = (step.answers, step.happened, resolutions(step.state).keys())
            if decision not in decided:
                is_natural = before.is_natural and not decided
                decided.append(decision)
                yield before.then(step)._replace(ties=ties.adopted, is_natural=is_natural)

    def _new_members(self, step: RecordedStep) -> Sequence[str]:
        """Ids of members that the step made known: a broker may have made one in a request it answered later."""
        known = (self.described or {}).get("members", {})
        return [member_id for member_id in (step.described or {}).get("members", {}) if member_id not in known]

    def _background(self, run: Run, until_ms: int) -> Iterator[Run]:
        """What images, tasks and timers may have done by then, in any order; what is due is done first.

        An image that reaches the coordinator before or after everything else is a matter of the steps around this one.
        """
        now_ms = STARTED_MS + until_ms
        deadline_ms = next_deadline_ms(run.state)
        if deadline_ms is None or deadline_ms > now_ms + self.slack_ms or run.events > MOST_EVENTS:
            deadline_ms = None
        is_due, must_fire = (deadline_ms is not None and deadline_ms <= now_ms - ms for ms in (0, self.slack_ms))
        resolution = resolutions(run.state).get(self.group)
        since_ms = [found.timestamp for found in resolution.found.values()] if resolution else ()
        must_resolve = any(ms + BACKGROUND_MS < now_ms for ms in since_ms)
        if run.pending and run.events and (resolution or deadline_ms is not None):
            yield from self._background(run.updated(), until_ms)
        if resolution:
            done = run.then(handle_resolution(run.state, self.group, replace(run.context, now_ms=now_ms)))
            yield from self._background(done._replace(just_before=run.state), until_ms)
        if deadline_ms is not None and is_due:
            yield from self._background(self._fired(run, deadline_ms, until_ms), until_ms)
        if not must_fire and not must_resolve:
            yield run._replace(is_natural=run.is_natural and not is_due)
        if deadline_ms is not None and not is_due:
            early = self._fired(run, deadline_ms, until_ms)._replace(is_natural=False)
            yield from self._background(early, until_ms)

    def _fired(self, run: Run, deadline_ms: int, until_ms: int) -> Run:
        fired = run.then(handle_timer(run.state, replace(run.context, now_ms=deadline_ms)))
        is_late = deadline_ms > STARTED_MS + until_ms - self.slack_ms
        return fired._replace(just_before=run.state if is_late else None)


def _are_alike(one: Candidate, other: Candidate, slack_ms: int) -> bool:
    """Whether they differ by instants alone, and by no more than the slack; what they needed does not count."""
    atoms = zip_longest(_atoms(one._replace(freedoms=other.freedoms)), _atoms(other))
    return all(a == b or (_is_instant(a) and _is_instant(b) and abs(a - b) <= slack_ms) for a, b in atoms)


def _atoms(value: Any) -> Iterator[Any]:
    """What a value is made of, in its order."""
    if is_dataclass(value):
        for part in fields(value):
            if part.compare:
                yield from _atoms(getattr(value, part.name))
    elif isinstance(value, Mapping):
        for item in value.items():
            yield from _atoms(item)
    elif isinstance(value, tuple):
        for part in value:
            yield from _atoms(part)
    else:
        yield value


def _is_instant(value: Any) -> bool:
    return isinstance(value, int) and STARTED_MS <= value < STARTED_MS + A_YEAR_MS


def _changed(image: Image, admin: Admin | None) -> Image:
    """The metadata after a change of topics."""
    if admin is None:
        return image
    if admin.action == "delete":
        return Image(image.topics.without(admin.topic), image.version + 1)
    return Image(image.topics.set(admin.topic, Topic(admin.topic_id, admin.partitions)), image.version + 1)


def handled_ms(step: RecordedStep) -> int:
    """When the broker handled the request: just before it answered, or when it was sent if it was parked."""
    own = [r.t_ms for r in step.responses if r.to == step.n]
    parks = step.request is not None and step.request.api in {"JoinGroup", "SyncGroup"}
    return own[0] if own and not parks else step.t_ms


def request_of(n: int, sent: Asked, answer: Mapping[str, Any] | None, new_members: Sequence[str] = ()) -> Request:
    """The request of step `n`, with the id that the broker made for it."""
    client_id = f"c-{sent.client}"
    made = _fresh_id(sent.body, client_id, answer, new_members)
    return Request(n, client_id, HOST, sent.version, sent.message, made)


def _fresh_id(
    request: Mapping[str, Any], client_id: str, answer: Mapping[str, Any] | None, new_members: Sequence[str]
) -> str:
    """The random part of the member id that a request without one was given: as the answer or the group shows it."""
    if request.get("member_id"):
        return "none-was-made"
    prefix = f"{request.get('group_instance_id') or client_id}-"
    made = (answer or {}).get("member_id") or next((i for i in new_members if i.startswith(prefix)), None)
    return str(made).removeprefix(prefix) if made else "none-was-made"
