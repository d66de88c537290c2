"""A recorded walk, followed by our coordinator up to the first difference.

After that the state is no longer that of the recording, so the walk ends there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from fsm.conformance.comparison import FieldDifference
from fsm.conformance.follower import STARTED_MS, Follower, Freedoms
from fsm.conformance.recording import RecordedStep, Recording
from fsm.coordinator.model.context import BrokerConfig, Context, Image, Topic
from fsm.coordinator.model.dialect import dialect
from fsm.coordinator.model.persistent import FrozenMap

LEFT_OUT = {"group.min.session.timeout.ms": "3000"}
"""A setting of every recorded broker that the heads of the recordings leave out."""


@dataclass(frozen=True)
class Difference:
    """The first difference of a walk."""

    walk: str
    step: RecordedStep
    fields: tuple[FieldDifference, ...]

    def __str__(self) -> str:
        request = self.step.request
        lines = [f"{self.walk} step {self.step}", f"  request: {dict(request.body)}" if request else "  no request"]
        lines += [f"  {one.field}\n    expected {one.expected}\n    got      {one.got}" for one in self.fields]
        return "\n".join(lines)


class Outcome(NamedTuple):
    """How far a walk went."""

    steps: int
    equal: int
    freedoms: Freedoms
    difference: Difference | None


def follower_of(recording: Recording) -> Follower:
    """A coordinator set up as the recorded broker was. Raises `InputError` for settings that cannot be read."""
    topics = FrozenMap({name: Topic(t.topic_id, t.partitions) for name, t in recording.topics.items()})
    config = BrokerConfig.of({**LEFT_OUT, **recording.settings})
    return Follower(recording.group, Context(STARTED_MS, dialect(recording.release), config, Image(topics, 1)))


def follow_step(follower: Follower, recording: Recording, i: int) -> Sequence[FieldDifference]:
    """Follows step `i` of the recording; gives what differs."""
    answer = recording.answers.get(recording.steps[i].n)
    return follower.follow(recording.steps[i], recording.lasts_ms(i), answer.body if answer else None)


def follow(recording: Recording) -> Outcome:
    """Follows the walk up to its first difference. Raises `InputError` where the recording cannot be used."""
    follower = follower_of(recording)
    for i, step in enumerate(recording.steps):
        found = follow_step(follower, recording, i)
        if found:
            difference = Difference(recording.name, step, tuple(found))
            return Outcome(len(recording.steps), i, follower.freedoms, difference)
    return Outcome(len(recording.steps), len(recording.steps), follower.freedoms, None)
