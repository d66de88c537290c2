"""The numbered facts about the protocols, each with its releases and tests.

Sources: the client, the group coordinator and Connect of apache/kafka, compared release by release with branch 4.4 at
87943b2ff874, and logs of real clients from 4.0.0 to 4.4.0. A ticket is named where one is known.
"""

from __future__ import annotations

from typing import NamedTuple

from fsm.protocol.releases import LATEST


class Entry(NamedTuple):
    """One numbered fact."""

    number: str
    what: str
    consequence: str = ""
    first: str = ""
    """The first affected release; empty if all are."""
    last: str = ""
    """The last affected release, `LATEST` if it is open; empty if it ended before 4.0.0."""
    ticket: str = ""
    tests: tuple[str, ...] = ()
    """Tests of the fact, as `path::function`; empty if the section's tests cover it."""

    @property
    def releases(self) -> str:
        """The affected releases as text."""
        if not self.last:
            return "none since 4.0.0" if self.first else "all"
        return f"{self.first} to {self.last}" + (", open" if self.last == LATEST else "")


class Section(NamedTuple):
    """Facts of one kind."""

    title: str
    intro: str
    prefix: str
    """Prefix of the numbers in anchors."""
    entries: tuple[Entry, ...]
    tests: tuple[str, ...] = ()
    """Tests of all entries."""
    remark: str = "Except"
    """Head of the page's second column."""

    def anchor(self, entry: Entry) -> str:
        """The anchor of an entry on its page."""
        return f"{self.prefix}{entry.number.lower()}"


_HAZARDS, _REAL = "tests/member/test_hazards.py::", "tests/member/test_real_effects.py::"


def _open(number: str, what: str, consequence: str, *tests: str, first: str = "4.0.0", ticket: str = "") -> Entry:
    return Entry(number, what, consequence, first, LATEST, ticket, tuple(_HAZARDS + test for test in tests))


def _close_hazard(number: str, what: str, consequence: str, last: str, ticket: str, *tests: str) -> Entry:
    return Entry(number, what, consequence, "4.0.0", last, ticket, tuple(_HAZARDS + test for test in tests))


HAZARDS = Section(
    "Hazards of the Java consumer",
    "Places where Kafka's KIP-848 consumer does what its authors hardly intended. The release dialects of the "
    "consumer member reproduce them; the dialect `fixed` has none of them.",
    "",
    (
        _close_hazard(
            "H1",
            "The answer to a leave heartbeat arrives after the next join has begun, and the member adopts its epoch.",
            "The member joins with a negative epoch.",
            "4.0.2",
            "KAFKA-19335",
            "test_h1_late_leave_response_is_adopted_by_one_who_joins",
        ),
        _open(
            "H2",
            "A member fenced in PREPARE_LEAVING completes unsubscribe() before its queued revoked callback has run. "
            "The end of that callback belongs to no membership any more, but is handled nevertheless.",
            "A subscription made in between is cleared and the epoch becomes negative.",
            "test_h2_late_callback_of_a_leave_wipes_a_new_subscription",
        ),
        _open(
            "H2b",
            "A lost callback ends after the member has left and joined again.",
            "The newer target and the owned partitions are cleared; the open run acknowledges nothing.",
            "test_h2b_late_callback_of_a_loss_wipes_a_newer_target",
        ),
        _close_hazard(
            "H3",
            "While a topic id of the target has no name, every attempt acknowledges the resolvable rest again.",
            "One heartbeat per iteration of the background loop.",
            "4.3.1",
            "KAFKA-20145",
            "test_h3_topic_without_a_name_is_acknowledged_around",
        ),
        _open(
            "H4",
            "Whether there is something to reconcile is decided by the last acknowledged assignment, not by what is "
            "owned.",
            "After a failed assigned callback and a reverted target, the member acknowledges less than it owns.",
            "test_h4_failed_callback_and_reverted_target_acknowledge_too_little",
        ),
        _open(
            "H5",
            "close() after an abandoned unsubscribe() finds the member in PREPARE_LEAVING and sends an ordinary "
            "heartbeat.",
            "No leave is sent; the coordinator waits for the session timeout.",
            "test_h5_close_after_an_abandoned_unsubscribe_sends_no_leave",
        ),
        _open(
            "H6",
            "A poll in PREPARE_LEAVING or LEAVING consumes the flag of a new subscription.",
            "The application is subscribed and never joins.",
            "test_h6_subscription_made_while_leaving_is_forgotten",
            "test_h6_subscription_made_during_the_last_callback_is_wiped",
        ),
        _open(
            "H7",
            "A partition whose revocation failed keeps its mark when a later target keeps the partition.",
            "It is owned and never fetched again.",
            "test_h7_kept_partition_stays_pending_revocation",
        ),
        _close_hazard(
            "H8",
            "After a failed assigned callback the next run enabled only what it added itself.",
            "Partitions stayed assigned and not fetchable.",
            "",
            "KAFKA-18160",
            "test_h8_failed_assigned_callback_is_made_good",
        ),
        _close_hazard(
            "H9",
            "A wakeup or an interrupt out of a listener lost the end of the callback.",
            "The reconciliation never ended.",
            "",
            "KAFKA-18160",
            "test_h9_callback_that_is_interrupted_has_ended",
        ),
        _open(
            "H10",
            "unsubscribe() in STALE leaves the member there, and the flag of a subscription outlives unsubscribe().",
            "A later poll joins the group without a subscription.",
            "test_h10_unsubscribed_while_stale_joins_without_a_subscription",
            "test_h10_subscription_taken_back_joins",
        ),
        _close_hazard(
            "H11",
            "Before its first answer a member had no id to leave under.",
            "A leave could not be sent.",
            "",
            "KIP-1082",
            "test_h11_one_who_was_never_answered_leaves_under_its_id",
        ),
        _open(
            "H12",
            "Responses are not tied to a membership: one from before a leave is accepted after the rejoin.",
            "A joining member has an epoch that the coordinator does not know.",
            "test_h12_response_of_an_earlier_membership_is_believed",
        ),
        _open(
            "H13",
            "JOINING and ACKNOWLEDGING send as soon as no heartbeat is in flight, whatever the backoff says.",
            "A failing coordinator gets a request in each iteration of the loop.",
            "test_h13_joining_ignores_the_backoff",
        ),
        _open(
            "H14",
            "A fatal error that arrives in STALE, and a fence in STALE or FATAL, are illegal transitions that are "
            "swallowed.",
            "The application gets a fatal error, but the member stays in the group.",
            "test_h14_late_fatal_error_is_shown_to_one_who_is_stale",
            "test_h14_late_fence_is_nothing_to_one_whose_membership_is_over",
        ),
        _open(
            "H15",
            "A fatal response that arrives after the leave has ended releases partitions that the application has "
            "assigned manually.",
            "Manually assigned partitions are lost and stay marked for revocation.",
            "test_h15_late_fatal_error_takes_partitions_assigned_by_hand",
            first="4.1.0",
            ticket="since KAFKA-19300",
        ),
        _open(
            "H16",
            "A dynamic member closed with REMAIN_IN_GROUP sends its leave nevertheless once nothing is in flight.",
            "It does not remain in the group.",
            "test_h16_remaining_in_the_group_leaves_it",
            first="4.1.0",
            ticket="since KIP-1092",
        ),
        _open(
            "H17",
            "An assignment waiting in the application's queue is applied without checking the member's state.",
            "A member that was fenced, left or failed meanwhile owns and fetches partitions of others.",
            "test_h17_assignment_of_the_past_is_applied",
            "test_h17_without_it_nobody_is_called_back_either",
            first="4.3.0",
            ticket="since KAFKA-20106",
        ),
        _open(
            "H18",
            "Without a listener the application's thread completes the run itself.",
            "Two threads change the member's fields without a lock.",
            "test_h18_application_thread_does_the_work_of_the_background",
            first="4.3.0",
        ),
        _close_hazard(
            "H19",
            "A fatal answer to a leave ends the membership, not the leave.",
            "unsubscribe() waits for its full timeout.",
            "4.0.2",
            "KAFKA-19300",
            "test_h19_refused_leave_never_ends",
        ),
        _open(
            "H20",
            "A normal leave does not empty the application's copy of the assignment.",
            "unsubscribe() and then close() call onPartitionsLost for partitions that were revoked long ago.",
            "test_h20_close_after_unsubscribe_loses_what_was_revoked_long_ago",
            ticket="since KAFKA-16985",
        ),
    ),
    remark="Consequence",
)

