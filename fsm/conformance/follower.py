"""Our coordinator, following the steps of another one, each compared with the observation.

The other side supplies what no rule decides: ids made by the broker, the time, completion of background tasks. If the
order of events is unknown, every order that matches the observation is kept as a candidate until a later step excludes
it:

- a timer that is due within the slack of a step's end has fired or has not;
- a background task is done up to `RESOLVED_MS` after its start;
- a request within the slack of an instant that changes decisions came before it or after;
- an answer may be in flight for as long as the slack;
- up to `IMAGE_KNOWN_MS` after a change of topics the coordinator may still use the previous metadata image;
- if an assignor may break a tie either way, the recorded target is adopted if the same assignor computes it for another
  order of members or topics.

The number of steps that needed each of these is counted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from functools import partial
from itertools import zip_longest
from typing import Any, NamedTuple

from fsm.conformance.comparison import FieldDifference, Hashes, Shown, Ties, find_differences, labels
from fsm.conformance.steps import TopicChange, WalkRequest, WalkStep, first_image, record_group
from fsm.coordinator.coordinator import find_deadlines_ms, resolutions
from fsm.coordinator.host import Host
from fsm.coordinator.model.context import BrokerConfig, Context, Image
from fsm.coordinator.model.dialect import Choice, dialect
from fsm.coordinator.model.persistent import PersistentMap
from fsm.coordinator.model.step import Happened, Step
from fsm.errors import InputError
from fsm.protocol.json_form import to_recorded
from fsm.protocol.records import Record, to_dump_json

SLACK_MS = 150
RESOLVED_MS = 5_000
"""Maximum duration of a resolution of regular expressions."""
IMAGE_KNOWN_MS = 5_000
"""Maximum delay until the coordinator has a new metadata image.

A broker shows new metadata first and passes it to its coordinators after it has applied it to its own replicas
(`BrokerMetadataPublisher.onMetadataUpdate`, `CoordinatorRuntime.onMetadataUpdate` of apache/kafka 4.4).
"""
STARTED_MS = 1_700_000_000_000
"""Start time of walks. It is not near 0, which means unknown."""
A_YEAR_MS = 365 * 24 * 3_600_000
MOST_CANDIDATES = 16
MOST_EVENTS = 100
"""Maximum number of timers, tasks and requests in one step; a step with more is refused."""
NO_ID = "none-was-made"


class Freedoms(NamedTuple):
    """Number of steps that match only with a freedom that a recording does not determine."""

    ties: int = 0
    """A target with ties broken in another way."""
    reordered: int = 0
    """Records of one type in another order of a hash map."""
    early_or_late: int = 0
    """A decision on the other side of a nearby deadline, or an answer in flight."""
    old_images: int = 0
    """The metadata image before a change of topics."""


NO_FREEDOMS = Freedoms()


class Update(NamedTuple):
    """A metadata image that has not reached the coordinator."""

    image: Image
    until_ms: int
    """Latest time of its arrival at the coordinator."""
    is_old: bool = False
    """Whether the topics were changed in an earlier step."""


class InFlight(NamedTuple):
    """An answer that was sent and has not been observed."""

    message: Any
    until_ms: int
    """Latest time of its observation."""


def _do(host: Host, act: Callable[[Host], object]) -> tuple[Host, list[Step[Any]]]:
    """A fork of the host after `act`, and its steps; the given host is unchanged."""
    after, steps = host.fork(), list[Step[Any]]()
    after.on_step = steps.append
    act(after)
    after.on_step = None
    return after, steps


class Candidate(NamedTuple):
    """A possible state of the coordinator between two steps."""

    host: Host
    pending: tuple[Update, ...] = ()
    """Newer images that have not reached it."""
    hashes: Hashes = Hashes()
    in_flight: PersistentMap[int, InFlight] = PersistentMap()
    """By the step that is answered."""
    freedoms: Freedoms = NO_FREEDOMS

    def update(self) -> Candidate:
        """The candidate after the next image has reached it."""
        host, _ = _do(self.host, partial(Host.update, image=self.pending[0].image))
        return self._replace(host=host, pending=self.pending[1:])

    def differs_from(self, other: Candidate, slack_ms: int) -> bool:
        """Whether they differ by more than instants within the slack; freedoms are not compared."""
        atoms = zip_longest(*(_atoms((*one[1:4], one.host.context.image, one.host.state)) for one in (self, other)))
        return not all(a == b or (_is_instant(a) and _is_instant(b) and abs(a - b) <= slack_ms) for a, b in atoms)


class Run(NamedTuple):
    """One possible course of a step."""

    host: Host
    pending: tuple[Update, ...] = ()
    answers: PersistentMap[int, Any] = PersistentMap()
    log: tuple[Record, ...] = ()
    happened: tuple[Happened, ...] = ()
    events: int = 0
    """Number of timers, tasks and requests handled."""
    ties: int = 0
    is_natural: bool = True
    """Whether every decision follows the clock."""
    has_old_image: bool = False
    """Whether a decision or the description uses the metadata before an earlier change of topics."""
    just_before: Host | None = None
    """The host before its last timer or task, if that was near the step's end: a description may still show it."""
    described: Mapping[str, Any] | None = None

    def add(self, act: Callable[[Host], object], **changes: Any) -> Run:
        """The run after one more event."""
        host, steps = _do(self.host, act)
        run = self._replace(host=host, events=self.events + 1, **changes)
        for step in steps:
            run = run._replace(
                answers=run.answers.merge(dict(step.answers)),
                log=(*run.log, *step.records),
                happened=(*run.happened, *step.happened),
            )
        return run._replace(has_old_image=run.has_old_image or any(update.is_old for update in run.pending))

    def update(self) -> Run:
        """The run after the next image has reached the coordinator."""
        host, pending = Candidate(self.host, self.pending).update()[:2]
        return self._replace(host=host, pending=pending)


