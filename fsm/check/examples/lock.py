"""A lock with leases: its holder writes to a store; a lease may end without the holder's knowledge.

    fsm check lock --disturb expire            an old holder writes after a new one
    fsm check fenced-lock --disturb expire     the store turns the old holder away: holds

Source: M. Burrows, The Chubby lock service for loosely-coupled distributed systems, section 2.4, on sequencers.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any, NamedTuple

from fsm.check.model import Choice, Component, Goal, Look, Model, Received, Step, View, Wire

NAMES = ("ann", "bob")
MOST = 3
"""The maximum number of grants."""


class Lock(NamedTuple):
    """The server's state: the holder of the lock, and the token with which it was granted."""

    holder: str = ""
    token: int = 0


def client_choices(state: Any) -> Iterable[Choice]:
    """A client asks for the lock; with its token it writes once."""
    return [Choice("asks")] if state == "idle" else [Choice("writes")] if isinstance(state, int) else []


def client_step(state: Any, given: Any) -> Step:
    """The server answers with a token, or with "idle"; after the answer of the store the client releases the lock."""
    if isinstance(given, Received):
        return (
            Step("done", [("server", ("release", given.message))]) if given.sender == "store" else Step(given.message)
        )
    return Step("waits", [("server", "acquire")]) if given == "asks" else Step("writing", [("store", state)])


def server_choices(state: Lock) -> Iterable[Choice]:
    """A lease may end before the lock is released."""
    return [Choice("ends the lease", disturbance="expire")] if state.holder else []


def server_step(state: Lock, given: Any) -> Step:
    """Grants the lock while nobody holds it."""
    match given:
        case Received(sender, "acquire") if not state.holder and state.token < MOST:
            return Step(Lock(sender, state.token + 1), [(sender, state.token + 1)])
        case Received(sender, "acquire"):
            return Step(state, [(sender, "idle")])
    is_over = given == "ends the lease" or state == (given.sender, given.message[1])
    return Step(state._replace(holder="") if is_over else state)


def look_at_server(state: Lock) -> Look:
    """What `fsm explore` shows of the server."""
    return Look(fields=[("held by", state.holder or "nobody"), ("given out", f"{state.token} times")])


def store_step(newest: int, given: Received, *, fenced: bool) -> Step:
    """A fenced store ignores writes of an old holder."""
    broken = ["writes come in the order of the lock"] if given.message < newest and not fenced else []
    return Step(max(newest, given.message), [(given.sender, given.message)], broken)


def has_ended(view: View) -> Any:
    """Whether every client has written, or the lock is not granted any more."""
    return (view.of("server", "token") == MOST) | (sum(view.of(name, "done") for name in NAMES) == len(NAMES))


def lock(*, fenced: bool = False) -> Model:
    """The model."""
    features = {"done": lambda state: int(state == "done")}
    clients = [Component(name, "idle", client_choices, client_step, features) for name in NAMES]
    server = Component("server", Lock(), server_choices, server_step, {"token": lambda s: s.token}, look=look_at_server)
    store = Component("store", 0, lambda _: (), partial(store_step, fenced=fenced))
    wires = [Wire(*ends) for name in NAMES for it in ("server", "store") for ends in ((name, it), (it, name))]
    name, goal = "fenced lock" if fenced else "lock", Goal("everybody has written", has_ended)
    return Model(name, [*clients, server, store], wires, (), goal, disturbances=["expire"])


def fenced_lock() -> Model:
    """The lock whose store refuses writes with an older token."""
    return lock(fenced=True)
