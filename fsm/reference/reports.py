"""Weak spots that the checker found, as bug reports; and the lengths of the shortest paths to harm.

Steps are those of `fsm check`; observations of a broker are the output of `make confirm` with Kafka 4.4.0 in November
2026, unless noted otherwise.
"""

from __future__ import annotations

from typing import NamedTuple

from fsm.reference.entries import SECTIONS


class Report(NamedTuple):
    """One weak spot, for developers and operators."""

    number: str
    title: str
    versions: str
    command: str
    """The command that shows the shortest path."""
    steps: tuple[str, ...]
    consequence: str
    likelihood: str
    client: str
    """Mitigation in a client; `broker` and `operator` likewise."""
    broker: str
    operator: str
    audit: str = ""
    """The finding of `fsm audit`, and the logs that it needs; empty if there is none."""


REPORTS = (
    Report(
        "W1",
        "Two users while an answer is lost",
        "4.0.0 to 4.4.0 (raw requests); Java consumer 4.4.0 with a `seek()` in its callback.",
        'fsm check consumer-group --disturb unanswered --property "no partition has two users"',
        (
            "A joins and is assigned 0 and 1; its application runs onPartitionsAssigned. B joins and waits.",
            "The answer to a heartbeat of A is lost. The next heartbeat is full, and names no owned partition yet.",
            "The coordinator takes 1 as revoked, and assigns it to B. A's callback ends, and A uses 0 and 1.",
        ),
        "Two applications read one partition until A gets its next response. A's commits are refused because its "
        "epoch is old; a `seek()` to a committed offset read 79 to 92 twice.",
        "Real: onPartitionsAssigned takes longer than a heartbeat interval, one answer is lost meanwhile, and a "
        "rebalance takes partitions away. W9 is the same with no response lost.",
        "Name in every report what is being assigned beside what is owned (`REPORTS_WHAT_IS_ASSIGNED`), as for W9.",
        "Nothing sound: a member gives a partition up by leaving it out of a report.",
        "Keep onPartitionsAssigned short, and restore state outside of it.",
        "`double_ownership` with the cause `left_out`, as W9.",
    ),
    Report(
        "W8",
        "A late request swallows an assignment",
        "4.0.0, 4.2.0, 4.3.1 and 4.4.0 (raw requests); Java consumer 4.4.0, also on plain TCP with default timings.",
        'fsm check consumer-group --disturb late --property "the group settles"',
        (
            "A owns partitions 0 and 1 and has to revoke 1; B waits, at the group epoch, with nothing.",
            "A heartbeat of B is in flight on connection 1. It times out at B, which sends a full one on connection 2.",
            "A revokes 1 and acknowledges.",
            "The heartbeat of connection 1 is handled: partition 1 is assigned to B, but the response reaches nobody.",
            "Later heartbeats of B are answered without an assignment, because nothing has changed.",
        ),
        "The group is STABLE, the broker shows 1 as assigned to B, and nobody reads it. No timer ends that; only the "
        "lag shows it. It lasted until B closed; in one run, 31 s, until a heartbeat was interrupted on purpose.",
        "Very low for one event: B's path is down for 30 to 45 s, and A acknowledges within one heartbeat interval.",
        "Send full heartbeats as long as a request that timed out may still be handled: until the member's epoch has "
        "changed twice, or forever if it was a join (`FULL_WHILE_IN_DOUBT`). It costs the names of the topics and "
        "the owned partitions in each such heartbeat, and the assignment in each answer. Or reset the connection of "
        "a request that timed out.",
        "Close the older connection when a member uses a later one, and handle nothing more that arrives on it "
        "(F29). The broker keeps one number per member and instance id, and the log is unchanged. That also ends W6, "
        "W10, W19 to W21 and W24. Or send the assignment in every response: 20 bytes per topic, 4 per partition.",
        "Watch the lag of each partition, not the state of the group; restart the member that is shown as its owner.",
        "`unowned_partition` with the cause `late_request`, from the members' logs (INFO) and the coordinator's "
        "records: `__consumer_offsets`, or a broker's log at DEBUG. A partition is recorded as assigned to a member "
        "that began no rebalance then; a heartbeat of it had timed out before, and none did afterwards for longer "
        "than requests take. The cause is `untold` if a response may have been lost instead.",
    ),
    Report(
        "W9",
        "Two users in good standing during a slow assigned callback",
        "4.0.0 to 4.4.0 (raw requests); Java consumer 4.4.0: both applications owned the partition for 12.7 s, and "
        "for 18.4 s where the request was lost. W1 is the same with the response lost, too.",
        'fsm check consumer-group --disturb lose --property "no partition has two users"',
        (
            "A joins and is assigned 0 and 1; its application runs onPartitionsAssigned. B joins and waits.",
            "A heartbeat of A fails. The next one is full, and names no owned partition: the callback still runs.",
            "The coordinator takes partition 1 as revoked, tells A to use 0, and assigns 1 to B.",
            "A's callback ends, and A uses 0 and 1, the set that its run began with, until the next run revokes 1.",
        ),
        "Two applications read one partition. Both commit, and both commits are accepted: the older offset may win.",
        "Realistic: onPartitionsAssigned takes longer than a heartbeat interval (restoring state), one heartbeat fails "
        "meanwhile (a coordinator moves), and a rebalance takes partitions away: a scale-up during a rolling restart.",
        "Name in every report what is being assigned beside what is owned (`REPORTS_WHAT_IS_ASSIGNED`): the "
        "coordinator then waits until it is given up. It costs nothing but a later handover. This also ends W1. A "
        "comparison with the newest target at the end of a callback is then not needed: the partition was assigned "
        "to nobody else.",
        "Nothing sound: a member gives a partition up by leaving it out of a report.",
        "Keep onPartitionsAssigned short, and restore state outside of it.",
        "`double_ownership` with the cause `left_out`, from the members' logs (INFO): a heartbeat of the first owner "
        "timed out during its assigned callback for that partition, and it had to revoke it later. The coordinator's "
        "records show when it was taken as revoked.",
    ),
    Report(
        "W2",
        "A classic member that was removed keeps using its partitions",
        "4.4.0 (raw requests); all releases have the rule, under every policy that lets both protocols in.",
        "fsm check mixed-group --protocol cooperative --client fixed --disturb rebalance_timeout --known early "
        '--property "no partition has two users"',
        (
            "Cooperative classic member B owns 0 and 1. A joins with the consumer protocol: B is told to rejoin.",
            "B's callback takes longer than its rebalance timeout: B is removed, and A is assigned 0 and 1.",
            "B joins with its old id, and reports that it owns 0 and 1. It is created again, without an error.",
            "It keeps using its partitions until its SyncGroup is answered.",
        ),
        "Two users of both partitions, each in good standing: a real broker accepted the commits and heartbeats of "
        "both.",
        "Realistic: a revoked callback, or a poll, that takes longer than max.poll.interval.ms, which is the "
        "rebalance timeout of a classic member; or a session that expires while a process is paused.",
        "Nothing: it gets no error.",
        "Answer UNKNOWN_MEMBER_ID to a dynamic classic member that is not in the group and whose subscription names "
        "a generation (F40): it loses its partitions and rejoins, as in a classic group. A member that has only been "
        "given its id names none. It costs nothing, but a client has to forget its generation together with its id.",
        "Keep callbacks and polls below max.poll.interval.ms while a group has members of both protocols.",
        "`double_ownership`, from the members' logs.",
    ),
    Report(
        "W4",
        "A fenced member that rejoins with its id is refused",
        "4.0.0 to 4.1.2 (a real broker: 46 joins of one member in 45 s); 4.2.0 accepts it at once (KAFKA-19233).",
        'fsm check consumer-group --client 4.1 --coordinator 4.1 --disturb late --property "the group settles"',
        (
            "A's join times out and is sent again; the second one is answered with epoch 1 and 0 and 1. B joins.",
            "The first join is handled: its epoch is the previous one, so A is at epoch 2, with less than it uses.",
            "A's heartbeat at epoch 1 names more than that: FENCED_MEMBER_EPOCH. A joins with its id and epoch 0.",
            "That is neither A's epoch nor the previous one: FENCED_MEMBER_EPOCH, again and again.",
        ),
        "A loses its partitions, tries to join in every heartbeat interval until its session expires, and nobody "
        "reads them.",
        "Low: client and coordinator have to disagree about the epoch.",
        "Nothing: its id never changes. A new consumer has another one.",
        "Accept epoch 0 as a join in every case (F9, since 4.2.0). That causes W6, which F29 fixes.",
        "Upgrade the broker; restart the process, which then has another member id.",
        "`fencing_loop`, from the member's log.",
    ),
    Report(
        "W5",
        "Partitions are stranded after a refused downgrade",
        "4.3.1 and 4.4.0 under `group.consumer.migration.policy=upgrade`, not 4.2.0 (Java consumers of both "
        "protocols).",
        'fsm check mixed-group --policy upgrade --disturb leave --known early --property "the group settles"',
        (
            "Classic member K and consumer-protocol member C share partitions 0 and 1.",
            "C leaves. The policy forbids the downgrade, so K stays a member of a consumer group.",
            "Only a heartbeat of the consumer protocol or a join computes a target; K sends neither.",
            "K's heartbeats succeed, because K is at the target epoch.",
        ),
        "The group stays Assigning with its target behind its epoch, and 1 has no owner until somebody joins.",
        "Certain whenever the last consumer-protocol member leaves under that policy.",
        "Nothing: no response tells the classic member.",
        "Tell classic members to rejoin while a target is due and no member of the consumer protocol is left (F31). "
        "Within "
        "the assignment interval they may join more than once.",
        "Keep the policy `bidirectional`, or restart any member after the last consumer-protocol member has gone.",
        "`unowned_partition` with the cause `stranded`, from the coordinator's records (from a broker's log at INFO "
        "it is only an info finding): the last member of the consumer protocol went, and no target was computed for "
        "the epoch of the group.",
    ),
    Report(
        "W6",
        "A late join releases partitions in use",
        "4.2.0 to 4.4.0 (raw requests on 4.4.0); since KAFKA-19233.",
        'fsm check consumer-group --disturb late --property "no partition has two users"',
        (
            "A's join times out and is sent again; the second one is answered with 0 and 1. B joins and waits.",
            "The first join is handled: epoch 0 always passes, and it reports no owned partition.",
            "Partition 1 is assigned to B, while A uses it.",
        ),
        "Two users. A's commits are refused with STALE_MEMBER_EPOCH, and its next ordinary heartbeat is fenced.",
        "Very low: a join has to outlive its connection.",
        "Nothing but to reset the connection of a request that timed out: the member id never changes.",
        "Close the older connection when a member uses a later one (F29; see W8).",
        "Nothing.",
    ),
    Report(
        "W10",
        "A late report releases what was assigned since",
        "4.4.0 (raw requests); all releases have the rule.",
        "make confirm",
        (
            "A acknowledges at epoch 3 that it owns nothing. The request times out and is sent again; A continues.",
            "Other members change; A is at epoch 4 and is assigned 0 and 1; then 1 is reassigned to B.",
            "The old acknowledgement is handled: epoch 3 is the previous one, and 1 is not in it, so 1 is free.",
        ),
        "Two users until A's next heartbeat; A's commits of the partition are refused.",
        "Very low: a late request and two rebalances while it is in flight.",
        "Nothing but to reset the connection of a request that timed out.",
        "Close the older connection when a member uses a later one (F29; see W8). Or let a report of the previous "
        "epoch release nothing that was assigned at its epoch or later, which costs one more heartbeat if a response "
        "was lost, and does not fix W24.",
        "Nothing.",
    ),
    Report(
        "W11",
        "An acknowledgement releases what a second target assigns meanwhile",
        "4.4.0 (raw requests; Java consumers for 4.5 s, with a slow acknowledgement and response); according to the "
        "checker, 4.0.0, too. A Java consumer with auto-commit is mostly not affected: it commits before its second "
        "callback, and that request queues behind the acknowledgement on the same connection.",
        'fsm check consumer-group --topic-changes --disturb topic_grown --property "no partition has two users"',
        (
            "A joins and is assigned 0 and 1. While its application runs onPartitionsAssigned, the topic grows.",
            "A heartbeat of A is answered with 0, 1 and 2. The callback ends: A acknowledges 0 and 1.",
            "A's next assigned callback, for 2, returns too, and A uses it. B has joined, and 2 is reassigned to B.",
            "The acknowledgement is handled. It does not name 2, so 2 is free, and is assigned to B.",
        ),
        "Two users without any failure, until A gets its response and revokes 2; A's commits of 2 before that are "
        "accepted, over B's commits.",
        "Low: onPartitionsAssigned takes longer than a heartbeat interval, and two targets come within one round trip "
        "of its end: a topic that grows, or a regular expression that is resolved, during a scale-up.",
        "Name in every report what is being assigned beside what is owned (`REPORTS_WHAT_IS_ASSIGNED`), as for W9.",
        "Nothing sound: a member gives a partition up by leaving it out of a report.",
        "Keep onPartitionsAssigned short; grow topics and groups at different times.",
        "`double_ownership` with the cause `left_out`, from the members' logs (INFO) and the coordinator's records: "
        "the second of three assignments adds the partition, the third takes it away without asking for its "
        "revocation, and no request of the member timed out.",
    ),
    Report(
        "W12",
        "A consumer that joins a classic group before its first generation is terminated",
        "4.4.0 (raw requests, Java consumer), under the policies `bidirectional` and `upgrade`.",
        'fsm check mixed-group --property "no error ends an application"',
        (
            "A classic member joins an empty group, which waits for `group.initial.rebalance.delay.ms`.",
            (
                "A member of the consumer protocol joins meanwhile. The group has to be converted, but has no protocol "
                "yet."
            ),
            "It is answered UNKNOWN_SERVER_ERROR, which is fatal to its client.",
        ),
        "The application's poll() throws, without any failure; the classic member continues.",
        "Certain within the delay, 3 s by default: a service with both protocols starts in an empty group.",
        "Nothing safe: the error does not show its cause. An application may create its consumer again.",
        "Convert the group by the protocol that it would elect, its members with nothing (F41): they are told to "
        "rejoin, as in any conversion during a rebalance. Or answer with a retriable error.",
        "Start members of the consumer protocol first, or some seconds later.",
        "`member_out_for_good` with the cause `early_join`: the error came while a classic member waited for "
        "generation 1, according to that member's log or the coordinator's.",
    ),
    Report(
        "W13",
        "A cooperative static member that restarts before it revokes leaves a partition unused",
        "4.4.0 (raw requests); so do all releases with static members and incremental rebalancing.",
        'fsm check classic-group --static --protocol cooperative --disturb restart --property "the group settles"',
        (
            "Static member A owns partitions 0 and 1; B joins. The leader keeps 0 for A, and assigns nothing to B yet.",
            "A is killed before it has revoked 1 and rejoined.",
            "A's next process joins: the group is STABLE, so it replaces A, and its SyncGroup is answered with 0.",
            "It has nothing to revoke, so it does not rejoin; B waits for a rebalance that nobody starts.",
        ),
        "The group is STABLE, every heartbeat succeeds, and nobody reads partition 1.",
        "Real for rolling restarts that follow a scale-up: A dies between the two rounds of an incremental "
        "rebalance, which are one or two heartbeat intervals and the revoked callback apart.",
        "A leader can compare: where its assignment withheld partitions, it can rejoin after one or two heartbeat "
        "intervals in which nobody else did (`enforceRebalance`).",
        "Rebalance when the replaced static member was assigned less than it owned when it joined (F33): its next "
        "process has nothing to revoke, and does not rejoin. It costs that one rebalance, and the broker has to "
        "parse subscriptions and assignments, as it does for an upgrade anyway.",
        "Watch the lag of each partition; restart or scale once more, or call `enforceRebalance` in any member.",
        "`unowned_partition` with the cause `owed_join`, from what the coordinator stored (`__consumer_offsets`): in "
        "a generation that withholds partitions that a member owned, another process replaces it, and no generation "
        "follows.",
    ),
    Report(
        "W14",
        "A group that is converted before it has an assignment stays without one",
        "4.4.0 (raw requests); according to the checker, since 4.0.1 (F21b), under the policies `bidirectional` and "
        "`upgrade`.",
        "fsm check mixed-group --static --members 1 --disturb convert --property "
        '"10 a group at rest holds every subscribed partition"',
        (
            "Static member A of the classic protocol joins, and the first generation begins.",
            "A is killed before it has sent its SyncGroup, and restarts with the consumer protocol.",
            "Its heartbeat converts the group: A has no assignment, so its target is empty, at the group's epoch.",
            "A replaces the classic member with the same subscription: the epoch is not bumped.",
        ),
        "The group is STABLE with an empty target, and A waits forever, although it is the only member.",
        "Low: a restart within the one round trip between join and sync, in a rolling migration of static members.",
        "Nothing: the response has no error.",
        "Bump the epoch when a group is converted during a rebalance, as it does for a new member (F34): what its "
        "members are assigned then is not what they joined for. A member that has to revoke partitions, and has not "
        "rejoined (W13), is in a rebalance, too. It costs one target.",
        "Restart the member once more, or remove it by its instance id (`Admin.removeMembersFromConsumerGroup`).",
        "`unowned_partition` with the cause `no_target`, from what the coordinator stored, and the members' "
        "subscriptions: the group was converted, and no target of its members names a partition.",
    ),
    Report(
        "W15",
        "A downgrade forgets a member that waits for a partition",
        "4.4.0 (raw requests); according to the checker, since 4.0, under the policies `bidirectional` and "
        "`downgrade`.",
        'fsm check mixed-group --static --disturb convert --known early,late_join,W14 --property "the group settles"',
        (
            "Static member A of the consumer protocol owns 0 and 1. Classic member B joins: its target is 1.",
            "B's SyncGroup is answered with nothing, because A holds 1.",
            "A is killed and restarts with the classic protocol, before it has revoked 1.",
            "A was the last member of its protocol: the group becomes a classic one, STABLE, in B's generation.",
            "A's SyncGroup is answered with 0. B's heartbeats succeed, and B never learns that 1 is its own.",
        ),
        "The group is STABLE, partition 1 is B's according to DescribeGroups, and nobody reads it.",
        "Real for a rolling migration back to the classic protocol: the last two members restart one after the "
        "other, and the second does so before it has learned of the first one's join.",
        "Nothing: no response tells B.",
        "Start a rebalance in the downgrade if a member waits for partitions that others hold (F35); the broker "
        "already does so if the target is behind (KAFKA-20273). It costs that rebalance.",
        "Restart any member once more after a migration back.",
        "`unowned_partition` with the cause `forgotten`, from what the coordinator stored: a consumer group became a "
        "classic one in which a member has more partitions than it was sent in the same generation.",
    ),
    Report(
        "W16",
        "A group that is converted reassigns partitions that a cooperative member still uses",
        "4.4.0 (raw requests); according to the checker, since 4.0, under the policies `bidirectional` and `upgrade`.",
        "fsm check mixed-group --members 3 --classic 2 --protocol cooperative --client fixed --known early "
        '--property "no partition has two users"',
        (
            "Cooperative member C of a classic group owns 0 and 1. B joins; C leads, and keeps 0 for itself.",
            "The assignment is stored. Before C has revoked 1, A joins with the consumer protocol.",
            "The group is converted: C is recorded as holding 0, its last assignment. 1 has no holder.",
            "A's first response assigns 1 to it, and A uses it.",
        ),
        "Two users of 1 without any failure, until C has received its own response, polled and revoked. Both are in "
        "good standing: C's commit of 1 was accepted, and so was A's. If a session expires in that round, C is "
        "recorded as holding nothing; a downgrade is no better, because it takes a member's target for what it holds.",
        "Real for a rolling migration of a cooperative group: a member starts with the new protocol while the group "
        "still rebalances for the previous restart.",
        "Nothing: it follows the protocol.",
        "In an upgrade, also record as held what a member's subscription lists as owned and nobody is assigned; in a "
        "downgrade, everything that a member holds (F36). It costs nothing: an upgrade reads subscriptions anyway.",
        "Restart members one by one, each when the group is stable; or migrate eager groups.",
        "`double_ownership`, from the members' logs.",
    ),
    Report(
        "W17",
        "A static member whose first response is lost is refused as if it were another member",
        "4.4.0 (raw requests); according to the checker, since 4.0.",
        'fsm check consumer-group --static --members 1 --disturb unanswered --property "no error ends an application"',
        (
            "Static member A joins under the member id that it generated. It is in the group; the response is lost.",
            "A joins again, with the same member id and the same instance id.",
            "It gets UNRELEASED_INSTANCE_ID, because the instance id belongs to a member that has not left.",
        ),
        "The error is fatal: the consumer terminates, and so does any other one that starts under that instance id, "
        "until the session expires.",
        "Real: one response to a first heartbeat is lost, or arrives after request.timeout.ms.",
        "Leave with epoch -2 before it joins again, if it does not know whether a join was handled.",
        "Accept a join under the holder's own member id, as for a dynamic member (F9, F37; open as pull request "
        "23542 of apache/kafka). A late join then causes W6, which F29 fixes.",
        "Restart the process when the session has expired, or remove the instance id "
        "(`Admin.removeMembersFromConsumerGroup`).",
    ),
    Report(
        "W18",
        "A slow member is terminated if its group has become a classic one meanwhile",
        "4.4.0 (raw requests); according to the checker, since 4.0, under every policy.",
        'fsm check mixed-group --disturb expire --known early --property "no error ends an application"',
        (
            (
                "A, the only member of the consumer protocol, is paused for longer than its session timeout, and is "
                "removed."
            ),
            "Classic member B joins the empty group: it becomes a classic one. Or B is left in it: it is downgraded.",
            "A continues, and sends a heartbeat with its epoch. It gets GROUP_ID_NOT_FOUND.",
        ),
        "The error is fatal: A's application gets GroupIdNotFoundException. Without B, A would have got "
        "UNKNOWN_MEMBER_ID, and would have rejoined within a second. The same happens to a member whose group was "
        "deleted after its session expired.",
        "Real during a migration, online or not: a pause of a process or of its network, of longer than "
        "`group.consumer.session.timeout.ms` (45 s), while few members use the new protocol.",
        "Treat GROUP_ID_NOT_FOUND, at an epoch above 0, like UNKNOWN_MEMBER_ID: join with epoch 0. If the policy "
        "does not admit it, the same error says so then.",
        "Answer UNKNOWN_MEMBER_ID to a heartbeat with an epoch above 0 if there is no such consumer group (F38). It "
        "costs nothing: that member is in no group.",
        "Restart the process; keep two members of either protocol until the migration is over.",
    ),
    Report(
        "W19",
        "A late leave of a static member releases partitions in use",
        "4.4.0 (raw requests); according to the checker, since 4.0.",
        "make confirm",
        (
            "Static member A leaves with epoch -2, because its poll timer has expired. The request times out.",
            "Its session expires. A polls and joins again under its id; it owns 0 and 1. B joins: A has to revoke 1.",
            "The leave is handled: A is recorded as away, and no longer has anything to revoke. 1 is assigned to B.",
        ),
        "Two users of 1 until A's next heartbeat, which is refused with FENCED_MEMBER_EPOCH; A's commits are refused.",
        "Very low: a leave has to outlive its connection, a session and a join. The session is not needed once a "
        "static member may join again under its own id (F37).",
        "Nothing but to reset the connection of a request that timed out: a leave names no epoch of the membership "
        "that it ends.",
        "Close the older connection when a member uses a later one (F29; see W8).",
        "Nothing.",
        "`double_ownership`, from the members' logs.",
    ),
    Report(
        "W20",
        "A late join of a classic member of a consumer group releases partitions in use",
        "4.4.0 (raw requests); all releases have the rule.",
        'fsm check mixed-group --client fixed --disturb late --known early --property "no partition has two users"',
        (
            "Classic member B's JoinGroup times out and is sent again. B is assigned 0 and 1.",
            "A joins with the consumer protocol: the group is converted, and A waits.",
            "The first JoinGroup is handled: it reports that B owns nothing, so B is assigned only 0, and 1 is free.",
            "A's next heartbeat assigns it 1, while B uses that.",
        ),
        "Two users of 1 until B's next heartbeat, which is refused with ILLEGAL_GENERATION, as are its commits.",
        "Very low: a join has to outlive its connection, within a migration.",
        "Nothing but to reset the connection of a request that timed out.",
        "Close the older connection when a member uses a later one for its JoinGroup (F29; see W8).",
        "Nothing.",
        "`double_ownership`, from the members' logs.",
    ),
    Report(
        "W21",
        "Assignments of a lost round are taken for those of the next one",
        "According to the checker, all releases; not reproduced on a broker, because a leader's connection has to "
        "outlive two moves of the coordinator.",
        'fsm check classic-group --disturb failover,late --disturbances 2 --property "no error ends an application"',
        (
            "A classic group of A and B is in generation 2, which A leads; generation 1 is what the log has.",
            "The coordinator moves away and back: it knows generation 1. A's SyncGroup is in flight, and times out.",
            "B is unknown, and joins as a new member; A joins. That is generation 2 again.",
            "A's SyncGroup is handled: it has assignments for A and the former B. The new B is assigned nothing.",
        ),
        "B's SyncGroup is answered with zero bytes, which its client cannot parse: the application terminates.",
        "Very low.",
        "Accept an assignment of zero bytes as an empty one.",
        "Close the older connection when a member uses a later one (F29; see W8). Or refuse a leader's assignments "
        "that omit a member of the round, or name another one; an assignor then also has to name members that get "
        "nothing. Or store the generation before its members learn it.",
        "Restart the application.",
    ),
    Report(
        "W22",
        "A consumer that hangs in unsubscribe() keeps its partitions",
        "Java consumer 4.4.0 (`AbstractHeartbeatRequestManager.poll` checks the poll timer only if the member is not "
        "leaving); according to the checker, since 4.0.",
        'fsm check consumer-group --disturb hanging,leave --disturbances 2 --property "the group settles"',
        (
            "A and B each own a partition. A's application calls unsubscribe(), which calls its revoked callback.",
            "The callback never returns: A is PREPARE_LEAVING, and its background thread sends heartbeats.",
            "max.poll.interval.ms passes. A member that is not leaving would now leave the group.",
        ),
        "The group is Stable, and nobody reads A's partition: after three times max.poll.interval.ms a real broker "
        "still showed it as A's, whereas a member that merely stopped polling was out. A rebalance that takes it "
        "away from A would end that, by the rebalance timeout.",
        "Low: a callback that waits forever, in an application that unsubscribes and keeps running.",
        "Let unsubscribe() renew the poll timer, and let it count while its callback runs: at its end the member "
        "leaves, and the call returns with the callback (`POLL_TIMER_WHILE_LEAVING`). The cost: a callback that "
        "takes longer, and returns, cannot commit, as after any poll timeout. Callbacks of close() run before it "
        "leaves: there the timer counts.",
        "Nothing: it sees the same as from any member.",
        "Watch the lag of each partition; look at the threads of the process, and terminate it.",
    ),
    Report(
        "W23",
        "A recreated topic is read by members that were assigned the old one",
        "Java consumers 4.4.0 with a broker of 4.4.0; according to the checker, all releases. Subscriptions of the "
        "Java client know no topic ids (`SubscriptionState`), and its fetcher uses the newest id that its metadata has "
        "for a name.",
        "fsm check consumer-group --topic-changes --disturb topic_recreated --every",
        (
            "A owns partitions 0 and 1 of a topic, which is deleted and recreated under the same name. B joins.",
            "The coordinator assigns 0 of the new topic to B at once, and tells A to revoke 0 and 1 of the old one.",
            "A's metadata has the new id: it fetches 0 and 1 of the new topic until its application has revoked.",
        ),
        "Two users of 0, for up to a heartbeat interval and a poll. A begins at its position in the old topic: if "
        "the new topic is shorter, its reset policy decides, else it skips the records before that position. It "
        "commits such positions. Seen: 2.4 to 2.9 s, and 218 to 265 records that A read of what B owned.",
        "Certain when a topic is recreated under running consumers; how long it lasts depends on when each one "
        "learns of it.",
        "Keep the topic ids of the assignment beside the names; do not fetch under another id, and commit under these "
        "(OffsetCommit 10), the application's commits, too: UNKNOWN_TOPIC_ID is final "
        "(`ANOTHER_ID_IS_ANOTHER_TOPIC`). The coordinator tells each member first to revoke the old topic and then "
        "what it owns of the new one, so callbacks are right as they are. It costs nothing but a metadata look-up.",
        "Nothing about a fetch, which names an id that exists. It refuses a commit by topic id (OffsetCommit 10) "
        "under the old id, but accepts one by name, even from one who owned the old topic (15 steps with "
        "`--topic-changes --commits`).",
        "Stop the group before the topic is recreated, and delete its offsets.",
    ),
    Report(
        "W24",
        "A late acknowledgement releases what was assigned at its own epoch",
        "4.4.0 (raw requests); according to the checker, all releases.",
        "make confirm",
        (
            "A owns six partitions. B joins, has a target of three, and acknowledges at epoch 3 that it owns nothing.",
            "That request times out and is sent again. A revokes the three; B is assigned them, still at epoch 3.",
            (
                "C joins, and its target is one of them. The old acknowledgement is handled: B owns nothing, so that "
                "partition is free."
            ),
            "It is assigned to C, while B uses it.",
        ),
        "Two users until B's next heartbeat, which is refused with FENCED_MEMBER_EPOCH, or whose response revokes "
        "the partition; B's commits are refused.",
        "Very low, but likelier than W10: one late request and one rebalance.",
        "Nothing but to reset the connection of a request that timed out.",
        "Close the older connection when a member uses a later one (F29; see W8). No rule about reports helps: a "
        "member that was told to revoke a partition sends the same report at the same epoch.",
        "Nothing.",
        "`double_ownership`, from the members' logs.",
    ),
    Report(
        "W25",
        "The join of a killed process fences the next one",
        "4.4.0 (raw requests); according to the checker, all releases.",
        'fsm check classic-group --static --disturb restart --property "no error ends an application"',
        (
            "A process of static member A sends its JoinGroup and is killed. The request is in flight.",
            "The next process joins under the same instance id, and is given a member id.",
            "The first JoinGroup is handled: it has the same instance id, and replaces the running process.",
            "The running process gets FENCED_INSTANCE_ID.",
        ),
        "The error is fatal: the application terminates, and no process has that instance id until it is restarted "
        "or the session expires.",
        "Very low: a request outlives its process by longer than a restart takes, at a broker that is slow or loading.",
        "Nothing: it gets the error of a member that was replaced. An application may create its consumer again.",
        "Handle no join of an instance id after one on a later connection (F29).",
        "Restart the process.",
    ),
    Report(
        "W26",
        "A Connect worker that lost its membership runs units that were assigned to another one",
        "Workers of Connect 4.3.1 with a broker of 4.4.0; according to the checker, 3.7 to 4.4, with all protocols: "
        "the rules are the worker's.",
        'fsm check connect --settled --disturb expire --property "no connector or task runs twice"',
        (
            (
                "Workers A and B run tasks. A's session expires, because its process or network is paused; B is left "
                "alone."
            ),
            "A's heartbeat is answered UNKNOWN_MEMBER_ID. It rejoins, and does not stop its units meanwhile.",
            "After the scheduled delay, or at once if the leader is new, B is assigned A's tasks.",
            "A runs them, too, until a round revokes them from one of the two.",
        ),
        "A task runs twice: a source writes its records twice; a sink's consumers share a group, in which each "
        "partition has one reader nevertheless. Seen for 1.4 to 1.6 s, with heartbeats every 2 s.",
        "Real: a pause of a worker for longer than session.timeout.ms (10 s), or a poll that takes longer than "
        "rebalance.timeout.ms. It ends two rounds after the worker's return.",
        "Stop the units when the membership is lost, as an eager worker does before it joins; a worker that returns "
        "within the delay then restarts its tasks unnecessarily.",
        "Nothing: it does not parse assignments.",
        "Raise session.timeout.ms if workers pause; use exactly-once sources, which fence the older task.",
        "`ran_twice`, from the workers' logs.",
    ),
    Report(
        "W27",
        "An eager member that is interrupted in its revoked callback joins with its partitions",
        "Java consumer 4.4.0 with a broker of 4.4.0 and RangeAssignor, woken up, and with automatic commits "
        "interrupted; according to the sources, all with an eager assignor.",
        'fsm check classic-group --disturb interrupted --property "no partition has two users"',
        (
            "Eager member A owns 0 and 1, without auto-commit. B joins: A's heartbeat returns REBALANCE_IN_PROGRESS.",
            "A's poll runs onPartitionsRevoked, which commits. wakeup() is called, or its thread is interrupted.",
            "The exception leaves poll(): 0 and 1 stay assigned, and needsJoinPrepare has been cleared.",
            "The next poll joins, without the callback, and returns records of both. B syncs and reads 1, too.",
        ),
        "Two applications read one partition until A's SyncGroup is answered and a poll takes the assignment: for "
        "one record if A polls at once, for one to three polls if it works between them (three members, 2 s of work: "
        "2 to 6 s, up to 296 records read twice). The next callback, onPartitionsAssigned, names nothing. Between "
        "that answer and that poll the broker accepts A's commit for 1, under the new generation: its offset went "
        'back from 736 to 571 (`--disturb commit_sync,interrupted --disturbances 2 --property "a commit of a former '
        'owner is refused"`, 31 steps). With `enable.auto.commit`, the default, both are pending revocation before '
        "A joins, and not fetched: nobody read 0, which A keeps, for the 20 s until B closed, and A then went on "
        'where it had stopped (`--commits --property "the group settles"`, 23 steps).',
        "Low: a wakeup or interrupt within a revoked callback, and an application that polls again after it instead "
        "of closing.",
        "Empty the assignment also when the callback throws (`onJoinPrepare`), or set needsJoinPrepare again. `fixed` "
        "takes the callback as called, like one that raises (`INTERRUPTED_IS_CALLED`), and both properties hold.",
        "Nothing: a JoinGroup of an eager member that names owned partitions is what a cooperative one sends.",
        "Close the consumer after a WakeupException or InterruptException, or use a cooperative assignor.",
        "`double_ownership` or, with automatic commits, `unowned_partition` with the cause `interrupted`, from A's log "
        "at INFO. The log does not have the exception, but what A is assigned again is not newly assigned to it. An A "
        "that keeps nothing does not show it.",
    ),
    Report(
        "W28",
        "The rebalance of a downgrade is lost with its broker",
        "All releases since 4.0 under the policies `bidirectional` and `downgrade`; observed on a broker of 4.4.0 (raw "
        "requests, the broker started again).",
        'fsm check mixed-group --disturb failover,leave --disturbances 2 --known early --property "the group settles"',
        (
            "A, of the consumer protocol, owns 0 and 1. Classic member B joins, and waits for one of them.",
            "A leaves. The group is converted: the log has a classic group of B, which has nothing, in B's generation.",
            "The broker begins a rebalance, which only its memory has. Another one takes over before B hears of it.",
            "It loads a STABLE group. B's SyncGroup and its heartbeats in that generation succeed.",
        ),
        "Nobody reads 0 and 1, and no member is out of date. A classic group by itself has no such state: whoever "
        "leaves is still in the log, until the next round is stored, and its session expires.",
        "Low: a coordinator that fails over within the heartbeat interval after the last member of the consumer "
        "protocol has left; more likely in a rolling restart of brokers during a migration back.",
        "Nothing: no response tells B.",
        "Rebalance a classic group on loading if its members' topics have partitions that are assigned to nobody "
        "(F42). It costs a look at the assignments, and a rebalance where an assignor leaves partitions out.",
        "Restart any member after a failover during a migration back.",
        "`unowned_partition` with the cause `lost_round`, from `__consumer_offsets` and the logs of all members that "
        "stayed: none of them begins a rebalance.",
    ),
    Report(
        "W29",
        "A static member that returned in a round that is lost is fenced",
        "All releases; observed on a broker of 4.4.0 (raw requests, the broker started again).",
        "fsm check classic-group --static --disturb failover,restart --disturbances 2 --known late_join --property "
        '"no error ends an application"',
        (
            "Static member A owns 0 and 1, as a0. B joins: the group rebalances.",
            "A is killed and starts again: its join replaces a0 by a1. The round completes; a1 leads.",
            "Another broker takes over before a1's SyncGroup: its log has the generation of a0.",
            "The SyncGroup of a1 gets FENCED_INSTANCE_ID, as if a newer process had the instance id.",
        ),
        "The error is fatal, and no other process has that instance id. The group goes on when the session of a0 ends.",
        "Low: a static member restarts while its group rebalances, and the coordinator fails over in that round.",
        "Nothing: whoever joins again after FENCED_INSTANCE_ID may fence the process that has really replaced it.",
        "Store the new member id as soon as it joins, in the generation that the log has (F43), as Kafka does outside "
        "a rebalance; also if the session of the old one has ended meanwhile. The broker keeps the last record of a "
        "group with static members, and writes it once more for each of them that returns during a rebalance.",
        "Let a supervisor start the process again.",
        "Nothing: the lost round is in no log. FENCED_INSTANCE_ID looks the same if another process has the instance "
        "id, whose log may be missing.",
    ),
    Report(
        "W30",
        "The join of a killed process takes the place of the next one after its session",
        "All releases; observed on a broker of 4.4.0 (raw requests).",
        "fsm check consumer-group --static --disturb expire,restart --disturbances 2 --known unreleased --property "
        '"no error ends an application"',
        (
            "A process of static member A sends its join and is killed. The request is in flight.",
            "The next process joins. Its session expires although it is alive.",
            "The first join is handled: nobody has the instance id, so that member has it.",
            "The next heartbeat of the running process gets FENCED_INSTANCE_ID.",
        ),
        "The error is fatal: nobody has A's partitions until the session of a member without a process ends.",
        "Very low: a request outlives its process by a session, as at a broker that is paused.",
        "Nothing, as for W25.",
        "Handle no join of an instance id after one on a later connection (F29), as for W25.",
        "Restart the process.",
    ),
    Report(
        "W31",
        "A cooperative static member that is too late for a round goes on with what that gave away",
        "All releases; observed on a broker of 4.4.0 (raw requests).",
        "fsm check classic-group --static --protocol cooperative --disturb rebalance_timeout --property "
        '"no partition has two users"',
        (
            "Static member A joined with nothing, and owns 0 and 1. B joins; A hears of it, and its JoinGroup is late.",
            "The join phase ends. A keeps its place, with the subscription of its last join: B is assigned 1.",
            "A's JoinGroup begins the next round, in which A still uses 0 and 1.",
        ),
        "Two applications read 1 until A's SyncGroup of the next round is answered. A dynamic member would have been "
        "removed, and would have lost its partitions.",
        "Very low: a JoinGroup that takes as long as is left of `max.poll.interval.ms`.",
        "Nothing: it has not learned that the generation is over.",
        "Show the leader A's subscription with what A was assigned since among the partitions that it owns, and answer "
        "REBALANCE_IN_PROGRESS to a SyncGroup of A until it has joined (F44). A broker already reads subscriptions: it "
        "looks for the topics of a group, and converts groups.",
        "Poll well within `max.poll.interval.ms`.",
    ),
    Report(
        "W32",
        "A static leader that returns takes changed topics as assigned",
        "Java consumers and brokers since 3.2; observed with a consumer of 4.4.0.",
        "fsm check classic-group --static --members 1 --topic-changes --disturb restart,topic_grown --disturbances 2 "
        '--known late_join --property "the group settles"',
        (
            "Static member A leads and owns partition 0 of a topic. It is killed.",
            "The topic gets partition 1. A starts again before its session ends, and is told to skip the assignment.",
            "A compares the topics from then on with those that it knows now, in which partition 1 is.",
        ),
        "Nobody reads 1 until the next rebalance. It was observed for 45 s, with `metadata.max.age.ms` of 2 s.",
        "Real: a topic grows while the leader is deployed.",
        "Little: a leader that skips the assignment learns its own one only. Not built.",
        "Rebalance a stable group of consumers if partitions of its topics are assigned to nobody, or are gone, when "
        "the broker's metadata change and when a process replaces the leader (F45). It costs a look at the "
        "assignments then, and rebalances where an assignor leaves partitions out.",
        "Restart a member that is no leader, or let a session end, after a topic has grown.",
    ),
    Report(
        "W33",
        "A refused classic join makes an empty consumer group disappear until its log is loaded",
        "All releases; observed on a broker of 4.4.0 (raw requests, the broker started again).",
        'fsm check mixed-group --disturb expire --property "a group that is gone is gone from the log"',
        (
            "A, of the consumer protocol, is the only member. Classic member B gets a member id.",
            "The session of A ends: the group is empty.",
            "B joins with its id and gets UNKNOWN_MEMBER_ID. The group is gone; its tombstones are discarded.",
        ),
        "Describing the group fails with GROUP_ID_NOT_FOUND, and its offsets do not expire. When a broker loads the "
        "log it is there again, at its epoch.",
        "Real in a migration, wherever classic members outlive the members of the consumer protocol. B's next join "
        "without an id creates a classic group, which hides the old records until its own are deleted and compacted.",
        "Nothing.",
        "Refuse the join before the empty group is dropped (F46).",
        "Have the log loaded: start the coordinator's broker again. Then delete the group.",
    ),
    Report(
        "W34",
        "A full group waits for a member that it has refused",
        "All releases; observed on a broker of 4.4.0 (raw requests).",
        'fsm check classic-group --members 3 --max-size 2 --property "a join phase waits for somebody"',
        (
            "`group.max.size` is 2. A, B and C start, and get member ids. A is first: generation 1 is its own.",
            "B joins: a rebalance begins. A joins again. The join phase waits for C, which has an id.",
            "C joins and gets GROUP_MAX_SIZE_REACHED. A and B wait until the join phase is over.",
        ),
        "The joins of A and B take the rebalance timeout, by default the 5 minutes of `max.poll.interval.ms`. Eager "
        "members use nothing meanwhile. It was observed with a timeout of 10 s.",
        "Real where `group.max.size` is set, and one consumer too many is started with the others; it is not set by "
        "default.",
        "Nothing.",
        "Complete the join phase if those who remain have all joined, as after a leave (F47).",
        "Start no more members than the limit.",
    ),
    Report(
        "W35",
        "A static member that returns with another subscription does not read its new topics",
        "All releases; observed with Java consumers and a broker of 4.4.0.",
        "fsm check classic-group --static --members 1 --topics foo:1,bar:1 --disturb resubscribe,restart "
        "--disturbances 2 --known late_join --every",
        (
            "Static members A, which leads, and B read topic 1. B is deployed with a subscription to topics 1 and 2.",
            "It joins before its session ends. The protocol is the same: B gets its generation and its assignment.",
            "A is deployed so, too. As the leader it is told to skip the assignment (KIP-814).",
        ),
        "Nobody reads topic 2 until the next rebalance; the group is Stable, and all members run. It was observed for "
        "6 s, until another member joined. A Java consumer that is assigned a topic to which it does not subscribe any "
        "more rejoins.",
        "Certain whenever static members are deployed with a new topic faster than their session timeout.",
        "Nothing: each process learns its own assignment only.",
        "Rebalance a stable group if a process that takes a static member's place subscribes to other topics (F48), as "
        "it does if a running member changes its subscription. It costs a rebalance for each such process.",
        "After such a deployment remove a static member (`removeMembersFromConsumerGroup`), or add one and stop it.",
    ),
    Report(
        "W36",
        "A SyncGroup that meets a loading coordinator ends its client",
        "Coordinators of 4.0 and later; the answer was observed on a broker of 4.4.0.",
        "fsm check classic-group --loading --disturb failover --every",
        (
            "A joins, and has the answer of the coordinator on broker 1, to which it stays connected.",
            "Broker 1 stands still for its session; broker 2 leads the partition of `__consumer_offsets` meanwhile.",
            "Broker 1 is elected again, and loads that partition.",
            "A's SyncGroup comes to broker 1, which answers COORDINATOR_LOAD_IN_PROGRESS.",
        ),
        "`SyncGroupResponseHandler` has no case for that error: poll() throws a KafkaException, and the application "
        "ends unless it catches that; a Connect worker ends. Others take its partitions.",
        "Low: leadership has to go and come back between two requests of a client, or the coordinator reloads because "
        "its state is out of step with its log. The more offsets there are, the longer it loads.",
        "Take COORDINATOR_LOAD_IN_PROGRESS in an answer to SyncGroup as REBALANCE_IN_PROGRESS: join again.",
        "Answer SyncGroup with REBALANCE_IN_PROGRESS while the group is loaded (F49), as until 3.9.",
        "Restart what ended; catch KafkaException around poll() and subscribe again.",
    ),
    Report(
        "H17",
        "An assignment of an earlier membership is applied",
        "Java consumers 4.3.0 to 4.4.0, since KAFKA-20106; observed on a broker of 4.4.0 (raw requests).",
        'fsm check consumer-group --disturb poll_timeout --property "no partition has two users"',
        (
            "A is assigned 0 and 1: its background thread sends that to the application, which has not polled yet.",
            "A's poll timer expires: it leaves. The next poll rejoins, and finds the earlier assignment in its queue.",
            "The application is called back for 0 and 1, and uses them. B, who has joined, is assigned both.",
        ),
        "Two users of both partitions, both in good standing, until A has reconciled its next assignment.",
        "Real: an application that takes max.poll.interval.ms between two polls while it is assigned something; or a "
        "session that expires then.",
        "Check, when an assignment is applied, whether its reconciliation is still current (`OUTDATED_IS_SKIPPED`); "
        "if not, neither apply it nor call back. It costs nothing.",
        "Nothing: it sees neither.",
        "Raise max.poll.interval.ms while a group is deployed or scaled.",
        "`double_ownership`, from the members' logs.",
    ),
    Report(
        "G3",
        "Tasks of a deleted connector keep running when the leader leaves",
        "Connect 4.3.1 (two workers, by hand); 3.7 to 4.4 have the same rules.",
        'fsm check connect --settled --disturb config,crash --disturbances 2 --property "the cluster settles"',
        (
            "Worker A leads and runs connector C and task 0; worker B runs task 1.",
            "A user deletes C: A writes that to the config topic, and both request a rebalance.",
            "A is killed, or leaves, before that round has ended.",
            (
                "B leads the next one. A leader revokes units that it remembers and that are no longer configured; B "
                "remembers nothing."
            ),
        ),
        "Task 1 keeps running, and nothing shows it: the REST interface has no connector C. It was observed for a "
        "minute, and ends with the next round that B leads, when a worker joins or leaves or a connector changes.",
        "Low: the leader has to leave within the one or two heartbeat intervals that the round after a deletion "
        "takes; longer if a worker is slow to join it.",
        "In each round, stop units that are not configured any more, whoever leads: each worker reads the config "
        "topic.",
        "Nothing: it does not parse assignments.",
        "Stop a connector before it is deleted; after the leader has left, look at the threads of the workers.",
        "`task_zombie` with the cause `deleted`, from the log of the worker that runs it.",
    ),
)


