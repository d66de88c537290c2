"""Incidents: the findings of a group, grouped by cause, with one sentence each.

An incident has its members, its beginning, the setting to check with its value from the logs, and what to try next.
Every finding is in exactly one incident, by the rules of `cause_rules`. `find_incidents` is a pure function of the
audit of one group, used in Spark tasks, in memory and live. The id of an incident is `i` and the id of its first
finding, so it does not change when later findings join.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import asdict, dataclass, field
from itertools import chain
from operator import attrgetter
from typing import Any, NamedTuple

from fsm.audit.findings import Cause, Finding, FindingKind, Severity
from fsm.audit.findings import rank as rank_finding
from fsm.audit.group_audit import GroupAudit
from fsm.audit.incidents.cause_rules import RULES, WEAK_SPOTS, Rule, Scope, What
from fsm.audit.incidents.next_steps import (
    BROKER_SETTINGS,
    CONNECT_PROTOCOL,
    HEARTBEAT_INTERVAL,
    INSTANCE_ID,
    MAX_POLL_INTERVAL,
    REBALANCE_DELAY,
    SESSION_TIMEOUT,
    Step,
    step_of,
)
from fsm.audit.limits import (
    CONSUMER_HEARTBEAT_INTERVAL_MS,
    DEFAULT_MAX_POLL_INTERVAL_MS,
    DEFAULT_REBALANCE_DELAY_MS,
    DEFAULT_SESSION_TIMEOUT_MS,
    SETTLED_MS,
)
from fsm.audit.rows import CoordinatorAway, Ended, Life, group_by
from fsm.audit.wording import list_members, names, seconds, units
from fsm.logs import facts_of
from fsm.render.wording import many

_SEVERITIES, _KINDS = list(Severity), list(FindingKind)
_NUMBERED = re.compile(r"(?:: |\()(W\d+|G3)\b")
"""The number of a weak spot in a summary, as `fsm.audit.weak_spots` writes it."""


@dataclass(frozen=True, slots=True)
class Incident:
    """One event of one group, with all findings that show it."""

    id: str
    """From the first finding of the cause itself; consequences may begin earlier and be found later."""
    group: str
    severity: Severity
    """Of its worst finding."""
    kind: FindingKind
    """Of its worst finding."""
    sentence: str
    who: tuple[str, ...]
    """Members, the causing ones first."""
    since_ms: int
    until_ms: int | None
    """None if it lasts to the end of the log."""
    cause: Cause
    setting: str
    """The setting to check; empty if there is none."""
    value: str | None
    """Its value in the logs; None if not logged."""
    next_step: str
    hazard: str
    """Anchor in diagrams/hazards.md; empty if it is none of them."""
    findings: tuple[str, ...]
    """Ids, in the order of findings."""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def find_incidents(audit: GroupAudit) -> list[Incident]:
    """The incidents of one group, sorted by `rank`."""
    lives = MemberLives(audit.rows.lives, audit.rows.away)
    return sorted((_incident(one, lives) for one in _episodes(audit.findings, lives)), key=rank)


def of_files(findings: Iterable[Finding]) -> list[Incident]:
    """One incident for each finding about a file."""
    lives = MemberLives(())
    return sorted((_incident(_Episode(_ALONE, "", [one]), lives) for one in findings), key=rank)


def rank(incident: Incident) -> tuple[str, int, str]:
    """The sort key of incidents: group, begin, id."""
    return incident.group, incident.since_ms, incident.id


def badness(incident: Incident) -> tuple[Any, ...]:
    """The sort key with the worst first: severity, still open, kind, duration."""
    lasted_ms = (incident.until_ms or incident.since_ms) - incident.since_ms
    worst = _SEVERITIES.index(incident.severity), incident.until_ms is not None, _KINDS.index(incident.kind)
    return (*worst, -lasted_ms, *rank(incident))


# -- grouping by cause ------------------------------------------------------------------------------------------

_ALONE = Rule(Scope.GROUP, ())


@dataclass(slots=True)
class _Episode:
    """The findings that a rule groups: those of the cause (`core`) and its consequences (`also`)."""

    rule: Rule
    key: str
    core: list[Finding]
    also: list[Finding] = field(default_factory=list)
    end_ms: int = 0


class _Remaining:
    """Findings that no rule has taken yet, by kind and cause."""

    def __init__(self, findings: Iterable[Finding]) -> None:
        self.by_what: dict[tuple[FindingKind, Cause], dict[int, Finding]] = {}
        for number, found in enumerate(findings):
            self.by_what.setdefault((found.kind, found.cause), {})[number] = found

    def of(self, what: Sequence[What]) -> list[tuple[int, Finding]]:
        """The findings that match one of these, by begin."""
        found = [own.items() for (kind, cause), own in self.by_what.items() if {kind, cause, (kind, cause)} & set(what)]
        return sorted(chain.from_iterable(found), key=lambda one: (one[1].start_ms, one[0]))

    def take(self, number: int, found: Finding) -> Finding:
        return self.by_what[found.kind, found.cause].pop(number)

    def rest(self) -> Iterator[Finding]:
        for own in self.by_what.values():
            yield from own.values()


def _episodes(findings: Sequence[Finding], lives: MemberLives) -> Iterator[_Episode]:
    remaining, seesaws = _Remaining(findings), _find_seesaws(findings)
    for rule in RULES:
        found = _find_cores(rule, remaining, lives, seesaws)
        _add_consequences(rule, found, remaining)
        yield from found
    yield from (_Episode(_ALONE, "", [one]) for one in remaining.rest())


def _find_cores(rule: Rule, remaining: _Remaining, lives: MemberLives, seesaws: AbstractSet[str]) -> list[_Episode]:
    """The episodes of a rule: core findings of one scope that follow each other within the rule's time."""
    within_ms = lives.longest_ms(rule.within) if rule.within else SETTLED_MS
    found: list[_Episode] = []
    last: dict[str, _Episode] = {}
    for number, one in remaining.of(rule.core):
        key = _key(rule.scope, one, lives, seesaws)
        if key is None:
            continue
        remaining.take(number, one)
        episode = last.get(key)
        if episode is None or one.start_ms - episode.end_ms > within_ms:
            episode = last[key] = _Episode(rule, key, [], end_ms=one.end_ms)
            found.append(episode)
        episode.core.append(one)
        episode.end_ms = max(episode.end_ms, one.end_ms)
    return found