_OWNERSHIP = "tests/audit/member/test_ownership.py::"


def _log_fact(number: str, what: str, consequence: str, *tests: str) -> Entry:
    return Entry(number, what, consequence, "4.0.0", LATEST, "", tests)


LOG_FACTS = Section(
    "What logs of real consumers show",
    "Behaviour of KIP-848 consumers that surprises their users, or that a reader of their logs must know.",
    "",
    (
        _log_fact(
            "A2",
            "No INFO line says that a revoked callback has ended.",
            "At INFO it is bounded by the next transition, RECONCILING to ACKNOWLEDGING.",
            f"{_OWNERSHIP}test_without_a_line_for_its_end_a_revoked_callback_ends_with_the_acknowledgement",
        ),
        _log_fact(
            "A3",
            "Without a listener no callback line is printed, only the block `Reconciling assignment`.",
            "Ownership is read from that block.",
            f"{_OWNERSHIP}test_a_member_without_listener_owns_what_its_block_lists_once_it_acknowledges",
        ),
        _log_fact(
            "A5",
            "At max.poll.interval.ms the background thread leaves at once; the application learns of it at its next "
            "poll.",
            "Double ownership for as long as the application does not poll. No client can avoid it.",
            f"{_REAL}test_a5_application_that_does_not_poll_owns_what_others_have",
            "tests/cluster/test_weak_spots.py::test_a5_an_application_that_stops_polling_is_left_behind",
        ),
        _log_fact(
            "A7",
            "A callback that outlives the rebalance timeout keeps running while the coordinator removes the member.",
            "Everything it owned is owned twice until the callback ends. Then the lost callback names all partitions, "
            "also those that were just revoked.",
            f"{_REAL}test_a7_application_in_its_callback_owns_what_others_have",
            f"{_REAL}test_a7_partition_is_revoked_and_then_lost",
            "tests/cluster/test_weak_spots.py::test_a7_a_callback_outlives_the_rebalance_timeout",
        ),
        _log_fact(
            "A11",
            "A listener that throws fails the reconciliation, and the next poll starts it again.",
            "The same callback runs again with the same partitions.",
            f"{_REAL}test_a11_failed_revoked_callback_is_called_again",
            f"{_OWNERSHIP}test_a_failed_callback_is_told_once_and_called_again",
        ),
        _log_fact(
            "A13",
            "The commit before a reconciliation fails for a deleted topic, and `Reconciliation failed.` is printed.",
            "The reconciliation continues nevertheless; the line means nothing.",
            f"{_OWNERSHIP}test_a_deleted_topic_ends_ownership_in_its_own_way",
        ),
        _log_fact(
            "A15",
            "A fatal error is thrown from one poll; later polls return nothing and throw nothing.",
            "A process keeps running without owning anything.",
            "tests/audit/member/test_membership.py::test_a_member_that_lives_on_after_a_fatal_error_is_out_for_good",
        ),
        _log_fact(
            "A21",
            "close() runs the revoked callback over the application's own copy of the assignment.",
            "Within a reconciliation partitions are revoked twice; in STALE partitions of others are revoked.",
            f"{_REAL}test_a21_close_revokes_again_what_a_reconciliation_has_just_revoked",
            f"{_REAL}test_a21_close_of_a_stale_consumer_revokes_what_others_have",
        ),
    ),
    remark="Consequence",
)

