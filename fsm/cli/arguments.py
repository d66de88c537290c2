"""Parses arguments of commands: a table by name or file, a broker setting, an address."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fsm.errors import InputError

if TYPE_CHECKING:
    from fsm.table import Table


def find_table(name: str) -> Table:
    """The table of a name or file. Raises `InputError` for an unknown name and for a file that is no table."""
    from fsm.tables.files import find_table as find

    return find(name)


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


def address(text: str, option: str = "--broker") -> tuple[str, int]:
    """Host and port of HOST:PORT. Raises `InputError` for any other text."""
    host, _, port = text.rpartition(":")
    if not host or not port.isascii() or not port.isdigit() or not 0 < int(port) < 1 << 16:
        raise InputError(f"must be HOST:PORT, not {text!r}", option)
    return host.strip("[]"), int(port)
