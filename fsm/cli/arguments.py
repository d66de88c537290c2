"""Arguments of several commands: a broker's setting, an address, and the options of TLS and SASL; and their files."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from fsm.cli import at_least
from fsm.errors import InputError, refuse_os_errors

if TYPE_CHECKING:
    import ssl

    from fsm.wire.login import Security

SCHEME = "kafka://"
"""The beginning of the address of a topic, kafka://HOST:PORT/TOPIC."""


def setting(text: str) -> tuple[str, str]:
    """Key and value of a `--set` option. Raises `InputError` for a setting that does not concern groups."""
    from fsm.coordinator.model.context import BrokerConfig
    from fsm.nodes import nearest, short

    key, found, value = text.partition("=")
    key = key.strip()
    if not found or not key:
        raise InputError(f"must be KEY=VALUE, not {text!r}", "--set")
    known = BrokerConfig.keys()
    if key not in known:
        raise InputError(f"unknown group setting {short(key)}", "--set", nearest(key, known))
    return key, value.strip()


def counts(text: str) -> dict[str, int]:
    """An argparse type: names and their numbers, as `foo:4,bar:2` or `foo=4,bar=2`; 1 where none is given."""
    from fsm.protocol.config import LEGAL_NAME

    found: dict[str, int] = {}
    for one in text.split(","):
        name, _, number = one.strip().replace("=", ":", 1).partition(":")
        if not LEGAL_NAME.fullmatch(name):
            raise argparse.ArgumentTypeError(
                f"{name!r} is no name of at most 249 letters, digits, '.', '_' and '-'; write for example foo:2,bar:1"
            )
        if name in found:
            raise argparse.ArgumentTypeError(f"{text!r} names {name} twice")
        found[name] = at_least(1)(number or "1")
    return found


def address(text: str, option: str = "--broker") -> tuple[str, int]:
    """Host and port of an option. Raises `InputError` for any other text."""
    from fsm.wire.dialogue import read_address

    return read_address(text, option)


def name_option(name: str) -> str:
    """The option of this argument, as it is written."""
    return {"folder": "-o", "others": "--with"}.get(name, f"--{name.replace('_', '-')}")


def list_given(args: argparse.Namespace, names: Iterable[str]) -> list[str]:
    """The options among these arguments that have a value, as they are written."""
    return [name_option(name) for name in names if getattr(args, name)]


SECURITY = ("tls", "cafile", "user", "password_file")


def add_security_options(command: argparse.ArgumentParser) -> None:
    """Registers the options of connections with TLS or SASL."""
    command.add_argument("--tls", action="store_true", help="connect to the brokers with TLS")
    command.add_argument(
        "--cafile", metavar="FILE", type=Path, help="CA certificates to trust, as PEM (those of the system)"
    )
    command.add_argument("--user", metavar="NAME", default="", help="user for SASL/PLAIN")
    command.add_argument("--password-file", metavar="FILE", type=Path, help="file with the password on its first line")


def read_security(args: argparse.Namespace) -> Security:
    """The security of the options. Raises `InputError` for an unreadable file and for contradictory options."""
    from fsm.wire.login import Security

    if bool(args.user) != (args.password_file is not None):
        raise InputError(
            "--user and --password-file go together",
            "--user" if args.user else "--password-file",
            "give both or neither",
        )
    tls, password = read_tls(args), ""
    if args.password_file is not None:
        try:
            password = args.password_file.read_text(encoding="utf-8").partition("\n")[0].rstrip("\r")
        except (OSError, ValueError) as problem:
            why = getattr(problem, "strerror", None) or "it is not text"
            raise InputError(f"cannot be read: {why}", str(args.password_file), "name a readable file") from None
    return Security(tls, args.user, password)


def read_tls(args: argparse.Namespace) -> ssl.SSLContext | None:
    """A client's TLS context with the authorities of --cafile or the system's; None without --tls.

    Raises `InputError` for an unusable file, or one that is not needed.
    """
    if not args.tls:
        if args.cafile:
            raise InputError("needs --tls", "--cafile", "add it, or leave this out")
        return None
    import ssl

    try:
        return ssl.create_default_context(cafile=args.cafile)
    except ssl.SSLError as problem:
        why = f"holds no certificates: {problem.reason or problem}"
    except OSError as problem:
        why = f"cannot be read: {problem.strerror}"
    raise InputError(why, str(args.cafile), "give a PEM file")


# Files are written atomically.


def check_folder(folder: Path, option: str = "-o") -> None:
    """Raises `InputError` before the work if the folder, or the one to create it in, cannot be written to."""
    there = next(one for one in (folder, *folder.absolute().parents) if one.exists())
    if not there.is_dir():
        raise InputError("is not a folder", str(there), f"give {option} a folder that can be written to")
    if not os.access(there, os.W_OK | os.X_OK):
        raise InputError("cannot be written to", str(there), f"give {option} a folder that can be written to")


def write(path: Path, content: bytes) -> None:
    """Writes a temporary file and renames it. Raises `InputError` if the folder cannot be created or written to."""
    write_pieces(path, [content], f"give -o {'a file' if path.is_dir() else 'a folder that can be written to'}")


def write_pieces(path: Path, pieces: Iterable[bytes], remedy: str = "give a file that can be written") -> None:
    """Like `write`, for content in pieces."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    with refuse_os_errors("cannot be written", path, remedy):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with temporary.open("wb") as out:
                out.writelines(pieces)
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
