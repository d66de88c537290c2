"""A lock with leases: its holder writes to a store; a lease may expire without the holder's knowledge.

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
"""How many times the lock is granted at most."""


class Lock(NamedTuple):
    """The server's state: the holder of the lock, and the token with which it was granted."""

    holder: str = ""
    token: int = 0


def client_choices(state: Any) -> Iterable[Choice]:
    """A client asks for the lock; with its token it writes once."""
    if state == "idle":
        yield Choice("asks")
    if isinstance(state, int):
        yield Choice("writes")


def client_step(state: Any, given: Any) -> Step:
    """The server's answer is a token, or that it has to ask again; once the store has answered, the lock is free."""
    match given:
        case "asks":
            return Step("waits", [("server", "acquire")])
        case "writes":
            return Step("writing", [("store", state)])
        case Received("store", token):
            return Step("has_ended", [("server", ("release", token))])
    return Step(given.message)


def server_choices(state: Lock) -> Iterable[Choice]:
    """A lease may end before it is given back."""
    if state.holder:
        yield Choice("ends the lease", disturbance="expire")


def server_step(state: Lock, given: Any) -> Step:
    """Grants the lock to a client that requests it while it is free."""
    match given:
        case Received(sender, "acquire") if not state.holder and state.token < MOST:
            return Step(Lock(sender, state.token + 1), [(sender, state.token + 1)])
        case Received(sender, "acquire"):
            return Step(state, [(sender, "idle")])
        case Received(sender, (_, token)) if Lock(sender, token) != state:
            return Step(state)
    return Step(state._replace(holder=""))


def look_at_server(state: Lock) -> Look:
    """What `fsm explore` shows of the server."""
    return Look(fields=[("held by", state.holder or "nobody"), ("given out", f"{state.token} times")])


def store_step(newest: int, given: Received, *, fenced: bool) -> Step:
    """A store that is fenced passes over what an old holder writes."""
    answer = [(given.sender, given.message)]
    if given.message >= newest:
        return Step(given.message, answer)
    return Step(newest, answer, () if fenced else ["writes come in the order of the lock"])


def has_ended(view: View) -> Any:
    """Whether every client has written, or the lock is not granted any more."""
    return (view.of("server", "token") == MOST) | (sum(view.of(name, "has_ended") for name in NAMES) == len(NAMES))


def lock(*, fenced: bool = False) -> Model:
    """The model."""
    features = {"has_ended": lambda state: int(state == "has_ended")}
    clients = [Component(name, "idle", client_choices, client_step, features) for name in NAMES]
    server = Component(
        "server", Lock(), server_choices, server_step, {"token": lambda state: state.token}, look=look_at_server
    )
    store = Component("store", 0, lambda _: (), partial(store_step, fenced=fenced))
    ends = [(name, there) for name in NAMES for there in ("server", "store")]
    wires = [wire for name, there in ends for wire in (Wire(name, there), Wire(there, name))]
    goal = Goal("everybody has written", has_ended)
    return Model(
        "fenced lock" if fenced else "lock", [*clients, server, store], wires, (), goal, disturbances=["expire"]
    )


def fenced_lock() -> Model:
    """The lock whose store refuses what comes with an older token."""
    return lock(fenced=True)