_WEAK, _ARISES = "tests/coordinator/test_weak_spots.py::", "tests/cluster/test_weak_spots.py::"
_RESTARTED = "tests/audit/test_restarted_members.py::test_what_happened_is_named_and_nothing_else_is_found"
_FOUND, _NAMED = "tests/check/test_", "tests/audit/test_weak_spots.py::test_"

WEAK_SPOTS = Section(
    "Weak spots of the group coordinator",
    "How a group of correct members, Kafka's own clients, can still go wrong because of the coordinator's rules.",
    "",
    (
        Entry(
            "W1",
            "A partition that a member's list of owned partitions leaves out is released at once, even if it was "
            "just assigned to the member and is not applied yet.",
            "If the response is lost and the member then starts to use it, a partition has two users in good "
            "standing; commits of the former one are refused. Observed on real brokers from 4.0.0 to 4.4.0.",
            tests=(
                f"{_WEAK}test_weak_spot_1_what_is_left_out_of_a_report_is_released_at_once",
                f"{_ARISES}test_w1_what_was_left_out_of_a_report_is_used_after_all",
            ),
        ),
        Entry(
            "W2",
            "A dynamic classic member of a consumer group that was removed and joins with its old id is created "
            "again without an error.",
            "A cooperative client keeps using its old partitions until its next SyncGroup: two users in good "
            "standing, and the commits of both are accepted. Observed on a real broker of 4.4.0.",
            tests=(
                f"{_ARISES}test_w2_a_classic_member_that_was_removed_is_made_anew_without_a_word",
                f"{_FOUND}cures.py::test_a_member_that_was_removed_goes_on_with_nothing",
            ),
        ),
        Entry(
            "W3",
            "A partition that is taken back before the member used it stays pending revocation until the member "
            "reports its owned partitions again.",
            "A client that does not repeat an unchanged list of owned partitions is removed by the rebalance timer.",
            tests=(
                f"{_WEAK}test_weak_spot_3_an_owned_set_that_did_not_change_must_be_reported_again",
                f"{_ARISES}test_w3_members_report_what_they_have_after_each_assignment",
            ),
        ),
        Entry(
            "W4",
            "A fenced dynamic member that rejoins with its id and epoch 0 is refused.",
            "It is out until its session expires (F9): 46 joins of one member in 45 s on a real broker of 4.1.2. A "
            "broker of 4.4.0 accepts it at once.",
            "4.0.0",
            "4.1.2",
            "KAFKA-19233",
            (
                f"{_WEAK}test_weak_spot_4_a_member_that_lost_its_epoch_cannot_come_back",
                f"{_ARISES}test_w4_a_member_that_lost_its_epoch_cannot_come_back",
            ),
        ),
        Entry(
            "W5",
            "After the last consumer-protocol member has left and the downgrade is refused, nobody computes the next "
            "target, and classic members are not told to rejoin (F3, F18).",
            "The group stays ASSIGNING and the freed partitions have no owner until a member joins. Observed on real "
            "brokers of 4.3.1 and 4.4.0 under the migration policy `upgrade`.",
            "4.3.0",
            LATEST,
            "since KAFKA-20272",
            (
                f"{_ARISES}test_w5_classic_members_among_themselves_strand_partitions",
                f"{_NAMED}what_happened_is_named_and_nothing_else_is_found",
            ),
        ),
        Entry(
            "W6",
            "A late duplicate of a request with epoch 0 counts as an acknowledgement (F9).",
            "Partitions that the member still uses are assigned to another one.",
            "4.2.0",
            LATEST,
            "since KAFKA-19233",
            (f"{_ARISES}test_w6_a_late_duplicate_of_a_join_acknowledges",),
        ),
        Entry(
            "W7",
            "The assignment interval (F3) is measured with the wall clock.",
            "A clock that stops or goes backward delays the next target.",
            "4.3.0",
            LATEST,
            "since KIP-1263",
            (f"{_ARISES}test_w7_a_clock_that_goes_back_delays_targets",),
        ),
        Entry(
            "W8",
            "A request that timed out at its sender, and was sent again on another connection, is handled after the "
            "second one. Its response, which assigns partitions, reaches nobody, and later heartbeats are answered "
            "without an assignment, because nothing has changed.",
            "The group is STABLE and a partition has no user, until the member sends a full heartbeat. Observed on "
            "real brokers from 4.0.0 to 4.4.0.",
            tests=(
                f"{_FOUND}consumer_group.py::test_a_late_request_swallows_a_grant",
                f"{_NAMED}a_late_request_is_told_with_its_times",
            ),
        ),
        Entry(
            "W9",
            "A full heartbeat is sent while the assigned callback runs, and leaves out what is being assigned: that "
            "is released at once, as in W1, although the response arrives.",
            "When the callback ends, a partition has two users in good standing. Observed on real brokers from 4.0.0 "
            "to 4.4.0, and with Java clients of 4.4.0.",
            tests=(
                f"{_FOUND}cures.py::test_what_is_being_assigned_is_released_by_a_report",
                f"{_NAMED}two_users_are_told_with_their_times",
            ),
        ),
        Entry(
            "W10",
            "A report with the previous epoch is accepted, because responses may be lost, and what it leaves out "
            "counts as revoked: if the request timed out and arrives late, that includes what was assigned after it "
            "was sent.",
            "A partition has two users in good standing. It needs a late acknowledgement and two rebalances meanwhile.",
            tests=(f"{_FOUND}cures.py::test_a_late_request_gives_up_what_was_assigned_since",),
        ),
        Entry(
            "W11",
            "An acknowledgement is in flight, and a second target assigns more; then a third takes that away: the "
            "acknowledgement does not name it, so it counts as revoked, although the second assigned callback is "
            "running.",
            "A partition has two users until the first one learns of it, without any failure; commits of the first "
            "one are accepted meanwhile. Observed on a real broker of 4.4.0, and with Java clients of 4.4.0 without "
            "auto-commit.",
            tests=(
                f"{_FOUND}consumer_group_kinds.py::test_an_acknowledgement_under_way_gives_up_what_is_being_assigned",
                f"{_NAMED}two_users_are_told_with_their_times",
            ),
        ),
        Entry(
            "W12",
            "A member of the consumer protocol joins a classic group whose first members still wait for its first "
            "generation: the group has no protocol yet, which the conversion needs.",
            "It gets UNKNOWN_SERVER_ERROR, which terminates it. Observed on a real broker of 4.4.0, and with its "
            "Java client.",
            tests=(
                f"{_FOUND}mixed_group.py::test_a_consumer_that_joins_before_the_first_generation_is_ended",
                f"{_NAMED}what_happened_is_named_and_nothing_else_is_found",
            ),
        ),
        Entry(
            "W13",
            "A cooperative static member has to revoke partitions, and restarts before it does so and rejoins. The "
            "new process replaces it without a rebalance, and gets what the round assigned to it.",
            "Nobody starts the round that would assign the rest: it stays unused until a member joins, leaves or "
            "changes its subscription. Observed on a real broker of 4.4.0.",
            tests=(
                f"{_FOUND}classic_group.py::test_a_static_member_is_restarted",
                f"{_FOUND}cures.py::test_who_takes_the_place_of_one_that_owes_a_join_rebalances",
                _RESTARTED,
            ),
        ),
        Entry(
            "W14",
            "A static member of a classic group whose generation has no assignment yet returns with the consumer "
            "protocol. The group is converted with empty targets, and the member's subscription is unchanged.",
            "No epoch is bumped, so no target is computed: the group is STABLE and its partitions have no owner "
            "until a member joins, leaves or changes its subscription. Observed on a real broker of 4.4.0.",
            tests=(
                f"{_FOUND}mixed_group.py::test_a_group_that_is_converted_before_its_assignment_stays_empty",
                f"{_FOUND}cures.py::test_a_conversion_within_a_rebalance_computes_a_target",
                _RESTARTED,
            ),
        ),
        Entry(
            "W15",
            "The last member of the consumer protocol is static and returns as a classic one while a classic member "
            "waits for one of its partitions. The group becomes a classic one, STABLE, in the same generation.",
            "The waiting member has the partition according to the group's assignment, but never learns it: it stays "
            "unused until a member joins, leaves or changes its subscription. Observed on a real broker of 4.4.0.",
            tests=(
                f"{_FOUND}mixed_group.py::test_a_downgrade_forgets_who_waits",
                f"{_FOUND}cures.py::test_a_downgrade_lets_nobody_wait",
                _RESTARTED,
            ),
        ),
        Entry(
            "W16",
            "A cooperative member of a classic group has to revoke partitions, and a member of the consumer protocol "
            "converts the group before it has done so.",
            "It is recorded as holding its last assignment, so the rest is assigned to another member at once, while "
            "it uses it: two users in good standing, without any disturbance. Observed on a real broker of 4.4.0.",
            tests=(f"{_FOUND}cures.py::test_a_group_that_is_converted_keeps_what_is_used",),
        ),
        Entry(
            "W17",
            "A static member's join is handled, and the response is lost. It joins again with the same member id and "
            "instance id.",
            "It gets UNRELEASED_INSTANCE_ID, as if it were another member, which terminates it. Observed on a real "
            "broker of 4.4.0.",
            tests=(f"{_FOUND}cures.py::test_a_static_member_whose_answer_is_lost_joins_again",),
        ),
        Entry(
            "W18",
            "The session of a group's last member of the consumer protocol expires while that member is only slow, "
            "and the group becomes a classic one: classic members are left, or one joins the empty group. Or the "
            "empty group is deleted.",
            "The member's next heartbeat gets GROUP_ID_NOT_FOUND, which terminates it; if the group keeps its type "
            "it gets UNKNOWN_MEMBER_ID, and rejoins. Observed on a real broker of 4.4.0.",
            tests=(f"{_FOUND}cures.py::test_a_member_whose_group_became_a_classic_one_joins_again",),
        ),
        Entry(
            "W19",
            "The leave with epoch -2 of a static member times out and is handled late, after the member has "
            "rejoined, while it has something to revoke.",
            "It is recorded as away, and what it has to revoke is released at once, while it uses it: two users "
            "until its next heartbeat, which is refused. Observed on a real broker of 4.4.0.",
            tests=(f"{_FOUND}cures.py::test_a_late_request_gives_up_what_was_assigned_since",),
        ),
        Entry(
            "W20",
            "A JoinGroup of a classic member of a consumer group times out, is sent again, and is handled late: it "
            "reports what the member owned before it was assigned anything.",
            "What it leaves out counts as revoked, while the member uses it: two users until its next heartbeat, "
            "which is refused. Observed on a real broker of 4.4.0.",
            tests=(f"{_FOUND}cures.py::test_a_late_request_gives_up_what_was_assigned_since",),
        ),
        Entry(
            "W21",
            "A coordinator fails over before a classic group's round is stored, so the next one has the same "
            "generation. The leader's SyncGroup of the lost round is handled late, in that one.",
            "A new member of it gets an assignment of zero bytes, which terminates its application.",
            tests=(f"{_FOUND}cures.py::test_assignments_of_a_lost_round_are_taken",),
        ),
        Entry(
            "W22",
            "The revoked callback of an unsubscribe() never returns. The KIP-848 member keeps sending heartbeats: "
            "the poll timer is not checked while it leaves.",
            "It keeps its partitions, which nobody reads, as long as the process runs. Observed with a Java client "
            "of 4.4.0.",
            tests=(
                f"{_FOUND}consumer_group_kinds.py::test_who_hangs_as_it_unsubscribes_keeps_what_it_has",
                "tests/member/test_hazards.py::test_w22_poll_timer_bounds_the_callback_of_unsubscribe",
            ),
        ),
        Entry(
            "W23",
            "A topic is deleted and recreated. A client fetches by name: a member that was assigned the old topic "
            "reads the new one as soon as it knows the new id, even if the new topic is assigned to another member.",
            "Two users of a partition, until the first one has revoked the old one: observed with Java consumers of "
            "4.4.0. Its auto-commit stores the position in the old topic for the new one.",
            tests=(
                f"{_FOUND}consumer_group_kinds.py::test_a_topic_that_is_made_anew_is_used_before_it_is_assigned",
                f"{_FOUND}consumer_group_kinds.py::test_a_commit_names_the_topic_that_was_assigned",
                "tests/member/test_hazards.py::test_w23_topic_made_anew_is_another_one",
                "tests/member/test_hazards.py::test_w23_commits_name_the_topic_that_was_assigned",
            ),
        ),
        Entry(
            "W24",
            "An acknowledgement times out, is sent again, and is handled after its member was assigned more at the "
            "same epoch, when another target is due.",
            "What it leaves out counts as revoked, while the member uses it: two users until its next heartbeat. "
            "Three members and one late request are enough. Observed on a real broker of 4.4.0.",
            tests=(f"{_FOUND}cures.py::test_a_late_request_gives_up_what_was_assigned_since",),
        ),
        Entry(
            "W25",
            "The JoinGroup of a killed process of a static member is handled after that of the next process.",
            "It replaces the running process, which is terminated by FENCED_INSTANCE_ID. Observed on a real broker "
            "of 4.4.0.",
            tests=(
                f"{_FOUND}classic_group.py::test_a_static_member_is_restarted",
                f"{_FOUND}cures.py::test_who_takes_the_place_of_one_that_owes_a_join_rebalances",
            ),
        ),
        Entry(
            "W26",
            "A Connect worker that lost its membership, or was paused for its session timeout, keeps running its "
            "units until it has settled.",
            "A task runs on two workers at once, for at most two rounds after its return. Observed with workers "
            "of 4.3.1.",
            tests=(
                f"{_FOUND}connect.py::test_a_worker_that_lost_its_membership_runs_what_is_anothers",
                f"{_FOUND}connect.py::test_a_worker_that_stood_still_runs_what_is_anothers",
            ),
        ),
        Entry(
            "W27",
            "An eager classic consumer of the Java client is interrupted, or woken up, in its revoked callback: poll() "
            "throws at once, and the next one does not repeat the callback.",
            "It joins with its partitions, and uses them until its SyncGroup is answered and it polls: two users "
            "until then, and a commit of what another one owns is accepted. No callback tells which of them it has "
            "lost. With `enable.auto.commit` those that it keeps stay pending revocation, and nobody reads them "
            "until another rebalance. Observed with Java consumers of 4.4.0.",
            tests=(
                f"{_FOUND}classic_group.py::test_who_is_interrupted_as_it_gives_partitions_up_joins_with_them",
                f"{_FOUND}classic_group.py::test_applications_and_brokers_disturb_a_classic_group",
            ),
        ),
        Entry(
            "W28",
            "The last member of the consumer protocol leaves, and the group becomes a classic one, which rebalances. "
            "Before that round is stored another broker takes over: it loads a classic group that is STABLE.",
            "The remaining members are not told to rejoin, and what the one that left had stays unused until a member "
            "joins, leaves or changes its subscription. Observed on a real broker of 4.4.0.",
            tests=(f"{_FOUND}cures.py::test_the_rebalance_of_a_downgrade_outlives_its_broker",),
        ),
        Entry(
            "W29",
            "A static classic member is restarted while its group rebalances, and gets a new member id. Before that "
            "round is stored another broker takes over, whose log has the old id.",
            "Its SyncGroup or heartbeat gets FENCED_INSTANCE_ID, which terminates the only process with that instance "
            "id. Observed on a real broker of 4.4.0.",
            tests=(
                f"{_FOUND}cures.py::test_who_takes_a_place_in_a_round_that_is_lost_is_fenced",
                f"{_FOUND}cures.py::test_who_takes_a_place_in_a_round_that_is_lost_joins_again",
            ),
        ),
        Entry(
            "W30",
            "The session of a static KIP-848 member expires although it is alive, and the join of its killed earlier "
            "process is handled after that.",
            "That one has the instance id: the running process is terminated by FENCED_INSTANCE_ID. Observed on a real "
            "broker of 4.4.0.",
            tests=(f"{_FOUND}cures.py::test_the_join_of_a_killed_process_takes_the_place_of_the_next_one",),
        ),
        Entry(
            "W31",
            "The JoinGroup of a cooperative static member arrives after the join phase. It keeps its place, and the "
            "round gives another member what it owns now and did not name as it joined last.",
            "Both use it until its next SyncGroup is answered. Observed on a real broker of 4.4.0.",
            tests=(
                f"{_FOUND}classic_group.py::test_a_cooperative_static_member_is_too_late_for_a_round",
                f"{_FOUND}cures.py::test_a_member_that_is_too_late_keeps_what_it_owns",
            ),
        ),
        Entry(
            "W32",
            "The leader of a classic group is static and restarts, and a topic is created, grows or is deleted before "
            "it has its place again. It is told to skip the assignment (KIP-814), and takes the topics as they are now "
            "for those it assigned.",
            "New partitions stay unused until a member joins, leaves or changes its subscription, or a topic changes "
            "again. Observed with a Java consumer of 4.4.0.",
            tests=(
                f"{_FOUND}classic_group.py::test_a_static_leader_takes_changed_topics_as_assigned",
                f"{_FOUND}cures.py::test_topics_change_while_a_static_leader_is_away",
            ),
        ),
        Entry(
            "W33",
            "A classic member that a consumer group has lost, or a stranger, joins the empty group with its id. It is "
            "refused; the coordinator drops the group from memory, but writes no tombstones.",
            "The group is not found, and its offsets do not expire, until a broker loads the log: then it is back, at "
            "its epoch. Observed on a real broker of 4.4.0.",
            tests=(f"{_FOUND}cures.py::test_a_refused_join_leaves_an_empty_group",),
        ),
        Entry(
            "W34",
            "A full classic group (`group.max.size`) refuses the last member that its join phase waits for, and does "
            "not complete the phase.",
            "The others wait for the rebalance timeout; eager ones use nothing. Observed on a real broker of 4.4.0.",
            tests=(f"{_FOUND}cures.py::test_a_full_group_does_not_wait_for_whom_it_refuses",),
        ),
        Entry(
            "W35",
            "A static classic member restarts with a subscription to other topics, and joins within its session. The "
            "group does not rebalance: the member gets the assignment of its earlier process.",
            "Topics that nobody else subscribes to stay unused until a member joins, leaves or changes its "
            "subscription. Observed with Java consumers of 4.4.0.",
            tests=(f"{_FOUND}cures.py::test_a_static_member_returns_with_another_subscription",),
        ),
        Entry(
            "W36",
            "Between the answer to a JoinGroup and the SyncGroup the coordinator's partition moves to another broker "
            "and back. While it loads its log, the answer to SyncGroup is COORDINATOR_LOAD_IN_PROGRESS (until 3.9: "
            "REBALANCE_IN_PROGRESS).",
            "Java clients do not expect that error: poll() throws, and a Connect worker ends. The answer was observed "
            "on a real broker of 4.4.0.",
            tests=(f"{_FOUND}loading.py::test_a_client_is_ended_by_the_answer_to_its_sync",),
        ),
    ),
    remark="Consequence",
)


