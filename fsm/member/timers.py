"""Backoff between attempts and the deadlines of a member, as values.

Source: `RequestState`, `HeartbeatRequestState`, `ExponentialBackoff`, `TimedRequestState`. A timer is the instant of
its expiry; nothing runs in the background. Jitter is the caller's: a number from -1 to 1, evenly drawn or 0.
"""

from __future__ import annotations

from collections.abc import Container
from typing import NamedTuple

from fsm.member.dialect.choices import Choice
from fsm.protocol.config import ConsumerConfig

NEVER = (1 << 63) - 1
"""An instant that does not come; Kafka's `Long.MAX_VALUE`."""


def backoff_ms(config: ConsumerConfig, choices: Container[Choice], attempts: int, jitter: float) -> int:
    """The backoff after `attempts` failures in a row (0: after a success), doubling up to its maximum."""
    first, cap = config.retry_backoff_ms, config.retry_backoff_max_ms
    if cap <= first:
        return min(first, cap)
    term = min(first << min(attempts, 62), cap) if attempts else first
    if not jitter:
        return term
    spread = 0.2 if Choice.JITTER in choices else float(config.max_poll_interval_ms)
    return max(0, min(int(term * (1 + spread * jitter)), cap))


def count_of(first_ms: int, cap_ms: int, attempts: int) -> int:
    """The smallest number of failures with the same backoff as `attempts`."""
    attempts = min(attempts, 62)
    while attempts > 1 and min(first_ms << (attempts - 1), cap_ms) == min(first_ms << attempts, cap_ms):
        attempts -= 1
    return attempts


def until_ms(instant_ms: int, now_ms: int) -> int:
    """A deadline on a clock that starts now; one that has passed is 0, `NEVER` stays."""
    return instant_ms if instant_ms >= NEVER else max(0, instant_ms - now_ms)


class RequestState(NamedTuple):
    """Whether a request is in flight, and when the next attempt may be made."""

    in_flight: bool = False
    attempts: int = 0
    ready_ms: int = 0
    """No attempt before this instant."""

    def send(self) -> RequestState:
        """An attempt is made."""
        return self._replace(in_flight=True)

    def fail(self, now_ms: int, wait_ms: int) -> RequestState:
        """The attempt failed; the next one waits."""
        return self._replace(in_flight=False, attempts=self.attempts + 1, ready_ms=now_ms + wait_ms)

    def may_send(self, now_ms: int) -> bool:
        """Whether nothing is in flight and the backoff is over."""
        return not self.in_flight and now_ms >= self.ready_ms


IDLE = RequestState()
"""Nothing in flight, nothing to wait for."""
