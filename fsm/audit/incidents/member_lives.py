"""The lives of a group's members, for incidents: logged settings, shared instance ids, ends."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from fsm.audit.findings import Finding, FindingKind
from fsm.audit.incidents.next_steps import (
    BROKER_SETTINGS,
    CONNECT_PROTOCOL,
    HEARTBEAT_INTERVAL,
    INSTANCE_ID,
    MAX_POLL_INTERVAL,
    REBALANCE_DELAY,
    SESSION_TIMEOUT,
)
from fsm.audit.limits import (
    CONSUMER_HEARTBEAT_INTERVAL_MS,
    DEFAULT_MAX_POLL_INTERVAL_MS,
    DEFAULT_REBALANCE_DELAY_MS,
    DEFAULT_SESSION_TIMEOUT_MS,
    SETTLED_MS,
)
from fsm.audit.rows import CoordinatorAway, Ended, Life
from fsm.logs import facts_of

CONSUMER = "consumer"
DEFAULTS_MS = {
    MAX_POLL_INTERVAL: DEFAULT_MAX_POLL_INTERVAL_MS,
    SESSION_TIMEOUT: DEFAULT_SESSION_TIMEOUT_MS,
    HEARTBEAT_INTERVAL: CONSUMER_HEARTBEAT_INTERVAL_MS,
    REBALANCE_DELAY: DEFAULT_REBALANCE_DELAY_MS,
}
OF_ONE_MEMBER = (FindingKind.MEMBER_OUT_FOR_GOOD, FindingKind.STUCK_STATE, FindingKind.HEARTBEAT_GAP)
"""Kinds that are open to the end of the member's log, not of the group's."""


class _Shared(NamedTuple):
    """The time in which a member had the same group.instance.id as another one."""

    instance_id: str
    start_ms: int
    end_ms: int


class MemberLives:
    def __init__(self, lives: Iterable[Life], away: Iterable[CoordinatorAway] = ()) -> None:
        self.away: dict[str, list[CoordinatorAway]] = {}
        for one in away:
            self.away.setdefault(one.member, []).append(one)
        self.by_member: dict[str, list[Life]] = {}
        by_instance: dict[str, list[Life]] = {}
        for life in sorted(lives, key=lambda one: (one.start_ms, one.member, one.number)):
            self.by_member.setdefault(life.member, []).append(life)
            if any(map(str.isalnum, life.instance_id)):  # some clients always print {}
                by_instance.setdefault(life.instance_id, []).append(life)
        self.end_ms = max((own[-1].end_ms for own in self.by_member.values()), default=0)
        self.shared: dict[str, list[_Shared]] = {}
        for own in by_instance.values():
            for member, shared in _overlaps(own):
                self.shared.setdefault(member, []).append(shared)

    # -- settings -----------------------------------------------------------------------------------------------

    def setting(self, name: str, members: Sequence[str], ts_ms: int) -> tuple[str, str | None]:
        """(name of the setting in the members' protocol, its different values in their logs or None).

        `CONNECT_PROTOCOL` must be equal on all workers, so it is read from all members.
        """
        named = self.by_member if name == CONNECT_PROTOCOL else members
        lives = [life for member in named if (life := self._at(member, ts_ms)) is not None]
        if lives and lives[0].protocol == CONSUMER:
            name = BROKER_SETTINGS.get(name, name)
        value = ", ".join(sorted({one for life in lives if (one := _read_setting(life, name))})) or None
        return ("" if name == INSTANCE_ID and value is None else name), value

    def longest_ms(self, name: str) -> int:
        """The highest value of a setting in milliseconds in the logs; Kafka's default if it was not logged."""
        values = (_read_setting_ms(life, name) for own in self.by_member.values() for life in own)
        return max((ms for ms in values if ms is not None), default=DEFAULTS_MS[name])

    def logs_each_heartbeat(self, member: str, ts_ms: int) -> bool:
        """Whether the member was then a KIP-848 member that prints each abandoned heartbeat, as Java's do."""
        life = self._at(member, ts_ms)
        return life is not None and life.protocol == CONSUMER and facts_of(life.client_id).logs_each_heartbeat

    def _at(self, member: str, ts_ms: int) -> Life | None:
        """The life of a member at a time, else the last one before it, else the first."""
        own = self.by_member.get(member, [])
        return next((life for life in reversed(own) if life.start_ms <= ts_ms), own[0] if own else None)

    # -- coordinators -------------------------------------------------------------------------------------------

    def had_no_coordinator(self, member: str, ts_ms: int) -> bool:
        """Whether the member knew no coordinator at this time, or within one heartbeat interval before."""
        life = self._at(member, ts_ms)
        interval_ms = (life.heartbeat_interval_ms if life else None) or CONSUMER_HEARTBEAT_INTERVAL_MS
        return any(one.start_ms <= ts_ms <= one.end_ms + interval_ms for one in self.away.get(member, ()))

    # -- instance ids -------------------------------------------------------------------------------------------

    def shared_instance(self, member: str, ts_ms: int) -> str | None:
        """The group.instance.id that the member shared with another one at this time."""
        for shared in self.shared.get(member, ()):
            if shared.start_ms <= ts_ms <= shared.end_ms:
                return shared.instance_id
        return None

    def sharing(self, instance_id: str) -> list[str]:
        """The members that shared this instance id, by name."""
        own = ((member, shared) for member, spans in self.shared.items() for shared in spans)
        return sorted({member for member, shared in own if shared.instance_id == instance_id})

    # -- ends ---------------------------------------------------------------------------------------------------

    def is_open(self, found: Finding) -> bool:
        """Whether the finding lasts to the end of the group's logs, or of the log of its silent member."""
        if found.end_ms == found.start_ms:
            return False
        own = self.by_member.get(found.member, [])
        if own and found.kind in OF_ONE_MEMBER:
            return own[-1].ended is Ended.LOG_ENDED and found.end_ms >= own[-1].end_ms
        taken = found.others and found.kind in (FindingKind.UNOWNED_PARTITION, FindingKind.UNASSIGNED_WORK)
        return found.end_ms >= self.end_ms and not taken


def _overlaps(lives: Sequence[Life]) -> Iterator[tuple[str, _Shared]]:
    """Members with overlapping lives, given by begin, up to one session after the overlap."""
    for number, one in enumerate(lives):
        for other in lives[number + 1 :]:
            if other.start_ms > one.end_ms:
                break
            session_ms = max(one.session_timeout_ms or 0, other.session_timeout_ms or 0) or DEFAULT_SESSION_TIMEOUT_MS
            until_ms = min(one.end_ms, other.end_ms) + session_ms
            for life in (one, other) if one.member != other.member else ():
                yield life.member, _Shared(one.instance_id, other.start_ms - SETTLED_MS, until_ms)


def _read_setting(life: Life, name: str) -> str:
    """The value of a setting in the log of a life; empty if not logged."""
    return life.instance_id if name == INSTANCE_ID else life.settings.get(name, "")


def _read_setting_ms(life: Life, name: str) -> int | None:
    text = _read_setting(life, name)
    return int(text) if text.isdecimal() else None
