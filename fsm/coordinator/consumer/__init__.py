"""Consumer groups (KIP-848): heartbeats, reconciliation, targets, subscriptions."""
