"""HTTP on loopback for a page: checks who may request; the page defines the answers.

Foreign pages are refused: a request has to name this host, and one that changes something, or takes work, has to carry
the key that only the page knows.
"""

from __future__ import annotations

import json
import threading
from abc import abstractmethod
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from secrets import token_urlsafe
from typing import Any

from fsm.errors import FsmError, refuse_os_errors

ANSWER_S = 10.0
"""The timeout of a request of a browser."""
MOST_AT_ONCE = 16
"""The maximum number of concurrent requests; further ones are refused."""
KEY = "X-Fsm-Key"


class Loopback(ThreadingHTTPServer):
    """The server of a page on 127.0.0.1."""

    daemon_threads = True

    def __init__(self, port: int, handler: type[Handler], option: str) -> None:
        """Binds. Raises `InputError` with the name of the option if the port is taken."""
        self.key = token_urlsafe(16)
        self._room = threading.BoundedSemaphore(MOST_AT_ONCE)
        with refuse_os_errors("cannot listen", f"127.0.0.1:{port}", f"choose another {option}"):
            super().__init__(("127.0.0.1", port), handler)
        self.host = f"127.0.0.1:{self.server_port}"

    def process_request(self, request: Any, client_address: Any) -> None:
        """Starts a thread for a request, up to the limit."""
        if self._room.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Handles a request, then releases its slot."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._room.release()

    def handle_error(self, *_: Any) -> None:
        """Ignores browsers that disconnect."""


class Handler(BaseHTTPRequestHandler):
    """One request of the page."""

    server_version = "fsm"
    sys_version = ""
    timeout = ANSWER_S
    server: Loopback

    def do_GET(self) -> None:
        """Answers a GET of the page."""
        self._take(self.get)

    def do_POST(self) -> None:
        """Answers a POST of the page."""
        self._take(self.post)

    @abstractmethod
    def get(self) -> None:
        """The answer to a GET. Raises `RefusedError` or `FsmError` for an unknown path."""

    @abstractmethod
    def post(self) -> None:
        """The answer to a POST, whose body is for `read_json`."""

    def _take(self, answer: Callable[[], None]) -> None:
        """Answers a request if it names this host; those of a foreign page name another one."""
        if self.headers.get("Host") not in (self.server.host, f"localhost:{self.server.server_port}"):
            self.fail(403, "unknown host")
            return
        try:
            answer()
        except RefusedError as problem:
            self.fail(problem.status, str(problem))
        except (FsmError, ValueError) as problem:
            self.fail(400, str(problem))

    def read_json(self, longest: int) -> dict[str, Any]:
        """The body of a POST of the page. Raises `RefusedError` for one of another origin, and for invalid JSON."""
        length = self.headers.get("Content-Length", "")
        if self.headers.get(KEY) != self.server.key:
            raise RefusedError(403, "only the page itself may send this")
        if not length.isascii() or not length.isdigit() or int(length) > longest:
            raise RefusedError(413, "too long")
        try:
            document = json.loads(self.rfile.read(int(length)))
        except (ValueError, RecursionError) as problem:
            raise RefusedError(400, f"not JSON: {problem}") from None
        return document if isinstance(document, dict) else {}

    def fail(self, status: int, why: str) -> None:
        """Answers with an error."""
        self.send(status, "text/plain", f"{why}\n")

    def send(self, status: int, kind: str, text: str, more: Mapping[str, str] | None = None) -> None:
        """Sends the answer."""
        body = text.encode()
        self.send_response(status)
        headers = {"Content-Type": kind, "Content-Length": str(len(body)), "Cache-Control": "no-store"}
        for name, value in {**headers, "X-Content-Type-Options": "nosniff", **(more or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Logs nothing: the terminal belongs to the command."""


class RefusedError(Exception):
    """A request that is not answered."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status
