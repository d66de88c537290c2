"""Kafka Connect: the workers of a cluster, and where its connectors and tasks ran."""
