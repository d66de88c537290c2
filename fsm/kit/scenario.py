"""Scenarios as data: brokers, clients, commands and faults.

A scenario is played by `fsm.kit.play`: its steps one after the other, then every client is closed.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from fsm.kit.client_history import CONSUMER
from fsm.protocol.error_codes import ErrorCode
from fsm.serve.faults import Do, Rule

GROUP = "g1"
A, B, C = "A", "B", "C"
SESSION_MS, INTERVAL_MS = 6_000, 1_000
BEAT, JOIN, SYNC, CLASSIC_BEAT, LEAVE = "ConsumerGroupHeartbeat", "JoinGroup", "SyncGroup", "Heartbeat", "LeaveGroup"
SETTINGS = {
    "group.consumer.session.timeout.ms": str(SESSION_MS),
    "group.consumer.min.session.timeout.ms": "3000",
    "group.consumer.heartbeat.interval.ms": str(INTERVAL_MS),
    "group.consumer.min.heartbeat.interval.ms": "500",
    "group.min.session.timeout.ms": "1000",
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.assignment.interval.ms": "0",
    "group.consumer.min.assignment.interval.ms": "0",
}
"""Short times, so that a scenario takes seconds."""


class Options(NamedTuple):
    """The options of a client, which its adapter gets."""

    topics: str = "foo,bar"
    assignor: str = ""
    instance: str = ""
    session_ms: int = SESSION_MS
    max_poll_ms: int = 300_000
    revoke_delay_ms: int = 0
    """How long its revoked callback takes."""
    assign_delay_ms: int = 0

    def arguments(self, bootstrap: str, protocol: str, group: str = GROUP) -> list[str]:
        """The options as the command line of an adapter."""
        given: dict[str, Any] = {
            "bootstrap": bootstrap,
            "group": group,
            "topics": self.topics,
            "protocol": protocol,
            "assignor": self.assignor,
            "instance": self.instance,
            "session-ms": self.session_ms,
            "max-poll-ms": self.max_poll_ms,
            "revoke-delay-ms": self.revoke_delay_ms or "",
            "assign-delay-ms": self.assign_delay_ms or "",
        }
        return [word for name, value in given.items() if value != "" for word in (f"--{name}", str(value))]


class Start(NamedTuple):
    """Starts a client."""

    client: str = A
    options: Options = Options()


class Stable(NamedTuple):
    """Waits until the group has so many members that own every partition, up to a timeout."""

    members: int = 1
    within_s: float = 14.0


class Members(NamedTuple):
    """Waits until the group has so many members, whatever they own."""

    members: int
    within_s: float = 14.0


class Wait(NamedTuple):
    """Waits for a time."""

    seconds: float


class Fault(NamedTuple):
    """Injects a fault into requests from now on."""

    rule: Rule


class NoFaults(NamedTuple):
    """Removes all faults."""


class Command(NamedTuple):
    """Sends a command to a client."""

    line: str
    client: str = A


class Topic(NamedTuple):
    """Creates a topic, adds partitions to it, or deletes it (0)."""

    name: str
    partitions: int


class Expire(NamedTuple):
    """Ends the sessions of all members."""


class Move(NamedTuple):
    """Moves the group to another coordinator, or reloads it."""


class Kill(NamedTuple):
    """Kills a client's process."""

    client: str = A


class Close(NamedTuple):
    """Closes a client and waits for its end."""

    client: str = A


class UnknownTopic(NamedTuple):
    """The next heartbeats of A additionally assign a partition of a topic id that no broker knows."""

    without: str = ""
    """A topic that is taken away with the same answer."""


class UnstableOffsets(NamedTuple):
    """The next answers to OffsetFetch of A have UNSTABLE_OFFSET_COMMIT for every partition."""

    times: int = 2


Step = (
    Start
    | Stable
    | Members
    | Wait
    | Fault
    | NoFaults
    | Command
    | Topic
    | Expire
    | Move
    | Kill
    | Close
    | UnknownTopic
    | UnstableOffsets
)


class Scenario(NamedTuple):
    """A scenario: its brokers, its clients and its steps."""

    name: str
    about: str
    """One sentence."""
    steps: tuple[Step, ...]
    protocol: str = CONSUMER
    topics: Mapping[str, int] = MappingProxyType({"foo": 4, "bar": 4})
    settings: Mapping[str, str] = MappingProxyType({})
    brokers: int = 1
    hidden: tuple[str, ...] = ()
    """APIs that the brokers do not have."""
    records_a_second: float = 2.0
    group: str = GROUP


def refuse(code: ErrorCode, api: str = BEAT, **conditions: Any) -> Fault:
    """Requests of A are refused."""
    return disturb(Do.REFUSE, api, code=code, **conditions)


def disturb(do: Do, api: str = BEAT, **conditions: Any) -> Fault:
    """This happens to requests of A."""
    return Fault(Rule(do, client=A, api=api, **conditions))
