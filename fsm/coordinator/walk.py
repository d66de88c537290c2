"""The coordinator driven along a recorded walk: every step held against what was recorded.

What is not the machine's decision comes from the recording: ids that the broker made, the time, when a background task
was done. Where clocks decide, what lies within `SLACK_MS` of a deadline may go either way; where an assignor may break
a tie either way, the recorded target is taken if the same assignor gives it for another order of members or topics.
Both are counted. After the first difference the state is no longer that of the recording, so the walk ends there.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from fsm.coordinator.comparison import FieldDifference, Hashes, Shown, differences, labels
from fsm.coordinator.context import BrokerConfig, Context, Image, Topic
from fsm.coordinator.coordinator import (
    Coordinator,
    describe,
    handle,
    handle_resolution,
    handle_timer,
    image_changed,
    next_deadline_ms,
    resolution_turns_ms,
    resolutions,
)
from fsm.coordinator.dialect import Choice, dialect
from fsm.coordinator.dumped import as_dumped
from fsm.coordinator.frozen import FrozenMap
from fsm.coordinator.messages import Request
from fsm.coordinator.recording import Admin, Asked, RecordedStep, Recording
from fsm.coordinator.records import Record
from fsm.coordinator.step import Happened, Step
from fsm.coordinator.ties import Ties

SLACK_MS = 150
STARTED_MS = 1_700_000_000_000
"""When walks begin: instants of a broker are never near 0, which means unknown."""
MOST_TIMERS = 8
"""How many timers may fire in one step."""
HOST = "/127.0.0.1"
UNSAID = {"group.min.session.timeout.ms": "3000"}
"""A setting of every recorded broker that the heads of the recordings leave out."""


@dataclass(frozen=True)
class Difference:
    """The first difference of a walk."""

    walk: str
    step: RecordedStep
    fields: tuple[FieldDifference, ...]

    def __str__(self) -> str:
        asked = self.step.request
        lines = [f"{self.walk} step {self.step}", f"  request: {dict(asked.body)}" if asked else "  no request"]
        lines += [f"  {one.field}\n    expected {one.expected}\n    got      {one.got}" for one in self.fields]
        return "\n".join(lines)


class Outcome(NamedTuple):
    """How far a walk went."""

    steps: int
    equal: int
    ties: int
    """Steps whose target was adopted."""
    reordered: int
    """Steps whose records of one type came in another order of a hash map."""
    early_or_late: int
    """Steps that needed the freedom around a deadline."""
    difference: Difference | None


class Foreseen(NamedTuple):
    """What a request is going to bring."""

    answered: frozenset[int]
    """The steps that are answered at once."""
    records: int


class Run(NamedTuple):
    """One way a step may have gone."""

    state: Coordinator
    answers: FrozenMap[int, Any] = FrozenMap()
    log: tuple[Record, ...] = ()
    happened: tuple[Happened, ...] = ()
    is_natural: bool = True
    just_before: Coordinator | None = None
    """Before its last timer or task, where that was about when the step was over: a description may still show it."""

    def then(self, step: Step[Coordinator]) -> Run:
        """With what one more event brought."""
        answers = self.answers.merged({answer.token: answer.body for answer in step.answers})
        happened = (*self.happened, *step.happened)
        return self._replace(state=step.state, answers=answers, log=(*self.log, *step.records), happened=happened)

    @property
    def records(self) -> tuple[Mapping[str, Any], ...]:
        """As Kafka's tools print them."""
        return tuple(as_dumped(record) for record in self.log)


