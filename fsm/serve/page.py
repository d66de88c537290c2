"""The live page of `fsm serve`: HTTP on loopback, with a button for each fault.

    GET  /           the page
    GET  /state      groups, members, epochs, targets; ?since=N adds what was exchanged after event N
    POST /do         {"do": "refuse", "error": "FENCED_MEMBER_EPOCH", "member": "..."}, as rules have it

`fsm.serve.loopback` checks that requests come from the page itself.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable
from importlib.resources import files
from secrets import token_urlsafe
from typing import Any, TypeVar
from urllib.parse import parse_qs, urlsplit

from fsm.errors import InputError
from fsm.serve.edge import Edge
from fsm.serve.faults import Do
from fsm.serve.loopback import ANSWER_S, Handler, Loopback, RefusedError
from fsm.serve.rules import make_rule
from fsm.serve.snapshot import Recent, snapshot

LARGEST_BODY = 1 << 16
POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'nonce-{nonce}'; connect-src 'self';"
    " frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
)
OF_REQUESTS = {do.value: do for do in Do if do not in (Do.EXPIRE, Do.MOVE, Do.PAUSE)}
VALUES = {Do.REFUSE: "error", Do.REWRITE: "fields"}
"""The name of a fault's value; `ms` by default."""
T = TypeVar("T")


class Page:
    """The page and its server, in its own thread."""

    def __init__(self, edge: Edge, recent: Recent, port: int = 0) -> None:
        """Binds to loopback. Raises `InputError` where the port is taken."""
        self.edge, self.recent = edge, recent
        self._loop = asyncio.get_running_loop()
        self._server = Loopback(port, type("Handler", (_Handler,), {"page": self}), "--page")
        self.key, self.host = self._server.key, self._server.host
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
        """The snapshot of the brokers, and the exchanges since a number."""
        brokers = self.edge.brokers
        return self._call(lambda: {**snapshot(brokers, self.edge.clock()), "recent": self.recent.since(since)})

    def do(self, request: dict[str, Any]) -> None:
        """Carries out the action of a button. Raises `InputError` for an unknown one."""
        self._call(lambda: self.edge.carry_out(self._act(request) or ()))

    def _act(self, request: dict[str, Any]) -> Any:
        brokers, now_ms = self.edge.brokers, self.edge.clock()
        do, group, member = str(request.get("do")), str(request.get("group", "")), str(request.get("member", ""))
        if do in OF_REQUESTS:
            value = request.get(VALUES.get(OF_REQUESTS[do], "ms"))
            if OF_REQUESTS[do] is Do.REWRITE and not isinstance(value, dict):
                raise InputError("must name the fields", "rewrite")
            api = {"api": str(request["api"])} if "api" in request else {}
            brokers.rules.append(make_rule(OF_REQUESTS[do], value, name="page", group=group, member=member, **api))
            return ()
        if do == "expire":
            return brokers.expire(group, member, now_ms)
        if do == "move":
            return brokers.move(group, None, now_ms)
        if do == "pause_ms":
            return brokers.pause(_integer(request.get("ms", 0)), now_ms)
        if do == "heal":
            return brokers.rules.clear()
        raise InputError(f"unknown action {do!r}", "do")

    def _call(self, act: Callable[[], T]) -> T:
        async def run() -> T:
            return act()

        return asyncio.run_coroutine_threadsafe(run(), self._loop).result(ANSWER_S)


def _integer(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= 3_600_000:
        raise InputError(f"{value!r} is not a number of milliseconds up to an hour", "ms")
    return value


class _Handler(Handler):
    page: Page

    def get(self) -> None:
        path = urlsplit(self.path)
        if path.path == "/":
            nonce = token_urlsafe(16)
            policy = {"Content-Security-Policy": POLICY.format(nonce=nonce)}
            self.send(200, "text/html; charset=utf-8", self.page.html(nonce), policy)
        elif path.path == "/state":
            since = parse_qs(path.query).get("since", ["0"])[0]
            number = int(since) if since.isascii() and since.isdigit() and len(since) < 16 else 0
            self.send(200, "application/json", json.dumps(self.page.state(number)))
        else:
            self.fail(404, "not found")

    def post(self) -> None:
        request = self.read_json(LARGEST_BODY)
        if self.path != "/do":
            raise RefusedError(404, "not found")
        self.page.do(request)
        self.send(200, "application/json", "{}")
