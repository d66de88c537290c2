"""The sentences of incidents: the consequences of a cause, by kind of finding."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from fsm.audit.findings import Finding, FindingKind
from fsm.audit.wording import list_members, names, seconds, units
from fsm.render.wording import many

K = FindingKind
_OF_UNITS = (K.RAN_TWICE, K.UNASSIGNED_WORK, K.TASK_ZOMBIE)


def describe_consequences(findings: Iterable[Finding], blamed: Sequence[str]) -> Iterator[str]:
    """A clause for each kind of findings of one cause, in the order of kinds.

    `blamed` are the members that the sentence has named before.
    """
    by_kind: dict[FindingKind, list[Finding]] = {}
    for found in findings:
        by_kind.setdefault(found.kind, []).append(found)
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
