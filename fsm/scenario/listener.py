"""The application's rebalance listener in a conversation: what each of its callbacks does.

listener: yes                                        # callbacks return at once
listener: no                                         # subscribe() without one
listener:
  on_partitions_revoked: {raises: disk full}
  on_partitions_assigned: {takes_ms: 4000}           # time passes in `wait` only
  on_partitions_lost: {held: yes}                    # until the step `callback_returns`
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from fsm.member.events import ListenerMethod
from fsm.nodes import Node


@dataclass(frozen=True, slots=True)
class Behaviour:
    """What one callback does."""

    raises: str | None = None
    takes_ms: int = 0
    held: bool = False


AT_ONCE = Behaviour()


@dataclass(frozen=True, slots=True)
class Listener:
    """The callbacks by their method."""

    behaviours: Mapping[ListenerMethod, Behaviour] = field(default_factory=dict)

    def of(self, method: ListenerMethod) -> Behaviour:
        """What this callback does."""
        return self.behaviours.get(method, AT_ONCE)


def listener_of(node: Node | None) -> Listener | None:
    """Reads the setting; nothing said means a listener that returns at once. Raises `InputError` with the line."""
    if node is None:
        return Listener()
    if isinstance(node.value, str):
        return Listener() if node.flag() else None
    methods = {method.value: method for method in ListenerMethod}
    return Listener({methods[name]: _behaviour(value) for name, value in node.fields(tuple(methods)).items()})


def _behaviour(node: Node) -> Behaviour:
    given = node.fields(("raises", "takes_ms", "held"))
    return Behaviour(
        raises=given["raises"].text() if "raises" in given else None,
        takes_ms=given["takes_ms"].number() if "takes_ms" in given else 0,
        held="held" in given and given["held"].flag(),
    )
