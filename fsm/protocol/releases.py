"""The releases of Kafka whose rules are known here. Both parts of a group, member and coordinator, name them alike."""

from __future__ import annotations

RELEASES = ("4.0.0", "4.0.1", "4.0.2", "4.1.0", "4.1.1", "4.1.2", "4.2.0", "4.2.1", "4.3.0", "4.3.1", "4.4.0")
"""Releases with the consumer protocol, in their order. A new one has the rules of the one before it."""

LATEST = RELEASES[-1]
