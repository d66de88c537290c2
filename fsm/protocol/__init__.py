"""Kafka's vocabulary, without behaviour: messages, records and their bytes, error codes, settings, assignments.

Everything here is a frozen, hashable value that says what was asked, answered, assigned or stored. Who decides what
stands above: in the members, the coordinator and the workers.
"""