def _key(scope: Scope, found: Finding, lives: MemberLives, seesaws: AbstractSet[str]) -> str | None:
    """The common key of the findings of one incident; None if the finding is not in the scope."""
    match scope:
        case Scope.GROUP:
            return ""
        case Scope.MEMBER:
            return found.member
        case Scope.CONNECTOR:
            return found.partitions[0][0] if found.partitions else ""
        case Scope.SEESAW:
            return pair if (pair := _pair(found)) in seesaws else None
        case Scope.COORDINATOR:
            away = found.cause is Cause.COORDINATOR_LOST or lives.had_no_coordinator(found.member, found.start_ms)
            return "" if away else None
        case Scope.INSTANCE:
            refused = found.kind is FindingKind.MEMBER_OUT_FOR_GOOD and "INSTANCE_ID" not in found.summary
            return None if refused else lives.shared_instance(found.member, found.start_ms)


def _find_seesaws(findings: Iterable[Finding]) -> AbstractSet[str]:
    """Pairs of members that took partitions from each other, each more than once."""
    ways = Counter((found.member, *found.others) for found in findings if found.kind is FindingKind.DOUBLE_OWNERSHIP)
    return {_SEP.join(sorted(way)) for way, count in ways.items() if count > 1 and ways[way[::-1]] > 1}


def _pair(found: Finding) -> str:
    return _SEP.join(sorted((found.member, *found.others)))


def _add_consequences(rule: Rule, episodes: Sequence[_Episode], remaining: _Remaining) -> None:
    """Adds the consequences that the rule explains: findings that overlap a core finding in time."""
    about: dict[str, list[_Shown]] = {}
    core = ((one, episode) for episode in episodes for one in episode.core)
    for one, episode in sorted(core, key=lambda pair: pair[0].start_ms):
        for member in (one.member, *one.others, _ANY_MEMBER):
            shown = about.setdefault(member, [])
            latest = _Shown(one.start_ms, one.end_ms, episode)
            if shown and shown[-1].end_ms > one.end_ms:
                latest = shown[-1]._replace(start_ms=one.start_ms)
            shown.append(latest)
    for what, anyone in (rule.also, False), (rule.around, True):
        for number, one in remaining.of(what) if about else ():
            shown = about.get(_ANY_MEMBER if anyone else one.member, [])
            at = bisect_right(shown, one.end_ms + SETTLED_MS, key=attrgetter("start_ms")) - 1
            if at >= 0 and one.start_ms <= shown[at].end_ms + SETTLED_MS:
                shown[at].episode.also.append(remaining.take(number, one))


