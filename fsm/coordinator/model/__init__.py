"""The coordinator's state as values: groups, members, timers, and what a step is told and gives."""
