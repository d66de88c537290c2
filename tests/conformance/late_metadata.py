"""Our coordinator in a broker that shows a change of topics at once and passes it to the coordinator later."""

from __future__ import annotations

from typing import Any

from fsm.conformance.peer import Observed, OwnCoordinator
from fsm.coordinator.model.context import Image


class Late(OwnCoordinator):
    """Passes the image on after that many requests, with a pause after each; 0: on demand."""

    late: Image | None = None

    def __init__(self, after_requests: int = 0, pause_ms: int = 0) -> None:
        super().__init__("4.4.0", {})
        self.after_requests, self.pause_ms = after_requests, pause_ms
        self.requests = 0

    def ask(self, *given: Any) -> Observed:
        observed = super().ask(*given)
        self.requests += 1
        if self.late:
            self._now_ms += self.pause_ms
            if self.requests == self.after_requests:
                self.hand_over()
        return observed

    def _publish_image(self, image: Image) -> None:
        if self.late:
            self.hand_over()
        self.late, self.requests = image, 0

    def hand_over(self) -> None:
        """Passes the image to the coordinator now."""
        assert self.late is not None
        self.host.update(self.late)
        self.late = None
