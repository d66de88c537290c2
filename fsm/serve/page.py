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
from collections import deque
from collections.abc import Callable, Iterable
from importlib.resources import files
from secrets import token_urlsafe
from typing import Any, TypeVar
from urllib.parse import parse_qs, urlsplit

from fsm.errors import InputError, RemoteProtocolError
from fsm.protocol.consumer_protocol import decode_assignment
from fsm.protocol.messages import DescribedConsumerGroup, DescribedGroup
from fsm.serve.brokers import Brokers
from fsm.serve.edge import Edge
from fsm.serve.faults import Do, epochs_of, is_full, make_rule
from fsm.serve.loopback import ANSWER_S, Handler, Loopback, RefusedError
from fsm.wire.exchange import Exchange, Note

KEPT = 200
"""The number of exchanges and notes kept."""
QUIET = frozenset({"Fetch", "Metadata", "ApiVersions", "FindCoordinator", "ListOffsets"})
"""Frequent requests, shown only on request."""
MOST_GROUPS, MOST_MEMBERS = 50, 100
"""The maximum number of groups, and of members of each; the number of further ones is shown."""


class Recent:
    """The last exchanges and notes; called with each as it ends."""

    def __init__(self) -> None:
        self._seen: deque[dict[str, Any]] = deque(maxlen=KEPT)
        self._number = 0

    def __call__(self, seen: Exchange | Note) -> None:
        """Adds an exchange or note."""
        if isinstance(seen, Exchange) and seen.api in QUIET and not seen.fault:
            return
        self._number += 1
        self._seen.append(_describe_event(self._number, seen))

    def since(self, number: int) -> list[dict[str, Any]]:
        """The exchanges after this number, the oldest first."""
        return [event for event in self._seen if event["number"] > number]


def snapshot(brokers: Brokers, now_ms: float) -> dict[str, Any]:
    """Topics, brokers, groups with their members, and pending faults."""
    coordinators = brokers.cluster.coordinators
    group_ids = coordinators.group_ids()
    found = ((group_id, coordinators.describe(group_id, now_ms)) for group_id in group_ids[:MOST_GROUPS])
    return {
        "now_ms": now_ms,
        "release": brokers.cluster.served.release,
        "brokers": {number: f"{host}:{port}" for number, (host, port) in sorted(brokers.cluster.endpoints.items())},
        "topics": brokers.cluster.topics.describe(),
        "groups": [_group(brokers, group_id, group) for group_id, group in found if group is not None],
        "more_groups": max(0, len(group_ids) - MOST_GROUPS),
        "faults": [
            {"do": rule.do.value, "name": rule.name, "done": rule.done, "times": rule.times} for rule in brokers.rules
        ],
    }


def _group(brokers: Brokers, group_id: str, group: DescribedConsumerGroup | DescribedGroup) -> dict[str, Any]:
    common = {
        "group": group_id,
        "state": group.group_state,
        "coordinator": brokers.cluster.coordinators.leader_of(group_id),
        "more_members": max(0, len(group.members) - MOST_MEMBERS),
    }
    if isinstance(group, DescribedGroup):
        members = [
            {
                "member": m.member_id,
                "client": m.client_id,
                "instance": m.group_instance_id,
                "host": m.client_host,
                "assigned": _decode(m.member_assignment),
            }
            for m in group.members[:MOST_MEMBERS]
        ]
        return {**common, "type": "classic", "assignor": group.protocol_data, "members": members}
    described = [
        {
            "member": m.member_id,
            "client": m.client_id,
            "instance": m.instance_id,
            "host": m.client_host,
            "epoch": m.member_epoch,
            "assigned": _list_partitions(m.assignment),
            "target": _list_partitions(m.target_assignment),
        }
        for m in group.members[:MOST_MEMBERS]
    ]
    epochs = {"epoch": group.group_epoch, "target_epoch": group.assignment_epoch}
    return {**common, "type": "consumer", "assignor": group.assignor_name, **epochs, "members": described}


def _list_partitions(topics: Iterable[Any]) -> list[str]:
    return [f"{one.topic_name}-{partition}" for one in topics for partition in one.partitions]


def _decode(assignment: bytes) -> list[str]:
    """The partitions of a member of a classic group; empty for a protocol other than consumers'."""
    try:
        return [f"{topic}-{partition}" for topic, partition in decode_assignment(assignment).partitions]
    except RemoteProtocolError:
        return []


def _describe_event(number: int, seen: Exchange | Note) -> dict[str, Any]:
    if isinstance(seen, Note):
        return {"number": number, "at_ms": seen.at_ms, "event": seen.event, "about": _words(seen)}
    request, response = seen.request, seen.response
    return {
        "number": number,
        "at_ms": seen.at_ms,
        "event": "exchange",
        "client": seen.client_id or "",
        "api": seen.api,
        "version": seen.version,
        "group": getattr(request, "group_id", ""),
        "epoch": next(iter(sorted(epochs_of(request))), None),
        "full": is_full(request),
        "took_ms": None if seen.answered_ms is None else round(seen.answered_ms - seen.at_ms, 1),
        "error": _error(response),
        "told": _describe_answer(response),
        "fault": seen.fault,
    }


def _words(note: Note) -> str:
    if note.event == "topics":
        return ", ".join(f"{name}={partitions}" for name, _, partitions in note.about["topics"])
    return ", ".join(f"{key} {value}" for key, value in note.about.items())


def _error(response: Any) -> str:
    code = getattr(response, "error_code", None)
    return code.name if code else ""


def _describe_answer(response: Any) -> str:
    """The last response to a member: its epoch and its assignment."""
    if response is None:
        return ""
    epochs = [name for name in ("member_epoch", "generation_id") if hasattr(response, name)]
    parts = [f"{name.replace('_', ' ')} {getattr(response, name)}" for name in epochs]
    assignment = getattr(response, "assignment", None)
    if isinstance(assignment, tuple):
        parts.append(f"{sum(len(numbers) for _, numbers in assignment)} partitions")
    return ", ".join(parts)


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
