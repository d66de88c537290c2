"""The live page: what it says, whose buttons it takes, and both in a browser beside a real client."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path
from random import Random
from typing import Any

import pytest
from browser import Browser
from confluent_kafka import Consumer
from patience import PATIENCE_S, wait_until

from fsm.errors import InputError
from fsm.serve.brokers import Brokers
from fsm.serve.cluster import Served
from fsm.serve.edge import Edge, now_ms
from fsm.serve.faults import Do
from fsm.serve.page import Page, Recent
from fsm.testing.broker import QUICK


class Running:
    """Brokers and their page, in a thread."""

    def __init__(self) -> None:
        recent = Recent()
        served = Served({"foo": 4}, settings=QUICK, brokers=2)
        self.edge = Edge(Brokers(served, now_ms(), Random(1), rules=[], on_event=recent))  # noqa: S311
        self.loop = asyncio.new_event_loop()
        threading.Thread(target=self.loop.run_forever, daemon=True).start()

        async def start() -> tuple[int, Page]:
            return await self.edge.start(), Page(self.edge, recent)

        self.port, self.page = asyncio.run_coroutine_threadsafe(start(), self.loop).result(PATIENCE_S)

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, str]:
        """Status and text of an answer."""
        connection = HTTPConnection(*self.page.host.split(":"), timeout=PATIENCE_S)  # type: ignore[arg-type]
        connection.request(method, path, None if body is None else json.dumps(body), headers)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()

    def end(self) -> None:
        self.page.close()
        asyncio.run_coroutine_threadsafe(self.edge.stop(), self.loop).result(PATIENCE_S)
        self.loop.call_soon_threadsafe(self.loop.stop)


@pytest.fixture
def running() -> Iterator[Running]:
    made = Running()
    yield made
    made.end()


def consumer(port: int, client_id: str = "<i>client</i>", protocol: str = "consumer") -> Consumer:
    made = Consumer(
        {
            "bootstrap.servers": f"127.0.0.1:{port}",
            "group.id": "shop" if protocol == "consumer" else "old",
            "client.id": client_id,
            "group.protocol": protocol,
            "log_level": 0,
        }
    )
    made.subscribe(["foo"])
    return made


def test_the_state_has_groups_members_epochs_and_what_was_exchanged(running: Running) -> None:
    new, old = consumer(running.port), consumer(running.port, "B", "classic")
    wait_until(lambda: new.assignment() and old.assignment(), lambda: (new.poll(0.05), old.poll(0.05)))
    state = json.loads(running.ask("GET", "/state")[1])
    of_old, of_new = state["groups"]
    assert (of_new["group"], of_new["type"], of_new["epoch"]) == ("shop", "consumer", 2)
    assert of_new["members"][0]["assigned"] == ["foo-0", "foo-1", "foo-2", "foo-3"] == of_old["members"][0]["assigned"]
    assert {one["api"] for one in state["recent"] if one["event"] == "exchange"} >= {
        "ConsumerGroupHeartbeat",
        "SyncGroup",
    }
    last = state["recent"][-1]["number"]
    assert json.loads(running.ask("GET", f"/state?since={last + 10_000}")[1])["recent"] == []
    new.close()
    old.close()


def test_only_the_pages_own_buttons_do_anything(running: Running) -> None:
    key = {"X-Fsm-Key": running.page.key}
    assert running.ask("GET", "/", Host="evil.example")[0] == 403
    assert running.ask("POST", "/do", {"do": "heal"})[0] == 403
    assert running.ask("POST", "/do", {"do": "heal"}, **{"X-Fsm-Key": "guess"})[0] == 403
    assert running.ask("POST", "/do", {"do": "heal"}, Host="evil.example", **key)[0] == 403
    assert running.ask("POST", "/do", "x" * 100_000, **key)[0] == 413
    assert running.ask("GET", "/etc/passwd")[0] == 404
    assert running.ask("POST", "/do", {"do": "lose", "group": "shop", "member": "m"}, **key) == (200, "{}")
    assert [rule.do.value for rule in running.edge.brokers.rules] == ["lose"]
    assert running.ask("POST", "/do", {"do": "heal"}, **key)[0] == 200
    assert running.edge.brokers.rules == []


def test_every_fault_can_be_asked_for(running: Running) -> None:
    key = {"X-Fsm-Key": running.page.key}
    page = running.ask("GET", "/")[1]
    more = {
        "refuse": {"error": "FENCED_MEMBER_EPOCH"},
        "rewrite": {"api": "Heartbeat", "fields": {"throttle_time_ms": 9}},
    }
    for do in Do:
        assert f'"{do.value}"' in page
        body = {"do": do.value, "group": "shop", "member": "m", "ms": 1, **more.get(do.value, {})}
        status, text = running.ask("POST", "/do", body, **key)
        assert status == 200 or "no group" in text, text
    asked = {rule.do for rule in running.edge.brokers.rules}
    assert asked | {Do.EXPIRE, Do.MOVE, Do.PAUSE} == set(Do)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"do": "dance"}, "unknown action 'dance'"),
        ({"do": "refuse", "error": "FENCED_EPOCH"}, "unknown error 'FENCED_EPOCH'; did you mean"),
        ({"do": "rewrite", "api": "ConsumerGroupHeartbeat"}, "must name the fields"),
        ({"do": "rewrite", "api": "Heartbeat", "fields": {"epoch": 1}}, "answers of Heartbeat have no"),
        ({"do": "rewrite", "fields": {"epoch": 1}}, "the key 'api' is missing"),
        ({"do": "delay_ms"}, "takes 1 to 2147483647 ms, not 'None'"),
        ({"do": "pause_ms", "ms": 10**12}, "not a number of milliseconds"),
        ([], "unknown action 'None'"),
    ],
)
def test_what_no_button_says_is_refused(running: Running, body: Any, words: str) -> None:
    status, text = running.ask("POST", "/do", body, **{"X-Fsm-Key": running.page.key})
    assert (status, words in text, "\n" in text[:-1]) == (400, True, False)


def test_a_port_that_is_taken(running: Running) -> None:
    port = int(running.page.host.partition(":")[2])

    async def another() -> None:
        Page(running.edge, Recent(), port)

    with pytest.raises(InputError, match=f"127.0.0.1:{port}: cannot listen"):
        asyncio.run(another())


@pytest.mark.clients
def test_in_a_browser_a_group_is_seen_and_a_button_fences_a_member(running: Running, tmp_path: Path) -> None:
    lost: list[int] = []
    made = consumer(running.port)
    made.subscribe(["foo"], on_lost=lambda _, gone: lost.append(len(gone)))
    stop = threading.Event()

    def poll() -> None:
        while not stop.is_set():
            made.poll(0.05)

    polling = threading.Thread(target=poll)
    polling.start()
    with Browser(tmp_path) as browser:
        browser.open(f"http://{running.page.host}/")
        browser.wait_for("document.querySelectorAll('.p').length === 4")
        assert browser.run("document.querySelector('td').textContent") == "<i>client</i>"
        assert browser.run("document.querySelector('.state').textContent") == "Stable"
        browser.run("document.querySelector('button[data-do=expire]').click()")
        browser.wait_for(
            "[...document.querySelectorAll('#recent .error')].some(e => e.textContent === 'UNKNOWN_MEMBER_ID')"
        )
        browser.wait_for("document.querySelectorAll('.p').length === 4")
        browser.run("document.querySelector('button[data-do=rewrite]').click()")
        browser.wait_for("[...document.querySelectorAll('#recent .fault')].some(e => e.textContent === 'page')")
        assert browser.run("document.getElementById('problem').textContent") == ""
        assert browser.picture().startswith(b"\x89PNG")
    stop.set()
    polling.join()
    made.close()
    assert lost == [4]
