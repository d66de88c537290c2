"""The three timers of a classic member: its next heartbeat, its session, its last poll.

Source: `Heartbeat` and `HeartbeatThread` of `AbstractCoordinator`. They run while the member takes part in a
generation, from the answer to its join on; a consumer and a Connect worker have the same ones. A timer is the instant
of its expiry. The Java thread checks every `retry.backoff.ms`, so it may act that much later.
"""

from __future__ import annotations

from typing import Protocol

from fsm.member.timers import NEVER, count_of, until_ms
from fsm.step import value


class Intervals(Protocol):
    """The settings of the timers."""

    @property
    def session_timeout_ms(self) -> int: ...
    @property
    def heartbeat_interval_ms(self) -> int: ...
    @property
    def max_poll_interval_ms(self) -> int: ...
    @property
    def retry_backoff_ms(self) -> int: ...
    @property
    def retry_backoff_max_ms(self) -> int: ...


@value
class Heartbeats:
    """The deadlines of the timers; while not `enabled`, all are 0 and none expires."""

    enabled: bool = False
    heartbeat_due_ms: int = 0
    session_due_ms: int = 0
    """When the coordinator counts as lost: nothing was received from it for a session timeout."""
    poll_due_ms: int = 0
    """When the application has not polled for max.poll.interval.ms."""
    attempts: int = 0
    """Failures in a row; a new generation does not reset them."""

    def start(self, given: Intervals, now_ms: int) -> Heartbeats:
        """A generation begins: all three timers start."""
        return Heartbeats(
            True,
            now_ms + given.heartbeat_interval_ms,
            now_ms + given.session_timeout_ms,
            now_ms + given.max_poll_interval_ms,
            self.attempts,
        )

    def stop(self) -> Heartbeats:
        """Disables heartbeats; `start` restarts the timers."""
        return Heartbeats(attempts=self.attempts) if self.attempts else NO_HEARTBEATS

    def poll(self, given: Intervals, now_ms: int) -> Heartbeats:
        """The application polls."""
        if not self.enabled:
            return self
        poll_due_ms = now_ms + given.max_poll_interval_ms
        return Heartbeats(True, self.heartbeat_due_ms, self.session_due_ms, poll_due_ms, self.attempts)

    def send(self, given: Intervals, now_ms: int) -> Heartbeats:
        """A heartbeat is sent; the next follows after the interval, answered or not."""
        if not self.enabled:
            return self
        heartbeat_due_ms = now_ms + given.heartbeat_interval_ms
        return Heartbeats(True, heartbeat_due_ms, self.session_due_ms, self.poll_due_ms, self.attempts)

    def answer(self, given: Intervals, now_ms: int) -> Heartbeats:
        """A heartbeat was answered: the session timer restarts."""
        if not self.enabled:
            return NO_HEARTBEATS
        return Heartbeats(True, self.heartbeat_due_ms, now_ms + given.session_timeout_ms, self.poll_due_ms)

    def fail(self, given: Intervals, now_ms: int, jitter: float) -> Heartbeats:
        """The heartbeat failed and is retried after an exponential backoff; `jitter` is from -1 to 1."""
        attempts = self.attempts + 1
        if not self.enabled:
            return Heartbeats(attempts=attempts)
        due_ms = now_ms + backoff_ms(given, self.attempts, jitter)
        return Heartbeats(True, due_ms, self.session_due_ms, self.poll_due_ms, attempts)

    def find_coordinator(self, given: Intervals, now_ms: int) -> Heartbeats:
        """The session timeout starts again."""
        if not self.enabled:
            return self
        session_due_ms = now_ms + given.session_timeout_ms
        return Heartbeats(True, self.heartbeat_due_ms, session_due_ms, self.poll_due_ms, self.attempts)

    def canonicalize(self, given: Intervals, now_ms: int) -> Heartbeats:
        """The same with a clock starting now; failures beyond the longest backoff make no difference."""
        attempts = count_of(given.retry_backoff_ms, given.retry_backoff_max_ms, self.attempts)
        if not self.enabled:
            return Heartbeats(attempts=attempts)
        session_ms, poll_ms = until_ms(self.session_due_ms, now_ms), until_ms(self.poll_due_ms, now_ms)
        return Heartbeats(True, until_ms(self.heartbeat_due_ms, now_ms), session_ms, poll_ms, attempts)

    def due_ms(self) -> int:
        """The earliest deadline of the three."""
        return min(self.heartbeat_due_ms, self.session_due_ms, self.poll_due_ms) if self.enabled else NEVER


NO_HEARTBEATS = Heartbeats()


def backoff_ms(given: Intervals, attempts: int, jitter: float) -> int:
    """The backoff after this many earlier failures, varied by a fifth, and never above its maximum."""
    term = min(given.retry_backoff_ms << min(attempts, 62), given.retry_backoff_max_ms)
    return max(0, min(int(term * (1 + 0.2 * jitter)), given.retry_backoff_max_ms))
