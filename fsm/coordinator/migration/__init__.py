"""Online migration: groups that change their protocol, and classic members of consumer groups."""