_ANY_MEMBER = _SEP = "\0"


class _Shown(NamedTuple):
    """The core finding with the latest end so far; core findings are given by begin."""

    start_ms: int
    """Begin of the last core finding."""
    end_ms: int
    episode: _Episode


# -- incidents --------------------------------------------------------------------------------------------------


def _incident(episode: _Episode, lives: MemberLives) -> Incident:
    rule, own = episode.rule, sorted([*episode.core, *episode.also], key=rank_finding)
    root, worst = min(episode.core, key=_worst), min(own, key=_worst)
    cause = rule.cause or root.cause
    step = step_of(root, cause)
    instance = episode.key if rule.scope is Scope.INSTANCE else None
    blamed = lives.sharing(instance) if instance is not None else [one.member for one in episode.core]
    blamed = [name for name in dict.fromkeys(blamed) if name]
    setting, value = lives.setting(step.setting, blamed, root.start_ms)
    if cause is Cause.SHARED_INSTANCE:
        setting, value = step.setting, instance
    others = (name for one in own for name in (one.member, *one.others) if name)
    return Incident(
        id=f"i{min(episode.core, key=rank_finding).id}",
        group=root.group,
        severity=worst.severity,
        kind=worst.kind,
        sentence=_sentence(rule, own, root, blamed, f"{setting} ({value})" if value else setting),
        who=tuple(dict.fromkeys([*blamed, *others])),
        since_ms=own[0].start_ms,
        until_ms=_until(own, worst.severity, lives),
        cause=cause,
        setting=setting,
        value=value,
        next_step=step.sentence.format(setting=setting or step.setting),
        hazard=_hazard(root, step, lives),
        findings=tuple(one.id for one in own),
    )


def _until(own: Sequence[Finding], severity: Severity, lives: MemberLives) -> int | None:
    """When it ended; None if a finding of the worst severity is still open. At the latest the end of the logs."""
    if any(lives.is_open(one) for one in own if one.severity is severity):
        return None
    last_ms = max(one.end_ms for one in own)
    return max([min(last_ms, lives.end_ms), *(one.start_ms for one in own)]) if lives.end_ms else last_ms


def _worst(found: Finding) -> tuple[int, int, int]:
    return _SEVERITIES.index(found.severity), _KINDS.index(found.kind), found.start_ms


def _sentence(rule: Rule, own: Sequence[Finding], root: Finding, blamed: Sequence[str], setting: str) -> str:
    """The summary of a single finding, unless two processes share an instance id; else the rule's sentence."""
    if len(own) == 1 and rule.scope is not Scope.INSTANCE:
        return root.summary
    if not rule.sentence:
        return "; ".join([root.summary, *_describe_consequences((one for one in own if one is not root), blamed)])
    happened = rule.sentence.format(who=list_members(blamed), setting=setting)
    return f"{happened}: {'; '.join(_describe_consequences(own, blamed))}"


def _hazard(root: Finding, step: Step, lives: MemberLives) -> str:
    """The number in the summary, or the hazard of Java clients of that protocol."""
    if root.cause in WEAK_SPOTS:
        numbers = _NUMBERED.findall(root.summary)
        return numbers[-1].lower() if numbers else "w1" if root.cause is Cause.LEFT_OUT else ""
    return step.hazard if lives.logs_each_heartbeat(root.member, root.start_ms) else ""


# Consequences.


K = FindingKind
_OF_UNITS = (K.RAN_TWICE, K.UNASSIGNED_WORK, K.TASK_ZOMBIE)


def _describe_consequences(findings: Iterable[Finding], blamed: Sequence[str]) -> Iterator[str]:
    """A clause for each kind of findings of one cause, in the order of kinds.

    `blamed` are the members that the sentence has named before.
    """
    by_kind = group_by(findings, attrgetter("kind"))
    named = ""
    for kind in FindingKind:
        if own := by_kind.get(kind):
            members = list(dict.fromkeys(found.member for found in own if found.member))
            who = list_members(members) if set(members) != set(blamed) else "it" if len(members) == 1 else "they"
            what = _what(own)
            same, named = bool(what) and what == named, what
            longest = seconds(max(found.end_ms - found.start_ms for found in own))
            yield _CLAUSES[kind].format(
                who=who,
                what="these" if same else what,
                longest=longest,
                times=f" {len(own)} times" if len(own) > 1 else "",
                count=len(own),
                piled=f", and {many(piled, 'record')} piled up" if (piled := sum(f.piled_up or 0 for f in own)) else "",
            )


