"""The naive search stands beside the tests."""

import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent)]
