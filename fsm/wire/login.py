"""TLS, and a login with SASL/PLAIN: what a client says before anything else. No socket here.

Both requests stand outside `fsm.protocol.messages`, so that no trace and no capture ever reads a password.

Source: `SaslHandshakeRequest.json`, `SaslAuthenticateRequest.json`; KIP-43, KIP-152; RFC 4616.
"""

from __future__ import annotations

import ssl
import struct
from collections.abc import Generator
from typing import NamedTuple

MECHANISM = "PLAIN"
LONGEST_ANSWER = 1 << 16
"""Bytes of an answer to a login; a longer one is none."""
_HANDSHAKE, _AUTHENTICATE = (17, 1), (36, 0)
"""Keys and versions: of the first the one that leads to the second, before which tokens stood in no frame."""


class Security(NamedTuple):
    """How a listener wants to be spoken to."""

    tls: ssl.SSLContext | None = None
    user: str = ""
    """Who logs in; empty for nobody."""
    password: str = ""


PLAINTEXT = Security()
Login = Generator[bytes, bytes, str]
"""Requests, each with its length before it, are taken out and their answers, without it, put in."""


def log_in(security: Security, client_id: str) -> Login:
    """What a login says. It gives why it is refused, or nothing."""
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
