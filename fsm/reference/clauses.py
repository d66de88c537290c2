"""The clauses of the coordinator's tables: the rule of a row, and its place in Kafka."""

from __future__ import annotations

from typing import NamedTuple


class Clause(NamedTuple):
    """A rule that rows cite."""

    number: str
    """As cited by rows. Words after a number, as in `5.3 Leave`, name a part of the rule."""
    rule: str
    source: str
    """KIP, or method of apache/kafka; a method without a class is one of `GroupMetadataManager`."""


class Clauses(NamedTuple):
    """The clauses of some tables."""

    tables: tuple[str, ...]
    entries: tuple[Clause, ...]


# fmt: off
GROUPS = Clauses(("consumer-group", "consumer-group-member", "classic-group"), (
    Clause("1.2", "The state of a consumer group follows from its members and epochs.",
           "`ConsumerGroup.maybeUpdateGroupState`"),
    Clause("2.5-11", "The state UNKNOWN comes only from a record with an unknown state code.",
           "`ConsumerGroupMember.Builder.updateWith`"),
    Clause("3.4 R4", "A heartbeat without instance id finds its member, or creates it at epoch 0.",
           "`getOrMaybeSubscribeDynamicConsumerGroupMember`"),
    Clause("3.4 R4'", "A heartbeat with epoch 0 under a known instance id replaces the static member.",
           "`getOrMaybeSubscribeStaticConsumerGroupMember`, `replaceMember`"),
    Clause("3.4 R5", "What a heartbeat leaves out keeps its old value.", "`ConsumerGroupMember.Builder`"),
    Clause("3.4 R6", "A member that differs is written; other names or another pattern change its subscription.",
           "`hasMemberSubscriptionChanged`"),
    Clause("3.4 R7", "The metadata hash is checked after a change, and after the metadata of a topic changed.",
           "`consumerGroupHeartbeat`"),
    Clause("3.4 R8", "The target is computed if it is behind and due; else the stored one is used.",
           "`updateTargetAssignment`"),
    Clause("3.4 R10", "An accepted heartbeat arms the session timer.", "`scheduleConsumerGroupSessionTimeout`"),
    Clause("3.5", "The member epoch of the request is checked.", "`throwIfConsumerGroupMemberEpochIsInvalid`"),
    Clause("3.6", "A member leaves for good with epoch -1, for a while with -2.",
           "`consumerGroupLeave`, `consumerGroupStaticMemberGroupLeave`"),
    Clause("3.8", "What bumps the group epoch, at most once in a request.", "`consumerGroupHeartbeat`"),
    Clause("3.10", "Members are removed, with one bump for all of them.",
           "`consumerGroupFenceMembers`, `removeMember`"),
    Clause("4", "Timers: session and rebalance; join and sync of classic members; all begin anew after loading.",
           "`scheduleConsumerGroup...Timeout`, `onLoaded`"),
    Clause("5.1", "The legal transitions of a classic group, and the state in which one is loaded.",
           "`ClassicGroupState`, `ClassicGroup.transitionTo`"),
    Clause("5.2", "The checks of a JoinGroup, in order.", "`classicGroupJoin`, `classicGroupJoinToClassicGroup`"),
    Clause("5.2-3", "A JoinGroup without member id creates the group.", "`getOrMaybeCreateClassicGroup`"),
    Clause("5.2-4", "The group is full.", "`acceptJoiningMember`"),
    Clause("5.2-7", "A dynamic member without id gets one and joins again with it.",
           "KIP-394; `classicGroupJoinNewDynamicMember`"),
    Clause("5.3", "What each request and timer does in each state; in EMPTY and DEAD requests are refused.",
           "`ClassicGroup`, `GroupMetadataManager`"),
    Clause("5.3 Join new", "A new member joins.", "`addMemberThenRebalanceOrCompleteJoin`"),
    Clause("5.3 Join known", "A member joins again, with the same or with changed protocols.",
           "`classicGroupJoinExistingMember`"),
    Clause("5.3 Sync", "A SyncGroup in each state.", "`classicGroupSyncToClassicGroup`"),
    Clause("5.3 Heartbeat", "A Heartbeat in each state.", "`classicGroupHeartbeatToClassicGroup`"),
    Clause("5.3 Leave", "A LeaveGroup in each state.", "`classicGroupLeaveToClassicGroup`"),
    Clause("5.3 session", "The session of a member runs out.", "`expireClassicGroupMemberHeartbeat`"),
    Clause("5.3 pending", "A member id that was given out is not used in time.",
           "`removePendingMemberAndUpdateClassicGroup`"),
    Clause("5.3 join-phase timer", "The join phase runs out.", "`completeClassicGroupJoin`"),
    Clause("5.3 sync-phase timer", "The sync phase runs out.", "`expirePendingSync`"),
    Clause("5.3 unload", "Another coordinator takes over.", "`onUnloaded`"),
    Clause("try complete", "The join phase ends once everybody has joined.", "`maybeCompleteJoinPhase`"),
    Clause("5.4", "A rebalance begins, waits and ends; the initial delay.",
           "`prepareRebalance`, `tryCompleteInitialRebalanceElseSchedule`, `completeClassicGroupJoin`; KIP-134"),
    Clause("5.5", "The checks of SyncGroup, Heartbeat and LeaveGroup; how an assignment is stored.",
           "`validateSyncGroup`, `validateClassicGroupHeartbeat`, `setAndPropagateAssignment`"),
    Clause("5.6", "A new member id takes over a static member, in each state.",
           "KIP-345; `updateStaticMemberThenRebalanceOrCompleteJoin`"),
    Clause("6.1", "A request of one protocol finds an empty group of the other.",
           "`maybeDeleteEmptyConsumerGroup`, `maybeDeleteEmptyClassicGroup`"),
    Clause("6.2", "A consumer group serves SyncGroup, Heartbeat and LeaveGroup of classic members.",
           "`classicGroupSyncToConsumerGroup`, `classicGroupHeartbeatToConsumerGroup`, "
           "`classicGroupLeaveToConsumerGroup`"),
    Clause("6.3", "A classic group may become a consumer group.", "KIP-848; `validateOnlineUpgrade`"),
    Clause("6.3 U-1", "The delayed joins and syncs are answered.", "`convertToConsumerGroup`"),
    Clause("6.3 U-2", "The classic group is removed.", "`convertToConsumerGroup`"),
    Clause("6.3 U-3", "The consumer group is made of the members, assignments and generation of the classic one.",
           "`ConsumerGroup.fromClassicGroup`, `createConsumerGroupRecords`"),
    Clause("6.3 U-4", "The session timers of its members are armed.", "`convertToConsumerGroup`"),
    Clause("6.5", "A consumer group whose last consumer-protocol member goes may become a classic group.",
           "KIP-848; `convertToClassicGroup`"),
    Clause("6.5 A", "That member leaves or is fenced.", "`validateOnlineDowngradeWithFencedMembers`"),
    Clause("6.5 B", "That member is replaced by a static classic one.",
           "`validateOnlineDowngradeWithReplacedMember`"),
    Clause("7.1", "The next target waits for the assignment interval.",
           "KIP-1263; `consumerGroupAssignmentIntervalMs`"),
    Clause("7.2", "The metadata is checked again after the broker reports a change, and after loading.",
           "`ModernGroup.requestMetadataRefresh`, `onNewMetadataImage`"),
    Clause("7.3", "Patterns of topic names are resolved in the background.",
           "`maybeUpdateRegularExpressions`, `handleRegularExpressionsResult`"),
    Clause("8.4", "What each step writes, in order.", "`GroupCoordinatorRecordHelpers`"),
    Clause("8.5", "The group is built from its records.", "`replay`"),
    Clause("9.6", "A group is loaded, unloaded or deleted.", "`onLoaded`, `onUnloaded`"),
    Clause("J5", "A classic JoinGroup to a consumer group finds, creates or replaces its member.",
           "`classicGroupJoinToConsumerGroup`"),
    Clause("J6", "The subscription of its first protocol becomes the member's.", "`classicGroupJoinToConsumerGroup`"),
    Clause("J10", "It is answered once its records are stored.", "`classicGroupJoinToConsumerGroup`"),
))

