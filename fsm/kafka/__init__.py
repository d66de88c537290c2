"""Kafka's vocabulary, without behaviour: error codes, messages, settings, assignments, events between threads.

Everything here is a frozen, hashable value that says what was asked, answered or assigned. Who decides what
stands above: in the members, the coordinator and the workers.
"""
