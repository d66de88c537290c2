"""A recording for the explorer's page, made by hand as its documents have it, and what a browser shows of a page."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from browser import Browser

from fsm.explore import Session
from fsm.explore.documents import diagram
from fsm.tables import find

Opened = Callable[..., Browser]
"""Opens a page, from its text or from where it is served."""
Serve = Callable[[Session], str]
"""Serves a session; gives its address."""
END, HOME, LEFT, RIGHT, DOWN = 35, 36, 37, 39, 40
ENTER, ESCAPE = 13, 27
"""Codes of keys."""
TABLE = "consumer-member"
STATES = ("JOINING", "RECONCILING", "ACKNOWLEDGING", "STABLE")


def member(state: str, epoch: int, items: tuple[str, ...] = ()) -> dict[str, Any]:
    """A member as the page is told of it."""
    return {
        "said": f"{state} at epoch {epoch}",
        "cells": [{"table": TABLE, "state": state, "of": ""}],
        "fields": [["member epoch", str(epoch)], ["owned", "foo-0"]],
        "queues": [{"name": "application queue", "items": []}, {"name": "background queue", "items": list(items)}],
    }


def opening(steps: int, **more: Any) -> dict[str, Any]:
    """Of a recording: two members and their coordinator."""
    broker = {"said": "epoch 0", "cells": [], "fields": [], "queues": []}
    wires = [("a", "broker"), ("broker", "a"), ("b", "broker"), ("broker", "b")]
    start = {
        "components": {"a": member("UNSUBSCRIBED", 0), "b": member("UNSUBSCRIBED", 0), "broker": broker},
        "wires": {f"{sender}>{receiver}": [] for sender, receiver in wires},
        "broken": [],
        "disturbances": 0,
    }
    return {
        "title": "a recorded group",
        "source": "made by hand",
        "kind": "recording",
        "components": [
            {"name": "a", "role": "member", "tables": [TABLE]},
            {"name": "b", "role": "member", "tables": [TABLE]},
            {"name": "broker", "role": "coordinator", "tables": []},
        ],
        "wires": [{"sender": sender, "receiver": receiver} for sender, receiver in wires],
        "tables": {TABLE: diagram(find(TABLE))},
        "states": {TABLE: [state.name for state in find(TABLE).leaves()]},
        "properties": {"no partition has two users": "each has one at most"},
        "kinds": [],
        "start": start,
        "can_branch": False,
        "length": steps,
        **more,
    }


def recorded(count: int) -> list[dict[str, Any]]:
    """So many steps of a, in threes: it sends, the coordinator answers, and the answer moves it."""
    steps = []
    for i in range(count):
        epoch, phase = i // 3, i % 3
        step = {
            "actor": "",
            "action": "",
            "disturbance": "",
            "sender": "",
            "receiver": "",
            "message": "",
            "at_ms": i * 10,
        }
        delta: dict[str, Any] = {"components": {}, "wires": {}, "broken": [], "disturbances": 0}
        if phase == 0:
            step |= {"text": f"a sends heartbeat {epoch}", "actor": "a", "action": f"sends heartbeat {epoch}"}
            delta["wires"]["a>broker"] = [{"text": f"heartbeat {epoch}", "late": False}]
            delta["components"]["a"] = member(STATES[epoch % 4], epoch, ("heartbeat due",))
        elif phase == 1:
            step |= {"text": f"broker receives from a: heartbeat {epoch}", "actor": "broker", "action": "receives"}
            step |= {"sender": "a", "receiver": "broker", "message": f"heartbeat {epoch}"}
            delta["wires"] |= {"a>broker": [], "broker>a": [{"text": f"epoch {epoch + 1}", "late": False}]}
        else:
            step |= {"text": f"a receives from broker: epoch {epoch + 1}", "actor": "a", "action": "receives"}
            step |= {"sender": "broker", "receiver": "a", "message": f"epoch {epoch + 1}"}
            delta["wires"]["broker>a"] = []
            delta["components"]["a"] = member(STATES[(epoch + 1) % 4], epoch + 1)
        steps.append({**step, "delta": delta})
    return steps


# -- what a page shows ---------------------------------------------------------------------------------------


def text(browser: Browser, selector: str) -> str:
    """The text of the first element that is found, on one line; waits for it."""
    found: str = browser.wait_for(f"document.querySelector({json.dumps(selector)})?.innerText")
    return " ".join(found.split())


def texts(browser: Browser, selector: str) -> list[str]:
    """The texts of all elements that are found."""
    found = browser.run(f"[...document.querySelectorAll({json.dumps(selector)})].map(e => e.textContent)")
    return [" ".join(one.split()) for one in found]


def count(browser: Browser, selector: str) -> int:
    """How many there are."""
    found: int = browser.run(f"document.querySelectorAll({json.dumps(selector)}).length")
    return found


def stands(browser: Browser, place: str) -> None:
    """Waits until the page stands there: `step / steps`."""
    browser.wait_for(f"document.querySelector('#place').textContent === {json.dumps(place)}")


def types(browser: Browser, selector: str, value: str) -> None:
    """Puts a value into a field."""
    put = f"e.value = {json.dumps(value)}; e.dispatchEvent(new Event('input', {{bubbles: true}}))"
    browser.run(f"(e => {{ {put} }})(document.querySelector({json.dumps(selector)}))")


def options(browser: Browser) -> list[str]:
    """What can be chosen, once it has come."""
    browser.wait_for("document.querySelector('#options .option') && !document.querySelector('#options.waiting')")
    return texts(browser, "#options .option .say")


def kinds(browser: Browser) -> set[str]:
    """The kinds of disturbance that can be chosen."""
    return set(browser.run("[...document.querySelectorAll('#options .disturbs')].map(e => e.dataset.kind)"))