def summarize(number: str) -> str:
    """A weak spot on one line: its number, title, and mitigation for operators."""
    report = next(one for one in REPORTS if one.number == number)
    title, advice = (f"{text[0].lower()}{text[1:].rstrip('.')}" for text in (report.title, report.operator))
    return f"{number}, {title} (to do: {advice})"


def describe(anchor: str) -> str:
    """A weak spot or hazard in a sentence by its anchor, such as `a5`: its report's title, else the fact itself."""
    number = anchor.upper()
    facts = {entry.number: entry.what for section in SECTIONS for entry in section.entries}
    titles = {report.number: report.title for report in REPORTS}
    return f"{(facts | titles)[number].rstrip('.')} ({number}, diagrams/hazards.md#{anchor})"


KINDS = ("lose", "unanswered", "late", "poll_timeout", "expire", "rebalance_timeout", "leave", "crash", "failover")
"""Kinds of disturbance of consumer groups of two members."""
OLD = {
    "lose": "13, 20",
    "unanswered": "14, 21",
    "late": "11, 18, 8",
    "poll_timeout": "15, 18, 19",
    "expire": "23, 30",
    "rebalance_timeout": "26, 33",
}
NEW = {**OLD, "late": "11, 18, 17", "poll_timeout": "14, 17", "expire": "15, 18", "rebalance_timeout": "18, 25"}
SHORTEST = {
    ("4.0.0", "4.0.0"): OLD,
    ("4.1.2", "4.1.2"): OLD,
    ("4.2.1", "4.2.1"): {**OLD, "late": "11, 18, 17", "poll_timeout": "15, 18"},
    ("4.3.1", "4.3.1"): NEW,
    ("4.4.0", "4.4.0"): NEW,
    ("fixed", "4.4.0"): {"late": "12, 19"},
    ("4.4.0", "fixed"): {**NEW, "late": "13, 20"},
    ("fixed", "fixed"): {},
}
"""By dialects of member and coordinator: steps until the book is wrong, two users appear, the group cannot settle."""

CAUSES = (
    "The causes: with `lose` and `unanswered`, W1 and W9; with `late`, W6, and if the group cannot settle W8, up to "
    "4.1.2 W4; with `poll_timeout`, `expire` and `rebalance_timeout`, H17 since 4.3.0; before, H12 for the first and "
    "W9 for the others. After a poll timeout a group with a coordinator up to 4.1.2 cannot settle because of H12 and "
    "W4: a member has adopted the epoch of its earlier membership, is refused, and cannot join until its session "
    "expires, which counts as a disturbance here. With a `fixed` coordinator, members of a release can rejoin "
    "endlessly after one: that cell shows the result for 400,000 states."
)
"""The causes behind `SHORTEST`, established by applying each cure alone."""