@dataclass
class Walk:
    """One coordinator that follows one recording, or a broker while it is being recorded."""

    group: str
    context: Context
    state: Coordinator = field(default_factory=Coordinator)
    hashes: Hashes = field(default_factory=Hashes)
    described: Mapping[str, Any] | None = None
    """As recorded after the last step."""
    ties: int = 0
    reordered: int = 0
    early_or_late: int = 0
    unseen: tuple[str, ...] = ()
    """What nobody recorded: `records`, `group`."""
    log: tuple[Record, ...] = ()
    """What the last step appended."""
    happened: tuple[Happened, ...] = ()
    """What our tables decided in the last step, also in one that differs."""
    slack_ms: int = SLACK_MS
    before: Image | None = None
    """The topics as they were, in a step that changes them."""
    under_way: Mapping[int, Mapping[str, Any]] = field(default_factory=dict)
    """Answers given in earlier steps that the recorder had not seen when it wrote those down."""

    def step(
        self,
        recorded: RecordedStep,
        until_ms: int,
        answer: Mapping[str, Any] | None,
        late: Collection[int] = (),
    ) -> list[FieldDifference]:
        """Follows one step; gives what differs, and stays where it was if anything does.

        `answer` is what the step's request was answered with, now or later; `until_ms` when the step was over; `late`
        the requests whose answers were seen in a later step, but soon after this one.
        """
        expected = self._expected(recorded)
        context = self.context
        self._admin(recorded.admin)
        ties = Ties(recorded.records, Choice.EXTRA_SLOT_STAYS in self.context.dialect)
        first: list[FieldDifference] = []
        for run in self._sights(recorded, until_ms, answer, ties):
            given = {**self.under_way, **run.answers}
            under_way = {to: body for to, body in given.items() if to not in expected.answers and self._may(to, late)}
            arrived = {to: body for to, body in given.items() if to not in under_way}
            shown = Shown(arrived, run.records, describe(run.just_before or run.state, self.group, self.context))
            found = [one for one in differences(expected, shown, self.hashes) if not one.field.startswith(self.unseen)]
            if not found:
                self._accept(run._replace(is_natural=run.is_natural and not under_way), expected, shown, ties)
                self.under_way = under_way
                return []
            if not first:
                first, self.happened = found, run.happened
        self.context = context
        return first

    def foresee(self, n: int, sent: Asked, t_ms: int) -> Foreseen:
        """What this request will bring at once if it is step `n`; nothing changes."""
        imagined = RecordedStep(n, t_ms, sent, 0, None, (), (), None)
        run = next(self._runs(imagined, t_ms, None, Ties(())))
        return Foreseen(frozenset(run.answers), len(run.log))

    def unsure_ms(self, t_ms: int) -> int:
        """How long it still hangs on whose clock is asked whether a request has regular expressions resolved again.

        That task is a step of its own and may be seen late, so nobody can tell afterwards which request started it:
        whoever chooses what is asked when asks nothing meanwhile.
        """
        now_ms = STARTED_MS + t_ms
        near = [t for t in resolution_turns_ms(self.state, self.context) if abs(t - now_ms) <= self.slack_ms]
        return max(near) + self.slack_ms + 1 - now_ms if near else 0

    def _may(self, to: int, late: Collection[int]) -> bool:
        return to in late or to in self.under_way

    def _expected(self, recorded: RecordedStep) -> Shown:
        described = self.described if recorded.described is None else recorded.described or None
        return Shown({r.to: r.body for r in recorded.responses}, recorded.records, described)

    def _accept(self, run: Run, expected: Shown, shown: Shown, ties: Ties) -> None:
        self.state = run.state
        self.log, self.happened = run.log, run.happened
        self.hashes = self.hashes.knowing(expected.records, shown.records)
        self.described = expected.described
        self.ties += ties.adopted
        self.reordered += labels(expected.records) != labels(shown.records)
        self.early_or_late += not run.is_natural

    def _admin(self, admin: Admin | None) -> None:
        """The topics as they are from now on."""
        self.before = None
        if admin is None:
            return
        topics = self.context.image.topics
        if admin.action == "delete":
            topics = topics.without(admin.topic)
        else:
            topics = topics.set(admin.topic, Topic(admin.topic_id, admin.partitions))
        self.before = self.context.image
        self.context = replace(self.context, image=Image(topics, self.before.version + 1))

    def _starts(self, context: Context, until_ms: int) -> Iterator[Run]:
        """Where a step begins; before a change of topics is known, timers may have fired: none, some, all."""
        start = Run(self.state, is_natural=context.config == self.context.config)
        if self.before is None:
            yield start
            return
        earlier = self._fired(start, replace(context, image=self.before), until_ms)
        natural = _due(earlier, STARTED_MS + until_ms)
        for i, run in enumerate(earlier):
            changed = image_changed(run.state, self.before, self.context)
            yield run._replace(state=changed, is_natural=start.is_natural and i <= natural)

    def _sights(
        self, recorded: RecordedStep, until_ms: int, answer: Mapping[str, Any] | None, ties: Ties
    ) -> Iterator[Run]:
        """Every run as it is described when all is done; then as it may be described a moment before that."""
        for run in self._runs(recorded, until_ms, answer, ties):
            yield run._replace(just_before=None)
            if run.just_before is not None:
                yield run._replace(is_natural=False)

    def _runs(
        self, recorded: RecordedStep, until_ms: int, answer: Mapping[str, Any] | None, ties: Ties
    ) -> Iterator[Run]:
        """Ways the step may have gone, the one that follows from the clock alone first."""
        for context in self._contexts(ties):
            if recorded.request is None:
                for start in self._starts(context, until_ms):
                    yield from self._background(start, context, until_ms)
                continue
            start = Run(self.state, is_natural=context.config == self.context.config)
            request = asked(recorded.n, recorded.request, answer, self._newcomers(recorded))
            now_ms = STARTED_MS + handled_ms(recorded)
            for before in self._background(start, context, handled_ms(recorded)):
                ties.begin()
                handled = handle(before.state, request, replace(context, now_ms=now_ms))
                after = before._replace(just_before=None).then(handled)
                yield from self._background(after, context, until_ms)

    def _newcomers(self, recorded: RecordedStep) -> Sequence[str]:
        """Ids of members that the step made known: a broker may have made one in a request it answered later."""
        known = (self.described or {}).get("members", {})
        return [member_id for member_id in (recorded.described or {}).get("members", {}) if member_id not in known]

    def _contexts(self, ties: Ties) -> Iterator[Context]:
        """With the assignment interval as it is, then ending a little earlier or later."""
        exact = replace(self.context, adopt=ties.adopt)
        yield exact
        interval = exact.config.group_consumer_assignment_interval_ms
        if interval:
            for other in (max(0, interval - self.slack_ms), interval + self.slack_ms):
                yield replace(exact, config=replace(exact.config, group_consumer_assignment_interval_ms=other))

    def _background(self, start: Run, context: Context, until_ms: int) -> Iterator[Run]:
        """What tasks and timers may have done by then; a task that is under way may be done now or in a later step."""
        if resolutions(start.state):
            now = replace(context, now_ms=STARTED_MS + until_ms)
            done = start.then(handle_resolution(start.state, self.group, now))
            yield from self._timers(done._replace(just_before=start.state), context, until_ms)
        yield from self._timers(start, context, until_ms)

    def _timers(self, start: Run, context: Context, until_ms: int) -> Iterator[Run]:
        """All timers that are due have fired; or fewer, or more, of those that are due at about that time."""
        runs = self._fired(start, context, until_ms)
        natural, must = (_due(runs, STARTED_MS + until_ms - slack) for slack in (0, self.slack_ms))
        yield runs[natural]
        yield from (run._replace(is_natural=False) for i, run in enumerate(runs) if must <= i != natural)

    def _fired(self, start: Run, context: Context, until_ms: int) -> list[Run]:
        """None of the timers has fired, one, two, up to all that may have."""
        runs = [start]
        while len(runs) <= MOST_TIMERS:
            deadline_ms = next_deadline_ms(runs[-1].state)
            if deadline_ms is None or deadline_ms > STARTED_MS + until_ms + self.slack_ms:
                break
            fired = runs[-1].then(handle_timer(runs[-1].state, replace(context, now_ms=deadline_ms)))
            is_late = deadline_ms > STARTED_MS + until_ms - self.slack_ms
            runs.append(fired._replace(just_before=runs[-1].state if is_late else None))
        return runs