def _statements(text: str) -> tuple[Entry, ...]:
    """The entries of a text with one per line: number, statement, and after a bar the exceptions."""
    lines = (line.partition(" ") for line in text.strip().splitlines())
    parts = ((number, rest.partition(" | ")) for number, _, rest in lines)
    return tuple(Entry(number, what, exceptions) for number, (what, _, exceptions) in parts)


MEMBER = Section(
    "Invariants of the consumer member",
    "Properties that hold for a KIP-848 consumer after every step. If a hazard violates one, the release dialects "
    "violate it, and `fixed` keeps it.",
    "",
    _statements(
        "\nI01 Every change of state is one that the client's MemberState allows, or that the dialect adds "
        "to it.\nI02 A member out of the group (UNSUBSCRIBED, FENCED, FATAL, STALE) generates no "
        "heartbeat.\nI03 In STABLE the current assignment equals the target.\nI04 In RECONCILING the current "
        "assignment differs from the target. | H2, H2b\nI05 In ACKNOWLEDGING there is a current assignment. "
        "| H2b\nI06 In RECONCILING, ACKNOWLEDGING and STABLE the epoch is above 0. | H1, H2\nI07 In LEAVING "
        "and STALE the epoch is below 0 and the current assignment empty.\nI08a In UNSUBSCRIBED and FENCED "
        "the epoch is not above 0.\nI08b In UNSUBSCRIBED there is no current assignment.\nI09a In JOINING "
        "there is neither target nor current assignment.\nI09b In JOINING the epoch is 0. | H1, H2, H12, and "
        "a coordinator that answers a join without an assignment\nI09c In JOINING nothing is owned. | H2, "
        "H10, H17\nI10 A heartbeat carries a negative epoch exactly if it was generated in LEAVING. | H1, "
        "H2\nI11 At most one commit or callback of a reconciliation is open.\nI12 A reconciliation is open "
        "exactly while one of its steps is.\nI13 The current assignment is not newer than the target.\nI14 "
        "In STABLE and ACKNOWLEDGING the owned partitions are those of the current assignment. | failing "
        "callbacks (H4, H10, H2b)\nI15 In STABLE every owned partition may be fetched. | failing callbacks "
        "(H4, H7)\nI16 Epoch listeners know the epoch, or that there is none.\nI17 A leave is open only in "
        "PREPARE_LEAVING, LEAVING and UNSUBSCRIBED. | an abandoned unsubscribe()\nI18 FATAL is never left. | "
        "by design in the dialect `document`\nI19 The member id never changes.\nI20 A member in the group is "
        "subscribed by topic or pattern. | H2, H10\nI21 No answer changes the assignment of a member that is "
        "out or leaving.\nI22a A reconciliation asks for revoked before assigned, and for each once.\nI22b "
        "It is acknowledged exactly when its assignment is applied and its callback has returned.\nI23 An "
        "added partition is not fetched before its assigned callback has ended.\nI24 The partitions in a "
        "heartbeat are those of the current assignment. | in `fixed` also those being assigned\nI25 A lost "
        "or final revoked callback names what is owned at that moment.\nI26 At most one heartbeat with an "
        "epoch of 0 or more is outstanding. | a reset request forgets the one in flight\nI27 In UNSUBSCRIBED "
        "nothing is owned. | a fence while leaving, until its callback ends; H17\nI28a A member that rejoins "
        "from FENCED or STALE has neither target nor current assignment.\nI28b A member that rejoins from "
        "FENCED or STALE owns nothing. | H17\nI29 If callbacks end, the application polls and the "
        "coordinator answers, the member settles.\nI30 In that case, every target is acknowledged or "
        "superseded.\nI31 A reconciliation that commits or revokes begins inside poll(). | before 4.2.1\nI32 "
        "What can be resolved is acknowledged once for each local epoch. | before 4.4.0\nI33 The set of "
        "owned partitions grows only by the application's own step. | before 4.3.0\nI34 In FATAL nothing is "
        "owned once every callback has returned. | H17, and a fatal error while leaving\nI35 A member that "
        "learns that it was fenced, or is not a member, has no epoch above 0.\nI36 Outside the group, only a "
        "poll starts a join. | by design in the dialect `document`\nI37 Once a lost or final revoked "
        "callback is asked for, nothing may be fetched. | before 4.3.0\nI38 A member whose membership has ended "
        "gets a lost callback, any other one a revoked callback.\n"
    ),
    (
        "tests/member/test_walk.py::test_what_holds_always_holds_in_a_walk",
        "tests/member/test_invariants.py::test_violated_invariant_is_seen_broken",
    ),
)

