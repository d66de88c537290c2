"""The known releases of Kafka, shared by members and coordinator."""

from __future__ import annotations

RELEASES = ("4.0.0", "4.0.1", "4.0.2", "4.1.0", "4.1.1", "4.1.2", "4.2.0", "4.2.1", "4.3.0", "4.3.1", "4.4.0")
"""Releases with the consumer protocol, in order. A release has the rules of its predecessor unless they changed."""

LATEST = RELEASES[-1]
