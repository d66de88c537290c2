"""Hypothesis here: every run tries the same examples, and none fails because the machine had something else to do."""

import sys
from pathlib import Path

from hypothesis import HealthCheck, settings

sys.path.append(str(Path(__file__).parent))

settings.register_profile("fsm", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("fsm")
