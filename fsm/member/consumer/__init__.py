"""The member of KIP-848 without IO: `step` and its decisions."""
