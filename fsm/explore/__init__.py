"""A protocol walked by hand: the data of a page that shows a model, or a recording, step by step.

* `ModelSession`: a model, walked from its start, and a check from the current position
* `Session`, `Document`: the common interface of sessions, and a JSON object
"""

from fsm.explore.documents import Document, Session
from fsm.explore.session import ModelSession

__all__ = ["Document", "ModelSession", "Session"]