class Fit(NamedTuple):
    """A run that matches the observation, and the coordinator after it."""

    run: Run
    after: Candidate


class Verdict(NamedTuple):
    """The result of comparing a step with ours."""

    fits: tuple[Fit, ...]
    differences: tuple[FieldDifference, ...]
    """The differing fields of the most natural run, if no run matches."""
    happened: tuple[Happened, ...]
    """The decisions of our tables in the most natural run."""
    described: Mapping[str, Any] | None
    image: Image

    @property
    def is_complete(self) -> bool:
        """Whether a run without an answer in flight fits."""
        return any(not fit.after.in_flight for fit in self.fits)


class Expectation(NamedTuple):
    """The certain results of a request."""

    answered: frozenset[int]
    """The steps that are answered."""
    records: int
    """Minimum number of records."""


class Follower:
    """Our coordinator's possible states along a walk."""

    def __init__(
        self,
        group: str,
        release: str,
        settings: Mapping[str, str],
        topics: Mapping[str, TopicChange],
        *,
        slack_ms: int = SLACK_MS,
        ignored: tuple[str, ...] = (),
    ) -> None:
        """Configured like a broker; `ignored` names what is not compared, of `records` and `group`.

        Raises `InputError` for invalid settings.
        """
        context = Context(STARTED_MS, dialect(release), BrokerConfig.of(settings), first_image(topics))
        self.group = group
        self.image = context.image
        """The topics in the broker's metadata."""
        self.slack_ms = slack_ms
        self.ignored = ignored
        self.candidates: tuple[Candidate, ...] = (Candidate(Host(context, resolves=False)),)
        """The candidates, sorted by least freedoms, then newest image."""
        self.described: Mapping[str, Any] | None = None
        """The description of the group after the last step."""
        self.log: tuple[Record, ...] = ()
        """The records that the last step appended."""
        self._extra_slot_stays = Choice.EXTRA_SLOT_STAYS in context.dialect
        self._versions: dict[int, int] = {}
        """The API version of each request, by its step."""

    @property
    def host(self) -> Host:
        """The most probable state of the coordinator."""
        return self.candidates[0].host

    @property
    def freedoms(self) -> Freedoms:
        """The least freedoms needed so far."""
        return self.candidates[0].freedoms

    def follow(self, step: WalkStep, until_ms: int, answer: Any) -> Sequence[FieldDifference]:
        """Follows one step and returns its differences; unchanged if there are any."""
        verdict = self.compare(step, until_ms, answer)
        if verdict.fits:
            self.accept(verdict)
        return verdict.differences

    def compare(self, step: WalkStep, until_ms: int, answer: Any) -> Verdict:
        """Compares one step with ours, without changes.

        `answer` is the response to the step's request, now or later; `until_ms` is the end of the step.
        """
        described = self.described if step.described is None else step.described or None
        if step.request:
            self._versions[step.n] = step.request.version
        expected = Shown(self._record({r.to: r.message for r in step.responses}), step.records, described)
        image = self.image if step.admin is None else step.admin.apply(self.image)
        updates = () if step.admin is None else (Update(image, until_ms + IMAGE_KNOWN_MS),)
        starts = self._begin(self.candidates, updates, step.t_ms)
        fits: list[Fit] = []
        first: tuple[tuple[FieldDifference, ...], tuple[Happened, ...]] | None = None
        for ties in (Ties(()), Ties(step.records, self._extra_slot_stays)):
            for start in starts:
                for run in self._describe(start, step, until_ms, answer, ties):
                    after, found = self._compare(start, run, expected, until_ms)
                    first = first or (found, run.happened)
                    if not found:
                        fits.append(Fit(run, after))
            if fits:
                break
        if all(fit.run.has_old_image for fit in fits):
            fits = [fit._replace(after=_count_old_image(fit.after)) for fit in fits]
        found, happened = first or ((), ())
        return Verdict(tuple(fits), () if fits else found, happened, described, image)

    def _compare(
        self, start: Candidate, run: Run, expected: Shown, until_ms: int
    ) -> tuple[Candidate, tuple[FieldDifference, ...]]:
        given = start.in_flight.merge(
            {to: InFlight(message, until_ms + self.slack_ms) for to, message in run.answers.items()}
        )
        may_come = {to: one for to, one in given.items() if to not in expected.answers and one.until_ms >= until_ms}
        seen = self._record({to: one.message for to, one in given.items() if to not in may_come})
        records = tuple(to_dump_json(record) for record in run.log)
        found = find_differences(expected, Shown(seen, records, run.described), start.hashes)
        differing = tuple(one for one in found if not one.field.startswith(self.ignored))
        if differing:
            return start, differing
        needed = start.freedoms
        needed = needed._replace(
            ties=needed.ties + run.ties,
            reordered=needed.reordered + (labels(expected.records) != labels(records)),
            early_or_late=needed.early_or_late + (not run.is_natural or bool(may_come)),
        )
        pending = tuple(update._replace(is_old=True) for update in run.pending)
        hashes = start.hashes.learn(expected.records, records)
        return Candidate(run.host, pending, hashes, PersistentMap(may_come), needed), ()

    def _record(self, messages: Mapping[int, Any]) -> Mapping[int, Mapping[str, Any]]:
        return {to: to_recorded(message, self._versions[to]) for to, message in messages.items()}

    def accept(self, verdict: Verdict) -> None:
        """Continues with all fits as candidates."""
        self.candidates = self._begin((fit.after for fit in verdict.fits), (), 0)
        best = min(verdict.fits, key=lambda fit: sum(fit.after.freedoms))
        self.log = best.run.log
        self.described = verdict.described
        self.image = verdict.image

    def expect(self, n: int, request: WalkRequest, t_ms: int) -> Expectation:
        """The certain results of this request as step `n`, without changes."""
        imagined = WalkStep(n, t_ms, request, 0, None, (), (), None)
        starts = self._begin(self.candidates, (), t_ms)
        runs = [(start, run) for start in starts for run in self._runs(start, imagined, t_ms, None, Ties(()))]
        answered = (frozenset({*start.in_flight, *run.answers}) for start, run in runs)
        return Expectation(frozenset.intersection(*answered), min(len(run.log) for _, run in runs))

    def _begin(self, candidates: Iterable[Candidate], updates: tuple[Update, ...], t_ms: int) -> tuple[Candidate, ...]:
        """The possible states at the begin of a step: images that are due have arrived, others may have."""
        found: list[Candidate] = []
        for candidate in candidates:
            known = [candidate._replace(pending=(*candidate.pending, *updates))]
            while known[-1].pending:
                is_due = known[-1].pending[0].until_ms < t_ms
                known = [*(() if is_due else known), known[-1].update()]
            found += known
        found.sort(key=lambda one: (sum(one.freedoms), -one.host.context.image.version))
        distinct: list[Candidate] = []
        for one in found:
            if all(one.differs_from(other, self.slack_ms) for other in distinct):
                distinct.append(one)
        return tuple(distinct[:MOST_CANDIDATES])

    def _describe(self, start: Candidate, step: WalkStep, until_ms: int, answer: Any, ties: Ties) -> Iterator[Run]:
        """Every run with its possible descriptions: at its end, after the next images, before its last event."""
        for way in self._runs(start, step, until_ms, answer, ties):
            runs = [way]
            while runs[-1].pending:
                runs.append(runs[-1].update())
            described = [record_group(run.host.describe(self.group)) for run in runs]
            for i, run in enumerate(runs):
                if described[i] not in described[:i]:
                    is_old = run.has_old_image or described[i] != described[-1]
                    yield run._replace(described=described[i], has_old_image=is_old)
            if way.just_before is not None:
                earlier = record_group(way.just_before.describe(self.group))
                yield way._replace(described=earlier, is_natural=False)

    def _runs(self, start: Candidate, step: WalkStep, until_ms: int, answer: Any, ties: Ties) -> Iterator[Run]:
        """The possible courses of the step, the one that follows the clock first."""
        host = start.host.fork()
        host.context = replace(host.context, adopt=ties.adopt)
        run = Run(host, start.pending)
        if step.request is None:
            yield from self._background(run, until_ms)
            return
        fresh_id = find_fresh_id(step.request, answer, self._new_members(step))
        client, message, version, _ = step.request
        sent = {"client_id": f"c-{client}", "message": message, "version": version, "fresh_id": fresh_id}
        send = partial(Host.send, **sent, token=step.n)
        for before in self._background(run, handled_ms(step)):
            for after in self._handle(before._replace(just_before=None), send, STARTED_MS + handled_ms(step), ties):
                yield from self._background(after, until_ms)

    def _handle(self, before: Run, send: Callable[..., object], now_ms: int, ties: Ties) -> Iterator[Run]:
        """Runs after the request, also on the other side of a nearby deadline that changes the decision."""
        turns = find_deadlines_ms(before.host.state, before.host.context)
        near = [turn for turn in turns if abs(turn - now_ms) <= self.slack_ms]
        decided: list[Any] = []
        for at_ms in (now_ms, *(turn if now_ms < turn else turn - 1 for turn in near)):
            ties.begin()
            run = before.add(partial(send, now_ms=at_ms))
            decision = (run.answers, run.happened, resolutions(run.host.state).keys())
            if decision not in decided:
                is_natural = before.is_natural and not decided
                decided.append(decision)
                yield run._replace(ties=ties.adopted, is_natural=is_natural)

    def _new_members(self, step: WalkStep) -> Sequence[str]:
        """Member ids that first appear in the step; a broker may make one in a request that it answers later."""
        known = (self.described or {}).get("members", {})
        return [member_id for member_id in (step.described or {}).get("members", {}) if member_id not in known]

    def _background(self, run: Run, until_ms: int) -> Iterator[Run]:
        """The runs after images, tasks and timers until then, in any order; those that are due come first.

        An image that arrives before or after everything else belongs to the previous or next step.
        """
        now_ms = STARTED_MS + until_ms
        deadline_ms = run.host.next_deadline_ms()
        if run.events > MOST_EVENTS:
            raise InputError(f"more than {MOST_EVENTS} timers, tasks and requests by {until_ms} ms, within one step")
        if deadline_ms is not None and deadline_ms > now_ms + self.slack_ms:
            deadline_ms = None
        is_due, must_fire = (deadline_ms is not None and deadline_ms <= now_ms - ms for ms in (0, self.slack_ms))
        resolution = resolutions(run.host.state).get(self.group)
        since_ms = [found.timestamp for _, found in resolution.found] if resolution else ()
        must_resolve = any(ms + RESOLVED_MS < now_ms for ms in since_ms)
        if run.pending and run.events and (resolution or deadline_ms is not None):
            yield from self._background(run.update(), until_ms)
        if resolution:
            done = run.add(partial(Host.resolve, now_ms=now_ms), just_before=run.host)
            yield from self._background(done, until_ms)
        if deadline_ms is not None and is_due:
            yield from self._background(self._fire(run, deadline_ms, until_ms), until_ms)
        if not must_fire and not must_resolve:
            yield run._replace(is_natural=run.is_natural and not is_due)
        if deadline_ms is not None and not is_due:
            early = self._fire(run, deadline_ms, until_ms)._replace(is_natural=False)
            yield from self._background(early, until_ms)

    def _fire(self, run: Run, deadline_ms: int, until_ms: int) -> Run:
        is_late = deadline_ms > STARTED_MS + until_ms - self.slack_ms
        return run.add(partial(Host.expire, now_ms=deadline_ms), just_before=run.host if is_late else None)


def _count_old_image(candidate: Candidate) -> Candidate:
    """The candidate after a step that excludes the newest image, counted as a freedom."""
    freedoms = candidate.freedoms
    return candidate._replace(freedoms=freedoms._replace(old_images=freedoms.old_images + 1))


def _atoms(value: Any) -> Iterator[Any]:
    """The leaf values of a nested value, in order."""
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


def handled_ms(step: WalkStep) -> int:
    """When the broker handled the request: at its answer, or at its send time for requests that may be delayed."""
    own = [r.t_ms for r in step.responses if r.to == step.n]
    delays = step.request is not None and step.request.api in {"JoinGroup", "SyncGroup"}
    return own[0] if own and not delays else step.t_ms


def find_fresh_id(request: WalkRequest, answer: Any, new_members: Sequence[str] = ()) -> str:
    """The random part of the member id assigned to a request without one, from the answer or the group."""
    if getattr(request.message, "member_id", ""):
        return NO_ID
    prefix = f"{getattr(request.message, 'group_instance_id', None) or f'c-{request.client}'}-"
    made = getattr(answer, "member_id", "") or next((i for i in new_members if i.startswith(prefix)), None)
    return str(made).removeprefix(prefix) if made else NO_ID
