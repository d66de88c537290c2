"""The summary that `fsm audit` prints."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fsm.audit.wording import describe_shared
from fsm.cli import out
from fsm.errors import InputError
from fsm.render.wording import clock, date, many, utc
from fsm.spark.options import IN_PROCESS

if TYPE_CHECKING:
    from fsm.audit.findings import Finding
    from fsm.audit.incidents import Incident
    from fsm.audit.live.changes import Change
    from fsm.spark.audit import Result

SHOWN = 5
"""Maximum number of incidents printed; the report has the rest."""
FITS = 10
"""Maximum number of findings printed below all incidents together, with at least one per incident."""
NAMED = 5
"""Maximum number of files printed for one reason."""
_COLOURS = {"error": "31", "warning": "33", "info": "2"}


def print_summary(result: Result, out: Path) -> None:
    """Prints the share understood, counts of findings, the worst incidents, and the path of the report."""
    read = result.inputs
    where = " in this process, without Spark" if result.master == IN_PROCESS else ""
    print_text(
        f"read {read['lines']} lines of {read['files']} files{where}; understood {result.understood}{_in_files(read)}\n"
    )
    if untimed := _list_timeless(read):
        print_text(f"{untimed}\n")
    if count := read.get("ownerless_groups"):
        groups = _list_files(read["ownerless"], count)
        print_text(f"no verdict on ownership: no line tells who owned the partitions of {groups}\n")
    if read.get("shared_client_ids"):
        print_text(f"{describe_shared(read)}\n")
    _name_files("too little was understood of", list(map(_share, read["too_little"])), len(read["too_little"]))
    _name_files("no client was understood in", read["silent"], read["silent_files"])
    if read.get("groupless_files"):
        _name_files("not judged, as no line tells the group:", read["groupless"], read["groupless_files"])
    unreadable = [f"{file} ({why})" for file, why in read["unreadable"]]
    _name_files("not read, or not to the end:", unreadable, read["unreadable_files"])
    if older := read["older_results"]:
        print_text(f"left out what an audit wrote itself: {', '.join(older)}\n")
    for total in result.metrics["findings"]:
        print_text("  ", *_colour(total["severity"], 8), f"{total['count']:6}  {total['kind']}\n")
    if not result.metrics["findings"]:
        print_text("  nothing found\n")
    if known := read.get("known_findings"):
        print_text(f"known by the baseline, and not told: {many(known, 'finding')}\n")
    print_text(_count_incidents(result.metrics.get("incidents", {})))
    shown = [one for one in result.incidents if one.incident.severity != "info"]
    for one in shown[:SHOWN]:
        _print_incident(*one, at_most=max(1, FITS // min(SHOWN, len(shown))))
    if len(shown) > SHOWN:
        counts = result.metrics["incidents"]
        print_text(f"and {many(counts['error'] + counts['warning'] - SHOWN, 'incident')} more; ")
    print_text(f"report: {out / 'report.html'}\n")


def check_understood(result: Result, out: Path) -> None:
    """Raises `InputError` if too little was understood for a verdict."""
    if not result.enough:
        remedy = "see what was not understood in the report, or give --min-understood"
        problem = f"not enough was understood: {result.understood}{_in_files(result.inputs)}"
        raise InputError(problem, str(out), remedy)


def _list_timeless(read: Mapping[str, Any]) -> str:
    count = read["timeless_files"]
    files = _list_files(read["timeless"], count)
    return f"no verdict on double ownership: {files} tell{'s' if count == 1 else ''} no time" if count else ""


def print_change(change: Change) -> None:
    """Prints a line for a finding that was opened, updated or closed, and a line for its time and place.

    A finding about a file has no group, and may have no time and no line.
    """
    found, status = change.finding, "" if change.status in ("opened", "updated") else f" {change.status}"
    print_text(
        *_colour(found.severity), f"{status}: {found.group}: " if found.group else f"{status}: ", f"{found.summary}\n"
    )
    when = [f"{utc(found.start_ms)} UTC"] if found.start_ms else []
    places = [one.place for one in found.evidence[:1]]
    print_text(f"  {', '.join([*when, *places])}\n" if when or places else "")


def _print_incident(one: Incident, findings: tuple[Finding, ...], *, at_most: int) -> None:
    """Prints an incident's sentence, its period and next step, and its worst findings with a line each."""
    print_text(*_colour(one.severity), f": {one.group}: {one.sentence}\n" if one.group else f": {one.sentence}\n")
    is_named = f"{one.setting} ({one.value})" in one.sentence
    setting = f"{one.setting} is {one.value}; " if one.value and not is_named else ""
    print_text(f"  {_when(one)}; {setting}to try: {one.next_step}\n")
    for found in findings[:at_most]:
        place = next((evidence.place for evidence in found.evidence), "")
        if len(one.findings) > 1:
            print_text(f"  {place}: " if place else "  ", *_colour(found.severity), f": {found.summary}\n")
        elif place:
            print_text(f"  {place}\n")
    if len(one.findings) > at_most:
        print_text(f"  and {many(len(one.findings) - at_most, 'finding')} more\n")


def _count_incidents(counts: Mapping[str, int]) -> str:
    """A line with the number of incidents by severity; "" for fewer than two."""
    parts = [many(counts[severity], severity) for severity in ("error", "warning") if counts.get(severity)]
    parts += [f"{counts['info']} for information"] if counts.get("info") else []
    return f"{many(sum(counts.values()), 'incident')}: {', '.join(parts)}\n" if sum(counts.values()) > 1 else ""


def _when(one: Incident) -> str:
    if one.until_ms is None:
        return f"since {utc(one.since_ms)} UTC, to the end of the log"
    if one.until_ms == one.since_ms:
        return f"at {utc(one.since_ms)} UTC"
    same_day = date(one.since_ms) == date(one.until_ms)
    return f"from {utc(one.since_ms)} to {clock(one.until_ms) if same_day else utc(one.until_ms)} UTC"


def _in_files(read: Mapping[str, Any]) -> str:
    count = read["too_little_files"]
    return f", too little in {many(count, 'file')}" if count and read["files"] > 1 else ""


def _share(counts: Mapping[str, Any]) -> str:
    from fsm.audit.reading.certainty import TooLittle

    one = TooLittle(**counts)
    return f"{one.where} ({one.understood})"


def _name_files(why: str, files: list[str], count: int) -> None:
    if count:
        print_text(f"{why} {_list_files(files, count)}\n")


def _list_files(files: list[str], count: int) -> str:
    more = f" and {count - NAMED} more" if count > NAMED else ""
    return f"{', '.join(files[:NAMED])}{more}"


class _Colour(str):
    """An escape sequence of our own, which is not escaped."""

    __slots__ = ()


def _colour(severity: str, width: int = 0) -> tuple[str, ...]:
    text = f"{severity:{width}}"
    if not sys.stdout.isatty() or os.environ.get("NO_COLOR") or severity not in _COLOURS:
        return (text,)
    return _Colour(f"\x1b[{_COLOURS[severity]}m"), text, _Colour("\x1b[0m")


def print_text(*texts: str) -> None:
    """Writes to stdout; what is no printable character is escaped, as texts may come from logs. Only the end of a text
    may be that of a line."""
    for text in texts:
        line = text.removesuffix("\n")
        out((line if isinstance(text, _Colour) else "".join(map(_visible, line))) + text[len(line) :])


def _visible(character: str) -> str:
    return character if character.isprintable() else f"\\x{ord(character):02x}"