DECISIONS = Clauses(("consumer-group-member",), (
    Clause("S1", "STABLE at the target epoch.", "`CurrentAssignmentBuilder.build`"),
    Clause("S1c", "The same, with a changed subscription.", "`CurrentAssignmentBuilder.build`"),
    Clause("S2", "STABLE behind the target epoch.", "`CurrentAssignmentBuilder.build`"),
    Clause("V1", "UNREVOKED_PARTITIONS, and nothing is reported.", "`CurrentAssignmentBuilder.ownsRevokedPartitions`"),
    Clause("V2", "UNREVOKED_PARTITIONS, and a pending partition is still reported.",
           "`CurrentAssignmentBuilder.ownsRevokedPartitions`"),
    Clause("V1c, V2c", "V1 and V2 with a changed subscription.", "`CurrentAssignmentBuilder.build`"),
    Clause("V3", "UNREVOKED_PARTITIONS, and all that is pending is given up.", "`CurrentAssignmentBuilder.build`"),
    Clause("L1", "UNRELEASED_PARTITIONS.", "`CurrentAssignmentBuilder.build`"),
    Clause("K1", "UNKNOWN, and something or nothing is reported: fenced.", "`CurrentAssignmentBuilder.build`"),
    Clause("K2", "UNKNOWN, with an empty owned list.", "`CurrentAssignmentBuilder.build`"),
    Clause("U0", "All that is assigned is still subscribed.", "`CurrentAssignmentBuilder.updateCurrentAssignment`"),
    Clause("U1", "What is no longer subscribed must be revoked.", "`CurrentAssignmentBuilder.updateCurrentAssignment`"),
    Clause("U2", "What is no longer subscribed is given up already.",
           "`CurrentAssignmentBuilder.updateCurrentAssignment`"),
    Clause("C1", "Something must be revoked first.", "`CurrentAssignmentBuilder.computeNextAssignment`"),
    Clause("C2", "Some of what is missing is free, some is blocked.",
           "`CurrentAssignmentBuilder.computeNextAssignment`"),
    Clause("C3", "All that is missing is free.", "`CurrentAssignmentBuilder.computeNextAssignment`"),
    Clause("C4", "All that is missing is blocked.", "`CurrentAssignmentBuilder.computeNextAssignment`"),
    Clause("C5", "Nothing is missing.", "`CurrentAssignmentBuilder.computeNextAssignment`"),
))

