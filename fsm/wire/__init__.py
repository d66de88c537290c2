"""Kafka's wire protocol: requests as values, their bytes, connections to real peers, and what holds a broker to ours.

`schemas` and `frames` are pure; `connection` and what stands on it opens sockets.
"""
