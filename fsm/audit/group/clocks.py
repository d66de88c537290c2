"""Finds members whose clock or time zone is wrong.

A group has each epoch or generation once, and its members reach it within the rebalance timeout. If some members reach
every shared epoch later, or earlier, by the same larger time, their clocks differ. A smaller difference looks the same
as slow members. A difference above `A_DAY_MS` may be another group of the same name with its own epochs.

Members that reach an epoch together share a clock. The clock of most members is taken as right. One shared epoch is
enough if the difference is whole hours, as between time zones.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

from fsm.audit.findings import Finding, FindingKind, finding
from fsm.audit.limits import DEFAULT_MAX_POLL_INTERVAL_MS
from fsm.audit.rows import MemberRebalance, Place
from fsm.audit.wording import seconds

A_DAY_MS = 26 * 3_600_000
"""Largest difference between two time zones; more than a wrong date."""
_HOUR_MS = 3_600_000
_NEAR_HOUR_MS = 30_000
_MOST_SPLIT = 1000
"""Limit of compared epochs that members reached at different times."""
CLOCKS_DIFFER = "the time stamps of "
"""Beginning of the summary of these findings."""
_LEAVING = ("lost", "left")
"""Causes of rebalances of leaving members: their epoch began some time before."""


class _Arrival(NamedTuple):
    """When the first member of one clock reached an epoch."""

    epoch: int
    start_ms: int
    member: str
    place: Place


class _Clocks:
    def __init__(self) -> None:
        self.leader: dict[str, str] = {}
        self.split: list[list[_Arrival]] = []
        """Epochs that members reached at different times."""

    def root(self, member: str) -> str:
        while self.leader.setdefault(member, member) != member:
            self.leader[member] = member = self.leader[self.leader[member]]
        return member

    def read(self, turns: Sequence[MemberRebalance], wait_ms: int) -> None:
        parts: list[list[_Arrival]] = []
        for one in sorted(_arrivals(turns, wait_ms)):
            own = self.root(one.member)
            if parts and one.start_ms - parts[-1][-1].start_ms <= wait_ms:
                parts[-1].append(one)
                self.leader[own] = self.root(parts[-1][0].member)
            else:
                parts.append([one])
        if len(parts) > 1 and len(self.split) < _MOST_SPLIT:
            self.split.append([part[0] for part in parts])


def _arrivals(turns: Iterable[MemberRebalance], wait_ms: int) -> Iterator[_Arrival]:
    """When each member reached the epoch; members that reached it twice are left out."""
    for member, own in groupby(turns, key=lambda turn: turn.member):
        mine = list(own)
        if mine[-1].start_ms - mine[0].start_ms <= wait_ms:
            yield _Arrival(mine[0].epoch or 0, mine[0].start_ms, member, mine[0].place)


def find_clock_differences(group: str, turns: Iterable[MemberRebalance]) -> Iterator[Finding]:
    """One finding for the members of each wrong clock. Turns are sorted by epoch, member, start."""
    clocks = _Clocks()
    wait_ms = 2 * DEFAULT_MAX_POLL_INTERVAL_MS
    reached = (t for t in turns if t.epoch and t.epoch > 0 and t.cause not in _LEAVING)
    for _, own in groupby(reached, key=lambda turn: turn.epoch):
        of_epoch = list(own)
        wait_ms = max(wait_ms, *(2 * turn.timeout_ms for turn in of_epoch))
        clocks.read(of_epoch, wait_ms)
    if not clocks.split:
        return
    members = Counter(map(clocks.root, sorted(clocks.leader)))
    right = max(sorted(members), key=lambda root: members[root])
    arrived = [{clocks.root(one.member): one for one in arrivals} for arrivals in clocks.split]
    for wrong in sorted(members.keys() - {right}):
        pairs = [(first[wrong], first[right]) for first in arrived if {wrong, right} <= first.keys()]
        apart = [one.start_ms - other.start_ms for one, other in pairs]
        if _is_constant(apart, wait_ms):
            yield _finding(group, pairs, apart, members[wrong])


def _is_constant(apart: Sequence[int], wait_ms: int) -> bool:
    """Whether the difference is the same for all epochs, longer than `wait_ms`, and at most `A_DAY_MS`."""
    if not apart or max(apart) - min(apart) > wait_ms or not wait_ms < min(map(abs, apart)) <= A_DAY_MS:
        return False
    return len(apart) > 1 or abs(apart[0] - _HOUR_MS * round(apart[0] / _HOUR_MS)) <= _NEAR_HOUR_MS


def _finding(group: str, pairs: Sequence[tuple[_Arrival, _Arrival]], apart: Sequence[int], count: int) -> Finding:
    one, other = pairs[0]
    apart_ms = sorted(apart)[len(apart) // 2]
    others = f" and {count - 1} more" if count > 1 else ""
    shared = f"epoch {one.epoch}, which both came to" if len(pairs) == 1 else f"{len(pairs)} epochs that both came to"
    which = "ahead of" if apart_ms > 0 else "behind"
    times_ms = one.start_ms, other.start_ms
    about, places = (group, one.member, min(times_ms), max(times_ms)), [one.place, other.place]
    summary = (
        f"{CLOCKS_DIFFER}{one.member}{others} are {seconds(abs(apart_ms))} {which} those of {other.member}, by "
        f"{shared}: what the two did at one time is not known. Give the time zone of stamps without one with "
        f"--timezone, or audit the files of each zone alone; --clock-skew-ms {abs(apart_ms)} allows for "
        "a clock that is wrong"
    )
    return finding(FindingKind.ILLEGAL_TRANSITION, *about, summary, places).lower_severity()
