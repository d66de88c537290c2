"""The last events of a cluster, to explain a violation: as lines, and as a diagram.

Messages are kept as values; they are formatted only on request.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from fsm.coordinator.model.classic_group import ClassicGroup
from fsm.coordinator.model.consumer_group import ConsumerGroup
from fsm.coordinator.model.groups import Group
from fsm.protocol.assignment import TopicId
from fsm.protocol.codec import API_OF
from fsm.protocol.json_form import to_recorded
from fsm.render.sequence import Arrow, Diagram, Look, Part

COORDINATOR = "coordinator"
KEPT = 4_000
"""How many events are kept."""
SILENT = frozenset({"group_id", "protocol_type", "throttle_time_ms", "reason", "committed_leader_epoch"})
"""Fields that are left out."""


class Event(NamedTuple):
    """An event of a cluster."""

    at_ms: int
    source: str
    target: str
    """The target; the same as the source if it concerns that one alone."""
    what: str
    body: Any = None
    """A message, or the group from here on."""
    lost: bool = False


@dataclass
class Story:
    """The last events."""

    names: Mapping[TopicId, str]
    events: deque[Event] = field(default_factory=lambda: deque(maxlen=KEPT))

    def add(self, event: Event) -> None:
        self.events.append(event)

    def last(self, count: int, concerned: Collection[str] = ()) -> list[Event]:
        """The last ones, of these clients and the coordinator alone if any are named."""
        wanted = {*concerned, COORDINATOR} if concerned else set()
        found = [e for e in self.events if not wanted or {e.source, e.target} <= wanted]
        return found[-count:]

    def text(self, count: int = 40, concerned: Collection[str] = ()) -> str:
        """The last ones, a line each."""
        return "\n".join(self._line(event) for event in self.last(count, concerned))

    def _line(self, event: Event) -> str:
        who = event.source if event.source == event.target else f"{event.source} -> {event.target}"
        return f"{event.at_ms:>7} ms  {who}: {self.describe(event)}"

    def describe(self, event: Event) -> str:
        """The text of an event, without empty fields."""
        if isinstance(event.body, ConsumerGroup | ClassicGroup):
            return f"{event.what} {_in_a_line(event.body)}"
        fields = None if event.body is None else to_recorded(event.body, version_of(event.body))
        text = "" if fields is None else " " + ", ".join(self._fields(fields))
        return event.what + text + (" (lost)" if event.lost else "")

    def _fields(self, body: Mapping[str, Any]) -> Iterator[str]:
        for key, value in body.items():
            if key not in SILENT and value not in (None, "", (), []):
                yield f"{key}={self._value(key, value)}"

    def _value(self, key: str, value: Any) -> str:
        if key == "assignment" and isinstance(value, Mapping):
            return self._value("topic_partitions", value["topic_partitions"])
        if key == "topic_partitions":
            return " ".join(f"{self.names[t['topic_id']]}{[*t['partitions']]}" for t in value) or "none"
        if isinstance(value, Sequence) and not isinstance(value, str):
            return f"[{', '.join(self._value('', one) for one in value)}]"
        return f"{{{', '.join(self._fields(value))}}}" if isinstance(value, Mapping) else str(value)

    def diagram(self, title: str, count: int = 40, concerned: Collection[str] = ()) -> Diagram:
        """The last ones as a sequence diagram: `fsm.render.sequence.svg` draws it."""
        events = self.last(count, concerned)
        lanes = dict.fromkeys(name for event in events for name in (event.source, event.target))
        others = tuple(sorted(name for name in lanes if name != COORDINATOR))
        return Diagram(title, (*others, COORDINATOR), (Part("last events", tuple(map(self._arrow, events))),))

    def _arrow(self, event: Event) -> Arrow:
        look = Look.RAISE if event.lost else Look.NOTE if event.source == event.target else Look.CALL
        return Arrow(event.source, event.target, f"{event.at_ms} ms: {self.describe(event)}", look)


def version_of(message: Any) -> int:
    """The newest version of a request or response in which topics have names: later ones have ids (KIP-848)."""
    return min(API_OF[type(message)].newest, 9)


def _in_a_line(group: Group) -> str:
    if isinstance(group, ClassicGroup):
        return f"classic group {group.state.name}, generation {group.generation}: {', '.join(group.members)}"
    members = (f"{m.member_id} {m.current.state.name} at {m.epoch}" for m in group.members.values())
    return f"consumer group {group.state.name}, epoch {group.epoch}, target {group.target_epoch}: {', '.join(members)}"