GROUP = Section(
    "Invariants of a consumer group",
    "Properties that hold for a consumer group on its coordinator, between steps (1 to 11, 13, 15, 16, 18) and "
    "across each step.",
    "group-",
    _statements(
        "\n1 No partition is held, as assigned or pending revocation, by two members.\n2 A member's assigned "
        "and pending partitions are disjoint.\n3 The map of current partition epochs follows from the "
        "members.\n4 previous epoch <= member epoch <= target epoch <= group epoch.\n5 A member in "
        "UNREVOKED_PARTITIONS has something pending, any other has nothing. | a static member that is "
        "away\n6 A member that reached the target epoch and is STABLE holds nothing beyond its target.\n7 A "
        "member enters UNRELEASED_PARTITIONS at the target epoch, and lacks some of its target, which others "
        "held. | before 4.2.0 (F6)\n8 The group's state follows from its epochs and members.\n9 In a STABLE group "
        "every member holds its target. | while a pattern is not resolved\n10 In a STABLE group every "
        "partition of a subscribed topic is held. | while a pattern is not resolved\n11 Targets are disjoint "
        "and belong to members.\n12 A new target names only topics that its member subscribes to.\n13 Each "
        "instance id leads to the member that has it. | before 4.4.0 (F15)\n14 A group does not grow beyond "
        "its limit.\n15 Classic members have a protocol in common.\n16 A live client with a known id and "
        "epoch uses only what its member holds. | W1, W2\n17 Sessions and rebalance timers belong to "
        "members, and a member that must revoke has a deadline.\n18 Assignment epochs lie between 0 and the "
        "member epoch. | since 4.3.0 (F8)\n19 The time of a target is past, and an empty group has its "
        "target at the group epoch. | before 4.4.0 (F4)\n20 No epoch decreases, and a member knows "
        "the one before its own.\n21 A request bumps the "
        "group epoch at most once.\n22 Targets change only together with the target epoch.\n23 A partition "
        "changes its holder only after the holder no longer reported it, left or was removed.\n24 A step "
        "into UNREVOKED_PARTITIONS assigns nothing.\n25 An error changes nothing.\n26 An answer without an "
        "assignment means the same assignment as before.\n27 The answer carries the member's epoch, and a "
        "joining member gets its whole assignment.\n28 Two targets are at least the assignment interval "
        "apart. | before 4.3.0 (F3)\n29 An upgrade keeps every classic member's assignment, and its "
        "generation as the epoch.\n30 A downgrade makes the group epoch the generation, and targets the "
        "assignments.\n31 The heartbeat of a classic member behind the target epoch does not succeed. | "
        "before 4.3.0 it is the group epoch (F18)\n32 A commit with an older epoch is accepted only down to "
        "the assignment epochs of its partitions. | since 4.3.0 (F8)\n33 A member that leaves bumps the "
        "group epoch; a static member that another process replaces does not leave.\n"
    ),
    (
        "tests/coordinator/test_consumer_group_walk.py::test_invariants_hold_in_a_walk",
        "tests/coordinator/test_invariants.py::test_a_tampered_group_breaks_what_it_should",
        "tests/coordinator/test_promises.py::test_an_upgrade_that_takes_something_away_is_seen",
    ),
)

