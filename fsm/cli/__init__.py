"""The command line `fsm`: one module for each command, with `add(subparsers)` and `run(args) -> int`.

Exit status: 0 nothing found, 1 something found, 2 unusable input or arguments, with one line on stderr that says
where and what to do. A command imports what it needs when it runs, so that `fsm tables` starts without Spark.

* `main`: the command, with its arguments as a list
* `parser`: its arguments, for whoever documents or checks a command line
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from fsm import __version__
from fsm.errors import FsmError, InputError

__all__ = ["main", "parser"]

COMMANDS = (
    "tables", "draw", "replay", "dialects", "audit", "conform", "check", "explore", "simulate", "serve", "capture",
    "kit", "join",
)  # fmt: skip
"""Modules of this package, in the order of `fsm --help`. A new command is a module and its name here."""

INTERRUPTED = 130
"""Exit status after Ctrl-C."""
PIPE_CLOSED = 141
"""Exit status after the reader of our output went away, as the shell reports it of other programs."""


class Help(argparse.RawDescriptionHelpFormatter):
    """Help as wide as the terminal. argparse makes one for every argument it is told of; this one is cheap to make."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, width=_columns() - 2)


def _columns() -> int:
    """As `shutil.get_terminal_size` has it, without that module and all the compressors that it loads."""
    columns = os.environ.get("COLUMNS", "")
    if columns.isascii() and columns.isdigit() and int(columns):
        return int(columns)
    try:
        return os.get_terminal_size(sys.__stdout__.fileno()).columns or 80 if sys.__stdout__ else 80
    except (OSError, ValueError):
        return 80


class Parser(argparse.ArgumentParser):
    """Reports wrong arguments as every other unusable input: on one line."""

    def error(self, message: str) -> NoReturn:
        """Raises `InputError` with the message and where help is."""
        raise InputError(message, remedy=f"see {self.prog} --help")


def parser(names: Sequence[str] = COMMANDS) -> Parser:
    """The arguments of `fsm` and of these commands."""
    summary = "Kafka's rebalance protocols as executable state tables."
    top = Parser(prog="fsm", description=summary, formatter_class=Help, allow_abbrev=False)
    top.add_argument("--version", action="version", version=f"fsm {__version__}", help="print the version")
    commands = top.add_subparsers(metavar="COMMAND", required=True, parser_class=Parser)
    for name in names:
        importlib.import_module(f"{__name__}.{name}").add(commands)
    return top


def add_command(commands: Any, name: str, summary: str, details: str, run: Any) -> argparse.ArgumentParser:
    """A command's parser: `summary` is its line in `fsm --help`, `details` ends its own help with examples."""
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


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command and gives its exit status."""
    given = sys.argv[1:] if argv is None else argv
    try:
        args = parser([name for name in COMMANDS if given[:1] == [name]] or COMMANDS).parse_args(given)
        status: int = args.run(args)
        sys.stdout.flush()
    except FsmError as problem:
        return _refuse(str(problem))
    except BrokenPipeError:
        _drop_output()
        return PIPE_CLOSED
    except OSError as problem:
        _drop_output()
        return _refuse(f"{problem.filename or 'output'}: {problem.strerror}; check the disk and the permissions")
    except KeyboardInterrupt as stopped:
        if not stopped.args:  # otherwise it is said already
            print("fsm: stopped", file=sys.stderr)  # noqa: T201
        return INTERRUPTED
    return status


def _refuse(message: str) -> int:
    print(f"fsm: {' '.join(message.split())}", file=sys.stderr)  # noqa: T201
    return 2


def _drop_output() -> None:
    """The interpreter flushes stdout once more on its way out, which must not fail again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def word_list(known: Sequence[str]) -> Any:
    """An argparse type: a comma-separated list of known words, each once, in the order given."""

    def parse(text: str) -> tuple[str, ...]:
        words = tuple(dict.fromkeys(word.strip() for word in text.split(",")))
        for word in words:
            if word not in known:
                raise argparse.ArgumentTypeError(f"no such format {word!r}; choose from {', '.join(known)}")
        return words

    return parse


def at_least(least: int, most: int | None = None) -> Callable[[str], int]:
    """An argparse type: a whole number, this one or a larger one, up to a largest one if there is one."""
    upto = "" if most is None else f" to {most}"

    def parse(text: str) -> int:
        fits = text.isascii() and text.isdigit() and len(text) < 20 and int(text) >= least
        if not fits or (most is not None and int(text) > most):
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from {least}{upto}")
        return int(text)

    return parse


def out(text: str) -> None:
    """Writes to stdout; a text that the terminal's encoding lacks a character for is written with its code."""
    encoding = sys.stdout.encoding or "utf-8"
    sys.stdout.write(text.encode(encoding, "backslashreplace").decode(encoding))
