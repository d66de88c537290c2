"""The member of a classic group without IO: `step` and its decisions."""
