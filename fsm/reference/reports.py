"""Weak spots that the checker found, as bug reports; and the lengths of the shortest paths to harm.

Steps are those of `fsm check`; observations of a broker are the output of `make confirm` with Kafka 4.4.0 in November
2026, unless noted otherwise.
"""

from __future__ import annotations

from typing import NamedTuple


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
        'fsm check consumer-group --disturb unanswered --property "one user"',
        (
            "A joins and is assigned 0 and 1; its application runs onPartitionsAssigned. B joins and waits.",
            "The answer to a heartbeat of A is lost. The next heartbeat says everything, with nothing owned yet.",
            "The coordinator takes 1 as given up, and B is given it. A's callback ends, and A uses 0 and 1.",
        ),
        "Two applications read one partition until A hears its next answer. A's commits are refused, for its epoch is "
        "an old one; a `seek()` to a committed offset read 79 to 92 twice.",
        "Real: onPartitionsAssigned takes longer than a heartbeat interval, one answer is lost meanwhile, and a "
        "rebalance takes partitions away. W9 is the same with all answers heard.",
        "Name in every report what is being assigned beside what is owned (`REPORTS_WHAT_IS_ASSIGNED`), as for W9.",
        "Nothing that is sound: a report that leaves a partition out is how a member gives it up.",
        "Keep onPartitionsAssigned short, and restore state outside of it.",
        "`double_ownership` with the cause `left_out`, as W9.",
    ),
    Report(
        "W8",
        "A late request swallows a grant",
        "4.0.0, 4.2.0, 4.3.1 and 4.4.0 (raw requests); Java consumer 4.4.0, also on plain TCP with default timings.",
        'fsm check consumer-group --disturb late --property "the group settles"',
        (
            "A owns partitions 0 and 1 and is told to give up 1; B waits, at the group's epoch, with nothing.",
            "A heartbeat of B is on its way on connection 1. B gives it up and sends everything on connection 2.",
            "A gives up 1 and acknowledges.",
            "The heartbeat of connection 1 is handled: partition 1 is assigned to B, and the answer goes nowhere.",
            "Later heartbeats of B are answered without an assignment, for nothing has changed.",
        ),
        "The group is STABLE, the broker shows 1 as assigned to B, and nobody reads it. No timer ends that; only lag "
        "shows it. It lasted 31 s until a heartbeat was cut on purpose, and else until B closed.",
        "Very low for one event: B's path is down for 30 to 45 s, and A acknowledges within one heartbeat interval.",
        "Send everything as long as a given-up request can still be handled: until the member's epoch has changed "
        "twice, "
        "and for good where it was a join (`FULL_WHILE_IN_DOUBT`). It costs the names of the topics and the owned "
        "partitions in each such heartbeat, and the assignment in each answer. Or close a given-up connection "
        "abortively.",
        "Close the older connection when a member uses a later one, and handle nothing that arrives on it (F29). The "
        "broker keeps one number for each member, and the log nothing. That also ends W6, W10, W19 to W21 and W24. Or "
        "name the assignment in every answer, at 20 bytes a topic and 4 a partition.",
        "Watch the lag of each partition, not the state of the group; restart the member that is shown as its owner.",
        "`unowned_partition` with the cause `late_request`, from the members' logs (INFO) and the coordinator's "
        "records: `__consumer_offsets`, or a broker's log at DEBUG. A partition counts as assigned to a member that "
        "began no rebalance then, that had given a heartbeat up before, and none afterwards for longer than requests "
        "take. The cause is `untold` where an answer may have been lost instead.",
    ),
    Report(
        "W9",
        "Two users in good standing during a slow assigned callback",
        "4.0.0 to 4.4.0 (raw requests); Java consumer 4.4.0: both applications owned the partition for 12.7 s, and for "
        "18.4 s where the request was lost. W1 is the same with the answer lost, too.",
        'fsm check consumer-group --disturb lose --property "one user"',
        (
            "A joins and is assigned 0 and 1; its application runs onPartitionsAssigned. B joins and waits.",
            "A heartbeat of A fails. The next one says everything, with nothing owned: the callback is not over.",
            "The coordinator takes partition 1 as given up, tells A to use 0, and gives 1 to B.",
            "A's callback ends, and A uses 0 and 1, the set that its run began with, until the next run revokes 1.",
        ),
        "Two applications read one partition. Both commit, and both commits are accepted: the older offset may win.",
        "Realistic: onPartitionsAssigned takes longer than a heartbeat interval (restoring state), one heartbeat fails "
        "meanwhile (a coordinator moves), and a rebalance takes partitions away: a scale-up during a rolling restart.",
        "Name in every report what is being assigned beside what is owned (`REPORTS_WHAT_IS_ASSIGNED`): the "
        "coordinator "
        "then waits until it is given up. It costs nothing but a later hand-over. This also ends W1. To compare with "
        "the "
        "newest target at the end of a callback is not needed then: nobody else has been given it.",
        "Nothing that is sound: a report that leaves a partition out is how a member gives it up.",
        "Keep onPartitionsAssigned short, and restore state outside of it.",
        "`double_ownership` with the cause `left_out`, from the members' logs (INFO): the first owner gave a "
        "heartbeat up during its assigned callback for that partition, and was told later to give it up. The "
        "coordinator's records show when it was taken as given up.",
    ),
    Report(
        "W2",
        "A classic member that was removed goes on with what it had",
        "4.4.0 (raw requests); the rule is that of all releases, under every policy that lets both protocols in.",
        "fsm check mixed-group --protocol cooperative --client fixed --disturb rebalance_timeout --known early "
        '--property "one user"',
        (
            "Cooperative classic member B owns 0 and 1. A joins with the consumer protocol: B is told to join again.",
            "B's callback takes longer than its rebalance timeout: B is removed, and A is assigned 0 and 1.",
            "B joins with its old id, and says that it owns 0 and 1. It is made anew, without an error.",
            "It goes on with what it had until its SyncGroup is answered.",
        ),
        "Two users of both partitions, each in good standing: of a real broker the commits and heartbeats of both were "
        "accepted.",
        "Realistic: a revoked callback, or a poll, that takes longer than max.poll.interval.ms, which is the rebalance "
        "timeout of a classic member; or a session that ends while a process stands still.",
        "Nothing: it is told that all is well.",
        "Answer UNKNOWN_MEMBER_ID to a dynamic classic member that is not in the group and whose subscription names a "
        "generation (F40): it loses what it had and joins anew, as in a classic group. Whoever was only given its id "
        "names none. It costs nothing, but a client has to forget its generation together with its id.",
        "Keep callbacks and polls below max.poll.interval.ms while a group has members of both protocols.",
        "`double_ownership`, from the members' logs.",
    ),
    Report(
        "W4",
        "A fenced member that comes back under its id is refused",
        "4.0.0 to 4.1.2 (a real broker: 46 joins of one member in 45 s); 4.2.0 takes it back at once (KAFKA-19233).",
        'fsm check consumer-group --client 4.1 --coordinator 4.1 --disturb late --property "the group settles"',
        (
            "A's join is given up and repeated; the second one is answered with epoch 1 and 0 and 1. B joins.",
            "The first join is handled: its epoch is the one before, so A is at epoch 2, with less than it uses.",
            "A's heartbeat at epoch 1 names more than that: FENCED_MEMBER_EPOCH. A joins with its id and epoch 0.",
            "That is neither A's epoch nor the one before it: FENCED_MEMBER_EPOCH, again and again.",
        ),
        "A loses its partitions, joins in vain every heartbeat interval until its session expires, and nobody reads "
        "them.",
        "Low: it takes an epoch that client and coordinator see differently.",
        "Nothing: its id is one for life. A new consumer has another one.",
        "Take epoch 0 as a join of whoever it is (F9, since 4.2.0). That brings W6, which F29 ends.",
        "Upgrade the broker; restart the process, whose next member id is another one.",
        "`fencing_loop`, from the member's log.",
    ),
    Report(
        "W5",
        "Partitions are stranded after a refused downgrade",
        "4.3.1 and 4.4.0 under `group.consumer.migration.policy=upgrade`, not 4.2.0 (Java consumers of both "
        "protocols).",
        "fsm check mixed-group --policy upgrade --disturb leave --known early",
        (
            "Classic member K and consumer-protocol member C share partitions 0 and 1.",
            "C leaves. The group may not become a classic one, so K stays a member of a consumer group.",
            "Only a heartbeat of the consumer protocol or a join computes a target; K does neither.",
            "K's heartbeats are answered well, since K is at the target's epoch.",
        ),
        "The group stays Assigning with its target behind its epoch, and 1 has no owner until somebody joins.",
        "Certain with every leave of the last consumer-protocol member under that policy.",
        "Nothing: no answer tells the classic member.",
        "Tell classic members to rejoin while a target is due and no member of the consumer protocol is left (F31). "
        "Within "
        "the assignment interval they may join more than once.",
        "Keep the policy `bidirectional`, or restart any member after the last consumer-protocol member has gone.",
        "`unowned_partition` with the cause `stranded`, from the coordinator's records (a broker's log at INFO tells "
        "it for information): the last member of the consumer protocol went, and no target was computed for the epoch "
        "of the group.",
    ),
    Report(
        "W6",
        "A late join gives up what is used",
        "4.2.0 to 4.4.0 (raw requests on 4.4.0); since KAFKA-19233.",
        'fsm check consumer-group --disturb late --property "one user"',
        (
            "A's join is given up and repeated; the second one is answered with 0 and 1. B joins and waits.",
            "The first join is handled: epoch 0 always passes, and it says that nothing is owned.",
            "Partition 1 is given to B, while A uses it.",
        ),
        "Two users. A's commits are refused with STALE_MEMBER_EPOCH, and its next ordinary heartbeat is fenced.",
        "Very low: a join has to outlive its connection.",
        "Nothing but to close a given-up connection abortively: the member id is one for life.",
        "Close the older connection when a member uses a later one (F29; see W8).",
        "Nothing.",
    ),
    Report(
        "W10",
        "A late report gives up what was assigned since",
        "4.4.0 (raw requests); the rule is that of all releases.",
        "make confirm",
        (
            "A acknowledges at epoch 3 that it owns nothing. The request is given up and repeated; A goes on.",
            "The others change; A is at epoch 4 and is assigned 0 and 1; then 1 is to go to B.",
            "The old acknowledgement is handled: epoch 3 is the one before, and 1 is not in it, so 1 is free.",
        ),
        "Two users until A's next heartbeat; A's commits of the partition are refused.",
        "Very low: a late request and two rebalances within its life.",
        "Nothing but to close a given-up connection abortively.",
        "Close the older connection when a member uses a later one (F29; see W8). Or let a report of the previous "
        "epoch give up nothing that was assigned at its epoch or later, which costs one more heartbeat where an answer "
        "was lost, and does not end W24.",
        "Nothing.",
    ),
    Report(
        "W11",
        "An acknowledgement gives up what a second target assigns meanwhile",
        "4.4.0 (raw requests; Java consumers for 4.5 s, an acknowledgement and its answer being slow); by the "
        "checker's word 4.0.0, too. A Java consumer with auto-commit is mostly spared: before its second callback it "
        "commits, and that request waits behind the acknowledgement on the same connection.",
        'fsm check consumer-group --topic-changes --disturb topic_grown --property "one user"',
        (
            "A joins and is assigned 0 and 1. While its application runs onPartitionsAssigned, the topic grows.",
            "A heartbeat of A is answered with 0, 1 and 2. The callback ends: A acknowledges 0 and 1.",
            "A's next assigned callback, for 2, ends too, and A uses it. B has joined, and 2 is to go to B.",
            "The acknowledgement is handled. It does not name 2, so 2 is free, and B is given it.",
        ),
        "Two users without any failure, until A hears its answer and gives 2 up; what A commits of 2 before it does is "
        "accepted, over B's commits.",
        "Low: onPartitionsAssigned takes longer than a heartbeat interval, and two targets come within one round trip "
        "of its end: a topic that grows, or a regular expression that is resolved, during a scale-up.",
        "Name in every report what is being assigned beside what is owned (`REPORTS_WHAT_IS_ASSIGNED`), as for W9.",
        "Nothing that is sound: a report that leaves a partition out is how a member gives it up.",
        "Keep onPartitionsAssigned short; grow topics and groups at different times.",
        "`double_ownership` with the cause `left_out`, from the members' logs (INFO) and the coordinator's records: "
        "the second of three assignments adds the partition, the third takes it away without having asked, and the "
        "member gave no request up.",
    ),
    Report(
        "W12",
        "A consumer is ended that joins a classic group before its first generation",
        "4.4.0 (raw requests, Java consumer), under the policies `bidirectional` and `upgrade`.",
        "fsm check mixed-group",
        (
            "A classic member joins an empty group, which waits for `group.initial.rebalance.delay.ms`.",
            "A member of the consumer protocol joins meanwhile. The group is to be converted, and has no protocol yet.",
            "It is answered UNKNOWN_SERVER_ERROR, which is fatal to its client.",
        ),
        "The application's poll() throws, without any failure; the classic member goes on.",
        "Certain within the delay, 3 s by default: a service of both protocols is started from nothing.",
        "Nothing that is safe: the error says nothing of its cause. An application may make its consumer again.",
        "Convert the group by the protocol that it would elect, its members with nothing (F41): they are told to join "
        "again, as in any conversion during a rebalance. Or answer with an error that is tried again.",
        "Start members of the consumer protocol first, or some seconds later.",
        "`member_out_for_good` with the cause `early_join`: the error came while a classic member waited for "
        "generation 1, by that one's log or the coordinator's.",
    ),
    Report(
        "W13",
        "A cooperative static member that restarts before it gives up leaves a partition unused",
        "4.4.0 (raw requests); the rules are those of all releases with static members and incremental rebalancing.",
        'fsm check classic-group --static --protocol cooperative --disturb restart --property "the group settles"',
        (
            "Static member A owns partitions 0 and 1; B joins. The leader leaves A 0, and gives B nothing yet.",
            "A is killed before it has revoked 1 and joined again.",
            "A's next process joins: the group is STABLE, so it takes A's place, and its sync is answered with 0.",
            "It has nothing to revoke, so it does not join again; B waits for a round that nobody asks for.",
        ),
        "The group is STABLE, every heartbeat is answered well, and nobody reads partition 1.",
        "Real for rolling restarts that follow a scale-up: A dies within the heartbeat interval or two and the revoked "
        "callback between the two rounds of an incremental rebalance.",
        "A leader can compare: where its assignment withheld partitions, it can join again after a heartbeat interval "
        "or two in which nobody else did (`enforceRebalance`).",
        "Rebalance where a static member is replaced that was assigned less than it owned as it joined (F33): its next "
        "process has nothing to give up, and joins no more. It costs that one rebalance, and a broker that reads "
        "subscriptions and assignments, as an upgrade does anyway.",
        "Watch the lag of each partition; restart or scale once more, or call `enforceRebalance` in any member.",
        "`unowned_partition` with the cause `owed_join`, from what the coordinator stored (`__consumer_offsets`): "
        "within a generation that withholds what a member had, another process takes its place, and no generation "
        "follows.",
    ),
    Report(
        "W14",
        "A group that is converted before it has an assignment stays without one",
        "4.4.0 (raw requests); by the checker's word from 4.0.1 on (F21b), under the policies `bidirectional` and "
        "`upgrade`.",
        "fsm check mixed-group --static --members 1 --disturb convert",
        (
            "Static member A of the classic protocol joins, and the first generation begins.",
            "A is killed before it has sent its SyncGroup, and restarts with the consumer protocol.",
            "Its heartbeat converts the group: A has no assignment, so its target is empty, at the group's epoch.",
            "A takes the place of the classic member with the same subscription: the epoch is not bumped.",
        ),
        "The group is STABLE with an empty target, and A waits for ever, alone with all partitions.",
        "Low: a restart within the one round trip between join and sync, in a rolling migration of static members.",
        "Nothing: the answer is a good one.",
        "Bump the epoch where a group is converted during a rebalance, as it does where a member is new (F34): what "
        "its members are assigned then is not what they joined for. A member that was told to keep less, and has not "
        "joined again (W13), is in a rebalance, too. It costs one target.",
        "Restart the member once more, or remove it by its instance id (`Admin.removeMembersFromConsumerGroup`).",
        "`unowned_partition` with the cause `no_target`, from what the coordinator stored, and the members' "
        "subscriptions: the group was converted, and no target of its members names a partition.",
    ),
    Report(
        "W15",
        "A downgrade forgets who waits for a partition",
        "4.4.0 (raw requests); by the checker's word from 4.0 on, under the policies `bidirectional` and `downgrade`.",
        "fsm check mixed-group --static --disturb convert --known early,late_join,W14",
        (
            "Static member A of the consumer protocol owns 0 and 1. Classic member B joins: it is to have 1.",
            "B's sync is answered with nothing, since A holds 1.",
            "A is killed and restarts with the classic protocol, before it has given 1 up.",
            "A was the last of its protocol: the group becomes a classic one, STABLE, in a generation that is B's.",
            "A syncs and is told 0. B's heartbeats are answered well, and nobody tells it of 1.",
        ),
        "The group is STABLE, partition 1 is B's by the group's own description, and nobody reads it.",
        "Real for a rolling migration back to the classic protocol: the last two members restart one after the other, "
        "and the second does so before it has heard of the first one's join.",
        "Nothing: no answer tells B.",
        "Prepare a rebalance in the downgrade where a member waits for what others hold (F35); it does so where the "
        "target is behind (KAFKA-20273). It costs that rebalance.",
        "Restart any member once more after a migration back.",
        "`unowned_partition` with the cause `forgotten`, from what the coordinator stored: a consumer group became a "
        "classic one in which a member has more than it was told in the same generation.",
    ),
    Report(
        "W16",
        "A group that is converted gives away what a cooperative member still uses",
        "4.4.0 (raw requests); by the checker's word from 4.0 on, under the policies `bidirectional` and `upgrade`.",
        "fsm check mixed-group --members 3 --classic 2 --protocol cooperative --client fixed --known early",
        (
            "Cooperative member C of a classic group owns 0 and 1. B joins; C leads, and leaves itself 0.",
            "The assignment is stored. Before C has given 1 up, A joins with the consumer protocol.",
            "The group is converted: C counts as holding 0, what it was assigned last. 1 is nobody's.",
            "A's first answer assigns it 1, and A uses it.",
        ),
        "Two users of 1 without any failure, until C has heard its own answer, polled and revoked. Both are in good "
        "standing: C's commit of 1 was accepted, and so was A's. Where a session ends in that round C counts as "
        "holding nothing; a downgrade is no better, as it takes a member's target for what it holds.",
        "Real for a rolling migration of a cooperative group: a member starts with the new protocol while the restart "
        "of the one before is still being balanced.",
        "Nothing: it does as it is told.",
        "Count as held, in an upgrade, also what a member's subscription says that it owned and nobody is assigned; in "
        "a downgrade, all that a member holds (F36). It costs nothing: an upgrade reads subscriptions anyway.",
        "Restart members one by one, each when the group rests; or migrate eager groups.",
        "`double_ownership`, from the members' logs.",
    ),
    Report(
        "W17",
        "A static member whose first answer is lost is refused as if it were another one",
        "4.4.0 (raw requests); by the checker's word from 4.0 on.",
        "fsm check consumer-group --static --members 1 --disturb unanswered",
        (
            "Static member A joins under the member id that it made. It is in the group; the answer is lost.",
            "A joins again, with the same member id and the same instance id.",
            "It is told UNRELEASED_INSTANCE_ID, since the instance id has a member that has not left.",
        ),
        "The error is fatal: the consumer ends, and so does whoever else starts under that instance id, until the "
        "session is over.",
        "Real: one answer to a first heartbeat is lost, or comes after request.timeout.ms.",
        "Leave with epoch -2 before it joins again, where it does not know what became of a join.",
        "Take a join under the holder's own member id for its own, as it does of a dynamic member (F9, F37; open as "
        "pull request 23542 of apache/kafka). A late join is then the one of W6, which F29 ends.",
        "Start the process once more when the session is over, or remove the instance id "
        "(`Admin.removeMembersFromConsumerGroup`).",
    ),
    Report(
        "W18",
        "A slow member is ended where its group became a classic one meanwhile",
        "4.4.0 (raw requests); by the checker's word from 4.0 on, under every policy.",
        "fsm check mixed-group --disturb expire --known early",
        (
            "A, the only member of the consumer protocol, stands still for longer than its session, and is removed.",
            "Classic member B joins the empty group: it becomes a classic one. Or B is left in it: it is downgraded.",
            "A goes on, and sends a heartbeat with its epoch. It is told GROUP_ID_NOT_FOUND.",
        ),
        "The error is fatal: A's application is ended by GroupIdNotFoundException. Had B not come, A had been told "
        "UNKNOWN_MEMBER_ID, and had joined again within a second. The same befalls a member whose group was deleted "
        "after its session.",
        "Real during a migration, online or not: a pause of a process or of its network, of longer than "
        "`group.consumer.session.timeout.ms` (45 s), while few members speak the new protocol.",
        "Take GROUP_ID_NOT_FOUND, where it has an epoch above 0, as it takes UNKNOWN_MEMBER_ID: join with epoch 0. A "
        "policy that does not let it in then tells it so, by the same error.",
        "Answer UNKNOWN_MEMBER_ID to a heartbeat with an epoch above 0 where there is no such consumer group (F38). It "
        "costs nothing: that member is in no group.",
        "Start the process once more; keep two members of either protocol until the migration is over.",
    ),
    Report(
        "W19",
        "A late leave of a static member releases what it uses",
        "4.4.0 (raw requests); by the checker's word from 4.0 on.",
        "make confirm",
        (
            "Static member A leaves with epoch -2, as its poll timer is over. The request is given up.",
            "Its session ends. A polls and joins again under its id; it owns 0 and 1. B joins: A is to give up 1.",
            "The leave is handled: A counts as away, and has nothing to give up any more. 1 is assigned to B.",
        ),
        "Two users of 1 until A's next heartbeat, which is refused with FENCED_MEMBER_EPOCH; A's commits are refused.",
        "Very low: a leave outlives its connection, a session and a join. It takes no session once a static member may "
        "join again under its own id (F37).",
        "Nothing but to close a given-up connection abortively: a leave names no epoch of the membership that it ends.",
        "Close the older connection when a member uses a later one (F29; see W8).",
        "Nothing.",
        "`double_ownership`, from the members' logs.",
    ),
    Report(
        "W20",
        "A late join of a classic member of a consumer group gives up what it uses",
        "4.4.0 (raw requests); the rule is that of all releases.",
        'fsm check mixed-group --client fixed --disturb late --known early --property "one user"',
        (
            "Classic member B's JoinGroup is given up and repeated. It is assigned 0 and 1.",
            "A joins with the consumer protocol: the group is converted, and A waits.",
            "The first JoinGroup is handled: it says that B owns nothing, so B is assigned 0 alone, and 1 is free.",
            "A's next heartbeat assigns it 1, while B uses that.",
        ),
        "Two users of 1 until B's next heartbeat, which is refused with ILLEGAL_GENERATION, as are its commits.",
        "Very low: a join has to outlive its connection, within a migration.",
        "Nothing but to close a given-up connection abortively.",
        "Close the older connection when a member uses a later one for its JoinGroup (F29; see W8).",
        "Nothing.",
        "`double_ownership`, from the members' logs.",
    ),
    Report(
        "W21",
        "Assignments of a round that was lost are taken for those of the next one",
        "By the checker's word all releases; not driven on a broker, as a leader's connection has to outlive two moves "
        "of the coordinator.",
        'fsm check classic-group --disturb failover,late --disturbances 2 --property "no application is ended"',
        (
            "A classic group of A and B is in generation 2, which A leads; generation 1 is what the log has.",
            "The coordinator moves away and back: it knows generation 1. A's SyncGroup is under way, and given up.",
            "B is unknown, and joins as another member; A joins. That is generation 2 once more.",
            "A's SyncGroup is handled: it assigns to A and to the B that was. The new B is assigned nothing.",
        ),
        "B's SyncGroup is answered with no bytes, which its client cannot read: the application is ended.",
        "Very low.",
        "Take an assignment of no bytes as an empty one.",
        "Close the older connection when a member uses a later one (F29; see W8). Or refuse a leader's assignments "
        "that leave a member of the round out, or name another one; an assignor then has to name those who get "
        "nothing, too. Or store the number of a round before its members hear it.",
        "Start the application once more.",
    ),
    Report(
        "W22",
        "A consumer that hangs as it unsubscribes keeps its partitions",
        "Java consumer 4.4.0 (`AbstractHeartbeatRequestManager.poll` asks for the poll timer only where the member is "
        "not leaving); by the checker's word from 4.0 on.",
        'fsm check consumer-group --disturb hanging,leave --disturbances 2 --property "the group settles"',
        (
            "A and B each own a partition. A's application calls unsubscribe(), which calls its revoked callback.",
            "The callback never returns: A is PREPARE_LEAVING, and its background thread sends heartbeats.",
            "max.poll.interval.ms passes. A member that did not leave would now tell the coordinator that it goes.",
        ),
        "The group is Stable, and nobody reads A's partition: three poll timers later a real broker showed it as A's, "
        "where a member that only polled no more was out. A rebalance that takes it away from A would end that, by the "
        "rebalance timeout.",
        "Low: a callback that waits for what never comes, in an application that unsubscribes and lives on.",
        "Let unsubscribe() renew the poll timer, and let it count while its callback runs: at its end the member "
        "leaves, and the call returns with the callback (`POLL_TIMER_WHILE_LEAVING`). It costs that a callback which "
        "takes longer, and returns, commits in vain, as after any poll timeout. Callbacks of close() come before it "
        "leaves: there the timer counts.",
        "Nothing: it hears what it hears of any member.",
        "Watch the lag of each partition; look at the threads of the process, and end it.",
    ),
    Report(
        "W23",
        "A topic that is made anew is read by those who were assigned the old one",
        "By the checker's word all releases; not driven on a broker. Subscriptions of the Java client know no topic "
        "ids (`SubscriptionState`), and its fetcher takes the newest id that its metadata have for a name.",
        "fsm check consumer-group --topic-changes --disturb topic_recreated --every",
        (
            "A owns partitions 0 and 1 of a topic, which is deleted and made anew under the same name. B joins.",
            "The coordinator gives 0 of the new one to B at once, and tells A to give 0 and 1 of the old one up.",
            "A's metadata have the new id: it fetches 0 and 1 of the new topic until its application has revoked.",
        ),
        "Two users of 0, for up to a heartbeat interval and a poll. A begins at its position in the old topic: where "
        "the new one is shorter its reset policy decides, else it skips what lies before. It commits such positions.",
        "Certain where a topic is made anew under running consumers; how long depends on when each learns of it.",
        "Keep the ids of what is assigned beside the names; fetch and commit nothing by itself under another one "
        "(`ANOTHER_ID_IS_ANOTHER_TOPIC`). The coordinator tells each member first to give the old topic up and then "
        "what it has of the new one, so callbacks are right as they are. It costs nothing but a look at the metadata.",
        "Nothing of a fetch, which names an id that exists. A commit by topic ids (OffsetCommit 10) under the old id "
        "it refuses; one by names it takes, and a client that does not know the new id yet still sends such.",
        "Stop the group before a topic is made anew, and delete its offsets.",
    ),
    Report(
        "W24",
        "A late acknowledgement gives up what was assigned at its own epoch",
        "4.4.0 (raw requests); by the checker's word all releases.",
        "make confirm",
        (
            "A owns six partitions. B joins, is to have three, and acknowledges at epoch 3 that it owns nothing.",
            "That is given up and repeated. A gives the three up; B is assigned them, still at epoch 3.",
            "C joins, and is to have one of them. The old acknowledgement is handled: B owns nothing, so it is free.",
            "It is given to C, while B uses it.",
        ),
        "Two users until B's next heartbeat, which is refused with FENCED_MEMBER_EPOCH, or whose answer takes the "
        "partition away; B's commits are refused.",
        "Very low, but likelier than W10: one late request and one rebalance.",
        "Nothing but to close a given-up connection abortively.",
        "Close the older connection when a member uses a later one (F29; see W8). No rule about reports helps: one who "
        "was told to give a partition up reports the same at the same epoch.",
        "Nothing.",
        "`double_ownership`, from the members' logs.",
    ),
    Report(
        "W25",
        "The join of a process that was killed fences the next one",
        "4.4.0 (raw requests); by the checker's word all releases.",
        'fsm check classic-group --static --disturb restart --property "no application is ended"',
        (
            "A process of static member A sends its JoinGroup and is killed. The request is on its way.",
            "The next process joins under the same instance id, and is given a member id.",
            "The first JoinGroup is handled: it has the instance id, too, and takes the place of who lives.",
            "That one is told FENCED_INSTANCE_ID.",
        ),
        "The error is fatal: the application is ended, and nobody is left under that instance id until it is started "
        "again or the session is over.",
        "Very low: a request outlives its process by longer than a restart takes, at a broker that is slow or loading.",
        "Nothing: it is told what a member is told whose place somebody took. An application may make its consumer "
        "again.",
        "Nothing that is sound by the request alone, which is that of a newer process as well; a request whose "
        "connection has ended it need not handle.",
        "Start the process once more.",
    ),
    Report(
        "W26",
        "A Connect worker that lost its membership runs what another one was given",
        "By the checker's word Connect 3.7 to 4.4, of all protocols: the rules are the worker's.",
        'fsm check connect --settled --disturb expire --property "one runner"',
        (
            "Workers A and B run tasks. A's session expires, as it or its network stands still; B is left alone.",
            "A's heartbeat is answered UNKNOWN_MEMBER_ID. It joins again, and does not stop what runs meanwhile.",
            "After the scheduled delay, or at once where the leader is a new one, B is given A's tasks.",
            "A runs them, too, until a round takes them from one of both.",
        ),
        "A task runs twice: a source writes its records twice; a sink's consumers share a group, which has one reader "
        "of each partition all the same.",
        "Real: a pause of a worker for longer than session.timeout.ms (10 s), or a poll that takes longer than "
        "rebalance.timeout.ms. Two rounds after its return it is over.",
        "Stop what runs when the membership is lost, as an eager worker does before it joins; a worker that is back "
        "within the delay then restarts its tasks for nothing.",
        "Nothing: to it assignments are bytes.",
        "Give sessions more time where workers pause; use exactly-once sources, which fence the older task.",
        "`ran_twice`, from the workers' logs.",
    ),
    Report(
        "W27",
        "An eager member that is interrupted as it gives partitions up joins with them",
        "Java consumer 4.4.0 with a broker of 4.4.0 and RangeAssignor, woken up, and with automatic commits "
        "interrupted; by the sources all with an eager assignor.",
        'fsm check classic-group --disturb interrupted --property "one user"',
        (
            "Eager member A owns 0 and 1, without auto-commit. B joins: A's heartbeat returns REBALANCE_IN_PROGRESS.",
            "A's poll runs onPartitionsRevoked, which commits. wakeup() is called, or its thread is interrupted.",
            "The exception leaves poll(): 0 and 1 stay assigned, and needsJoinPrepare has been cleared.",
            "The next poll joins, without the callback, and returns records of both. B syncs and reads 1, too.",
        ),
        "Two applications read one partition until A's SyncGroup is answered and a poll takes the assignment: for one "
        "record where A polls at once, for one to three polls where it works between them (three members, 2 s of work: "
        "2 to 6 s, up to 296 records read twice). The next callback, onPartitionsAssigned, names nothing. "
        "Between that answer and that poll the broker accepts A's commit for 1, under the new generation: its offset "
        "went back from 736 to 571 (`--disturb commit_sync,interrupted --disturbances 2 --property "
        '"a commit of a former owner is refused"`, 31 steps). With `enable.auto.commit`, the default, both are pending '
        "revocation before A joins, and not fetched: nobody read 0, which A keeps, for the 20 s until B closed, and A "
        'then went on where it had stopped (`--commits --property "the group settles"`, 23 steps).',
        "Low: a wakeup or interrupt within a revoked callback, and an application that polls again after it instead "
        "of closing.",
        "Empty the assignment also when the callback throws (`onJoinPrepare`), or set needsJoinPrepare again.",
        "Nothing: a JoinGroup of an eager member that names owned partitions is what a cooperative one sends.",
        "Close the consumer after a WakeupException or InterruptException, or use a cooperative assignor.",
        "Not as such: at INFO the client does not log the exception. To the audit, which goes by callbacks, 0 is an "
        "`unowned_partition`, which is true with automatic commits only, and at A's next round `callback_not_owned`.",
    ),
    Report(
        "H17",
        "An assignment of an earlier life is applied",
        "Java consumers 4.3.0 to 4.4.0, since KAFKA-20106; seen of a broker of 4.4.0 (raw requests).",
        'fsm check consumer-group --disturb poll_timeout --property "one user"',
        (
            "A is assigned 0 and 1: its background thread sends that to the application, which has not polled yet.",
            "A's poll timer runs out: it leaves. The next poll joins again, and finds what was sent before.",
            "The application is called back for 0 and 1, and uses them. B, who has joined, is assigned both.",
        ),
        "Two users of both partitions, both in good standing, until A has reconciled its next assignment.",
        "Real: an application that is slow between two polls as it is assigned something, for max.poll.interval.ms; "
        "or a session that expires then.",
        "Ask, as an assignment is applied, whether its run is still the one that counts (`OUTDATED_IS_SKIPPED`): else "
        "neither apply it nor call back. It costs nothing.",
        "Nothing: it hears of neither.",
        "Give polls more time (max.poll.interval.ms) while a group is deployed or scaled.",
        "`double_ownership`, from the members' logs.",
    ),
    Report(
        "G3",
        "Tasks of a deleted connector run on where the leader goes",
        "Connect 4.3.1 (two workers, by hand); the rules are those of 3.7 to 4.4.",
        "fsm check connect --settled --disturb config,crash --disturbances 2",
        (
            "Worker A leads and runs connector C and task 0; worker B runs task 1.",
            "A user deletes C: A writes that to the config topic, and both want a round.",
            "A is killed, or leaves, before that round has ended.",
            "B leads the next one. It takes away what it remembers and nobody wants any more; it remembers nothing.",
        ),
        "Task 1 runs on, and nothing shows it: the REST interface knows no connector C. It was seen for a minute, and "
        "ends with the next round that B leads, as somebody joins or leaves or a connector changes.",
        "Low: the leader goes within the one or two heartbeat intervals that the round after a deletion takes; longer "
        "where a worker is slow to join it.",
        "Stop in each round what is held and not configured, whoever leads: each worker has the config topic.",
        "Nothing: to it assignments are bytes.",
        "Stop a connector before it is deleted; after the leader has gone, look at the threads of the workers.",
        "`task_zombie` with the cause `deleted`, from the log of the worker that runs it.",
    ),
)


def summarize(number: str) -> str:
    """A weak spot on one line: its number, title, and mitigation for operators."""
    report = next(one for one in REPORTS if one.number == number)
    title, advice = (f"{text[0].lower()}{text[1:].rstrip('.')}" for text in (report.title, report.operator))
    return f"{number}, {title} (to do: {advice})"


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
    "Behind `lose` and `unanswered` stand W1 and W9; behind `late` W6, and where the group is doomed W8, up to 4.1.2 "
    "W4; behind `poll_timeout`, `expire` and `rebalance_timeout` H17 from 4.3.0 on; before, H12 for the first and W9 "
    "for the others. After a poll timeout a group with a coordinator up to 4.1.2 is doomed by H12 and W4: a member has "
    "taken up the epoch of its earlier membership, is refused, and joins in vain until its session ends, which counts "
    "as a disturbance here. With a `fixed` coordinator members of a release can join again without end after one: that "
    "cell tells what 400,000 states show."
)
"""The causes behind `SHORTEST`, established by applying each cure alone."""
