"""Consumer groups (KIP-848): member, coordinator, and the group as a model."""
