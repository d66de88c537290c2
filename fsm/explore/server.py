"""The explorer's server on loopback: the page, and the documents that it requests.

    GET   /                                        the page
    GET   /opening.json                            what there is, and where it begins
    GET   /steps.json?from=0&count=500             steps of what was loaded
    GET   /loaded.json                             where that leads in the model
    GET   /at.json?path=0.3.1&known=2              a path: its steps beyond the known ones, and what may happen then
    POST  /at.json      {"path": "0.3.1", "known": 2}    the same, for a path that is too long for an address
    POST  /check.json   {"path": "0.3.1", "disturb": ["crash"], "disturbances": 1, "max_states": 200000}

Requests are answered one after the other, except a check, which runs beside them, one at a time.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import parse_qs, urlsplit

from fsm.explore.checking import ask, read_question
from fsm.explore.documents import Document, Session, read_number, read_path
from fsm.explore.session import ModelSession
from fsm.serve.loopback import Handler, Loopback, RefusedError

LARGEST_BODY = 1 << 20
POLL_S = 0.1
"""The maximum delay of the server's end."""
POLICY = "frame-ancestors 'none'; base-uri 'none'; form-action 'none'; object-src 'none'"
"""The policy of the response; the page's head has the rest of it, for style, script and requests."""


class Explorer:
    """The server of one session."""

    def __init__(self, session: Session, page: Callable[[str], str], port: int = 0) -> None:
        """Binds to loopback; `page` returns the page with the key. Raises `InputError` if the port is taken."""
        self.session, self.page = session, page
        self.asking, self.checking = threading.Lock(), threading.Lock()
        self._server = Loopback(port, type("Handler", (_Handler,), {"explorer": self}), "--port")
        self.key, self.host = self._server.key, self._server.host

    @property
    def url(self) -> str:
        """The address of the page."""
        return f"http://{self.host}/"

    def serve(self) -> None:
        """Serves until it is interrupted, or closed by another thread."""
        try:
            self._server.serve_forever(POLL_S)
        finally:
            self._server.server_close()

    def close(self) -> None:
        """Ends the server, which runs in another thread."""
        self._server.shutdown()

    def answer(self, path: str, asked: Mapping[str, Any], *, is_own: bool = False) -> Document:
        """The document for a path and its parameters; only the page itself may request work.

        Raises `FsmError`, and `RefusedError` for an unknown path.
        """
        if path == "/check.json" and is_own:
            return self._check(asked)
        with self.asking:
            match path:
                case "/opening.json":
                    return self.session.opening()
                case "/steps.json":
                    return self.session.steps(read_number(asked, "from", 0), read_number(asked, "count", 500))
                case "/loaded.json":
                    return self._model().describe_path()
                case "/at.json":
                    return self._model().at(read_path(asked.get("path", "")), read_number(asked, "known", 0))
        raise RefusedError(404, "nothing here")

    def _model(self) -> ModelSession:
        """The session of a model. Raises `RefusedError` for a recording."""
        if not isinstance(self.session, ModelSession):
            raise RefusedError(400, "this was recorded: there is no model to walk")
        return self.session

    def _check(self, asked: Mapping[str, Any]) -> Document:
        """Checks what could go wrong from here; the walk continues meanwhile."""
        if not self.checking.acquire(blocking=False):
            raise RefusedError(429, "a check is under way")
        try:
            question = read_question(asked)
            with self.asking:
                model = self._model().model_at(question.path)
            verdict, summary = ask(model, question, time.monotonic)
            with self.asking:
                return {**summary, "violations": self._model().tell(question.path, verdict)}
        finally:
            self.checking.release()


class _Handler(Handler):
    explorer: Explorer

    def get(self) -> None:
        asked = urlsplit(self.path)
        if asked.path == "/":
            text = self.explorer.page(self.explorer.key)
            self.send(200, "text/html; charset=utf-8", text, {"Content-Security-Policy": POLICY})
        else:
            query = {name: found[-1] for name, found in parse_qs(asked.query).items()}
            self._tell(200, self.explorer.answer(asked.path, query))

    def post(self) -> None:
        self._tell(200, self.explorer.answer(self.path, self.read_json(LARGEST_BODY), is_own=True))

    def fail(self, status: int, why: str) -> None:
        self._tell(status, {"error": why})

    def _tell(self, status: int, document: Document) -> None:
        self.send(status, "application/json", json.dumps(document))
