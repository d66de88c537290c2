"""The dialects of the member, the coordinator and Connect with their flags, in one form, for listing and comparison."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from fsm.connect import dialect as connect
from fsm.coordinator.model import dialect as coordinator
from fsm.errors import InputError
from fsm.member.dialect import dialect as member
from fsm.member.dialect.choices import Choice
from fsm.nodes import nearest
from fsm.reference.entries import HAZARDS, LOG_FACTS, WEAK_SPOTS


@dataclass(frozen=True, slots=True)
class Flag:
    """One rule in which dialects of a part differ."""

    name: str
    rule: str
    """The rule with the flag."""
    older: str
    """The rule without the flag, or empty."""
    since: tuple[str, ...]
    """The first dialect with the flag in each branch of releases; empty if unknown."""
    until: str
    """The first later dialect without the flag, or empty."""
    ticket: str
    """Kafka's ticket, or the hazards that the flag ends."""
    dialects: tuple[str, ...]
    """All dialects with the flag, oldest first."""
    number: str = ""
    """The number that code and tests cite."""
    hazards: tuple[str, ...] = ()
    """Numbers of the hazards that the flag ends or introduced."""
    tests: tuple[str, ...] = ()
    """Tests of the flag, as `path::function`."""

    def as_document(self) -> dict[str, Any]:
        """The flag as a JSON object."""
        return {
            "name": self.name,
            "rule": self.rule,
            "older": self.older,
            "since": list(self.since),
            "until": self.until or None,
            "ticket": self.ticket or None,
            "dialects": list(self.dialects),
        }


@dataclass(frozen=True, slots=True)
class Part:
    """One part of the protocols, with its dialects and flags in order."""

    name: str
    dialects: tuple[str, ...]
    flags: tuple[Flag, ...]

    def as_document(self) -> dict[str, Any]:
        """The part as a JSON object."""
        flags = [flag.as_document() for flag in self.flags]
        return {"part": self.name, "dialects": list(self.dialects), "flags": flags}

    def resolve(self, name: str) -> str | None:
        """The dialect of a name, or of the latest patch of a release such as `4.2`; None if there is none."""
        matching = [d for d in self.dialects if d == name or d.rpartition(".")[0] == name]
        return matching[-1] if matching else None


def parts() -> tuple[Part, ...]:
    """The parts that have dialects."""
    return _member(), _coordinator(), _connect()


def parts_with(name: str) -> tuple[tuple[Part, str], ...]:
    """(part, full name) for each part with a dialect of that name. Raises `InputError` if there is none."""
    found = tuple((part, full) for part in parts() if (full := part.resolve(name)) is not None)
    if not found:
        known = tuple(dict.fromkeys(dialect for part in parts() for dialect in part.dialects))
        raise InputError(f"unknown dialect {name[:60]!r}", remedy=nearest(name, known))
    return found


