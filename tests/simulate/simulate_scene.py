"""Deployments as the tests of this folder run them."""

from __future__ import annotations

from fsm.simulate import Deployment, read

HEAD = """
deployment: shop
lasts: {lasts}
topics: {{orders: 12, bills: 3}}
brokers:
  b1: {{settings: {{group.initial.rebalance.delay.ms: 3000}}}}
  b2: {{}}
network: {{least: 1ms, median: 3ms, p99: 30ms, most: 200ms, loses: {loses}}}
services:
"""
SERVICES = {
    "consumer": "  a: {topics: [orders], processes: 3, members: 2}",
    "old": "  a: {topics: [orders, bills], processes: 3, release: 4.0, settings: {max.poll.interval.ms: 60000}}",
    "static": "  a: {topics: [orders], processes: 4, static: yes, assignor: range}",
    "eager": "  a: {topics: [orders, bills], protocol: classic, assignor: range, processes: 4}",
    "cooperative": "  a: {topics: [orders], protocol: classic, assignor: cooperative-sticky, processes: 2, members: 2}",
    "mixed": "  a: {topics: [orders], processes: 2}\n"
    "  b: {topics: [orders], group: a, protocol: classic, assignor: cooperative-sticky, processes: 2, starts: 5s}",
    "fixed": "  a: {topics: [orders], processes: 3, release: fixed, poll: 700ms}",
}
FAULTS = """
plans:
- {at: 2m, restart: a, each: 15s, away: 5s}
- {at: 4m, grow: orders, partitions: 16}
faults:
- {at: 3m10s, crash: a-1, away: 20s}
- {at: 5m, fail_over: brokers, each: 20s, for: 2s}
- {at: 6m, cut: a-0, for: 70s}
- {at: 7m30s, slow: a-1, for: 20s}
- {at: 8m, lose: 5%, for: 30s}
- {every: 2m, pause: any, for: 1s..20s, until: 9m}
"""
CALM = ""


def deployment(kind: str, faults: str = FAULTS, lasts: str = "12m", loses: str = "0.05%") -> Deployment:
    """One of `SERVICES` under these faults."""
    return read(HEAD.format(lasts=lasts, loses=loses) + SERVICES[kind] + faults, f"{kind}.yaml")


CONNECT = """
deployment: connect
lasts: 90m
brokers: {b1: {}, b2: {}}
services:
  c: {protocol: connect, processes: 4, connectors: {A: 10, B: 5}, settings: {scheduled.rebalance.max.delay.ms: 60000}}
plans:
- {at: 20m, restart: c, each: 3m, away: 20s}
faults:
"""
CONNECT_FAULTS = """
- {at: 50m, crash: c-1, away: 30s}
- {at: 60m, pause: c-2, for: 40s}
- {at: 65m, cut: c-0, for: 40s}
- {at: 70m, fail_over: brokers, each: 2m, for: 3s}
- {every: 10m, pause: any, for: 1s..40s}
"""


def connect(faults: str = CONNECT_FAULTS) -> Deployment:
    """Four workers and two connectors."""
    return read(CONNECT + faults, "connect.yaml")
