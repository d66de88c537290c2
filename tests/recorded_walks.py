"""Recorded walks of real brokers, read, and followed by our coordinator up to the first difference.

A recording is lines of JSON: a head, the topics, then one line a step, which is a request, a wait, or a change of the
topics. After a difference the state is no longer that of the recording, so the walk ends there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from fsm.conformance.comparison import FieldDifference
from fsm.conformance.follower import Follower, Freedoms
from fsm.conformance.steps import Response, TopicChange, WalkRequest, WalkStep
from fsm.errors import InputError
from fsm.protocol.json_form import from_recorded, to_recorded
from fsm.protocol.messages import APIS

TIMED_SET = "time"
"""The recorder's name for families in which clocks decide."""
LEFT_OUT = {"group.min.session.timeout.ms": "3000"}
"""A setting of every recorded broker that the heads of the recordings leave out."""


@dataclass(frozen=True)
class Recording:
    """One walk of one group."""

    walk: str
    release: str
    family: str
    group: str
    settings: Mapping[str, str]
    """Broker settings that differ from the defaults, by Kafka's names."""
    is_timed: bool
    topics: Mapping[str, TopicChange]
    """What there was when the walk began."""
    steps: tuple[WalkStep, ...]

    @property
    def name(self) -> str:
        return f"{self.release}/{self.walk}"

    @cached_property
    def answers(self) -> Mapping[int, Any]:
        """The answer to each request that got one, by the number of its step."""
        return {response.to: response.message for step in self.steps for response in step.responses}

    def lasts_ms(self, at: int) -> int:
        """When the step at this index was over, at the latest."""
        step = self.steps[at]
        if at + 1 < len(self.steps):
            return self.steps[at + 1].t_ms
        return max([step.t_ms + step.wait_ms, *(response.t_ms for response in step.responses)])


def is_recording(head: Any) -> bool:
    """Whether this first line begins a recorded walk."""
    return isinstance(head, dict) and {"walk", "family", "group", "config"} <= head.keys()


def read(lines: Iterable[Mapping[str, Any]]) -> Recording:
    """The recording of these lines. Raises `InputError` naming what a line lacks."""
    given = iter(lines)
    try:
        head, topics = next(given), next(given)
        return _recording(head, topics["topics"], given)
    except StopIteration:
        raise InputError("a recorded walk begins with two lines: its head and the topics") from None
    except (KeyError, TypeError, AttributeError, ValueError) as problem:
        raise InputError(f"not a recorded walk: {type(problem).__name__} {problem}") from None


def _recording(head: Mapping[str, Any], topics: Mapping[str, Any], lines: Iterator[Mapping[str, Any]]) -> Recording:
    config = head["config"]
    settings = dict(setting.split("=", 1) for setting in config.get("config", "").split())
    found = {name: TopicChange("create", name, topic["id"], topic["partitions"]) for name, topic in topics.items()}
    is_timed = config.get("set") == TIMED_SET
    steps = tuple(_steps(lines))
    return Recording(head["walk"], config["kafka"], head["family"], head["group"], settings, is_timed, found, steps)


def _steps(lines: Iterable[Mapping[str, Any]]) -> Iterator[WalkStep]:
    requests: dict[int, WalkRequest] = {}
    for line in lines:
        if "api" in line:
            requests[line["n"]] = _request(line)
        yield WalkStep(
            line["n"],
            line["t_ms"],
            requests.get(line["n"]),
            line.get("wait_ms", 0),
            TopicChange(line["admin"], line["name"], line["id"], line.get("partitions", 0))
            if "admin" in line
            else None,
            tuple(_response(r, requests[r["to"]]) for r in line.get("responses", ())),
            tuple(line["records"]),
            line.get("group"),
        )


def _change(line: Mapping[str, Any]) -> TopicChange:
    return TopicChange(line["admin"], line["name"], line["id"], line.get("partitions", 0))


def _request(line: Mapping[str, Any]) -> WalkRequest:
    if line["api"] not in APIS:
        raise InputError(f"no API {line['api']!r} of the group coordinator")
    message = from_recorded(APIS[line["api"]].request, line["request"], line["version"])
    return WalkRequest(line["client"], message, line["version"], line.get("why") or "")


def _response(line: Mapping[str, Any], request: WalkRequest) -> Response:
    message = from_recorded(APIS[request.api].response, line["response"], request.version)
    return Response(line["to"], line["t_ms"], message)


@dataclass(frozen=True)
class Difference:
    """The first difference of a walk."""

    walk: str
    step: WalkStep
    fields: tuple[FieldDifference, ...]

    def __str__(self) -> str:
        request = self.step.request
        body = f"  request: {to_recorded(request.message, request.version)}" if request else "  no request"
        lines = [f"{self.walk} step {self.step}", body]
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
    settings = {**LEFT_OUT, **recording.settings}
    return Follower(recording.group, recording.release, settings, recording.topics)


def follow_step(follower: Follower, recording: Recording, i: int) -> Sequence[FieldDifference]:
    """Follows step `i` of the recording; gives what differs."""
    step = recording.steps[i]
    return follower.follow(step, recording.lasts_ms(i), recording.answers.get(step.n))


def follow(recording: Recording) -> Outcome:
    """Follows the walk up to its first difference. Raises `InputError` where the recording cannot be used."""
    follower, count = follower_of(recording), len(recording.steps)
    for i, step in enumerate(recording.steps):
        if found := follow_step(follower, recording, i):
            return Outcome(count, i, follower.freedoms, Difference(recording.name, step, tuple(found)))
    return Outcome(count, count, follower.freedoms, None)