def _what(own: Sequence[Finding]) -> str:
    about = sorted({partition for found in own for partition in found.partitions})
    return units(about) if own[0].kind in _OF_UNITS else names(about)


_CLAUSES = {
    K.DOUBLE_OWNERSHIP: "{what} had two owners{times}, for up to {longest}",
    K.UNOWNED_PARTITION: "{what} had no owner for up to {longest}{piled}",
    K.LOST_WITHOUT_CALLBACK: "{what} were taken without a callback",
    K.PARTITIONS_LOST: "{what} were lost{times}",
    K.MEMBERSHIP_LOST: "{who} lost the membership{times}",
    K.COMMIT_REFUSED: "{who} had a commit refused{times}",
    K.CALLBACK_NOT_OWNED: "a callback named {what}, which {who} no longer had",
    K.LATE_LEAVE: "{who} left up to {longest} late",
    K.MEMBER_OUT_FOR_GOOD: "{who} got a fatal error and left the group for good",
    K.FENCING_LOOP: "{who} lost the membership again and again",
    K.LISTENER_ERROR: "a callback failed{times}",
    K.SLOW_CALLBACK: "the longest took {longest}",
    K.RAN_TWICE: "{what} ran on two workers at once, for up to {longest}",
    K.UNASSIGNED_WORK: "{what} ran nowhere for up to {longest}",
    K.CONFIG_LAG: "{who} lagged for {longest}",
    K.TASK_ZOMBIE: "{what} went on",
    K.STUCK_STATE: "{who} waited in one state for up to {longest}",
    K.REBALANCE_STORM: "{who} did little but rebalance",
    K.HEARTBEAT_GAP: "{who} sent no heartbeat for up to {longest}",
    K.ILLEGAL_TRANSITION: "{count} of them",
    K.UNPARSED_LINES: "{count} stretches are not known",
}
"""`{times}` and `{count}` are the number of findings, `{longest}` is the duration of the longest one."""

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

    member: str
    instance_id: str
    start_ms: int
    end_ms: int


class MemberLives:
    def __init__(self, lives: Iterable[Life], away: Iterable[CoordinatorAway] = ()) -> None:
        self.away = group_by(away, attrgetter("member"))
        in_time = sorted(lives, key=attrgetter("start_ms", "member", "number"))
        self.by_member = group_by(in_time, attrgetter("member"))
        static = (life for life in in_time if any(map(str.isalnum, life.instance_id)))  # some clients always print {}
        self.end_ms = max((own[-1].end_ms for own in self.by_member.values()), default=0)
        by_instance = group_by(static, attrgetter("instance_id"))
        overlaps = (one for own in by_instance.values() for one in _overlaps(own))
        self.shared = group_by(overlaps, attrgetter("member"))

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
        values = (_read_setting(life, name) for own in self.by_member.values() for life in own)
        return max((int(text) for text in values if text.isdecimal()), default=DEFAULTS_MS[name])

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
        return sorted({one.member for own in self.shared.values() for one in own if one.instance_id == instance_id})

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


def _overlaps(lives: Sequence[Life]) -> Iterator[_Shared]:
    """Members with overlapping lives, given by begin, up to one session after the overlap."""
    for number, one in enumerate(lives):
        for other in lives[number + 1 :]:
            if other.start_ms > one.end_ms:
                break
            session_ms = max(one.session_timeout_ms or 0, other.session_timeout_ms or 0) or DEFAULT_SESSION_TIMEOUT_MS
            until_ms = min(one.end_ms, other.end_ms) + session_ms
            for life in (one, other) if one.member != other.member else ():
                yield _Shared(life.member, one.instance_id, other.start_ms - SETTLED_MS, until_ms)


def _read_setting(life: Life, name: str) -> str:
    """The value of a setting in the log of a life; empty if not logged."""
    return life.instance_id if name == INSTANCE_ID else life.settings.get(name, "")
