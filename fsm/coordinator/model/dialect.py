"""Dialects of the coordinator: the releases of Kafka as sets of named choices.

A choice is one rule in which releases differ: its flag (an entry of `diagrams/dialects.md`), the rule, the older rule,
the releases that brought it to their branches, the ticket. Code checks `choice in dialect`; nothing else in the
coordinator depends on a version. The presets are not listed, they follow from `since`: a new release is an entry of
`RELEASES`, a new difference a member of `Choice`. After the releases stands `fixed`: the latest one without the weak
spots that a broker can end.

Two flags have three values. F20 is two choices, of which a dialect has one or, for "never", none.
F2 is one: that its case cannot happen is F11's doing.

Source: the group coordinator of each release of apache/kafka, compared with branch 4.4 at 87943b2ff874; `s24` is trunk
at 1eb7644349cb (October 2024, between 3.9 and 4.0).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from functools import cache
from typing import Self

from fsm.errors import InputError
from fsm.protocol.releases import LATEST, RELEASES, change_choices, split_dialect

SNAPSHOT = "s24"
"""The sources of October 2024, before every release."""
FIXED = "fixed"
"""The latest release without the weak spots that a broker can end."""


class Choice(Enum):
    """One rule that differs between releases; the values of a member are its attributes."""

    flag: str
    """Its name in `diagrams/dialects.md`."""
    since: tuple[str, ...]
    """The first release of each branch that has it; branches after the last one named have it from the start."""
    rule: str
    """The rule of dialects with the choice."""
    older: str
    """The rule of dialects without it."""
    ticket: str
    until: str
    """The release that replaced it by another choice; empty if none has."""

    def __new__(  # noqa: PLR0917  # the columns of a line of data
        cls, flag: str, since: str, rule: str, older: str, ticket: str = "", until: str = ""
    ) -> Self:
        member = object.__new__(cls)
        member._value_ = len(cls.__members__)
        member.flag, member.since, member.ticket = flag, tuple(since.split()), ticket
        member.rule, member.older, member.until = rule, older, until
        return member

    __hash__ = object.__hash__

    FRESH_EPOCH_IS_ONE = (
        "F1",
        "4.3.0",
        "a fresh group has group epoch and target epoch 1, so its first subscriber gets epoch 2",
        "both are 0, and the first member gets 1",
        "KAFKA-20268",
    )
    EMPTY_SUBSCRIPTION_NOT_BUMPED = (
        "F2",
        "4.3.0",
        "a fresh group whose first member subscribes to nothing is not bumped",
        "it is bumped; where F11 is missing, too, such a member cannot join at all",
        "KAFKA-20268",
    )
    ASSIGNMENT_INTERVAL = (
        "F3",
        "4.3.0",
        "a target is computed at the earliest one assignment interval after the one before; the time is persisted",
        "a target is computed in the very request that bumps the group epoch",
        "KIP-1263, KAFKA-20266, KAFKA-20291",
    )
    EMPTIED_GROUP_SETS_TARGET_EPOCH = (
        "F4",
        "4.4.0",
        "removing the last member sets the target epoch to the group epoch, with time 0",
        "the target epoch stays behind",
        "KAFKA-20442",
    )
    REVOKES_AGAIN_AT_OWN_EPOCH = (
        "F5",
        "4.2.0",
        "a member that acknowledged and must revoke once more keeps its epoch (V3)",
        "its epoch goes up by one",
        "KAFKA-19974",
    )
    OWN_PENDING_NEVER_BLOCKS = (
        "F6",
        "4.0.2 4.1.2 4.2.0",
        "a partition that the member itself has pending does not block its return",
        "it counts as held by somebody",
        "KAFKA-19449",
    )
    SUBSCRIPTION_FILTERS_TARGET = (
        "F7",
        "4.2.0",
        "the target is filtered by the member's subscription, and a changed subscription takes partitions back at once",
        "the target is handed out as it is",
        "KAFKA-19431",
    )
    TRIM_MOVES_PREVIOUS_EPOCH = (
        "F7b",
        "4.3.0",
        "taking back what is no longer subscribed sets the previous epoch to the epoch",
        "the previous epoch stays",
        "KAFKA-19431",
    )
    ASSIGNMENT_EPOCHS = (
        "F8",
        "4.3.0",
        "every held partition remembers the epoch it was assigned at, and offset commits are accepted down to it",
        "commits need the member epoch exactly",
        "KIP-1251, KAFKA-20066",
    )
    EPOCH_ZERO_ALWAYS_PASSES = (
        "F9",
        "4.2.0",
        "epoch 0 of a dynamic member that exists always passes the epoch check",
        "only where its previous epoch is 0, else it is fenced",
        "KAFKA-19233",
    )
    REGEX_SUBSCRIPTIONS = (
        "F10",
        "4.0.0",
        "subscriptions by regular expression are accepted",
        "they are an invalid request",
        "KAFKA-17593",
    )
    REGEX_REFRESHED_BY_AGE = (
        "F10b",
        "4.1.0",
        "resolved regular expressions are also refreshed by age",
        "only on new topics, or while one is unresolved",
        "KAFKA-18961",
    )
    CLEARED_REGEX_BUMPS = (
        "F10c",
        "4.1.2 4.2.0",
        "giving up a regular expression bumps the group epoch",
        "it does not",
        "KAFKA-19891, KAFKA-19899",
    )
    CLASSIC_REPLACEMENT_CLEARS_REGEX = (
        "F10d",
        "4.0.2 4.1.2 4.2.0",
        "a classic JoinGroup clears the regular expression of the static member it replaces, and bumps",
        "the regular expression is kept",
        "KAFKA-19720",
    )
    CLIENT_MAKES_MEMBER_ID = (
        "F11",
        "4.0.0",
        "version 1 needs a member id made by the client; empty names are allowed; topics need DESCRIBE",
        "names are mandatory and not empty, the coordinator makes the id, and topics are not checked",
        "KAFKA-18095, KIP-1082, KAFKA-18813",
    )
    METADATA_HASH = (
        "F12",
        "4.1.0",
        "topic metadata is a hash inside the group's record, and a change of racks changes it",
        "a record of its own (type 4) with partition counts, without racks",
        "KAFKA-17747",
    )
    ELECTED_ASSIGNOR_BUMPS = (
        "F13",
        "4.4.0",
        "a change of the elected assignor bumps the group epoch",
        "it does not",
        "KAFKA-20434",
    )
    KNOWN_INSTANCE_EXEMPT_FROM_SIZE = (
        "F14",
        "4.4.0",
        "a known instance id is exempt from the size limit (also on the unreleased tip of 4.3)",
        "it is not",
        "KAFKA-20601",
    )
    INSTANCE_CHANGE_DROPS_MAPPING = (
        "F15",
        "4.4.0",
        "a member id that changes its instance id gives up the old one",
        "the old instance id still leads to it",
        "KAFKA-20747",
    )
    DISABLED_REFUSES_CLASSIC_JOIN = (
        "F16",
        "4.3.1 4.4.0",
        "policy disabled refuses a classic JoinGroup to a consumer group with members (also on the tips of 4.0 to 4.2)",
        "the policy is not looked at",
        "KAFKA-20640",
    )
    MALFORMED_SUBSCRIPTION_IS_INCONSISTENT = (
        "F17",
        "4.4.0",
        "a malformed subscription in JoinGroup is INCONSISTENT_GROUP_PROTOCOL (also on the tips of 4.2 and 4.3)",
        "it is UNKNOWN_SERVER_ERROR",
        "KAFKA-20662, KAFKA-20570",
    )
    CLASSIC_REJOINS_BEHIND_TARGET = (
        "F18",
        "4.3.0",
        "a classic member is told to rejoin when it is behind the target epoch",
        "when it is behind the group epoch",
        "KAFKA-20272",
    )
    LEAVE_GROUP_REMOVES_ANY = (
        "F19",
        "4.0.0",
        "LeaveGroup may remove members of the consumer protocol, and any removal may downgrade the group",
        "LeaveGroup is for classic members and never downgrades",
        "KAFKA-18188, KAFKA-18150",
    )
    REPLACEMENT_REBALANCES_IF_BUMPED = (
        "F20",
        "4.0.2 4.1.1 4.2.0",
        "a downgrade by replacement rebalances the classic group if the joiner changed the subscription",
        "it never does",
        "KAFKA-19546",
        "4.3.0",
    )
    REPLACEMENT_REBALANCES_IF_STALE = (
        "F20",
        "4.3.0",
        "a downgrade by replacement rebalances the classic group if the target epoch is behind the group epoch",
        "whether the joiner changed the subscription decides, or nothing",
        "KAFKA-20273",
    )
    UPGRADE_ACCEPTS_EMPTY_ASSIGNMENT = (
        "F21",
        "4.0.0",
        "an upgrade accepts empty assignments and refuses user data of an assignor",
        "it refuses empty assignments and drops user data silently",
        "KAFKA-17733, KAFKA-18134",
    )
    UPGRADE_FILLS_METADATA = (
        "F21b",
        "4.0.1",
        "an upgrade fills in the topic metadata at once",
        "it stays empty, so the first heartbeat bumps",
        "KAFKA-18687",
    )
    MISMATCHED_RELEASE_IGNORED = (
        "F22",
        "4.0.2 4.1.2 4.2.0",
        "releasing a partition registered at another epoch is ignored; registering fails only over a higher one",
        "both are internal errors",
        "KAFKA-19862",
    )
    OFFSET_COMMIT_HAS_TOPIC_ID = (
        "F23",
        "4.1.0",
        "offset commits are written in version 4, with the topic id",
        "in version 3",
        "KAFKA-19141",
    )
    DESCRIBE_SHOWS_PENDING = (
        "F24",
        "4.3.0",
        "DescribeGroups reports assigned and pending partitions as a member's assignment",
        "assigned ones only",
        "KAFKA-20431",
    )
    EXTRA_SLOT_STAYS = (
        "F25",
        "4.0.1",
        "uniform, equal subscriptions: the extra slot stays with a member that uses it",
        "it goes to the first members in order",
        "KAFKA-18688",
    )
    PENDING_OFFSETS_KEEP_GROUP = (
        "F26",
        "4.0.1",
        "cleanup does not delete groups with pending transactional offsets",
        "it may",
        "KAFKA-19163",
    )
    TXN_COMMIT_ERRORS = (
        "F27",
        "4.4.0",
        "TxnOffsetCommit version 6 answers GROUP_ID_NOT_FOUND and STALE_MEMBER_EPOCH as such",
        "they are mapped to older codes",
        "KIP-1319",
    )
    MOVED_TARGET_COUNTS_AS_STORED = (
        "F28",
        "4.4.0",
        "a target computed when a static member is replaced writes the entry that moved only if it changes",
        "it writes that entry again",
        "KAFKA-20292",
    )

    # The rules that only `fixed` has: no tickets are known
    OLDER_CONNECTION_IS_CLOSED = (
        "F29",
        "fixed",
        "no request is handled after one of its member, or a join of its instance id, on a later connection (W8, W25)",
        "a request that a member has sent again on a later connection is handled when it arrives",
    )
    CLASSIC_COMPUTES_TARGET = (
        "F31",
        "fixed",
        "classic members are told to rejoin while a target is due and nobody else is left to compute it (W5)",
        "they wait for a member of the consumer protocol, or for another one to join",
    )
    OWED_JOIN_REBALANCES = (
        "F33",
        "fixed",
        "a process that replaces a static member starts a rebalance if that one still had partitions to revoke (W13)",
        "there is no rebalance if the protocol stays, and those partitions are assigned to nobody",
    )
    CONVERSION_IN_REBALANCE_BUMPS = (
        "F34",
        "fixed",
        "a classic group converted during a rebalance, or while a member owes a join, bumps its epoch (W13, W14)",
        "what its members were assigned so far, or nothing, is the target for its generation",
    )
    REPLACEMENT_REBALANCES_IF_WAITING = (
        "F35",
        "fixed",
        "a downgrade by replacement rebalances the classic group if a member waits for what others hold (W15)",
        "that member is assigned them, but not informed",
    )
    CONVERSION_KEEPS_HELD = (
        "F36",
        "fixed",
        "in a group that changes its type a classic member also holds what it has to revoke (W16)",
        "an upgrade treats its last assignment as all that it holds, a downgrade its target",
    )
    STATIC_MEMBER_JOINS_AGAIN = (
        "F37",
        "fixed",
        "a member that joins again with its own member id and instance id is accepted, as after a lost response (W17)",
        "it gets UNRELEASED_INSTANCE_ID, as if it were another member",
    )
    MEMBER_OF_NO_GROUP_IS_UNKNOWN = (
        "F38",
        "fixed",
        "a member whose consumer group is gone, or is now a classic one, gets UNKNOWN_MEMBER_ID, and rejoins (W18)",
        "it gets GROUP_ID_NOT_FOUND",
    )
    REMOVED_MEMBER_IS_UNKNOWN = (
        "F40",
        "fixed",
        "a classic member that a consumer group has removed, and that has a generation, gets UNKNOWN_MEMBER_ID (W2)",
        "it is created again without an error, and keeps using its partitions",
    )
    FIRST_CONVERSION_ELECTS_PROTOCOL = (
        "F41",
        "fixed",
        "a classic group that waits for its first generation is converted by the protocol that it would elect (W12)",
        "it has none yet, so the conversion fails: UNKNOWN_SERVER_ERROR",
    )
    OUTDATED_REBALANCES_ON_LOAD = (
        "F42",
        "fixed",
        "a classic group loaded with partitions that nobody has, or that are gone from its topics, rebalances (W28)",
        "it is STABLE: the rebalance of a downgrade is lost with its broker, and nobody starts another one",
    )
    REPLACED_ID_IS_STORED = (
        "F43",
        "fixed",
        "the new id of a static classic member is stored as it joins, in the generation that the log has (W29)",
        "it is stored with the next generation: a broker that takes over before that fences it",
    )
    LATE_MEMBER_KEEPS_OWNED = (
        "F44",
        "fixed",
        "the leader is told that a static member that is late for a round owns what it was assigned, too (W31)",
        "it is told what the member owned as it last joined",
    )
    OUTDATED_REBALANCES = (
        "F45",
        "fixed",
        "a classic group with outdated assignments rebalances as its topics change or its static leader returns (W32)",
        "only its leader looks: a static one that returns takes topics as they are now for what it assigned from",
    )
    REFUSED_JOIN_KEEPS_GROUP = (
        "F46",
        "fixed",
        "an empty consumer group stays as it is if a classic member joins that it does not know (W33)",
        "it is gone from memory, but not from the log",
    )
    FULL_REFUSAL_ENDS_PHASE = (
        "F47",
        "fixed",
        "a join phase ends as a full group refuses the last member that it waits for (W34)",
        "those who have joined wait until the phase is over",
    )
    NEW_SUBSCRIPTION_REBALANCES = (
        "F48",
        "fixed",
        "a static classic member that returns with a subscription to other topics rebalances its group (W35)",
        "it gets the assignment of its predecessor, unless the group elects another protocol",
    )
    LOADING_SYNC_JOINS_AGAIN = (
        "F49",
        "fixed",
        "a SyncGroup to a coordinator that loads is answered with REBALANCE_IN_PROGRESS (W36)",
        "it is answered with COORDINATOR_LOAD_IN_PROGRESS, which clients do not expect",
    )

    @property
    def word(self) -> str:
        """Its name in that of a dialect: the flag, if no newer choice has it."""
        return self.flag if _BY_WORD.get(self.flag) is self else self.name

    def holds_in(self, release: str) -> bool:
        """Whether the release has the rule; `s24` has none, `fixed` those of the latest release and its own."""
        if release == SNAPSHOT:
            return False
        if self.since == (FIXED,):
            return release == FIXED
        if release == FIXED:
            return self.holds_in(LATEST)
        at = _number(release)
        firsts = [_number(first) for first in self.since]
        begun = any(first[:2] == at[:2] and first <= at for first in firsts) or max(firsts)[:2] < at[:2]
        return begun and not (self.until and _number(self.until) <= at)


_BY_WORD = {choice.flag: choice for choice in Choice} | dict(Choice.__members__)
"""Choices by flag and by name; the flag of two is that of the newer one."""


@dataclass(frozen=True)
class Dialect:
    """A named set of choices; equal sets under two names are two dialects."""

    name: str
    choices: frozenset[Choice]

    def __contains__(self, choice: Choice) -> bool:
        return choice in self.choices

    def with_choices(self, *choices: Choice) -> Dialect:
        """This dialect with these choices added, to see their effect."""
        return Dialect(f"{self.name}{''.join(f'+{c.word}' for c in choices)}", self.choices | set(choices))

    def without_choices(self, *choices: Choice) -> Dialect:
        """This dialect without the choices."""
        return Dialect(f"{self.name}{''.join(f'-{c.word}' for c in choices)}", self.choices - set(choices))


PRESETS = (SNAPSHOT, *RELEASES, FIXED)
"""Every preset by name, oldest first."""


@cache
def dialect(name: str = LATEST) -> Dialect:
    """The preset of a release, of a branch's latest release (`4.2`), `s24` or `fixed`; `4.2+F29-F5` has one rule more
    and lacks one.

    Raises `InputError` with the names of presets for an unknown one.
    """
    base, changes = split_dialect(name)
    found = base if base in RELEASES else _latest(base)
    if found not in PRESETS:
        raise InputError(f"unknown coordinator dialect {name!r}", remedy=f"one of {', '.join(PRESETS)}")
    choices = frozenset(choice for choice in Choice if choice.holds_in(found))
    changed = change_choices(choices, changes, _BY_WORD)
    return Dialect(found + "".join(f"{sign}{_BY_WORD[word].word}" for sign, word in changes), changed)


def presets() -> tuple[Dialect, ...]:
    """Those of Kafka's own sources, oldest first."""
    return tuple(dialect(name) for name in PRESETS if name != FIXED)


def _latest(branch: str) -> str:
    patches = [release for release in RELEASES if release.rpartition(".")[0] == branch]
    return patches[-1] if patches else branch


def _number(release: str) -> tuple[int, ...]:
    return tuple(int(part) for part in release.split("."))
