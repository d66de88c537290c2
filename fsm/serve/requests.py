"""Requests: the decoding of frames, in the supported versions, and what a response depends on besides.

A repeated heartbeat is decoded once: without events, heartbeats of a member differ only in the correlation id.

Source of the versions: `ApiKeys.apisForListener(BROKER)` of kafka-clients 4.0.0, 4.0.1, 4.1.0, 4.1.1, 4.2.0, 4.3.0,
4.3.1 and 4.4.0, without versions that are not stable.
"""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Any, NamedTuple

from fsm.errors import InputError
from fsm.protocol.codec import RequestHeader, decode_header, decode_request
from fsm.protocol.messages import APIS
from fsm.protocol.releases import RELEASES, split_dialect

NEWEST: Mapping[str, Mapping[str, int]] = {
    "ApiVersions": {"4.0.0": 4, "4.4.0": 5},
    "DeleteGroups": {"4.0.0": 2, "4.4.0": 3},
    "Fetch": {"4.0.0": 17, "4.1.0": 18},
    "InitProducerId": {"4.0.0": 5},
    "ListConfigResources": {"4.0.0": 0, "4.1.0": 1},
    "ListOffsets": {"4.0.0": 10, "4.2.0": 11},
    "OffsetCommit": {"4.0.0": 9, "4.2.0": 10},
    "OffsetFetch": {"4.0.0": 9, "4.2.0": 10},
    "Produce": {"4.0.0": 12, "4.1.0": 13},
}
"""The newest version of each API, from a release on, if it is not the newest one known here."""
OLDEST: Mapping[str, Mapping[str, int]] = {"JoinGroup": {"4.0.0": 2, "4.0.1": 0}, "Produce": {"4.0.0": 0}}
"""The oldest version. Versions 0 to 2 of Produce are advertised, as by brokers of 4.4.0, but not supported."""
NOT_SUPPORTED = frozenset({"TxnOffsetCommit", "AddOffsetsToTxn", "EndTxn"})
"""Requests of transactions, which the codec knows but these brokers do not support."""
REPEATED = frozenset(APIS[name].key.to_bytes(2, "big") for name in ("ConsumerGroupHeartbeat", "Heartbeat"))
"""The first bytes of cached requests."""
SHORT = 256
"""The maximum size of a cached frame."""
MOST_REMEMBERED = 20_000
"""The maximum number of cached requests, some 700 bytes each; above it the cache is cleared."""


class Read(NamedTuple):
    """A request with its header."""

    header: RequestHeader
    request: Any


class Requests:
    """The decoder of frames, with its cache."""

    def __init__(self, versions: Mapping[int, tuple[int, int]]) -> None:
        """`versions` has the oldest and newest supported version of each API, by its key."""
        self._versions = versions
        self._known: dict[bytes, Read] = {}

    def read(self, frame: bytes) -> Read | None:
        """Header and request; None if they cannot be decoded, or have an unsupported version."""
        if frame[:2] not in REPEATED or len(frame) > SHORT:
            return self._decode(frame)
        content = frame[:4] + frame[8:]
        known = self._known.get(content)
        if known is not None:
            key, version, _, client_id = known.header
            number = int.from_bytes(frame[4:8], "big", signed=True)
            return Read(RequestHeader(key, version, number, client_id), known.request)
        found = self._decode(frame)
        if found is not None:
            if len(self._known) >= MOST_REMEMBERED:
                self._known.clear()
            self._known[content] = found
        return found

    def _decode(self, frame: bytes) -> Read | None:
        try:
            header, request = decode_request(frame)
        except InputError:
            return None
        low, high = self._versions.get(header.api_key, (0, -1))
        return Read(header, request) if low <= header.api_version <= high else None


def read_header(frame: bytes) -> RequestHeader | None:
    """The header of any request; None for invalid bytes."""
    try:
        return decode_header(frame)
    except InputError:
        return None


def list_versions(release: str) -> dict[int, tuple[int, int]]:
    """The oldest and the newest version of each API by its key; an unknown release counts as the latest."""
    release, _ = split_dialect(release)
    till = RELEASES[: RELEASES.index(release) + 1] if release in RELEASES else RELEASES

    def pick(since: Mapping[str, int], otherwise: int) -> int:
        return next((since[one] for one in reversed(till) if one in since), otherwise)

    return {
        api.key: (pick(OLDEST.get(name, {}), api.oldest), pick(NEWEST.get(name, {}), api.newest))
        for name, api in sorted(APIS.items())
        if name not in NOT_SUPPORTED
    }


class RequestContext(NamedTuple):
    """The inputs of a response besides the request."""

    token: int
    """Identifies the request, whose answer may be sent later."""
    broker: int
    connection: int
    """The number of the connection; a later one has a higher number."""
    client_id: str
    client_host: str
    """The client's host as Kafka prints it: `/127.0.0.1`."""
    version: int
    now_ms: float
    random: Random
    """The source of new ids."""
