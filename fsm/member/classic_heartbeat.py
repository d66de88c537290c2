"""The three timers of a classic member: its next heartbeat, its session, its last poll.

Source: `Heartbeat` and `HeartbeatThread` of `AbstractCoordinator`. They run while the member takes part in a
generation, from the answer to its join on; a consumer and a Connect worker have the same ones. A timer is the instant
at which it runs out. The Java thread looks every `retry.backoff.ms`, so that it may act that much later.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from fsm.member.timers import NEVER


class Intervals(Protocol):
    """The settings that rule the timers."""

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


class Heartbeats(NamedTuple):
    """When what is due; nothing is while not `enabled`."""

    enabled: bool = False
    heartbeat_due_ms: int = 0
    session_due_ms: int = 0
    """The coordinator has said nothing for a session timeout: it is taken for lost."""
    poll_due_ms: int = 0
    """The application has not polled for the longest interval allowed."""
    attempts: int = 0
    """Failures in a row."""

    def started(self, given: Intervals, now_ms: int) -> Heartbeats:
        """A generation begins: all three anew."""
        return Heartbeats(
            enabled=True,
            heartbeat_due_ms=now_ms + given.heartbeat_interval_ms,
            session_due_ms=now_ms + given.session_timeout_ms,
            poll_due_ms=now_ms + given.max_poll_interval_ms,
            attempts=self.attempts,
        )

    def stopped(self) -> Heartbeats:
        """No heartbeats; the timers are begun anew before the next."""
        return self._replace(enabled=False)

    def polled(self, given: Intervals, now_ms: int) -> Heartbeats:
        """The application polls."""
        return self._replace(poll_due_ms=now_ms + given.max_poll_interval_ms)

    def sent(self, given: Intervals, now_ms: int) -> Heartbeats:
        """A heartbeat leaves; the next follows after the interval, answered or not."""
        return self._replace(heartbeat_due_ms=now_ms + given.heartbeat_interval_ms)

    def answered(self, given: Intervals, now_ms: int) -> Heartbeats:
        """The coordinator knows the member."""
        return self._replace(session_due_ms=now_ms + given.session_timeout_ms, attempts=0)

    def failed(self, given: Intervals, now_ms: int, jitter: float) -> Heartbeats:
        """The heartbeat has to be tried again, after a backoff that doubles; `jitter` is from -1 to 1."""
        wait_ms = backoff_ms(given, self.attempts, jitter)
        return self._replace(heartbeat_due_ms=now_ms + wait_ms, attempts=self.attempts + 1)

    def coordinator_found(self, given: Intervals, now_ms: int) -> Heartbeats:
        """The session is counted from here."""
        return self._replace(session_due_ms=now_ms + given.session_timeout_ms)

    def due_ms(self) -> int:
        """When one of the three runs out."""
        return min(self.heartbeat_due_ms, self.session_due_ms, self.poll_due_ms) if self.enabled else NEVER


def backoff_ms(given: Intervals, attempts: int, jitter: float) -> int:
    """The wait after so many failures before this one, varied by a fifth and never above its cap."""
    term = min(given.retry_backoff_ms << min(attempts, 62), given.retry_backoff_max_ms)
    return max(0, min(int(term * (1 + 0.2 * jitter)), given.retry_backoff_max_ms))