_SHOWN = {
    Choice.POLL_TIMER: "test_design_notes.py::test_no_poll_timer",
    Choice.OPERATION: "test_decisions.py::test_leave_epoch",
    Choice.RACK: "test_heartbeat.py::test_rack_is_named_since_4_1",
    Choice.STATIC_REMAIN_LEAVES: "test_decisions.py::test_is_leaving",
    Choice.JITTER: "test_heartbeat.py::test_backoff_before_4_2_is_nothing_or_the_cap",
    Choice.REVOKE_IN_POLL: "test_decisions.py::test_attempt_of_a_tick",
    Choice.LATE_GROUP_NOT_FOUND: "test_decisions.py::test_error_after_the_leave",
    Choice.APPLY_IN_APPLICATION: "test_queues.py::test_assignment_applied_already_is_only_called_back",
    Choice.MARK_LOST: "test_dialect.py::test_a_dialect_of_ones_own",
    Choice.UNSUBSCRIBED_WAITS: "test_shell.py::test_application_waits_no_longer_than_the_heartbeat",
    Choice.COLLECT_GATE: "test_shell.py::test_records_wait_for_the_check_of_a_reconciliation",
    Choice.WAIT_GUARD: "test_shell.py::test_application_waits_no_longer_than_the_heartbeat",
    Choice.REPORTS_WHAT_IS_ASSIGNED: "test_reports.py::test_what_is_being_assigned_is_reported",
    Choice.FULL_WHILE_IN_DOUBT: "test_reports.py::test_after_a_request_was_given_up_every_heartbeat_is_full",
    Choice.ANOTHER_ID_IS_ANOTHER_TOPIC: "test_hazards.py::test_w23_topic_made_anew_is_another_one",
    Choice.POLL_TIMER_WHILE_LEAVING: "test_hazards.py::test_w22_poll_timer_bounds_the_callback_of_unsubscribe",
    Choice.JOIN_ON_SUBSCRIBE: "test_design_notes.py::test_subscribe_joins_without_a_poll",
    Choice.STABLE_WHEN_SENT: "test_design_notes.py::test_member_is_stable_when_its_join_is_sent",
    Choice.HEARTBEAT_ON_CHANGE: "test_design_notes.py::test_changed_subscription_is_sent_at_once",
    Choice.SUBSCRIBE_ENDS_FATAL: "test_design_notes.py::test_another_subscription_ends_fatal",
    Choice.CANCEL_RUN: "test_design_notes.py::test_leave_cancels_a_reconciliation",
    Choice.COMMIT_ON_UNSUBSCRIBE: "test_design_notes.py::test_unsubscribe_commits",
}
"""Tests of choices in `tests/member`; the other choices have the tests of the hazards that they end or introduced."""


def _member() -> Part:
    names = member.DIALECTS
    choices = {name: frozenset[Enum](member.dialect(name).choices) for name in names}
    of_hazard = {one.number: one.tests for section in (HAZARDS, LOG_FACTS, WEAK_SPOTS) for one in section.entries}

    def tests(choice: Choice) -> tuple[str, ...]:
        if choice not in _SHOWN and choice.about:
            return of_hazard[choice.about.split()[0]]
        return (f"tests/member/{_SHOWN.get(choice, 'test_walk.py::test_choices_stand_alone')}",)

    flags = (
        Flag(
            c.name,
            c.meaning,
            "",
            (c.since,),
            c.until,
            c.ticket or c.about,
            _list_with(c, choices),
            hazards=tuple(c.about.split()),
            tests=tests(c),
        )
        for c in Choice
    )
    return Part("consumer member", names, tuple(flags))


def _coordinator() -> Part:
    choices = {each.name: frozenset[Enum](each.choices) for each in map(coordinator.dialect, coordinator.PRESETS)}
    tests = ("tests/coordinator/test_flags.py::test_a_flag_changes_what_it_says",)
    flags = (
        Flag(
            f"{c.flag} {c.name}",
            c.rule,
            c.older,
            c.since,
            c.until,
            c.ticket,
            _list_with(c, choices),
            number=c.flag,
            tests=tests,
        )
        for c in coordinator.Choice
    )
    return Part("coordinator", tuple(choices), tuple(flags))


def _connect() -> Part:
    rules = {each.name: frozenset[Enum](each.rules) for each in (connect.SHIPPED, connect.DOCUMENT)}
    tests = {
        connect.Rule.DELAY_SURVIVES_LEADER: "test_cluster.py::test_leader_bounces",
        connect.Rule.EAGER_STEP_STOPS: "test_cluster.py::test_a_step_down_to_eager",
    }
    flags = (
        Flag(
            r.name,
            r.value,
            "",
            (),
            "",
            "",
            _list_with(r, rules),
            tests=("tests/connect/" + tests.get(r, "test_cluster.py::test_non_first_new_member_joins"),),
        )
        for r in connect.Rule
    )
    return Part("Connect's assignor", tuple(rules), tuple(flags))


def _list_with(flag: Enum, choices: Mapping[str, frozenset[Enum]]) -> tuple[str, ...]:
    return tuple(name for name, chosen in choices.items() if flag in chosen)