CONNECT = Clauses(("connect-group", "connect-worker"), (
    Clause("1.1", "A worker must support a protocol that all others support.",
           "`ClassicGroup.supportsProtocols`; KIP-415"),
    Clause("1.2", "A worker without member id gets one and joins again with it.",
           "KIP-394; `classicGroupJoinNewDynamicMember`"),
    Clause("1.2-1", "The first worker joins; the initial delay begins.", "`prepareRebalance`; KIP-134"),
    Clause("1.2-2", "A worker joins in the join phase.", "`addMemberThenRebalanceOrCompleteJoin`"),
    Clause("1.2-3", "The join phase ends: all have joined, or the time is up.", "`completeClassicGroupJoin`"),
    Clause("1.2-4", "A worker goes in the join phase, perhaps the last one.", "`removeMemberAndUpdateClassicGroup`"),
    Clause("1.2-5", "A heartbeat in the join phase.", "`classicGroupHeartbeatToClassicGroup`"),
    Clause("1.2-6", "A SyncGroup in the join phase.", "`classicGroupSyncToClassicGroup`"),
    Clause("1.2-7", "A follower's SyncGroup waits for the leader's.", "`classicGroupSyncToClassicGroup`"),
    Clause("1.2-8", "The leader's SyncGroup is stored and handed out.", "`setAndPropagateAssignment`"),
    Clause("1.2-9", "A worker joins again in the sync phase, unchanged.", "`classicGroupJoinExistingMember`"),
    Clause("1.2-10", "The sync phase is cut short by a join, a change, a leave or a timeout.", "`prepareRebalance`"),
    Clause("1.2-11", "A heartbeat in the sync phase.", "`classicGroupHeartbeatToClassicGroup`"),
    Clause("1.2-12", "A heartbeat in STABLE.", "`classicGroupHeartbeatToClassicGroup`"),
    Clause("1.2-13", "The leader joins again in STABLE.", "`classicGroupJoinExistingMember`"),
    Clause("1.2-14", "A follower joins again in STABLE, changed.", "`classicGroupJoinExistingMember`"),
    Clause("1.2-15", "A follower joins again in STABLE, unchanged; a SyncGroup in STABLE.",
           "`classicGroupJoinExistingMember`, `classicGroupSyncToClassicGroup`"),
    Clause("1.2-16", "A worker comes or goes in STABLE.", "`maybePrepareRebalanceOrCompleteJoin`"),
    Clause("1.2-17", "A request with another generation or an unknown member id is refused.",
           "`validateSyncGroup`, `validateClassicGroupHeartbeat`"),
    Clause("1.4", "What a worker does with an error in the answer to a join, sync or heartbeat.",
           "`AbstractCoordinator.JoinGroupResponseHandler` and its neighbours"),
))
# fmt: on

CLAUSES = (GROUPS, DECISIONS, CONNECT)
"""In the order of the page."""
