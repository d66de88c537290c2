"""What is explored, on loopback: the page, and the documents that it asks for.

    GET   /                                        the page
    GET   /opening.json                            what there is, and where it begins
    GET   /steps.json?from=0&count=500             steps of what was loaded
    GET   /loaded.json                             where that leads in the model
    GET   /at.json?path=0.3.1&known=2              a path: its steps beyond the known ones, and what may happen then
    POST  /at.json      {"path": "0.3.1", "known": 2}    the same, for a path that is too long for an address
    POST  /check.json   {"path": "0.3.1", "disturb": ["crash"], "disturbances": 1, "max_states": 200000}

A page of somebody else's cannot ask: a request has to name this host, and one that makes the server work has to carry
the key that only the page knows.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from secrets import token_urlsafe
from typing import Any
from urllib.parse import parse_qs, urlsplit

from fsm.errors import FsmError, InputError
from fsm.explore.documents import Document, Session, read_number, read_path

LARGEST_BODY = 1 << 20
ANSWER_S = 10.0
MOST_AT_ONCE = 16
"""Requests that are answered at once; who comes then is turned away."""
POLICY = "frame-ancestors 'none'; base-uri 'none'; form-action 'none'; object-src 'none'"
"""What the page itself says besides in its head: which style and script it has, and that it asks nobody else."""


class Explorer:
    """The server of one session. It answers one question after the other, but for a check, which takes its time."""

    def __init__(self, session: Session, page: Callable[[str], str], port: int = 0) -> None:
        """Binds to loopback; `page` gives the page with the key. Raises `InputError` where the port is taken."""
        self.session, self.page, self.key = session, page, token_urlsafe(16)
        self.asking, self.checking = threading.Lock(), threading.Lock()
        try:
            self._server = _Server(("127.0.0.1", port), type("Handler", (_Handler,), {"explorer": self}))
        except OSError as problem:
            where, remedy = f"127.0.0.1:{port}", "choose another --port"
            raise InputError(f"cannot listen: {problem.strerror}", where, remedy) from None
        self.host = f"127.0.0.1:{self._server.server_port}"

    @property
    def url(self) -> str:
        """Where the page is."""
        return f"http://{self.host}/"

    def serve(self) -> None:
        """Answers until it is interrupted, or closed by another thread."""
        try:
            self._server.serve_forever()
        finally:
            self._server.server_close()

    def close(self) -> None:
        """Ends the server, which another thread runs."""
        self._server.shutdown()

    def answer(self, path: str, asked: Mapping[str, Any]) -> Document | None:
        """The document that a path and its questions stand for; None for no such path. Raises `FsmError`."""
        with self.asking:
            match path:
                case "/opening.json":
                    return self.session.opening()
                case "/steps.json":
                    return self.session.steps(read_number(asked, "from", 0), read_number(asked, "count", 500))
                case "/loaded.json":
                    return self.session.loaded()
                case "/at.json":
                    return self.session.at(read_path(asked.get("path", "")), read_number(asked, "known", 0))
        return None


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, *given: Any) -> None:
        self._room = threading.BoundedSemaphore(MOST_AT_ONCE)
        super().__init__(*given)

    def process_request(self, request: Any, client_address: Any) -> None:
        if self._room.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._room.release()

    def handle_error(self, *_: Any) -> None:
        """Says nothing of browsers that go away."""


class _Handler(BaseHTTPRequestHandler):
    server_version = "fsm"
    sys_version = ""
    timeout = ANSWER_S
    explorer: Explorer

    def do_GET(self) -> None:
        if self._is_foreign():
            return
        asked = urlsplit(self.path)
        if asked.path == "/":
            text = self.explorer.page(self.explorer.key)
            self._send(200, "text/html; charset=utf-8", text, {"Content-Security-Policy": POLICY})
        else:
            self._answer(asked.path, {name: found[-1] for name, found in parse_qs(asked.query).items()})

    def do_POST(self) -> None:
        if self._is_foreign():
            return
        length = self.headers.get("Content-Length", "")
        if self.headers.get("X-Fsm-Key") != self.explorer.key:
            self._fail(403, "only the page itself may ask that")
        elif not length.isascii() or not length.isdigit() or int(length) > LARGEST_BODY:
            self._fail(413, "too long")
        else:
            try:
                said = json.loads(self.rfile.read(int(length)))
            except (ValueError, RecursionError):
                self._fail(400, "not JSON")
                return
            self._answer(self.path, said if isinstance(said, dict) else {})

    def _answer(self, path: str, asked: Mapping[str, Any]) -> None:
        try:
            found = self.explorer.answer(path, asked)
        except FsmError as problem:
            self._fail(400, str(problem))
            return
        if found is None:
            self._fail(404, "nothing here")
        else:
            self._send(200, "application/json", json.dumps(found))

    def _fail(self, status: int, why: str) -> None:
        self._send(status, "application/json", json.dumps({"error": why}))

    def _is_foreign(self) -> bool:
        """Whether the request names another host, as one does that a foreign page has led here."""
        port = self.explorer.host.rpartition(":")[2]
        if self.headers.get("Host") in (self.explorer.host, f"localhost:{port}"):
            return False
        self._fail(403, "no such host")
        return True

    def _send(self, status: int, kind: str, text: str, more: Mapping[str, str] | None = None) -> None:
        body = text.encode()
        self.send_response(status)
        headers = {"Content-Type": kind, "Content-Length": str(len(body)), "Cache-Control": "no-store"}
        for name, value in {**headers, "X-Content-Type-Options": "nosniff", **(more or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Says nothing."""
