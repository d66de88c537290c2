"""Frames as requests, in the versions that are spoken. A heartbeat that says what it said before is read once.

Members say the same for as long as nothing happens, but for the number of the request.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from fsm.errors import InputError
from fsm.protocol.codec import RequestHeader, decode_header, decode_request
from fsm.protocol.messages import APIS

REPEATED = frozenset(APIS[name].key.to_bytes(2, "big") for name in ("ConsumerGroupHeartbeat", "Heartbeat"))
"""How requests begin that are remembered."""
SHORT = 256
"""Bytes of a frame that is remembered, at most."""
MOST_REMEMBERED = 20_000
"""Requests that are remembered, some 700 bytes each; after that all are forgotten."""


class Read(NamedTuple):
    """A request with its header."""

    header: RequestHeader
    request: Any


class Requests:
    """Reads frames."""

    def __init__(self, versions: Mapping[int, tuple[int, int]]) -> None:
        """`versions` has the oldest and newest version of each API that is spoken, by its key."""
        self._versions = versions
        self._known: dict[bytes, Read] = {}

    def read(self, frame: bytes) -> Read | None:
        """Header and request; None where they cannot be read, or are of a version that is not spoken."""
        if frame[:2] not in REPEATED or len(frame) > SHORT:
            return self._decode(frame)
        said = frame[:4] + frame[8:]
        known = self._known.get(said)
        if known is not None:
            key, version, _, client_id = known.header
            number = int.from_bytes(frame[4:8], "big", signed=True)
            return Read(RequestHeader(key, version, number, client_id), known.request)
        found = self._decode(frame)
        if found is not None:
            if len(self._known) >= MOST_REMEMBERED:
                self._known.clear()
            self._known[said] = found
        return found

    def _decode(self, frame: bytes) -> Read | None:
        try:
            header, request = decode_request(frame)
        except InputError:
            return None
        low, high = self._versions.get(header.api_key, (0, -1))
        return Read(header, request) if low <= header.api_version <= high else None


def read_header(frame: bytes) -> RequestHeader | None:
    """The header of any request; None where there is none."""
    try:
        return decode_header(frame)
    except InputError:
        return None
