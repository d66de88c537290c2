"""Classic groups: JoinGroup, SyncGroup, Heartbeat, LeaveGroup, and their timers."""
