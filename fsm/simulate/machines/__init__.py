"""Machines of one's own tables in virtual time, under the faults that deployments of Kafka's groups run under."""
