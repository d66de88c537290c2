"""Connections of an audit to the brokers of a cluster."""

from __future__ import annotations

from fsm.protocol import messages as m
from fsm.wire import Connection
from fsm.wire.login import PLAINTEXT, Security

CLIENT = "fsm-audit"
TIMEOUT_S = 10.0
REMEDY = "say --tls where it speaks TLS, --user where it wants a login"


class Brokers:
    """One connection to each broker, opened when it is first needed, and again when it was closed.

    Every request raises `PeerError` if the broker cannot be reached or does not answer.
    """

    def __init__(self, host: str, port: int, security: Security = PLAINTEXT) -> None:
        self.addresses: dict[int, tuple[str, int]] = {}
        """Addresses by number, as of the last `describe`."""
        self._bootstrap = host, port
        self._security = security
        self._open: dict[int | None, Connection] = {}

    def describe(self, topics: tuple[m.MetadataRequestTopic, ...] | None = None) -> m.MetadataResponse:
        """The brokers and these topics, by default all, as the bootstrap broker knows them."""
        request = m.MetadataRequest(topics, allow_auto_topic_creation=False)
        found: m.MetadataResponse = self.connect(None).call(request)
        self.addresses = {broker.node_id: (broker.host, broker.port) for broker in found.brokers}
        return found

    def connect(self, number: int | None) -> Connection:
        """The connection to the broker with this number, or to the bootstrap broker."""
        if number not in self._open or self._open[number].is_closed:
            address = self._bootstrap if number is None else self.addresses[number]
            self._open[number] = Connection(*address, CLIENT, TIMEOUT_S, self._security)
        return self._open[number]

    def close(self) -> None:
        """Closes all connections; a request opens one again."""
        for connection in self._open.values():
            connection.close()
        self._open.clear()
