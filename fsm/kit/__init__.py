"""The conformance suite: rules for clients of groups, and a judge of wire traces.

* `CHECKS`, `Check`, `Grade`: the rules, each with its clause and how much it matters
* `judge`, `Report`, `Finding`: the rules that the clients of a trace kept, broke, or never met
* `merge`: the report of several traces
"""

from __future__ import annotations

from fsm.kit.check import Check, Finding, Grade
from fsm.kit.checks import CHECKS
from fsm.kit.judge import Report, judge, merge

__all__ = ["CHECKS", "Check", "Finding", "Grade", "Report", "judge", "merge"]
