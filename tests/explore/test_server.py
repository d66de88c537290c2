"""The server on loopback: its documents over real sockets, whom it answers, and what it refuses."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.client import HTTPConnection
from typing import Any

import pytest
from patience import PATIENCE_S

from fsm.check import Choice, Component, Model, Step, make_model
from fsm.errors import InputError
from fsm.explore import ModelSession, Session
from fsm.explore.recording import Moment, Part, Recording
from fsm.explore.server import LARGEST_BODY, Explorer


class Running:
    """A server in a thread."""

    def __init__(self, session: Session) -> None:
        self.explorer = Explorer(session, lambda key: f"<title>page {key}</title>")
        self.thread = threading.Thread(target=self.explorer.serve, daemon=True)
        self.thread.start()

    def ask(self, path: str, document: Any = None, **headers: str) -> tuple[int, Any]:
        """Status and document of an answer: of a POST where something is said."""
        connection = HTTPConnection(self.explorer.host, timeout=PATIENCE_S)
        body = None if document is None else document if isinstance(document, str) else json.dumps(document)
        connection.request("GET" if document is None else "POST", path, body, headers)
        answer = connection.getresponse()
        text = answer.read().decode()
        connection.close()
        return answer.status, json.loads(text) if answer.headers["Content-Type"] == "application/json" else text

    def post(self, path: str, body: Any) -> tuple[int, Any]:
        """The same by the page, which has the key."""
        return self.ask(path, body, **{"X-Fsm-Key": self.explorer.key})


@pytest.fixture
def running() -> Iterator[Running]:
    made = Running(ModelSession(make_model("lock"), [0, 0]))
    yield made
    made.explorer.close()
    made.thread.join(PATIENCE_S)
    assert not made.thread.is_alive()


def test_the_page_and_its_documents(running: Running) -> None:
    """What a session tells is what comes over the wire."""
    assert running.ask("/") == (200, f"<title>page {running.explorer.key}</title>")
    session = ModelSession(make_model("lock"), [0, 0])
    assert running.ask("/opening.json") == (200, session.opening())
    assert running.ask("/steps.json?from=1&count=1") == (200, session.steps(1, 1))
    assert running.ask("/loaded.json") == (200, {"path": [0, 0]})
    assert running.ask("/at.json?path=0.1&known=1") == (200, session.at([0, 1], 1))
    assert running.ask("/at.json") == (200, session.at([]))
    assert running.post("/at.json", {"path": "0.1", "known": 1}) == (200, session.at([0, 1], 1))
    status, found = running.post("/check.json", {"path": "0", "disturb": ["expire"], "max_states": 5_000})
    assert (status, found["word"]) == (200, "violated")
    assert found["violations"][0]["path"].startswith("0.")


def test_headers_keep_the_page_alone() -> None:
    """Nothing frames it, nothing is stored, types are not guessed."""
    running = Running(ModelSession(make_model("lock")))
    connection = HTTPConnection(running.explorer.host, timeout=PATIENCE_S)
    connection.request("GET", "/")
    headers = connection.getresponse().headers
    assert "frame-ancestors 'none'" in headers["Content-Security-Policy"]
    assert (headers["X-Content-Type-Options"], headers["Cache-Control"]) == ("nosniff", "no-store")
    connection.close()
    running.explorer.close()


def test_nobody_else_asks(running: Running) -> None:
    """Another host's page, one without the key, and a check that an address alone would begin."""
    assert running.ask("/opening.json", Host="evil.example") == (403, {"error": "unknown host"})
    assert running.ask("/check.json", {"path": ""})[0] == 403
    assert running.ask("/check.json", {"path": ""}, **{"X-Fsm-Key": "guess"})[0] == 403
    assert running.ask("/check.json", {"path": ""}, **{"X-Fsm-Key": running.explorer.key, "Host": "x"})[0] == 403
    assert running.ask("/check.json?path=") == (404, {"error": "not found"})
    assert running.ask("/../pyproject.toml")[0] == 404
    port = running.explorer.host.partition(":")[2]
    assert running.ask("/loaded.json", Host=f"localhost:{port}")[0] == 200


