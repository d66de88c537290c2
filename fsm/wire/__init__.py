"""Connections to real Kafka brokers and clients: the only sockets below the commands."""