CONNECT_ASSIGNOR = Section(
    "Invariants of one round of Connect's assignor",
    "Units are connectors and tasks; lost work is what the previous round had and nobody reports now.",
    "connect-",
    _statements(
        "\nI1 No unit is assigned to two workers.\nI2 No unit is assigned while a worker still reports "
        "it.\nI3 No unit is assigned and revoked in one round.\nI4 After the round every unit has at most "
        "one owner; a unit that had two has none.\nI5 Only held units are revoked. | lost units in a round "
        "in which a delay expires\nI6 No worker keeps a deleted unit.\nI7 New units are assigned at once, "
        "also during a delay.\nI8 While lost work waits for a delay, none of it is assigned.\nI9 During a "
        "delay nothing is revoked for balance.\nI10 A delay lies between 0 and its maximum, and its deadline "
        "is the instant plus the delay.\nI11 A running deadline does not move; the delay in responses "
        "shrinks towards it.\nI12 When a delay expires, all lost work is assigned, or revoked and assigned "
        "in the next round.\nI13 A departure with lost work starts the full delay.\nI14 Without a departure "
        "no lost unit waits.\nI15 With delays disabled no lost unit waits.\nI16 A leader without memory "
        "announces no delay and assigns all that nobody owns. | profile `document`: a reported delay "
        "continues\nI17 A held unit leaves its worker only by being revoked.\nI18 A balanced group loses "
        "only deleted and duplicate units.\nI19 Two rounds in a row do not both revoke for balance.\nI20 "
        "Every member of the round gets an answer, with one delay, error, leader and offset.\nI21 The next "
        "round remembers what was held or lost.\nI22 The same inputs give the same outputs, whatever the "
        "order of the maps.\nI23 A failed round assigns nothing, revokes nothing and leaves the memory "
        "unchanged.\nL0 A delay with nothing left to wait for ends.\n"
    ),
    ("tests/connect/test_lives.py::test_whatever_happens_every_round_keeps_the_invariants",),
)

