"""The checker's findings in groups of releases with their path lengths, by dialects, options and disturbances.

`tests/check/test_findings.py` repeats the searches.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple


class Scene(NamedTuple):
    """Two members and one topic of two partitions, with at most one disturbance."""

    kind: str = ""
    """The kind of disturbance, or empty."""
    options: Mapping[str, Any] = {}
    """Options of the model."""
    behind: str = ""
    """The cause of the harm; empty if the table of shortest paths has it."""

    @property
    def command(self) -> str:
        """The options of `fsm check consumer-group` for this scene."""
        given = (f"--{name.replace('_', '-')}" + _argument(value) for name, value in self.options.items())
        return " ".join([*given, *([f"--disturb {self.kind}"] if self.kind else [])])


def _argument(value: Any) -> str:
    if isinstance(value, Mapping):
        return " " + ",".join(f"{name}:{count}" for name, count in value.items())
    return "" if value is True else f" {value}" if str(value).isalnum() else f' "{value}"'


_LEFT_OUT = "a full heartbeat that leaves out what is being assigned (W9, and W1 if the response is lost, too)"
_BEHIND_REPORT = "an acknowledgement in flight releases what is being assigned (W11)"
_SYNC_REFUSED = (
    "the same broker loads its log anew, and answers SyncGroup with COORDINATOR_LOAD_IN_PROGRESS, which clients do not "
    "expect (W36, `loading`)"
)
_OLD_EPOCH = "an owner's commit with the previous epoch is refused: no assignment epochs yet (F8)"

SCENES: Mapping[str, Scene] = {
    **{
        kind: Scene(kind)
        for kind in (
            *("close", "close_timeout", "crash", "expire", "failover", "hanging", "interrupted", "late", "leave"),
            *("lose", "poll_timeout", "raising", "rebalance_timeout", "rejoin", "unanswered"),
        )
    },
    "commit_async": Scene("commit_async", behind=_OLD_EPOCH),
    "commit_sync": Scene("commit_sync", behind=_OLD_EPOCH),
    "failover_losing": Scene("failover_losing", behind=_LEFT_OUT),
    "restart": Scene("restart", behind=_BEHIND_REPORT),
    "failover_compacted": Scene("failover_compacted", {"compaction": True}),
    "resubscribe": Scene("resubscribe", {"topics": {"foo": 1, "bar": 1}}),
    "move": Scene("move", {"search": True}, _LEFT_OUT),
    "loading": Scene("failover", {"loading": True}, _LEFT_OUT),
    "topic_created": Scene("topic_created", {"topic_changes": True}, _BEHIND_REPORT),
    "topic_deleted": Scene("topic_deleted", {"topic_changes": True}, _BEHIND_REPORT),
    "topic_grown": Scene("topic_grown", {"topic_changes": True}, _BEHIND_REPORT),
    "topic_recreated": Scene("topic_recreated", {"topic_changes": True}, "a client fetches by name (W23, `anew`)"),
    "static close": Scene("close", {"static": True}),
    "static restart": Scene(
        "restart",
        {"static": True},
        "killed and back before its session ends, a static member is told UNRELEASED_INSTANCE_ID, which ends it, as "
        f"KIP-848 has it; else {_BEHIND_REPORT}",
    ),
    "static unanswered": Scene(
        "unanswered",
        {"static": True},
        "a static member whose join was handled, and not answered, joins again and is told UNRELEASED_INSTANCE_ID, "
        f"which ends it, as if it were another one (W17); else {_LEFT_OUT}",
    ),
    "undisturbed with a pattern": Scene("", {"pattern": "fo.*"}, _BEHIND_REPORT),
    "undisturbed with commits": Scene("", {"commits": True}, _OLD_EPOCH),
    "undisturbed with an assignment interval": Scene("", {"assignment_interval": True}),
}

FOUND: Mapping[tuple[str, str], Mapping[str, str]] = {
    ("4.0.0", "4.0.0"): {
        "commit_async": "owner 17",
        "commit_sync": "owner 17",
        "expire": "book 23, users 30",
        "failover_losing": "book 14, users 21",
        "late": "book 11, users 18, settles 8",
        "lose": "book 13, users 20",
        "poll_timeout": "book 15, users 18, settles 19",
        "rebalance_timeout": "book 26, users 33",
        "restart": "book 19, users 26",
        "unanswered": "book 14, users 21",
        "move": "book 16, users 27",
        "loading": "book 16, users 23",
        "topic_created": "book 14, users 22",
        "topic_deleted": "book 21",
        "topic_grown": "book 16, users 23",
        "topic_recreated": "book 8, users 16",
        "static restart": "book 19, ended 9, users 26",
        "static unanswered": "book 14, ended 7, users 21",
        "undisturbed with a pattern": "book 15, users 22",
        "undisturbed with commits": "owner 17",
    },
    ("4.2.1", "4.2.1"): {
        "expire": "book 23, users 30",
        "late": "book 11, users 18, settles 17",
        "lose": "book 13, users 20",
        "poll_timeout": "book 15, users 18",
        "rebalance_timeout": "book 26, users 33",
        "unanswered": "book 14, users 21",
        "commit_async": "owner 17",
        "commit_sync": "owner 17",
        "failover_losing": "book 14, users 21",
        "restart": "book 19, users 26",
        "move": "book 16, users 27",
        "loading": "book 16, users 23",
        "topic_created": "book 14, users 22",
        "topic_deleted": "book 21",
        "topic_grown": "book 16, users 23",
        "topic_recreated": "book 8, users 16",
        "static restart": "book 19, ended 9, users 26",
        "static unanswered": "book 14, ended 7, users 21",
        "undisturbed with a pattern": "book 15, users 22",
        "undisturbed with commits": "owner 17",
    },
    ("4.4.0", "4.0.0"): {
        "commit_async": "owner 17",
        "commit_sync": "owner 17",
        "expire": "book 15, users 18",
        "failover_losing": "book 14, users 21",
        "late": "book 11, users 18, settles 8",
        "lose": "book 13, users 20",
        "poll_timeout": "book 14, users 17, settles 20",
        "rebalance_timeout": "book 18, users 25",
        "restart": "book 19, users 26",
        "unanswered": "book 14, users 21",
        "move": "book 16, users 27",
        "loading": "book 16, users 23",
        "topic_created": "book 14, users 22",
        "topic_deleted": "book 21",
        "topic_grown": "book 16, users 23",
        "topic_recreated": "book 8, users 16",
        "static restart": "book 19, ended 9, users 26",
        "static unanswered": "book 14, ended 7, users 21",
        "undisturbed with a pattern": "book 15, users 22",
        "undisturbed with commits": "owner 17",
    },
    ("fixed", "4.0.0"): {
        "commit_async": "owner 17",
        "commit_sync": "owner 17",
        "late": "book 12, users 19, settles 9",
        "static restart": "ended 9",
        "static unanswered": "ended 8",
        "undisturbed with commits": "owner 17",
    },
    ("4.0.0", "4.4.0"): {
        "expire": "book 23, users 30",
        "failover_losing": "book 14, users 21",
        "late": "book 11, users 18, settles 17",
        "lose": "book 13, users 20",
        "poll_timeout": "book 15, users 18",
        "rebalance_timeout": "book 26, users 33",
        "restart": "book 19, users 26",
        "unanswered": "book 14, users 21",
        "move": "book 16, users 27",
        "loading": "book 16, users 23",
        "topic_created": "book 14, users 22",
        "topic_deleted": "book 21",
        "topic_grown": "book 16, users 23",
        "topic_recreated": "book 8, users 16",
        "static restart": "book 19, ended 9, users 26",
        "static unanswered": "book 14, ended 7, users 21",
        "undisturbed with a pattern": "book 15, users 22",
    },
    ("4.4.0", "4.4.0"): {
        "expire": "book 15, users 18",
        "failover_losing": "book 14, users 21",
        "late": "book 11, users 18, settles 17",
        "lose": "book 13, users 20",
        "poll_timeout": "book 14, users 17",
        "rebalance_timeout": "book 18, users 25",
        "restart": "book 19, users 26",
        "unanswered": "book 14, users 21",
        "move": "book 16, users 27",
        "loading": "book 16, users 23",
        "topic_created": "book 14, users 22",
        "topic_deleted": "book 21",
        "topic_grown": "book 16, users 23",
        "topic_recreated": "book 8, users 16",
        "static restart": "book 19, ended 9, users 26",
        "static unanswered": "book 14, ended 7, users 21",
        "undisturbed with a pattern": "book 15, users 22",
    },
    ("fixed", "4.4.0"): {"late": "book 12, users 19", "static restart": "ended 9", "static unanswered": "ended 8"},
    ("fixed", "fixed"): {"static restart": "ended 9"},
}
"""(member dialect, coordinator dialect) -> scene -> violated properties with the number of steps.

