"""The replay of `__consumer_offsets` to the coordinator's state, and the start of a new coordinator."""
