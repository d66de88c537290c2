"""`fsm` and `python -m fsm`."""

from __future__ import annotations

import sys

from fsm.cli import main

if __name__ == "__main__":
    sys.exit(main())