`book`: a member in good standing uses a partition that the coordinator does not count as held; `users`: two members use
a partition; `settles`: the group cannot settle; `ended`: an error ends an application; `owner`: an owner's commit is
refused.
"""

SAME: Mapping[str, str] = {"4.1.2": "4.0.0", "4.3.1": "4.4.0"}
"""Releases whose members and coordinator have the same findings as those of another release."""


class Broken(NamedTuple):
    """A finding in a group of another kind."""

    model: str
    options: Mapping[str, Any]
    """Without a protocol it is found in eager and in cooperative groups."""
    kinds: tuple[str, ...]
    known: tuple[str, ...]
    broken: str
    steps: Mapping[str, int]
    """Release that stands for a group of them -> number of steps; one that is left out is clean."""
    behind: str

    def command(self) -> str:
        """The command that shows it."""
        given = [f"--{name.replace('_', '-')}" + _argument(value) for name, value in self.options.items()]
        given += [f"--disturb {','.join(self.kinds)}"] if self.kinds else []
        given += [f"--disturbances {len(self.kinds)}"] if len(self.kinds) > 1 else []
        given += [f"--known {','.join(self.known)}"] if self.known else []
        return " ".join(["fsm check", self.model, *given, f'--property "{self.broken}"'])


GROUPED: Mapping[str, tuple[str, ...]] = {"4.0.0": ("4.0.0",), "4.2.1": ("4.1.2", "4.2.1"), "4.4.0": ("4.3.1", "4.4.0")}
"""Release -> those with the same findings in groups of other kinds."""
_ENDED, _SETTLES, _USERS = "no error ends an application", "the group settles", "no partition has two users"
_FORMER = "a commit of a former owner is refused"


def _always(steps: int) -> Mapping[str, int]:
    return dict.fromkeys(GROUPED, steps)


ELSEWHERE = (
    Broken("classic-group", {"static": True}, ("restart",), (), _ENDED, _always(9), "W25 (`late_join`)"),
    Broken(
        "classic-group", {"static": True, "protocol": "cooperative"}, ("restart",), (), _SETTLES, _always(24), "W13"
    ),
    Broken("classic-group", {"protocol": "eager"}, ("interrupted",), (), _USERS, _always(34), "W27 (`interrupted`)"),
    Broken(
        "classic-group",
        {"commits": True, "protocol": "eager"},
        ("interrupted",),
        (),
        _SETTLES,
        _always(23),
        "W27 (`interrupted`)",
    ),
    Broken(
        "classic-group",
        {"protocol": "eager"},
        ("commit_sync", "interrupted"),
        (),
        _FORMER,
        _always(31),
        "W27 (`interrupted`)",
    ),
    Broken("classic-group", {"static": True}, ("failover", "restart"), ("late_join",), _ENDED, _always(20), "W29"),
    Broken(
        "classic-group",
        {"static": True, "protocol": "cooperative"},
        ("rebalance_timeout",),
        (),
        _USERS,
        _always(32),
        "W31",
    ),
    Broken(
        "consumer-group",
        {"static": True},
        ("expire", "restart"),
        ("unreleased",),
        _ENDED,
        {**_always(15), "4.4.0": 14},
        "W30",
    ),
    Broken(
        "classic-group",
        {"static": True, "members": 1, "topic_changes": True},
        ("restart", "topic_grown"),
        ("late_join",),
        _SETTLES,
        _always(13),
        "W32",
    ),
    Broken(
        "classic-group",
        {"static": True, "members": 1, "topics": {"foo": 1, "bar": 1}},
        ("resubscribe", "restart"),
        ("late_join",),
        "no stable member is assigned an unsubscribed topic",
        _always(11),
        "W35",
    ),
    Broken(
        "classic-group", {"members": 3, "max_size": 2}, (), (), "a join phase waits for somebody", _always(25), "W34"
    ),
    Broken("classic-group", {"loading": True}, ("failover",), (), _ENDED, _always(13), _SYNC_REFUSED),
    Broken("mixed-group", {}, (), (), _ENDED, _always(11), "W12 (`early`)"),
    Broken(
        "mixed-group",
        {"policy": "disabled"},
        (),
        ("early",),
        _ENDED,
        {**_always(12), "4.4.0": 8},
        "the policy lets nobody join a group of the other type: GROUP_ID_NOT_FOUND, or INCONSISTENT_GROUP_PROTOCOL, "
        "ends whoever tries (`refused`)",
    ),
    Broken("mixed-group", {"policy": "upgrade"}, ("leave",), ("early",), _SETTLES, {"4.4.0": 20}, "W5"),
    Broken("mixed-group", {}, ("expire",), ("early",), _ENDED, {**_always(14), "4.4.0": 13}, "W18"),
    Broken("mixed-group", {}, ("expire",), (), "a group that is gone is gone from the log", _always(10), "W33"),
    Broken(
        "mixed-group",
        {"protocol": "cooperative", "client": "fixed"},
        ("rebalance_timeout",),
        ("early",),
        _USERS,
        _always(30),
        "W2: a classic member that came too late to join uses what it had until it syncs",
    ),
    Broken("mixed-group", {"client": "fixed"}, ("late",), ("early",), _USERS, _always(26), "W20"),
    Broken("mixed-group", {}, ("failover", "leave"), ("early",), _SETTLES, _always(12), "W28"),
    Broken("classic-group", {"protocol": "eager"}, ("failover", "late"), (), _ENDED, _always(45), "W21"),
    Broken("classic-group", {"protocol": "cooperative"}, ("failover", "late"), (), _ENDED, _always(44), "W21"),
    Broken(
        "mixed-group",
        {"static": True, "members": 1},
        ("convert",),
        (),
        "10 a group at rest holds every subscribed partition",
        {"4.2.1": 8, "4.4.0": 8},
        "W14; in 4.0.0 the first heartbeat after an upgrade bumps the epoch (F21b)",
    ),
    Broken("mixed-group", {"static": True}, ("convert",), ("early", "late_join", "W14"), _SETTLES, _always(13), "W15"),
    Broken(
        "mixed-group",
        {"members": 3, "classic": 2, "protocol": "cooperative", "client": "fixed"},
        (),
        ("early",),
        _USERS,
        _always(32),
        "W16",
    ),
    Broken(
        "connect", {"settled": True}, ("expire",), (), "no connector or task runs twice", _always(21), "W26 (`zombie`)"
    ),
    Broken("connect", {"loading": True}, ("failover",), (), "no error ends a worker", _always(12), _SYNC_REFUSED),
    Broken("connect", {"settled": True}, ("freeze",), (), "no connector or task runs twice", _always(23), "W26"),
    Broken(
        "connect",
        {"settled": True},
        ("config", "crash"),
        ("zombie",),
        "the cluster settles",
        _always(4),
        "the next leader remembers nothing of what was deleted: as told above (`deleted`)",
    ),
)
"""Shortest paths in other groups, and in clusters of Connect."""
