"""Which process wrote a record, and whether its lines are where they belong."""
