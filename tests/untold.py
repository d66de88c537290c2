"""What the logs of some clients cannot tell, however well they are read: verdicts that may be found or not.

A property of a client, of the level it logs at, or of the frame around its lines, never of a scenario.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from judge import Verdict

from fsm.audit.findings import FindingKind


@dataclass(frozen=True, slots=True)
class Recording:
    """What the driver of a recording says of it."""

    client: str
    """Without its version; empty where the driver does not tell."""
    level: str
    frame: str
    topics: Mapping[str, int]
    """Numbers of partitions."""
    static: frozenset[str]
    """Members with an instance id."""
    never_owned: str
    """Partitions that nobody ever had, as verdicts write them."""


def recording(truth: Iterable[str | bytes], verdicts: Mapping[str, Any]) -> Recording:
    """What the lines of `truth.jsonl` and the verdicts say of the recording itself."""
    record: dict[str, Any] = {}
    static: set[str] = set()
    for event in map(json.loads, truth):
        if event.get("what") == "scenario":
            record = event
        elif event.get("ev") == "start" and (event.get("conf") or {}).get("group.instance.id"):
            static.add(event["member"])
    client, _, _ = str(record.get("client", "")).partition(" ")
    topics = dict(record["topics"]) if any(one.client == client for one in UNLOGGED) else {}
    level, frame = record.get("client_level") or "", record.get("frame") or ""
    return Recording(client, level, frame, topics, frozenset(static), verdicts.get("never_owned") or "")


@dataclass(frozen=True, slots=True)
class Unlogged:
    """Verdicts of a kind that logs of a client cannot show."""

    client: str
    kinds: tuple[FindingKind, ...]
    why: str
    frame: str = ""
    """Empty where the frame does not matter."""
    when: Callable[[Verdict, Recording], bool] = lambda _verdict, _recording: True


def _of_static_member(verdict: Verdict, recorded: Recording) -> bool:
    return verdict.member in recorded.static


def _of_whole_topic(verdict: Verdict, recorded: Recording) -> bool:
    """Nobody had any partition of the topic."""
    never = recorded.never_owned.count(",") + 1 if recorded.never_owned else 0
    topics = {topic for topic, _ in verdict.partitions}
    return all(
        len([p for p in verdict.partitions if p[0] == topic]) + (never if f"{topic}-[" in recorded.never_owned else 0)
        >= recorded.topics.get(topic, 1)
        for topic in topics
    )


_AT_ONE_TIME = (FindingKind.DOUBLE_OWNERSHIP, FindingKind.UNOWNED_PARTITION)
_NO_CLOCK = "without a clock nobody knows what was at one time"
_NO_SUBSCRIPTION = "subscriptions are not printed, and nobody had any partition of the topic"
UNLOGGED = (
    Unlogged("aiokafka", _AT_ONE_TIME, _NO_CLOCK, frame="basic"),
    Unlogged("kafka-python", _AT_ONE_TIME, _NO_CLOCK, frame="basic"),
    Unlogged("franz-go", _AT_ONE_TIME, _NO_CLOCK, frame="basic-notime"),
    Unlogged(
        "aiokafka",
        (FindingKind.LOST_WITHOUT_CALLBACK,),
        "a static member's stop() prints nothing",
        when=_of_static_member,
    ),
    *(
        Unlogged(client, (FindingKind.UNOWNED_PARTITION,), _NO_SUBSCRIPTION, when=_of_whole_topic)
        for client in ("franz-go", "kafkajs", "sarama")
    ),
)


def mark(verdicts: Iterable[Verdict], recorded: Recording) -> tuple[Verdict, ...]:
    """The verdicts; those that the recording's logs cannot show say why."""
    return tuple(verdict._replace(hidden=verdict.hidden or _why(verdict, recorded)) for verdict in verdicts)


def _why(verdict: Verdict, recorded: Recording) -> str:
    for one in UNLOGGED:
        about = one.client == recorded.client and verdict.kind in one.kinds and one.frame in ("", recorded.frame)
        if about and one.when(verdict, recorded):
            return one.why
    return ""
