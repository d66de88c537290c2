"""The coordinator's state as values: groups, members, timers, and the input and result of a step."""
