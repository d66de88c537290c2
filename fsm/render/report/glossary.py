"""The meanings of the kinds and causes of findings, for a new reader."""

from __future__ import annotations

KINDS = {
    "double_ownership": "Two members held the same partition at once, as their applications saw it. Records may have "
    "been processed twice and offsets committed over each other.",
    "unowned_partition": "A subscribed partition had no owner while members lived. Its lag grew meanwhile.",
    "lost_without_callback": "Partitions were taken from an application that was never told. It may still be working "
    "on them.",
    "partitions_lost": "Partitions went through the lost callback: somebody else may own them already, so what was "
    "not committed is processed again.",
    "membership_lost": "A member was removed from the group, or left it because it did not poll in time. The log does "
    "not say what it owned: it begins later, or has warnings only.",
    "commit_refused": "The coordinator refused a commit of a consumer that was no longer a member, or of an earlier "
    "generation. What it had processed is processed again by others.",
    "callback_not_owned": "A callback named partitions that the application no longer held. Clean-up code may have "
    "run twice.",
    "late_leave": "A member logged that it leaves, but sent the leave to the coordinator later. Its partitions "
    "waited meanwhile.",
    "member_out_for_good": "A fatal error ended the membership, but the process kept running. Restart the process.",
    "fencing_loop": "A member lost its membership again and again. Look for two processes with one instance id, or "
    "processing that takes longer than max.poll.interval.ms.",
    "listener_error": "A rebalance listener raised an error.",
    "slow_callback": "A rebalance callback took longer than the group waits for a member.",
    "ran_twice": "A connector or task ran on two workers at once.",
    "unassigned_work": "A connector or task ran nowhere, although nobody had paused or stopped it.",
    "config_lag": "A Connect worker did not catch up with the config topic.",
    "task_zombie": "A task did not stop when it was told to, and kept running beside its successor.",
    "stuck_state": "A member stayed in a transient state for longer than its configuration allows.",
    "rebalance_storm": "The group rebalanced so often that little else got done.",
    "heartbeat_gap": "No heartbeat for longer than the session allows.",
    "illegal_transition": "A member took a step that its state table does not have: a bug in the client, a version "
    "with other rules, or lines missing from the log.",
    "unparsed_lines": "Lines that were not understood. What they say is missing from this report.",
}
"""Kind of finding -> what it means for the operator."""

CAUSES = {
    "killed": "the owner's log ends without a close",
    "static_member_away": "a static member left on purpose and its partitions wait for it",
    "scheduled_delay": "Connect waits before it moves the work of a worker that went away",
    "session_expired": "the coordinator got no heartbeat from the member for its session timeout",
    "no_poll": "the application did not poll within max.poll.interval.ms",
    "slow_callback": "a callback outlived the rebalance timeout",
    "fenced": "the coordinator refused the member's id, epoch or instance id",
    "shared_instance": "two processes had the same group.instance.id",
    "fatal_error": "an error after which the client gives up",
    "close_hangs": "close() began and never returned",
    "revoked": "it was revoked in time, but the next owner took long",
    "topic_deleted": "its topic was deleted, and created again",
    "heartbeat_interval": "it was revoked in time, and the next owner learned of it with its next heartbeat",
    "coordinator_lost": "the coordinator could not be reached",
    "new_work": "it had just been configured, and no worker had started it yet",
    "worker_stopped": "its worker was stopped, and no delay held its work back",
    "worker_frozen": "its worker's process was paused",
    "downgraded": "the group went back to the eager protocol, which does not stop what ran before",
    "deleted": "its connector was deleted, and the next leader did not know that it was running",
    "left_out": "a heartbeat left out what was being assigned, or came late, and the coordinator took it as revoked",
    "late_request": "a request that had timed out at its sender was handled late, and the response with the "
    "assignment reached nobody",
    "untold": "the coordinator assigned it to a member that did not learn of it",
    "stranded": "the downgrade to a classic group was refused, and no member is left that triggers a new target",
    "early_join": "a member of the consumer protocol joined a classic group before its first generation",
    "owed_join": "a cooperative static member was restarted before it revoked what the rebalance withheld",
    "no_target": "the group was converted before it had an assignment, and no target was computed",
    "forgotten": "a downgrade assigned it to a member that was waiting for it, and that is not informed",
    "lost_round": "a downgrade left it to a rebalance that was lost with its coordinator, and no member was told",
    "interrupted": "an eager member was interrupted in its revoked callback, and kept what it was to revoke",
    "unknown": "the logs do not show it",
}
"""Cause of a finding -> the cause in words."""
