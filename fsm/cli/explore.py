"""`fsm explore`: steps through a model or a recording by hand, in a page on loopback."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fsm.check.catalog import SHIPPED, require_numpy
from fsm.cli import add_command, at_least, out
from fsm.cli.arguments import write
from fsm.cli.check_options import add_model_options, read_model, refuse_options
from fsm.errors import InputError, LocalProtocolError

if TYPE_CHECKING:
    from fsm.explore import Session

EXAMPLES = """examples:
  fsm explore consumer-group                       two members and their coordinator; prints the page's address
  fsm explore mixed-group --policy upgrade --open  the options of fsm check; opens the browser
  fsm explore lock --path 0.0.2                    takes the first step, again the first step, then the third
  fsm explore consumer-group --path 0.1 -o walk.html
                                                   one self-contained HTML file
  fsm explore door.yaml --with lift.yaml           tables of your own; also my_model.py:MODEL
  fsm explore out/1-the-group-settles.yaml         a counterexample of fsm check -o; walk on from any of its steps
  fsm explore talk.yaml --nth 2                    the second scenario of a file, as fsm replay runs it
  fsm explore shop.yaml --group checkout           the members' traces of a deployment, as fsm simulate runs it
  fsm explore out/1-the-group-settles.trace.jsonl  a trace, or any log that fsm audit reads: one lane per member
  fsm explore capture.jsonl --group shop           one group of a trace of fsm capture or fsm serve --trace

Models: {models}; FILE.py:NAME; tables.

In a model you can take every step that is possible, and ask the checker what could go wrong from there. A recording
plays forward and backward. Ctrl-C ends the command.

exit status: 0 success; 2 the argument is neither a model nor a recording, or the path does not exist"""
MODELS, LOGS = (".json", ".py"), (".jsonl", ".log", ".txt", ".gz")
"""Suffixes of files of models, and of logs; any other existing file is read as a log, too."""


def add(commands: Any) -> None:
    """Registers the command."""
    details = EXAMPLES.replace("{models}", ", ".join(SHIPPED))
    command = add_command(commands, "explore", "walk a model by hand, in a local web page", details, run)
    command.add_argument("model", metavar="MODEL|FILE", help="a model of fsm check, or a recording")
    command.add_argument("--path", default="", metavar="0.3.1", help="begin after these steps, each by its number")
    command.add_argument("--group", default="", metavar="NAME", help="show only this group of a trace, log or capture")
    command.add_argument("--nth", type=at_least(1), default=1, metavar="N", help="show the Nth scenario of a file (1)")
    command.add_argument(
        "--port", type=at_least(0, 65535), default=0, metavar="N", help="port of the page (any free port)"
    )
    command.add_argument("--open", action="store_true", help="open the page in a browser")
    command.add_argument("-o", dest="file", type=Path, metavar="FILE", help="write the path as one HTML file and exit")
    add_model_options(command)


def run(args: argparse.Namespace) -> int:
    """Serves until it is interrupted, or writes one file."""
    require_numpy()
    try:
        session = _open(args)
    except LocalProtocolError as problem:
        raise InputError(str(problem), "--path", "choose another step") from None
    for line in session.opening().get("missing", ()):
        sys.stderr.write(f"fsm: {args.model}: missing: {line}\n")
    if args.file is not None:
        _write(session, args.file)
        return 0
    return _serve(session, args)


def _open(args: argparse.Namespace) -> Session:
    """The session for the argument's kind. Raises `InputError` for an unknown one and for options of another kind."""
    path, suffix = Path(args.model), Path(args.model).suffix.lower()
    if suffix in (".yaml", ".yml") and path.is_file():
        from fsm.explore.documents import read_path
        from fsm.explore.scenarios import is_scenario, open_scenario
        from fsm.scenario.files import read

        if is_scenario(document := read(path)):
            refuse_options(args)
            if "machines" not in document.mapping():
                _refuse(args, "--path")
            return open_scenario(path, args.nth, args.group, read_path(args.path))
    elif suffix in LOGS or (path.is_file() and suffix not in MODELS and args.model not in SHIPPED):
        from fsm.explore.logs import open_log

        refuse_options(args)
        _refuse(args, "--path", "--nth")
        return open_log(path, args.group)
    _refuse(args, "--group", "--nth")
    return _walk(args)


def _refuse(args: argparse.Namespace, *options: str) -> None:
    """Raises `InputError` for the first of these that is given."""
    for option in options:
        if getattr(args, option.removeprefix("--")) not in ("", 1):
            raise InputError(f"{option} does not apply to it", args.model, "leave it out")


def _walk(args: argparse.Namespace) -> Session:
    from fsm.explore import ModelSession
    from fsm.explore.documents import read_path

    return ModelSession(read_model(args), read_path(args.path))


def _write(session: Session, file: Path) -> None:
    from fsm.explore.documents import all_steps, page

    write(file, page(session.opening(), all_steps(session)).encode())
    out(f"{file}\n")


def _serve(session: Session, args: argparse.Namespace) -> int:
    from signal import SIGINT, SIGTERM, default_int_handler, signal

    from fsm.explore.documents import page
    from fsm.explore.server import Explorer

    server = Explorer(session, lambda key: page(key=key), args.port)
    for one in (SIGINT, SIGTERM):  # a shell without job control starts background processes with SIGINT ignored
        signal(one, default_int_handler)
    try:
        out(f"exploring on {server.url}\n")
        sys.stdout.flush()
        if args.open:
            import webbrowser

            webbrowser.open(server.url)
        server.serve()
    except KeyboardInterrupt:
        out("\n")
    return 0
