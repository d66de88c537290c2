"""TLS, and a login with SASL/PLAIN: the first requests of a client, without the socket.

Both requests are outside `fsm.protocol.messages`, so that no trace and no capture ever reads a password.

Source: `SaslHandshakeRequest.json`, `SaslAuthenticateRequest.json`; KIP-43, KIP-152; RFC 4616.
"""

from __future__ import annotations

import ssl
import struct
from collections.abc import Generator
from typing import NamedTuple

MECHANISM = "PLAIN"
LONGEST_ANSWER = 1 << 16
"""The maximum size of an answer to a login."""
_HANDSHAKE, _AUTHENTICATE = (17, 1), (36, 0)
"""Keys and versions; before this version of the first, tokens were sent outside frames."""


class Security(NamedTuple):
    """The security settings of a listener."""

    tls: ssl.SSLContext | None = None
    user: str = ""
    """The user of the login; empty for none."""
    password: str = ""


PLAINTEXT = Security()
Login = Generator[bytes, bytes, str]
"""Yields requests with their length prefix, and is sent their answers without it."""


def log_in(security: Security, client_id: str) -> Login:
    """The requests of a login. Returns the reason of a refusal, or an empty text."""
    answer = yield _frame(*_HANDSHAKE, client_id, _string(MECHANISM))
    try:
        (code,) = struct.unpack_from(">4xh", answer)
        if code:
            return f"it takes no login with {MECHANISM}"
        token = b"\0".join((b"", security.user.encode(), security.password.encode()))
        answer = yield _frame(*_AUTHENTICATE, client_id, struct.pack(">i", len(token)) + token)
        code, length = struct.unpack_from(">4xhh", answer)
    except struct.error:
        return "its answer to the login cannot be read"
    if not code:
        return ""
    why = answer[8 : 8 + max(0, length)].decode(errors="replace")
    return f"the login of {security.user} is refused" + (f": {why}" if why else "")


def _frame(key: int, version: int, client_id: str, body: bytes) -> bytes:
    data = struct.pack(">hhi", key, version, 0) + _string(client_id) + body
    return struct.pack(">i", len(data)) + data


def _string(text: str) -> bytes:
    data = text.encode()
    return struct.pack(">h", len(data)) + data