def _due(runs: Sequence[Run], now_ms: int) -> int:
    """How many of the timers between these runs are due by then."""
    deadlines = (next_deadline_ms(run.state) for run in runs[:-1])
    return sum(deadline_ms is not None and deadline_ms <= now_ms for deadline_ms in deadlines)


def handled_ms(recorded: RecordedStep) -> int:
    """When the broker handled the request: just before it answered, or when it was sent if it was parked."""
    own = [r.t_ms for r in recorded.responses if r.to == recorded.n]
    parks = recorded.request is not None and recorded.request.api in {"JoinGroup", "SyncGroup"}
    return own[0] if own and not parks else recorded.t_ms


def asked(n: int, sent: Asked, answer: Mapping[str, Any] | None, newcomers: Sequence[str] = ()) -> Request:
    """The request of step `n`, with the id that the broker made for it."""
    client_id = f"c-{sent.client}"
    made = fresh_id(sent.body, client_id, answer, newcomers)
    return Request(n, client_id, HOST, sent.api, sent.version, sent.body, made)


def fresh_id(
    request: Mapping[str, Any], client_id: str, answer: Mapping[str, Any] | None, newcomers: Sequence[str] = ()
) -> str:
    """The random part of the member id that a request without one was given: as the answer or the group shows it."""
    if request.get("member_id"):
        return "none-was-made"
    prefix = f"{request.get('group_instance_id') or client_id}-"
    made = (answer or {}).get("member_id") or next((i for i in newcomers if i.startswith(prefix)), None)
    return str(made).removeprefix(prefix) if made else "none-was-made"


def begin(recording: Recording) -> Walk:
    """A coordinator set up as the recorded broker was. Raises `InputError` for settings that cannot be read."""
    topics = FrozenMap({name: Topic(t.topic_id, t.partitions) for name, t in recording.topics.items()})
    config = BrokerConfig.of({**UNSAID, **recording.settings})
    context = Context(STARTED_MS, dialect(recording.release), config, Image(topics, 1))
    return Walk(recording.group, context)


def arrive(walk: Walk, recording: Recording, i: int) -> list[FieldDifference]:
    """Follows step `i` of the recording; gives what differs."""
    answer = recording.answers.get(recording.steps[i].n)
    until_ms = recording.lasts_ms(i)
    late = _late(recording, i, until_ms)
    return walk.step(recording.steps[i], until_ms, answer.body if answer else None, late)


def follow(recording: Recording) -> Outcome:
    """Follows the walk up to its first difference. Raises `InputError` where the recording cannot be used."""
    walk = begin(recording)
    for i, recorded in enumerate(recording.steps):
        found = arrive(walk, recording, i)
        if found:
            difference = Difference(recording.name, recorded, tuple(found))
            return Outcome(len(recording.steps), i, walk.ties, walk.reordered, walk.early_or_late, difference)
    return Outcome(len(recording.steps), len(recording.steps), walk.ties, walk.reordered, walk.early_or_late, None)


def _late(recording: Recording, i: int, until_ms: int) -> frozenset[int]:
    """Requests whose answers the recorder saw in a later step, but so soon that they may have been sent before."""
    following = (response for step in recording.steps[i + 1 : i + 3] for response in step.responses)
    return frozenset(response.to for response in following if response.t_ms <= until_ms + SLACK_MS)
