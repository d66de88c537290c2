"""Brokers with separate addresses for each client, which identify a client under any client id.

Its requests get its name as client id, and answers with broker addresses have its own ones.
"""

from __future__ import annotations

from typing import Any

from fsm.serve.brokers import Brokers
from fsm.serve.edge import Edge
from fsm.serve.effects import Effect

HOST = "127.0.0.1"
DOOR = 1 << 16
"""The factor of a client's number in a number that combines it with a broker's."""
CLIENT_ID_AT = 8
"""The position of the client id in a request: after API, version and correlation id."""


class NamedBrokers(Brokers):
    """Brokers that know the client of each connection."""

    def __init__(self, *given: Any, **named: Any) -> None:
        """The arguments are those of `Brokers`."""
        super().__init__(*given, **named)
        self.clients: dict[int, tuple[str, dict[int, tuple[str, int]]]] = {}
        """The client's name and its addresses of brokers, by connection."""
        self.doors: list[tuple[str, dict[int, tuple[str, int]]]] = [("", self.cluster.endpoints)]
        """The client's name and its addresses, by the number of its listeners."""

    def connect(self, number: int, broker: int, peer: str, now_ms: float) -> None:
        """Notes the client of a new connection by its listener."""
        door, broker = divmod(broker, DOOR)
        super().connect(number, broker, peer, now_ms)
        self.clients[number] = self.doors[door]

    def receive(self, number: int, frame: bytes, now_ms: float) -> tuple[Effect, ...]:
        """Takes a frame, with the client's name as client id."""
        return super().receive(number, rename(frame, self.clients[number][0]), now_ms)

    def _serve(self, asked: Any, now_ms: float) -> None:
        before = self.cluster.endpoints
        self.cluster.endpoints = self.clients[asked.connection.number][1]
        try:
            super()._serve(asked, now_ms)
        finally:
            self.cluster.endpoints = before


class NamedEdge(Edge):
    """Listens at separate addresses for each client."""

    brokers: NamedBrokers

    def open_door(self, client: str) -> int:
        """Opens addresses for one client; returns the first broker's port."""
        endpoints: dict[int, tuple[str, int]] = {}
        self.brokers.doors.append((client, endpoints))
        for broker in sorted(self.brokers.cluster.endpoints):
            door = (len(self.brokers.doors) - 1) * DOOR + broker
            endpoints[broker] = (HOST, self.listen(door, HOST))
        return endpoints[1][1]


def rename(frame: bytes, client_id: str) -> bytes:
    """The frame of a request with another client id in its header.

    >>> rename(bytes(8) + b"\\0\\2me" + b"rest", "A")[8:]
    b'\\x00\\x01Arest'
    """
    begin = CLIENT_ID_AT + 2
    size = max(int.from_bytes(frame[CLIENT_ID_AT:begin], "big", signed=True), 0)
    if len(frame) < begin + size:
        return frame
    name = client_id.encode()
    return frame[:CLIENT_ID_AT] + len(name).to_bytes(2, "big") + name + frame[begin + size :]
