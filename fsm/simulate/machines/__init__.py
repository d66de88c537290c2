"""Machines of your own tables in virtual time, with the faults of deployments of Kafka's groups."""
