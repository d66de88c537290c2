"""Kafka Connect: the workers of a cluster, and the workers on which connectors and tasks ran."""
