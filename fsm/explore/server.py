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
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

from fsm.check import Limits, Model, Verdict, check
from fsm.errors import InputError
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
        raise RefusedError(404, "not found")

    def _model(self) -> ModelSession:
        """The session of a model. Raises `RefusedError` for a recording."""
        if not isinstance(self.session, ModelSession):
            raise RefusedError(400, "this is a recording: it has no model to walk")
        return self.session

    def _check(self, asked: Mapping[str, Any]) -> Document:
        """Checks what could go wrong from here; the walk continues meanwhile."""
        if not self.checking.acquire(blocking=False):
            raise RefusedError(429, "a check is running")
        try:
            question = read_question(asked)
            with self.asking:
                model = self._model().model_at(question.path)
            verdict, summary = ask(model, question, time.monotonic)
            with self.asking:
                return {**summary, "violations": self._model().describe_violations(question.path, verdict)}
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
            self._send_document(200, self.explorer.answer(asked.path, query))

    def post(self) -> None:
        self._send_document(200, self.explorer.answer(self.path, self.read_json(LARGEST_BODY), is_own=True))

    def fail(self, status: int, why: str) -> None:
        self._send_document(status, {"error": why})

    def _send_document(self, status: int, document: Document) -> None:
        self.send(status, "application/json", json.dumps(document))


USUAL_STATES, MOST_STATES = 200_000, 2_000_000
MOST_MEMORY = 1 << 30
MOST_DISTURBANCES = 9
LONGEST_S = 60.0


class Question(NamedTuple):
    """A request for a check."""

    path: tuple[int, ...]
    """The path to the start of the check."""
    disturb: tuple[str, ...]
    """Kinds of disturbance; `all` for every one."""
    disturbances: int
    """The maximum number of disturbances from there on."""
    max_states: int


def read_question(asked: Mapping[str, Any]) -> Question:
    """Parses a page's request. Raises `InputError` for an invalid one, and for one above the limits."""
    kinds, path = asked.get("disturb", []), read_path(asked.get("path", ""))
    if not isinstance(kinds, list) or not all(isinstance(one, str) for one in kinds):
        raise InputError("not a list of kinds", "disturb", 'write it as ["crash", "late"]')
    disturbances = read_number(asked, "disturbances", int(bool(kinds)))
    if disturbances > MOST_DISTURBANCES:
        raise InputError(f"{disturbances} disturbances", "disturbances", f"give at most {MOST_DISTURBANCES}")
    states = read_number(asked, "max_states", USUAL_STATES)
    if not 0 < states <= MOST_STATES:
        raise InputError(f"{states} states", "max_states", f"give 1 to {MOST_STATES:,}")
    return Question(path, tuple(kinds), disturbances, states)


class _TooLongError(Exception):
    """A check exceeded its time limit."""


def ask(model: Model, question: Question, clock: Callable[[], float]) -> tuple[Verdict | None, Document]:
    """The verdict on a model that starts at the question's path, and its summary without violations.

    The verdict is None if the check exceeds the time limit by the `clock`, in seconds.
    """
    end_s, seen = clock() + LONGEST_S, [0]

    def watch(states: int, _transitions: int, _depth: int) -> None:
        seen[0] = states
        if clock() > end_s:
            raise _TooLongError

    kinds = model.kinds if "all" in question.disturb else question.disturb
    try:
        verdict = check(
            model,
            disturb=kinds,
            disturbances=question.disturbances if kinds else 0,
            limits=Limits(question.max_states, MOST_MEMORY),
            progress=watch,
        )
    except _TooLongError:
        return None, {"word": "stopped", "states": seen[0], "stopped": f"more than {LONGEST_S:.0f} s"}
    summary = {"word": verdict.word, "states": verdict.states, "stopped": verdict.stopped}
    return verdict, {**summary, "checked": list(verdict.checked), "never": list(verdict.never)}