CONNECT_GROUP = Section(
    "Invariants of a Connect group over time",
    "Properties of consecutive rounds, and of an undisturbed group.",
    "",
    _statements(
        "\nG1 Once settled, all configured units are held and loads differ by at most one, separately for "
        "connectors and tasks. | profile `document`: together\nG2 Each configured unit is owned, lost with a "
        "deadline, newly created, or was revoked in the round before.\nG3 An undisturbed group settles after "
        "at most three rounds that change something. | units deleted before their leader led, or while their "
        "worker was out of the group\nG4 The generation rises with every round that was joined.\nG5 The "
        "leader is a member of its round, and the round's protocol is one that all members speak.\nG6 A "
        "leader that is still a member stays leader.\n"
    ),
    (
        "tests/connect/test_over_time.py::test_rounds_that_follow_one_another",
        "tests/connect/test_over_time.py::test_a_group_left_alone_comes_to_rest",
        "tests/check/test_connect.py::test_a_promise_that_is_not_kept_is_found",
    ),
)

CONNECT_WORKER = Section(
    "Invariants of a Connect worker",
    "A worker that lost its membership without stopping its units is a zombie.",
    "connect-",
    _statements(
        "\nW1 After a cooperative round a worker holds what it had, minus what was revoked, plus what was "
        "assigned.\nW2 Revoked units have stopped before assigned ones start and before the worker joins "
        "again.\nW3 After a revocation the worker joins again at once, under a delay no later than its "
        "end.\nW4 Nothing starts while the worker's config offset differs from the round's.\nW5 Between "
        "cooperative rounds units start and stop only by rows 3, 23, 29 and 32 of the worker's table.\nW6 At "
        "every instant a unit runs on one worker at most. | zombies, until two rounds after their return\nW7 "
        "A downgrade to the eager protocol stops what the worker no longer holds. | profile `shipped` does "
        "not (KAFKA-13816)\n"
    ),
    (
        "tests/connect/test_worker_walks.py::test_no_step_is_illegal_and_every_way_is_taken",
        "tests/connect/test_over_time.py::test_a_planted_bug_breaks_its_invariant",
        "tests/connect/test_cluster.py::test_a_step_down_to_eager",
        "tests/check/test_connect.py::test_a_promise_that_is_not_kept_is_found",
    ),
)

SECTIONS = (HAZARDS, LOG_FACTS, WEAK_SPOTS, MEMBER, GROUP, CONNECT_ASSIGNOR, CONNECT_GROUP, CONNECT_WORKER)
"""In the order of the page."""
