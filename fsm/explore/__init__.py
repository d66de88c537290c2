"""A protocol walked by hand: what a page needs to show a model, or what was recorded, step by step.

* `ModelSession`: a model, walked from its start, and what could go wrong from where one stands
* `Session`, `Document`: what any of them offers, and a JSON object, which is how it shows it
"""

from fsm.explore.documents import Document, Session
from fsm.explore.session import ModelSession

__all__ = ["Document", "ModelSession", "Session"]
