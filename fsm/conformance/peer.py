"""What the walker needs of whoever answers: requests from several clients, answers when they come, log, description."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

from fsm.conformance.follower import Expectation
from fsm.conformance.recording import Admin, Asked, Response


class Observed(NamedTuple):
    """What one step showed."""

    responses: tuple[Response, ...]
    records: tuple[Mapping[str, Any], ...]
    described: Mapping[str, Any] | None


class Peer(Protocol):
    """A coordinator that may be asked: a broker on a socket, or our own in this process."""

    @property
    def release(self) -> str:
        """The dialect it is held against."""

    @property
    def settings(self) -> Mapping[str, str]:
        """The broker settings that rule groups, by Kafka's names."""

    @property
    def topics(self) -> Mapping[str, Admin]:
        """What there is when the walk begins."""

    @property
    def keeps_log(self) -> bool:
        """Whether its records can be read."""

    @property
    def unspoken(self) -> Mapping[str, str]:
        """Requests it cannot speak, and why."""

    def now_ms(self) -> int:
        """The walk's clock."""

    def begin(self, group: str) -> str:
        """A walk begins, of this group; of another one if the peer knows it already. Gives the group's name."""

    def ask(self, n: int, asked: Asked, expected: Expectation) -> Observed:
        """Sends the request of step `n`, and waits for what it is going to bring, though not for ever."""

    def wait(self, wait_ms: int) -> Observed:
        """Lets time pass."""

    def administer(self, action: str, topic: str, partitions: int) -> Admin:
        """Creates, grows or deletes a topic, and waits until the metadata shows it."""

    def close(self) -> None:
        """Gives back what it holds."""