@pytest.mark.parametrize(
    ("path", "body", "status", "words"),
    [
        ("/at.json?path=0.9", None, 400, "step 2: no step 9 here: there are 2, numbered from 0"),
        ("/at.json?path=0.-1", None, 400, "'-1' is not the number of a step"),
        ("/steps.json?from=x", None, 400, "from: not a number: 'x'"),
        ("/nothing.json", None, 404, "not found"),
        ("/check.json", {"path": "0.9"}, 400, "step 2: no step 9 here"),
        ("/check.json", {"disturb": ["flood"]}, 400, "unknown kind of disturbance: 'flood'"),
        ("/check.json", {"max_states": -1}, 400, "max_states: not a number: -1"),
        ("/check.json", "{", 400, "not JSON"),
        ("/check.json", "[" * 100_000, 400, "not JSON"),
        ("/nothing.json", {}, 404, "not found"),
    ],
)
def test_what_cannot_be_answered_is_told_on_one_line(
    running: Running, path: str, body: Any, status: int, words: str
) -> None:
    """Whatever is asked."""
    found, document = running.ask(path) if body is None else running.post(path, body)
    assert found == status
    assert words in document["error"]
    assert "\n" not in document["error"]
    assert running.ask("/loaded.json")[0] == 200


def test_what_is_too_long_is_not_even_read(running: Running) -> None:
    """The answer comes before the body does."""
    connection = HTTPConnection(running.explorer.host, timeout=PATIENCE_S)
    connection.putrequest("POST", "/check.json")
    connection.putheader("X-Fsm-Key", running.explorer.key)
    connection.putheader("Content-Length", str(LARGEST_BODY + 1))
    connection.endheaders()
    answer = connection.getresponse()
    assert (answer.status, json.loads(answer.read())) == (413, {"error": "too long"})
    connection.close()


def test_one_check_at_a_time_and_the_walk_goes_on() -> None:
    """While a check is under way another one is turned away, and steps are taken."""
    begun, go_on = threading.Event(), threading.Event()

    def step(state: int, given: str) -> Step:
        if given == "waits":
            begun.set()
            go_on.wait(PATIENCE_S)
        return Step(state + 1)

    def choices(state: int) -> list[Choice]:
        return [Choice("goes")] + [Choice("waits", disturbance="wait")] * (state == 1) if state < 3 else []

    model = Model("slow", [Component("one", 0, choices, step)], disturbances=["wait"])
    running = Running(ModelSession(model))
    answers: list[tuple[int, Any]] = []
    asking = threading.Thread(
        target=lambda: answers.append(running.post("/check.json", {"path": "0", "disturb": ["wait"]}))
    )
    asking.start()
    assert begun.wait(PATIENCE_S)
    assert running.post("/check.json", {"path": ""}) == (429, {"error": "a check is running"})
    assert running.ask("/loaded.json")[0] == 200
    assert running.ask("/at.json")[1]["options"][0]["text"] == "one goes"
    go_on.set()
    asking.join(PATIENCE_S)
    assert [(status, found["word"]) for status, found in answers] == [(200, "holds")]
    running.explorer.close()


def test_a_recording_has_no_model(running: Running) -> None:
    """Its steps are told; nothing else can happen in it."""
    recording = Recording("once", "by hand", [Part("one")], [Moment("one speaks", 5.0, "one")])
    other = Running(recording)
    assert other.ask("/steps.json")[1]["steps"][0]["text"] == "one speaks"
    for path in ("/at.json?path=", "/loaded.json"):
        assert other.ask(path) == (400, {"error": "this is a recording: it has no model to walk"})
    assert other.post("/check.json", {"path": ""})[0] == 400
    other.explorer.close()
    assert running.ask("/loaded.json")[0] == 200


def test_a_port_that_is_taken(running: Running) -> None:
    """Is told with the option."""
    port = int(running.explorer.host.partition(":")[2])
    with pytest.raises(InputError, match=f"127.0.0.1:{port}: cannot listen.*; choose another --port"):
        Explorer(ModelSession(make_model("lock")), lambda key: key, port)
