"""The command line `fsm`: one module per command, with `add(subparsers)` and `run(args) -> int`.

Exit status: 0 nothing found, 1 something found, 2 unusable input or arguments, with one line on stderr that has the
place and the remedy. A command imports its dependencies when it runs, so that `fsm tables` starts without Spark.

* `main`: runs a command line given as a list
* `parser`: its argument parser, for documentation and checks of command lines
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn

from fsm import __version__
from fsm.errors import FsmError, InputError

__all__ = ["main", "parser"]

COMMANDS = (
    "tables", "draw", "replay", "dialects", "audit", "conform", "check", "explore", "simulate", "serve", "capture",
    "kit", "join",
)  # fmt: skip
"""Modules of the commands, in the order of `fsm --help`."""

INTERRUPTED = 130
"""Exit status after Ctrl-C."""
PIPE_CLOSED = 141
"""Exit status after the reader of stdout has closed it: a shell's status for SIGPIPE."""


class Help(argparse.RawDescriptionHelpFormatter):
    """Help as wide as the terminal. argparse creates a formatter per argument, so this one is cheap to create."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, width=_columns() - 2)


def _columns() -> int:
    """The width of the terminal, as of `shutil.get_terminal_size`, without the import of shutil and its compressors."""
    columns = os.environ.get("COLUMNS", "")
    if columns.isascii() and columns.isdigit() and int(columns):
        return int(columns)
    try:
        return os.get_terminal_size(sys.__stdout__.fileno()).columns or 80 if sys.__stdout__ else 80
    except (OSError, ValueError):
        return 80


class Parser(argparse.ArgumentParser):
    """Reports wrong arguments like any other unusable input: on one line."""

    def error(self, message: str) -> NoReturn:
        """Raises `InputError` with the message and a hint at `--help`."""
        raise InputError(message, remedy=f"see {self.prog} --help")


def parser(names: Sequence[str] = COMMANDS) -> Parser:
    """The argument parser of `fsm` with these commands."""
    summary = "Kafka's rebalance protocols as executable state tables."
    top = Parser(prog="fsm", description=summary, formatter_class=Help, allow_abbrev=False)
    top.add_argument("--version", action="version", version=f"fsm {__version__}", help="print the version")
    commands = top.add_subparsers(metavar="COMMAND", required=True, parser_class=Parser)
    for name in names:
        importlib.import_module(f"{__name__}.{name}").add(commands)
    return top


def add_command(commands: Any, name: str, summary: str, details: str, run: Any) -> argparse.ArgumentParser:
    """Adds a command's parser: `summary` is its line in `fsm --help`, `details` the end of its own help."""
    command: argparse.ArgumentParser = commands.add_parser(
        name,
        help=summary,
        description=f"{summary[0].upper()}{summary[1:]}.",
        epilog=details,
        formatter_class=Help,
        allow_abbrev=False,
    )
    command.set_defaults(run=run)
    return command


EXTRAS = {
    **dict.fromkeys(("jinja2", "pandas", "pyarrow", "pyspark"), "spark"),
    "dpkt": "capture",
    "graphviz": "diagrams",
    "numpy": "check",
}
"""Packages that come with an extra, and which."""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit status."""
    given = sys.argv[1:] if argv is None else argv
    try:
        args = parser([name for name in COMMANDS if given[:1] == [name]] or COMMANDS).parse_args(given)
        status: int = args.run(args)
        sys.stdout.flush()
    except FsmError as problem:
        return _refuse(str(problem))
    except ModuleNotFoundError as problem:
        package = (problem.name or "").partition(".")[0]
        if package not in EXTRAS:
            raise
        return _refuse(f"{package} is not installed; in a checkout: pip install '.[{EXTRAS[package]}]'")
    except BrokenPipeError:
        _drop_output()
        return PIPE_CLOSED
    except OSError as problem:
        _drop_output()
        return _refuse(f"{problem.filename or 'output'}: {problem.strerror}; check the disk and the permissions")
    except KeyboardInterrupt as stopped:
        if not stopped.args:  # with arguments, the command has already printed a message
            print("fsm: stopped", file=sys.stderr)  # noqa: T201
        return INTERRUPTED
    return status


def _refuse(message: str) -> int:
    from fsm.render.wording import show_line

    StatusLine().show()
    print(f"fsm: {show_line(message)}", file=sys.stderr)  # noqa: T201
    return 2


def _drop_output() -> None:
    """Redirects stdout to devnull, because the interpreter flushes it again at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def word_list(known: Sequence[str]) -> Any:
    """An argparse type: a comma-separated list of known words, without duplicates, in order."""

    def parse(text: str) -> tuple[str, ...]:
        words = tuple(dict.fromkeys(word.strip() for word in text.split(",")))
        for word in words:
            if word not in known:
                raise argparse.ArgumentTypeError(f"unknown format {word!r}; choose from {', '.join(known)}")
        return words

    return parse


def at_least(least: int, most: int | None = None) -> Callable[[str], int]:
    """An argparse type: a whole number within these bounds, inclusive."""
    bounds = f"of at least {least}" if most is None else f"from {least} to {most}"

    def parse(text: str) -> int:
        fits = text.isascii() and text.isdigit() and len(text) < 20 and int(text) >= least
        if not fits or (most is not None and int(text) > most):
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number {bounds}")
        return int(text)

    return parse


def out(text: str) -> None:
    """Writes to stdout; characters that its encoding lacks are escaped."""
    encoding = sys.stdout.encoding or "utf-8"
    sys.stdout.write(text.encode(encoding, "backslashreplace").decode(encoding))


@contextmanager
def interruptible(*numbers: int) -> Iterator[list[int]]:
    """These signals raise `KeyboardInterrupt`, as Ctrl-C does, so that the command cleans up; yields those received.

    Ignored ones stay ignored (`nohup`). They end a forked process at once. Outside of the main thread nothing changes.
    """
    import signal
    import threading

    received, mine = list[int](), os.getpid()

    def stop(number: int, _frame: object) -> None:
        if os.getpid() != mine:
            os._exit(128 + number)
        received.append(number)
        raise KeyboardInterrupt

    is_main = threading.current_thread() is threading.main_thread()
    handled = [one for one in numbers if is_main and signal.getsignal(one) is not signal.SIG_IGN]
    before = {number: signal.signal(number, stop) for number in handled}
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class StatusLine:
    """One line on stderr that says how far a command is; nothing where stderr is no terminal."""

    def __init__(self) -> None:
        self.is_shown = sys.stderr.isatty()

    def show(self, text: str = "") -> None:
        """Replaces the line; no text clears it."""
        if self.is_shown:
            sys.stderr.write(f"\r\x1b[K{text}")
            sys.stderr.flush()


def as_json(document: object) -> str:
    """A document as commands print and write it."""
    import json

    return json.dumps(document, ensure_ascii=False, indent=2) + "\n"
