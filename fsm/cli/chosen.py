"""What an argument means: a table by its name or its file, a setting of a broker, where one is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fsm.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path

    from fsm.table import Table

SUFFIXES = (".yaml", ".yml", ".json")


def chosen(name: str) -> Table:
    """The table. Raises `InputError` for an unknown name, with the nearest ones, and for a file that is no table."""
    from pathlib import Path

    path = Path(name)
    if path.suffix.lower() in SUFFIXES or "/" in name or path.is_file():
        return _from_file(path)
    from fsm.tables import find

    return find(name)


def _from_file(path: Path) -> Table:
    from fsm.document import from_json, from_yaml
    from fsm.nodes import SIZE_LIMIT

    if path.exists() and not (path.is_file() or path.is_dir()):  # a pipe would be waited for
        raise InputError("not a regular file", str(path), "give a table's name or file")
    try:
        with path.open("rb") as file:  # a character is four bytes at most; the reader refuses what is longer
            text = file.read(4 * SIZE_LIMIT + 1).decode()
    except UnicodeDecodeError:
        raise InputError("not UTF-8 text", str(path), "save the table as UTF-8") from None
    except OSError as problem:
        raise InputError(f"cannot be read: {problem.strerror}", str(path), "give a table's name or file") from None
    read = from_json if path.suffix.lower() == ".json" else from_yaml
    return read(text, str(path))


def setting(text: str) -> tuple[str, str]:
    """A broker's setting that rules groups, as `--set` has it. Raises `InputError`, where it can with the nearest."""
    from fsm.coordinator.model.context import BrokerConfig
    from fsm.nodes import nearest, short

    key, found, value = text.partition("=")
    key = key.strip()
    if not found or not key:
        raise InputError(f"must be KEY=VALUE, not {text!r}", "--set")
    known = BrokerConfig.keys()
    if key not in known:
        raise InputError(f"no setting {short(key)} that rules a group", "--set", nearest(key, known))
    return key, value.strip()


def address(text: str, option: str = "--broker") -> tuple[str, int]:
    """Host and port of HOST:PORT. Raises `InputError` for what is none."""
    host, _, port = text.rpartition(":")
    if not host or not port.isascii() or not port.isdigit() or not 0 < int(port) < 1 << 16:
        raise InputError(f"must be HOST:PORT, not {text!r}", option)
    return host.strip("[]"), int(port)
