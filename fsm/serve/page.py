"""The live page of `fsm serve`: HTTP on loopback, with a button for each fault.

    GET  /           the page
    GET  /state      groups, members, epochs, targets; ?since=N adds what was exchanged after event N
    POST /do         {"do": "refuse", "error": "FENCED_MEMBER_EPOCH", "member": "..."}, as rules have it

A page of somebody else's cannot press the buttons: a request has to name this host, and to carry the key that only the
page knows.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from secrets import token_urlsafe
from typing import Any, TypeVar
from urllib.parse import parse_qs, urlsplit

from fsm.errors import InputError
from fsm.serve.edge import Edge
from fsm.serve.faults import Do
from fsm.serve.rules import make_rule
from fsm.serve.snapshot import Recent, snapshot

LARGEST_BODY = 1 << 16
ANSWER_S = 10.0
POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'nonce-{nonce}'; connect-src 'self';"
    " frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
)
OF_REQUESTS = {do.value: do for do in Do if do not in (Do.EXPIRE, Do.MOVE, Do.PAUSE, Do.REWRITE)}
MOST_AT_ONCE = 16
"""Requests that are answered at once; who comes then is turned away."""
T = TypeVar("T")


class Page:
    """The page and its server, in a thread of its own."""

    def __init__(self, edge: Edge, recent: Recent, port: int = 0) -> None:
        """Binds to loopback. Raises `InputError` where the port is taken."""
        self.edge, self.recent = edge, recent
        self.key = token_urlsafe(16)
        self._loop = asyncio.get_running_loop()
        try:
            self._server = _Server(("127.0.0.1", port), type("Handler", (_Handler,), {"page": self}))
        except OSError as problem:
            remedy = "choose another --page"
            raise InputError(f"cannot listen: {problem.strerror}", f"127.0.0.1:{port}", remedy) from None
        self.host = f"127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, name="fsm page", daemon=True).start()

    def close(self) -> None:
        """Ends the server."""
        self._server.shutdown()
        self._server.server_close()

    def html(self, nonce: str) -> str:
        """The page; its script runs because it has this nonce."""
        text = files("fsm.serve").joinpath("page.html").read_text(encoding="utf-8")
        return text.replace("{{nonce}}", nonce).replace("{{key}}", self.key)

    def state(self, since: int) -> dict[str, Any]:
        """What there is, and what was exchanged since."""
        brokers = self.edge.brokers
        return self._call(lambda: {**snapshot(brokers, self.edge.clock()), "recent": self.recent.since(since)})

    def do(self, said: dict[str, Any]) -> None:
        """What a button means. Raises `InputError` for what none does."""
        self._call(lambda: self.edge.carry_out(self._act(said) or ()))

    def _act(self, said: dict[str, Any]) -> Any:
        brokers, now_ms = self.edge.brokers, self.edge.clock()
        do, group, member = str(said.get("do")), str(said.get("group", "")), str(said.get("member", ""))
        if do in OF_REQUESTS:
            value = said.get("error") if OF_REQUESTS[do] is Do.REFUSE else said.get("ms")
            brokers.rules.append(make_rule(OF_REQUESTS[do], value, name="page", group=group, member=member))
            return ()
        if do == "expire":
            return brokers.expire(group, member, now_ms)
        if do == "move":
            return brokers.move(group, None, now_ms)
        if do == "pause_ms":
            return brokers.pause(_whole(said.get("ms", 0)), now_ms)
        if do == "heal":
            return brokers.rules.clear()
        raise InputError(f"nothing is called {do!r}", "do")

    def _call(self, act: Callable[[], T]) -> T:
        async def run() -> T:
            return act()

        return asyncio.run_coroutine_threadsafe(run(), self._loop).result(ANSWER_S)


def _whole(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= 3_600_000:
        raise InputError(f"{value!r} is no number of milliseconds up to an hour", "ms")
    return value


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
        """Says nothing of browsers that go away: the terminal belongs to the brokers."""


class _Handler(BaseHTTPRequestHandler):
    server_version = "fsm"
    sys_version = ""
    timeout = ANSWER_S
    page: Page

    def do_GET(self) -> None:
        path = urlsplit(self.path)
        if self._is_foreign():
            return
        if path.path == "/":
            nonce = token_urlsafe(16)
            policy = {"Content-Security-Policy": POLICY.format(nonce=nonce)}
            self._send(200, "text/html; charset=utf-8", self.page.html(nonce), policy)
        elif path.path == "/state":
            since = parse_qs(path.query).get("since", ["0"])[0]
            number = int(since) if since.isascii() and since.isdigit() and len(since) < 16 else 0
            self._send(200, "application/json", json.dumps(self.page.state(number)))
        else:
            self._send(404, "text/plain", "nothing here\n")

    def do_POST(self) -> None:
        length = self.headers.get("Content-Length", "")
        if self._is_foreign():
            return
        if self.path != "/do" or self.headers.get("X-Fsm-Key") != self.page.key:
            self._send(403, "text/plain", "only the page's own buttons\n")
            return
        if not length.isascii() or not length.isdigit() or int(length) > LARGEST_BODY:
            self._send(413, "text/plain", "too long\n")
            return
        try:
            said = json.loads(self.rfile.read(int(length)))
            self.page.do(said if isinstance(said, dict) else {})
        except (InputError, ValueError, RecursionError) as problem:
            self._send(400, "text/plain", f"{problem}\n")
            return
        self._send(200, "application/json", "{}")

    def _is_foreign(self) -> bool:
        """Whether the request names another host, as one does that a foreign page has led here."""
        port = self.page.host.rpartition(":")[2]
        if self.headers.get("Host") in (self.page.host, f"localhost:{port}"):
            return False
        self._send(403, "text/plain", "no such host\n")
        return True

    def _send(self, status: int, kind: str, text: str, more: dict[str, str] | None = None) -> None:
        body = text.encode()
        self.send_response(status)
        headers = {"Content-Type": kind, "Content-Length": str(len(body)), "Cache-Control": "no-store"}
        for name, value in {**headers, "X-Content-Type-Options": "nosniff", **(more or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Says nothing: the terminal belongs to the brokers."""
