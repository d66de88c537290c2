"""From the log of `__consumer_offsets` to the coordinator's state, and what a new coordinator makes of it."""
