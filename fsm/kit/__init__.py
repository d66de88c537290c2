"""The conformance suite: what clients of groups are held to, and a judge of what went over the wire.

* `CHECKS`, `Check`, `Grade`: the rules, each with its clause and how much it matters
* `judge`, `Report`, `Finding`: which rules the clients of a trace kept, broke, or never came to
* `merge`: what several traces say together
"""

from __future__ import annotations

from fsm.kit.check import Check, Finding, Grade
from fsm.kit.checks import CHECKS
from fsm.kit.judge import Report, judge, merge

__all__ = ["CHECKS", "Check", "Finding", "Grade", "Report", "judge", "merge"]
