"""`fsm` and `python -m fsm`."""

from __future__ import annotations

import sys
from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    """Runs `fsm.cli.main`; Ctrl-C is handled while that module is loaded, too."""
    try:
        from fsm import cli  # noqa: PLC0415

        return cli.main(argv)
    except KeyboardInterrupt:
        print("fsm: stopped", file=sys.stderr)  # noqa: T201
        return 130


if __name__ == "__main__":
    sys.exit(main())
